//! Whether the room `hosts` stands on firm ground: networks, identities, journals that can be read, and nobody else who
//! keeps the same machines.

use std::collections::BTreeSet;

use api::key::ObjectKey;
use api::raw::AWSMachine;
use api::reasons::DEDICATED_HOST_RELEASE;
use api::status::find;
use api::views::{AWSCluster, AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity};
use hosts::facts::MachineFacts;
use k8s_openapi::jiff::Timestamp;
use kit::clock::Clock;
use kube::Client;

use super::{Check, OURS, count, list, some};
use crate::look::Shown;

/// A host whose release takes longer than this is worth a look.
const LONG: i64 = 3_600;
/// The kind that stands for the operator's own credentials; without a name it means the one called `default`.
const OWN: &str = "AWSClusterControllerIdentity";

/// The checks of the room; without machines on EC2 only the first.
pub async fn all(client: &Client) -> Vec<Check> {
    let machines: Vec<(ObjectKey, MachineFacts)> = match list::<AWSMachine>(client, "machines").await {
        Ok(Some(machines)) => {
            machines.into_iter().map(|machine| (ObjectKey::of(&machine), MachineFacts::of(machine))).collect()
        }
        // The check of Berth's own kinds has told that they are missing.
        Ok(None) => return Vec::new(),
        Err(check) => return vec![check],
    };
    let networks = match list::<AWSCluster>(client, "networks").await {
        Ok(Some(networks)) => networks,
        Ok(None) => {
            let found = "AWSClusters are not installed: the room hosts waits for them";
            return vec![journals(&machines), Check::ok("networks", found)];
        }
        Err(check) => return vec![check],
    };
    let now = Clock::system().now();
    let keepers = match list::<written::AWSMachine>(client, "machine keepers").await {
        Ok(machines) => keepers(&machines.unwrap_or_default()),
        Err(check) => check,
    };
    vec![journals(&machines), releases(&machines, now), keepers, identities(client, &networks).await]
}

/// A journal that cannot be read stops its machine, and every release of orphans.
fn journals(machines: &[(ObjectKey, MachineFacts)]) -> Check {
    let bad = machines.iter().filter_map(|(key, facts)| Some(format!("{key}: {}", facts.journal.as_ref().err()?)));
    let bad: Vec<String> = bad.collect();
    if !bad.is_empty() {
        let fix =
            "restore the annotation from a backup; until then nothing is asked for or released for these machines";
        return Check::fail("journals", some(&bad), fix);
    }
    let live = |facts: &MachineFacts| match &facts.journal {
        Ok(journal) => journal.allocation.as_ref().filter(|a| !a.phase.is_over()).map_or(0, |a| a.hosts.len()),
        Err(_) => 0,
    };
    let hosts: usize = machines.iter().map(|(_, facts)| live(facts)).sum();
    Check::ok(
        "journals",
        format!(
            "{} with {}, all journals can be read",
            count(machines.len(), "AWSMachine"),
            count(hosts, "dedicated host")
        ),
    )
}

/// A machine that is deleted stays until its hosts are given back.
fn releases(machines: &[(ObjectKey, MachineFacts)], now: Timestamp) -> Check {
    let stuck = machines.iter().filter_map(|(key, facts)| {
        let since = facts.deleted_at?;
        let condition = find(&facts.status.conditions, DEDICATED_HOST_RELEASE).filter(|c| c.status == "False")?;
        (now.as_second() - since.as_second() > LONG)
            .then(|| format!("{key}: {}: {}", condition.reason, condition.message))
    });
    let stuck: Vec<String> = stuck.collect();
    if stuck.is_empty() {
        return Check::ok("releases", "no dedicated host has been waiting for its release for more than an hour");
    }
    let fix = "berth explain awsmachine/NAME -n NAMESPACE tells what it waits for and what can be done";
    Check::warn("releases", some(&stuck), fix)
}

/// Machines, of which only who writes them is wanted.
mod written {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    #[derive(Clone, Debug, serde::Deserialize)]
    pub struct AWSMachine {
        #[serde(default, deserialize_with = "api::meta::managed_meta")]
        pub metadata: ObjectMeta,
    }

    api::view! {
        AWSMachine, group: api::views::INFRASTRUCTURE_GROUP, versions: ["v1beta2"], plural: "awsmachines", scope: Namespaced
    }
}

/// Two controllers on one machine allocate twice.
fn keepers(machines: &[written::AWSMachine]) -> Check {
    let foreign = machines.iter().filter_map(|machine| {
        let fields = machine.metadata.managed_fields.iter().flatten();
        let mut writers = fields.filter(|field| field.subresource.as_deref() == Some("status"));
        let other = writers.find_map(|field| field.manager.as_deref().filter(|manager| !manager.starts_with(OURS)))?;
        Some(format!("{} by {other}", ObjectKey::of(machine)))
    });
    let foreign: Vec<String> = foreign.collect();
    if foreign.is_empty() {
        return Check::ok("machine keepers", "no other controller writes the status of AWSMachines");
    }
    let fix = "stop the Cluster API provider for AWS, or give both controllers watch filters that do not overlap";
    Check::fail("machine keepers", format!("status written by another controller: {}", some(&foreign)), fix)
}

/// Every identity that a cluster names must be there.
async fn identities(client: &Client, networks: &[AWSCluster]) -> Check {
    async fn names<K: Shown>(client: &Client) -> Result<BTreeSet<String>, Check> {
        let found = list::<K>(client, "identities").await?.unwrap_or_default();
        Ok(found.iter().map(|identity| ObjectKey::of(identity).name().to_owned()).collect())
    }
    let known = async {
        Ok::<_, Check>([
            (OWN, names::<AWSClusterControllerIdentity>(client).await?),
            ("AWSClusterStaticIdentity", names::<AWSClusterStaticIdentity>(client).await?),
            ("AWSClusterRoleIdentity", names::<AWSClusterRoleIdentity>(client).await?),
        ])
    };
    match known.await {
        Ok(known) => judge(networks, &known),
        Err(check) => check,
    }
}

fn judge(networks: &[AWSCluster], known: &[(&str, BTreeSet<String>)]) -> Check {
    let missing = networks.iter().filter_map(|network| {
        let identity = network.spec.identity_ref.as_ref()?;
        let name = if identity.kind == OWN && identity.name.is_empty() { "default" } else { identity.name.as_str() };
        let there = known.iter().any(|(kind, names)| *kind == identity.kind && names.contains(name));
        (!there).then(|| format!("{} names {} {name}", ObjectKey::of(network), identity.kind))
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return Check::ok(
            "identities",
            format!("{}, every identity they name is there", count(networks.len(), "AWSCluster")),
        );
    }
    let fix = "make the identity, with allowedNamespaces that take the cluster's namespace in";
    Check::fail("identities", some(&missing), fix)
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use serde_json::json;

    fn machine(name: &str, more: &serde_json::Value) -> (ObjectKey, MachineFacts) {
        let plain = json!({"metadata": {"namespace": "team-a", "name": name}, "spec": {"instanceType": "m5.large"}});
        let machine: AWSMachine = serde_json::from_value(sim::dock::objects::merged(plain, more)).unwrap();
        (ObjectKey::of(&machine), MachineFacts::of(machine))
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_a_failure() {
        assert_eq!(journals(&[machine("new", &json!({}))]).level, Level::Ok);
        let torn = machine("torn", &json!({"metadata": {"annotations": {"hosts.berth.dev/allocation": "{"}}}));
        let check = journals(&[torn]);
        assert_eq!(check.level, Level::Failure);
        assert!(check.found.contains("team-a/torn: annotation hosts.berth.dev/allocation"), "{}", check.found);
    }

    #[test]
    fn a_release_is_worth_a_look_after_an_hour_only() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let leaving = |deleted: &str| {
            machine(
                "old",
                &json!({"metadata": {"deletionTimestamp": deleted}, "status": {"conditions": [{
                "type": "DedicatedHostRelease", "status": "False", "reason": "HostOccupied", "message": "h-1 holds i-1",
                "lastTransitionTime": "2026-01-01T10:00:00Z"}]}}),
            )
        };
        assert_eq!(releases(&[leaving("2026-01-01T11:30:00Z")], now).level, Level::Ok);
        let check = releases(&[leaving("2026-01-01T10:30:00Z")], now);
        assert_eq!((check.level, check.found.as_str()), (Level::Warning, "team-a/old: HostOccupied: h-1 holds i-1"));
    }

    #[test]
    fn a_status_that_somebody_else_wrote_is_a_failure() {
        let written = |manager: &str| -> written::AWSMachine {
            serde_json::from_value(json!({"metadata": {"namespace": "team-a", "name": "m", "managedFields": [
                {"manager": "kubectl", "operation": "Apply"},
                {"manager": manager, "operation": "Apply", "subresource": "status"}]}}))
            .unwrap()
        };
        assert_eq!(keepers(&[written("berth-hosts")]).level, Level::Ok);
        let check = keepers(&[written("capa-controller")]);
        assert_eq!(check.level, Level::Failure);
        assert!(check.found.ends_with("team-a/m by capa-controller"), "{}", check.found);
    }

    #[test]
    fn an_identity_that_is_named_must_be_there() {
        let network: AWSCluster = serde_json::from_value(json!({
            "metadata": {"namespace": "team-a", "name": "prod"},
            "spec": {"region": "us-east-1", "identityRef": {"kind": "AWSClusterRoleIdentity", "name": "prod"}},
        }))
        .unwrap();
        let known = |names: &[&str]| [("AWSClusterRoleIdentity", names.iter().map(|n| (*n).to_owned()).collect())];
        assert_eq!(judge(std::slice::from_ref(&network), &known(&["prod"])).level, Level::Ok);
        let check = judge(&[network], &known(&["other"]));
        assert_eq!(
            (check.level, check.found.as_str()),
            (Level::Failure, "team-a/prod names AWSClusterRoleIdentity prod")
        );
    }
}
