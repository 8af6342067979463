//! Whether those who keep machines on EC2 may look at everything that is looked at: asked of EC2 itself, as every identity
//! that a cluster names.

use std::collections::BTreeMap;

use api::key::ObjectKey;
use api::names::Region;
use api::views::AWSCluster;
use aws::cloud::{Cloud, Door};
use aws::credentials::{Ambient, Source, from_static_identity};
use aws::identity::{Base, Chain, IdentityFeeds, IdentityLists, IdentityName};
use aws::net::{Aws, Meter, Options};
use aws::place::{Endpoints, Override};
use aws::port::Ec2;
use hosts::iam::READ;
use hosts::selfcheck::{Failed, failures};
use k8s_openapi::api::core::v1::Secret;
use kit::class::chain;
use kit::clock::Clock;
use kube::{Api, Client};

use super::{Check, list, some};
use crate::Usage;
use crate::capacity::{ambient_source, environment};
use crate::look::Shown;

const NAME: &str = "aws rights";
/// How a cluster that names no identity is served.
const OWN: &str = "the operator's own identity";
/// What EC2 says to somebody whom it knows and who lacks a right; with other words it knows nobody.
const LACKING: [&str; 4] = ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired"];

/// The way to AWS, with the credentials of whoever asks.
pub struct Reach {
    cloud: Aws,
    endpoints: Endpoints,
    own: Result<Ambient, String>,
}

impl Reach {
    /// The way that flags and environment describe.
    pub fn new(overrides: &[Override]) -> Result<Self, Usage> {
        let vars = environment();
        let endpoints = Endpoints::new().environment(&vars);
        let endpoints = endpoints.map_err(|error| Usage(format!("environment: {}", chain(&error))))?;
        let agent = concat!("berth-doctor/", env!("CARGO_PKG_VERSION"));
        Ok(Self {
            cloud: Aws::new(Options::new(agent), Clock::system(), Meter::default()),
            endpoints: overrides.iter().cloned().fold(endpoints, Endpoints::flag),
            own: ambient_source(&vars),
        })
    }
}

/// What came of asking as one identity in one region.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// Everything may be looked at.
    Fine,
    /// These actions are denied.
    Lacks(Vec<&'static str>),
    /// EC2 could not be asked, or did not answer everything.
    Unknown(String),
}

/// Asks EC2, as every identity that a cluster names, for everything the room looks at. Nothing where no cluster names a
/// region.
pub async fn rights(client: &Client, namespace: &str, reach: &Reach) -> Option<Check> {
    let networks = match list::<AWSCluster>(client, NAME).await {
        Ok(networks) => networks.unwrap_or_default(),
        Err(check) => return Some(check),
    };
    let identities = match identities(client).await {
        Ok(identities) => identities,
        Err(check) => return Some(check),
    };
    let mut asked: BTreeMap<String, Answer> = BTreeMap::new();
    for network in &networks {
        let Some(region) = network.spec.region.as_deref().filter(|region| !region.is_empty()) else { continue };
        let reference = network.spec.identity_ref.as_ref();
        let named = reference.map(|reference| match IdentityName::read(reference) {
            Ok(name) => name.to_string(),
            Err(_) => format!("{} {}", reference.kind, reference.name),
        });
        let place = format!("{region} as {}", named.as_deref().unwrap_or(OWN));
        // Of several clusters that share an identity, one that may use it is enough.
        if asked.get(&place).is_some_and(|answer| !matches!(answer, Answer::Unknown(_))) {
            continue;
        }
        let key = ObjectKey::of(network);
        let answer = match identities.resolve(reference, key.namespace().unwrap_or_default()) {
            Ok(chain) => Box::pin(ask(client, namespace, reach, region, &chain)).await,
            Err(error) => Answer::Unknown(chain(&error)),
        };
        asked.insert(place, answer);
    }
    judge(&asked)
}

async fn identities(client: &Client) -> Result<IdentityFeeds, Check> {
    async fn all<K: Shown>(client: &Client) -> Result<Vec<K>, Check> {
        Ok(list::<K>(client, NAME).await?.unwrap_or_default())
    }
    let lists = IdentityLists {
        controllers: all(client).await?,
        statics: all(client).await?,
        roles: all(client).await?,
        spaces: all(client).await?,
    };
    Ok(IdentityFeeds::of(lists, &Clock::system()))
}

async fn ask(client: &Client, namespace: &str, reach: &Reach, region: &str, identity: &Chain) -> Answer {
    let base = match &identity.base {
        Base::Process => reach.own.as_ref().map(|own| own.source().clone()).map_err(|why| {
            format!("the operator's credentials are asked for with yours, and you have none here: {why}")
        }),
        Base::Secret { identity, secret } => {
            keys(client, namespace, secret).await.map_err(|why| format!("{identity}: {why}"))
        }
    };
    let opened = base.and_then(|base| {
        let region = region.parse::<Region>().map_err(|error| format!("spec.region: {}", chain(&error)))?;
        let door = Door { region, source: identity.onto(base), endpoints: reach.endpoints.clone(), bundle: None };
        reach.cloud.open(&door).map_err(|error| error.message)
    });
    match opened {
        Ok(ec2) => answer(&ec2).await,
        Err(why) => Answer::Unknown(why),
    }
}

/// The access key in a Secret of a static identity.
async fn keys(client: &Client, namespace: &str, secret: &str) -> Result<Source, String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets.get_opt(secret).await;
    let found = found.map_err(|error| format!("Secret {namespace}/{secret} cannot be read: {}", chain(&error)))?;
    let found = found.ok_or_else(|| format!("Secret {namespace}/{secret} is not there"))?;
    let data = found.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
    from_static_identity(&data).map_err(|error| format!("Secret {namespace}/{secret}: {}", chain(&error)))
}

async fn answer(ec2: &impl Ec2) -> Answer {
    let failed = failures(ec2).await;
    // Who is not known at all, or cannot be asked, lacks no single right.
    let lacks = |failed: &&Failed| failed.error.code().is_some_and(|code| LACKING.contains(&code));
    let actions: Vec<&'static str> = failed.iter().filter(lacks).map(|failed| failed.action).collect();
    match failed.first() {
        _ if !actions.is_empty() => Answer::Lacks(actions),
        Some(other) => Answer::Unknown(chain(&other.error)),
        None => Answer::Fine,
    }
}

fn judge(asked: &BTreeMap<String, Answer>) -> Option<Check> {
    let lacking = asked.iter().filter_map(|(place, answer)| match answer {
        Answer::Lacks(actions) => Some(format!("{place}: {} denied", actions.join(", "))),
        Answer::Fine | Answer::Unknown(_) => None,
    });
    let lacking: Vec<String> = lacking.collect();
    let unknown = asked.iter().filter_map(|(place, answer)| match answer {
        Answer::Unknown(why) => Some(format!("{place}: {why}")),
        Answer::Fine | Answer::Lacks(_) => None,
    });
    let unknown: Vec<String> = unknown.collect();
    if !lacking.is_empty() {
        let fix = "attach the policy that `berth iam` prints, or one that allows as much, to the identity";
        return Some(Check::fail(NAME, some(&lacking), fix));
    }
    if !unknown.is_empty() {
        let fix = "give credentials that AWS takes, and for the operator's own identity its own";
        return Some(Check::warn(NAME, format!("cannot be told: {}", some(&unknown)), fix));
    }
    let places: Vec<String> = asked.keys().cloned().collect();
    let found = format!("all {} kinds of reads are allowed in {}", READ.len(), some(&places));
    (!places.is_empty()).then(|| Check::ok(NAME, found))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aws::credentials::Files;
    use bytes::Bytes;
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use k8s_openapi::ByteString;
    use kit::http::Carry;
    use serde_json::{Value, json};
    use sim::ec2::world::faults::Fault;
    use sim::ec2::{self, Handle};
    use sim::server::{Kind, Server};

    use super::super::Level;
    use super::*;

    const GROUP: &str = "infrastructure.cluster.x-k8s.io";
    const SPACE: &str = "berth-system";

    struct Wire(Handle);

    impl Carry for Wire {
        fn carry(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Option<http::Response<Bytes>>> {
            let ec2 = self.0.clone();
            async move { ec2.carry(request).await }.boxed()
        }
    }

    /// A server that knows clusters on EC2, an account, and a way there with the key of that account.
    fn world() -> (Server, Handle, Reach) {
        let server = Server::new(1);
        server.register(Kind::namespaced(GROUP, "v1beta2", "AWSCluster", "awsclusters"));
        for (kind, plural) in [
            ("AWSClusterControllerIdentity", "awsclustercontrolleridentities"),
            ("AWSClusterStaticIdentity", "awsclusterstaticidentities"),
            ("AWSClusterRoleIdentity", "awsclusterroleidentities"),
        ] {
            server.register(Kind::cluster(GROUP, "v1beta2", kind, plural));
        }
        server.namespace("team-a");
        server.namespace(SPACE);
        let clock = Clock::simulated((server.clock())(), 1);
        let account = ec2::without_socket(ec2::Options { time: Some(clock.now()), ..ec2::Options::default() });
        let mut options = Options::new("berth-doctor/test");
        options.carrier = Some(Arc::new(Wire(account.clone())));
        let flag = |service: &str| format!("{service}={}", account.endpoint).parse().unwrap();
        let vars = BTreeMap::from([
            ("AWS_ACCESS_KEY_ID".to_owned(), account.access_key.clone()),
            ("AWS_SECRET_ACCESS_KEY".to_owned(), account.secret.clone()),
        ]);
        let reach = Reach {
            cloud: Aws::new(options, clock, Meter::default()),
            endpoints: Endpoints::new().flag(flag("ec2")).flag(flag("sts")),
            own: Ok(Ambient::decide(&vars, &Files::default()).unwrap()),
        };
        (server, account, reach)
    }

    fn put(server: &Server, kind: &str, name: &str, spec: &Value) {
        let mut metadata = json!({"name": name});
        if kind == "AWSCluster" {
            metadata["namespace"] = json!("team-a");
        }
        let object =
            json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": kind, "metadata": metadata, "spec": spec});
        server.put(object).unwrap();
    }

    async fn check(server: &Server, reach: &Reach) -> Option<Check> {
        rights(&server.client("doctor").kube(), SPACE, reach).await
    }

    #[tokio::test(start_paused = true)]
    async fn rights_to_look_are_asked_for_as_every_identity_and_those_that_are_missing_are_named() {
        let (server, account, reach) = world();
        assert_eq!(check(&server, &reach).await, None, "no cluster names a region");
        put(&server, "AWSCluster", "own", &json!({"region": "us-west-2"}));
        let fine = check(&server, &reach).await.unwrap();
        assert_eq!(fine.level, Level::Ok);
        assert!(fine.found.ends_with("us-west-2 as the operator's own identity"), "{}", fine.found);

        // A tenant with a key of its own, in a Secret beside the operator.
        account.add_user(&account.account, "AKIASIMULATOR0000003", "the-secret-of-the-tenant");
        let reference = json!({"kind": "AWSClusterStaticIdentity", "name": "tenant"});
        put(&server, "AWSCluster", "theirs", &json!({"region": "eu-west-1", "identityRef": reference}));
        let allowed = json!({"list": ["team-a"]});
        let spec = json!({"secretRef": "keys", "allowedNamespaces": allowed});
        put(&server, "AWSClusterStaticIdentity", "tenant", &spec);
        let missing = check(&server, &reach).await.unwrap();
        assert_eq!(missing.level, Level::Warning);
        assert!(missing.found.contains("Secret berth-system/keys is not there"), "{}", missing.found);
        let text = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = json!({
            "AccessKeyID": text("AKIASIMULATOR0000003"), "SecretAccessKey": text("the-secret-of-the-tenant"),
        });
        let meta = json!({"name": "keys", "namespace": SPACE});
        server.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})).unwrap();
        account.clear_log();
        let fine = check(&server, &reach).await.unwrap();
        assert_eq!(fine.level, Level::Ok, "{}", fine.found);
        assert!(fine.found.contains("eu-west-1 as AWSClusterStaticIdentity tenant"), "{}", fine.found);
        let callers: std::collections::BTreeSet<String> =
            account.log().into_iter().map(|entry| entry.access_key).collect();
        assert_eq!(callers.len(), 2, "each was asked with its own key");

        for operation in ["DescribeHosts", "DescribeVolumes"] {
            account.script(Fault::deny(operation));
        }
        let denied = check(&server, &reach).await.unwrap();
        assert_eq!(denied.level, Level::Failure);
        for part in ["us-west-2 as", "eu-west-1 as", "ec2:DescribeHosts, ec2:DescribeVolumes denied"] {
            assert!(denied.found.contains(part), "{part:?} is not in {}", denied.found);
        }
        assert!(denied.fix.unwrap().contains("berth iam"));
        let wrote = account.log().into_iter().filter(|entry| !entry.action.starts_with("Describe")).count();
        assert_eq!(wrote, 0, "the doctor only looks");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_known_to_aws_lacks_no_single_right() {
        let (server, account, mut reach) = world();
        put(&server, "AWSCluster", "own", &json!({"region": "us-west-2"}));
        account.revoke(&account.access_key.clone());
        let unknown = check(&server, &reach).await.unwrap();
        assert_eq!(unknown.level, Level::Warning);
        assert!(!unknown.found.contains("denied"), "{}", unknown.found);
        reach.own = Err("no credentials were found".to_owned());
        let none = check(&server, &reach).await.unwrap();
        assert_eq!(none.level, Level::Warning);
        assert!(none.found.contains("no credentials were found"), "{}", none.found);
        put(&server, "AWSClusterControllerIdentity", "default", &json!({"allowedNamespaces": {"list": ["others"]}}));
        let refused = check(&server, &reach).await.unwrap();
        assert!(refused.found.contains("does not allow the namespace team-a"), "{}", refused.found);
    }
}
