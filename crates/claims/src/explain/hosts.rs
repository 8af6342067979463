//! Every host, in the order of how near it is to being had, and why each other one cannot be had.

use std::cmp::Reverse;

use api::key::ObjectKey;
use api::names::claims as names;
use jiff::Timestamp;

use super::{Case, Place, Sight};
use crate::facts::HostFacts;
use crate::labels::{HostLabels, Labels, Term, Test};
use crate::names::avoid_annotation;
use crate::yard::Unfit;

/// Every host that was read with the first thing that keeps it from the claim: those that fit, then the nearest misses.
pub(super) fn verdicts(sight: &Sight, claim: &ObjectKey, now: Timestamp) -> Vec<(ObjectKey, Option<Unfit>)> {
    let mut all = sight.yard.verdicts(claim, now);
    // Hosts of namespaces that do not admit the tenant are not counted for the tenant, but an admin looks for them.
    let judged: std::collections::BTreeSet<ObjectKey> = all.iter().map(|(host, _)| host.clone()).collect();
    let rest = sight.hosts.keys().filter(|host| !judged.contains(*host));
    all.extend(rest.map(|host| (host.clone(), Some(Unfit::NotAdmitted))));
    let offered = sight.yard.offer(claim).map(|offer| offer.host);
    all.sort_by_key(|(host, unfit)| {
        // Filters are asked in one order, so whoever fails a later one has passed the earlier ones.
        (unfit.is_some(), Reverse(*unfit), Some(host) != offered.as_ref(), host.clone())
    });
    all
}

/// More about a host's place or failure.
pub(super) fn detail(case: &Case<'_>, key: &ObjectKey, unfit: Option<Unfit>) -> String {
    let Some(host) = case.sight.hosts.get(key) else { return String::new() };
    let Some(unfit) = unfit else {
        let chosen = matches!(&case.place, Place::Offered(offered) if offered == key);
        return if chosen { "fits: set aside for the claim" } else { "fits" }.to_owned();
    };
    let spec = &case.claim.spec;
    match unfit {
        Unfit::OtherNamespace => {
            format!("the claim wants namespace {}", spec.host_selector.in_namespace.as_deref().unwrap_or_default())
        }
        Unfit::NotAdmitted => unadmitted(case, key),
        Unfit::SelectorMismatch => match mismatch(case, key, host) {
            Some(term) => differs(case, key, host, term),
            None => "no policy that opens it lets claims select by these labels".to_owned(),
        },
        Unfit::InUse => used(case, key, host),
        Unfit::ReservedForReuse => {
            let group = host.annotation(names::REUSE_GROUP_ANNOTATION).unwrap_or("another group");
            let until = until(case, key, unfit).map(|until| format!(" until {until:.0}")).unwrap_or_default();
            format!("kept for {group}{until}")
        }
        Unfit::Deleting => "is being deleted".to_owned(),
        Unfit::Paused => format!("is paused (annotation {})", names::HOST_PAUSED_ANNOTATION),
        Unfit::Detached if host.annotation(names::DETACHED_ANNOTATION).is_some() => {
            format!("is detached (annotation {})", names::DETACHED_ANNOTATION)
        }
        Unfit::Detached => "is detached".to_owned(),
        Unfit::Unhealthy => match unhealthy_mark(host) {
            Some(mark) => format!("is marked (annotation {mark})"),
            None => "reports that its health is critical".to_owned(),
        },
        Unfit::ExternallyProvisioned => "somebody else deploys it (spec.externallyProvisioned)".to_owned(),
        Unfit::NotAvailable if host.state.is_empty() => "nobody has looked at it yet".to_owned(),
        Unfit::NotAvailable => format!("is {}", host.state),
        Unfit::HostError => match host.error.as_deref() {
            Some(class) => class.to_owned(),
            None if &*host.operational != "OK" => format!("its operational status is {}", host.operational),
            None => "reports an error".to_owned(),
        },
        Unfit::NotClean if host.image.is_some() || host.custom_deploy.is_some() => {
            "is free, but its spec still names something to deploy".to_owned()
        }
        Unfit::NotClean => {
            format!(
                "is free, but its disks are on record as uncleaned (annotation {})",
                names::INFRA_DEFAULTS_ANNOTATION
            )
        }
        Unfit::OtherFailureDomain => {
            let wanted = spec.failure_domain.as_deref().unwrap_or_default();
            match host.label(names::FAILURE_DOMAIN_LABEL) {
                Some(domain) => format!("is in {domain}, the claim insists on {wanted}"),
                None => format!("is in no failure domain, the claim insists on {wanted}"),
            }
        }
        Unfit::QuotaExceeded => {
            case.sight.yard.bound(&case.key, key).map(|full| format!("the namespace {full}")).unwrap_or_default()
        }
        Unfit::CoolDown => match until(case, key, unfit) {
            Some(until) => format!("failed a claim of this namespace; tried again from {until:.0}"),
            None => "refused to the claim a while ago".to_owned(),
        },
    }
}

/// When a host that cannot be had now may be had without anybody's help.
pub(super) fn until(case: &Case<'_>, key: &ObjectKey, unfit: Unfit) -> Option<Timestamp> {
    let host = case.sight.hosts.get(key)?;
    let annotation = match unfit {
        Unfit::ReservedForReuse => host.annotation(names::REUSE_UNTIL_ANNOTATION),
        Unfit::CoolDown => host.annotation(&avoid_annotation(case.tenant())),
        _ => None,
    };
    annotation?.parse().ok().filter(|until| *until > case.now)
}

/// The first term of the selector that a host does not meet.
pub(super) fn mismatch<'c>(case: &'c Case<'_>, key: &ObjectKey, host: &HostFacts) -> Option<&'c Term> {
    let labels = labels(case, key, host);
    let terms = case.claim.selector.as_ref().ok()?.terms();
    terms.iter().find(|term| !term.test.holds(labels.label(&term.key).as_deref()))
}

/// The annotation that marks a host as unhealthy.
pub(super) fn unhealthy_mark(host: &HostFacts) -> Option<&'static str> {
    [names::UNHEALTHY_ANNOTATION, names::UNHEALTHY_ANNOTATION_OLD]
        .into_iter()
        .find(|mark| host.annotation(mark).is_some())
}

fn labels<'c>(case: &'c Case<'_>, key: &'c ObjectKey, host: &'c HostFacts) -> HostLabels<'c> {
    let found = case.sight.hardware.get(key).or(host.hardware.as_ref());
    HostLabels { name: key.name(), labels: &host.labels, hardware: found.map(|hardware| hardware.figures()) }
}

fn differs(case: &Case<'_>, key: &ObjectKey, host: &HostFacts, term: &Term) -> String {
    let labels = labels(case, key, host);
    let has = match labels.label(&term.key) {
        Some(value) => format!("{} is {value}", term.key),
        None => format!("has no label {}", term.key),
    };
    let list = |values: &[Box<str>]| values.join(", ");
    match &term.test {
        Test::OneOf(values) if values.len() == 1 => format!("{has}, not {}", list(values)),
        Test::OneOf(values) => format!("{has}, not one of {}", list(values)),
        Test::NoneOf(_) | Test::Absent => format!("{has}, which the claim rules out"),
        Test::Exists => has,
        Test::Above(bound) => format!("{has}, not above {bound}"),
        Test::Below(bound) => format!("{has}, not below {bound}"),
    }
}

fn used(case: &Case<'_>, key: &ObjectKey, host: &HostFacts) -> String {
    match (&host.consumer, case.sight.yard.promised(key)) {
        (Some(consumer), _) if consumer.namespace.is_empty() => format!("by {} {}", consumer.kind, consumer.name),
        (Some(consumer), _) => format!("by {} {}/{}", consumer.kind, consumer.namespace, consumer.name),
        (None, Some(claim)) => format!("set aside for HostClaim {claim}, which comes first"),
        (None, None) => "by somebody".to_owned(),
    }
}

fn unadmitted(case: &Case<'_>, key: &ObjectKey) -> String {
    let (namespace, tenant) = (key.namespace().unwrap_or_default(), case.tenant());
    let policies = case.sight.policies.keys().filter(|policy| policy.namespace() == Some(namespace)).count();
    match policies {
        0 => format!("namespace {namespace} has no HostDeployPolicy"),
        1 => format!("the policy of namespace {namespace} does not open it to {tenant}"),
        _ => format!("none of the {policies} policies of namespace {namespace} opens it to {tenant}"),
    }
}
