//! Keeping the authority in a Secret and injecting it, for installations without a certificate manager.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use futures::stream::SelectAll;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as KubeSecret;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::authority::{Action, AuthorityError, Bundle, Facts, build, plan};
use super::inject::{Target, TargetKind, injection};
use super::{CertMetrics, Pair, PairError, Slot, standing};
use crate::class::chain;
use crate::clock::Clock;
use crate::gates::{Gate, GateState};

/// The label of objects whose webhooks are Berth's.
pub const PART_OF: &str = "app.kubernetes.io/part-of=berth";

/// How often a replica looks at the Secret; a twelfth of the overlap of authorities.
const LOOK: Duration = Duration::from_secs(300);
/// Conflicts in a row after which it is not a race any more.
const ATTEMPTS: usize = 10;

/// Which objects get the bundle.
#[derive(Clone, Debug)]
pub enum Targets {
    /// All webhook configurations and custom resource definitions with this label selector; they are watched.
    Labelled(String),
    /// These, looked at from time to time.
    Named(Vec<Target>),
}

/// Where the authority lives and what it is for.
#[derive(Clone, Debug)]
pub struct SelfSignedOptions {
    /// The namespace of the Secret.
    pub namespace: String,
    /// The name of the Secret.
    pub secret: String,
    /// The names and addresses by which the API server calls us.
    pub names: BTreeSet<String>,
    /// Which objects get the bundle.
    pub targets: Targets,
}

impl SelfSignedOptions {
    /// The Secret `berth-webhook-certs`, the in-cluster names of a Service, and all objects with Berth's label.
    #[must_use]
    pub fn for_service(service: &str, namespace: &str) -> Self {
        let base = format!("{service}.{namespace}");
        Self {
            namespace: namespace.to_owned(),
            secret: "berth-webhook-certs".to_owned(),
            names: [format!("{base}.svc"), format!("{base}.svc.cluster.local"), base].into(),
            targets: Targets::Labelled(PART_OF.to_owned()),
        }
    }
}

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
pub enum SelfSignedError {
    /// The Secret cannot be read.
    #[error("cannot read Secret {namespace}/{name}")]
    ReadSecret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What the client says.
        #[source]
        source: Box<kube::Error>,
    },
    /// The Secret cannot be written.
    #[error("cannot write Secret {namespace}/{name}")]
    WriteSecret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What the client says.
        #[source]
        source: Box<kube::Error>,
    },
    /// Every attempt to write met somebody else's write.
    #[error("Secret {namespace}/{name} keeps changing under our hands")]
    Contended {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A certificate cannot be made.
    #[error("cannot make the certificates")]
    Make(#[source] AuthorityError),
    /// What was stored cannot be served.
    #[error("the stored pair cannot be served")]
    Serve(#[source] PairError),
    /// The objects of a kind cannot be read.
    #[error("cannot read {kind} objects")]
    ReadTargets {
        /// The kind.
        kind: &'static str,
        /// What the client says.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object cannot be patched.
    #[error("cannot inject the CA into {kind} {name}")]
    Inject {
        /// The kind.
        kind: &'static str,
        /// The object.
        name: String,
        /// What the client says.
        #[source]
        source: Box<kube::Error>,
    },
}

/// What an injection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Objects looked at.
    pub seen: usize,
    /// Objects patched.
    pub patched: usize,
    /// Objects that changed or went away between read and patch.
    pub stale: usize,
}

/// Keeps authority, leaf and injected bundle in order; every replica runs one.
#[derive(Clone)]
pub struct SelfSigned {
    client: Client,
    clock: Clock,
    options: SelfSignedOptions,
    slot: Slot,
    gate: Gate,
    metrics: CertMetrics,
}

impl SelfSigned {
    /// A keeper that has done nothing yet.
    #[must_use]
    pub fn new(
        client: Client,
        clock: Clock,
        options: SelfSignedOptions,
        slot: Slot,
        gate: Gate,
        metrics: CertMetrics,
    ) -> Self {
        Self { client, clock, options, slot, gate, metrics }
    }

    /// Runs until `stop`: looks at the Secret from time to time and when a step is due, and at the targets when the
    /// bundle or one of them changed.
    pub async fn run(self, stop: CancellationToken) {
        let mut news = self.news();
        let mut failures = 0u32;
        // The bundle that every target is known to trust.
        let mut trusted = None;
        loop {
            let outcome = self.look(&mut trusted).await;
            let pause = match &outcome {
                Ok(next) => {
                    failures = 0;
                    LOOK.min(Duration::try_from(next.duration_since(self.clock.now())).unwrap_or_default())
                }
                Err(_) => {
                    failures = failures.saturating_add(1);
                    Duration::from_secs(1 << failures.min(5))
                }
            };
            self.show(outcome.as_ref().err());
            let pause = pause.max(Duration::from_secs(1)) + self.clock.jitter(Duration::from_secs(1));
            tokio::select! {
                () = stop.cancelled() => return,
                // Named targets are not watched, so they are read again; that is a GET each, not a list.
                () = tokio::time::sleep(pause) => if matches!(self.options.targets, Targets::Named(_)) { trusted = None },
                Some(_) = news.next() => trusted = None,
            }
        }
    }

    /// One whole round: brings the Secret in order, serves its leaf, injects its bundle; returns when to look again.
    ///
    /// # Errors
    /// Says what could not be read or written; what is served stays.
    pub async fn round(&self) -> Result<Timestamp, SelfSignedError> {
        self.look(&mut None).await
    }

    async fn look(&self, trusted: &mut Option<String>) -> Result<Timestamp, SelfSignedError> {
        let (bundle, until) = self.ensure().await?;
        let pair = Pair::from_pem(bundle.leaf.as_bytes(), bundle.leaf_key.expose().as_bytes());
        let pair = pair.map_err(SelfSignedError::Serve)?;
        if !self.slot.shows(&pair) {
            tracing::info!(gate = self.gate.name(), not_after = %pair.validity().not_after, "key pair loaded");
            self.slot.store(pair);
        }
        if trusted.as_ref() == Some(&bundle.ca) {
            return Ok(until);
        }
        let injected = self.inject(&bundle).await?;
        if injected.patched > 0 {
            tracing::info!(seen = injected.seen, patched = injected.patched, "CA bundle injected");
        }
        if injected.stale > 0 {
            return Ok(self.clock.now());
        }
        *trusted = Some(bundle.ca);
        Ok(until)
    }

    /// Brings the Secret in order and returns what all replicas share, with the time of the next step.
    ///
    /// # Errors
    /// When the Secret cannot be read or written, or keeps changing.
    pub async fn ensure(&self) -> Result<(Bundle, Timestamp), SelfSignedError> {
        let SelfSignedOptions { namespace, secret: name, names, .. } = &self.options;
        let api: Api<KubeSecret> = Api::namespaced(self.client.clone(), namespace);
        let write_failed = |source| SelfSignedError::WriteSecret {
            namespace: namespace.clone(),
            name: name.clone(),
            source: Box::new(source),
        };
        for _ in 0..ATTEMPTS {
            let found = api.get_opt(name).await.map_err(|source| SelfSignedError::ReadSecret {
                namespace: namespace.clone(),
                name: name.clone(),
                source: Box::new(source),
            })?;
            let stored = found.as_ref().and_then(stored_bundle);
            let now = self.clock.now();
            let facts = stored.as_ref().map(Facts::read);
            let action = plan(facts.as_ref(), names, now);
            let made = build(&action, stored.as_ref(), names, now).map_err(SelfSignedError::Make)?;
            let Some(made) = made else {
                match (stored, action) {
                    (Some(stored), Action::Keep { until }) => return Ok((stored, until)),
                    // `build` makes something for every other action; a bare loop is the safe reading of "never".
                    _ => continue,
                }
            };
            tracing::info!(namespace, name, step = ?action, "writing webhook certificates");
            let written = match &found {
                None => api.create(&PostParams::default(), &self.object(&made)).await,
                Some(old) => {
                    let patch = json!({
                        "metadata": {"resourceVersion": old.resource_version()},
                        "data": encoded(&made),
                    });
                    let params = PatchParams { field_manager: Some("berth-kit".to_owned()), ..PatchParams::default() };
                    api.patch(name, &params, &Patch::Merge(patch)).await
                }
            };
            match written {
                Ok(_) => {}
                // Somebody else was first: theirs counts, so read it and decide anew. (404: it was deleted.)
                Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {}
                Err(source) => return Err(write_failed(source)),
            }
        }
        Err(SelfSignedError::Contended { namespace: namespace.clone(), name: name.clone() })
    }

    fn object(&self, bundle: &Bundle) -> KubeSecret {
        let mut secret = KubeSecret::default();
        secret.metadata.name = Some(self.options.secret.clone());
        secret.metadata.namespace = Some(self.options.namespace.clone());
        let labels = [("app.kubernetes.io/part-of", "berth"), ("app.kubernetes.io/managed-by", "berth")];
        secret.metadata.labels = Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        secret.type_ = Some("Opaque".to_owned());
        secret.data = Some(bundle.to_data().into_iter().map(|(key, value)| (key, ByteString(value))).collect());
        secret
    }

    /// Makes every target trust the bundle; writes only where it differs.
    ///
    /// # Errors
    /// When a target cannot be read or patched; the others were still seen to.
    pub async fn inject(&self, bundle: &Bundle) -> Result<Injected, SelfSignedError> {
        let encoded = STANDARD.encode(&bundle.ca);
        let mut done = Injected::default();
        let mut failed = None;
        for kind in TargetKind::ALL {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.resource());
            let objects = match self.objects(kind, &api).await {
                Ok(objects) => objects,
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            for object in objects {
                done.seen += 1;
                let name = object.name_any();
                let value = serde_json::to_value(&object).unwrap_or(Value::Null);
                let Some(patch) = injection(kind, &value, &encoded) else { continue };
                match api.patch(&name, &PatchParams::default(), &Patch::Json::<()>(patch)).await {
                    Ok(_) => done.patched += 1,
                    // The object moved between read and write (409, or 422 for the failed test) or is gone: it is
                    // looked at again soon.
                    Err(kube::Error::Api(status)) if [404, 409, 422].contains(&status.code) => {
                        done.stale += 1;
                        tracing::debug!(kind = kind.kind(), name, code = status.code, "injection was stale");
                    }
                    Err(source) => {
                        failed = Some(SelfSignedError::Inject { kind: kind.kind(), name, source: Box::new(source) });
                    }
                }
            }
        }
        match failed {
            None => Ok(done),
            Some(error) => Err(error),
        }
    }

    async fn objects(&self, kind: TargetKind, api: &Api<DynamicObject>) -> Result<Vec<DynamicObject>, SelfSignedError> {
        let failed = |source| SelfSignedError::ReadTargets { kind: kind.kind(), source: Box::new(source) };
        match &self.options.targets {
            Targets::Labelled(selector) => {
                Ok(api.list(&ListParams::default().labels(selector)).await.map_err(failed)?.items)
            }
            Targets::Named(targets) => {
                let mut found = Vec::new();
                for target in targets.iter().filter(|target| target.kind == kind) {
                    found.extend(api.get_opt(&target.name).await.map_err(failed)?);
                }
                Ok(found)
            }
        }
    }

    /// Something for every change of a labelled target, so that one that is applied anew is trusted again at once.
    fn news(&self) -> futures::stream::BoxStream<'static, Vec<()>> {
        let Targets::Labelled(selector) = &self.options.targets else { return futures::stream::pending().boxed() };
        let mut all = SelectAll::new();
        for kind in TargetKind::ALL {
            let api = Api::all_with(self.client.clone(), &kind.resource());
            all.push(changes(api, watcher::Config::default().labels(selector), kind));
        }
        // A list is many events at one time and deserves one look.
        all.ready_chunks(256).boxed()
    }

    fn show(&self, failed: Option<&SelfSignedError>) {
        let problem = failed.map(|error| chain(error as &dyn std::error::Error));
        if let Some(problem) = &problem {
            self.metrics.refused(self.gate.name());
            tracing::warn!(gate = self.gate.name(), error = problem, "webhook certificates are not in order");
        }
        let served = self.slot.validity();
        if let Some(validity) = served {
            self.metrics.serving(self.gate.name(), validity);
        }
        let (state, detail) = standing(served, problem.as_deref(), self.clock.now());
        match state {
            GateState::Ready => self.gate.ready(detail),
            GateState::Waiting => self.gate.waiting(detail),
            GateState::Blocked => self.gate.blocked(detail),
        }
    }
}

fn changes(
    api: Api<PartialObjectMeta<DynamicObject>>,
    config: watcher::Config,
    kind: TargetKind,
) -> futures::stream::BoxStream<'static, ()> {
    watcher(api, config)
        .backoff(crate::feed::Reconnect::default())
        .filter_map(move |event| async move {
            match event {
                // A list that is made anew may hold what a broken watch did not tell.
                Ok(watcher::Event::Apply(_) | watcher::Event::InitApply(_)) => Some(()),
                Ok(_) => None,
                Err(error) => {
                    tracing::debug!(kind = kind.kind(), error = chain(&error), "watch failed");
                    None
                }
            }
        })
        .boxed()
}

fn stored_bundle(secret: &KubeSecret) -> Option<Bundle> {
    let data: BTreeMap<String, Vec<u8>> =
        secret.data.as_ref()?.iter().map(|(key, value)| (key.clone(), value.0.clone())).collect();
    Bundle::from_data(&data)
}

fn encoded(bundle: &Bundle) -> BTreeMap<String, String> {
    bundle.to_data().into_iter().map(|(key, value)| (key, STANDARD.encode(value))).collect()
}
