//! Files on machines: kube-vip, the audit policy, proxies, the registry mirror and the kubelet's configuration.

use api::own::anywhere::RegistryMirror;
use serde_json::{Value, json};

use super::facts::Facts;
use super::{filled, kubeadm};
use crate::admit::url_host;
use crate::endpoint::join;

pub(super) const KUBE_VIP: &str = "/etc/kubernetes/manifests/kube-vip.yaml";
pub(super) const ADMIN_CONF: &str = "/etc/kubernetes/admin.conf";
pub(super) const AUDIT_POLICY: &str = "/etc/kubernetes/audit-policy.yaml";
pub(super) const PATCHES: &str = "/etc/kubernetes/patches";
pub(super) const CONTAINERD_APPEND: &str = "/etc/containerd/config_append.toml";
const PROXY: &str = "/etc/systemd/system/containerd.service.d/http-proxy.conf";
const CERTS: &str = "/etc/containerd/certs.d";

/// What the API server writes into its audit log: changes in full, reads of secrets without their content, and nothing of
/// what nodes and controllers ask all the time.
const POLICY: &str = include_str!("audit-policy.yaml");

/// The files of machines of the control plane.
pub(super) fn control_plane(facts: &Facts<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    all.extend(facts.kube_vip.map(|image| file(KUBE_VIP, &yaml(&kube_vip(facts, image)))));
    let policy = &facts.plane.audit_policy_content;
    all.push(file(AUDIT_POLICY, if policy.is_empty() { POLICY } else { policy }));
    all.extend(shared(facts));
    all.extend(facts.plane.kubelet_configuration.as_ref().map(|kubelet| kubelet_patch(facts, kubelet)));
    all
}

/// The files of machines of a group.
pub(super) fn worker(facts: &Facts<'_>, kubelet: Option<&Value>) -> Vec<Value> {
    let mut all = shared(facts);
    all.extend(kubelet.map(|kubelet| kubelet_patch(facts, kubelet)));
    all
}

fn shared(facts: &Facts<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    all.extend(facts.spec.proxy_configuration.as_ref().map(|proxy| {
        let lines = [
            ("HTTP_PROXY", proxy.http_proxy.clone()),
            ("HTTPS_PROXY", proxy.https_proxy.clone()),
            ("NO_PROXY", no_proxy(facts).join(",")),
        ];
        let lines: String = lines.iter().map(|(name, value)| format!("Environment=\"{name}={value}\"\n")).collect();
        file(PROXY, &format!("[Service]\n{lines}"))
    }));
    all.extend(facts.spec.registry_mirror_configuration.iter().flat_map(|mirror| mirror_files(facts, mirror)));
    all
}

fn file(path: &str, content: &str) -> Value {
    filled([("path", json!(path)), ("owner", json!("root:root")), ("content", json!(content))])
}

/// YAML of a value that has neither anchors nor anything else that could not be written.
fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_default()
}

fn kubelet_patch(facts: &Facts<'_>, kubelet: &Value) -> Value {
    let path = format!("{PATCHES}/kubeletconfiguration0+strategic.yaml");
    file(&path, &yaml(&kubeadm::kubelet_configuration(facts, kubelet)))
}

/// The static pod that brings the endpoint to one machine of the control plane.
fn kube_vip(facts: &Facts<'_>, image: &str) -> Value {
    let env = [
        ("vip_arp", "true".to_owned()),
        ("port", facts.endpoint.port().to_string()),
        ("vip_cidr", if facts.is_ipv6() { "128" } else { "32" }.to_owned()),
        ("cp_enable", "true".to_owned()),
        ("cp_namespace", "kube-system".to_owned()),
        ("vip_ddns", "false".to_owned()),
        ("vip_leaderelection", "true".to_owned()),
        ("vip_leaseduration", "15".to_owned()),
        ("vip_renewdeadline", "10".to_owned()),
        ("vip_retryperiod", "2".to_owned()),
        ("address", facts.endpoint.host.clone()),
    ];
    let env: Vec<Value> = env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kube-vip", "namespace": "kube-system"},
        "spec": {
            "containers": [{
                "name": "kube-vip",
                "image": image,
                "imagePullPolicy": "IfNotPresent",
                "args": ["manager"],
                "env": env,
                "securityContext": {"capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
                "volumeMounts": [{"name": "kubeconfig", "mountPath": ADMIN_CONF}],
            }],
            "hostAliases": [{"hostnames": ["kubernetes"], "ip": "127.0.0.1"}],
            "hostNetwork": true,
            "volumes": [{"name": "kubeconfig", "hostPath": {"path": ADMIN_CONF, "type": "FileOrCreate"}}],
        },
    })
}

/// What is reached without a proxy, each once. What the user adds comes in one order, because none is asked of him.
fn no_proxy(facts: &Facts<'_>) -> Vec<String> {
    let proxy = facts.spec.proxy_configuration.clone().unwrap_or_default();
    let mut added = proxy.no_proxy;
    added.sort();
    let mut all: Vec<String> = facts.pods().iter().chain(facts.services()).cloned().collect();
    all.extend(added);
    all.extend(["localhost", "127.0.0.1", ".svc"].map(str::to_owned));
    all.extend(facts.zones.iter().filter_map(|zone| url_host(&zone.management_api_endpoint)).map(str::to_owned));
    all.push(facts.endpoint.host.clone());
    all.push(facts.endpoint.to_string());
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|entry| !entry.is_empty() && seen.insert(entry.clone()));
    all
}

/// One directory for the mirror itself and one for each registry it stands in for.
fn mirror_files(facts: &Facts<'_>, mirror: &RegistryMirror) -> Vec<Value> {
    let port = if mirror.port.is_empty() { "443" } else { &mirror.port };
    let base = join(mirror.endpoint.trim_matches(['[', ']']), port);
    let mut mapped: Vec<(String, String)> = mirror
        .oci_namespaces
        .iter()
        .map(|entry| (entry.registry.clone(), entry.namespace.trim_matches('/').to_owned()))
        .collect();
    if mapped.is_empty() {
        mapped.push((facts.settings.core_registry.clone(), String::new()));
    }
    mapped.sort();
    let ca = (!mirror.ca_cert_content.is_empty()).then(|| format!("{CERTS}/{base}/ca.crt"));
    let skip = mirror.insecure_skip_verify == Some(true);
    let hosts = |registry: &str, namespace: &str| {
        let path = if namespace.is_empty() { "/v2".to_owned() } else { format!("/v2/{namespace}") };
        let mut text = format!("server = \"https://{registry}\"\n\n[host.\"https://{base}{path}\"]\n");
        text += "  capabilities = [\"pull\", \"resolve\"]\n";
        // Without it containerd asks for /v2/ twice.
        text += "  override_path = true\n";
        if let Some(ca) = &ca {
            text += &format!("  ca = \"{ca}\"\n");
        }
        if skip {
            text += "  skip_verify = true\n";
        }
        file(&format!("{CERTS}/{registry}/hosts.toml"), &text)
    };
    let mut all = vec![hosts(&base, "")];
    all.extend(ca.as_ref().map(|path| file(path, &mirror.ca_cert_content)));
    all.extend(mapped.iter().filter(|(registry, _)| *registry != base).map(|(registry, path)| hosts(registry, path)));
    let append = format!("[plugins.\"io.containerd.grpc.v1.cri\".registry]\n  config_path = \"{CERTS}\"\n");
    all.push(file(CONTAINERD_APPEND, &append));
    all
}
