//! The real control-plane manager takes what Berth renders, as far as it gets without machines.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::world::{LATER, REAL, SOON, run};

const TEAM: &str = "team-k";
const CLUSTER: &str = "kadm";

#[test]
fn the_real_control_plane_manager_makes_the_first_machine_from_what_is_rendered() {
    run("the_real_control_plane_manager_makes_the_first_machine_from_what_is_rendered", async |world| {
        world.namespace(TEAM).await;
        world.provider.spare(CLUSTER);
        for file in ["datacenter.yaml", "machines.yaml", "cluster.yaml"] {
            world.apply_all(&world.example_for(file, TEAM, CLUSTER, "192.0.2.40")).await;
        }
        let filter = json!({"metadata": {"labels": {"cluster.x-k8s.io/watch-filter": REAL}}});
        for kind in ["Cluster", "KubeadmControlPlane"] {
            let api = world.generated(kind);
            world.within(SOON, &format!("{kind} is made"), async || api.get_opt(CLUSTER).await.ok()?).await;
            api.patch(CLUSTER, &PatchParams::default(), &Patch::Merge(&filter)).await.expect("labelled");
        }
        let machine = world
            .within(LATER, "the first machine runs", async || {
                world.virtual_machines(CLUSTER).into_iter().find(|machine| machine.name.starts_with("kadm-"))
            })
            .await;
        let data = String::from_utf8_lossy(&machine.user_data);
        for part in
            ["kubeadm init", "kube-vip", "audit-policy.yaml", "images.example/kubernetes", "provider-id", "name: capc"]
        {
            assert!(data.contains(part), "the first machine does not read {part}:\n{data}");
        }
        let secrets = world.generated("Secret");
        for part in ["ca", "etcd", "proxy", "sa", "kubeconfig"] {
            assert!(secrets.get_opt(&format!("{CLUSTER}-{part}")).await.unwrap().is_some(), "no secret of {part}");
        }
        let plane = world.generated("KubeadmControlPlane").get(CLUSTER).await.unwrap();
        let conditions =
            plane.data.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        assert!(!conditions.is_empty(), "the real manager reports");
        world.condition(TEAM, CLUSTER, ("ControlPlaneInitialized", "False")).await;
        assert!(world.of_cluster("MachineDeployment", CLUSTER).await.is_empty(), "workers wait for the control plane");
        world.delete(TEAM, CLUSTER).await;
        world.judge().await;
    });
}
