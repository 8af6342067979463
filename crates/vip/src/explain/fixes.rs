//! What a person can do about it, with the command where there is one.

use api::names::PAUSED_ANNOTATION;
use kit::explain::{Fix, quoted};

use super::Case;
use crate::facts::{Pool, PoolName};
use crate::names::{CLUSTER_CLASS, CONTROL_PLANE_ENABLED, NAMESPACE_SELECTOR, NAMESPACES, ROLE, Slot};
use crate::pools::Misfit;
use crate::survey::{INGRESS_PATIENCE, Stance, State, age};

use super::candidates::consider;

/// What a person can do, the most promising first.
pub(super) fn fixes(case: &Case<'_>) -> Vec<Fix> {
    let mut fixes = Vec::new();
    let out = matches!(case.survey.stance, Stance::Out(_));
    if let Stance::Out(_) = case.survey.stance {
        fixes.extend(of_stance(case));
    }
    fixes.extend(case.bad_setting.iter().map(|setting| Fix::say(format!("correct the ExtensionConfig: {setting}"))));
    for fault in &case.survey.faults {
        fixes.push(Fix::say(format!("correct {fault}")));
    }
    if case.survey.rival.is_some() {
        fixes.push(Fix::run(
            "choose another endpoint; it can only be changed while nothing has been made of the cluster",
            format!("kubectl edit clusters.cluster.x-k8s.io {}", place(case)),
        ));
    }
    for (slot, want) in &case.survey.wants {
        fixes.extend(of_state(case, *slot, &want.state, want.family));
    }
    if case.uncalled().is_some() && !out {
        fixes.push(Fix::run(
            "install the chart, or look at what Cluster API says about the registration",
            "kubectl get extensionconfigs.runtime.cluster.x-k8s.io -o yaml".to_owned(),
        ));
    }
    fixes
}

fn of_stance(case: &Case<'_>) -> Vec<Fix> {
    let cluster = &case.facts;
    if cluster.deleting {
        return Vec::new();
    }
    if cluster.paused {
        return vec![Fix::say("go on with the cluster: take away spec.paused and the annotation that pauses it")];
    }
    let Some(class) = &case.class else {
        return vec![Fix::say(format!(
            "give the cluster a topology, or run Berth with --enable-reconciler and annotate the Cluster with {CLUSTER_CLASS}"
        ))];
    };
    if cluster.annotation(CONTROL_PLANE_ENABLED) == Some("false") {
        let command = format!("kubectl annotate clusters.cluster.x-k8s.io {} {CONTROL_PLANE_ENABLED}-", place(case));
        return vec![Fix::run("take the opt-out off the Cluster", command)];
    }
    let opted_out = |class: &crate::facts::ClassFacts| {
        class.annotations.get(CONTROL_PLANE_ENABLED).is_some_and(|value| value == "false")
    };
    if case.scene.class.as_deref().is_some_and(opted_out) {
        let command = format!(
            "kubectl annotate clusterclass -n {} {} {CONTROL_PLANE_ENABLED}-",
            class.namespace().unwrap_or_default(),
            class.name()
        );
        return vec![Fix::run("take the opt-out off the class", command)];
    }
    no_pool(case, Slot::CONTROL_PLANE, None)
}

fn of_state(case: &Case<'_>, slot: Slot, state: &State, family: Option<crate::names::Family>) -> Vec<Fix> {
    let claim =
        format!("ipaddressclaim -n {} {}", case.key.namespace().unwrap_or_default(), slot.claim(case.key.name()));
    match state {
        State::NoPool { .. } => no_pool(case, slot, family),
        State::Exhausted { pools } => {
            let enlarge = pools.iter().map(|pool| {
                Fix::run(format!("add addresses to {pool}"), format!("kubectl edit {}", named(case, pool)))
            });
            enlarge.chain([another(case, slot)]).collect()
        }
        State::Foreign { .. } => vec![Fix::run(
            "see whose claim it is; delete it if nobody needs it, or give the cluster another name",
            format!("kubectl get {claim} -o yaml"),
        )],
        State::Conflict { address, .. } => {
            let pool = case.scene.claim(slot).and_then(|claim| claim.pool.as_ref());
            vec![exclude(case, pool, &address.to_string())]
        }
        State::Missing { shown } => {
            let pool = case.facts.annotation(crate::names::CONTROL_PLANE_POOL).and_then(PoolName::read);
            vec![exclude(case, pool.as_ref(), shown)]
        }
        State::Mismatch { held, shown } => vec![Fix::say(format!(
            "decide which address is right: if machines use {shown}, exclude it from the pool and delete the claim that holds {held}"
        ))],
        State::Leaving => vec![Fix::run(
            "if the claim stays, see which finalizer holds it and whether its controller runs",
            format!("kubectl get {claim} -o jsonpath='{{.metadata.finalizers}}'"),
        )],
        State::Waiting { .. } if waits_long(case, slot) => {
            vec![Fix::run("see whether the IPAM provider runs and what it says", format!("kubectl describe {claim}"))]
        }
        _ => Vec::new(),
    }
}

fn waits_long(case: &Case<'_>, slot: Slot) -> bool {
    case.scene.claim(slot).is_some_and(|claim| age(claim, case.scene.now) > INGRESS_PATIENCE)
}

/// The nearest miss can be corrected, or another pool be added.
fn no_pool(case: &Case<'_>, slot: Slot, family: Option<crate::names::Family>) -> Vec<Fix> {
    let Some(search) = case.search(slot, family) else { return Vec::new() };
    let considered = consider(&case.pools, &search, &[]);
    let nearest = considered.iter().find(|c| c.misfit.is_some() && reachable(case, c.pool));
    let mut fixes: Vec<Fix> = nearest.and_then(|c| correct(case, slot, c.pool, c.misfit?)).into_iter().collect();
    fixes.push(another(case, slot));
    fixes
}

/// A pool of another namespace can never serve this cluster.
fn reachable(case: &Case<'_>, pool: &Pool) -> bool {
    pool.namespace.as_deref().is_none_or(|namespace| Some(namespace) == case.key.namespace())
}

fn correct(case: &Case<'_>, slot: Slot, pool: &Pool, misfit: Misfit) -> Option<Fix> {
    let name = &pool.name;
    let target = named(case, name);
    Some(match misfit {
        Misfit::Class => {
            let class = case.class.as_ref()?.name();
            Fix::run(format!("let {name} serve the class {class}"), serve(pool, &target, CLUSTER_CLASS, class))
        }
        Misfit::Role => {
            let role = slot.role;
            Fix::run(format!("let {name} serve the role {role}"), serve(pool, &target, ROLE, role.as_str()))
        }
        Misfit::Namespace => {
            let namespace = case.key.namespace().unwrap_or_default();
            match pool.facts.annotations.get(NAMESPACES) {
                Some(list) if !pool.facts.annotations.contains_key(NAMESPACE_SELECTOR) => {
                    let list = join(crate::facts::entries(list), namespace);
                    let value = quoted(&format!("{NAMESPACES}={list}"));
                    let command = format!("kubectl annotate --overwrite {target} {value}");
                    Fix::run(format!("let {name} serve the namespace {namespace}"), command)
                }
                _ => Fix::say(format!(
                    "let {name} serve the namespace {namespace}: see its annotations {NAMESPACES} and {NAMESPACE_SELECTOR}"
                )),
            }
        }
        Misfit::Pin => {
            let pin = slot.role.pin();
            Fix::run(
                "do not insist on one pool",
                format!("kubectl annotate clusters.cluster.x-k8s.io {} {pin}-", place(case)),
            )
        }
        Misfit::Paused => {
            Fix::run(format!("go on with {name}"), format!("kubectl annotate {target} {PAUSED_ANNOTATION}-"))
        }
        Misfit::Empty => Fix::run(format!("add addresses to {name}"), format!("kubectl edit {target}")),
        Misfit::Family | Misfit::Deleting => return None,
    })
}

/// The command that adds a word to what a pool serves, without taking away what it serves already.
fn serve(pool: &Pool, target: &str, key: &str, word: &str) -> String {
    let present: Vec<&str> = pool.facts.words(key).collect();
    if present.is_empty() {
        return format!("kubectl label --overwrite {target} {}", quoted(&format!("{key}={word}")));
    }
    let list = quoted(&format!("{key}={}", join(present.into_iter(), word)));
    format!("kubectl annotate --overwrite {target} {list} && kubectl label --overwrite {target} {key}=true")
}

fn join<'a>(words: impl Iterator<Item = &'a str>, more: &'a str) -> String {
    words.chain([more]).collect::<Vec<_>>().join(",")
}

fn another(case: &Case<'_>, slot: Slot) -> Fix {
    let class = case.class.as_ref().map(|class| class.name()).unwrap_or_default();
    let role = slot.role;
    Fix::say(format!("or add a pool with the labels {CLUSTER_CLASS}={class} and {ROLE}={role}"))
}

fn exclude(case: &Case<'_>, pool: Option<&PoolName>, address: &str) -> Fix {
    let what = format!("exclude {address} from the pool (spec.excludedAddresses), so that nobody else gets it");
    match pool {
        Some(pool) => Fix::run(what, format!("kubectl edit {}", named(case, pool))),
        None => Fix::say(what),
    }
}

/// A pool as kubectl names it.
fn named(case: &Case<'_>, pool: &PoolName) -> String {
    let kind = pool.kind.to_lowercase();
    if *pool.kind == *crate::facts::POOL_KIND {
        return format!("{} -n {} {}", quoted(&kind), case.key.namespace().unwrap_or_default(), quoted(&pool.name));
    }
    format!("{} {}", quoted(&kind), quoted(&pool.name))
}

/// The cluster as kubectl names it.
fn place(case: &Case<'_>) -> String {
    format!("-n {} {}", case.key.namespace().unwrap_or_default(), case.key.name())
}
