//! The one table from what a server says to what it means.

use std::time::Duration;

use kit::class::Class;

/// What an error means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The key, the signature, the user or a clock is wrong.
    Credentials,
    /// The user may not do this.
    NotPermitted,
    /// There is no such thing. CloudStack says so of an unknown id even where it lists.
    NotFound,
    /// Something of this name is there already.
    Duplicate,
    /// The server takes smaller pages only.
    PageSize,
    /// The request cannot work as it is.
    BadRequest,
    /// Too many requests; nothing was done.
    Throttled,
    /// The account or domain has as much as it may.
    Quota,
    /// No room at present.
    Capacity,
    /// A fault of the server's own.
    Server,
    /// No answer, or one of somebody else's.
    Transport,
    /// The server could not prove who it is.
    Untrusted,
    /// The answer cannot be read.
    Malformed,
}

impl Kind {
    /// The word in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credentials => "credentials",
            Self::NotPermitted => "not-permitted",
            Self::NotFound => "not-found",
            Self::Duplicate => "duplicate",
            Self::PageSize => "page-size",
            Self::BadRequest => "bad-request",
            Self::Throttled => "throttled",
            Self::Quota => "quota",
            Self::Capacity => "capacity",
            Self::Server => "server",
            Self::Transport => "transport",
            Self::Untrusted => "untrusted",
            Self::Malformed => "malformed",
        }
    }

    /// Whether asking again gives the same answer until somebody changes something, here or at the server.
    #[must_use]
    pub fn is_definitive(self) -> bool {
        match self {
            Self::Credentials
            | Self::NotPermitted
            | Self::NotFound
            | Self::Duplicate
            | Self::PageSize
            | Self::BadRequest
            | Self::Untrusted => true,
            Self::Throttled | Self::Quota | Self::Capacity | Self::Server | Self::Transport | Self::Malformed => false,
        }
    }

    /// What a pass that failed with it should do, unless the room knows better. The shortest waits are those at which
    /// an outside cause (a right granted, a network made, a quota raised) may have gone away unannounced.
    #[must_use]
    pub fn class(self) -> Class {
        let after = |seconds| Class::Transient { at_least: Some(Duration::from_secs(seconds)) };
        match self {
            Self::Throttled | Self::Server | Self::Transport | Self::Malformed => Class::Transient { at_least: None },
            Self::Duplicate => after(5),
            Self::Capacity => after(30),
            Self::Credentials | Self::NotPermitted | Self::NotFound | Self::Untrusted => after(120),
            Self::Quota => after(300),
            Self::PageSize | Self::BadRequest => Class::Terminal,
        }
    }
}

/// A row: the codes it is about, words of which one must occur (any if none are named; case does not matter), and what
/// that means.
pub(crate) struct Row {
    pub(crate) codes: &'static [u16],
    pub(crate) says: &'static [&'static str],
    pub(crate) kind: Kind,
}

const fn row(codes: &'static [u16], says: &'static [&'static str], kind: Kind) -> Row {
    Row { codes, says, kind }
}

/// The first row that fits holds. Codes are those of CloudStack, which are also the HTTP status of an answer and the
/// result code of a job.
pub(crate) const TABLE: &[Row] = &[
    row(&[401], &[], Kind::Credentials),
    row(&[511], &[], Kind::Credentials),
    row(&[429], &[], Kind::Throttled),
    row(&[432], &[], Kind::NotPermitted),
    row(&[531], &["permission", "not allowed", "access", "authoriz"], Kind::NotPermitted),
    row(&[430, 431], &["page size"], Kind::PageSize),
    row(&[430, 431], &["already exists"], Kind::Duplicate),
    row(
        &[430, 431],
        &["entity does not exist", "unable to find uuid", "does not exist", "unable to find", "incorrect long value"],
        Kind::NotFound,
    ),
    row(&[430, 431, 405], &[], Kind::BadRequest),
    row(&[532, 535], &[], Kind::Quota),
    row(&[533], &[], Kind::Capacity),
    row(&[503, 530, 531, 534, 536, 537], &[], Kind::Server),
];

/// What a code and the words beside it mean. A code that is not listed is the server's fault if it is of that range.
#[must_use]
pub fn kind_of(code: u16, text: &str) -> Kind {
    let text = text.to_lowercase();
    let fits = |row: &&Row| {
        row.codes.contains(&code) && (row.says.is_empty() || row.says.iter().any(|words| text.contains(words)))
    };
    match TABLE.iter().find(fits) {
        Some(row) => row.kind,
        None if code >= 500 => Kind::Server,
        None => Kind::BadRequest,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_class_of_error_is_what_the_server_says() {
        let long = "Unable to execute API command listzones due to invalid value. Invalid parameter id value=nope due \
                    to incorrect long value format, or entity does not exist or due to incorrect parameter annotation \
                    for the field in api cmd class.";
        for (code, text, kind) in [
            (401, "unable to verify user credentials and/or request signature", Kind::Credentials),
            (432, "The API [listDomains] does not exist or is not available for the account.", Kind::NotPermitted),
            (531, "Acct[1] does not have permission to access resource", Kind::NotPermitted),
            (531, "Account is locked by somebody", Kind::Server),
            (431, long, Kind::NotFound),
            (431, "Unable to find UUID for id [3] of type [VirtualMachine]", Kind::NotFound),
            (431, "Page size can't exceed max allowed page size value: 500", Kind::PageSize),
            (431, "\"pagesize\" parameter is required when \"page\" is specified", Kind::BadRequest),
            (431, "The vm with hostName vm1 already exists in the network domain: x; network=net1", Kind::Duplicate),
            (431, "Unable to execute API command deploy due to missing parameter zoneid", Kind::BadRequest),
            (430, "Malformed", Kind::BadRequest),
            (429, "The given user has reached his/her account api limit, please retry later", Kind::Throttled),
            (530, "Internal error", Kind::Server),
            (532, "Maximum number of resources exceeded", Kind::Quota),
            (533, "No destination found for a deployment", Kind::Capacity),
            (534, "Resource unavailable", Kind::Server),
            (535, "Resource allocation", Kind::Quota),
            (503, "", Kind::Server),
            (599, "", Kind::Server),
            (418, "", Kind::BadRequest),
        ] {
            assert_eq!(kind_of(code, text), kind, "{code} {text}");
        }
    }

    #[test]
    fn definitive_errors_are_those_a_user_must_see() {
        let definitive = [
            Kind::Credentials,
            Kind::NotPermitted,
            Kind::NotFound,
            Kind::Duplicate,
            Kind::PageSize,
            Kind::BadRequest,
            Kind::Untrusted,
        ];
        assert!(definitive.iter().all(|kind| kind.is_definitive()));
        let passing = [Kind::Throttled, Kind::Quota, Kind::Capacity, Kind::Server, Kind::Transport, Kind::Malformed];
        assert!(passing.iter().all(|kind| !kind.is_definitive() && kind.class() != Class::Terminal));
    }

    #[test]
    fn no_row_is_hidden_behind_an_earlier_one() {
        for (at, row) in TABLE.iter().enumerate() {
            for code in row.codes {
                let covered = |earlier: &Row| earlier.codes.contains(code) && earlier.says.is_empty();
                assert!(!TABLE[..at].iter().any(covered), "row {at}, code {code}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_code_and_text_means_something(code: u16, text in any::<String>()) {
            let kind = kind_of(code, &text);
            prop_assert!(!kind.as_str().is_empty());
        }
    }
}
