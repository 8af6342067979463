//! Credentials of CloudStack: whether every Secret that a datacenter or a claim names is whole, and, where that is asked for,
//! whether CloudStack takes its keys. What a Secret holds is never told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::cloudstack::cloud::Clouds;
use ::cloudstack::errors::Kind;
use ::cloudstack::net::{Allowed, Meter, Options, Reach};
use ::cloudstack::port::CloudStack as _;
use ::cloudstack::profile::{Profile, ProfileError, URL, policy};
use ::clusters::secrets::of_secret;
use ::clusters::vm::{KIND, args};
use api::key::ObjectKey;
use api::own::HostClaimSpec;
use api::raw::{CloudStackDatacenterConfig, HostClaim};
use claims::facts::ClaimFacts;
use k8s_openapi::api::core::v1::Secret;
use kit::class::chain;
use kit::clock::Clock;
use kit::http::Policy;
use kube::{Api, Client};

use super::operator::Operator;
use super::{Check, clusters, list, some};
use crate::cloud::acs_options;

const SECRETS: &str = "cloudstack secrets";
const KEYS: &str = "cloudstack keys";
/// How long CloudStack is asked about one pair of keys: somebody waits, where the operator has all the time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Every address.
const ANYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The way to CloudStack as the operator's flags have it, also to these addresses, and for somebody who waits.
pub fn reach(operator: &Operator, allowed: &[Allowed]) -> Reach {
    reach_within(operator, allowed, PATIENCE)
}

/// The same with so much patience for a call.
pub fn reach_within(operator: &Operator, allowed: &[Allowed], patience: Duration) -> Reach {
    let own = &operator.flags.clusters;
    let all: Vec<Allowed> = own.cloudstack_endpoint_allow.iter().chain(allowed).cloned().collect();
    Reach::new(soon(acs_options(own), patience), &all, Clock::system(), Meter::default())
}

/// The same with as much patience as somebody who waits has.
fn soon(mut options: Options, patience: Duration) -> Options {
    options.timing.call = options.timing.call.min(patience);
    options.timing.request = options.timing.request.min(patience);
    options
}

/// What became of reading a Secret.
pub enum Read {
    /// It can be used.
    Whole(Box<Profile>),
    /// It cannot be used as it is.
    Broken(String),
    /// Its address is none that may be called. Which it is, is not told: it may hold more than an address.
    Barred(String),
    /// Whoever asks may not see it.
    Hidden(String),
}

/// The Secrets that datacenters and claims on virtual machines name, with what became of reading each.
async fn read(
    client: &Client,
    operator: &Operator,
    datacenters: &[CloudStackDatacenterConfig],
    policy: &Policy,
) -> Result<BTreeMap<ObjectKey, Read>, Check> {
    let claims = list::<HostClaim>(client, SECRETS).await?.unwrap_or_default();
    let claims: Vec<(ObjectKey, HostClaimSpec)> =
        claims.into_iter().map(|claim| (ObjectKey::of(&claim), ClaimFacts::of(claim).spec)).collect();
    let named = named(operator, datacenters, claims.iter().map(|(key, spec)| (key, spec)));
    Ok(fetch(client, named, policy).await)
}

/// The Secrets that these datacenters, and those of these claims that are on virtual machines, name.
pub fn named<'a>(
    operator: &Operator,
    datacenters: &[CloudStackDatacenterConfig],
    claims: impl IntoIterator<Item = (&'a ObjectKey, &'a HostClaimSpec)>,
) -> BTreeSet<ObjectKey> {
    let home = operator.flags.clusters.system_namespace.as_str();
    let zones = datacenters.iter().flat_map(clusters::zones);
    let of_zones = zones.map(|zone| ObjectKey::namespaced(home, zone.credentials_ref.as_str()));
    let of_claims = claims.into_iter().filter(|(_, spec)| spec.kind == KIND).filter_map(|(key, spec)| {
        let name = args::identity(spec).ok()?;
        Some(ObjectKey::namespaced(key.namespace().unwrap_or_default(), name))
    });
    of_zones.chain(of_claims).filter(|key| !key.name().is_empty()).collect()
}

/// What becomes of reading each of these Secrets.
pub async fn fetch(client: &Client, named: BTreeSet<ObjectKey>, policy: &Policy) -> BTreeMap<ObjectKey, Read> {
    let mut all = BTreeMap::new();
    for key in named {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), key.namespace().unwrap_or_default());
        let read = match secrets.get_opt(key.name()).await {
            Ok(Some(secret)) => match of_secret(key.name(), secret, policy) {
                Ok(found) => Read::Whole(Box::new(found.profile)),
                Err(ProfileError::Url(_)) => Read::Barred(format!("key {URL} holds no address that may be called")),
                Err(error) => Read::Broken(error.to_string()),
            },
            Ok(None) => Read::Broken("it is not there".to_owned()),
            Err(error) => Read::Hidden(chain(&error)),
        };
        all.insert(key, read);
    }
    all
}

/// Whether every Secret is whole, also of claims where nobody makes clusters. CloudStack is not asked.
pub async fn secrets(client: &Client, operator: &Operator) -> Option<Check> {
    // Which addresses the operator may call is its own to judge.
    let any = policy().admit(ANYWHERE.iter().filter_map(|network| network.parse().ok()));
    let datacenters = match list::<CloudStackDatacenterConfig>(client, SECRETS).await {
        Ok(datacenters) => datacenters.unwrap_or_default(),
        Err(check) => return Some(check),
    };
    match read(client, operator, &datacenters, &any).await {
        Ok(all) => whole(&all),
        Err(check) => Some(check),
    }
}

fn whole(all: &BTreeMap<ObjectKey, Read>) -> Option<Check> {
    let told = |wanted: fn(&Read) -> Option<&String>| -> Vec<String> {
        all.iter().filter_map(|(key, read)| Some(format!("{key}: {}", wanted(read)?))).collect()
    };
    let broken = told(|read| if let Read::Broken(why) | Read::Barred(why) = read { Some(why) } else { None });
    if !broken.is_empty() {
        let fix = "write api-url, api-key and secret-key into the Secret; it is read again at the next look";
        return Some(Check::fail(SECRETS, some(&broken), fix));
    }
    let hidden = told(|read| if let Read::Hidden(why) = read { Some(why) } else { None });
    if !hidden.is_empty() {
        let fix = "run the doctor with more rights";
        return Some(Check::warn(SECRETS, format!("cannot be read: {}", some(&hidden)), fix));
    }
    let names: Vec<String> = all.keys().map(ToString::to_string).collect();
    let found = format!("whole: {}; --cloudstack asks CloudStack whether it takes them", some(&names));
    (!all.is_empty()).then(|| Check::ok(SECRETS, found))
}

/// What CloudStack says to keys.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Fine,
    Refused(String),
    Unknown(String),
}

/// Asks CloudStack, with every pair of keys that is named, for what it can do: a call that changes nothing and needs no
/// right but to be known. Nothing where no keys are named.
pub async fn keys(client: &Client, operator: &Operator, reach: &impl Clouds) -> Option<Check> {
    let datacenters = match list::<CloudStackDatacenterConfig>(client, KEYS).await {
        Ok(datacenters) => datacenters.unwrap_or_default(),
        Err(check) => return Some(check),
    };
    let read = match read(client, operator, &datacenters, reach.policy()).await {
        Ok(read) => read,
        Err(check) => return Some(check),
    };
    let mut asked = BTreeMap::new();
    for (key, read) in read {
        let profile = match read {
            Read::Whole(profile) => profile,
            Read::Barred(why) => {
                asked.insert(key.to_string(), Answer::Unknown(why));
                continue;
            }
            // What is wrong with the Secret itself, the other check tells.
            Read::Broken(_) | Read::Hidden(_) => continue,
        };
        let answer = match reach.open(&profile) {
            Err(why) => Answer::Unknown(why),
            Ok(acs) => match acs.list_capabilities().await {
                Ok(_) => Answer::Fine,
                Err(error) if error.kind() == Kind::Credentials => Answer::Refused(error.words()),
                Err(error) => Answer::Unknown(error.words()),
            },
        };
        asked.insert(format!("{key} at {}", profile.host()), answer);
    }
    judge(&asked)
}

fn judge(asked: &BTreeMap<String, Answer>) -> Option<Check> {
    let told = |wanted: fn(&Answer) -> Option<&String>| -> Vec<String> {
        asked.iter().filter_map(|(place, answer)| Some(format!("{place}: {}", wanted(answer)?))).collect()
    };
    let refused = told(|answer| if let Answer::Refused(why) = answer { Some(why) } else { None });
    if !refused.is_empty() {
        let fix = "write keys that CloudStack knows into the Secret; they are used from the next look on";
        return Some(Check::fail(KEYS, format!("refused: {}", some(&refused)), fix));
    }
    let unknown = told(|answer| if let Answer::Unknown(why) = answer { Some(why) } else { None });
    if !unknown.is_empty() {
        let fix =
            "run the doctor where the API can be reached; for one at this machine give --cloudstack-endpoint-allow";
        return Some(Check::warn(KEYS, format!("cannot be told: {}", some(&unknown)), fix));
    }
    let places: Vec<String> = asked.keys().cloned().collect();
    (!places.is_empty()).then(|| Check::ok(KEYS, format!("taken: {}", some(&places))))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};
    use sim::cloudstack::{Handle, Options};
    use sim::server::{Kind as Served, Server};

    use super::super::Level;
    use super::*;

    const OWN: &str = "anywhere.eks.amazonaws.com";
    const HOME: &str = "eksa-system";

    fn world() -> Server {
        let server = Server::new(1);
        server.register(Served::namespaced(
            OWN,
            "v1alpha1",
            "CloudStackDatacenterConfig",
            "cloudstackdatacenterconfigs",
        ));
        server.register(Served::namespaced("metal3.io", "v1alpha1", "HostClaim", "hostclaims"));
        for space in ["team-a", HOME] {
            server.namespace(space);
        }
        let zone = json!({"name": "az-1", "credentialsRef": "global", "managementApiEndpoint": "http://x",
            "zone": {"name": "zone-1", "network": {"name": "net"}}});
        put(&server, OWN, "CloudStackDatacenterConfig", "acs", &json!({"availabilityZones": [zone]}));
        server
    }

    fn put(server: &Server, group: &str, kind: &str, name: &str, spec: &Value) {
        let meta = json!({"namespace": "team-a", "name": name});
        let api = format!("{group}/v1alpha1");
        server.put(json!({"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec})).unwrap();
    }

    fn secret(server: &Server, space: &str, name: &str, values: [&str; 3]) {
        let data: serde_json::Map<String, Value> = ["api-url", "api-key", "secret-key"]
            .into_iter()
            .zip(values)
            .map(|(key, value)| (key.to_owned(), json!(ByteString(value.as_bytes().to_vec()))))
            .collect();
        let meta = json!({"namespace": space, "name": name});
        server.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})).unwrap();
    }

    async fn stored(server: &Server) -> Option<Check> {
        let client = server.client("doctor").kube();
        secrets(&client, &Operator::find(&client, "berth-system").await).await
    }

    async fn asked(server: &Server, acs: &Handle) -> Option<Check> {
        let client = server.client("doctor").kube();
        let operator = Operator::find(&client, "berth-system").await;
        let origin: Allowed = acs.endpoint.trim_end_matches("/client/api").parse().unwrap();
        keys(&client, &operator, &reach(&operator, &[origin])).await
    }

    #[tokio::test]
    async fn keys_that_cloudstack_does_not_know_are_a_failure_and_are_never_told() {
        let acs = sim::cloudstack::start(Options::default()).await.unwrap();
        let server = world();
        assert_eq!(stored(&server).await.unwrap().found, "eksa-system/global: it is not there");
        assert_eq!(asked(&server, &acs).await, None, "there is nothing to ask with");

        secret(&server, HOME, "global", [&acs.endpoint, &acs.api_key, &acs.secret_key]);
        let good = asked(&server, &acs).await.unwrap();
        assert_eq!(good.level, Level::Ok, "{}", good.found);
        assert!(good.found.starts_with("taken: eksa-system/global at 127.0.0.1:"), "{}", good.found);
        assert!(acs.log().iter().all(|call| call.command == "listCapabilities"), "it only looks");

        secret(&server, HOME, "global", [&acs.endpoint, &acs.api_key, "canary-of-a-secret"]);
        let bad = asked(&server, &acs).await.unwrap();
        assert_eq!(bad.level, Level::Failure);
        assert!(bad.found.contains("refused: eksa-system/global at"), "{}", bad.found);
        let told = format!("{bad:?}");
        assert!(!told.contains("canary") && !told.contains(&acs.api_key), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn claims_name_secrets_too_also_where_nobody_makes_clusters() {
        let server = world();
        let far = "http://acs.invalid/client/api";
        secret(&server, HOME, "global", [far, "key", "canary"]);
        put(
            &server,
            "metal3.io",
            "HostClaim",
            "vm",
            &json!({"poweredOn": true, "kind": KIND, "args": {"identity": "mine"}}),
        );
        put(
            &server,
            "metal3.io",
            "HostClaim",
            "metal",
            &json!({"poweredOn": true, "kind": "baremetal", "args": {"identity": "no"}}),
        );
        secret(&server, "team-a", "mine", [far, "key ", "canary"]);
        let broken = stored(&server).await.unwrap();
        assert_eq!(broken.level, Level::Failure);
        assert_eq!(broken.found, "team-a/mine: key api-key has surrounding whitespace");
        assert!(server.delete(&format!("cloudstackdatacenterconfigs.{OWN}"), "team-a", "acs"));
        assert_eq!(stored(&server).await.unwrap(), broken, "nobody makes clusters, and the claim waits all the same");
        secret(&server, "team-a", "mine", [far, "key", "canary"]);
        assert!(stored(&server).await.unwrap().found.starts_with("whole: team-a/mine; --cloudstack"));
    }

    #[test]
    fn whoever_waits_for_the_doctor_is_not_kept_for_as_long_as_an_operator_tries() {
        use clap::Parser as _;
        for (flags, request) in [(&["x"][..], 5), (&["x", "--acs-timeout=2s"], 2)] {
            #[derive(clap::Parser)]
            struct Flags {
                #[command(flatten)]
                own: crate::clusters::ClustersOptions,
            }
            let timing = soon(acs_options(&Flags::parse_from(flags).own), PATIENCE).timing;
            assert_eq!((timing.request.as_secs(), timing.call.as_secs()), (request, 5));
        }
    }

    #[test]
    fn one_that_is_refused_comes_before_one_that_does_not_answer() {
        let unknown = ("b at y".to_owned(), Answer::Unknown("no route".to_owned()));
        let refused = ("a at x".to_owned(), Answer::Refused("not known".to_owned()));
        let of = |all: &[(String, Answer)]| judge(&all.iter().cloned().collect()).unwrap();
        let check = of(&[unknown.clone(), refused]);
        assert_eq!((check.level, check.found.as_str()), (Level::Failure, "refused: a at x: not known"));
        let check = of(&[unknown]);
        assert_eq!((check.level, check.found.as_str()), (Level::Warning, "cannot be told: b at y: no route"));
        assert_eq!(judge(&BTreeMap::new()), None);
    }
}
