//! Thinking about one cluster, by subject.

mod failures;
mod kept;
mod leaving;
mod order;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::key::ObjectKey;
use api::own::anywhere::CloudStackDatacenterConfigStatus;
use kit::feed::Version;
use kit::kinds::Kind;
use serde_json::json;

use super::*;
use crate::admit::Terms;
use crate::cni::Next;
use crate::config::Config;
use crate::facts::{ClusterFacts, DatacenterFacts, MachineFacts, plane_of};
use crate::guard::guard;
use crate::plan::{Documents, live, rendered};
use crate::render::{Live, Settings};
use crate::snapshot::{Checks, Endpoint, Generated, Inside, Leftovers, Plugin, Reported};

fn documents() -> Documents {
    let mut documents = Documents::default();
    documents.read(include_str!("../../tests/inputs/bundles.yaml")).unwrap();
    documents.read(include_str!("../../tests/inputs/minimal.yaml")).unwrap();
    documents
}

/// A cluster whose indexes show everything it refers to, and nothing made of it.
fn snapshot() -> Snapshot {
    let all = documents();
    let mut cluster = all.clusters[0].clone();
    cluster.metadata.uid = Some("u-1".into());
    cluster.metadata.generation = Some(3);
    cluster.metadata.finalizers = Some(vec![api::names::clusters::FINALIZER.to_owned()]);
    let mut datacenter = all.datacenters[0].clone();
    datacenter.metadata.generation = Some(1);
    datacenter.status = Some(CloudStackDatacenterConfigStatus {
        spec_valid: Some(true),
        observed_generation: Some(1),
        ..CloudStackDatacenterConfigStatus::default()
    });
    let mut machine = all.machines[0].clone();
    machine.metadata.generation = Some(1);
    let key = ObjectKey::namespaced("team-a", "prod");
    let facts = ClusterFacts { object: cluster, ..ClusterFacts::default() };
    Snapshot {
        target: Target { kind: Kind::of::<api::raw::Cluster>(), key: key.clone(), uid: "u-1".into() },
        key,
        now: "2030-01-01T00:00:00Z".parse().unwrap(),
        config: Arc::new(Config::default()),
        terms: Terms::default(),
        cluster: Arc::new(facts),
        version: Version { uid: "u-1".into(), resource_version: "1".into() },
        stored: Reported::default(),
        datacenter: Some(Arc::new(DatacenterFacts { object: datacenter, problem: None })),
        machines: BTreeMap::from([("m".to_owned(), Arc::new(MachineFacts { object: machine, problem: None }))]),
        identities: BTreeMap::new(),
        peers: Vec::new(),
        strangers: Vec::new(),
        clash: None,
        manager_problem: None,
        bundles: Ok(all.bundles[0].clone()),
        bundled_for: String::new(),
        unserved: Vec::new(),
        capi: None,
        plane: None,
        groups: BTreeMap::new(),
        nodes: 0,
        hash: "h".into(),
        fading: false,
        signature: String::new(),
        due: true,
        endpoint: Endpoint::NotAsked,
        checked: None,
        generated: None,
        inside: None,
        leftovers: None,
    }
}

/// The bundle is stored before it has an effect; here that was a pass ago.
fn pin(s: &mut Snapshot) {
    let bundles = s.bundles.as_ref().unwrap();
    s.stored.status.resolved_bundles = Some(ResolvedBundles {
        name: bundles.metadata.name.clone().unwrap(),
        namespace: bundles.metadata.namespace.clone().unwrap(),
        number: Some(bundles.spec.number),
        ..ResolvedBundles::default()
    });
}

fn edit(s: &mut Snapshot, change: impl FnOnce(&mut api::own::anywhere::Cluster)) {
    change(&mut Arc::make_mut(&mut s.cluster).object);
}

fn checks(fault: Option<&str>) -> Checks {
    Checks::Judged { machines: [("m".to_owned(), fault.map(str::to_owned))].into(), warnings: Vec::new() }
}

/// What is generated, with so many of its objects stored.
fn generated(stored: usize) -> Generated {
    let all = documents();
    let settings = Settings::default();
    let first = rendered(&all.clusters[0], &all, &settings, &Live::default()).unwrap();
    let names: Vec<Value> = first.objects().into_iter().take(stored).cloned().collect();
    let known: BTreeMap<(String, String), Value> = names
        .iter()
        .map(|object| {
            let word = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
            ((word("/kind"), word("/metadata/name")), object.clone())
        })
        .collect();
    let mut there = live(&first);
    there.templates.retain(|key, _| known.contains_key(key));
    let rendered = rendered(&all.clusters[0], &all, &settings, &there).unwrap();
    Generated { rendered, stored: known, orphans: Vec::new(), foreign: Vec::new(), unused: Vec::new() }
}

fn plane(version: &str) -> crate::facts::PlaneFacts {
    let value = json!({
        "metadata": {"name": "prod", "generation": 2},
        "spec": {"replicas": 1, "version": "v1.31.4-eks-1-31-12"},
        "status": {"observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "upToDateReplicas": 1, "version": version,
            "conditions": [{"type": "Available", "status": "True"}]},
    });
    plane_of(serde_json::from_value(value).unwrap())
}

fn plugin(next: Next) -> Inside {
    Inside::Seen(Box::new(Plugin {
        installed: next != Next::Install,
        next,
        check_left: false,
        check_old: false,
        version: "v1.16.5".into(),
        objects: Objects::default(),
        check: Objects::default(),
    }))
}

fn names(steps: &[Step]) -> Vec<String> {
    let word = |step: &Step| {
        let text = format!("{step:?}");
        text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    steps.iter().map(word).collect()
}

fn applied(steps: &[Step]) -> Vec<&str> {
    let kind = |step: &Step| match step {
        Step::Apply { object, .. } | Step::Create { object } => {
            object.get("kind").and_then(Value::as_str).map(|kind| {
                // Leaked for the sake of a short table.
                &*Box::leak(kind.to_owned().into_boxed_str())
            })
        }
        _ => None,
    };
    steps.iter().filter_map(kind).collect()
}

fn reason(thought: &Thought) -> Option<(Reason, String)> {
    match &thought.failure {
        Told::Set(failure) => Some((failure.reason, failure.message.clone())),
        _ => None,
    }
}
