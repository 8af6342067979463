//! Reading a kubeconfig for the upstream side and writing one for the clients of the proxy.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, Kubeconfig};
use serde_json::json;

use super::{Error, Pem, Protocol, Upstream};

fn failed(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::Option { field: "kubeconfig", problem: format!("{}: {problem}", path.display()) }
}

/// The cluster, user and namespace of the current context.
struct Current {
    cluster: Cluster,
    user: AuthInfo,
    namespace: Option<String>,
}

fn current(path: &Path) -> Result<Current, Error> {
    let file = Kubeconfig::read_from(path).map_err(|e| failed(path, e))?;
    let name = file.current_context.ok_or_else(|| failed(path, "has no current-context"))?;
    let context = file
        .contexts
        .into_iter()
        .find(|context| context.name == name)
        .and_then(|context| context.context)
        .ok_or_else(|| failed(path, "the current-context is not in contexts"))?;
    let cluster = file
        .clusters
        .into_iter()
        .find(|cluster| cluster.name == context.cluster)
        .and_then(|cluster| cluster.cluster)
        .ok_or_else(|| failed(path, "the cluster of the current-context is not in clusters"))?;
    let user = file
        .auth_infos
        .into_iter()
        .find(|user| Some(&user.name) == context.user.as_ref())
        .and_then(|user| user.auth_info)
        .unwrap_or_default();
    Ok(Current { cluster, user, namespace: context.namespace })
}

fn pem(path: &Path, file: Option<String>, data: Option<&str>) -> Result<Option<Pem>, Error> {
    match (data, file) {
        (Some(data), _) => Ok(Some(Pem::Text(STANDARD.decode(data).map_err(|e| failed(path, e))?))),
        (None, Some(file)) => Ok(Some(Pem::File(file.into()))),
        (None, None) => Ok(None),
    }
}

/// The upstream that a kubeconfig's current context names, with its client certificate.
pub(super) fn upstream(path: &Path) -> Result<Upstream, Error> {
    let Current { cluster, user, .. } = current(path)?;
    if cluster.insecure_skip_tls_verify == Some(true) {
        return Err(failed(path, "insecure-skip-tls-verify is not supported: name the certificate authority"));
    }
    if user.exec.is_some() || user.auth_provider.is_some() {
        return Err(failed(path, "users that need a helper program are not supported: use a certificate or a token"));
    }
    // The key is wrapped against being printed by accident; its written form is the one way to it without naming the
    // wrapper's crate.
    let key_data = serde_json::to_value(&user)
        .ok()
        .and_then(|user| user.get("client-key-data").and_then(|data| data.as_str()).map(str::to_owned));
    let url = cluster.server.ok_or_else(|| failed(path, "the cluster has no server"))?;
    let ca = pem(path, cluster.certificate_authority, cluster.certificate_authority_data.as_deref())?;
    let cert = pem(path, user.client_certificate, user.client_certificate_data.as_deref())?;
    let key = pem(path, user.client_key, key_data.as_deref())?;
    let identity = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return Err(failed(path, "the user has a client certificate without its key, or a key alone")),
    };
    Ok(Upstream { url, ca, identity, protocol: Protocol::Auto, server_name: cluster.tls_server_name })
}

/// A kubeconfig (in JSON, which is YAML too) that goes to `url`.
pub(super) fn through(path: &Path, url: &str, trust: Option<&str>) -> Result<String, Error> {
    let Current { user, namespace, .. } = current(path)?;
    let mut cluster = json!({"server": url});
    if let (Some(trust), Some(cluster)) = (trust, cluster.as_object_mut()) {
        cluster.insert("certificate-authority-data".into(), STANDARD.encode(trust).into());
    }
    // The certificate stays with the proxy; a token is sent by the client and passes through.
    let user = AuthInfo { token: user.token, token_file: user.token_file, ..AuthInfo::default() };
    let mut context = json!({"cluster": "fault-proxy", "user": "fault-proxy"});
    if let (Some(namespace), Some(context)) = (namespace, context.as_object_mut()) {
        context.insert("namespace".into(), namespace.into());
    }
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fault-proxy",
        "clusters": [{"name": "fault-proxy", "cluster": cluster}],
        "contexts": [{"name": "fault-proxy", "context": context}],
        "users": [{"name": "fault-proxy", "user": user}],
    });
    serde_json::to_string_pretty(&file).map_err(|e| failed(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn file(user: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters:\n- name: c\n  cluster: {{server: \"https://127.0.0.1:6443\", \
             certificate-authority: ca.crt}}\ncontexts:\n- name: a\n  context: {{cluster: c, user: u, namespace: team}}\n\
             users:\n- name: u\n  user: {user}\n"
        );
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn bytes(pem: &Pem) -> Vec<u8> {
        match pem {
            Pem::Text(text) => text.clone(),
            Pem::File(path) => path.to_str().unwrap().as_bytes().to_vec(),
        }
    }

    #[test]
    fn certificates_come_from_files_beside_the_kubeconfig_or_from_inside_it() {
        let (dir, path) = file("{client-certificate: me.crt, client-key: me.key}");
        let found = upstream(&path).unwrap();
        assert_eq!(found.url, "https://127.0.0.1:6443");
        assert_eq!(bytes(&found.ca.unwrap()), dir.path().join("ca.crt").to_str().unwrap().as_bytes());
        assert_eq!(bytes(&found.identity.unwrap().1), dir.path().join("me.key").to_str().unwrap().as_bytes());

        let (_dir, path) = file("{client-certificate-data: Y2VydA==, client-key-data: a2V5}");
        let (cert, key) = upstream(&path).unwrap().identity.unwrap();
        assert_eq!((bytes(&cert), bytes(&key)), (b"cert".to_vec(), b"key".to_vec()));
    }

    #[test]
    fn what_cannot_be_carried_is_refused() {
        for user in [
            "{client-certificate: me.crt}",
            "{exec: {command: login}}",
            "{client-key-data: \"!\", client-certificate: a}",
        ] {
            assert!(upstream(&file(user).1).is_err(), "{user}");
        }
    }

    #[test]
    fn the_key_stays_behind_and_a_token_goes_on() {
        let (_dir, path) = file("{client-certificate-data: Y2VydA==, client-key-data: a2V5, token: secret}");
        let written: Value =
            serde_json::from_str(&through(&path, "https://127.0.0.1:1", Some("trust")).unwrap()).unwrap();
        assert_eq!(written["users"][0]["user"], json!({"token": "secret"}));
        assert_eq!(written["contexts"][0]["context"]["namespace"], "team");
        assert_eq!(
            written["clusters"][0]["cluster"],
            json!({"server": "https://127.0.0.1:1", "certificate-authority-data": STANDARD.encode("trust")})
        );
    }
}
