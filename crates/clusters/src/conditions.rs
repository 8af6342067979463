//! How a cluster stands, from what Cluster API reports: five conditions, each with how grave it is that it does not hold.

use api::own::anywhere::GradedCondition;
use api::reasons::READY;
use api::reasons::clusters::{
    CONTROL_PLANE_INITIALIZED, CONTROL_PLANE_READY, DEFAULT_CNI_CONFIGURED, Reason, WORKERS_READY,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The conditions of a cluster, the summary first.
pub const TYPES: [&str; 5] =
    [READY, CONTROL_PLANE_INITIALIZED, CONTROL_PLANE_READY, DEFAULT_CNI_CONFIGURED, WORKERS_READY];

/// How grave it is that a condition does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It passes by itself.
    Info,
    /// Somebody should know.
    Warning,
    /// Somebody has to do something.
    Error,
}

impl Severity {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "Info",
            Self::Warning => "Warning",
            Self::Error => "Error",
        }
    }
}

/// Why a condition does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// How grave it is.
    pub severity: Severity,
    /// In one word.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
}

/// Whether something holds, or why not.
pub type Standing = Result<(), Trouble>;

pub(crate) fn info(reason: Reason, message: impl Into<String>) -> Trouble {
    Trouble { severity: Severity::Info, reason, message: message.into() }
}

fn error(reason: Reason, message: impl Into<String>) -> Trouble {
    Trouble { severity: Severity::Error, reason, message: message.into() }
}

/// What is known of machines that belong together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machines {
    /// How many are wanted.
    pub wanted: i64,
    /// How many there are.
    pub replicas: i64,
    /// How many are as they should be now.
    pub up_to_date: i64,
    /// How many have a node that is ready.
    pub ready: i64,
}

impl Machines {
    fn standing(self) -> Standing {
        if self.up_to_date < self.replicas {
            let text = format!("{} of {} up to date", self.up_to_date, self.replicas);
            return Err(info(Reason::RollingUpgradeInProgress, text));
        }
        if self.replicas < self.wanted {
            let text = format!("{} of {} machines are there", self.replicas, self.wanted);
            return Err(info(Reason::ScalingUp, text));
        }
        if self.replicas > self.wanted {
            let text = format!("{} machines are there, {} are wanted", self.replicas, self.wanted);
            return Err(info(Reason::ScalingDown, text));
        }
        if self.ready < self.wanted {
            let text = format!("{} of {} nodes are ready", self.ready, self.wanted);
            return Err(info(Reason::NodesNotReady, text));
        }
        Ok(())
    }
}

/// What is known of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plane {
    /// Whether it was available before.
    pub initialized: bool,
    /// Whether it is available.
    pub available: bool,
    /// Whether its report is about its latest change.
    pub current: bool,
    /// Its machines.
    pub machines: Machines,
    /// What Cluster API says of parts that are not healthy.
    pub unhealthy: Option<String>,
    /// What Cluster API says when it does not call it ready.
    pub not_ready: Option<String>,
}

/// Whether the control plane was available once; it never goes back.
pub fn initialized(plane: Option<&Plane>) -> Standing {
    let first = "the first control plane instance is not available yet";
    match plane {
        Some(plane) if plane.initialized || plane.available => Ok(()),
        Some(plane) if !plane.current => {
            Err(info(Reason::OutdatedInformation, "the control plane has not been looked at since its latest change"))
        }
        _ => Err(info(Reason::ControlPlaneInitializationInProgress, first)),
    }
}

/// Whether the control plane is as wanted.
pub fn plane_ready(plane: Option<&Plane>) -> Standing {
    initialized(plane)?;
    let Some(plane) = plane else { return Ok(()) };
    if !plane.current {
        let text = "the control plane has not been looked at since its latest change";
        return Err(info(Reason::OutdatedInformation, text));
    }
    plane.machines.standing()?;
    if let Some(message) = &plane.unhealthy {
        return Err(error(Reason::ControlPlaneComponentsUnhealthy, message));
    }
    match &plane.not_ready {
        Some(message) => Err(error(Reason::KubeadmControlPlaneNotReady, message)),
        None => Ok(()),
    }
}

/// What is known of a group of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Whether its report is about its latest change.
    pub current: bool,
    /// Its machines.
    pub machines: Machines,
    /// Between which numbers cluster-autoscaler chooses, when it does.
    pub limits: Option<(i64, i64)>,
    /// What Cluster API says when it does not call it available.
    pub unavailable: Option<String>,
}

/// Whether all groups of workers are as wanted.
pub fn workers_ready(plane: Option<&Plane>, groups: &[Group]) -> Standing {
    if initialized(plane).is_err() {
        return Err(info(Reason::ControlPlaneNotInitialized, "workers are made once the control plane was available"));
    }
    if let Some(group) = groups.iter().find(|group| !group.current) {
        let text = format!("group {} has not been looked at since its latest change", group.name);
        return Err(info(Reason::OutdatedInformation, text));
    }
    let fixed = groups.iter().filter(|group| group.limits.is_none()).map(|group| group.machines);
    let total = fixed.fold(Machines::default(), |sum, machines| Machines {
        wanted: sum.wanted + machines.wanted,
        replicas: sum.replicas + machines.replicas,
        up_to_date: sum.up_to_date + machines.up_to_date,
        ready: sum.ready + machines.ready,
    });
    total.standing()?;
    for group in groups {
        let Some((least, most)) = group.limits else { continue };
        let machines = group.machines;
        if machines.up_to_date < machines.replicas {
            let text = format!("group {}: {} of {} up to date", group.name, machines.up_to_date, machines.replicas);
            return Err(info(Reason::RollingUpgradeInProgress, text));
        }
        if machines.replicas < least || machines.replicas > most {
            let text = format!("group {} has {} machines, not {least} to {most}", group.name, machines.replicas);
            return Err(info(Reason::AutoscalerConstraintNotMet, text));
        }
    }
    let unavailable = groups.iter().find_map(|group| Some((&group.name, group.unavailable.as_ref()?)));
    match unavailable {
        Some((name, message)) => Err(error(Reason::MachineDeploymentNotReady, format!("group {name}: {message}"))),
        None => Ok(()),
    }
}

/// Every condition of a cluster, the summary first.
#[must_use]
pub fn all(plane: Option<&Plane>, cni: Standing, groups: &[Group]) -> Vec<(&'static str, Standing)> {
    let parts = [
        (CONTROL_PLANE_INITIALIZED, initialized(plane)),
        (CONTROL_PLANE_READY, plane_ready(plane)),
        (DEFAULT_CNI_CONFIGURED, cni),
        (WORKERS_READY, workers_ready(plane, groups)),
    ];
    let counts = |trouble: &&Trouble| trouble.reason != Reason::SkipUpgradesForDefaultCNIConfigured;
    let troubles = parts.iter().filter_map(|(_, standing)| standing.as_ref().err()).filter(counts);
    // Of equally grave ones the first: it is what the others wait for.
    let worst = troubles.fold(None, |worst: Option<&Trouble>, trouble| match worst {
        Some(worst) if worst.severity >= trouble.severity => Some(worst),
        _ => Some(trouble),
    });
    let ready = worst.map_or(Ok(()), |trouble| Err(trouble.clone()));
    [(READY, ready)].into_iter().chain(parts).collect()
}

/// What a stored condition says; none when it was never set, or in words of others.
#[must_use]
pub fn stored(conditions: &[GradedCondition], type_: &str) -> Option<Standing> {
    let condition = conditions.iter().find(|condition| condition.type_ == type_)?;
    if condition.status == "True" {
        return Some(Ok(()));
    }
    let reason = Reason::ALL.iter().find(|reason| reason.as_str() == condition.reason)?;
    let grades = [Severity::Info, Severity::Warning, Severity::Error];
    let severity = grades.into_iter().find(|grade| grade.as_str() == condition.severity).unwrap_or(Severity::Info);
    Some(Err(Trouble { severity, reason: *reason, message: condition.message.clone() }))
}

/// Conditions as they are stored; the time of one changes only when it begins or ceases to hold.
#[must_use]
pub fn fold(old: &[GradedCondition], standings: Vec<(&'static str, Standing)>, now: &Time) -> Vec<GradedCondition> {
    let fold = |(type_, standing): (&'static str, Standing)| {
        let status = if standing.is_ok() { "True" } else { "False" };
        let before = old.iter().find(|condition| condition.type_ == type_ && condition.status == status);
        let trouble = standing.err();
        GradedCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            severity: trouble.as_ref().map(|trouble| trouble.severity.as_str().to_owned()).unwrap_or_default(),
            reason: trouble.as_ref().map(|trouble| trouble.reason.to_string()).unwrap_or_default(),
            message: trouble.map(|trouble| trouble.message).unwrap_or_default(),
            last_transition_time: before
                .map_or_else(|| now.clone(), |condition| condition.last_transition_time.clone()),
        }
    };
    standings.into_iter().map(fold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(wanted: i64, replicas: i64, up_to_date: i64, ready: i64) -> Machines {
        Machines { wanted, replicas, up_to_date, ready }
    }

    fn plane(counts: Machines) -> Plane {
        Plane { initialized: true, available: true, current: true, machines: counts, ..Plane::default() }
    }

    fn word(standing: Standing) -> String {
        standing.err().map_or_else(String::new, |t| format!("{} {}: {}", t.severity.as_str(), t.reason, t.message))
    }

    #[test]
    fn the_control_plane_is_initialized_once_and_for_ever() {
        let first = "Info ControlPlaneInitializationInProgress: the first control plane instance is not available yet";
        let stale = "Info OutdatedInformation: the control plane has not been looked at since its latest change";
        let of = |initialized, available, current| Plane { initialized, available, current, ..Plane::default() };
        let rows = [
            (None, first),
            (Some(of(false, false, true)), first),
            (Some(of(false, false, false)), stale),
            (Some(of(false, true, true)), ""),
            (Some(of(true, false, true)), ""),
            (Some(of(true, false, false)), ""),
        ];
        for (plane, wanted) in rows {
            assert_eq!(word(initialized(plane.as_ref())), wanted, "{plane:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_control_plane_is_told_in_order() {
        let good = machines(3, 3, 3, 3);
        let unhealthy = Some("etcd is down".to_owned());
        let not_ready = Some("waits".to_owned());
        let rows = [
            (plane(good), ""),
            (
                Plane { current: false, ..plane(good) },
                "Info OutdatedInformation: the control plane has not been looked at since its latest change",
            ),
            (plane(machines(3, 4, 1, 4)), "Info RollingUpgradeInProgress: 1 of 4 up to date"),
            (plane(machines(3, 1, 1, 1)), "Info ScalingUp: 1 of 3 machines are there"),
            (plane(machines(1, 3, 3, 3)), "Info ScalingDown: 3 machines are there, 1 are wanted"),
            (plane(machines(3, 3, 3, 2)), "Info NodesNotReady: 2 of 3 nodes are ready"),
            (
                Plane { unhealthy: unhealthy.clone(), not_ready: not_ready.clone(), ..plane(good) },
                "Error ControlPlaneComponentsUnhealthy: etcd is down",
            ),
            (Plane { not_ready, ..plane(good) }, "Error KubeadmControlPlaneNotReady: waits"),
            (Plane { unhealthy, ..plane(machines(3, 3, 3, 2)) }, "Info NodesNotReady: 2 of 3 nodes are ready"),
        ];
        for (plane, wanted) in rows {
            assert_eq!(word(plane_ready(Some(&plane))), wanted, "{plane:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_workers_is_told_in_order() {
        let up = plane(machines(1, 1, 1, 1));
        let group =
            |name: &str, counts| Group { name: name.into(), current: true, machines: counts, ..Group::default() };
        let elastic = |counts| Group { limits: Some((2, 4)), ..group("e", counts) };
        let good = group("a", machines(2, 2, 2, 2));
        let rows = [
            (vec![good.clone()], ""),
            (vec![], ""),
            (
                vec![good.clone(), Group { current: false, ..group("b", machines(1, 1, 1, 1)) }],
                "Info OutdatedInformation: group b has not been looked at since its latest change",
            ),
            (vec![good.clone(), group("b", machines(2, 3, 1, 3))], "Info RollingUpgradeInProgress: 3 of 5 up to date"),
            (vec![group("b", machines(2, 1, 1, 1))], "Info ScalingUp: 1 of 2 machines are there"),
            (vec![group("b", machines(2, 3, 3, 3))], "Info ScalingDown: 3 machines are there, 2 are wanted"),
            (vec![group("b", machines(2, 2, 2, 0))], "Info NodesNotReady: 0 of 2 nodes are ready"),
            // cluster-autoscaler chose another number than is written, within its limits
            (vec![elastic(machines(2, 4, 4, 4))], ""),
            (
                vec![elastic(machines(2, 1, 1, 1))],
                "Info AutoscalerConstraintNotMet: group e has 1 machines, not 2 to 4",
            ),
            (
                vec![elastic(machines(2, 5, 5, 5))],
                "Info AutoscalerConstraintNotMet: group e has 5 machines, not 2 to 4",
            ),
            (vec![elastic(machines(2, 3, 1, 3))], "Info RollingUpgradeInProgress: group e: 1 of 3 up to date"),
            (
                vec![Group { unavailable: Some("no".into()), ..good.clone() }],
                "Error MachineDeploymentNotReady: group a: no",
            ),
        ];
        for (groups, wanted) in rows {
            assert_eq!(word(workers_ready(Some(&up), &groups)), wanted, "{groups:?}");
        }
        let wait = "Info ControlPlaneNotInitialized: workers are made once the control plane was available";
        assert_eq!(word(workers_ready(None, &[good])), wait);
    }

    #[test]
    fn ready_is_the_gravest_of_what_counts() {
        let up = plane(machines(1, 1, 1, 1));
        let group = |unavailable: Option<&str>, ready| Group {
            current: true,
            machines: machines(1, 1, 1, ready),
            unavailable: unavailable.map(str::to_owned),
            ..Group::default()
        };
        let skip = Trouble {
            severity: Severity::Warning,
            reason: Reason::SkipUpgradesForDefaultCNIConfigured,
            message: String::new(),
        };
        let upgrading = info(Reason::DefaultCNIUpgradeInProgress, "");
        let ready = |plane: Option<&Plane>, cni: Standing, groups: &[Group]| {
            let all = all(plane, cni, groups);
            assert_eq!(
                all.iter().map(|(type_, _)| *type_).collect::<Vec<_>>(),
                ["Ready", "ControlPlaneInitialized", "ControlPlaneReady", "DefaultCNIConfigured", "WorkersReady"]
            );
            all[0].1.clone().err().map(|trouble| trouble.reason)
        };
        assert_eq!(ready(Some(&up), Ok(()), &[group(None, 1)]), None);
        assert_eq!(ready(Some(&up), Err(skip.clone()), &[group(None, 1)]), None, "left alone on purpose");
        assert_eq!(
            ready(Some(&up), Err(upgrading.clone()), &[group(None, 0)]),
            Some(Reason::DefaultCNIUpgradeInProgress)
        );
        assert_eq!(ready(Some(&up), Err(upgrading), &[group(Some("x"), 1)]), Some(Reason::MachineDeploymentNotReady));
        assert_eq!(ready(None, Err(skip), &[]), Some(Reason::ControlPlaneInitializationInProgress));
    }

    #[test]
    fn the_time_of_a_condition_changes_with_its_status_only() {
        let at = |second: i64| Time(jiff::Timestamp::from_second(second).unwrap());
        let up = plane(machines(1, 1, 1, 1));
        let first = fold(&[], all(Some(&up), Ok(()), &[]), &at(1));
        assert_eq!(fold(&first, all(Some(&up), Ok(()), &[]), &at(2)), first, "nothing changed, nothing is written");
        let down = plane(machines(3, 1, 1, 1));
        let second = fold(&first, all(Some(&down), Ok(()), &[]), &at(3));
        let third = fold(&second, all(Some(&plane(machines(3, 2, 2, 2))), Ok(()), &[]), &at(4));
        let time = |all: &[GradedCondition], type_: &str| {
            all.iter().find(|c| c.type_ == type_).unwrap().last_transition_time.clone()
        };
        assert_eq!((time(&second, "Ready"), time(&second, "WorkersReady")), (at(3), at(1)));
        assert_eq!((time(&third, "Ready"), third[0].message.as_str()), (at(3), "2 of 3 machines are there"));
        assert_eq!((third[0].severity.as_str(), third[0].reason.as_str()), ("Info", "ScalingUp"));
    }
}
