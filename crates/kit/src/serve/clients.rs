//! Who may come in: the authorities of clients, which may change at any time.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use super::TlsError;

/// Authorities of clients; clones share them. New handshakes use what was stored last, open connections go on.
#[derive(Clone)]
pub struct Clients(Arc<RwLock<Arc<dyn ClientCertVerifier>>>);

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clients")
    }
}

impl Clients {
    /// The authorities in a list of PEM certificates.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        verifier(pem).map(|verifier| Self(Arc::new(RwLock::new(verifier))))
    }

    /// Puts others in their place.
    ///
    /// # Errors
    /// Says what is wrong with them; then the old ones stay.
    pub fn store(&self, pem: &[u8]) -> Result<(), TlsError> {
        let new = verifier(pem)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    fn current(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(TlsError::ClientCaPem)?).map_err(TlsError::ClientCa)?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoClientCa);
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().map_err(TlsError::Verifier)
}

impl ClientCertVerifier for Clients {
    /// No names are named: they may change, and a client with one certificate sends that one.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.current().verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current().supported_verify_schemes()
    }
}
