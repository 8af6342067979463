//! Looks after datacenters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::own::anywhere::{AvailabilityZone, CloudStackDatacenterConfigStatus};
use api::reasons::clusters::{Reason, VALID};
use jiff::Timestamp;
use kit::clock::Clock;
use kit::conditions::{State, Transition};
use kit::events::Events;
use kit::feed::{Seen, Version};
use kit::room::{Flow, Notice, Pace, Report, Room, Trouble, Violation};
use kit::write::{Target, Writer};

use super::judge::{AGAIN, Outlook, Seeing, ZoneResult};
use crate::acs::{Clouds, Fault, Shelf};
use crate::config::Config;
use crate::facts::World;
use crate::observe::CLOUD;
use crate::room::{Error, read};
use crate::secrets;
use cloudstack::errors::Kind;

/// One effect, or a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Says that secrets were changed and are used as they are now.
    Welcome {
        /// Their names.
        secrets: Vec<String>,
    },
    /// Ends the pass as failed, to be tried again.
    Fail {
        /// Why.
        message: String,
        /// How long to wait at least.
        at_least: Option<Duration>,
    },
    /// Waits.
    Wait {
        /// Until then.
        until: Option<Timestamp>,
    },
}

/// Looks after datacenters.
pub struct Surveyor<C: Clouds> {
    pub(crate) world: World,
    pub(crate) config: Arc<Config>,
    pub(crate) shelf: Arc<Shelf<C>>,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) clock: Clock,
    /// The versions of secrets that datacenters were looked at with.
    pub(crate) versions: Mutex<BTreeMap<ObjectKey, BTreeMap<String, String>>>,
}

impl<C: Clouds> Surveyor<C> {
    async fn zones(&self, seeing: &Seeing) -> Result<(Vec<ZoneResult>, BTreeMap<String, String>), Error> {
        let zones = &seeing.facts.object.spec.availability_zones;
        let namespace = self.config.system_namespace();
        let policy = self.shelf.clouds().policy();
        let profiles = secrets::read(self.writer.client(), namespace, zones, policy).await;
        let profiles = profiles.map_err(read(|| format!("Secrets in {namespace}")))?;
        let (several, read) = (zones.len() > 1, &profiles);
        let checks = zones.iter().map(|zone| async move {
            let found = match secrets::of_zone(read, zone, policy) {
                Ok(credentials) => {
                    let answer = self.shelf.zone(credentials, zone, several).await;
                    answer.map_err(|fault| secrets::refused(credentials, fault))
                }
                Err(fault) => Err(fault),
            };
            ZoneResult { name: zone.name.clone(), found }
        });
        let late = || {
            let message = "it takes too long to answer".to_owned();
            let fault = |zone: &AvailabilityZone| ZoneResult {
                name: zone.name.clone(),
                found: Err(Fault::Passing { message: message.clone(), at_least: None, kind: Kind::Transport }),
            };
            zones.iter().map(fault).collect()
        };
        let results = tokio::time::timeout(CLOUD, futures::future::join_all(checks)).await;
        let results = results.unwrap_or_else(|_| late());
        let versions = profiles.iter().filter_map(|(name, read)| {
            let read = read.as_ref().ok()?;
            Some((name.clone(), read.version.clone()))
        });
        Ok((results, versions.collect()))
    }
}

impl<C: Clouds> Room for Surveyor<C> {
    const NAME: &'static str = "clusters-datacenters";
    const PACE: Pace = Pace::USUAL;
    type Key = ObjectKey;
    type Snapshot = Seeing;
    type Step = Step;
    type Status = CloudStackDatacenterConfigStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Seeing>, Error> {
        let facts = match self.world.datacenters.get(key) {
            Seen::At(facts) => facts,
            Seen::Absent => {
                self.versions.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
                return Ok(None);
            }
            Seen::Behind => return Err(Error::Behind),
        };
        let version = self.world.datacenters.version(key, &facts).ok_or(Error::Behind)?;
        let uid = facts.object.metadata.uid.clone().unwrap_or_default();
        let mut seeing = Seeing {
            key: key.clone(),
            target: Target { kind: self.world.datacenters.kind(), key: key.clone(), uid: uid.into() },
            now,
            stored: facts.status(),
            facts,
            version,
            zones: Vec::new(),
            secrets: (None, BTreeMap::new()),
        };
        if seeing.is_silent() || seeing.problem().is_some() {
            return Ok(Some(seeing));
        }
        let (zones, versions) = self.zones(&seeing).await?;
        let mut known = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.insert(key.clone(), versions.clone());
        drop(known);
        seeing.zones = zones;
        seeing.secrets = (before, versions);
        Ok(Some(seeing))
    }

    fn decide(&self, seeing: &Seeing) -> Vec<Step> {
        let mut steps = Vec::new();
        let rotated: Vec<String> = seeing.rotated().into_iter().map(str::to_owned).collect();
        if !rotated.is_empty() {
            steps.push(Step::Welcome { secrets: rotated });
        }
        let after = |time: Duration| seeing.now.saturating_add(time).ok();
        steps.push(match seeing.outlook() {
            Outlook::Silent => Step::Wait { until: None },
            Outlook::Valid => {
                let period = self.config.datacenter_resync;
                // Up to a fifth more, so that many do not ask together; never more often than was said.
                Step::Wait { until: after(period + self.clock.jitter(period / 5)) }
            }
            Outlook::Invalid { unreachable: None, .. } => Step::Wait { until: after(AGAIN) },
            Outlook::Invalid { unreachable: Some(message), at_least, .. }
            | Outlook::Unreachable { message, at_least } => {
                let least = Duration::from_secs(10);
                Step::Fail { message, at_least: Some(at_least.unwrap_or(least).max(least)) }
            }
        });
        steps
    }

    fn guard(&self, _: &Seeing, _: &[Step]) -> Result<(), Violation> {
        // Nothing but the status is ever written.
        Ok(())
    }

    async fn apply(&self, seeing: &Seeing, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Welcome { secrets } => {
                let message = format!("secret {} is used as it is now", secrets.join(", "));
                self.events.say(&seeing.target, false, Reason::CredentialsRotated.as_str(), &message).await;
                Ok(Flow::Next)
            }
            Step::Fail { message, at_least } => Err(Error::Outside { message, at_least }),
            Step::Wait { until } => Ok(Flow::Wait(until)),
        }
    }

    fn report<'s>(
        &self,
        seeing: &'s Seeing,
        _: Option<&Trouble<Error>>,
    ) -> Option<Report<'s, CloudStackDatacenterConfigStatus>> {
        let (next, verdicts) = seeing.status(&seeing.outlook())?;
        Some(Report {
            target: seeing.target.clone(),
            generation: seeing.facts.object.metadata.generation.unwrap_or_default(),
            stored: &seeing.stored,
            next,
            based_on: None,
            verdicts,
        })
    }

    fn event(&self, transition: &Transition) -> Option<Notice> {
        (transition.type_ == VALID).then(|| Notice { reason: transition.reason, warning: transition.to != State::True })
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.world.datacenters.wrote(key, version);
    }
}
