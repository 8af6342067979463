//! The controller: reads claims, asks the platform, acts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::names::claims::{REBOOT_ANNOTATION, finalizer};
use api::names::{CLUSTER_NAME_LABEL, PAUSED_ANNOTATION};
use api::own::{FailureDomainMode, HostClaimQuota, HostClaimSpec, HostClaimStatus, PendingReboot};
use api::raw::HostClaim;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kit::class::{Class, Classify};
use kit::clock::Clock;
use kit::events::Events;
use kit::feed::{Feed, Project, Seen, Version};
use kit::kinds;
use kit::manager::{self, Manager};
use kit::queue::Priority;
use kit::room::{Driver, Flow, Report, Room, Trouble, Violation};
use kit::write::{self, Target, Writer};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use super::cloud::{Cloud, Machine, Order, Refused, ZONES};
use super::decide::{self, Block, Step};
use super::{Fake, Flaw, status};
use crate::held::Held;
use crate::quota::{Allowance, Quota};

const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(300);
const IMAGES: &str = "https://images.example.org/";

/// HostClaims, as this controller keeps them.
pub struct Claims;

/// One claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub uid: Box<str>,
    pub generation: i64,
    pub deleting: bool,
    pub finalizers: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub spec: HostClaimSpec,
    pub status: HostClaimStatus,
}

impl Project for Claims {
    type Source = HostClaim;
    type Slim = Facts;

    fn slim(source: HostClaim) -> Facts {
        let HostClaim { metadata, spec, status } = source;
        Facts {
            uid: metadata.uid.unwrap_or_default().into(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            spec: serde_json::from_value(spec).unwrap_or_default(),
            status: serde_json::from_value(status).unwrap_or_default(),
        }
    }
}

/// One claim at one moment.
pub struct Snapshot {
    pub fake: Fake,
    pub key: ObjectKey,
    pub resource: kinds::Kind,
    pub claim: Arc<Facts>,
    pub version: Version,
    pub paused: bool,
    /// The machine of the claim, if the platform could say.
    pub machine: Result<Option<Machine>, Refused>,
    /// What to order, or what stands against it.
    pub order: Result<Order, Block>,
    pub now: Timestamp,
    /// When to look again at what does not tell of itself.
    pub retry: Timestamp,
    /// When to look again at what should be done at once.
    pub soon: Timestamp,
}

impl Snapshot {
    pub fn has_finalizer(&self) -> bool {
        self.claim.finalizers.contains(&finalizer("fake"))
    }

    pub fn target(&self) -> Target {
        Target { kind: self.resource.clone(), key: self.key.clone(), uid: self.claim.uid.clone() }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the index is behind our own write")]
    Behind,
    #[error("reading what the claim names")]
    Read(#[source] Box<kube::Error>),
    #[error(transparent)]
    Write(#[from] write::Error),
    #[error("the platform refused")]
    Cloud(#[from] Refused),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Read(Box::new(error))
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Behind => Class::Stale,
            Self::Read(error) => error.class(),
            Self::Write(error) => error.class(),
            Self::Cloud(_) => Class::Transient { at_least: Some(SHORTEST) },
        }
    }
}

/// The room.
pub struct FakeRoom {
    fake: Fake,
    cloud: Arc<Cloud>,
    claims: Feed<Claims>,
    writer: Writer,
    events: Events,
    clock: Clock,
    /// How often each claim was looked at in vain.
    vain: Mutex<BTreeMap<ObjectKey, u32>>,
    /// Who holds a machine, those included that are being ordered: the platform does not show them yet.
    allowance: Mutex<Allowance>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeRoom {
    fn flawed(&self, flaw: Flaw) -> bool {
        self.fake.flaw == Some(flaw)
    }

    fn pause(&self, key: &ObjectKey) -> Duration {
        if self.flawed(Flaw::Polls) {
            return Duration::from_secs(1);
        }
        let vain = lock(&self.vain).get(key).copied().unwrap_or_default().min(10);
        SHORTEST.saturating_mul(1 << vain).min(LONGEST) + self.clock.jitter(Duration::from_secs(1))
    }

    /// Whether the claim is as it was seen: for a claim that has gone meanwhile nothing may be made.
    async fn is_current(&self, s: &Snapshot) -> Result<bool, Error> {
        let gvk = GroupVersionKind::gvk("metal3.io", "v1alpha1", "HostClaim");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "hostclaims");
        let (client, home) = (self.writer.client().clone(), s.key.namespace().unwrap_or_default());
        let claims: Api<DynamicObject> = Api::namespaced_with(client, home, &resource);
        let live = claims.get_opt(s.key.name()).await?;
        Ok(live.is_some_and(|live| {
            let meta = live.metadata;
            let held = meta.finalizers.is_some_and(|all| all.contains(&finalizer("fake")));
            meta.uid.as_deref() == Some(&*s.claim.uid)
                && meta.deletion_timestamp.is_none()
                && (held || self.flawed(Flaw::ActsBeforeFinalizer))
        }))
    }

    async fn paused(&self, key: &ObjectKey, claim: &Facts) -> Result<bool, Error> {
        if claim.annotations.contains_key(PAUSED_ANNOTATION) {
            return Ok(true);
        }
        let Some(name) = claim.labels.get(CLUSTER_NAME_LABEL) else { return Ok(false) };
        let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "clusters");
        let client = self.writer.client().clone();
        let clusters: Api<DynamicObject> = Api::namespaced_with(client, key.namespace().unwrap_or_default(), &resource);
        let cluster = clusters.get_opt(name).await?;
        Ok(cluster.is_some_and(|cluster| cluster.data.pointer("/spec/paused") == Some(&json!(true))))
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, Error> {
        let secrets: Api<Secret> = Api::namespaced(self.writer.client().clone(), namespace);
        Ok(secrets.get_opt(name).await?)
    }

    /// What the claim asks for, or the first thing that stands against it.
    async fn order(&self, key: &ObjectKey, claim: &Facts) -> Result<Result<Order, Block>, Error> {
        let (spec, home) = (&claim.spec, key.namespace().unwrap_or_default());
        let account = spec.args.get("account").map(String::as_str).unwrap_or_default();
        let account = match account.split_once('/') {
            Some((namespace, name)) if self.flawed(Flaw::ReadsAnyNamespace) => (namespace, name),
            Some(_) => return Ok(Err(Block::Credentials)),
            None => (home, account),
        };
        if self.secret(account.0, account.1).await?.is_none() {
            return Ok(Err(Block::Credentials));
        }
        let image = spec.image.as_ref().map(|image| image.url.clone());
        let known = image.as_ref().is_some_and(|image| image.starts_with(IMAGES));
        if !known && !self.flawed(Flaw::BootsAnything) {
            return Ok(Err(Block::Image));
        }
        if spec.network_data.is_some() {
            return Ok(Err(Block::Data));
        }
        let mut data = BTreeMap::new();
        for (field, named) in [("userData", &spec.user_data), ("metaData", &spec.meta_data)] {
            let Some(name) = named.as_ref().and_then(|named| named.name.as_deref()) else { continue };
            let found = self.secret(home, name).await?.and_then(|secret| secret.data);
            let Some(value) = found.and_then(|mut found| found.remove(field)) else {
                return Ok(Err(Block::Secret(field)));
            };
            data.insert(field.to_owned(), String::from_utf8_lossy(&value.0).into_owned());
        }
        let wished = spec.failure_domain.as_deref();
        let zone = match wished.filter(|wished| ZONES.contains(wished)) {
            Some(zone) => zone,
            None if spec.failure_domain_mode == FailureDomainMode::Required
                && wished.is_some()
                && !self.flawed(Flaw::IgnoresZone) =>
            {
                return Ok(Err(Block::Zone));
            }
            None => ZONES[0],
        };
        let (claim, tenant, zone) = (claim.uid.to_string(), home.to_owned(), zone.to_owned());
        Ok(Ok(Order { claim, tenant, image, zone, data }))
    }

    /// Whether every quota leaves room for the claim; room is taken at once, so that two claims never pass together.
    async fn has_room(&self, order: &Order, machines: &[Machine]) -> Result<bool, Error> {
        if self.flawed(Flaw::IgnoresQuota) {
            return Ok(true);
        }
        let quotas: Api<HostClaimQuota> = Api::all(self.writer.client().clone());
        let quotas = quotas.list(&ListParams::default()).await?;
        let mut allowance = lock(&self.allowance);
        for quota in quotas.items {
            let name = quota.metadata.name.unwrap_or_default();
            allowance.quota(&name, Some(Quota::new(quota.spec, None)));
        }
        let claims = self.claims.all();
        let others: Vec<(&str, Held)> = claims
            .iter()
            .filter(|(_, claim)| claim.spec.kind != "fake")
            .filter_map(|(key, claim)| {
                let held = Held::of(&claim.uid, &claim.spec.kind, &claim.status, None)?;
                Some((key.namespace().unwrap_or_default(), held))
            })
            .collect();
        allowance.elsewhere(others.iter().map(|(tenant, held)| (*tenant, held)));
        for machine in machines {
            allowance.hold(&machine.order.claim, &machine.order.tenant, BTreeMap::new());
        }
        Ok(allowance.take(&order.claim, &order.tenant, BTreeMap::new()).is_ok())
    }

    fn find(&self, claim: &Facts, machines: &[Machine]) -> Option<Machine> {
        let recorded = claim.status.resource_id.as_deref();
        let ours = |machine: &&Machine| match self.flawed(Flaw::ForgetsToken) {
            true => Some(machine.id.as_str()) == recorded,
            false => machine.token == *claim.uid,
        };
        machines.iter().find(ours).cloned()
    }
}

impl Room for FakeRoom {
    const NAME: &'static str = "fake";
    type Key = ObjectKey;
    type Snapshot = Snapshot;
    type Step = Step;
    type Status = HostClaimStatus;
    type Error = Error;

    async fn observe(&self, key: &ObjectKey, now: Timestamp) -> Result<Option<Snapshot>, Error> {
        let claim = match self.claims.get(key) {
            Seen::At(claim) if claim.spec.kind == "fake" || self.flawed(Flaw::TouchesOtherKinds) => claim,
            Seen::At(_) | Seen::Absent => return Ok(None),
            Seen::Behind => return Err(Error::Behind),
        };
        let Some(version) = self.claims.version(key, &claim) else { return Err(Error::Behind) };
        let paused = self.paused(key, &claim).await?;
        let listed = self.cloud.list();
        let machine = listed.as_ref().map(|all| self.find(&claim, all)).map_err(Clone::clone);
        let mut order = self.order(key, &claim).await?;
        let full = match (&order, &machine, &listed) {
            (Ok(wanted), Ok(None), Ok(all)) if !(claim.deleting || paused) => !self.has_room(wanted, all).await?,
            _ => false,
        };
        if full {
            order = Err(Block::Quota);
        }
        let at = |pause: Duration| now.checked_add(pause).unwrap_or(now);
        Ok(Some(Snapshot {
            fake: self.fake,
            key: key.clone(),
            resource: self.claims.kind(),
            claim,
            version,
            paused,
            machine,
            order,
            now,
            retry: at(self.pause(key)),
            soon: at(Duration::from_secs(1)),
        }))
    }

    fn decide(&self, snapshot: &Snapshot) -> Vec<Step> {
        decide::decide(snapshot)
    }

    fn guard(&self, _: &Snapshot, _: &[Step]) -> Result<(), Violation> {
        // Its flaws must show in what it does.
        Ok(())
    }

    async fn apply(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        if !matches!(step, Step::Wait { .. }) {
            lock(&self.vain).remove(&s.key);
        }
        let written = match step {
            Step::Wait { until } => {
                *lock(&self.vain).entry(s.key.clone()).or_default() += 1;
                return Ok(Flow::Wait(Some(until)));
            }
            Step::Finalize => {
                let (seen, ours) = (&s.claim.finalizers, finalizer("fake"));
                self.writer.add_finalizer(&s.target(), seen, &s.version, &ours).await?
            }
            Step::Create(order) => {
                if !self.is_current(s).await? {
                    return Err(Error::Behind);
                }
                let token = match self.flawed(Flaw::ForgetsToken) {
                    true => format!("{}-{}", order.claim, self.cloud.calls()),
                    false => order.claim.clone(),
                };
                self.cloud.create(&token, order).await?;
                if self.flawed(Flaw::ForgetsToken) {
                    // Without a record the next look would order another one.
                    let made = self.cloud.list()?.into_iter().find(|machine| machine.token == token);
                    let next = HostClaimStatus { resource_id: made.map(|m| m.id), ..s.claim.status.clone() };
                    let version = self.writer.status_at(&s.target(), &next, &s.version).await?;
                    self.claims.wrote(&s.key, &version);
                }
                return Ok(Flow::Again);
            }
            Step::Power { id, on } => {
                self.cloud.power(&id, on).await?;
                return Ok(Flow::Again);
            }
            Step::Pend { request } => {
                let pending = PendingReboot { id: request, mode: None };
                let next = HostClaimStatus { pending_reboot: Some(pending), ..s.claim.status.clone() };
                Some(self.writer.status_at(&s.target(), &next, &s.version).await?)
            }
            Step::Reboot { id, request } => {
                self.cloud.reboot(&id, &request).await?;
                None
            }
            Step::Withdraw => {
                let path = format!("/metadata/annotations/{}", REBOOT_ANNOTATION.replace('/', "~1"));
                let asked = s.claim.annotations.get(REBOOT_ANNOTATION);
                let operations = vec![write::test(&path, json!(asked)), write::remove(&path)];
                Some(self.writer.operations(&s.target(), operations).await?)
            }
            Step::Decline => {
                let text = "Machines of this kind cannot be rebooted; the request was taken off the claim.";
                self.events.say(&s.target(), true, "RebootUnsupported", text).await;
                None
            }
            Step::Destroy { id } => {
                self.cloud.destroy(&id).await?;
                None
            }
            Step::Unfinalize => {
                lock(&self.allowance).give_back(&s.claim.uid);
                self.writer.remove_finalizer(&s.target(), &s.claim.finalizers, &finalizer("fake")).await?
            }
        };
        if let Some(version) = written {
            self.claims.wrote(&s.key, &version);
        }
        Ok(Flow::Next)
    }

    fn report<'s>(&self, s: &'s Snapshot, trouble: Option<&Trouble<Error>>) -> Option<Report<'s, HostClaimStatus>> {
        status::report(s, trouble)
    }

    fn wrote(&self, key: &ObjectKey, version: &Version) {
        self.claims.wrote(key, version);
    }
}

/// Adds the controller to a manager.
///
/// # Errors
/// When another room follows claims by another view.
pub fn mount(manager: &Manager, cloud: Arc<Cloud>, fake: Fake) -> Result<(), manager::Error> {
    let claims = manager.feed::<Claims>()?;
    let room = FakeRoom {
        fake,
        cloud,
        claims: claims.clone(),
        writer: Writer::new(manager.client().clone(), FakeRoom::NAME),
        events: Events::new(manager.client().clone(), FakeRoom::NAME, Some(manager.instance().to_owned())),
        clock: manager.clock().clone(),
        vain: Mutex::default(),
        allowance: Mutex::default(),
    };
    let driver = Driver::new(manager, room);
    let work = Arc::clone(driver.work());
    claims.observe(move |delta| work.add_now(delta.key.clone(), Priority::Urgent));
    let ready = claims.clone();
    manager.drive(&driver, async move { ready.settled().await }, move |accepts| claims.keys(accepts));
    Ok(())
}
