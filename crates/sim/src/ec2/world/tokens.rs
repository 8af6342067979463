//! Client tokens: the same request twice has one effect, another request under the same token none.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::super::wire::refusal::Refusal;
use super::time::later;

/// What a token is unique within: the operation and, for zonal operations, the zone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The operation.
    pub action: String,
    /// The zone; empty when the request names none.
    pub zone: String,
    /// The token.
    pub token: String,
}

#[derive(Clone, Debug)]
struct Used {
    parameters: BTreeMap<String, String>,
    ids: Vec<String>,
    forgotten: Timestamp,
}

/// The tokens one account used in one region.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    used: BTreeMap<Scope, Used>,
}

/// A token must be at most 64 printable ASCII characters.
pub fn check(token: &str) -> Result<(), Refusal> {
    if !token.is_empty() && token.len() <= 64 && token.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return Ok(());
    }
    Err(Refusal::bad("InvalidClientToken", "The specified client token is not valid: up to 64 ASCII characters"))
}

/// The parameters that count when requests are compared.
#[must_use]
pub fn compared(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let aside = ["Action", "Version", "ClientToken", "DryRun"];
    all.iter().filter(|(name, _)| !aside.contains(&name.as_str())).map(|(n, v)| (n.clone(), v.clone())).collect()
}

impl Tokens {
    /// The ids an equal request was given before; an unequal one is refused.
    pub fn earlier(
        &self,
        scope: &Scope,
        parameters: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<Option<Vec<String>>, Refusal> {
        match self.used.get(scope).filter(|used| now < used.forgotten) {
            None => Ok(None),
            Some(used) if used.parameters == *parameters => Ok(Some(used.ids.clone())),
            Some(_) => Err(Refusal::bad(
                "IdempotentParameterMismatch",
                "The request uses the same client token as a previous, but non-identical request.",
            )),
        }
    }

    /// Remembers what a request was given.
    pub fn remember(&mut self, scope: Scope, parameters: BTreeMap<String, String>, ids: Vec<String>, until: Timestamp) {
        self.used.insert(scope, Used { parameters, ids, forgotten: until });
    }

    /// Keeps the tokens of an instance for a while past its end.
    pub fn prolong(&mut self, id: &str, end: Timestamp, memory: Duration) {
        for used in self.used.values_mut().filter(|used| used.ids.iter().any(|known| known == id)) {
            used.forgotten = used.forgotten.max(later(end, memory));
        }
    }
}
