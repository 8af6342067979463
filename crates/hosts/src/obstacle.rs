//! What keeps a machine from going on, in words for people and with the class that says what to do.

use crate::classes::Class;

/// What an obstacle is about, and thereby which condition tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The host.
    Host,
    /// The instance.
    Instance,
    /// Its security groups.
    Groups,
}

/// What keeps a machine from going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// What it is about.
    pub about: About,
    /// What it means.
    pub class: Class,
    /// A sentence.
    pub message: String,
    /// Whether only another machine helps, so that owners replace this one.
    pub fatal: bool,
}

impl Obstacle {
    /// Something that cannot work as it is.
    #[must_use]
    pub fn terminal(about: About, message: impl Into<String>) -> Self {
        Self { about, class: Class::Terminal, message: message.into(), fatal: false }
    }

    /// Something that others must provide first.
    #[must_use]
    pub fn dependency(about: About, message: impl Into<String>) -> Self {
        Self { about, class: Class::Dependency, message: message.into(), fatal: false }
    }
}
