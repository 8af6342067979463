use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use api::names::hosts::{ALLOCATION_ANNOTATION as ALLOCATION, LAUNCH_ANNOTATION as LAUNCH, SCOPE_ANNOTATION as SCOPE};

const MACHINE: &str = "team/m";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_261_600 + second).unwrap()
}

fn host(number: u8) -> HostId {
    format!("h-0000000000000{number:04x}").parse().unwrap()
}

fn terms() -> Terms {
    Terms {
        zone: "us-west-2a".parse().unwrap(),
        subnet: "subnet-0a0a0a0a".parse().unwrap(),
        shape: HostShape::Type("m5.metal".parse().unwrap()),
        quantity: 2,
        recovery: Some(Switch::On),
        maintenance: None,
        tags: BTreeMap::from([("CostCenter".to_owned(), "42".to_owned())]),
    }
}

fn intended() -> Allocation {
    Allocation::intend(AllocationId::of(1, 2), None, terms(), at(0)).unwrap()
}

fn read(annotations: &[(&str, &str)]) -> Result<Journal, JournalError> {
    Journal::read(MACHINE, |key| annotations.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
}

#[test]
fn what_was_written_reads_back_equal_and_fits_a_token() {
    let mut allocation = intended().in_phase(Phase::Releasing, at(5)).with_hosts(vec![host(1), host(2)]);
    allocation.past = vec![host(3)];
    let allocation = allocation.because(Cause::Idle);
    let launch =
        Launch::first(allocation.id.clone(), terms().subnet, Some(host(1)), at(7)).unwrap().refused("Unsupported");
    let identity = Some(("AWSClusterRoleIdentity".to_owned(), "r".to_owned()));
    let account = Some("123456789012".parse().unwrap());
    let scope = Scope { region: "us-west-2".parse().unwrap(), identity, account };
    let (a, l, s) = (allocation.text(MACHINE), launch.text(MACHINE), scope.text());
    let journal = read(&[(ALLOCATION, &a), (LAUNCH, &l), (SCOPE, &s)]).unwrap();
    assert_eq!(journal, Journal { allocation: Some(allocation), launch: Some(launch), scope: Some(scope) });
    let widest = AllocationId::of(u64::MAX, u64::MAX);
    assert!(widest.host_token(u32::MAX).is_ok() && widest.launch_token(u32::MAX).is_ok());
    assert_eq!(AllocationId::of(1, 2).as_str(), "00000000-0000-0001-0000-000000000002");
}

#[test]
fn the_worked_example_is_read_and_fields_of_the_future_are_let_be() {
    let text = r#"{"v":1,"id":"6f0c1111","epoch":1,"token":"dh-6f0c1111-1","az":"us-west-2a","subnet":"subnet-0a0a0a0a",
        "type":"m5.metal","qty":1,"tags":{"CostCenter":"42"},"phase":"Allocated","hosts":["h-0123456789abcdef0"],
        "at":"2026-01-01T10:00:00Z","colour":"blue"}"#;
    let launch = r#"{"v":1,"token":"ri-6f0c1111-1","epoch":1,"subnet":"subnet-0a0a0a0a","host":"h-0123456789abcdef0","at":"2026-01-01T10:00:21Z"}"#;
    let journal = read(&[(ALLOCATION, text), (LAUNCH, launch)]).unwrap();
    assert_eq!(journal.allocation.unwrap().phase, Phase::Allocated);
    assert_eq!(journal.launch.unwrap().id.as_str(), "6f0c1111");
    assert_eq!(read(&[]), Ok(Journal::default()));
}

#[test]
fn nonsense_is_named_by_annotation_and_field() {
    let good = intended().text(MACHINE);
    let swap = |from: &str, to: &str| {
        assert!(good.contains(from), "{good}");
        good.replace(from, to)
    };
    for (text, part) in [
        ("x".to_owned(), "expected"),
        (swap(r#""v":1"#, r#""v":2"#), "v: 2"),
        (swap(r#""epoch":1"#, r#""epoch":2"#), "token"),
        (swap(r#""epoch":1"#, r#""epoch":0"#), "epoch"),
        (swap(r#""type":"m5.metal","#, ""), "type or family"),
        (swap(r#""type":"#, r#""family":"m5","type":"#), "exclude"),
        (swap(r#""qty":2"#, r#""qty":11"#), "qty"),
        (swap("Intended", "Claimed"), "a place is on one host"),
        (swap("Intended", "Lost"), "phase"),
        (swap(r#""hosts":[]"#, r#""hosts":["h-1"]"#), "hosts"),
        (swap(r#""hosts":[]"#, r#""hosts":["h-00000001"]"#), "hosts: an intent has none"),
        (swap("us-west-2a", "west"), "az"),
        (swap(r#""recovery":"on""#, r#""recovery":"yes""#), "recovery"),
    ] {
        let error = read(&[(ALLOCATION, &text)]).unwrap_err();
        assert!(error.annotation == ALLOCATION && error.detail.contains(part), "{text}: {error}");
    }
    let launch = Launch::first(AllocationId::of(1, 2), terms().subnet, None, at(0)).unwrap().text(MACHINE);
    assert_eq!(read(&[(LAUNCH, &launch.replace("ri-", "dh-"))]).unwrap_err().annotation, LAUNCH);
    assert_eq!(read(&[(SCOPE, r#"{"region":"mars"}"#)]).unwrap_err().annotation, SCOPE);
    let elsewhere = read(&[(ALLOCATION, &good), (SCOPE, r#"{"region":"us-east-1"}"#)]).unwrap_err();
    assert!(elsewhere.annotation == SCOPE && elsewhere.detail.contains("us-west-2a"), "{elsewhere}");
    assert_eq!(read(&[(SCOPE, r#"{"region":"us-east-1","account":"x"}"#)]).unwrap_err().annotation, SCOPE);
}

#[test]
fn the_journal_of_one_machine_is_no_journal_of_another() {
    let launch = Launch::first(AllocationId::of(1, 2), terms().subnet, None, at(0)).unwrap();
    for (key, text) in [(ALLOCATION, intended().text("team/m")), (LAUNCH, launch.text("team/m"))] {
        let read = |machine: &str| Journal::read(machine, |name| (name == key).then_some(text.as_str()));
        assert!(read("team/m").is_ok());
        for copy in ["team/m2", "other/m"] {
            let error = read(copy).unwrap_err();
            assert!(error.annotation == key && error.detail.contains("of: it is the journal of team/m"), "{error}");
        }
        let before = text.replace(r#""of":"team/m","#, "");
        assert!(before != text && Journal::read("any/name", |name| (name == key).then_some(before.as_str())).is_ok());
    }
}

#[test]
fn only_these_steps_are_legal() {
    use Phase::*;
    let all = [Intended, Allocated, Claimed, Releasing, Released, Retained, Abandoned];
    let allowed = [
        (Intended, &[Intended, Allocated, Abandoned, Released][..]),
        (Allocated, &[Allocated, Releasing, Retained, Abandoned]),
        (Claimed, &[Claimed, Allocated, Released, Abandoned]),
        (Releasing, &[Allocated, Releasing, Released, Retained, Abandoned]),
        (Released, &[Released]),
        (Retained, &[Retained]),
        (Abandoned, &[Abandoned]),
    ];
    for (from, targets) in allowed {
        for to in all {
            let before = intended().in_phase(from, at(0));
            let after = before.in_phase(to, at(0));
            assert_eq!(legal(Some(&before), &after).is_ok(), targets.contains(&to), "{from:?} to {to:?}");
        }
    }
}

#[test]
fn nothing_that_may_be_paid_for_is_forgotten() {
    let allocated = intended().in_phase(Phase::Allocated, at(1)).with_hosts(vec![host(1)]);
    let why = |from: &Allocation, to: &Allocation| legal(Some(from), to).unwrap_err().why;
    assert_eq!(why(&allocated, &allocated.clone().with_hosts(vec![])), "no host is forgotten");
    let mut replaced = allocated.clone().with_hosts(vec![host(2)]);
    replaced.past = vec![host(1)];
    assert_eq!(legal(Some(&allocated), &replaced), Ok(()));
    let mut other = allocated.clone();
    other.terms.quantity = 1;
    assert_eq!(why(&allocated, &other), "within an epoch the request does not change");
    let mut elsewhere = allocated.clone();
    elsewhere.terms.zone = "us-west-2b".parse().unwrap();
    assert_eq!(why(&allocated, &elsewhere), "within an epoch the request does not change");
    let mut stranger = allocated.clone();
    stranger.id = AllocationId::of(9, 9);
    assert_eq!(why(&allocated, &stranger), "the id is the same for the life of the machine");
    let earlier = Allocation { at: at(0), ..allocated.clone() };
    assert_eq!(why(&allocated, &earlier), "time does not go back");
    assert!(legal(None, &allocated).is_err(), "hosts without an intent are adopted or not ours");
    let back = allocated.in_phase(Phase::Released, at(2));
    assert_eq!(legal(Some(&back), &back.in_phase(Phase::Releasing, at(9))), Ok(()), "what is seen again is given back");
    let mut past = allocated.clone().with_hosts(vec![host(2)]);
    past.past = vec![host(1)];
    let again = past.clone().with_more(vec![host(1), host(2), host(3)]);
    assert_eq!((again.hosts.clone(), again.past.len()), (vec![host(2), host(1), host(3)], 0));
    assert_eq!(legal(Some(&past), &again), Ok(()));
    assert!(legal(Some(&intended()), &intended().in_phase(Phase::Released, at(1)).with_hosts(vec![host(1)])).is_err());
}

#[test]
fn an_epoch_begins_only_when_the_last_one_is_given_back() {
    let mut before = intended().in_phase(Phase::Allocated, at(1)).with_hosts(vec![host(1)]);
    before.past = vec![host(9)];
    let next = |before: &Allocation| Allocation::intend(AllocationId::of(5, 5), Some(before), terms(), at(9));
    for phase in [Phase::Intended, Phase::Allocated, Phase::Releasing, Phase::Retained, Phase::Abandoned] {
        assert!(next(&before.in_phase(phase, at(2))).is_err(), "{phase:?}");
    }
    let second = next(&before.in_phase(Phase::Released, at(2))).unwrap();
    assert_eq!((second.epoch, &second.id), (2, &before.id));
    assert_ne!(second.token, before.token);
    assert_eq!(second.past, [host(9), host(1)], "a read that lags does not bring them back");
    let mut skipped = second.clone();
    skipped.epoch = 3;
    assert!(legal(Some(&before.in_phase(Phase::Released, at(2))), &skipped).is_err());
}

#[test]
fn a_host_that_is_there_is_joined_at_the_beginning_of_an_epoch_and_handed_over_within_it() {
    let join = |before: Option<&Allocation>, phase| {
        Allocation::join(AllocationId::of(1, 2), before, terms(), (phase, host(1)), at(9))
    };
    let place = join(None, Phase::Claimed).unwrap();
    assert_eq!((place.epoch, place.adopted, place.hosts.clone()), (1, true, vec![host(1)]));
    assert!(join(None, Phase::Allocated).is_ok() && join(None, Phase::Releasing).is_err());
    let text = place.text(MACHINE);
    assert_eq!(read(&[(ALLOCATION, &text)]).unwrap().allocation, Some(place.clone()));
    let handed = place.handed(AllocationId::of(3, 4), at(20));
    assert_eq!(legal(Some(&place), &handed), Ok(()));
    let text = handed.text(MACHINE);
    assert_eq!(read(&[(ALLOCATION, &text)]).unwrap().allocation, Some(handed));
    assert!(join(Some(&place), Phase::Claimed).is_err(), "a place is left before another one is taken");
    let left = place.in_phase(Phase::Released, at(30)).because(Cause::Failed);
    assert_eq!(legal(Some(&place), &left), Ok(()));
    let again = join(Some(&left), Phase::Claimed).unwrap();
    assert_eq!((again.epoch, again.past.len(), again.hosts.clone()), (2, 0, vec![host(1)]), "the same one, later");
    let asked = Allocation::intend(AllocationId::of(1, 2), Some(&left), terms(), at(40)).unwrap();
    assert_eq!((asked.epoch, asked.past.clone(), asked.from), (2, vec![host(1)], None));
}

#[test]
fn a_launch_gets_a_new_token_only_with_a_new_epoch() {
    let first = Launch::first(AllocationId::of(1, 2), terms().subnet, Some(host(1)), at(0)).unwrap();
    let again = first.refused("InsufficientCapacityOnHost").again(at(60));
    assert_eq!((again.token.clone(), again.refused.clone(), again.at), (first.token.clone(), None, at(60)));
    let next = first.next(terms().subnet, Some(host(2)), at(90)).unwrap();
    assert!(next.epoch == 2 && next.token != first.token && next.id == first.id);
}

proptest! {
    #[test]
    fn reading_never_panics(text in any::<String>(), key in prop::sample::select(vec![ALLOCATION, LAUNCH, SCOPE])) {
        let _ = read(&[(key, &text)]);
    }

    #[test]
    fn damage_is_an_error_or_another_legal_journal(position in 0usize..400, byte in 32u8..127) {
        let mut text = intended().in_phase(Phase::Allocated, at(1)).with_hosts(vec![host(1)]).text(MACHINE).into_bytes();
        if let Some(there) = text.get_mut(position) {
            *there = byte;
        }
        let text = String::from_utf8(text).unwrap();
        if let Ok(journal) = read(&[(ALLOCATION, &text)]) {
            let again = journal.allocation.unwrap();
            prop_assert_eq!(read(&[(ALLOCATION, &again.text(MACHINE))]).unwrap().allocation, Some(again));
        }
    }
}
