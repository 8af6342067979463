//! Whether the room `claims` stands on firm ground: hosts, the rules that give them away, and nobody else who does.

use api::key::ObjectKey;
use api::own::BAREMETAL;
use api::raw::{HostClaim, HostClaimQuota, HostDeployPolicy};
use api::reasons::{ACCEPTED, READY};
use api::views::BareMetalHost;
use claims::facts::{ClaimFacts, PolicyFacts, QuotaFacts};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;

use super::{Check, OURS, count, list, some};

/// The kinds of claims that rooms of Berth serve.
const SERVED: [&str; 3] = [BAREMETAL, ::hosts::claim::KIND, ::clusters::vm::KIND];

/// The checks of the room. Claims of other kinds than `baremetal` work without hosts, so all is looked at without them too.
pub async fn all(client: &Client) -> Vec<Check> {
    let (hosts, policies_read, quotas_read, claims) = tokio::join!(
        Box::pin(list::<BareMetalHost>(client, "hosts")),
        Box::pin(list::<HostDeployPolicy>(client, "policies")),
        Box::pin(list::<HostClaimQuota>(client, "quotas")),
        Box::pin(list::<HostClaim>(client, "claims")),
    );
    let (installed, hosts) = match hosts {
        Ok(hosts) => (hosts.is_some(), self::hosts(hosts.as_deref(), claims.as_ref().ok().and_then(Option::as_deref))),
        Err(check) => (true, check),
    };
    // Policies are about hosts alone.
    let policies = if installed { check(policies_read, policies) } else { None };
    std::iter::once(hosts).chain(policies).chain(check(quotas_read, quotas)).chain(check(claims, claimers)).collect()
}

/// What one judges of a kind; nothing where it is not served, which the check of Berth's own kinds has told.
fn check<K>(listed: Result<Option<Vec<K>>, Check>, judge: impl FnOnce(&[K]) -> Check) -> Option<Check> {
    match listed {
        Ok(all) => all.as_deref().map(judge),
        Err(check) => Some(check),
    }
}

/// Whether there are hosts for those who claim them.
fn hosts(hosts: Option<&[BareMetalHost]>, claims: Option<&[HostClaim]>) -> Check {
    if let Some(hosts) = hosts {
        return Check::ok("hosts", format!("BareMetalHosts are served, {} in all", hosts.len()));
    }
    let wanting =
        claims.unwrap_or_default().iter().filter(|claim| ClaimFacts::of((*claim).clone()).spec.kind == BAREMETAL);
    match wanting.count() {
        0 => Check::ok("hosts", "BareMetalHosts are not installed, and no claim waits for one"),
        count => {
            let wait = if count == 1 { "1 claim waits".to_owned() } else { format!("{count} claims wait") };
            let fix = "install the Bare Metal Operator's definitions and hosts, or name another kind in new claims";
            Check::warn("hosts", format!("BareMetalHosts are not installed, and {wait} for them"), fix)
        }
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
        all => Check::ok("policies", format!("{}, none refused", count(all, "HostDeployPolicy"))),
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
        all => Check::ok("quotas", format!("{}, all kept", count(all, "HostClaimQuota"))),
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
        return Check::ok("claims", format!("{}, all looked after by Berth alone", count(all.len(), "HostClaim")));
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
    fn without_hosts_it_is_told_who_waits_for_them() {
        let claim = |kind: &str| -> HostClaim {
            serde_json::from_value(
                json!({"metadata": {"namespace": "a", "name": kind}, "spec": {"poweredOn": true, "kind": kind}}),
            )
            .unwrap()
        };
        let (metal, cloud) = (claim("baremetal"), claim("cloudstack-vm"));
        assert_eq!(hosts(None, Some(std::slice::from_ref(&cloud))).level, Level::Ok);
        assert_eq!(hosts(None, None).level, Level::Ok);
        let check = hosts(None, Some(&[metal.clone(), cloud]));
        assert_eq!(
            (check.level, check.found.as_str()),
            (Level::Warning, "BareMetalHosts are not installed, and 1 claim waits for them")
        );
        assert_eq!(hosts(Some(&[]), Some(&[metal])).level, Level::Ok);
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
