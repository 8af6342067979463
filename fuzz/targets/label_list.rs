//! Lists of labels and records of what we wrote, as anybody may put them on a group.

use capacity::config::Config;
use capacity::goal::{Around, Goal, Profile};
use capacity::labels::{LabelList, text};
use capacity::names::{APPLIED, LABELS};
use capacity::offer::{Arch, Offer};
use capacity::plan::{Annotations, Hands, plan};

/// A list, and after a zero byte the record.
pub fn label_list(data: &[u8]) {
    let Ok(written) = std::str::from_utf8(data) else { return };
    let (labels, record) = written.split_once('\0').unwrap_or((written, ""));
    let list = LabelList::parse(labels);
    let again = LabelList::parse(&text(&list.labels));
    assert_eq!(again.labels, list.labels, "what is written reads as it was meant");
    assert_eq!(again.rewritten(&list.labels), None, "and is not written twice");

    let offer = Offer { vcpus: 4, memory_mib: 16384, arch: Some(Arch::Arm64), ..Offer::default() };
    let around = Around { instance_type: "m6g.xlarge".to_owned(), ..Around::default() };
    let goal = Goal::of(&offer, &around, Profile { legacy: true, upstream: true }, &Config::default());
    let mut annotations: Annotations = [(LABELS.into(), labels.into()), (APPLIED.into(), record.into())].into();
    let hands = Hands { off: &Default::default() };
    for (key, value) in plan(&annotations, &goal, hands).changes {
        match value {
            Some(value) => drop(annotations.insert(key.into(), value.into())),
            None => drop(annotations.remove(key.as_str())),
        }
    }
    assert!(plan(&annotations, &goal, hands).is_empty(), "one write settles it: {annotations:?}");
}
