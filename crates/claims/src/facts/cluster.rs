//! Clusters, as far as their claims depend on them.

use api::key::ObjectKey;
use api::views::Cluster;
use kit::feed::Project;

/// Clusters.
pub struct Clusters;

/// A Cluster, as decisions about its claims use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Its name.
    pub name: Box<str>,
    /// The server's unique id of the object.
    pub uid: Box<str>,
    /// Whether everything of it must be left alone.
    pub paused: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Project for Clusters {
    type Source = Cluster;
    type Slim = ClusterFacts;

    fn slim(source: Cluster) -> ClusterFacts {
        ClusterFacts {
            paused: source.is_paused(),
            name: ObjectKey::of(&source).name().into(),
            uid: source.metadata.uid.unwrap_or_default().into(),
            deleting: source.metadata.deletion_timestamp.is_some(),
        }
    }
}
