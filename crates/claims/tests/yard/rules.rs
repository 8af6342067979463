//! Who may have what, and what those are told who may not.

use std::sync::Arc;

use claim_kind::held::Held;
use claims::facts::PolicyFacts;
use claims::yard::{DefaultAdmission, Pass, Settings, Unfit, Why, Yard};
use serde_json::{Value, json};

use super::build::*;
use super::stories::{bind, offered, yard};

#[test]
fn the_explanation_counts_each_host_once_where_it_fails_first() {
    let mut yard = yard();
    let mut number = 0;
    let mut add = |yard: &mut Yard, count: usize, changes: Value| {
        for _ in 0..count {
            number += 1;
            let name = format!("h{number}");
            let mut labelled = json!({"metadata": {"labels": {"gpu": "yes"}}});
            merge(&mut labelled, changes.clone());
            yard.host(&key(&format!("i/{name}")), Some(host(&name, labelled)), at(0));
        }
    };
    // In use and in error besides: counts where it fails first.
    let broken = json!({"spec": {"consumerRef": consumer("t2/x")}, "status": {"operationalStatus": "error"}});
    add(&mut yard, 5, broken);
    add(&mut yard, 3, json!({"metadata": {"labels": {"gpu": "no"}}}));
    add(&mut yard, 2, json!({"status": {"provisioning": {"state": "inspecting"}}}));
    add(&mut yard, 1, json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}));
    add(&mut yard, 1, json!({"status": {"errorMessage": "x"}}));
    let wish = json!({"hostSelector": {"matchLabels": {"gpu": "yes"}}});
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, wish.clone())), at(0));
    let unbound = yard.unbound(&key("t1/a"), at(1));
    assert_eq!(unbound.text, "0/12 hosts fit: 5 in use, 3 labels do not match, 2 not available, 1 paused, 1 in error");
    assert_eq!((unbound.why, unbound.total), (Why::NoHost, 12));
    assert_eq!(unbound.reasons.iter().map(|(_, count)| count).sum::<u32>(), 12);
    assert_eq!(unbound.reasons[0], (Unfit::SelectorMismatch, 3), "in the order of the filters");
    // Every other reason.
    add(&mut yard, 1, json!({"metadata": {"deletionTimestamp": at(0).to_string()}}));
    add(&mut yard, 1, json!({"status": {"operationalStatus": "detached"}}));
    for mark in ["capm3.metal3.io/unhealthy", "capi.metal3.io/unhealthy"] {
        add(&mut yard, 1, json!({"metadata": {"annotations": {mark: ""}}}));
    }
    add(&mut yard, 1, json!({"spec": {"externallyProvisioned": true}}));
    add(&mut yard, 1, json!({"spec": {"image": {"url": "http://x"}}}));
    add(&mut yard, 1, json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/node-reuse": "cp-1"}}}));
    let critical = json!({"type": "Healthy", "status": "False", "reason": "HardwareCritical"});
    add(&mut yard, 1, json!({"status": {"conditions": [critical]}}));
    // The text stands for a while, then says what is.
    assert_eq!(yard.unbound(&key("t1/a"), at(15)).total, 12);
    let unbound = yard.unbound(&key("t1/a"), at(16));
    assert_eq!(unbound.total, 20);
    let one = [
        Unfit::ReservedForReuse,
        Unfit::Deleting,
        Unfit::Paused,
        Unfit::Detached,
        Unfit::ExternallyProvisioned,
        Unfit::HostError,
        Unfit::NotClean,
    ];
    for unfit in one {
        assert!(unbound.reasons.contains(&(unfit, 1)), "{unfit}: {:?}", unbound.reasons);
    }
    assert!(unbound.reasons.contains(&(Unfit::Unhealthy, 3)));
    let verdicts = yard.verdicts(&key("t1/a"), at(16));
    assert_eq!(verdicts.len(), 20);
    assert!(verdicts.iter().all(|(_, verdict)| verdict.is_some()));
    // Hosts of a namespace that does not admit the tenant are not counted, and its name is not told.
    yard.host(&key("secret/h1"), Some(host("h1", json!({}))), at(17));
    assert_eq!(yard.unbound(&key("t1/a"), at(40)).total, 20);
    yard.claim(&key("t9/a"), Some(claim("t9/a", 0, wish)), at(17));
    let nobody = yard.unbound(&key("t9/a"), at(17));
    assert_eq!((nobody.text.as_str(), nobody.total), ("no infrastructure namespace admits namespace t9", 0));
    assert!(nobody.reasons.is_empty());
}

#[test]
fn those_who_show_a_text_are_woken_when_it_changes_and_not_otherwise() {
    let mut yard = yard();
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    yard.unbound(&key("t1/a"), at(0));
    assert_eq!(yard.tick(at(15)), [], "nothing changed");
    yard.host(&key("i/h1"), Some(used("h1", "t2/x")), at(16));
    assert_eq!(yard.tick(at(20)), []);
    assert_eq!(yard.tick(at(30)), [key("t1/a")]);
    assert_eq!(yard.unbound(&key("t1/a"), at(30)).text, "0/1 hosts fit: 1 in use");
    // Another change, the same text.
    yard.host(&key("i/h1"), Some(used("h1", "t2/y")), at(31));
    assert_eq!(yard.tick(at(60)), []);
}

#[test]
fn who_may_come_in_follows_names_patterns_labels_and_switches() {
    let spec = |admits: Value| policy(json!({"hostClaimNamespaces": admits}));
    let gets = |policies: &[Arc<PolicyFacts>], tenant: &str, settings: Settings| {
        let mut yard = Yard::new(settings);
        for (number, facts) in policies.iter().enumerate() {
            yard.policy(&key(&format!("i/p{number}")), Some(Arc::clone(facts)), at(0));
        }
        yard.space("t1", Some(space(&[("team", "red")])), at(0));
        yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(0));
        yard.open(at(0));
        let name = format!("{tenant}/a");
        yard.claim(&key(&name), Some(claim(&name, 0, json!({}))), at(0));
        offered(&yard, &name).is_some()
    };
    let usual = Settings::default();
    assert!(!gets(&[], "t1", usual) && !gets(&[policy(json!({}))], "t1", usual), "closed without a word");
    assert!(gets(&[spec(json!({}))], "t1", usual));
    assert!(gets(&[spec(json!({"names": ["t1"]}))], "t1", usual));
    assert!(!gets(&[spec(json!({"names": []}))], "t1", usual));
    assert!(gets(&[spec(json!({"nameMatches": "1"}))], "t1", usual), "found anywhere");
    assert!(!gets(&[spec(json!({"nameMatches": "^1"}))], "t1", usual));
    assert!(gets(&[spec(json!({"hasLabels": [{"name": "team"}]}))], "t1", usual));
    assert!(gets(&[spec(json!({"hasLabels": [{"name": "team", "value": "red"}]}))], "t1", usual));
    assert!(!gets(&[spec(json!({"hasLabels": [{"name": "team", "value": "blue"}]}))], "t1", usual));
    assert!(!gets(&[spec(json!({"hasLabels": [{"name": "team"}]}))], "t2", usual));
    assert!(!gets(&[spec(json!({"names": ["t1"], "nameMatches": "x"}))], "t1", usual), "all must hold");
    // A bad policy shuts nobody else out.
    let bad = spec(json!({"nameMatches": "("}));
    assert!(!gets(&[Arc::clone(&bad)], "t1", usual));
    assert!(gets(&[bad, spec(json!({}))], "t1", usual));
    assert!(gets(&[], "i", usual), "the own namespace");
    assert!(!gets(&[], "i", Settings { admit_same_namespace: false, ..usual }));
    let open = Settings { default_admission: DefaultAdmission::Allow, ..usual };
    assert!(gets(&[], "t1", open));
    assert!(!gets(&[spec(json!({"names": ["t2"]}))], "t1", open), "a namespace with a policy is governed by it");
}

#[test]
fn a_change_of_policy_or_label_is_felt_at_once() {
    let mut yard = Yard::new(Settings::default());
    yard.open(at(0));
    yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    let labelled = policy(json!({"hostClaimNamespaces": {"hasLabels": [{"name": "team"}]}}));
    assert_eq!(yard.policy(&key("i/p"), Some(labelled), at(1)), []);
    assert_eq!(yard.space("t1", Some(space(&[("team", "red")])), at(2)), [key("t1/a")]);
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h1"));
    // Revoked before it was bound.
    assert_eq!(yard.policy(&key("i/p"), None, at(3)), [key("t1/a")]);
    assert_eq!(offered(&yard, "t1/a"), None);
    // Bound claims are told too, and keep their host.
    yard.policy(&key("i/p"), Some(admits(&["t1"])), at(4));
    bind(&mut yard, "t1/a", 5);
    assert_eq!(yard.policy(&key("i/p"), None, at(6)), [key("t1/a")]);
    assert_eq!(yard.held("t1", "a"), [key("i/h1")]);
}

#[test]
fn a_selector_may_ask_only_about_labels_that_are_open() {
    let mut yard = Yard::new(Settings::default());
    let narrow = json!({"hostClaimNamespaces": {}, "selectableLabels": "pool|berth\\.dev/.*"});
    yard.policy(&key("i/p"), Some(policy(narrow)), at(0));
    yard.open(at(0));
    yard.host(&key("i/h1"), Some(labelled("h1", json!({"pool": "a", "rack": "7"}))), at(0));
    let select = |labels: Value| json!({"hostSelector": {"matchLabels": labels}});
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, select(json!({"rack": "7"})))), at(0));
    assert_eq!(offered(&yard, "t1/a"), None);
    assert_eq!(yard.unbound(&key("t1/a"), at(0)).reasons, [(Unfit::SelectorMismatch, 1)]);
    let open = select(json!({"pool": "a", "berth.dev/host-name": "h1"}));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, open)), at(1));
    assert_eq!(offered(&yard, "t1/a").as_deref(), Some("i/h1"));
}

#[test]
fn the_grant_is_the_union_of_what_the_admitting_policies_allow() {
    let mut yard = Yard::new(Settings::default());
    let (one, two) = (
        json!({"hostClaimNamespaces": {"names": ["t1"]}, "allowsDetaching": true, "imageURLPrefixes": ["https://a/"],
            "metadataCopy": {"labelsMatch": "rack|row"}}),
        json!({"hostClaimNamespaces": {}, "allowsCustomDeploy": true, "imageURLPrefixes": ["https://b/"],
            "hostSelector": {"matchLabels": {"pool": "a"}}}),
    );
    yard.policy(&key("i/one"), Some(policy(one)), at(0));
    yard.policy(&key("i/two"), Some(policy(two)), at(0));
    let facts = labelled("h1", json!({"pool": "a"}));
    let grant = yard.grant("t1", &key("i/h1"), &facts);
    assert!(grant.admits() && grant.detaching && grant.custom_deploy && !grant.pause && !grant.cleaning_override);
    assert!(
        grant.allows_image("https://a/x") && grant.allows_image("https://b/x") && !grant.allows_image("https://c/x")
    );
    assert!(grant.shows_label("rack") && !grant.shows_label("rack2") && !grant.shows_annotation("rack"));
    assert!(grant.copies_metadata);
    let grant = yard.grant("t1", &key("i/h2"), &labelled("h2", json!({"pool": "b"})));
    assert_eq!(grant.policies, [Box::<str>::from("one")]);
    assert!(!grant.custom_deploy && !grant.allows_image("https://b/x"));
    assert!(!yard.grant("t2", &key("i/h2"), &labelled("h2", json!({}))).admits());
    let own = yard.grant("i", &key("i/h2"), &labelled("h2", json!({})));
    assert!(own.pass == Some(Pass::SameNamespace) && own.pause && own.allows_image("https://c/x"));
    assert!(!yard.grant("t1", &key("j/h2"), &labelled("h2", json!({}))).admits());
}

#[test]
fn a_live_read_is_judged_like_what_was_seen_before() {
    let mut yard = yard();
    yard.quota("q", Some(quota(json!({"tenants": {"names": ["t1"]}, "hard": {"hosts": 1}}))), at(0));
    yard.host(&key("i/h1"), Some(host("h1", json!({}))), at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(0));
    let unfit =
        |yard: &Yard, claim: &str, changes: Value| yard.unfit(&key(claim), &key("i/h1"), &host("h1", changes), at(1));
    assert_eq!(unfit(&yard, "t1/a", json!({})), None, "its own promise does not count against it");
    assert_eq!(unfit(&yard, "t1/a", json!({"spec": {"consumerRef": consumer("t2/x")}})), Some(Unfit::InUse));
    assert_eq!(unfit(&yard, "t1/a", json!({"status": {"operationalStatus": "servicing"}})), Some(Unfit::HostError));
    yard.claim(&key("t1/b"), Some(claim("t1/b", 1, json!({}))), at(1));
    assert_eq!(unfit(&yard, "t1/b", json!({})), Some(Unfit::InUse), "promised to another");
    assert_eq!(unfit(&yard, "t1/nobody", json!({})), Some(Unfit::NotAdmitted));
    yard.quota("q", Some(quota(json!({"tenants": {"names": ["t1"]}, "hard": {"hosts": 0}}))), at(2));
    assert_eq!(unfit(&yard, "t1/a", json!({})), Some(Unfit::QuotaExceeded), "lowered meanwhile");
    yard.policy(&key("i/p"), None, at(3));
    assert_eq!(unfit(&yard, "t1/a", json!({})), Some(Unfit::NotAdmitted));
}

#[test]
fn a_namespace_that_is_not_known_yet_is_bound_by_every_quota_that_could_mean_it() {
    let mut yard = Yard::new(Settings::default());
    yard.policy(&key("i/p"), Some(admits(&["t1"])), at(0));
    for n in 0..3 {
        yard.host(&key(&format!("i/h{n}")), Some(host(&format!("h{n}"), json!({}))), at(0));
    }
    let gold = json!({"tenants": {"namespaceSelector": {"matchLabels": {"tier": "gold"}}}, "hard": {"hosts": 1}});
    yard.quota("gold", Some(quota(gold)), at(0));
    yard.open(at(0));
    let offers = |yard: &Yard| (0..3).filter(|n| yard.offer(&key(&format!("t1/c{n}"))).is_some()).count();
    for n in 0..3 {
        yard.claim(&key(&format!("t1/c{n}")), Some(claim(&format!("t1/c{n}"), n, json!({}))), at(1));
    }
    assert_eq!(offers(&yard), 1, "it may be golden");
    yard.space("t1", Some(space(&[("tier", "gold")])), at(2));
    assert_eq!(offers(&yard), 1, "it is");
    yard.space("t1", Some(space(&[])), at(3));
    assert_eq!(offers(&yard), 3, "it is not any more");
}

#[test]
fn a_quota_with_a_fault_still_holds_those_it_names() {
    let mut yard = Yard::new(Settings::default());
    yard.policy(&key("i/p"), Some(admits(&["t1", "t2"])), at(0));
    let broken =
        json!({"tenants": {"names": ["t1"]}, "hard": {"hosts": 0}, "hostSelector": {"matchLabels": {"a b": "c"}}});
    yard.quota("q", Some(quota(broken)), at(0));
    yard.host(&key("i/h"), Some(host("h", json!({}))), at(0));
    yard.open(at(0));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 0, json!({}))), at(1));
    assert_eq!(yard.unbound(&key("t1/a"), at(1)).why, Why::QuotaExceeded);
    assert!(yard.quota_use("q").is_some_and(|used| used.fault.is_some()), "and its owner is told");
    yard.claim(&key("t2/a"), Some(claim("t2/a", 0, json!({}))), at(2));
    assert!(yard.offer(&key("t2/a")).is_some());
}

#[test]
fn many_wishes_do_not_have_all_their_texts_found_anew_in_one_go() {
    let mut yard = yard();
    for n in 0..40 {
        let name = format!("t1/c{n:02}");
        let wish = json!({"hostSelector": {"matchLabels": {"rack": format!("r{n}")}}});
        yard.claim(&key(&name), Some(claim(&name, n, wish)), at(0));
        assert_eq!(yard.unbound(&key(&name), at(0)).total, 0);
    }
    yard.host(&key("i/h"), Some(host("h", json!({}))), at(1));
    let (mut now, mut rounds, mut woken) = (at(1000), 0, 0);
    loop {
        woken += yard.tick(now).len();
        rounds += 1;
        match yard.due() {
            Some(due) if due.duration_since(now).as_secs() < 1 => now = due,
            _ => break,
        }
    }
    assert_eq!((rounds, woken), (3, 40), "16 at a time, and everybody hears of the host that is no use to them");
}

#[test]
fn a_quota_counts_the_machines_of_every_kind() {
    let mut yard = Yard::new(Settings::default());
    yard.policy(&key("i/p"), Some(admits(&["t1", "t2"])), at(0));
    let spec = |hard: u32| quota(json!({"tenants": {"names": ["t1"]}, "hard": {"hosts": hard}}));
    let metal = json!({"tenants": {"names": ["t1"]}, "hard": {"hosts": 1}, "infraNamespaces": ["i"]});
    yard.quota("all", Some(spec(2)), at(0));
    yard.quota("metal", Some(quota(metal)), at(0));
    yard.host(&key("i/h"), Some(host("h", json!({}))), at(0));
    yard.open(at(0));
    let other = |name: &str, status: Value| {
        object_claim(name, 0, json!({"spec": {"poweredOn": true, "kind": "vm"}, "status": status}))
    };
    let used = |yard: &Yard, name: &str| yard.quota_use(name).unwrap().hosts;
    yard.claim(&key("t1/vm"), Some(other("t1/vm", json!({"resourceID": "m-1"}))), at(1));
    yard.claim(&key("t1/to-come"), Some(other("t1/to-come", json!({"provisioningState": "Provisioning"}))), at(1));
    yard.claim(&key("t1/idle"), Some(other("t1/idle", json!({"provisioningState": "Available"}))), at(1));
    yard.claim(&key("t2/vm"), Some(other("t2/vm", json!({"resourceID": "m-2"}))), at(1));
    assert_eq!((used(&yard, "all"), used(&yard, "metal")), (2, 0), "what is in no namespace of hosts is not metal");
    assert!(yard.touched().quotas.contains("all"), "and its owner hears of it");

    yard.claim(&key("t1/a"), Some(claim("t1/a", 2, json!({}))), at(2));
    assert_eq!(yard.offer(&key("t1/a")), None);
    let unbound = yard.unbound(&key("t1/a"), at(2));
    assert_eq!(unbound.why, Why::QuotaExceeded);
    assert!(unbound.text.contains("uses 2 of 2 hosts of quota all"), "{}", unbound.text);

    // Whoever waits hears that something was given back, of whatever kind it was.
    let woken = yard.claim(&key("t1/vm"), None, at(3));
    assert!(woken.contains(&key("t1/a")) && yard.offer(&key("t1/a")).is_some());
    assert_eq!((used(&yard, "all"), used(&yard, "metal")), (2, 1));

    // What another kind takes meanwhile is seen before the host is bound, and a quota that is made anew counts it too.
    yard.claim(&key("t1/late"), Some(other("t1/late", json!({"resourceID": "m-3"}))), at(4));
    let live = host("h", json!({}));
    assert_eq!(yard.unfit(&key("t1/a"), &key("i/h"), &live, at(4)), Some(Unfit::QuotaExceeded));
    yard.quota("all", None, at(5));
    yard.quota("all", Some(spec(3)), at(6));
    assert_eq!(used(&yard, "all"), 3);
    assert_eq!(yard.unfit(&key("t1/a"), &key("i/h"), &live, at(6)), None);
}

#[test]
fn what_another_kind_is_about_to_have_counts_until_it_is_shown_or_given_back() {
    let mut yard = Yard::new(Settings::default());
    yard.policy(&key("i/p"), Some(admits(&["t1"])), at(0));
    yard.quota("q", Some(quota(json!({"tenants": {"names": ["t1"]}, "hard": {"hosts": 1}}))), at(0));
    yard.host(&key("i/h"), Some(host("h", json!({}))), at(0));
    yard.open(at(0));
    let vm =
        |status: Value| object_claim("t1/vm", 0, json!({"spec": {"poweredOn": true, "kind": "vm"}, "status": status}));
    let held = Held { uid: "uid-of-t1/vm".into(), kind: "vm".into(), place: None, labels: Default::default() };
    yard.announced(&key("t1/vm"), Some(held));
    yard.claim(&key("t1/a"), Some(claim("t1/a", 1, json!({}))), at(1));
    // Its claim is seen, and shows nothing yet.
    yard.claim(&key("t1/vm"), Some(vm(json!({}))), at(1));
    assert_eq!((yard.offer(&key("t1/a")), yard.quota_use("q").unwrap().hosts), (None, 1));
    assert!(yard.promises().is_empty());
    // From then on the claim speaks for itself.
    yard.claim(&key("t1/vm"), Some(vm(json!({"resourceID": "m"}))), at(2));
    assert_eq!((yard.offer(&key("t1/a")), yard.quota_use("q").unwrap().hosts), (None, 1), "counted once");
    yard.claim(&key("t1/vm"), Some(vm(json!({}))), at(3));
    assert!(yard.offer(&key("t1/a")).is_some());
    let told = yard.promises();
    assert_eq!(told.len(), 1);
    assert!(told[0].0 == key("t1/a") && told[0].2.as_ref().is_some_and(|held| held.place.as_deref() == Some("i")));
    // Whoever takes the promise away tells that too; a host that is bound stays told.
    yard.claim(&key("t1/a"), None, at(4));
    assert!(matches!(&yard.promises()[..], [(claim, _, None)] if *claim == key("t1/a")));
    // What is given back without having been shown is acted on by the clock.
    let held = Held { uid: "uid-of-t1/vm".into(), kind: "vm".into(), place: None, labels: Default::default() };
    yard.announced(&key("t1/vm"), Some(held));
    yard.claim(&key("t1/b"), Some(claim("t1/b", 5, json!({}))), at(5));
    assert_eq!(yard.offer(&key("t1/b")), None);
    yard.announced(&key("t1/vm"), None);
    assert!(yard.is_unsettled() && yard.tick(at(6)).contains(&key("t1/b")) && !yard.is_unsettled());
    yard.promises();
    yard.host(&key("i/h"), Some(used("h", "t1/b")), at(7));
    assert!(yard.promises().is_empty(), "bound");
}
