//! Stopped at every effect, started on old news, robbed of every event, disturbed by early users: the room always ends in
//! the same world, and at no moment is there a claim that nobody would give back.

use std::sync::Arc;
use std::time::Duration;

use kit::clock::Clock;
use machines::config::Config;
use serde_json::{Map, Value, json};
use sim::server::{self, Server};
use sim::sweep::{self, Scenario, SweepReport, World};

use crate::site::*;

type Act = fn(&Server);

struct Story {
    name: &'static str,
    spec: fn() -> Value,
    acts: &'static [Act],
}

fn facts(object: &Value, keys: &[&str]) -> Value {
    let all: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), object[*key].clone())).collect();
    Value::Object(all)
}

fn picture(server: &Server, site: &Site) -> Value {
    let mut out = Map::new();
    for machine in server.list(MACHINES, NS) {
        let conditions: Map<String, Value> = machine["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| (c["type"].as_str().unwrap().to_owned(), json!([c["status"], c["reason"]])))
            .collect();
        let status = facts(
            &machine["status"],
            &["initialization", "hostClaim", "failureDomain", "addresses", "userData", "renderedData"],
        );
        let meta = facts(&machine["metadata"], &["finalizers", "annotations"]);
        let name = format!("machine {}", machine["metadata"]["name"]);
        out.insert(
            name,
            json!({"conditions": conditions, "status": status, "meta": meta, "id": machine["spec"]["providerID"]}),
        );
    }
    for kind in [CLAIMS, DATA_CLAIMS] {
        let all: Vec<Value> = server.list(kind, NS).iter().map(|claim| claim["spec"].clone()).collect();
        out.insert(kind.to_owned(), Value::Array(all));
    }
    let nodes: Vec<Value> = site
        .inside
        .list(NODES, "")
        .iter()
        .map(|node| json!([node["metadata"]["name"], node["spec"], node["metadata"]["labels"]]))
        .collect();
    out.insert("nodes".to_owned(), Value::Array(nodes));
    let places: Vec<Value> = server
        .list(PLACES, NS)
        .iter()
        .map(|place| json!([place["metadata"]["finalizers"], place["status"]["initialization"]]))
        .collect();
    out.insert("places".to_owned(), Value::Array(places));
    Value::Object(out)
}

/// What must hold at every moment.
fn sound(server: &Server) -> Result<(), String> {
    for kind in [CLAIMS, DATA_CLAIMS] {
        for claim in server.list(kind, NS) {
            let name = claim["metadata"]["name"].as_str().unwrap_or_default();
            let owner = server.get(MACHINES, NS, name).unwrap_or_default();
            let ours = claim["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"];
            if !ours || owner["metadata"]["finalizers"].is_null() {
                return Err(format!("{kind} {name} has no machine that holds it"));
            }
        }
    }
    for claim in server.list(CLAIMS, NS) {
        let going = claim["metadata"]["deletionTimestamp"].is_string();
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        let wish = server.get(DATA_CLAIMS, NS, name).unwrap_or_default();
        if wish["metadata"]["deletionTimestamp"].is_string() && !going {
            return Err("the data goes before the host".to_owned());
        }
    }
    Ok(())
}

impl Scenario for Story {
    type Outside = Site;

    fn name(&self) -> &str {
        self.name
    }

    fn outside(&self, gate: &server::Gate, clock: &server::Clock) -> Site {
        Site::new(clock, Some(gate.clone()))
    }

    async fn prepare(&self, world: &World<Site>) {
        define_plainly(&world.server);
        prepare(&world.server);
        let prefixes =
            json!({"metadata": {"annotations": {"metal3.io/metal3-label-sync-prefixes": "rack.example.org"}}});
        change(&world.server, CLUSTERS, "c", &prefixes);
        machine(&world.server, "m1", &(self.spec)());
    }

    async fn process(&self, world: Arc<World<Site>>, client: kube::Client) {
        let clock = Clock::simulated((world.clock)(), 1);
        world.outside.run(&world.server, client, clock, Config::default()).await;
    }

    async fn act(&self, world: &World<Site>, step: usize) -> bool {
        let Some(act) = self.acts.get(step) else { return false };
        act(&world.server);
        true
    }

    fn picture(&self, world: &World<Site>) -> Value {
        picture(&world.server, &world.outside)
    }

    fn invariant(&self, world: &World<Site>) -> Result<(), String> {
        sound(&world.server)
    }

    fn ignored(&self) -> Vec<String> {
        // Events are told once and may be lost with the process; nothing depends on them.
        vec!["events.events.k8s.io".to_owned(), "leases.coordination.k8s.io".to_owned()]
    }

    /// Longer than the pause after which a Node is looked for again.
    fn settle(&self) -> Duration {
        Duration::from_secs(40)
    }
}

const LIFE: Story = Story {
    name: "life of a machine",
    spec: || json!({"dataTemplate": {"name": "plain"}}),
    acts: &[|server| {
        server.delete(MACHINES, NS, "m1");
    }],
};

const LEAVES: Story = Story { name: "a machine that goes", spec: || json!({}), ..LIFE };

const STAYS: Story =
    Story { name: "a machine that stays", spec: || json!({"dataTemplate": {"name": "plain"}}), acts: &[] };

fn passed(report: &SweepReport) {
    println!("{report}");
    report.assert_passed();
    assert!(report.effects.len() >= 8, "too little happened: {:?}", report.effects);
}

#[test]
fn a_machine_survives_a_stop_at_every_effect() {
    passed(&sweep::crash_sweep(&LIFE));
}

#[test]
fn a_machine_survives_old_news_at_every_effect() {
    passed(&sweep::stale_sweep(&LEAVES));
}

#[test]
fn a_machine_survives_the_loss_of_any_event() {
    passed(&sweep::missed_event_sweep(&STAYS));
}

#[test]
fn a_machine_that_is_deleted_at_any_moment_leaves_nothing_behind() {
    passed(&sweep::early_act_sweep(&LIFE));
}

#[test]
fn a_machine_survives_random_schedules() {
    passed(&sweep::seeds(&STAYS, 0..8));
}
