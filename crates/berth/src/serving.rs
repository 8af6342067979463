//! The servers: health in plain HTTP, admission and the rooms' own listeners over TLS, metrics in either way.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use axum::Router;
use axum::response::Response;
use kit::certs::{CertMetrics, ClientFile, Directory, SelfSigned, SelfSignedOptions, Slot};
use kit::manager::{Manager, Stage};
use kit::serve::{self, Clients, Failure, ServeMetrics, Server, Tls};

use crate::Usage;
use crate::cli::RunOptions;
use crate::rooms::{self, Room};

/// A file with the authorities of those who may call, and what it held.
pub type ClientCa = (PathBuf, Vec<u8>);

/// Reads the file that a flag names, if it names one.
pub fn client_ca(flag: &str, path: &str) -> Result<Option<ClientCa>, Usage> {
    if path.is_empty() {
        return Ok(None);
    }
    let refused = |problem: String| Usage(format!("{flag}: {path}: {problem}"));
    let pem = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    let usable = Clients::from_pem(&pem);
    usable.map(|_| Some((path.into(), pem))).map_err(|error| refused(kit::class::chain(&error)))
}

/// What a room serves to others than the API server's admission.
pub struct Listener {
    /// Where and within which limits.
    pub options: serve::Options,
    /// What.
    pub router: Router,
    /// The answer where the server itself must give one.
    pub on_failure: Box<dyn Fn(&Failure) -> Response + Send + Sync>,
    /// The name of the gate that shows its certificate.
    pub gate: &'static str,
    /// Where its key pair comes from, unless Berth makes its own.
    pub cert_dir: PathBuf,
    /// The file with the authorities of those who may call, and what it held; all may when there is none.
    pub client_ca: Option<ClientCa>,
}

/// Serves plain HTTP, when it is not switched off.
pub async fn plain(
    manager: &Manager,
    metrics: &ServeMetrics,
    name: &'static str,
    address: Option<SocketAddr>,
    router: Router,
) -> anyhow::Result<()> {
    let Some(address) = address else { return Ok(()) };
    let server = Server::bind(serve::Options::new(name, address)).await?.metrics(metrics.clone());
    // Health and metrics go on to the very end: a probe must be able to see that we are draining.
    manager.spawn(Stage::Watch, &format!("serve {name}"), |stop| async move {
        if let Err(error) = server.run(router, None, stop).await {
            tracing::error!(server = name, error = %kit::class::chain(&error), "serving ended");
        }
    });
    Ok(())
}

/// Serves metrics: in plain HTTP to all, or over TLS to the clients of these authorities alone.
pub async fn scraped(
    certificates: &mut Certificates<'_>,
    metrics: &ServeMetrics,
    address: Option<SocketAddr>,
    client_ca: Option<ClientCa>,
    router: Router,
) -> anyhow::Result<()> {
    let (Some(address), Some(client_ca)) = (address, client_ca) else {
        return plain(certificates.manager, metrics, "metrics", address, router).await;
    };
    let listener = Listener {
        options: serve::Options::new("metrics", address),
        router,
        on_failure: Box::new(serve::plain_failure),
        gate: "metrics certificate",
        cert_dir: certificates.options.webhook_cert_dir.clone(),
        client_ca: Some(client_ca),
    };
    // To the very end, as in plain HTTP.
    over_tls(certificates, metrics, listener, Stage::Watch).await
}

/// Where the key pairs of the servers come from: all from one authority of our own, or each from its directory.
pub struct Certificates<'b> {
    manager: &'b Manager,
    metrics: CertMetrics,
    options: &'b RunOptions,
    namespace: &'b str,
    self_made: Option<Slot>,
}

impl<'b> Certificates<'b> {
    /// Nothing is read or made before the first server asks for it.
    pub fn new(manager: &'b Manager, options: &'b RunOptions, namespace: &'b str) -> Self {
        let metrics = CertMetrics::register(manager.metrics());
        Self { manager, metrics, options, namespace, self_made: None }
    }

    /// The slot that a server shows, filled sooner or later; the gate blocks until then.
    fn slot(&mut self, gate: &str, dir: &Path) -> Slot {
        if !self.options.webhook_self_signed {
            let slot = Slot::new();
            let (clock, metrics) = (self.manager.clock().clone(), self.metrics.clone());
            let source = Directory::new(dir, slot.clone(), self.manager.gates().gate(gate), clock, metrics);
            self.manager.spawn(Stage::Watch, &format!("{gate}s"), |stop| source.run(stop));
            return slot;
        }
        if let Some(slot) = &self.self_made {
            return slot.clone();
        }
        let slot = self.make(gate);
        self.self_made = Some(slot.clone());
        slot
    }

    /// One certificate for all names by which we are called, whoever calls: replicas with other rooms share it.
    fn make(&self, gate: &str) -> Slot {
        let options = self.options;
        let mut settings = SelfSignedOptions::for_service(&options.webhook_service, self.namespace);
        let hooks = SelfSignedOptions::for_service(&options.vip.runtime_extension_service, self.namespace);
        settings.names.extend(hooks.names);
        // Addresses have many spellings, and one that the certificate does not give back would be issued for ever.
        let spelled = |name: &String| name.parse::<IpAddr>().map_or_else(|_| name.clone(), |ip| ip.to_string());
        settings.names.extend(options.webhook_extra_name.iter().map(spelled));
        let slot = Slot::new();
        let (client, clock) = (self.manager.client().clone(), self.manager.clock().clone());
        let (gate, metrics) = (self.manager.gates().gate(gate), self.metrics.clone());
        let source = SelfSigned::new(client, clock, settings, slot.clone(), gate, metrics);
        self.manager.spawn(Stage::Watch, "self-made certificates", |stop| source.run(stop));
        slot
    }
}

/// Serves admission for all rooms.
pub async fn admission(
    certificates: &mut Certificates<'_>,
    metrics: &ServeMetrics,
    address: SocketAddr,
    running: &[&'static Room],
) -> anyhow::Result<()> {
    let admission = rooms::admission(certificates.manager, certificates.options, running)?;
    let listener = Listener {
        options: serve::Options::new("webhooks", address),
        router: admission.measured(certificates.manager.metrics()).router()?,
        on_failure: Box::new(kit::admission::failure_answer),
        gate: "webhook certificate",
        cert_dir: certificates.options.webhook_cert_dir.clone(),
        client_ca: None,
    };
    secured(certificates, metrics, listener).await
}

/// Serves over TLS, on every replica.
pub async fn secured(
    certificates: &mut Certificates<'_>,
    metrics: &ServeMetrics,
    listener: Listener,
) -> anyhow::Result<()> {
    over_tls(certificates, metrics, listener, Stage::Serve).await
}

async fn over_tls(
    certificates: &mut Certificates<'_>,
    metrics: &ServeMetrics,
    listener: Listener,
    stage: Stage,
) -> anyhow::Result<()> {
    let Listener { options, router, on_failure, gate, cert_dir, client_ca } = listener;
    let name = options.name.clone();
    let server = Server::bind(options).await?.metrics(metrics.clone()).on_failure(on_failure);
    let tls = Tls::new(certificates.slot(gate, &cert_dir));
    let tls = match client_ca {
        Some((path, pem)) => {
            let clients = Clients::from_pem(&pem)?;
            let file = ClientFile::new(path, clients.clone(), pem);
            let task = format!("authorities of the clients of {name}");
            certificates.manager.spawn(Stage::Watch, &task, |stop| file.run(stop));
            tls.require_clients(clients)
        }
        None => tls,
    };
    certificates.manager.spawn(stage, &format!("serve {name}"), |stop| async move {
        if let Err(error) = server.run(router, Some(tls), stop).await {
            tracing::error!(server = name, error = %kit::class::chain(&error), "serving ended");
        }
    });
    Ok(())
}
