//! Every order of events leads to the index the server's state asks for.

use std::collections::BTreeMap;

use api::meta::ObjectMeta;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug, Default, serde::Deserialize)]
struct Flag {
    metadata: ObjectMeta,
    colour: String,
}

api::view! { Flag, group: "example.test", versions: ["v1"], plural: "flags", scope: Namespaced }

struct Colours;

impl Project for Colours {
    type Source = Flag;
    type Slim = String;
    const INDEXES: &'static [&'static str] = &["colour"];
    fn slim(source: Flag) -> String {
        source.colour
    }
    fn keys(_: usize, _: &ObjectKey, slim: &String) -> Vec<Box<str>> {
        vec![slim.as_str().into()]
    }
}

fn object(name: &str, uid: &str, version: u64, colour: &str) -> Flag {
    let metadata = ObjectMeta {
        namespace: Some(if name < "c" { "x".into() } else { "y".into() }),
        name: Some(name.into()),
        uid: Some(uid.into()),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
    };
    Flag { metadata, colour: colour.into() }
}

fn begin(index: &mut Index<Colours>) -> u32 {
    index.begin(index.epoch + 1);
    index.epoch
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::of(&object(name, "", 0, ""))
}

fn at(uid: &str, version: u64) -> Version {
    Version { uid: uid.into(), resource_version: version.to_string().into() }
}

fn shown(deltas: &[Delta<String>]) -> Vec<(String, Option<&str>, Option<&str>)> {
    deltas
        .iter()
        .map(|d| (d.key.name().to_owned(), d.old.as_ref().map(|s| s.as_str()), d.new.as_ref().map(|s| s.as_str())))
        .collect()
}

#[test]
fn a_relist_that_lost_objects_announces_them() {
    let mut index = Index::<Colours>::new();
    let first = begin(&mut index);
    for name in ["a", "b", "c"] {
        index.put(object(name, name, 1, "red"), Some(first));
    }
    assert!(index.finish(first, None).is_empty());
    let second = begin(&mut index);
    index.put(object("b", "b", 5, "red"), Some(second));
    let gone = index.finish(second, None);
    assert_eq!(shown(&gone), [("a".into(), Some("red"), None), ("c".into(), Some("red"), None)]);
    assert_eq!(index.len(), 1);
}

#[test]
fn a_relist_of_one_namespace_leaves_the_others_alone() {
    let mut index = Index::<Colours>::new();
    let first = begin(&mut index);
    index.put(object("a", "a", 1, "red"), Some(first));
    index.put(object("d", "d", 1, "red"), Some(first));
    let second = begin(&mut index);
    assert_eq!(shown(&index.finish(second, Some("x"))), [("a".into(), Some("red"), None)]);
    assert_eq!(index.len(), 1);
}

#[test]
fn an_unchanged_projection_wakes_nobody() {
    let mut index = Index::<Colours>::new();
    assert_eq!(index.put(object("a", "1", 1, "red"), None).len(), 1);
    assert!(index.put(object("a", "1", 2, "red"), None).is_empty());
}

#[test]
fn an_object_made_again_under_its_name_is_another_one() {
    let mut index = Index::<Colours>::new();
    index.put(object("a", "old", 1, "red"), None);
    let deltas = index.put(object("a", "new", 9, "red"), None);
    assert_eq!(shown(&deltas), [("a".into(), Some("red"), None), ("a".into(), None, Some("red"))]);
}

#[test]
fn an_older_list_never_takes_the_index_back_in_time() {
    let mut index = Index::<Colours>::new();
    index.put(object("a", "1", 7, "blue"), None);
    let epoch = begin(&mut index);
    assert!(index.put(object("a", "1", 3, "red"), Some(epoch)).is_empty());
    assert!(index.finish(epoch, None).is_empty());
    assert_eq!(index.by("colour", "blue").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_decides_on_a_version_older_than_our_own_write() {
    let now = crate::clock::Clock::system().instant();
    let mut index = Index::<Colours>::new();
    index.put(object("a", "1", 3, "red"), None);
    index.wrote(&key("a"), &Version { uid: "1".into(), resource_version: "5".into() }, now);
    assert_eq!(index.get(&key("a"), now), Seen::Behind);
    assert!(index.put(object("a", "1", 4, "red"), None).is_empty());
    assert_eq!(index.get(&key("a"), now), Seen::Behind);
    // The projection is the same, but whoever was put off must hear that the index has caught up.
    assert_eq!(index.put(object("a", "1", 5, "red"), None).len(), 1);
    assert_eq!(index.get(&key("a"), now), Seen::At(Arc::new("red".into())));
}

#[tokio::test(start_paused = true)]
async fn a_write_to_an_object_deleted_meanwhile_is_forgotten_after_a_while() {
    let now = crate::clock::Clock::system().instant();
    let mut index = Index::<Colours>::new();
    index.wrote(&key("a"), &Version { uid: "1".into(), resource_version: "5".into() }, now);
    assert_eq!(index.get(&key("a"), now), Seen::Behind);
    assert_eq!(index.get(&key("a"), now + WRITE_MEMORY), Seen::Absent);
}

/// The write that takes the last finalizer off is answered after the watch has shown the end of the object.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_noted_after_the_end_of_its_object_is_not_waited_for() {
    let now = crate::clock::Clock::system().instant();
    let mut index = Index::<Colours>::new();
    index.put(object("a", "1", 3, "red"), None);
    index.remove(&key("a"), &at("1", 6));
    index.wrote(&key("a"), &at("1", 5), now);
    assert_eq!(index.get(&key("a"), now), Seen::Absent);
    index.wrote(&key("a"), &at("2", 8), now);
    assert_eq!(index.get(&key("a"), now), Seen::Behind, "what was made again under its name is");
    for n in 0..=ENDINGS {
        index.remove(&key("b"), &at(&format!("b{n}"), 9));
    }
    assert_eq!(index.ended.len(), ENDINGS);
}

#[test]
fn late_news_of_an_earlier_object_of_that_name_changes_nothing() {
    let mut index = Index::<Colours>::new();
    index.put(object("a", "new", 9, "blue"), None);
    assert!(index.put(object("a", "old", 5, "red"), None).is_empty());
    assert!(index.remove(&key("a"), &at("old", 7)).is_empty());
    assert_eq!(index.by("colour", "blue").len(), 1);
    assert_eq!(index.remove(&key("a"), &at("new", 10)).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_earlier_object_does_not_make_us_forget_what_we_wrote_to_its_successor() {
    let now = crate::clock::Clock::system().instant();
    let mut index = Index::<Colours>::new();
    index.put(object("a", "old", 3, "red"), None);
    index.wrote(&key("a"), &at("new", 9), now);
    assert_eq!(index.remove(&key("a"), &at("old", 7)).len(), 1);
    assert_eq!(index.get(&key("a"), now), Seen::Behind);
    index.put(object("a", "new", 9, "blue"), None);
    assert_eq!(index.get(&key("a"), now), Seen::At(Arc::new("blue".into())));
}

#[derive(Clone, Debug)]
enum Act {
    Put(usize, usize),
    Delete(usize),
    /// The watch breaks: changes until the relist are not seen one by one.
    Break(Vec<(usize, Option<usize>)>),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (0..6usize, 0..3usize).prop_map(|(n, c)| Act::Put(n, c)),
        (0..6usize).prop_map(Act::Delete),
        prop::collection::vec((0..6usize, prop::option::of(0..3usize)), 0..6).prop_map(Act::Break),
    ];
    prop::collection::vec(act, 0..40)
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const COLOURS: [&str; 3] = ["red", "green", "blue"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever happens, with or without breaks: the index equals the server, each secondary index equals a scan, and
    /// replaying the announced changes gives the same picture (so nobody who only listens is left behind).
    #[test]
    fn the_index_and_its_notices_always_equal_the_server(acts in acts()) {
        let mut index = Index::<Colours>::new();
        let mut server: BTreeMap<&str, (u64, u64, &str)> = BTreeMap::new();
        let mut heard: BTreeMap<String, String> = BTreeMap::new();
        let mut revision = 0u64;
        let mut listen = |deltas: Vec<Delta<String>>| for delta in deltas {
            assert_eq!(heard.get(delta.key.name()), delta.old.as_deref(), "old value of a notice");
            match delta.new {
                Some(new) => heard.insert(delta.key.name().to_owned(), (*new).clone()),
                None => heard.remove(delta.key.name()),
            };
        };
        let set = |server: &mut BTreeMap<&'static str, (u64, u64, &'static str)>, revision: &mut u64, n: usize, c: Option<usize>| {
            *revision += 1;
            match c {
                Some(c) => {
                    let uid = server.get(NAMES[n]).map_or(*revision, |(uid, ..)| *uid);
                    server.insert(NAMES[n], (uid, *revision, COLOURS[c]));
                }
                None => { server.remove(NAMES[n]); }
            }
        };
        for act in acts {
            match act {
                Act::Put(n, c) => {
                    set(&mut server, &mut revision, n, Some(c));
                    let (uid, version, colour) = server[NAMES[n]];
                    listen(index.put(object(NAMES[n], &uid.to_string(), version, colour), None));
                }
                Act::Delete(n) => {
                    let uid = server.get(NAMES[n]).map_or(0, |(uid, ..)| *uid);
                    set(&mut server, &mut revision, n, None);
                    listen(index.remove(&key(NAMES[n]), &at(&uid.to_string(), revision)));
                }
                Act::Break(unseen) => {
                    for (n, c) in unseen {
                        set(&mut server, &mut revision, n, c);
                    }
                    let epoch = begin(&mut index);
                    for (name, (uid, version, colour)) in &server {
                        listen(index.put(object(name, &uid.to_string(), *version, colour), Some(epoch)));
                    }
                    listen(index.finish(epoch, None));
                }
            }
            let truth: BTreeMap<String, String> = server.iter().map(|(n, (.., c))| ((*n).to_owned(), (*c).to_owned())).collect();
            let held: BTreeMap<String, String> = index.all().into_iter().map(|(k, s)| (k.name().to_owned(), (*s).clone())).collect();
            prop_assert_eq!(&held, &truth);
            for colour in COLOURS {
                let scan: Vec<&str> = server.iter().filter(|(_, (.., c))| *c == colour).map(|(n, _)| *n).collect();
                let indexed = index.by("colour", colour);
                prop_assert_eq!(indexed.iter().map(|(k, _)| k.name()).collect::<Vec<_>>(), scan);
            }
        }
        let held: BTreeMap<String, String> = index.all().into_iter().map(|(k, s)| (k.name().to_owned(), (*s).clone())).collect();
        prop_assert_eq!(heard, held);
    }
}
