//! What is said of a datacenter, from what was found of its zones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::own::anywhere::{CloudStackDatacenterConfigStatus, ResolvedZone};
use api::reasons::clusters::{CREDENTIALS_VALID, ENDPOINT_REACHABLE, Reason, VALID};
use api::status::find;
use jiff::Timestamp;
use kit::conditions::Verdict;
use kit::feed::Version;
use kit::write::Target;

use crate::acs::{Fault, Resolved};
use crate::admit::{datacenter_problem, is_paused};
use crate::decide::cut;
use crate::facts::DatacenterFacts;

/// After a definitive failure it is looked again this much later, if nothing changes before.
pub const AGAIN: Duration = Duration::from_secs(120);

/// What was found of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneResult {
    /// Its name.
    pub name: String,
    /// What it is, or its first fault.
    pub found: Result<Resolved, Fault>,
}

impl ZoneResult {
    /// Whether CloudStack took the keys of the zone and answered; of one that was not heard neither is known.
    fn is_heard(&self) -> bool {
        match &self.found {
            Ok(_) => true,
            Err(Fault::Definitive { heard, .. }) => *heard,
            Err(Fault::Passing { .. }) => false,
        }
    }

    /// What kept whoever asked from being heard, and will not pass by itself.
    fn silence(&self) -> Option<String> {
        match &self.found {
            Err(Fault::Definitive { message, kind: Some(_), heard: false, .. }) => Some(message.clone()),
            _ => None,
        }
    }

    /// Words with the zone that they are about.
    fn told(&self, message: &str) -> String {
        format!("availability zone \"{}\": {message}", self.name)
    }
}

/// Everything a judgement of a datacenter needs.
#[derive(Clone)]
pub struct Seeing {
    /// The datacenter.
    pub key: ObjectKey,
    /// The datacenter as something to write.
    pub target: Target,
    /// The time of the pass.
    pub now: Timestamp,
    /// The datacenter as it was seen.
    pub facts: Arc<DatacenterFacts>,
    /// The version at which it was seen.
    pub version: Version,
    /// Its status as stored.
    pub stored: CloudStackDatacenterConfigStatus,
    /// What was found of its zones; none when nobody asked.
    pub zones: Vec<ZoneResult>,
    /// The versions of its secrets when it was looked at before, and now.
    pub secrets: (Option<BTreeMap<String, String>>, BTreeMap<String, String>),
}

/// What follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It is left alone.
    Silent,
    /// Every zone can be used.
    Valid,
    /// Something has to be put right.
    Invalid {
        /// What.
        message: String,
        /// Whether keys or secrets are what is wrong.
        credentials: bool,
        /// Why CloudStack could not say something at present, besides.
        unreachable: Option<String>,
        /// How long it asked us to wait.
        at_least: Option<Duration>,
    },
    /// CloudStack cannot say at present.
    Unreachable {
        /// Why not.
        message: String,
        /// How long it asked us to wait.
        at_least: Option<Duration>,
    },
}

impl Seeing {
    /// Whether it is left alone.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let meta = &self.facts.object.metadata;
        meta.deletion_timestamp.is_some() || is_paused(meta)
    }

    /// What is wrong with it that can be seen without asking anybody.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let problem = self.facts.problem.as_deref().map(str::to_owned);
        problem.or_else(|| datacenter_problem(&self.facts.object))
    }

    /// What follows from what was found.
    #[must_use]
    pub fn outlook(&self) -> Outlook {
        if self.is_silent() {
            return Outlook::Silent;
        }
        if let Some(message) = self.problem() {
            return Outlook::Invalid { message: cut(&message), credentials: false, unreachable: None, at_least: None };
        }
        let mut messages: Vec<String> = Vec::new();
        let (mut keys, mut unreachable, mut pause) = (false, None, None);
        for zone in &self.zones {
            match &zone.found {
                Ok(_) => {}
                Err(Fault::Definitive { message, credentials, .. }) => {
                    keys |= credentials;
                    // What is wrong with a secret is told once, whoever names it.
                    let text = if message.starts_with("secret ") { message.clone() } else { zone.told(message) };
                    if !messages.contains(&text) {
                        messages.push(text);
                    }
                }
                Err(Fault::Passing { message, at_least, .. }) => {
                    unreachable.get_or_insert_with(|| zone.told(message));
                    pause = pause.max(*at_least);
                }
            }
        }
        if !messages.is_empty() {
            let message = cut(&messages.join("; "));
            return Outlook::Invalid { message, credentials: keys, unreachable, at_least: pause };
        }
        match unreachable {
            Some(message) => Outlook::Unreachable { message, at_least: pause },
            None => Outlook::Valid,
        }
    }

    /// Whether exactly this generation was found valid before.
    #[must_use]
    pub fn was_valid(&self) -> bool {
        let generation = self.facts.object.metadata.generation;
        self.stored.spec_valid == Some(true) && self.stored.observed_generation == generation
    }

    /// What is told of a datacenter that can be used: also what nobody could look at.
    fn validated(&self) -> String {
        let unsure = self.zones.iter().filter(|zone| zone.found.as_ref().is_ok_and(|found| !found.verified));
        let names: Vec<String> = unsure.map(|zone| format!("\"{}\"", zone.name)).collect();
        let meaning = Reason::Validated.meaning();
        if names.is_empty() {
            return meaning.to_owned();
        }
        format!("{meaning}; availability zone {}: domain path not verifiable", names.join(", "))
    }

    /// The status as it should be, and what is thought of each aspect.
    #[must_use]
    pub fn status(&self, outlook: &Outlook) -> Option<(CloudStackDatacenterConfigStatus, Vec<Verdict>)> {
        let mut next = self.stored.clone();
        let yes = |type_, reason: Reason| Verdict::yes(type_, reason.as_str(), reason.meaning());
        let no = |type_, reason: Reason, message: &str| Verdict::no(type_, reason.as_str(), message);
        let unknown = |type_| Verdict::unknown(type_, Reason::NotChecked.as_str(), Reason::NotChecked.meaning());
        let accepted = || yes(CREDENTIALS_VALID, Reason::CredentialsAccepted);
        let answers = || yes(ENDPOINT_REACHABLE, Reason::EndpointAnswers);
        let verdicts = match outlook {
            Outlook::Silent => return None,
            Outlook::Valid => {
                next.spec_valid = Some(true);
                next.failure_message.clear();
                next.availability_zones = self.zones.iter().filter_map(resolved).collect();
                vec![Verdict::yes(VALID, Reason::Validated.as_str(), self.validated()), accepted(), answers()]
            }
            Outlook::Invalid { message, credentials, unreachable, .. } => {
                next.spec_valid = Some(false);
                next.failure_message.clone_from(message);
                let heard = !self.zones.is_empty() && self.zones.iter().all(ZoneResult::is_heard);
                let keys = match (credentials, heard) {
                    (true, _) => no(CREDENTIALS_VALID, Reason::CredentialsInvalid, message),
                    (false, true) => accepted(),
                    (false, false) => unknown(CREDENTIALS_VALID),
                };
                let silence = || self.zones.iter().find_map(|zone| Some(zone.told(&zone.silence()?)));
                let reached = match unreachable.clone().or_else(silence) {
                    Some(why) => no(ENDPOINT_REACHABLE, Reason::EndpointUnreachable, &why),
                    None if heard && !*credentials => answers(),
                    None => unknown(ENDPOINT_REACHABLE),
                };
                vec![no(VALID, Reason::ValidationFailed, message), keys, reached]
            }
            Outlook::Unreachable { message, .. } => {
                let reached = no(ENDPOINT_REACHABLE, Reason::EndpointUnreachable, message);
                let was = |type_, otherwise: Verdict| match find(&self.stored.conditions, type_) {
                    Some(condition) if self.was_valid() && condition.status == "True" => {
                        if type_ == VALID {
                            Verdict::yes(VALID, Reason::Validated.as_str(), condition.message.clone())
                        } else {
                            accepted()
                        }
                    }
                    _ => otherwise,
                };
                if !self.was_valid() {
                    next.spec_valid = Some(false);
                    next.failure_message = cut(&format!("CloudStack API not reachable: {message}"));
                }
                let invalid = no(VALID, Reason::EndpointUnreachable, message);
                vec![was(VALID, invalid), was(CREDENTIALS_VALID, unknown(CREDENTIALS_VALID)), reached]
            }
        };
        let generation = self.facts.object.metadata.generation;
        let certain = !matches!(outlook, Outlook::Unreachable { .. });
        let same = next == self.stored && self.stored.observed_generation == generation;
        // A time that moved with every look would be a write with every look.
        if certain && !same {
            let now =
                self.now.round(jiff::TimestampRound::new().smallest(jiff::Unit::Second).mode(jiff::RoundMode::Floor));
            next.last_validated = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now.unwrap_or(self.now)));
        }
        Some((next, verdicts))
    }

    /// The secrets that were changed since it was looked at before.
    #[must_use]
    pub fn rotated(&self) -> Vec<&str> {
        let (before, now) = &self.secrets;
        let Some(before) = before else { return Vec::new() };
        now.iter()
            .filter(|(name, version)| before.get(*name).is_some_and(|old| old != *version))
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

fn resolved(zone: &ZoneResult) -> Option<ResolvedZone> {
    let found = zone.found.as_ref().ok()?;
    Some(ResolvedZone {
        name: zone.name.clone(),
        zone_id: found.place.zone.to_string(),
        domain_id: found.place.domain.as_ref().map(ToString::to_string).unwrap_or_default(),
        network_id: found.network.clone(),
        network_type: found.network_type.clone(),
    })
}

#[cfg(test)]
mod tests {
    use api::own::anywhere::CloudStackDatacenterConfig;
    use cloudstack::errors::Kind;
    use kit::conditions::State;
    use kit::kinds::Kind as Resource;
    use serde_json::json;

    use super::*;

    fn seeing(zones: Vec<ZoneResult>) -> Seeing {
        let key = ObjectKey::namespaced("n", "dc");
        let object = CloudStackDatacenterConfig::new("dc", Default::default());
        Seeing {
            target: Target {
                kind: Resource::of::<api::raw::CloudStackDatacenterConfig>(),
                key: key.clone(),
                uid: "u".into(),
            },
            key,
            now: Timestamp::UNIX_EPOCH,
            facts: Arc::new(DatacenterFacts { object, problem: None }),
            version: Version { uid: "u".into(), resource_version: "1".into() },
            stored: CloudStackDatacenterConfigStatus::default(),
            zones,
            secrets: (None, BTreeMap::new()),
        }
    }

    /// What is thought of the keys and of the endpoint, when these are the faults of the zones.
    fn thought(faults: Vec<Fault>) -> [(State, &'static str); 2] {
        let zone = |(number, fault): (usize, Fault)| ZoneResult { name: format!("az-{number}"), found: Err(fault) };
        let seeing = seeing(faults.into_iter().enumerate().map(zone).collect());
        let credentials = |zone: &ZoneResult| matches!(zone.found, Err(Fault::Definitive { credentials: true, .. }));
        let outlook = Outlook::Invalid {
            message: "m".to_owned(),
            credentials: seeing.zones.iter().any(credentials),
            unreachable: None,
            at_least: None,
        };
        let (_, verdicts) = seeing.status(&outlook).unwrap();
        [CREDENTIALS_VALID, ENDPOINT_REACHABLE].map(|type_| {
            let found = verdicts.iter().find(|verdict| verdict.type_ == type_).unwrap();
            (found.state, found.reason)
        })
    }

    /// However much of another zone is known for certain.
    #[test]
    fn who_is_asked_to_wait_waits() {
        let wait = |seconds| Some(Duration::from_secs(seconds));
        let passing = |at_least| Fault::Passing { message: "busy".to_owned(), at_least, kind: Kind::Throttled };
        let zone = |found| ZoneResult { name: "az".to_owned(), found: Err(found) };
        let mut seeing = seeing(vec![zone(passing(wait(70))), zone(passing(None)), zone(passing(wait(30)))]);
        let spec = json!({"availabilityZones": [{"name": "az", "credentialsRef": "global",
            "managementApiEndpoint": "https://cs.example/client/api",
            "zone": {"name": "zone-1", "network": {"name": "net-1"}}}]});
        let object = CloudStackDatacenterConfig::new("dc", serde_json::from_value(spec).unwrap());
        seeing.facts = Arc::new(DatacenterFacts { object, problem: None });
        for certain in [false, true] {
            if certain {
                seeing.zones.push(zone(Fault::definitive("zone \"a\" not found")));
            }
            let at_least = match seeing.outlook() {
                Outlook::Invalid { at_least, .. } if certain => at_least,
                Outlook::Unreachable { at_least, .. } if !certain => at_least,
                other => panic!("{other:?}"),
            };
            assert_eq!(at_least, wait(70));
        }
    }

    #[test]
    fn nothing_is_said_of_keys_and_servers_that_nobody_heard() {
        let accepted = (State::True, "CredentialsAccepted");
        let unknown = (State::Unknown, "NotChecked");
        let missing = || Fault::definitive("zone \"a\" not found");
        let untrusted = || Fault::Definitive {
            message: "listZones: no answer".to_owned(),
            credentials: false,
            kind: Some(Kind::Untrusted),
            heard: false,
        };
        let rows = [
            (vec![missing()], [accepted, (State::True, "EndpointAnswers")]),
            (vec![missing(), Fault::unasked("another address")], [unknown, unknown]),
            (vec![missing(), untrusted()], [unknown, (State::False, "EndpointUnreachable")]),
            (vec![Fault::credentials("no secret")], [(State::False, "CredentialsInvalid"), unknown]),
            (vec![], [unknown, unknown]),
        ];
        for (faults, wanted) in rows {
            assert_eq!(thought(faults.clone()), wanted, "{faults:?}");
        }
    }
}
