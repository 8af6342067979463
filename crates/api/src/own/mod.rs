//! The kinds of group `berth.dev`.

mod host_claim_kind;
mod host_claim_quota;
mod schema;

pub use host_claim_kind::{ArgSchema, Capability, HostClaimKind, HostClaimKindSpec, HostClaimKindStatus};
pub use host_claim_quota::{
    HostClaimQuota, HostClaimQuotaSpec, HostClaimQuotaStatus, NamespaceUse, QuotaLimits, QuotaTenants, QuotaUse,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, ValidationRule,
};
use kube::CustomResourceExt;

/// The definitions of all our kinds, in alphabetical order of their names.
pub fn crds() -> Vec<CustomResourceDefinition> {
    // The name of a HostClaimKind is what a claim writes into `spec.kind`, which holds a DNS label.
    let kind_name = rule(
        "self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')",
        "metadata.name must be at most 63 characters and hold no dot, because claims name the kind by it",
    );
    vec![finish(HostClaimKind::crd(), Some(kind_name)), finish(HostClaimQuota::crd(), None)]
}

fn rule(rule: &str, message: &str) -> ValidationRule {
    ValidationRule { rule: rule.into(), message: Some(message.into()), ..ValidationRule::default() }
}

/// What the derive cannot express: rules on the whole object, and one meaning of "optional" instead of two.
fn finish(mut crd: CustomResourceDefinition, root_rule: Option<ValidationRule>) -> CustomResourceDefinition {
    crd.metadata.labels =
        Some([("app.kubernetes.io/part-of", "berth")].map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    for version in &mut crd.spec.versions {
        if let Some(root) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) {
            forbid_null(root);
            root.x_kubernetes_validations = root_rule.clone().map(|r| vec![r]);
        }
    }
    crd
}

/// Removes `nullable`, so that an explicit null is dropped and defaulted by the server instead of being stored.
fn forbid_null(schema: &mut JSONSchemaProps) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
        JSONSchemaPropsOrArray as Items, JSONSchemaPropsOrBool as Values,
    };
    schema.nullable = None;
    for property in schema.properties.iter_mut().flat_map(|p| p.values_mut()) {
        forbid_null(property);
    }
    match &mut schema.items {
        Some(Items::Schema(items)) => forbid_null(items),
        Some(Items::Schemas(items)) => items.iter_mut().for_each(forbid_null),
        None => {}
    }
    if let Some(Values::Schema(values)) = &mut schema.additional_properties {
        forbid_null(values);
    }
}

#[cfg(test)]
mod tests;
