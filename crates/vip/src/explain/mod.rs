//! Why a cluster has the addresses it has, or has none: the room's own judgement, told and not carried out.
//!
//! Everything here runs on what somebody read once with their own rights ([`Sight`]) through the same scene, survey and
//! decisions as the room itself. What could not be read is said, and nothing is concluded from it.

mod calls;
mod candidates;
mod fixes;
mod sight;
mod steps;
mod tree;

use std::sync::Arc;

use api::key::ObjectKey;
use api::views::Cluster;
use jiff::Timestamp;
use kit::explain::{Explanation, Fact, Level, Need, Object};

use crate::config::Config;
use crate::facts::{ClusterFacts, Pool, PoolName, World};
use crate::names::{INGRESS_ENABLED, Slot};
use crate::observe;
use crate::pools::{Search, tally};
use crate::scene::{Holding, Scene};
use crate::survey::{Stance, State, Survey, Want, class_of, search, survey};
use crate::words::{reason, rivalry, sentence};
use calls::Call;
use candidates::consider;
pub use kit::explain::Extent;
pub use sight::{Lists, Part, Sight, Unseen};
pub use tree::tree;

/// One cluster, judged.
struct Case<'a> {
    sight: &'a Sight,
    key: ObjectKey,
    facts: ClusterFacts,
    cluster: &'a Cluster,
    class: Option<ObjectKey>,
    scene: Scene,
    survey: Survey,
    pools: Vec<Pool>,
    call: Option<Call<'a>>,
    /// A setting of the registration that cannot be used: every call is refused.
    bad_setting: Option<String>,
}

impl<'a> Case<'a> {
    fn new(sight: &'a Sight, cluster: &'a Cluster, config: &Config, now: Timestamp) -> Self {
        let (world, key) = (&sight.world, ObjectKey::of(cluster));
        let facts = ClusterFacts::of(cluster.clone());
        let call = call(sight, &key, &facts, config);
        let mut bad_setting = None;
        let config = match &call {
            Some(Call::Made(registration)) => {
                config.with_settings(&registration.spec.settings).unwrap_or_else(|error| {
                    bad_setting = Some(error.to_string());
                    config.clone()
                })
            }
            _ => config.clone(),
        };
        let scene = observe::scene(world, &key, &facts, Arc::new(config), now);
        let survey = survey(&facts, &scene);
        let class = class_of(&facts, &key, scene.config.reconciler);
        Self { sight, key, cluster, class, survey, pools: observe::all_pools(world), call, bad_setting, facts, scene }
    }

    /// Whether Cluster API still asks before it goes on with this cluster.
    fn is_gated(&self) -> bool {
        self.facts.class.is_some() && self.scene.config.extension && !self.facts.rendered
    }

    /// Why nobody asks the hooks about this cluster, where they should be asked.
    fn uncalled(&self) -> Option<&str> {
        match &self.call {
            Some(Call::Missing(why)) if self.is_gated() => Some(why),
            _ => None,
        }
    }
}

fn call<'a>(sight: &'a Sight, key: &ObjectKey, facts: &ClusterFacts, config: &Config) -> Option<Call<'a>> {
    if facts.class.is_none() || !config.extension || sight.is_blind(Part::Extensions) {
        return None;
    }
    let namespace = key.namespace().unwrap_or_default();
    let labels = namespace_labels(&sight.world, namespace);
    Some(calls::find(&sight.extensions, &config.extension_name, namespace, &labels))
}

fn namespace_labels(world: &World, namespace: &str) -> Arc<std::collections::BTreeMap<String, String>> {
    match world.namespaces.get(&ObjectKey::cluster_scoped(namespace)) {
        kit::feed::Seen::At(labels) => labels,
        kit::feed::Seen::Absent | kit::feed::Seen::Behind => Arc::default(),
    }
}

/// Explains a cluster's addresses.
#[must_use]
pub fn explain(sight: &Sight, cluster: &Cluster, config: &Config, now: Timestamp) -> Explanation {
    let case = Case::new(sight, cluster, config, now);
    let needs = case.needs();
    let (level, summary) = case.verdict(&needs);
    Explanation {
        object: Object::new("Cluster", &case.key),
        level,
        summary,
        facts: case.told_facts(),
        next: if case.is_judged(&needs) { steps::next(&case) } else { Vec::new() },
        fixes: fixes::fixes(&case),
        needs,
        unseen: sight.unseen.iter().map(|unseen| unseen.why.clone()).collect(),
    }
}

impl Case<'_> {
    fn told_facts(&self) -> Vec<Fact> {
        let fact = |name, value: String| Fact { name, value };
        let mut facts = vec![fact("stance", self.stance())];
        if let Some(class) = &self.class {
            let known = self.scene.class.is_some() || self.sight.is_blind(Part::Classes);
            let missing = if known || self.facts.class.is_none() { "" } else { " (there is no such ClusterClass)" };
            facts.push(fact("class", format!("{class}{missing}")));
        }
        let endpoint = &self.facts.endpoint;
        facts.push(fact(
            "endpoint",
            match (endpoint.host.as_str(), endpoint.port) {
                ("", _) => "not set".to_owned(),
                (host, 0) => format!("{host}, without a port"),
                (host, port) if host.contains(':') => format!("[{host}]:{port}"),
                (host, port) => format!("{host}:{port}"),
            },
        ));
        let rendered = if self.facts.rendered { "Cluster API has made objects" } else { "nothing made yet" };
        if self.facts.class.is_some() {
            facts.push(fact("topology", rendered.to_owned()));
        }
        match &self.call {
            Some(Call::Made(registration)) => {
                let name = registration.metadata.name.as_deref().unwrap_or_default();
                facts.push(fact("hooks", format!("called through ExtensionConfig {name}")));
            }
            Some(Call::Missing(why)) => facts.push(fact("hooks", format!("not called: {why}"))),
            None => {}
        }
        facts
    }

    fn stance(&self) -> String {
        match self.survey.stance {
            Stance::Out(why) => format!("left alone: {why}"),
            Stance::Manual => "manual: the endpoint was chosen by hand".to_owned(),
            Stance::Pooled => "pooled: the endpoint is an address from a pool".to_owned(),
            Stance::VipOnly => "address only: the endpoint is the user's, the address comes from a pool".to_owned(),
        }
    }

    /// How all of it stands, in one sentence.
    fn verdict(&self, needs: &[Need]) -> (Level, String) {
        if let Stance::Out(why) = self.survey.stance {
            if self.sight.misses(Part::Pools) || self.sight.misses(Part::GlobalPools) {
                return (Level::Unknown, format!("as far as can be seen, Berth leaves this cluster alone: {why}"));
            }
            return (Level::Aside, format!("Berth leaves this cluster alone: {why}"));
        }
        if let Some(setting) = &self.bad_setting {
            return (Level::Problem, format!("every call about this cluster is refused: {setting}"));
        }
        if let Some(fault) = self.survey.faults.first() {
            return (Level::Problem, fault.to_string());
        }
        if let Some(rival) = &self.survey.rival {
            return (Level::Problem, rivalry(rival));
        }
        let worst = |level: Level| needs.iter().find(|need| need.required && need.level == level);
        for level in [Level::Unknown, Level::Problem] {
            if let Some(need) = worst(level) {
                return (level, need.sentence.clone());
            }
        }
        if let Some(why) = self.uncalled() {
            return (Level::Problem, format!("Berth is not asked about this cluster: {why}"));
        }
        if let Some(need) = worst(Level::Waiting) {
            return (Level::Waiting, need.sentence.clone());
        }
        if !self.survey.goal.reached(&self.facts) {
            return (Level::Waiting, "the address is about to be written to the Cluster".to_owned());
        }
        let host = &self.facts.endpoint.host;
        let text = match self.survey.stance {
            Stance::Manual => format!("the endpoint {host} was chosen by hand; no address is taken from a pool"),
            Stance::VipOnly => "the cluster has its addresses, and its endpoint is the user's".to_owned(),
            Stance::Pooled | Stance::Out(_) => format!("the cluster has its address {host}"),
        };
        (Level::Ok, text)
    }

    /// Whether everything was seen that the next steps are decided on.
    fn is_judged(&self, needs: &[Need]) -> bool {
        let blind = [Part::Claims, Part::Addresses].into_iter().any(|part| self.sight.is_blind(part));
        !blind && needs.iter().all(|need| need.level != Level::Unknown)
    }

    fn needs(&self) -> Vec<Need> {
        let mut needs: Vec<Need> = self.survey.wants.iter().map(|(slot, want)| self.need(*slot, want)).collect();
        match self.survey.stance {
            // A label that is misspelled is the usual cause, so the pools are shown all the same.
            Stance::Out(why) if self.class.is_some() && !self.facts.deleting => {
                needs.push(self.unwanted(Slot::CONTROL_PLANE, format!("not wanted: {why}")));
            }
            Stance::Out(_) => {}
            _ if !self.survey.wants.contains_key(&Slot::INGRESS) => needs.extend(self.no_ingress()),
            _ => {}
        }
        needs
    }

    fn no_ingress(&self) -> Option<Need> {
        let class = self.scene.class.as_ref();
        let of_class = || class.and_then(|class| class.annotations.get(INGRESS_ENABLED)).map(String::as_str);
        let told = self.facts.annotation(INGRESS_ENABLED).or_else(of_class).map(str::trim);
        match told {
            Some("false") => Some(self.unwanted(Slot::INGRESS, format!("switched off: {INGRESS_ENABLED} is false"))),
            None | Some("") => {
                let search = self.search(Slot::INGRESS, None)?;
                let tally = tally(&self.pools, &search);
                let text = format!("none is given, because no pool fits ({tally}) and the cluster does not insist");
                Some(self.unwanted(Slot::INGRESS, text))
            }
            Some(_) => None,
        }
    }

    fn search(&self, slot: Slot, family: Option<crate::names::Family>) -> Option<Search<'_>> {
        Some(search(&self.facts, self.class.as_ref()?, &self.scene, slot, family))
    }

    fn unwanted(&self, slot: Slot, sentence: String) -> Need {
        let candidates = self.search(slot, None).map(|search| self.candidates(slot, &search)).unwrap_or_default();
        Need { name: title(slot), level: Level::Aside, sentence, candidates, ..Need::default() }
    }

    fn need(&self, slot: Slot, want: &Want) -> Need {
        let mut need = Need {
            name: title(slot),
            level: level(&want.state),
            reason: Some(reason(&want.state).as_str()),
            sentence: sentence(slot, want, &self.scene),
            required: want.required,
            facts: self.holding_facts(slot, want),
            candidates: Vec::new(),
        };
        if let Some(search) = self.search(slot, want.family) {
            need.candidates = self.candidates(slot, &search);
        }
        if let Some(blindness) = self.blindness(slot, want) {
            (need.level, need.reason) = (Level::Unknown, None);
            need.sentence = format!("{blindness}, so nothing certain can be said about the {slot} address");
        }
        need
    }

    /// What would have to be seen to judge this address.
    fn blindness(&self, slot: Slot, want: &Want) -> Option<&'static str> {
        if self.sight.is_blind(Part::Claims) {
            return Some("claims cannot be read");
        }
        let given = self.scene.claim(slot).is_some_and(|claim| claim.address.is_some());
        if given && self.sight.is_blind(Part::Addresses) {
            return Some("addresses cannot be read");
        }
        let pools = self.sight.misses(Part::Pools) || self.sight.misses(Part::GlobalPools);
        let about_pools = matches!(
            want.state,
            State::NoPool { .. } | State::Exhausted { .. } | State::Stuck { .. } | State::Unclaimed { .. }
        );
        (pools && about_pools).then_some("not every pool can be read")
    }

    fn holding_facts(&self, slot: Slot, want: &Want) -> Vec<Fact> {
        let fact = |name, value: String| Fact { name, value };
        let mut facts = Vec::new();
        let name = slot.claim(self.key.name());
        let blind = self.sight.is_blind(Part::Claims);
        let there = match self.scene.holdings.contains_key(&slot) {
            true => "",
            false if blind => " (cannot be read)",
            false => " (not there)",
        };
        facts.push(fact("claim", format!("{}/{name}{there}", self.key.namespace().unwrap_or_default())));
        if let Some(address) = self.scene.bound(slot) {
            facts.push(fact("address", address.to_string()));
        }
        let asked = self.scene.claim(slot).and_then(|claim| claim.pool.as_ref());
        let pool = match &want.state {
            State::Unclaimed { pool, .. } if !blind => Some(pool),
            _ => asked,
        };
        facts.extend(pool.map(|pool| fact("pool", pool.to_string())));
        facts.extend(want.family.map(|family| fact("family", family.to_string())));
        if let State::Waiting { until: Some(until), .. } = want.state {
            facts.push(fact("next pool", format!("tried from {until:.0}")));
        }
        facts
    }

    fn candidates(&self, slot: Slot, search: &Search<'_>) -> Vec<kit::explain::Candidate> {
        let (asked, tried) = self.asked(slot);
        consider(&self.pools, search, &tried).iter().map(|c| c.tell(search, asked, &tried)).collect()
    }

    /// The pool that a claim asks, and those that are given up for now.
    fn asked(&self, slot: Slot) -> (Option<&PoolName>, Vec<PoolName>) {
        match self.scene.holdings.get(&slot) {
            Some(Holding::Claim { claim, .. }) => {
                let mut tried = claim.tried.clone();
                // A claim that waits at a pool in vain has tried it.
                if claim.address.is_none() {
                    tried.extend(claim.pool.clone());
                }
                (claim.pool.as_ref(), tried)
            }
            _ => (None, Vec::new()),
        }
    }
}

fn title(slot: Slot) -> String {
    format!("{slot} address")
}

fn level(state: &State) -> Level {
    match state {
        State::Bound { .. } => Level::Ok,
        State::Unclaimed { .. }
        | State::Unowned
        | State::Waiting { .. }
        | State::Stuck { .. }
        | State::Behind
        | State::Leaving => Level::Waiting,
        State::Exhausted { .. }
        | State::Foreign { .. }
        | State::NoPool { .. }
        | State::Conflict { .. }
        | State::Mismatch { .. }
        | State::Missing { .. } => Level::Problem,
    }
}
