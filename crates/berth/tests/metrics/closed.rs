//! Metrics with an authority of clients: over TLS, and nothing for who shows no certificate of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use sim::plane;
use sim::wait::within;

use crate::page::alone;

/// Long enough for a loaded machine.
const SOON: Duration = Duration::from_secs(60);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// What a server with a certificate of this authority answers to who shows this one; nothing when it lets nobody in.
    fn asked(&self, port: u16, path: &str, shown: Option<&(String, String)>) -> Option<String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let name = ServerName::try_from("berth.test").unwrap();
        let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = TcpStream::connect(("127.0.0.1", port)).ok()?;
        socket.set_read_timeout(Some(SOON)).unwrap();
        let mut stream = rustls::Stream::new(&mut connection, &mut socket);
        write!(stream, "GET {path} HTTP/1.1\r\nhost: berth.test\r\nconnection: close\r\n\r\n").ok()?;
        let mut said = Vec::new();
        // However the connection ends, what came before counts.
        let _ = stream.read_to_end(&mut said);
        Some(String::from_utf8(said).unwrap()).filter(|said| !said.is_empty())
    }
}

#[tokio::test]
async fn with_an_authority_of_clients_only_they_read_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, clients) = (Authority::new(), Authority::new());
    let (certificate, key) = ours.issue("berth.test");
    for (name, text) in [("tls.crt", &certificate), ("tls.key", &key), ("ca.crt", &clients.0.pem())] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let authority = dir.path().join("ca.crt").to_string_lossy().into_owned();
    let pair = dir.path().to_string_lossy().into_owned();
    let args = ["--metrics-client-ca", &authority, "--webhook-cert-dir", &pair];
    let (mut berth, metrics, health) = alone(dir.path(), &args);
    plane::wait_http(&mut berth, health, "/healthz", SOON).await.unwrap();

    let scraper = clients.issue("scraper");
    let what = "a client of the authority reads metrics";
    let said = within(SOON, what, async || ours.asked(metrics, "/metrics", Some(&scraper))).await;
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("berth_build_info"), "{said}");
    let said = ours.asked(metrics, "/passes", Some(&scraper)).unwrap();
    assert!(said.starts_with("HTTP/1.1 200"), "it asks on loopback: {said}");
    assert_eq!(ours.asked(metrics, "/metrics", None), None, "without a certificate");
    assert_eq!(ours.asked(metrics, "/metrics", Some(&ours.issue("scraper"))), None, "of another authority");
    let plain = plane::http_get(metrics, "/metrics").await;
    assert!(!plain.is_ok_and(|(_, text)| text.contains("berth_")), "in plain HTTP");
}
