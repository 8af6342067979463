//! Carries out steps: one arm per step, each safe to repeat and to be dropped half-way.

mod leave;

use std::time::Duration;

use api::key::ObjectKey;
use api::names::claims as names;
use api::own::{HostClaimStatus, PendingReboot, SelectedHost};
use api::raw::HostClaim;
use kit::class::{Class, Classify};
use kit::feed::Version;
use kit::room::Flow;
use kit::write;
use kube::Api;
use serde_json::json;

use crate::copies::{self, Copied, Copy};
use crate::decide::Step;
use crate::facts::LONGEST;
use crate::hand::{self, Edit, Touched};
use crate::mirror::Mirror;
use crate::moving::Act;
use crate::observe::Snapshot;
use crate::parts::Part;
use crate::release::{self, Left, Purpose};
use crate::room::Claims;
use crate::standing::is_ours;
use crate::status::CONDITIONS;
use crate::wish::{After, Leave, Stay};
use crate::yard::Unfit;

/// A host that refused a claim is not tried by it again for this long.
const COOL_DOWN: Duration = Duration::from_secs(10);
/// A host that the server did not let us bind is not tried by the claim again for this long.
const REFUSED: Duration = Duration::from_secs(300);
/// Nobody announces a right that is granted: whoever lacks one asks again after this long.
const FORBIDDEN: Duration = Duration::from_secs(60);
/// Copies that are still there after they were deleted are looked at again after this long.
const COPIES_LINGER: Duration = Duration::from_secs(5);

/// What can go wrong with one claim.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An index does not show our own last write yet.
    #[error("an index is behind our own write")]
    Behind,
    /// The host is not ours any more, or not as it was when this was decided.
    #[error("the host {0} has changed hands meanwhile")]
    NotOurs(ObjectKey),
    /// What is kept of the claim makes no sense.
    #[error("HostClaim {0} is not kept as it was read")]
    Garbled(ObjectKey),
    /// The claim could not be read.
    #[error("read HostClaim {key}")]
    Read {
        /// The claim.
        key: ObjectKey,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The claim's cluster could not be read.
    #[error("read Cluster {key}")]
    Cluster {
        /// The cluster.
        key: ObjectKey,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server did not let us bind a host.
    #[error("binding a host was refused")]
    Bind(#[source] Box<Error>),
    /// The server did not let us pause a host with its claim.
    #[error("pausing the host with its claim was refused")]
    Pause(#[source] Box<Error>),
    /// The server did not let us end the pause of a host with that of its claim.
    #[error("ending the pause of the host was refused")]
    Unpause(#[source] Box<Error>),
    /// The claim could not be written.
    #[error(transparent)]
    Claim(#[from] write::Error),
    /// A host could not be read or written.
    #[error(transparent)]
    Host(#[from] hand::Error),
    /// A copy could not be made or deleted.
    #[error(transparent)]
    Copies(#[from] copies::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        if self.is_forbidden() {
            return Class::Transient { at_least: Some(FORBIDDEN) };
        }
        match self {
            Self::Behind | Self::NotOurs(_) => Class::Stale,
            Self::Garbled(_) => Class::Terminal,
            Self::Read { source, .. } | Self::Cluster { source, .. } => source.class(),
            Self::Bind(error) | Self::Pause(error) | Self::Unpause(error) => error.class(),
            Self::Claim(error) => error.class(),
            Self::Host(error) => error.class(),
            Self::Copies(error) => error.class(),
        }
    }
}

impl Error {
    /// Whether the server says that we lack a right.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let source = match self {
            Self::Read { source, .. }
            | Self::Cluster { source, .. }
            | Self::Claim(write::Error::Refused { source, .. })
            | Self::Host(hand::Error::Read { source, .. } | hand::Error::Write(write::Error::Refused { source, .. }))
            | Self::Copies(
                copies::Error::Read { source, .. }
                | copies::Error::List { source, .. }
                | copies::Error::Write(write::Error::Refused { source, .. }),
            ) => source,
            Self::Bind(error) | Self::Pause(error) | Self::Unpause(error) => return error.is_forbidden(),
            _ => return false,
        };
        matches!(&**source, kube::Error::Api(status) if status.code == 403)
    }

    /// A refusal is told by what was refused; a conflict or an outage is not worth a word.
    fn told_as(self, tell: fn(Box<Self>) -> Self) -> Self {
        if self.is_forbidden() || self.class() == Class::Terminal { tell(Box::new(self)) } else { self }
    }
}

impl Claims {
    pub(crate) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Finalize => self.finalize(s).await,
            Step::Intend { host, uid } => {
                let selected = SelectedHost {
                    namespace: host.namespace().unwrap_or_default().to_owned(),
                    name: host.name().to_owned(),
                    uid: uid.into(),
                };
                let flow = self.note(s, |status| status.selected_host = Some(selected)).await?;
                let text = format!("The host {host} was chosen.");
                self.events.say(&s.target(), false, "HostSelected", &text).await;
                Ok(flow)
            }
            Step::Bind { host, wish } => self.bind(s, &host, &wish).await,
            Step::Copy { part, at, host } => self.copy(s, part, &at, &host).await,
            Step::Pend { id, value } => {
                let mode = serde_json::from_str::<serde_json::Value>(&value).ok();
                let mode = mode.and_then(|value| value.get("mode")?.as_str().map(str::to_owned));
                self.note(s, |status| status.pending_reboot = Some(PendingReboot { id: id.into(), mode })).await
            }
            Step::Count => {
                self.note(s, |status| {
                    status.selected_host = None;
                    status.replacements = Some(status.replacements.unwrap_or_default().saturating_add(1));
                })
                .await
            }
            Step::Sync { host, wish } => self.sync(s, &host, &wish).await,
            Step::Withdraw { annotation, value } => self.withdraw(s, annotation, &value).await,
            Step::Prune { copies } => {
                // By what the claim said once they may be of no use, and by now they are.
                self.confirm(s).await?;
                self.copies.delete(&copies).await?;
                Ok(Flow::Next)
            }
            Step::Mirror(mirror) => self.mirror(s, &mirror).await,
            Step::Clear { host, wish } => self.clear(s, &host, |live| wish.patch(live)).await,
            Step::Scrub { host, wish } => {
                tracing::info!(claim = %s.key, %host, "disks that were kept uncleaned are cleaned before the release");
                let text = "The disks of the host are cleaned before it is given back.";
                self.events.say(&s.target(), false, "CleaningBeforeRelease", text).await;
                self.clear(s, &host, |live| wish.scrub(live)).await
            }
            Step::DropCopies { host, all } => {
                self.confirm_extra(s, &host).await?;
                let namespace = host.namespace().unwrap_or_default();
                let prefix = if all { String::new() } else { format!("{}-hc-", host.name()) };
                if self.copies.drop_all(namespace, &s.claim.uid, &prefix).await? {
                    return Ok(Flow::Next);
                }
                Ok(Flow::Wait(s.now.checked_add(COPIES_LINGER).ok()))
            }
            Step::LetGo { host, wish, after, purpose } => self.let_go(s, &host, &wish, &after, purpose).await,
            Step::Unfinalize => self.unfinalize(s).await,
            Step::Move(act) => self.moving(s, act).await,
            Step::Tell(tell) => {
                self.events.say(&s.target(), true, tell.reason(), tell.text()).await;
                self.told.note(&s.claim.uid, tell);
                Ok(Flow::Next)
            }
            Step::Wait { until } => Ok(Flow::Wait(Some(until))),
        }
    }

    async fn finalize(&self, s: &Snapshot) -> Result<Flow, Error> {
        let written =
            self.writer.add_finalizer(&s.target(), &finalizers(s), &s.version, names::BAREMETAL_FINALIZER).await?;
        if let Some(version) = written {
            self.world.claims.wrote(&s.key, &version);
        }
        Ok(Flow::Next)
    }

    /// Stores a note on the claim as it was read: whoever else decided meanwhile wins.
    async fn note(&self, s: &Snapshot, change: impl FnOnce(&mut HostClaimStatus)) -> Result<Flow, Error> {
        let mut status = s.claim.status.clone();
        status.conditions.retain(|condition| CONDITIONS.contains(&condition.type_.as_str()));
        change(&mut status);
        let version = self.writer.status_at(&s.target(), &status, &s.latest()).await?;
        self.world.claims.wrote(&s.key, &version);
        s.wrote(version);
        Ok(Flow::Next)
    }

    /// Makes sure that the claim is still what this pass read: a host is never driven by what a claim said once. A write that
    /// this pass has just made to the claim, on the version that it had read, says so already.
    async fn confirm(&self, s: &Snapshot) -> Result<(), Error> {
        if s.has_written() {
            return Ok(());
        }
        self.confirm_live(s).await
    }

    async fn confirm_live(&self, s: &Snapshot) -> Result<(), Error> {
        let api: Api<HostClaim> = Api::namespaced(self.writer.client().clone(), s.key.namespace().unwrap_or_default());
        let read = |source| Error::Read { key: s.key.clone(), source: Box::new(source) };
        let live = api.get_metadata_opt(s.key.name()).await.map_err(read)?;
        match live.map(|claim| Version::of(&claim)) {
            Some(version) if version == s.latest() => Ok(()),
            Some(_) | None => Err(Error::Behind),
        }
    }

    async fn bind(&self, s: &Snapshot, host: &ObjectKey, wish: &Stay) -> Result<Flow, Error> {
        self.confirm(s).await?;
        let judge = |live: &crate::facts::HostFacts| {
            if is_ours(live.consumer.as_ref(), &s.key, &s.claim) {
                return Edit::Nothing;
            }
            match self.yard().unfit(&s.key, host, live, s.now) {
                Some(why) => Edit::Refuse(why),
                None => wish.patch(live).map_or(Edit::Nothing, Edit::Patch),
            }
        };
        // A newer host may be the fence of a claim that is gone, put up by whoever leads by now.
        let touched = match self.hand.change_while(host, judge, || self.confirm_live(s)).await {
            Ok(touched) => touched,
            Err(error) => {
                let of_host = matches!(error, Error::Host(_));
                let error = if of_host { error.told_as(Error::Bind) } else { error };
                // No conflict and no outage: this host will not have it, so the claim looks elsewhere for a while.
                if matches!(error, Error::Bind(_)) {
                    self.refused(s, host, REFUSED, None);
                }
                return Err(error);
            }
        };
        match touched {
            Touched::Changed => {
                tracing::debug!(claim = %s.key, %host, "the host was bound");
                let took = Duration::try_from(s.now.duration_since(s.claim.created)).unwrap_or_default();
                self.metrics.bound(took, s.offer.as_ref().map_or(1, |offer| offer.examined));
                let text = format!("Bound to HostClaim {}.", s.key);
                let uid = s.offer.as_ref().map_or("", |offer| &*offer.uid);
                self.say_on_host(host, uid, "HostBound", &text).await;
                Ok(Flow::Next)
            }
            Touched::Unchanged => Ok(Flow::Again),
            Touched::Gone | Touched::Refused(_) => {
                let why = if let Touched::Refused(why) = touched { Some(why) } else { None };
                self.refused(s, host, COOL_DOWN, why);
                let text = "The chosen host is not free, or does not fit, any more; another one is tried.";
                self.events.say(&s.target(), false, "BindConflict", text).await;
                Ok(Flow::Again)
            }
        }
    }

    /// The host went to somebody else, or changed: the claim looks elsewhere, and whoever is better off hears of it.
    fn refused(&self, s: &Snapshot, host: &ObjectKey, pause: Duration, why: Option<Unfit>) {
        tracing::debug!(claim = %s.key, %host, ?why, "the host was not bound");
        self.metrics.conflict();
        let until = s.now.checked_add(pause).unwrap_or(s.now);
        let woken = self.yard().refused(&s.key, host, until, s.now);
        self.wake(woken);
    }

    async fn copy(
        &self,
        s: &Snapshot,
        part: Part,
        at: &crate::facts::SecretRef,
        host: &ObjectKey,
    ) -> Result<Flow, Error> {
        let Some(found) = s.bound().filter(|found| found.key == *host) else {
            return Err(Error::NotOurs(host.clone()));
        };
        let Some(name) = part.asked(&s.claim) else { return Ok(Flow::Again) };
        // The tenant's word for a namespace is never used: a secret is always its own.
        let source = ObjectKey::namespaced(s.key.namespace().unwrap_or_default(), name);
        let copy = Copy { part, source, at, claim: &s.claim.uid, host: host.name(), host_uid: &found.facts.uid };
        match self.copies.make(&copy, || self.stays(s, host)).await? {
            Copied::Done => {
                self.faults.forget(&s.claim.uid, part);
                let text = format!("The {part} of the secret {name} was handed to the host.");
                self.events.say(&s.target(), false, "SecretCopied", &text).await;
                Ok(Flow::Next)
            }
            Copied::Unchanged => {
                self.faults.forget(&s.claim.uid, part);
                // Nothing was written, so nothing brings the pass that goes on from here.
                Ok(Flow::Again)
            }
            Copied::NoSource => Err(Error::Behind),
            Copied::Unusable(version, fault) => {
                self.faults.note(&s.claim.uid, part, version, fault);
                Ok(Flow::Again)
            }
        }
    }

    /// Makes sure that a host stays with its claim: nobody would take back what is handed over for a claim that is gone, or
    /// beside a host that is another's by now, or about to be given back.
    async fn stays(&self, s: &Snapshot, host: &ObjectKey) -> Result<(), Error> {
        let (confirmed, live) = tokio::join!(self.confirm_live(s), self.hand.read(host));
        confirmed?;
        let ours = |live: &hand::Live| is_ours(live.facts.consumer.as_ref(), &s.key, &s.claim);
        let leaves = |live: &hand::Live| live.facts.annotation(names::REPLACING_ANNOTATION) == Some(&*s.claim.uid);
        if !live?.is_some_and(|live| ours(&live) && !leaves(&live)) {
            return Err(Error::Behind);
        }
        // Of two hosts the claim keeps the one that its status names, whatever the index shows of that so far.
        let status = &s.claim.status;
        let named = status.bare_metal_host.as_ref().map(|host| host.key());
        let selected = status.selected_host.as_ref().map(|host| host.key());
        for preferred in named.into_iter().chain(selected).take_while(|preferred| preferred != host) {
            if self.hand.read(&preferred).await?.is_some_and(|live| ours(&live)) {
                return Err(Error::Behind);
            }
        }
        Ok(())
    }

    /// Makes sure that a host which is given back because the claim has another one is one too many.
    async fn confirm_extra(&self, s: &Snapshot, host: &ObjectKey) -> Result<(), Error> {
        let Some(kept) = s.bound().filter(|kept| kept.key != *host) else { return Ok(()) };
        let (confirmed, live) = tokio::join!(self.confirm_live(s), self.hand.read(&kept.key));
        confirmed?;
        match live? {
            Some(live) if is_ours(live.facts.consumer.as_ref(), &s.key, &s.claim) => Ok(()),
            Some(_) | None => Err(Error::NotOurs(kept.key.clone())),
        }
    }

    async fn sync(&self, s: &Snapshot, host: &ObjectKey, wish: &Stay) -> Result<Flow, Error> {
        self.confirm(s).await?;
        let judge = |live: &crate::facts::HostFacts| {
            if !is_ours(live.consumer.as_ref(), &s.key, &s.claim) || live.deleting {
                return Edit::Refuse(());
            }
            wish.patch(live).map_or(Edit::Nothing, Edit::Patch)
        };
        let paused = s.bound().is_some_and(|found| {
            found.facts.annotation(names::HOST_PAUSED_ANNOTATION) == Some(names::HOST_PAUSED_BY_CLAIM)
        });
        // A newer host may be one that is on its way back, by what the claim says by now.
        let touched = self.hand.change_while(host, judge, || self.confirm_live(s)).await;
        let of_host = |error: &Error| matches!(error, Error::Host(_));
        let touched =
            touched.map_err(|error| if paused && of_host(&error) { error.told_as(Error::Unpause) } else { error });
        match touched? {
            Touched::Changed => {
                self.driven.note(&s.claim.uid, s.now);
                if wish.reboot.is_some() {
                    self.events.say(&s.target(), false, "RebootForwarded", "The host is being rebooted.").await;
                }
                Ok(Flow::Next)
            }
            Touched::Unchanged => Ok(Flow::Next),
            Touched::Gone | Touched::Refused(()) => Err(Error::NotOurs(host.clone())),
        }
    }

    async fn withdraw(&self, s: &Snapshot, annotation: &str, value: &str) -> Result<Flow, Error> {
        let path = format!("/metadata/annotations/{}", annotation.replace('~', "~0").replace('/', "~1"));
        let asked = s.claim.annotation(annotation).unwrap_or(value);
        let mut operations = vec![write::remove(&path)];
        // Of what is longer than it can make sense only a part is known.
        if asked.len() < LONGEST {
            operations.insert(0, write::test(&path, json!(asked)));
        }
        let version = self.writer.operations(&s.target(), operations).await?;
        self.world.claims.wrote(&s.key, &version);
        Ok(Flow::Next)
    }

    async fn mirror(&self, s: &Snapshot, mirror: &Mirror) -> Result<Flow, Error> {
        let latest = s.latest();
        let body = json!({
            "apiVersion": s.kind.api_version(),
            "kind": s.kind.kind,
            "metadata": {
                "name": s.key.name(),
                "namespace": s.key.namespace(),
                "resourceVersion": latest.resource_version,
                "labels": mirror.labels,
                "annotations": mirror.annotations,
            },
        });
        let version = self.mirror.apply(&s.target(), body).await?;
        self.world.claims.wrote(&s.key, &version);
        // The status that follows says what was put there, and is based on what this write made.
        s.wrote(version);
        Ok(Flow::Next)
    }

    async fn clear(
        &self,
        s: &Snapshot,
        host: &ObjectKey,
        patch: impl Fn(&crate::facts::HostFacts) -> Option<serde_json::Value>,
    ) -> Result<Flow, Error> {
        let judge = |live: &crate::facts::HostFacts| {
            if !is_ours(live.consumer.as_ref(), &s.key, &s.claim) {
                return Edit::Refuse(());
            }
            patch(live).map_or(Edit::Nothing, Edit::Patch)
        };
        // What runs on a host that is cleared is gone for good, so nobody clears one that the claim keeps by now.
        self.confirm_extra(s, host).await?;
        match self.hand.change_while(host, judge, || self.confirm_extra(s, host)).await? {
            Touched::Changed | Touched::Unchanged | Touched::Gone => Ok(Flow::Next),
            Touched::Refused(()) => Err(Error::NotOurs(host.clone())),
        }
    }

    async fn let_go(
        &self,
        s: &Snapshot,
        host: &ObjectKey,
        wish: &Leave,
        after: &After,
        purpose: Purpose,
    ) -> Result<Flow, Error> {
        self.confirm_extra(s, host).await?;
        let judge = |live: &crate::facts::HostFacts| {
            let clean = after.may_follow(live) || release::is_forced(live);
            if !is_ours(live.consumer.as_ref(), &s.key, &s.claim) || !clean {
                return Edit::Refuse(());
            }
            let mut body = after.patch(live);
            match release::left(wish, live) {
                Left::Nothing => {}
                Left::Power(online) => {
                    if let Some(spec) = body.get_mut("spec").and_then(serde_json::Value::as_object_mut) {
                        spec.insert("online".to_owned(), json!(online));
                    }
                }
                Left::More => return Edit::Refuse(()),
            }
            Edit::Patch(body)
        };
        match self.hand.change_while(host, judge, || self.confirm_extra(s, host)).await? {
            Touched::Changed => {
                let found = s.hosts.iter().find(|found| found.key == *host);
                tracing::info!(
                    claim = %s.key, uid = %s.claim.uid, %host, ?purpose, ?after,
                    forced = found.is_some_and(|found| release::is_forced(&found.facts)),
                    state = found.map_or("", |found| &*found.facts.state),
                    "the host was given back"
                );
                if found.is_some_and(|found| release::is_last(s, found, purpose)) {
                    self.given.note(&s.claim.uid, host);
                }
                match purpose {
                    Purpose::Delete => {
                        let since = s.claim.deleted_at.unwrap_or(s.now);
                        self.metrics.released(Duration::try_from(s.now.duration_since(since)).unwrap_or_default());
                    }
                    Purpose::Extra => self.metrics.healed(),
                    Purpose::Replace => {}
                }
                let text = format!("Given back by HostClaim {}.", s.key);
                let uid = found.map_or("", |found| &*found.facts.uid);
                self.say_on_host(host, uid, "HostReleased", &text).await;
                let (reason, text) = match purpose {
                    Purpose::Delete => ("Released", format!("The host {host} was given back.")),
                    Purpose::Extra => {
                        ("DuplicateBindingHealed", format!("The claim held two hosts; {host} was given back."))
                    }
                    Purpose::Replace => {
                        ("Released", format!("The host {host} failed and was given back for another one."))
                    }
                };
                self.events.say(&s.target(), purpose != Purpose::Delete, reason, &text).await;
                Ok(Flow::Next)
            }
            Touched::Unchanged | Touched::Gone => Ok(Flow::Next),
            Touched::Refused(()) => Err(Error::NotOurs(host.clone())),
        }
    }

    async fn moving(&self, s: &Snapshot, act: Act) -> Result<Flow, Error> {
        let ours = |live: &crate::facts::HostFacts| is_ours(live.consumer.as_ref(), &s.key, &s.claim);
        let (host, touched) = match act {
            Act::OpenClaim => return self.mark_claim(s, None).await,
            Act::CloseClaim => return self.mark_claim(s, Some("")).await,
            Act::Pause { host } => {
                let body =
                    json!({"metadata": {"annotations": {names::HOST_PAUSED_ANNOTATION: names::HOST_PAUSED_BY_CLAIM}}});
                let judge = |live: &crate::facts::HostFacts| match live.annotation(names::HOST_PAUSED_ANNOTATION) {
                    _ if !ours(live) => Edit::Refuse(()),
                    Some(_) => Edit::Nothing,
                    None => Edit::Patch(body.clone()),
                };
                let touched = self.hand.change(&host, judge).await;
                let touched = touched.map_err(|error| Error::Host(error).told_as(Error::Pause))?;
                (host, touched)
            }
            Act::Pack { host } => {
                let Some(mut status) = self.hand.status(&host).await? else { return Err(Error::NotOurs(host)) };
                // It is large, and inspection finds it again.
                if let Some(status) = status.as_object_mut() {
                    status.remove("hardware");
                }
                let status = status.to_string();
                let judge = |live: &crate::facts::HostFacts| {
                    if !ours(live) {
                        return Edit::Refuse(());
                    }
                    let pause = live.annotation(names::HOST_PAUSED_ANNOTATION).unwrap_or(names::HOST_PAUSED_BY_CLAIM);
                    Edit::Patch(json!({
                        "metadata": {"annotations": {
                            names::HOST_PAUSED_ANNOTATION: pause,
                            names::HOST_STATUS_ANNOTATION: status,
                        }},
                        "spec": {"consumerRef": {"uid": null}},
                    }))
                };
                let touched = self.hand.change(&host, judge).await;
                let touched = touched.map_err(|error| Error::Host(error).told_as(Error::Pause))?;
                (host, touched)
            }
            Act::OpenHost { host } => {
                let body = json!({"metadata": {"annotations": {names::BLOCK_MOVE_ANNOTATION: null}}});
                let judge = |live: &crate::facts::HostFacts| {
                    if ours(live) { Edit::Patch(body.clone()) } else { Edit::Refuse(()) }
                };
                let touched = self.hand.change(&host, judge).await?;
                (host, touched)
            }
        };
        match touched {
            Touched::Changed | Touched::Unchanged => Ok(Flow::Next),
            Touched::Gone | Touched::Refused(()) => Err(Error::NotOurs(host)),
        }
    }

    async fn mark_claim(&self, s: &Snapshot, block: Option<&str>) -> Result<Flow, Error> {
        let body = json!({"metadata": {"annotations": {names::BLOCK_MOVE_ANNOTATION: block}}});
        let version = self.writer.merge(&s.target(), body, Some(&s.latest())).await?;
        self.world.claims.wrote(&s.key, &version);
        s.wrote(version);
        Ok(Flow::Next)
    }

    async fn say_on_host(&self, host: &ObjectKey, uid: &str, reason: &str, text: &str) {
        let target = write::Target { kind: self.world.hosts.kind(), key: host.clone(), uid: uid.into() };
        self.events.say(&target, false, reason, text).await;
    }
}

fn finalizers(s: &Snapshot) -> Vec<String> {
    s.claim.finalizers.iter().map(ToString::to_string).collect()
}
