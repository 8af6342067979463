//! Running the `etcd` and `kube-apiserver` binaries that a machine already has.

use super::{Options, PlaneError, Process, READY, free_port, install};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

/// Starts etcd, then the API server, and waits until it is ready. The last process is the one that serves.
pub(super) fn launch(
    bin: &Path,
    dir: &Path,
    options: &Options,
    (port, store): (Option<u16>, u16),
    remove: Option<&Path>,
) -> Result<Vec<Process>, PlaneError> {
    write_pki(dir)?;
    let port = port.map_or_else(free_port, Ok)?;
    write(&dir.join("kubeconfig"), &kubeconfig(dir, port))?;
    let (store, endpoint) = start_etcd(bin, dir, store)?;
    let mut server = start_apiserver(bin, dir, options, port, &endpoint, remove)?;
    wait_ready(&mut server, dir)?;
    write(&dir.join("ready"), &server.pid().to_string())?;
    Ok(vec![store, server])
}

fn start_etcd(bin: &Path, dir: &Path, port: u16) -> Result<(Process, String), PlaneError> {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{}", free_port()?);
    let mut command = Command::new(bin.join("etcd"));
    command
        .arg(format!("--data-dir={}", dir.join("etcd").display()))
        .args([format!("--listen-client-urls={client}"), format!("--advertise-client-urls={client}")])
        .args([format!("--listen-peer-urls={peer}"), format!("--initial-advertise-peer-urls={peer}")])
        .args([format!("--initial-cluster=default={peer}"), "--log-level=error".into(), "--unsafe-no-fsync".into()])
        .args(["--heartbeat-interval=20", "--election-timeout=200"]);
    Ok((Process::start("etcd", command, &dir.join("etcd.log"), None)?, client))
}

fn start_apiserver(
    bin: &Path,
    dir: &Path,
    options: &Options,
    port: u16,
    etcd: &str,
    remove: Option<&Path>,
) -> Result<Process, PlaneError> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", dir.join(name).display());
    let mut command = Command::new(bin.join("kube-apiserver"));
    command
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none"])
        .args(["--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC", "--allow-privileged=true"])
        .args([format!("--etcd-servers={etcd}"), format!("--secure-port={port}")])
        .args([file("tls-cert-file", "apiserver.crt"), file("tls-private-key-file", "apiserver.key")])
        .args([file("client-ca-file", "ca.crt"), file("cert-dir", "certs")])
        .args([file("service-account-key-file", "sa.pub"), file("service-account-signing-key-file", "sa.key")])
        .args(["--service-account-issuer=https://kubernetes.default.svc"])
        // Nothing here makes the service accounts that this plugin would demand for every pod.
        .args(["--disable-admission-plugins=ServiceAccount"]);
    if let Some(log) = &options.audit_log {
        write(&dir.join("audit-policy.yaml"), AUDIT_POLICY)?;
        command
            .arg(file("audit-policy-file", "audit-policy.yaml"))
            .arg(format!("--audit-log-path={}", dir.join(log).display()));
    }
    command.args(&options.apiserver_args);
    Process::start("kube-apiserver", command, &dir.join("plane.log"), remove)
}

/// Asks `/readyz` from a thread of its own, because this is called from inside and outside of a runtime alike.
fn wait_ready(server: &mut Process, dir: &Path) -> Result<(), PlaneError> {
    let begun = Instant::now();
    loop {
        if let Some(failure) = server.failure() {
            return Err(failure);
        }
        let kubeconfig = dir.join("kubeconfig");
        let asked = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
            runtime.block_on(async {
                let mut config = install::config(&kubeconfig).await.map_err(|e| e.to_string())?;
                config.default_retry = false;
                config.connect_timeout = Some(Duration::from_secs(2));
                config.read_timeout = Some(Duration::from_secs(5));
                let client = kube::Client::try_from(config).map_err(|e| e.to_string())?;
                let request = http::Request::get("/readyz").body(Vec::new()).map_err(|e| e.to_string())?;
                client.request_text(request).await.map_err(|e| e.to_string())
            })
        });
        let last = match asked.join() {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => "the question itself failed".into(),
        };
        if begun.elapsed() > READY {
            return Err(server.not_ready(READY, last));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Writes the same files as the plane does; a full set is kept, so that a restart locks nobody out.
fn write_pki(dir: &Path) -> Result<(), PlaneError> {
    if dir.join("sa.pub").exists() {
        return Ok(());
    }
    let failed = || PlaneError::bad::<rcgen::Error>("making certificates");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "plane-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().map_err(failed())?;
    let ca = params.self_signed(&key).map_err(failed())?;
    write(&dir.join("ca.crt"), &ca.pem())?;
    write(&dir.join("ca.key"), &key.serialize_pem())?;
    let issuer = Issuer::from_params(&params, &key);

    let server = ExtendedKeyUsagePurpose::ServerAuth;
    let names = ["127.0.0.1", "localhost", "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let leaves: [(&str, &[&str], Option<&str>, ExtendedKeyUsagePurpose); 3] = [
        ("apiserver", &names, None, server.clone()),
        ("webhook", &["127.0.0.1", "localhost"], None, server),
        ("admin", &[], Some("system:masters"), ExtendedKeyUsagePurpose::ClientAuth),
    ];
    for (name, names, group, usage) in leaves {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(failed())?;
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![usage];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(failed())?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed())?;
        write(&dir.join(format!("{name}.crt")), &certificate.pem())?;
        write(&dir.join(format!("{name}.key")), &key.serialize_pem())?;
    }
    let accounts = KeyPair::generate().map_err(failed())?;
    write(&dir.join("sa.key"), &accounts.serialize_pem())?;
    write(&dir.join("sa.pub"), &accounts.public_key_pem())
}

/// Every file here is for its owner alone, as keys must be.
fn write(path: &Path, text: &str) -> Result<(), PlaneError> {
    use std::os::unix::fs::PermissionsExt;
    let doing = format!("writing {}", path.display());
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o600)))
        .map_err(PlaneError::io(doing))
}

fn kubeconfig(dir: &Path, port: u16) -> String {
    let file = |name: &str| dir.join(name).display().to_string();
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "plane",
        "clusters": [{"name": "plane", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority": file("ca.crt")}}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "admin"}}],
        "users": [{"name": "admin", "user": {
            "client-certificate": file("admin.crt"), "client-key": file("admin.key")}}],
    })
    .to_string()
}
