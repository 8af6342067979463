//! Classes of clusters.

use std::collections::{BTreeMap, BTreeSet};

use api::views::ClusterClass;
use kit::feed::Project;

use super::ours;
use crate::names::Slot;

/// ClusterClasses.
pub struct Classes;

/// A ClusterClass, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassFacts {
    /// Its annotations, those of this capability only.
    pub annotations: BTreeMap<String, String>,
    /// The variables of this capability that it defines, inline or discovered.
    pub variables: BTreeSet<Slot>,
    /// The handlers of external patches it names, in full.
    pub handlers: Vec<Box<str>>,
}

impl ClassFacts {
    /// The facts of a ClusterClass as received.
    #[must_use]
    pub fn of(class: ClusterClass) -> Self {
        let ClusterClass { metadata, spec, status } = class;
        let defined = |slot: &Slot| status.variables.iter().any(|v| v.name == slot.variable());
        let external = spec.patches.into_iter().filter_map(|patch| patch.external);
        let handlers = external.flat_map(|e| [e.generate_patches, e.validate_topology, e.discover_variables]);
        Self {
            annotations: ours(metadata.annotations),
            variables: Slot::ALL.into_iter().filter(defined).collect(),
            handlers: handlers.flatten().map(Into::into).collect(),
        }
    }
}

impl Project for Classes {
    type Source = ClusterClass;
    type Slim = ClassFacts;

    fn slim(source: ClusterClass) -> ClassFacts {
        ClassFacts::of(source)
    }
}
