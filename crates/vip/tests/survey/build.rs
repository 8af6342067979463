//! Small scenes, built by saying what is special about them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use api::views::{Endpoint, PoolCounts};
use jiff::{SignedDuration, Timestamp};
use kit::feed::Version;
use serde_json::{Value, json};
use vip::config::Config;
use vip::facts::{AddressFacts, ClaimFacts, ClassFacts, ClusterFacts, Owner, Pool, PoolFacts, PoolName, Range};
use vip::names::{ALLOCATED, CLUSTER_CLASS, CONTROL_PLANE_SOURCE, MANUAL, PREFIX, ROLE, Slot};
use vip::scene::{Holding, Live, LiveCluster, Scene};
use vip::survey::{State, Survey, survey};

pub const SECOND: Slot = Slot { role: vip::names::Role::ControlPlane, second: true };

pub fn now() -> Timestamp {
    "2026-05-01T12:00:00Z".parse().unwrap()
}

pub fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

pub fn key(suffix: &str) -> String {
    format!("{PREFIX}{suffix}")
}

/// A cluster of class `metal` that nobody has done anything to yet.
pub fn fresh() -> ClusterFacts {
    ClusterFacts {
        uid: "u1".into(),
        generation: 1,
        created: ago(2),
        class: Some(ObjectKey::namespaced("team", "metal")),
        ..ClusterFacts::default()
    }
}

pub fn noted(pairs: &[(&str, &str)]) -> ClusterFacts {
    let mut cluster = fresh();
    for (suffix, value) in pairs {
        cluster.annotations.insert(key(suffix), (*value).to_owned());
    }
    cluster
}

/// A cluster whose endpoint is `host`, from where `source` says.
pub fn shown(host: &str, source: Option<&str>) -> ClusterFacts {
    let mut cluster = fresh();
    cluster.endpoint = Endpoint { host: host.to_owned(), port: 6443 };
    if let Some(source) = source {
        cluster.annotations.insert(CONTROL_PLANE_SOURCE.to_owned(), source.to_owned());
        cluster.annotations.insert(Slot::CONTROL_PLANE.annotation().to_owned(), host.to_owned());
    }
    cluster
}

pub fn allocated(host: &str) -> ClusterFacts {
    shown(host, Some(ALLOCATED))
}

pub fn by_hand(host: &str) -> ClusterFacts {
    shown(host, Some(MANUAL))
}

pub fn pool_named(name: &str, role: &str, first: &str, free: Option<i64>) -> Pool {
    let mut facts = PoolFacts {
        ranges: vec![Range::read(first).unwrap()],
        counts: free.map(|free| PoolCounts { total: 9, free, ..PoolCounts::default() }),
        ..PoolFacts::default()
    };
    facts.labels.insert(CLUSTER_CLASS.to_owned(), "metal".to_owned());
    facts.labels.insert(ROLE.to_owned(), role.to_owned());
    Pool::new("GlobalInClusterIPPool", &ObjectKey::cluster_scoped(name), Arc::new(facts))
}

pub fn control() -> Pool {
    pool_named("control", "control-plane", "10.0.0.10-10.0.0.18", Some(5))
}

pub fn ingress() -> Pool {
    pool_named("in", "ingress", "10.1.0.10-10.1.0.18", Some(5))
}

pub fn six() -> Pool {
    pool_named("six", "control-plane", "2001:db8::10-2001:db8::18", Some(5))
}

pub fn name(pool: &str) -> PoolName {
    PoolName { kind: "GlobalInClusterIPPool".into(), name: pool.into() }
}

pub fn owner(uid: &str) -> Owner {
    Owner {
        api_version: "cluster.x-k8s.io/v1beta2".into(),
        kind: "Cluster".into(),
        name: "prod".into(),
        uid: uid.into(),
    }
}

/// A claim of the cluster `u1` that waits at the pool `control`.
pub fn claim(slot: Slot) -> ClaimFacts {
    ClaimFacts {
        version: Version { uid: format!("claim-{slot}").into(), resource_version: "7".into() },
        created: ago(1),
        deleting: false,
        paused: false,
        owners: vec![owner("u1")],
        role: Some(slot.role.as_str().into()),
        managed: true,
        pool: Some(name(if slot.role == vip::names::Role::Ingress { "in" } else { "control" })),
        tried: Vec::new(),
        address: None,
        refusal: None,
    }
}

pub fn waiting(claim: ClaimFacts) -> Holding {
    Holding::Claim { claim: Arc::new(claim), address: None }
}

/// The claim, bound to an address of its own.
pub fn bound(slot: Slot, mut claim: ClaimFacts, address: &str) -> Holding {
    let named = slot.claim("prod");
    claim.address = Some(named.as_str().into());
    let address = AddressFacts {
        created: ago(1),
        claim: Some(named.into()),
        claim_uid: Some(claim.version.uid.clone()),
        address: Some(address.parse().unwrap()),
        pool: None,
    };
    Holding::Claim { claim: Arc::new(claim), address: Some(Arc::new(address)) }
}

pub fn class(variables: &[Slot]) -> ClassFacts {
    ClassFacts { variables: variables.iter().copied().collect::<BTreeSet<_>>(), ..ClassFacts::default() }
}

/// The scene of the cluster `team/prod` with these pools and claims.
pub fn scene(pools: Vec<Pool>, holdings: Vec<(Slot, Holding)>) -> Scene {
    Scene {
        key: ObjectKey::namespaced("team", "prod"),
        now: now(),
        config: Arc::new(Config::default()),
        class: Some(Arc::new(class(&Slot::ALL))),
        namespace_labels: Arc::default(),
        holdings: holdings.into_iter().collect(),
        pools,
        uses: Vec::new(),
        tried: BTreeMap::new(),
        pointed: false,
        warned: BTreeSet::new(),
    }
}

pub fn with(mut scene: Scene, change: impl FnOnce(&mut Config)) -> Scene {
    let mut config = Config::clone(&scene.config);
    change(&mut config);
    scene.config = Arc::new(config);
    scene
}

pub fn state(survey: &Survey, slot: Slot) -> &State {
    &survey.wants.get(&slot).unwrap_or_else(|| panic!("{slot} is not wanted: {survey:?}")).state
}

pub fn judged(cluster: &ClusterFacts, pools: Vec<Pool>, holdings: Vec<(Slot, Holding)>) -> Survey {
    survey(cluster, &scene(pools, holdings))
}

/// The Cluster as a live read shows it, with a variable of the user's.
pub fn live(facts: &ClusterFacts) -> Live {
    let mut variables = vec![json!({"name": "region", "value": {"zone": "a", "n": [1, 2.5, null]}})];
    let ours = facts.variables.iter().map(|(slot, text)| json!({"name": slot.variable(), "value": text}));
    variables.extend(ours);
    let version = Version { uid: facts.uid.clone(), resource_version: "9".into() };
    Live::At(Box::new(LiveCluster { facts: facts.clone(), version, variables }))
}

pub fn variables_of(live: &Live) -> Vec<Value> {
    let Live::At(live) = live else { panic!("not read") };
    live.variables.clone()
}
