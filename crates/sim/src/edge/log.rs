//! The requests that came, which calls are counted by.

use std::collections::{BTreeMap, VecDeque};

/// How many requests are kept.
const KEPT: usize = 50_000;

/// A request as a log keeps it.
pub trait Logged: Clone {
    /// Takes its number, and forgets what must not be kept.
    fn number(&mut self, number: u64);

    /// What was called; empty when the request does not say.
    fn call(&self) -> &str;
}

/// Replaces the values of parameters by their lengths.
pub(crate) fn hide(parameters: &mut BTreeMap<String, String>, secret: &[&str]) {
    for (name, value) in parameters {
        if secret.iter().any(|secret| secret.eq_ignore_ascii_case(name)) {
            *value = format!("*** {} bytes", value.len());
        }
    }
}

/// The latest requests.
#[derive(Clone, Debug)]
pub struct Log<E> {
    entries: VecDeque<E>,
    by_call: BTreeMap<String, usize>,
    count: u64,
}

impl<E> Default for Log<E> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), by_call: BTreeMap::new(), count: 0 }
    }
}

impl<E: Logged> Log<E> {
    /// Adds a request and gives it its number.
    pub fn add(&mut self, mut entry: E) {
        self.count += 1;
        entry.number(self.count);
        *self.by_call.entry(entry.call().to_owned()).or_default() += 1;
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// All kept requests, the oldest first.
    #[must_use]
    pub fn entries(&self) -> Vec<E> {
        self.entries.iter().cloned().collect()
    }

    /// How many requests of a kind came, whatever their answer and whether or not they are still kept.
    #[must_use]
    pub fn count(&self, call: &str) -> usize {
        self.by_call.get(call).copied().unwrap_or(0)
    }

    /// Forgets all; numbers go on.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.by_call.clear();
    }
}
