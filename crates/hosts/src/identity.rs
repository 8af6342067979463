//! As whom EC2 is called: the identity a cluster names, as a source of credentials.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use api::views::AllowedNamespaces;
use aws::cloud::{Cloud, Door};
use aws::credentials::{Role, Source, from_static_identity};
use k8s_openapi::api::core::v1::Secret;
use kit::class::chain;
use kube::Api;
use tokio::time::Instant;

use crate::classes::Class;
use crate::journal::Scope;
use crate::observe::{at, name};
use crate::obstacle::{About, Obstacle};
use crate::room::{Error, Keeper, read};
use crate::shelf::Shelf;

/// Keys from a secret are used for this long before the secret is read again.
const KEYS: Duration = Duration::from_secs(60);
/// Roles taken on one after the other.
const CHAIN: usize = 5;

fn denied(message: impl Into<String>) -> Obstacle {
    Obstacle { about: About::Instance, class: Class::Permission, message: message.into(), fatal: false }
}

/// Whether an identity may be used from a namespace: nobody unless it says so, everybody if it says nothing more.
fn allows(allowed: Option<&AllowedNamespaces>, namespace: &str, labels: &BTreeMap<String, String>) -> bool {
    let Some(allowed) = allowed.filter(|allowed| !allowed.unreadable) else { return false };
    if allowed.list.is_none() && allowed.terms.is_none() {
        return true;
    }
    let listed = allowed.list.as_ref().is_some_and(|list| list.iter().any(|name| name == namespace));
    let fits = allowed.terms.as_ref().is_some_and(|terms| {
        terms.iter().all(|term| {
            let value = labels.get(&term.key);
            match term.operator.as_str() {
                "In" => value.is_some_and(|value| term.values.contains(value)),
                "NotIn" => value.is_none_or(|value| !term.values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
    });
    listed || fits
}

impl<C: Cloud> Keeper<C> {
    /// The way to EC2 for a machine.
    pub(crate) async fn open(
        &self,
        scope: &Scope,
        namespace: &str,
    ) -> Result<Result<Arc<Shelf<C::Ec2>>, Obstacle>, Error> {
        let source = match self.source(scope.identity.as_ref(), namespace).await? {
            Ok(source) => source,
            Err(obstacle) => return Ok(Err(obstacle)),
        };
        let door =
            Door { region: scope.region.clone(), source, endpoints: self.config.endpoints.clone(), bundle: None };
        let closed = |error: aws::cloud::DoorError| denied(format!("{}: {}", name(scope), error.message));
        Ok(self.shelves.shelf(&door).map_err(closed))
    }

    async fn source(
        &self,
        identity: Option<&(String, String)>,
        namespace: &str,
    ) -> Result<Result<Source, Obstacle>, Error> {
        let space = at(&self.world.spaces, &ObjectKey::cluster_scoped(namespace));
        let labels = space.map(|space| space.labels.clone()).unwrap_or_default();
        let mut roles = Vec::new();
        let mut next = identity.cloned();
        let mut source = loop {
            let Some((kind, name)) = next.clone() else { break self.ambient() };
            let key = ObjectKey::cluster_scoped(name.as_str());
            let missing = || denied(format!("{kind} {name} is not there"));
            let closed = || denied(format!("{kind} {name} does not allow the namespace {namespace}"));
            match kind.as_str() {
                "AWSClusterControllerIdentity" => {
                    let Some(found) = at(&self.world.controllers, &key) else { return Ok(Err(missing())) };
                    if !allows(found.spec.allowed_namespaces.as_ref(), namespace, &labels) {
                        return Ok(Err(closed()));
                    }
                    break self.ambient();
                }
                "AWSClusterStaticIdentity" => {
                    let Some(found) = at(&self.world.statics, &key) else { return Ok(Err(missing())) };
                    if !allows(found.spec.allowed_namespaces.as_ref(), namespace, &labels) {
                        return Ok(Err(closed()));
                    }
                    let secret = found.spec.secret_ref.clone().unwrap_or_default();
                    break self.keys(&name, &secret).await?;
                }
                "AWSClusterRoleIdentity" => {
                    let Some(found) = at(&self.world.roles, &key) else { return Ok(Err(missing())) };
                    if !allows(found.spec.allowed_namespaces.as_ref(), namespace, &labels) {
                        return Ok(Err(closed()));
                    }
                    if roles.len() >= CHAIN {
                        return Ok(Err(denied(format!("more than {CHAIN} roles are taken on one after the other"))));
                    }
                    next = found.spec.source_identity_ref.clone().map(|source| (source.kind, source.name));
                    roles.push((name, found));
                }
                _ => return Ok(Err(denied(format!("identities of kind {kind} are unknown")))),
            }
        };
        for (name, role) in roles.into_iter().rev() {
            let Ok(from) = source else { return Ok(source) };
            let spec = &role.spec;
            let arn = match spec.role_arn.as_deref().unwrap_or_default().parse() {
                Ok(arn) => arn,
                Err(error) => return Ok(Err(denied(format!("AWSClusterRoleIdentity {name}: {error}")))),
            };
            source = Ok(Source::Role(Box::new(Role {
                role: arn,
                session_name: spec.session_name.clone(),
                duration_seconds: spec
                    .duration_seconds
                    .and_then(|seconds| u32::try_from(seconds).ok())
                    .filter(|s| *s > 0),
                external_id: spec.external_id.clone(),
                inline_policy: spec.inline_policy.clone(),
                policy_arns: spec.policy_arns.clone(),
                from,
            })));
        }
        Ok(source)
    }

    fn ambient(&self) -> Result<Source, Obstacle> {
        match &self.config.ambient {
            Ok(ambient) => Ok(ambient.source().clone()),
            Err(why) => Err(denied(format!("no AWS credentials: {why}"))),
        }
    }

    async fn keys(&self, identity: &str, secret: &str) -> Result<Result<Source, Obstacle>, Error> {
        let namespace = &self.config.controller_namespace;
        let now = self.clock.instant();
        if let Some((at, source)) = self.kept_keys().get(secret)
            && now.saturating_duration_since(*at) < KEYS
        {
            return Ok(Ok(source.clone()));
        }
        let api: Api<Secret> = Api::namespaced(self.writer.client().clone(), namespace);
        let found = api.get_opt(secret).await.map_err(read(|| format!("Secret {namespace}/{secret}")))?;
        let Some(found) = found else {
            let message = format!("AWSClusterStaticIdentity {identity}: Secret {namespace}/{secret} is not there");
            return Ok(Err(denied(message)));
        };
        let data = found.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
        let bad = |error| denied(format!("AWSClusterStaticIdentity {identity}: {}", chain(&error)));
        let source = from_static_identity(&data).map_err(bad);
        if let Ok(source) = &source {
            let mut kept = self.kept_keys();
            kept.retain(|_, (at, _)| now.saturating_duration_since(*at) < KEYS);
            kept.insert(secret.to_owned(), (now, source.clone()));
        }
        Ok(source)
    }

    fn kept_keys(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Source)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use api::views::NamespaceTerm;

    use super::*;

    #[test]
    fn an_identity_is_for_those_it_allows() {
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        let term = |key: &str, operator: &str, values: &[&str]| NamespaceTerm {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let of = |list: Option<&[&str]>, terms: Option<Vec<NamespaceTerm>>| AllowedNamespaces {
            list: list.map(|list| list.iter().map(|name| (*name).to_owned()).collect()),
            terms,
            unreadable: false,
        };
        let may = |allowed: &AllowedNamespaces| allows(Some(allowed), "n", &labels);
        assert!(!allows(None, "n", &labels), "nobody unless it says so");
        assert!(may(&of(None, None)), "everybody if it says nothing more");
        assert!(may(&of(Some(&["n"]), None)) && !may(&of(Some(&["m"]), None)) && !may(&of(Some(&[]), None)));
        assert!(may(&of(None, Some(vec![term("team", "In", &["a", "b"]), term("x", "DoesNotExist", &[])]))));
        assert!(!may(&of(None, Some(vec![term("team", "In", &["a"]), term("team", "NotIn", &["a"])]))));
        assert!(!may(&of(None, Some(vec![term("team", "Near", &["a"])]))), "what is unknown allows nobody");
        assert!(may(&of(Some(&["m"]), Some(vec![term("team", "Exists", &[])]))), "either is enough");
        assert!(!may(&AllowedNamespaces { unreadable: true, ..of(None, None) }));
    }
}
