//! Stopped at every effect, started on old news, robbed of every event, disturbed by early users and under random
//! schedules, the room always ends in the same world.

use std::sync::Arc;
use std::time::Duration;

use capacity::cloud::Both;
use capacity::config::Config;
use kit::clock::Clock;
use serde_json::{Value, json};
use sim::server::{self, Server};
use sim::sweep::{self, Scenario, World};

use crate::cloud::Model;
use crate::cloudstack::{ACS_TEMPLATES, acs_cluster, acs_group, acs_template, domain, keys, simulator, way};
use crate::objects::*;

/// Sets and deployments of two regions and of a zone on CloudStack; then types change, keys vanish, a template comes late,
/// somebody overrides a value.
struct Life;

/// Both clouds.
#[derive(Clone)]
struct Clouds {
    ec2: Model,
    acs: sim::cloudstack::Handle,
}

impl Scenario for Life {
    type Outside = Clouds;

    fn name(&self) -> &str {
        "life of groups"
    }

    fn outside(&self, _: &server::Gate, clock: &server::Clock) -> Clouds {
        Clouds { ec2: Model::default(), acs: simulator(clock) }
    }

    async fn prepare(&self, world: &World<Clouds>) {
        let server = &world.server;
        install(server);
        server.namespace("berth-system");
        server.put(openshift_set("a", "m5.xlarge")).unwrap();
        server.put(in_region("b", "m5.4xlarge", "eu-west-1")).unwrap();
        server.put(cluster(("AWSCluster", "c"), None)).unwrap();
        server.put(aws_cluster("us-west-2")).unwrap();
        server.put(group("MachineDeployment", "d", "late")).unwrap();
        let acs = &world.outside.acs;
        let mut zoned = cluster(("CloudStackCluster", "c"), None);
        zoned["metadata"]["name"] = json!("zoned");
        server.put(zoned).unwrap();
        server.put(keys(NS, "keys", &acs.endpoint, &acs.api_key, &acs.secret_key)).unwrap();
        server.put(acs_cluster(&[domain("a", "zone-1", (NS, "keys"))])).unwrap();
        server.put(acs_template("e", "Medium Instance", "kube-1.31", json!({}))).unwrap();
        let mut group = acs_group("e", "e");
        group["spec"]["clusterName"] = json!("zoned");
        server.put(group).unwrap();
    }

    async fn process(&self, world: Arc<World<Clouds>>, client: kube::Client) {
        let clock = Clock::simulated((world.clock)(), 1);
        let Clouds { ec2, acs } = world.outside.clone();
        let ways = Both { aws: ec2, acs: way(&acs, &clock) };
        serve(client, clock, Config { store: true, cloudstack: true, ..config() }, ways, None).await;
    }

    async fn act(&self, world: &World<Clouds>, step: usize) -> bool {
        let server = &world.server;
        let edit = |resource: &str, namespace: &str, name: &str, change: &dyn Fn(&mut Value)| {
            server.edit(resource, namespace, name, |object| change(object)).unwrap();
        };
        match step {
            0 => edit(OPENSHIFT_SETS, OPENSHIFT, "a", &|object| {
                object["spec"]["template"]["spec"]["providerSpec"]["value"]["instanceType"] = json!("m6g.4xlarge");
            }),
            1 => drop(server.put(template("late", "m5.xlarge")).unwrap()),
            2 => edit(OPENSHIFT_SETS, OPENSHIFT, "b", &|object| {
                if let Some(all) = object["metadata"]["annotations"].as_object_mut() {
                    all.remove("machine.openshift.io/memoryMb");
                }
            }),
            3 => edit(DEPLOYMENTS, NS, "d", &|object| {
                object["metadata"]["annotations"]["capacity.cluster-autoscaler.kubernetes.io/memory"] = json!("10Gi");
            }),
            4 => edit(TEMPLATES, NS, "late", &|object| {
                object["spec"]["template"]["spec"]["instanceType"] = json!("m5.4xlarge")
            }),
            5 => edit(ACS_TEMPLATES, NS, "e", &|object| {
                object["spec"]["template"]["spec"]["offering"] = json!({"name": "Large Instance"});
            }),
            _ => return false,
        }
        true
    }

    /// A group never says half of what it should: processors and memory change together.
    fn invariant(&self, world: &World<Clouds>) -> Result<(), String> {
        for name in ["a", "b"] {
            let all = notes(&world.server, OPENSHIFT_SETS, OPENSHIFT, name);
            let pair = (all.get("vCPU").map(String::as_str), all.get("memoryMb").map(String::as_str));
            if !matches!(pair, (None, None) | (Some("4"), Some("16384")) | (Some("16"), Some("65536") | None)) {
                return Err(format!("{name} says {pair:?}"));
            }
        }
        let all = notes(&world.server, DEPLOYMENTS, NS, "e");
        let pair = (all.get("cpu").map(String::as_str), all.get("memory").map(String::as_str));
        if !matches!(pair, (None, None) | (Some("2"), Some("4096Mi")) | (Some("4"), Some("16384Mi"))) {
            return Err(format!("e says {pair:?}"));
        }
        Ok(())
    }

    fn ignored(&self) -> Vec<String> {
        // Events are told once and may be lost with the process; nothing depends on them.
        vec![EVENTS.to_owned(), "leases.coordination.k8s.io".to_owned()]
    }

    fn picture(&self, world: &World<Clouds>) -> Value {
        picture(&world.server)
    }

    /// Shorter than an index is believed to be behind a write, so that a world without one event comes to rest.
    fn settle(&self) -> Duration {
        Duration::from_secs(25)
    }
}

fn picture(server: &Server) -> Value {
    let of = |resource: &str, namespace: &str, name: &str| json!(notes(server, resource, namespace, name));
    json!({
        "a": of(OPENSHIFT_SETS, OPENSHIFT, "a"), "b": of(OPENSHIFT_SETS, OPENSHIFT, "b"), "d": of(DEPLOYMENTS, NS, "d"),
        "e": of(DEPLOYMENTS, NS, "e"),
    })
}

#[test]
fn stopped_at_every_effect_the_room_ends_in_the_same_world() {
    let report = sweep::crash_sweep(&Life);
    report.assert_passed();
    assert!(report.effects.len() >= 6, "too little happened: {:?}", report.effects);
}

#[test]
fn started_on_any_older_cache_the_room_ends_in_the_same_world() {
    sweep::stale_sweep(&Life).assert_passed();
}

#[test]
fn robbed_of_any_event_the_room_ends_in_the_same_world() {
    sweep::missed_event_sweep(&Life).assert_passed();
}

#[test]
fn whatever_users_do_early_the_room_ends_in_the_same_world() {
    sweep::early_act_sweep(&Life).assert_passed();
}

#[test]
fn under_random_schedules_the_room_ends_in_the_same_world() {
    sweep::seeds(&Life, 0..150).assert_passed();
}
