//! Connecting, with the address check between resolution and connection and again after it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;
use url::Host;

use super::proxy::{Proxies, Proxy};
use super::target::{Policy, TargetError};

/// Finds the addresses of a name; the machine's resolver unless a test has its own.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of the name.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The machine's resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) }.boxed()
    }
}

/// Why no connection was made; nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The address may not be called.
    #[error(transparent)]
    Refused(#[from] TargetError),
    /// The name cannot be resolved.
    #[error("cannot resolve {host}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver says.
        #[source]
        source: io::Error,
    },
    /// The proxy that the host is called through does not help.
    #[error("cannot reach {host} port {port} through the proxy {proxy}")]
    Proxy {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The host of the proxy.
        proxy: String,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// No address answers.
    #[error("cannot connect to {host} port {port}")]
    Connect {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// What the last address said.
        #[source]
        source: io::Error,
    },
}

/// A connector that calls only what the policy allows.
#[derive(Clone)]
pub(super) struct Checked {
    pub(super) policy: Arc<Policy>,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) timeout: Duration,
    pub(super) proxies: Arc<Proxies>,
}

impl Service<Uri> for Checked {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let this = self.clone();
        async move { this.connect(&uri).await.map(TokioIo::new) }.boxed()
    }
}

impl Checked {
    async fn connect(&self, uri: &Uri) -> Result<TcpStream, ConnectError> {
        let name = uri.host().ok_or(TargetError::NoHost)?;
        let host = Host::parse(name).map_err(TargetError::Parse)?;
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let addresses = self.addresses(&host).await?;
        self.policy.check_all(&host, &addresses)?;
        if let Some(proxy) = self.proxies.through(uri.scheme_str() == Some("https"), (&host, port), &addresses) {
            return self.through(proxy, &host, port, &addresses).await;
        }
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            // Exactly the address that was checked: asking the resolver again could give another answer.
            match tokio::time::timeout(self.timeout, TcpStream::connect(SocketAddr::new(address, port))).await {
                Ok(Ok(stream)) => {
                    let peer = stream.peer_addr().map_err(|source| self.failed(&host, port, source))?;
                    self.policy.check_address(&host, peer.ip())?;
                    // Only latency is at stake if this fails.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(self.failed(&host, port, last))
    }

    async fn addresses(&self, host: &Host<String>) -> Result<Vec<IpAddr>, ConnectError> {
        Ok(match host {
            Host::Ipv4(ip) => vec![IpAddr::V4(*ip)],
            Host::Ipv6(ip) => vec![IpAddr::V6(*ip)],
            Host::Domain(name) => {
                let failed = |source| ConnectError::Resolve { host: name.clone(), source };
                let resolved = tokio::time::timeout(self.timeout, self.resolver.resolve(name)).await;
                resolved.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?.map_err(failed)?
            }
        })
    }

    /// A connection through a proxy, to exactly the addresses that were checked. Where the proxy is, the operator says.
    async fn through(
        &self,
        proxy: &Proxy,
        host: &Host<String>,
        port: u16,
        checked: &[IpAddr],
    ) -> Result<TcpStream, ConnectError> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for at in self.addresses(&proxy.host).await? {
            for address in checked {
                let tunnel = async {
                    let mut stream = TcpStream::connect(SocketAddr::new(at, proxy.port)).await?;
                    proxy.tunnel(&mut stream, SocketAddr::new(*address, port)).await?;
                    Ok(stream)
                };
                match tokio::time::timeout(self.timeout, tunnel).await {
                    Ok(Ok(stream)) => {
                        let _ = stream.set_nodelay(true);
                        return Ok(stream);
                    }
                    Ok(Err(error)) => last = error,
                    Err(_) => last = io::ErrorKind::TimedOut.into(),
                }
            }
        }
        let (host, proxy) = (host.to_string(), proxy.host.to_string());
        Err(ConnectError::Proxy { host, port, proxy, source: last })
    }

    fn failed(&self, host: &Host<String>, port: u16, source: io::Error) -> ConnectError {
        ConnectError::Connect { host: host.to_string(), port, source }
    }
}
