//! The way into workload clusters: clients made of stored kubeconfigs, each kept for as long as its kubeconfig is the same.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api::key::ObjectKey;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

/// Opens the way into a cluster.
pub trait Doors: Send + Sync + 'static {
    /// A client for what a stored kubeconfig says; `stored` names it in words.
    fn open<'d>(&'d self, stored: &'d str, kubeconfig: &'d str) -> BoxFuture<'d, Result<Client, String>>;
}

/// Connects as kubeconfigs say.
#[derive(Clone, Debug)]
pub struct Kubeconfigs {
    /// How we call ourselves.
    pub agent: String,
}

impl Doors for Kubeconfigs {
    fn open<'d>(&'d self, stored: &'d str, kubeconfig: &'d str) -> BoxFuture<'d, Result<Client, String>> {
        async move {
            let opened = crate::client::connect_stored(kubeconfig, stored, &self.agent).await;
            opened.map_err(|error| crate::class::chain(&error))
        }
        .boxed()
    }
}

/// Why a cluster cannot be entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Its kubeconfig is not stored yet.
    NoKubeconfig,
    /// Its kubeconfig cannot be used, in words for people.
    Unusable(String),
}

/// Clients of clusters, each for as long as its kubeconfig is the same.
pub struct Clients {
    doors: Box<dyn Doors>,
    open: Mutex<BTreeMap<ObjectKey, (String, Client)>>,
}

impl Clients {
    /// Nothing is open yet.
    #[must_use]
    pub fn new(doors: Box<dyn Doors>) -> Self {
        Self { doors, open: Mutex::default() }
    }

    /// The client of a cluster whose kubeconfig is stored in `namespace`, as Cluster API stores it.
    ///
    /// # Errors
    /// When the server that stores it does not say.
    pub async fn enter(
        &self,
        management: &Client,
        cluster: &ObjectKey,
        namespace: &str,
    ) -> Result<Result<Client, Closed>, kube::Error> {
        let name = format!("{}-kubeconfig", cluster.name());
        let secrets: Api<Secret> = Api::namespaced(management.clone(), namespace);
        let found = secrets.get_opt(&name).await?;
        let text = found.as_ref().and_then(|secret| secret.data.as_ref()?.get("value").cloned());
        let (Some(secret), Some(text)) = (found, text) else { return Ok(Err(Closed::NoKubeconfig)) };
        let stored = format!("{namespace}/{name}");
        let Ok(text) = String::from_utf8(text.0) else {
            return Ok(Err(Closed::Unusable(format!("Secret {stored}: value is not text"))));
        };
        let version = secret.metadata.resource_version.unwrap_or_default();
        Ok(self.client(cluster, &version, &stored, &text).await.map_err(Closed::Unusable))
    }

    /// The client of a cluster.
    ///
    /// # Errors
    /// In words for people.
    pub async fn client(
        &self,
        cluster: &ObjectKey,
        version: &str,
        stored: &str,
        kubeconfig: &str,
    ) -> Result<Client, String> {
        if let Some(client) = self.at(cluster, version) {
            return Ok(client);
        }
        let client = self.doors.open(stored, kubeconfig).await?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(cluster.clone(), (version.to_owned(), client.clone()));
        Ok(client)
    }

    /// The client of a cluster, if it was made of just this version of its kubeconfig.
    #[must_use]
    pub fn at(&self, cluster: &ObjectKey, version: &str) -> Option<Client> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(cluster).filter(|(at, _)| at == version).map(|(_, client)| client.clone())
    }

    /// The client that was given out last.
    #[must_use]
    pub fn last(&self, cluster: &ObjectKey) -> Option<Client> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(cluster).map(|(_, client)| client.clone())
    }

    /// Forgets the client of a cluster.
    pub fn forget(&self, cluster: &ObjectKey) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }
}
