//! The objects of files.

use api::names::clusters::GROUP;
use api::own::anywhere::{
    Bundles, CloudStackDatacenterConfig, CloudStackMachineConfig, Cluster, EKSARelease, OIDCConfig,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admit::{default_cluster, default_datacenter};
use crate::facts::read_status;

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
    /// Whether what a server holds is among them.
    served: bool,
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

    /// Adds an object as a server holds it; other kinds are passed over.
    ///
    /// # Errors
    /// What is wrong with it when it does not have the form of its kind.
    pub fn take(&mut self, object: Value) -> Result<(), String> {
        self.add(1, object).map_err(|error| match error {
            ReadError::Yaml(problem) | ReadError::Object { problem, .. } => problem,
        })
    }

    /// These objects, and of a server's those that are not among them.
    pub(super) fn over(&self, server: &Self) -> Self {
        // The first of a name is the one that is found.
        let mut all = Self { served: true, ..self.clone() };
        all.clusters.extend(server.clusters.iter().cloned());
        all.datacenters.extend(server.datacenters.iter().cloned());
        all.machines.extend(server.machines.iter().cloned());
        all.oidcs.extend(server.oidcs.iter().cloned());
        all.bundles.extend(server.bundles.iter().cloned());
        all.releases.extend(server.releases.iter().cloned());
        all
    }

    /// Whether what a server holds is among them.
    pub(super) fn is_served(&self) -> bool {
        self.served
    }

    /// What is said of an object that is not among them.
    pub(super) fn missing(&self, kind: &str, name: &str) -> String {
        let place = if self.served { "neither in the files nor on the server" } else { "not in the files" };
        format!("{kind} {name} is {place}")
    }

    fn add(&mut self, number: usize, mut document: Value) -> Result<(), ReadError> {
        let word = |at: &str| document.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let group = word("/apiVersion");
        if group.split('/').next() != Some(GROUP) {
            return Ok(());
        }
        let (kind, name) = (word("/kind"), word("/metadata/name"));
        let bad = |problem: String| ReadError::Object { number, kind: kind.clone(), name, problem };
        // Whatever others wrote into it, a status keeps nobody from reading the rest.
        let status = document.as_object_mut().and_then(|fields| fields.remove("status"));
        match kind.as_str() {
            "Cluster" => {
                let mut cluster: Cluster = decode(document).map_err(bad)?;
                cluster.status = status.map(read_status);
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

    /// A managing cluster: beside the cluster, or the only one of its name.
    pub(super) fn manager(&self, namespace: &str, name: &str) -> Option<&Cluster> {
        let mut named = self.clusters.iter().filter(|object| self::name(&object.metadata) == name);
        let first = named.next()?;
        let place = self::namespace(&first.metadata);
        let only = named.all(|other| self::namespace(&other.metadata) == place);
        self.cluster(namespace, name).or(only.then_some(first))
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
