//! Whether something answers at an endpoint already.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kit::http::Policy;
use tokio::net::{TcpStream, lookup_host};

/// What answers within this time is there.
const PATIENCE: Duration = Duration::from_millis(500);

/// What was found at one port of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probed {
    /// A connection was made.
    Connected,
    /// Somebody is there and does not listen.
    Refused,
    /// Nothing was heard.
    Silent,
    /// The name has no address.
    NoAddress,
}

/// Tries to connect.
pub trait Probe: Send + Sync + 'static {
    /// What is at a port of a host.
    fn probe<'p>(&'p self, host: &'p str, port: u16) -> BoxFuture<'p, Probed>;
}

/// Connects for real. Addresses of this machine, of its link and of metadata services are no endpoints of clusters and
/// are not called: who writes a Cluster chooses the address.
#[derive(Clone, Debug, Default)]
pub struct Connect {
    policy: Policy,
}

impl Connect {
    fn may(&self, address: IpAddr) -> bool {
        let host = match address {
            IpAddr::V4(address) => url::Host::Ipv4(address),
            IpAddr::V6(address) => url::Host::Ipv6(address),
        };
        self.policy.check_address(&host, address).is_ok()
    }
}

impl Probe for Connect {
    fn probe<'p>(&'p self, host: &'p str, port: u16) -> BoxFuture<'p, Probed> {
        async move {
            let found = tokio::time::timeout(Duration::from_secs(5), lookup_host((host, port))).await;
            let addresses: Vec<SocketAddr> = match found {
                Ok(Ok(addresses)) => addresses.collect(),
                _ => Vec::new(),
            };
            if addresses.is_empty() {
                return Probed::NoAddress;
            }
            let mut best = Probed::Silent;
            for address in addresses.into_iter().filter(|address| self.may(address.ip())).take(4) {
                match tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await {
                    Ok(Ok(_)) => return Probed::Connected,
                    Ok(Err(error))
                        if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) =>
                    {
                        best = Probed::Refused;
                    }
                    _ => {}
                }
            }
            best
        }
        .boxed()
    }
}

/// Whether an endpoint is in use, from what was found at its ports: with kube-vip whoever is there has the address, behind
/// a balancer only who takes connections does.
#[must_use]
pub fn in_use(kube_vip: bool, found: &[Probed]) -> bool {
    found.iter().any(|probed| match probed {
        Probed::Connected => true,
        Probed::Refused => kube_vip,
        Probed::Silent | Probed::NoAddress => false,
    })
}

/// The ports that are tried.
#[must_use]
pub fn ports(kube_vip: bool, port: u16) -> Vec<u16> {
    if kube_vip && port != 80 { vec![port, 80] } else { vec![port] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_kube_vip_whoever_is_there_has_the_address() {
        for (kube_vip, found, wanted) in [
            (true, vec![Probed::Silent, Probed::Silent], false),
            (true, vec![Probed::Silent, Probed::Refused], true),
            (true, vec![Probed::Connected], true),
            (false, vec![Probed::Refused], false),
            (false, vec![Probed::Connected], true),
            (true, vec![Probed::NoAddress], false),
        ] {
            assert_eq!(in_use(kube_vip, &found), wanted, "{kube_vip} {found:?}");
        }
        assert_eq!((ports(true, 6443), ports(false, 6443), ports(true, 80)), (vec![6443, 80], vec![6443], vec![80]));
    }

    #[tokio::test]
    async fn addresses_of_this_machine_are_not_called() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(Connect::default().probe("127.0.0.1", port).await, Probed::Silent);
        let open = Connect { policy: Policy::new().admit(["127.0.0.0/8".parse().unwrap()]) };
        assert_eq!(open.probe("127.0.0.1", port).await, Probed::Connected);
        drop(listener);
        assert_eq!(open.probe("127.0.0.1", port).await, Probed::Refused);
        assert_eq!(open.probe("no such name", 6443).await, Probed::NoAddress);
    }
}
