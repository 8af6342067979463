//! Ways through proxies, as the variables `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` describe them.
//!
//! A proxy that is given a name resolves it anew, and calls another address than the one that was checked. So it is never given
//! one: it is asked for a tunnel to the address that was, whichever scheme is spoken inside of it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::{Host, Url};

use super::target::plain;

/// Longer answers to the question for a tunnel are none.
const HEAD: usize = 8 << 10;

/// What is at the end of an answer's head.
const END: &[u8] = b"\r\n\r\n";

/// A variable that cannot be used. What it holds is not told: there may be a password in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct ProxyError {
    variable: &'static str,
    problem: &'static str,
}

/// One proxy.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    /// What it is told of who asks.
    credentials: Option<String>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl Proxy {
    fn read(variable: &'static str, text: &str) -> Result<Self, ProxyError> {
        let wrong = |problem: &'static str| ProxyError { variable, problem };
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&whole).map_err(|_| wrong("not a URL such as http://proxy.example:3128"))?;
        if url.scheme() != "http" {
            return Err(wrong("only proxies that are spoken to by http can be used"));
        }
        let host = url.host().ok_or_else(|| wrong("it names no host"))?.to_owned();
        let part = |text: &str| percent(text).ok_or_else(|| wrong("its user name or password cannot be read"));
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (name, password) => {
                let pair = format!("{}:{}", part(name)?, part(password.unwrap_or_default())?);
                Some(format!("Basic {}", STANDARD.encode(pair)))
            }
        };
        Ok(Self { host, port: url.port().unwrap_or(80), credentials })
    }

    /// Asks for a tunnel to an address. What is sent from then on goes there.
    pub(super) async fn tunnel(&self, stream: &mut TcpStream, to: SocketAddr) -> io::Result<()> {
        let mut ask = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some(credentials) = &self.credentials {
            ask += &format!("Proxy-Authorization: {credentials}\r\n");
        }
        ask += "\r\n";
        stream.write_all(ask.as_bytes()).await?;
        let mut said = Vec::new();
        let mut part = [0; 512];
        let (head, rest) = loop {
            if let Some(at) = said.windows(END.len()).position(|bytes| bytes == END) {
                break said.split_at(at + END.len());
            }
            let read = stream.read(&mut part).await?;
            said.extend_from_slice(part.get(..read).unwrap_or_default());
            if read == 0 || said.len() > HEAD {
                return Err(io::Error::other("the proxy gave no answer"));
            }
        };
        let text = String::from_utf8_lossy(head);
        let status = text.split_whitespace().nth(1).and_then(|word| word.parse::<u16>().ok());
        match status.filter(|_| text.starts_with("HTTP/1.")) {
            // Whoever is at the other end does not speak first, so this is not theirs. Why there is no tunnel may be told at length.
            Some(200..=299) if !rest.is_empty() => {
                Err(io::Error::other("the proxy said more than that there is a tunnel"))
            }
            Some(200..=299) => Ok(()),
            Some(status) => Err(io::Error::other(format!("the proxy refused a tunnel: {status}"))),
            None => Err(io::Error::other("the proxy gave no answer")),
        }
    }
}

/// The text that stands behind `%` and two digits.
fn percent(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes().iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// An entry of `NO_PROXY`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Direct {
    place: Place,
    /// Any without it.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Everything,
    /// This name and those below it; only those below it behind a dot.
    Name {
        name: String,
        below: bool,
    },
    Network(IpNet),
}

impl Direct {
    fn read(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self { place: Place::Everything, port: None });
        }
        let network = |text: &str| {
            let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
            bare.parse::<IpNet>().ok().or_else(|| bare.parse::<IpAddr>().ok().map(IpNet::from))
        };
        if let Some(network) = network(text) {
            return Some(Self { place: Place::Network(network), port: None });
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (text, None),
        };
        if let Some(network) = network(host) {
            return Some(Self { place: Place::Network(network), port });
        }
        let host = host.strip_prefix('*').unwrap_or(host);
        let (below, name) = host.strip_prefix('.').map_or((false, host), |name| (true, name));
        let place = Place::Name { name: plain(name), below };
        (!name.is_empty()).then_some(Self { place, port })
    }

    fn holds(&self, host: &Host<String>, port: u16, addresses: &[IpAddr]) -> bool {
        if self.port.is_some_and(|own| own != port) {
            return false;
        }
        match (&self.place, host) {
            (Place::Everything, _) => true,
            (Place::Network(network), _) => {
                let inside = |ip: &IpAddr| network.contains(ip) || network.contains(&ip.to_canonical());
                !addresses.is_empty() && addresses.iter().all(inside)
            }
            (Place::Name { name, below }, Host::Domain(host)) => {
                let host = plain(host);
                let part = host.strip_suffix(name.as_str()).is_some_and(|front| front.ends_with('.'));
                part || !below && host == *name
            }
            (Place::Name { .. }, _) => false,
        }
    }
}

/// What goes through which proxy. Addresses of this machine are always called directly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    direct: Vec<Direct>,
}

impl Proxies {
    /// Reads the variables; `variable` gives what one of them holds. Names in lower case do as well.
    ///
    /// # Errors
    /// When one of them names a proxy that cannot be used.
    pub fn by(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ProxyError> {
        let held = |name: &str| {
            let found = variable(name).or_else(|| variable(&name.to_ascii_lowercase()));
            found.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let proxy = |name: &'static str| held(name).map(|text| Proxy::read(name, &text)).transpose();
        let direct = held("NO_PROXY").unwrap_or_default();
        let direct = direct.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        Ok(Self {
            http: proxy("HTTP_PROXY")?,
            https: proxy("HTTPS_PROXY")?,
            direct: direct.filter_map(Direct::read).collect(),
        })
    }

    /// The proxy that a host at these addresses is called through, if it is not called directly.
    pub(super) fn through(&self, secure: bool, (host, port): (&Host<String>, u16), at: &[IpAddr]) -> Option<&Proxy> {
        let proxy = if secure { &self.https } else { &self.http };
        let here = at.iter().any(|ip| ip.to_canonical().is_loopback());
        proxy.as_ref().filter(|_| !here && !self.direct.iter().any(|entry| entry.holds(host, port, at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(all: &[(&str, &str)]) -> Result<Proxies, ProxyError> {
        Proxies::by(|name| all.iter().find(|(held, _)| *held == name).map(|(_, text)| (*text).to_owned()))
    }

    fn through(proxies: &Proxies, url: &str, at: &str) -> Option<String> {
        let url = Url::parse(url).unwrap();
        let host = Host::parse(url.host_str().unwrap()).unwrap();
        let port = url.port_or_known_default().unwrap();
        let found = proxies.through(url.scheme() == "https", (&host, port), &[at.parse().unwrap()]);
        found.map(|proxy| format!("{proxy:?}"))
    }

    #[test]
    fn each_scheme_has_its_proxy_and_exceptions_are_called_directly() {
        let exceptions = "direct.example, .below.example,10.0.0.0/8,192.0.2.9,ported.example:8443, [2001:db8::1]:443,:";
        let proxies = by(&[
            ("HTTP_PROXY", "plain.example"),
            ("https_proxy", "http://user:p%40ss@secure.example:3128/"),
            ("NO_PROXY", exceptions),
        ])
        .unwrap();
        let (plain, secure) =
            (Some("Proxy(plain.example:80)".to_owned()), Some("Proxy(secure.example:3128)".to_owned()));
        for (url, at, wanted) in [
            ("http://cs.example/", "198.51.100.1", &plain),
            ("https://cs.example/", "198.51.100.1", &secure),
            ("https://direct.example./", "198.51.100.1", &None),
            ("https://a.Direct.example/", "198.51.100.1", &None),
            ("https://indirect.example/", "198.51.100.1", &secure),
            ("https://below.example/", "198.51.100.1", &secure),
            ("https://a.below.example/", "198.51.100.1", &None),
            ("https://cs.example/", "10.1.2.3", &None),
            ("https://192.0.2.9/", "192.0.2.9", &None),
            ("https://192.0.2.8/", "192.0.2.8", &secure),
            ("https://ported.example:8443/", "198.51.100.1", &None),
            ("https://ported.example/", "198.51.100.1", &secure),
            ("https://[2001:db8::1]/", "2001:db8::1", &None),
            ("http://[2001:db8::1]/", "2001:db8::1", &plain),
            ("http://cs.example/", "127.0.0.1", &None),
            ("http://cs.example/", "::1", &None),
            ("http://cs.example/", "::ffff:127.0.0.1", &None),
            ("https://cs.example/", "::ffff:10.1.2.3", &None),
            ("https://cs.example/", "::ffff:11.1.2.3", &secure),
        ] {
            assert_eq!(through(&proxies, url, at), *wanted, "{url} at {at}");
        }
        assert_eq!(proxies.https.as_ref().unwrap().credentials.as_deref(), Some("Basic dXNlcjpwQHNz"));
        let nothing = by(&[("HTTPS_PROXY", "http://proxy.example:1"), ("NO_PROXY", "*")]).unwrap();
        assert_eq!(through(&nothing, "https://cs.example/", "198.51.100.1"), None);
        assert_eq!(by(&[("HTTPS_PROXY", " ")]), Ok(Proxies::default()));
    }

    #[test]
    fn what_cannot_be_used_is_named_and_not_told() {
        for (text, part) in [
            ("socks5://user:hunter2@proxy.example", "by http"),
            ("https://proxy.example", "by http"),
            ("http://", "not a URL"),
            ("http://user:%f@proxy.example", "cannot be read"),
        ] {
            let told = by(&[("HTTPS_PROXY", text)]).unwrap_err().to_string();
            assert!(told.starts_with("HTTPS_PROXY: ") && told.contains(part) && !told.contains("hunter2"), "{told}");
        }
    }
}
