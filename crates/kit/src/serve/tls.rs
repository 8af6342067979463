//! TLS 1.2 and later with a key pair that may change at any time.

use std::sync::Arc;

use axum_server::tls_rustls::RustlsConfig;
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;

use super::clients::Clients;
use crate::certs::Slot;

/// Why the TLS settings are not usable.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The client CA is not PEM.
    #[error("the client CA is not a list of PEM certificates")]
    ClientCaPem(#[source] rustls::pki_types::pem::Error),
    /// The client CA holds nothing.
    #[error("the client CA holds no certificate")]
    NoClientCa,
    /// A certificate of the client CA is not usable.
    #[error("a certificate of the client CA is not usable")]
    ClientCa(#[source] rustls::Error),
    /// The verifier refuses the client CA.
    #[error("cannot check clients against the client CA")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
    /// The protocol versions are not available.
    #[error("cannot set up TLS")]
    Setup(#[source] rustls::Error),
}

/// The TLS side of a server: a slot whose key pair may change, and who may come in.
#[derive(Clone, Debug)]
pub struct Tls {
    slot: Slot,
    clients: Option<Clients>,
}

impl Tls {
    /// Serves whatever pair the slot holds; while it holds none, handshakes fail.
    #[must_use]
    pub fn new(slot: Slot) -> Self {
        Self { slot, clients: None }
    }

    /// Lets in only clients with a certificate of these authorities.
    #[must_use]
    pub fn require_clients(mut self, clients: Clients) -> Self {
        self.clients = Some(clients);
        self
    }

    pub(super) fn config(self) -> Result<RustlsConfig, TlsError> {
        // The provider is named here, so that no order of start-up can leave the process without one.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(TlsError::Setup)?;
        let closed = self.clients.is_some();
        let builder = match self.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(Arc::new(clients)),
        };
        let mut config = builder.with_cert_resolver(Arc::new(self.slot));
        if closed {
            // A session that is resumed is not checked again, so an authority that was taken away would stay in force.
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(RustlsConfig::from_config(Arc::new(config)))
    }
}
