//! Thinks about Nodes: which one is a machine's, and which labels of its host belong on it.

use std::collections::{BTreeMap, BTreeSet};

use api::names::DnsSubdomain;
use api::names::claims::NODE_UUID_LABEL;
use api::names::machines::HOSTNAME_LABEL;

/// A Node, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// The workload cluster's unique id of it.
    pub uid: String,
    /// Its version.
    pub version: String,
    /// Its provider id.
    pub provider_id: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// How the Node of a machine is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The provider id of the machine.
    pub provider_id: String,
    /// Whether somebody in the cluster sets provider ids, so that we do not.
    pub external: bool,
    /// The uid of the host.
    pub host_uid: Option<String>,
    /// Names of the host in its network.
    pub names: Vec<String>,
}

/// Which Node it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This one, and it carries the provider id.
    Settled(NodeFacts),
    /// This one, and it has no provider id yet.
    Unnamed(NodeFacts),
    /// This one, and it carries another provider id.
    Taken(NodeFacts),
    /// There is none yet.
    None,
    /// More than one fits.
    Many(Vec<String>),
}

/// Finds the Node of a machine: by provider id, else by the uid of the host, else by its name.
#[must_use]
pub fn find(nodes: &[NodeFacts], wanted: &Wanted) -> Found {
    let carries = |node: &&NodeFacts| node.provider_id.as_deref() == Some(wanted.provider_id.as_str());
    let by_id: Vec<&NodeFacts> = nodes.iter().filter(carries).collect();
    match by_id.as_slice() {
        [] if wanted.external => return Found::None,
        [] => {}
        [one] => return Found::Settled((*one).clone()),
        many => return Found::Many(names(many)),
    }
    let labelled = |node: &&NodeFacts| {
        let uid = node.labels.get(NODE_UUID_LABEL);
        uid.is_some() && uid == wanted.host_uid.as_ref()
    };
    let by_uid: Vec<&NodeFacts> = nodes.iter().filter(labelled).collect();
    if !by_uid.is_empty() {
        return judge(&by_uid);
    }
    let called = |node: &&NodeFacts| {
        // A node that says which host it is on is on no other.
        !node.labels.contains_key(NODE_UUID_LABEL)
            && wanted.names.iter().filter(|name| is_telling(name)).any(|name| {
                let label = node.labels.get(HOSTNAME_LABEL);
                node.name.eq_ignore_ascii_case(name) || label.is_some_and(|label| label.eq_ignore_ascii_case(name))
            })
    };
    judge(&nodes.iter().filter(called).collect::<Vec<_>>())
}

/// A name that any machine has tells nothing.
fn is_telling(name: &str) -> bool {
    !name.is_empty() && name.split('.').next() != Some("localhost")
}

fn names(nodes: &[&NodeFacts]) -> Vec<String> {
    nodes.iter().map(|node| node.name.clone()).collect()
}

fn judge(nodes: &[&NodeFacts]) -> Found {
    match nodes {
        [] => Found::None,
        [one] if one.provider_id.as_deref().unwrap_or_default().is_empty() => Found::Unnamed((*one).clone()),
        [one] => Found::Taken((*one).clone()),
        many => Found::Many(names(many)),
    }
}

/// Whether a domain is one of Kubernetes itself, whose labels on Nodes are not the host's.
fn is_reserved(domain: &str) -> bool {
    ["kubernetes.io", "k8s.io", "metal3.io"]
        .iter()
        .any(|own| domain == *own || domain.strip_suffix(own).is_some_and(|before| before.ends_with('.')))
}

/// Whether a label of a Node can matter here: it says whose the Node is, or is one that could be kept equal.
pub(super) fn matters(label: &str) -> bool {
    [NODE_UUID_LABEL, HOSTNAME_LABEL].contains(&label)
        || label.split_once('/').is_some_and(|(domain, _)| !is_reserved(domain))
}

/// The domains whose labels are kept equal: what is no domain is left out, and so are those of Kubernetes itself.
#[must_use]
pub fn prefixes(text: &str) -> BTreeSet<String> {
    let all = text.split(',').map(str::trim).filter(|domain| domain.parse::<DnsSubdomain>().is_ok());
    all.filter(|domain| !is_reserved(domain)).map(str::to_owned).collect()
}

/// What has to change on a Node so that its labels of these domains are those of its host: a value sets, none removes.
#[must_use]
pub fn relabel(
    domains: &BTreeSet<String>,
    host: &BTreeMap<String, String>,
    node: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let ours = |key: &str| key.split_once('/').is_some_and(|(domain, _)| domains.contains(domain));
    let mut changes = BTreeMap::new();
    for (key, value) in host.iter().filter(|(key, _)| ours(key)) {
        if node.get(key) != Some(value) {
            changes.insert(key.clone(), Some(value.clone()));
        }
    }
    for key in node.keys().filter(|key| ours(key) && !host.contains_key(*key)) {
        changes.insert(key.clone(), None);
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, id: Option<&str>, labels: &[(&str, &str)]) -> NodeFacts {
        NodeFacts {
            name: name.to_owned(),
            provider_id: id.map(str::to_owned),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..NodeFacts::default()
        }
    }

    fn wanted() -> Wanted {
        Wanted {
            provider_id: "metal3://team/m1/m1".to_owned(),
            external: false,
            host_uid: Some("u1".to_owned()),
            names: vec!["localhost.localdomain".to_owned(), "Box-1".to_owned()],
        }
    }

    #[test]
    fn a_node_is_known_by_its_id_then_by_its_host_then_by_its_name() {
        let ours = Some("metal3://team/m1/m1");
        let (by_id, by_uid) = (node("a", ours, &[]), node("b", None, &[(NODE_UUID_LABEL, "u1")]));
        let (by_name, by_label) = (node("box-1", None, &[]), node("c", None, &[(HOSTNAME_LABEL, "box-1")]));
        let all = [by_id.clone(), by_uid.clone(), by_name.clone()];
        assert_eq!(find(&all, &wanted()), Found::Settled(by_id));
        assert_eq!(find(&all[1..], &wanted()), Found::Unnamed(by_uid));
        assert_eq!(find(&all[2..], &wanted()), Found::Unnamed(by_name.clone()));
        assert_eq!(find(std::slice::from_ref(&by_label), &wanted()), Found::Unnamed(by_label.clone()));
        assert_eq!(find(&[by_name, by_label], &wanted()), Found::Many(vec!["box-1".to_owned(), "c".to_owned()]));
        assert_eq!(find(&[], &wanted()), Found::None);
    }

    #[test]
    fn a_node_of_another_machine_is_never_taken() {
        let theirs = node("b", Some("metal3://team/m2/m2"), &[(NODE_UUID_LABEL, "u1")]);
        assert_eq!(find(std::slice::from_ref(&theirs), &wanted()), Found::Taken(theirs));
        let elsewhere = node("box-1", None, &[(NODE_UUID_LABEL, "u2")]);
        assert_eq!(find(&[elsewhere], &wanted()), Found::None);
        let twice = [node("a", Some("metal3://team/m1/m1"), &[]), node("b", Some("metal3://team/m1/m1"), &[])];
        assert_eq!(find(&twice, &wanted()), Found::Many(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(find(&[node("localhost", None, &[])], &wanted()), Found::None);
    }

    #[test]
    fn where_a_cloud_provider_sets_ids_we_wait_for_it() {
        let external = Wanted { external: true, ..wanted() };
        assert_eq!(find(&[node("b", None, &[(NODE_UUID_LABEL, "u1")])], &external), Found::None);
        let named = node("b", Some("metal3://team/m1/m1"), &[]);
        assert_eq!(find(std::slice::from_ref(&named), &external), Found::Settled(named));
    }

    #[test]
    fn labels_that_nobody_here_reads_are_not_kept() {
        let kept = [NODE_UUID_LABEL, HOSTNAME_LABEL, "rack.example.org/row", "mykubernetes.io/a"];
        assert!(kept.into_iter().all(matters));
        let dropped = ["beta.kubernetes.io/arch", "kubernetes.io/os", "topology.k8s.io/zone", "plain", "metal3.io/x"];
        assert!(!dropped.into_iter().any(matters));
    }

    #[test]
    fn labels_of_the_domains_follow_the_host_and_others_stay() {
        let domains = prefixes("rack.example.org, *bad*, kubernetes.io, node.kubernetes.io,,metal3.io, example.com");
        assert_eq!(domains, BTreeSet::from(["example.com".to_owned(), "rack.example.org".to_owned()]));
        let map = |pairs: &[(&str, &str)]| node("", None, pairs).labels;
        let host = map(&[("rack.example.org/row", "7"), ("example.com/new", "x"), ("other.org/a", "1")]);
        let on = map(&[("rack.example.org/row", "6"), ("rack.example.org/gone", "y"), ("kubernetes.io/arch", "z")]);
        let changes = relabel(&domains, &host, &on);
        let expected: BTreeMap<String, Option<String>> =
            [("example.com/new", Some("x")), ("rack.example.org/gone", None), ("rack.example.org/row", Some("7"))]
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.map(str::to_owned)))
                .collect();
        assert_eq!(changes, expected);
        let mut after = on.clone();
        for (key, value) in &changes {
            match value {
                Some(value) => drop(after.insert(key.clone(), value.clone())),
                None => drop(after.remove(key)),
            }
        }
        assert!(relabel(&domains, &host, &after).is_empty());
    }
}
