//! Kinds of the Cluster API provider for CloudStack, as far as capacity and place of machines depend on them.
//!
//! Who only asks whether they are there takes the views of the same names one level up, which are followed by their
//! metadata.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::INFRASTRUCTURE_GROUP;
use super::soft::{or_default, soft_structs, text};
use crate::meta::lean_meta;
use crate::own::anywhere::Named;

/// A cluster on CloudStack.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct CloudStackCluster {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AcsClusterSpec,
}

crate::view! { CloudStackCluster, group: INFRASTRUCTURE_GROUP, versions: ["v1beta3", "v1beta2"], plural: "cloudstackclusters", scope: Namespaced }

/// What is wanted of a cluster on CloudStack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AcsClusterSpec {
    /// Where its machines may be made.
    #[serde(default, deserialize_with = "or_default")]
    pub failure_domains: Vec<AcsFailureDomain>,
}

/// A place where machines may be made: a zone of a server, for an account, called with the keys of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawFailureDomain")]
pub struct AcsFailureDomain {
    /// Its name.
    pub name: String,
    /// The zone.
    pub zone: Named,
    /// The domain of the account.
    pub domain: Option<String>,
    /// The account.
    pub account: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// The Secret: its namespace, where one is written, and its name.
    pub secret: Option<(Option<String>, String)>,
}

/// What machines on CloudStack look like.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct CloudStackMachineTemplate {
    /// Metadata without `managedFields`.
    #[serde(default, deserialize_with = "lean_meta")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: AcsTemplateSpec,
}

crate::view! { CloudStackMachineTemplate, group: INFRASTRUCTURE_GROUP, versions: ["v1beta3", "v1beta2"], plural: "cloudstackmachinetemplates", scope: Namespaced }

/// What is wanted of machines on CloudStack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawTemplateSpec")]
pub struct AcsTemplateSpec {
    /// The compute offering.
    pub offering: Named,
    /// The image.
    pub image: Named,
    /// What is chosen where the offering leaves a choice.
    pub details: BTreeMap<String, String>,
    /// The only failure domain of its machines.
    pub failure_domain: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawFailureDomain {
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    zone: RawNamed,
    #[serde(default, deserialize_with = "text")]
    domain: Option<String>,
    #[serde(default, deserialize_with = "text")]
    account: Option<String>,
    #[serde(default, deserialize_with = "text")]
    project: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    acs_endpoint: RawSecret,
}

#[derive(Default, Deserialize)]
struct RawNamed {
    #[serde(default, deserialize_with = "or_default")]
    id: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
}

#[derive(Default, Deserialize)]
struct RawSecret {
    #[serde(default, deserialize_with = "text")]
    name: Option<String>,
    #[serde(default, deserialize_with = "text")]
    namespace: Option<String>,
}

#[derive(Default, Deserialize)]
struct RawTemplateSpec {
    #[serde(default, deserialize_with = "or_default")]
    template: RawTemplate,
}

#[derive(Default, Deserialize)]
struct RawTemplate {
    #[serde(default, deserialize_with = "or_default")]
    spec: RawMachine,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMachine {
    #[serde(default, deserialize_with = "or_default")]
    offering: RawNamed,
    #[serde(default, deserialize_with = "or_default")]
    template: RawNamed,
    #[serde(default, deserialize_with = "or_default")]
    details: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "text")]
    failure_domain_name: Option<String>,
}

soft_structs!(AcsClusterSpec, AcsFailureDomain, AcsTemplateSpec, RawNamed, RawSecret, RawTemplate, RawMachine,);

impl From<RawNamed> for Named {
    fn from(raw: RawNamed) -> Self {
        Self { id: raw.id, name: raw.name }
    }
}

impl From<RawFailureDomain> for AcsFailureDomain {
    fn from(raw: RawFailureDomain) -> Self {
        let RawFailureDomain {
            name,
            zone,
            domain,
            account,
            project,
            acs_endpoint: RawSecret { name: secret, namespace },
        } = raw;
        Self { name, zone: zone.into(), domain, account, project, secret: secret.map(|secret| (namespace, secret)) }
    }
}

impl From<RawTemplateSpec> for AcsTemplateSpec {
    fn from(raw: RawTemplateSpec) -> Self {
        let RawMachine { offering, template, details, failure_domain_name } = raw.template.spec;
        Self { offering: offering.into(), image: template.into(), details, failure_domain: failure_domain_name }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_says_where_its_machines_may_be_made() {
        let cluster: CloudStackCluster = serde_json::from_value(json!({
            "metadata": {"name": "c"},
            "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1"}, "failureDomains": [
                {"name": "a", "zone": {"name": "zone-1", "network": {"name": "n"}}, "account": "team", "domain": "ROOT/team",
                 "acsEndpoint": {"name": "keys", "namespace": "eksa-system"}},
                {"name": "b", "zone": {"id": "z-2", "network": {"id": "n"}}, "account": "", "acsEndpoint": {"name": "keys"}},
                {"zone": 3, "acsEndpoint": "keys"},
                "odd",
            ]},
        }))
        .unwrap();
        let [a, b, odd] = cluster.spec.failure_domains.as_slice() else { panic!("{:?}", cluster.spec) };
        assert_eq!((a.name.as_str(), a.zone.name.as_str(), a.account.as_deref()), ("a", "zone-1", Some("team")));
        assert_eq!(a.secret, Some((Some("eksa-system".to_owned()), "keys".to_owned())));
        assert_eq!(
            (b.zone.id.as_str(), b.account.as_deref(), b.secret.clone()),
            ("z-2", None, Some((None, "keys".to_owned())))
        );
        assert_eq!(*odd, AcsFailureDomain::default());
        let none: CloudStackCluster = serde_json::from_value(json!({"spec": {"zones": [{"name": "z"}]}})).unwrap();
        assert_eq!(none.spec, AcsClusterSpec::default());
    }

    #[test]
    fn a_template_names_offering_image_and_choices() {
        let template: CloudStackMachineTemplate = serde_json::from_value(json!({
            "spec": {"template": {"spec": {
                "offering": {"name": "Large"}, "template": {"id": "t-1"}, "sshKey": "k", "failureDomainName": "a",
                "details": {"cpuNumber": "4", "memory": "8192", "odd": 3},
            }}},
        }))
        .unwrap();
        let spec = template.spec;
        assert_eq!((spec.offering.name.as_str(), spec.image.id.as_str()), ("Large", "t-1"));
        assert_eq!((spec.details.len(), spec.failure_domain.as_deref()), (2, Some("a")));
        for odd in [json!({}), json!({"spec": 3}), json!({"spec": {"template": {"spec": {"offering": "Large"}}}})] {
            let template: CloudStackMachineTemplate = serde_json::from_value(odd).unwrap();
            assert!(template.spec.offering.is_empty());
        }
    }
}
