//! Offering, zones and credentials of a group on CloudStack.

use std::sync::Arc;

use api::key::ObjectKey;
use api::own::anywhere::Named;
use api::reasons::capacity::Reason;
use api::views::cloudstack_specs::AcsFailureDomain;
use capacity::acs::{AcsWish, Chosen};
use capacity::config::Config;
use capacity::explain::{Lists, Sight, explain};
use capacity::facts::{AcsCluster, AcsTemplate, ClusterFacts, GroupKey, GroupKind};
use capacity::judge::{AcsScene, Judgement, Lookup, Scene, Skip, Wish, judge};
use capacity::status::{Outlook, Trouble};
use jiff::Timestamp;
use kit::clock::Clock;
use serde_json::{Value, json};

use crate::build::{deployment, plain_deployment, scene};

fn named(id: &str, name: &str) -> Named {
    Named { id: id.to_owned(), name: name.to_owned() }
}

fn domain(name: &str, zone: &str, secret: Option<(Option<&str>, &str)>) -> AcsFailureDomain {
    AcsFailureDomain {
        name: name.to_owned(),
        zone: named("", zone),
        secret: secret.map(|(namespace, name)| (namespace.map(str::to_owned), name.to_owned())),
        ..AcsFailureDomain::default()
    }
}

fn template() -> AcsTemplate {
    AcsTemplate { offering: named("", "Large"), image: named("t-1", ""), ..AcsTemplate::default() }
}

fn wire() -> Value {
    let mut wire = plain_deployment(&[]);
    wire["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = json!("CloudStackMachineTemplate");
    wire
}

fn on_cloudstack(template: AcsTemplate, domains: Vec<AcsFailureDomain>) -> Scene {
    let mut one = scene(GroupKind::Deployment, deployment(wire()));
    one.config = Arc::new(Config { cloudstack: true, ..Config::default() });
    one.cluster = Some(Arc::new(ClusterFacts::default()));
    one.acs = Some(AcsScene {
        template: Some(Arc::new(template)),
        cluster: Some((Some(Arc::new(AcsCluster { domains })), ObjectKey::namespaced("default", "c"))),
    });
    one
}

fn one_zone() -> Scene {
    on_cloudstack(template(), vec![domain("a", "zone-1", Some((None, "keys")))])
}

fn wants(scene: &Scene) -> (Wish, AcsWish) {
    match judge(scene) {
        Judgement::Wants(wish) => match wish.lookup.clone() {
            Lookup::Acs(acs) => (*wish, acs),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn stuck(scene: &Scene) -> Trouble {
    match judge(scene) {
        Judgement::Stuck(trouble) => trouble,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_offering_is_looked_up_in_the_zone_and_with_the_secret_of_the_cluster() {
    let (wish, acs) = wants(&one_zone());
    assert_eq!((wish.around.instance_type.as_str(), wish.around.zone.as_deref()), ("Large", Some("zone-1")));
    assert_eq!((acs.offering, acs.image, acs.chosen), (named("", "Large"), named("t-1", ""), Chosen::default()));
    let [site] = acs.sites.as_slice() else { panic!("{:?}", acs.sites) };
    assert_eq!(site.secret, ObjectKey::namespaced("default", "keys"), "of the cluster's own namespace");
    assert_eq!(wish.table_name.as_ref(), "CloudStackMachineTemplate.t", "a table may say it instead");
}

#[test]
fn machines_are_made_where_they_are_told_or_else_anywhere() {
    let domains = || {
        vec![
            domain("b", "zone-2", Some((Some("eksa-system"), "keys"))),
            domain("a", "zone-1", Some((Some("eksa-system"), "keys"))),
            AcsFailureDomain { name: "again".to_owned(), ..domain("", "zone-1", Some((Some("eksa-system"), "keys"))) },
        ]
    };
    let zones = |scene: &Scene| wants(scene).1.sites.iter().map(|site| site.zone.name.clone()).collect::<Vec<_>>();
    let (wish, acs) = wants(&on_cloudstack(template(), domains()));
    assert_eq!((acs.sites.len(), wish.around.zone), (2, None), "each place once, and no zone where there are several");
    assert_eq!(acs.sites[0].secret, ObjectKey::namespaced("eksa-system", "keys"));
    let own = AcsTemplate { failure_domain: Some("b".into()), ..template() };
    assert_eq!(zones(&on_cloudstack(own.clone(), domains())), ["zone-2"]);
    let mut named = wire();
    named["spec"]["template"]["spec"]["failureDomain"] = json!("a");
    let mut one = on_cloudstack(template(), domains());
    one.group = Arc::new(deployment(named.clone()));
    assert_eq!(zones(&one), ["zone-1"]);
    let mut both = on_cloudstack(own, domains());
    both.group = Arc::new(deployment(named));
    assert_eq!(zones(&both), ["zone-2"], "the provider takes the template's word first");
    let gone = AcsTemplate { failure_domain: Some("gone".into()), ..template() };
    let trouble = stuck(&on_cloudstack(gone, domains()));
    assert!(trouble.message.contains("\"gone\"") && trouble.outlook == Outlook::Terminal, "{}", trouble.message);
}

#[test]
fn accounts_are_part_of_the_place() {
    let with = |account: Option<&str>, domain_path: Option<&str>| AcsFailureDomain {
        account: account.map(str::to_owned),
        domain: domain_path.map(str::to_owned),
        ..domain("a", "zone-1", Some((None, "keys")))
    };
    let sites = |domains| wants(&on_cloudstack(template(), domains)).1.sites;
    let all = sites(vec![with(None, None), with(Some("x"), Some("ROOT/t")), with(Some("x"), Some("ROOT/u"))]);
    assert_eq!(all.len(), 3);
    assert_eq!(sites(vec![with(Some("x"), None), with(Some("x"), None)]).len(), 1);
}

#[test]
fn choices_are_read_and_bad_ones_named() {
    let with = |details: &[(&str, &str)]| AcsTemplate {
        details: details.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        ..template()
    };
    let domains = || vec![domain("a", "zone-1", Some((None, "keys")))];
    let chosen =
        wants(&on_cloudstack(with(&[("cpuNumber", "4"), ("memory", "8192"), ("rootdisksize", "80")]), domains()));
    assert_eq!(chosen.1.chosen, Chosen { cpus: Some(4), memory_mib: Some(8192), root_gib: Some(80) });
    for (key, value) in [("cpuNumber", "many"), ("memory", "8G"), ("rootdisksize", "0"), ("cpuNumber", "-1")] {
        let trouble = stuck(&on_cloudstack(with(&[(key, value)]), domains()));
        assert_eq!((trouble.reason, trouble.outlook), (Reason::FailedUpdate, Outlook::Terminal));
        assert!(trouble.message.contains(&format!("details.{key}")), "{}", trouble.message);
    }
}

#[test]
fn what_is_missing_is_said_and_waited_for() {
    let missing = |change: &dyn Fn(&mut Scene)| {
        let mut one = one_zone();
        change(&mut one);
        let trouble = stuck(&one);
        assert_eq!((trouble.reason, trouble.outlook), (Reason::FailedUpdate, Outlook::Missing), "{}", trouble.message);
        trouble.message
    };
    let acs = |one: &mut Scene, change: &dyn Fn(&mut AcsScene)| one.acs.iter_mut().for_each(change);
    let template = missing(&|one| acs(one, &|acs| acs.template = None));
    assert_eq!(template, "CloudStackMachineTemplate t is not there");
    assert_eq!(missing(&|one| one.cluster = None), "Cluster c is not there");
    let cluster = missing(&|one| acs(one, &|acs| acs.cluster.iter_mut().for_each(|(facts, _)| *facts = None)));
    assert_eq!(cluster, "CloudStackCluster c is not there");
}

#[test]
fn what_cannot_be_used_is_said_by_its_field() {
    let of = |template: AcsTemplate, domains: Vec<AcsFailureDomain>| {
        let trouble = stuck(&on_cloudstack(template, domains));
        assert_eq!((trouble.reason, trouble.outlook), (Reason::FailedUpdate, Outlook::Terminal));
        trouble.message
    };
    let good = || vec![domain("a", "zone-1", Some((None, "keys")))];
    assert!(
        of(AcsTemplate { offering: Named::default(), ..template() }, good()).contains("spec.template.spec.offering")
    );
    assert!(of(template(), vec![]).contains("spec.failureDomains"));
    assert!(of(template(), vec![domain("a", "zone-1", None)]).contains("[a].acsEndpoint"));
    assert!(of(template(), vec![domain("a", "", Some((None, "keys")))]).contains("[a].zone"));
    let mut other = one_zone();
    other.acs.iter_mut().for_each(|acs| acs.cluster = None);
    assert!(stuck(&other).message.contains("spec.infrastructureRef"));
    let mut elsewhere = wire();
    let reference = &mut elsewhere["spec"]["template"]["spec"]["infrastructureRef"];
    *reference = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta3", "kind": "CloudStackMachineTemplate",
                        "name": "t", "namespace": "kube-system"});
    let mut one = one_zone();
    one.group = Arc::new(deployment(elsewhere));
    assert!(stuck(&one).message.contains("kube-system"));
}

#[test]
fn without_the_flag_groups_on_cloudstack_are_left_alone() {
    let mut one = one_zone();
    one.config = Arc::new(Config::default());
    assert_eq!(judge(&one), Judgement::Skip(Skip::OtherProvider("CloudStackMachineTemplate".into())));
}

#[test]
fn an_explanation_names_the_offering_its_zones_and_secrets() {
    let cluster = json!({
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "CloudStackCluster", "name": "c"}},
    });
    let zones = json!({
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"failureDomains": [
            {"name": "a", "zone": {"name": "zone-1"}, "acsEndpoint": {"name": "keys"}},
            {"name": "b", "zone": {"id": "z-2"}, "acsEndpoint": {"name": "keys"}},
        ]},
    });
    let template = json!({
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"template": {"spec": {"offering": {"name": "Large"}, "template": {"name": "kube"}}}},
    });
    let lists = Lists {
        deployments: vec![serde_json::from_value(wire()).unwrap()],
        clusters: vec![serde_json::from_value(cluster).unwrap()],
        acs_clusters: vec![serde_json::from_value(zones).unwrap()],
        acs_templates: vec![serde_json::from_value(template).unwrap()],
        ..Lists::default()
    };
    let clock = Clock::system();
    let (sight, config) = (Sight::of(lists, &clock), Arc::new(Config { cloudstack: true, ..Config::default() }));
    let key = GroupKey { kind: GroupKind::Deployment, key: ObjectKey::namespaced("default", "a") };
    let told = explain(&sight, &key, &config, None, Timestamp::UNIX_EPOCH).unwrap();
    let facts: Vec<(&str, &str)> = told.facts.iter().map(|fact| (fact.name, fact.value.as_str())).collect();
    assert_eq!(
        facts,
        [
            ("compute offering", "Large"),
            ("zones", "z-2, zone-1"),
            ("credentials", "Secret default/keys"),
            ("image", "kube"),
        ]
    );
    let next: Vec<&str> = told.next.iter().map(|next| next.what.as_str()).collect();
    assert_eq!(next, ["looks Large up in the offerings of zone-1, z-2"]);
    let off = explain(&sight, &key, &Arc::new(Config::default()), None, Timestamp::UNIX_EPOCH).unwrap();
    assert!(off.summary.contains("no catalogue is known for CloudStackMachineTemplate"), "{}", off.summary);
}
