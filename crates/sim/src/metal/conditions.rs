//! The conditions of a host, as the operator derives them from its status.

use jiff::Timestamp;

use super::host::{Condition, Status};
use super::state::{self, stamp};

type Verdict<'a> = (&'static str, bool, &'a str);

/// The conditions that go with a status; the time of one that says the same as before stays.
pub(super) fn of(status: &Status, health: Option<&str>, now: Timestamp) -> Vec<Condition> {
    let health = health.unwrap_or("Healthy");
    let verdicts = [
        manageable(status),
        provisioned(status),
        ready(status),
        available(status),
        progressing(status),
        ("Healthy", health == "Healthy", health),
    ];
    verdicts.into_iter().map(|verdict| condition(verdict, &status.conditions, now)).collect()
}

fn condition((kind, holds, reason): Verdict<'_>, before: &[Condition], now: Timestamp) -> Condition {
    let unknown = kind == "Healthy" && reason == "Unknown";
    let status = if unknown {
        "Unknown"
    } else if holds {
        "True"
    } else {
        "False"
    };
    let old = before.iter().find(|condition| condition.kind == kind && condition.status == status);
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: old.map_or_else(|| stamp(now), |old| old.last_transition_time.clone()),
    }
}

fn manageable(status: &Status) -> Verdict<'static> {
    let (holds, reason) = match (status.provisioning.state.as_str(), status.error_type.as_deref()) {
        ("" | state::UNMANAGED, _) => (false, "NotManaged"),
        (_, Some("registration error" | "provisioned registration error")) => (false, "RegistrationFailed"),
        (_, Some("power management error")) => (false, "PowerFailure"),
        (state::REGISTERING, _) => (false, "Registering"),
        _ => (true, "Manageable"),
    };
    ("Manageable", holds, reason)
}

fn has_system(status: &Status) -> bool {
    matches!(status.provisioning.state.as_str(), state::PROVISIONED | state::EXTERNALLY_PROVISIONED)
}

fn provisioned(status: &Status) -> Verdict<'static> {
    let (holds, reason) = match status.provisioning.state.as_str() {
        state::PROVISIONED | state::EXTERNALLY_PROVISIONED => (true, "Provisioned"),
        state::PROVISIONING => (false, "Provisioning"),
        _ => (false, "NotProvisioned"),
    };
    ("Provisioned", holds, reason)
}

fn ready(status: &Status) -> Verdict<'static> {
    let (holds, reason) = match status.operational_status.as_str() {
        "error" => (false, "Error"),
        "detached" => (false, "Detached"),
        _ if has_system(status) => (true, "Provisioned"),
        _ => (false, "NotProvisioned"),
    };
    ("Ready", holds, reason)
}

fn available(status: &Status) -> Verdict<'static> {
    let (holds, reason) = match status.provisioning.state.as_str() {
        _ if !manageable(status).1 => (false, "NotManageableReason"),
        state::AVAILABLE | state::READY => (true, "Available"),
        state::INSPECTING => (false, "Inspecting"),
        _ => (false, "NotAvailable"),
    };
    ("AvailableForProvisioning", holds, reason)
}

fn progressing(status: &Status) -> Verdict<'static> {
    let reason = match status.provisioning.state.as_str() {
        state::REGISTERING => "Registering",
        state::INSPECTING => "Inspecting",
        state::PREPARING => "Preparing",
        state::PROVISIONING => "Provisioning",
        state::DEPROVISIONING => "Deprovisioning",
        state::POWERING_OFF => "PoweringOffBeforeDelete",
        state::DELETING => "Deleting",
        _ => return ("Progressing", false, "NotProgressing"),
    };
    ("Progressing", true, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(state: &str) -> Status {
        let mut status = Status { operational_status: "OK".to_owned(), ..Status::default() };
        state.clone_into(&mut status.provisioning.state);
        status
    }

    fn said(status: &Status, kind: &str) -> (String, String) {
        let all = of(status, None, Timestamp::UNIX_EPOCH);
        let found = all.into_iter().find(|condition| condition.kind == kind).unwrap();
        (found.status, found.reason)
    }

    #[test]
    fn they_follow_the_state() {
        for (state, provisioned, available) in [
            ("", "False/NotProvisioned", "False/NotManageableReason"),
            ("registering", "False/NotProvisioned", "False/NotManageableReason"),
            ("inspecting", "False/NotProvisioned", "False/Inspecting"),
            ("preparing", "False/NotProvisioned", "False/NotAvailable"),
            ("available", "False/NotProvisioned", "True/Available"),
            ("ready", "False/NotProvisioned", "True/Available"),
            ("provisioning", "False/Provisioning", "False/NotAvailable"),
            ("provisioned", "True/Provisioned", "False/NotAvailable"),
            ("externally provisioned", "True/Provisioned", "False/NotAvailable"),
            ("deprovisioning", "False/NotProvisioned", "False/NotAvailable"),
        ] {
            let shown = |kind| {
                let (status, reason) = said(&at(state), kind);
                format!("{status}/{reason}")
            };
            assert_eq!(shown("Provisioned"), provisioned, "{state}");
            assert_eq!(shown("AvailableForProvisioning"), available, "{state}");
        }
    }

    #[test]
    fn a_time_changes_with_the_status_alone() {
        let later = Timestamp::from_second(60).unwrap();
        let mut status = at("provisioning");
        status.conditions = of(&status, None, Timestamp::UNIX_EPOCH);
        "deprovisioning".clone_into(&mut status.provisioning.state);
        let now = of(&status, Some("CriticalError"), later);
        let time = |kind: &str| now.iter().find(|c| c.kind == kind).unwrap().last_transition_time.clone();
        assert_eq!(time("Provisioned"), "1970-01-01T00:00:00Z", "the reason changed, the status did not");
        assert_eq!(time("Healthy"), "1970-01-01T00:01:00Z");
        assert_eq!(of(&status, Some("Unknown"), later)[5].status, "Unknown");
    }
}
