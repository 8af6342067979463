//! The room: keeps clusters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::key::ObjectKey;
use api::reasons::clusters::Reason;
use jiff::Timestamp;
use kit::class::{Class, Classify, chain};
use kit::clock::Clock;
use kit::conditions::Transition;
use kit::doors::Clients;
use kit::feed::Version;
use kit::room::{Flow, Notice, Report, Room, Trouble, Violation};
use kit::teller::Teller;
use kit::write::{self, Writer};
use tokio::sync::mpsc;

use crate::acs::{Clouds, Shelf};
use crate::admit::Terms;
use crate::bodies::{Bodies, Wishes};
use crate::conditions::info;
use crate::config::Config;
use crate::decide::{self, Step, Told};
use crate::facts::World;
use crate::manifests::{Manifests, Texts};
use crate::memory::Memories;
use crate::metrics::ClustersMetrics;
use crate::owners::Owners;
use crate::phase::{self, Failure};
use crate::snapshot::{Reported, Snapshot};
use crate::trials::Asked;
use crate::{guard, status};

/// Why a pass could not be finished.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index does not show our own last write yet.
    #[error("the index is behind our own write")]
    Behind,
    /// An object is not what was decided on any more.
    #[error("{0} has changed meanwhile")]
    Moved(String),
    /// Something could not be read.
    #[error("read {what}")]
    Read {
        /// What.
        what: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// Something could not be written.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// Something outside could not be asked.
    #[error("{message}")]
    Outside {
        /// What.
        message: String,
        /// How long to wait at least.
        at_least: Option<Duration>,
    },
    /// Something could not be deleted; everything else was.
    #[error("{0}")]
    Deletions(String),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind | Self::Moved(_) => Class::Stale,
            Self::Read { source, .. } => match source.class() {
                // What is asked for by name may be there later; that it is not is no race.
                Class::Terminal | Class::Stale => Class::Transient { at_least: None },
                class => class,
            },
            Self::Write(error) => match error.class() {
                // What others refuse they may take later, and nothing announces it.
                Class::Terminal => Class::Transient { at_least: None },
                class => class,
            },
            Self::Outside { at_least, .. } => Class::Transient { at_least: *at_least },
            Self::Deletions(_) => Class::Transient { at_least: None },
        }
    }
}

impl From<crate::facts::Behind> for Error {
    fn from(_: crate::facts::Behind) -> Self {
        Self::Behind
    }
}

pub(crate) fn read(what: impl FnOnce() -> String) -> impl FnOnce(kube::Error) -> Error {
    move |source| Error::Read { what: what(), source: Box::new(source) }
}

/// The room.
pub struct Keeper<C: Clouds> {
    pub(crate) world: World,
    pub(crate) config: Arc<Config>,
    pub(crate) shelf: Arc<Shelf<C>>,
    pub(crate) clients: Clients,
    /// Where endpoints are asked for that have to be tried.
    pub(crate) trials: mpsc::UnboundedSender<Asked>,
    /// Writes what is ours.
    pub(crate) writer: Writer,
    /// Writes what is generated.
    pub(crate) generator: Writer,
    pub(crate) events: Teller,
    pub(crate) clock: Clock,
    pub(crate) metrics: ClustersMetrics,
    pub(crate) memories: Arc<Memories>,
    pub(crate) bodies: Bodies,
    pub(crate) wishes: Wishes,
    pub(crate) owners: Owners,
    pub(crate) manifests: Manifests,
    pub(crate) texts: Texts,
    /// Whether the server's definition of clusters has no field for the version of a bundle.
    pub(crate) unnoted: AtomicBool,
}

impl<C: Clouds> Keeper<C> {
    pub(crate) fn terms(&self) -> Terms {
        terms(&self.config, &self.world)
    }

    /// Remembers our own write of a cluster.
    pub(crate) fn note(&self, key: &ObjectKey, version: &Version) {
        self.world.clusters.wrote(key, version);
        self.memories.wrote(key, version, self.clock.instant());
    }
}

/// How words about the inside of a cluster begin.
pub(crate) const INSIDE: &str = "inside of the cluster: ";

/// A write that was refused for what it says, in words for the owner of the cluster.
fn refusal(error: &write::Error) -> Option<Failure> {
    let write::Error::Refused { target, source, .. } = error else { return None };
    let kube::Error::Api(status) = source.as_ref() else { return None };
    let told = matches!(status.code, 400 | 403 | 422);
    let failure = phase::refusal(&target.to_string(), &status.message);
    told.then(|| Failure { message: decide::cut(&failure.message), ..failure })
}

/// Whether a status was refused for the version of its bundle, which definitions of an earlier release do not have: an apply
/// that names a field the schema lacks is answered 500, and nothing of it is stored (kubernetes/kubernetes#139253).
fn lacks_version(error: &write::Error) -> bool {
    let write::Error::Refused { source, .. } = error else { return false };
    let kube::Error::Api(status) = source.as_ref() else { return false };
    status.message.contains(".status.resolvedBundles.eksaVersion: field not declared in schema")
}

/// What is admitted.
#[must_use]
pub fn terms(config: &Config, world: &World) -> Terms {
    Terms { newest: config.newest.limit(world.provider_version().as_deref()), extra_args: config.extra_args }
}

impl<C: Clouds> Room for Keeper<C> {
    const NAME: &'static str = "clusters";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = Reported;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        self.gather(key, now).await
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::decide(snapshot)
    }

    fn guard(&self, snapshot: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
        guard::guard(snapshot, plan)
    }

    async fn apply(&self, snapshot: &Snapshot, step: Step) -> Result<Flow, Error> {
        self.carry_out(snapshot, step).await
    }

    fn report<'s>(&self, s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, Reported>> {
        let mut thought = decide::think(s).ok()?;
        if let Some((phase, outcome)) = &thought.ended {
            self.metrics.phase(*phase, outcome);
        }
        let stands = thought.ended.as_ref().map(|(phase, _)| *phase);
        if let Some((phase, lasted)) = self.memories.moved_to(&s.key, stands, self.clock.instant()) {
            self.metrics.stayed(phase, lasted);
        }
        self.forget_past(s, &thought);
        if !status::remains(s, &thought) || trouble.is_none() && !status::is_stored(s, &thought) {
            return None;
        }
        match trouble {
            Some(Trouble::Failed(Error::Write(error))) => {
                if let Some(failure) = refusal(error) {
                    thought.failure = Told::Set(failure);
                }
            }
            Some(Trouble::Failed(Error::Outside { message, .. })) if message.starts_with(INSIDE) => {
                let trouble = info(Reason::DefaultCNIUpgradeInProgress, decide::cut(message));
                thought.network = Some(Err(trouble));
            }
            _ => {}
        }
        Some(Report {
            target: s.target.clone(),
            generation: s.cluster.generation(),
            stored: &s.stored,
            next: status::status(s, &thought, trouble.is_some()),
            based_on: None,
            verdicts: Vec::new(),
        })
    }

    fn event(&self, _: &Transition) -> Option<Notice> {
        None
    }

    fn tolerates(&self, error: &write::Error) -> bool {
        let lacks = lacks_version(error);
        if lacks && !self.unnoted.swap(true, Ordering::Relaxed) {
            tracing::warn!(error = %chain(error), "clusters have no field for the version of a bundle; going on without it");
        }
        lacks
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.note(key, version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_that_has_no_field_is_left_out() {
        let lacks = |path: &str| {
            let message = format!(
                "failed to create typed patch object (team/prod; anywhere.eks.amazonaws.com/v1alpha1, Kind=Cluster): \
                 {path}: field not declared in schema"
            );
            let said = serde_json::json!({"code": 500, "message": message, "reason": "", "status": "Failure"});
            let source = Box::new(kube::Error::Api(Box::new(serde_json::from_value(said).unwrap())));
            lacks_version(&write::Error::Refused { verb: "report the status of", target: "Cluster".into(), source })
        };
        assert!(lacks(".status.resolvedBundles.eksaVersion"));
        assert!(!lacks(".status.cni"));
    }
}
