//! A claim with its host and what was brought there for it.

use api::key::ObjectKey;
use jiff::Timestamp;
use kit::explain::{Level, Node, Object};

use super::{Case, Place, Sight, on};
use crate::facts::HostFacts;
use crate::parts::Part;
use crate::status::CONDITIONS;

/// A claim with its host, and the host's secrets; what is not as it should be says why. `None` when it was not read.
#[must_use]
pub fn tree(sight: &mut Sight, key: &ObjectKey, now: Timestamp) -> Option<Node> {
    // No host that the claim does not have is drawn.
    Some(drawn(&Case::new(sight, key, now, false)?))
}

/// The same of a claim that is judged already.
pub(super) fn drawn(case: &Case<'_>) -> Node {
    let (level, summary) = case.verdict(&case.needs());
    let mut children = conditions(case);
    if let Place::At(host, facts) = &case.place {
        children.push(bound(case, host, facts.as_deref()));
    }
    if let Place::Made(made) = &case.place {
        children.extend(self::made(case, made, level));
    }
    if let Place::Lost(host) = &case.place {
        children.push(Node::new(Object::new("BareMetalHost", host), Level::Problem, "gone or in other hands"));
    }
    Node::new(Object::new("HostClaim", &case.key), level, summary).with(children)
}

/// Conditions that do not hold, but should.
fn conditions(case: &Case<'_>) -> Vec<Node> {
    let aside = [crate::status::PAUSED, crate::status::MOVABLE, crate::status::AVAILABLE_FOR_PROVISIONING];
    let mut wanted = CONDITIONS.iter().filter(|type_| !aside.contains(*type_) && **type_ != api::reasons::READY);
    let unbound = !matches!(case.place, Place::At(..) | Place::Made(_));
    let node = |type_: &&str| {
        // Without a host nothing else can hold.
        if unbound && **type_ != *crate::status::ASSOCIATED {
            return None;
        }
        let condition = case.condition(type_).filter(|condition| condition.status != "True")?;
        if **type_ == *crate::status::PROVISIONED && !case.deploys() {
            return None;
        }
        let level = if condition.status == "False" { Level::Problem } else { Level::Unknown };
        let note = format!("{}: {}", condition.reason, condition.message);
        Some(Node::new(Object::new("Condition", &ObjectKey::cluster_scoped(condition.type_.as_str())), level, note))
    };
    wanted.by_ref().filter_map(node).collect()
}

/// What was made for the claim, by the names that its kind gives to the parts.
fn made(case: &Case<'_>, made: &str, level: Level) -> Vec<Node> {
    let kinds: &[&str] = match case.claim.spec.kind.as_str() {
        "aws-dedicated-host" => &["DedicatedHost", "Instance"],
        "cloudstack-vm" => &["VirtualMachine"],
        _ => &[],
    };
    let parts: Vec<&str> = made.split('/').collect();
    let named = if kinds.len() == parts.len() { kinds.to_vec() } else { vec!["Resource"] };
    let parts = if named.len() == parts.len() { parts } else { vec![made] };
    let power = case.claim.status.powered_on.map(|is| format!("power {}", on(Some(is)))).unwrap_or_default();
    let last = named.len().saturating_sub(1);
    let node = |(number, (kind, name)): (usize, (&str, &str))| {
        let note = if number == last { power.clone() } else { String::new() };
        Node::new(Object::new(kind, &ObjectKey::cluster_scoped(name)), level, note)
    };
    named.into_iter().zip(parts).enumerate().map(node).collect()
}

fn bound(case: &Case<'_>, key: &ObjectKey, host: Option<&HostFacts>) -> Node {
    let object = Object::new("BareMetalHost", key);
    let Some(host) = host else { return Node::new(object, Level::Unknown, "cannot be read") };
    let state = if host.state.is_empty() { "not looked at yet" } else { &host.state };
    let (level, note) = match host.error.as_deref() {
        Some(class) => (Level::Problem, format!("{state}, {class}")),
        None => (Level::Ok, format!("{state}, power {}", on(host.powered_on))),
    };
    let secrets = Part::ALL.into_iter().filter_map(|part| {
        let named = match part {
            Part::Pull => host.image.as_ref()?.oci_auth_secret.as_deref(),
            _ => host.data(part).map(|secret| &*secret.name),
        }?;
        let secret = ObjectKey::namespaced(key.namespace().unwrap_or_default(), named);
        let copy = named == part.copy(key.name(), &case.claim.uid);
        let note = if copy { format!("copy of the {part}") } else { part.to_string() };
        Some(Node::new(Object::new("Secret", &secret), Level::Ok, note))
    });
    Node::new(object, level, note).with(secrets.collect())
}
