//! What people are told, in whole sentences. CloudStack's own words name addresses and accounts, so they never reach a
//! tenant: each class of errors has a sentence of its own.

use api::reasons::claims::Reason;
use api::reasons::{ASSOCIATED, PROVISIONED, SYNCHRONIZED};
use cloudstack::errors::Kind;

/// What keeps a claim from its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The spec, the arguments, or what they name.
    Arguments(String),
    /// The credentials.
    Identity(String),
    /// The wished failure domain is not there.
    Zone,
    /// A quota leaves no room.
    Quota(String),
    /// The image cannot be deployed.
    Image(&'static str),
    /// Data of this field cannot be carried.
    Data(&'static str),
    /// The user data is larger than this many bytes.
    TooLarge(usize),
    /// The Secret with the user data is not there, or has no data.
    UserData(String),
    /// CloudStack refused or failed.
    Platform(Kind),
}

impl Obstacle {
    /// The condition that tells it, and the reason.
    #[must_use]
    pub fn place(&self) -> (&'static str, Reason) {
        match self {
            Self::Arguments(_) => (ASSOCIATED, Reason::InvalidArguments),
            Self::Identity(_) | Self::Platform(Kind::Credentials) => (ASSOCIATED, Reason::IdentityUnusable),
            Self::Zone => (ASSOCIATED, Reason::FailureDomainExhausted),
            Self::Quota(_) => (ASSOCIATED, Reason::QuotaExceeded),
            Self::Image(_) => (SYNCHRONIZED, Reason::UnsupportedImage),
            Self::Data(_) => (SYNCHRONIZED, Reason::UnsupportedData),
            Self::TooLarge(_) => (SYNCHRONIZED, Reason::DataTooLarge),
            Self::UserData(_) => (SYNCHRONIZED, Reason::UserDataSecretSyncFailure),
            Self::Platform(_) => (PROVISIONED, Reason::PlatformError),
        }
    }

    /// The sentence.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Arguments(told) => format!("Correct the claim: {told}."),
            Self::Identity(told) => format!("The credentials cannot be used: {told}."),
            Self::Zone => {
                "There is no zone of the name in spec.failureDomain where spec.args.zone points to.".to_owned()
            }
            Self::Quota(told) => format!("The namespace {told}."),
            Self::Image(told) => (*told).to_owned(),
            Self::Data(field) => {
                format!("CloudStack carries user data only; leave spec.{field} out and put its content there.")
            }
            Self::TooLarge(most) => {
                format!("The user data has more than {most} bytes, which CloudStack does not carry.")
            }
            Self::UserData(told) => told.clone(),
            Self::Platform(kind) => platform(*kind).to_owned(),
        }
    }

    /// Whether nothing will change by itself: somebody has to correct something here.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        !matches!(self, Self::Quota(_)) && !matches!(self, Self::Platform(kind) if *kind != Kind::Credentials)
    }
}

/// The sentence for a class of errors.
#[must_use]
pub fn platform(kind: Kind) -> &'static str {
    match kind {
        Kind::Credentials => "CloudStack refuses the keys of the identity.",
        Kind::NotPermitted => "The account of the identity may not do this in CloudStack.",
        Kind::NotFound => "CloudStack does not find something that the machine needs.",
        Kind::Duplicate => "Another machine has the name of this one in its network.",
        Kind::PageSize | Kind::BadRequest => {
            "CloudStack does not accept the request; the operator's log has its words."
        }
        Kind::Throttled => "CloudStack asks for fewer requests; it is asked again later.",
        Kind::Quota => "The account has as much as CloudStack lets it have.",
        Kind::Capacity => "CloudStack has no room for the machine at present.",
        Kind::Server => "CloudStack failed; it is asked again later.",
        Kind::Transport => "CloudStack does not answer; it is asked again later.",
        Kind::Untrusted => "The server could not prove that it is the one of the identity.",
        Kind::Malformed => "The answer of CloudStack cannot be read; it is asked again later.",
    }
}

/// Something worth an event that no condition tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tell {
    /// The claim selects hosts.
    SelectorIgnored,
    /// A reboot waits for the machine to run.
    RebootDeferred,
    /// A second machine of the claim is destroyed.
    DuplicateHealed,
    /// The machine stays although its claim goes.
    LeftForMove,
}

impl Tell {
    /// The event's reason.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::SelectorIgnored => Reason::SelectorIgnored.as_str(),
            Self::RebootDeferred => Reason::RebootDeferred.as_str(),
            Self::DuplicateHealed => Reason::DuplicateBindingHealed.as_str(),
            Self::LeftForMove => Reason::MachineKnownByClaim.as_str(),
        }
    }

    /// The event's text.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::SelectorIgnored => "Machines of this kind are made, not selected; spec.hostSelector has no effect.",
            Self::RebootDeferred => "The reboot is done once the machine runs.",
            Self::DuplicateHealed => "The claim had two machines; one of them is destroyed.",
            Self::LeftForMove => "The claim was deleted for a move, so its machine is left as it is.",
        }
    }
}
