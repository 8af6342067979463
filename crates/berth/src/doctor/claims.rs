//! Whether the room `claims` stands on firm ground: hosts, the rules that give them away, and nobody else who does.

use api::key::ObjectKey;
use api::own::BAREMETAL;
use api::raw::{HostClaim, HostClaimQuota, HostDeployPolicy};
use api::reasons::{ACCEPTED, READY};
use api::views::BareMetalHost;
use claims::facts::{ClaimFacts, PolicyFacts, QuotaFacts};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;

use super::{Check, OURS, list, some};

/// The kinds of claims that rooms of Berth serve.
const SERVED: [&str; 3] = [BAREMETAL, ::hosts::claim::KIND, ::clusters::vm::KIND];

/// The checks of the room; without hosts only the first.
pub async fn all(client: &Client) -> Vec<Check> {
    let hosts = match list::<BareMetalHost>(client, "hosts").await {
        Ok(Some(hosts)) => hosts.len(),
        // Claims of other kinds work without them.
        Ok(None) => {
            let found = "BareMetalHosts are not installed: claims of the kind baremetal wait for them";
            return vec![Check::ok("hosts", found)];
        }
        Err(check) => return vec![check],
    };
    let mut checks = vec![Check::ok("hosts", format!("BareMetalHosts are served, {hosts} in all"))];
    checks.push(check(list::<HostDeployPolicy>(client, "policies").await, |all| policies(&all)));
    checks.push(check(list::<HostClaimQuota>(client, "quotas").await, |all| quotas(&all)));
    checks.push(check(list::<HostClaim>(client, "claims").await, |all| claimers(&all)));
    checks
}

fn check<K>(listed: Result<Option<Vec<K>>, Check>, judge: impl FnOnce(Vec<K>) -> Check) -> Check {
    match listed {
        // The check of Berth's own kinds has told when one is missing.
        Ok(all) => judge(all.unwrap_or_default()),
        Err(check) => check,
    }
}

fn policies(all: &[HostDeployPolicy]) -> Check {
    let refused = all.iter().filter_map(|policy| {
        let conditions = PolicyFacts::of(policy.clone()).status.conditions;
        let condition = failing(&conditions, ACCEPTED)?;
        Some(format!("{}: {}", ObjectKey::of(policy), condition.message))
    });
    let refused: Vec<String> = refused.collect();
    if !refused.is_empty() {
        let fix = "correct them; until then each admits nobody, and the others are not affected";
        return Check::warn("policies", format!("not accepted: {}", some(&refused)), fix);
    }
    match all.len() {
        0 => Check::ok("policies", "no HostDeployPolicy: claims get hosts of their own namespace only"),
        count => Check::ok("policies", format!("{count} HostDeployPolicies, none refused")),
    }
}

fn quotas(all: &[HostClaimQuota]) -> Check {
    let failed = all.iter().filter_map(|quota| {
        let conditions = QuotaFacts::of(quota.clone()).status.conditions;
        let condition = failing(&conditions, READY)?;
        Some(format!("{}: {}", ObjectKey::of(quota).name(), condition.message))
    });
    let failed: Vec<String> = failed.collect();
    if !failed.is_empty() {
        let fix = "nobody loses a host; raise the quota, correct it, or have claims deleted";
        return Check::warn("quotas", some(&failed), fix);
    }
    match all.len() {
        0 => Check::ok("quotas", "no HostClaimQuota: tenants hold as many hosts as policies let them"),
        count => Check::ok("quotas", format!("{count} HostClaimQuotas, all kept")),
    }
}

/// Two controllers that bind the same claims take hosts from each other.
fn claimers(all: &[HostClaim]) -> Check {
    let facts = all.iter().map(|claim| (ObjectKey::of(claim), ClaimFacts::of(claim.clone())));
    let ours = facts.filter(|(_, claim)| SERVED.contains(&claim.spec.kind.as_str()));
    let foreign = ours.filter_map(|(key, claim)| {
        let other = claim.managers.iter().find(|manager| !manager.starts_with(OURS))?;
        Some(format!("{key} by {other}"))
    });
    let foreign: Vec<String> = foreign.collect();
    if foreign.is_empty() {
        return Check::ok("claims", format!("{} HostClaims, all looked after by Berth alone", all.len()));
    }
    let fix = "switch the claim controller of the other operator off: it knows no kinds and would bind every claim";
    Check::fail("claims", format!("status written by another controller: {}", some(&foreign)), fix)
}

fn failing<'c>(conditions: &'c [Condition], type_: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "False")
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn object<K: DeserializeOwned>(name: &str, conditions: &Value) -> K {
        serde_json::from_value(json!({"metadata": {"namespace": "infra", "name": name},
            "spec": {"tenants": {"names": ["a"]}, "hard": {"hosts": 1}}, "status": {"conditions": conditions}}))
        .unwrap()
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!([{"type": type_, "status": status, "reason": "R", "message": format!("{type_} is {status}"),
            "lastTransitionTime": "2026-01-02T03:04:05Z"}])
    }

    #[test]
    fn a_policy_that_admits_nobody_and_a_quota_that_is_not_kept_are_named() {
        assert_eq!(policies(&[]).level, Level::Ok);
        let fine = object("fine", &condition(ACCEPTED, "True"));
        let broken = object("broken", &condition(ACCEPTED, "False"));
        let check = policies(&[fine, broken]);
        assert_eq!(check.level, Level::Warning);
        assert_eq!(check.found, "not accepted: infra/broken: Accepted is False");
        assert_eq!(quotas(&[object("new", &json!([]))]).level, Level::Ok, "nobody has looked at it yet");
        let check = quotas(&[object("gold", &condition(READY, "False"))]);
        assert_eq!((check.level, check.found.as_str()), (Level::Warning, "gold: Ready is False"));
    }

    #[test]
    fn a_status_that_somebody_else_wrote_is_a_failure_for_the_kinds_that_berth_serves_only() {
        let claim = |kind: &str, manager: &str| -> HostClaim {
            serde_json::from_value(json!({
                "metadata": {"namespace": "team-a", "name": "web", "managedFields": [
                    {"manager": "kubectl", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}},
                    {"manager": manager, "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}, "subresource": "status"}]},
                "spec": {"poweredOn": true, "kind": kind},
            }))
            .unwrap()
        };
        let own =
            [("baremetal", "berth-claims"), ("aws-dedicated-host", "berth-hosts"), ("cloudstack-vm", "berth-vms")];
        for (kind, manager) in own {
            assert_eq!(claimers(&[claim(kind, manager)]).level, Level::Ok, "{kind}");
            assert_eq!(claimers(&[claim(kind, "manager")]).level, Level::Failure, "{kind}");
        }
        assert_eq!(claimers(&[claim("somebodys-vm", "somebody")]).level, Level::Ok, "a kind that others serve");
        let check = claimers(&[claim("baremetal", "baremetal-operator")]);
        assert_eq!(check.level, Level::Failure);
        assert!(check.found.contains("team-a/web by baremetal-operator"), "{}", check.found);
        let many: Vec<HostClaim> = (0..7).map(|_| claim("baremetal", "other")).collect();
        assert!(claimers(&many).found.ends_with("and 2 more"));
    }
}
