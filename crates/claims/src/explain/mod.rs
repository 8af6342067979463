//! Why a claim has the host it has, or has none: the yard's own judgement, told and not carried out.
//!
//! Everything here runs on what somebody read once with their own rights ([`Sight`]). Who may read hosts and policies gets
//! a verdict on every host; a tenant, who may not, gets the counts that the claim's own status carries.

mod fixes;
mod hosts;
mod sight;
mod tables;
mod tree;

use std::sync::Arc;

use api::key::ObjectKey;
use api::own::BAREMETAL;
use api::reasons::READY;
use api::reasons::claims::Reason;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kit::explain::{Candidate, Explanation, Fact, Level, Need, Next, Node, Object};

use crate::facts::{ClaimFacts, HostFacts};
use crate::standing::{Found, Standing, standing};
use crate::status::{ASSOCIATED, AUTHORIZED, PROVISIONED, SYNCHRONIZED, unbound_reason};
use crate::yard::{Unbound, Unfit};
pub use sight::{Lists, Part, Sight, Unseen};
pub use tables::{
    ClaimCounts, ClaimRow, ClaimTable, HostCounts, HostRow, HostSort, HostTable, claim_table, host_table,
};
pub use tree::tree;

/// Who does all of it.
const ROOM: &str = "claims";

/// How a claim stands with its host, as far as that can be seen.
enum Place {
    /// It has this one; what is known of it, where hosts can be read.
    At(ObjectKey, Option<Arc<HostFacts>>),
    /// It has something that was made for it, by this name.
    Made(String),
    /// It had one that ran something for it.
    Lost(ObjectKey),
    /// It has none, and a host is set aside for it.
    Offered(ObjectKey),
    /// It has none, for this reason.
    Without(Unbound),
    /// It has none, and only its own status says why.
    Told,
}

/// One claim, judged.
struct Case<'a> {
    sight: &'a Sight,
    key: ObjectKey,
    claim: Arc<ClaimFacts>,
    place: Place,
    /// Every host with what keeps it from the claim, the nearest misses first; empty where that cannot be judged.
    verdicts: Vec<(ObjectKey, Option<Unfit>)>,
    paused: bool,
    now: Timestamp,
}

impl<'a> Case<'a> {
    /// Judges a claim, and with `hosts` every single host beside it, which costs as much as there are hosts.
    fn new(sight: &'a mut Sight, key: &ObjectKey, now: Timestamp, hosts: bool) -> Option<Self> {
        let claim = Arc::clone(sight.claims.get(key)?);
        let paused = sight.is_paused(key, &claim);
        let judges = hosts && sight.judges_hosts();
        let place = place(sight, key, &claim, now);
        let waits = matches!(place, Place::Offered(_) | Place::Without(_));
        let verdicts = if judges && waits { hosts::verdicts(sight, key, now) } else { Vec::new() };
        Some(Self { sight, key: key.clone(), claim, place, verdicts, paused, now })
    }

    fn tenant(&self) -> &str {
        self.key.namespace().unwrap_or_default()
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.claim.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether something is to run on the host; what is made always runs something.
    fn deploys(&self) -> bool {
        let spec = &self.claim.spec;
        spec.image.is_some() || spec.custom_deploy.is_some() || spec.kind != BAREMETAL
    }
}

fn place(sight: &mut Sight, key: &ObjectKey, claim: &ClaimFacts, now: Timestamp) -> Place {
    let named = claim.status.bare_metal_host.as_ref().map(api::own::HostReference::key);
    if kit::explain::misses(&sight.unseen, &Part::Hosts) || claim.spec.kind != BAREMETAL {
        let made = claim.status.resource_id.clone().filter(|made| !made.is_empty()).map(Place::Made);
        return named.map(|host| Place::At(host, None)).or(made).unwrap_or(Place::Told);
    }
    let named_by = sight.consumed.get(key).into_iter().flatten();
    let found = |host: &ObjectKey| Some(Found { key: host.clone(), facts: Arc::clone(sight.hosts.get(host)?) });
    let found: Vec<Found> = named_by.filter_map(found).collect();
    match (standing(key, claim, &found), named) {
        (Standing::Bound { host, .. }, _) => return Place::At(host.key.clone(), Some(Arc::clone(&host.facts))),
        (Standing::Lost { deployed: true }, Some(host)) => return Place::Lost(host),
        _ => {}
    }
    if !sight.judges_hosts() {
        return Place::Told;
    }
    match sight.yard.offer(key) {
        Some(offer) => Place::Offered(offer.host),
        None => Place::Without(sight.yard.unbound(key, now)),
    }
}

/// Explains a claim; `None` when it was not read.
#[must_use]
pub fn explain(sight: &mut Sight, key: &ObjectKey, now: Timestamp) -> Option<Explanation> {
    Some(Case::new(sight, key, now, true)?.explanation())
}

/// Explains and draws a claim without a verdict on every host, for who looks at many claims at once; `None` when it was not
/// read.
#[must_use]
pub fn outline(sight: &mut Sight, key: &ObjectKey, now: Timestamp) -> Option<(Explanation, Node)> {
    let case = Case::new(sight, key, now, false)?;
    Some((case.explanation(), tree::drawn(&case)))
}

impl Case<'_> {
    fn explanation(&self) -> Explanation {
        let needs = self.needs();
        let (level, summary) = self.verdict(&needs);
        Explanation {
            object: Object::new("HostClaim", &self.key),
            level,
            summary,
            facts: self.facts(&needs),
            next: self.next(),
            fixes: fixes::fixes(self),
            needs,
            unseen: self.sight.unseen().map(|unseen| unseen.why.clone()).collect(),
        }
    }

    fn facts(&self, needs: &[Need]) -> Vec<Fact> {
        let fact = |name, value: String| Fact { name, value };
        let (spec, status) = (&self.claim.spec, &self.claim.status);
        let mut facts = vec![fact("kind", spec.kind.clone())];
        if let Some(image) = &spec.image {
            facts.push(fact("image", image.url.clone()));
        }
        if let Some(deploy) = &spec.custom_deploy {
            facts.push(fact("deploy method", deploy.method.clone()));
        }
        if spec.priority != 0 {
            facts.push(fact("priority", spec.priority.to_string()));
        }
        if let Some(is) = status.powered_on.filter(|is| *is != spec.wants_power()) {
            let wanted = on(Some(spec.wants_power()));
            facts.push(fact("power", format!("{wanted} wanted, {}", on(Some(is)))));
        }
        if let Some(causes) = self.causes(needs) {
            facts.push(fact("because", causes));
        }
        if status.conditions.is_empty() {
            facts.push(fact("status", "no operator has written one yet".to_owned()));
        }
        facts
    }

    /// From what a user waits for down to the root.
    fn causes(&self, needs: &[Need]) -> Option<String> {
        let need = needs.iter().find(|need| need.required && !matches!(need.level, Level::Ok | Level::Aside))?;
        let type_ = match need.name.as_str() {
            "configuration" => SYNCHRONIZED,
            "deployment" => PROVISIONED,
            _ => ASSOCIATED,
        };
        let mut chain = vec![format!("{READY} is not true"), format!("{type_} is not true")];
        chain.extend(need.reason.map(str::to_owned));
        match &self.place {
            Place::At(host, Some(facts)) => {
                let state = if facts.state.is_empty() { "not looked at" } else { &facts.state };
                let error = facts.error.as_deref().map(|class| format!(", {class}")).unwrap_or_default();
                chain.push(format!("host {host} is {state}{error}"));
            }
            Place::Without(_) => {
                let nearest = self.verdicts.first().and_then(|(host, unfit)| Some((host, (*unfit)?)));
                chain.extend(nearest.map(|(host, unfit)| format!("the nearest miss is {host}: {}", unfit.words())));
            }
            _ => {}
        }
        Some(chain.join(" ← "))
    }

    fn needs(&self) -> Vec<Need> {
        let mut needs = vec![self.host()];
        if matches!(self.place, Place::At(..) | Place::Made(_)) && !self.claim.deleting {
            needs.push(self.told("configuration", SYNCHRONIZED, "the host has not been told yet"));
            if self.deploys() {
                needs.push(self.told("deployment", PROVISIONED, "nothing is deployed yet"));
            }
            let revoked = self.condition(AUTHORIZED).filter(|condition| condition.status == "False");
            needs.extend(revoked.map(|condition| Need {
                name: "permission".to_owned(),
                level: Level::Problem,
                reason: known(&condition.reason),
                sentence: condition.message.clone(),
                ..Need::default()
            }));
        }
        needs
    }

    /// A need that the claim's own condition tells about.
    fn told(&self, name: &str, type_: &str, before: &str) -> Need {
        let need = Need { name: name.to_owned(), required: true, ..Need::default() };
        let Some(condition) = self.condition(type_) else {
            return Need { level: Level::Waiting, sentence: before.to_owned(), ..need };
        };
        let moving = [Reason::Provisioning, Reason::Deprovisioning, Reason::NotProvisioned];
        let level = match condition.status.as_str() {
            "True" => Level::Ok,
            "False" if moving.iter().any(|reason| reason.as_str() == condition.reason) => Level::Waiting,
            "False" => Level::Problem,
            _ => Level::Waiting,
        };
        Need { level, reason: known(&condition.reason), sentence: condition.message.clone(), ..need }
    }

    fn host(&self) -> Need {
        let need = Need { name: "host".to_owned(), required: true, ..Need::default() };
        let with = |level, reason: Reason, sentence: String| Need {
            level,
            reason: Some(reason.as_str()),
            sentence,
            facts: self.host_facts(),
            candidates: self.candidates(),
            ..need.clone()
        };
        match &self.place {
            _ if self.claim.deleting => self.leaving(need.clone()),
            Place::At(host, _) => {
                with(Level::Ok, Reason::BareMetalHostAssociated, format!("the claim has the host {host}"))
            }
            // A kind that makes its machines says with the condition how far it is.
            Place::Made(made) => match self.condition(ASSOCIATED).map(|condition| condition.status.as_str()) {
                Some("True") => {
                    Need { level: Level::Ok, sentence: format!("the claim has {made}"), ..self.hearsay(need.clone()) }
                }
                _ => self.hearsay(need.clone()),
            },
            Place::Lost(host) => with(
                Level::Problem,
                Reason::HostLost,
                format!("the host {host}, which ran this claim's image, is gone or in other hands"),
            ),
            _ if self.paused => with(
                Level::Aside,
                Reason::HostPaused,
                "no host is looked for while the claim or its cluster is paused".to_owned(),
            ),
            _ if self.claim.problem.is_some() => {
                let problem = self.claim.problem.as_deref().unwrap_or_default();
                with(Level::Problem, Reason::InvalidSelector, format!("the spec cannot be read: {problem}"))
            }
            Place::Offered(host) => with(
                Level::Waiting,
                Reason::HostSelected,
                format!("the host {host} fits, is set aside for the claim, and is about to be bound"),
            ),
            Place::Without(unbound) => with(self.patience(unbound), unbound_reason(unbound.why), unbound.text.clone()),
            Place::Told => self.hearsay(need.clone()),
        }
    }

    /// A claim that has no host and may get one without anybody's help.
    fn patience(&self, unbound: &Unbound) -> Level {
        let passing = |unfit: &Unfit| matches!(unfit, Unfit::NotAvailable | Unfit::CoolDown);
        let soon = unbound.why == crate::yard::Why::WaitingForReuseHost
            || unbound.reasons.iter().any(|(unfit, _)| passing(unfit));
        // Nobody but a person gives a tenant more room.
        if soon && unbound.why != crate::yard::Why::QuotaExceeded { Level::Waiting } else { Level::Problem }
    }

    /// What the claim's own status says about a claim without a host.
    fn hearsay(&self, need: Need) -> Need {
        let Some(condition) = self.condition(ASSOCIATED) else {
            let sentence = "no controller has looked at the claim yet".to_owned();
            return Need { level: Level::Unknown, sentence, ..need };
        };
        let counts = self.claim.status.unbound.iter().flat_map(|unbound| &unbound.reasons);
        let moving = counts
            .clone()
            .any(|entry| [Unfit::NotAvailable, Unfit::CoolDown].iter().any(|unfit| unfit.as_str() == entry.reason));
        let level = match condition.status.as_str() {
            "True" => Level::Ok,
            _ if moving && condition.reason != Reason::QuotaExceeded.as_str() => Level::Waiting,
            _ => Level::Problem,
        };
        let facts = counts.filter_map(|entry| Some(Fact { name: known(&entry.reason)?, value: count(entry.count) }));
        Need {
            level,
            reason: known(&condition.reason),
            sentence: condition.message.clone(),
            facts: facts.collect(),
            ..need
        }
    }

    fn leaving(&self, need: Need) -> Need {
        let host = match &self.place {
            Place::At(host, _) => Some(format!("the host {host}")),
            Place::Made(made) => Some(made.clone()),
            _ => None,
        };
        let Some(host) = host else {
            let sentence = "the claim is being deleted and has no host any more".to_owned();
            return Need { level: Level::Waiting, reason: Some(Reason::HostClaimDeleting.as_str()), sentence, ..need };
        };
        let condition = self.condition(ASSOCIATED).filter(|condition| condition.status != "True");
        let reason = condition.and_then(|condition| known(&condition.reason));
        let stuck = [Reason::HostClaimDeletionFailed, Reason::HostDetached].map(Reason::as_str);
        let level = if reason.is_some_and(|reason| stuck.contains(&reason)) { Level::Problem } else { Level::Waiting };
        let sentence =
            condition.map_or_else(|| format!("{host} is being given back"), |condition| condition.message.clone());
        Need {
            level,
            reason: reason.or(Some(Reason::HostClaimDeleting.as_str())),
            sentence,
            facts: self.host_facts(),
            ..need
        }
    }

    fn host_facts(&self) -> Vec<Fact> {
        let fact = |name, value: String| Fact { name, value };
        let Place::At(_, Some(host)) = &self.place else { return Vec::new() };
        let mut facts = vec![
            fact("state", if host.state.is_empty() { "not looked at yet".to_owned() } else { host.state.to_string() }),
            fact("power", on(host.powered_on).to_owned()),
        ];
        facts.extend(host.error.as_deref().map(|class| fact("error", class.to_owned())));
        facts
    }

    fn candidates(&self) -> Vec<Candidate> {
        let mut rank = 0;
        let candidate = |(key, unfit): &(ObjectKey, Option<Unfit>)| {
            if unfit.is_none() {
                rank += 1;
            }
            Candidate {
                object: Object::new("BareMetalHost", key),
                rank: unfit.is_none().then_some(rank),
                fails: unfit.map(Unfit::as_str),
                detail: hosts::detail(self, key, *unfit),
                free: None,
                total: None,
            }
        };
        self.verdicts.iter().map(candidate).collect()
    }

    /// How all of it stands, in one sentence.
    fn verdict(&self, needs: &[Need]) -> (Level, String) {
        for level in [Level::Unknown, Level::Problem, Level::Aside, Level::Waiting] {
            if let Some(need) = needs.iter().find(|need| need.required && need.level == level) {
                return (level, need.sentence.clone());
            }
        }
        let host = match &self.place {
            Place::At(host, _) => format!(" on host {host}"),
            Place::Made(made) => format!(": {made}"),
            _ => String::new(),
        };
        (Level::Ok, format!("the claim has what it asks for{host}"))
    }

    /// What the room would do next.
    fn next(&self) -> Vec<Next> {
        let next = |what: String| vec![Next { by: ROOM, what }];
        if self.paused || self.claim.spec.kind != BAREMETAL {
            return Vec::new();
        }
        match &self.place {
            Place::At(host, _) if self.claim.deleting => next(format!(
                "give {host} back as soon as it is clean; looks again at every change of the host, and once a minute"
            )),
            Place::At(..) | Place::Made(_) | Place::Lost(_) => Vec::new(),
            _ if self.claim.deleting => next("take its finalizer off the claim".to_owned()),
            Place::Offered(host) => next(format!("bind {host}")),
            Place::Without(_) | Place::Told => {
                let at = self.verdicts.iter().filter_map(|(host, unfit)| hosts::until(self, host, (*unfit)?)).min();
                let also = at.map(|at| format!(", and at {at:.0}, when a reservation or a cool-down ends"));
                next(format!(
                    "bind the first host that fits: looks again at every change of a host, policy, namespace or quota{}",
                    also.unwrap_or_default()
                ))
            }
        }
    }
}

/// The reason as the code spells it; none for one that is not ours.
fn known(reason: &str) -> Option<&'static str> {
    Reason::ALL.iter().map(|known| known.as_str()).find(|known| *known == reason)
}

fn on(power: Option<bool>) -> &'static str {
    match power {
        Some(true) => "on",
        Some(false) => "off",
        None => "not known",
    }
}

fn count(hosts: i32) -> String {
    if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") }
}
