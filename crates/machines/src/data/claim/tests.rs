use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::metal3::NamedRef;
use api::reasons::machines::Reason;
use jiff::Timestamp;
use kit::feed::Version;
use kit::kinds::Kind;

use super::super::facts::{DataClaimFacts, DataFacts, Head, MetalMachineFacts, Owner, TemplateFacts};
use super::super::names::{CLAIM_FINALIZER, DATA_FINALIZER};
use super::decide::{Step, decide};
use super::guard::guard;
use super::observe::Snapshot;
use super::status::{named, report};

fn head(uid: &str, finalizer: Option<&str>, deleting: bool) -> Head {
    let finalizers = finalizer.into_iter().map(Into::into).collect();
    Head { uid: uid.into(), generation: 1, deleting, finalizers, ..Head::default() }
}

fn data(index: i32, owner: &str, deleting: bool) -> (ObjectKey, Arc<DataFacts>) {
    let facts = DataFacts {
        head: head(&format!("d{index}"), Some(DATA_FINALIZER), deleting),
        labels: BTreeMap::new(),
        owner: Some(Owner { name: "m".into(), uid: owner.into() }),
        index,
        template: "t".into(),
        claim: "m".into(),
        meta: None,
        network: None,
        status: Default::default(),
    };
    (ObjectKey::namespaced("team", format!("t-{index}")), Arc::new(facts))
}

fn snapshot(chosen: Option<&str>, offer: Option<i32>) -> Snapshot {
    let rendered = chosen.map(|name| NamedRef { name: name.to_owned(), namespace: None });
    let status = api::own::metal3::Metal3DataClaimStatus { rendered_data: rendered, ..Default::default() };
    Snapshot {
        key: ObjectKey::namespaced("team", "m"),
        now: Timestamp::UNIX_EPOCH,
        kind: Kind { group: "g".into(), version: "v1".into(), kind: "K".into(), plural: "ks".into() },
        claim: Arc::new(DataClaimFacts {
            head: head("cu", Some(CLAIM_FINALIZER), false),
            labels: BTreeMap::new(),
            machine: Some(Owner { name: "m".into(), uid: "mu".into() }),
            template: Some("t".into()),
            status,
        }),
        version: Version { uid: "cu".into(), resource_version: "1".into() },
        machine: Some(Arc::new(MetalMachineFacts {
            uid: "mu".into(),
            kind: Some("baremetal".into()),
            filter: None,
            machine: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        })),
        template: Some(Arc::new(TemplateFacts {
            head: head("tu", None, false),
            owners: Vec::new(),
            spec: Default::default(),
            problem: None,
            status: Default::default(),
        })),
        datas: Vec::new(),
        chosen: None,
        offer,
        paused: false,
    }
}

fn plan(s: &Snapshot) -> Vec<Step> {
    let plan = decide(s);
    guard(s, &plan).unwrap();
    plan
}

fn changed(s: &Snapshot, change: impl FnOnce(&mut DataClaimFacts)) -> Snapshot {
    let mut s = s.clone();
    change(Arc::make_mut(&mut s.claim));
    s
}

#[test]
fn the_finalizer_comes_first_then_the_number_and_then_the_data() {
    let bare = changed(&snapshot(None, Some(3)), |claim| claim.head.finalizers = Box::default());
    assert_eq!(plan(&bare), [Step::Finalize]);
    assert!(report(&bare, None).is_none(), "nothing is said before it is ours");
    // The number is stored by the status, based on the version that was read, before anything is made of it.
    let s = snapshot(None, Some(3));
    assert!(plan(&s).is_empty());
    let told = report(&s, None).unwrap();
    assert_eq!(told.next.rendered_data.unwrap().name, "t-3");
    assert_eq!(told.based_on, Some(s.version.clone()));
    assert_eq!(plan(&snapshot(Some("t-3"), None)), [Step::Make { index: 3 }]);
}

#[test]
fn a_number_that_somebody_else_has_is_given_up_and_another_one_chosen() {
    let mut s = snapshot(Some("t-3"), Some(4));
    s.chosen = Some(data(3, "another", false).1);
    assert!(plan(&s).is_empty());
    assert_eq!(named(&s).as_deref(), Some("t-4"));
}

#[test]
fn data_that_is_there_is_kept_and_a_second_one_goes_back() {
    let mut s = snapshot(Some("t-3"), None);
    s.datas = vec![data(1, "cu", false), data(3, "cu", false)];
    s.chosen = Some(data(3, "cu", false).1);
    assert_eq!(named(&s).as_deref(), Some("t-3"));
    assert_eq!(plan(&s), [Step::Drop { data: ObjectKey::namespaced("team", "t-1"), uid: "d1".into() }]);
    // A move restores no status: what is there is found again.
    let mut moved = snapshot(None, None);
    moved.datas = vec![data(5, "cu", false)];
    assert_eq!((named(&moved).as_deref(), plan(&moved)), (Some("t-5"), vec![]));
}

#[test]
fn a_claim_goes_after_its_data() {
    let mut s = changed(&snapshot(Some("t-3"), None), |claim| claim.head.deleting = true);
    s.datas = vec![data(3, "cu", false)];
    assert_eq!(plan(&s), [Step::Drop { data: ObjectKey::namespaced("team", "t-3"), uid: "d3".into() }]);
    s.datas = vec![data(3, "cu", true)];
    assert!(plan(&s).is_empty());
    s.datas.clear();
    // The machine and the template may be gone by then.
    (s.machine, s.template) = (None, None);
    assert_eq!(plan(&s), [Step::Unfinalize]);
}

#[test]
fn nothing_is_made_while_paused_or_without_a_template_or_a_machine() {
    let chosen = snapshot(Some("t-3"), None);
    let paused = Snapshot { paused: true, ..chosen.clone() };
    assert!(plan(&paused).is_empty());
    assert!(report(&paused, None).is_none());
    let reason = |s: &Snapshot| report(s, None).unwrap().verdicts[0].reason;
    let alone = Snapshot { template: None, ..chosen.clone() };
    assert_eq!((plan(&alone), reason(&alone)), (vec![], Reason::TemplateMissing.as_str()));
    assert!(report(&alone, None).unwrap().next.error_message.is_some());
    let orphan = Snapshot { machine: None, ..chosen };
    assert_eq!((plan(&orphan), reason(&orphan)), (vec![], Reason::WaitingForMetal3Machine.as_str()));
    let elsewhere = changed(&snapshot(None, None), |claim| claim.template = None);
    assert_eq!(reason(&elsewhere), Reason::TemplateMissing.as_str());
}
