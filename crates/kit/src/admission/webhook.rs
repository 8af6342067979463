//! Telling the API server which webhooks there are: the configurations are generated from the rooms' own lists.

use k8s_openapi::api::admissionregistration::v1::{
    MatchCondition, MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What is done with objects at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Duty {
    /// Defaults are filled in, before the schema is looked at.
    Default,
    /// The same, and a new spec that nobody could complete is not stored: for what is read by others as it is stored.
    Complete,
    /// Faults of the spec are told, when nobody changes the object any more.
    Check,
    /// The same, of the spec and of annotations.
    CheckNotes,
    /// The same, of annotations alone.
    Notes,
    /// The same, and a new spec that nobody could look at is not stored: for what costs money once it is, and for fields
    /// that must stay as they are, whose change nobody can see afterwards.
    Guard,
}

impl Duty {
    /// What the server does with a write that it could ask nobody about.
    fn failure_policy(self) -> String {
        // What is written while nobody serves a webhook is judged again by the room, so nothing is lost by letting it pass,
        // and nobody is locked out of their own cluster.
        if self.is_strict() { "Fail" } else { "Ignore" }.to_owned()
    }

    /// Which writes the server asks about: those that are new in what is looked at. Labels, owners, finalizers and the
    /// journal in the annotations of a guarded kind stay changeable while nobody serves the webhook, and with them
    /// deletion and a move to another management cluster. And every question costs the server and us more than the
    /// write itself, while controllers write metadata all the time.
    fn conditions(self) -> Vec<MatchCondition> {
        let spec = "!has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec";
        let notes = "has(object.metadata.annotations) && (!has(oldObject.metadata.annotations) || \
                     object.metadata.annotations != oldObject.metadata.annotations)";
        let (name, new) = match self {
            Self::Default | Self::Complete | Self::Check | Self::Guard => ("the-spec-is-new", spec.to_owned()),
            Self::CheckNotes => ("spec-or-annotations-are-new", format!("{spec} || {notes}")),
            Self::Notes => ("annotations-are-new", notes.to_owned()),
        };
        vec![MatchCondition { name: name.to_owned(), expression: format!("oldObject == null || {new}") }]
    }

    /// Whether a new spec is refused when nobody can be asked about it.
    const fn is_strict(self) -> bool {
        matches!(self, Self::Complete | Self::Guard)
    }

    /// Whether objects are changed before they are stored, rather than judged.
    const fn fills(self) -> bool {
        matches!(self, Self::Default | Self::Complete)
    }
}

/// One kind that is defaulted or checked at admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// What is done.
    pub duty: Duty,
    /// The API group of the kind.
    pub group: &'static str,
    /// The version that is served; the server converts others.
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

const TIMEOUT_SECONDS: i32 = 5;

/// The configuration `berth` with one entry per webhook that checks, without the certificate authority: that is filled
/// in by whoever makes the certificates.
pub fn validating<'w>(
    webhooks: impl IntoIterator<Item = &'w Webhook>,
    service: Service<'_>,
) -> ValidatingWebhookConfiguration {
    let checks = webhooks.into_iter().filter(|webhook| !webhook.duty.fills());
    let entry = |webhook: &Webhook| ValidatingWebhook {
        name: name(webhook),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(webhook, service),
        failure_policy: Some(webhook.duty.failure_policy()),
        match_conditions: Some(webhook.duty.conditions()),
        match_policy: Some("Equivalent".to_owned()),
        rules: Some(vec![rule(webhook)]),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..ValidatingWebhook::default()
    };
    ValidatingWebhookConfiguration { metadata: metadata(), webhooks: Some(checks.map(entry).collect()) }
}

/// The configuration `berth` with one entry per webhook that fills in defaults, without the certificate authority.
pub fn mutating<'w>(
    webhooks: impl IntoIterator<Item = &'w Webhook>,
    service: Service<'_>,
) -> MutatingWebhookConfiguration {
    let defaults = webhooks.into_iter().filter(|webhook| webhook.duty.fills());
    let entry = |webhook: &Webhook| MutatingWebhook {
        name: name(webhook),
        admission_review_versions: vec!["v1".to_owned()],
        client_config: client_config(webhook, service),
        failure_policy: Some(webhook.duty.failure_policy()),
        match_conditions: Some(webhook.duty.conditions()),
        match_policy: Some("Equivalent".to_owned()),
        reinvocation_policy: Some("Never".to_owned()),
        rules: Some(vec![rule(webhook)]),
        side_effects: "None".to_owned(),
        timeout_seconds: Some(TIMEOUT_SECONDS),
        ..MutatingWebhook::default()
    };
    MutatingWebhookConfiguration { metadata: metadata(), webhooks: Some(defaults.map(entry).collect()) }
}

fn metadata() -> ObjectMeta {
    let labels = [("app.kubernetes.io/part-of".to_owned(), "berth".to_owned())].into();
    ObjectMeta { name: Some("berth".to_owned()), labels: Some(labels), ..ObjectMeta::default() }
}

fn name(webhook: &Webhook) -> String {
    format!("{}.{}", webhook.plural, webhook.group)
}

fn client_config(webhook: &Webhook, service: Service<'_>) -> WebhookClientConfig {
    WebhookClientConfig {
        service: Some(ServiceReference {
            name: service.name.to_owned(),
            namespace: service.namespace.to_owned(),
            path: Some(webhook.path.to_owned()),
            port: Some(443),
        }),
        ..WebhookClientConfig::default()
    }
}

fn rule(webhook: &Webhook) -> RuleWithOperations {
    let one = |text: &str| Some(vec![text.to_owned()]);
    RuleWithOperations {
        api_groups: one(webhook.group),
        api_versions: one(webhook.version),
        resources: one(webhook.plural),
        operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
        scope: Some("*".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_webhook_stands_in_the_configuration_of_its_duty() {
        let webhook = |duty, path| Webhook { duty, group: "a.example", version: "v1", plural: "things", path };
        let all = [webhook(Duty::Default, "/default/things"), webhook(Duty::Check, "/validate/things")];
        let service = Service { name: "s", namespace: "n" };
        let path = |config: &WebhookClientConfig| config.service.as_ref().and_then(|s| s.path.clone()).unwrap();
        let (defaults, checks) =
            (mutating(&all, service).webhooks.unwrap(), validating(&all, service).webhooks.unwrap());
        assert_eq!(defaults.iter().map(|w| path(&w.client_config)).collect::<Vec<_>>(), ["/default/things"]);
        assert_eq!(checks.iter().map(|w| path(&w.client_config)).collect::<Vec<_>>(), ["/validate/things"]);
        assert_eq!((&defaults[0].name, &defaults[0].rules), (&checks[0].name, &checks[0].rules));
        assert_eq!(
            (&defaults[0].failure_policy, &checks[0].failure_policy),
            (&Some("Ignore".into()), &Some("Ignore".into()))
        );
    }

    #[test]
    fn the_server_asks_only_about_what_is_new_in_what_is_looked_at() {
        let asked = |duty: Duty| duty.conditions().remove(0).expression;
        for duty in [Duty::Default, Duty::Complete, Duty::Check, Duty::Guard] {
            let asked = asked(duty);
            assert!(asked.contains("object.spec != oldObject.spec") && !asked.contains("annotations"), "{asked}");
        }
        let (both, notes) = (asked(Duty::CheckNotes), asked(Duty::Notes));
        assert!(both.contains("object.spec != oldObject.spec") && both.contains("annotations !="), "{both}");
        assert!(!notes.contains("spec") && notes.contains("annotations !="), "{notes}");
        for asked in [both, notes] {
            assert!(asked.starts_with("oldObject == null || "), "a new object is always asked about: {asked}");
        }
    }

    #[test]
    fn what_is_guarded_is_not_stored_unseen_and_only_a_new_spec_is_looked_at() {
        let webhook = |duty, path| Webhook { duty, group: "a.example", version: "v1", plural: "things", path };
        let (guard, complete) = (webhook(Duty::Guard, "/validate/things"), webhook(Duty::Complete, "/default/things"));
        let service = Service { name: "s", namespace: "n" };
        assert_eq!(mutating([&guard], service).webhooks, Some(Vec::new()));
        assert_eq!(validating([&complete], service).webhooks, Some(Vec::new()));
        let check = validating([&guard], service).webhooks.unwrap().remove(0);
        let fill = mutating([&complete], service).webhooks.unwrap().remove(0);
        for (policy, conditions) in
            [(check.failure_policy, check.match_conditions), (fill.failure_policy, fill.match_conditions)]
        {
            assert_eq!(policy.as_deref(), Some("Fail"));
            let conditions = conditions.unwrap();
            assert!(conditions.len() == 1 && conditions[0].expression.contains("object.spec != oldObject.spec"));
        }
    }
}
