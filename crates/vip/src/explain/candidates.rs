//! Every pool, in the order the room would ask them, and why each other one cannot be asked.

use api::key::ObjectKey;
use api::names::PAUSED_ANNOTATION;
use kit::explain::{Candidate, Object};

use crate::facts::{Pool, PoolName};
use crate::names::{CLUSTER_CLASS, NAMESPACE_SELECTOR, NAMESPACES, PRIORITY, ROLE};
use crate::pools::{Misfit, Search, misfit, order};

/// A pool with what was found about it.
#[derive(Clone, Debug)]
pub struct Considered<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// The criterion it fails.
    pub misfit: Option<Misfit>,
    rank: Option<usize>,
}

/// Every pool: those that fit by their rank, then the others, the nearest misses first.
#[must_use]
pub fn consider<'a>(pools: &'a [Pool], search: &Search<'_>, tried: &[PoolName]) -> Vec<Considered<'a>> {
    let fit = order(pools, search, tried).into_iter().enumerate();
    let mut all: Vec<Considered<'a>> =
        fit.map(|(place, pool)| Considered { pool, misfit: None, rank: Some(place + 1) }).collect();
    let missing = pools.iter().filter_map(|pool| {
        let misfit = misfit(pool, search)?;
        Some(Considered { pool, misfit: Some(misfit), rank: None })
    });
    let mut missing: Vec<Considered<'a>> = missing.collect();
    // Criteria are checked in one order, so whoever fails a later one has passed the earlier ones.
    missing.sort_by_key(|c| (std::cmp::Reverse(c.misfit), c.pool.name.clone(), c.pool.namespace.clone()));
    all.extend(missing);
    all
}

/// The object of a pool.
#[must_use]
pub fn object(pool: &Pool) -> Object {
    let name = pool.name.name.as_ref();
    let key = match &pool.namespace {
        Some(namespace) => ObjectKey::namespaced(namespace.as_ref(), name),
        None => ObjectKey::cluster_scoped(name),
    };
    Object::new(pool.name.kind.as_ref(), &key)
}

/// How much of a pool is left, in words.
#[must_use]
pub fn left(pool: &Pool) -> String {
    match &pool.facts.counts {
        Some(counts) => format!("{} of {} free", counts.free, counts.total),
        None => "not counted yet".to_owned(),
    }
}

impl Considered<'_> {
    /// As it is told.
    #[must_use]
    pub fn tell(&self, search: &Search<'_>, asked: Option<&PoolName>, tried: &[PoolName]) -> Candidate {
        let counts = self.pool.facts.counts.as_ref();
        Candidate {
            object: object(self.pool),
            rank: self.rank,
            fails: self.misfit.map(Misfit::as_str),
            detail: match self.misfit {
                Some(misfit) => self.failure(misfit, search),
                None => self.place(asked, tried),
            },
            free: counts.map(|counts| counts.free),
            total: counts.map(|counts| counts.total),
        }
    }

    fn place(&self, asked: Option<&PoolName>, tried: &[PoolName]) -> String {
        let facts = &self.pool.facts;
        let mut words = Vec::new();
        if asked == Some(&self.pool.name) {
            words.push("asked by the claim".to_owned());
        } else if tried.contains(&self.pool.name) {
            words.push("tried before".to_owned());
        }
        if !facts.has_capacity() {
            words.push("no address left".to_owned());
        }
        if let Some(priority) = facts.annotations.get(PRIORITY) {
            words.push(match priority.trim().parse::<i64>() {
                Ok(priority) => format!("priority {priority}"),
                Err(_) => format!("priority `{priority}` is no number and counts as 0"),
            });
        }
        if words.is_empty() { "fits".to_owned() } else { format!("fits: {}", words.join(", ")) }
    }

    fn failure(&self, misfit: Misfit, search: &Search<'_>) -> String {
        let facts = &self.pool.facts;
        let list = |key: &str| facts.words(key).collect::<Vec<_>>().join(", ");
        match misfit {
            Misfit::Class => match list(CLUSTER_CLASS) {
                words if words.is_empty() => format!("names no class (label {CLUSTER_CLASS})"),
                words => format!("serves class {words}, not {}", search.class.name()),
            },
            Misfit::Role => match list(ROLE) {
                words if words.is_empty() => format!("names no role (label {ROLE})"),
                words => format!("serves role {words}, not {}", search.role),
            },
            Misfit::Namespace => match &self.pool.namespace {
                Some(namespace) => format!("serves only clusters in its own namespace {namespace}"),
                None => {
                    let says = |key: &str| facts.annotations.get(key).map(|value| format!("{key}: {value}"));
                    let said: Vec<String> = [NAMESPACES, NAMESPACE_SELECTOR].into_iter().filter_map(says).collect();
                    format!("does not serve namespace {} ({})", search.namespace, said.join("; "))
                }
            },
            Misfit::Pin => format!("the Cluster asks for pool {} only", search.pin.unwrap_or_default()),
            Misfit::Family => {
                let has = facts.family().map_or_else(|| "no".to_owned(), |family| family.to_string());
                let wanted = search.family.map(|family| family.to_string()).unwrap_or_default();
                format!("has {has} addresses, not {wanted}")
            }
            Misfit::Paused => format!("is paused (annotation {PAUSED_ANNOTATION})"),
            Misfit::Deleting => "is being deleted".to_owned(),
            Misfit::Empty => "has no addresses".to_owned(),
        }
    }
}
