//! Writes hosts: judge, one patch that names the version it was based on.
//!
//! A patch that is based on what the index shows is refused if that is not the host as it is now, so it is as safe as one that
//! follows a look at the host. Everything else that can come of judging is an answer, and only a look gives one. The host's
//! controller rewrites the status of its hosts all the time, so a patch may meet a newer version without anything having changed
//! that matters: the host is read, judged again and written again, a few times, before the pass is given up.

use std::sync::Arc;

use api::key::ObjectKey;
use api::views::BareMetalHost;
use kit::class::{Class, Classify};
use kit::feed::{Feed, Seen, Version};
use kit::write::{self, Target, Writer};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::Value;

use crate::facts::{HostFacts, Hosts};

/// How often a host is judged again because its version moved on.
const TRIES: usize = 3;

/// What is to be done with a host, now that it was read.
pub enum Edit<R> {
    /// It is as it should be.
    Nothing,
    /// This changes it.
    Patch(Value),
    /// It must not be touched.
    Refuse(R),
}

/// How an attempt to change a host ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Touched<R> {
    /// It was changed.
    Changed,
    /// It was as it should be.
    Unchanged,
    /// It is not there.
    Gone,
    /// It must not be touched.
    Refused(R),
}

/// Why a host could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not give it.
    #[error("read BareMetalHost {key}")]
    Read {
        /// The host.
        key: ObjectKey,
        /// The server's words.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server did not take the change.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// Its version moved on at every attempt.
    #[error("BareMetalHost {0} changes faster than it can be written")]
    Contended(ObjectKey),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. } => source.class(),
            Self::Write(error) => error.class(),
            Self::Contended(_) => Class::Stale,
        }
    }
}

/// A host as it was read a moment ago.
pub struct Live {
    /// Its version.
    pub version: Version,
    /// What decisions use of it.
    pub facts: Arc<HostFacts>,
}

/// Reads and writes hosts.
#[derive(Clone)]
pub struct Hand {
    writer: Writer,
    hosts: Feed<Hosts>,
}

impl Hand {
    /// A hand that writes through `writer` and tells the feed of hosts about it.
    #[must_use]
    pub fn new(writer: Writer, hosts: Feed<Hosts>) -> Self {
        Self { writer, hosts }
    }

    fn client(&self) -> Client {
        self.writer.client().clone()
    }

    /// The host as it is now; `None` when it is not there.
    ///
    /// # Errors
    /// What the server said.
    pub async fn read(&self, key: &ObjectKey) -> Result<Option<Live>, Error> {
        let api: Api<BareMetalHost> = Api::namespaced(self.client(), key.namespace().unwrap_or_default());
        let found = api
            .get_opt(key.name())
            .await
            .map_err(|source| Error::Read { key: key.clone(), source: Box::new(source) })?;
        Ok(found.map(|host| Live { version: Version::of(&host), facts: Arc::new(HostFacts::of(host)) }))
    }

    /// The whole status of the host as it is now, in the server's words.
    ///
    /// # Errors
    /// What the server said.
    pub async fn status(&self, key: &ObjectKey) -> Result<Option<Value>, Error> {
        let resource = self.hosts.kind().resource();
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client(), key.namespace().unwrap_or_default(), &resource);
        let found = api
            .get_opt(key.name())
            .await
            .map_err(|source| Error::Read { key: key.clone(), source: Box::new(source) })?;
        Ok(found.map(|mut host| host.data.get_mut("status").map(Value::take).unwrap_or_default()))
    }

    /// The host as the index shows it; `None` when it shows none, or none that can be told from a newer one.
    fn known(&self, key: &ObjectKey) -> Option<Live> {
        let Seen::At(facts) = self.hosts.get(key) else { return None };
        Some(Live { version: self.hosts.version(key, &facts)?, facts })
    }

    /// Writes a host that has not changed since; false when it has, or is gone.
    async fn write(&self, key: &ObjectKey, live: &Live, body: Value) -> Result<bool, Error> {
        let target = Target { kind: self.hosts.kind(), key: key.clone(), uid: live.facts.uid.clone() };
        match self.writer.merge(&target, body, Some(&live.version)).await {
            Ok(version) => {
                self.hosts.wrote(key, &version);
                Ok(true)
            }
            Err(write::Error::Changed { .. }) => Ok(false),
            Err(write::Error::Refused { source, .. }) if matches!(&*source, kube::Error::Api(status) if status.code == 404) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Changes the host as `judge` says, of the host as it is now.
    ///
    /// # Errors
    /// What the server said, or that the host never stood still.
    pub async fn change<R>(&self, key: &ObjectKey, judge: impl Fn(&HostFacts) -> Edit<R>) -> Result<Touched<R>, Error> {
        self.change_while(key, judge, || std::future::ready(Ok(()))).await
    }

    /// The same for a change that rests on something else as well: whenever the host turned out to be newer than what was
    /// known, `sure` is asked before it is written after all.
    ///
    /// # Errors
    /// What the server said, that the host never stood still, or what `sure` has against it.
    pub async fn change_while<R, E: From<Error>, F: Future<Output = Result<(), E>>>(
        &self,
        key: &ObjectKey,
        judge: impl Fn(&HostFacts) -> Edit<R>,
        sure: impl Fn() -> F,
    ) -> Result<Touched<R>, E> {
        if let Some(known) = self.known(key)
            && let Edit::Patch(body) = judge(&known.facts)
            && self.write(key, &known, body).await?
        {
            return Ok(Touched::Changed);
        }
        for _ in 0..TRIES {
            let Some(live) = self.read(key).await? else { return Ok(Touched::Gone) };
            let body = match judge(&live.facts) {
                Edit::Nothing => return Ok(Touched::Unchanged),
                Edit::Refuse(why) => return Ok(Touched::Refused(why)),
                Edit::Patch(body) => body,
            };
            sure().await?;
            if self.write(key, &live, body).await? {
                return Ok(Touched::Changed);
            }
        }
        Err(Error::Contended(key.clone()).into())
    }
}
