//! Urls that a host's deployment fetches: where they may point, and what it means that one begins with another.
//!
//! Nothing is fetched here, so a name that resolves to a forbidden address is not seen; what can be read from the text is.

use crate::http::{Policy, Target};

/// The schemes of an image.
const IMAGES: [&str; 3] = ["http", "https", "oci"];
/// The schemes of a checksum that is fetched.
const CHECKSUMS: [&str; 2] = ["http", "https"];

/// A url that may be fetched, as far as its text tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    scheme: String,
    target: Target,
}

impl Place {
    /// Reads the url of an image.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn image(url: &str) -> Result<Self, String> {
        Self::read(url, &IMAGES)
    }

    /// Reads the url of a checksum.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn checksum(url: &str) -> Result<Self, String> {
        Self::read(url, &CHECKSUMS)
    }

    fn read(url: &str, schemes: &[&str]) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let scheme = scheme.to_ascii_lowercase();
        let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        if host.is_empty() || !schemes.contains(&scheme.as_str()) {
            return Err(format!("must be an absolute url with the scheme {}", listed(schemes)));
        }
        // A registry is asked over the web, and its authority is checked as any other.
        let web = if scheme == "oci" { format!("https://{rest}") } else { url.to_owned() };
        let target = Target::parse(&web, &Policy::new().schemes(&CHECKSUMS)).map_err(|fault| fault.to_string())?;
        if climbs(rest) {
            return Err("must not have . or .. as a part of its path".to_owned());
        }
        Ok(Self { scheme, target })
    }

    /// Whether it is an image of a registry.
    #[must_use]
    pub fn is_oci(&self) -> bool {
        self.scheme == "oci"
    }

    /// Whether it names more than a server.
    #[must_use]
    pub fn has_path(&self) -> bool {
        self.target.url().path() != "/"
    }

    /// Whether it begins like this: in the same place, and from there letter by letter. What is no url, but for a bare
    /// scheme, begins nothing.
    #[must_use]
    pub fn begins_with(&self, prefix: &str) -> bool {
        if let Some(scheme) = prefix.strip_suffix("://") {
            return scheme.eq_ignore_ascii_case(&self.scheme);
        }
        let Ok(prefix) = Self::image(prefix) else { return false };
        let (mine, its) = (&self.target, &prefix.target);
        let path = match its.url().query() {
            None => mine.url().path().starts_with(its.url().path()),
            Some(query) => {
                let begun = mine.url().query().is_some_and(|mine| mine.starts_with(query));
                mine.url().path() == its.url().path() && begun
            }
        };
        self.scheme == prefix.scheme && mine.host() == its.host() && mine.port() == its.port() && path
    }
}

/// Whether a checksum is a place to fetch it from and not the checksum itself.
#[must_use]
pub fn is_fetched(checksum: &str) -> bool {
    checksum.contains('/')
}

/// Whether a part of the path, also an encoded one, leads up or nowhere: clients and servers take those out, each at its
/// own time.
fn climbs(rest: &str) -> bool {
    let path = rest.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let plain = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    plain.split('/').skip(1).any(|part| part == "." || part == "..")
}

fn listed(schemes: &[&str]) -> String {
    match schemes.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_fetched_is_a_plain_place_that_is_not_this_machine() {
        for good in [
            "https://images.example/linux.qcow2",
            "HTTP://images/linux",
            "http://10.0.0.5:8080/a?b=c",
            "oci://registry.example:5000/os/linux:v1@sha256:ab",
            "https://images.example/..hidden/a..b",
        ] {
            assert!(Place::image(good).is_ok(), "{good}: {:?}", Place::image(good));
        }
        for bad in [
            "",
            "linux",
            "file:///etc/shadow",
            "https:///x",
            "ftp://images/x",
            "https://user@images/x",
            "https://images.example@evil.net/x",
            "https://images/x#y",
            "https://images:0/x",
            "https://images:99999/x",
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://[::1]/",
            "http://169.254.169.254/latest",
            "http://localhost/",
            "oci://localhost/os",
            "oci://127.0.0.1:5000/os",
            "oci://user@registry/os",
            "https://images/a/../b",
            "https://images/a/%2E%2e/b",
            "https://images/a/..%2Fb",
            "https://images/a\\..\\b",
            "https://images/./b",
        ] {
            assert!(Place::image(bad).is_err(), "{bad}");
        }
        assert!(Place::checksum("https://images/sums").is_ok());
        assert!(Place::checksum("oci://images/sums").is_err());
        assert!(is_fetched("file:/etc/shadow") && !is_fetched("abc"));
    }

    #[test]
    fn a_url_begins_with_a_prefix_only_in_the_same_place() {
        let begins = |url: &str, prefix: &str| Place::image(url).unwrap().begins_with(prefix);
        let url = "https://images.example/red/linux";
        for prefix in
            ["https://", "https://images.example", "https://images.example:443/", "https://images.example/red/l"]
        {
            assert!(begins(url, prefix), "{prefix}");
        }
        for prefix in [
            "http://",
            "https://images.exam",
            "https://image",
            "https://images.example:8443/",
            "oci://images.example/",
            "x",
        ] {
            assert!(!begins(url, prefix), "{prefix}");
        }
        assert!(!begins("https://images.example.evil/red/linux", "https://images.example"));
        assert!(!begins("https://images.example/blue/linux", "https://images.example/red/"));
        assert!(begins("https://i/a?token=12", "https://i/a?token=1") && !begins("https://i/a", "https://i/a?token=1"));
    }
}
