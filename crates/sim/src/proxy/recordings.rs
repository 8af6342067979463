//! Answers kept for later, within bounds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::rules::Replay;

/// What a recording costs beside its body, so that a million empty answers are bounded too.
const RECORDING_OVERHEAD: usize = 512;

/// Where an answer is recorded, and under which name.
pub(super) type Recordings = Vec<(Arc<Mutex<Store>>, String)>;

/// An answer kept for later.
pub(super) struct Recording {
    pub(super) headers: http::HeaderMap,
    pub(super) body: Bytes,
}

/// The recordings of one rule, oldest first.
pub(super) struct Store {
    keep: usize,
    max_bytes: usize,
    bytes: usize,
    list: VecDeque<(String, Arc<Recording>)>,
}

impl Store {
    pub(super) fn new(replay: &Replay) -> Self {
        Self { keep: replay.keep, max_bytes: replay.max_bytes, bytes: 0, list: VecDeque::new() }
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn cost(key: &str, recording: &Recording) -> usize {
        key.len() + recording.body.len() + RECORDING_OVERHEAD
    }

    pub(super) fn add(&mut self, key: String, recording: Recording) {
        let same = self.list.iter().filter(|(k, _)| *k == key).count();
        if same >= self.keep
            && let Some(at) = self.list.iter().position(|(k, _)| *k == key)
        {
            self.forget(at);
        }
        self.bytes += Self::cost(&key, &recording);
        self.list.push_back((key, Arc::new(recording)));
        while self.bytes > self.max_bytes && !self.list.is_empty() {
            self.forget(0);
        }
    }

    fn forget(&mut self, at: usize) {
        if let Some((key, recording)) = self.list.remove(at) {
            self.bytes -= Self::cost(&key, &recording);
        }
    }

    pub(super) fn get(&self, key: &str, back: usize) -> Option<Arc<Recording>> {
        self.list.iter().rev().filter(|(k, _)| k == key).nth(back.saturating_sub(1)).map(|(_, r)| r.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_stay_within_their_bounds() {
        let replay = Replay { back: 1, keep: 3, max_bytes: 4 * (RECORDING_OVERHEAD + 101) };
        let mut store = Store::new(&replay);
        let add = |store: &mut Store, key: &str, byte: u8| {
            let body = Bytes::from(vec![byte; 100]);
            store.add(key.to_owned(), Recording { headers: http::HeaderMap::new(), body });
        };
        for byte in 0..5 {
            add(&mut store, "a", byte);
        }
        assert_eq!(store.get("a", 1).unwrap().body[0], 4);
        assert_eq!(store.get("a", 3).unwrap().body[0], 2);
        assert!(store.get("a", 4).is_none(), "only three of one list are kept");
        for byte in 0..3 {
            add(&mut store, "b", byte);
        }
        assert!(store.bytes <= replay.max_bytes);
        assert_eq!(store.get("a", 1).unwrap().body[0], 4, "the newest of the older list is still there");
        assert!(store.get("a", 2).is_none(), "the oldest went first");
    }
}
