//! What happens to machines on hosts that run: an upgrade reuses their hosts, and a sick node is rebooted before it is
//! replaced. Rollouts and health checks are Cluster API's own.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use sim::metal::Machines;
use sim::nodes::Nodes;

use crate::places::say;
use crate::world::{CORE, INFRASTRUCTURE, METAL, World, run};

const GROUP: &str = "workers";

/// One cluster of one group, in a namespace and on hosts of its own.
struct Fleet<'w> {
    world: &'w World,
    /// Name of namespace and cluster.
    name: &'static str,
    /// The label of its hosts.
    size: &'static str,
    _nodes: Nodes,
}

impl<'w> Fleet<'w> {
    async fn new(world: &'w World, name: &'static str, size: &'static str, hosts: &[&str]) -> Self {
        world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        world.hosts(hosts, size).await;
        world
            .apply(&json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
                "metadata": {"name": name, "namespace": METAL},
                "spec": {"hostClaimNamespaces": {"names": [name]}, "hostSelector": {"matchLabels": {"size": size}}}}))
            .await;
        let fleet = Self { world, name, size, _nodes: world.enter(name, name).await };
        let endpoint = json!({"host": "192.0.2.30", "port": 6443});
        let data = json!({"stringData": {"value": "#cloud-config"}});
        fleet.apply("v1", "Secret", GROUP, data).await;
        let place = json!({"spec": {"controlPlaneEndpoint": endpoint, "cloudProviderEnabled": false}});
        fleet.infrastructure("Metal3Cluster", name, place).await;
        let reference = json!({"apiGroup": INFRASTRUCTURE, "kind": "Metal3Cluster", "name": name});
        let cluster = json!({"spec": {"controlPlaneEndpoint": endpoint, "infrastructureRef": reference}});
        fleet.core("Cluster", name, cluster).await;
        let names = json!({"indexes": [{"key": "index", "prefix": "node-"}],
            "objectNames": [{"key": "host", "object": "baremetalhost"}]});
        let links = json!({"ethernets": [{"type": "phy", "id": "lan", "macAddress": {"fromHostInterface": "eth0"}}]});
        let data = json!({"spec": {"clusterName": name, "metaData": names, "networkData": {"links": links}}});
        fleet.infrastructure("Metal3DataTemplate", GROUP, data).await;
        world.controlled(name, name).await;
        fleet
    }

    async fn apply(&self, version: &str, kind: &str, name: &str, mut object: Value) -> DynamicObject {
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": name, "namespace": self.name});
        self.world.apply(&object).await
    }

    async fn core(&self, kind: &str, name: &str, object: Value) -> DynamicObject {
        self.apply(&format!("{CORE}/v1beta2"), kind, name, object).await
    }

    async fn infrastructure(&self, kind: &str, name: &str, object: Value) -> DynamicObject {
        self.apply(&format!("{INFRASTRUCTURE}/v1beta2"), kind, name, object).await
    }

    /// A template of machines with an image of its own name.
    async fn template(&self, name: &str) {
        let image =
            json!({"url": format!("https://images.example/{name}.qcow2"), "checksum": "abc", "checksumType": "sha256"});
        let machine = json!({"kind": "baremetal", "hostSelector": {"matchLabels": {"size": self.size}}, "image": image,
                "dataTemplate": {"name": GROUP}});
        let spec = json!({"spec": {"nodeReuse": true, "template": {"spec": machine}}});
        self.infrastructure("Metal3MachineTemplate", name, spec).await;
    }

    /// The group, with one machine of that template, which goes before another one comes.
    async fn group(&self, template: &str, version: &str) {
        let labels = json!({"group": GROUP});
        let machine = json!({"metadata": {"labels": labels}, "spec": {
            "clusterName": self.name, "version": version, "bootstrap": {"dataSecretName": GROUP},
            "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "Metal3MachineTemplate", "name": template}}});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
        let spec = json!({"spec": {"clusterName": self.name, "replicas": 1, "selector": {"matchLabels": labels},
            "rollout": {"strategy": strategy}, "template": machine}});
        self.core("MachineDeployment", GROUP, spec).await;
    }

    fn claims(&self) -> Api<DynamicObject> {
        self.world.api("metal3.io", "HostClaim", self.name)
    }

    /// The claim of a Machine, and the name of the host it has.
    async fn host(&self, machine: &DynamicObject) -> (DynamicObject, String) {
        let claim = self.claims().get(text(machine, "/spec/infrastructureRef/name")).await.expect("a claim");
        let host = text(&claim, "/status/bareMetalHost/name").to_owned();
        (claim, host)
    }

    fn hosts(&self) -> Api<DynamicObject> {
        self.world.api("metal3.io", "BareMetalHost", METAL)
    }
}

fn text<'o>(object: &'o DynamicObject, pointer: &str) -> &'o str {
    object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// How often the disk of a host was written or wiped.
fn writes(metal: &Arc<Machines>, host: &str) -> usize {
    metal.changes().iter().filter(|change| change.namespace == METAL && change.name == host).count()
}

/// The host was given all three documents: what the machine starts with, and what was rendered for this very host.
fn told(world: &World, claim: &DynamicObject, host: &str) {
    let disk = world.metal.disk(METAL, host).expect("something runs on it");
    let (user, meta, network) = (disk.user_data, disk.meta_data.unwrap_or_default(), disk.network_data);
    assert_eq!(user.as_deref(), Some("#cloud-config"));
    assert!(meta.contains("node-") && meta.contains(host), "{meta}");
    let mac = text(claim, "/status/nics/0/MAC");
    assert!(!mac.is_empty() && network.as_ref().is_some_and(|data| data.contains(mac)), "{mac}: {network:?}");
}

#[test]
fn an_upgrade_puts_the_new_machine_on_the_host_of_the_old_one() {
    run("an_upgrade_puts_the_new_machine_on_the_host_of_the_old_one", async |world| {
        let names = ["reuse-1", "reuse-2", "reuse-3", "reuse-4"];
        let fleet = Fleet::new(world, "fleet-reuse", "reuse", &names).await;
        fleet.template("node-1-34").await;
        fleet.group("node-1-34", "v1.34.1").await;
        let old = world.settled(fleet.name, GROUP, 1).await.remove(0);
        let (claim, host) = fleet.host(&old).await;
        assert_eq!(text(&claim, "/spec/nodeReuse"), "md-workers");
        assert!(names.contains(&host.as_str()), "{host}");
        told(world, &claim, &host);

        // Any of four hosts would fit the next one.
        fleet.template("node-1-35").await;
        fleet.group("node-1-35", "v1.35.0").await;
        let new = world
            .within("the machine of the new version runs", async || {
                let running = world.running(fleet.name, GROUP).await;
                running.into_iter().find(|machine| text(machine, "/spec/version") == "v1.35.0")
            })
            .await;
        assert_ne!(new.uid(), old.uid());
        let (claim, reused) = fleet.host(&new).await;
        assert_eq!(reused, host, "the host was kept for the group");
        assert_eq!(text(&claim, "/spec/image/url"), "https://images.example/node-1-35.qcow2");
        let disk = world.metal.disk(METAL, &host).expect("something runs on it");
        assert!(disk.contains("https://images.example/node-1-35.qcow2"), "{disk:?}");
        told(world, &claim, &host);
        let used = |name: &&str| world.metal.disk(METAL, name).is_some() || writes(&world.metal, name) > 0;
        assert_eq!(
            names.iter().filter(|name| used(name)).collect::<Vec<_>>(),
            [&host.as_str()],
            "no other was touched"
        );

        // With the whole cluster nobody comes after, so the host is kept for nobody.
        world.delete(fleet.name, fleet.name).await;
        let kept = fleet.hosts().get(&host).await.expect("the host");
        assert_eq!(kept.labels().get("infrastructure.cluster.x-k8s.io/node-reuse"), None);
        assert_eq!(kept.data.pointer("/spec/consumerRef"), None);
        world.judge();
    });
}

#[test]
fn a_sick_node_is_rebooted_on_its_host_and_the_machine_stays() {
    run("a_sick_node_is_rebooted_on_its_host_and_the_machine_stays", async |world| {
        let fleet = Fleet::new(world, "fleet-reboot", "reboot", &["reboot-1"]).await;
        fleet.template("node").await;
        fleet.group("node", "v1.34.1").await;
        let machine = world.settled(fleet.name, GROUP, 1).await.remove(0);
        let (claim, host) = fleet.host(&machine).await;
        let nodes: Api<Node> = Api::all(world.workload.1.clone());
        let node = nodes.get(text(&machine, "/status/nodeRef/name")).await.expect("a Node");
        let before = (world.metal.get(METAL, &host).expect("a machine"), writes(&world.metal, &host));

        let strategy = json!({"type": "Reboot", "retryLimit": 1, "timeoutSeconds": 300});
        let spec = json!({"spec": {"template": {"spec": {"strategy": strategy}}}});
        fleet.infrastructure("Metal3RemediationTemplate", "reboot", spec).await;
        let template = json!({"apiVersion": format!("{INFRASTRUCTURE}/v1beta2"), "kind": "Metal3RemediationTemplate", "name": "reboot"});
        let sick = json!([{"type": "Ready", "status": "False", "timeoutSeconds": 1}]);
        let check = json!({"spec": {"clusterName": fleet.name, "selector": {"matchLabels": {"group": GROUP}},
            "checks": {"unhealthyNodeConditions": sick}, "remediation": {"templateRef": template}}});
        fleet.core("MachineHealthCheck", GROUP, check).await;
        say(&nodes, &node.name_any(), "False").await;

        let treatments = world.api(INFRASTRUCTURE, "Metal3Remediation", fleet.name);
        world
            .within("the host was switched off and on again", async || {
                let now = world.metal.get(METAL, &host)?;
                let cycled = now.power_offs > before.0.power_offs && now.power_ons > before.0.power_ons && now.power;
                cycled.then_some(())
            })
            .await;
        world
            .within("the node is in service again", async || {
                let treatment = treatments.get(&machine.name_any()).await.ok()?;
                let treated = treatment.data.pointer("/status/phase").is_some_and(|phase| phase == "Waiting");
                let held = treatment.finalizers().iter().any(|finalizer| finalizer.contains("metal3"));
                let taints =
                    nodes.get(&node.name_any()).await.ok()?.spec.and_then(|spec| spec.taints).unwrap_or_default();
                let out = taints.iter().any(|taint| taint.key == "node.kubernetes.io/out-of-service");
                (treated && !held && !out).then_some(())
            })
            .await;
        say(&nodes, &node.name_any(), "True").await;
        world
            .within("the treatment ends", async || {
                treatments.get_opt(&machine.name_any()).await.ok()?.is_none().then_some(())
            })
            .await;

        let after = world.settled(fleet.name, GROUP, 1).await.remove(0);
        assert_eq!(after.uid(), machine.uid(), "the machine was not replaced");
        let (kept, same) = fleet.host(&after).await;
        assert_eq!((kept.uid(), &same), (claim.uid(), &host));
        assert_eq!(writes(&world.metal, &host), before.1, "nothing was deployed again");
        let again = nodes.get(&node.name_any()).await.expect("the Node");
        assert_eq!(again.uid(), node.uid(), "a node of this version is taken out of service, not deleted");
        world.delete(fleet.name, fleet.name).await;
        world.judge();
    });
}
