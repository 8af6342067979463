//! Configured endpoints, and who may configure what.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use api::names::Region;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use kit::http::{Policy, Target, TargetError};
use url::Url;

use super::partition::{Partition, Variant};
use crate::errors::Service;

/// Who named an endpoint; the stronger one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A flag of the operator: may be plain HTTP and may be this machine.
    Flag,
    /// An object of the cluster.
    Cluster,
    /// The environment of the process, as AWS's own tools read it.
    Environment,
    /// The rules of the partition.
    Rules,
}

/// An endpoint that is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Not `<service>=<url>`.
    #[error("an endpoint is written as <service>=<url>, for instance ec2=https://ec2.example.com")]
    Form,
    /// A service Berth never calls.
    #[error("no endpoint can be set for the service {0:?}: only ec2 and sts are called")]
    Service(String),
    /// A URL that may not be called.
    #[error("the endpoint of {service} is not usable")]
    Url {
        /// The service.
        service: &'static str,
        /// What is wrong.
        #[source]
        source: TargetError,
    },
    /// A query in the URL.
    #[error("the endpoint of {service} must not have a query")]
    Query {
        /// The service.
        service: &'static str,
    },
}

/// Where to call a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address.
    pub url: String,
    /// Who named it.
    pub origin: Origin,
}

impl Endpoint {
    /// What may be called at such an endpoint: an operator's flag may mean this machine, nobody else's word may.
    #[must_use]
    pub fn policy(&self) -> Policy {
        policy(self.origin)
    }
}

fn policy(origin: Origin) -> Policy {
    match origin {
        Origin::Flag => Policy::new().schemes(&["http", "https"]).admit(LOOPBACK),
        Origin::Cluster | Origin::Environment | Origin::Rules => Policy::new(),
    }
}

/// This machine.
const LOOPBACK: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
];

/// One `<service>=<url>` of the flag `--aws-endpoint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    service: Service,
    url: String,
}

impl FromStr for Override {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (service, url) = text.split_once('=').ok_or(EndpointError::Form)?;
        let known = service_of(service.trim()).ok_or_else(|| EndpointError::Service(service.trim().to_owned()))?;
        Ok(Self { service: known, url: checked(known, url.trim(), Origin::Flag)? })
    }
}

fn service_of(name: &str) -> Option<Service> {
    match name {
        "ec2" => Some(Service::Ec2),
        "sts" => Some(Service::Sts),
        _ => None,
    }
}

fn checked(service: Service, url: &str, origin: Origin) -> Result<String, EndpointError> {
    let service = service.as_str();
    let target = Target::parse(url, &policy(origin)).map_err(|source| EndpointError::Url { service, source })?;
    let url: &Url = target.url();
    if url.query().is_some() {
        return Err(EndpointError::Query { service });
    }
    Ok(url.to_string())
}

/// All configured endpoints; what is not configured follows the rules of the partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoints {
    set: BTreeMap<Service, Endpoint>,
    variant: Variant,
}

impl Endpoints {
    /// Nothing is configured.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another kind of endpoint by the rules.
    #[must_use]
    pub fn variant(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    /// Adds what the flag says; a later one wins over an earlier one of the same service.
    #[must_use]
    pub fn flag(mut self, given: Override) -> Self {
        self.put(given.service, Endpoint { url: given.url, origin: Origin::Flag });
        self
    }

    /// Adds what an object of the cluster says. Services that Berth never calls are passed over.
    ///
    /// # Errors
    /// When the URL of a service that Berth calls is not usable; plain HTTP and this machine are not.
    pub fn cluster(mut self, service: &str, url: &str) -> Result<Self, EndpointError> {
        if let Some(service) = service_of(service) {
            let url = checked(service, url, Origin::Cluster)?;
            self.put(service, Endpoint { url, origin: Origin::Cluster });
        }
        Ok(self)
    }

    /// Adds what the environment says, as AWS's own tools read it.
    ///
    /// # Errors
    /// When a URL is not usable.
    pub fn environment(mut self, vars: &BTreeMap<String, String>) -> Result<Self, EndpointError> {
        let get = |name: &str| vars.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let on = |name: &str| get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        self.variant.fips |= on("AWS_USE_FIPS_ENDPOINT");
        self.variant.dual_stack |= on("AWS_USE_DUALSTACK_ENDPOINT");
        if on("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS") {
            return Ok(self);
        }
        for (service, own) in [(Service::Ec2, "AWS_ENDPOINT_URL_EC2"), (Service::Sts, "AWS_ENDPOINT_URL_STS")] {
            if let Some(url) = get(own).or_else(|| get("AWS_ENDPOINT_URL")) {
                let url = checked(service, url, Origin::Environment)?;
                self.put(service, Endpoint { url, origin: Origin::Environment });
            }
        }
        Ok(self)
    }

    fn put(&mut self, service: Service, endpoint: Endpoint) {
        if self.set.get(&service).is_none_or(|old| endpoint.origin <= old.origin) {
            self.set.insert(service, endpoint);
        }
    }

    /// Whether somebody configured this service's endpoint: then a region of no known form may exist there.
    #[must_use]
    pub fn is_set(&self, service: Service) -> bool {
        self.set.contains_key(&service)
    }

    /// Where to call a service for a region.
    #[must_use]
    pub fn of(&self, service: Service, region: &Region) -> Endpoint {
        let ruled = || {
            let host = Partition::of(region).host(service, region, self.variant);
            Endpoint { url: format!("https://{host}/"), origin: Origin::Rules }
        };
        self.set.get(&service).cloned().unwrap_or_else(ruled)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vars(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn region() -> Region {
        "us-west-2".parse().unwrap()
    }

    #[test]
    fn the_flag_wins_over_the_cluster_over_the_environment_over_the_rules() {
        let environment = vars(&[("AWS_ENDPOINT_URL", "https://all.example.com"), ("AWS_USE_FIPS_ENDPOINT", "true")]);
        let endpoints = Endpoints::new();
        assert_eq!(endpoints.of(Service::Ec2, &region()).url, "https://ec2.us-west-2.amazonaws.com/");
        assert!(!endpoints.is_set(Service::Ec2));
        let endpoints = endpoints.environment(&environment).unwrap();
        assert_eq!(endpoints.of(Service::Sts, &region()).url, "https://all.example.com/");
        let endpoints = endpoints.cluster("ec2", "https://cluster.example.com").unwrap();
        let endpoints = endpoints.environment(&environment).unwrap();
        assert_eq!(endpoints.of(Service::Ec2, &region()).url, "https://cluster.example.com/");
        let endpoints = endpoints.flag("ec2=http://127.0.0.1:5000".parse().unwrap());
        let endpoints = endpoints.cluster("ec2", "https://cluster.example.com").unwrap();
        let found = endpoints.of(Service::Ec2, &region());
        assert_eq!((found.url.as_str(), found.origin), ("http://127.0.0.1:5000/", Origin::Flag));
        assert_eq!(endpoints.of(Service::Sts, &region()).origin, Origin::Environment);
    }

    #[test]
    fn the_environment_is_read_as_other_tools_read_it() {
        let own =
            vars(&[("AWS_ENDPOINT_URL", "https://a.example.com"), ("AWS_ENDPOINT_URL_STS", "https://b.example.com")]);
        let endpoints = Endpoints::new().environment(&own).unwrap();
        assert_eq!(endpoints.of(Service::Sts, &region()).url, "https://b.example.com/");
        assert_eq!(endpoints.of(Service::Ec2, &region()).url, "https://a.example.com/");
        let mut ignored = own;
        ignored.insert("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS".to_owned(), "true".to_owned());
        ignored.insert("AWS_USE_DUALSTACK_ENDPOINT".to_owned(), "TRUE".to_owned());
        let endpoints = Endpoints::new().environment(&ignored).unwrap();
        assert_eq!(endpoints.of(Service::Ec2, &region()).url, "https://ec2.us-west-2.api.aws/");
    }

    #[test]
    fn only_the_flag_may_name_plain_http_or_this_machine() {
        for url in ["http://ec2.example.com", "https://127.0.0.1", "https://169.254.169.254", "https://localhost"] {
            assert!(Endpoints::new().cluster("ec2", url).is_err(), "{url}");
            assert!(Endpoints::new().environment(&vars(&[("AWS_ENDPOINT_URL_EC2", url)])).is_err(), "{url}");
        }
        for text in [
            "ec2=http://127.0.0.1:5000/",
            "sts=http://localhost:5000",
            "ec2=https://[::1]:5000",
            "ec2=http://x.example",
        ] {
            assert!(text.parse::<Override>().is_ok(), "{text}");
        }
        assert!(Endpoints::new().cluster("elasticloadbalancing", "http://odd").is_ok(), "services we never call");
    }

    #[test]
    fn a_bad_flag_says_what_is_wrong_with_it() {
        for (text, said) in [
            ("ec2", "<service>=<url>"),
            ("s3=https://x.example", "\"s3\""),
            ("ec2=ftp://x.example", "endpoint of ec2"),
            ("ec2=http://169.254.169.254/", "endpoint of ec2"),
            ("ec2=https://user:canary@x.example/", "endpoint of ec2"),
            ("ec2=https://x.example/?a=b", "query"),
        ] {
            let error = text.parse::<Override>().unwrap_err();
            let shown = kit::class::chain(&error);
            assert!(shown.contains(said) && !shown.contains("canary"), "{shown}");
        }
    }

    proptest! {
        #[test]
        fn any_flag_text_is_read_or_refused(text in "(ec2|sts|)=?(https?://)?[ -~]{0,30}") {
            if let Ok(given) = text.parse::<Override>() {
                let again = format!("{}={}", given.service.as_str(), given.url).parse::<Override>().unwrap();
                prop_assert_eq!(again, given);
            }
        }
    }
}
