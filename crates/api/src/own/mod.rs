//! The kinds Berth defines: those of group `berth.dev`, of group `metal3.io` the claims on hosts and their policies, and of
//! group `infrastructure.cluster.x-k8s.io` the machines on EC2 and their templates; in [`anywhere`] those of EKS Anywhere
//! that describe clusters on CloudStack.

pub mod anywhere;
mod aws_machine;
mod aws_machine_template;
mod host_claim;
mod host_claim_kind;
mod host_claim_quota;
mod host_claim_status;
mod host_deploy_policy;
pub mod metal3;
mod schema;

pub use aws_machine::{
    AWSMachine, AWSMachineSpec, AWSMachineStatus, AmiReference, CapacityFallback, CloudInit, CpuOptions, DedicatedHost,
    DynamicHostAllocation, ElasticIpPool, HostAffinity, HostReuse, HostSharing, Ignition, IgnitionProxy,
    IgnitionStorage, IgnitionTls, InstanceMetadataOptions, MachineInitialization, MarketType, OwnedHost,
    PrivateDnsName, ReleasePolicy, ResourceFilter, ResourceReference, SharingPolicy, SpotMarketOptions, Switch,
    Tenancy, Volume,
};
pub use aws_machine_template::{
    AWSMachineTemplate, AWSMachineTemplateResource, AWSMachineTemplateSpec, AWSMachineTemplateStatus, TemplateMetadata,
    TemplateNodeInfo,
};
pub use host_claim::{
    BAREMETAL, CleaningMode, ConsumerReference, CustomDeploy, FailureDomainMode, HostClaim, HostClaimSpec, HostImage,
    HostRequirement, HostSelector, OPERATORS, OnHostFailure, SecretReference,
};
pub use host_claim_kind::{ArgSchema, Capability, HostClaimKind, HostClaimKindSpec, HostClaimKindStatus};
pub use host_claim_quota::{
    HostClaimQuota, HostClaimQuotaSpec, HostClaimQuotaStatus, NamespaceUse, QuotaLimits, QuotaTenants, QuotaUse,
};
pub use host_claim_status::{
    DeployedImage, HostAddress, HostClaimStatus, HostMetadata, HostNic, HostReference, PendingReboot,
    ProvisioningState, SelectedHost, Unbound, UnboundReason,
};
pub use host_deploy_policy::{
    HostClaimNamespaces, HostDeployPolicy, HostDeployPolicySpec, HostDeployPolicyStatus, MetadataCopy, NamespaceLabel,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, ValidationRule,
};
use kube::CustomResourceExt;

use crate::names::{PART_OF_LABEL, PRODUCT};

/// Label on a definition: clusterctl looks at objects of the kind when it moves a cluster.
const CLUSTERCTL_LABEL: &str = "clusterctl.cluster.x-k8s.io";
/// Label on a definition: clusterctl moves every object of the kind, whether or not a cluster owns it.
const MOVE_LABEL: &str = "clusterctl.cluster.x-k8s.io/move";

/// Label on a definition: the provider that clusterctl counts it to.
const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";

/// The definitions of all kinds that a room of this build serves, last those whose own providers may define them instead.
pub fn crds() -> Vec<CustomResourceDefinition> {
    berth_crds().into_iter().chain(metal3::crds()).chain(aws_crds()).chain(anywhere::crds()).collect()
}

/// The definitions of the kinds that nobody else serves, in alphabetical order of their names.
fn berth_crds() -> Vec<CustomResourceDefinition> {
    // The name of a HostClaimKind is what a claim writes into `spec.kind`, which holds a DNS label.
    let kind_name = rule(
        "self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')",
        "metadata.name must be at most 63 characters and hold no dot, because claims name the kind by it",
    );
    vec![
        finish(HostClaimKind::crd(), &[], vec![kind_name]),
        finish(HostClaimQuota::crd(), &[], Vec::new()),
        finish(HostClaim::crd(), &[(CLUSTERCTL_LABEL, "")], claim_rules()),
        finish(HostDeployPolicy::crd(), &[(CLUSTERCTL_LABEL, ""), (MOVE_LABEL, "")], Vec::new()),
    ]
}

/// The definitions of the kinds of the Cluster API provider for AWS, whose own may be installed instead.
pub fn aws_crds() -> Vec<CustomResourceDefinition> {
    // A core that knows both contracts takes the newer one.
    let labels = [
        (CLUSTERCTL_LABEL, ""),
        (PROVIDER_LABEL, "infrastructure-aws"),
        ("cluster.x-k8s.io/v1beta1", "v1beta2"),
        ("cluster.x-k8s.io/v1beta2", "v1beta2"),
    ];
    let rules = aws_machine::rules::spec();
    let machine = rules.iter().cloned().chain(aws_machine::rules::frozen()).collect();
    let template = rules.into_iter().chain([aws_machine::rules::template_spec()]).collect();
    vec![
        rule_at(finish(AWSMachine::crd(), &labels, Vec::new()), &["spec"], machine),
        rule_at(finish(AWSMachineTemplate::crd(), &labels, Vec::new()), &["spec", "template", "spec"], template),
    ]
}

/// Adds rules to the field at a path.
fn rule_at(mut crd: CustomResourceDefinition, path: &[&str], rules: Vec<ValidationRule>) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let root = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut());
        let field = path.iter().try_fold(root, |schema, field| Some(schema?.properties.as_mut()?.get_mut(*field)));
        if let Some(field) = field.flatten() {
            field.x_kubernetes_validations.get_or_insert_default().extend(rules.clone());
        }
    }
    crd
}

/// What may not change in a claim while its status says that a machine was found, or that it is deployed.
fn claim_rules() -> Vec<ValidationRule> {
    let same = |field: &str| {
        format!("has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})")
    };
    let bound = "has(oldSelf.status) && (has(oldSelf.status.bareMetalHost) || has(oldSelf.status.resourceID))";
    let deployed = "has(oldSelf.status) && (has(oldSelf.status.image) || (has(oldSelf.status.provisioningState) && \
                    oldSelf.status.provisioningState in ['Provisioning', 'Provisioned', 'Error']))";
    // Absent and empty are the same.
    let has_args = |object: &str| format!("(has({object}.spec.args) && {object}.spec.args.size() > 0)");
    let (new, old) = (has_args("self"), has_args("oldSelf"));
    let same_args = format!("{new} == {old} && (!{new} || self.spec.args == oldSelf.spec.args)");
    let wants = |object: &str| format!("(has({object}.spec.image) || has({object}.spec.customDeploy))");
    let image: Vec<String> =
        ["checksum", "checksumType", "format"].iter().map(|f| same(&format!("spec.image.{f}"))).collect();
    let same_image = format!("self.spec.image.url == oldSelf.spec.image.url && {}", image.join(" && "));
    let same_deploy = format!(
        "has(self.spec.image) == has(oldSelf.spec.image) && (!has(self.spec.image) || ({same_image})) && \
         (!has(self.spec.customDeploy) || self.spec.customDeploy.method == oldSelf.spec.customDeploy.method)"
    );
    vec![
        rule(
            &format!("!({bound}) || ({same_args})"),
            "spec.args cannot be changed once a machine was found; create another HostClaim",
        ),
        rule(
            &format!("!({deployed}) || !({} && {}) || ({same_deploy})", wants("oldSelf"), wants("self")),
            "spec.image and spec.customDeploy cannot be changed while the host has one; remove them first, wait until \
             the host is available again, then set the new one",
        ),
    ]
}

fn rule(rule: &str, message: &str) -> ValidationRule {
    ValidationRule { rule: rule.into(), message: Some(message.into()), ..ValidationRule::default() }
}

/// What the derive cannot express: rules on the whole object, and one meaning of "optional" instead of two.
fn finish(
    mut crd: CustomResourceDefinition,
    labels: &[(&str, &str)],
    root_rules: Vec<ValidationRule>,
) -> CustomResourceDefinition {
    let all = [(PART_OF_LABEL, PRODUCT)].into_iter().chain(labels.iter().copied());
    let labels = all.map(|(key, value)| (key.to_owned(), value.to_owned()));
    crd.metadata.labels = Some(labels.collect());
    for version in &mut crd.spec.versions {
        if let Some(root) = version.schema.as_mut().and_then(|s| s.open_api_v3_schema.as_mut()) {
            forbid_null(root);
            root.x_kubernetes_validations = (!root_rules.is_empty()).then(|| root_rules.clone());
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
