use proptest::prelude::*;

use super::*;
use crate::offer::{Arch, Offer};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn offer(vcpus: u64) -> Arc<Offer> {
    Arc::new(Offer {
        vcpus,
        memory_mib: 1024,
        accelerators: None,
        gpus: 0,
        nvidia: 0,
        arch: Some(Arch::Amd64),
        assumed: false,
        disk: None,
        network: None,
        windows: None,
    })
}

fn place(region: &str) -> Place {
    Place { region: region.parse().unwrap(), endpoint: None }
}

fn list(names: &[&str]) -> Result<BTreeMap<Box<str>, Arc<Offer>>, Refusal> {
    Ok(names.iter().map(|name| ((*name).into(), offer(4))).collect())
}

fn throttled() -> Refusal {
    Refusal { message: "throttled".to_owned(), terminal: false, permission: false }
}

fn shelf() -> (Shelf<u32>, Instant) {
    #[expect(clippy::disallowed_methods, reason = "any moment will do")]
    (Shelf::new(Rules { ttl: DAY }), Instant::now())
}

fn fill(shelf: &mut Shelf<u32>, at: &Place, who: u32, now: Instant) {
    assert_eq!(shelf.find(at, "m5.large", &who, now), Found::Ask(Errand::Fill(at.clone())));
    assert!(shelf.begin(&Errand::Fill(at.clone()), Some(&who)));
    assert_eq!(shelf.filled(at, list(&["m5.large", "m5.xlarge"]), now, 0), [who]);
}

fn is_known(found: &Found, wanted_stale: bool) -> bool {
    matches!(found, Found::Known { stale, .. } if *stale == wanted_stale)
}

#[test]
fn a_hundred_who_ask_cause_one_list_and_are_all_woken() {
    let (mut shelf, now) = shelf();
    let at = place("us-east-1");
    let fill = Errand::Fill(at.clone());
    let mut began = 0;
    for who in 0..100 {
        match shelf.find(&at, "m5.large", &who, now) {
            Found::Ask(errand) => {
                assert_eq!(errand, fill);
                began += u32::from(shelf.begin(&errand, Some(&who)));
            }
            found => assert_eq!(found, Found::Wait),
        }
    }
    assert_eq!(began, 1);
    assert!(!shelf.begin(&fill, Some(&100)), "whoever comes late waits too");
    assert_eq!(shelf.filled(&at, list(&["m5.large"]), now, 7).len(), 101);
    assert!(is_known(&shelf.find(&at, "m5.large", &0, now), false));
    // Another region is not held up and not served from this one.
    assert!(matches!(shelf.find(&place("eu-west-1"), "m5.large", &0, now), Found::Ask(Errand::Fill(_))));
}

#[test]
fn a_list_is_fresh_for_a_day_less_a_moment_and_refreshed_in_its_last_tenth() {
    let (mut shelf, start) = shelf();
    let at = place("us-east-1");
    fill(&mut shelf, &at, 1, start);
    let find = |shelf: &mut Shelf<u32>, after: Duration| shelf.find(&at, "m5.large", &1, start + after);
    assert!(matches!(
        find(&mut shelf, DAY * 9 / 10 - Duration::from_secs(1)),
        Found::Known { errand: None, stale: false, .. }
    ));
    assert!(matches!(find(&mut shelf, DAY * 9 / 10), Found::Known { errand: Some(_), stale: false, .. }));
    assert!(is_known(&find(&mut shelf, DAY - Duration::from_nanos(1)), false));
    assert!(matches!(find(&mut shelf, DAY), Found::Known { errand: Some(_), stale: true, .. }));
    assert!(shelf.begin(&Errand::Fill(at.clone()), None));
    assert!(matches!(find(&mut shelf, DAY), Found::Known { errand: None, stale: true, .. }), "the old one goes on");
    shelf.filled(&at, list(&["m5.large"]), start + DAY, 0);
    assert!(is_known(&find(&mut shelf, DAY + HOUR), false));
}

#[test]
fn a_failed_refresh_leaves_the_old_list_and_is_never_an_unknown_type() {
    let (mut shelf, start) = shelf();
    let at = place("us-east-1");
    fill(&mut shelf, &at, 1, start);
    let now = start + DAY;
    assert!(shelf.begin(&Errand::Fill(at.clone()), None));
    shelf.filled(&at, Err(throttled()), now, 0);
    let Found::Known { stale: true, errand: None, again: Some(again), .. } = shelf.find(&at, "m5.large", &1, now)
    else {
        panic!("the old list goes on");
    };
    assert_eq!(again, now + Duration::from_secs(15), "half of 30 s, the rest is jitter");
    assert!(matches!(shelf.find(&at, "m9.large", &1, now), Found::Failed { .. }), "not unknown");
    assert!(matches!(shelf.find(&at, "m5.large", &1, again), Found::Known { errand: Some(_), .. }));
}

#[test]
fn a_first_list_that_fails_is_remembered_with_growing_pauses() {
    let (mut shelf, start) = shelf();
    let at = place("eu-west-1");
    let mut now = start;
    let mut pauses = Vec::new();
    for _ in 0..10 {
        assert!(matches!(shelf.find(&at, "m5.large", &1, now), Found::Ask(_)));
        assert!(shelf.begin(&Errand::Fill(at.clone()), Some(&1)));
        assert_eq!(shelf.filled(&at, Err(throttled()), now, 0), [1]);
        for who in 0..500 {
            let Found::Failed { refusal, again } = shelf.find(&at, "m5.large", &who, now) else { panic!() };
            assert_eq!(refusal, throttled());
            pauses.push(again - now);
        }
        now += *pauses.last().unwrap();
    }
    let secs: Vec<f32> = pauses.iter().step_by(500).map(Duration::as_secs_f32).collect();
    assert_eq!(secs, [2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]);
}

#[test]
fn a_type_that_is_not_listed_is_asked_for_once_in_a_while() {
    let (mut shelf, start) = shelf();
    let at = place("us-east-1");
    fill(&mut shelf, &at, 1, start);
    let look = |name: &str| Errand::Look(at.clone(), name.into());
    assert_eq!(shelf.find(&at, "m5.xlrage", &1, start), Found::Ask(look("m5.xlrage")));
    assert!(shelf.begin(&look("m5.xlrage"), Some(&1)));
    assert_eq!(shelf.find(&at, "m5.xlrage", &2, start), Found::Wait);
    assert_eq!(shelf.looked(&at, "m5.xlrage", Ok(None), start), [1, 2]);
    let Found::Unknown { near } = shelf.find(&at, "m5.xlrage", &1, start) else { panic!() };
    assert_eq!(near.first().map(String::as_str), Some("m5.xlarge"));
    assert!(matches!(shelf.find(&at, "m5.xlrage", &1, start + NEGATIVE), Found::Ask(Errand::Look(..))));
    // One that was launched since is taken over.
    assert!(shelf.begin(&look("m9.large"), Some(&3)));
    assert_eq!(shelf.looked(&at, "m9.large", Ok(Some(offer(2))), start), [3]);
    assert!(is_known(&shelf.find(&at, "m9.large", &3, start), false));
    // A call that failed says nothing about the type.
    assert!(shelf.begin(&look("m8.large"), None));
    shelf.looked(&at, "m8.large", Err(throttled()), start);
    assert!(matches!(shelf.find(&at, "m8.large", &1, start), Found::Failed { .. }));
}

#[test]
fn other_credentials_are_tried_at_once() {
    let (mut shelf, now) = shelf();
    let at = place("us-east-1");
    assert!(shelf.begin(&Errand::Fill(at.clone()), None));
    shelf.filled(&at, Err(Refusal { permission: true, terminal: true, message: "denied".to_owned() }), now, 0);
    assert!(matches!(shelf.find(&at, "m5.large", &1, now), Found::Failed { .. }));
    shelf.forgive();
    assert!(matches!(shelf.find(&at, "m5.large", &1, now), Found::Ask(_)));
}

#[test]
fn memory_is_bounded_however_many_regions_are_named() {
    let (mut shelf, now) = shelf();
    let at = place("us-east-1");
    fill(&mut shelf, &at, 1, now);
    for number in 0..2 * PLACES {
        shelf.find(&place(&format!("xx-moon-{number}")), "m5.large", &1, now);
    }
    assert!(shelf.places.len() <= PLACES);
    assert!(is_known(&shelf.find(&at, "m5.large", &1, now), false), "what is filled is given up last");
}

proptest! {
    #[test]
    fn nobody_waits_for_an_errand_that_nobody_runs(events in prop::collection::vec((0u8..6, 0u32..4, 0u64..100_000), 1..60)) {
        let (mut shelf, start) = shelf();
        let (at, mut now) = (place("us-east-1"), start);
        let mut flying: BTreeSet<Errand> = BTreeSet::new();
        for (event, who, seconds) in events {
            now += Duration::from_secs(seconds);
            let name = if who % 2 == 0 { "m5.large" } else { "m9.odd" };
            match event {
                0..=2 => match shelf.find(&at, name, &who, now) {
                    Found::Ask(errand) => {
                        prop_assert!(!flying.contains(&errand));
                        prop_assert!(shelf.begin(&errand, Some(&who)));
                        flying.insert(errand);
                    }
                    Found::Wait => prop_assert!(!flying.is_empty()),
                    Found::Known { errand: Some(errand), .. } => {
                        if shelf.begin(&errand, None) { flying.insert(errand); }
                    }
                    Found::Known { .. } | Found::Unknown { .. } => {}
                    Found::Failed { again, .. } => prop_assert!(again > now),
                },
                _ => if let Some(errand) = flying.pop_first() {
                    match &errand {
                        Errand::Fill(at) => {
                            let answer = if event == 3 { list(&["m5.large"]) } else { Err(throttled()) };
                            shelf.filled(at, answer, now, seconds);
                        }
                        Errand::Look(at, name) => {
                            let answer = match event { 3 => Ok(None), 4 => Ok(Some(offer(1))), _ => Err(throttled()) };
                            shelf.looked(at, name, answer, now);
                        }
                        Errand::Image(at, id) => drop(shelf.pictured(at, id, (event == 3).then_some(true), now)),
                    }
                    prop_assert!(!flying.is_empty() || shelf.places.values().all(|books| books.waiting.is_empty()));
                },
            }
        }
    }
}

#[test]
fn the_system_of_an_image_is_asked_once_and_a_refusal_is_asked_again_later() {
    let ((mut shelf, now), at) = (shelf(), place("us-east-1"));
    let System::Ask(errand) = shelf.image(&at, "ami-1", &1, now) else { panic!("nobody asked yet") };
    assert!(shelf.begin(&errand, Some(&1)));
    assert_eq!(shelf.image(&at, "ami-1", &2, now), System::Wait);
    assert!(!shelf.begin(&errand, Some(&3)), "once for all who wait");
    assert_eq!(shelf.pictured(&at, "ami-1", Some(true), now), [1, 2, 3]);
    assert_eq!(shelf.image(&at, "ami-1", &1, now + DAY * 30), System::Known(true));

    let System::Ask(errand) = shelf.image(&at, "ami-2", &1, now) else { panic!("nobody asked yet") };
    assert!(shelf.begin(&errand, Some(&1)));
    shelf.pictured(&at, "ami-2", None, now);
    assert_eq!(shelf.image(&at, "ami-2", &1, now), System::Known(false));
    assert!(matches!(shelf.image(&at, "ami-2", &1, now + NEGATIVE), System::Ask(_)));
    shelf.pictured(&at, "ami-2", None, now);
    shelf.forgive();
    assert!(matches!(shelf.image(&at, "ami-2", &1, now), System::Ask(_)), "other credentials may be told");
}
