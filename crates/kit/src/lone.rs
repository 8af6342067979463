//! Follows single named objects by their metadata, without the right to list and without keeping what is in them.
//!
//! For kinds of which a room uses a few objects among thousands: a [`feed`](crate::feed) would follow them all.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use api::key::ObjectKey;
use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

/// Objects that are followed at most; others are looked at again with whatever names them.
pub const FOLLOWED: usize = 64;
/// Between two attempts to watch, the shortest and the longest; half of each is jitter.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Follows the objects named in `wanted`, each message being the whole set, and calls `changed` with whichever changed.
pub async fn follow<K>(
    client: Client,
    clock: Clock,
    mut wanted: mpsc::UnboundedReceiver<Vec<ObjectKey>>,
    changed: impl Fn(&ObjectKey) + Clone + Send + Sync + 'static,
    stop: CancellationToken,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut running: JoinSet<()> = JoinSet::new();
    let mut followed: BTreeMap<ObjectKey, AbortHandle> = BTreeMap::new();
    loop {
        let keys = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(_) = running.join_next() => continue,
            keys = wanted.recv() => match keys {
                Some(keys) => keys,
                None => return stop.cancelled().await,
            },
        };
        followed.retain(|key, task| {
            let keep = keys.contains(key);
            if !keep {
                task.abort();
            }
            keep
        });
        for key in keys {
            if followed.len() >= FOLLOWED || followed.contains_key(&key) {
                continue;
            }
            let api: Api<K> = Api::namespaced(client.clone(), key.namespace().unwrap_or_default());
            let task = one(api, key.clone(), clock.clone(), changed.clone());
            followed.insert(key, running.spawn(task));
        }
    }
}

/// Follows one object for ever.
async fn one<K>(api: Api<K>, key: ObjectKey, clock: Clock, changed: impl Fn(&ObjectKey))
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let params = WatchParams::default().fields(&format!("metadata.name={}", key.name()));
    let (mut seen, mut pause): (Option<Option<String>>, Duration) = (None, PAUSES.0);
    loop {
        // From any version on: the first event is the object as it is, which needs no list.
        match api.watch_metadata(&params, "0").await {
            Ok(events) => {
                let mut events = events.boxed();
                while let Some(Ok(event)) = events.next().await {
                    let now = match event {
                        WatchEvent::Added(object) | WatchEvent::Modified(object) => object.resource_version(),
                        WatchEvent::Deleted(_) => None,
                        WatchEvent::Bookmark(_) => continue,
                        WatchEvent::Error(_) => break,
                    };
                    pause = PAUSES.0;
                    // What is seen first may have changed since whoever names it has read it.
                    if seen.as_ref().is_some_and(|before| *before != now) || (seen.is_none() && now.is_some()) {
                        changed(&key);
                    }
                    seen = Some(now);
                }
            }
            Err(error) => {
                tracing::debug!(object = %key, error = %crate::class::chain(&error), "watch not started, trying again");
                pause = (pause * 2).min(PAUSES.1);
            }
        }
        tokio::time::sleep(pause / 2 + clock.jitter(pause / 2)).await;
    }
}
