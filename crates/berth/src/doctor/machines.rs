//! Whether the room `machines` stands on firm ground: definitions that know kinds, somebody who serves each kind, machines
//! that wait for a person, and clusters that could be moved.

mod moves;

use std::collections::{BTreeMap, BTreeSet};

use api::key::ObjectKey;
use api::names::machines::HOST_CLAIM_ANNOTATION;
use api::own::HostClaimKind;
use api::raw::Metal3Machine;
use api::reasons::machines::Reason;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use super::{Check, count, list, some};

/// The definition that others may have installed.
const DEFINITION: &str = "metal3machines.infrastructure.cluster.x-k8s.io";

/// What no controller can put right.
const STUCK: [Reason; 6] = [
    Reason::InvalidSpec,
    Reason::ClaimNameConflict,
    Reason::HostClaimMissing,
    Reason::HostClaimChanged,
    Reason::HostClaimRefused,
    Reason::NodeAmbiguous,
];

/// The checks of the room; none without its kinds, which the check of kinds has told.
pub async fn all(client: &Client) -> Vec<Check> {
    let machines = match list::<Metal3Machine>(client, "machines").await {
        Ok(Some(machines)) => machines,
        Ok(None) => return Vec::new(),
        Err(check) => return vec![check],
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let knows = definitions.get(DEFINITION).await.ok().map(|definition| knows_kinds(&definition));
    let kinds: Api<HostClaimKind> = Api::all(client.clone());
    let served = kinds.list(&ListParams::default()).await.ok().map(|kinds| available(&kinds.items));
    let mut checks = vec![of_machines(&machines, knows), kinds_of(&machines, served.as_ref())];
    checks.extend(moves::all(client).await);
    checks
}

/// Whether machines can name a kind; those of the provider for Metal3 cannot.
fn knows_kinds(definition: &CustomResourceDefinition) -> bool {
    let mut schemas = definition.spec.versions.iter().filter_map(|version| {
        let root = version.schema.as_ref()?.open_api_v3_schema.as_ref()?;
        root.properties.as_ref()?.get("spec")?.properties.as_ref()
    });
    schemas.any(|fields| fields.contains_key("kind"))
}

fn available(kinds: &[HostClaimKind]) -> BTreeSet<String> {
    let is_up = |kind: &&HostClaimKind| {
        let conditions = kind.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().any(|condition| condition.type_ == "Available" && condition.status == "True")
    };
    kinds.iter().filter(is_up).map(HostClaimKind::name_any).collect()
}

fn kind(machine: &Metal3Machine) -> Option<&str> {
    machine.spec.get("kind").and_then(Value::as_str)
}

fn of_machines(machines: &[Metal3Machine], knows: Option<bool>) -> Check {
    if knows == Some(false) {
        let found = format!("{DEFINITION} is not Berth's: machines cannot name a kind");
        let fix = "install Berth's definitions, which hold every field of the others, or give --default-host-kind";
        return Check::warn("machines", found, fix);
    }
    let on_claims =
        |machine: &&Metal3Machine| kind(machine).is_some() || machine.annotations().contains_key(HOST_CLAIM_ANNOTATION);
    let ours: Vec<&Metal3Machine> = machines.iter().filter(on_claims).collect();
    let stuck = ours.iter().filter_map(|machine| {
        let conditions = machine.status.pointer("/conditions").and_then(Value::as_array)?;
        let told = conditions.iter().find(|condition| {
            let reason = condition.get("reason").and_then(Value::as_str);
            let false_ = condition.get("status").and_then(Value::as_str) == Some("False");
            false_ && STUCK.iter().any(|known| reason == Some(known.as_str()))
        })?;
        let message = told.get("message").and_then(Value::as_str).unwrap_or_default();
        Some(format!("{}: {message}", ObjectKey::of(*machine)))
    });
    let stuck: Vec<String> = stuck.collect();
    if !stuck.is_empty() {
        let fix = "berth explain metal3machine/NAME -n NAMESPACE tells what can be done";
        return Check::warn("machines", some(&stuck), fix);
    }
    let direct = machines.len().saturating_sub(ours.len());
    let on_claims = count(ours.len(), "Metal3Machine");
    let takes = if direct == 1 { "takes" } else { "take" };
    Check::ok("machines", format!("{on_claims} on claims, {direct} that {takes} hosts directly"))
}

/// A kind that nobody serves holds its machines up for ever.
fn kinds_of(machines: &[Metal3Machine], served: Option<&BTreeSet<String>>) -> Check {
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in machines.iter().filter_map(kind) {
        *wanted.entry(kind).or_default() += 1;
    }
    let Some(served) = served else {
        return Check::warn("machine kinds", "HostClaimKinds cannot be read", "run the doctor with more rights");
    };
    let missing = wanted.iter().filter(|(kind, _)| !served.contains(**kind));
    let missing: Vec<String> = missing.map(|(kind, count)| format!("{kind}, named by {count}")).collect();
    if !missing.is_empty() {
        let fix = "kubectl describe hostclaimkinds tells when each was last served; see --controllers of the operator";
        return Check::warn("machine kinds", format!("not served: {}", some(&missing)), fix);
    }
    let list: Vec<&str> = served.iter().map(String::as_str).collect();
    Check::ok(
        "machine kinds",
        if list.is_empty() { "none yet".to_owned() } else { format!("served: {}", list.join(", ")) },
    )
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use serde_json::json;

    fn machine(name: &str, kind: Option<&str>, reason: &str) -> Metal3Machine {
        let spec = kind.map_or_else(|| json!({}), |kind| json!({"kind": kind}));
        serde_json::from_value(json!({"metadata": {"namespace": "team-a", "name": name}, "spec": spec, "status": {
            "conditions": [{"type": "Ready", "status": "False", "reason": reason, "message": format!("it says {reason}")}]}}))
        .unwrap()
    }

    #[test]
    fn a_machine_that_waits_for_a_person_is_named_and_one_of_somebody_else_is_not() {
        let waits = machine("a", Some("baremetal"), "WaitingForBootstrapReady");
        let direct = machine("b", None, "InvalidSpec");
        let check = of_machines(&[waits.clone(), direct.clone()], Some(true));
        assert_eq!(check.level, Level::Ok);
        assert_eq!(check.found, "1 Metal3Machine on claims, 1 that takes hosts directly");
        let stuck = machine("c", Some("baremetal"), "ClaimNameConflict");
        let check = of_machines(&[waits, direct, stuck], Some(true));
        assert_eq!((check.level, check.found.as_str()), (Level::Warning, "team-a/c: it says ClaimNameConflict"));
    }

    #[test]
    fn definitions_of_others_and_kinds_that_nobody_serves_are_told() {
        assert_eq!(of_machines(&[], Some(false)).level, Level::Warning);
        let all = [machine("a", Some("baremetal"), ""), machine("b", Some("cloudstack-vm"), "")];
        let served = BTreeSet::from(["baremetal".to_owned()]);
        let check = kinds_of(&all, Some(&served));
        assert_eq!((check.level, check.found.as_str()), (Level::Warning, "not served: cloudstack-vm, named by 1"));
        assert_eq!(kinds_of(&all[..1], Some(&served)).level, Level::Ok);
        for definition in api::own::metal3::crds().iter().filter(|crd| crd.metadata.name.as_deref() == Some(DEFINITION))
        {
            assert!(knows_kinds(definition));
        }
    }
}
