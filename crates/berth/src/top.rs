//! `berth top`: what a running Berth does, from the metrics it serves anyway.

mod figures;
mod show;
mod source;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use kit::clock::Clock;

use crate::Usage;
use crate::cli::{ClusterOptions, Output, OutputOptions, duration};
use crate::explain::print;
use crate::screen::{self, Screen};

use figures::{Figures, Look};
use source::Source;

/// Looking more often would show nothing but the looking.
const SHORTEST: Duration = Duration::from_millis(200);

/// The other screen of a terminal, so that the first is there again afterwards, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// To the upper left corner, and nothing below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Flags of `berth top`.
#[derive(Args, Debug)]
pub struct TopOptions {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Namespace Berth runs in; its pods are asked through the API server
    #[arg(long, value_name = "NAME", default_value = "berth-system", conflicts_with = "url")]
    pub operator_namespace: api::names::DnsLabel,
    /// Ask this address for metrics instead, such as http://127.0.0.1:8080
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// With --url: ask this address for readiness and leadership, such as http://127.0.0.1:9440
    #[arg(long, value_name = "URL", requires = "url")]
    pub health_url: Option<String>,
    /// Time between two looks, at least 200ms
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub interval: Duration,
    /// Look twice, print one screen and end; as without a terminal and with -o json
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Shows what a running Berth does, once or until it is told to end.
pub async fn top(options: TopOptions) -> anyhow::Result<()> {
    if options.interval < SHORTEST {
        return Err(Usage("--interval: must be at least 200ms".to_owned()).into());
    }
    let clock = Clock::system();
    let source = Source::open(&options, &clock).await?;
    let start = clock.instant();
    let first = source.look(&clock, start).await?;
    let live = !options.once && options.output.output == Output::Text && std::io::stdout().is_terminal();
    if live {
        return follow(&source, &clock, start, first, options.interval).await;
    }
    tokio::time::sleep(options.interval).await;
    let second = source.look(&clock, start).await?;
    let figures = Figures::of(&first, &second);
    print(options.output.output, "Top", &figures, |screen| show::draw(screen, &figures))
}

/// Draws again and again, until Ctrl-C, or q and Enter.
async fn follow(
    source: &Source,
    clock: &Clock,
    start: tokio::time::Instant,
    first: Look,
    interval: Duration,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    let mut asked = quit();
    write!(out, "{ENTER}")?;
    let (mut before, mut shown) = (first, String::new());
    let end = loop {
        let screen = Screen::standard_output();
        let drawn = if shown.is_empty() { screen::text(screen, "looking…") } else { shown.clone() };
        let lines = terminal_size::terminal_size_of(&out).map(|(_, lines)| usize::from(lines.0));
        if let Err(error) = write!(out, "{CLEAR}{}", show::fit(&drawn, lines)).and_then(|()| out.flush()) {
            break Err(error.into());
        }
        tokio::select! {
            signal = tokio::signal::ctrl_c() => break signal.map_err(Into::into),
            Some(()) = asked.recv() => break Ok(()),
            () = tokio::time::sleep(interval) => {}
        }
        let look = tokio::select! {
            signal = tokio::signal::ctrl_c() => break signal.map_err(Into::into),
            Some(()) = asked.recv() => break Ok(()),
            look = source.look(clock, start) => look,
        };
        // A process that restarts is worth waiting for.
        shown = match look {
            Ok(after) => {
                let drawn = show::draw(screen, &Figures::of(&before, &after));
                before = after;
                drawn
            }
            Err(error) => screen::text(screen, &format!("not seen: {error:#}")),
        };
    };
    write!(out, "{LEAVE}{shown}")?;
    end
}

/// Tells when somebody types q and Enter. The thread ends with the process: nobody can wake it from a read.
fn quit() -> tokio::sync::mpsc::Receiver<()> {
    let (tell, asked) = tokio::sync::mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if line.trim().eq_ignore_ascii_case("q") {
                // Whoever asked may have ended already.
                let _ = tell.blocking_send(());
                return;
            }
        }
    });
    asked
}

#[cfg(test)]
pub mod tests;
