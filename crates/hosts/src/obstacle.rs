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
    /// The zone it must be in.
    Zone,
    /// Its user data, which cannot be read.
    Data,
    /// Its user data, of which there are too many.
    Size,
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
    /// Whether the sentence quotes EC2, or names what is the operators' business: no tenant reads it.
    pub private: bool,
}

impl Obstacle {
    /// Something that cannot work as it is.
    #[must_use]
    pub fn terminal(about: About, message: impl Into<String>) -> Self {
        Self { about, class: Class::Terminal, message: message.into(), fatal: false, private: false }
    }

    /// Something that others must provide first.
    #[must_use]
    pub fn dependency(about: About, message: impl Into<String>) -> Self {
        Self { about, class: Class::Dependency, message: message.into(), fatal: false, private: false }
    }

    /// Something that EC2 or an operator says no to.
    #[must_use]
    pub fn private(about: About, class: Class, message: impl Into<String>) -> Self {
        Self { about, class, message: message.into(), fatal: false, private: true }
    }
}
