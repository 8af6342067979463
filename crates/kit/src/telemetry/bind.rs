//! Addresses to listen on, as flags spell them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Why a text is not an address to listen on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BindError {
    /// No port after a colon.
    #[error("{value:?} has no port: write \":8080\", \"127.0.0.1:8080\", \"[::1]:8080\", or \"0\" to turn it off")]
    NoPort {
        /// The text.
        value: String,
    },
    /// The port is not a number a port can have.
    #[error("{value:?} has the port {port:?}, which is not a number from 0 to 65535")]
    Port {
        /// The text.
        value: String,
        /// Its last part.
        port: String,
    },
    /// The host is not an IP address.
    #[error("{value:?} has the host {host:?}, which is not an IP address (an IPv6 address stands in brackets)")]
    Host {
        /// The text.
        value: String,
        /// Its first part.
        host: String,
    },
}

/// Reads `:8080` (all addresses), `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`; `0` is `None`, which is off.
///
/// `:8080` becomes `[::]:8080`, which serves IPv4 too; `serve::bind` falls back where IPv6 is absent.
///
/// # Errors
/// Names the text and the part of it that is wrong.
pub fn parse_bind_address(value: &str) -> Result<Option<SocketAddr>, BindError> {
    if value == "0" {
        return Ok(None);
    }
    let owned = || value.to_owned();
    let Some((host, port)) = value.rsplit_once(':') else {
        return Err(BindError::NoPort { value: owned() });
    };
    // `parse` alone would let "+80" pass.
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let Some(number) = port.parse::<u16>().ok().filter(|_| digits) else {
        return Err(BindError::Port { value: owned(), port: port.to_owned() });
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let ip = match (host, bracketed) {
        ("", _) => Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        ("localhost", _) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        (_, Some(inner)) => inner.parse().ok().map(IpAddr::V6),
        (host, None) => host.parse().ok().map(IpAddr::V4),
    };
    match ip {
        Some(ip) => Ok(Some(SocketAddr::new(ip, number))),
        None => Err(BindError::Host { value: owned(), host: host.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(value: &str) -> Option<String> {
        parse_bind_address(value).expect("a valid address").map(|address| address.to_string())
    }

    #[test]
    fn the_usual_spellings_are_read() {
        assert_eq!(parsed("0"), None);
        assert_eq!(parsed(":8080").as_deref(), Some("[::]:8080"));
        assert_eq!(parsed("127.0.0.1:8080").as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(parsed("localhost:9440").as_deref(), Some("127.0.0.1:9440"));
        assert_eq!(parsed("[::1]:0").as_deref(), Some("[::1]:0"));
        assert_eq!(parsed("0.0.0.0:1").as_deref(), Some("0.0.0.0:1"));
    }

    #[test]
    fn a_wrong_address_is_refused_and_the_wrong_part_is_named() {
        for (value, part) in [
            ("8080", "no port"),
            ("", "no port"),
            ("127.0.0.1", "no port"),
            (":", r#"port """#),
            (":65536", "65536"),
            (":+80", r#""+80""#),
            (":-1", "-1"),
            ("example.com:80", "example.com"),
            ("::1:80", r#"host "::1""#),
            ("[127.0.0.1]:80", "[127.0.0.1]"),
            ("127.0.0.1:80:80", "127.0.0.1:80"),
            ("http://x:80", "http://x"),
        ] {
            let error = parse_bind_address(value).expect_err(value).to_string();
            assert!(error.contains(&format!("{value:?}")) && error.contains(part), "{value}: {error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn every_socket_address_reads_back_as_itself(ip: IpAddr, port: u16) {
            let address = SocketAddr::new(ip, port);
            prop_assert_eq!(parse_bind_address(&address.to_string()), Ok(Some(address)));
        }

        #[test]
        fn no_text_makes_it_panic(value in ".{0,60}") {
            let _ = parse_bind_address(&value);
        }
    }
}
