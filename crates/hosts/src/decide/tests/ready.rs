//! What `Ready` makes of the other conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::*;

/// What `Ready` says of a machine.
fn ready(s: &Snapshot) -> (&'static str, String) {
    let (_, verdicts) = crate::status::status(s, &think(s));
    let ready = verdicts.into_iter().find(|verdict| verdict.type_ == api::reasons::READY).unwrap();
    (ready.reason, ready.message)
}

#[test]
fn ready_names_what_stands_in_the_way_and_not_what_waits_for_it() {
    let denied = |doing| Mishap {
        doing,
        class: Class::Permission,
        code: "UnauthorizedOperation".to_owned(),
        message: "no".to_owned(),
        tries: 1,
        until: Timestamp::from_second(now().as_second() + 10).unwrap(),
    };
    let mut asking = with(|m| journal(m, |j| j.allocation = Some(allocation(Phase::Intended, &[], ago(5)))));
    assert_eq!(ready(&asking).0, "HostAllocationStarted", "the instance waits for its host");
    asking.mishap = Some(denied(Doing::Allocate));
    assert_eq!(ready(&asking).0, "HostAllocationDenied");

    let mut going = seeing(s_allocated(), vec![host(H[0], HostState::Available)], vec![instance()]);
    going.announced = true;
    assert!(ready(&going).1.starts_with("WaitingForInstanceTermination: "), "{:?}", ready(&going));
    going.mishap = Some(denied(Doing::Terminate));
    assert_eq!(ready(&going), ("Deleting", "DeletingFailed: no".to_owned()));

    // What was said of the hosts before is not what keeps the machine now.
    let mut strange = with(|m| {
        m.deleting = true;
        m.spec.instance_id = Some(I.to_owned());
        journal(m, |j| j.allocation = Some(allocation(Phase::Allocated, &[H[0]], ago(30))));
        m.status.conditions = vec![Condition {
            type_: api::reasons::DEDICATED_HOST_RELEASE.to_owned(),
            status: "False".to_owned(),
            reason: Reason::DedicatedHostReleaseFailed.as_str().to_owned(),
            message: "long ago".to_owned(),
            last_transition_time: Time(ago(900)),
            observed_generation: None,
        }];
    });
    strange.sky = Sky::Clear(Box::new(Sight { strangers: vec![sample::instance(I)], ..Sight::default() }));
    assert!(ready(&strange).1.starts_with("DeletingFailed: the tags of instance"), "{:?}", ready(&strange));

    let mut releasing = with(|m| {
        m.deleting = true;
        journal(m, |j| j.allocation = Some(allocation(Phase::Releasing, &[H[0]], ago(30))));
    });
    releasing = seeing(releasing, vec![host(H[0], HostState::Available)], vec![]);
    releasing.mishap = Some(denied(Doing::Release));
    assert_eq!(ready(&releasing), ("Deleting", "DedicatedHostReleaseFailed: no".to_owned()));
}
