//! Telling what happens: one line per claim, with how long it took to come true.

use std::ffi::OsStr;
use std::future::Future;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use kit::telemetry::coloured;

/// Writes lines: with marks and colour on a terminal, plain elsewhere.
pub struct Story {
    out: Box<dyn Write + Send>,
    terminal: bool,
    colour: bool,
    told: usize,
    begun: Instant,
}

impl Story {
    /// Begins with a title, on standard output.
    pub fn begin(title: &str) -> Self {
        let out = std::io::stdout();
        let terminal = out.is_terminal();
        Self::on(Box::new(out), terminal, std::env::var_os("NO_COLOR").as_deref(), title)
    }

    fn on(out: Box<dyn Write + Send>, terminal: bool, no_color: Option<&OsStr>, title: &str) -> Self {
        let colour = coloured(terminal, no_color);
        let mut story = Self { out, terminal, colour, told: 0, begun: Instant::now() };
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
    pub fn line(&mut self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    /// The last line: how many claims held, and in what time.
    pub fn end(&mut self) {
        let text = format!("{} claims, all true, in {:.1} s.", self.told, self.begun.elapsed().as_secs_f64());
        self.line(&self.paint("1", &text));
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A reader that went away is no reason to stop half-way.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A story of one claim that holds and one that does not, without its times.
    async fn written(terminal: bool, no_color: Option<&str>) -> String {
        let page = Page::default();
        let mut story = Story::on(Box::new(page.clone()), terminal, no_color.map(OsStr::new), "Title");
        let log = Path::new("a.log");
        story.tell("This holds", log, async { Ok(((), "detail".to_owned())) }).await.unwrap();
        let error = story.tell("This does not", log, async { Err::<((), String), _>(anyhow::anyhow!("why")) }).await;
        assert_eq!(format!("{:#}", error.unwrap_err()), "the step \"This does not\" failed, see a.log: why");
        let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
        let (mut timeless, mut rest) = (String::new(), text.as_str());
        while let Some((before, after)) = rest.split_once('(') {
            timeless += before;
            timeless += "(";
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        }
        timeless + rest
    }

    #[tokio::test]
    async fn a_terminal_gets_marks_and_also_colours_unless_it_is_told_otherwise() {
        let plain = "Title\n  ok This holds ( s)\n      detail\n  FAILED This does not ( s)\n";
        assert_eq!(written(false, None).await, plain);
        let marks = "Title\n  … This holds\r\x1b[K  ✓ This holds ( s)\n      detail\n  … This does not\r\x1b[K  ✗ This does not ( s)\n";
        assert_eq!(written(true, Some("1")).await, marks);
        let coloured = "\x1b[1mTitle\x1b[0m\n  … This holds\r\x1b[K  \x1b[32m✓\x1b[0m This holds \x1b[2m( s)\x1b[0m\n      \
            \x1b[2mdetail\x1b[0m\n  … This does not\r\x1b[K  \x1b[31m✗\x1b[0m This does not ( s)\n";
        assert_eq!(written(true, None).await, coloured);
        assert_eq!(written(true, Some("")).await, coloured);
    }
}
