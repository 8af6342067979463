//! As whom EC2 is called: the identity a cluster names, as a source of credentials.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use api::views::AwsIdentityRef;
use aws::cloud::{Cloud, Door};
use aws::credentials::{Source, from_static_identity};
use aws::identity::Base;
use k8s_openapi::api::core::v1::Secret;
use kit::class::chain as words;
use kube::Api;
use tokio::time::Instant;

use crate::asker::Asker;
use crate::classes::Class;
use crate::journal::Scope;
use crate::observe::name;
use crate::obstacle::{About, Obstacle};
use crate::room::{Error, Keeper, read};
use crate::shelf::Shelf;

/// The word for a Secret of who asks, where an identity has its kind.
pub(crate) const SECRET: &str = "Secret";

/// Keys from a secret are used for this long before the secret is read again.
const KEYS: Duration = Duration::from_secs(60);

/// Credentials that nobody can open: of which kind and why, in the words of metrics, and what is said of it.
pub(crate) struct Lack {
    pub(crate) kind: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) obstacle: Obstacle,
}

fn lack(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Lack {
    Lack { kind, reason, obstacle: Obstacle::private(About::Instance, Class::Permission, message) }
}

impl<C: Cloud, A: Asker> Keeper<C, A> {
    /// The way to EC2 for a machine.
    pub(crate) async fn open(
        &self,
        scope: &Scope,
        namespace: &str,
    ) -> Result<Result<Arc<Shelf<C::Ec2>>, Obstacle>, Error> {
        Ok(self.unlock(scope, namespace).await?.map_err(|lack| lack.obstacle))
    }

    /// The same, with what metrics tell of it.
    pub(crate) async fn unlock(
        &self,
        scope: &Scope,
        namespace: &str,
    ) -> Result<Result<Arc<Shelf<C::Ec2>>, Lack>, Error> {
        let source = match self.source(scope.identity.as_ref(), namespace).await? {
            Ok(source) => source,
            Err(lack) => return Ok(Err(lack)),
        };
        let door =
            Door { region: scope.region.clone(), source, endpoints: self.config.endpoints.clone(), bundle: None };
        let closed =
            |error: aws::cloud::DoorError| lack("source", "unusable", format!("{}: {}", name(scope), error.message));
        Ok(self.shelves.shelf(&door).map_err(closed))
    }

    async fn source(
        &self,
        identity: Option<&(String, String)>,
        namespace: &str,
    ) -> Result<Result<Source, Lack>, Error> {
        if let Some((_, secret)) = identity.filter(|(kind, _)| kind == SECRET) {
            // A Secret of whoever asks, and of nobody else.
            return self.keys(&format!("Secret {secret}"), namespace, secret).await;
        }
        let reference = identity.map(|(kind, name)| AwsIdentityRef { kind: kind.clone(), name: name.clone() });
        let chain = match self.world.identities.resolve(reference.as_ref(), namespace) {
            Ok(chain) => chain,
            Err(error) => return Ok(Err(lack("identity", "unusable", words(&error)))),
        };
        let base = match &chain.base {
            Base::Process => self.ambient(),
            Base::Secret { identity, secret } => {
                self.keys(&identity.to_string(), &self.config.controller_namespace, secret).await?
            }
        };
        Ok(base.map(|base| chain.onto(base)))
    }

    fn ambient(&self) -> Result<Source, Lack> {
        match &self.config.ambient {
            Ok(ambient) => Ok(ambient.source().clone()),
            Err(why) => Err(lack("process", "unusable", format!("no AWS credentials: {why}"))),
        }
    }

    async fn keys(&self, identity: &str, namespace: &str, secret: &str) -> Result<Result<Source, Lack>, Error> {
        let now = self.clock.instant();
        let name = format!("{namespace}/{secret}");
        if let Some((at, source)) = self.kept_keys().get(&name)
            && now.saturating_duration_since(*at) < KEYS
        {
            return Ok(Ok(source.clone()));
        }
        let api: Api<Secret> = Api::namespaced(self.writer.client().clone(), namespace);
        let found = api.get_opt(secret).await.map_err(read(|| format!("Secret {namespace}/{secret}")))?;
        let Some(found) = found else {
            let message = format!("{identity}: Secret {namespace}/{secret} is not there");
            return Ok(Err(lack("secret", "missing", message)));
        };
        let data = found.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        let bad = |error| lack("secret", "unusable", format!("{identity}: {}", words(&error)));
        let source = from_static_identity(&data).map_err(bad);
        if let Ok(source) = &source {
            let mut kept = self.kept_keys();
            kept.retain(|_, (at, _)| now.saturating_duration_since(*at) < KEYS);
            kept.insert(name, (now, source.clone()));
        }
        Ok(source)
    }

    fn kept_keys(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Source)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
