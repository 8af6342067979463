//! Which addresses may be called: the check of everything a user can write into a URL.
//!
//! A URL is checked three times: as text ([`Target::parse`]), after its name was resolved, and again on the socket
//! that was connected. The first gives an error while the object is being written; the others make sure that a name
//! which changes its mind in between gains nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use url::{Host, Url};

/// Longer URLs are refused unread.
const LENGTH: usize = 2048;

/// Why an address may not be called. No variant quotes the URL: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Too long.
    #[error("the URL is longer than {LENGTH} characters")]
    TooLong,
    /// Characters that parsers disagree about.
    #[error("the URL holds a space, a control character or a backslash")]
    Characters,
    /// Not a URL.
    #[error("not a URL: {0}")]
    Parse(url::ParseError),
    /// A scheme that is not allowed.
    #[error("the scheme {scheme:?} is not allowed (allowed: {allowed})")]
    Scheme {
        /// The scheme.
        scheme: String,
        /// Those allowed.
        allowed: String,
    },
    /// A user name or password.
    #[error("a user name or password in the URL is not allowed")]
    UserInfo,
    /// A fragment.
    #[error("a fragment (\"#…\") in the URL is not allowed")]
    Fragment,
    /// No host.
    #[error("the URL has no host")]
    NoHost,
    /// Port zero, or none for a scheme without a usual one.
    #[error("the URL needs a port from 1 to 65535")]
    Port,
    /// An address that is never called.
    #[error("{address} is {class}, which is not allowed")]
    Address {
        /// The address, or the name that stands for one.
        address: String,
        /// What it is.
        class: &'static str,
    },
    /// Not on the operator's list.
    #[error("{host} is not on the list of allowed hosts and networks")]
    NotListed {
        /// The host or address.
        host: String,
    },
    /// A name without addresses.
    #[error("{host} has no address")]
    NoAddress {
        /// The name.
        host: String,
    },
}

/// An entry of the operator's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Exactly this name.
    Name(String),
    /// Every name below this one (`*.example.com`).
    Below(String),
    /// Every address of this network.
    Network(IpNet),
}

impl std::str::FromStr for Listed {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self::Network(network));
        }
        let (below, name) = text.strip_prefix("*.").map_or((false, text), |name| (true, name));
        match Host::parse(name).map_err(TargetError::Parse)? {
            Host::Domain(name) if below => Ok(Self::Below(plain(&name))),
            Host::Domain(name) => Ok(Self::Name(plain(&name))),
            Host::Ipv4(ip) if !below => Ok(Self::Network(IpAddr::V4(ip).into())),
            Host::Ipv6(ip) if !below => Ok(Self::Network(IpAddr::V6(ip).into())),
            _ => Err(TargetError::Parse(url::ParseError::InvalidDomainCharacter)),
        }
    }
}

/// What may be called.
#[derive(Clone, Debug)]
pub struct Policy {
    schemes: Vec<String>,
    listed: Vec<Listed>,
    admitted: Vec<IpNet>,
}

impl Default for Policy {
    fn default() -> Self {
        Self { schemes: vec!["https".to_owned()], listed: Vec::new(), admitted: Vec::new() }
    }
}

impl Policy {
    /// HTTPS to any unicast address that is not this machine, its link, or a cloud's metadata service.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// These schemes instead of only `https`.
    #[must_use]
    pub fn schemes(mut self, schemes: &[&str]) -> Self {
        self.schemes = schemes.iter().map(|scheme| (*scheme).to_owned()).collect();
        self
    }

    /// Only these hosts and networks. An empty list allows all.
    #[must_use]
    pub fn only(mut self, listed: impl IntoIterator<Item = Listed>) -> Self {
        self.listed = listed.into_iter().collect();
        self
    }

    /// Also these networks, although they are of a kind that is never called otherwise: for tests and simulators.
    #[must_use]
    pub fn admit(mut self, networks: impl IntoIterator<Item = IpNet>) -> Self {
        self.admitted.extend(networks);
        self
    }

    /// Checks one address of a host.
    ///
    /// # Errors
    /// Says what the address is, or that it is not listed.
    pub fn check_address(&self, host: &Host<String>, address: IpAddr) -> Result<(), TargetError> {
        let inner = address.to_canonical();
        let admitted = |ip: IpAddr| self.admitted.iter().any(|network| network.contains(&ip));
        if !admitted(address)
            && !admitted(inner)
            && let Some(class) = forbidden(address)
        {
            return Err(TargetError::Address { address: address.to_string(), class });
        }
        if self.listed.is_empty() || self.names(host) {
            return Ok(());
        }
        let in_network = |entry: &Listed| match entry {
            Listed::Network(network) => network.contains(&address) || network.contains(&inner),
            Listed::Name(_) | Listed::Below(_) => false,
        };
        if self.listed.iter().any(in_network) {
            return Ok(());
        }
        Err(TargetError::NotListed { host: format!("{host} ({address})") })
    }

    /// Checks all addresses of a host: one that is not allowed spoils all, because the next connection may get it.
    ///
    /// # Errors
    /// Names the first address that is not allowed.
    pub fn check_all(&self, host: &Host<String>, addresses: &[IpAddr]) -> Result<(), TargetError> {
        if addresses.is_empty() {
            return Err(TargetError::NoAddress { host: host.to_string() });
        }
        addresses.iter().try_for_each(|address| self.check_address(host, *address))
    }

    fn names(&self, host: &Host<String>) -> bool {
        let Host::Domain(name) = host else { return false };
        let name = plain(name);
        self.listed.iter().any(|entry| match entry {
            Listed::Name(listed) => *listed == name,
            Listed::Below(parent) => {
                name.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            Listed::Network(_) => false,
        })
    }

    fn admits_loopback(&self) -> bool {
        self.admitted.iter().any(|network| network.addr().is_loopback())
    }
}

/// A name in small letters without the dot that says "complete".
pub(super) fn plain(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// A URL that passed the first check.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host<String>,
    port: u16,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Paths and queries may carry keys.
        write!(f, "Target({}://{}:{}/…)", self.url.scheme(), self.host, self.port)
    }
}

impl Target {
    /// Reads a URL and checks all that can be checked without asking the network.
    ///
    /// # Errors
    /// Says which part of the URL is not allowed, without quoting it.
    pub fn parse(text: &str, policy: &Policy) -> Result<Self, TargetError> {
        if text.len() > LENGTH {
            return Err(TargetError::TooLong);
        }
        // Parsers drop tabs and line ends and read "\" as "/": what they would repair is refused instead.
        if text.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err(TargetError::Characters);
        }
        let url = Url::parse(text).map_err(TargetError::Parse)?;
        if !policy.schemes.iter().any(|scheme| scheme == url.scheme()) {
            let (scheme, allowed) = (url.scheme().chars().take(32).collect(), policy.schemes.join(", "));
            return Err(TargetError::Scheme { scheme, allowed });
        }
        if !url.username().is_empty() || url.password().is_some() || authority(text).contains('@') {
            return Err(TargetError::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(TargetError::Fragment);
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(TargetError::NoHost)?;
        // For schemes outside the web the first parse takes "2130706433" for a name; this one never does.
        let host = Host::parse(host).map_err(TargetError::Parse)?;
        let port = url.port_or_known_default().filter(|port| *port != 0).ok_or(TargetError::Port)?;
        match &host {
            Host::Ipv4(ip) => policy.check_address(&host, IpAddr::V4(*ip))?,
            Host::Ipv6(ip) => policy.check_address(&host, IpAddr::V6(*ip))?,
            Host::Domain(name) => {
                let name = plain(name);
                if name.is_empty() {
                    return Err(TargetError::NoHost);
                }
                if (name == "localhost" || name.ends_with(".localhost")) && !policy.admits_loopback() {
                    return Err(TargetError::Address { address: name, class: LOOPBACK });
                }
                let networks = policy.listed.iter().any(|entry| matches!(entry, Listed::Network(_)));
                // With networks on the list, only the addresses of the name can tell.
                if !policy.listed.is_empty() && !networks && !policy.names(&host) {
                    return Err(TargetError::NotListed { host: name });
                }
            }
        }
        Ok(Self { url, host, port })
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The host.
    #[must_use]
    pub fn host(&self) -> &Host<String> {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn authority(text: &str) -> &str {
    let rest = text.split_once("//").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

const LOOPBACK: &str = "a loopback address";
const METADATA: &str = "a cloud metadata address";

/// What an address is, if it is of a kind that is never called.
#[must_use]
pub fn forbidden(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(ip) => forbidden_v4(ip),
        IpAddr::V6(ip) => forbidden_v6(ip).or_else(|| embedded(ip).into_iter().flatten().find_map(forbidden_v4)),
    }
}

fn forbidden_v4(ip: Ipv4Addr) -> Option<&'static str> {
    let octets = ip.octets();
    match octets {
        // Azure's, Alibaba's and Oracle's services outside the link-local range.
        [168, 63, 129, 16] | [100, 100, 100, 200] | [192, 0, 0, 192] | [169, 254, 169, 254] => Some(METADATA),
        [0, ..] => Some("an unspecified address"),
        [127, ..] => Some(LOOPBACK),
        [169, 254, ..] => Some("a link-local address"),
        [224..=239, ..] => Some("a multicast address"),
        [255, 255, 255, 255] => Some("a broadcast address"),
        [240..=255, ..] => Some("a reserved address"),
        _ => None,
    }
}

fn forbidden_v6(ip: Ipv6Addr) -> Option<&'static str> {
    match ip.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("an unspecified address"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(LOOPBACK),
        // The services of EC2 and of Google's cloud.
        [0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x0254] | [0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254] => Some(METADATA),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xfec0..=0xfeff, ..] => Some("a site-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        [0x0100, 0, 0, 0, ..] => Some("a discard address"),
        _ => None,
    }
}

/// The IPv4 addresses that a gateway or the kernel may read out of an IPv6 address.
fn embedded(ip: Ipv6Addr) -> [Option<Ipv4Addr>; 3] {
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let v4 = |high: u16, low: u16| {
        let ([w, x], [y, z]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(w, x, y, z))
    };
    match (a, b) {
        // Mapped, translated and (deprecated) compatible addresses.
        (0, 0) if [c, d] == [0, 0] && ([e, f] == [0, 0xffff] || [e, f] == [0xffff, 0] || [e, f] == [0, 0]) => {
            [v4(g, h), None, None]
        }
        // NAT64: the well-known prefix, and the local one in its usual and its shortest form (RFC 6052, RFC 8215).
        (0x0064, 0xff9b) if [c, d, e, f] == [0, 0, 0, 0] => [v4(g, h), None, None],
        (0x0064, 0xff9b) if c == 1 => {
            let ([_, x], [y, _]) = (e.to_be_bytes(), f.to_be_bytes());
            let [v, w] = d.to_be_bytes();
            [v4(g, h), Some(Ipv4Addr::new(v, w, x, y)), None]
        }
        // 6to4.
        (0x2002, _) => [v4(b, c), None, None],
        // Teredo: the server, and the client with its bits turned.
        (0x2001, 0) => [v4(c, d), v4(!g, !h), None],
        // ISATAP interface identifiers, under any prefix.
        _ if f == 0x5efe && (e == 0 || e == 0x0200) => [v4(g, h), None, None],
        _ => [None, None, None],
    }
}

#[cfg(test)]
#[path = "target_tests.rs"]
mod tests;
