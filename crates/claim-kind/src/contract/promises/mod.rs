//! The promises, each with its test.

mod being;
mod bounds;
mod wishes;

use sim::server::Server;

use crate::contract::script::{CLAIMS, Check, claim, expect, get, owned, put, sole, verify};
use crate::contract::{Broken, Kept, Kind, Place, Resource, TENANT};
use being::{finalizer_first, found_again, honest_status, one_machine, own_claims_only};
use bounds::{discretion, failure_domain, own_credentials, patience, pause, quota};
use wishes::{as_asked, power, proven_gone, reboot};

/// One promise of every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Its number.
    pub number: &'static str,
    /// What is promised.
    pub words: &'static str,
}

const fn promise(number: &'static str, words: &'static str) -> Promise {
    Promise { number, words }
}

/// All of them.
pub const PROMISES: [Promise; 15] = [
    promise("K1", "a controller acts on claims of its kind only, never writes a spec and removes no other finalizer"),
    promise("K2", "the finalizer is stored before the first effect outside, and removed when none is left"),
    promise("K3", "a claim has at most one machine, across crashes and old news"),
    promise("K4", "the status names the machine, and without a status the machine is found again"),
    promise("K5", "conditions and status say what is, and change only when that does"),
    promise("K6", "what was asked for runs, with its data, or nothing does"),
    promise("K7", "power follows the claim, or the claim says that it cannot"),
    promise("K8", "a reboot happens once, or an event says that it cannot"),
    promise("K9", "a claim goes when its machine is proven gone, and not before"),
    promise("K10", "credentials come from the claim's own namespace"),
    promise("K11", "a required failure domain is kept, or the claim waits"),
    promise("K12", "quotas hold before anything is made, and count machines of every kind"),
    promise("K13", "nothing is asked again and again without a pause"),
    promise("K14", "nothing is changed while the claim or its cluster is paused"),
    promise("K15", "a tenant reads no endpoint, credential or other tenant's name"),
];

impl Promise {
    /// Tests it.
    ///
    /// # Errors
    /// What was seen instead.
    pub fn test<K: Kind>(&self, kind: &K) -> Result<Kept, Broken> {
        let mut skipped = Vec::new();
        let found = match self.number {
            "K1" => own_claims_only(kind),
            "K2" => finalizer_first(kind),
            "K3" => one_machine(kind),
            "K4" => found_again(kind),
            "K5" => honest_status(kind),
            "K6" => as_asked(kind, &mut skipped),
            "K7" => power(kind, &mut skipped),
            "K8" => reboot(kind, &mut skipped),
            "K9" => proven_gone(kind),
            "K10" => own_credentials(kind, &mut skipped),
            "K11" => failure_domain(kind, &mut skipped),
            "K12" => quota(kind),
            "K13" => patience(kind),
            "K14" => pause(kind),
            _ => discretion(kind),
        };
        let kind = kind.profile().name;
        found.map_err(|why| Broken { promise: self.number, words: self.words, kind, why })?;
        Ok(if skipped.is_empty() { Kept::Whole } else { Kept::Except(skipped) })
    }
}

const ONE: &str = "one";
const TWO: &str = "two";
const HOLD: &str = "example.org/hold";

fn make<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Check {
    put(&place.server, claim(kind, name, |_| {}))
}

fn delete(server: &Server, name: &str) -> Check {
    verify(server.delete(CLAIMS, TENANT, name), || format!("the claim {name} was not there to be deleted"))
}

fn ready<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Result<Resource, String> {
    expect(&get(&place.server, name)?, "Ready", "True", "")?;
    let one = sole(kind, place, name)?;
    verify(one.running, || format!("the claim {name} is Ready and {one:?} does not run"))?;
    Ok(one)
}

fn gone(server: &Server, name: &str) -> Check {
    match server.get(CLAIMS, TENANT, name) {
        None => Ok(()),
        Some(claim) => Err(format!("the deleted claim {name} is still there: {claim}")),
    }
}

fn nothing<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Check {
    let all = owned(kind, place, name)?;
    verify(all.is_empty(), || format!("the claim {name} must not have {all:?}"))
}

fn idle<K: Kind>(kind: &K, place: &Place<K>, name: &str) -> Check {
    let all: Vec<Resource> = owned(kind, place, name)?.into_iter().filter(|one| one.running).collect();
    verify(all.is_empty(), || format!("for the claim {name} nothing may run, but {all:?}"))
}
