//! Keeps the catalogue in one ConfigMap of the namespace we run in, so that the next process need not ask the cloud.
//!
//! It is read once, before the cloud is asked for the first time: a replica that takes over reads what the last one wrote.
//! It is written when the cloud has told something, by whoever leads. That it cannot be read or written costs calls and
//! nothing else. The chart makes the ConfigMap, so that we need the right to that one only; where it is missing and we may,
//! it is made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use aws::port::TypeFacts;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::class::chain;
use kit::clock::Clock;
use kit::kinds::Kind;
use kit::lease::Leadership;
use kit::write::{self, Target, Writer};
use kube::Api;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::archive::{Archive, Page, PageFault};
use crate::room::is_code;
use crate::shelf::Ec2Place;

/// Regions that are listed together are written together.
const GATHER: Duration = Duration::from_secs(2);
/// Between two attempts to write, the shortest and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(900));
/// Attempts to read, and the pause between them.
const READS: (u32, Duration) = (3, Duration::from_secs(1));
/// How long the last write may take when we are told to stop.
const LAST: Duration = Duration::from_secs(5);
/// Not allowed, and no such namespace: trying again does not help.
const HOPELESS: [u16; 2] = [403, 404];

#[derive(Debug, Default)]
struct Kept {
    archive: Archive,
    changed: bool,
    complained: bool,
}

/// The catalogue in its ConfigMap.
pub struct Store {
    writer: Writer,
    key: ObjectKey,
    clock: Clock,
    leadership: Leadership,
    read_only: bool,
    kept: Mutex<Kept>,
    news: Notify,
}

impl Store {
    /// The ConfigMap of this name; nothing is read yet.
    #[must_use]
    pub fn new(writer: Writer, key: ObjectKey, clock: Clock, leadership: Leadership, read_only: bool) -> Self {
        Self { writer, key, clock, leadership, read_only, kept: Mutex::default(), news: Notify::new() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What earlier processes were told, as far as it can be read and believed.
    pub async fn recall(&self) -> Vec<Page> {
        let opened = Archive::open(self.read().await, self.clock.now());
        for (page, fault) in &opened.faults {
            tracing::warn!(store = %self.key, page, reason = %chain(fault), "kept catalogue passed over");
        }
        self.kept().archive.complete(opened.archive);
        opened.pages
    }

    async fn read(&self) -> BTreeMap<String, Vec<u8>> {
        let api: Api<ConfigMap> =
            Api::namespaced(self.writer.client().clone(), self.key.namespace().unwrap_or_default());
        for left in (0..READS.0).rev() {
            match api.get_opt(self.key.name()).await {
                Ok(found) => {
                    let data = found.and_then(|map| map.binary_data).unwrap_or_default();
                    return data.into_iter().map(|(page, bytes)| (page, bytes.0)).collect();
                }
                Err(error) if left == 0 || is_code(&error, &HOPELESS) => {
                    tracing::warn!(store = %self.key, error = %chain(&error), "kept catalogue not read");
                    break;
                }
                Err(_) => tokio::time::sleep(READS.1).await,
            }
        }
        BTreeMap::new()
    }

    /// The cloud has listed all types of a place.
    pub fn listed(&self, page: &Page) {
        self.change(|archive| archive.put(page).map(|()| true));
    }

    /// The cloud has told of one type more.
    pub fn added(&self, place: &Ec2Place, facts: &TypeFacts) {
        self.change(|archive| archive.add(place, facts));
    }

    fn change(&self, change: impl FnOnce(&mut Archive) -> Result<bool, PageFault>) {
        let changed = change(&mut self.kept().archive);
        match changed {
            Ok(true) => {
                self.kept().changed = true;
                self.news.notify_one();
            }
            Ok(false) => {}
            Err(fault) => tracing::warn!(store = %self.key, reason = %chain(&fault), "catalogue not kept"),
        }
    }

    /// Writes what is new until told to stop, and then what is left.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut pause = GATHER;
        loop {
            if pause == GATHER {
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = self.news.notified() => {}
                }
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            pause = match self.save().await {
                Ok(()) => GATHER,
                Err(error) => {
                    tracing::warn!(store = %self.key, error = %chain(&error), "catalogue not kept, trying again");
                    (pause * 2).clamp(PAUSES.0, PAUSES.1)
                }
            };
        }
        let _ = tokio::time::timeout(LAST, self.save()).await;
    }

    async fn save(&self) -> Result<(), write::Error> {
        let data = {
            let mut kept = self.kept();
            if !std::mem::take(&mut kept.changed) || self.read_only || !self.leadership.leads() {
                return Ok(());
            }
            kept.archive.data()
        };
        match self.write(data).await {
            Ok(()) => Ok(()),
            Err(write::Error::Refused { source, .. }) if is_code(&source, &HOPELESS) => {
                if !std::mem::replace(&mut self.kept().complained, true) {
                    let told = "catalogue not kept: the next process will list it again";
                    tracing::warn!(store = %self.key, error = %chain(&source), "{told}");
                }
                Ok(())
            }
            Err(error) => {
                self.kept().changed = true;
                Err(error)
            }
        }
    }

    async fn write(&self, data: BTreeMap<String, Vec<u8>>) -> Result<(), write::Error> {
        let target = Target { kind: Kind::of::<ConfigMap>(), key: self.key.clone(), uid: "".into() };
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.key.name().to_owned()),
                namespace: self.key.namespace().map(str::to_owned),
                ..ObjectMeta::default()
            },
            binary_data: Some(data.into_iter().map(|(page, bytes)| (page, ByteString(bytes))).collect()),
            ..ConfigMap::default()
        };
        let build = |error: serde_json::Error| write::Error::Build {
            verb: "apply",
            target: target.to_string(),
            source: Box::new(error),
        };
        let body = serde_json::to_value(&map).map_err(build)?;
        self.writer.apply(&target, body).await.map(drop)
    }
}
