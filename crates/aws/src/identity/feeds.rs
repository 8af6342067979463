//! Identities and the labels of namespaces, as the API server has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use api::views::{
    AWSClusterControllerIdentity, AWSClusterRoleIdentity, AWSClusterStaticIdentity, AwsIdentityRef,
    ControllerIdentitySpec, Namespace, RoleIdentitySpec, StaticIdentitySpec,
};
use kit::clock::Clock;
use kit::feed::{Feed, Project, Seen};
use kit::kinds::Kind;
use kit::manager::{self, Manager};

use super::{Chain, Identities, Identity, IdentityError, IdentityKind, IdentityName, Space, resolve};

/// Every identity of the cluster we run in, kept by its kind.
#[derive(Clone)]
pub struct IdentityFeeds {
    controllers: Feed<Controllers>,
    statics: Feed<Statics>,
    roles: Feed<Roles>,
    spaces: Feed<Spaces>,
}

/// What there is, for a look without following.
#[derive(Clone, Debug, Default)]
pub struct IdentityLists {
    /// Controller identities.
    pub controllers: Vec<AWSClusterControllerIdentity>,
    /// Static identities.
    pub statics: Vec<AWSClusterStaticIdentity>,
    /// Role identities.
    pub roles: Vec<AWSClusterRoleIdentity>,
    /// Namespaces.
    pub spaces: Vec<Namespace>,
}

macro_rules! projections {
    ($($(#[$doc:meta])* $feed:ident of $source:ident, $slim:ty, $read:expr;)+) => {$(
        $(#[$doc])*
        struct $feed;

        impl Project for $feed {
            type Source = $source;
            type Slim = $slim;

            fn slim(source: $source) -> $slim {
                let read: fn($source) -> $slim = $read;
                read(source)
            }
        }
    )+};
}

projections! {
    /// The controller's own credentials.
    Controllers of AWSClusterControllerIdentity, ControllerIdentitySpec, |source| source.spec;
    /// Access keys in Secrets.
    Statics of AWSClusterStaticIdentity, StaticIdentitySpec, |source| source.spec;
    /// Roles.
    Roles of AWSClusterRoleIdentity, RoleIdentitySpec, |source| source.spec;
    /// Labels of namespaces.
    Spaces of Namespace, BTreeMap<String, String>, |source| source.metadata.labels.unwrap_or_default();
}

impl IdentityFeeds {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When a kind cannot be followed.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self {
            controllers: manager.feed()?,
            statics: manager.feed()?,
            roles: manager.feed()?,
            spaces: manager.feed()?,
        })
    }

    /// What was read once and is not followed.
    #[must_use]
    pub fn of(lists: IdentityLists, clock: &Clock) -> Self {
        fn feed<P: Project>(clock: &Clock, objects: Vec<P::Source>) -> Feed<P> {
            Feed::of(clock.clone(), Kind::of::<P::Source>(), objects)
        }
        Self {
            controllers: feed(clock, lists.controllers),
            statics: feed(clock, lists.statics),
            roles: feed(clock, lists.roles),
            spaces: feed(clock, lists.spaces),
        }
    }

    /// The Secrets that static identities name, in no order.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        self.statics.all().into_iter().filter_map(|(_, spec)| spec.secret_ref.clone()).collect()
    }

    /// Waits until every index is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.controllers.settled().await;
        self.statics.settled().await;
        self.roles.settled().await;
        self.spaces.settled().await;
    }

    /// Tells when an identity, or the labels of a namespace that was there, changed: anybody may be served by it.
    pub fn observe(&self, changed: impl Fn() + Clone + Send + Sync + 'static) {
        fn each<P: Project>(feed: &Feed<P>, changed: impl Fn() + Send + Sync + 'static) {
            feed.observe(move |_| changed());
        }
        each(&self.controllers, changed.clone());
        each(&self.statics, changed.clone());
        each(&self.roles, changed.clone());
        self.spaces.observe(move |delta| {
            if let (Some(old), Some(new)) = (&delta.old, &delta.new)
                && old != new
            {
                changed();
            }
        });
    }

    /// Follows the identity of a cluster in a namespace.
    ///
    /// # Errors
    /// When an identity on the way is not there, does not allow the namespace, or cannot be used.
    pub fn resolve(&self, reference: Option<&AwsIdentityRef>, namespace: &str) -> Result<Chain, IdentityError> {
        let labels = at(&self.spaces, namespace).unwrap_or_default();
        resolve(reference, Space { name: namespace, labels: &labels }, self)
    }
}

impl Identities for IdentityFeeds {
    fn find(&self, name: &IdentityName) -> Option<Identity> {
        let IdentityName { kind, name } = name;
        match kind {
            IdentityKind::Controller => at(&self.controllers, name).map(|spec| Identity::Controller((*spec).clone())),
            IdentityKind::Static => at(&self.statics, name).map(|spec| Identity::Static((*spec).clone())),
            IdentityKind::Role => at(&self.roles, name).map(|spec| Identity::Role((*spec).clone())),
        }
    }
}

fn at<P: Project>(feed: &Feed<P>, name: &str) -> Option<Arc<P::Slim>> {
    match feed.get(&ObjectKey::cluster_scoped(name)) {
        Seen::At(slim) => Some(slim),
        Seen::Absent | Seen::Behind => None,
    }
}
