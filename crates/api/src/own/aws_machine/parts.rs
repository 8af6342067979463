//! The parts of an AWSMachine that the Cluster API provider for AWS defines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The image to boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AmiReference {
    /// The id of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub id: Option<String>,

    /// The kind of EKS image to look for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["AmazonLinux", "AmazonLinuxGPU", "AmazonLinux2023", "AmazonLinux2023GPU"]))]
    pub eks_lookup_type: Option<String>,
}

impl AmiReference {
    /// Whether nothing is said about the image.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A resource of EC2, by its id or by what it looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceReference {
    /// The id of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub id: Option<String>,

    /// What the resource looks like; all filters must fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
    pub filters: Vec<ResourceFilter>,
}

/// One filter, as EC2 takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceFilter {
    /// The name of the filter, such as tag:Name.
    #[schemars(length(max = 2048))]
    pub name: String,

    /// The values of which one must fit.
    #[schemars(length(max = 256), inner(length(max = 2048)), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(has(self.type) && self.type in ['io1', 'io2']) || (has(self.iops) && self.iops > 0)",
    "message": "iops must be given for the types io1 and io2"
}]))]
pub struct Volume {
    /// The name of the device; the root disk takes it from the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub device_name: Option<String>,

    /// The size in GiB.
    #[schemars(range(min = 8))]
    pub size: i64,

    /// The type, such as gp3 or io2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub type_: Option<String>,

    /// Operations per second; needed by io1 and io2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub iops: Option<i64>,

    /// MiB per second; gp3 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub throughput: Option<i64>,

    /// Whether the disk is encrypted; absent leaves it to the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,

    /// The key it is encrypted with; absent takes the account's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub encryption_key: Option<String>,
}

/// How the instance reads its own metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceMetadataOptions {
    /// Whether the metadata can be read at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"], "default" = "enabled"))]
    pub http_endpoint: Option<String>,

    /// Whether it can be read over IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"], "default" = "disabled"))]
    pub http_protocol_ipv6: Option<String>,

    /// How many hops an answer may travel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64), extend("default" = 1))]
    pub http_put_response_hop_limit: Option<i64>,

    /// Whether a token is needed to read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["optional", "required"], "default" = "optional"))]
    pub http_tokens: Option<String>,

    /// Whether tags of the instance can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"], "default" = "disabled"))]
    pub instance_metadata_tags: Option<String>,
}

impl InstanceMetadataOptions {
    /// The options with everything filled in that is left out.
    #[must_use]
    pub fn filled(&self) -> Self {
        let or = |value: &Option<String>, word: &str| Some(value.clone().unwrap_or_else(|| word.to_owned()));
        Self {
            http_endpoint: or(&self.http_endpoint, "enabled"),
            http_protocol_ipv6: or(&self.http_protocol_ipv6, "disabled"),
            http_put_response_hop_limit: Some(self.http_put_response_hop_limit.unwrap_or(1)),
            http_tokens: or(&self.http_tokens, "optional"),
            instance_metadata_tags: or(&self.instance_metadata_tags, "disabled"),
        }
    }
}

/// How cloud-init gets its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloudInit {
    /// Sends the data as plain user data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_secrets_manager: Option<bool>,

    /// The number of secrets that hold the data; the controller sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub secret_count: Option<i32>,

    /// What the names of these secrets start with; the controller sets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub secret_prefix: Option<String>,

    /// The service that holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["secrets-manager", "ssm-parameter-store"]))]
    pub secure_secrets_backend: Option<String>,
}

impl CloudInit {
    /// Whether the data goes out as plain user data because somebody asked for it.
    #[must_use]
    pub fn skips_secrets(&self) -> bool {
        self.insecure_skip_secrets_manager == Some(true)
    }
}

/// How Ignition gets its data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ignition {
    /// The version of the format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["2.3", "3.0", "3.1", "3.2", "3.3", "3.4"]))]
    pub version: Option<String>,

    /// Where the data is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "IgnitionStorage::json_schema", extend("default" = "ClusterObjectStore"))]
    pub storage_type: Option<IgnitionStorage>,

    /// Proxies for what Ignition fetches; from version 3.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "IgnitionProxy::json_schema")]
    pub proxy: Option<IgnitionProxy>,

    /// Authorities that Ignition trusts; from version 3.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "IgnitionTls::json_schema")]
    pub tls: Option<IgnitionTls>,
}

/// Proxies for what Ignition fetches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnitionProxy {
    /// The proxy for http.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub http_proxy: Option<String>,

    /// The proxy for https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub https_proxy: Option<String>,

    /// Hosts that are reached without a proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 2048)), extend("x-kubernetes-list-type" = "atomic"))]
    pub no_proxy: Vec<String>,
}

/// Authorities that Ignition trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IgnitionTls {
    /// Where their certificates are, as urls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 65536)), extend("x-kubernetes-list-type" = "atomic"))]
    pub certificate_authorities: Vec<String>,
}

/// Where the data of Ignition is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum IgnitionStorage {
    /// In the bucket of the cluster.
    #[default]
    ClusterObjectStore,
    /// In the user data itself.
    UnencryptedUserData,
}

/// Whose instances share the hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Tenancy {
    /// Anybody's.
    #[default]
    Default,
    /// Those of the same account.
    Dedicated,
    /// Those on the same dedicated host.
    Host,
}

/// Whether a stopped instance starts on the same dedicated host again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum HostAffinity {
    /// It may start elsewhere.
    #[default]
    Default,
    /// It starts there, or not at all.
    Host,
}

/// How an instance is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum MarketType {
    /// By the hour, until it is terminated.
    OnDemand,
    /// Cheaply, until the capacity is needed elsewhere.
    Spot,
    /// In advance, for a fixed time.
    CapacityBlock,
}

/// Runs an instance on spare capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpotMarketOptions {
    /// The highest price to pay; absent pays up to the price on demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub max_price: Option<String>,
}

/// How an instance is named inside its network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrivateDnsName {
    /// Whether the name resolves to its IPv6 address; it can be changed.
    #[serde(default, rename = "enableResourceNameDnsAAAARecord", skip_serializing_if = "Option::is_none")]
    pub enable_resource_name_dns_aaaa_record: Option<bool>,

    /// Whether the name resolves to its IPv4 address; it can be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable_resource_name_dns_a_record: Option<bool>,

    /// What the name is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ip-name", "resource-name"]))]
    pub hostname_type: Option<String>,
}

/// Options of the processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct CpuOptions {
    /// How the memory is kept from the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Disabled", "AMDEncryptedVirtualizationNestedPaging"]))]
    pub confidential_compute: Option<String>,

    /// Whether the instance can run virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["enabled", "disabled"]))]
    pub nested_virtualization: Option<String>,
}

/// Where public addresses are taken from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElasticIpPool {
    /// The pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30))]
    pub public_ipv4_pool: Option<String>,

    /// What happens when the pool is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["amazon-pool", "none"]))]
    pub public_ipv4_pool_fallback_order: Option<String>,
}
