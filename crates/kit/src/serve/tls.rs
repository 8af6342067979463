//! TLS 1.2 and later with a key pair that may change at any time.

use std::sync::Arc;

use axum_server::tls_rustls::RustlsConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

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
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Serves whatever pair the slot holds; while it holds none, handshakes fail.
    #[must_use]
    pub fn new(slot: Slot) -> Self {
        Self { slot, client_ca: None }
    }

    /// Lets in only clients with a certificate of this CA (PEM).
    #[must_use]
    pub fn require_clients(mut self, ca_pem: impl Into<Vec<u8>>) -> Self {
        self.client_ca = Some(ca_pem.into());
        self
    }

    /// Whether clients can be checked against this CA (PEM), to be told before anything is served.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn check_clients(ca_pem: &[u8]) -> Result<(), TlsError> {
        authorities(ca_pem).map(drop)
    }

    pub(super) fn config(self) -> Result<RustlsConfig, TlsError> {
        // The provider is named here, so that no order of start-up can leave the process without one.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(TlsError::Setup)?;
        let builder = match self.client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(&pem)?), provider);
                builder.with_client_cert_verifier(verifier.build().map_err(TlsError::Verifier)?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(self.slot));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(RustlsConfig::from_config(Arc::new(config)))
    }
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(TlsError::ClientCaPem)?).map_err(TlsError::ClientCa)?;
    }
    if roots.is_empty() { Err(TlsError::NoClientCa) } else { Ok(roots) }
}
