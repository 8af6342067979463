//! One life of a claim, disturbed everywhere, with the oracle that knows which machines are left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use claim_kind::contract::TENANT;
use kit::clock::Clock;
use serde_json::{Value, json};
use sim::server::{self, Gate, Kind};
use sim::sweep::{self, Scenario, World};

use crate::site::{CLAIMS, IDENTITY, Site, claim};

/// A claim gets its machine, is switched off and, where asked for, deleted.
struct Life {
    ends: bool,
}

impl Scenario for Life {
    type Outside = Site;

    fn name(&self) -> &str {
        if self.ends { "life of a claim" } else { "a claim that stays" }
    }

    fn outside(&self, gate: &Gate, clock: &server::Clock) -> Site {
        Site::new(clock, Some(gate.clone()))
    }

    async fn prepare(&self, world: &World<Site>) {
        // Hundreds of worlds: the kinds without what is checked of them.
        world.server.register(Kind::namespaced("metal3.io", "v1alpha1", "HostClaim", "hostclaims"));
        world.server.register(Kind::cluster("berth.dev", "v1alpha1", "HostClaimKind", "hostclaimkinds"));
        world.server.register(Kind::cluster("berth.dev", "v1alpha1", "HostClaimQuota", "hostclaimquotas"));
        world.server.namespace(TENANT);
        world.server.put(world.outside.secret(TENANT, IDENTITY)).unwrap();
        world.server.put(claim("one")).unwrap();
    }

    async fn process(&self, world: Arc<World<Site>>, client: kube::Client) {
        world.outside.run(client, Clock::simulated((world.clock)(), 1)).await;
    }

    async fn act(&self, world: &World<Site>, step: usize) -> bool {
        match step {
            0 => drop(world.server.edit(CLAIMS, TENANT, "one", |claim| claim["spec"]["poweredOn"] = json!(false))),
            1 if self.ends => drop(world.server.delete(CLAIMS, TENANT, "one")),
            _ => return false,
        }
        true
    }

    fn picture(&self, world: &World<Site>) -> Value {
        let claims: Vec<Value> = world.server.list(CLAIMS, TENANT);
        let stand = |claim: &Value| {
            let conditions = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let told: Vec<Value> =
                conditions.iter().map(|one| json!([one["type"], one["status"], one["reason"]])).collect();
            json!([claim["metadata"]["finalizers"], claim["status"]["poweredOn"], told])
        };
        // Who is left without an owner at the end is a leak.
        let owners: BTreeSet<String> =
            claims.iter().filter_map(|claim| claim["metadata"]["uid"].as_str().map(str::to_owned)).collect();
        let leaks = world.outside.acs.leaks("claim-uid", &owners).len();
        let machines: Vec<String> = world.outside.machines().iter().map(|(_, _, state)| format!("{state:?}")).collect();
        json!({"claims": claims.iter().map(stand).collect::<Vec<_>>(), "machines": machines, "leaks": leaks})
    }

    /// No claim has two machines, and no machine is without its claim.
    fn invariant(&self, world: &World<Site>) -> Result<(), String> {
        let machines = world.outside.machines();
        let claims = world.server.list(CLAIMS, TENANT);
        for (id, uid, state) in &machines {
            let held = claims
                .iter()
                .any(|claim| claim["metadata"]["uid"] == **uid && !claim["metadata"]["finalizers"].is_null());
            if !held {
                return Err(format!("the machine {id} is {state:?} and no claim holds it"));
            }
        }
        if machines.len() > 1 { Err(format!("one claim has {machines:?}")) } else { Ok(()) }
    }

    fn ignored(&self) -> Vec<String> {
        ["leases.coordination.k8s.io", "events.events.k8s.io", "hostclaimkinds.berth.dev"].map(Into::into).into()
    }

    fn settle(&self) -> Duration {
        Duration::from_secs(660)
    }
}

#[test]
fn a_claim_leaks_nothing_whenever_its_controller_is_stopped() {
    let report = sweep::crash_sweep(&Life { ends: true });
    println!("{report}");
    report.assert_passed();
}

#[test]
fn a_claim_leaks_nothing_on_old_news() {
    let report = sweep::stale_sweep(&Life { ends: true });
    println!("{report}");
    report.assert_passed();
}

#[test]
fn a_claim_survives_the_loss_of_any_event() {
    let report = sweep::missed_event_sweep(&Life { ends: false });
    println!("{report}");
    report.assert_passed();
}
