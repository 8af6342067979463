//! The checks themselves. Each only reads.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kit::class::chain;
use kit::kinds::{Kind, Kinds};
use kit::rights::Reach;
use kube::api::PostParams;
use kube::{Api, Client};

use super::{Check, Level, claims, hosts, machines, vip};
use crate::rooms;

/// The oldest server whose fields we rely on.
const OLDEST_MINOR: u32 = 33;

/// Every check, in the order in which one depends on the next.
pub async fn all(client: &Client, namespace: &str) -> Vec<Check> {
    let api = api(client).await;
    let reachable = api.level != Level::Failure;
    let mut checks = vec![api];
    if reachable {
        checks.push(kinds(client).await);
        checks.push(rights(client, namespace).await);
        checks.push(webhooks(client).await);
        checks.push(leadership(client, namespace).await);
        checks.extend(vip::all(client).await);
        checks.extend(claims::all(client).await);
        checks.extend(machines::all(client).await);
        checks.extend(hosts::all(client).await);
    }
    checks
}

async fn api(client: &Client) -> Check {
    let version = match client.apiserver_version().await {
        Ok(version) => version,
        Err(error) => {
            let fix = "check --kubeconfig and --context, and that the server answers `kubectl version`";
            return Check::fail("api", format!("the API server does not answer: {}", chain(&error)), fix);
        }
    };
    let minor: u32 = version.minor.trim_end_matches('+').parse().unwrap_or_default();
    let found = format!("Kubernetes {}", version.git_version);
    if version.major == "1" && minor < OLDEST_MINOR {
        let fix = format!("Berth is tested with Kubernetes 1.{OLDEST_MINOR} and later");
        return Check::warn("api", format!("{found} is older than Berth supports"), fix);
    }
    Check::ok("api", found)
}

async fn kinds(client: &Client) -> Check {
    let kinds = Kinds::new(client.clone());
    let mut missing = Vec::new();
    let definitions = crate::definitions::all();
    for definition in &definitions {
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served && version.storage) {
            let kind = Kind {
                group: spec.group.clone(),
                version: version.name.clone(),
                kind: spec.names.kind.clone(),
                plural: spec.names.plural.clone(),
            };
            match kinds.is_served(&kind).await {
                Ok(true) => {}
                Ok(false) => missing.push(kind.to_string()),
                Err(error) => {
                    return Check::fail("kinds", format!("asking for {kind}: {}", chain(&error)), "try again");
                }
            }
        }
    }
    if missing.is_empty() {
        return Check::ok("kinds", format!("{} kinds of Berth are served", definitions.len()));
    }
    let fix = "berth crds | kubectl apply --server-side -f -";
    Check::fail("kinds", format!("not served: {}", missing.join(", ")), fix)
}

/// Asks for the operator's own account where it is installed, otherwise for whoever runs the doctor.
async fn rights(client: &Client, namespace: &str) -> Check {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = matches!(accounts.get_opt("berth").await, Ok(Some(_)));
    let user = account.then(|| format!("system:serviceaccount:{namespace}:berth"));
    let who = user.clone().unwrap_or_else(|| "the current user".to_owned());
    let (mut asked, mut denied) = (0usize, Vec::new());
    for right in rooms::rights() {
        for (resource, verb) in right.resources.iter().flat_map(|r| right.verbs.iter().map(move |v| (r, v))) {
            let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
            let attributes = ResourceAttributes {
                group: Some(right.group.to_owned()),
                resource: Some(plural.to_owned()),
                subresource: (!part.is_empty()).then(|| part.to_owned()),
                verb: Some((*verb).to_owned()),
                // One name stands for all: they are granted by one rule.
                name: right.names.first().map(|name| (*name).to_owned()),
                namespace: (right.reach == Reach::OwnNamespace).then(|| namespace.to_owned()),
                ..ResourceAttributes::default()
            };
            asked += 1;
            match allowed(client, user.as_deref(), attributes).await {
                Ok(true) => {}
                Ok(false) => denied.push(format!("{verb} {resource}")),
                Err(error) => {
                    let fix = "run the doctor as a user who may create subject access reviews";
                    return Check::warn("rights", format!("cannot be checked: {}", chain(&error)), fix);
                }
            }
        }
    }
    if denied.is_empty() {
        return Check::ok("rights", format!("{who} may make all {asked} kinds of calls the rooms make"));
    }
    denied.sort();
    denied.dedup();
    let found = format!("{who} may not: {}", denied.join(", "));
    Check::fail("rights", found, "install or upgrade the chart, whose roles are generated from the same list")
}

async fn allowed(client: &Client, user: Option<&str>, attributes: ResourceAttributes) -> Result<bool, kube::Error> {
    let params = PostParams::default();
    if let Some(user) = user {
        let spec = SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = Api::<SubjectAccessReview>::all(client.clone()).create(&params, &review).await?;
        return Ok(answer.status.is_some_and(|status| status.allowed));
    }
    let spec =
        SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = Api::<SelfSubjectAccessReview>::all(client.clone()).create(&params, &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn webhooks(client: &Client) -> Check {
    let fix = "berth webhooks | kubectl apply -f -   (the chart does this and fills in the certificate authority)";
    let checks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let defaults: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let (checks, defaults) = match (checks.get_opt("berth").await, defaults.get_opt("berth").await) {
        (Ok(Some(checks)), Ok(Some(defaults))) => (checks, defaults),
        (Ok(None), Ok(None)) => {
            return Check::warn("webhooks", "none: mistakes show up as conditions only, after the fact", fix);
        }
        (Ok(None), Ok(Some(_))) => return Check::warn("webhooks", "those that check objects are missing", fix),
        (Ok(Some(_)), Ok(None)) => return Check::warn("webhooks", "those that fill in defaults are missing", fix),
        (Err(error), _) | (_, Err(error)) => {
            return Check::warn("webhooks", format!("cannot be read: {}", chain(&error)), fix);
        }
    };
    let checks = checks.webhooks.into_iter().flatten().map(|hook| (hook.name, hook.client_config));
    let defaults = defaults.webhooks.into_iter().flatten().map(|hook| (hook.name, hook.client_config));
    let hooks: Vec<(String, WebhookClientConfig)> = checks.chain(defaults).collect();
    let untrusted = hooks.iter().filter(|(_, config)| config.ca_bundle.as_ref().is_none_or(|b| b.0.is_empty()));
    let names: BTreeSet<&str> = untrusted.map(|(name, _)| name.as_str()).collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        let fix = "start Berth with --webhook-self-signed, or let cert-manager inject the authority";
        return Check::fail("webhooks", format!("no certificate authority in: {}", names.join(", ")), fix);
    }
    Check::ok("webhooks", format!("{} registered, each with a certificate authority", hooks.len()))
}

async fn leadership(client: &Client, namespace: &str) -> Check {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match leases.get_opt("berth").await {
        Ok(Some(lease)) => match lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty()) {
            Some(holder) => Check::ok("leadership", format!("{holder} decides")),
            None => {
                let fix = "normal for a few seconds after a replica stopped; then look at the pods' logs";
                Check::warn("leadership", "the lease has no holder: nobody decides", fix)
            }
        },
        Ok(None) => Check::ok("leadership", format!("no lease in {namespace}: a single replica decides")),
        Err(error) => {
            Check::warn("leadership", format!("cannot be read: {}", chain(&error)), "run the doctor with more rights")
        }
    }
}
