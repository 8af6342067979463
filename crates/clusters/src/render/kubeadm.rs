//! Configurations of kubeadm: what a machine does to become a node.

use std::collections::BTreeMap;

use api::own::anywhere::{CloudStackMachineConfigSpec, DiskOffering, ImageSource, Taint, User};
use serde_json::{Value, json};

use super::facts::{Facts, GroupFacts};
use super::{files, filled};
use crate::keys::without_comment;
use crate::version::Minor;

/// The only cipher suite that servers of the cluster offer.
const CIPHERS: &str = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
const CONTAINERD: &str = "/var/run/containerd/containerd.sock";
/// Replaced by the name of the Machine before the machine starts.
const HOST_NAME: &str = "{{ ds.meta_data.hostname }}";
const PROVIDER_ID: &str = "cloudstack:///'{{ ds.meta_data.instance_id }}'";
const SUDO: &str = "ALL=(ALL) NOPASSWD:ALL";
const AUDIT_LOG_DIR: &str = "/var/log/kubernetes";

/// From this version on, the API server takes no cloud provider.
const NO_CLOUD_PROVIDER: Minor = Minor(33);
/// The versions whose kubeadm would add members to etcd as learners, which its image here cannot.
const LEARNERS: std::ops::RangeInclusive<u8> = 29..=32;
/// From this version on, the first node has no rights by its usual configuration until kubeadm has finished.
const SUPER_ADMIN: Minor = Minor(29);

/// The configuration of machines of the control plane.
pub(super) fn control_plane(facts: &Facts<'_>) -> Value {
    let plane = facts.plane;
    let kubelet = plane.kubelet_configuration.as_ref();
    let mut registration = registration(facts, kubelet, &plane.labels);
    if let (Some(taints), Some(fields)) = (&plane.taints, registration.as_object_mut()) {
        fields.insert("taints".to_owned(), self::taints(taints));
    }
    let patches = kubelet.map(|_| json!({"directory": files::PATCHES})).unwrap_or_default();
    let port = facts.endpoint.port();
    let own_port = facts.kube_vip.is_some() && port != crate::endpoint::DEFAULT_PORT;
    let local = if own_port { json!({"bindPort": port}) } else { Value::Null };
    let join_plane = if own_port { json!({"localAPIEndpoint": local}) } else { Value::Null };
    filled([
        ("format", json!("cloud-config")),
        ("clusterConfiguration", cluster_configuration(facts)),
        (
            "initConfiguration",
            filled([
                ("nodeRegistration", registration.clone()),
                ("patches", patches.clone()),
                ("localAPIEndpoint", local),
            ]),
        ),
        (
            "joinConfiguration",
            filled([("nodeRegistration", registration), ("patches", patches), ("controlPlane", join_plane)]),
        ),
        ("files", Value::Array(files::control_plane(facts))),
        ("preKubeadmCommands", json!(commands(facts, facts.plane_machine, true))),
        ("diskSetup", facts.plane_machine.disk().map(disk_setup).unwrap_or_default()),
        ("mounts", facts.plane_machine.disk().map(mounts).unwrap_or_default()),
        ("users", users(&facts.plane_machine.users)),
    ])
}

/// The configuration of machines of a group.
pub(super) fn worker(facts: &Facts<'_>, group: &GroupFacts<'_>) -> Value {
    let kubelet = group.group.kubelet_configuration.as_ref();
    let mut registration = registration(facts, kubelet, &group.group.labels);
    if let Some(fields) = registration.as_object_mut() {
        // Present even when there are none, so that taking the last one away is a change.
        fields.insert("taints".to_owned(), taints(&group.group.taints));
    }
    let patches = kubelet.map(|_| json!({"directory": files::PATCHES})).unwrap_or_default();
    filled([
        ("format", json!("cloud-config")),
        ("joinConfiguration", filled([("nodeRegistration", registration), ("patches", patches)])),
        ("files", Value::Array(files::worker(facts, kubelet))),
        ("preKubeadmCommands", json!(commands(facts, group.machine, false))),
        ("diskSetup", group.machine.disk().map(disk_setup).unwrap_or_default()),
        ("mounts", group.machine.disk().map(mounts).unwrap_or_default()),
        ("users", users(&group.machine.users)),
    ])
}

fn cluster_configuration(facts: &Facts<'_>) -> Value {
    let image = |image: Option<&ImageSource>| {
        let image = image.cloned().unwrap_or_default();
        (json!(image.repository), json!(image.tag))
    };
    let repository = facts.distro.kubernetes.as_ref().map(|image| image.repository.as_str());
    let (dns, dns_tag) = image(facts.distro.coredns.as_ref());
    let (etcd, etcd_tag) = image(facts.distro.etcd.as_ref());
    let etcd = filled([
        ("imageRepository", etcd),
        ("imageTag", etcd_tag),
        ("extraArgs", args([("cipher-suites", CIPHERS.to_owned())])),
    ]);
    let gates = if LEARNERS.contains(&facts.minor.0) { json!({"EtcdLearnerMode": false}) } else { Value::Null };
    filled([
        ("imageRepository", json!(repository)),
        ("dns", filled([("imageRepository", dns), ("imageTag", dns_tag)])),
        ("etcd", json!({"local": etcd})),
        ("featureGates", gates),
        ("apiServer", api_server(facts)),
        ("controllerManager", json!({"extraArgs": controller_manager(facts)})),
        (
            "scheduler",
            json!({"extraArgs": args([("profiling", "false".to_owned()), ("tls-cipher-suites", CIPHERS.to_owned())])}),
        ),
    ])
}

fn controller_manager(facts: &Facts<'_>) -> Value {
    let mut all = BTreeMap::from([
        ("cloud-provider".to_owned(), "external".to_owned()),
        ("profiling".to_owned(), "false".to_owned()),
        ("tls-cipher-suites".to_owned(), CIPHERS.to_owned()),
    ]);
    all.extend(facts.node_mask().map(|mask| ("node-cidr-mask-size".to_owned(), mask.to_string())));
    args(all)
}

fn api_server(facts: &Facts<'_>) -> Value {
    let volume = |name: &str, path: &str, type_: &str, read_only: bool| json!({"name": name, "hostPath": path, "mountPath": path, "pathType": type_, "readOnly": read_only});
    let mut sans = facts.plane.cert_sans.clone();
    sans.sort();
    sans.dedup();
    filled([
        ("certSANs", json!(sans)),
        ("extraArgs", args(api_server_args(facts))),
        (
            "extraVolumes",
            json!([
                volume("audit-policy", files::AUDIT_POLICY, "File", true),
                volume("audit-log-dir", AUDIT_LOG_DIR, "DirectoryOrCreate", false),
            ]),
        ),
    ])
}

/// Arguments of the API server: later ones win, so that a user's own never weaken the last.
fn api_server_args(facts: &Facts<'_>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        if !value.is_empty() {
            all.insert(name.to_owned(), value.to_owned());
        }
    };
    set("audit-policy-file", files::AUDIT_POLICY);
    set("audit-log-path", &format!("{AUDIT_LOG_DIR}/api-audit.log"));
    set("audit-log-maxage", "30");
    set("audit-log-maxbackup", "10");
    set("audit-log-maxsize", "512");
    if facts.minor < NO_CLOUD_PROVIDER {
        set("cloud-provider", "external");
    }
    if let Some(oidc) = facts.oidc {
        set("oidc-issuer-url", &oidc.issuer_url);
        set("oidc-client-id", &oidc.client_id);
        set("oidc-username-claim", &oidc.username_claim);
        set("oidc-username-prefix", &oidc.username_prefix);
        set("oidc-groups-claim", &oidc.groups_claim);
        set("oidc-groups-prefix", &oidc.groups_prefix);
        let mut claims: Vec<String> =
            oidc.required_claims.iter().map(|required| format!("{}={}", required.claim, required.value)).collect();
        claims.sort();
        set("oidc-required-claim", &claims.join(","));
    }
    for (name, value) in &facts.plane.api_server_extra_args {
        set(name, value);
    }
    if let Some(iam) = &facts.spec.pod_iam_config {
        let issuer = &iam.service_account_issuer;
        let before = facts.plane.api_server_extra_args.get("service-account-issuer").filter(|text| !text.is_empty());
        let joined = before.map_or_else(|| issuer.clone(), |before| format!("{before},{issuer}"));
        set("service-account-issuer", &joined);
    }
    set("profiling", "false");
    set("tls-cipher-suites", CIPHERS);
    all
}

/// How a machine registers its node; the configuration of a user's kubelet takes the place of most arguments.
fn registration(facts: &Facts<'_>, kubelet: Option<&Value>, labels: &BTreeMap<String, String>) -> Value {
    let mut all = BTreeMap::from([("provider-id".to_owned(), PROVIDER_ID.to_owned())]);
    if kubelet.is_none() {
        all.insert("read-only-port".to_owned(), "0".to_owned());
        all.insert("anonymous-auth".to_owned(), "false".to_owned());
        all.insert("tls-cipher-suites".to_owned(), CIPHERS.to_owned());
        all.extend(facts.resolv_conf().map(|path| ("resolv-conf".to_owned(), path.to_owned())));
    }
    if !labels.is_empty() {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        all.insert("node-labels".to_owned(), labels.join(","));
    }
    json!({"name": HOST_NAME, "criSocket": CONTAINERD, "kubeletExtraArgs": args(all)})
}

/// The configuration of a user's kubelet, with what the arguments would have said.
pub(super) fn kubelet_configuration(facts: &Facts<'_>, configuration: &Value) -> Value {
    let mut fields = configuration.as_object().cloned().unwrap_or_default();
    let mut add = |key: &str, value: Value| {
        fields.entry(key.to_owned()).or_insert(value);
    };
    add("apiVersion", json!("kubelet.config.k8s.io/v1beta1"));
    add("kind", json!("KubeletConfiguration"));
    add("tlsCipherSuites", json!([CIPHERS]));
    if let Some(path) = facts.resolv_conf() {
        add("resolvConf", json!(path));
    }
    Value::Object(fields)
}

/// Arguments in the order of their names.
fn args<K: Into<String>>(all: impl IntoIterator<Item = (K, String)>) -> Value {
    let mut sorted = BTreeMap::new();
    for (name, value) in all {
        sorted.insert(name.into(), value);
    }
    sorted.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn taints(taints: &[Taint]) -> Value {
    let mut sorted: Vec<&Taint> = taints.iter().collect();
    sorted.sort_by_key(|taint| (&taint.key, &taint.effect, &taint.value));
    let one = |taint: &Taint| {
        filled([("key", json!(taint.key)), ("effect", json!(taint.effect)), ("value", json!(taint.value))])
    };
    sorted.into_iter().map(one).collect()
}

fn users(users: &[User]) -> Value {
    let one = |user: &User| {
        let mut keys: Vec<String> = Vec::new();
        for key in user.ssh_authorized_keys.iter().filter_map(|key| without_comment(key)) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        filled([("name", json!(user.name)), ("sshAuthorizedKeys", json!(keys)), ("sudo", json!(SUDO))])
    };
    users.iter().map(one).collect()
}

/// What a machine does before kubeadm.
fn commands(facts: &Facts<'_>, machine: &CloudStackMachineConfigSpec, plane: bool) -> Vec<String> {
    let mut all = vec!["swapoff -a".to_owned()];
    let mirror = facts.spec.registry_mirror_configuration.is_some();
    if mirror {
        all.push(format!("cat {} >> /etc/containerd/config.toml", files::CONTAINERD_APPEND));
    }
    if mirror || facts.spec.proxy_configuration.is_some() {
        all.push("systemctl daemon-reload".to_owned());
        all.push("systemctl restart containerd".to_owned());
    }
    all.push(format!("hostname \"{HOST_NAME}\""));
    all.push("echo \"::1         ipv6-localhost ipv6-loopback\" >/etc/hosts".to_owned());
    all.push("echo \"127.0.0.1   localhost\" >>/etc/hosts".to_owned());
    all.push(format!("echo \"127.0.0.1   {HOST_NAME}\" >>/etc/hosts"));
    all.push(format!("echo \"{HOST_NAME}\" >/etc/hostname"));
    all.extend(machine.symlinks.iter().map(|(link, target)| symlink(link, target)));
    if plane && facts.kube_vip.is_some() && facts.minor >= SUPER_ADMIN {
        all.push(format!(
            "if [ -f /run/kubeadm/kubeadm.yaml ]; then sed -i 's#path: {}#path: /etc/kubernetes/super-admin.conf#' {}; fi",
            files::ADMIN_CONF,
            files::KUBE_VIP
        ));
    }
    all
}

/// Moves a directory to another place, once: a machine that starts again finds the link.
fn symlink(link: &str, target: &str) -> String {
    format!(
        "if [ ! -L {link} ]; then if [ -e {link} ]; then mv {link} \"$(mktemp -u {link}.XXXXXXXX)\"; fi; \
         mkdir -p {target} \"$(dirname {link})\" && ln -s {target} {link}; fi"
    )
}

fn disk_setup(disk: &DiskOffering) -> Value {
    // Devices whose name ends in a digit have a letter between it and the number of the partition.
    let separator = if disk.device.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
    let lazy = disk.filesystem.starts_with("ext").then(|| json!(["-E", "lazy_itable_init=1,lazy_journal_init=1"]));
    let filesystem = filled([
        ("device", json!(format!("{}{separator}1", disk.device))),
        ("filesystem", json!(disk.filesystem)),
        ("label", json!(disk.label)),
        ("overwrite", json!(false)),
        ("extraOpts", json!(lazy)),
    ]);
    json!({
        "partitions": [{"device": disk.device, "layout": true, "overwrite": false, "tableType": "gpt"}],
        "filesystems": [filesystem],
    })
}

fn mounts(disk: &DiskOffering) -> Value {
    json!([[format!("LABEL={}", disk.label), disk.mount_path]])
}
