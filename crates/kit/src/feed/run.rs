//! Fills a feed from the API server for as long as the process runs.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::PoisonError;
use std::time::Duration;

use api::key::ObjectKey;
use api::meta::Versioned;
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::{Delta, Feed, Phase, Project, Version};
use crate::gates::Gate;
use crate::kinds::{Kind, Kinds};

/// Objects per page of a list: large pages leave large heaps behind.
const PAGE: u32 = 100;
/// The kind is named by discovery but answered with 404: look again after this, half of it jitter.
const DOUBT: Duration = Duration::from_secs(2);

/// What a watch sends.
pub type Events<S> = BoxStream<'static, watcher::Result<Event<S>>>;

/// Follows objects, decoded as `K`, in one namespace or all of them.
#[must_use]
pub fn objects<K>(client: Client, namespace: Option<&str>, kind: &Kind) -> Events<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let resource = kind.resource();
    let api: Api<Versioned<K>> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    watcher::watcher(api, config()).backoff(Reconnect::default()).map(|event| event.map(plain)).boxed()
}

fn plain<K>(event: Event<Versioned<K>>) -> Event<K> {
    match event {
        Event::Apply(Versioned(object)) => Event::Apply(object),
        Event::Delete(Versioned(object)) => Event::Delete(object),
        Event::Init => Event::Init,
        Event::InitApply(Versioned(object)) => Event::InitApply(object),
        Event::InitDone => Event::InitDone,
    }
}

/// The pauses between two attempts to watch: kube's own, scaled down from 0.8 .. 60 s to 25 ms .. 1.9 s. After an
/// outage of any length work resumes within five seconds, even when the first attempt only learns that its version is
/// too old, and an attempt that is refused costs next to nothing.
#[derive(Default)]
pub(crate) struct Reconnect(watcher::DefaultBackoff);

impl Iterator for Reconnect {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|pause| pause / 32)
    }
}

impl Backoff for Reconnect {
    /// Asked for after anything that is no error, and every attempt to list begins with a notice: lists that fail would
    /// never back off. The pauses start again by themselves once two minutes went well.
    fn reset(&mut self) {}
}

fn config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

/// Which part of the cluster is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Every namespace, and cluster-scoped objects.
    #[default]
    All,
    /// These namespaces only; cluster-scoped kinds are followed whole.
    Namespaces(Vec<String>),
}

impl Scope {
    /// Whether objects of this namespace are followed.
    #[must_use]
    pub fn holds(&self, namespace: Option<&str>) -> bool {
        match self {
            Self::Namespaces(names) if !names.is_empty() => {
                namespace.is_none_or(|namespace| names.iter().any(|name| name == namespace))
            }
            Self::All | Self::Namespaces(_) => true,
        }
    }

    fn parts<P: Project>(&self) -> Vec<Option<String>> {
        let namespaced = TypeId::of::<<P::Source as Resource>::Scope>() == TypeId::of::<NamespaceResourceScope>();
        match self {
            Self::Namespaces(names) if namespaced && !names.is_empty() => names.iter().cloned().map(Some).collect(),
            _ => vec![None],
        }
    }
}

/// Where a feed is filled from.
#[derive(Clone)]
pub struct Source {
    /// The API server.
    pub client: Client,
    /// Which part of it.
    pub scope: Scope,
    /// Whether the kind is served.
    pub kinds: Kinds,
    /// How often everything is listed again, in case an event was lost on the way; `None` = only when a watch breaks.
    pub refresh: Option<Duration>,
}

/// Why following ended.
enum End {
    NotServed,
    Stopped,
    /// It is time to list again.
    Refresh,
}

/// The watches of one feed, one per followed namespace, and how far each has come.
struct Parts<P: Project> {
    namespaces: Vec<Option<String>>,
    /// Relists under way: part -> epoch.
    open: BTreeMap<usize, u32>,
    listed: Vec<bool>,
    feed: Feed<P>,
}

impl<P: Project> Feed<P> {
    /// Follows the kind until cancelled. `gate` shows how far it is; it never blocks readiness.
    pub async fn run(self, source: Source, gate: Gate, stop: CancellationToken) {
        let preferred = Kind::of::<P::Source>();
        let candidates = preferred.at(P::VERSIONS);
        gate.waiting(format!("asking whether the kind {preferred} is served"));
        loop {
            let missing = || {
                tracing::info!(kind = %preferred, "kind is not served, waiting for it");
                gate.waiting(format!("waiting for the kind {preferred} to be served"));
                self.inner.phase.send_replace(Phase::Missing);
            };
            let kind = tokio::select! {
                () = stop.cancelled() => return,
                kind = source.kinds.served(&candidates, missing) => kind,
            };
            kind.clone_into(&mut self.inner.kind.write().unwrap_or_else(PoisonError::into_inner));
            gate.waiting(format!("listing {}", kind.plural));
            self.inner.phase.send_replace(Phase::Listing);
            let end = loop {
                match self.follow(&source, &gate, &stop).await {
                    End::Refresh => tracing::debug!(kind = %kind, "listing again"),
                    end => break end,
                }
            };
            match end {
                End::Stopped | End::Refresh => return,
                End::NotServed => {
                    // One 404 is no proof (another server behind the same address, a proxy): nothing is given up, and
                    // nothing is asked in a tight loop, before discovery says the same.
                    let pause = DOUBT / 2 + self.inner.clock.jitter(DOUBT / 2);
                    let doubt = async {
                        let doubtful = !matches!(source.kinds.first_served(&candidates).await, Ok(None));
                        if doubtful {
                            tokio::time::sleep(pause).await;
                        }
                        doubtful
                    };
                    tokio::select! {
                        () = stop.cancelled() => return,
                        doubtful = doubt => if doubtful { continue },
                    }
                    let gone = {
                        let mut index = self.write();
                        let epoch = index.begin();
                        index.finish(epoch, None)
                    };
                    tracing::warn!(kind = %kind, objects = gone.len(), "kind is no longer served");
                    self.announce(&gone);
                }
            }
        }
    }

    async fn follow(&self, source: &Source, gate: &Gate, stop: &CancellationToken) -> End {
        let (kind, namespaces) = (self.kind(), source.scope.parts::<P>());
        let listed = vec![false; namespaces.len()];
        let watch = |(number, namespace): (usize, &Option<String>)| {
            P::watch(source.client.clone(), namespace.as_deref(), &kind).map(move |event| (number, event)).boxed()
        };
        let mut events = futures::stream::select_all(namespaces.iter().enumerate().map(watch));
        let mut parts = Parts { namespaces, open: BTreeMap::new(), listed, feed: self.clone() };
        let mut current = false;
        // Kinds that started together are not listed again together.
        let due = source.refresh.map(|period| period.saturating_sub(self.inner.clock.jitter(period / 4)));
        let due = async {
            match due {
                Some(due) => tokio::time::sleep(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(due);
        loop {
            let (number, event) = tokio::select! {
                () = stop.cancelled() => return End::Stopped,
                () = &mut due => return End::Refresh,
                next = events.next() => match next {
                    Some(next) => next,
                    None => return End::Stopped,
                },
            };
            match event {
                Ok(event) => {
                    let deltas = parts.take(number, event);
                    self.announce(&deltas);
                    if !current && parts.complete() {
                        current = true;
                        self.caught_up(gate);
                    }
                }
                Err(error) if is_missing(&error) => return End::NotServed,
                Err(error) => {
                    tracing::warn!(kind = %self.kind(), error = %error, "watch interrupted, trying again");
                    // Once the index is complete an interruption heals unannounced, so the gate would go on lying.
                    if !current {
                        gate.waiting(format!("listing {}: interrupted, trying again", self.kind().plural));
                    }
                }
            }
        }
    }

    fn caught_up(&self, gate: &Gate) {
        let first = self.inner.phase.send_if_modified(|p| std::mem::replace(p, Phase::Synced) != Phase::Synced);
        if first {
            tracing::info!(kind = %self.kind(), objects = self.len(), "index complete");
        }
        gate.ready(format!("watching {}", self.kind().plural));
    }
}

impl<P: Project> Parts<P> {
    fn take(&mut self, number: usize, event: Event<P::Source>) -> Vec<Delta<P::Slim>> {
        let mut index = self.feed.write();
        match event {
            Event::Init => {
                self.open.insert(number, index.begin());
                Vec::new()
            }
            Event::InitApply(object) => index.put(object, self.open.get(&number).copied()),
            Event::Apply(object) => index.put(object, None),
            Event::Delete(object) => index.remove(&ObjectKey::of(&object), &Version::of(&object)),
            Event::InitDone => {
                if let Some(listed) = self.listed.get_mut(number) {
                    *listed = true;
                }
                let namespace = self.namespaces.get(number).and_then(Option::as_deref);
                self.open.remove(&number).map(|epoch| index.finish(epoch, namespace)).unwrap_or_default()
            }
        }
    }

    fn complete(&self) -> bool {
        self.open.is_empty() && self.listed.iter().all(|listed| *listed)
    }
}

/// A 404 on list or watch means the kind itself is gone: objects are never asked for by name here.
fn is_missing(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => status.code == 404,
        watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_server_is_tried_again_within_seconds_however_long_it_was_away() {
        let mut pauses = Reconnect::default();
        let first = pauses.next().unwrap();
        assert!(first >= Duration::from_millis(25) && first <= Duration::from_millis(50), "{first:?}");
        let later: Vec<Duration> = pauses.by_ref().skip(8).take(200).collect();
        assert!(later.iter().all(|p| (900..=1_875).contains(&p.as_millis())), "{later:?}");
        // The notice that a list begins is no success.
        pauses.reset();
        assert!(pauses.next().unwrap() >= Duration::from_millis(900));
    }
}
