//! What people are told, in whole sentences. Host errors name addresses and accounts, so their text never reaches a
//! tenant: each class has a sentence of its own.

use crate::parts::{Fault, Part};

/// Something worth an event that no condition tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tell {
    /// A reboot waits for something to run on the host.
    RebootDeferred,
    /// The claim holds more reboots than are passed on.
    TooManyReboots,
    /// The claim asked to detach its host and may not.
    DetachNotAllowed,
    /// The host's owner deletes it under the claim.
    HostBeingDeleted,
    /// Another controller writes the status of claims.
    ForeignClaimController,
}

impl Tell {
    /// The event's reason.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::RebootDeferred => "RebootDeferred",
            Self::TooManyReboots => "TooManyReboots",
            Self::DetachNotAllowed => "DetachNotAllowed",
            Self::HostBeingDeleted => "HostBeingDeleted",
            Self::ForeignClaimController => "ForeignClaimController",
        }
    }

    /// The event's text.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::RebootDeferred => "The reboot is done once the host is provisioned.",
            Self::TooManyReboots => "Only the first eight reboots that the claim holds are passed on to the host.",
            Self::DetachNotAllowed => {
                "No policy lets claims of this namespace detach a host; the annotation has no effect."
            }
            Self::ForeignClaimController => {
                "Another controller writes the status of this claim; switch off the claim controller of the bare-metal operator."
            }
            Self::HostBeingDeleted => "The owner of the host deletes it; nothing more is changed on it.",
        }
    }
}

/// The sentence for a class of host errors.
#[must_use]
pub fn host_error(class: &str) -> &'static str {
    match class {
        "registration error" => "The host cannot be reached by its management controller (registration error).",
        "provisioned registration error" => {
            "The deployed host cannot be reached by its management controller (provisioned registration error)."
        }
        "inspection error" => "The hardware of the host could not be inspected (inspection error).",
        "preparation error" => "The host could not be prepared for deployment (preparation error).",
        "provisioning error" => "Deploying the image on the host failed (provisioning error).",
        "power management error" => "The power of the host could not be switched (power management error).",
        "detach error" => "The host could not be detached (detach error).",
        "servicing error" => "Servicing the host failed (servicing error).",
        _ => "The host reports an error of a class that is not known here; its owner can see the details.",
    }
}

/// The sentence for a secret that is not there.
#[must_use]
pub fn missing(part: Part, name: &str) -> String {
    if name.is_empty() {
        return format!("The claim names no secret for its {part}; give a name, or leave the field out.");
    }
    format!("The secret {name} with the {part} is not in the claim's namespace yet.")
}

/// The sentence for a secret that cannot be used.
#[must_use]
pub fn unusable(part: Part, name: &str, fault: Fault) -> String {
    match fault {
        Fault::NoKey if part == Part::Pull => format!("The secret {name} with the {part} credentials is empty."),
        Fault::NoKey => format!("The secret {name} has neither the key {} nor the key value.", part.field()),
        Fault::NameTaken => {
            format!(
                "The {part} cannot be handed to the host: a secret that is not Berth's has the name of its copy there."
            )
        }
    }
}
