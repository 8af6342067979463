//! The way into workload clusters: the kubeconfig of one is read once for each version of it that the index of Secrets shows,
//! and what came of it is forgotten when the Secret goes.

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

/// What came of the kubeconfigs of clusters.
type Slots = Mutex<BTreeMap<ObjectKey, Arc<tokio::sync::Mutex<Entered>>>>;

/// Clients of workload clusters.
pub struct Ways {
    secrets: Feed<Secrets>,
    management: Client,
    clients: Arc<Clients>,
    slots: Arc<Slots>,
}

/// Forgets a way, and with it the keys that opened it.
fn close(clients: &Clients, slots: &Slots, cluster: &ObjectKey) {
    slots.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    clients.forget(cluster);
}

impl Ways {
    /// Nothing is open yet; `management` is the server that stores kubeconfigs.
    #[must_use]
    pub fn new(secrets: Feed<Secrets>, management: Client, clients: Arc<Clients>) -> Self {
        let slots = Arc::<Slots>::default();
        let (open, kept) = (Arc::clone(&clients), Arc::clone(&slots));
        // Nobody enters a cluster that is gone, so nobody would notice then.
        secrets.observe(move |delta| {
            let cluster = delta.key.name().strip_suffix("-kubeconfig").filter(|_| delta.new.is_none());
            if let Some(name) = cluster {
                close(&open, &kept, &ObjectKey::namespaced(delta.key.namespace().unwrap_or_default(), name));
            }
        });
        Self { secrets, management, clients, slots }
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
                close(&self.clients, &self.slots, cluster);
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
        // It may have gone while it was read.
        if matches!(self.secrets.get(&secret), Seen::Absent) {
            close(&self.clients, &self.slots, cluster);
        }
        Ok(way)
    }
}
