//! One pool of connections per endpoint and trust, shared by all clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kit::http::{HttpClient, HttpError};

use crate::place::Endpoint;

/// Pools that are kept; far more endpoints than one process ever has.
const POOLS: usize = 256;

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

/// All pools of a process.
#[derive(Default)]
pub(super) struct Pools(Mutex<BTreeMap<(Endpoint, Trust), HttpClient>>);

impl Pools {
    /// The pool of an endpoint, made if there is none.
    pub(super) fn get(
        &self,
        endpoint: &Endpoint,
        trust: &Trust,
        make: impl FnOnce() -> Result<HttpClient, HttpError>,
    ) -> Result<HttpClient, HttpError> {
        let key = (endpoint.clone(), trust.clone());
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(http) = pools.get(&key) {
            return Ok(http.clone());
        }
        let http = make()?;
        // Clients hold on to the pools they use; the others open new connections when they are needed again.
        if pools.len() >= POOLS {
            pools.clear();
        }
        pools.insert(key, http.clone());
        Ok(http)
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
