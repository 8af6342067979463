//! The request log, which calls are counted by.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

/// How many requests are kept.
const KEPT: usize = 50_000;

/// Parameters whose values are not kept.
const SECRET: [&str; 2] = ["UserData", "WebIdentityToken"];

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number, from 1.
    pub number: u64,
    /// When it came.
    pub at: Timestamp,
    /// `ec2`, `sts`, or empty when the request does not say.
    pub service: String,
    /// Operation; empty when the request does not say.
    pub action: String,
    /// Region it was signed for.
    pub region: String,
    /// Account of the caller; empty when it could not be told.
    pub account: String,
    /// Id of the access key; empty for unsigned requests.
    pub access_key: String,
    /// The client's name for itself.
    pub user_agent: String,
    /// Parameters, secrets replaced by their length.
    pub parameters: BTreeMap<String, String>,
    /// HTTP status; 0 when the connection was cut.
    pub status: u16,
    /// Error code; empty for a success.
    pub code: String,
    /// Id of the request.
    pub request_id: String,
    /// Whether the script had a hand in it.
    pub scripted: bool,
}

impl Entry {
    /// A parameter's value.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }
}

/// The latest requests.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    by_action: BTreeMap<String, usize>,
    count: u64,
}

impl Log {
    /// Adds a request and gives it its number.
    pub fn add(&mut self, mut entry: Entry) {
        self.count += 1;
        entry.number = self.count;
        for (name, value) in &mut entry.parameters {
            if SECRET.contains(&name.as_str()) {
                *value = format!("*** {} bytes", value.len());
            }
        }
        *self.by_action.entry(entry.action.clone()).or_default() += 1;
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// All kept requests, the oldest first.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }

    /// How many requests of an operation came, whatever their answer and whether or not they are still kept.
    #[must_use]
    pub fn count(&self, action: &str) -> usize {
        self.by_action.get(action).copied().unwrap_or(0)
    }

    /// Forgets all; numbers go on.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.by_action.clear();
    }
}
