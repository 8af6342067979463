//! Plain stories.

use std::collections::BTreeSet;
use std::time::Duration;

use claims::names::{avoid_annotation, reuse_value};
use claims::yard::{Ageing, HostOrder, Settings, Unfit, Why, Yard};
use serde_json::json;

use super::build::*;

/// An open yard in which tenants t1 and t2 may have the hosts of namespace i.
pub fn yard() -> Yard {
    yard_with(Settings::default())
}

fn yard_with(settings: Settings) -> Yard {
    let mut yard = Yard::new(settings);
    yard.policy(&key("i/p"), Some(admits(&["t1", "t2"])), at(0));
    yard.open(at(0));
    yard
}

pub fn offered(yard: &Yard, claim: &str) -> Option<String> {
    yard.offer(&key(claim)).map(|offer| offer.host.to_string())
}

/// Binds the host that a claim is offered, and says which it was.
pub fn bind(yard: &mut Yard, claim: &str, now: i64) -> String {
    let host = offered(yard, claim).unwrap();
    yard.host(&key(&host), Some(used(key(&host).name(), claim)), at(now));
    host
}

#[test]
fn nothing_is_promised_before_everything_is_known() {
    let mut yard = Yard::new(Settings::default());
    assert_eq!(yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(0)), []);
    assert_eq!(yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0)), []);
    yard.policy(&key("i/p"), Some(admits(&["t1"])), at(0));
    assert_eq!(offered(&yard, "t1/a"), None);
    assert_eq!(yard.open(at(1)), [key("t1/a")]);
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h1"));
    assert_eq!(yard.open(at(2)), []);
}

#[test]
fn a_host_that_becomes_free_goes_to_the_claim_that_waits_for_it() {
    let mut yard = yard();
    yard.host(&key("i/h1"), Some(used("h1", "t2/x")), at(0));
    assert_eq!(yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(1)), []);
    assert_eq!(yard.waiting(), 1);
    let looked = yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(2));
    assert_eq!(looked, [key("t1/a"), key("t2/x")], "who got it, and who had it");
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h1"));
    let looked = yard.host(&key("i/h1"), Some(used("h1", "t1/a")), at(3));
    assert_eq!(looked, [key("t1/a")]);
    assert_eq!((offered(&yard, "t1/a"), yard.held("t1", "a")), (None, vec![key("i/h1")]));
    assert_eq!(yard.held("t1", "b"), []);
}

#[test]
fn a_promised_host_is_promised_once_and_stays_promised_while_it_only_reports() {
    let mut yard = yard();
    yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    yard.claim(&key("t2/b"), Some(claim("t2/b", 0, json!({}))), at(0));
    assert_eq!((offered(&yard, "t1/a").as_deref(), offered(&yard, "t2/b")), (Some("i/h1"), None));
    yard.host(&key("i/h1"), Some(host("h1", json!({"status": {"poweredOn": false}}))), at(1));
    assert_eq!((offered(&yard, "t1/a").as_deref(), offered(&yard, "t2/b")), (Some("i/h1"), None));
    // Somebody else took it: the promise is void, and nothing else is free.
    let looked = yard.host(&key("i/h1"), Some(used("h1", "t2/z")), at(2));
    assert_eq!(looked, [key("t1/a"), key("t2/z")]);
    assert_eq!((offered(&yard, "t1/a"), yard.waiting()), (None, 2));
}

#[test]
fn a_claim_that_goes_leaves_its_host_to_the_next() {
    let mut yard = yard();
    yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    yard.claim(&key("t2/b"), Some(claim("t2/b", 1, json!({}))), at(0));
    assert_eq!(yard.claim(&key("t1/a"), None, at(1)), [key("t2/b")]);
    assert_eq!(offered(&yard, "t2/b").as_deref(), Some("i/h1"));
    for changes in [
        json!({"metadata": {"deletionTimestamp": at(3).to_string()}}),
        json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}),
        json!({"spec": {"kind": "cloudstack-vm"}}),
        json!({"spec": {"hostSelector": {"matchExpressions": [{"key": "a", "operator": "like", "values": []}]}}}),
        json!({"spec": {"poweredOn": "yes"}}),
        json!({"status": {"bareMetalHost": {"namespace": "i", "name": "h9"}}}),
    ] {
        yard.claim(&key("t2/b"), Some(object_claim("t2/b", 1, changes.clone())), at(3));
        assert_eq!(offered(&yard, "t2/b"), None, "{changes}");
        yard.claim(&key("t2/b"), Some(claim("t2/b", 1, json!({}))), at(4));
        assert_eq!(offered(&yard, "t2/b").as_deref(), Some("i/h1"), "{changes}");
    }
    yard.rest(&key("t2/b"), true, at(5));
    assert_eq!((offered(&yard, "t2/b"), yard.waiting()), (None, 0));
    assert_eq!(yard.rest(&key("t2/b"), false, at(6)), [key("t2/b")]);
}

#[test]
fn two_tenants_that_wait_get_hosts_alternately() {
    let mut yard = yard();
    // The first tenant asks for all before the second asks at all.
    for number in 0..6 {
        yard.claim(&key(&format!("t1/a{number}")), Some(claim(&format!("t1/a{number}"), number, json!({}))), at(0));
    }
    for number in 0..6 {
        yard.claim(
            &key(&format!("t2/b{number}")),
            Some(claim(&format!("t2/b{number}"), 50 + number, json!({}))),
            at(0),
        );
    }
    let mut order = Vec::new();
    for number in 0..8 {
        let name = format!("h{number}");
        let woken = yard.host(&key(&format!("i/{name}")), Some(host(&name, json!({}))), at(100 + number));
        assert_eq!(woken.len(), 1);
        bind(&mut yard, &woken[0].to_string(), 100 + number);
        order.push(woken[0].to_string());
    }
    assert_eq!(order, ["t1/a0", "t2/b0", "t1/a1", "t2/b1", "t1/a2", "t2/b2", "t1/a3", "t2/b3"]);
}

#[test]
fn hosts_that_are_there_at_the_start_are_shared_alternately_too() {
    let mut yard = Yard::new(Settings::default());
    yard.policy(&key("i/p"), Some(admits(&["t1", "t2"])), at(0));
    for number in 0..10 {
        yard.claim(&key(&format!("t1/a{number}")), Some(claim(&format!("t1/a{number}"), number, json!({}))), at(0));
    }
    yard.claim(&key("t2/b0"), Some(claim("t2/b0", 50, json!({}))), at(0));
    yard.claim(&key("t2/b1"), Some(claim("t2/b1", 51, json!({}))), at(0));
    for number in 0..4 {
        yard.host(&key(&format!("i/h{number}")), Some(host(&format!("h{number}"), json!({}))), at(0));
    }
    let got: Vec<String> = yard.open(at(1)).iter().map(ToString::to_string).collect();
    assert_eq!(got, ["t1/a0", "t1/a1", "t2/b0", "t2/b1"]);
}

#[test]
fn priority_goes_first_and_is_bounded_by_the_quota() {
    let mut yard = yard();
    yard.claim(&key("t1/old"), Some(claim("t1/old", 0, json!({}))), at(0));
    yard.claim(&key("t1/new"), Some(claim("t1/new", 9, json!({"priority": 5}))), at(9));
    assert_eq!(yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(10)), [key("t1/new")]);
    bind(&mut yard, "t1/new", 11);
    yard.claim(&key("t2/loud"), Some(claim("t2/loud", 20, json!({"priority": 100}))), at(20));
    // A bound makes all loud claims of the tenant equal to the others.
    let bound = json!({"tenants": {"names": ["t2"]}, "hard": {"hosts": 5}, "maxPriority": 0});
    yard.quota("q", Some(quota(bound)), at(21));
    yard.claim(&key("t1/mid"), Some(claim("t1/mid", 19, json!({"priority": 1}))), at(21));
    assert_eq!(yard.host(&key("i/h2"), Some(host("h2", json!({}))), at(22)), [key("t1/mid")]);
}

#[test]
fn waiting_long_enough_is_as_good_as_priority_where_the_site_wants_that() {
    for (ageing, winner) in [(None, "t1/new"), (Some(Duration::from_secs(60)), "t1/old")] {
        let mut yard = yard_with(Settings { ageing: Ageing(ageing), ..Settings::default() });
        yard.claim(&key("t1/old"), Some(claim("t1/old", 0, json!({}))), at(0));
        yard.claim(&key("t1/new"), Some(claim("t1/new", 290, json!({"priority": 4}))), at(290));
        assert_eq!(yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(300)), [key(winner)]);
    }
}

#[test]
fn the_last_unit_of_a_quota_is_never_passed_twice() {
    for shared in [false, true] {
        let mut yard = yard();
        let limit = json!({"tenants": {"names": ["t1", "t2"]}, "hard": {"hosts": 2}, "shared": shared});
        yard.quota("gold", Some(quota(limit.clone())), at(0));
        for number in 0..6 {
            yard.host(&key(&format!("i/h{number}")), Some(host(&format!("h{number}"), json!({}))), at(0));
        }
        for number in 0..3 {
            for tenant in ["t1", "t2"] {
                let name = format!("{tenant}/c{number}");
                yard.claim(&key(&name), Some(claim(&name, number, json!({}))), at(number));
            }
        }
        let offers =
            |yard: &Yard, tenant: &str| (0..3).filter(|n| offered(yard, &format!("{tenant}/c{n}")).is_some()).count();
        let expected = if shared { (1, 1) } else { (2, 2) };
        assert_eq!((offers(&yard, "t1"), offers(&yard, "t2")), expected);
        let used = yard.quota_use("gold").unwrap();
        assert_eq!(used.hosts, if shared { 2 } else { 4 });
        assert_eq!(used.tenants.get("t1"), Some(&if shared { 1 } else { 2 }));
        let unbound = yard.unbound(&key("t1/c2"), at(5));
        assert_eq!((unbound.why, unbound.text.as_str()), (Why::QuotaExceeded, "uses 2 of 2 hosts of quota gold"));
        // A promise counts like a bind, and a bind like a promise.
        let host = bind(&mut yard, "t1/c0", 6);
        assert_eq!(yard.quota_use("gold").unwrap().hosts, if shared { 2 } else { 4 });
        // What is given back can be had by the next.
        let woken =
            yard.host(&key(&host), Some(self::host(key(&host).name(), json!({"spec": {"online": true}}))), at(7));
        assert!(woken.contains(&key("t1/c0")), "{woken:?}");
        assert_eq!(offers(&yard, "t1") + offers(&yard, "t2"), if shared { 2 } else { 4 });
        // More room helps at once.
        let mut more = limit;
        merge(&mut more, json!({"hard": {"hosts": 3}}));
        yard.quota("gold", Some(quota(more)), at(8));
        assert_eq!(offers(&yard, "t1") + offers(&yard, "t2"), if shared { 3 } else { 6 });
        let touched = yard.touched();
        assert!(touched.quotas.contains("gold") && touched.policies.contains(&key("i/p")), "{touched:?}");
        assert!(yard.touched().quotas.is_empty());
    }
}

#[test]
fn a_tenant_at_its_limit_is_told_so_whoever_has_the_other_hosts() {
    let mut yard = Yard::new(Settings::default());
    yard.policy(&key("i/p"), Some(policy(json!({"hostClaimNamespaces": {}}))), at(0));
    yard.quota("q", Some(quota(json!({"tenants": {"names": ["t1"]}, "hard": {"hosts": 1}}))), at(0));
    yard.open(at(0));
    for name in ["h0", "h1"] {
        yard.host(&key(&format!("i/{name}")), Some(host(name, json!({}))), at(0));
    }
    let told = |yard: &mut Yard, claim: &str, now: i64| {
        let unbound = yard.unbound(&key(claim), at(now));
        (unbound.why, unbound.text)
    };
    let full = (Why::QuotaExceeded, "uses 1 of 1 hosts of quota q".to_owned());
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    yard.claim(&key("t1/b"), Some(claim("t1/b", 1, json!({}))), at(1));
    assert_eq!(told(&mut yard, "t1/b", 1), full, "one is free, and it may not have it");
    yard.claim(&key("t2/a"), Some(claim("t2/a", 2, json!({}))), at(2));
    assert!(offered(&yard, "t1/a").is_some() && offered(&yard, "t2/a").is_some());
    assert_eq!(told(&mut yard, "t1/b", 1000), full, "none is free, and it may not have one either");
    assert_eq!(yard.unbound(&key("t1/b"), at(1000)).reasons, [(Unfit::InUse, 2)]);
    yard.claim(&key("t2/b"), Some(claim("t2/b", 3, json!({}))), at(1001));
    assert_eq!(told(&mut yard, "t2/b", 1001), (Why::NoHost, "0/2 hosts fit: 2 in use".to_owned()));
    // No host of its failure domain is there, and that is what it is told, whoever has the others.
    let picky = json!({"failureDomain": "z", "failureDomainMode": "Required"});
    yard.claim(&key("t1/c"), Some(claim("t1/c", 4, picky)), at(1001));
    assert_ne!(told(&mut yard, "t1/c", 1001).0, Why::QuotaExceeded);
    // A host that the quota does not count is one to wait for.
    let metal =
        json!({"tenants": {"names": ["t1"]}, "hard": {"hosts": 1}, "hostSelector": {"matchLabels": {"a": "b"}}});
    yard.quota("q", Some(quota(metal)), at(2000));
    assert_eq!(told(&mut yard, "t1/b", 3000).0, Why::NoHost);
}

#[test]
fn a_policy_bounds_what_one_tenant_holds_through_it() {
    let mut yard = Yard::new(Settings::default());
    let narrow = json!({"hostClaimNamespaces": {}, "maxHosts": 1, "hostSelector": {"matchLabels": {"pool": "a"}}});
    yard.policy(&key("i/p"), Some(policy(narrow)), at(0));
    yard.open(at(0));
    for number in 0..3 {
        yard.host(&key(&format!("i/h{number}")), Some(labelled(&format!("h{number}"), json!({"pool": "a"}))), at(0));
    }
    yard.host(&key("i/other"), Some(labelled("other", json!({"pool": "b"}))), at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    yard.claim(&key("t1/b"), Some(claim("t1/b", 0, json!({}))), at(0));
    assert!(offered(&yard, "t1/a").is_some() && offered(&yard, "t1/b").is_none());
    let unbound = yard.unbound(&key("t1/b"), at(1));
    assert_eq!((unbound.why, unbound.text.as_str()), (Why::QuotaExceeded, "uses 1 of 1 hosts of policy p"));
    assert_eq!(unbound.reasons, [(Unfit::NotAdmitted, 1), (Unfit::InUse, 1), (Unfit::QuotaExceeded, 2)]);
    assert_eq!(yard.policy_use(&key("i/p")).unwrap().hosts, 1);
    // A second policy with room is enough.
    yard.policy(
        &key("i/q"),
        Some(policy(json!({"hostClaimNamespaces": {"nameMatches": "^t1$"}, "maxHosts": 2}))),
        at(2),
    );
    assert!(offered(&yard, "t1/b").is_some());
}

#[test]
fn the_choice_is_the_same_for_the_same_claim_and_different_for_others() {
    let choose = || {
        let mut yard = yard();
        for number in 0..100 {
            yard.host(&key(&format!("i/h{number}")), Some(host(&format!("h{number}"), json!({}))), at(0));
        }
        let pick = |yard: &mut Yard, n: i32| {
            let name = format!("t1/c{n}");
            yard.claim(&key(&name), Some(claim(&name, 0, json!({}))), at(0));
            let host = offered(yard, &name).unwrap();
            yard.claim(&key(&name), None, at(0));
            host
        };
        (0..50).map(|n| pick(&mut yard, n)).collect::<Vec<String>>()
    };
    let (first, second) = (choose(), choose());
    assert_eq!(first, second);
    // Fifty claims that each find all hundred hosts free rarely choose the same.
    let distinct: BTreeSet<&String> = first.iter().collect();
    assert!(distinct.len() >= 20, "{}", distinct.len());
}

#[test]
fn pools_fill_in_sequence_where_the_site_wants_that() {
    let mut yard = yard_with(Settings { host_order: HostOrder::Name, ..Settings::default() });
    for name in ["h3", "h1", "h2"] {
        yard.host(&key(&format!("i/{name}")), Some(host(name, json!({}))), at(0));
    }
    for (name, expected) in [("t1/z", "i/h1"), ("t2/y", "i/h2"), ("t1/x", "i/h3")] {
        yard.claim(&key(name), Some(claim(name, 0, json!({}))), at(0));
        assert_eq!(offered(&yard, name).as_deref(), Some(expected));
    }
}

#[test]
fn a_refused_host_goes_to_another_and_comes_back_after_the_cool_down() {
    let mut yard = yard();
    yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    assert_eq!(yard.refused(&key("t1/a"), &key("i/h1"), at(10), at(0)), []);
    assert_eq!(offered(&yard, "t1/a"), None);
    assert_eq!(yard.due(), Some(at(10)));
    let unbound = yard.unbound(&key("t1/a"), at(1));
    assert_eq!(unbound.text, "0/1 hosts fit: 1 refused a while ago");
    // Others may have it, and another host may be had.
    yard.claim(&key("t2/b"), Some(claim("t2/b", 1, json!({}))), at(2));
    assert_eq!(offered(&yard, "t2/b").as_deref(), Some("i/h1"));
    assert_eq!(yard.host(&key("i/h2"), Some(host("h2", json!({}))), at(3)), [key("t1/a")]);
    assert_eq!(yard.refused(&key("t1/a"), &key("i/h2"), at(13), at(3)), []);
    yard.claim(&key("t2/b"), None, at(4));
    assert_eq!(yard.tick(at(9)), []);
    assert_eq!(yard.tick(at(10)), [key("t1/a")]);
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h1"));
}

#[test]
fn a_stored_intent_takes_its_host_again() {
    let mut yard = Yard::new(Settings::default());
    yard.policy(&key("i/p"), Some(admits(&["t1"])), at(0));
    for name in ["h1", "h2"] {
        yard.host(&key(&format!("i/{name}")), Some(host(name, json!({}))), at(0));
    }
    let intent =
        |host: &str, uid: &str| json!({"status": {"selectedHost": {"namespace": "i", "name": host, "uid": uid}}});
    // Older and without intent: would come first otherwise.
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    yard.claim(&key("t1/b"), Some(object_claim("t1/b", 5, intent("h1", "uid-of-h1"))), at(0));
    yard.claim(&key("t1/c"), Some(object_claim("t1/c", 6, intent("h2", "uid-of-another"))), at(0));
    yard.open(at(1));
    assert_eq!(offered(&yard, "t1/b").as_deref(), Some("i/h1"));
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h2"), "the intent of c names a host that is no more");
    assert_eq!(offered(&yard, "t1/c"), None);
    assert_eq!(yard.keep(&key("t1/b"), &key("i/h1"), at(2)), Some(vec![]));
    assert_eq!(yard.keep(&key("t1/c"), &key("i/h1"), at(2)), None, "promised to b");
    assert_eq!(yard.keep(&key("t1/c"), &key("i/h9"), at(2)), None, "there is no such host");
    bind(&mut yard, "t1/b", 2);
    assert_eq!(yard.keep(&key("t1/b"), &key("i/h1"), at(2)), Some(vec![]), "it has it");
    yard.host(&key("i/h3"), Some(host("h3", json!({}))), at(3));
    yard.claim(&key("t1/c"), None, at(3));
    assert_eq!(yard.keep(&key("t1/b"), &key("i/h3"), at(3)), None, "who has a host gets no second one");
}

#[test]
fn a_host_that_a_claim_leaves_for_its_intent_goes_to_the_next() {
    let mut yard = yard();
    yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    yard.claim(
        &key("t1/b"),
        Some(claim("t1/b", 1, json!({"hostSelector": {"matchLabels": {"berth.dev/host-name": "h1"}}}))),
        at(0),
    );
    let busy = json!({"status": {"provisioning": {"state": "inspecting"}}});
    yard.host(&key("i/h2"), Some(host("h2", busy)), at(1));
    assert_eq!(yard.keep(&key("t1/a"), &key("i/h2"), at(1)), None, "not available");
    yard.refused(&key("t1/a"), &key("i/h1"), at(1), at(1));
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h1"), "still the first in line");
    yard.claim(&key("t2/c"), Some(claim("t2/c", 2, json!({}))), at(2));
    yard.host(&key("i/h2"), Some(host("h2", json!({}))), at(3));
    assert_eq!(offered(&yard, "t2/c").as_deref(), Some("i/h2"));
    yard.claim(&key("t2/c"), None, at(4));
    assert_eq!(yard.keep(&key("t1/a"), &key("i/h2"), at(4)), Some(vec![key("t1/b")]));
    assert_eq!((offered(&yard, "t1/a").as_deref(), offered(&yard, "t1/b").as_deref()), (Some("i/h2"), Some("i/h1")));
}

#[test]
fn wished_domains_come_first_and_demanded_ones_alone() {
    let domain = "infrastructure.cluster.x-k8s.io/failure-domain";
    let mut yard = yard();
    yard.host(&key("i/h1"), Some(labelled("h1", json!({domain: "north"}))), at(0));
    yard.host(&key("i/h2"), Some(labelled("h2", json!({domain: "south"}))), at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({"failureDomain": "south"}))), at(0));
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h2"));
    let south = json!({"failureDomain": "south", "failureDomainMode": "Required"});
    yard.claim(&key("t1/b"), Some(claim("t1/b", 1, south)), at(1));
    assert_eq!(offered(&yard, "t1/b"), None);
    let unbound = yard.unbound(&key("t1/b"), at(1));
    assert_eq!(unbound.why, Why::FailureDomainExhausted);
    assert_eq!(unbound.text, "0/2 hosts fit: 1 in use, 1 in another failure domain");
    yard.claim(&key("t1/c"), Some(claim("t1/c", 2, json!({"failureDomain": "south"}))), at(2));
    assert_eq!(offered(&yard, "t1/c").as_deref(), Some("i/h1"), "only a wish");
}

#[test]
fn a_host_kept_for_reuse_is_waited_for_and_given_to_its_group_alone() {
    let kept = |state: &str, until: i64| {
        host(
            "h1",
            json!({
                "metadata": {
                    "labels": {"infrastructure.cluster.x-k8s.io/node-reuse": reuse_value("t1", "cp")},
                    "annotations": {"berth.dev/reuse-until": at(until).to_string()},
                },
                "spec": {"consumerRef": {"apiVersion": "v1", "kind": "Namespace", "name": "t1"}},
                "status": {"provisioning": {"state": state}},
            }),
        )
    };
    let mut yard = yard();
    yard.host(&key("i/h1"), Some(kept("deprovisioning", 100)), at(0));
    yard.host(&key("i/h2"), Some(host("h2", json!({}))), at(0));
    assert_eq!(yard.holdings().get("t1"), Some(&1), "a reservation counts");
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({"nodeReuse": "cp"}))), at(1));
    assert_eq!(offered(&yard, "t1/a"), None);
    assert_eq!(yard.unbound(&key("t1/a"), at(1)).why, Why::WaitingForReuseHost);
    // Neither another group nor another tenant gets it; both may have the other host.
    yard.claim(&key("t2/b"), Some(claim("t2/b", 0, json!({"nodeReuse": "cp"}))), at(2));
    assert_eq!(offered(&yard, "t2/b").as_deref(), Some("i/h2"));
    assert_eq!(yard.host(&key("i/h1"), Some(kept("available", 100)), at(3)), [key("t1/a")]);
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h1"));
    assert_eq!(yard.holdings().get("t1"), Some(&1), "still one host");
    // Refused, it is waited for again until the reservation ends.
    yard.host(&key("i/h3"), Some(host("h3", json!({}))), at(4));
    yard.host(&key("i/h1"), Some(kept("inspecting", 100)), at(5));
    assert_eq!(offered(&yard, "t1/a"), None);
    assert_eq!(yard.tick(at(99)), []);
    assert_eq!(yard.tick(at(100)), [key("t1/a")]);
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h3"));
}

#[test]
fn a_tenant_does_not_get_a_host_it_avoids_before_that_ends() {
    let mut yard = yard();
    let avoided = json!({"metadata": {"annotations": {avoid_annotation("t1"): at(60).to_string()}}});
    yard.host(&key("i/h1"), Some(host("h1", avoided)), at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    assert_eq!(offered(&yard, "t1/a"), None);
    assert_eq!(yard.tick(at(60)), [key("t1/a")]);
    let for_ever = json!({"metadata": {"annotations": {avoid_annotation("t1"): "by hand"}}});
    yard.host(&key("i/h1"), Some(host("h1", for_ever)), at(61));
    assert_eq!(offered(&yard, "t1/a"), None);
    yard.claim(&key("t2/b"), Some(claim("t2/b", 0, json!({}))), at(62));
    assert_eq!(offered(&yard, "t2/b").as_deref(), Some("i/h1"));
}

#[test]
fn hardware_that_becomes_known_is_felt_by_those_who_wait_for_it() {
    let mut yard = yard();
    let big = json!({"hostSelector": {"matchExpressions": [{"key": "berth.dev/ram-gib", "operator": "gt", "values": ["100"]}]}});
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, big)), at(0));
    let small = host("h1", json!({"status": {"hardware": {"ramMebibytes": 65536}}}));
    yard.host(&key("i/h1"), Some(small), at(0));
    assert_eq!(offered(&yard, "t1/a"), None);
    // HardwareData goes before what the host says of itself.
    let hardware = claims::facts::HardwareFacts { ram_mib: 262_144, ..Default::default() };
    assert_eq!(yard.hardware(&key("i/h1"), Some(hardware.into()), at(1)), [key("t1/a")]);
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h1"));
    assert_eq!(yard.hardware(&key("i/h9"), None, at(2)), []);
}

#[test]
fn a_claim_made_again_under_the_same_name_does_not_inherit_a_host() {
    let mut yard = yard();
    yard.host(&key("i/h1"), Some(used("h1", "t1/a")), at(0));
    let again = object_claim("t1/a", 1, json!({"metadata": {"uid": "another"}}));
    yard.claim(&key("t1/a"), Some(again), at(1));
    assert_eq!(yard.waiting(), 1, "the host names an earlier claim");
    assert_eq!(yard.held("t1", "a"), [key("i/h1")], "which the room has to release");
    yard.host(&key("i/h2"), Some(host("h2", json!({}))), at(2));
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h2"));
}
