//! Requests as large as real ones, for tests and measurements that care about the amount of work.

use serde_json::{Value, json};

const MANIFEST: &str = "apiVersion: v1
kind: Pod
metadata:
  name: kube-vip
  namespace: kube-system
spec:
  hostNetwork: true
  containers:
  - name: kube-vip
    image: ghcr.io/kube-vip/kube-vip:v1.0.1
    args: [manager]
    env:
    - {name: cp_enable, value: \"true\"}
    - {name: vip_arp, value: \"true\"}
    - {name: vip_leaderelection, value: \"true\"}
    - {name: vip_leasename, value: plndr-cp-lock}
    - {name: vip_leaseduration, value: \"15\"}
    - {name: vip_renewdeadline, value: \"10\"}
    - {name: vip_retryperiod, value: \"2\"}
    - {name: address, value: \"@@VIP_CONTROL_PLANE@@\"}
    - {name: port, value: \"@@VIP_CONTROL_PLANE_PORT@@\"}
    volumeMounts:
    - {mountPath: /etc/kubernetes/admin.conf, name: kubeconfig}
  volumes:
  - {name: kubeconfig, hostPath: {path: /etc/kubernetes/admin.conf, type: FileOrCreate}}
";

/// A file as bootstrap templates carry them.
fn file(number: usize) -> Value {
    let content = format!("# setting {number}\n{}", "net.ipv4.conf.all.rp_filter = 0\n".repeat(20));
    json!({"path": format!("/etc/sysctl.d/{number}.conf"), "owner": "root:root", "permissions": "0644", "content": content})
}

fn bootstrap() -> Value {
    json!({
        "clusterConfiguration": {"apiServer": {"certSANs": ["localhost", "<no value>"], "extraArgs": [
            {"name": "audit-log-path", "value": "/var/log/audit.log"}, {"name": "profiling", "value": "false"}]}},
        "files": (0..6).map(file).chain([json!({"path": "/etc/kubernetes/manifests/kube-vip.yaml", "content": MANIFEST})])
            .collect::<Vec<_>>(),
        "preKubeadmCommands": (0..10).map(|n| format!("systemctl enable --now unit-{n}.service")).collect::<Vec<_>>(),
        "users": [{"name": "admin", "sudo": "ALL=(ALL) NOPASSWD:ALL", "sshAuthorizedKeys": ["ssh-ed25519 AAAA admin"]}],
        "joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": [{"name": "provider-id", "value": "x://y"}]}},
    })
}

fn machine() -> Value {
    json!({
        "sourceNode": "pve1", "templateID": 100, "format": "qcow2", "numSockets": 2, "numCores": 4, "memoryMiB": 16384,
        "disks": {"bootVolume": {"disk": "scsi0", "sizeGb": 100}},
        "network": {"default": {"bridge": "vmbr0", "model": "virtio", "dnsServers": ["10.0.0.2", "10.0.0.3"]}},
        "tags": (0..8).map(|n| format!("tag-{n}")).collect::<Vec<_>>(),
    })
}

/// A request of so many templates: the infrastructure cluster, the control plane with its machines, then pairs of bootstrap
/// and machine templates, one for each machine deployment.
pub fn request(templates: usize) -> Value {
    let item = |number: usize| {
        let (holder, field_path, kind, spec) = match number {
            0 => (
                "Cluster",
                "spec.infrastructureRef",
                "ProxmoxClusterTemplate",
                json!({
                "allowedNodes": ["pve1", "pve2"], "dnsServers": ["10.0.0.2"],
                "ipv4Config": {"addresses": ["10.0.1.10-10.0.1.99"], "prefix": 16, "gateway": "10.0.0.1"}}),
            ),
            1 => (
                "Cluster",
                "spec.controlPlaneRef",
                "KubeadmControlPlaneTemplate",
                json!({"kubeadmConfigSpec": bootstrap()}),
            ),
            2 => (
                "KubeadmControlPlane",
                "spec.machineTemplate.spec.infrastructureRef",
                "ProxmoxMachineTemplate",
                machine(),
            ),
            n if n % 2 == 1 => {
                ("MachineDeployment", "spec.template.spec.bootstrap.configRef", "KubeadmConfigTemplate", bootstrap())
            }
            _ => ("MachineDeployment", "spec.template.spec.infrastructureRef", "ProxmoxMachineTemplate", machine()),
        };
        let holder = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": holder, "namespace": "team-a", "name": "prod",
            "fieldPath": field_path});
        let object = json!({"apiVersion": "example.org/v1", "kind": kind, "metadata": {"name": format!("t-{number}")},
            "spec": {"template": {"spec": spec}}});
        json!({"uid": format!("uid-{number}"), "holderReference": holder, "object": object, "variables": [
            {"name": "builtin", "value": {"machineDeployment": {"class": "worker", "topologyName": format!("md-{number}")}}}]})
    };
    let cluster = json!({"namespace": "team-a", "name": "prod", "uid": "u", "topology": {"version": "v1.34.1",
        "classRef": {"name": "c", "namespace": "team-a"}, "class": "c", "classNamespace": "team-a"}});
    json!({"kind": "GeneratePatchesRequest", "variables": [{"name": "builtin", "value": {"cluster": cluster}}],
        "items": (0..templates).map(item).collect::<Vec<_>>()})
}
