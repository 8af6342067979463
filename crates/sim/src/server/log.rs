//! The numbered record of what clients asked.

use std::collections::VecDeque;

/// What happened to a logged request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store answered with this status code.
    Answered(u16),
    /// The store answered with this code, and the answer was thrown away.
    Lost(u16),
    /// A fault answered with this code before the store was reached.
    Injected(u16),
    /// The request never reached the store.
    Refused,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Counts all requests from 1.
    pub number: u64,
    /// Counts the mutating requests that reached the store from 1.
    pub effect: Option<u64>,
    /// The client handle's name.
    pub client: String,
    /// The `User-Agent` header; empty when there was none.
    pub agent: String,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// The query as sent.
    pub query: String,
    /// `plural.group` of the addressed type; empty for discovery.
    pub resource: String,
    /// FNV-1a digest of the body.
    pub digest: u64,
    /// The revision after the request.
    pub revision: u64,
    /// What became of it.
    pub outcome: Outcome,
}

const KEPT: usize = 100_000;

#[derive(Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    requests: u64,
    effects: u64,
}

impl Log {
    pub(crate) fn add(&mut self, mut entry: Entry, effect: bool) -> Option<u64> {
        self.requests += 1;
        entry.number = self.requests;
        if effect {
            self.effects += 1;
            entry.effect = Some(self.effects);
        }
        let number = entry.effect;
        self.entries.push_back(entry);
        if self.entries.len() > KEPT {
            self.entries.pop_front();
        }
        number
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }

    pub(crate) fn effects(&self) -> u64 {
        self.effects
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }
}

pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
