//! Which servers may be called: any that is not of this machine, and those of this machine that an operator names.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use kit::clock::Clock;
use kit::http::Policy;
use url::{Host, Url};

use super::{Client, CloudStacks, Meter, Options};
use crate::cloud::Clouds;
use crate::profile::Profile;

/// A server that an operator names although its address is one that is never called otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    origin: String,
    address: IpAddr,
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}` is not a URL with an address and a port, such as http://127.0.0.1:8080");
        let url = Url::parse(text).map_err(|_| form())?;
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) | None => return Err(form()),
        };
        let plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        if !plain || !["http", "https"].contains(&url.scheme()) {
            return Err(form());
        }
        Ok(Self { origin: url.origin().ascii_serialization(), address })
    }
}

/// The ways to CloudStack of a process.
#[derive(Clone)]
pub struct Reach {
    usual: CloudStacks,
    named: CloudStacks,
    policy: Policy,
    origins: BTreeSet<String>,
}

impl Reach {
    /// Ways by these options, also to the servers that are named.
    #[must_use]
    pub fn new(options: Options, allowed: &[Allowed], clock: Clock, meter: Meter) -> Self {
        let networks: Vec<IpNet> = allowed.iter().map(|one| one.address.into()).collect();
        let policy = options.policy.clone().admit(networks);
        let named = Options { policy: policy.clone(), ..options.clone() };
        Self {
            usual: CloudStacks::new(options, clock.clone(), meter.clone()),
            named: CloudStacks::new(named, clock, meter),
            policy,
            origins: allowed.iter().map(|one| one.origin.clone()).collect(),
        }
    }
}

impl Clouds for Reach {
    type Acs = Client;

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn open(&self, profile: &Profile) -> Result<Client, String> {
        let origin = Url::parse(&profile.url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        if self.origins.contains(&origin) { self.named.open(profile) } else { self.usual.open(profile) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::port::CloudStack;

    #[test]
    fn only_an_address_with_its_port_can_be_named() {
        for good in ["http://127.0.0.1:8080", "https://[::1]:9443", "http://127.0.0.1:8080/"] {
            assert!(good.parse::<Allowed>().is_ok(), "{good}");
        }
        for bad in ["", "127.0.0.1:8080", "http://localhost:8080", "http://127.0.0.1:80/client/api", "ftp://127.0.0.1"]
        {
            assert!(bad.parse::<Allowed>().unwrap_err().contains("such as http://127.0.0.1:8080"), "{bad}");
        }
    }

    #[tokio::test]
    async fn another_port_of_a_named_address_is_not_called() {
        let sim = sim::cloudstack::start(sim::cloudstack::Options::default()).await.unwrap();
        let origin = sim.endpoint.trim_end_matches("/client/api").to_owned();
        let options = || {
            let mut options = Options::new("berth/test");
            options.timing.pauses = [std::time::Duration::from_millis(1); 3];
            options
        };
        let secret = |url: &str| -> BTreeMap<String, Vec<u8>> {
            [("api-url", url), ("api-key", &sim.api_key), ("secret-key", &sim.secret_key)]
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()))
                .collect()
        };
        let meter = Meter::default();
        let named = Reach::new(options(), &[origin.parse().unwrap()], Clock::system(), meter.clone());
        let profile = Profile::from_secret(&secret(&sim.endpoint), named.policy()).unwrap();
        assert!(named.open(&profile).unwrap().list_zones(None).await.is_ok());
        let other = Reach::new(options(), &["http://127.0.0.1:1".parse().unwrap()], Clock::system(), meter);
        let profile = Profile::from_secret(&secret(&sim.endpoint), other.policy()).unwrap();
        let calls = sim.log().len();
        assert!(other.open(&profile).unwrap().list_zones(None).await.is_err());
        assert_eq!(sim.log().len(), calls, "nothing was sent");
    }
}
