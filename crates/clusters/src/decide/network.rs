//! What is done about the network plugin.

use api::reasons::clusters::Reason;

use super::{Need, SOON, Step};
use crate::cni::Next;
use crate::conditions::{Severity, Standing, Trouble, info};
use crate::snapshot::{Inside, Plugin, Snapshot};

/// What follows for the network plugin.
pub(super) enum Network {
    /// It is as it should be, or is left alone; goes on.
    Stands(Standing, Option<String>),
    /// Something is done first.
    Acts(Standing, Vec<Step>),
}

fn upgrading(message: impl Into<String>) -> Standing {
    Err(info(Reason::DefaultCNIUpgradeInProgress, message))
}

/// Thinks about the network plugin.
pub(super) fn think(s: &Snapshot) -> Result<Network, Need> {
    let wait = || Step::Wait { until: Some(s.after(SOON)) };
    let plugin = match s.inside.as_ref().ok_or(Need::Inside)? {
        Inside::NoKubeconfig => {
            let standing = Err(info(Reason::ControlPlaneNotReady, "the cluster has no kubeconfig yet"));
            return Ok(Network::Acts(standing, vec![wait()]));
        }
        Inside::Unreachable(why) => {
            let told = format!("the cluster does not answer: {why}");
            let standing = Err(info(Reason::ControlPlaneNotReady, told.clone()));
            return Ok(Network::Acts(standing, vec![Step::Fail { message: told, at_least: None }]));
        }
        Inside::Unusable(why) => {
            let trouble = Trouble {
                severity: Severity::Error,
                reason: Reason::DefaultCNIUpgradeInProgress,
                message: why.clone(),
            };
            return Ok(Network::Acts(Err(trouble), vec![wait()]));
        }
        Inside::Seen(plugin) => plugin,
    };
    let mut network = next(s, plugin, wait());
    if let Network::Acts(_, steps) = &mut network
        && let Some(mark) = mark(s)
    {
        steps.insert(0, mark);
    }
    Ok(network)
}

/// The mark of a plugin that is there without it: whoever stopped after installing it left it so.
pub(super) fn mark(s: &Snapshot) -> Option<Step> {
    let Some(Inside::Seen(plugin)) = &s.inside else { return None };
    (plugin.installed && !s.cluster.had_cni()).then_some(Step::Mark)
}

fn next(s: &Snapshot, plugin: &Plugin, wait: Step) -> Network {
    let version = &plugin.version;
    let enter = |reason: Option<Reason>, message: String| Step::Enter {
        objects: plugin.objects.clone(),
        replace: reason == Some(Reason::CNIUpgraded),
        reason,
        message,
    };
    let check = || Step::Enter { objects: plugin.check.clone(), replace: false, reason: None, message: String::new() };
    match &plugin.next {
        Next::Install => {
            let mut steps = vec![enter(Some(Reason::CNIInstalled), format!("Cilium {version} was installed"))];
            if !s.cluster.had_cni() {
                steps.push(Step::Mark);
            }
            steps.push(Step::Look);
            Network::Acts(upgrading("the network plugin is being installed"), steps)
        }
        Next::LeaveAlone => {
            let trouble = Trouble {
                severity: Severity::Warning,
                reason: Reason::SkipUpgradesForDefaultCNIConfigured,
                message: "the network plugin was installed once and is left alone".to_owned(),
            };
            Network::Stands(Err(trouble), None)
        }
        Next::WaitUntilReady => {
            Network::Acts(upgrading("the network plugin does not run on every node yet"), vec![wait])
        }
        Next::Check => {
            // What runs of the check of another upgrade would be taken for this one's until its pods are replaced.
            let old = plugin.check_old.then(|| Step::Leave { objects: plugin.check.clone() });
            let steps = old.into_iter().chain([check(), wait]).collect();
            Network::Acts(upgrading("the network plugin is checked before its upgrade"), steps)
        }
        Next::WaitForCheck => {
            let steps = vec![check(), wait];
            Network::Acts(upgrading("the check before the upgrade has not passed everywhere yet"), steps)
        }
        Next::Upgrade { .. } => {
            let steps = vec![
                enter(Some(Reason::CNIUpgraded), format!("Cilium was upgraded to {version}")),
                Step::Leave { objects: plugin.check.clone() },
                Step::Look,
            ];
            Network::Acts(upgrading("the network plugin is being upgraded"), steps)
        }
        Next::Configure => {
            // What somebody else keeps otherwise must not make us run in circles.
            let steps = vec![enter(None, String::new()), wait];
            Network::Acts(upgrading("the network plugin gets other settings"), steps)
        }
        // Whoever stopped after an upgrade left its check behind.
        Next::Nothing if plugin.check_left => {
            let steps = vec![Step::Leave { objects: plugin.check.clone() }, Step::Look];
            Network::Acts(upgrading("the check before the upgrade is being removed"), steps)
        }
        Next::Nothing => Network::Stands(Ok(()), Some(version.clone())),
    }
}
