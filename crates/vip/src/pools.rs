//! Which pools a cluster may take an address from, in which order, and why each other one may not be used.

use std::collections::BTreeMap;
use std::fmt;

use api::key::ObjectKey;

use crate::facts::{Pool, PoolName, entries};
use crate::names::{CLUSTER_CLASS, Family, NAMESPACE_SELECTOR, NAMESPACES, PRIORITY, ROLE, Role};

/// What an address is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search<'a> {
    /// The class of the cluster.
    pub class: &'a ObjectKey,
    /// The namespace of the cluster.
    pub namespace: &'a str,
    /// The labels of that namespace.
    pub namespace_labels: &'a BTreeMap<String, String>,
    /// What the address is for.
    pub role: Role,
    /// The family it must have.
    pub family: Option<Family>,
    /// The pool the user narrowed the choice to: `name` or `Kind/name`.
    pub pin: Option<&'a str>,
}

/// Why a pool may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Misfit {
    /// It does not name the class.
    Class,
    /// It does not name the role.
    Role,
    /// It does not serve the namespace.
    Namespace,
    /// The user narrowed the choice to another one.
    Pin,
    /// Its addresses have another family.
    Family,
    /// It is paused.
    Paused,
    /// It is being deleted.
    Deleting,
    /// It has no addresses at all.
    Empty,
}

impl Misfit {
    /// The criterion, in a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Role => "role",
            Self::Namespace => "namespace",
            Self::Pin => "pin",
            Self::Family => "family",
            Self::Paused => "paused",
            Self::Deleting => "deleting",
            Self::Empty => "empty",
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a pool names the class.
#[must_use]
pub fn names_class(pool: &Pool, class: &ObjectKey) -> bool {
    pool.facts.words(CLUSTER_CLASS).any(|word| match word.split_once('/') {
        Some((namespace, name)) => class.namespace() == Some(namespace) && (name == class.name() || name == "*"),
        None => word == "*" || word == class.name(),
    })
}

/// Whether a pool names the class and serves the namespace: then somebody who may has asked for addresses.
#[must_use]
pub fn concerns(pool: &Pool, search: &Search<'_>) -> bool {
    names_class(pool, search.class) && serves_namespace(pool, search)
}

/// The first criterion that a pool fails, in the order in which users think of them; none when it may be used.
#[must_use]
pub fn misfit(pool: &Pool, search: &Search<'_>) -> Option<Misfit> {
    let facts = &pool.facts;
    let checks = [
        (names_class(pool, search.class), Misfit::Class),
        (facts.words(ROLE).any(|word| word == search.role.as_str()), Misfit::Role),
        (serves_namespace(pool, search), Misfit::Namespace),
        (search.pin.is_none_or(|pin| is_pinned(&pool.name, pin)), Misfit::Pin),
        (search.family.is_none_or(|family| facts.family() == Some(family)), Misfit::Family),
        (!facts.paused, Misfit::Paused),
        (!facts.deleting, Misfit::Deleting),
        (!facts.ranges.is_empty() && facts.counts.as_ref().is_none_or(|c| c.total > 0), Misfit::Empty),
    ];
    checks.into_iter().find_map(|(fits, misfit)| (!fits).then_some(misfit))
}

/// Whether a pool could give an address for a role to some cluster of a class now.
#[must_use]
pub fn is_open(pool: &Pool, class: &ObjectKey, role: Role) -> bool {
    let facts = &pool.facts;
    names_class(pool, class)
        && facts.words(ROLE).any(|word| word == role.as_str())
        && !facts.paused
        && !facts.deleting
        && !facts.ranges.is_empty()
        && facts.has_capacity()
}

fn serves_namespace(pool: &Pool, search: &Search<'_>) -> bool {
    if let Some(namespace) = &pool.namespace {
        return **namespace == *search.namespace;
    }
    let annotations = &pool.facts.annotations;
    let named = annotations
        .get(NAMESPACES)
        .is_none_or(|list| entries(list).any(|entry| entry == "*" || entry == search.namespace));
    let selected = annotations.get(NAMESPACE_SELECTOR).is_none_or(|s| selects(s, search.namespace_labels));
    named && selected
}

/// Whether an equality selector (`a=b`, `a==b`, `a!=b`, joined by commas) holds; one that cannot be read selects nothing.
fn selects(selector: &str, labels: &BTreeMap<String, String>) -> bool {
    entries(selector).all(|term| {
        if let Some((key, value)) = term.split_once("!=") {
            return labels.get(key.trim()).map(String::as_str) != Some(value.trim());
        }
        match term.split_once("==").or_else(|| term.split_once('=')) {
            Some((key, value)) => labels.get(key.trim()).map(String::as_str) == Some(value.trim()),
            None => false,
        }
    })
}

fn is_pinned(pool: &PoolName, pin: &str) -> bool {
    match pin.split_once('/') {
        Some((kind, name)) => *pool.kind == *kind && *pool.name == *name,
        None => *pool.name == *pin,
    }
}

/// The pools that may be used, the best first: those with an address left, then by priority, then those of the namespace
/// before global ones, then by kind and name. Pools that were tried in vain come last; when all were, the round begins
/// again. Equal pools give equal orders, on every replica.
#[must_use]
pub fn order<'a>(pools: &'a [Pool], search: &Search<'_>, tried: &[PoolName]) -> Vec<&'a Pool> {
    let mut fit: Vec<&Pool> = pools.iter().filter(|pool| misfit(pool, search).is_none()).collect();
    let all_tried = fit.iter().all(|pool| tried.contains(&pool.name));
    fit.sort_by_cached_key(|pool| {
        let priority = pool.facts.annotations.get(PRIORITY).and_then(|p| p.trim().parse::<i64>().ok()).unwrap_or(0);
        let tried = !all_tried && tried.contains(&pool.name);
        let exhausted = !pool.has_room();
        (exhausted, tried, std::cmp::Reverse(priority), pool.namespace.is_none(), pool.name.clone())
    });
    fit
}

/// How many pools failed on which criterion, for people who look for a typo: `2 on class, 1 on role`.
#[must_use]
pub fn tally(pools: &[Pool], search: &Search<'_>) -> String {
    let mut counts: BTreeMap<Misfit, usize> = BTreeMap::new();
    for misfit in pools.iter().filter_map(|pool| misfit(pool, search)) {
        *counts.entry(misfit).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(misfit, count)| format!("{count} on {misfit}")).collect();
    if parts.is_empty() { "there is no pool at all".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
#[path = "pools_tests.rs"]
mod tests;
