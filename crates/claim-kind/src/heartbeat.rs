//! The heartbeat of a kind that is served by this process: the kind's object says that somebody is there.
//!
//! A room that serves a kind mounts one. While this process decides, the kind's HostClaimKind is made if there is none,
//! and the time of the last report in its status is renewed. What an administrator wrote into its spec stays.

use std::collections::BTreeMap;
use std::time::Duration;

use api::key::ObjectKey;
use api::own::{ArgSchema, Capability, HostClaimKindSpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::class::chain;
use kit::clock::Clock;
use kit::feed::{Feed, Phase, Seen};
use kit::kinds;
use kit::lease::Leadership;
use kit::manager::{self, Manager, Stage};
use kit::write::{self, Created, Target, Writer};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::HEARTBEAT;
use crate::observe::{HostClaimKind, Kind};

/// The pause after a report that could not be made; far below what makes a heartbeat stale.
const RETRY: Duration = Duration::from_secs(5);

/// What a controller says of the kind it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindProfile {
    /// The kind, as claims name it.
    pub name: &'static str,
    /// Who serves it.
    pub controller_name: &'static str,
    /// What machines of the kind can do.
    pub capabilities: &'static [Capability],
    /// Whether a machine can be given to another claim after its release.
    pub recyclable: bool,
    /// The arguments a claim may carry.
    pub args: BTreeMap<String, ArgSchema>,
}

impl KindProfile {
    fn body(&self) -> Value {
        let spec = HostClaimKindSpec {
            controller_name: self.controller_name.to_owned(),
            args_schema: self.args.clone(),
            capabilities: self.capabilities.iter().copied().collect(),
            recyclable: self.recyclable,
        };
        json!(api::own::HostClaimKind::new(self.name, spec))
    }
}

/// Reports, while this process decides and `serves` says so, that the kind is served.
///
/// # Errors
/// When another room follows HostClaimKinds by another view.
pub fn mount(
    manager: &Manager,
    profile: KindProfile,
    serves: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<(), manager::Error> {
    let heart = Heart {
        kinds: manager.feed::<Kind>()?,
        writer: Writer::new(manager.client().clone(), "heartbeat"),
        clock: manager.clock().clone(),
        leadership: manager.leadership(),
        serves: Box::new(serves),
        profile,
    };
    let name = format!("heartbeat {}", heart.profile.name);
    manager.spawn(Stage::Decide, &name, |stop| heart.run(stop));
    Ok(())
}

struct Heart {
    kinds: Feed<Kind>,
    writer: Writer,
    clock: Clock,
    leadership: Leadership,
    serves: Box<dyn Fn() -> bool + Send + Sync>,
    profile: KindProfile,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the HostClaimKind names the controller {0} instead of this one, so it is left alone")]
    Foreign(Box<str>),
    #[error(transparent)]
    Write(#[from] write::Error),
}

impl Heart {
    async fn run(self, stop: CancellationToken) {
        let mut standing = self.leadership.standing();
        tokio::select! {
            () = stop.cancelled() => return,
            () = self.kinds.settled() => {}
        }
        loop {
            let pause = if self.leadership.leads() { self.report().await } else { HEARTBEAT };
            let turned = async {
                // Without a lease nobody will ever tell of a change.
                if standing.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = turned => {}
            }
        }
    }

    /// One report, and the pause until the next.
    async fn report(&self) -> Duration {
        let kind = self.profile.name;
        match tokio::time::timeout(HEARTBEAT, self.beat(self.clock.now())).await {
            Ok(Ok(true)) => HEARTBEAT,
            Ok(Ok(false)) => RETRY,
            Ok(Err(error)) => {
                tracing::warn!(kind, error = %chain(&error), "the heartbeat of a kind could not be renewed");
                RETRY
            }
            Err(_) => {
                tracing::warn!(kind, "renewing the heartbeat of a kind took too long");
                RETRY
            }
        }
    }

    /// Renews the heartbeat; false when there is nothing to renew yet.
    async fn beat(&self, now: Timestamp) -> Result<bool, Error> {
        // Who cannot see a single machine serves nobody.
        if !(self.serves)() {
            return Ok(false);
        }
        let key = ObjectKey::cluster_scoped(self.profile.name);
        let kind = kinds::Kind::of::<HostClaimKind>();
        let (uid, controller) = match self.kinds.get(&key) {
            Seen::At(found) => (found.uid.clone(), found.controller.clone()),
            Seen::Behind => return Ok(false),
            Seen::Absent if self.kinds.phase() != Phase::Synced => return Ok(false),
            Seen::Absent => match self.writer.create(&kind, None, &self.profile.body()).await? {
                Created::New(version) => (version.uid, self.profile.controller_name.into()),
                Created::Existing(found) => (text(&found, "/metadata/uid"), text(&found, "/spec/controllerName")),
            },
        };
        if &*controller != self.profile.controller_name {
            return Err(Error::Foreign(controller));
        }
        let target = Target { kind, key, uid };
        self.writer.status(&target, &json!({"lastHeartbeat": Time(now)})).await?;
        Ok(true)
    }
}

fn text(object: &Value, path: &str) -> Box<str> {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default().into()
}
