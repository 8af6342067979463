use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::names::PAUSED_ANNOTATION;
use api::names::claims::{DELETE_FOR_MOVE_ANNOTATION, NODE_UUID_LABEL};
use api::names::machines::{HOST_CLAIM_ANNOTATION, MACHINE_FINALIZER};
use api::own::metal3::{FailureDomainDataTemplate, Initialization, MachineImage, Metal3MachineSpec};
use api::own::{HostClaimStatus, HostMetadata};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kit::feed::Version;
use kit::kinds::Kind;
use kit::write::Target;

use super::*;
use crate::config::Config;
use crate::facts::{ClusterFacts, DataClaimFacts, DataFacts, MachineFacts, OwnerFacts, PlaceFacts};
use crate::machine::guard::guard;
use crate::machine::snapshot::Refused;
use crate::machine::status::status;

/// What holds in every world.
#[path = "decide_tests_worlds.rs"]
mod worlds;

fn now() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn version(at: &str) -> Version {
    Version { uid: "c1".into(), resource_version: at.into() }
}

fn ours() -> Vec<OwnerReference> {
    let uid = "m1-uid".to_owned();
    vec![OwnerReference { kind: "Metal3Machine".to_owned(), uid, controller: Some(true), ..OwnerReference::default() }]
}

/// A machine whose Machine, Cluster and bootstrap data are there, and nothing else.
fn begun() -> Snapshot {
    let kind = Kind {
        group: "infrastructure.cluster.x-k8s.io".to_owned(),
        version: "v1beta2".to_owned(),
        kind: "Metal3Machine".to_owned(),
        plural: "metal3machines".to_owned(),
    };
    let key = ObjectKey::namespaced("team", "m1");
    let checksum = Some("https://images.example/x.sha256".to_owned());
    let url = "https://images.example/x".to_owned();
    let image = MachineImage { url, checksum, ..MachineImage::default() };
    let machine = MachineFacts {
        uid: "m1-uid".into(),
        owner: Some("m1-owner".into()),
        cluster: Some("c".into()),
        spec: Metal3MachineSpec {
            kind: Some("baremetal".to_owned()),
            image: Some(image),
            ..Metal3MachineSpec::default()
        },
        ..MachineFacts::default()
    };
    Snapshot {
        target: Target { kind, key: key.clone(), uid: "m1-uid".into() },
        key,
        now: now(),
        config: Arc::new(Config::default()),
        machine: Arc::new(machine),
        version: version("1"),
        kind: Some("baremetal".to_owned()),
        owner: Some(Arc::new(OwnerFacts {
            cluster: Some("c".into()),
            data_secret: Some("boot".into()),
            failure_domain: Some("rack-7".into()),
            ..OwnerFacts::default()
        })),
        cluster: Some(Arc::new(ClusterFacts { provisioned: true, ..ClusterFacts::default() })),
        place: Some(Arc::new(PlaceFacts::default())),
        claim: None,
        data_claim: None,
        data: None,
        bootstrapped: true,
        reuse: None,
        nodes: Sight::NotAsked,
        patience: node::POLL,
        refused: None,
        asked: None,
    }
}

fn change(s: &mut Snapshot, change: impl FnOnce(&mut MachineFacts)) {
    let mut machine = (*s.machine).clone();
    change(&mut machine);
    s.machine = Arc::new(machine);
}

fn secured() -> Snapshot {
    let mut s = begun();
    change(&mut s, |machine| {
        machine.finalizers = vec![MACHINE_FINALIZER.to_owned()];
        machine.annotations.insert(HOST_CLAIM_ANNOTATION.to_owned(), "team/m1".to_owned());
    });
    s
}

fn condition(type_: &str, status: &str, reason: &str) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: format!("{reason} it is."),
        last_transition_time: Time(now()),
        observed_generation: Some(1),
    }
}

fn claim(s: &Snapshot) -> ClaimFacts {
    ClaimFacts {
        uid: "c1".into(),
        generation: 1,
        owners: ours(),
        spec: reservation(s),
        status: HostClaimStatus {
            host_uid: Some("h1-uid".to_owned()),
            failure_domain: Some("rack-9".to_owned()),
            conditions: vec![
                condition("Associated", "True", "BareMetalHostAssociated"),
                condition("Provisioned", "False", "NotProvisioned"),
            ],
            ..HostClaimStatus::default()
        },
        ..ClaimFacts::default()
    }
}

fn with_claim(s: &mut Snapshot, claim: ClaimFacts) {
    s.claim = Some((Arc::new(claim), version("7")));
}

/// A machine with a claim that has a host.
fn bound() -> Snapshot {
    let mut s = secured();
    let claim = claim(&s);
    with_claim(&mut s, claim);
    s
}

fn plan(s: &Snapshot) -> Vec<Step> {
    let plan = think(s).steps;
    guard(s, &plan).unwrap();
    plan
}

/// A machine whose claim runs what it asks for, known by its provider id.
fn running() -> Snapshot {
    let mut s = bound();
    let Step::Fill { wish } = plan(&s).remove(0) else { panic!("not filled") };
    let mut claim = claim(&s);
    claim.spec.powered_on = Some(true);
    claim.spec.image = wish.image;
    claim.spec.user_data = wish.user_data;
    claim.status.conditions[1] = condition("Provisioned", "True", "Provisioned");
    claim.status.host_metadata = Some(HostMetadata::default());
    with_claim(&mut s, claim);
    change(&mut s, |machine| machine.spec.provider_id = Some("metal3://team/m1/m1".to_owned()));
    s
}

fn node(id: Option<&str>) -> NodeFacts {
    NodeFacts {
        name: "n1".to_owned(),
        provider_id: id.map(str::to_owned),
        labels: BTreeMap::from([(NODE_UUID_LABEL.to_owned(), "h1-uid".to_owned())]),
        ..NodeFacts::default()
    }
}

fn wait(steps: &[Step]) -> bool {
    steps.iter().all(|step| matches!(step, Step::Wait { .. }))
}

#[test]
fn a_machine_that_takes_its_host_directly_is_none_of_our_business() {
    let classic = Snapshot { kind: None, ..begun() };
    let filtered =
        Snapshot { config: Arc::new(Config { watch_filter: Some("blue".to_owned()), ..Config::default() }), ..begun() };
    for s in [classic, filtered] {
        let thought = think(&s);
        assert!(thought.silent && thought.steps.is_empty());
        assert_eq!(questions(&s), Questions::default());
    }
}

#[test]
fn nothing_is_done_before_everything_is_there_and_the_machine_says_what_is_missing() {
    let with = |change: fn(&mut Snapshot)| {
        let mut s = begun();
        change(&mut s);
        s
    };
    for (s, reason) in [
        (with(|s| s.owner = None), Reason::WaitingForMachineOwner),
        (with(|s| s.cluster = None), Reason::WaitingForCluster),
        (with(|s| s.cluster = Some(Arc::default())), Reason::WaitingForClusterInfrastructure),
        (with(|s| s.owner = Some(Arc::default())), Reason::WaitingForBootstrapReady),
        (with(|s| s.bootstrapped = false), Reason::WaitingForBootstrapReady),
        (with(|s| change(s, |machine| machine.problem = Some("spec: bad".into()))), Reason::InvalidSpec),
        (with(|s| change(s, |machine| machine.spec.image = None)), Reason::InvalidSpec),
    ] {
        assert!(wait(&plan(&s)), "{reason}");
        assert_eq!(think(&s).associated.unwrap().reason, reason.as_str());
    }
}

#[test]
fn with_early_reservation_a_host_is_claimed_before_there_is_bootstrap_data() {
    let mut s = secured();
    s.owner = Some(Arc::default());
    s.config = Arc::new(Config { reserve_early: true, ..Config::default() });
    assert!(matches!(plan(&s).as_slice(), [Step::Claim { .. }]));
    let early = claim(&s);
    with_claim(&mut s, early);
    assert!(wait(&plan(&s)));
    assert_eq!(think(&s).synchronized.unwrap().reason, Reason::WaitingForBootstrapReady.as_str());
}

/// A virtual machine that boots without its data never becomes a Node, and cannot be told later.
#[test]
fn what_is_made_for_a_machine_is_told_everything_from_the_start() {
    let mut s = secured();
    s.kind = Some("cloudstack-vm".to_owned());
    let [Step::Claim { spec }] = <[Step; 1]>::try_from(plan(&s)).unwrap() else { panic!("no claim") };
    assert_eq!((spec.powered_on, spec.image.is_some()), (Some(true), true));
    assert_eq!(spec.user_data.and_then(|secret| secret.name).as_deref(), Some("boot"));

    let mut early = s.clone();
    early.owner = Some(Arc::default());
    early.config = Arc::new(Config { reserve_early: true, ..Config::default() });
    assert!(wait(&plan(&early)), "no claim before there is bootstrap data");

    change(&mut s, |machine| machine.spec.data_template = Some(NamedRef::default()));
    assert_eq!(think(&s).associated.unwrap().reason, Reason::InvalidSpec.as_str());
}

#[test]
fn finalizer_and_intent_are_stored_before_the_claim_is_made() {
    let mut s = begun();
    for _ in 0..2 {
        assert!(matches!(plan(&s).as_slice(), [Step::Secure, Step::Claim { .. }]));
        let hasty: Vec<Step> = plan(&s).into_iter().skip(1).collect();
        assert!(guard(&s, &hasty).is_err(), "no claim before both are stored");
        change(&mut s, |machine| machine.finalizers = vec![MACHINE_FINALIZER.to_owned()]);
    }
    let mut s = secured();
    assert_eq!(questions(&s), Questions { reuse: true, nodes: false });
    s.reuse = Some(Some("md-workers".to_owned()));
    let [Step::Claim { spec }] = <[Step; 1]>::try_from(plan(&s)).unwrap() else { panic!("no claim") };
    assert_eq!((spec.powered_on, &spec.image, &spec.user_data), (Some(false), &None, &None));
    assert_eq!(spec.failure_domain.as_deref(), Some("rack-7"));
    assert_eq!(spec.node_reuse.as_deref(), Some("md-workers"));
    let consumer = spec.consumer_ref.unwrap();
    assert_eq!((consumer.kind.as_deref(), consumer.name.as_deref()), (Some("Metal3Machine"), Some("m1")));
}

#[test]
fn a_claim_of_somebody_else_is_never_adopted() {
    let mut s = secured();
    let mut theirs = claim(&s);
    theirs.owners[0].uid = "another".to_owned();
    with_claim(&mut s, theirs.clone());
    assert!(wait(&plan(&s)));
    assert_eq!(think(&s).associated.unwrap().reason, Reason::ClaimNameConflict.as_str());
    // One that lost its owner on the way is known by both sides naming each other.
    theirs.owners.clear();
    with_claim(&mut s, theirs.clone());
    assert_eq!(plan(&s), [Step::Adopt]);
    theirs.spec.consumer_ref = None;
    with_claim(&mut s, theirs);
    assert!(wait(&plan(&s)));
}

#[test]
fn the_machine_repeats_what_its_claim_says_of_a_host() {
    let mut s = bound();
    let mut waiting = claim(&s);
    waiting.status.conditions[0] = condition("Associated", "False", "NoBareMetalHost");
    with_claim(&mut s, waiting.clone());
    assert!(wait(&plan(&s)));
    let says = think(&s).associated.unwrap();
    assert_eq!((says.state, says.reason), (State::False, "NoBareMetalHost"));
    assert_eq!(says.message, "NoBareMetalHost it is.");
    waiting.status.conditions[0] = condition("Associated", "False", "NeverHeardOf");
    with_claim(&mut s, waiting);
    let says = think(&s).associated.unwrap();
    assert_eq!((says.reason, says.message.as_str()), ("NotReady", "NeverHeardOf: NeverHeardOf it is."));
}

#[test]
fn nobody_is_told_at_once_that_a_machine_waits_for_what_it_has_just_asked_for() {
    let mut new = secured();
    let unseen = ClaimFacts { status: HostClaimStatus::default(), ..claim(&new) };
    with_claim(&mut new, unseen);
    let mut filled = running();
    let mut deploying = (*filled.claim.clone().unwrap().0).clone();
    deploying.status.conditions[1] = condition("Provisioned", "False", "Provisioning");
    with_claim(&mut filled, deploying.clone());
    change(&mut filled, |machine| machine.spec.provider_id = None);
    let mut rendering = bound();
    change(&mut rendering, |machine| {
        machine.spec.data_template = Some(NamedRef { name: "t".to_owned(), namespace: None })
    });
    rendering.data_claim = Some(Arc::new(DataClaimFacts { owners: ours(), ..DataClaimFacts::default() }));
    for s in [&new, &filled, &rendering] {
        assert_eq!(think(s).untold, None, "what another process asked for is told of at once");
        let asked = |ago: u64| {
            let asked = now().saturating_sub(Duration::from_secs(ago)).ok();
            Snapshot { asked, ..s.clone() }
        };
        let until = now().saturating_add(Duration::from_secs(12)).ok();
        assert_eq!((think(&asked(3)).untold, plan(&asked(3))), (until, vec![Step::Wait { until }]));
        assert_eq!((think(&asked(15)).untold, wait(&plan(&asked(15)))), (None, true));
    }
    // What keeps a claim from a host, or its host from being deployed, is told whenever it is known.
    let mut stuck = new.clone();
    let mut hostless = claim(&stuck);
    hostless.status.conditions[0] = condition("Associated", "False", "NoBareMetalHost");
    with_claim(&mut stuck, hostless);
    let mut failing = filled.clone();
    deploying.status.conditions[1] = condition("Provisioned", "False", "HostError");
    with_claim(&mut failing, deploying);
    for s in [stuck, failing] {
        assert_eq!(think(&Snapshot { asked: Some(now()), ..s }).untold, None);
    }
}

#[test]
fn a_bound_claim_is_given_everything_at_once() {
    let s = bound();
    let [Step::Fill { wish }] = <[Step; 1]>::try_from(plan(&s)).unwrap() else { panic!("not filled") };
    assert_eq!(wish.image.unwrap().url, "https://images.example/x");
    assert_eq!(wish.user_data.unwrap().name.as_deref(), Some("boot"));
    assert_eq!((wish.meta_data, wish.network_data), (None, None));
}

#[test]
fn what_the_machine_says_nothing_about_is_left_to_the_tenant() {
    let mut s = running();
    let mut theirs = (*s.claim.clone().unwrap().0).clone();
    theirs.spec.meta_data = Some(SecretReference { name: Some("mine".to_owned()), namespace: None });
    theirs.spec.image.as_mut().unwrap().oci_auth_secret_name = Some("pull".to_owned());
    with_claim(&mut s, theirs);
    assert!(wait(&plan(&s)), "not asked for again and again");
    assert_eq!(think(&s).synchronized.unwrap().state, State::True);
}

#[test]
fn what_a_tenant_changed_is_told_and_asked_for_again_only_after_a_change() {
    let mut s = bound();
    let [Step::Fill { wish }] = <[Step; 1]>::try_from(plan(&s)).unwrap() else { panic!("not filled") };
    let lines = vec!["spec.poweredOn: conflict with \"kubectl\"".to_owned()];
    s.refused = Some(Refused { at: version("7"), wish: *wish, lines });
    assert!(wait(&plan(&s)));
    let says = think(&s).synchronized.unwrap();
    assert_eq!(says.reason, Reason::HostClaimChanged.as_str());
    assert!(says.message.contains("spec.poweredOn"));
    let again = claim(&s);
    s.claim = Some((Arc::new(again), version("8")));
    assert!(matches!(plan(&s).as_slice(), [Step::Fill { .. }]));
}

#[test]
fn data_is_asked_for_by_where_the_machine_really_is_and_waited_for() {
    let mut s = bound();
    change(&mut s, |machine| {
        let named = |name: &str| NamedRef { name: name.to_owned(), namespace: None };
        machine.spec.data_template = Some(named("plain"));
        machine.spec.failure_domain_data_templates =
            vec![FailureDomainDataTemplate { failure_domain: "rack-9".to_owned(), data_template: named("nine") }];
    });
    let [Step::AskData { template }] = <[Step; 1]>::try_from(plan(&s)).unwrap() else { panic!("not asked") };
    assert_eq!(template.name, "nine");
    s.data_claim = Some(Arc::new(DataClaimFacts { owners: ours(), ..DataClaimFacts::default() }));
    assert!(wait(&plan(&s)));
    assert_eq!(think(&s).data.unwrap().reason, Reason::WaitingForMetal3Data.as_str());
    let rendered = Some(NamedRef { name: "nine-0".to_owned(), namespace: None });
    s.data_claim = Some(Arc::new(DataClaimFacts { owners: ours(), rendered, ..DataClaimFacts::default() }));
    let broken = DataFacts { error: Some("no NIC eth9".to_owned()), ..DataFacts::default() };
    s.data = Some(Arc::new(broken));
    assert_eq!(think(&s).data.unwrap().reason, Reason::AssociateM3MetaDataFailed.as_str());
    let secret = |name: &str| Some(SecretReference { name: Some(name.to_owned()), namespace: Some("team".to_owned()) });
    let ready =
        DataFacts { ready: true, meta_data: secret("meta"), network_data: secret("net"), ..DataFacts::default() };
    s.data = Some(Arc::new(ready));
    let [Step::Fill { wish }] = <[Step; 1]>::try_from(plan(&s)).unwrap() else { panic!("not filled") };
    assert_eq!(wish.meta_data.unwrap(), SecretReference { name: Some("meta".to_owned()), namespace: None });
    assert_eq!(wish.network_data.unwrap().name.as_deref(), Some("net"));
    s.data_claim = Some(Arc::new(DataClaimFacts::default()));
    assert!(wait(&plan(&s)));
    assert_eq!(think(&s).data.unwrap().reason, Reason::ClaimNameConflict.as_str());
}

#[test]
fn the_provider_id_is_stored_before_the_node_is_looked_for_and_never_changed() {
    let mut s = running();
    assert_eq!(questions(&s), Questions { reuse: false, nodes: true });
    change(&mut s, |machine| machine.spec.provider_id = None);
    assert_eq!(plan(&s), [Step::Publish { provider_id: "metal3://team/m1/m1".to_owned() }]);
    let mut given = (*s.claim.clone().unwrap().0).clone();
    given.status.provider_id = Some("cloudstack:///vm-1".to_owned());
    with_claim(&mut s, given);
    assert_eq!(plan(&s), [Step::Publish { provider_id: "cloudstack:///vm-1".to_owned() }]);
    change(&mut s, |machine| machine.spec.provider_id = Some("metal3://team/m1/m1".to_owned()));
    assert!(wait(&plan(&s)));
    assert_eq!(think(&s).node.unwrap().reason, Reason::ProviderIDMismatch.as_str());
}

#[test]
fn what_a_claim_said_of_an_earlier_wish_does_not_count() {
    let mut s = running();
    change(&mut s, |machine| machine.spec.provider_id = None);
    let mut old = (*s.claim.clone().unwrap().0).clone();
    old.generation = 2;
    with_claim(&mut s, old);
    assert!(wait(&plan(&s)));
    assert_eq!(think(&s).node.unwrap().reason, Reason::WaitingForProvisioning.as_str());
}

#[test]
fn a_machine_is_done_when_its_node_carries_its_id() {
    let mut s = running();
    for (sight, reason) in [
        (Sight::Dark("no answer".to_owned()), Reason::ClusterUnreachable),
        (Sight::Seen(Vec::new()), Reason::NodeNotFound),
        (Sight::Seen(vec![node(None), NodeFacts { name: "n2".to_owned(), ..node(None) }]), Reason::NodeAmbiguous),
        (Sight::Seen(vec![node(Some("metal3://team/m2/m2"))]), Reason::NodeTaken),
    ] {
        s.nodes = sight;
        let until = now().saturating_add(Duration::from_secs(30)).unwrap();
        assert_eq!(plan(&s), [Step::Wait { until: Some(until) }]);
        assert_eq!(think(&s).node.unwrap().reason, reason.as_str());
        assert!(!think(&s).done);
    }
    s.nodes = Sight::Seen(vec![node(None)]);
    assert!(matches!(plan(&s).as_slice(), [Step::NameNode { .. }]));
    s.nodes = Sight::Seen(vec![node(Some("metal3://team/m1/m1"))]);
    assert_eq!(plan(&s), []);
    let thought = think(&s);
    assert!(thought.done);
    let (next, verdicts) = status(&s, &thought);
    assert_eq!(next.initialization, Some(Initialization { provisioned: Some(true) }));
    assert_eq!(next.failure_domain.as_deref(), Some("rack-9"));
    assert_eq!(next.host_claim.unwrap().name, "m1");
    let ready = verdicts.iter().find(|verdict| verdict.type_ == "Ready").unwrap();
    assert_eq!(ready.state, State::True, "{ready:?}");
}

#[test]
fn labels_follow_the_host_when_the_cluster_says_so() {
    let mut s = running();
    let mut labelled = (*s.claim.clone().unwrap().0).clone();
    let labels = BTreeMap::from([("rack.example.org/row".to_owned(), "7".to_owned())]);
    labelled.status.host_metadata = Some(HostMetadata { labels, ..HostMetadata::default() });
    with_claim(&mut s, labelled);
    s.nodes = Sight::Seen(vec![node(Some("metal3://team/m1/m1"))]);
    assert_eq!(plan(&s), []);
    let cluster =
        ClusterFacts { provisioned: true, label_prefixes: Some("rack.example.org".into()), ..ClusterFacts::default() };
    s.cluster = Some(Arc::new(cluster));
    let [Step::Label { changes, .. }] = <[Step; 1]>::try_from(plan(&s)).unwrap() else { panic!("no labels") };
    assert_eq!(changes, BTreeMap::from([("rack.example.org/row".to_owned(), Some("7".to_owned()))]));
}

#[test]
fn a_machine_that_ran_gets_no_second_host() {
    let mut s = running();
    s.claim = None;
    assert!(wait(&plan(&s)));
    assert_eq!(think(&s).associated.unwrap().reason, Reason::HostClaimMissing.as_str());
}

#[test]
fn the_host_goes_first_and_what_it_was_told_last() {
    let mut s = running();
    change(&mut s, |machine| machine.deleting = true);
    s.data_claim = Some(Arc::new(DataClaimFacts { owners: ours(), ..DataClaimFacts::default() }));
    assert_eq!(questions(&s), Questions { reuse: true, nodes: false });
    s.reuse = Some(Some("cp-plane".to_owned()));
    assert_eq!(plan(&s), [Step::Regroup { group: Some("cp-plane".to_owned()) }]);
    s.reuse = Some(None);
    assert_eq!(plan(&s), [Step::Release]);
    let mut going = (*s.claim.clone().unwrap().0).clone();
    going.deleting = true;
    with_claim(&mut s, going);
    assert!(wait(&plan(&s)));
    s.claim = None;
    assert_eq!(plan(&s), [Step::ReleaseData]);
    s.data_claim = None;
    assert_eq!(plan(&s), [Step::Conclude]);
    change(&mut s, |machine| machine.finalizers.clear());
    assert_eq!(plan(&s), []);
}

#[test]
fn a_machine_that_was_moved_goes_without_giving_anything_back_even_while_paused() {
    let mut s = running();
    change(&mut s, |machine| {
        machine.deleting = true;
        machine.annotations.insert(DELETE_FOR_MOVE_ANNOTATION.to_owned(), String::new());
        machine.annotations.insert(PAUSED_ANNOTATION.to_owned(), String::new());
    });
    assert_eq!(plan(&s), [Step::Conclude]);
}

#[test]
fn a_paused_machine_keeps_what_it_said() {
    let mut s = running();
    s.nodes = Sight::Seen(vec![node(Some("metal3://team/m1/m1"))]);
    let (mut next, verdicts) = status(&s, &think(&s));
    next.conditions = kit::conditions::fold(&[], &verdicts, 1, now()).conditions;
    change(&mut s, |machine| machine.status = next.clone());
    s.cluster = Some(Arc::new(ClusterFacts { paused: true, provisioned: true, ..ClusterFacts::default() }));
    for deleting in [false, true] {
        change(&mut s, |machine| machine.deleting = deleting);
        assert!(wait(&plan(&s)));
        assert_eq!(questions(&s), Questions::default());
    }
    change(&mut s, |machine| machine.deleting = false);
    let (paused, verdicts) = status(&s, &think(&s));
    assert_eq!(paused.initialization, next.initialization);
    let of = |type_: &str| verdicts.iter().find(|verdict| verdict.type_ == type_).unwrap().state;
    assert_eq!((of("Paused"), of("Ready"), of("KubernetesNodeReady")), (State::True, State::True, State::True));
}

#[test]
fn what_cannot_be_judged_says_what_it_waits_for() {
    let mut s = bound();
    change(&mut s, |machine| {
        machine.spec.data_template = Some(NamedRef { name: "t".to_owned(), namespace: None });
        let told = ["Synchronized", "Provisioned", "KubernetesNodeReady"];
        machine.status.conditions = told.map(|type_| condition(type_, "True", "Ready")).to_vec();
    });
    s.data_claim = Some(Arc::new(DataClaimFacts { owners: ours(), ..DataClaimFacts::default() }));
    let (_, verdicts) = status(&s, &think(&s));
    let of = |type_: &str| verdicts.iter().find(|verdict| verdict.type_ == type_).unwrap();
    for type_ in ["Synchronized", "Provisioned", "KubernetesNodeReady"] {
        let says = of(type_);
        // Not the reason of what holds, which would tell nobody where to look.
        assert_eq!((says.state, says.reason), (State::Unknown, Reason::WaitingForMetal3Data.as_str()), "{type_}");
        assert_eq!(says.message, "It is looked at again when Metal3DataReady holds.");
    }
    assert_eq!(of("Ready").reason, Reason::WaitingForMetal3Data.as_str());
}

#[test]
fn a_machine_that_wants_no_data_any_more_does_not_say_that_it_waits_for_it() {
    let mut s = running();
    s.nodes = Sight::Seen(vec![node(Some("metal3://team/m1/m1"))]);
    let stored = condition("Metal3DataReady", "False", Reason::WaitingForMetal3Data.as_str());
    change(&mut s, |machine| machine.status.conditions = vec![stored]);
    let of = |s: &Snapshot, type_: &str| {
        let (_, verdicts) = status(s, &think(s));
        verdicts.into_iter().find(|verdict| verdict.type_ == type_).map(|verdict| (verdict.state, verdict.reason))
    };
    assert_eq!(of(&s, "Metal3DataReady"), Some((State::True, Reason::SecretsSet.as_str())));
    assert_eq!(of(&s, "Ready").unwrap().0, State::True);
    // While it rests it says what it said.
    let mut paused = s.clone();
    paused.cluster = Some(Arc::new(ClusterFacts { paused: true, provisioned: true, ..ClusterFacts::default() }));
    assert_eq!(of(&paused, "Metal3DataReady"), Some((State::False, Reason::WaitingForMetal3Data.as_str())));
    // One that never wanted any has nothing to say of it.
    change(&mut s, |machine| machine.status.conditions.clear());
    assert_eq!(of(&s, "Metal3DataReady"), None);
}

#[test]
fn however_many_nodes_fit_what_to_do_is_told_first() {
    let mut s = running();
    let name = |number: usize| format!("{number}-{}", "n".repeat(200));
    s.nodes = Sight::Seen((0..5).map(|number| NodeFacts { name: name(number), ..node(None) }).collect());
    let says = think(&s).node.unwrap();
    assert_eq!(says.reason, Reason::NodeAmbiguous.as_str());
    let (_, verdicts) = status(&s, &think(&s));
    let stored = kit::conditions::fold(&[], &verdicts, 1, now()).conditions;
    let stored = find(&stored, "KubernetesNodeReady").unwrap();
    assert!(stored.message.starts_with("Remove Nodes, or what makes them fit") && stored.message.len() < 310);
}
