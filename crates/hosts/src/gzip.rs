//! Compression of user data (RFC 1951 and 1952): back references and the fixed codes, which is enough for texts of a few
//! kilobytes and saves a dependency.

use std::collections::HashMap;

const WINDOW: usize = 32 * 1024;
const LONGEST: usize = 258;
const SHORTEST: usize = 3;

/// The first length of each length code from 257 on, and how many further bits choose within it.
const LENGTHS: [(usize, u32); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];
/// The first distance of each distance code, and how many further bits choose within it.
const DISTANCES: [(usize, u32); 30] = [
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (5, 1),
    (7, 1),
    (9, 2),
    (13, 2),
    (17, 3),
    (25, 3),
    (33, 4),
    (49, 4),
    (65, 5),
    (97, 5),
    (129, 6),
    (193, 6),
    (257, 7),
    (385, 7),
    (513, 8),
    (769, 8),
    (1025, 9),
    (1537, 9),
    (2049, 10),
    (3073, 10),
    (4097, 11),
    (6145, 11),
    (8193, 12),
    (12289, 12),
    (16385, 13),
    (24577, 13),
];

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    held: u64,
    count: u32,
}

impl Bits {
    /// The lowest bit first.
    fn low_first(&mut self, value: usize, bits: u32) {
        self.held |= (value as u64) << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.bytes.push(u8::try_from(self.held & 0xff).unwrap_or_default());
            self.held >>= 8;
            self.count -= 8;
        }
    }

    /// Codes go with their highest bit first.
    fn code(&mut self, code: usize, bits: u32) {
        for bit in (0..bits).rev() {
            self.low_first((code >> bit) & 1, 1);
        }
    }

    fn symbol(&mut self, symbol: usize) {
        match symbol {
            0..=143 => self.code(0x30 + symbol, 8),
            144..=255 => self.code(0x190 + symbol - 144, 9),
            256..=279 => self.code(symbol - 256, 7),
            _ => self.code(0xc0 + symbol.saturating_sub(280), 8),
        }
    }

    fn reference(&mut self, length: usize, distance: usize) {
        let last = |table: &[(usize, u32)], value: usize| {
            table
                .iter()
                .enumerate()
                .rev()
                .find(|(_, (from, _))| *from <= value)
                .map(|(at, (from, extra))| (at, *from, *extra))
        };
        if let (Some((length_code, from, extra)), Some((distance_code, near, more))) =
            (last(&LENGTHS, length), last(&DISTANCES, distance))
        {
            self.symbol(257 + length_code);
            self.low_first(length - from, extra);
            self.code(distance_code, 5);
            self.low_first(distance - near, more);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.low_first(0, 8 - self.count);
        }
        self.bytes
    }
}

fn deflate(data: &[u8]) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.low_first(0b011, 3);
    let mut seen: HashMap<&[u8], usize> = HashMap::new();
    let mut at = 0;
    while let Some(byte) = data.get(at) {
        let start = data.get(at..at + SHORTEST);
        let before = start.and_then(|start| seen.insert(start, at)).filter(|before| at - before <= WINDOW);
        let same = before.map_or(0, |before| {
            let pairs = data.iter().skip(at).zip(data.iter().skip(before));
            pairs.take(LONGEST).take_while(|(a, b)| a == b).count()
        });
        match before {
            Some(before) if same >= SHORTEST => {
                bits.reference(same, at - before);
                for passed in at + 1..at + same {
                    if let Some(start) = data.get(passed..passed + SHORTEST) {
                        seen.insert(start, passed);
                    }
                }
                at += same;
            }
            _ => {
                bits.symbol(usize::from(*byte));
                at += 1;
            }
        }
    }
    bits.symbol(256);
    bits.finish()
}

fn checksum(data: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !data.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The data as a gzip file without a name and a time, so that equal data give equal bytes.
#[must_use]
pub fn gzip(data: &[u8]) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    file.extend(deflate(data));
    file.extend(checksum(data).to_le_bytes());
    file.extend(u32::try_from(data.len() & 0xffff_ffff).unwrap_or_default().to_le_bytes());
    file
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A decoder of its own, written from the standard and not from the encoder.
    fn inflate(bytes: &[u8]) -> Vec<u8> {
        let mut position = 0;
        let mut bit = || {
            let value = usize::from(bytes[position / 8] >> (position % 8)) & 1;
            position += 1;
            value
        };
        let mut out: Vec<u8> = Vec::new();
        assert_eq!((bit(), bit(), bit()), (1, 1, 0), "one block of fixed codes");
        loop {
            let mut code = 0;
            let mut length = 0;
            let symbol = loop {
                code = code << 1 | bit();
                length += 1;
                match (length, code) {
                    (7, 0..=0x17) => break 256 + code,
                    (8, 0x30..=0xbf) => break code - 0x30,
                    (8, 0xc0..=0xc7) => break 280 + code - 0xc0,
                    (9, 0x190..=0x1ff) => break 144 + code - 0x190,
                    (10.., _) => panic!("no such code"),
                    _ => {}
                }
            };
            if symbol < 256 {
                out.push(symbol as u8);
                continue;
            }
            if symbol == 256 {
                return out;
            }
            let mut extra = |count: u32| (0..count).map(|at| bit() << at).sum::<usize>();
            let (from, more) = LENGTHS[symbol - 257];
            let length = from + extra(more);
            let mut distance = 0;
            for _ in 0..5 {
                distance = distance << 1 | extra(1);
            }
            let (near, more) = DISTANCES[distance];
            let distance = near + extra(more);
            for _ in 0..length {
                out.push(out[out.len() - distance]);
            }
        }
    }

    fn round(data: &[u8]) -> usize {
        let file = gzip(data);
        let (head, tail) = (10, file.len() - 8);
        assert_eq!(inflate(&file[head..tail]), data);
        assert_eq!(file[tail..tail + 4], checksum(data).to_le_bytes());
        file.len()
    }

    #[test]
    fn texts_shrink_and_come_back() {
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926, "the check value of the standard");
        let text = "write_files:\n- path: /etc/kubernetes/pki/ca.crt\n  owner: root:root\n".repeat(400);
        assert!(round(text.as_bytes()) < text.len() / 20);
        assert!(round(b"") > 0 && round(b"a") > 0 && round(&[255; 1000]) < 60);
        let far: Vec<u8> = (0..40_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        round(&far);
    }

    proptest! {
        #[test]
        fn anything_comes_back(data in prop::collection::vec(0u8..4, 0..2_000), other in any::<Vec<u8>>()) {
            round(&data);
            round(&other);
        }
    }
}
