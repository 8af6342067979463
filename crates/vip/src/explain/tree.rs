//! A cluster with its claims, their addresses and pools.

use api::key::ObjectKey;
use api::views::Cluster;
use jiff::Timestamp;
use kit::explain::{Level, Need, Node, Object};

use super::candidates::{left, object};
use super::{Case, Part, Sight, title};
use crate::config::Config;
use crate::facts::{CONTROL_PLANE_VIP_READY, INGRESS_VIP_READY, POOL_KIND, PoolName};
use crate::names::Slot;
use crate::scene::Holding;

/// Conditions of a Cluster that say something about its addresses.
const CONDITIONS: [&str; 3] = ["TopologyReconciled", CONTROL_PLANE_VIP_READY, INGRESS_VIP_READY];

/// A cluster with what its addresses hang on; what is not as it should be says why.
#[must_use]
pub fn tree(sight: &Sight, cluster: &Cluster, config: &Config, now: Timestamp) -> Node {
    let case = Case::new(sight, cluster, config, now);
    let needs = case.needs();
    let (level, summary) = case.verdict(&needs);
    let mut children = conditions(&case);
    for slot in Slot::ALL {
        let need = needs.iter().find(|need| need.name == title(slot));
        children.extend(claim(&case, slot, need));
    }
    Node::new(Object::new("Cluster", &case.key), level, summary).with(children)
}

fn conditions(case: &Case<'_>) -> Vec<Node> {
    let all = &case.cluster.status.conditions;
    let node = |type_: &&str| {
        let condition = all.get(type_).filter(|condition| condition.status != "True")?;
        let note = match condition.message.as_str() {
            "" => condition.reason.clone(),
            message => format!("{}: {message}", condition.reason),
        };
        let level = if condition.status == "False" { Level::Problem } else { Level::Unknown };
        Some(Node::new(Object::new("Condition", &ObjectKey::cluster_scoped(condition.type_.as_str())), level, note))
    };
    CONDITIONS.iter().filter_map(node).collect()
}

/// The claim of a slot; one that nobody wants and nobody made is not shown.
fn claim(case: &Case<'_>, slot: Slot, need: Option<&Need>) -> Option<Node> {
    let wanted = need.filter(|need| need.level != Level::Aside);
    let namespace = case.key.namespace().unwrap_or_default();
    let key = ObjectKey::namespaced(namespace, slot.claim(case.key.name()));
    let claim = Object::new("IPAddressClaim", &key);
    let holding = case.scene.holdings.get(&slot);
    let Some(Holding::Claim { claim: facts, address }) = holding else {
        let need = wanted?;
        return Some(Node::new(claim, need.level, format!("not there: {}", need.sentence)));
    };
    let (level, note) = match wanted {
        Some(need) if need.level == Level::Ok => (Level::Ok, need.name.clone()),
        Some(need) => (need.level, need.sentence.clone()),
        None if facts.deleting => (Level::Aside, "is being deleted".to_owned()),
        None => (Level::Aside, "the cluster does not use it".to_owned()),
    };
    let pool: Vec<Node> = facts.pool.iter().map(|name| pool(case, name)).collect();
    let children = match (&facts.address, address) {
        (Some(name), found) => {
            let object = Object::new("IPAddress", &ObjectKey::namespaced(namespace, name.as_ref()));
            let shown = found.as_ref().and_then(|address| address.address);
            let node = match shown {
                Some(address) => Node::new(object, Level::Ok, address.to_string()),
                None if case.sight.is_blind(Part::Addresses) => Node::new(object, Level::Unknown, "cannot be read"),
                None => Node::new(object, Level::Waiting, "not there"),
            };
            vec![node.with(pool)]
        }
        (None, _) => pool,
    };
    Some(Node::new(claim, level, note).with(children))
}

fn pool(case: &Case<'_>, name: &PoolName) -> Node {
    let own = *name.kind == *POOL_KIND;
    let here = case.key.namespace();
    let found = case.pools.iter().find(|pool| pool.name == *name && (!own || pool.namespace.as_deref() == here));
    if let Some(pool) = found {
        let level = if pool.facts.has_capacity() { Level::Ok } else { Level::Problem };
        return Node::new(object(pool), level, left(pool));
    }
    let key = match here {
        Some(namespace) if own => ObjectKey::namespaced(namespace, name.name.as_ref()),
        _ => ObjectKey::cluster_scoped(name.name.as_ref()),
    };
    let blind = case.sight.misses(if own { Part::Pools } else { Part::GlobalPools });
    let (level, note) = if blind { (Level::Unknown, "cannot be read") } else { (Level::Problem, "does not exist") };
    Node::new(Object::new(name.kind.as_ref(), &key), level, note)
}
