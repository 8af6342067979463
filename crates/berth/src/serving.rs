//! The servers: health and metrics in plain HTTP, admission and the rooms' own listeners over TLS.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use axum::Router;
use axum::response::Response;
use kit::certs::{CertMetrics, ClientFile, Directory, SelfSigned, SelfSignedOptions, Slot};
use kit::manager::{Manager, Stage};
use kit::serve::{self, Clients, Failure, ServeMetrics, Server, Tls};

use crate::cli::RunOptions;
use crate::rooms::{self, Room};

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
    pub client_ca: Option<(PathBuf, Vec<u8>)>,
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
    let Listener { options, router, on_failure, gate, cert_dir, client_ca } = listener;
    let name = options.name.clone();
    let server = Server::bind(options).await?.metrics(metrics.clone()).on_failure(on_failure);
    let tls = Tls::new(certificates.slot(gate, &cert_dir));
    let tls = match client_ca {
        Some((path, pem)) => {
            let clients = Clients::from_pem(&pem)?;
            let file = ClientFile::new(path, clients.clone(), pem);
            certificates.manager.spawn(Stage::Watch, "authorities of clients", |stop| file.run(stop));
            tls.require_clients(clients)
        }
        None => tls,
    };
    certificates.manager.spawn(Stage::Serve, &format!("serve {name}"), |stop| async move {
        if let Err(error) = server.run(router, Some(tls), stop).await {
            tracing::error!(server = name, error = %kit::class::chain(&error), "serving ended");
        }
    });
    Ok(())
}
