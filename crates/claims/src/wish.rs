//! What a host should look like while it is ours, and when it goes back; each as the one patch that makes it so.
//!
//! A wish is compared with the host as it is, so a host that looks right costs nothing, and the same wish can be
//! weighed first against the index and then against the object as it was read a moment before writing.

mod change;

use std::collections::{BTreeMap, BTreeSet};

use api::names::claims as names;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::facts::{Consumer, HostFacts, Image, SecretRef};
use crate::names::{avoid_annotation, hex, short};
use crate::parts::Part;
use change::Change;

/// The group of Clusters.
pub const CLUSTER_GROUP: &str = "cluster.x-k8s.io";

/// What the administrator had chosen on a host before it was bound; it comes back when the host is given back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Defaults {
    /// Whether the host was to be powered on.
    pub online: bool,
    /// How its disks are cleaned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated_cleaning_mode: Option<Box<str>>,
    /// Its user data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretRef>,
    /// Its meta data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretRef>,
    /// Its network data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretRef>,
    /// Whether something ran on the host already when it came to us, bound by somebody else for the same claim.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// What ran on the host and was taken off without the disks being cleaned, as the field of the host's spec that
    /// held it. Nobody else gets the host before they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncleaned: Option<Value>,
    /// Whether that is deployed once more, only to be taken off with a cleaning, or was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub scrubbing: bool,
    /// The reboots that were passed on to the host, by the whole name of its annotation. One that is missing there was
    /// taken off by the owner, and is not held again before the claim has let go of it.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub held: BTreeSet<String>,
}

impl Defaults {
    /// The choices on record for a host of ours. When nothing is, or nothing that can be read, they are those the host
    /// shows now, but nobody knows whether a tenant or the owner chose not to clean its disks: so they are cleaned.
    #[must_use]
    pub fn of(host: &HostFacts) -> Self {
        Self::recorded(host).unwrap_or_else(|| {
            let shown = Self::shown(host);
            let cleans = shown.automated_cleaning_mode.filter(|mode| &**mode != "disabled");
            Self { automated_cleaning_mode: cleans, ..shown }
        })
    }

    fn recorded(host: &HostFacts) -> Option<Self> {
        serde_json::from_str(host.annotation(names::INFRA_DEFAULTS_ANNOTATION)?).ok()
    }

    /// The choices that a host shows now which is nobody's yet. A reference to a copy is never the administrator's
    /// choice, and disks that are on record as uncleaned are so whoever has the host.
    #[must_use]
    pub fn shown(host: &HostFacts) -> Self {
        let own = |part: Part| {
            let at = host.data(part)?;
            let copy = at.name.contains("-hc-") && at.name.ends_with(part.suffix());
            (!copy).then(|| at.clone())
        };
        Self {
            online: host.online,
            automated_cleaning_mode: host.cleaning.clone(),
            user_data: own(Part::UserData),
            meta_data: own(Part::MetaData),
            network_data: own(Part::NetworkData),
            adopted: host.is_deployed(),
            uncleaned: Self::recorded(host).and_then(|recorded| recorded.uncleaned),
            scrubbing: false,
            held: BTreeSet::new(),
        }
    }

    /// These choices after what runs on the host is taken off with disks being cleaned in this way. Only what was
    /// deployed is cleaned away: a deployment that is called off early may leave the disks as they were.
    fn after_removal(self, host: &HostFacts, cleaning: Option<&str>) -> Self {
        let keeps = cleaning == Some("disabled") && self.automated_cleaning_mode.as_deref() != Some("disabled");
        let uncleaned = match (keeps, was_deployed(host)) {
            (true, true) => payload_of(host),
            (true, false) => self.uncleaned.or_else(|| payload_of(host)),
            (false, true) => None,
            (false, false) => self.uncleaned,
        };
        Self { scrubbing: self.scrubbing && uncleaned.is_none(), uncleaned, ..self }
    }

    fn text(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    fn data(&self, part: Part) -> Option<&SecretRef> {
        match part {
            Part::UserData => self.user_data.as_ref(),
            Part::MetaData => self.meta_data.as_ref(),
            Part::NetworkData => self.network_data.as_ref(),
            Part::Pull => None,
        }
    }
}

/// What runs on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: what is there is taken away.
    Nothing,
    /// This image, once the host has none.
    Image(Image),
    /// This custom deployment, once the host has none.
    Custom(Box<str>),
    /// Whatever is there now.
    AsIs,
}

/// Where the host finds one part of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Here.
    At(SecretRef),
    /// Where the administrator had it.
    Default,
    /// Wherever it is now.
    AsIs,
}

/// What becomes of an annotation that is either ours or somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It is set unless somebody has set it.
    Set,
    /// Ours is taken away.
    Unset,
    /// It is left alone.
    AsIs,
}

/// A host in the hands of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stay {
    /// The claim, as the host names it.
    pub consumer: Consumer,
    /// Whether the host is to be powered on.
    pub online: bool,
    /// What runs on it.
    pub payload: Payload,
    /// Its data.
    pub data: BTreeMap<Part, Data>,
    /// How its disks are cleaned; `None` is the administrator's way.
    pub cleaning: Option<Box<str>>,
    /// Reboots that are held, by the whole name of the host's annotation.
    pub held: BTreeMap<String, String>,
    /// A reboot to be done once: its id and the annotation's value.
    pub reboot: Option<(Box<str>, Box<str>)>,
    /// Whether the host is detached from its controller.
    pub detached: Mark,
    /// Whether the host's controller is told to leave it alone.
    pub paused: Mark,
    /// Whether a move of the namespace must wait for us.
    pub block_move: bool,
}

impl Stay {
    /// The patch that makes the host so; `None` when it is so.
    #[must_use]
    pub fn patch(&self, host: &HostFacts) -> Option<Value> {
        let mut change = Change::default();
        if host.consumer.as_ref() != Some(&self.consumer) {
            change.spec("consumerRef", reference(&self.consumer));
        }
        // What an earlier claim left on record is not what the owner chose since.
        let new = host.consumer.as_ref().and_then(Consumer::claim) != self.consumer.claim();
        // But what a reservation kept on record is: the host has been nobody else's since.
        let kept = is_reserved(host);
        let defaults = if new && !kept { Defaults::shown(host) } else { Defaults::of(host) };
        let cleaning: Option<Box<str>> = self.cleaning.clone().or_else(|| defaults.automated_cleaning_mode.clone());
        let removes = self.payload == Payload::Nothing && payload_of(host).is_some();
        let mut defaults = if removes { defaults.after_removal(host, cleaning.as_deref()) } else { defaults };
        // A claim that has once said what should run means it when it says nothing later.
        defaults.adopted &= !matches!(self.payload, Payload::Image(_) | Payload::Custom(_));
        defaults.scrubbing = false;
        let passed_on = std::mem::replace(&mut defaults.held, self.held.keys().cloned().collect());
        change.record(host, &defaults, new);
        if host.labels.contains_key(names::NODE_REUSE_LABEL) {
            change.label(names::NODE_REUSE_LABEL, None);
        }
        change.drop_annotations(
            host,
            [names::REUSE_GROUP_ANNOTATION, names::REUSE_UNTIL_ANNOTATION, names::FENCE_ANNOTATION],
        );
        self.payload(host, &mut change);
        let online = self.online || host.disable_power_off;
        if host.online != online {
            change.spec("online", json!(online));
        }
        for part in Part::DATA {
            let at = match self.data.get(&part) {
                Some(Data::At(at)) => Some(at),
                Some(Data::Default) | None => defaults.data(part),
                Some(Data::AsIs) => continue,
            };
            change.refer(host, part, at);
        }
        change.cleaning(host, cleaning.as_deref());
        for stale in held_on(host, &self.consumer.uid, &passed_on).filter(|key| !self.held.contains_key(*key)) {
            change.annotate(stale, None);
        }
        for (key, value) in &self.held {
            let there = host.annotation(key);
            // The owner has the last word: what it took off stays off.
            let taken_off = there.is_none() && passed_on.contains(key);
            if there != Some(value) && !taken_off {
                change.annotate(key, Some(value.clone()));
            }
        }
        if let Some((id, value)) = &self.reboot
            && host.annotation(names::REBOOT_ID_ANNOTATION) != Some(id)
        {
            change.annotate(names::REBOOT_ANNOTATION, Some(value.to_string()));
            change.annotate(names::REBOOT_ID_ANNOTATION, Some(id.to_string()));
        }
        match self.detached {
            Mark::Set if host.annotation(names::DETACHED_ANNOTATION).is_none() => {
                change.annotate(names::DETACHED_ANNOTATION, Some(names::DETACHED_BY_CLAIM.to_owned()));
            }
            Mark::Unset => change.drop_mark(host, names::DETACHED_ANNOTATION, names::DETACHED_BY_CLAIM),
            Mark::Set | Mark::AsIs => {}
        }
        match self.paused {
            Mark::Set if host.annotation(names::HOST_PAUSED_ANNOTATION).is_none() => {
                change.annotate(names::HOST_PAUSED_ANNOTATION, Some(names::HOST_PAUSED_BY_CLAIM.to_owned()));
            }
            Mark::Unset => change.drop_mark(host, names::HOST_PAUSED_ANNOTATION, names::HOST_PAUSED_BY_CLAIM),
            Mark::Set | Mark::AsIs => {}
        }
        match (self.block_move, host.annotation(names::BLOCK_MOVE_ANNOTATION).is_some()) {
            (true, false) => change.annotate(names::BLOCK_MOVE_ANNOTATION, Some(String::new())),
            (false, true) => change.annotate(names::BLOCK_MOVE_ANNOTATION, None),
            (true, true) | (false, false) => {}
        }
        change.body()
    }

    fn payload(&self, host: &HostFacts, change: &mut Change) {
        match &self.payload {
            Payload::AsIs => {}
            Payload::Nothing => change.clear_payload(host),
            Payload::Image(image) if host.image.is_none() && host.custom_deploy.is_none() => {
                change.spec("image", image.body());
            }
            Payload::Custom(method) if host.image.is_none() && host.custom_deploy.is_none() => {
                change.spec("customDeploy", json!({"method": method}));
            }
            Payload::Image(_) | Payload::Custom(_) => {}
        }
    }
}

/// A host on its way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// The uid of the claim it leaves.
    pub uid: Box<str>,
    /// Whether a host that goes back stays powered on, for a faster next deployment.
    pub fast_track: bool,
    /// Whether the host goes back because it failed this claim.
    pub replacing: bool,
    /// Whether its disks stay as they are, for the next claim of the same group.
    pub keeps_disks: bool,
}

impl Leave {
    /// The patch that takes everything of the claim off the host but the reference; `None` when nothing is left.
    #[must_use]
    pub fn patch(&self, host: &HostFacts) -> Option<Value> {
        let mut change = Change::default();
        let mut defaults = Defaults::of(host);
        let kept: Option<Box<str>> = self.keeps_disks.then(|| "disabled".into());
        let cleaning = kept.or_else(|| defaults.automated_cleaning_mode.clone());
        change.cleaning(host, cleaning.as_deref());
        // What is deployed to be cleaned away must have been, or taking it off would clean nothing.
        let scrubs = defaults.scrubbing && defaults.uncleaned.is_some();
        let begins = scrubs && !was_deployed(host) && !crate::release::is_forced(host);
        let passed_on = std::mem::take(&mut defaults.held);
        let removes = !begins && payload_of(host).is_some();
        if removes {
            change.clear_payload(host);
            defaults = defaults.after_removal(host, cleaning.as_deref());
        }
        // Should the host stay with the claim after all, nobody but the claim has let go of its reboots.
        if removes || !passed_on.is_empty() {
            change.record(host, &defaults, false);
        }
        for part in Part::DATA {
            change.refer(host, part, defaults.data(part));
        }
        let cleans = cleaning.is_none_or(|mode| &*mode != "disabled");
        let online = host.disable_power_off || (self.fast_track && cleans);
        if host.online != online && !begins {
            change.spec("online", json!(online));
        }
        for key in held_on(host, &self.uid, &passed_on) {
            change.annotate(key, None);
        }
        if host.annotation(names::REBOOT_ID_ANNOTATION).is_some() {
            change.drop_annotations(host, [names::REBOOT_ID_ANNOTATION, names::REBOOT_ANNOTATION]);
        }
        change.drop_mark(host, names::DETACHED_ANNOTATION, names::DETACHED_BY_CLAIM);
        change.drop_mark(host, names::HOST_PAUSED_ANNOTATION, names::HOST_PAUSED_BY_CLAIM);
        if self.replacing && host.annotation(names::REPLACING_ANNOTATION) != Some(&*self.uid) {
            change.annotate(names::REPLACING_ANNOTATION, Some(self.uid.to_string()));
        }
        change.body()
    }

    /// The patch that begins to clean disks that were never cleaned: what was on them is deployed once more, to be taken
    /// off with a cleaning, because hosts clean their disks at no other time. `None` when they are clean, or it has begun.
    #[must_use]
    pub fn scrub(&self, host: &HostFacts) -> Option<Value> {
        let defaults = Defaults::of(host);
        let payload = defaults.uncleaned.clone().filter(|_| !self.keeps_disks)?;
        if payload_of(host).is_some() || !is_idle(host) {
            return None;
        }
        let mut change = Change::default();
        for (field, value) in payload.as_object()? {
            change.spec(field, value.clone());
        }
        change.spec("automatedCleaningMode", json!(defaults.automated_cleaning_mode));
        change.spec("online", json!(true));
        change.record(host, &Defaults { scrubbing: true, ..defaults }, false);
        change.body()
    }
}

/// Whether a host carries a reservation of ours: nobody else's reference is ever taken off. One that has lost its time
/// is over.
#[must_use]
pub fn is_reserved(host: &HostFacts) -> bool {
    let label = host.label(names::NODE_REUSE_LABEL).is_some_and(|value| value.starts_with("hc-"));
    let keeper = host.consumer.as_ref().map(|consumer| (&*consumer.group, &*consumer.kind));
    label && matches!(keeper, Some((CLUSTER_GROUP, "Cluster") | ("", "Namespace")))
}

/// Whether disks of the host hold what was taken off without a cleaning.
#[must_use]
pub fn is_uncleaned(host: &HostFacts) -> bool {
    Defaults::recorded(host).is_some_and(|recorded| recorded.uncleaned.is_some())
}

/// Whether such disks are being cleaned.
#[must_use]
pub fn is_scrubbed(host: &HostFacts) -> bool {
    Defaults::recorded(host).is_some_and(|recorded| recorded.scrubbing)
}

/// Whether what the host's spec names was deployed to its end: only then is taking it off sure to clean the disks. A
/// deployment that is called off before its first write, or fails before it, leaves them alone.
fn was_deployed(host: &HostFacts) -> bool {
    &*host.state == "provisioned"
}

/// Whether something is taken off the host, or is about to be: how its disks are cleaned then is asked when that begins.
fn is_going(host: &HostFacts) -> bool {
    let other = || {
        let there = host.deployed.as_ref().map(|image| &*image.url).filter(|url| !url.is_empty());
        there.is_some_and(|there| host.image.as_ref().is_none_or(|image| &*image.url != there))
    };
    match &*host.state {
        "deprovisioning" => true,
        "provisioning" | "provisioned" => payload_of(host).is_none() || other(),
        _ => false,
    }
}

/// Whether nothing is under way on the host.
fn is_idle(host: &HostFacts) -> bool {
    matches!(&*host.state, "available" | "ready")
}

/// What is deployed on the host, as the field of its spec that says so.
fn payload_of(host: &HostFacts) -> Option<Value> {
    let image = host.image.as_ref().map(|image| {
        // Credentials are a copy that goes with the claim.
        json!({"image": Image { oci_auth_secret: None, ..image.clone() }.body()})
    });
    image.or_else(|| host.custom_deploy.as_ref().map(|method| json!({"customDeploy": {"method": method}})))
}

/// What a host carries once it is let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing: anybody may take it.
    Free,
    /// The administrator forced it out of a claim's hands, so nobody may take it unseen.
    Quarantine,
    /// A tenant that is trusted in this says that it is broken.
    Unhealthy,
    /// It failed this tenant, which should not get it again before that time.
    Avoid {
        /// The tenant's namespace.
        tenant: Box<str>,
        /// Until then, as text.
        until: Box<str>,
    },
    /// It is kept for the next claim of the same group.
    Reserve {
        /// Who keeps it, as the host names it.
        keeper: Consumer,
        /// The value of the label that other claims see.
        label: Box<str>,
        /// The group in words.
        group: Box<str>,
        /// Until then, as text.
        until: Box<str>,
        /// Whether its disks were kept as they are.
        disks: bool,
    },
}

impl After {
    /// Whether the host is clean enough for this.
    #[must_use]
    pub fn may_follow(&self, host: &HostFacts) -> bool {
        let disks = matches!(self, Self::Reserve { disks: true, .. }) || !is_uncleaned(host);
        disks && crate::release::blocked(host).is_none()
    }

    /// The patch that lets the host go.
    #[must_use]
    pub fn patch(&self, host: &HostFacts) -> Value {
        let mut change = Change::default();
        change.spec("consumerRef", Value::Null);
        // What the owner had chosen comes back when the disks are cleaned, and only the record tells that it was not to
        // clean them.
        let uncleaning = || Defaults::of(host).automated_cleaning_mode.as_deref() == Some("disabled");
        let keeps_record = match self {
            Self::Reserve { disks, .. } => *disks || uncleaning(),
            Self::Free | Self::Quarantine | Self::Unhealthy | Self::Avoid { .. } => false,
        };
        if !keeps_record {
            change.drop_annotations(host, [names::INFRA_DEFAULTS_ANNOTATION]);
        }
        change.drop_annotations(
            host,
            [
                names::FORCE_RELEASE_ANNOTATION,
                names::REPLACING_ANNOTATION,
                names::REBOOT_ID_ANNOTATION,
                names::BLOCK_MOVE_ANNOTATION,
            ],
        );
        match self {
            Self::Free => {}
            Self::Quarantine => change.annotate(names::UNHEALTHY_ANNOTATION, Some("force-released".to_owned())),
            Self::Unhealthy => change.annotate(names::UNHEALTHY_ANNOTATION, Some("reported-by-tenant".to_owned())),
            Self::Avoid { tenant, until } => {
                change.annotate(&avoid_annotation(tenant), Some(until.to_string()));
            }
            Self::Reserve { keeper, label, group, until, .. } => {
                change.spec("consumerRef", reference(keeper));
                change.label(names::NODE_REUSE_LABEL, Some(label.to_string()));
                change.annotate(names::REUSE_GROUP_ANNOTATION, Some(group.to_string()));
                change.annotate(names::REUSE_UNTIL_ANNOTATION, Some(until.to_string()));
            }
        }
        change.body().unwrap_or_default()
    }
}

/// How the annotations begin by which a claim holds reboots on its host.
#[must_use]
pub fn held_prefix(uid: &str) -> String {
    format!("{}/hc-{}-", names::REBOOT_ANNOTATION, short(uid))
}

/// The reboots on a host that are held for the claim of this uid, or were passed on to it: a claim that was moved here has
/// another uid than the one that its host knew.
fn held_on<'h>(host: &'h HostFacts, uid: &str, passed_on: &BTreeSet<String>) -> impl Iterator<Item = &'h str> {
    let prefix = held_prefix(uid);
    let ours = move |key: &&str| key.starts_with(&prefix) || passed_on.contains(*key);
    host.annotations.keys().map(AsRef::as_ref).filter(ours)
}

/// The host's annotation for a reboot that the claim holds under `key`.
#[must_use]
pub fn held_name(uid: &str, key: &str) -> String {
    let whole = format!("{}{key}", held_prefix(uid));
    let name = whole.split_once('/').map_or("", |(_, name)| name);
    if name.len() <= 63 { whole } else { format!("{}{}", held_prefix(uid), hex(key, 32)) }
}

fn reference(consumer: &Consumer) -> Value {
    let version = match &*consumer.group {
        "" => "v1".to_owned(),
        CLUSTER_GROUP => format!("{CLUSTER_GROUP}/v1beta2"),
        group => format!("{group}/v1alpha1"),
    };
    // A merge patch keeps what it does not name: what must go is named.
    let named = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
    json!({
        "apiVersion": version,
        "kind": consumer.kind,
        "namespace": named(&consumer.namespace),
        "name": consumer.name,
        "uid": named(&consumer.uid),
    })
}

#[cfg(test)]
mod tests;
