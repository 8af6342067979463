//! The identities by which clusters on EC2 are kept: `AWSClusterControllerIdentity`, `AWSClusterStaticIdentity` and
//! `AWSClusterRoleIdentity` of the Cluster API provider for AWS.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::aws_provider::{AwsIdentityRef, INFRASTRUCTURE_GROUP};
use super::soft::{Soft, or_default, soft, soft_structs, text};
use crate::meta::lean_meta;

macro_rules! identity {
    ($(#[$doc:meta])* $ty:ident, $spec:ty, $plural:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        pub struct $ty {
            /// Metadata without `managedFields`.
            #[serde(default, deserialize_with = "lean_meta")]
            pub metadata: ObjectMeta,
            /// What it is and who may use it.
            #[serde(default, deserialize_with = "or_default")]
            pub spec: $spec,
        }

        crate::view! { $ty, group: INFRASTRUCTURE_GROUP, versions: ["v1beta2", "v1beta1"], plural: $plural, scope: Cluster }
    };
}

identity! {
    /// The credentials of the controller itself.
    AWSClusterControllerIdentity, ControllerIdentitySpec, "awsclustercontrolleridentities"
}
identity! {
    /// An access key in a Secret.
    AWSClusterStaticIdentity, StaticIdentitySpec, "awsclusterstaticidentities"
}
identity! {
    /// A role that is taken with the credentials of another identity.
    AWSClusterRoleIdentity, RoleIdentitySpec, "awsclusterroleidentities"
}

/// Who may use the credentials of the controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerIdentitySpec {
    /// The namespaces that may use it; absent means none.
    #[serde(default, deserialize_with = "soft")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
}

/// An access key in a Secret, and who may use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticIdentitySpec {
    /// The namespaces that may use it; absent means none.
    #[serde(default, deserialize_with = "soft")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// The Secret, in the namespace of the controller.
    #[serde(default, deserialize_with = "text")]
    pub secret_ref: Option<String>,
}

/// A role, and who may use it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleIdentitySpec {
    /// The namespaces that may use it; absent means none.
    #[serde(default, deserialize_with = "soft")]
    pub allowed_namespaces: Option<AllowedNamespaces>,
    /// The role.
    #[serde(default, rename = "roleARN", deserialize_with = "text")]
    pub role_arn: Option<String>,
    /// The name of the session.
    #[serde(default, deserialize_with = "text")]
    pub session_name: Option<String>,
    /// How long a session lasts, in seconds.
    #[serde(default, deserialize_with = "soft")]
    pub duration_seconds: Option<i32>,
    /// What the owner of the role demands to be told.
    #[serde(default, rename = "externalID", deserialize_with = "text")]
    pub external_id: Option<String>,
    /// A policy that narrows what the role may do.
    #[serde(default, deserialize_with = "text")]
    pub inline_policy: Option<String>,
    /// Policies that narrow what the role may do.
    #[serde(default, rename = "policyARNs", deserialize_with = "or_default")]
    pub policy_arns: Vec<String>,
    /// The identity whose credentials take the role; absent means the controller's.
    #[serde(default, deserialize_with = "soft")]
    pub source_identity_ref: Option<AwsIdentityRef>,
}

/// Which namespaces may use an identity; without list and selector all may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedNamespaces {
    /// These, by name.
    pub list: Option<Vec<String>>,
    /// Those whose labels fit every term; `None` when there is no selector or an empty one.
    pub terms: Option<Vec<NamespaceTerm>>,
    /// Whether something stands there that cannot be read; it then allows nobody.
    pub unreadable: bool,
}

/// One term on one label of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct NamespaceTerm {
    /// The label.
    #[serde(default, deserialize_with = "or_default")]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`; unknown ones are kept.
    #[serde(default, deserialize_with = "or_default")]
    pub operator: String,
    /// The values.
    #[serde(default, deserialize_with = "or_default")]
    pub values: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct RawAllowed {
    #[serde(default)]
    list: serde_json::Value,
    #[serde(default)]
    selector: serde_json::Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawSelector {
    #[serde(default)]
    match_labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    match_expressions: Option<Vec<RawTerm>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTerm {
    key: String,
    operator: String,
    #[serde(default)]
    values: Option<Vec<String>>,
}

/// A right that cannot be read is no right: leniency here would let strangers in.
impl Soft for AllowedNamespaces {
    fn from_map<'de, A: serde::de::MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        let raw = RawAllowed::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
        Ok(Some(Self::read(raw).unwrap_or(Self { unreadable: true, ..Self::default() })))
    }
}

impl AllowedNamespaces {
    fn read(raw: RawAllowed) -> Result<Self, serde_json::Error> {
        let list = serde_json::from_value(raw.list)?;
        let selector: Option<RawSelector> = serde_json::from_value(raw.selector)?;
        let selector = selector.unwrap_or_default();
        let labels = selector.match_labels.unwrap_or_default().into_iter();
        let labels = labels.map(|(key, value)| NamespaceTerm { key, operator: "In".to_owned(), values: vec![value] });
        let expressions = selector.match_expressions.unwrap_or_default().into_iter();
        let expressions = expressions.map(|term| NamespaceTerm {
            key: term.key,
            operator: term.operator,
            values: term.values.unwrap_or_default(),
        });
        let terms: Vec<NamespaceTerm> = labels.chain(expressions).collect();
        Ok(Self { list, terms: (!terms.is_empty()).then_some(terms), unreadable: false })
    }
}

soft_structs!(ControllerIdentitySpec, StaticIdentitySpec, RoleIdentitySpec);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn allowed(wire: serde_json::Value) -> Option<AllowedNamespaces> {
        let identity: AWSClusterControllerIdentity =
            serde_json::from_value(json!({"metadata": {"name": "default"}, "spec": {"allowedNamespaces": wire}}))
                .unwrap();
        identity.spec.allowed_namespaces
    }

    #[test]
    fn nobody_everybody_a_list_and_a_selector_are_told_apart() {
        assert_eq!(allowed(json!(null)), None);
        assert_eq!(allowed(json!({})), Some(AllowedNamespaces::default()));
        assert_eq!(allowed(json!({"list": null, "selector": {}})), Some(AllowedNamespaces::default()));
        assert_eq!(allowed(json!({"list": []})).unwrap().list, Some(Vec::new()));
        assert_eq!(allowed(json!({"list": ["a"]})).unwrap().list, Some(vec!["a".to_owned()]));
        let by_label = allowed(json!({"selector": {
            "matchLabels": {"team": "a"}, "matchExpressions": [{"key": "prod", "operator": "DoesNotExist"}]}}));
        let terms = by_label.unwrap().terms.unwrap();
        assert_eq!(terms.len(), 2);
        assert_eq!((terms[0].operator.as_str(), terms[0].values.as_slice()), ("In", ["a".to_owned()].as_slice()));
    }

    #[test]
    fn what_cannot_be_read_allows_nobody() {
        for wire in [
            json!({"list": "a"}),
            json!({"list": [1]}),
            json!({"selector": "x"}),
            json!({"selector": {"matchLabels": ["x"]}}),
            json!({"selector": {"matchFields": []}}),
            json!({"selector": {"matchExpressions": [{"key": "a"}]}}),
        ] {
            assert!(allowed(wire.clone()).unwrap().unreadable, "{wire}");
        }
        assert_eq!(allowed(json!("all")), None);
    }

    #[test]
    fn a_role_reads_with_its_source() {
        let role: AWSClusterRoleIdentity = serde_json::from_value(json!({"spec": {
            "roleARN": "arn:aws:iam::123456789012:role/r", "sessionName": "s", "durationSeconds": 900, "externalID": "e",
            "inlinePolicy": "{}", "policyARNs": ["arn:aws:iam::aws:policy/p"],
            "sourceIdentityRef": {"kind": "AWSClusterStaticIdentity", "name": "k"}}}))
        .unwrap();
        let spec = role.spec;
        assert_eq!((spec.duration_seconds, spec.policy_arns.len()), (Some(900), 1));
        assert_eq!((spec.external_id.as_deref(), spec.inline_policy.as_deref()), (Some("e"), Some("{}")));
        assert_eq!(spec.source_identity_ref.unwrap().name, "k");
        let key: AWSClusterStaticIdentity = serde_json::from_value(json!({"spec": {"secretRef": "s"}})).unwrap();
        assert_eq!((key.spec.secret_ref.as_deref(), key.spec.allowed_namespaces), (Some("s"), None));
    }
}
