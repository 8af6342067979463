//! Telling the API server which authority to trust: the patch, without a network.

use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use jsonptr::PointerBuf;
use serde_json::Value;

/// A kind of object that holds webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TargetKind {
    /// `ValidatingWebhookConfiguration`.
    Validating,
    /// `MutatingWebhookConfiguration`.
    Mutating,
    /// `CustomResourceDefinition`, for its conversion webhook.
    CustomResource,
}

impl TargetKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Validating, Self::Mutating, Self::CustomResource];

    /// The kind as Kubernetes spells it.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::CustomResource => "CustomResourceDefinition",
        }
    }

    /// How the API server addresses the kind.
    #[must_use]
    pub fn resource(self) -> kube::core::ApiResource {
        let group = match self {
            Self::Validating | Self::Mutating => "admissionregistration.k8s.io",
            Self::CustomResource => "apiextensions.k8s.io",
        };
        let gvk = kube::core::GroupVersionKind::gvk(group, "v1", self.kind());
        kube::core::ApiResource::from_gvk(&gvk)
    }
}

/// One object that holds webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Its kind.
    pub kind: TargetKind,
    /// Its name.
    pub name: String,
}

/// The patch that makes every webhook of the object trust the bundle (base64 of PEM), or `None` if all do.
///
/// The patch holds only for the resource version that was looked at: positions in a list mean nothing later.
#[must_use]
pub fn injection(kind: TargetKind, object: &Value, bundle: &str) -> Option<Patch> {
    let mut changes: Vec<PatchOperation> = Vec::new();
    let mut look = |config: Option<&Value>, path: PointerBuf| {
        let Some(config) = config.filter(|config| config.is_object()) else { return };
        if config.get("caBundle").and_then(Value::as_str) != Some(bundle) {
            changes.push(PatchOperation::Add(AddOperation { path, value: Value::from(bundle) }));
        }
    };
    match kind {
        TargetKind::Validating | TargetKind::Mutating => {
            for (index, webhook) in object.get("webhooks").and_then(Value::as_array).into_iter().flatten().enumerate() {
                let index = index.to_string();
                let path = PointerBuf::from_tokens(["webhooks", &index, "clientConfig", "caBundle"]);
                look(webhook.get("clientConfig"), path);
            }
        }
        TargetKind::CustomResource => {
            let config = object.pointer("/spec/conversion/webhook/clientConfig");
            look(config, PointerBuf::from_tokens(["spec", "conversion", "webhook", "clientConfig", "caBundle"]));
        }
    }
    if changes.is_empty() {
        return None;
    }
    let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or(Value::Null);
    let path = PointerBuf::from_tokens(["metadata", "resourceVersion"]);
    changes.insert(0, PatchOperation::Test(TestOperation { path, value: version }));
    Some(Patch(changes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn config(bundles: &[Option<&str>]) -> Value {
        let webhooks: Vec<Value> = bundles
            .iter()
            .map(|bundle| match bundle {
                Some(bundle) => json!({"name": "a", "clientConfig": {"service": {}, "caBundle": bundle}}),
                None => json!({"name": "a", "clientConfig": {"url": "https://x"}}),
            })
            .collect();
        json!({"metadata": {"resourceVersion": "7"}, "webhooks": webhooks})
    }

    #[test]
    fn only_what_differs_is_patched_and_only_on_the_version_that_was_seen() {
        let object = config(&[Some("new"), Some("old"), None]);
        let patch = serde_json::to_value(injection(TargetKind::Validating, &object, "new").unwrap()).unwrap();
        assert_eq!(
            patch,
            json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "new"},
                {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "new"},
            ])
        );
    }

    #[test]
    fn a_definition_without_conversion_webhook_is_left_alone() {
        let none = json!({"metadata": {}, "spec": {"conversion": {"strategy": "None"}}});
        assert_eq!(injection(TargetKind::CustomResource, &none, "new"), None);
        let some =
            json!({"metadata": {}, "spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {}}}}});
        assert_eq!(injection(TargetKind::CustomResource, &some, "new").unwrap().0.len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn after_the_patch_nothing_is_left_to_patch(
            bundles in proptest::collection::vec(proptest::option::of("[a-c]"), 0..6),
        ) {
            let bundles: Vec<Option<&str>> = bundles.iter().map(Option::as_deref).collect();
            let mut object = config(&bundles);
            let wanted = bundles.iter().any(|bundle| *bundle != Some("a"));
            let patch = injection(TargetKind::Mutating, &object, "a");
            prop_assert_eq!(patch.is_some(), wanted);
            if let Some(patch) = patch {
                json_patch::patch(&mut object, &patch).unwrap();
            }
            prop_assert_eq!(injection(TargetKind::Mutating, &object, "a"), None);
        }
    }
}
