//! Whose objects are judged, where another controller may keep objects of the same kind.

use api::meta::ObjectMeta;
use api::names::WATCH_FILTER_LABEL;

/// Whose objects are judged: another controller may keep objects of the same kind, and knows fields that are not built
/// here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ours {
    /// Whether the room runs; if not, nothing is judged.
    pub runs: bool,
    /// Only objects with this value of the label `cluster.x-k8s.io/watch-filter`; none means all.
    pub watch_filter: Option<String>,
}

impl Ours {
    /// Whether an object is judged.
    #[must_use]
    pub fn owns(&self, meta: &ObjectMeta) -> bool {
        let label = meta.labels.as_ref().and_then(|labels| labels.get(WATCH_FILTER_LABEL));
        self.runs && self.watch_filter.as_ref().is_none_or(|filter| label == Some(filter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_another_controller_are_not_judged() {
        let labelled = |value: Option<&str>| ObjectMeta {
            labels: value.map(|value| [(WATCH_FILTER_LABEL.to_owned(), value.to_owned())].into()),
            ..ObjectMeta::default()
        };
        let ours = |runs: bool, filter: Option<&str>| Ours { runs, watch_filter: filter.map(str::to_owned) };
        for (ours, label, owned) in [
            (ours(true, None), None, true),
            (ours(true, None), Some("x"), true),
            (ours(true, Some("x")), Some("x"), true),
            (ours(true, Some("x")), Some("y"), false),
            (ours(true, Some("x")), None, false),
            (ours(false, None), None, false),
            (ours(false, Some("x")), Some("x"), false),
        ] {
            assert_eq!(ours.owns(&labelled(label)), owned, "{ours:?} {label:?}");
        }
    }
}
