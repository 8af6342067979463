//! Certificates for both sides, and the connection to the upstream.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tower::Service;

use super::body::Body;
use super::{Error, Inbound, Pem, Protocol, Upstream};

/// The client half: it dials one address only, whatever the request's authority says, so that the Host header a client
/// signed arrives unchanged.
pub(super) type Outbound = Client<HttpsConnector<Fixed>, Body>;

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn invalid(field: &'static str, problem: impl ToString) -> Error {
    Error::Option { field, problem: problem.to_string() }
}

impl Pem {
    pub(super) fn read(&self, field: &'static str) -> Result<Vec<u8>, Error> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => std::fs::read(path).map_err(|e| invalid(field, format!("{}: {e}", path.display()))),
        }
    }
}

fn certificates(pem: &[u8], field: &'static str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let list: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|e| invalid(field, e))?;
    if list.is_empty() { Err(invalid(field, "holds no certificate")) } else { Ok(list) }
}

fn key(pem: &[u8], field: &'static str) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|e| invalid(field, format!("no private key: {e}")))
}

/// What the listening side needs: its settings, and the certificates a client should trust.
pub(super) struct Serving {
    pub(super) config: Arc<ServerConfig>,
    pub(super) trust: String,
}

/// Reads or makes the serving certificate; nothing for plain connections.
pub(super) fn serving(inbound: &Inbound) -> Result<Option<Serving>, Error> {
    let (chain, private, trust) = match inbound {
        Inbound::Plain => return Ok(None),
        Inbound::Files { cert, key, ca } => {
            let chain = Pem::File(cert.clone()).read("tls-cert")?;
            let trust = match ca {
                Some(ca) => Pem::File(ca.clone()).read("tls-ca")?,
                None => chain.clone(),
            };
            (chain, Pem::File(key.clone()).read("tls-key")?, trust)
        }
        Inbound::Generated { dir } => generate(dir)?,
    };
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| invalid("tls", e))?
        .with_no_client_auth()
        .with_single_cert(certificates(&chain, "tls-cert")?, key(&private, "tls-key")?)
        .map_err(|e| invalid("tls-cert", e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let trust = String::from_utf8(trust).map_err(|e| invalid("tls-ca", e))?;
    Ok(Some(Serving { config: Arc::new(config), trust }))
}

/// Certificate chain, private key, and what clients should trust, all in PEM form.
type Made = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Makes a certificate authority and a certificate for this machine's loopback names, and writes `ca.crt`, `tls.crt`
/// and `tls.key`; the authority's own key is forgotten.
fn generate(dir: &Path) -> Result<Made, Error> {
    let failed = |e: rcgen::Error| invalid("tls-dir", e);
    let ca_key = rcgen::KeyPair::generate().map_err(failed)?;
    let mut ca = rcgen::CertificateParams::new(Vec::new()).map_err(failed)?;
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
    ca.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::DigitalSignature];
    ca.distinguished_name.push(rcgen::DnType::CommonName, "berth fault proxy");
    let ca_cert = ca.self_signed(&ca_key).map_err(failed)?;
    let issuer = rcgen::Issuer::new(ca, ca_key);

    let leaf_key = rcgen::KeyPair::generate().map_err(failed)?;
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut leaf = rcgen::CertificateParams::new(names).map_err(failed)?;
    leaf.distinguished_name.push(rcgen::DnType::CommonName, "berth fault proxy listener");
    leaf.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    let leaf_cert = leaf.signed_by(&leaf_key, &issuer).map_err(failed)?;

    let (chain, private, trust) = (leaf_cert.pem(), leaf_key.serialize_pem(), ca_cert.pem());
    let write = |name: &str, text: &str, mode: u32| -> std::io::Result<()> {
        use std::io::Write as _;
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        let mut file =
            std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(mode).open(dir.join(name))?;
        // The mode above counts only for a new file.
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| write("ca.crt", &trust, 0o644))
        .and_then(|()| write("tls.crt", &chain, 0o644))
        .and_then(|()| write("tls.key", &private, 0o600))
        .map_err(|e| invalid("tls-dir", format!("{}: {e}", dir.display())))?;
    Ok((chain.into_bytes(), private.into_bytes(), trust.into_bytes()))
}

/// Checks the upstream's address and gives it as a URI with a scheme and an authority.
pub(super) fn target(upstream: &Upstream) -> Result<Uri, Error> {
    let uri: Uri = upstream.url.parse().map_err(|e| invalid("to", e))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(invalid("to", "must start with http:// or https://"));
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(invalid("to", "names no host"));
    }
    if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
        return Err(invalid("to", "must not have a path: requests keep their own"));
    }
    Ok(uri)
}

/// Builds the client half.
pub(super) fn outbound(upstream: &Upstream, target: &Uri) -> Result<Outbound, Error> {
    let https = target.scheme_str() == Some("https");
    if !https && (upstream.ca.is_some() || upstream.identity.is_some()) {
        return Err(invalid("to", "a certificate needs an https:// upstream"));
    }
    let mut roots = RootCertStore::empty();
    match &upstream.ca {
        Some(ca) => {
            for certificate in certificates(&ca.read("ca")?, "ca")? {
                roots.add(certificate).map_err(|e| invalid("ca", e))?;
            }
        }
        None if https => return Err(invalid("ca", "an https:// upstream needs the certificate to trust")),
        None => {}
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|e| invalid("ca", e))?
        .with_root_certificates(roots);
    let config = match &upstream.identity {
        None => builder.with_no_client_auth(),
        Some((cert, private)) => builder
            .with_client_auth_cert(
                certificates(&cert.read("client-cert")?, "client-cert")?,
                key(&private.read("client-key")?, "client-key")?,
            )
            .map_err(|e| invalid("client-cert", e))?,
    };
    let host = match &upstream.server_name {
        Some(name) => name.as_str(),
        None => target.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']'),
    };
    let name = ServerName::try_from(host.to_owned()).map_err(|e| invalid("to", e))?;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(Some(Duration::from_secs(10)));
    let fixed = Fixed { http, target: target.clone() };
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .with_server_name_resolver(FixedServerNameResolver::new(name));
    let connector = match upstream.protocol {
        Protocol::Auto => builder.enable_all_versions().wrap_connector(fixed),
        Protocol::Http1 => builder.enable_http1().wrap_connector(fixed),
        Protocol::Http2 => builder.enable_http2().wrap_connector(fixed),
    };
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .http2_only(upstream.protocol == Protocol::Http2)
        .build(connector))
}

/// Dials the upstream whatever it is asked for.
#[derive(Clone)]
pub(super) struct Fixed {
    http: HttpConnector,
    target: Uri,
}

impl Service<Uri> for Fixed {
    type Response = <HttpConnector as Service<Uri>>::Response;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = <HttpConnector as Service<Uri>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Uri>::poll_ready(&mut self.http, cx)
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Service::<Uri>::call(&mut self.http, self.target.clone())
    }
}
