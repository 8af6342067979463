//! Which groups, versions and resources there are.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    kinds::{Kind, Registry},
    status::Failure,
};

/// Answers a discovery path; `None` when the path is not one.
pub(crate) fn answer(registry: &Registry, path: &[&str], all: bool) -> Option<Result<Value, Failure>> {
    Some(match path {
        ["api"] if all => Ok(whole(registry, |group| group.is_empty())),
        ["apis"] if all => Ok(whole(registry, |group| !group.is_empty())),
        ["version"] => Ok(json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "model", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
        })),
        ["api"] => Ok(json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443" }],
        })),
        ["apis"] => {
            let groups: Vec<Value> =
                groups(registry).into_iter().filter(|(g, _)| !g.is_empty()).map(|(g, v)| group(&g, &v)).collect();
            Ok(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
        }
        ["apis", name] => groups(registry)
            .get(*name)
            .filter(|_| !name.is_empty())
            .map(|versions| {
                let mut out = group(name, versions);
                out["kind"] = json!("APIGroup");
                out["apiVersion"] = json!("v1");
                out
            })
            .ok_or_else(Failure::unknown_path),
        ["api", version] => resources(registry, "", version),
        ["apis", name, version] => resources(registry, name, version),
        _ => return None,
    })
}

fn groups(registry: &Registry) -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in registry.all() {
        let versions = out.entry(kind.group.clone()).or_default();
        for version in &kind.versions {
            if !versions.contains(version) {
                versions.push(version.clone());
            }
        }
    }
    out
}

/// Everything of some groups in one document.
fn whole(registry: &Registry, wanted: impl Fn(&str) -> bool) -> Value {
    let version = |group: &str, version: &str| {
        let there = registry.all().filter(|k| k.group == group && k.versions.iter().any(|v| v == version));
        let resource = |kind: &Kind| {
            json!({
                "resource": kind.plural, "singularResource": kind.kind.to_lowercase(),
                "responseKind": { "group": group, "version": version, "kind": kind.kind },
                "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            })
        };
        let resources: Vec<Value> = there.map(|kind| resource(kind)).collect();
        json!({ "version": version, "resources": resources, "freshness": "Current" })
    };
    let items: Vec<Value> = groups(registry)
        .into_iter()
        .filter(|(group, _)| wanted(group))
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions.iter().map(|v| version(&group, v)).collect();
            json!({ "metadata": { "name": group }, "versions": versions })
        })
        .collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

fn group(name: &str, versions: &[String]) -> Value {
    let entry = |v: &String| json!({ "groupVersion": format!("{name}/{v}"), "version": v });
    json!({
        "name": name,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

fn resources(registry: &Registry, group: &str, version: &str) -> Result<Value, Failure> {
    let mut list = Vec::new();
    let verbs = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    for kind in registry.all().filter(|k| k.group == group && k.versions.iter().any(|v| v == version)) {
        list.push(json!({
            "name": kind.plural, "singularName": kind.kind.to_lowercase(), "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": verbs,
        }));
        if kind.status {
            list.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": ["get", "patch", "update"],
            }));
        }
    }
    if list.is_empty() {
        return Err(Failure::unknown_path());
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list,
    }))
}
