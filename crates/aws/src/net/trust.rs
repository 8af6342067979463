//! Which certificate authorities are trusted.

use std::sync::Arc;

/// Which certificate authorities are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// Those of the machine.
    #[default]
    System,
    /// Only these, as PEM.
    Only(Arc<[u8]>),
}

impl Trust {
    /// Trust from a CA bundle; a blank one means the machine's own authorities.
    #[must_use]
    pub fn from_bundle(pem: &str) -> Self {
        if pem.trim().is_empty() { Self::System } else { Self::Only(pem.as_bytes().into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_bundle_means_the_machines_own_authorities() {
        assert_eq!(Trust::from_bundle(" \n"), Trust::System);
        assert_ne!(Trust::from_bundle("-----BEGIN"), Trust::System);
    }
}
