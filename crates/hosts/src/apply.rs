//! Carries out steps. A refusal of EC2 is an outcome, not an error: it is remembered with the time to try again, and the
//! conditions tell of it.

mod audit;
mod release;

use std::time::Duration;

use api::key::ObjectKey;
use api::meta::Versioned;
use api::names::InstanceId;
use api::names::claims::REBOOT_ANNOTATION;
use api::names::hosts::{ALLOCATION_ANNOTATION, LAUNCH_ANNOTATION, REBOOT_PROGRESS_ANNOTATION, SCOPE_ANNOTATION};
use api::reasons::claims::Reason as ClaimReason;
use api::reasons::hosts::Reason;
use api::views::Cluster;
use aws::cloud::Cloud;
use aws::errors::Error as Ec2Error;
use aws::port::{Ec2, Host, HostShape, RunInstance};
use kit::fault::{self, Side};
use kit::queue::Priority;
use kit::room::{Flow, Room};
use kit::write;
use kube::Api;
use serde_json::{Value, json};

use crate::asker::{Asked, Asker};
use crate::claim::Progress;
use crate::classes::Class;
use crate::decide::{ENDED, MISMATCHED, Step, UNFIT, offered, provider_id};
use crate::first;
use crate::journal::{Allocation, Launch, Phase, Scope, legal};
use crate::observe::{name, words};
use crate::own::is_retained;
use crate::request;
use crate::room::{Error, Keeper, read};
use crate::shelf::{Age, Shelf};
use crate::snapshot::{Doing, Mishap, Snapshot};
use crate::tags::Change;

/// A journal that meets another write of the object is tried this often at once.
const TRIES: usize = 4;

/// For how long a host that was given back may count against the quota of the account.
const STILL_COUNTED: Duration = Duration::from_secs(900);
/// How old a list may be that tells of them.
const STILL_TRUE: Duration = Duration::from_secs(60);

/// A pause that the index has not heard of is looked at again after this long, unless the index hears of it.
const RESTING: Duration = Duration::from_secs(30);

impl<C: Cloud, A: Asker> Keeper<C, A> {
    /// Carries out one step.
    pub(crate) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        let done = self.one(s, step).await;
        if matches!(done, Err(Error::Moved | Error::Write(write::Error::Changed { .. }))) {
            self.memories.change(&s.key, |memory| memory.conflicts = memory.conflicts.saturating_add(1));
        }
        done
    }

    async fn one(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        match step {
            Step::Secure { scope } => self.secure(s, &scope).await,
            Step::Rehearse { request } => self.rehearse(s, &request).await,
            Step::Record { allocation } => self.record(s, &allocation).await,
            Step::Allocate { allocation } => self.allocate(s, &allocation).await,
            Step::RecordLaunch { launch } => {
                let body = annotation(LAUNCH_ANNOTATION, &launch.text(&s.key.to_string()));
                let flow = self.change(s, body).await?;
                let is_new = s.journal().launch.is_none_or(|before| before.token != launch.token);
                self.memories.change(&s.key, |memory| memory.unused = is_new.then(|| launch.token.clone()));
                Ok(flow)
            }
            Step::Launch { launch, request } => self.launch(s, &launch, &request).await,
            Step::Publish { instance, provider_id } => self.publish(s, &instance, &provider_id).await,
            Step::Terminate { instances } => self.terminate(s, &instances).await,
            Step::Release { hosts } => self.release(s, &hosts).await,
            Step::Retain { host, change, heir: Some(heir) } => self.hand_over(s, &host, &heir, &change).await,
            Step::Retain { host, change, heir: None } => self.retain(s, &host, &change).await,
            Step::Retag { resources, change } => {
                let shelf = self.shelf(s).await?;
                let done = self.retag(&shelf, &resources, &change).await;
                self.tended(s, &shelf, Doing::Tag, done)
            }
            Step::Share { host, tags } => {
                let shelf = self.shelf(s).await?;
                match shelf.ec2().create_tags(&[host.to_string()], &tags).await {
                    // A courtesy to whoever owns the host: without the right to it the host is used all the same.
                    Err(error) if Class::of(error.kind()) != Class::Transient => {
                        let code = error.code().unwrap_or_default();
                        tracing::warn!(object = %s.key, host_id = %host, code, "host not tagged as shared");
                        Ok(Flow::Next)
                    }
                    done => self.tended(s, &shelf, Doing::Tag, done),
                }
            }
            Step::SetGroups { interface, groups } => {
                let shelf = self.shelf(s).await?;
                let done = shelf.ec2().set_interface_security_groups(&interface, &groups).await;
                self.tended(s, &shelf, Doing::Groups, done)
            }
            Step::SetMetadata { instance, options } => {
                let shelf = self.shelf(s).await?;
                let done = shelf.ec2().modify_instance_metadata_options(&instance, &options).await;
                self.tended(s, &shelf, Doing::Metadata, done)
            }
            Step::Power { instance, on } => self.power(s, &instance, on).await,
            Step::Reboot { progress } => self.reboot(s, progress).await,
            Step::Note { annotations } => {
                // What was not applied is not noted as applied.
                let failed = |mishap: Mishap| matches!(mishap.doing, Doing::Tag | Doing::Groups | Doing::Metadata);
                if self.memories.of(&s.key).mishap.is_some_and(failed) {
                    return Ok(Flow::Next);
                }
                let all: serde_json::Map<String, Value> =
                    annotations.into_iter().map(|(key, text)| (key.to_owned(), json!(text))).collect();
                self.change(s, json!({"metadata": {"annotations": all}})).await
            }
            Step::Conclude => self.conclude(s).await,
            Step::Tell { warning, reason, message } => {
                if self.memories.is_new(&s.key, &message) {
                    self.tell(&s.target, warning, reason.as_str(), &message).await;
                }
                Ok(Flow::Next)
            }
            Step::Announce => {
                // Once: whatever keeps people from hearing of the end must not keep it from coming.
                self.memories.change(&s.key, |memory| memory.announced = true);
                Ok(Flow::Again)
            }
            Step::Wait { until } => Ok(Flow::Wait(until)),
        }
    }

    async fn shelf(&self, s: &Snapshot) -> Result<std::sync::Arc<Shelf<C::Ec2>>, Error> {
        let scope = s.scope.as_ref().ok_or(Error::Behind)?;
        let opened = self.open(scope, s.key.namespace().unwrap_or_default()).await?;
        opened.map_err(|_| Error::Behind)
    }

    /// Changes the machine, unless it has moved on; whoever decides next sees what was written.
    async fn change(&self, s: &Snapshot, body: Value) -> Result<Flow, Error> {
        let version = self.writer.merge(&s.target, body, Some(&s.version)).await?;
        self.asker.wrote(&s.key, &version);
        Ok(Flow::Again)
    }

    async fn live(&self, s: &Snapshot) -> Result<Asked, Error> {
        let live = self.asker.fetch(self.writer.client().clone(), &s.key).await?.ok_or(Error::Moved)?;
        if live.machine.uid == s.machine.uid { Ok(live) } else { Err(Error::Moved) }
    }

    /// The machine as it is now, if it is still what was decided on: its journal, wanted, and not paused.
    async fn unchanged(&self, s: &Snapshot) -> Result<Asked, Error> {
        let live = self.live(s).await?;
        let now = &live.machine;
        let same = now.journal == s.machine.journal
            && now.deleting == s.machine.deleting
            && now.is_paused() == s.machine.is_paused()
            && now.has_finalizer()
            && now.spec.instance_id == s.machine.spec.instance_id
            && now.spec.provider_id == s.machine.spec.provider_id;
        if same { Ok(live) } else { Err(Error::Moved) }
    }

    /// Whether the Cluster is paused or gone, as the server has it now: its machines may be on their way to another
    /// management cluster, without what is about to be asked for.
    /// A claim needs no Cluster.
    async fn is_resting(&self, s: &Snapshot) -> Result<bool, Error> {
        let (Some(namespace), Some(name)) = (s.key.namespace(), s.cluster_name()) else {
            return Ok(s.claim.is_none());
        };
        let resource = self.world.clusters.kind().resource();
        let api: Api<Versioned<Cluster>> = Api::namespaced_with(self.writer.client().clone(), namespace, &resource);
        let live = api.get_opt(name).await.map_err(read(|| format!("Cluster {namespace}/{name}")))?;
        Ok(live.map_or(s.claim.is_none(), |Versioned(cluster)| cluster.spec.paused))
    }

    /// Stores what EC2 has done. The object may have been touched meanwhile in ways that do not matter: then it is stored
    /// all the same, as long as the journal is what the request was made for.
    async fn settle(&self, s: &Snapshot, mut live: Asked, body: &Value) -> Result<(), Error> {
        for _ in 0..TRIES {
            match self.writer.merge(&s.target, body.clone(), Some(&live.version)).await {
                Ok(version) => {
                    self.asker.wrote(&s.key, &version);
                    return Ok(());
                }
                Err(write::Error::Changed { .. }) => {
                    live = self.live(s).await?;
                    if live.machine.journal != s.machine.journal {
                        return Err(Error::Moved);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Behind)
    }

    async fn secure(&self, s: &Snapshot, scope: &Scope) -> Result<Flow, Error> {
        let mut finalizers = s.machine.finalizers.clone();
        if !s.machine.has_finalizer() {
            finalizers.push(s.machine.finalizer.to_owned());
        }
        let body = json!({"metadata": {"finalizers": finalizers, "annotations": {SCOPE_ANNOTATION: scope.text()}}});
        self.change(s, body).await
    }

    async fn record(&self, s: &Snapshot, allocation: &Allocation) -> Result<Flow, Error> {
        let before = s.journal().allocation;
        legal(before.as_ref(), allocation).map_err(|illegal| Error::Illegal(illegal.to_string()))?;
        let begins = allocation.phase == Phase::Intended && before.as_ref().is_none_or(|b| b.epoch != allocation.epoch);
        if begins {
            let (namespace, group) = (s.key.namespace().unwrap_or_default(), s.group().unwrap_or_default());
            let caps = (self.config.max_hosts_per_cluster, self.config.max_allocations_per_hour);
            let intent = (&s.key, allocation.epoch, allocation.terms.quantity);
            let shown = self.asker.shown(namespace, group);
            if !self.ledger.reserve(&format!("{namespace}/{group}"), &shown, intent, caps, s.now) {
                return Err(Error::Behind);
            }
        }
        let joined = offered(s, allocation)
            .filter(|_| allocation.adopted && before.as_ref().is_none_or(|b| b.epoch != allocation.epoch));
        if let Some(joined) = &joined {
            let known = |key: &ObjectKey, epoch: u32| {
                let mut others = s.pool.iter().flat_map(|pool| pool.others(&joined.host, &s.key));
                others.any(|other| other.is_claim && other.key == *key && other.epoch == epoch)
            };
            // The room is without those; a host that is taken as a whole is one claim's.
            let room = if joined.phase == Phase::Claimed { joined.room } else { 1 };
            if !self.places.reserve((&s.key, &joined.host, allocation.epoch), room, known, s.now) {
                return Err(Error::Behind);
            }
        }
        let flow = self.change(s, annotation(ALLOCATION_ANNOTATION, &allocation.text(&s.key.to_string()))).await?;
        self.waited(s, allocation);
        self.hurry.note(&s.key, first::recorded(s, allocation));
        if let Some(joined) = joined {
            let what = if joined.phase == Phase::Claimed { "a place on" } else { "the whole of" };
            let message =
                format!("{what} {} in {}: it is there and fits spec.hostSelector", joined.host, joined.place.zone);
            self.tell(&s.target, false, ClaimReason::HostSelected.as_str(), &message).await;
        }
        self.memories.change(&s.key, |memory| memory.unused = begins.then(|| allocation.token.clone()));
        let ended = before.is_some_and(|before| !before.phase.is_over()) && allocation.phase.is_over();
        if ended {
            self.ended(s, allocation).await;
        }
        Ok(flow)
    }

    /// Tells that hosts are off our hands.
    async fn ended(&self, s: &Snapshot, allocation: &Allocation) {
        let hosts: Vec<String> = allocation.hosts.iter().map(ToString::to_string).collect();
        self.memories.change(&s.key, |memory| memory.refusals.clear());
        self.places.forget(&s.key);
        if allocation.phase == Phase::Released && is_left(s) {
            // It was not released. What went wrong on it says nothing about the next one.
            self.memories.went_well(&s.key, Doing::Launch);
            return;
        }
        if allocation.phase == Phase::Abandoned {
            audit::abandoned(s, allocation);
        }
        if hosts.is_empty() {
            return;
        }
        self.metrics.ended(allocation.phase, hosts.len());
        let zone = &allocation.terms.zone;
        let (reason, what) = match allocation.phase {
            Phase::Retained => (Reason::DedicatedHostRetained, "left to its owner"),
            Phase::Released => (Reason::SuccessfulReleaseHost, "released"),
            _ => return,
        };
        self.tell(&s.target, false, reason.as_str(), &format!("{} in {zone}: {what}", hosts.join(", "))).await;
    }

    async fn rehearse(&self, s: &Snapshot, request: &RunInstance) -> Result<Flow, Error> {
        match self.shelf(s).await?.rehearse(request).await {
            Some(error) => self.mishap(s, Doing::Rehearse, &error),
            None => {
                self.memories.went_well(&s.key, Doing::Rehearse);
                Ok(Flow::Next)
            }
        }
    }

    /// The first hosts that were asked for are stored, whether EC2 answered with them or they were found under their token:
    /// what is not stored is asked for again, and would be counted twice. Of a later epoch, a host takes the place of another.
    fn waited(&self, s: &Snapshot, allocation: &Allocation) {
        let asked = s.journal().allocation.is_some_and(|before| before.phase == Phase::Intended);
        if asked && allocation.phase == Phase::Allocated && allocation.epoch == 1 && !s.machine.deleting {
            let kind = if s.claim.is_some() { "HostClaim" } else { "AWSMachine" };
            let took = self.clock.now().duration_since(s.machine.created);
            self.metrics.waited(kind, Duration::try_from(took).unwrap_or_default());
        }
    }

    async fn allocate(&self, s: &Snapshot, allocation: &Allocation) -> Result<Flow, Error> {
        let live = self.unchanged(s).await?;
        if self.is_resting(s).await? {
            return Ok(Flow::Wait(Some(s.after(RESTING))));
        }
        let shelf = self.shelf(s).await?;
        self.memories.change(&s.key, |memory| memory.unused = None);
        fault::point(Self::NAME, "AllocateHosts", Side::Before).await;
        let answer = shelf.ec2().allocate_hosts(&request::allocate(allocation)).await;
        fault::point(Self::NAME, "AllocateHosts", Side::After).await;
        let told = self.clock.instant();
        self.memories.change(&s.key, |memory| memory.allocated = answer.is_ok().then_some(told));
        let hosts = match answer {
            Ok(hosts) => hosts,
            Err(error) => {
                let class = Class::of(error.kind());
                self.metrics.allocated(false, class);
                let mut message = self.words(s, &error);
                if class == Class::HostQuota
                    && let Some(told) = self.just_released(&shelf, allocation, s.now).await
                {
                    message = format!("{told}; {message}");
                }
                return Ok(self.mishap_told(s, Doing::Allocate, &error, message));
            }
        };
        let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let names = names.join(", ");
        let cluster = s.cluster_name().unwrap_or_default();
        tracing::info!(object = %s.key, cluster, host_id = names, token = %allocation.token, "hosts allocated");
        self.metrics.allocated(true, Class::Transient);
        self.memories.went_well(&s.key, Doing::Allocate);
        let fewer = hosts.len() < usize::try_from(allocation.terms.quantity).unwrap_or(usize::MAX);
        let allocated = allocation.in_phase(Phase::Allocated, self.clock.now()).with_hosts(hosts);
        self.settle(s, live, &annotation(ALLOCATION_ANNOTATION, &allocated.text(&s.key.to_string()))).await?;
        self.waited(s, &allocated);
        let partial = if fewer { format!(", of {} asked for", allocation.terms.quantity) } else { String::new() };
        let message = format!("allocated {names} in {}{partial}", allocation.terms.zone);
        self.tell(&s.target, fewer, Reason::SuccessfulAllocateDedicatedHost.as_str(), &message).await;
        Ok(Flow::Again)
    }

    async fn launch(&self, s: &Snapshot, launch: &Launch, request: &RunInstance) -> Result<Flow, Error> {
        let live = self.unchanged(s).await?;
        if self.is_resting(s).await? {
            return Ok(Flow::Wait(Some(s.after(RESTING))));
        }
        let shelf = self.shelf(s).await?;
        self.memories.change(&s.key, |memory| memory.unused = None);
        fault::point(Self::NAME, "RunInstances", Side::Before).await;
        let answer = shelf.ec2().run_instance(request).await;
        fault::point(Self::NAME, "RunInstances", Side::After).await;
        match answer {
            Ok(instance) => {
                self.memories.went_well(&s.key, Doing::Launch);
                let told = self.clock.instant();
                self.memories.change(&s.key, |memory| memory.launched = Some((told, Box::new(instance.clone()))));
                self.hurry.note(&s.key, Priority::Background);
                let cluster = s.cluster_name().unwrap_or_default();
                tracing::info!(object = %s.key, cluster, instance_id = %instance.id, "instance launched");
                let id = provider_id(&instance);
                self.settle(s, live, &A::published(&instance.id, &id)).await?;
                let message = format!("launched instance {}", instance.id);
                self.tell(&s.target, false, Reason::SuccessfulCreate.as_str(), &message).await;
                Ok(Flow::Again)
            }
            Err(error) => {
                let flow = self.mishap(s, Doing::Launch, &error)?;
                // Only a definite refusal is stored: what may have been done is looked for under its token.
                let code = error.code().filter(|_| !error.maybe_done());
                let passing = Class::of(error.kind()) == Class::Transient;
                if let Some(code) = code.filter(|code| !passing || [ENDED, MISMATCHED, UNFIT].contains(code)) {
                    let refused = launch.refused(code);
                    self.settle(s, live, &annotation(LAUNCH_ANNOTATION, &refused.text(&s.key.to_string()))).await?;
                }
                Ok(flow)
            }
        }
    }

    async fn publish(&self, s: &Snapshot, instance: &InstanceId, provider_id: &str) -> Result<Flow, Error> {
        self.change(s, A::published(instance, provider_id)).await
    }

    async fn terminate(&self, s: &Snapshot, instances: &[InstanceId]) -> Result<Flow, Error> {
        let shelf = self.shelf(s).await?;
        // EC2 shows an instance as alive for a while after it took the order, which is given again.
        let known = self.memories.of(&s.key).ended;
        instances.iter().filter(|instance| !known.contains_key(*instance)).for_each(|one| audit::ends(s, one));
        // Without an answer the next look tells.
        let Some(answer) = shelf.terminate(instances).await else { return Ok(Flow::Next) };
        match answer {
            Ok(_) => {
                self.memories.went_well(&s.key, Doing::Terminate);
                let told = self.clock.instant();
                self.memories.change(&s.key, |memory| {
                    // Ended once more is not ended anew.
                    if !instances.iter().any(|instance| memory.ended.contains_key(instance)) {
                        memory.first_ended = Some(told);
                    }
                    memory.ended.extend(instances.iter().map(|instance| (instance.clone(), told)));
                });
                if s.journal().allocation.is_some_and(|allocation| !allocation.phase.is_over()) {
                    // From now on its hosts are about to be empty.
                    self.hurry.note(&s.key, Priority::Urgent);
                }
                for instance in instances {
                    let message = format!("terminated instance {instance}");
                    if self.memories.is_new(&s.key, &message) {
                        self.tell(&s.target, false, Reason::SuccessfulTerminate.as_str(), &message).await;
                    }
                }
                Ok(Flow::Next)
            }
            Err(error) => self.mishap(s, Doing::Terminate, &error),
        }
    }

    async fn retag(&self, shelf: &Shelf<C::Ec2>, resources: &[String], change: &Change) -> Result<(), Ec2Error> {
        // What is added comes first: a host is never without a word about whose it is.
        if !change.set.is_empty() {
            shelf.ec2().create_tags(resources, &change.set).await?;
        }
        if !change.unset.is_empty() {
            shelf.ec2().delete_tags(resources, &change.unset).await?;
        }
        Ok(())
    }

    /// What is kept as it should be is kept one by one: what cannot be set does not stop the rest.
    fn tended(
        &self,
        s: &Snapshot,
        shelf: &Shelf<C::Ec2>,
        doing: Doing,
        done: Result<(), Ec2Error>,
    ) -> Result<Flow, Error> {
        shelf.touch();
        match done {
            Ok(()) => self.memories.healed(&s.key, doing, s.now),
            Err(error) => drop(self.mishap(s, doing, &error)?),
        }
        Ok(Flow::Next)
    }

    async fn conclude(&self, s: &Snapshot) -> Result<Flow, Error> {
        let live = self.live(s).await;
        let live = match live {
            Err(Error::Moved) => return Ok(Flow::Wait(None)),
            other => other?,
        };
        // The last word before the machine is forgotten is the server's, not the index's.
        if live.machine.journal != s.machine.journal || !live.machine.deleting {
            return Err(Error::Moved);
        }
        let (held, ours) = (&live.machine.finalizers, s.machine.finalizer);
        let done = self.writer.remove_finalizer(&s.target, held, ours).await?;
        if let Some(version) = done {
            self.asker.wrote(&s.key, &version);
        }
        self.memories.forget(&s.key);
        self.hurry.forget(&s.key);
        self.asker.gone(&s.key);
        Ok(Flow::Wait(None))
    }

    /// Switches an instance, unless the claim has moved on. Both ways may be gone twice without harm.
    async fn power(&self, s: &Snapshot, instance: &InstanceId, on: bool) -> Result<Flow, Error> {
        self.unchanged(s).await?;
        if self.is_resting(s).await? {
            return Ok(Flow::Wait(Some(s.after(RESTING))));
        }
        let (shelf, one) = (self.shelf(s).await?, std::slice::from_ref(instance));
        let done = if on { shelf.ec2().start_instances(one).await } else { shelf.ec2().stop_instances(one).await };
        shelf.touch();
        match done {
            Ok(_) => {
                self.memories.went_well(&s.key, Doing::Power);
                Ok(Flow::Next)
            }
            Err(error) => self.mishap(s, Doing::Power, &error),
        }
    }

    /// Stores how far a reboot is; with its end the request for it goes, unless somebody has asked for another one.
    async fn reboot(&self, s: &Snapshot, progress: Option<Progress>) -> Result<Flow, Error> {
        let note = progress.map(Progress::as_str);
        let mut annotations = json!({REBOOT_PROGRESS_ANNOTATION: note});
        if let (None, Some(all)) = (progress, annotations.as_object_mut()) {
            all.insert(REBOOT_ANNOTATION.to_owned(), Value::Null);
        }
        let flow = self.change(s, json!({"metadata": {"annotations": annotations}})).await?;
        if progress == Some(Progress::Stopping) {
            let (reason, message) = (ClaimReason::RebootForwarded, "the machine is stopped and started again");
            self.tell(&s.target, false, reason.as_str(), message).await;
        }
        Ok(flow)
    }

    /// Hosts of ours that were given back a moment ago: for some minutes they still count against the quota, and whoever
    /// reads that it is used up should know.
    async fn just_released(
        &self,
        shelf: &Shelf<C::Ec2>,
        allocation: &Allocation,
        now: jiff::Timestamp,
    ) -> Option<String> {
        let family = match &allocation.terms.shape {
            HostShape::Type(type_) => type_.family().to_string(),
            HostShape::Family(family) => family.to_string(),
        };
        let hosts = shelf.hosts(Age::AtMost(STILL_TRUE)).await.ok()?;
        let counts = |host: &&Host| {
            let young = |at: jiff::Timestamp| at.saturating_add(STILL_COUNTED).unwrap_or(jiff::Timestamp::MAX) > now;
            let of_type = host.instance_type.as_deref().and_then(|type_| type_.split('.').next());
            host.state.is_released()
                && host.released.is_some_and(young)
                && host.instance_family.as_deref().or(of_type) == Some(family.as_str())
        };
        match hosts.all.iter().filter(counts).count() {
            0 => None,
            count => Some(format!("{count} released within the last quarter of an hour may still count")),
        }
    }

    fn words(&self, s: &Snapshot, error: &Ec2Error) -> String {
        words(error, &s.scope.as_ref().map(name).unwrap_or_default())
    }

    /// Remembers what went wrong, and says when to try again.
    fn mishap(&self, s: &Snapshot, doing: Doing, error: &Ec2Error) -> Result<Flow, Error> {
        Ok(self.mishap_told(s, doing, error, self.words(s, error)))
    }

    fn mishap_told(&self, s: &Snapshot, doing: Doing, error: &Ec2Error, message: String) -> Flow {
        let class = Class::of(error.kind());
        let before = s.mishap.as_ref().filter(|before| before.doing == doing && before.class == class);
        let tries = before.map_or(1, |before| before.tries.saturating_add(1));
        let pause = s.pace(class, tries);
        let until = s.after(pause + self.clock.jitter(pause / 8));
        tracing::warn!(
            object = %s.key,
            operation = error.operation(),
            code = error.code().unwrap_or_default(),
            request_id = error.request_id().unwrap_or_default(),
            class = class.as_str(),
            attempt = tries,
            "EC2 said no"
        );
        let code = error.code().unwrap_or_default().to_owned();
        let mishap = Mishap { doing, class, code, message, tries, until };
        if doing == Doing::Allocate && class != Class::Transient {
            // Nothing is paid for.
            self.hurry.note(&s.key, Priority::Background);
        }
        self.memories.change(&s.key, |memory| memory.mishap = Some(mishap));
        Flow::Wait(Some(until))
    }
}

/// Whether the hosts of the journal live on, as another claim's or as what was left behind.
fn is_left(s: &Snapshot) -> bool {
    let journal = s.journal();
    let Some(before) = &journal.allocation else { return false };
    let others = |host: &Host| s.is_passed_on(before, host) || (is_retained(&host.tags) && !s.owns(host));
    let mut shown = before.hosts.iter().filter_map(|id| s.sight()?.hosts.get(id));
    before.phase == Phase::Claimed || shown.any(|host| !host.state.is_released() && others(host))
}

pub(crate) fn annotation(key: &str, text: &str) -> Value {
    json!({"metadata": {"annotations": {key: text}}})
}
