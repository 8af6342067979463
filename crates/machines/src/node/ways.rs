//! The way into workload clusters: the kubeconfig of one is read once for each version of it that the index of Secrets shows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::key::ObjectKey;
use kit::doors::{Clients, Closed};
use kit::feed::{Feed, Seen, Version};
use kube::Client;

use crate::facts::Secrets;

/// What came of one version of a kubeconfig.
type Entered = Option<(Version, Result<Client, Closed>)>;

/// Why a kubeconfig could not be read.
#[derive(Debug)]
pub enum Lost {
    /// The index of Secrets moves just now.
    Behind,
    /// The server does not say.
    Read(Box<kube::Error>),
}

/// Clients of workload clusters.
pub struct Ways {
    secrets: Feed<Secrets>,
    management: Client,
    clients: Arc<Clients>,
    slots: Mutex<BTreeMap<ObjectKey, Arc<tokio::sync::Mutex<Entered>>>>,
}

impl Ways {
    /// Nothing is open yet; `management` is the server that stores kubeconfigs.
    #[must_use]
    pub fn new(secrets: Feed<Secrets>, management: Client, clients: Arc<Clients>) -> Self {
        Self { secrets, management, clients, slots: Mutex::default() }
    }

    /// The client of a cluster, or why it cannot be entered.
    ///
    /// # Errors
    /// When the server that stores its kubeconfig does not say.
    pub async fn enter(&self, cluster: &ObjectKey) -> Result<Result<Client, Closed>, Lost> {
        let namespace = cluster.namespace().unwrap_or_default();
        let secret = ObjectKey::namespaced(namespace, format!("{}-kubeconfig", cluster.name()));
        let held = match self.secrets.get(&secret) {
            Seen::At(held) => held,
            Seen::Absent => {
                self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
                self.clients.forget(cluster);
                return Ok(Err(Closed::NoKubeconfig));
            }
            Seen::Behind => return Err(Lost::Behind),
        };
        let version = self.secrets.version(&secret, &held).ok_or(Lost::Behind)?;
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(cluster.clone()).or_default())
        };
        // Whoever comes while one reads waits for what it reads.
        let mut entered = slot.lock().await;
        if let Some((_, way)) = entered.as_ref().filter(|(at, _)| *at == version) {
            return Ok(way.clone());
        }
        let way = self.clients.enter(&self.management, cluster, namespace).await;
        let way = way.map_err(|error| Lost::Read(Box::new(error)))?;
        *entered = Some((version, way.clone()));
        Ok(way)
    }
}
