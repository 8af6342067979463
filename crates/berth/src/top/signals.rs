//! What ends a program from outside: a terminal that was changed must be changed back before it goes.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a program.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    quit: Signal,
}

impl Signals {
    /// From now on they are told here, and end nothing by themselves.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            // Ctrl-\ of a terminal, which would also leave a core behind.
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Waits for any of them.
    pub async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_that_would_end_the_program_is_told_instead() {
        let mut signals = Signals::listen().unwrap();
        for name in ["INT", "TERM", "HUP", "QUIT"] {
            let own = std::process::id().to_string();
            assert!(std::process::Command::new("kill").args(["-s", name, &own]).status().unwrap().success());
            signals.any().await;
        }
    }
}
