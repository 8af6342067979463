//! The Nodes of one cluster, so that the one of a machine is found without a walk over all of them.

use std::collections::{BTreeMap, BTreeSet};

use api::names::claims::NODE_UUID_LABEL;
use api::names::machines::HOSTNAME_LABEL;

use super::find::{NodeFacts, Wanted};

/// What a Node is found by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trait {
    Id(String),
    Host(String),
    Name(String),
}

/// Nodes, by what machines know of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    nodes: BTreeMap<String, NodeFacts>,
    traits: BTreeMap<Trait, BTreeSet<String>>,
}

fn traits(node: &NodeFacts) -> Vec<Trait> {
    let label = |key: &str| node.labels.get(key).cloned();
    let mut all: Vec<Trait> = node.provider_id.clone().map(Trait::Id).into_iter().collect();
    all.extend(label(NODE_UUID_LABEL).map(Trait::Host));
    all.push(Trait::Name(node.name.to_ascii_lowercase()));
    all.extend(label(HOSTNAME_LABEL).map(|name| Trait::Name(name.to_ascii_lowercase())));
    all
}

impl FromIterator<NodeFacts> for Index {
    fn from_iter<I: IntoIterator<Item = NodeFacts>>(nodes: I) -> Self {
        let mut index = Self::default();
        nodes.into_iter().for_each(|node| index.put(node));
        index
    }
}

impl Index {
    /// Takes a Node as it is now.
    pub fn put(&mut self, node: NodeFacts) {
        self.remove(&node.name);
        for found_by in traits(&node) {
            self.traits.entry(found_by).or_default().insert(node.name.clone());
        }
        self.nodes.insert(node.name.clone(), node);
    }

    /// Forgets a Node that is gone.
    pub fn remove(&mut self, name: &str) {
        let Some(old) = self.nodes.remove(name) else { return };
        for found_by in traits(&old) {
            if let Some(names) = self.traits.get_mut(&found_by) {
                names.remove(name);
                if names.is_empty() {
                    self.traits.remove(&found_by);
                }
            }
        }
    }

    /// Every Node that could be the wanted one, ordered by name: whoever decides among these decides as among all.
    #[must_use]
    pub fn fitting(&self, wanted: &Wanted) -> Vec<NodeFacts> {
        let mut asked = vec![Trait::Id(wanted.provider_id.clone())];
        asked.extend(wanted.host_uid.clone().map(Trait::Host));
        asked.extend(wanted.names.iter().map(|name| Trait::Name(name.to_ascii_lowercase())));
        let names: BTreeSet<&String> =
            asked.iter().filter_map(|found_by| self.traits.get(found_by)).flatten().collect();
        names.into_iter().filter_map(|name| self.nodes.get(name)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::find::find;
    use super::*;

    fn any_node() -> impl Strategy<Value = NodeFacts> {
        let few = |words: &'static [&'static str]| prop::option::of(prop::sample::select(words));
        let parts = (0..6_u8, few(&["id-1", "id-2"]), few(&["u1", "u2"]), few(&["Box-1", "box-2", "localhost"]));
        parts.prop_map(|(number, id, uid, host)| {
            let mut labels = BTreeMap::new();
            labels.extend(uid.map(|uid| (NODE_UUID_LABEL.to_owned(), uid.to_owned())));
            labels.extend(host.map(|host| (HOSTNAME_LABEL.to_owned(), host.to_owned())));
            let provider_id = id.map(str::to_owned);
            NodeFacts { name: format!("box-{number}"), provider_id, labels, ..NodeFacts::default() }
        })
    }

    fn any_wanted() -> impl Strategy<Value = Wanted> {
        let names = prop::collection::vec(prop::sample::select(vec!["BOX-1", "box-3", "localhost", ""]), 0..3);
        (prop::sample::select(vec!["id-1", "id-2"]), any::<bool>(), prop::option::of(Just("u1")), names).prop_map(
            |(id, external, uid, names)| Wanted {
                provider_id: id.to_owned(),
                external,
                host_uid: uid.map(str::to_owned),
                names: names.into_iter().map(str::to_owned).collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn the_few_that_fit_give_the_same_answer_as_all(
            changes in prop::collection::vec((any_node(), any::<bool>()), 0..12),
            wanted in any_wanted(),
        ) {
            let (mut index, mut all) = (Index::default(), BTreeMap::new());
            for (node, stays) in changes {
                if stays {
                    all.insert(node.name.clone(), node.clone());
                    index.put(node);
                } else {
                    all.remove(&node.name);
                    index.remove(&node.name);
                }
            }
            let all: Vec<NodeFacts> = all.into_values().collect();
            prop_assert_eq!(find(&index.fitting(&wanted), &wanted), find(&all, &wanted));
            prop_assert_eq!(all.into_iter().collect::<Index>(), index, "nothing of what is gone is kept");
        }
    }
}
