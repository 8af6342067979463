//! What a group is told when it cannot be annotated.

use api::reasons::capacity::Reason;

use crate::judge::Scene;

/// What becomes of a group that is in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Only a change by a person helps.
    Terminal,
    /// Something is not there yet; its watch wakes the group.
    Missing,
    /// The catalogue does not know the type.
    UnknownType,
    /// The catalogue knows the type, but not enough of it.
    Incomplete,
    /// It passes by itself.
    Passing,
}

/// Why a group cannot be annotated: one sentence, without anything that changes from try to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The reason of the event.
    pub reason: Reason,
    /// The sentence.
    pub message: String,
    /// What becomes of it.
    pub outlook: Outlook,
}

impl Trouble {
    /// The object, or something it depends on, cannot be used as it is.
    #[must_use]
    pub fn invalid(scene: &Scene, message: String) -> Self {
        let reason = if scene.key.kind.is_machine_api() { Reason::ReconcileError } else { Reason::FailedUpdate };
        Self { reason, message, outlook: Outlook::Terminal }
    }

    /// Something that is named is not there.
    #[must_use]
    pub fn missing(message: String) -> Self {
        Self { reason: Reason::FailedUpdate, message, outlook: Outlook::Missing }
    }

    /// The cloud, or the way to it, fails.
    #[must_use]
    pub fn passing(message: String) -> Self {
        Self { reason: Reason::ReconcileError, message, outlook: Outlook::Passing }
    }

    /// Something about the credentials or the region that only a person can change.
    #[must_use]
    pub fn refused(message: String) -> Self {
        Self { reason: Reason::ReconcileError, message, outlook: Outlook::Terminal }
    }

    /// The catalogue does not know the type. `described` is the type that the present annotations describe.
    #[must_use]
    pub fn unknown(name: &str, place: &str, near: &[String], described: Option<&str>) -> Self {
        let mut message = format!("instance type {name:?} is unknown in {place}");
        if !near.is_empty() {
            message.push_str(&format!("; the nearest names are {}", near.join(", ")));
        }
        if let Some(described) = described.filter(|described| !described.is_empty() && *described != name) {
            message.push_str(&format!("; the annotations stay as they are and describe {described}"));
        }
        Self { reason: Reason::FailedUpdate, message, outlook: Outlook::UnknownType }
    }

    /// CloudStack does not know the offering. `described` is the type that the present annotations describe.
    #[must_use]
    pub fn unknown_offering(name: &str, zone: &str, near: &[String], described: Option<&str>) -> Self {
        let unknown = Self::unknown(name, &format!("zone {zone}"), near, described);
        Self { message: unknown.message.replacen("instance type", "compute offering", 1), ..unknown }
    }

    /// Several offerings have the name.
    #[must_use]
    pub fn several_offerings(name: &str, zone: &str) -> Self {
        let message = format!("compute offering {name:?} in zone {zone}: several have this name, use the id of one");
        Self { reason: Reason::FailedUpdate, message, outlook: Outlook::Terminal }
    }

    /// An offering leaves something to the user, and the template does not say it.
    #[must_use]
    pub fn unchosen(name: &str, field: &str) -> Self {
        let message = format!(
            "compute offering {name:?} leaves {field} to its user, and spec.template.spec.details of the template does \
             not say it"
        );
        Self { reason: Reason::FailedUpdate, message, outlook: Outlook::Incomplete }
    }

    /// CloudStack does not say how many processors or how much memory an offering has.
    #[must_use]
    pub fn incomplete_offering(name: &str, zone: &str) -> Self {
        let incomplete = Self::incomplete(name, &format!("zone {zone}"));
        Self { message: incomplete.message.replacen("instance type", "compute offering", 1), ..incomplete }
    }

    /// No host tells what a machine of a template would offer.
    #[must_use]
    pub fn no_host(template: &str, place: &str) -> Self {
        let message =
            format!("the capacity of {template:?} is unknown: no inspected host in the {place} fits its selector");
        Self { reason: Reason::FailedUpdate, message, outlook: Outlook::UnknownType }
    }

    /// What the flags keep from pods is more than a type has.
    #[must_use]
    pub fn nothing_left(name: &str) -> Self {
        let message = format!(
            "instance type {name:?}: --reserved and --memory-overhead-percent leave nothing of its processors or memory"
        );
        Self { reason: Reason::FailedUpdate, message, outlook: Outlook::Incomplete }
    }

    /// The catalogue does not say how many processors or how much memory a type has.
    #[must_use]
    pub fn incomplete(name: &str, place: &str) -> Self {
        let message = format!(
            "instance type {name:?} in {place}: the catalogue gives no number of processors or no memory, so nothing is written"
        );
        Self { reason: Reason::FailedUpdate, message, outlook: Outlook::Incomplete }
    }
}
