//! A request as the log keeps it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::edge::log::{Logged, hide};

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

impl Logged for Entry {
    fn number(&mut self, number: u64) {
        self.number = number;
        hide(&mut self.parameters, &SECRET);
    }

    fn call(&self) -> &str {
        &self.action
    }
}
