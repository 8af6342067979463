//! The runtime extension: the hooks of the wire side, answered by the gate and the pure functions over templates.

use api::key::ObjectKey;
use api::names::{DnsLabel, DnsSubdomain};
use bytes::Bytes;
use kit::class::chain;
use kit::feed::Seen;
use tokio::time::{Instant, timeout_at};

use crate::facts::ClusterFacts;
use crate::gate::Gate;
use crate::hooks::{Answer, Handlers, LifecycleRequest, Reply};
use crate::names::{CONTROL_PLANE_ENABLED, Slot, VIP_ONLY};
use crate::observe;
use crate::scene::Live;
use crate::topology::{self, Means, Settings, Standing, Subject, TopologyRequest};

/// Everything that Cluster API can call.
pub struct Extension {
    gate: Gate,
}

impl Extension {
    /// The extension in front of a gate.
    #[must_use]
    pub const fn new(gate: Gate) -> Self {
        Self { gate }
    }

    /// What is known of the Cluster that a request is about: from the index, and live when the index cannot know better.
    async fn standing(&self, request: &TopologyRequest, deadline: Instant) -> Result<Standing, &'static str> {
        let Some(subject) = Subject::of(request) else { return Ok(Standing::default()) };
        if subject.name.parse::<DnsSubdomain>().is_err() || subject.namespace.parse::<DnsLabel>().is_err() {
            return Ok(Standing::default());
        }
        let key = ObjectKey::namespaced(subject.namespace.as_str(), subject.name.as_str());
        if let Seen::At(cluster) = self.gate.world.clusters.get(&key) {
            let same = subject.uid.as_deref().is_none_or(|uid| uid == &*cluster.uid);
            if same && cluster.endpoint.is_valid() {
                return Ok(self.stands(&cluster));
            }
        }
        let limit = self.gate.limit(deadline);
        match timeout_at(limit, observe::live(self.gate.hand.client(), &self.gate.world, &key)).await {
            Ok(Ok(Live::At(live))) => Ok(self.stands(&live.facts)),
            Ok(Ok(Live::Absent | Live::Unread)) => Ok(Standing::default()),
            Ok(Err(error)) => {
                tracing::warn!(cluster = %key, error = %chain(&*error), "the Cluster could not be read");
                Err("the API server is unavailable: reading the Cluster")
            }
            Err(_) => Err("the API server does not answer: reading the Cluster"),
        }
    }

    /// Tells people what is wrong with the templates of a Cluster; that nothing can be said of it yet is no news.
    async fn tell(&self, request: &TopologyRequest, standing: &Standing, findings: Option<&String>) {
        let judged = matches!(Means::of(request, standing), Ok(Some(_)));
        if let (Some(findings), Some(key), Some(uid), true) = (findings, key_of(request), &standing.uid, judged) {
            self.gate.teller.refused(&key, uid, findings).await;
        }
    }

    fn stands(&self, cluster: &ClusterFacts) -> Standing {
        let class = cluster.class.as_ref().and_then(|class| match self.gate.world.classes.get(class) {
            Seen::At(class) => Some(class),
            Seen::Absent | Seen::Behind => None,
        });
        let enabled = cluster.annotation(CONTROL_PLANE_ENABLED).or_else(|| {
            class.as_ref().and_then(|class| class.annotations.get(CONTROL_PLANE_ENABLED)).map(String::as_str)
        });
        let vip = |slot: Slot| Some((slot, cluster.annotation(slot.annotation())?.to_owned()));
        Standing {
            found: true,
            uid: Some(cluster.uid.to_string()).filter(|uid| !uid.is_empty()),
            endpoint: cluster.endpoint.clone(),
            vips: Slot::ALL.into_iter().filter_map(vip).collect(),
            opted_out: enabled == Some("false"),
            vip_only: cluster.annotation(VIP_ONLY) == Some("true"),
        }
    }
}

fn key_of(request: &TopologyRequest) -> Option<ObjectKey> {
    Subject::of(request).map(|subject| ObjectKey::namespaced(subject.namespace, subject.name))
}

impl Handlers for Extension {
    async fn before_create(&self, request: LifecycleRequest, deadline: Instant) -> Answer {
        self.gate.before_create(request.cluster, &request.settings, deadline).await
    }

    async fn before_delete(&self, request: LifecycleRequest, deadline: Instant) -> Answer {
        self.gate.before_delete(request.cluster, deadline).await
    }

    async fn generate_patches(&self, body: Bytes, deadline: Instant) -> Reply {
        let request = match topology::parse_generate(&body) {
            Ok(request) => request,
            Err(message) => return topology::answer_generate(Err(&message)).into(),
        };
        let result = match Settings::read(&request.settings) {
            Err(error) => Err(error.to_string()),
            Ok(settings) => match self.standing(&request, deadline).await {
                Err(message) => Err(message.to_owned()),
                Ok(standing) => topology::generate(&request, &settings, &standing),
            },
        };
        let answer = topology::answer_generate(result.as_deref().map_err(String::as_str));
        Reply { cluster: key_of(&request), unknown: topology::unknown_keys(&request.settings), body: answer }
    }

    async fn validate_topology(&self, body: Bytes, deadline: Instant) -> Reply {
        let request = match topology::parse_validate(&body) {
            Ok(request) => request,
            Err(message) => return topology::answer_validate(Err(&message)).into(),
        };
        let result = match Settings::read(&request.settings) {
            Err(error) => Err(error.to_string()),
            Ok(settings) => match self.standing(&request, deadline).await {
                Err(message) => Err(message.to_owned()),
                Ok(standing) => {
                    let result = topology::validate(&request, &settings, &standing);
                    self.tell(&request, &standing, result.as_ref().err()).await;
                    result
                }
            },
        };
        let answer = topology::answer_validate(match &result {
            Ok(()) => Ok(()),
            Err(message) => Err(message),
        });
        Reply { cluster: key_of(&request), unknown: topology::unknown_keys(&request.settings), body: answer }
    }

    async fn discover_variables(&self, body: Bytes) -> Reply {
        let request = match topology::parse_discover(&body) {
            Ok(request) => request,
            Err(message) => return topology::answer_discover(Err(&message)).into(),
        };
        let settings = Settings::read(&request.settings).map_err(|error| error.to_string());
        let result = settings.map(|settings| topology::variables(&settings));
        let answer = topology::answer_discover(result.as_deref().map_err(String::as_str));
        Reply { cluster: None, unknown: topology::unknown_keys(&request.settings), body: answer }
    }
}
