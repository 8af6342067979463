//! Which kinds belong into a bundle: Berth's own, and those that its rooms say they read.

use std::collections::{BTreeMap, BTreeSet};

use kit::kinds::Kind;
use kit::rights::Reach;
use kube::Client;

use crate::rooms;

/// Groups whose kinds are not read whole: they belong to the cluster, or are read in another way.
const APART: [&str; 4] =
    ["events.k8s.io", "coordination.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io"];

/// A kind as rights name it: without a version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// Empty for the core group.
    pub group: String,
    /// Plural lower case.
    pub plural: String,
}

impl Wanted {
    /// As kubectl names it.
    pub fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// A kind that the server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The kind at the version that is read.
    pub kind: Kind,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Every version that is served.
    pub served: Vec<String>,
}

/// Every kind, in a stable order. Secrets are in no list: they are never read.
pub fn wanted() -> BTreeSet<Wanted> {
    let own = crate::definitions::all().into_iter().map(|crd| (crd.spec.group, crd.spec.names.plural));
    let read = rooms::rights().into_iter().filter(|right| right.reach != Reach::OwnNamespace).flat_map(|right| {
        let reads = right.verbs.iter().any(|verb| ["get", "list", "watch"].contains(verb));
        let resources = right.resources.iter().filter(move |_| reads);
        resources.map(move |resource| (right.group.to_owned(), (*resource).to_owned()))
    });
    let kept = |(group, plural): &(String, String)| {
        let core = group.is_empty() && ["secrets", "configmaps", "events", "pods"].contains(&plural.as_str());
        !core && !plural.contains('/') && !APART.contains(&group.as_str())
    };
    own.chain(read).filter(kept).map(|(group, plural)| Wanted { group, plural }).collect()
}

/// Asks the server for the version of each kind that it prefers. What it does not serve is told with the reason.
pub async fn find(client: &Client, wanted: &BTreeSet<Wanted>) -> (Vec<Found>, Vec<(String, String)>) {
    let groups = match client.list_api_groups().await {
        Ok(list) => list.groups,
        Err(error) => {
            let why = kit::class::chain(&error);
            return (
                Vec::new(),
                vec![("every kind".to_owned(), format!("the server does not tell its groups: {why}"))],
            );
        }
    };
    let mut versions: BTreeMap<&str, Vec<String>> = BTreeMap::from([("", vec!["v1".to_owned()])]);
    for group in &groups {
        // The preferred version first.
        let preferred = group.preferred_version.iter().map(|version| version.version.clone());
        let mut all: Vec<String> = preferred.collect();
        all.extend(group.versions.iter().map(|v| v.version.clone()).filter(|v| !all.contains(v)).collect::<Vec<_>>());
        versions.insert(&group.name, all);
    }
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let mut served: BTreeMap<(String, String), Result<Vec<Resource>, String>> = BTreeMap::new();
    for wish in wanted {
        let Some(versions) = versions.get(wish.group.as_str()) else {
            missing.push((wish.resource(), super::UNKNOWN.to_owned()));
            continue;
        };
        let (mut hit, mut all, mut failed) = (None, Vec::new(), None);
        for version in versions {
            let key = (wish.group.clone(), version.clone());
            if !served.contains_key(&key) {
                let list = resources(client, &wish.group, version).await;
                served.insert(key.clone(), list);
            }
            match served.get(&key) {
                Some(Ok(list)) => {
                    if let Some(one) = list.iter().find(|one| one.plural == wish.plural) {
                        all.push(version.clone());
                        hit.get_or_insert((version.clone(), one.kind.clone(), one.namespaced));
                    }
                }
                Some(Err(why)) => failed = Some(why.clone()),
                None => {}
            }
        }
        match (hit, failed) {
            (Some((version, kind, namespaced)), _) => {
                let kind = Kind { group: wish.group.clone(), version, kind, plural: wish.plural.clone() };
                found.push(Found { kind, namespaced, served: all });
            }
            (None, Some(why)) => missing.push((wish.resource(), why)),
            (None, None) => missing.push((wish.resource(), super::UNKNOWN.to_owned())),
        }
    }
    (found, missing)
}

/// A resource as discovery tells it.
struct Resource {
    plural: String,
    kind: String,
    namespaced: bool,
}

/// Every resource of one version of a group.
async fn resources(client: &Client, group: &str, version: &str) -> Result<Vec<Resource>, String> {
    let answer = match group {
        "" => client.list_core_api_resources(version).await,
        group => client.list_api_group_resources(&format!("{group}/{version}")).await,
    };
    let list = answer.map_err(|error| kit::class::chain(&error))?;
    let found = list.resources.into_iter().map(|resource| {
        let (plural, kind, namespaced) = (resource.name, resource.kind, resource.namespaced);
        Resource { plural, kind, namespaced }
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_ours_and_every_kind_a_room_reads_is_wanted_and_no_secret() {
        let all: BTreeSet<String> = wanted().iter().map(Wanted::resource).collect();
        for crd in api::own::crds() {
            let name = crd.metadata.name.unwrap();
            assert!(all.contains(&name), "{name}");
        }
        for name in ["clusters.cluster.x-k8s.io", "machines.cluster.x-k8s.io", "baremetalhosts.metal3.io", "namespaces"]
        {
            assert!(all.contains(name), "{name}: {all:?}");
        }
        assert!(!all.iter().any(|name| name.starts_with("secrets") || name.contains('/')), "{all:?}");
    }
}
