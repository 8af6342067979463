//! The objects of files.

use api::names::clusters::GROUP;
use api::own::anywhere::{
    Bundles, CloudStackDatacenterConfig, CloudStackMachineConfig, Cluster, EKSARelease, OIDCConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admit::{default_cluster, default_datacenter};

/// The objects of files that say something about clusters, with their defaults.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    /// Clusters.
    pub clusters: Vec<Cluster>,
    /// Datacenters.
    pub datacenters: Vec<CloudStackDatacenterConfig>,
    /// Machine configurations.
    pub machines: Vec<CloudStackMachineConfig>,
    /// Issuers of tokens.
    pub oidcs: Vec<OIDCConfig>,
    /// Bundles.
    pub bundles: Vec<Bundles>,
    /// Releases.
    pub releases: Vec<EKSARelease>,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is not YAML.
    #[error("not YAML: {0}")]
    Yaml(String),
    /// A document is not what its kind says.
    #[error("document {number}, {kind} {name}: {problem}")]
    Object {
        /// Which document of the file, from 1.
        number: usize,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
}

/// The namespace of an object in a file; where it names none, the usual one.
pub(super) fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// The name of an object.
pub(super) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

impl Documents {
    /// Adds the objects of a file. Other kinds are passed over: files often hold more than is asked about.
    ///
    /// # Errors
    /// When the text is not YAML, or an object of a known kind does not have the form of its kind.
    pub fn read(&mut self, text: &str) -> Result<(), ReadError> {
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| ReadError::Yaml(error.to_string()))?;
        for (number, document) in documents.into_iter().enumerate() {
            self.add(number + 1, document)?;
        }
        Ok(())
    }

    fn add(&mut self, number: usize, document: Value) -> Result<(), ReadError> {
        let word = |at: &str| document.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let group = word("/apiVersion");
        if group.split('/').next() != Some(GROUP) {
            return Ok(());
        }
        let (kind, name) = (word("/kind"), word("/metadata/name"));
        let bad = |problem: String| ReadError::Object { number, kind: kind.clone(), name, problem };
        match kind.as_str() {
            "Cluster" => {
                let mut cluster: Cluster = decode(document).map_err(bad)?;
                default_cluster(&mut cluster.spec);
                self.clusters.push(cluster);
            }
            "CloudStackDatacenterConfig" => {
                let mut datacenter: CloudStackDatacenterConfig = decode(document).map_err(bad)?;
                default_datacenter(&mut datacenter.spec);
                self.datacenters.push(datacenter);
            }
            "CloudStackMachineConfig" => self.machines.push(decode(document).map_err(bad)?),
            "OIDCConfig" => self.oidcs.push(decode(document).map_err(bad)?),
            "Bundles" => self.bundles.push(decode(document).map_err(bad)?),
            "EKSARelease" => self.releases.push(decode(document).map_err(bad)?),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn cluster(&self, namespace: &str, name: &str) -> Option<&Cluster> {
        self.clusters.iter().find(|object| is(&object.metadata, namespace, name))
    }

    pub(super) fn datacenter(&self, namespace: &str, name: &str) -> Option<&CloudStackDatacenterConfig> {
        self.datacenters.iter().find(|object| is(&object.metadata, namespace, name))
    }

    pub(super) fn machine(&self, namespace: &str, name: &str) -> Option<&CloudStackMachineConfig> {
        self.machines.iter().find(|object| is(&object.metadata, namespace, name))
    }

    pub(super) fn oidc(&self, namespace: &str, name: &str) -> Option<&OIDCConfig> {
        self.oidcs.iter().find(|object| is(&object.metadata, namespace, name))
    }
}

fn is(meta: &ObjectMeta, namespace: &str, name: &str) -> bool {
    self::namespace(meta) == namespace && self::name(meta) == name
}

fn decode<T: DeserializeOwned>(document: Value) -> Result<T, String> {
    serde_json::from_value(without_null(document)).map_err(|error| error.to_string())
}

/// A server drops what is null before it reads an object; so do we.
fn without_null(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let held = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(held.map(|(name, value)| (name, without_null(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_null).collect()),
        other => other,
    }
}
