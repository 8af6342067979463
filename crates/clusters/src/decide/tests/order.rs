//! What comes before what.

use super::*;

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
