//! A claim on a dedicated host, disturbed at every point: the world ends the same, and at no moment is a host paid for that
//! no journal names.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use claim_kind::contract::TENANT;
use hosts::decide::CONSISTENT;
use kit::clock::Clock;
use serde_json::{Value, json};
use sim::server::{self, Server};
use sim::sweep::{self, Scenario, World};

use crate::dedicated::{CLAIMS, Platform, install, spec};
use crate::site::{EVENTS, note};

/// Everything there is before a claim.
pub fn prepare(server: &Server) {
    server.register(server::Kind::namespaced("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"));
    // Made once: a sweep begins anew at every point.
    static DEFINITIONS: LazyLock<Vec<Value>> =
        LazyLock::new(|| api::own::crds().iter().map(|definition| json!(definition)).collect());
    for definition in DEFINITIONS.iter() {
        server.put(definition.clone()).unwrap();
    }
    server.namespace(TENANT);
    install(server);
}

pub fn claim(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["kind"] = json!("aws-dedicated-host");
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
        "metadata": {"namespace": TENANT, "name": name}, "spec": spec,
    })
}

/// Each host that is paid for is named by the journal of a claim, or was left to its owner.
pub fn no_leak(server: &Server, platform: &Platform) -> Result<(), String> {
    let journals: Vec<Value> =
        server.list(CLAIMS, TENANT).iter().filter_map(|claim| note(claim, "allocation")).collect();
    for host in platform.site.paid() {
        let named = journals.iter().any(|journal| {
            let listed = journal["hosts"].as_array().is_some_and(|all| all.iter().any(|id| *id == host.id));
            let asked = journal["phase"] == "Intended" && journal["token"].as_str() == host.client_token.as_deref();
            (listed && journal["phase"] != "Released") || asked
        });
        if !named && !host.tags.contains_key("hosts.berth.dev/retained") {
            return Err(format!("host {} is paid for and no journal names it: {journals:?}", host.id));
        }
    }
    Ok(())
}

/// No host is paid for in vain, and no claim has two machines.
pub fn check(server: &Server, platform: &Platform) -> Result<(), String> {
    no_leak(server, platform)?;
    let all = platform.resources();
    match all.iter().find(|one| all.iter().filter(|other| other.claim == one.claim).count() > 1) {
        Some(one) => Err(format!("the claim {} has more than one machine: {all:?}", one.claim)),
        None => Ok(()),
    }
}

/// A claim is made, rebooted where that is asked for, and deleted.
struct Life {
    reboots: bool,
}

/// Without an effect for this long nothing is under way. The longest that is waited for in silence is what may still
/// surface in EC2, and that is looked at every half minute.
const SETTLED: Duration = CONSISTENT.saturating_add(Duration::from_secs(60));

impl Scenario for Life {
    type Outside = Platform;

    fn name(&self) -> &str {
        "life of a claim"
    }

    fn outside(&self, gate: &server::Gate, clock: &server::Clock) -> Platform {
        Platform::new(clock, Some(gate.clone()))
    }

    async fn prepare(&self, world: &World<Platform>) {
        prepare(&world.server);
        world.server.put(claim("c", spec())).unwrap();
    }

    async fn process(&self, world: Arc<World<Platform>>, client: kube::Client) {
        let clock = Clock::simulated((world.clock)(), 1);
        world.outside.run(client, clock, world.outside.site.config()).await;
    }

    async fn act(&self, world: &World<Platform>, step: usize) -> bool {
        match step + usize::from(!self.reboots) {
            0 => drop(world.server.edit(CLAIMS, TENANT, "c", |claim| {
                claim["metadata"]["annotations"]["reboot.metal3.io"] = json!("");
            })),
            1 => drop(world.server.delete(CLAIMS, TENANT, "c")),
            _ => return false,
        }
        true
    }

    fn invariant(&self, world: &World<Platform>) -> Result<(), String> {
        check(&world.server, &world.outside)
    }

    fn ignored(&self) -> Vec<String> {
        [EVENTS, "leases.coordination.k8s.io", "hostclaimkinds.berth.dev"].map(Into::into).into()
    }

    fn picture(&self, world: &World<Platform>) -> Value {
        let claims: Vec<Value> = world
            .server
            .list(CLAIMS, TENANT)
            .iter()
            .map(|claim| json!([claim["metadata"]["name"], claim["status"]["ready"], claim["metadata"]["finalizers"]]))
            .collect();
        json!({"claims": claims, "paid": world.outside.site.paid().len(), "alive": world.outside.site.alive().len()})
    }

    fn settle(&self) -> Duration {
        SETTLED
    }
}

#[test]
fn robbed_of_any_event_no_host_is_lost() {
    sweep::missed_event_sweep(&Life { reboots: true }).assert_passed();
}

#[test]
fn deleted_after_any_effect_no_host_is_lost() {
    sweep::early_act_sweep(&Life { reboots: false }).assert_passed();
}

#[test]
fn rebooted_after_any_effect_no_host_is_lost() {
    sweep::early_act_sweep(&Life { reboots: true }).assert_passed();
}
