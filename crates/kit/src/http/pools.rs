//! One pool of connections per place and trust, shared by all clients of a process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{HttpClient, HttpError};

/// Pools that are kept; far more places than one process ever calls.
const POOLS: usize = 256;

/// All pools of a process, by what makes two of them different.
pub struct Pools<K>(Mutex<BTreeMap<K, HttpClient>>);

impl<K> Default for Pools<K> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<K: Ord> Pools<K> {
    /// The pool of a place, made if there is none.
    ///
    /// # Errors
    /// As `make` says.
    pub fn get(&self, key: K, make: impl FnOnce() -> Result<HttpClient, HttpError>) -> Result<HttpClient, HttpError> {
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
