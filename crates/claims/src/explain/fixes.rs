//! What a person can do about it, with the command where there is one.

use api::key::ObjectKey;
use api::names::{PAUSED_ANNOTATION, claims as names};
use api::own::BAREMETAL;
use api::reasons::claims::Reason;
use kit::explain::{Fix, quoted};

use super::hosts::{mismatch, unhealthy_mark};
use super::{Case, Place};
use crate::facts::HostFacts;
use crate::labels::{Test, is_derived};
use crate::names::avoid_annotation;
use crate::parts::Part;
use crate::status::{ASSOCIATED, AUTHORIZED, PROVISIONED, SYNCHRONIZED};
use crate::yard::{Limit, Unbound, Unfit, Why};

/// What a person can do, the most promising first.
pub(super) fn fixes(case: &Case<'_>) -> Vec<Fix> {
    if case.claim.deleting {
        return leaving(case);
    }
    if case.paused {
        return vec![paused(case)];
    }
    if case.claim.spec.kind != BAREMETAL {
        return other_kind(case);
    }
    match &case.place {
        Place::At(host, facts) => at(case, host, facts.as_deref()),
        Place::Lost(_) => vec![Fix::run(
            "give the claim up; a machine that it belongs to is replaced by its health check",
            format!("kubectl delete hostclaim {}", place(&case.key)),
        )],
        Place::Offered(_) | Place::Made(_) => Vec::new(),
        Place::Without(unbound) => without(case, unbound),
        Place::Told => told(case),
    }
}

/// The paused claim or its cluster is set going again.
fn paused(case: &Case<'_>) -> Fix {
    if case.claim.is_paused() {
        let command = format!("kubectl annotate hostclaim {} {PAUSED_ANNOTATION}-", place(&case.key));
        return Fix::run("go on with the claim", command);
    }
    let cluster = case.claim.cluster.as_deref().unwrap_or_default();
    let patch = quoted(r#"{"spec":{"paused":false}}"#);
    let command = format!(
        "kubectl patch clusters.cluster.x-k8s.io -n {} {cluster} --type=merge -p {patch}",
        quoted(case.tenant())
    );
    Fix::run(format!("go on with the Cluster {cluster}"), command)
}

fn other_kind(case: &Case<'_>) -> Vec<Fix> {
    let kind = &case.claim.spec.kind;
    let waits = case.condition(ASSOCIATED).is_none_or(|condition| condition.status != "True");
    let command = format!("kubectl describe hostclaimkind {}", quoted(kind));
    let fix = || Fix::run(format!("see whether the controller of the kind {kind} runs"), command);
    waits.then(fix).into_iter().collect()
}

fn leaving(case: &Case<'_>) -> Vec<Fix> {
    if case.paused {
        return vec![paused(case)];
    }
    let Place::At(host, _) = &case.place else { return Vec::new() };
    let reason = case.condition(ASSOCIATED).map(|condition| condition.reason.as_str()).unwrap_or_default();
    let detached = Reason::HostDetached.as_str();
    if reason == detached {
        let command = annotate(host, &format!("{}-", names::DETACHED_ANNOTATION));
        return vec![Fix::run("the owner of the host attaches it again", command)];
    }
    if reason == Reason::HostClaimDeletionFailed.as_str() {
        return vec![
            Fix::run("the owner of the host sees what is wrong with it", describe(host)),
            Fix::run(
                "or lets the claim go with the host uncleaned: nobody gets the host before its mark is taken off",
                annotate(host, &format!("{}=", names::FORCE_RELEASE_ANNOTATION)),
            ),
        ];
    }
    Vec::new()
}

/// A claim with a host.
fn at(case: &Case<'_>, host: &ObjectKey, facts: Option<&HostFacts>) -> Vec<Fix> {
    let mut fixes = Vec::new();
    let failing = |type_: &str| case.condition(type_).filter(|condition| condition.status == "False");
    if let Some(condition) = failing(SYNCHRONIZED) {
        fixes.extend(unsynchronized(case, &condition.reason));
    }
    let broken = |reason: &str| reason == Reason::HostError.as_str();
    if failing(PROVISIONED).is_some_and(|condition| broken(&condition.reason)) {
        fixes.push(Fix::run("the owner of the host sees what is wrong with it", describe(host)));
        let deployed = facts.is_some_and(HostFacts::is_provisioned);
        if !deployed && case.claim.spec.on_host_failure == api::own::OnHostFailure::Wait {
            let command = patch(case, r#"{"spec":{"onHostFailure":"Replace"}}"#);
            fixes.push(Fix::run("or let the claim take another host when one fails", command));
        }
    }
    if failing(AUTHORIZED).is_some() {
        let namespace = host.namespace().unwrap_or_default();
        fixes.push(Fix::run(
            format!(
                "nothing has to be done; to be able to bind again, a policy of {namespace} must admit {}",
                case.tenant()
            ),
            format!("kubectl get hostdeploypolicies -n {} -o yaml", quoted(namespace)),
        ));
    }
    fixes
}

fn unsynchronized(case: &Case<'_>, reason: &str) -> Vec<Fix> {
    let part = Part::ALL.into_iter().find(|part| part.failure().as_str() == reason);
    if let Some((part, name)) = part.and_then(|part| Some((part, part.asked(&case.claim)?))) {
        let (name, tenant) = (quoted(name), quoted(case.tenant()));
        let command = match part {
            Part::Pull => format!("kubectl get secret -n {tenant} {name}"),
            _ => format!("kubectl create secret generic -n {tenant} {name} --from-file={}=FILE", part.field()),
        };
        return vec![Fix::run(format!("put the {part} into the Secret {name}"), command)];
    }
    let is = |known: Reason| known.as_str() == reason;
    if is(Reason::ImageChangeNotSupported) {
        let command = patch(case, r#"{"spec":{"image":null,"customDeploy":null}}"#);
        return vec![Fix::run(
            "take what runs now off the claim; set the new image when the host is available",
            command,
        )];
    }
    if is(Reason::UnsupportedPowerState) {
        return vec![Fix::run("ask for power", patch(case, r#"{"spec":{"poweredOn":true}}"#))];
    }
    if is(Reason::CleaningOverrideNotAllowed) {
        let command = patch(case, r#"{"spec":{"automatedCleaningMode":null}}"#);
        return vec![Fix::run("leave cleaning to the owner of the host", command)];
    }
    if [Reason::ImageNotAllowed, Reason::CustomDeployNotAllowed].into_iter().any(is) {
        return vec![Fix::say("ask the owner of the host what its policy allows, or deploy something that it does")];
    }
    Vec::new()
}

/// A claim whose hosts cannot be seen.
fn told(case: &Case<'_>) -> Vec<Fix> {
    let Some(condition) = case.condition(ASSOCIATED) else {
        return vec![Fix::run("see whether Berth runs", "berth doctor")];
    };
    let counted = case.claim.status.unbound.iter().flat_map(|unbound| &unbound.reasons);
    let mut fixes: Vec<Fix> = counted
        .filter_map(|entry| match entry.reason.as_str() {
            reason if reason == Unfit::SelectorMismatch.as_str() => Some(Fix::run(
                "ask for less in spec.hostSelector",
                format!("kubectl edit hostclaim {}", place(&case.key)),
            )),
            reason if reason == Unfit::OtherNamespace.as_str() => Some(anywhere(case)),
            reason if reason == Unfit::OtherFailureDomain.as_str() => Some(any_domain(case)),
            _ => None,
        })
        .collect();
    if condition.reason == Reason::QuotaExceeded.as_str() {
        let room = "delete a claim of this namespace that is not needed, or ask for a larger quota";
        fixes.insert(0, Fix::say(room));
    }
    if condition.status != "True" {
        fixes.push(Fix::say("ask who owns the hosts: with rights to read them this command tells about each"));
    }
    fixes
}

/// A claim without a host, whose hosts can be seen: the nearest misses can be corrected.
fn without(case: &Case<'_>, unbound: &Unbound) -> Vec<Fix> {
    if case.claim.selector.is_err() {
        return vec![Fix::run("correct the selector", format!("kubectl edit hostclaim {}", place(&case.key)))];
    }
    let mut seen = Vec::new();
    let mut fixes = Vec::new();
    for (host, unfit) in &case.verdicts {
        let Some(unfit) = *unfit else { continue };
        // One of a sort is enough to understand the others.
        if seen.contains(&unfit) || fixes.len() >= 3 {
            continue;
        }
        seen.push(unfit);
        let facts = case.sight.hosts.get(host);
        fixes.extend(facts.and_then(|facts| correct(case, host, facts, unfit)));
    }
    if unbound.why == Why::QuotaExceeded && !seen.contains(&Unfit::QuotaExceeded) {
        // No host is free, and another one would not help.
        return vec![Fix::say("delete a claim of this namespace that is not needed, or raise the limit")];
    }
    if !seen.contains(&Unfit::NotAdmitted) || fixes.is_empty() {
        let first = fixes.is_empty();
        fixes.push(Fix::say(if first { "add a host that fits" } else { "or add a host that fits" }));
    }
    fixes
}

fn correct(case: &Case<'_>, host: &ObjectKey, facts: &HostFacts, unfit: Unfit) -> Option<Fix> {
    Some(match unfit {
        Unfit::OtherNamespace => anywhere(case),
        Unfit::NotAdmitted => admit(case, host.namespace().unwrap_or_default()),
        Unfit::SelectorMismatch => return relabel(case, host, facts),
        Unfit::Paused => go_on(host, names::HOST_PAUSED_ANNOTATION, "go on with"),
        Unfit::Detached => {
            facts.annotation(names::DETACHED_ANNOTATION)?;
            go_on(host, names::DETACHED_ANNOTATION, "attach")
        }
        Unfit::Unhealthy => go_on(host, unhealthy_mark(facts)?, "once it is repaired, take the mark off"),
        Unfit::HostError | Unfit::NotAvailable => Fix::run(format!("see why {host} cannot be used"), describe(host)),
        Unfit::NotClean if facts.image.is_none() && facts.custom_deploy.is_none() => {
            go_on(host, names::INFRA_DEFAULTS_ANNOTATION, "once its disks are clean, take the record off")
        }
        Unfit::NotClean => {
            let patch = quoted(r#"{"spec":{"image":null,"customDeploy":null}}"#);
            let command = format!("kubectl patch baremetalhost {} --type=merge -p {patch}", place(host));
            Fix::run(format!("take what is left over off {host}"), command)
        }
        Unfit::OtherFailureDomain => any_domain(case),
        Unfit::QuotaExceeded => return quota(case, host),
        Unfit::CoolDown => {
            let mark = avoid_annotation(case.tenant());
            facts.annotation(&mark)?;
            go_on(host, &mark, "let this namespace try again")
        }
        Unfit::InUse | Unfit::ReservedForReuse | Unfit::Deleting | Unfit::ExternallyProvisioned => return None,
    })
}

fn go_on(host: &ObjectKey, annotation: &str, what: &str) -> Fix {
    Fix::run(format!("{what} {host}"), annotate(host, &format!("{annotation}-")))
}

/// The host can be given the label that it lacks, unless the label follows from its hardware.
fn relabel(case: &Case<'_>, host: &ObjectKey, facts: &HostFacts) -> Option<Fix> {
    let term = mismatch(case, host, facts)?;
    match &term.test {
        Test::OneOf(values) if !is_derived(&term.key) => {
            let label = quoted(&format!("{}={}", term.key, values.first()?));
            let command = format!("kubectl label --overwrite baremetalhost {} {label}", place(host));
            Some(Fix::run(format!("if {host} is of that sort, say so"), command))
        }
        _ => {
            Some(Fix::run("ask for less in spec.hostSelector", format!("kubectl edit hostclaim {}", place(&case.key))))
        }
    }
}

/// A policy lists the tenant, or one is made that does.
fn admit(case: &Case<'_>, namespace: &str) -> Fix {
    let tenant = case.tenant();
    let listing = case.sight.policies.iter().find(|(policy, facts)| {
        let names = facts.spec.host_claim_namespaces.as_ref().and_then(|spaces| spaces.names.as_ref());
        policy.namespace() == Some(namespace) && names.is_some_and(|names| !names.iter().any(|name| name == tenant))
    });
    match listing {
        Some((policy, _)) => {
            let add = format!(r#"[{{"op":"add","path":"/spec/hostClaimNamespaces/names/-","value":"{tenant}"}}]"#);
            let command = format!("kubectl patch hostdeploypolicy {} --type=json -p {}", place(policy), quoted(&add));
            Fix::run(format!("let the policy {policy} admit {tenant}"), command)
        }
        None => Fix::run(
            format!("let a HostDeployPolicy of {namespace} admit {tenant}"),
            format!("kubectl get hostdeploypolicies -n {} -o yaml", quoted(namespace)),
        ),
    }
}

fn quota(case: &Case<'_>, host: &ObjectKey) -> Option<Fix> {
    let full = case.sight.yard.bound(&case.key, host)?;
    Some(match full.what {
        Limit::Policy => {
            let policy = ObjectKey::namespaced(host.namespace().unwrap_or_default(), full.name);
            let command = format!("kubectl edit hostdeploypolicy {}", place(&policy));
            Fix::run("raise spec.maxHosts, or give a host back that is not needed", command)
        }
        Limit::Quota => {
            let command = format!("kubectl edit hostclaimquota {}", quoted(&full.name));
            Fix::run("raise the quota, or give a host back that is not needed", command)
        }
    })
}

fn anywhere(case: &Case<'_>) -> Fix {
    let command = patch(case, r#"{"spec":{"hostSelector":{"inNamespace":null}}}"#);
    Fix::run("take hosts of other namespaces too", command)
}

fn any_domain(case: &Case<'_>) -> Fix {
    let command = patch(case, r#"{"spec":{"failureDomainMode":"Preferred"}}"#);
    Fix::run("do not insist on the failure domain", command)
}

fn patch(case: &Case<'_>, patch: &str) -> String {
    format!("kubectl patch hostclaim {} --type=merge -p {}", place(&case.key), quoted(patch))
}

fn annotate(host: &ObjectKey, annotation: &str) -> String {
    format!("kubectl annotate --overwrite baremetalhost {} {}", place(host), quoted(annotation))
}

fn describe(host: &ObjectKey) -> String {
    format!("kubectl describe baremetalhost {}", place(host))
}

/// An object as kubectl names it after its kind.
fn place(key: &ObjectKey) -> String {
    format!("-n {} {}", quoted(key.namespace().unwrap_or_default()), quoted(key.name()))
}
