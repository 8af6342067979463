//! How much work a choice is.

use claims::yard::{Settings, Yard};
use serde_json::json;

use super::build::*;

/// Hosts of which every tenth has the label that is asked for, and the mean number looked at for each of `claims`.
fn examined_per_bind(hosts: usize, claims: usize) -> f64 {
    let mut yard = Yard::new(Settings::default());
    yard.policy(&key("i/p"), Some(policy(json!({"hostClaimNamespaces": {}}))), at(0));
    yard.open(at(0));
    for number in 0..hosts {
        let name = format!("h{number}");
        let rack = if number % 10 == 0 { "wanted" } else { "other" };
        yard.host(&key(&format!("i/{name}")), Some(labelled(&name, json!({"rack": rack, "site": "a"}))), at(0));
    }
    let wish = json!({"hostSelector": {"matchLabels": {"rack": "wanted", "site": "a"}}});
    for number in 0..claims {
        let name = format!("t/c{number}");
        yard.claim(&key(&name), Some(claim(&name, 0, wish.clone())), at(0));
        let offer = yard.offer(&key(&name)).unwrap();
        yard.host(&offer.host.clone(), Some(used(offer.host.name(), &name)), at(0));
    }
    let effort = yard.effort();
    assert_eq!(effort.promises, claims as u64);
    effort.examined as f64 / claims as f64
}

#[test]
fn hosts_examined_per_bind_do_not_grow_with_the_number_of_hosts() {
    for hosts in [100, 1_000, 10_000] {
        let examined = examined_per_bind(hosts, 10);
        assert!(examined <= 2.0, "{examined} of {hosts}");
    }
}

#[test]
fn one_tenant_that_floods_costs_one_look_and_not_one_per_claim() {
    let mut yard = Yard::new(Settings::default());
    yard.policy(&key("i/p"), Some(policy(json!({"hostClaimNamespaces": {}}))), at(0));
    yard.quota("q", Some(quota(json!({"tenants": {"names": ["t"]}, "hard": {"hosts": 0}}))), at(0));
    yard.open(at(0));
    for number in 0..200 {
        yard.host(&key(&format!("i/h{number}")), Some(host(&format!("h{number}"), json!({}))), at(0));
    }
    for number in 0..500 {
        let name = format!("t/c{number}");
        yard.claim(&key(&name), Some(claim(&name, number, json!({}))), at(0));
    }
    let effort = yard.effort();
    assert_eq!((effort.promises, yard.waiting()), (0, 500));
    assert!(effort.examined <= 200, "{effort:?}");
    // A host event is tried once on the one wish they all have.
    let before = yard.effort().wishes_tried;
    yard.host(&key("i/new"), Some(host("new", json!({}))), at(1));
    assert_eq!(yard.effort().wishes_tried - before, 1);
}
