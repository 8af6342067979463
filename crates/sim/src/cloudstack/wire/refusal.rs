//! What the server says when it does not do what it was asked.

use serde_json::{Map, Value, json};

/// A refused request: the code, which is also the HTTP status, the number of the inner error, and the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Code and HTTP status.
    pub code: u16,
    /// Number of the inner error; refusals of credentials have none.
    pub inner: Option<u32>,
    /// Text for humans.
    pub text: String,
}

impl Refusal {
    /// A refusal of any code.
    #[must_use]
    pub fn new(code: u16, inner: Option<u32>, text: impl Into<String>) -> Self {
        Self { code, inner, text: text.into() }
    }

    /// Key, signature, user or time are wrong. The server does not say which.
    #[must_use]
    pub fn credentials() -> Self {
        Self::new(401, None, "unable to verify user credentials and/or request signature")
    }

    /// The caller's role does not have the command.
    #[must_use]
    pub fn role(command: &str) -> Self {
        let text = format!("The API [{command}] does not exist or is not available for the account.");
        Self::new(432, Some(9999), text)
    }

    /// The caller may not see this account or domain.
    #[must_use]
    pub fn access(account: &str) -> Self {
        Self::new(
            531,
            Some(4365),
            format!("Acct [{account}] does not have permission to operate within this domain or account"),
        )
    }

    /// A parameter that must be there is not.
    #[must_use]
    pub fn missing(command: &str, name: &str) -> Self {
        let command = command.to_lowercase();
        let text = format!("Unable to execute API command {command} due to missing parameter {name}");
        Self::new(431, Some(9999), text)
    }

    /// A value that is no number, no truth value, or the id of nothing.
    #[must_use]
    pub fn value(command: &str, name: &str, value: &str) -> Self {
        let text = format!(
            "Unable to execute API command {} due to invalid value. Invalid parameter {name} value={value} due to \
             incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the \
             field in api cmd class.",
            command.to_lowercase()
        );
        Self::new(431, Some(9999), text)
    }

    /// Something about the parameters that is found out before the command runs.
    #[must_use]
    pub fn parameter(text: impl Into<String>) -> Self {
        Self::new(431, Some(9999), text)
    }

    /// Something that only the command itself finds out.
    #[must_use]
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(431, Some(4350), text)
    }

    /// Too many requests.
    #[must_use]
    pub fn throttled() -> Self {
        let text = "The given user has reached his/her account api limit, please retry after 1000 ms.";
        Self::new(429, Some(9999), text)
    }

    /// The object behind the only key of the answer.
    #[must_use]
    pub fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("uuidList".to_owned(), json!([]));
        body.insert("errorcode".to_owned(), json!(self.code));
        if let Some(inner) = self.inner {
            body.insert("cserrorcode".to_owned(), json!(inner));
        }
        body.insert("errortext".to_owned(), json!(self.text));
        body
    }
}
