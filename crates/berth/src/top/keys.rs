//! Keys of a terminal: typed one by one where there is one, and told as what they mean.

use std::io::Read;
use std::os::fd::AsFd;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc::{Receiver, channel};

/// What comes from a terminal at once: one key, or what was pasted.
const CHUNK: usize = 64;
/// What the codes of keys that are no letters begin with.
const ESCAPE: u8 = 0x1b;

/// What stands for no key where a terminal is told which key does what.
const NO_KEY: u8 = 0;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Enter.
    Enter,
    /// Backspace.
    Back,
    /// Escape.
    Escape,
    /// A line up.
    Up,
    /// A line down.
    Down,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// To the first line.
    Home,
    /// To the last line.
    End,
}

/// The keys in what a terminal sent at once. An escape that nothing follows is the key of that name.
pub fn keys(sent: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(sent);
    let (mut keys, mut rest) = (Vec::new(), text.as_ref());
    while let Some(first) = rest.chars().next() {
        if let Some((key, after)) = coded(rest) {
            keys.extend(key);
            rest = after;
            continue;
        }
        keys.extend(match first {
            '\r' | '\n' => Some(Key::Enter),
            '\x7f' | '\x08' => Some(Key::Back),
            // As in pagers and editors.
            '\x04' | '\x06' => Some(Key::PageDown),
            '\x15' | '\x02' => Some(Key::PageUp),
            first if first.is_control() => None,
            first => Some(Key::Char(first)),
        });
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    keys
}

/// A key whose code begins with an escape, none for one that means nothing here, and what comes after it.
fn coded(text: &str) -> Option<(Option<Key>, &str)> {
    let code = text.strip_prefix(char::from(ESCAPE))?;
    let Some(code) = code.strip_prefix(['[', 'O']) else { return Some((Some(Key::Escape), code)) };
    // Numbers first, then one character that ends it.
    let end = code.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    let (number, last) = code.split_at(end);
    let after = last.get(last.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
    let key = match (last.chars().next(), number) {
        (Some('A'), _) => Some(Key::Up),
        (Some('B'), _) => Some(Key::Down),
        (Some('H'), _) | (Some('~'), "1" | "7") => Some(Key::Home),
        (Some('F'), _) | (Some('~'), "4" | "8") => Some(Key::End),
        (Some('~'), "5") => Some(Key::PageUp),
        (Some('~'), "6") => Some(Key::PageDown),
        _ => None,
    };
    Some((key, after))
}

/// Standard input, told key by key. It is as it was before once this is dropped.
pub struct Keyboard {
    before: Option<Termios>,
    /// The keys.
    pub pressed: Receiver<Key>,
}

impl Keyboard {
    /// Listens. Where standard input is no terminal, or cannot be told to, keys come by whole lines.
    pub fn listen() -> Self {
        Self { before: one_by_one(std::io::stdin()), pressed: pressed() }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that is gone needs nothing back.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// Lets the terminal send every key at once and not show it; Ctrl-C stays a signal, and Ctrl-Z is none: whoever gets the
/// terminal then would not see what they type. What it was set to before; nothing where it is no terminal.
fn one_by_one(input: impl AsFd) -> Option<Termios> {
    let before = tcgetattr(&input).ok()?;
    let mut own = before.clone();
    own.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    own.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
    own.special_codes[SpecialCodeIndex::VMIN] = 1;
    own.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(&input, OptionalActions::Now, &own).ok()?;
    Some(before)
}

/// Reads keys. The thread ends with the process: nobody can wake it from a read.
fn pressed() -> Receiver<Key> {
    let (tell, pressed) = channel(CHUNK);
    std::thread::spawn(move || {
        let mut chunk = [0; CHUNK];
        while let Ok(count @ 1..) = std::io::stdin().read(&mut chunk) {
            for key in keys(chunk.get(..count).unwrap_or_default()) {
                if tell.blocking_send(key).is_err() {
                    return;
                }
            }
        }
    });
    pressed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_terminals_are_read_as_keys() {
        for (sent, wanted) in [
            ("j", vec![Key::Char('j')]),
            ("\x1b[A", vec![Key::Up]),
            ("\x1bOB", vec![Key::Down]),
            ("\x1b[5~\x1b[6~", vec![Key::PageUp, Key::PageDown]),
            ("\x1b[H\x1b[4~", vec![Key::Home, Key::End]),
            ("\x1b[1;5C", vec![]),
            ("\x1b", vec![Key::Escape]),
            ("\x1bq", vec![Key::Escape, Key::Char('q')]),
            ("\x04\x15", vec![Key::PageDown, Key::PageUp]),
            ("q\n", vec![Key::Char('q'), Key::Enter]),
            ("ü\x7f\x00", vec![Key::Char('ü'), Key::Back]),
        ] {
            assert_eq!(keys(sent.as_bytes()), wanted, "{sent:?}");
        }
    }

    #[test]
    fn a_terminal_sends_keys_one_by_one_shows_none_and_is_set_back() {
        let terminal = std::fs::File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        let now = || tcgetattr(&terminal).unwrap();
        let first = format!("{:?}", now());
        let before = one_by_one(&terminal).unwrap();
        let own = now();
        assert!(!own.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO));
        assert!(own.local_modes.contains(LocalModes::ISIG), "Ctrl-C ends it");
        assert_eq!(own.special_codes[SpecialCodeIndex::VSUSP], NO_KEY);
        assert_ne!(own.special_codes[SpecialCodeIndex::VINTR], NO_KEY);
        tcsetattr(&terminal, OptionalActions::Now, &before).unwrap();
        assert_eq!(format!("{:?}", now()), first);
        assert!(one_by_one(std::fs::File::open("/dev/null").unwrap()).is_none());
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_sent_is_read(sent in proptest::collection::vec(0u8.., 0..64)) {
            assert!(keys(&sent).len() <= sent.len());
        }
    }
}
