//! Names of immutable templates, by what they hold.

use std::collections::BTreeMap;

use serde_json::Value;

use super::canonical::{hash, same};

/// Digits of a name, and of one whose short form is taken by something else.
const SHORT: usize = 8;
const LONG: usize = 16;

/// What is there already of the templates and of who refers to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// The specs of existing templates, by kind and name.
    pub templates: BTreeMap<(String, String), Value>,
    /// The machine template that the control plane refers to.
    pub control_plane: Option<String>,
    /// What the MachineDeployment of each group refers to.
    pub groups: BTreeMap<String, GroupReferences>,
}

/// What the MachineDeployment of a group refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReferences {
    /// The machine template.
    pub machine: Option<String>,
    /// The template of its bootstrap configuration.
    pub config: Option<String>,
}

/// A template as it is to be referred to.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// The object; one that exists is not written again, because nobody may change it.
    pub object: Value,
    /// Whether it exists.
    pub exists: bool,
}

/// The name for a template of this spec, and whether it exists.
///
/// What is referred to now stays when it means the same, whoever named it. Otherwise the name is made of the content, with
/// more digits when a template of that name holds something else.
#[must_use]
pub fn choose(kind: &str, prefix: &str, spec: &Value, current: Option<&str>, live: &Live) -> (String, bool) {
    let found = |name: &str| live.templates.get(&(kind.to_owned(), name.to_owned()));
    if let Some(current) = current.filter(|current| found(current).is_some_and(|old| same(old, spec))) {
        return (current.to_owned(), true);
    }
    let short = format!("{prefix}-{}", hash(spec, SHORT));
    match found(&short) {
        None => (short, false),
        Some(old) if same(old, spec) => (short, true),
        Some(_) => {
            let long = format!("{prefix}-{}", hash(spec, LONG));
            let exists = found(&long).is_some();
            (long, exists)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KIND: &str = "CloudStackMachineTemplate";

    fn live(templates: &[(&str, Value)]) -> Live {
        let entry = |(name, spec): &(&str, Value)| ((KIND.to_owned(), (*name).to_owned()), spec.clone());
        Live { templates: templates.iter().map(entry).collect(), ..Live::default() }
    }

    #[test]
    fn a_template_is_kept_replaced_found_again_and_told_from_another() {
        let (small, large) = (json!({"offering": "small"}), json!({"offering": "large"}));
        let hashed = |spec: &Value, digits| format!("c-cp-{}", hash(spec, digits));
        let (short, long) = (hashed(&small, 8), hashed(&small, 16));
        let same_thing = json!({"offering": "small", "details": {}});
        let rows: Vec<(Option<&str>, Live, (&str, bool))> = vec![
            (None, Live::default(), (&short, false)),
            // the one in use means the same: its name stays, whoever made it
            (Some("c-cp-1"), live(&[("c-cp-1", same_thing.clone())]), ("c-cp-1", true)),
            // the one in use is gone, or holds something else
            (Some("c-cp-1"), Live::default(), (&short, false)),
            (Some("c-cp-1"), live(&[("c-cp-1", large.clone())]), (&short, false)),
            // going back finds the first one again
            (Some("c-cp-2"), live(&[("c-cp-2", large.clone()), (&short, small.clone())]), (&short, true)),
            // the name is taken by something else
            (None, live(&[(&short, large.clone())]), (&long, false)),
            (None, live(&[(&short, large.clone()), (&long, small.clone())]), (&long, true)),
        ];
        for (current, live, wanted) in rows {
            let (name, exists) = choose(KIND, "c-cp", &small, current, &live);
            assert_eq!((name.as_str(), exists), wanted, "{current:?} {live:?}");
        }
    }

    #[test]
    fn templates_of_other_kinds_do_not_count() {
        let spec = json!({"a": "b"});
        let live = Live {
            templates: [(("KubeadmConfigTemplate".to_owned(), "c-md-0-1".to_owned()), spec.clone())].into(),
            ..Live::default()
        };
        assert!(!choose(KIND, "c-md-0", &spec, Some("c-md-0-1"), &live).1);
    }
}
