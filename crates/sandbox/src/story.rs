//! Telling what happens: one line per claim, with how long it took to come true.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use kit::telemetry::coloured;

/// Writes lines to standard output: with marks and colour on a terminal, plain elsewhere.
#[derive(Debug)]
pub struct Story {
    terminal: bool,
    colour: bool,
    told: usize,
    begun: Instant,
}

impl Story {
    /// Begins with a title.
    pub fn begin(title: &str) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let colour = coloured(terminal, std::env::var_os("NO_COLOR").as_deref());
        let story = Self { terminal, colour, told: 0, begun: Instant::now() };
        story.line(&story.paint("1", title));
        story
    }

    /// Makes a claim come true and tells it, with the detail that the work returns. `log` is where to look otherwise.
    pub async fn tell<T>(
        &mut self,
        claim: &str,
        log: &Path,
        work: impl Future<Output = Result<(T, String)>>,
    ) -> Result<T> {
        if self.terminal {
            self.write(&format!("  … {claim}"));
        }
        let begun = Instant::now();
        let outcome = work.await;
        let took = format!("{:.1} s", begun.elapsed().as_secs_f64());
        if self.terminal {
            self.write("\r\x1b[K");
        }
        match outcome {
            Ok((value, detail)) => {
                self.told += 1;
                let mark = if self.terminal { "✓" } else { "ok" };
                self.line(&format!("  {} {claim} {}", self.paint("32", mark), self.paint("2", &format!("({took})"))));
                for line in detail.lines() {
                    self.line(&format!("      {}", self.paint("2", line)));
                }
                Ok(value)
            }
            Err(error) => {
                let mark = if self.terminal { "✗" } else { "FAILED" };
                self.line(&format!("  {} {claim} ({took})", self.paint("31", mark)));
                Err(error).with_context(|| format!("the step \"{claim}\" failed, see {}", log.display()))
            }
        }
    }

    /// A line that claims nothing.
    pub fn line(&self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// The last line: how many claims held, and in what time.
    pub fn end(&self) {
        let text = format!("{} claims, all true, in {:.1} s.", self.told, self.begun.elapsed().as_secs_f64());
        self.line(&self.paint("1", &text));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A reader that went away is no reason to stop half-way.
    fn write(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}
