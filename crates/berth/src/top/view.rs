//! What somebody at the screen wants to see of the figures: in which order, of what, and from where on.

use super::figures::Figures;
use super::keys::Key;
use crate::screen::{self, Screen};

/// What every key does.
const KEYS: [[&str; 2]; 7] = [
    ["j, k, ↓, ↑", "a line down, a line up"],
    ["Ctrl-F, Ctrl-B, Page", "a screen down, a screen up"],
    ["g, G, Home, End", "to the first line, to the last"],
    ["/", "only rows with this in them; Enter keeps it, Esc takes it back"],
    ["s", "another order: usual, waiting, failures, time"],
    ["?", "these keys, and back"],
    ["q, Ctrl-C", "end"],
];

/// How rows are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they come: the busiest rooms, the last errors, the slowest objects first.
    #[default]
    Usual,
    /// By how many wait.
    Waiting,
    /// By how much fails.
    Failures,
    /// By how long it takes.
    Time,
}

impl Order {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Usual, "usual"), (Self::Waiting, "waiting"), (Self::Failures, "failures"), (Self::Time, "time")];

    fn next(self) -> Self {
        let mut all = Self::ALL.iter().map(|(order, _)| *order).cycle().skip_while(|order| *order != self);
        all.nth(1).unwrap_or_default()
    }

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(order, _)| *order == self).map_or("", |(_, word)| word)
    }
}

/// What is wanted of the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    order: Order,
    /// What rows must have in them.
    filter: String,
    /// The filter while it is typed.
    typing: Option<String>,
    help: bool,
    /// The first line that is shown, and how many there were and are shown at once.
    from: usize,
    lines: usize,
    room: usize,
}

impl View {
    /// Takes a key; whether it is the one that ends all.
    pub fn press(&mut self, key: Key) -> bool {
        if let Some(typed) = &mut self.typing {
            match key {
                Key::Char(letter) => typed.push(letter),
                Key::Back => drop(typed.pop()),
                Key::Enter => self.filter = self.typing.take().unwrap_or_default(),
                Key::Escape => self.typing = None,
                _ => {}
            }
            return false;
        }
        let last = self.lines.saturating_sub(self.room);
        let screen = self.room.saturating_sub(1).max(1);
        match key {
            Key::Char('q' | 'Q') => return true,
            Key::Char('j') | Key::Down => self.from += 1,
            Key::Char('k') | Key::Up => self.from = self.from.saturating_sub(1),
            Key::Char(' ' | 'f') | Key::PageDown => self.from += screen,
            Key::Char('b') | Key::PageUp => self.from = self.from.saturating_sub(screen),
            Key::Char('g') | Key::Home => self.from = 0,
            Key::Char('G') | Key::End => self.from = last,
            Key::Char('s') => self.order = self.order.next(),
            Key::Char('/') => self.typing = Some(String::new()),
            Key::Char('?' | 'h') => self.help = !self.help,
            Key::Escape if self.help => self.help = false,
            Key::Escape => self.filter.clear(),
            _ => {}
        }
        self.from = self.from.min(last);
        false
    }

    /// The figures that are wanted, in the order that is.
    pub fn of(&self, figures: &Figures) -> Figures {
        let mut own = figures.clone();
        let wanted = self.typing.as_ref().unwrap_or(&self.filter).to_lowercase();
        let has = |parts: &[Option<&str>]| parts.iter().flatten().any(|part| part.to_lowercase().contains(&wanted));
        own.rooms.retain(|row| has(&[Some(&row.room)]));
        own.calls.retain(|row| has(&[Some(&row.to)]));
        own.servers.retain(|row| has(&[Some(&row.server)]));
        own.waits.retain(|row| has(&[Some(row.what), Some(&row.reason)]));
        own.errors.retain(|row| has(&[Some(&row.object), row.kind.as_deref(), Some(&row.room), row.reason.as_deref()]));
        own.slowest.retain(|row| has(&[Some(&row.object), row.kind.as_deref(), Some(&row.room), Some(&row.outcome)]));
        let long = |seconds: Option<f64>| seconds.unwrap_or_default();
        match self.order {
            Order::Usual => {}
            Order::Waiting => {
                own.rooms.sort_by(|a, b| b.waiting.total_cmp(&a.waiting));
                own.waits.sort_by(|a, b| b.objects.total_cmp(&a.objects));
            }
            Order::Failures => {
                own.rooms.sort_by(|a, b| b.failures.total_cmp(&a.failures));
                own.calls.sort_by(|a, b| b.errors.total_cmp(&a.errors));
                own.errors.sort_by_key(|error| std::cmp::Reverse(error.times));
            }
            Order::Time => {
                own.rooms.sort_by(|a, b| long(b.p95_seconds).total_cmp(&long(a.p95_seconds)));
                own.calls.sort_by(|a, b| long(b.p95_seconds).total_cmp(&long(a.p95_seconds)));
                own.errors.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
                own.slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
            }
        }
        own
    }

    /// A screen of this text, as far as so many lines show it, with what is wanted and what can be pressed below.
    pub fn window(&mut self, screen: Screen, text: &str, lines: Option<usize>) -> String {
        let help;
        let text = match self.help {
            true => {
                let rows: Vec<[String; 2]> = KEYS.iter().map(|row| row.map(str::to_owned)).collect();
                help = screen::table(screen, ["KEY", "DOES"], &rows);
                &help
            }
            false => text,
        };
        self.lines = text.lines().count();
        // A line for what can be pressed, and none below it.
        self.room = lines.map_or(self.lines, |lines| lines.saturating_sub(1)).max(1);
        self.from = self.from.min(self.lines.saturating_sub(self.room));
        let shown = text.lines().skip(self.from).take(self.room);
        let mut out: String = shown.map(|line| format!("{line}\n")).collect();
        let foot: String = self.foot().chars().take(screen.width.unwrap_or(usize::MAX)).collect();
        out += foot.trim_end();
        out
    }

    fn foot(&self) -> String {
        if let Some(typed) = &self.typing {
            return format!("/{typed}_   Enter keeps it, Esc takes it back");
        }
        let mut parts = Vec::new();
        if self.lines > self.room {
            parts.push(format!("{} to {} of {} lines", self.from + 1, self.from + self.room, self.lines));
        }
        if !self.filter.is_empty() {
            parts.push(format!("only /{}", self.filter));
        }
        if self.order != Order::Usual {
            parts.push(format!("by {}", self.order.word()));
        }
        parts.push("? keys, q end".to_owned());
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::busy;
    use super::*;

    fn pressed(view: &mut View, keys: &str) -> bool {
        let told: Vec<bool> =
            super::super::keys::keys(keys.as_bytes()).into_iter().map(|key| view.press(key)).collect();
        told.contains(&true)
    }

    fn screen(width: usize) -> Screen {
        Screen { width: Some(width), colour: false }
    }

    #[test]
    fn one_goes_through_a_long_screen_by_line_by_screen_and_to_its_ends() {
        let text: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let mut view = View::default();
        let first = |view: &mut View| view.window(screen(80), &text, Some(6)).lines().next().unwrap().to_owned();
        assert_eq!(first(&mut view), "1");
        for (keys, line) in [
            ("j", "2"),
            ("jj", "4"),
            ("k", "3"),
            (" ", "7"),
            ("b", "3"),
            ("G", "16"),
            ("j", "16"),
            ("g", "1"),
            ("k", "1"),
        ] {
            pressed(&mut view, keys);
            assert_eq!(first(&mut view), line, "{keys}");
        }
        let whole = view.window(screen(80), &text, Some(6));
        assert!(whole.ends_with("5\n1 to 5 of 20 lines; ? keys, q end") && whole.lines().count() == 6, "{whole}");
        pressed(&mut view, "G");
        assert!(
            view.window(screen(80), "1\n2\n", Some(6)).starts_with("1\n2\n?"),
            "what is shorter now begins at its first line"
        );
        assert_eq!(view.window(screen(20), &text, None).lines().count(), 21);
    }

    #[test]
    fn rows_are_narrowed_while_a_word_is_typed_and_come_back() {
        let figures = busy();
        let mut view = View::default();
        assert_eq!(view.of(&figures), figures);
        assert!(!pressed(&mut view, "/clAimsq"), "a letter of a word ends nothing");
        let narrowed = view.of(&figures);
        assert!(narrowed.rooms.is_empty(), "{:?}", narrowed.rooms);
        pressed(&mut view, "\x7f");
        let narrowed = view.of(&figures);
        assert!(!narrowed.rooms.is_empty() && narrowed.rooms.iter().all(|room| room.room.contains("claims")));
        assert_eq!(narrowed.instances, figures.instances, "who runs is told in any case");
        pressed(&mut view, "\n");
        assert!(view.window(screen(80), "x", None).ends_with("only /clAims; ? keys, q end"));
        pressed(&mut view, "/x\x1b");
        assert_eq!(view.of(&figures), narrowed, "what was not kept changes nothing");
        pressed(&mut view, "\x1b");
        assert_eq!(view.of(&figures), figures);
    }

    #[test]
    fn rows_come_in_the_order_that_is_asked_for() {
        let figures = busy();
        let mut view = View::default();
        let mut orders = Vec::new();
        for _ in Order::ALL {
            pressed(&mut view, "s");
            orders.push(view.order);
            let own = view.of(&figures);
            let falls = |values: Vec<f64>| values.windows(2).all(|pair| pair[0] >= pair[1]);
            match view.order {
                Order::Usual => assert_eq!(own, figures),
                Order::Waiting => assert!(falls(own.rooms.iter().map(|room| room.waiting).collect())),
                Order::Failures => assert!(falls(own.rooms.iter().map(|room| room.failures).collect())),
                Order::Time => {
                    assert!(falls(own.rooms.iter().map(|room| room.p95_seconds.unwrap_or_default()).collect()))
                }
            }
            assert_eq!((own.rooms.len(), own.errors.len()), (figures.rooms.len(), figures.errors.len()));
        }
        assert_eq!(orders, [Order::Waiting, Order::Failures, Order::Time, Order::Usual]);
    }

    #[test]
    fn the_keys_are_told_on_the_screen_and_end_it() {
        let mut view = View::default();
        pressed(&mut view, "?");
        let shown = |screen| format!("{}\n", view.clone().window(screen, "figures", Some(24)));
        insta::assert_snapshot!(screen::tests::at_widths(shown));
        pressed(&mut view, "\x1b");
        assert!(view.window(screen(80), "figures", Some(24)).starts_with("figures\n"));
        assert!(pressed(&mut view, "q\n"));
    }
}
