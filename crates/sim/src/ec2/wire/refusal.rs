//! What the service says when it does not do what it was asked.

/// A refused request: HTTP status, error code and text, as the service sends them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// Machine-readable code, without a `Client.` or `Server.` prefix.
    pub code: String,
    /// Text for humans.
    pub message: String,
}

impl Refusal {
    /// A refusal with any status.
    #[must_use]
    pub fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into() }
    }

    /// The usual refusal: the client asked for something wrong (HTTP 400).
    #[must_use]
    pub fn bad(code: &str, message: impl Into<String>) -> Self {
        Self::new(400, code, message)
    }

    /// A parameter the operation does not know.
    #[must_use]
    pub fn unknown_parameter(name: &str) -> Self {
        Self::bad("UnknownParameter", format!("The parameter {name} is not recognized"))
    }

    /// A required parameter that is not there.
    #[must_use]
    pub fn missing(name: &str) -> Self {
        Self::bad("MissingParameter", format!("The request must contain the parameter {name}"))
    }

    /// A value that cannot be used.
    #[must_use]
    pub fn value(name: &str, value: &str, expected: &str) -> Self {
        Self::bad("InvalidParameterValue", format!("Value ({value}) for parameter {name} is invalid. {expected}"))
    }

    /// Two parameters that exclude each other, or one that needs another.
    #[must_use]
    pub fn combination(message: impl Into<String>) -> Self {
        Self::bad("InvalidParameterCombination", message)
    }

    /// Too many requests.
    #[must_use]
    pub fn throttled() -> Self {
        Self::new(503, "RequestLimitExceeded", "Request limit exceeded.")
    }

    /// The request would have succeeded, but was a dry run.
    #[must_use]
    pub fn dry_run() -> Self {
        Self::new(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
    }

    /// The caller may not do this.
    #[must_use]
    pub fn unauthorized(action: &str) -> Self {
        let message =
            format!("You are not authorized to perform this operation. No policy allows the ec2:{action} action");
        Self::new(403, "UnauthorizedOperation", message)
    }
}
