//! Stopped at every effect, started on old news, robbed of every event, disturbed by early users and under random
//! schedules, the room always ends in the same world, and no promise breaks on the way.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use claims::config::Config;
use serde_json::{Map, Value, json};
use sim::metal::oracle::Forgiven;
use sim::server::{self, Server};
use sim::sweep::{self, Scenario, SweepReport, World};

use crate::objects::{
    CLAIMS, HOSTS, INFRA, POLICIES, SECRETS, annotate, at, claim, copies, deployment, edit, hosts, install, policy,
    secrets,
};
use crate::site::{Yonder, room};

type Act = fn(&Server);

/// A story: what there is, what users do, one thing after the other.
struct Story {
    name: &'static str,
    before: fn(&Server),
    acts: &'static [Act],
    /// Hosts that the story's own hand changes.
    by_hand: &'static [&'static str],
    /// Whether it counts how often the machine was switched off: not where acting early spares it a deployment.
    counts: bool,
    /// Whether the process counts on its lease, as the chart sets it up.
    leased: bool,
}

impl Scenario for Story {
    type Outside = OnceLock<Yonder>;

    fn name(&self) -> &str {
        self.name
    }

    fn outside(&self, _: &server::Gate, _: &server::Clock) -> OnceLock<Yonder> {
        OnceLock::new()
    }

    async fn prepare(&self, world: &World<OnceLock<Yonder>>) {
        install(&world.server);
        (self.before)(&world.server);
        let hosts = self.by_hand.iter().map(|name| (INFRA.to_owned(), (*name).to_owned())).collect();
        let forgiven = Forgiven { hosts, ..Forgiven::default() };
        world.outside.get_or_init(|| Yonder::start(&world.server, forgiven));
    }

    async fn process(&self, world: Arc<World<OnceLock<Yonder>>>, client: kube::Client) {
        room(client, (world.clock)(), Config { leased: self.leased, ..Config::default() }).await;
    }

    async fn act(&self, world: &World<OnceLock<Yonder>>, step: usize) -> bool {
        let Some(act) = self.acts.get(step) else { return false };
        act(&world.server);
        true
    }

    fn picture(&self, world: &World<OnceLock<Yonder>>) -> Value {
        let yonder = world.outside.get().unwrap();
        picture(&world.server, yonder, self.counts)
    }

    fn invariant(&self, world: &World<OnceLock<Yonder>>) -> Result<(), String> {
        world.outside.get().unwrap().judge(&world.server)
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

/// The settled world without uids, and what is derived from them: which of two equal hosts a claim got is no difference.
fn picture(server: &Server, yonder: &Yonder, counts: bool) -> Value {
    let mut out = Map::new();
    if let Err(broken) = yonder.judge_rest(server) {
        out.insert("broken".to_owned(), json!(broken));
    }
    for claim in server.list(CLAIMS, "") {
        let status = &claim["status"];
        let conditions: Map<String, Value> = status["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| (at(c, "/type").to_owned(), json!(format!("{}/{}", at(c, "/status"), at(c, "/reason")))))
            .collect();
        let current = status["observedGeneration"] == claim["metadata"]["generation"];
        let name = format!("claim {}/{}", at(&claim, "/metadata/namespace"), at(&claim, "/metadata/name"));
        let bound = status.get("bareMetalHost").is_some();
        let known = ["ready", "poweredOn", "provisioningState", "image", "pendingReboot", "hostMetadata"];
        let facts: Map<String, Value> = known.iter().map(|key| ((*key).to_owned(), status[*key].clone())).collect();
        let meta = json!({"finalizers": claim["metadata"]["finalizers"], "labels": claim["metadata"]["labels"],
            "annotations": claim["metadata"]["annotations"]});
        out.insert(
            name,
            json!({"conditions": conditions, "bound": bound, "current": current, "facts": facts, "meta": meta}),
        );
    }
    let mut all: Vec<Value> =
        server.list(HOSTS, INFRA).iter().map(|host| host_picture(server, yonder, host, counts)).collect();
    all.sort_by_key(Value::to_string);
    out.insert("hosts".to_owned(), Value::Array(all));
    let mut kept: Vec<String> = copies(server).iter().map(|copy| copy["data"].to_string()).collect();
    kept.sort();
    out.insert("copies".to_owned(), json!(kept));
    Value::Object(out)
}

/// A text without the digits that stand for a claim's uid.
fn plain(text: &str) -> String {
    let mut parts = text.split("/hc-");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{text}/hc-{}", part.get(9..).unwrap_or_default()))
}

fn host_picture(server: &Server, yonder: &Yonder, host: &Value, counts: bool) -> Value {
    let spec = &host["spec"];
    let consumer = &spec["consumerRef"];
    let name = at(host, "/metadata/name");
    let copy = |field: &str| {
        let secret = server.get(SECRETS, INFRA, at(&spec[field], "/name"));
        secret.map(|secret| secret["data"].to_string())
    };
    let notes: Vec<String> = host["metadata"]["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| if key == "berth.dev/reboot-id" { key.clone() } else { plain(&format!("{key}={value}")) })
        .collect();
    let machine = yonder.machines.get(INFRA, name);
    let disk = machine.as_ref().and_then(|machine| machine.disk.clone()).map(|disk| {
        json!([
            disk.image.map(|image| image.url),
            disk.user_data,
            disk.network_data,
            disk.meta_data,
            disk.owner.map(|owner| format!("{}/{}", owner.namespace, owner.name))
        ])
    });
    json!({
        "consumer": format!("{}/{}", at(consumer, "/namespace"), at(consumer, "/name")),
        "whole": at(consumer, "/uid").is_empty() == consumer.is_null(),
        "online": spec["online"], "image": spec["image"]["url"], "cleaning": spec["automatedCleaningMode"],
        "data": [copy("userData"), copy("networkData"), copy("metaData")],
        "state": host["status"]["provisioning"]["state"], "operational": host["status"]["operationalStatus"],
        "power": machine.map(|machine| (machine.power, if counts { machine.power_offs } else { 0 })),
        "notes": notes, "labels": host["metadata"]["labels"], "disk": disk,
    })
}

fn end(server: &Server, resource: &str, namespace: &str, name: &str) {
    // A user who acts early may find nothing to delete any more.
    server.delete(resource, namespace, name);
}

fn site(server: &Server) {
    hosts(server, &["h1"]);
    policy(server, &json!({}));
    secrets(server, "red");
    secrets(server, "blue");
}

const LIFE: Story = Story {
    name: "life of a claim",
    before: |server| {
        site(server);
        // One more than it needs: a claim that forgets its host could take a second one.
        hosts(server, &["h2"]);
        server.put(deployment("red", "c")).unwrap();
    },
    acts: &[
        |server| annotate(server, "red", "c", "reboot.metal3.io", Some("")),
        |server| edit(server, CLAIMS, "red", "c", &json!({"spec": {"poweredOn": false}})),
        |server| end(server, CLAIMS, "red", "c"),
    ],
    by_hand: &[],
    counts: true,
    leased: false,
};

const TAKEOVER: Story = Story {
    name: "one host after another tenant",
    before: |server| {
        site(server);
        server.put(deployment("red", "c")).unwrap();
    },
    acts: &[
        |server| drop(server.put(deployment("blue", "c")).unwrap()),
        |server| end(server, CLAIMS, "red", "c"),
        |server| end(server, CLAIMS, "blue", "c"),
    ],
    by_hand: &[],
    counts: false,
    leased: false,
};

const RACE: Story = Story {
    name: "two claims for the last host",
    before: |server| {
        site(server);
        server.put(deployment("red", "c")).unwrap();
        server.put(claim("blue", "c")).unwrap();
    },
    acts: &[|server| end(server, CLAIMS, "red", "c")],
    by_hand: &[],
    counts: false,
    leased: false,
};

const REVOKED: Story = Story {
    name: "a policy that goes while its host is bound",
    before: |server| {
        site(server);
        server.put(deployment("red", "c")).unwrap();
    },
    acts: &[
        |server| end(server, POLICIES, INFRA, "open"),
        |server| end(server, CLAIMS, "red", "c"),
        |server| policy(server, &json!({})),
    ],
    by_hand: &[],
    counts: false,
    leased: false,
};

const LOST: Story = Story {
    name: "a host that is deleted under its claim",
    before: |server| {
        site(server);
        server.put(deployment("red", "c")).unwrap();
    },
    acts: &[|server| end(server, HOSTS, INFRA, "h1"), |server| end(server, CLAIMS, "red", "c")],
    by_hand: &["h1"],
    counts: false,
    leased: false,
};

const DUPLICATE: Story = Story {
    name: "a second host in the claim's name",
    before: |server| {
        site(server);
        server.put(deployment("red", "c")).unwrap();
    },
    acts: &[
        |server| {
            let uid = server.get(CLAIMS, "red", "c").map(|claim| claim["metadata"]["uid"].clone());
            let consumer = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": "red",
                "name": "c", "uid": uid});
            let mut second = sim::metal::seed::host(INFRA, "h2", &json!({"size": "large"}));
            second["spec"]["consumerRef"] = consumer;
            server.put(sim::metal::seed::settled(&second, (server.clock())())).unwrap();
        },
        |server| end(server, CLAIMS, "red", "c"),
    ],
    by_hand: &["h1", "h2"],
    counts: false,
    leased: false,
};

const PAUSE: Story = Story {
    name: "pause and catch up",
    before: |server| {
        site(server);
        server.put(deployment("red", "c")).unwrap();
    },
    acts: &[
        |server| annotate(server, "red", "c", "cluster.x-k8s.io/paused", Some("")),
        |server| annotate(server, "red", "c", "reboot.metal3.io/mine", Some("")),
        |server| annotate(server, "red", "c", "cluster.x-k8s.io/paused", None),
    ],
    by_hand: &[],
    counts: false,
    leased: false,
};

const DETACH: Story = Story {
    name: "detach, attach, hold a reboot",
    before: |server| {
        hosts(server, &["h1"]);
        policy(server, &json!({"allowsDetaching": true, "metadataCopy": {"labelsMatch": "size"}}));
        secrets(server, "red");
        server.put(deployment("red", "c")).unwrap();
    },
    acts: &[
        |server| annotate(server, "red", "c", "baremetalhost.metal3.io/detached", Some("")),
        |server| annotate(server, "red", "c", "baremetalhost.metal3.io/detached", None),
        |server| annotate(server, "red", "c", "reboot.metal3.io/mine", Some("")),
        |server| end(server, CLAIMS, "red", "c"),
    ],
    by_hand: &[],
    counts: false,
    leased: false,
};

const PACKED: Story = Story {
    name: "ready for a move, and back",
    before: |server| {
        hosts(server, &["h1"]);
        server.put(village(false)).unwrap();
        let mut member = claim(INFRA, "c");
        member["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "village"});
        server.put(member).unwrap();
    },
    acts: &[
        |server| drop(server.put(village(true)).unwrap()),
        |server| drop(server.put(village(false)).unwrap()),
        |server| end(server, CLAIMS, INFRA, "c"),
    ],
    by_hand: &[],
    counts: false,
    leased: false,
};

fn village(paused: bool) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"namespace": INFRA, "name": "village"}, "spec": {"paused": paused}})
}

const ALL: [&Story; 9] = [&LIFE, &TAKEOVER, &RACE, &REVOKED, &LOST, &DUPLICATE, &PAUSE, &DETACH, &PACKED];

/// The same life for users in a hurry: who asks for a reboot and for power off at once sees the machine go off once, not
/// twice.
const HASTY_LIFE: Story = Story { counts: false, ..LIFE };

/// The same stories where copies are made and filled by one write, because a lease keeps others away.
const LEASED: [&Story; 2] = [
    &Story { name: "life of a claim, leased", leased: true, ..LIFE },
    &Story { name: "one host after another tenant, leased", leased: true, ..TAKEOVER },
];

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
    passed(&LEASED.map(sweep::crash_sweep));
}

#[test]
fn started_on_any_older_cache_it_ends_in_the_same_world() {
    passed(&[&LIFE, &TAKEOVER, &DUPLICATE].map(sweep::stale_sweep));
}

#[test]
fn robbed_of_any_event_it_ends_in_the_same_world() {
    passed(&ALL.map(sweep::missed_event_sweep));
    passed(&LEASED.map(sweep::missed_event_sweep));
}

#[test]
fn whatever_users_do_early_it_ends_in_the_same_world() {
    let hasty = ALL.map(|story| if story.name == LIFE.name { &HASTY_LIFE } else { story });
    passed(&hasty.map(sweep::early_act_sweep));
}

#[test]
fn under_random_schedules_it_ends_in_the_same_world() {
    passed(&ALL.map(|story| sweep::seeds(story, 0..12)));
}
