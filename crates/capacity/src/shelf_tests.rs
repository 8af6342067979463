use api::own::anywhere::Named;
use proptest::prelude::*;

use super::*;
use crate::acs::cards::Card;
use crate::offer::{Arch, Offer};

/// Whose credentials are used where that does not matter.
const BY: &str = "own";
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
        ..Offer::default()
    })
}

fn place(region: &str) -> Place {
    Place::Ec2(Ec2Place { region: region.parse().unwrap(), endpoint: None })
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
    assert_eq!(shelf.find(at, "m5.large", &who, BY, now), Found::Ask(Errand::Fill(at.clone())));
    assert!(shelf.begin(&Errand::Fill(at.clone()), Some(&who)));
    assert_eq!(shelf.filled(at, BY, list(&["m5.large", "m5.xlarge"]), now, 0), [who]);
}

const WINDOWS: Picture = Picture { windows: true, arch: None, disk_gib: None };

fn known(picture: Picture) -> System {
    System::Known { picture, errand: None }
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
        match shelf.find(&at, "m5.large", &who, BY, now) {
            Found::Ask(errand) => {
                assert_eq!(errand, fill);
                began += u32::from(shelf.begin(&errand, Some(&who)));
            }
            found => assert_eq!(found, Found::Wait),
        }
    }
    assert_eq!(began, 1);
    assert!(!shelf.begin(&fill, Some(&100)), "whoever comes late waits too");
    assert_eq!(shelf.filled(&at, BY, list(&["m5.large"]), now, 7).len(), 101);
    assert!(is_known(&shelf.find(&at, "m5.large", &0, BY, now), false));
    // Another region is not held up and not served from this one.
    assert!(matches!(shelf.find(&place("eu-west-1"), "m5.large", &0, BY, now), Found::Ask(Errand::Fill(_))));
}

#[test]
fn a_list_is_fresh_for_a_day_less_a_moment_and_refreshed_in_its_last_tenth() {
    let (mut shelf, start) = shelf();
    let at = place("us-east-1");
    fill(&mut shelf, &at, 1, start);
    let find = |shelf: &mut Shelf<u32>, after: Duration| shelf.find(&at, "m5.large", &1, BY, start + after);
    assert!(matches!(
        find(&mut shelf, DAY * 9 / 10 - Duration::from_secs(1)),
        Found::Known { errand: None, stale: false, .. }
    ));
    assert!(matches!(find(&mut shelf, DAY * 9 / 10), Found::Known { errand: Some(_), stale: false, .. }));
    assert!(is_known(&find(&mut shelf, DAY - Duration::from_nanos(1)), false));
    assert!(matches!(find(&mut shelf, DAY), Found::Known { errand: Some(_), stale: true, .. }));
    assert!(shelf.begin(&Errand::Fill(at.clone()), None));
    assert!(matches!(find(&mut shelf, DAY), Found::Known { errand: None, stale: true, .. }), "the old one goes on");
    shelf.filled(&at, BY, list(&["m5.large"]), start + DAY, 0);
    assert!(is_known(&find(&mut shelf, DAY + HOUR), false));
}

#[test]
fn a_failed_refresh_leaves_the_old_list_and_is_never_an_unknown_type() {
    let (mut shelf, start) = shelf();
    let at = place("us-east-1");
    fill(&mut shelf, &at, 1, start);
    let now = start + DAY;
    assert!(shelf.begin(&Errand::Fill(at.clone()), None));
    shelf.filled(&at, BY, Err(throttled()), now, 0);
    let Found::Known { stale: true, errand: None, again: Some(again), .. } = shelf.find(&at, "m5.large", &1, BY, now)
    else {
        panic!("the old list goes on");
    };
    assert_eq!(again, now + Duration::from_secs(15), "half of 30 s, the rest is jitter");
    assert!(matches!(shelf.find(&at, "m9.large", &1, BY, now), Found::Failed { .. }), "not unknown");
    assert!(matches!(shelf.find(&at, "m5.large", &1, BY, again), Found::Known { errand: Some(_), .. }));
}

#[test]
fn a_first_list_that_fails_is_remembered_with_growing_pauses() {
    let (mut shelf, start) = shelf();
    let at = place("eu-west-1");
    let mut now = start;
    let mut pauses = Vec::new();
    for _ in 0..10 {
        assert!(matches!(shelf.find(&at, "m5.large", &1, BY, now), Found::Ask(_)));
        assert!(shelf.begin(&Errand::Fill(at.clone()), Some(&1)));
        assert_eq!(shelf.filled(&at, BY, Err(throttled()), now, 0), [1]);
        for who in 0..500 {
            let Found::Failed { refusal, again } = shelf.find(&at, "m5.large", &who, BY, now) else { panic!() };
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
    assert_eq!(shelf.find(&at, "m5.xlrage", &1, BY, start), Found::Ask(look("m5.xlrage")));
    assert!(shelf.begin(&look("m5.xlrage"), Some(&1)));
    assert_eq!(shelf.find(&at, "m5.xlrage", &2, BY, start), Found::Wait);
    assert_eq!(shelf.looked(&at, "m5.xlrage", BY, Ok(None), start), [1, 2]);
    let Found::Unknown { near } = shelf.find(&at, "m5.xlrage", &1, BY, start) else { panic!() };
    assert_eq!(near.first().map(String::as_str), Some("m5.xlarge"));
    assert!(matches!(shelf.find(&at, "m5.xlrage", &1, BY, start + NEGATIVE), Found::Ask(Errand::Look(..))));
    // One that was launched since is taken over.
    assert!(shelf.begin(&look("m9.large"), Some(&3)));
    assert_eq!(shelf.looked(&at, "m9.large", BY, Ok(Some(offer(2))), start), [3]);
    assert!(is_known(&shelf.find(&at, "m9.large", &3, BY, start), false));
    // A call that failed says nothing about the type.
    assert!(shelf.begin(&look("m8.large"), None));
    shelf.looked(&at, "m8.large", BY, Err(throttled()), start);
    assert!(matches!(shelf.find(&at, "m8.large", &1, BY, start), Found::Failed { .. }));
}

fn denied() -> Refusal {
    Refusal { permission: true, terminal: false, message: "denied".to_owned() }
}

#[test]
fn credentials_that_were_refused_are_not_tried_again_at_once_and_others_are() {
    let (mut shelf, now) = shelf();
    let at = place("us-east-1");
    for by in ["a", "b"] {
        assert!(matches!(shelf.find(&at, "m5.large", &1, by, now), Found::Ask(_)), "{by} was not tried yet");
        assert!(shelf.begin(&Errand::Fill(at.clone()), None));
        shelf.filled(&at, by, Err(denied()), now, 0);
    }
    for by in ["a", "b"] {
        let Found::Failed { refusal, again } = shelf.find(&at, "m5.large", &1, by, now) else { panic!("{by}") };
        assert_eq!((refusal, again - now), (denied(), Duration::from_millis(2500)), "each has its own pause");
    }
    let Found::Ask(errand) = shelf.find(&at, "m5.large", &1, "c", now) else { panic!("nobody's refusal is another's") };
    assert!(shelf.begin(&errand, None));
    shelf.filled(&at, "c", list(&["m5.large"]), now, 0);
    assert!(is_known(&shelf.find(&at, "m5.large", &1, "a", now), false), "what is known is known to all");
    // One type by name, likewise.
    let look = Errand::Look(at.clone(), "m9.large".into());
    assert!(shelf.begin(&look, None));
    shelf.looked(&at, "m9.large", "a", Err(denied()), now);
    assert!(matches!(shelf.find(&at, "m9.large", &1, "a", now), Found::Failed { .. }));
    assert_eq!(shelf.find(&at, "m9.large", &1, "c", now), Found::Ask(look));
}

#[test]
fn new_credentials_are_tried_at_once() {
    let (mut shelf, now) = shelf();
    let at = place("us-east-1");
    for refusal in [denied(), throttled()] {
        assert!(shelf.begin(&Errand::Fill(at.clone()), None));
        shelf.filled(&at, BY, Err(refusal), now, 0);
        assert!(matches!(shelf.find(&at, "m5.large", &1, BY, now), Found::Failed { .. }));
        shelf.forgive();
        assert!(matches!(shelf.find(&at, "m5.large", &1, BY, now), Found::Ask(_)));
    }
}

#[test]
fn however_many_credentials_are_refused_memory_is_bounded() {
    let (mut shelf, now) = shelf();
    let at = place("us-east-1");
    for number in 0..2 * MISSES {
        shelf.filled(&at, &format!("{number:06}"), Err(denied()), now, 0);
    }
    assert!(shelf.places.values().all(|books| books.denied.len() <= MISSES));
}

#[test]
fn what_an_earlier_process_was_told_is_read_once_before_the_cloud_is_asked() {
    let (shelf, now) = shelf();
    let mut shelf = shelf.recalling();
    let (east, west, moon) = (place("us-east-1"), place("us-west-2"), place("xx-moon-1"));
    assert_eq!(shelf.find(&east, "m5.large", &1, BY, now), Found::Recall);
    assert_eq!(shelf.find(&east, "m5.large", &2, BY, now), Found::Wait, "one reads for all");
    assert_eq!(shelf.find(&west, "m5.large", &3, BY, now), Found::Wait);
    assert_eq!(shelf.find(&moon, "m5.large", &4, BY, now), Found::Wait);
    let recalled = |place: &Place, age| Recalled { place: place.clone(), types: list(&["m5.large"]).unwrap(), age };
    let lists = vec![recalled(&east, HOUR), recalled(&west, DAY * 2)];
    assert_eq!(shelf.recalled(lists, now, 0), [1, 2, 3, 4]);
    let fresh = shelf.find(&east, "m5.large", &1, BY, now);
    assert!(matches!(fresh, Found::Known { stale: false, errand: None, .. }), "{fresh:?}");
    let old = shelf.find(&west, "m5.large", &3, BY, now);
    assert!(matches!(old, Found::Known { stale: true, errand: Some(_), .. }), "an old list goes on: {old:?}");
    assert_eq!(shelf.find(&moon, "m5.large", &4, BY, now), Found::Ask(Errand::Fill(moon.clone())));
    // It ages as if it had been listed here.
    let find = |shelf: &mut Shelf<u32>, after| shelf.find(&east, "m5.large", &1, BY, now + after);
    assert!(matches!(find(&mut shelf, DAY * 9 / 10 - HOUR), Found::Known { errand: Some(_), stale: false, .. }));
    assert!(is_known(&find(&mut shelf, DAY - HOUR - Duration::from_nanos(1)), false));
    assert!(is_known(&find(&mut shelf, DAY - HOUR), true));
}

#[test]
fn a_list_that_is_recalled_late_in_its_life_is_refreshed_in_what_is_left_of_it() {
    let (at, hours) = (place("us-east-1"), |n: u32| HOUR * n);
    for dice in [0, 1, 1 << 20, u64::MAX, 12_345_678_901_234] {
        let (shelf, now) = shelf();
        let mut shelf = shelf.recalling();
        assert_eq!(shelf.find(&at, "m5.large", &1, BY, now), Found::Recall);
        let types = list(&["m5.large"]).unwrap();
        shelf.recalled(vec![Recalled { place: at.clone(), types, age: hours(23) }], now, dice);
        let due = shelf.places[&at].refresh_at.unwrap();
        assert!(due >= now && due < now + HOUR, "{dice}");
    }
}

#[test]
fn whoever_sees_a_refresh_after_a_failure_is_woken_by_it() {
    let (mut shelf, start) = shelf();
    let at = place("us-east-1");
    fill(&mut shelf, &at, 1, start);
    let fill = Errand::Fill(at.clone());
    assert!(shelf.begin(&fill, None));
    shelf.filled(&at, BY, Err(throttled()), start + DAY, 0);
    let later = start + DAY + HOUR;
    let Found::Known { errand: Some(errand), again: None, .. } = shelf.find(&at, "m5.large", &1, BY, later) else {
        panic!("the pause is over");
    };
    assert!(shelf.begin(&errand, None));
    let meanwhile = shelf.find(&at, "m5.large", &2, BY, later);
    assert!(
        matches!(meanwhile, Found::Known { errand: None, again: None, .. }),
        "no time to look again: {meanwhile:?}"
    );
    assert_eq!(shelf.filled(&at, BY, Err(throttled()), later, 0), [2]);
    assert!(matches!(shelf.find(&at, "m5.large", &2, BY, later), Found::Known { again: Some(_), .. }));
}

#[test]
fn memory_is_bounded_however_many_regions_are_named() {
    let (mut shelf, now) = shelf();
    let at = place("us-east-1");
    fill(&mut shelf, &at, 1, now);
    for number in 0..2 * PLACES {
        shelf.find(&place(&format!("xx-moon-{number}")), "m5.large", &1, BY, now);
    }
    assert!(shelf.places.len() <= PLACES);
    assert!(is_known(&shelf.find(&at, "m5.large", &1, BY, now), false), "what is filled is given up last");
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
                0..=2 => match shelf.find(&at, name, &who, BY, now) {
                    Found::Ask(errand) => {
                        prop_assert!(!flying.contains(&errand));
                        prop_assert!(shelf.begin(&errand, Some(&who)));
                        flying.insert(errand);
                    }
                    Found::Recall => prop_assert!(false, "there is nothing to read"),
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
                            shelf.filled(at, BY, answer, now, seconds);
                        }
                        Errand::Look(at, name) => {
                            let answer = match event { 3 => Ok(None), 4 => Ok(Some(offer(1))), _ => Err(throttled()) };
                            shelf.looked(at, name, BY, answer, now);
                        }
                        Errand::Image(at, id) => {
                            drop(shelf.pictured(at, id, Ok((event == 3).then_some(WINDOWS)), None, now));
                        }
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
    assert_eq!(shelf.pictured(&at, "ami-1", Ok(Some(WINDOWS)), None, now), [1, 2, 3]);
    assert_eq!(shelf.image(&at, "ami-1", &1, now + DAY * 30), known(WINDOWS));

    let System::Ask(errand) = shelf.image(&at, "ami-2", &1, now) else { panic!("nobody asked yet") };
    assert!(shelf.begin(&errand, Some(&1)));
    shelf.pictured(&at, "ami-2", Ok(None), None, now);
    assert_eq!(shelf.image(&at, "ami-2", &1, now), known(Picture::default()));
    assert!(matches!(shelf.image(&at, "ami-2", &1, now + NEGATIVE), System::Known { errand: Some(_), .. }));
    shelf.pictured(&at, "ami-2", Ok(None), None, now);
    shelf.forgive();
    assert!(matches!(shelf.image(&at, "ami-2", &1, now), System::Ask(_)), "other credentials may be told");
}

fn zone(caller: u64, name: &str, account: &str) -> Place {
    let zone = Named { name: name.to_owned(), ..Named::default() };
    Place::Acs(AcsPlace {
        card: Card::new("https://acs.example.com/client/api", caller),
        zone,
        account: account.into(),
    })
}

#[test]
fn zones_are_kept_apart_by_server_caller_zone_and_account() {
    let (mut shelf, now) = shelf();
    let at = zone(1, "z", "");
    shelf.begin(&Errand::Fill(at.clone()), None);
    shelf.filled(&at, BY, list(&["Large"]), now, 0);
    assert!(is_known(&shelf.find(&at, "Large", &1, BY, now), false));
    let other_server = Place::Acs(AcsPlace {
        card: Card::new("https://other.example.com/client/api", 1),
        zone: Named { name: "z".to_owned(), ..Named::default() },
        account: "".into(),
    });
    for other in [zone(2, "z", ""), zone(1, "y", ""), zone(1, "z", "ROOT/team"), other_server, place("us-east-1")] {
        assert!(matches!(shelf.find(&other, "Large", &1, BY, now), Found::Ask(_)), "{other:?}");
    }
}

#[test]
fn an_id_that_is_unknown_is_near_to_nothing() {
    let (mut shelf, now) = shelf();
    let at = zone(1, "z", "");
    shelf.begin(&Errand::Fill(at.clone()), None);
    shelf.filled(&at, BY, list(&["Large", "\0o-1", "\0o-2"]), now, 0);
    for (wanted, near) in [("Lagre", vec!["Large"]), ("\0o-3", vec![])] {
        let Found::Ask(errand) = shelf.find(&at, wanted, &1, BY, now) else { panic!("{wanted}") };
        assert!(shelf.begin(&errand, Some(&1)));
        assert_eq!(shelf.looked(&at, wanted, BY, Ok(None), now), [1]);
        let Found::Unknown { near: found } = shelf.find(&at, wanted, &1, BY, now) else { panic!("{wanted}") };
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), near, "{wanted}");
    }
    assert_eq!(
        shelf.standing(now).iter().map(|one| (one.provider, one.entries)).collect::<Vec<_>>(),
        [("cloudstack", 2)]
    );
}

#[test]
fn an_image_that_may_change_is_asked_again_and_goes_on_meanwhile() {
    let (mut shelf, now) = shelf();
    let at = zone(1, "z", "");
    let System::Ask(errand) = shelf.image(&at, "t", &1, now) else { panic!("nobody asked yet") };
    assert!(shelf.begin(&errand, Some(&1)));
    assert_eq!(shelf.pictured(&at, "t", Err(throttled()), Some(DAY), now), [1]);
    assert!(matches!(shelf.image(&at, "t", &1, now), System::Failed { .. }), "no answer is no image");
    let later = now + HOUR;
    let System::Ask(errand) = shelf.image(&at, "t", &1, later) else { panic!("the pause is over") };
    assert!(shelf.begin(&errand, Some(&1)));
    shelf.pictured(&at, "t", Ok(Some(WINDOWS)), Some(DAY), later);
    assert_eq!(shelf.image(&at, "t", &1, later + DAY - HOUR), known(WINDOWS));
    let System::Known { picture: WINDOWS, errand: Some(errand) } = shelf.image(&at, "t", &1, later + DAY) else {
        panic!("it is old")
    };
    assert!(shelf.begin(&errand, None));
    assert_eq!(shelf.image(&at, "t", &1, later + DAY), known(WINDOWS), "one is under way");
    shelf.pictured(&at, "t", Err(throttled()), Some(DAY), later + DAY);
    assert_eq!(shelf.image(&at, "t", &1, later + DAY), known(WINDOWS));
    shelf.forgive();
    assert!(matches!(shelf.image(&at, "t", &1, later + DAY), System::Known { picture: WINDOWS, errand: Some(_) }));
}
