//! What is told, and when it is taken back.

use super::*;

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
