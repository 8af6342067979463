//! What quotas allow, what their tenants hold, and how many of their claims wait.
//!
//! Whoever may make namespaces must not make series without end. So tenants are told of under the quotas that bind them,
//! which administrators write: of so many quotas, and of so many tenants, those that hold most, and of these that want most.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use claim_kind::quota::Quota;
use kit::telemetry::gauges;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};

use crate::facts::{QuotaFacts, SpaceFacts};

/// So many quotas are told of, the first by name.
const QUOTAS: usize = 64;
/// So many tenants are told of, of all quotas together.
const TENANTS: usize = 256;

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct LimitLabels {
    quota: String,
    each: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct QuotaLabels {
    quota: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct TenantLabels {
    quota: String,
    namespace: String,
}

/// How tenants stand with their quotas.
#[derive(Debug, Default)]
pub(super) struct Tenants {
    limits: Vec<(LimitLabels, i64)>,
    used: Vec<(QuotaLabels, i64)>,
    held: Vec<(TenantLabels, i64)>,
    waiting: Vec<(TenantLabels, i64)>,
}

impl Tenants {
    /// Reads it from the statuses of quotas and from the claims that wait, by namespace.
    pub(super) fn of(
        quotas: &[(ObjectKey, Arc<QuotaFacts>)],
        waiting: &BTreeMap<Box<str>, i64>,
        space: impl Fn(&str) -> Option<Arc<SpaceFacts>>,
    ) -> Self {
        let (mut all, mut rows) = (Self::default(), Vec::new());
        // Once for all quotas: there may be as many namespaces as tenants like.
        let waiting: Vec<_> = waiting.iter().map(|(tenant, claims)| (&**tenant, *claims, space(tenant))).collect();
        for (key, facts) in quotas.iter().take(QUOTAS) {
            let name = || key.name().to_owned();
            let each = if facts.spec.shared { "quota" } else { "namespace" };
            all.limits.push((LimitLabels { quota: name(), each }, i64::from(facts.spec.hard.hosts)));
            let used = facts.status.used.as_ref();
            all.used.push((QuotaLabels { quota: name() }, used.map_or(0, |used| i64::from(used.hosts))));
            let mut tenants: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
            for held in used.iter().flat_map(|used| &used.namespaces) {
                tenants.entry(&held.namespace).or_default().0 = i64::from(held.hosts);
            }
            let quota = Quota::new(facts.spec.clone(), facts.problem.clone());
            for (tenant, claims, space) in &waiting {
                if quota.binds(tenant, space.as_ref().map(|space| &space.labels)) {
                    tenants.entry(tenant).or_default().1 = *claims;
                }
            }
            let row = |(tenant, (held, waiting)): (&str, _)| {
                (Reverse(held), Reverse(waiting), TenantLabels { quota: name(), namespace: tenant.to_owned() })
            };
            rows.extend(tenants.into_iter().map(row));
        }
        rows.sort();
        for (Reverse(held), Reverse(waiting), labels) in rows.into_iter().take(TENANTS) {
            all.held.push((labels.clone(), held));
            all.waiting.push((labels, waiting));
        }
        all
    }

    pub(super) fn encode(self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        gauges(&mut encoder, "claims_quota_limit_hosts", "Hosts that a quota allows", self.limits)?;
        gauges(&mut encoder, "claims_quota_hosts", "Hosts that all tenants of a quota hold", self.used)?;
        gauges(&mut encoder, "claims_tenant_hosts", "Hosts that a tenant of a quota holds", self.held)?;
        gauges(&mut encoder, "claims_tenant_waiting_claims", "Claims of a tenant without a host", self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn quota(name: &str, spec: Value, held: &[(String, i32)]) -> (ObjectKey, Arc<QuotaFacts>) {
        let hosts: i32 = held.iter().map(|(_, hosts)| hosts).sum();
        let namespaces: Vec<Value> =
            held.iter().map(|(namespace, hosts)| json!({"namespace": namespace, "hosts": hosts})).collect();
        let used = json!({"hosts": hosts, "tenants": held.len(), "namespaces": namespaces});
        let object = json!({"metadata": {"name": name}, "spec": spec, "status": {"used": used}});
        (ObjectKey::cluster_scoped(name), Arc::new(QuotaFacts::of(serde_json::from_value(object).unwrap())))
    }

    fn told(all: &[(TenantLabels, i64)]) -> Vec<(&str, &str, i64)> {
        all.iter().map(|(labels, count)| (labels.quota.as_str(), labels.namespace.as_str(), *count)).collect()
    }

    #[test]
    fn tenants_are_told_of_under_the_quotas_that_bind_them_and_others_are_not() {
        let gold = json!({"tenants": {"namespaceSelector": {"matchLabels": {"tier": "gold"}}}, "hard": {"hosts": 9}});
        let ab = json!({"tenants": {"names": ["a", "b"]}, "hard": {"hosts": 3}, "shared": true});
        let quotas = [quota("ab", ab, &[("a".to_owned(), 2)]), quota("gold", gold, &[])];
        let waiting: BTreeMap<Box<str>, i64> = [("b".into(), 4), ("c".into(), 5), ("d".into(), 6)].into();
        let space = |tenant: &str| {
            let tier = if tenant == "c" { "gold" } else { "tin" };
            Some(Arc::new(SpaceFacts { labels: [("tier".into(), tier.into())].into(), deleting: false }))
        };
        let tenants = Tenants::of(&quotas, &waiting, space);
        assert_eq!(told(&tenants.held), [("ab", "a", 2), ("gold", "c", 0), ("ab", "b", 0)]);
        assert_eq!(told(&tenants.waiting), [("ab", "a", 0), ("gold", "c", 5), ("ab", "b", 4)], "d is bound by none");
        let limits: Vec<_> = tenants.limits.iter().map(|(l, hosts)| (l.quota.as_str(), l.each, *hosts)).collect();
        assert_eq!(limits, [("ab", "quota", 3), ("gold", "namespace", 9)]);
        let used: Vec<_> = tenants.used.iter().map(|(l, hosts)| (l.quota.as_str(), *hosts)).collect();
        assert_eq!(used, [("ab", 2), ("gold", 0)]);
    }

    #[test]
    fn however_many_namespaces_and_quotas_there_are_the_series_are_bounded() {
        let everybody = json!({"tenants": {"namespaceSelector": {}}, "hard": {"hosts": 1}});
        let holders: Vec<(String, i32)> = (1..=256).map(|number| (format!("h{number:03}"), number)).collect();
        let quotas: Vec<_> = (0..100).map(|n| quota(&format!("q{n:03}"), everybody.clone(), &holders)).collect();
        let waiting: BTreeMap<Box<str>, i64> = (0..1_000).map(|number| (format!("w{number}").into(), 1)).collect();
        let looked = std::cell::Cell::new(0);
        let tenants = Tenants::of(&quotas, &waiting, |_| {
            looked.set(looked.get() + 1);
            None
        });
        assert_eq!(looked.get(), waiting.len(), "each namespace is looked up once, not once for each quota");
        assert_eq!((tenants.limits.len(), tenants.used.len()), (QUOTAS, QUOTAS));
        assert_eq!((tenants.held.len(), tenants.waiting.len()), (TENANTS, TENANTS));
        assert_eq!(told(&tenants.held)[0], ("q000", "h256", 256));
        assert!(tenants.held.iter().all(|(_, hosts)| *hosts >= 253), "those that hold most are told of");
    }
}
