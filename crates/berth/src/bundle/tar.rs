//! Writes tar archives of plain files: the form `ustar` of POSIX, and its extended header for paths that are too long.

use std::io::{self, Write};

/// Files are written in units of this many bytes.
const BLOCK: usize = 512;

/// Writes one archive.
pub struct Tar<W: Write> {
    out: W,
    /// Seconds since the epoch that every file was changed at.
    changed: u64,
}

impl<W: Write> Tar<W> {
    /// An archive whose files all carry this time, in seconds since the epoch.
    pub fn new(out: W, changed: u64) -> Self {
        Self { out, changed }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        let (prefix, name) = match split(path) {
            Some(halves) => halves,
            None => {
                let record = record("path", path);
                let header = header("", "PaxHeader", record.len(), self.changed, b'x');
                self.put(&header, record.as_bytes())?;
                // Read only by programs that do not know the extended header.
                ("", shortened(path))
            }
        };
        self.put(&header(prefix, name, content.len(), self.changed, b'0'), content)
    }

    fn put(&mut self, header: &[u8; BLOCK], content: &[u8]) -> io::Result<()> {
        self.out.write_all(header)?;
        self.out.write_all(content)?;
        let rest = content.len() % BLOCK;
        if rest > 0 {
            self.out.write_all(&vec![0; BLOCK - rest])?;
        }
        Ok(())
    }

    /// Ends the archive and gives back what it was written to.
    ///
    /// # Errors
    /// When its end cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        Ok(self.out)
    }
}

/// The two parts of a path that the header has room for: 155 and 100 bytes, cut at a slash.
fn split(path: &str) -> Option<(&str, &str)> {
    if path.len() <= 100 {
        return Some(("", path));
    }
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    let at = slashes.find(|at| path.len() - at - 1 <= 100)?;
    let (prefix, name) = (path.get(..at)?, path.get(at + 1..)?);
    (!prefix.is_empty() && prefix.len() <= 155 && !name.is_empty()).then_some((prefix, name))
}

/// As much of the end of a path as the header has room for.
fn shortened(path: &str) -> &str {
    let start = path.len().saturating_sub(100);
    let start = (start..path.len()).find(|at| path.is_char_boundary(*at)).unwrap_or(path.len());
    path.get(start..).unwrap_or_default()
}

/// `<length> <keyword>=<value>\n`, where the length counts itself.
fn record(keyword: &str, value: &str) -> String {
    let bare = keyword.len() + value.len() + 3;
    let mut length = bare + bare.to_string().len();
    // With its own digits it may have become one digit longer.
    if length.to_string().len() > bare.to_string().len() {
        length += 1;
    }
    format!("{length} {keyword}={value}\n")
}

fn header(prefix: &str, name: &str, size: usize, changed: u64, sort: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let (size, changed) = (format!("{size:011o}\0"), format!("{changed:011o}\0"));
    let fields: [(usize, &[u8]); 11] = [
        (0, name.as_bytes()),
        (100, b"0000600\0"),
        (108, b"0000000\0"),
        (116, b"0000000\0"),
        (124, size.as_bytes()),
        (136, changed.as_bytes()),
        // Counted as blanks while the sum is made.
        (148, b"        "),
        (156, &[sort]),
        (257, b"ustar\x0000"),
        (265, b"root"),
        (345, prefix.as_bytes()),
    ];
    for (at, bytes) in fields {
        for (place, byte) in block.iter_mut().skip(at).zip(bytes) {
            *place = *byte;
        }
    }
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    for (place, byte) in block.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").as_bytes()) {
        *place = *byte;
    }
    block
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.iter().copied().take_while(|byte| *byte != 0).collect()).unwrap()
    }

    fn number(bytes: &[u8]) -> usize {
        usize::from_str_radix(text(bytes).trim(), 8).unwrap()
    }

    /// The files of an archive, read by the words of the standard.
    pub fn files(mut archive: &[u8]) -> Vec<(String, Vec<u8>)> {
        let (mut found, mut long) = (Vec::new(), None);
        loop {
            let (header, rest) = archive.split_at(BLOCK);
            if header.iter().all(|byte| *byte == 0) {
                assert!(rest.len() == BLOCK && rest.iter().all(|byte| *byte == 0), "two empty blocks are the end");
                return found;
            }
            assert_eq!(&header[257..265], b"ustar\x0000");
            let mut blank = header.to_vec();
            blank[148..156].fill(b' ');
            assert_eq!(blank.iter().map(|byte| usize::from(*byte)).sum::<usize>(), number(&header[148..156]));
            let size = number(&header[124..136]);
            let (content, rest) = rest.split_at(size);
            let (prefix, name) = (text(&header[345..500]), text(&header[..100]));
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            match header[156] {
                b'x' => {
                    let record = std::str::from_utf8(content).unwrap();
                    let (length, pair) = record.split_once(' ').unwrap();
                    assert_eq!(length.parse::<usize>().unwrap(), record.len());
                    long = Some(pair.strip_prefix("path=").unwrap().strip_suffix('\n').unwrap().to_owned());
                }
                sort => {
                    assert_eq!(sort, b'0');
                    found.push((long.take().unwrap_or(path), content.to_vec()));
                }
            }
            archive = rest.split_at((BLOCK - size % BLOCK) % BLOCK).1;
        }
    }

    #[test]
    fn paths_of_every_length_come_back() {
        for length in [1, 99, 100, 101, 155, 156, 200, 255, 256, 257, 400, 980, 990, 1000] {
            for path in [
                "d/".repeat(length / 2) + "f",
                "n".repeat(length),
                format!("{}/{}", "ä".repeat(length), "ö".repeat(80)),
            ] {
                let mut tar = Tar::new(Vec::new(), 1_767_225_600);
                tar.file(&path, b"x").unwrap();
                assert_eq!(files(&tar.finish().unwrap()), [(path, b"x".to_vec())]);
            }
        }
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(all in prop::collection::vec(("[a-z/]{1,300}", prop::collection::vec(any::<u8>(), 0..1500)), 0..5)) {
            let mut tar = Tar::new(Vec::new(), 0);
            for (path, content) in &all {
                tar.file(path, content).unwrap();
            }
            prop_assert_eq!(files(&tar.finish().unwrap()), all);
        }
    }
}
