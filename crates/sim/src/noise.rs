//! Bytes that nobody meant: the files of a corpus as they are, the same changed at random, and plain noise.
//!
//! The order of everything comes from the number of the round, so that a failing round fails again.

#![expect(clippy::panic, reason = "test support: a panic is how a test is told")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

/// The longest noise that is made; what grows by changes stays below four times of it.
const LONGEST: u64 = 512;

/// Calls a target with every file of a folder, and then with so many inputs made of them, or with as many as the variable
/// `BERTH_NOISE_ROUNDS` says.
///
/// # Panics
/// When the target does, after telling the input; and when there is no corpus.
pub fn drive(corpus: &Path, rounds: u64, target: impl Fn(&[u8])) {
    let more = std::env::var_os("BERTH_NOISE_ROUNDS").and_then(|text| text.to_str()?.parse().ok());
    each(corpus, more.unwrap_or(rounds), target);
}

fn each(corpus: &Path, rounds: u64, target: impl Fn(&[u8])) {
    let files = files(corpus);
    assert!(!files.is_empty(), "{} holds no corpus", corpus.display());
    for file in &files {
        call(file, &target);
    }
    for round in 0..rounds {
        call(&input(&files, round), &target);
    }
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

fn call(bytes: &[u8], target: &impl Fn(&[u8])) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(bytes))) {
        eprintln!("the input was b\"{}\"", bytes.escape_ascii());
        resume_unwind(panic);
    }
}

/// The input of a round: one in eight is noise, the others are files with one to eight changes.
fn input(files: &[Vec<u8>], round: u64) -> Vec<u8> {
    let mut dice = Dice(round);
    if dice.below(8) == 0 {
        let length = dice.below(LONGEST);
        return (0..length).map(|_| dice.byte()).collect();
    }
    let mut bytes = dice.pick(files).cloned().unwrap_or_default();
    for _ in 0..=dice.below(8) {
        change(&mut bytes, files, &mut dice);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, files: &[Vec<u8>], dice: &mut Dice) {
    let length = bytes.len();
    let (from, to) = {
        let (one, other) = (dice.place(length), dice.place(length));
        (one.min(other), one.max(other).min(one.min(other) + 64))
    };
    match dice.below(7) {
        0 => {
            if let Some(byte) = bytes.get_mut(from) {
                *byte ^= 1 << dice.below(8);
            }
        }
        1 => bytes.insert(from, dice.byte()),
        2 => drop(bytes.drain(from..to)),
        3 => bytes.truncate(to),
        4 => {
            let copy: Vec<u8> = bytes.get(from..to).unwrap_or_default().to_vec();
            bytes.splice(to..to, copy);
        }
        5 => {
            let other = dice.pick(files).cloned().unwrap_or_default();
            let (start, end) = (dice.place(other.len()), dice.place(other.len()));
            let piece = other.get(start.min(end)..start.max(end)).unwrap_or_default();
            bytes.splice(from..to, piece.iter().take(256).copied());
        }
        // What parsers stumble over: bounds of numbers, brackets, nothing at all.
        _ => {
            let odd: [&[u8]; 10] =
                [b"", b"\0", b"\xff\xfe", b"-1", b"18446744073709551616", b"1e999", b"{}", b"<a>", b"\"", b"\n["];
            bytes.splice(from..to, dice.pick(&odd).copied().unwrap_or_default().iter().copied());
        }
    }
}

/// Chance that comes from a number alone (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll().checked_rem(bound).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.roll().to_le_bytes()[0]
    }

    /// A place in something of this length, its end included.
    fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64 + 1)).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let at = self.below(all.len() as u64);
        all.get(usize::try_from(at).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn files_come_first_and_rounds_repeat_themselves() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "abc").unwrap();
        std::fs::write(dir.path().join("b"), "").unwrap();
        let run = || {
            let seen = RefCell::new(Vec::new());
            each(dir.path(), 500, |bytes| seen.borrow_mut().push(bytes.to_vec()));
            seen.into_inner()
        };
        let first = run();
        assert_eq!((first.len(), first[0].as_slice(), first[1].as_slice()), (502, b"abc".as_slice(), b"".as_slice()));
        assert_eq!(first, run());
        let different: std::collections::BTreeSet<_> = first.iter().collect();
        assert!(different.len() > 300, "{}", different.len());
    }

    #[test]
    #[should_panic = "seven"]
    fn a_panic_gets_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "abc").unwrap();
        each(dir.path(), 100, |bytes| assert!(bytes.len() != 7, "seven"));
    }
}
