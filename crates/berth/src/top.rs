//! `berth top`: what a running Berth does, from the metrics it serves anyway.

mod figures;
mod keys;
mod show;
mod signals;
mod source;
mod view;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use kit::clock::Clock;

use crate::Usage;
use crate::cli::{ClusterOptions, Output, OutputOptions, duration};
use crate::explain::print;
use crate::screen::{self, Screen};

use figures::{Figures, Look};
use keys::Keyboard;
use signals::Signals;
use source::Source;
use view::View;

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

/// Draws again and again, until Ctrl-C, q or a signal that ends a program.
async fn follow(
    source: &Source,
    clock: &Clock,
    start: tokio::time::Instant,
    first: Look,
    interval: Duration,
) -> anyhow::Result<()> {
    let out = std::io::stdout();
    // Before the terminal is changed: whatever ends the process from here on, it is changed back.
    let mut signals = Signals::listen()?;
    let (mut keyboard, mut view, mut listening) = (Keyboard::listen(), View::default(), true);
    let mut other = Other::enter(&out)?;
    let later = async || {
        tokio::time::sleep(interval).await;
        source.look(clock, start).await
    };
    let (mut before, mut figures, mut next) = (first, None, Box::pin(later()));
    let end = loop {
        let screen = Screen::standard_output();
        let text = told(screen, &view, figures.as_ref());
        let lines = terminal_size::terminal_size_of(&out).map(|(_, lines)| usize::from(lines.0));
        let window = view.window(screen, &text, lines);
        if let Err(error) = other.show(&window) {
            break Err(error.into());
        }
        tokio::select! {
            () = signals.any() => break Ok(()),
            key = keyboard.pressed.recv(), if listening => match key {
                Some(key) if view.press(key) => break Ok(()),
                Some(_) => {}
                // Standard input is over; Ctrl-C is not.
                None => listening = false,
            },
            look = &mut next => {
                // A process that restarts is worth waiting for.
                figures = Some(look.map(|after| {
                    let figures = Figures::of(&before, &after);
                    before = after;
                    figures
                }));
                next = Box::pin(later());
            }
        }
    };
    drop(other);
    std::io::stdout().write_all(left(Screen::standard_output(), &view, figures.as_ref()).as_bytes())?;
    end
}

/// The other screen of a terminal. The first is there again, with its cursor, once this is dropped: a panic does that too.
struct Other<W: Write>(W);

impl<W: Write> Other<W> {
    fn enter(out: W) -> std::io::Result<Self> {
        let mut other = Self(out);
        write!(other.0, "{ENTER}")?;
        Ok(other)
    }

    fn show(&mut self, window: &str) -> std::io::Result<()> {
        write!(self.0, "{CLEAR}{window}")?;
        self.0.flush()
    }
}

impl<W: Write> Drop for Other<W> {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _ = write!(self.0, "{LEAVE}").and_then(|()| self.0.flush());
    }
}

/// What stays on the first screen of the terminal: the last figures, if there were any.
fn left(screen: Screen, view: &View, figures: Option<&anyhow::Result<Figures>>) -> String {
    figures.map(|figures| told(screen, view, Some(figures))).unwrap_or_default()
}

/// What is on the screen.
fn told(screen: Screen, view: &View, figures: Option<&anyhow::Result<Figures>>) -> String {
    match figures {
        None => screen::text(screen, "looking…"),
        Some(Ok(figures)) => show::draw(screen, &view.of(figures)),
        Some(Err(error)) => screen::text(screen, &format!("not seen: {error:#}")),
    }
}

#[cfg(test)]
pub mod tests;
