//! Clusters on CloudStack: what keeps each from being ready, what it consists of, and all of them in a table.

use ::clusters::decide::{ENDPOINT, LEAVING};
use api::key::ObjectKey;
use api::names::clusters::{FINALIZER, ON, PAUSED_ANNOTATION, SKIP_IP_CHECK_ANNOTATION};
use api::own::anywhere::{Cluster, GradedCondition};
use api::reasons::READY;
use api::reasons::clusters::{
    CONTROL_PLANE_INITIALIZED, CONTROL_PLANE_READY, DEFAULT_CNI_CONFIGURED, Reason, WORKERS_READY,
};
use kit::explain::{Explanation, Fact, Fix, Level, Need, Next, Node, Object, quoted};
use kube::api::DynamicObject;
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;

use super::{AboutOptions, ListOptions, connect};
use crate::look::{self, Anywhere, Reader, Which};
use crate::rows::{Cells, shown};
use crate::screen::{self, Screen, cell, tally};

/// Explains a cluster.
pub async fn about(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Explanation> {
    Ok(explanation(&see(client, options, name, "explain").await?))
}

/// Draws a cluster.
pub async fn draw(client: &Client, options: &AboutOptions, name: &str) -> anyhow::Result<Node> {
    Ok(tree(&see(client, options, name, "tree").await?))
}

async fn see(client: &Client, options: &AboutOptions, name: &str, command: &str) -> anyhow::Result<Anywhere> {
    let namespace = options.place.namespace(client);
    look::cluster(&Reader::new(client, Some(&namespace)), &namespace, name, command).await
}

/// Lists clusters.
pub async fn clusters(options: ListOptions) -> anyhow::Result<()> {
    let client = connect(options.places.cluster()).await?;
    shown(options.rows.watch, async || Box::pin(listed(&client, &options)).await).await
}

pub(super) async fn listed(client: &Client, options: &ListOptions) -> anyhow::Result<String> {
    let namespace = options.places.namespace(client);
    let which = namespace.as_deref().map_or(Which::All, Which::In);
    let reader = Reader::new(client, which.namespace());
    let items: Vec<Row> = look::clusters(&reader, &which).await?.iter().map(row).collect();
    let items = options.rows.choose(items, false)?;
    options.rows.render("ClusterList", &items, &Rows { items: &items }, |screen| rows_screen(screen, &items))
}

fn key(cluster: &Cluster) -> ObjectKey {
    ObjectKey::namespaced(cluster.namespace().unwrap_or_default(), cluster.name_any())
}

fn condition<'c>(cluster: &'c Cluster, kind: &str) -> Option<&'c GradedCondition> {
    cluster.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == kind)
}

/// A reason as this build knows it; one of another build is told in the sentence alone.
fn known(reason: &str) -> Option<&'static str> {
    Reason::ALL.iter().map(|known| known.as_str()).find(|known| *known == reason)
}

fn level(condition: &GradedCondition) -> Level {
    match (condition.status.as_str(), condition.severity.as_str()) {
        ("True", _) => Level::Ok,
        ("False", "Error") => Level::Problem,
        ("False", "Warning") if condition.reason == Reason::SkipUpgradesForDefaultCNIConfigured.as_str() => {
            Level::Aside
        }
        ("False", _) => Level::Waiting,
        _ => Level::Unknown,
    }
}

/// How the whole stands, in one sentence.
fn verdict(cluster: &Cluster) -> (Level, String) {
    let status = cluster.status.clone().unwrap_or_default();
    let ready = condition(cluster, READY);
    let said = ready.map(|ready| ready.message.clone()).unwrap_or_default();
    if cluster.annotations().get(PAUSED_ANNOTATION).is_some_and(|value| value == ON) {
        return (Level::Aside, "nothing is done: it is paused".to_owned());
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        return (Level::Waiting, format!("it is being deleted: {said}"));
    }
    if !status.failure_reason.is_empty() {
        return (Level::Problem, status.failure_message);
    }
    let version = &cluster.spec.kubernetes_version;
    let behind = status.reconciled_generation != cluster.metadata.generation;
    match ready {
        Some(ready) if ready.status == "True" && behind => {
            (Level::Waiting, "it is ready, and its latest change is not carried out yet".to_owned())
        }
        Some(ready) if ready.status == "True" => (Level::Ok, format!("it is as wanted, with Kubernetes {version}")),
        Some(ready) => (level(ready), said),
        None if self_managed(cluster) => (Level::Aside, "it manages itself and is left alone".to_owned()),
        None => (Level::Waiting, "nothing was done for it yet".to_owned()),
    }
}

fn self_managed(cluster: &Cluster) -> bool {
    let manager = cluster.spec.management_cluster.as_ref().map(|manager| manager.name.as_str()).unwrap_or_default();
    manager.is_empty() || manager == cluster.name_any()
}

fn explanation(seen: &Anywhere) -> Explanation {
    let cluster = &seen.cluster;
    let (level, summary) = verdict(cluster);
    Explanation {
        object: Object::new("Cluster", &key(cluster)),
        level,
        summary,
        facts: facts(cluster),
        needs: needs(seen),
        next: next(cluster, level),
        fixes: fixes(cluster),
        unseen: seen.unseen.clone(),
    }
}

fn facts(cluster: &Cluster) -> Vec<Fact> {
    let status = cluster.status.clone().unwrap_or_default();
    let plane = cluster.spec.control_plane_configuration.as_ref();
    let endpoint = plane.and_then(|plane| plane.endpoint.as_ref()).map(|endpoint| endpoint.host.clone());
    let manager = cluster.spec.management_cluster.as_ref().map(|manager| manager.name.clone());
    let bundle = status.resolved_bundles.map(|bundles| format!("{}/{}", bundles.namespace, bundles.name));
    let plugin = status.cni.map(|cni| format!("{} {}", cni.name, cni.version));
    let all = [
        ("Kubernetes", Some(cluster.spec.kubernetes_version.clone())),
        ("endpoint", endpoint),
        ("management cluster", manager),
        ("datacenter", Some(look::datacenter_of(cluster))),
        ("bundle", bundle),
        ("network plugin", plugin),
        ("rendered by revision", status.render_revision.map(|revision| revision.to_string())),
    ];
    let held = all.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
    held.map(|(name, value)| Fact { name, value }).collect()
}

fn needs(seen: &Anywhere) -> Vec<Need> {
    let cluster = &seen.cluster;
    let status = cluster.status.clone().unwrap_or_default();
    let need = |name: &str, level, reason: Option<&'static str>, sentence: String| Need {
        name: name.to_owned(),
        level,
        reason,
        sentence,
        required: true,
        ..Need::default()
    };
    let mut needs = Vec::new();
    if status.failure_reason.is_empty() {
        needs.push(need("what is written", Level::Ok, None, "it can be carried out".to_owned()));
    } else {
        let reason = known(&status.failure_reason);
        needs.push(need("what is written", Level::Problem, reason, status.failure_message.clone()));
    }
    needs.push(datacenter(seen, &need));
    for (name, kinds) in [
        ("control plane", [CONTROL_PLANE_INITIALIZED, CONTROL_PLANE_READY].as_slice()),
        ("network plugin", &[DEFAULT_CNI_CONFIGURED]),
        ("workers", &[WORKERS_READY]),
    ] {
        let said: Vec<&GradedCondition> = kinds.iter().filter_map(|kind| condition(cluster, kind)).collect();
        let worst = said.iter().find(|condition| condition.status != "True").or(said.last());
        needs.push(match worst {
            Some(condition) if condition.status == "True" => need(name, Level::Ok, None, "as wanted".to_owned()),
            Some(condition) => need(name, level(condition), known(&condition.reason), condition.message.clone()),
            None => need(name, Level::Waiting, None, "nothing is said of it yet".to_owned()),
        });
    }
    needs
}

/// Makes one of the needs: its name, how it stands, the page of its reason, and what is said of it.
type Making<'a> = &'a dyn Fn(&str, Level, Option<&'static str>, String) -> Need;

fn datacenter(seen: &Anywhere, need: Making<'_>) -> Need {
    let name = look::datacenter_of(&seen.cluster);
    let Some(datacenter) = &seen.datacenter else {
        let why = format!("CloudStackDatacenterConfig {name} was not found");
        return need("datacenter", Level::Problem, known(Reason::MissingDependentObjects.as_str()), why);
    };
    let status = datacenter.status.clone().unwrap_or_default();
    let current = status.observed_generation == datacenter.metadata.generation;
    match (current, status.spec_valid) {
        (true, Some(true)) => need("datacenter", Level::Ok, None, format!("{name} was checked and can be used")),
        (true, Some(false)) => {
            let reason = known(Reason::DatacenterConfigInvalid.as_str());
            need("datacenter", Level::Problem, reason, status.failure_message)
        }
        _ => need("datacenter", Level::Waiting, None, format!("{name} has not been checked yet")),
    }
}

/// What Berth does next, by the first thing that is not as it should be.
fn next(cluster: &Cluster, level: Level) -> Vec<Next> {
    let next = |what: String| vec![Next { by: "clusters", what }];
    if level == Level::Aside || self_managed(cluster) {
        return Vec::new();
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        if !cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            // Nothing was generated for it, or all of it is gone.
            return Vec::new();
        }
        let often = LEAVING.as_secs();
        return next(format!("deletes what was generated, and looks every {often} s whether it is gone"));
    }
    let failure = cluster.status.as_ref().map(|status| status.failure_reason.as_str()).unwrap_or_default();
    if failure == Reason::UnavailableControlPlaneIP.as_str() {
        return next(format!("asks the endpoint again every {} s, and at every change", ENDPOINT.as_secs()));
    }
    if level != Level::Waiting {
        return Vec::new();
    }
    let open = |kind: &str| condition(cluster, kind).is_none_or(|condition| condition.status != "True");
    let what = if open(CONTROL_PLANE_READY) {
        "waits for the control plane; the network plugin and the workers follow"
    } else if open(DEFAULT_CNI_CONFIGURED) {
        "brings the network plugin up to date; the workers follow"
    } else {
        "waits for the workers"
    };
    // After a call that failed the pause grows.
    next(format!("{what}; looks again at every change, and within half a minute without one unless a call fails"))
}

fn fixes(cluster: &Cluster) -> Vec<Fix> {
    let status = cluster.status.clone().unwrap_or_default();
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let (namespace, name) = (quoted(&namespace), quoted(&name));
    let is = |reason: Reason| status.failure_reason == reason.as_str();
    if is(Reason::MissingDependentObjects) {
        return vec![Fix::run(
            "create what is missing, beside the Cluster",
            format!("kubectl get csdc,csmc -n {namespace}"),
        )];
    }
    if is(Reason::DatacenterConfigInvalid) {
        let datacenter = quoted(&look::datacenter_of(cluster));
        let command = format!("kubectl get csdc {datacenter} -n {namespace} -o wide");
        return vec![Fix::run("put right what the datacenter says, or its credentials", command)];
    }
    if is(Reason::MachineConfigInvalid) {
        let command = format!("kubectl get csmc -n {namespace} -o yaml");
        return vec![Fix::run("name a template and offerings that every zone has", command)];
    }
    if is(Reason::UnavailableControlPlaneIP) {
        let command = format!("kubectl annotate eksac {name} -n {namespace} {SKIP_IP_CHECK_ANNOTATION}=true");
        return vec![
            Fix::say("choose an endpoint that nobody has"),
            Fix::run("or, where a load balancer answers on purpose, do not ask", command),
        ];
    }
    if is(Reason::BundleNotFoundForCluster) || is(Reason::EksaVersionInvalid) {
        return vec![Fix::run("name a bundle that has this version", "kubectl get bundles,eksareleases -A")];
    }
    if status.failure_reason.is_empty() { Vec::new() } else { vec![Fix::say("change what the message names")] }
}

/// A cluster with what it consists of.
pub fn tree(seen: &Anywhere) -> Node {
    let cluster = &seen.cluster;
    let (level, summary) = verdict(cluster);
    let namespace = cluster.namespace().unwrap_or_default();
    let beside = |kind: &str, name: &str| Object::new(kind, &ObjectKey::namespaced(namespace.clone(), name));
    let mut children = Vec::new();
    let told = datacenter(seen, &|name, level, reason, sentence| Need {
        name: name.to_owned(),
        level,
        reason,
        sentence,
        ..Need::default()
    });
    let datacenter = beside("CloudStackDatacenterConfig", &look::datacenter_of(cluster));
    children.push(Node::new(datacenter, told.level, told.sentence));
    for name in look::machines_of(cluster) {
        let found = seen.machines.iter().find(|machine| machine.name_any() == name);
        let object = beside("CloudStackMachineConfig", &name);
        children.push(match found {
            Some(machine) => Node::new(object, Level::Ok, format!("template {}", or_id(&machine.spec.template))),
            None => Node::new(object, Level::Problem, "not found"),
        });
    }
    children.extend(of_kind(seen, "KubeadmControlPlane").map(|plane| {
        let label = |machine: &&DynamicObject| machine.labels().contains_key("cluster.x-k8s.io/control-plane");
        replicas(plane, of_kind(seen, "Machine").filter(label).collect())
    }));
    children.extend(of_kind(seen, "MachineDeployment").map(|group| {
        let name = group.name_any();
        let label = |machine: &&DynamicObject| machine.labels().get("cluster.x-k8s.io/deployment-name") == Some(&name);
        replicas(group, of_kind(seen, "Machine").filter(label).collect())
    }));
    Node::new(Object::new("Cluster", &key(cluster)), level, summary).with(children)
}

fn or_id(named: &api::own::anywhere::Named) -> &str {
    if named.name.is_empty() { &named.id } else { &named.name }
}

fn of_kind<'s>(seen: &'s Anywhere, kind: &'s str) -> impl Iterator<Item = &'s DynamicObject> {
    seen.generated.iter().filter(move |object| object.types.as_ref().is_some_and(|types| types.kind == kind))
}

fn object_of(object: &DynamicObject) -> Object {
    let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    Object::new(kind, &ObjectKey::namespaced(object.namespace().unwrap_or_default(), object.name_any()))
}

/// Something that has machines, and the machines.
fn replicas(object: &DynamicObject, machines: Vec<&DynamicObject>) -> Node {
    let count = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_i64);
    let text = |object: &DynamicObject, pointer: &str| {
        object.data.pointer(pointer).and_then(Value::as_str).map(str::to_owned).unwrap_or_default()
    };
    let (wanted, ready) = (count("/spec/replicas"), count("/status/readyReplicas").unwrap_or_default());
    let version = [text(object, "/spec/version"), text(object, "/spec/template/spec/version")].concat();
    let level = if wanted.is_none_or(|wanted| ready == wanted) { Level::Ok } else { Level::Waiting };
    let of = wanted.map(|wanted| format!(" of {wanted}")).unwrap_or_default();
    let children = machines.into_iter().map(|machine| {
        let phase = text(machine, "/status/phase");
        let level = if phase == "Running" { Level::Ok } else { Level::Waiting };
        Node::new(object_of(machine), level, format!("{phase}, {}", text(machine, "/spec/version")))
    });
    let children = children.collect();
    Node::new(object_of(object), level, format!("{version}, {ready}{of} ready")).with(children)
}

/// All clusters.
#[derive(Serialize)]
struct Rows<'a> {
    items: &'a [Row],
}

/// One cluster.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    namespace: String,
    name: String,
    version: String,
    control_plane: i64,
    workers: i64,
    ready: String,
    /// How things stand.
    pub level: Level,
    /// The reason, of the failure or of the condition `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How things stand, in a sentence.
    pub message: String,
}

impl Cells for Row {
    const COLUMNS: &'static [&'static str] =
        &["namespace", "name", "kubernetes", "control-plane", "workers", "ready", "reason"];

    fn cells(&self) -> Vec<String> {
        let (namespace, name, version) = (self.namespace.clone(), self.name.clone(), self.version.clone());
        let (plane, workers) = (self.control_plane.to_string(), self.workers.to_string());
        vec![namespace, name, version, plane, workers, self.ready.clone(), self.reason.clone().unwrap_or_default()]
    }
}

/// A cluster in a row.
pub fn row(cluster: &Cluster) -> Row {
    let status = cluster.status.clone().unwrap_or_default();
    let (level, message) = verdict(cluster);
    let ready = condition(cluster, READY);
    let said = ready.map(|ready| ready.reason.clone()).unwrap_or_default();
    let reason = [status.failure_reason, said].into_iter().find(|reason| !reason.is_empty());
    let plane = cluster.spec.control_plane_configuration.as_ref().and_then(|plane| plane.count);
    let groups = cluster.spec.worker_node_group_configurations.iter();
    Row {
        namespace: cluster.namespace().unwrap_or_default(),
        name: cluster.name_any(),
        version: cluster.spec.kubernetes_version.clone(),
        control_plane: plane.unwrap_or_default().into(),
        workers: groups.map(|group| i64::from(group.count.unwrap_or(1))).sum(),
        ready: ready.map(|ready| ready.status.clone()).unwrap_or_default(),
        level,
        reason,
        message,
    }
}

fn rows_screen(screen: Screen, items: &[Row]) -> String {
    if items.is_empty() {
        return screen::text(screen, "no clusters on CloudStack; look into all namespaces with -A");
    }
    let cells = |row: &Row| {
        [
            row.namespace.clone(),
            row.name.clone(),
            row.version.clone(),
            row.control_plane.to_string(),
            row.workers.to_string(),
            cell(Some(&row.ready)),
            cell(row.reason.as_deref()),
        ]
    };
    let rows: Vec<[String; 7]> = items.iter().map(cells).collect();
    let heading = ["NAMESPACE", "NAME", "KUBERNETES", "CONTROL PLANE", "WORKERS", "READY", "REASON"];
    let count = |level: Level| items.iter().filter(|row| row.level == level).count();
    let counts = [
        (count(Level::Ok), "ready"),
        (count(Level::Waiting), "under way"),
        (count(Level::Problem), "with a problem"),
        (count(Level::Aside), "left alone"),
        (count(Level::Unknown), "not known"),
    ];
    let tally = screen::text(screen, &tally(rows.len(), "cluster", &counts));
    format!("{}\n{tally}", screen::table(screen, heading, &rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::tests::{at_widths, document};
    use serde_json::json;
    use sim::dock::objects::merged;

    fn cluster(status: Value) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "team-a", "generation": 2},
            "spec": {"kubernetesVersion": "1.31", "managementCluster": {"name": "mgmt"},
                "datacenterRef": {"kind": "CloudStackDatacenterConfig", "name": "dc"},
                "controlPlaneConfiguration": {"count": 3, "endpoint": {"host": "192.0.2.10"},
                    "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "m"}},
                "workerNodeGroupConfigurations": [{"name": "md-0", "count": 2,
                    "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "m"}}]},
            "status": status,
        }))
        .unwrap()
    }

    fn said(kind: &str, status: &str, severity: &str, reason: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "severity": severity, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-02T03:04:05Z"})
    }

    fn seen(status: Value) -> Anywhere {
        Anywhere { cluster: cluster(status), ..Anywhere::default() }
    }

    #[test]
    fn a_failure_is_told_before_everything_else_with_a_way_out() {
        let told = explanation(&seen(json!({"failureReason": "UnavailableControlPlaneIP",
            "failureMessage": "endpoint 192.0.2.10:6443 already answers",
            "conditions": [said("Ready", "False", "Info", "ControlPlaneInitializationInProgress", "not yet")]})));
        assert_eq!((told.level, told.summary.as_str()), (Level::Problem, "endpoint 192.0.2.10:6443 already answers"));
        assert_eq!(told.needs[0].reason, Some("UnavailableControlPlaneIP"));
        let commands: Vec<String> = told.fixes.into_iter().filter_map(|fix| fix.command).collect();
        assert_eq!(commands, ["kubectl annotate eksac prod -n team-a anywhere.eks.amazonaws.com/skip-ip-check=true"]);
        assert_eq!(told.next[0].what, "asks the endpoint again every 60 s, and at every change");
    }

    #[test]
    fn it_is_told_when_the_next_look_is_as_long_as_there_is_one() {
        let next = |more: Value| {
            let plain = serde_json::to_value(cluster(json!({}))).unwrap();
            let cluster: Cluster = serde_json::from_value(merged(plain, &more)).unwrap();
            let (level, _) = verdict(&cluster);
            next(&cluster, level).into_iter().map(|next| next.what).collect::<Vec<_>>().join("; ")
        };
        let waits = next(json!({}));
        assert!(waits.starts_with("waits for the control plane") && waits.contains("within half a minute"), "{waits}");
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z", "finalizers": [FINALIZER]}});
        let leaves = next(going.clone());
        assert!(leaves.contains("looks every 60 s whether it is gone"), "{leaves}");
        assert_eq!(next(json!({"metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"}})), "", "nobody waits for it");
        let own = json!({"spec": {"managementCluster": {"name": "prod"}}});
        let not_ready =
            json!({"status": {"conditions": [said("Ready", "False", "Info", "RollingUpgradeInProgress", "x")]}});
        for more in [going, not_ready] {
            assert_eq!(next(merged(own.clone(), &more)), "", "one that manages itself is left alone");
        }
        let annotation = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: ON}}});
        assert_eq!(next(annotation), "");
        assert_eq!(next(json!({"status": {"failureReason": "ClusterInvalid", "failureMessage": "x"}})), "");
    }

    #[test]
    fn what_is_not_ready_is_told_by_its_part_and_by_how_grave_it_is() {
        let upgrade = json!({"reconciledGeneration": 1, "conditions": [
            said("Ready", "False", "Info", "RollingUpgradeInProgress", "1 of 3 up to date"),
            said("ControlPlaneInitialized", "True", "", "", ""),
            said("ControlPlaneReady", "False", "Info", "RollingUpgradeInProgress", "1 of 3 up to date"),
            said("DefaultCNIConfigured", "False", "Warning", "SkipUpgradesForDefaultCNIConfigured", "left alone"),
            said("WorkersReady", "False", "Error", "MachineDeploymentNotReady", "no machines"),
        ]});
        let told = explanation(&seen(upgrade));
        assert_eq!(told.level, Level::Waiting);
        let needs: Vec<(&str, Level)> = told.needs.iter().map(|need| (need.name.as_str(), need.level)).collect();
        assert_eq!(
            needs,
            [
                ("what is written", Level::Ok),
                ("datacenter", Level::Problem),
                ("control plane", Level::Waiting),
                ("network plugin", Level::Aside),
                ("workers", Level::Problem),
            ]
        );
        assert!(told.next[0].what.contains("control plane"), "{:?}", told.next);
    }

    #[test]
    fn only_what_is_carried_out_is_ready() {
        let conditions = json!([said("Ready", "True", "", "", "")]);
        let current = cluster(json!({"reconciledGeneration": 2, "conditions": conditions}));
        assert_eq!(verdict(&current), (Level::Ok, "it is as wanted, with Kubernetes 1.31".to_owned()));
        let behind = cluster(json!({"reconciledGeneration": 1, "conditions": conditions}));
        assert_eq!(verdict(&behind).0, Level::Waiting);
        assert_eq!(verdict(&cluster(json!({}))).0, Level::Waiting);
        let mut own = cluster(json!({}));
        own.spec.management_cluster = None;
        assert_eq!(verdict(&own).0, Level::Aside);
        own.metadata.annotations = Some([(PAUSED_ANNOTATION.to_owned(), ON.to_owned())].into());
        assert_eq!(verdict(&own).1, "nothing is done: it is paused");
    }

    #[test]
    fn a_cluster_that_is_upgraded_on_every_screen() {
        let seen = seen(json!({"reconciledGeneration": 1, "conditions": [
            said("Ready", "False", "Info", "RollingUpgradeInProgress", "1 of 3 machines of the control plane are up to date"),
            said("ControlPlaneInitialized", "True", "", "", ""),
            said("ControlPlaneReady", "False", "Info", "RollingUpgradeInProgress", "1 of 3 machines are up to date"),
            said("WorkersReady", "False", "Error", "MachineDeploymentNotReady", "no machine of md-0 is ready"),
        ]}));
        let (told, root, rows) = (explanation(&seen), tree(&seen), [row(&seen.cluster)]);
        insta::assert_snapshot!(at_widths(|screen| format!(
            "{}\n{}\n{}",
            screen::explanation(screen, &told),
            screen::tree(screen, &root),
            rows_screen(screen, &rows)
        )));
    }

    #[test]
    fn the_table_for_programs() {
        let fine = cluster(json!({"reconciledGeneration": 2, "conditions": [said("Ready", "True", "", "", "")]}));
        let invalid = cluster(json!({"failureReason": "ClusterInvalid", "failureMessage": "x"}));
        let items = [row(&fine), row(&invalid), row(&cluster(json!({})))];
        insta::assert_snapshot!(document("ClusterList", &Rows { items: &items }));
    }

    #[test]
    fn the_table_counts_what_is_wanted() {
        let row = row(&cluster(json!({"failureReason": "ClusterInvalid", "failureMessage": "x"})));
        assert_eq!((row.control_plane, row.workers, row.reason.as_deref()), (3, 2, Some("ClusterInvalid")));
        let drawn = rows_screen(Screen { width: Some(100), colour: false }, &[row]);
        assert!(drawn.contains("1 cluster: 1 with a problem"), "{drawn}");
        insta::assert_snapshot!("no_clusters", at_widths(|screen| rows_screen(screen, &[])));
    }

    #[test]
    fn a_tree_shows_what_is_there_and_what_is_missing() {
        let plane: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "prod", "namespace": "eksa-system"},
            "spec": {"replicas": 3, "version": "v1.31.4"}, "status": {"readyReplicas": 1}}))
        .unwrap();
        let drawn = tree(&Anywhere { generated: vec![plane], ..seen(json!({})) });
        let notes: Vec<(&str, &str)> =
            drawn.children.iter().map(|node| (node.object.kind.as_str(), node.note.as_str())).collect();
        assert_eq!(
            notes,
            [
                ("CloudStackDatacenterConfig", "CloudStackDatacenterConfig dc was not found"),
                ("CloudStackMachineConfig", "not found"),
                ("KubeadmControlPlane", "v1.31.4, 1 of 3 ready"),
            ]
        );
    }
}
