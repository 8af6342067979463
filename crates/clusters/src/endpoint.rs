//! The endpoint of a control plane as users write it: a host, or a host and a port.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use api::names::DnsSubdomain;

/// The port of a control plane that names none.
pub const DEFAULT_PORT: u16 = 6443;

/// Where the API server of a cluster is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// The name or address, without brackets.
    pub host: String,
    /// The port, if one is written.
    pub port: Option<u16>,
}

/// Why a text is not an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnEndpoint {
    /// There is nothing.
    #[error("required")]
    Empty,
    /// It is neither a host nor a host and a port.
    #[error("not a host or host:port")]
    Form,
    /// The port is a number, but none of a port.
    #[error("port out of range")]
    Port,
}

impl HostPort {
    /// The port that is meant.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(DEFAULT_PORT)
    }

    /// The address, if the host is one.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Whether both mean the same place; a missing port is that of control planes.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.host == other.host && self.port() == other.port()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", join(&self.host, &self.port().to_string()))
    }
}

/// Host and port with the brackets that an address of IPv6 needs.
#[must_use]
pub fn join(host: &str, port: &str) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl FromStr for HostPort {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, NotAnEndpoint> {
        if text.is_empty() {
            return Err(NotAnEndpoint::Empty);
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or(NotAnEndpoint::Form)?;
            host.parse::<Ipv6Addr>().map_err(|_| NotAnEndpoint::Form)?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(NotAnEndpoint::Form)?) };
            (host, port)
        } else if text.parse::<Ipv6Addr>().is_ok() {
            (text, None)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        let named = host.to_ascii_lowercase().parse::<DnsSubdomain>().is_ok();
        // Four numbers and dots are a name by its letters, but nobody means one.
        let digits = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if host.parse::<IpAddr>().is_err() && (!named || digits) {
            return Err(NotAnEndpoint::Form);
        }
        Ok(Self { host: host.to_owned(), port: port.map(read_port).transpose()? })
    }
}

/// A port between 1 and 65535.
fn read_port(text: &str) -> Result<u16, NotAnEndpoint> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NotAnEndpoint::Form);
    }
    text.parse().ok().filter(|port| *port != 0).ok_or(NotAnEndpoint::Port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_endpoint_is_read_and_others_are_refused() {
        let read = |host: &str, port| Ok(HostPort { host: host.into(), port });
        for (text, wanted) in [
            ("10.0.0.5", read("10.0.0.5", None)),
            ("10.0.0.5:7443", read("10.0.0.5", Some(7443))),
            ("api.example", read("api.example", None)),
            ("api.example:443", read("api.example", Some(443))),
            ("fd00::5", read("fd00::5", None)),
            ("[fd00::5]", read("fd00::5", None)),
            ("[fd00::5]:6443", read("fd00::5", Some(6443))),
            ("", Err(NotAnEndpoint::Empty)),
            ("10.0.0.5:0", Err(NotAnEndpoint::Port)),
            ("10.0.0.5:65536", Err(NotAnEndpoint::Port)),
            ("10.0.0.5:http", Err(NotAnEndpoint::Form)),
            ("10.0.0.5:", Err(NotAnEndpoint::Form)),
            ("10.0.0", Err(NotAnEndpoint::Form)),
            ("fd00::zz:6443", Err(NotAnEndpoint::Form)),
            ("[fd00::5]6443", Err(NotAnEndpoint::Form)),
            ("[fd00::5", Err(NotAnEndpoint::Form)),
            ("[10.0.0.5]:6443", Err(NotAnEndpoint::Form)),
            ("https://api.example", Err(NotAnEndpoint::Form)),
            ("api example", Err(NotAnEndpoint::Form)),
            (":6443", Err(NotAnEndpoint::Form)),
        ] {
            assert_eq!(text.parse::<HostPort>(), wanted, "{text}");
        }
    }

    #[test]
    fn a_missing_port_is_the_usual_one() {
        let of = |text: &str| text.parse::<HostPort>().unwrap();
        assert!(of("10.0.0.5").same(&of("10.0.0.5:6443")));
        assert!(!of("10.0.0.5").same(&of("10.0.0.5:443")));
        assert!(!of("10.0.0.5").same(&of("10.0.0.6")));
        assert_eq!(of("[fd00::5]").to_string(), "[fd00::5]:6443");
    }
}
