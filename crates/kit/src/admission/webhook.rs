//! Telling the API server which webhooks there are: the configuration is generated from the rooms' own lists.

use k8s_openapi::api::admissionregistration::v1::{
    RuleWithOperations, ServiceReference, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// One kind that is checked at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// The API group of the kind.
    pub group: &'static str,
    /// The version that is checked; the server converts others.
    pub version: &'static str,
    /// The plural of the kind.
    pub plural: &'static str,
    /// Where it is served.
    pub path: &'static str,
}

/// The Service that webhooks are reached by.
#[derive(Clone, Copy, Debug)]
pub struct Service<'s> {
    /// Its name.
    pub name: &'s str,
    /// Its namespace.
    pub namespace: &'s str,
}

/// The configuration `berth` with one entry per webhook, without the certificate authority: that is filled in by
/// whoever makes the certificates.
pub fn configuration<'w>(
    webhooks: impl IntoIterator<Item = &'w Webhook>,
    service: Service<'_>,
) -> ValidatingWebhookConfiguration {
    let labels = [("app.kubernetes.io/part-of".to_owned(), "berth".to_owned())].into();
    let metadata = ObjectMeta { name: Some("berth".to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let webhooks = webhooks.into_iter().map(|webhook| entry(webhook, service)).collect();
    ValidatingWebhookConfiguration { metadata, webhooks: Some(webhooks) }
}

fn entry(webhook: &Webhook, service: Service<'_>) -> ValidatingWebhook {
    let one = |text: &str| Some(vec![text.to_owned()]);
    ValidatingWebhook {
        name: format!("{}.{}", webhook.plural, webhook.group),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: WebhookClientConfig {
            service: Some(ServiceReference {
                name: service.name.to_owned(),
                namespace: service.namespace.to_owned(),
                path: Some(webhook.path.to_owned()),
                port: Some(443),
            }),
            ..WebhookClientConfig::default()
        },
        // What is written while nobody serves the webhook is checked again by the room, so nothing is lost by letting
        // it pass, and nobody is locked out of their own cluster.
        failure_policy: Some("Ignore".to_owned()),
        match_policy: Some("Equivalent".to_owned()),
        rules: Some(vec![RuleWithOperations {
            api_groups: one(webhook.group),
            api_versions: one(webhook.version),
            resources: one(webhook.plural),
            operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
            scope: Some("*".to_owned()),
        }]),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(5),
        ..ValidatingWebhook::default()
    }
}
