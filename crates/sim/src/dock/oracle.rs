//! Judges a history: the promises about control-plane addresses that must hold at every single revision.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::Version;

/// What was promised about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It gets an address from a pool.
    Managed,
    /// Its user chose the endpoint.
    Manual {
        /// The host that was chosen.
        host: String,
    },
    /// It is left alone.
    Untouched,
}

/// The promises, by namespace and name of the cluster.
pub type Promises = BTreeMap<(String, String), Promise>;

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Which one: `O1` to `O5`, or `out-of-scope`.
    pub rule: &'static str,
    /// When.
    pub revision: u64,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at revision {}: {}", self.rule, self.revision, self.text)
    }
}

const PREFIX: &str = "vip.capi.gorizond.io/";
/// Annotations of a Cluster that show an address it holds.
const HELD: [&str; 4] = ["control-plane-vip", "control-plane-vip-secondary", "ingress-vip", "ingress-vip-secondary"];

/// Every breach in a history, the earliest first.
///
/// - `O1` no object of a topology ever shows an empty, unfinished or different endpoint;
/// - `O2` an endpoint that is set never changes;
/// - `O3` no two clusters hold one address at the same time;
/// - `O4` no address is given back while its cluster exists, and none is kept by a cluster that is gone;
/// - `O5` a cluster with an endpoint of its user's choice keeps it and never has a claim;
/// - `out-of-scope` a cluster that is to be left alone is left alone.
///
/// Addresses are compared over all clusters of the history. Breaches are told of the clusters that were promised something:
/// what users do to others is their own affair.
#[must_use]
pub fn judge(history: &[Arc<Version>], promises: &Promises) -> Vec<Breach> {
    let mut world = World { promises, clusters: BTreeMap::new(), breaches: Vec::new() };
    for version in history {
        match version.kind {
            "Cluster" => world.cluster(version),
            "IPAddressClaim" => world.claim(version),
            "IPAddress" => {}
            _ => world.part(version),
        }
    }
    world.breaches
}

/// What is left of claims and addresses in a namespace at the end of a history.
#[must_use]
pub fn left_over(history: &[Arc<Version>], namespace: &str) -> Vec<String> {
    let mut left: BTreeSet<String> = BTreeSet::new();
    let kinds = ["IPAddressClaim", "IPAddress"];
    for version in history.iter().filter(|v| v.namespace == namespace && kinds.contains(&v.kind)) {
        let name = format!("{} {}", version.kind, version.name);
        match version.gone {
            true => left.remove(&name),
            false => left.insert(name),
        };
    }
    left.into_iter().collect()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Endpoint {
    host: String,
    port: i64,
}

impl Endpoint {
    fn of(value: Option<&Value>) -> Self {
        let host = value.and_then(|v| v.get("host")).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { host, port: value.and_then(|v| v.get("port")).and_then(Value::as_i64).unwrap_or_default() }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}:{}`", self.host, self.port)
    }
}

#[derive(Debug)]
struct Cluster {
    uid: String,
    endpoint: Endpoint,
    held: BTreeSet<String>,
}

struct World<'a> {
    promises: &'a Promises,
    clusters: BTreeMap<(String, String), Cluster>,
    breaches: Vec<Breach>,
}

impl World<'_> {
    fn breach(&mut self, rule: &'static str, version: &Version, text: String) {
        let text = format!("{} {}/{}: {text}", version.kind, version.namespace, version.name);
        self.breaches.push(Breach { rule, revision: version.revision, text });
    }

    fn cluster(&mut self, version: &Version) {
        let key = (version.namespace.clone(), version.name.clone());
        if version.gone {
            self.clusters.remove(&key);
            return;
        }
        let endpoint = Endpoint::of(version.object.pointer("/spec/controlPlaneEndpoint"));
        let held = held(&version.object, &endpoint);
        let before = self.clusters.get(&key).filter(|before| before.uid == version.uid).map(|b| b.endpoint.clone());
        if let Some(before) = before.filter(|before| !before.host.is_empty() && self.promises.contains_key(&key)) {
            // A port may be added to an endpoint that its user wrote without one.
            let same = before.host == endpoint.host && (before.port == 0 || before.port == endpoint.port);
            if !same {
                self.breach("O2", version, format!("the endpoint {before} became {endpoint}"));
            }
        }
        let promised = |key: &(String, String)| self.promises.contains_key(key);
        let others = self.clusters.iter().filter(|(other, _)| **other != key && (promised(&key) || promised(other)));
        let shared =
            others.filter_map(|(other, cluster)| Some((other.clone(), cluster.held.intersection(&held).next()?)));
        let shared = shared.map(|(other, address)| (other, address.clone())).next();
        if let Some(((namespace, name), address)) = shared {
            self.breach("O3", version, format!("it holds {address}, as {namespace}/{name} does"));
        }
        match self.promises.get(&key) {
            Some(Promise::Manual { host }) if *host != endpoint.host => {
                self.breach("O5", version, format!("the host is `{}`, its user wrote `{host}`", endpoint.host));
            }
            Some(Promise::Untouched) => {
                let annotations = version.object.pointer("/metadata/annotations").and_then(Value::as_object);
                let ours = |key: &&String| HELD.iter().any(|name| **key == format!("{PREFIX}{name}"));
                if let Some(key) = annotations.and_then(|a| a.keys().find(ours)) {
                    self.breach("out-of-scope", version, format!("it has the annotation {key}"));
                }
            }
            _ => {}
        }
        self.clusters.insert(key, Cluster { uid: version.uid.clone(), endpoint, held });
    }

    fn claim(&mut self, version: &Version) {
        let Some(name) = version.object.pointer("/spec/clusterName").and_then(Value::as_str) else { return };
        let key = (version.namespace.clone(), name.to_owned());
        let deleting = version.object.pointer("/metadata/deletionTimestamp").is_some();
        if !version.gone && !deleting {
            match self.promises.get(&key) {
                Some(Promise::Manual { .. }) => self.breach("O5", version, "a manual cluster has a claim".to_owned()),
                Some(Promise::Untouched) => {
                    self.breach("out-of-scope", version, "a cluster that is left alone has a claim".to_owned());
                }
                _ => {}
            }
        }
        // A claim without an address may move to another pool; one that names an address in use may not.
        let used = self.promises.contains_key(&key)
            && version.name == format!("vip-cp-{name}")
            && version.object.pointer("/status/addressRef/name").is_some();
        let owner = version.object.pointer("/metadata/ownerReferences/0/uid").and_then(Value::as_str);
        let cluster = self.clusters.get(&key).filter(|cluster| Some(cluster.uid.as_str()) == owner);
        if used && (deleting || version.gone) && cluster.is_some_and(|cluster| !cluster.endpoint.host.is_empty()) {
            self.breach("O4", version, "it is given back while its cluster exists".to_owned());
        }
    }

    /// An object that Cluster API made for a cluster from its class.
    fn part(&mut self, version: &Version) {
        let label = |name: &str| {
            version.object.pointer("/metadata/labels").and_then(|labels| labels.get(name)).and_then(Value::as_str)
        };
        let (Some(name), Some(_)) = (label("cluster.x-k8s.io/cluster-name"), label("topology.cluster.x-k8s.io/owned"))
        else {
            return;
        };
        let key = (version.namespace.clone(), name.to_owned());
        if version.gone || !matches!(self.promises.get(&key), Some(Promise::Managed | Promise::Manual { .. })) {
            return;
        }
        let endpoint = self.clusters.get(&key).map(|cluster| cluster.endpoint.clone()).unwrap_or_default();
        let mut strings = Vec::new();
        collect(version.object.get("spec").unwrap_or(&Value::Null), "/spec", &mut strings);
        for (pointer, text) in &strings {
            if text.contains("<no value>") || text.contains("@@VIP") {
                self.breach("O1", version, format!("{pointer} is unfinished: `{text}`"));
            }
            let wrong = addresses(version.kind, pointer, text).into_iter().find(|address| *address != endpoint.host);
            if let Some(wrong) = wrong {
                self.breach(
                    "O1",
                    version,
                    format!("{pointer} says `{wrong}`, the cluster's host is `{}`", endpoint.host),
                );
            }
        }
        if version.kind == "DockCluster" {
            let here = Endpoint::of(version.object.pointer("/spec/controlPlaneEndpoint"));
            if here.host.is_empty() || here.port == 0 || here != endpoint {
                self.breach("O1", version, format!("its endpoint is {here}, the cluster's {endpoint}"));
            }
        }
    }
}

fn held(cluster: &Value, endpoint: &Endpoint) -> BTreeSet<String> {
    let annotations = cluster.pointer("/metadata/annotations");
    let shown = HELD.iter().filter_map(|name| annotations?.get(format!("{PREFIX}{name}"))?.as_str());
    shown.chain([endpoint.host.as_str()]).filter(|host| !host.is_empty()).map(str::to_owned).collect()
}

/// The control-plane addresses that a text at a place of a kind states.
fn addresses<'a>(kind: &str, pointer: &str, text: &'a str) -> Vec<&'a str> {
    let whole = match kind {
        "QuayControlPlane" => {
            pointer == "/spec/registrationAddress" || (pointer.starts_with("/spec/tlsSAN/") && text != "localhost")
        }
        "RopeConfigTemplate" => pointer == "/spec/template/spec/joinAddress",
        _ => false,
    };
    if whole {
        return vec![text];
    }
    // Files and user data state it in a line of their own.
    text.lines().filter_map(|line| line.trim().strip_prefix("address: ")).collect()
}

fn collect(value: &Value, pointer: &str, into: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => into.push((pointer.to_owned(), text.clone())),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, &format!("{pointer}/{index}"), into);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                collect(field, &format!("{pointer}/{name}"), into);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct History(Vec<Arc<Version>>);

    impl History {
        fn of(steps: &[(&'static str, &str, Value)]) -> Self {
            let mut history = Self(Vec::new());
            for (kind, name, object) in steps {
                history.push(kind, name, object.clone(), false);
            }
            history
        }

        fn push(&mut self, kind: &'static str, name: &str, object: Value, gone: bool) {
            let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or("u").to_owned();
            let (namespace, name) = ("n".to_owned(), name.to_owned());
            let revision = self.0.len() as u64;
            self.0.push(Arc::new(Version { revision, gone, kind, namespace, name, uid, object }));
        }

        fn rules(&self, promise: Promise) -> Vec<&'static str> {
            let promises = ["a", "b"].map(|name| (("n".to_owned(), name.to_owned()), promise.clone())).into();
            judge(&self.0, &promises).iter().map(|breach| breach.rule).collect()
        }
    }

    fn cluster(host: &str) -> Value {
        json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}})
    }

    fn part(spec: Value) -> Value {
        json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "a", "topology.cluster.x-k8s.io/owned": ""}},
            "spec": spec})
    }

    fn dock(host: &str) -> Value {
        part(json!({"controlPlaneEndpoint": {"host": host, "port": 6443}}))
    }

    #[test]
    fn a_good_history_has_no_breach() {
        let quay = part(json!({"registrationAddress": "10.0.0.1", "tlsSAN": ["localhost", "10.0.0.1"],
            "files": [{"content": "config:\n  address: 10.0.0.1\n"}]}));
        let steps = [
            ("Cluster", "a", json!({})),
            ("Cluster", "a", cluster("10.0.0.1")),
            ("DockCluster", "a-x", dock("10.0.0.1")),
            ("QuayControlPlane", "a-y", quay),
            ("Cluster", "b", cluster("10.0.0.2")),
        ];
        assert!(History::of(&steps).rules(Promise::Managed).is_empty());
    }

    #[test]
    fn an_object_without_the_right_endpoint_is_seen_even_if_it_is_right_later() {
        for wrong in ["", "10.0.0.9", "<no value>"] {
            let steps = [
                ("Cluster", "a", cluster("10.0.0.1")),
                ("DockCluster", "a-x", dock(wrong)),
                ("DockCluster", "a-x", dock("10.0.0.1")),
            ];
            let rules = History::of(&steps).rules(Promise::Managed);
            assert!(!rules.is_empty() && rules.iter().all(|rule| *rule == "O1"), "{wrong}: {rules:?}");
        }
        for spec in [
            json!({"tlsSAN": ["<no value>"]}),
            json!({"registrationAddress": "10.0.0.9"}),
            json!({"tlsSAN": [""]}),
            json!({"files": [{"content": "address: @@VIP_CONTROL_PLANE@@"}]}),
            json!({"files": [{"content": "address: 10.0.0.9"}]}),
        ] {
            let steps = [("Cluster", "a", cluster("10.0.0.1")), ("QuayControlPlane", "a-y", part(spec.clone()))];
            assert!(History::of(&steps).rules(Promise::Managed).contains(&"O1"), "{spec}");
        }
        let early = [
            ("Cluster", "a", json!({})),
            ("DockCluster", "a-x", dock("10.0.0.1")),
            ("Cluster", "a", cluster("10.0.0.1")),
        ];
        assert_eq!(History::of(&early).rules(Promise::Managed), ["O1"]);
    }

    #[test]
    fn an_endpoint_that_changes_or_vanishes_is_seen() {
        for later in
            [cluster("10.0.0.2"), json!({}), json!({"spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 1}}})]
        {
            let steps = [("Cluster", "a", cluster("10.0.0.1")), ("Cluster", "a", later)];
            assert_eq!(History::of(&steps).rules(Promise::Managed), ["O2"]);
        }
    }

    #[test]
    fn two_holders_of_one_address_are_seen_and_one_after_the_other_is_fine() {
        let ingress = json!({"metadata": {"annotations": {"vip.capi.gorizond.io/ingress-vip": "10.0.0.1"}}});
        for other in [cluster("10.0.0.1"), ingress] {
            let steps = [("Cluster", "a", cluster("10.0.0.1")), ("Cluster", "b", other.clone())];
            assert_eq!(History::of(&steps).rules(Promise::Managed), ["O3"]);
            let mut history = History::of(&steps[..1]);
            history.push("Cluster", "a", cluster("10.0.0.1"), true);
            history.push("Cluster", "b", other, false);
            assert!(history.rules(Promise::Managed).is_empty());
        }
    }

    #[test]
    fn nothing_is_told_of_clusters_that_were_promised_nothing() {
        let steps =
            [("Cluster", "x", cluster("10.0.0.1")), ("Cluster", "y", cluster("10.0.0.1")), ("Cluster", "x", json!({}))];
        assert!(History::of(&steps).rules(Promise::Managed).is_empty());
        let steps = [("Cluster", "x", cluster("10.0.0.1")), ("Cluster", "a", cluster("10.0.0.1"))];
        assert_eq!(History::of(&steps).rules(Promise::Managed), ["O3"]);
    }

    #[test]
    fn an_address_given_back_before_the_end_and_one_kept_after_it_are_seen() {
        let claim = |more: Value| {
            let base = json!({"metadata": {"ownerReferences": [{"uid": "u"}]}, "spec": {"clusterName": "a"},
                "status": {"addressRef": {"name": "vip-cp-a"}}});
            crate::dock::objects::merged(base, &more)
        };
        let deleting = json!({"metadata": {"deletionTimestamp": "now"}});
        let mut early = History::of(&[
            ("Cluster", "a", cluster("10.0.0.1")),
            ("IPAddressClaim", "vip-cp-a", claim(json!({}))),
            ("IPAddressClaim", "vip-cp-a", claim(deleting.clone())),
        ]);
        assert_eq!(early.rules(Promise::Managed), ["O4"]);
        assert_eq!(left_over(&early.0, "n"), ["IPAddressClaim vip-cp-a"]);
        early.push("IPAddressClaim", "vip-cp-a", claim(deleting.clone()), true);
        assert!(left_over(&early.0, "n").is_empty());

        let mut late =
            History::of(&[("Cluster", "a", cluster("10.0.0.1")), ("IPAddressClaim", "vip-cp-a", claim(json!({})))]);
        late.push("Cluster", "a", cluster("10.0.0.1"), true);
        late.push("IPAddressClaim", "vip-cp-a", claim(deleting), false);
        assert!(late.rules(Promise::Managed).is_empty());
    }

    #[test]
    fn a_manual_cluster_keeps_its_host_and_has_no_claim() {
        let manual = || Promise::Manual { host: "10.0.0.1".to_owned() };
        let claim = json!({"spec": {"clusterName": "a"}});
        assert!(History::of(&[("Cluster", "a", cluster("10.0.0.1"))]).rules(manual()).is_empty());
        assert_eq!(History::of(&[("Cluster", "a", cluster("10.0.0.2"))]).rules(manual()), ["O5"]);
        assert_eq!(History::of(&[("IPAddressClaim", "vip-cp-a", claim.clone())]).rules(manual()), ["O5"]);
        assert_eq!(History::of(&[("IPAddressClaim", "vip-cp-a", claim)]).rules(Promise::Untouched), ["out-of-scope"]);
        let marked = json!({"metadata": {"annotations": {"vip.capi.gorizond.io/control-plane-vip": "10.0.0.1"}}});
        assert_eq!(History::of(&[("Cluster", "a", marked)]).rules(Promise::Untouched), ["out-of-scope"]);
    }
}
