//! Stopped at every effect, started on old news, robbed of every event and disturbed by early users, the rooms always end in the
//! same world, and no promise breaks on the way.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use machines::remediation::Treat;
use serde_json::{Map, Value, json};
use sim::server::{self, Server};
use sim::sweep::{self, Scenario, SweepReport, World};

use crate::actors::{node, play};
use crate::objects::{
    ADDRESSES, CLAIMS, DATAS, HOSTS, LEASES, MACHINES, METAL_ADDRESSES, METAL_LEASES, NS, REMEDIATIONS, SECRETS,
    TEMPLATES, at, condition, install, machine, member, name, pools, remediation, template,
};
use crate::site::{inside, rooms};

type Act = fn(&Server, &Server);

/// A story: what there is, what users do, one thing after the other.
struct Story {
    name: &'static str,
    treat: Treat,
    before: Act,
    acts: &'static [Act],
}

impl Scenario for Story {
    type Outside = OnceLock<Server>;

    fn name(&self) -> &str {
        self.name
    }

    fn outside(&self, _: &server::Gate, clock: &server::Clock) -> OnceLock<Server> {
        let lock = OnceLock::new();
        lock.get_or_init(|| inside(clock.clone()));
        lock
    }

    async fn prepare(&self, world: &World<OnceLock<Server>>) {
        let inside = world.outside.get().unwrap();
        install(&world.server);
        (self.before)(&world.server, inside);
        tokio::spawn(play(world.server.clone(), Some(inside.clone())));
    }

    async fn process(&self, world: Arc<World<OnceLock<Server>>>, client: kube::Client) {
        let inside = world.outside.get().unwrap().clone();
        rooms(client, (world.clock)(), inside, Some(world.gate().clone()), self.treat).await;
    }

    async fn act(&self, world: &World<OnceLock<Server>>, step: usize) -> bool {
        let Some(act) = self.acts.get(step) else { return false };
        act(&world.server, world.outside.get().unwrap());
        true
    }

    fn picture(&self, world: &World<OnceLock<Server>>) -> Value {
        picture(&world.server, world.outside.get().unwrap())
    }

    fn invariant(&self, world: &World<OnceLock<Server>>) -> Result<(), String> {
        invariant(&world.server, world.outside.get().unwrap())
    }

    fn ignored(&self) -> Vec<String> {
        // Events are told once and may be lost with the process; nothing depends on them.
        vec!["events.events.k8s.io".to_owned(), "leases.coordination.k8s.io".to_owned()]
    }

    /// Shorter than an index is believed to be behind a write, so that a world without one event comes to rest.
    fn settle(&self) -> Duration {
        Duration::from_secs(25)
    }
}

/// One claim has one data, two claims never have the same number, and a Node is out of service only while its host is off.
fn invariant(server: &Server, inside: &Server) -> Result<(), String> {
    let mut by_claim: BTreeMap<String, usize> = BTreeMap::new();
    let mut by_index: BTreeMap<i64, usize> = BTreeMap::new();
    for data in server.list(DATAS, NS) {
        *by_claim.entry(at(&data, "/spec/claim/name").to_owned()).or_default() += 1;
        *by_index.entry(data["spec"]["index"].as_i64().unwrap()).or_default() += 1;
        let first = format!("{}-{}", at(&data, "/spec/template/name"), data["spec"]["index"]);
        if name(&data) != first {
            return Err(format!("{} has the number of {first}", name(&data)));
        }
    }
    if by_claim.values().chain(by_index.values()).any(|count| *count > 1) {
        return Err(format!("a number or a claim has two datas: {by_claim:?} {by_index:?}"));
    }
    for claim in server.list(HOSTS, NS) {
        let node = inside.get("nodes", "", name(&claim));
        let on = claim["status"]["poweredOn"] == true;
        let treated = server.get(REMEDIATIONS, NS, name(&claim));
        let running = treated.as_ref().is_some_and(|r| at(r, "/status/phase") == "Running");
        if on && running && node.is_none() {
            return Err("the Node was deleted while its host was on".to_owned());
        }
    }
    Ok(())
}

/// The settled world without uids and times: which of two claims got which number is no difference.
fn picture(server: &Server, inside: &Server) -> Value {
    let mut out = Map::new();
    for claim in server.list(CLAIMS, NS) {
        let named = !at(&claim, "/status/renderedData/name").is_empty();
        let told = json!([condition(&claim), named, claim["metadata"]["finalizers"]]);
        out.insert(format!("claim {}", name(&claim)), told);
    }
    let mut datas: Vec<Value> = Vec::new();
    for data in server.list(DATAS, NS) {
        datas.push(json!([
            data["spec"]["index"],
            data["status"]["ready"],
            condition(&data),
            data["metadata"]["finalizers"]
        ]));
    }
    out.insert("datas".to_owned(), json!(datas));
    for kind in [LEASES, ADDRESSES, METAL_LEASES, METAL_ADDRESSES, SECRETS] {
        out.insert(kind.to_owned(), json!(server.list(kind, NS).len()));
    }
    for template in server.list(TEMPLATES, NS) {
        let taken = template["status"]["indexes"].as_array().map(Vec::len);
        let owner = at(&template, "/metadata/ownerReferences/0/kind").to_owned();
        let told = json!([condition(&template), taken, owner, template["metadata"]["finalizers"]]);
        out.insert(format!("template {}", name(&template)), told);
    }
    for treated in server.list(REMEDIATIONS, NS) {
        let told = json!([
            condition(&treated),
            treated["status"]["phase"],
            treated["status"]["retryCount"],
            treated["metadata"]["finalizers"],
            treated["metadata"]["annotations"]
        ]);
        out.insert(format!("treatment {}", name(&treated)), told);
    }
    for claim in server.list(HOSTS, NS) {
        let told = json!([claim["metadata"]["annotations"], claim["status"]["poweredOn"]]);
        out.insert(format!("host {}", name(&claim)), told);
    }
    for machine in server.list(MACHINES, NS) {
        let asked: Vec<&str> =
            machine["status"]["conditions"].as_array().into_iter().flatten().map(|c| at(c, "/type")).collect();
        out.insert(format!("machine {}", name(&machine)), json!(asked));
    }
    for node in inside.list("nodes", "") {
        let told = json!([node["metadata"]["labels"], node["spec"]["taints"].as_array().map_or(0, Vec::len)]);
        out.insert(format!("node {}", name(&node)), told);
    }
    Value::Object(out)
}

fn end(server: &Server, resource: &str, name: &str) {
    // A user who acts early may find nothing to delete any more.
    server.delete(resource, NS, name);
}

const LIFE: Story = Story {
    name: "life of data",
    treat: Treat::Auto,
    before: |server, _| {
        server.put(template("t")).unwrap();
        pools(server, 5);
        member(server, "m1");
    },
    acts: &[
        |server, _| member(server, "m2"),
        |server, _| end(server, CLAIMS, "m1"),
        |server, _| {
            end(server, TEMPLATES, "t");
            end(server, CLAIMS, "m2");
        },
    ],
};

/// The shortest life there is, for the sweeps that run it hundreds of times.
const ONE: Story = Story {
    name: "life of one data",
    treat: Treat::Auto,
    before: LIFE.before,
    acts: &[|server, _| {
        end(server, TEMPLATES, "t");
        end(server, CLAIMS, "m1");
    }],
};

fn ill(server: &Server, inside: &Server) {
    machine(server, "m1", Some("baremetal"), true);
    inside.put(node("m1", &json!({"role": "db"}))).unwrap();
    remediation(server, "m1", 1);
}

const DELETED: Story = Story {
    name: "a machine that gets well, its Node deleted",
    treat: Treat::Delete,
    before: ill,
    acts: &[|server, _| end(server, REMEDIATIONS, "m1")],
};

const TAINTED: Story = Story {
    name: "a machine that gets well, its Node out of service",
    treat: Treat::Taint,
    before: ill,
    acts: &[|server, _| end(server, REMEDIATIONS, "m1")],
};

const ALL: [&Story; 3] = [&ONE, &DELETED, &TAINTED];

fn passed(reports: &[SweepReport]) {
    for report in reports {
        println!("{report}");
    }
    for report in reports {
        report.assert_passed();
        assert!(report.effects.len() >= 4, "too little happened: {:?}", report.effects);
    }
}

#[test]
fn stopped_at_every_effect_it_ends_in_the_same_world() {
    passed(&ALL.map(sweep::crash_sweep));
}

#[test]
fn started_on_any_older_cache_it_ends_in_the_same_world() {
    passed(&[&ONE].map(sweep::stale_sweep));
}

#[test]
fn robbed_of_any_event_it_ends_in_the_same_world() {
    passed(&[&ONE].map(sweep::missed_event_sweep));
}

#[test]
fn whatever_users_do_early_it_ends_in_the_same_world() {
    passed(&ALL.map(sweep::early_act_sweep));
}

#[test]
fn under_random_schedules_it_ends_in_the_same_world() {
    passed(&[sweep::seeds(&LIFE, 0..8)]);
}
