//! A request as the log keeps it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::edge::log::{Logged, hide};

/// Parameters whose values are not kept.
const SECRET: [&str; 3] = ["signature", "userdata", "password"];

/// One request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From 1, without gaps.
    pub number: u64,
    /// When it came.
    pub at: Timestamp,
    /// HTTP method.
    pub method: String,
    /// Command; empty when the request does not say.
    pub command: String,
    /// `account@domain path` of the caller; empty when it could not be told.
    pub caller: String,
    /// The client's name for itself.
    pub user_agent: String,
    /// Parameters as they came, secrets replaced by their length.
    pub parameters: BTreeMap<String, String>,
    /// HTTP status; 0 when the connection was cut.
    pub status: u16,
    /// Text of a refusal; empty for a success.
    pub refusal: String,
    /// Whether the script had a hand in it.
    pub scripted: bool,
}

impl Logged for Entry {
    fn number(&mut self, number: u64) {
        self.number = number;
        hide(&mut self.parameters, &SECRET);
    }

    fn call(&self) -> &str {
        &self.command
    }
}
