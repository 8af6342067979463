//! What is wrong with the ways of a Cluster to the outside: proxies and the registry mirror.

use api::names::DnsSubdomain;
use api::own::anywhere::{ClusterSpec, RegistryMirror};
use kit::field::{FaultKind, FieldError, FieldPath};

use crate::endpoint::HostPort;

pub(super) fn faults(root: &FieldPath, spec: &ClusterSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(proxy) = &spec.proxy_configuration {
        let path = root.field("proxyConfiguration");
        for (field, text) in [("httpProxy", &proxy.http_proxy), ("httpsProxy", &proxy.https_proxy)] {
            if text.is_empty() {
                errors.push(FieldError::required(path.field(field), "required"));
            } else if !is_proxy(text) {
                errors.push(FieldError::with(path.field(field), FaultKind::Invalid, "not host:port"));
            }
        }
    }
    if let Some(mirror) = &spec.registry_mirror_configuration {
        errors.extend(mirror_faults(&root.field("registryMirrorConfiguration"), mirror));
    }
    errors
}

/// `[http(s)://]host:port`; names are not looked up, because an answer may differ from one moment to the next.
fn is_proxy(text: &str) -> bool {
    let bare = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).unwrap_or(text);
    bare.parse::<HostPort>().is_ok_and(|proxy| proxy.port.is_some())
}

fn mirror_faults(path: &FieldPath, mirror: &RegistryMirror) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let host = mirror.endpoint.parse::<HostPort>();
    if mirror.endpoint.is_empty() {
        errors.push(FieldError::required(path.field("endpoint"), "required"));
    } else if !host.is_ok_and(|host| host.port.is_none()) {
        errors.push(FieldError::with(path.field("endpoint"), FaultKind::Invalid, "not a host"));
    }
    if !mirror.port.is_empty() && !mirror.port.parse::<u16>().is_ok_and(|port| port != 0) {
        errors.push(FieldError::with(path.field("port"), FaultKind::Invalid, "port out of range"));
    }
    for (number, namespace) in mirror.oci_namespaces.iter().enumerate() {
        let at = path.field("ociNamespaces").index(number);
        if namespace.registry.is_empty() {
            errors.push(FieldError::required(at.field("registry"), "required"));
        } else if !is_registry(&namespace.registry) {
            errors.push(FieldError::with(at.field("registry"), FaultKind::Invalid, "not a host or host:port"));
        }
        // It becomes a part of a url and of a file on the machine.
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        if !namespace.namespace.chars().all(plain) || namespace.namespace.split('/').any(|part| part == "..") {
            errors.push(FieldError::with(at.field("namespace"), FaultKind::Invalid, "not a path of a registry"));
        }
        if mirror.oci_namespaces.iter().take(number).any(|other| other.registry == namespace.registry) {
            errors.push(FieldError::with(at.field("registry"), FaultKind::Duplicate, "duplicate registry"));
        }
    }
    if !mirror.ca_cert_content.is_empty() && !is_pem(&mirror.ca_cert_content) {
        let detail = "not a PEM certificate";
        errors.push(FieldError::with(path.field("caCertContent"), FaultKind::Invalid, detail));
    }
    if mirror.authenticate == Some(true) {
        errors.push(FieldError::forbidden(path.field("authenticate"), "not supported"));
    }
    errors
}

fn is_registry(text: &str) -> bool {
    text.parse::<HostPort>().is_ok() || text.parse::<DnsSubdomain>().is_ok()
}

/// One or more certificates, each between its two lines.
fn is_pem(text: &str) -> bool {
    use base64::Engine;
    let mut found = 0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some(body) = rest.strip_prefix("-----BEGIN CERTIFICATE-----") else { return false };
        let Some((body, after)) = body.split_once("-----END CERTIFICATE-----") else { return false };
        let dense: String = body.split_whitespace().collect();
        if dense.is_empty() || base64::engine::general_purpose::STANDARD.decode(&dense).is_err() {
            return false;
        }
        found += 1;
        rest = after.trim();
    }
    found > 0
}
