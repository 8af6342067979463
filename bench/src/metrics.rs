//! `apiserver_request_total`: the second, independent count of requests.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::audit::Request;

/// Counts of one resource by audit verb, watches left out (the server counts a watch when it ends).
pub type ByVerb = BTreeMap<String, u64>;

/// The audit verb for a verb of the metric.
fn audit_verb(metric: &str) -> Option<&'static str> {
    Some(match metric {
        "GET" => "get",
        "LIST" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" | "APPLY" => "patch",
        "DELETE" => "delete",
        "DELETECOLLECTION" => "deletecollection",
        _ => return None,
    })
}

/// The value of one label in the braces of a sample line.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let at = labels.match_indices(name).map(|(i, _)| i).find(|i| {
        labels.get(..*i).is_some_and(|b| b.is_empty() || b.ends_with(','))
            && labels.get(i + name.len()..).is_some_and(|r| r.starts_with("=\""))
    })?;
    labels.get(at + name.len() + 2..)?.split('"').next()
}

/// Requests of one resource of one group, summed over codes, scopes and subresources.
pub fn requests(text: &str, group: &str, resource: &str) -> ByVerb {
    let mut out = ByVerb::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("apiserver_request_total{") else { continue };
        let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
        if label(labels, "group") != Some(group) || label(labels, "resource") != Some(resource) {
            continue;
        }
        let Some(verb) = label(labels, "verb").and_then(audit_verb) else { continue };
        *out.entry(verb.to_owned()).or_default() += value.trim().parse::<f64>().unwrap_or(0.0) as u64;
    }
    out
}

/// The two counts of one window side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CrossCheck {
    /// Difference of the server's metric.
    pub metric: ByVerb,
    /// Lines of the audit log, all agents.
    pub audit: ByVerb,
    /// Whether both agree.
    pub agrees: bool,
}

/// Compares the metric's difference with the audit log's count of the same resource.
pub fn cross_check(before: &ByVerb, after: &ByVerb, audit: ByVerb) -> CrossCheck {
    let metric: ByVerb = after
        .iter()
        .map(|(v, n)| (v.clone(), n.saturating_sub(before.get(v).copied().unwrap_or(0))))
        .filter(|(_, n)| *n > 0)
        .collect();
    CrossCheck { agrees: metric == audit, metric, audit }
}

/// Adds a request to the audit side of the cross-check when it is about that resource.
pub fn count(audit: &mut ByVerb, r: &Request, group: &str, resource: &str) {
    let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    if r.verb != "watch" && r.what.split('/').next() == Some(name.as_str()) {
        *audit.entry(r.verb.clone()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP apiserver_request_total x
apiserver_request_total{code="200",component="apiserver",dry_run="",group="berth.dev",resource="things",scope="cluster",subresource="",verb="LIST",version="v1alpha1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="",group="berth.dev",resource="things",scope="resource",subresource="status",verb="APPLY",version="v1alpha1"} 2
apiserver_request_total{code="409",component="apiserver",dry_run="",group="berth.dev",resource="things",scope="resource",subresource="",verb="PATCH",version="v1alpha1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="berth.dev",resource="things",scope="cluster",subresource="",verb="WATCH",version="v1alpha1"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="other.dev",resource="things",scope="cluster",subresource="",verb="LIST",version="v1"} 9
"#;

    #[test]
    fn the_metric_is_summed_per_audit_verb_without_watches() {
        let m = requests(TEXT, "berth.dev", "things");
        assert_eq!(m, ByVerb::from([("list".into(), 3), ("patch".into(), 3)]));
    }

    #[test]
    fn a_request_missing_on_one_side_is_noticed() {
        let before = ByVerb::from([("list".to_owned(), 1)]);
        let after = requests(TEXT, "berth.dev", "things");
        assert!(cross_check(&before, &after, ByVerb::from([("list".into(), 2), ("patch".into(), 3)])).agrees);
        assert!(!cross_check(&before, &after, ByVerb::from([("list".into(), 2)])).agrees);
    }
}
