use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::own::anywhere::CloudStackDatacenterConfigStatus;
use kit::feed::Version;
use kit::kinds::Kind;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::admit::Terms;
use crate::cni::Next;
use crate::config::Config;
use crate::facts::{ClusterFacts, DatacenterFacts, MachineFacts, plane_of};
use crate::guard::guard;
use crate::plan::{Documents, live, rendered};
use crate::render::{Live, Settings};
use crate::snapshot::{Checks, Endpoint, Generated, Inside, Leftovers, Plugin, Reported};

fn documents() -> Documents {
    let mut documents = Documents::default();
    documents.read(include_str!("../../tests/inputs/bundles.yaml")).unwrap();
    documents.read(include_str!("../../tests/inputs/minimal.yaml")).unwrap();
    documents
}

/// A cluster whose indexes show everything it refers to, and nothing made of it.
fn snapshot() -> Snapshot {
    let all = documents();
    let mut cluster = all.clusters[0].clone();
    cluster.metadata.uid = Some("u-1".into());
    cluster.metadata.generation = Some(3);
    cluster.metadata.finalizers = Some(vec![api::names::clusters::FINALIZER.to_owned()]);
    let mut datacenter = all.datacenters[0].clone();
    datacenter.metadata.generation = Some(1);
    datacenter.status = Some(CloudStackDatacenterConfigStatus {
        spec_valid: Some(true),
        observed_generation: Some(1),
        ..CloudStackDatacenterConfigStatus::default()
    });
    let mut machine = all.machines[0].clone();
    machine.metadata.generation = Some(1);
    let key = ObjectKey::namespaced("team-a", "prod");
    let facts = ClusterFacts { object: cluster, ..ClusterFacts::default() };
    Snapshot {
        target: Target { kind: Kind::of::<api::raw::Cluster>(), key: key.clone(), uid: "u-1".into() },
        key,
        now: "2030-01-01T00:00:00Z".parse().unwrap(),
        config: Arc::new(Config::default()),
        terms: Terms::default(),
        cluster: Arc::new(facts),
        version: Version { uid: "u-1".into(), resource_version: "1".into() },
        stored: Reported::default(),
        datacenter: Some(Arc::new(DatacenterFacts { object: datacenter, problem: None })),
        machines: BTreeMap::from([("m".to_owned(), Arc::new(MachineFacts { object: machine, problem: None }))]),
        identities: BTreeMap::new(),
        peers: Vec::new(),
        strangers: Vec::new(),
        clash: None,
        manager_problem: None,
        bundles: Ok(all.bundles[0].clone()),
        unserved: Vec::new(),
        capi: None,
        plane: None,
        groups: BTreeMap::new(),
        nodes: 0,
        hash: "h".into(),
        fading: false,
        signature: String::new(),
        due: true,
        endpoint: Endpoint::NotAsked,
        checked: None,
        generated: None,
        inside: None,
        leftovers: None,
    }
}

/// The bundle is stored before it has an effect; here that was a pass ago.
fn pin(s: &mut Snapshot) {
    let bundles = s.bundles.as_ref().unwrap();
    s.stored.status.resolved_bundles = Some(ResolvedBundles {
        name: bundles.metadata.name.clone().unwrap(),
        namespace: bundles.metadata.namespace.clone().unwrap(),
        number: Some(bundles.spec.number),
    });
}

fn edit(s: &mut Snapshot, change: impl FnOnce(&mut api::own::anywhere::Cluster)) {
    change(&mut Arc::make_mut(&mut s.cluster).object);
}

fn checks(fault: Option<&str>) -> Checks {
    Checks::Judged { machines: [("m".to_owned(), fault.map(str::to_owned))].into(), warnings: Vec::new() }
}

/// What is generated, with so many of its objects stored.
fn generated(stored: usize) -> Generated {
    let all = documents();
    let settings = Settings::default();
    let first = rendered(&all.clusters[0], &all, &settings, &Live::default()).unwrap();
    let names: Vec<Value> = first.objects().into_iter().take(stored).cloned().collect();
    let known: BTreeMap<(String, String), Value> = names
        .iter()
        .map(|object| {
            let word = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
            ((word("/kind"), word("/metadata/name")), object.clone())
        })
        .collect();
    let mut there = live(&first);
    there.templates.retain(|key, _| known.contains_key(key));
    let rendered = rendered(&all.clusters[0], &all, &settings, &there).unwrap();
    Generated { rendered, stored: known, orphans: Vec::new(), foreign: Vec::new(), unused: Vec::new() }
}

fn plane(version: &str) -> crate::facts::PlaneFacts {
    let value = json!({
        "metadata": {"name": "prod", "generation": 2},
        "spec": {"replicas": 1, "version": "v1.31.4-eks-1-31-12"},
        "status": {"observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "upToDateReplicas": 1, "version": version,
            "conditions": [{"type": "Available", "status": "True"}]},
    });
    plane_of(serde_json::from_value(value).unwrap())
}

fn plugin(next: Next) -> Inside {
    Inside::Seen(Box::new(Plugin {
        installed: next != Next::Install,
        next,
        check_left: false,
        version: "v1.16.5".into(),
        objects: Objects::default(),
        check: Objects::default(),
    }))
}

fn names(steps: &[Step]) -> Vec<String> {
    let word = |step: &Step| {
        let text = format!("{step:?}");
        text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    steps.iter().map(word).collect()
}

fn applied(steps: &[Step]) -> Vec<&str> {
    let kind = |step: &Step| match step {
        Step::Apply { object, .. } | Step::Create { object } => {
            object.get("kind").and_then(Value::as_str).map(|kind| {
                // Leaked for the sake of a short table.
                &*Box::leak(kind.to_owned().into_boxed_str())
            })
        }
        _ => None,
    };
    steps.iter().filter_map(kind).collect()
}

fn reason(thought: &Thought) -> Option<(Reason, String)> {
    match &thought.failure {
        Told::Set(failure) => Some((failure.reason, failure.message.clone())),
        _ => None,
    }
}

#[test]
fn the_finalizer_comes_before_everything_else() {
    let mut s = snapshot();
    edit(&mut s, |cluster| cluster.metadata.finalizers = None);
    s.datacenter = None;
    assert_eq!(names(&decide(&s)), ["Secure", "Look"]);
}

#[test]
fn what_costs_something_is_asked_only_when_the_cheaper_checks_passed() {
    let mut s = snapshot();
    assert_eq!(think(&s), Err(Need::Endpoint));
    s.endpoint = Endpoint::Free;
    let mut waits = s.clone();
    Arc::make_mut(waits.datacenter.as_mut().unwrap()).object.metadata.generation = Some(2);
    let thought = think(&waits).unwrap();
    assert_eq!(
        (thought.ended, thought.failure),
        (Some((Phase::ValidateDatacenterConfig, Outcome::Stop(None))), Told::Keep)
    );
    assert_eq!(think(&s), Err(Need::Machines));
    let mut bad = s.clone();
    bad.checked = Some(checks(Some("machine config m: no")));
    let thought = think(&bad).unwrap();
    assert_eq!(reason(&thought), Some((Reason::MachineConfigInvalid, "machine config m: no".into())));
    assert!(names(&thought.steps).contains(&"Judge".to_owned()));
    s.checked = Some(checks(None));
    assert_eq!(think(&s), Err(Need::Generated));
}

#[test]
fn an_endpoint_that_is_being_tried_keeps_what_is_told_and_asks_for_nothing_else() {
    let mut s = snapshot();
    s.endpoint = Endpoint::Trying;
    let thought = think(&s).unwrap();
    let again = Outcome::Again(Duration::from_secs(5));
    assert_eq!((thought.ended.clone(), &thought.failure), (Some((Phase::ValidateControlPlaneIp, again)), &Told::Keep));
    assert!(thought.steps.is_empty() && thought.bundles.is_some());
    // Which bundle it is is stored meanwhile.
    assert!(crate::status::is_stored(&s, &thought));
}

#[test]
fn a_pass_that_another_one_follows_stores_only_what_that_one_depends_on() {
    let mut s = snapshot();
    (s.endpoint, s.checked, s.generated) = (Endpoint::Free, Some(checks(None)), Some(Ok(generated(0))));
    let stored = |s: &Snapshot| crate::status::is_stored(s, &think(s).unwrap());
    assert!(stored(&s), "which bundle it is is stored before it has an effect");
    pin(&mut s);
    assert!(!stored(&s) && decide(&s).contains(&Step::Look));
    s.stored.status.failure_reason = "MachineConfigInvalid".into();
    s.stored.status.failure_message = "no".into();
    assert!(stored(&s), "a failure is taken back before anything follows");
    // What begins to hold is told with the status that says so.
    let mut s = snapshot();
    pin(&mut s);
    (s.endpoint, s.checked, s.generated) = (Endpoint::Free, Some(checks(None)), Some(Ok(generated(4))));
    (s.plane, s.inside) = (Some(plane("v1.31.4-eks-1-31-12")), Some(plugin(Next::Nothing)));
    let told = |s: &Snapshot| {
        let says = |step: &Step| matches!(step, Step::Tell { reason: Reason::ControlPlaneReady, .. });
        decide(s).iter().any(says)
    };
    assert!(names(&think(&s).unwrap().steps).contains(&"Mark".to_owned()), "a plugin that is there gets its mark");
    assert!(!told(&s) && !stored(&s));
    s.generated = Some(Ok(generated(99)));
    assert!(told(&s) && stored(&s));
}

#[test]
fn a_failure_that_is_past_is_taken_back_before_anything_follows() {
    let mut s = snapshot();
    (s.endpoint, s.checked, s.generated) = (Endpoint::Free, Some(checks(None)), Some(Ok(generated(0))));
    pin(&mut s);
    let fail = |s: &mut Snapshot, failure: &Failure| {
        s.stored.status.failure_reason = failure.reason.as_str().to_owned();
        s.stored.status.failure_message.clone_from(&failure.message);
    };
    fail(&mut s, &Failure { reason: Reason::MachineConfigInvalid, message: "no".into() });
    let thought = think(&s).unwrap();
    assert_eq!(thought.ended, Some((Phase::CleanupStatusAfterValidate, Outcome::Continue)));
    assert_eq!((names(&thought.steps).pop().as_deref(), applied(&thought.steps).len()), (Some("Look"), 0));
    let next = crate::status::status(&s, &thought, false);
    assert_eq!((next.status.failure_reason.as_str(), next.status.failure_message.as_str()), ("", ""));
    assert!(next.empties, "what somebody else wrote there stays unless a word takes its place");
    let write = Step::Apply { object: generated(0).rendered.cluster, paths: Vec::new(), drift: false };
    assert!(guard(&s, std::slice::from_ref(&write)).is_err(), "nothing is made for one that says it cannot be");
    let cleared = Snapshot { stored: next, ..s.clone() };
    assert!(!applied(&decide(&cleared)).is_empty());
    // Only another attempt tells whether a write is still refused.
    fail(&mut s, &crate::phase::refusal("Cluster eksa-system/prod", "no"));
    assert!(!applied(&decide(&s)).is_empty() && guard(&s, &decide(&s)).is_ok());
    // What cannot be rendered is told again, and not taken back in between.
    let error = crate::render::Error::NoMachineConfig { name: "m".into() };
    fail(&mut s, &Failure { reason: Reason::MissingDependentObjects, message: error.to_string() });
    s.generated = Some(Err(error));
    let thought = think(&s).unwrap();
    assert_eq!(thought.ended.as_ref().map(|(phase, _)| *phase), Some(Phase::ReconcileControlPlane));
    assert_eq!(crate::status::status(&s, &thought, false).status.failure_reason, s.stored.status.failure_reason);
}

#[test]
fn objects_of_the_control_plane_are_written_in_an_order_in_which_nothing_dangles() {
    let mut s = snapshot();
    (s.endpoint, s.checked, s.generated) = (Endpoint::Free, Some(checks(None)), Some(Ok(generated(0))));
    assert_eq!(applied(&think(&s).unwrap().steps), Vec::<&str>::new(), "which bundle it is is stored first");
    pin(&mut s);
    let thought = think(&s).unwrap();
    assert_eq!(
        applied(&thought.steps),
        ["CloudStackCluster", "CloudStackMachineTemplate", "KubeadmControlPlane", "Cluster"]
    );
    assert_eq!((thought.steps.last(), &thought.failure), (Some(&Step::Look), &Told::Clear));
    assert!(guard(&s, &decide(&s)).is_ok());
}

#[test]
fn the_network_and_the_workers_wait_for_the_control_plane() {
    let mut s = snapshot();
    (s.endpoint, s.checked, s.generated) = (Endpoint::Free, Some(checks(None)), Some(Ok(generated(4))));
    assert_eq!(think(&s).unwrap().ended, Some((Phase::CheckControlPlaneReady, Outcome::Again(Duration::from_secs(5)))));
    s.plane = Some(plane("v1.30.4-eks-1-30-12"));
    assert_eq!(
        think(&s).unwrap().ended,
        Some((Phase::CheckControlPlaneReady, Outcome::Again(Duration::from_secs(30))))
    );
    s.plane = Some(plane("v1.31.4-eks-1-31-12"));
    assert_eq!(think(&s), Err(Need::Inside));
    s.inside = Some(plugin(Next::Install));
    let thought = think(&s).unwrap();
    assert_eq!(names(&thought.steps), ["Judge", "Enter", "Mark", "Look"]);
    assert_eq!(applied(&thought.steps), Vec::<&str>::new());
    edit(&mut s, |cluster| {
        let mark = (api::names::clusters::CILIUM_INSTALLED_ANNOTATION.to_owned(), "true".to_owned());
        cluster.metadata.annotations = Some([mark].into());
    });
    s.inside = Some(plugin(Next::Nothing));
    let thought = think(&s).unwrap();
    let kinds = applied(&thought.steps);
    let wanted = [
        "CloudStackMachineTemplate",
        "KubeadmConfigTemplate",
        "MachineDeployment",
        "MachineHealthCheck",
        "MachineHealthCheck",
    ];
    // A group of the same machines has the template of the control plane's content under a name of its own.
    assert_eq!(kinds, wanted);
    s.generated = Some(Ok(generated(99)));
    let thought = think(&s).unwrap();
    assert!(thought.reconciled && thought.ended.is_none(), "{thought:?}");
}

#[test]
fn what_is_in_the_way_is_told_in_the_order_of_the_checks() {
    let told = |change: &dyn Fn(&mut Snapshot)| {
        let mut s = snapshot();
        change(&mut s);
        reason(&think(&s).unwrap()).unwrap()
    };
    type Row<'a> = (&'a dyn Fn(&mut Snapshot), Reason, &'a str);
    let rows: Vec<Row<'_>> = vec![
        (&|s| s.datacenter = None, Reason::MissingDependentObjects, "CloudStackDatacenterConfig team-a/dc not found"),
        (&|s| s.machines.clear(), Reason::MissingDependentObjects, "CloudStackMachineConfig team-a/m not found"),
        (&|s| s.clash = Some("b/prod".into()), Reason::ClusterInvalid, "name already used by b/prod"),
        (&|s| s.manager_problem = Some("no".into()), Reason::ManagementClusterRefInvalid, "no"),
        (
            &|s| s.bundles.as_mut().unwrap().spec.versions_bundles.clear(),
            Reason::BundleNotFoundForCluster,
            "Bundles bundles-7 has no entry for Kubernetes 1.31 (has none)",
        ),
        (
            &|s| edit(s, |cluster| cluster.spec.control_plane_configuration.as_mut().unwrap().count = Some(2)),
            Reason::ClusterInvalid,
            "spec.controlPlaneConfiguration.count",
        ),
        (
            &|s| {
                s.endpoint = Endpoint::Free;
                s.checked = Some(Checks::Datacenter("secret eksa-system/global not found".into()));
            },
            Reason::DatacenterConfigInvalid,
            "secret eksa-system/global not found",
        ),
        (
            &|s| {
                s.endpoint = Endpoint::Free;
                let pin = |group: &mut api::own::anywhere::WorkerGroup| group.failure_domains = vec!["az-9".into()];
                edit(s, |cluster| cluster.spec.worker_node_group_configurations.iter_mut().for_each(pin));
            },
            Reason::MachineConfigInvalid,
            "worker group md-0: availability zone \"az-9\" is not in the datacenter",
        ),
    ];
    for (change, reason, part) in rows {
        let (found, message) = told(change);
        assert_eq!(found, reason, "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_told_only_of_clusters_that_do_not_exist() {
    let mut s = snapshot();
    s.endpoint = Endpoint::Free;
    s.checked = Some(Checks::Passing { message: "no answer".into(), at_least: None });
    let thought = think(&s).unwrap();
    assert_eq!(reason(&thought).unwrap().1, "CloudStack API not reachable: no answer");
    assert!(names(&thought.steps).contains(&"Fail".to_owned()));
    s.capi = Some(Arc::default());
    assert_eq!(think(&s).unwrap().failure, Told::Keep);
}

#[test]
fn a_cluster_that_is_carried_out_asks_nobody_until_it_is_time_to_look() {
    let mut s = snapshot();
    s.capi = Some(Arc::default());
    s.plane = Some(plane("v1.31.4-eks-1-31-12"));
    let status = &mut s.stored.status;
    (status.reconciled_generation, status.inputs_hash, status.render_revision) = (Some(3), "h".into(), Some(1));
    s.due = false;
    assert_eq!(names(&think(&s).unwrap().steps), Vec::<String>::new());
    s.due = true;
    assert_eq!(think(&s), Err(Need::Generated));
    let mut drifted = generated(99);
    let key = ("MachineDeployment".to_owned(), "prod-md-0".to_owned());
    drifted.stored.get_mut(&key).unwrap()["spec"]["replicas"] = json!(9);
    s.generated = Some(Ok(drifted));
    let thought = think(&s).unwrap();
    assert_eq!(applied(&thought.steps), ["MachineDeployment"]);
    assert!(matches!(&thought.steps[0], Step::Apply { drift: true, paths, .. } if *paths == ["spec.replicas"]));
    s.generated = Some(Ok(generated(99)));
    s.inside = Some(Inside::Unreachable("no route".into()));
    let thought = think(&s).unwrap();
    assert!(thought.verified && thought.steps.is_empty(), "a cluster out of reach was carried out nevertheless");
    // What another revision rendered is left as it is.
    s.stored.status.render_revision = Some(0);
    s.generated = None;
    assert_eq!(names(&think(&s).unwrap().steps), Vec::<String>::new());
}

#[test]
fn a_cluster_of_others_is_labelled_and_remembered() {
    let mut s = snapshot();
    s.stored.status.reconciled_generation = Some(3);
    s.capi = Some(Arc::default());
    s.plane = Some(plane("v1.31.4-eks-1-31-12"));
    s.groups = ["prod-md-0", "theirs"].map(|name| (name.to_owned(), crate::facts::GroupFacts::default())).into();
    let thought = think(&s).unwrap();
    assert!(thought.adopted);
    let labelled: Vec<&str> = thought
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Label { target } => Some(target.key.name()),
            _ => None,
        })
        .collect();
    assert_eq!(labelled, ["prod", "prod", "prod-md-0"], "what others made beside them stays theirs");
    let next = crate::status::status(&s, &thought, false);
    assert_eq!((next.status.render_revision, next.status.inputs_hash.as_str()), (Some(0), "h"));
}

#[test]
fn a_cluster_goes_when_nothing_of_it_is_left_and_not_before() {
    let mut s = snapshot();
    edit(&mut s, |cluster| {
        let now = "2030-01-01T00:00:00Z".parse().unwrap();
        cluster.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    });
    s.datacenter = None;
    assert_eq!(think(&s), Err(Need::Leftovers));
    let capi = Target {
        kind: Kind::of::<api::views::Cluster>(),
        key: ObjectKey::namespaced("eksa-system", "prod"),
        uid: "u-2".into(),
    };
    s.nodes = 4;
    s.leftovers = Some(Leftovers { capi: Some((capi.clone(), false)), ..Leftovers::default() });
    assert!(guard(&s, &decide(&s)).is_err(), "what is not proven to be its own is never deleted");
    let proof = Some(crate::snapshot::Belongs::Labelled);
    s.leftovers = Some(Leftovers { capi: Some((capi.clone(), false)), proof, ..Leftovers::default() });
    assert_eq!(names(&decide(&s)), ["Dissolve", "Wait"]);
    assert!(guard(&s, &decide(&s)).is_ok());
    let thought = think(&s).unwrap();
    let next = crate::status::status(&s, &thought, false).status;
    let ready = next.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!((ready.reason.as_str(), ready.message.as_str()), ("Deleting", "4 machines left"));
    s.leftovers = Some(Leftovers { capi: Some((capi.clone(), true)), ..Leftovers::default() });
    assert_eq!(names(&decide(&s)), ["Wait"]);
    assert!(guard(&s, &[Step::Release]).is_err());
    let rest = Target { kind: Kind::of::<api::views::MachineHealthCheck>(), ..capi };
    s.leftovers = Some(Leftovers { rest: vec![rest], ..Leftovers::default() });
    assert_eq!(names(&decide(&s)), ["Delete", "Release", "Wait"]);
    assert!(guard(&s, &decide(&s)).is_ok());
}

#[test]
fn who_finds_a_machine_configuration_good_takes_back_only_its_own_word() {
    let mut s = snapshot();
    let mut with = |message: &str, generation: i64| {
        let machine = s.machines.get_mut("m").unwrap();
        let status = CloudStackMachineConfigStatus {
            spec_valid: Some(message.is_empty()),
            failure_message: message.to_owned(),
            observed_generation: Some(generation),
        };
        Arc::make_mut(machine).object.status = Some(status);
        s.peers = vec![(ObjectKey::namespaced("team-a", "other"), vec!["m".to_owned()])];
        let machine = Arc::clone(&s.machines["m"]);
        judge::verdict(&s, "m", &machine, None).is_some()
    };
    assert!(!with("", 1), "nothing is said twice");
    assert!(with("team-a/prod: no", 1), "its own word");
    assert!(!with("team-a/other: no", 1), "the word of another that still refers to it");
    assert!(with("team-a/gone: no", 1), "the word of nobody");
    assert!(with("team-a/other: no", 0), "a word about an older generation");
}

#[test]
fn the_guard_refuses_what_must_never_happen() {
    let mut s = snapshot();
    (s.endpoint, s.checked, s.generated) = (Endpoint::Free, Some(checks(None)), Some(Ok(generated(0))));
    let template = generated(0).rendered.control_plane_template.object;
    let change = Step::Apply { object: template, paths: Vec::new(), drift: false };
    assert!(guard(&s, std::slice::from_ref(&change)).is_err(), "a template is never changed");
    let plane = generated(0).rendered.control_plane;
    let write = Step::Apply { object: plane.clone(), paths: Vec::new(), drift: false };
    assert!(guard(&s, std::slice::from_ref(&write)).is_ok());
    assert!(guard(&s, &[Step::Look, write.clone()]).is_err(), "nothing follows the end");
    let mut elsewhere = plane;
    elsewhere["metadata"]["namespace"] = json!("team-a");
    assert!(guard(&s, &[Step::Apply { object: elsewhere, paths: Vec::new(), drift: false }]).is_err());
    edit(&mut s, |cluster| {
        cluster.metadata.annotations =
            Some([("anywhere.eks.amazonaws.com/paused".to_owned(), "true".to_owned())].into());
    });
    assert!(guard(&s, &[write]).is_err(), "a paused cluster is left alone");
}

#[test]
fn only_what_is_provably_its_own_belongs_to_a_cluster() {
    use crate::facts::{CapiFacts, Mark};
    use crate::snapshot::{Belongs, belongs};
    let s = snapshot();
    let capi = |owner: Option<(&str, &str)>, host: &str| CapiFacts {
        mark: Mark { owner: owner.map(|(namespace, name)| ObjectKey::namespaced(namespace, name)), ..Mark::default() },
        host: host.to_owned(),
        port: 6443,
    };
    let mut done = (*s.cluster).clone();
    done.status.reconciled_generation = Some(1);
    let (new, done) = ((*s.cluster).clone(), done);
    for (capi, cluster, alone, wanted) in [
        (capi(Some(("team-a", "prod")), "x"), &new, false, Belongs::Labelled),
        (capi(Some(("team-a", "other")), "172.16.0.5"), &done, true, Belongs::Elsewhere),
        (capi(Some(("team-b", "prod")), "172.16.0.5"), &done, true, Belongs::Elsewhere),
        (capi(None, "172.16.0.5"), &done, true, Belongs::Proven),
        (capi(None, "172.16.0.5"), &done, false, Belongs::Elsewhere),
        (capi(None, "172.16.0.6"), &done, true, Belongs::Elsewhere),
        (capi(None, "172.16.0.5"), &new, true, Belongs::Alike),
    ] {
        assert_eq!(belongs(&capi, &s.key, cluster, alone), wanted, "{capi:?} {alone}");
    }
}

#[test]
fn nothing_is_written_for_a_cluster_that_others_delete() {
    let mut s = snapshot();
    s.capi = Some(Arc::default());
    s.fading = true;
    assert_eq!(names(&decide(&s)), ["Wait"]);
    let next = crate::status::status(&s, &think(&s).unwrap(), false).status;
    assert_eq!(next.conditions[0].message, "its Cluster of Cluster API is being deleted");
    let plane = generated(0).rendered.control_plane;
    assert!(guard(&s, &[Step::Apply { object: plane, paths: Vec::new(), drift: false }]).is_err());
    // One that is gone is made anew by way of every check.
    let status = &mut s.stored.status;
    (status.reconciled_generation, status.inputs_hash, status.render_revision) = (Some(3), "h".into(), Some(1));
    (s.capi, s.fading) = (None, false);
    assert_eq!(think(&s), Err(Need::Endpoint));
}

#[test]
fn annotations_count_by_their_value() {
    let mut s = snapshot();
    edit(&mut s, |cluster| {
        let now = "2030-01-01T00:00:00Z".parse().unwrap();
        cluster.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        let word = |name: &str, value: &str| (format!("anywhere.eks.amazonaws.com/{name}"), value.to_owned());
        cluster.metadata.annotations = Some([word("paused", "true"), word("allow-delete-when-paused", "false")].into());
    });
    assert_eq!(names(&decide(&s)), ["Wait"]);
    edit(&mut s, |cluster| {
        let all = cluster.metadata.annotations.as_mut().unwrap();
        all.insert("anywhere.eks.amazonaws.com/allow-delete-when-paused".to_owned(), "true".to_owned());
    });
    assert_eq!(think(&s), Err(Need::Leftovers));
    edit(&mut s, |cluster| {
        cluster.spec.management_cluster = None;
        let all = cluster.metadata.annotations.as_mut().unwrap();
        all.insert("anywhere.eks.amazonaws.com/managed-by-cli".to_owned(), "false".to_owned());
    });
    assert!(!names(&decide(&s)).contains(&"Release".to_owned()));
}

proptest! {
    /// Whatever is known or not, there is a plan, it breaks no rule, and it is the same the next time.
    #[test]
    fn any_sight_gives_a_plan_that_breaks_no_rule(
        finalizer in any::<bool>(), deleting in any::<bool>(), paused in any::<bool>(), own in any::<bool>(),
        datacenter in any::<bool>(), clash in any::<bool>(), stored in 0_usize..12, capi in any::<bool>(),
        ready in 0_u8..3, inside in 0_u8..6, due in any::<bool>(), converged in any::<bool>(), left in 0_u8..3,
        failed in any::<bool>(),
    ) {
        let mut s = snapshot();
        edit(&mut s, |cluster| {
            if !finalizer { cluster.metadata.finalizers = None; }
            if deleting {
                let now = "2030-01-01T00:00:00Z".parse().unwrap();
                cluster.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            }
            if paused {
                let pause = ("anywhere.eks.amazonaws.com/paused".to_owned(), "true".to_owned());
                cluster.metadata.annotations = Some([pause].into());
            }
            if own { cluster.spec.management_cluster = None; }
        });
        if !datacenter { s.datacenter = None; }
        s.clash = clash.then(|| "b/prod".to_owned());
        s.endpoint = Endpoint::Free;
        s.checked = Some(checks(None));
        s.generated = Some(Ok(generated(stored)));
        s.capi = capi.then(Arc::default);
        s.plane = match ready { 0 => None, 1 => Some(plane("v1.30.0")), _ => Some(plane("v1.31.4-eks-1-31-12")) };
        s.inside = Some(match inside {
            0 => Inside::NoKubeconfig,
            1 => Inside::Unreachable("no".into()),
            2 => plugin(Next::Install),
            3 => plugin(Next::Check),
            4 => plugin(Next::LeaveAlone),
            _ => plugin(Next::Nothing),
        });
        s.due = due;
        if converged {
            let status = &mut s.stored.status;
            (status.reconciled_generation, status.inputs_hash, status.render_revision) = (Some(3), "h".into(), Some(1));
        }
        s.leftovers = (left > 0).then(|| {
            let target = Target { kind: Kind::of::<api::views::Cluster>(), key: ObjectKey::namespaced("eksa-system", "prod"), uid: "u".into() };
            let proof = Some(crate::snapshot::Belongs::Proven);
            Leftovers { capi: (left > 1).then_some((target, left > 2)), proof, ..Leftovers::default() }
        });
        if failed {
            let status = &mut s.stored.status;
            (status.failure_reason, status.failure_message) = ("MachineConfigInvalid".into(), "no".into());
        }
        let plan = decide(&s);
        prop_assert!(guard(&s, &plan).is_ok(), "{:?}", guard(&s, &plan));
        prop_assert_eq!(&plan, &decide(&s));
        if let Ok(thought) = think(&s) {
            let next = crate::status::status(&s, &thought, false);
            let again = Snapshot { stored: next.clone(), ..s.clone() };
            if let Ok(thought) = think(&again) {
                let twice = crate::status::status(&again, &thought, false);
                prop_assert!(twice.status.failure_reason.is_empty() == twice.status.failure_message.is_empty());
            }
        }
    }
}
