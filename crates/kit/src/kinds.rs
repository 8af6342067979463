//! Which kinds the API server serves, and waiting for one that it does not serve yet.
//!
//! Watching a kind whose definition is missing is an endless loop of 404. A feed therefore asks here first. While
//! somebody waits, one metadata watch of CustomResourceDefinitions tells when to look again; when nobody waits there
//! is no watch at all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A kind as the API server names it in paths and definitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// Empty for the core group.
    pub group: String,
    /// For example `v1alpha1`.
    pub version: String,
    /// Singular CamelCase, for people.
    pub kind: String,
    /// Plural lower case, for paths.
    pub plural: String,
}

impl Kind {
    /// The kind of a Rust type.
    #[must_use]
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
        }
    }

    /// The kind at each of these versions; at its own when there are none.
    #[must_use]
    pub fn at(&self, versions: &[&str]) -> Vec<Self> {
        if versions.is_empty() {
            return vec![self.clone()];
        }
        versions.iter().map(|version| Self { version: (*version).to_owned(), ..self.clone() }).collect()
    }

    /// The address of the kind for requests with a dynamic type.
    #[must_use]
    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.clone(),
            version: self.version.clone(),
            api_version: self.api_version(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }

    /// `v1` or `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name its CustomResourceDefinition would have.
    #[must_use]
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.api_version())
    }
}

/// Answers "is this kind served?" and waits until it is.
#[derive(Clone)]
pub struct Kinds {
    client: Client,
    /// Name of each definition seen -> how often it changed.
    definitions: Arc<watch::Sender<BTreeMap<String, u64>>>,
    waiting: Arc<watch::Sender<usize>>,
}

/// While a kind is missing and nothing announces definitions (no right to watch them), look this often.
const BACKSTOP: Duration = Duration::from_secs(60);
/// The same while definitions are announced: only a kind that has none, because another server behind this one serves it, is
/// found by looking.
const ANNOUNCED: Duration = Duration::from_secs(600);
/// How far apart a server may begin to serve two versions of one definition.
const SETTLING: Duration = Duration::from_secs(1);
/// A definition exists but its kind is not served yet: discovery lags by a moment.
const SOON: Duration = Duration::from_millis(200);
const LATER: Duration = Duration::from_secs(10);
/// Discovery does not answer: no longer than this, to be there soon after the server is.
const UNKNOWN: Duration = Duration::from_secs(3);

impl Kinds {
    /// Nothing is asked before the first question.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            definitions: Arc::new(watch::channel(BTreeMap::new()).0),
            waiting: Arc::new(watch::channel(0).0),
        }
    }

    /// Whether the server serves `kind` now.
    ///
    /// # Errors
    /// When discovery fails for another reason than the group being absent.
    pub async fn is_served(&self, kind: &Kind) -> Result<bool, Box<kube::Error>> {
        let answer = if kind.group.is_empty() {
            self.client.list_core_api_resources(&kind.version).await
        } else {
            self.client.list_api_group_resources(&kind.api_version()).await
        };
        match answer {
            Ok(list) => Ok(list.resources.iter().any(|r| r.name == kind.plural)),
            // An unknown group is answered with plain text, not with a Status, so only the code tells.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(Box::new(error)),
        }
    }

    /// The first of `candidates` that the server serves now.
    ///
    /// # Errors
    /// When discovery fails for another reason than the group being absent.
    pub async fn first_served<'a>(&self, candidates: &'a [Kind]) -> Result<Option<&'a Kind>, Box<kube::Error>> {
        for kind in candidates {
            if self.is_served(kind).await? {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    /// As [`Kinds::first_served`]. The versions of a new definition are not served from the same moment on, so any but the
    /// first is looked at twice.
    async fn settled<'a>(&self, candidates: &'a [Kind]) -> Result<Option<&'a Kind>, Box<kube::Error>> {
        let mut found = self.first_served(candidates).await?;
        while found.is_some() && found != candidates.first() {
            tokio::time::sleep(SETTLING).await;
            let again = self.first_served(candidates).await?;
            if again == found {
                break;
            }
            found = again;
        }
        Ok(found)
    }

    /// Returns the first of `candidates`, versions of one kind, as soon as one is served; calls `missing` once when the
    /// server says that none is.
    pub async fn served(&self, candidates: &[Kind], missing: impl FnOnce()) -> Kind {
        let mut changes = self.definitions.subscribe();
        let (mut missing, mut waiting) = (Some(missing), None);
        let name = candidates.first().map(Kind::definition).unwrap_or_default();
        let mut pause = SOON;
        loop {
            let (known, announced) = {
                let all = changes.borrow_and_update();
                (all.get(&name).copied(), !all.is_empty())
            };
            let limit = match self.settled(candidates).await {
                Ok(Some(kind)) => return kind.clone(),
                Ok(None) => {
                    if let Some(missing) = missing.take() {
                        missing();
                        waiting.get_or_insert_with(|| Waiting::new(&self.waiting));
                    }
                    match known {
                        Some(_) => pause,
                        None if announced => ANNOUNCED,
                        None => BACKSTOP,
                    }
                }
                // Nobody can say, which is not the same as "no": whoever waits must not go on without the kind.
                Err(error) => {
                    tracing::debug!(kind = name, error = %error, "discovery failed");
                    pause.min(UNKNOWN)
                }
            };
            pause = if limit >= BACKSTOP { SOON } else { (pause * 2).min(LATER) };
            let moved = changes.wait_for(|all| all.get(&name).copied() != known);
            // Either a change of just this definition or the time limit; both lead to another look.
            let _ = tokio::time::timeout(limit, moved).await;
        }
    }

    /// Watches definitions while somebody waits for one. Runs until cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let mut waiting = self.waiting.subscribe();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                started = waiting.wait_for(|n| *n > 0) => if started.is_err() { return },
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = waiting.wait_for(|n| *n == 0) => {}
                () = self.watch() => {}
            }
        }
    }

    async fn watch(&self) {
        let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(self.client.clone());
        let config = watcher::Config::default().page_size(100);
        let mut stream = watcher(api, config).backoff(crate::feed::Reconnect::default()).touched_objects().boxed();
        loop {
            match stream.try_next().await {
                Ok(Some(definition)) => self.definitions.send_modify(|all| {
                    *all.entry(definition.name_any()).or_default() += 1;
                }),
                Ok(None) => return,
                Err(error) => tracing::debug!(error = %error, "watching definitions failed"),
            }
        }
    }
}

/// Counts one waiter for as long as it lives, also when its future is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|n| *n += 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n = n.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    #[test]
    fn names_follow_the_server() {
        let core = Kind::of::<ConfigMap>();
        assert_eq!((core.api_version().as_str(), core.plural.as_str()), ("v1", "configmaps"));
        let definition = Kind::of::<CustomResourceDefinition>();
        assert_eq!(definition.api_version(), "apiextensions.k8s.io/v1");
        assert_eq!(definition.definition(), "customresourcedefinitions.apiextensions.k8s.io");
    }
}
