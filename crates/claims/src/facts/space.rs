//! Namespaces.

use api::views::Namespace;
use kit::feed::Project;

use super::Texts;

/// Namespaces.
pub struct Spaces;

/// A Namespace, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpaceFacts {
    /// Its labels.
    pub labels: Texts,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Project for Spaces {
    type Source = Namespace;
    type Slim = SpaceFacts;

    fn slim(source: Namespace) -> SpaceFacts {
        SpaceFacts {
            labels: super::texts(source.metadata.labels, |_| true),
            deleting: source.metadata.deletion_timestamp.is_some(),
        }
    }
}
