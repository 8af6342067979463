//! Claims on a host that is there already, disturbed at every point: the world ends the same, and at no moment is a host paid
//! for that no journal names and nobody wished to keep.

use std::sync::Arc;
use std::time::Duration;

use aws::port::{AllocateHosts, Ec2, HostShape, Tags};
use claim_kind::contract::TENANT;
use hosts::decide::CONSISTENT;
use hosts::journal::{Allocation, AllocationId, Phase, Terms};
use hosts::tags::{self, Belonging};
use kit::clock::Clock;
use serde_json::{Value, json};
use sim::ec2::world::host::HostState;
use sim::server;
use sim::sweep::{self, Scenario, World};

use crate::dedicated::{CLAIMS, Platform};
use crate::selecting::selecting;
use crate::site::{EVENTS, REGION, Site, ZONE};
use crate::sweeps::{check, claim, prepare};

/// What is there before the process begins, and who leaves in which order.
struct Shared {
    name: &'static str,
    /// Whether the host is that of the claim `a`; otherwise an earlier claim has left it behind.
    had: bool,
    /// The claims there are, in the order in which they are deleted.
    leaving: &'static [&'static str],
}

/// A host with room for many, with the tags of a claim, or with those that it is left behind with.
async fn host(world: &World<Platform>, of: &Value, left: bool) -> Allocation {
    let (server, site) = (&world.server, &world.outside.site);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let name = text(&of["metadata"]["name"]);
    let id: AllocationId = text(&of["metadata"]["uid"]).parse().unwrap();
    let management = server.get("namespaces", "", "kube-system").unwrap();
    let belonging = Belonging {
        cluster: None,
        namespace: TENANT.to_owned(),
        machine: format!("HostClaim/{name}"),
        name: name.clone(),
        control_plane: false,
        id: id.clone(),
        management: text(&management["metadata"]["uid"]),
        auto_release: Some(true),
    };
    let gold = Tags::from([("pool".to_owned(), "gold".to_owned())]);
    let mut tags = tags::merged([&gold], &belonging);
    if left {
        let change = tags::retained(None, TENANT, "earlier");
        tags.extend(change.set);
        tags.retain(|key, _| !change.unset.contains(key));
    }
    let shape = HostShape::Type("m5.large".parse().unwrap());
    // What was there before passes no gate.
    let ec2 = Site { ec2: site.ec2.clone(), gate: None }.somebody(server);
    let request = AllocateHosts {
        token: id.host_token(7).unwrap(),
        zone: ZONE.parse().unwrap(),
        shape: shape.clone(),
        quantity: 1,
        recovery: None,
        maintenance: None,
        outpost_arn: None,
        asset_ids: Vec::new(),
        tags: tags.clone(),
    };
    let host = ec2.allocate_hosts(&request).await.unwrap().remove(0);
    assert!(site.ec2.set_host_state(REGION, host.as_str(), HostState::Available));
    let subnet = site.ec2.subnet(REGION, ZONE, true).unwrap().parse().unwrap();
    let terms = Terms { zone: request.zone, subnet, shape, quantity: 1, recovery: None, maintenance: None, tags };
    let now = Clock::simulated((world.clock)(), 2).now();
    Allocation::join(id, None, terms, (Phase::Allocated, host), now).unwrap()
}

impl Scenario for Shared {
    type Outside = Platform;

    fn name(&self) -> &str {
        self.name
    }

    fn outside(&self, gate: &server::Gate, clock: &server::Clock) -> Platform {
        Platform::new(clock, Some(gate.clone()))
    }

    async fn prepare(&self, world: &World<Platform>) {
        prepare(&world.server);
        for name in self.leaving {
            world.server.put(claim(name, selecting(&[]))).unwrap();
        }
        let first = world.server.get(CLAIMS, TENANT, "a").unwrap();
        let journal = host(world, &first, !self.had).await;
        if self.had {
            let stored = world.server.edit(CLAIMS, TENANT, "a", |claim| {
                claim["metadata"]["finalizers"] = json!([hosts::claim::FINALIZER]);
                claim["metadata"]["annotations"] =
                    json!({"hosts.berth.dev/allocation": journal.text(&format!("{TENANT}/a"))});
            });
            stored.unwrap();
        }
    }

    async fn process(&self, world: Arc<World<Platform>>, client: kube::Client) {
        let clock = Clock::simulated((world.clock)(), 1);
        world.outside.run(client, clock, world.outside.site.config()).await;
    }

    async fn act(&self, world: &World<Platform>, step: usize) -> bool {
        let Some(name) = self.leaving.get(step) else { return false };
        world.server.delete(CLAIMS, TENANT, name);
        true
    }

    fn invariant(&self, world: &World<Platform>) -> Result<(), String> {
        check(&world.server, &world.outside)
    }

    fn ignored(&self) -> Vec<String> {
        [EVENTS, "leases.coordination.k8s.io", "hostclaimkinds.berth.dev"].map(Into::into).into()
    }

    fn picture(&self, world: &World<Platform>) -> Value {
        let (left, site) = (world.server.list(CLAIMS, TENANT).len(), &world.outside.site);
        // A claim that goes before it has taken a host that was left behind leaves it as it was.
        let paid = site.paid().into_iter().filter(|host| !host.tags.contains_key("hosts.berth.dev/retained")).count();
        json!({"claims": left, "paid": paid, "alive": site.alive().len()})
    }

    fn settle(&self) -> Duration {
        CONSISTENT.saturating_add(Duration::from_secs(60))
    }
}

const OWNER_FIRST: Shared =
    Shared { name: "two claims on a host, whose owner leaves first", had: true, leaving: &["a", "b"] };
const OWNER_LAST: Shared =
    Shared { name: "two claims on a host, whose owner leaves last", had: true, leaving: &["b", "a"] };
const TAKEN: Shared = Shared { name: "a claim on a host that was left behind", had: false, leaving: &["a"] };

#[test]
fn undisturbed_the_host_is_used_and_given_back() {
    for story in [OWNER_FIRST, OWNER_LAST, TAKEN] {
        let report = sweep::calm(&story);
        report.assert_passed();
        let asked = report.effects.iter().any(|effect| effect.what.contains("AllocateHosts"));
        assert!(!asked && !report.effects.is_empty(), "{report}");
    }
}

#[test]
fn stopped_at_any_effect_a_shared_host_is_handed_over_once() {
    sweep::crash_sweep(&OWNER_FIRST).assert_passed();
}

#[test]
fn stopped_at_any_effect_a_host_that_was_left_behind_is_taken_once() {
    sweep::crash_sweep(&TAKEN).assert_passed();
}

#[test]
fn started_on_old_news_a_shared_host_is_handed_over_once() {
    sweep::stale_sweep(&OWNER_FIRST).assert_passed();
}

#[test]
fn robbed_of_any_event_a_shared_host_is_handed_over_once() {
    sweep::missed_event_sweep(&OWNER_FIRST).assert_passed();
}

#[test]
fn left_after_any_effect_a_shared_host_is_given_back_by_the_last() {
    sweep::early_act_sweep(&OWNER_FIRST).assert_passed();
    sweep::early_act_sweep(&OWNER_LAST).assert_passed();
    sweep::early_act_sweep(&TAKEN).assert_passed();
}
