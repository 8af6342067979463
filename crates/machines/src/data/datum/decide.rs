//! Thinks: what data needs next, and how it stands with it.

use api::key::ObjectKey;
use api::reasons::machines::Reason;
use kit::kinds::Kind;

use super::super::pools::PoolKind;
use super::super::render::{Addresses, render};
use super::observe::{Progress, Snapshot};

/// What is said while there is nothing to render from.
const HOSTLESS: &str = "The claim of the machine has no host yet; the claim says why.";

/// Which document of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The metadata.
    Meta,
    /// The network data.
    Network,
}

impl Part {
    /// The key in the Secret, as the host controller reads it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Meta => "metaData",
            Self::Network => "networkData",
        }
    }

    /// The name of the Secret for a machine.
    #[must_use]
    pub fn secret(self, machine: &str) -> String {
        match self {
            Self::Meta => format!("{machine}-metadata"),
            Self::Network => format!("{machine}-networkdata"),
        }
    }
}

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on data that somebody else made.
    Finalize,
    /// Say in the data which Secrets there will be.
    Refer {
        /// The Secret for metadata.
        meta: Option<Box<str>>,
        /// The Secret for network data.
        network: Option<Box<str>>,
    },
    /// Wish for an address of a pool.
    Wish {
        /// The pool.
        pool: Box<str>,
        /// Its kind.
        kind: PoolKind,
    },
    /// Store a document.
    Write {
        /// Which.
        part: Part,
        /// The Secret.
        secret: Box<str>,
        /// The document.
        text: Document,
    },
    /// Give an address back.
    Release {
        /// The kind of wish.
        kind: Kind,
        /// The wish.
        lease: ObjectKey,
    },
    /// Take our finalizer off the data, after a live look that no wish is left.
    Unfinalize,
}

/// A document; what is in it is not for logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Document(pub String);

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A plan, and how it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The effects, in order.
    pub steps: Vec<Step>,
    /// Whether everything is rendered.
    pub ready: bool,
    /// Why it is as it is.
    pub reason: Reason,
    /// The same for people.
    pub message: String,
    /// Whether only a change by somebody helps.
    pub faulty: bool,
}

impl Outlook {
    fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self { ready: true, ..Self::wait(reason, message) }
    }

    fn wait(reason: Reason, message: impl Into<String>) -> Self {
        Self { steps: Vec::new(), ready: false, reason, message: message.into(), faulty: false }
    }

    fn fault(reason: Reason, message: impl Into<String>) -> Self {
        Self { faulty: true, ..Self::wait(reason, message) }
    }

    fn with(mut self, steps: Vec<Step>) -> Self {
        self.steps = steps;
        self
    }
}

/// The plan for one data.
#[must_use]
pub fn decide(s: &Snapshot) -> Outlook {
    if s.paused {
        return Outlook::wait(Reason::Paused, "The cluster or the data is paused.");
    }
    if s.data.head.deleting {
        return part(s);
    }
    if !s.data.is_kept() {
        return Outlook::wait(Reason::DataPending, "The data was found and is taken over.").with(vec![Step::Finalize]);
    }
    let Some(template) = &s.template else {
        let message = format!("There is no Metal3DataTemplate {} in this namespace; create it.", s.data.template);
        return Outlook::fault(Reason::TemplateMissing, message);
    };
    if let Some(problem) = &template.problem {
        return Outlook::fault(Reason::InvalidSpec, format!("Correct the template: {problem}."));
    }
    let Some((metal, _)) = s.metal.as_ref().filter(|_| s.claim.is_some()) else {
        let message = "The Metal3Machine that the data is for is not there; the data goes with its data claim.";
        return Outlook::wait(Reason::WaitingForMetal3Machine, message);
    };
    // The names of the Secrets are in the data before there are Secrets.
    let name = |wanted: bool, known: &Option<Box<str>>, part: Part| -> Option<Box<str>> {
        (wanted && known.is_none()).then(|| part.secret(metal.name()).into())
    };
    let wanted = (template.spec.meta_data.is_some(), template.spec.network_data.is_some());
    let meta = name(wanted.0, &s.data.meta, Part::Meta);
    let network = name(wanted.1, &s.data.network, Part::Network);
    if meta.is_some() || network.is_some() {
        let outlook = Outlook::wait(Reason::DataPending, "The Secrets of the machine are being named.");
        return outlook.with(vec![Step::Refer { meta, network }]);
    }
    let missing = (wanted.0 && !s.has_meta, wanted.1 && !s.has_network);
    if missing == (false, false) {
        return Outlook::yes(Reason::DataRendered, "The Secrets of the machine are complete.");
    }
    fill(s, missing)
}

/// Gets what is missing of the documents.
fn fill(s: &Snapshot, missing: (bool, bool)) -> Outlook {
    if s.machine.is_none() {
        return Outlook::wait(
            Reason::WaitingForMachineOwner,
            "No Machine owns the Metal3Machine yet; it goes on when one refers to it.",
        );
    }
    let (Some(objects), Some(template)) = (s.objects(), &s.template) else {
        return Outlook::wait(Reason::WaitingForHost, HOSTLESS);
    };
    let pools = match &s.pools {
        Some(Ok(pools)) => pools,
        Some(Err(fault)) => return Outlook::fault(Reason::RenderingFailed, fault.to_string()),
        None => return Outlook::wait(Reason::WaitingForHost, HOSTLESS),
    };
    let mut steps = Vec::new();
    let (mut waiting, mut taken, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    let mut addresses = Addresses::new();
    for (pool, (kind, progress)) in pools {
        match progress {
            Progress::Missing => {
                steps.push(Step::Wish { pool: pool.clone(), kind: kind.clone() });
                waiting.push(&**pool);
            }
            Progress::Waiting(None) => waiting.push(&**pool),
            Progress::Waiting(Some(problem)) => refused.push(format!("{pool}: {problem}")),
            Progress::Taken => taken.push(&**pool),
            Progress::Given(address) => {
                addresses.insert(pool.clone(), address.clone());
            }
        }
    }
    if !refused.is_empty() {
        return Outlook::fault(Reason::AddressRefused, refused.join("; ")).with(steps);
    }
    if !taken.is_empty() {
        let message = format!(
            "It waits until earlier data, or somebody else, gives up wishes for addresses of: {}.",
            taken.join(", ")
        );
        return Outlook::wait(Reason::AddressNameTaken, message).with(steps);
    }
    if !waiting.is_empty() {
        let message = format!("It waits for the addresses of these pools: {}.", waiting.join(", "));
        return Outlook::wait(Reason::WaitingForAddresses, message).with(steps);
    }
    match render(&template.spec, s.data.index, &objects, &addresses) {
        Err(fault) => Outlook::fault(Reason::RenderingFailed, fault.to_string()),
        Ok(documents) => {
            let write = |missing: bool, part: Part, secret: &Option<Box<str>>, text: Option<String>| {
                let (secret, text) = (secret.clone().filter(|_| missing)?, text?);
                Some(Step::Write { part, secret, text: Document(text) })
            };
            steps.extend(write(missing.0, Part::Meta, &s.data.meta, documents.meta));
            steps.extend(write(missing.1, Part::Network, &s.data.network, documents.network));
            Outlook::wait(Reason::DataPending, "The documents are being stored.").with(steps)
        }
    }
}

/// Gives everything back.
fn part(s: &Snapshot) -> Outlook {
    let used = s.claim.as_ref().is_some_and(|claim| !claim.head.deleting);
    if used {
        let message = "The data was deleted and its machine still uses it; it goes with its data claim.";
        return Outlook { ready: s.data.status.ready == Some(true), ..Outlook::wait(Reason::DataInUse, message) };
    }
    let outlook = Outlook::wait(Reason::Deleting, "Its addresses go back.");
    if !s.data.is_kept() {
        return outlook;
    }
    if s.leases.is_empty() {
        return outlook.with(vec![Step::Unfinalize]);
    }
    // One that is going already may still carry our finalizer.
    let held = s
        .leases
        .iter()
        .filter(|lease| !lease.facts.head.deleting || lease.facts.head.has(super::super::names::DATA_FINALIZER));
    let release = held.map(|lease| Step::Release { kind: lease.kind.clone(), lease: lease.key.clone() });
    outlook.with(release.collect())
}
