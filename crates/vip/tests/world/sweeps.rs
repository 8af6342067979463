//! Stopped at every effect, started on old news, robbed of every event, disturbed by early users and under random
//! schedules, the room always ends in the same world.

use std::sync::Arc;
use std::time::Duration;

use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::server::{self, Server};
use sim::sweep::{self, Scenario, SweepReport, World};
use vip::config::Config;
use vip::extension::Extension;
use vip::hooks::Answer;

use crate::actors::{Book, ask, dismantle, gated, lacks, part, provide, render};
use crate::objects::{
    CLASS, CLASSES, CLUSTERS, NS, class, cluster, deleting, host, install, key, name, note, pool, uid,
};

type Act = fn(&Server);

/// A story: what there is, what users do, one thing after the other.
struct Story {
    name: &'static str,
    config: fn() -> Config,
    before: fn(&Server),
    acts: &'static [Act],
}

impl Scenario for Story {
    type Outside = Arc<Book>;

    fn name(&self) -> &str {
        self.name
    }

    fn outside(&self, _: &server::Gate, _: &server::Clock) -> Arc<Book> {
        Arc::default()
    }

    async fn prepare(&self, world: &World<Arc<Book>>) {
        install(&world.server);
        (self.before)(&world.server);
    }

    async fn process(&self, world: Arc<World<Arc<Book>>>, client: kube::Client) {
        let options = Options { workers: 4, ..Options::default() };
        let clock = Clock::simulated((world.clock)(), 1);
        let manager = Manager::new(client, clock, Gates::new(), Metrics::new(), options);
        let extension = vip::mount(&manager, (self.config)()).unwrap();
        let (server, book) = (&world.server, &world.outside);
        tokio::join!(async { manager.run().await.unwrap() }, ipam(server), cluster_api(server, &extension, book));
    }

    async fn act(&self, world: &World<Arc<Book>>, step: usize) -> bool {
        let Some(act) = self.acts.get(step) else { return false };
        act(&world.server);
        true
    }

    fn invariant(&self, world: &World<Arc<Book>>) -> Result<(), String> {
        let book = world.outside.open();
        if let Some(wrong) = book.wrongs.first() {
            return Err(wrong.clone());
        }
        for cluster in world.server.list(CLUSTERS, NS) {
            let moved = book.rendered.iter().find(|r| r.uid == uid(&cluster) && r.host != host(&cluster));
            if let Some(moved) = moved {
                return Err(format!(
                    "{} was rendered with {:?}, and has {:?}",
                    name(&cluster),
                    moved.host,
                    host(&cluster)
                ));
            }
        }
        Ok(())
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

/// The IPAM provider: at work whenever there is something to do.
async fn ipam(server: &Server) {
    loop {
        server.wait_until(Duration::from_secs(3600), provide).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Cluster API: asks the gate about every cluster as long as it must, renders, and takes down.
async fn cluster_api(server: &Server, extension: &Extension, book: &Book) {
    loop {
        for cluster in server.list(CLUSTERS, NS) {
            if deleting(&cluster) {
                part(extension, &cluster).await;
                dismantle(server, &cluster);
            } else if gated(&cluster)
                && let Answer::Open { .. } = ask(extension, &cluster).await
            {
                let class = server.get(CLASSES, NS, CLASS).unwrap();
                if let Some(lack) = lacks(server, &class, &cluster, true) {
                    book.wrong(format!("{} was let through: {lack}", name(&cluster)));
                }
                render(server, book, &cluster);
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn plenty(server: &Server) {
    server.put(class(CLASS, &["clusterVip", "ingressVip"])).unwrap();
    server.put(pool("control", "control-plane", 1, 10, 4)).unwrap();
}

fn create(server: &Server) {
    server.put(cluster("a", &json!({"note": "mine"}))).unwrap();
}

fn delete(server: &Server) {
    server.delete(CLUSTERS, NS, "a");
}

fn edit(server: &Server, change: impl FnOnce(&mut Value)) {
    // A user who acts early may find nothing to edit yet, or no more.
    let _ = server.edit(CLUSTERS, NS, "a", change);
}

const LIFE: Story = Story {
    name: "life of a cluster",
    config: Config::default,
    before: plenty,
    acts: &[create, delete, create, delete],
};

/// The only pool is full; then one with room appears.
const FALLBACK: Story = Story {
    name: "fallback to another pool",
    config: Config::default,
    before: |server| {
        server.put(class(CLASS, &["clusterVip"])).unwrap();
        server.put(pool("best", "control-plane", 2, 10, 1)).unwrap();
        server.put(reserved("other", "best")).unwrap();
    },
    acts: &[create, |server| drop(server.put(pool("control", "control-plane", 1, 10, 4)).unwrap()), delete],
};

/// A claim that an admin made to reserve an address.
const ADOPTION: Story = Story {
    name: "adoption",
    config: Config::default,
    before: |server| {
        plenty(server);
        server.put(reserved("vip-cp-a", "control")).unwrap();
    },
    acts: &[create, delete],
};

fn reserved(name: &str, pool: &str) -> Value {
    json!({
        "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
        "metadata": {"name": name, "namespace": NS, "labels": {key("role"): "control-plane"}},
        "spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": pool}},
    })
}

/// An ingress pool that comes after the cluster was rendered; then the ingress is switched off.
const INGRESS: Story = Story {
    name: "late ingress, switched off again",
    config: Config::default,
    before: plenty,
    acts: &[
        create,
        |server| drop(server.put(pool("ingress", "ingress", 3, 10, 2)).unwrap()),
        |server| edit(server, |object| object["metadata"]["annotations"][key("ingress-enabled")] = json!("false")),
        delete,
    ],
};

/// A cluster without topology in the compatibility mode, on infrastructure without an endpoint.
const PLAIN: Story = Story {
    name: "compatibility mode",
    config: || Config { reconciler: true, patch_infrastructure: true, ..Config::default() },
    before: |server| {
        plenty(server);
        server
            .put(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "DockCluster",
                "metadata": {"name": "a", "namespace": NS}, "spec": {"region": "north"},
            }))
            .unwrap();
    },
    acts: &[
        |server| {
            let mut plain = cluster("a", &json!({key("cluster-class"): CLASS}));
            plain["spec"] = json!({"infrastructureRef":
                {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockCluster", "name": "a"}});
            server.put(plain).unwrap();
        },
        delete,
    ],
};

fn passed(reports: &[SweepReport]) {
    for report in reports {
        report.assert_passed();
        assert!(report.effects.len() >= 4, "too little happened: {:?}", report.effects);
    }
}

const ALL: [&Story; 5] = [&LIFE, &FALLBACK, &ADOPTION, &INGRESS, &PLAIN];

#[test]
fn stopped_at_every_effect_it_ends_in_the_same_world() {
    passed(&ALL.map(sweep::crash_sweep));
}

#[test]
fn started_on_any_older_cache_it_ends_in_the_same_world() {
    passed(&ALL.map(sweep::stale_sweep));
}

#[test]
fn robbed_of_any_event_it_ends_in_the_same_world() {
    passed(&ALL.map(sweep::missed_event_sweep));
}

#[test]
fn whatever_users_do_early_it_ends_in_the_same_world() {
    passed(&ALL.map(sweep::early_act_sweep));
}

#[test]
fn under_random_schedules_it_ends_in_the_same_world() {
    passed(&ALL.map(|story| sweep::seeds(story, 0..12)));
}

/// The endpoint that a user chooses after the gate has read the Cluster and before its write arrives.
#[tokio::test(start_paused = true)]
async fn an_endpoint_chosen_between_our_read_and_our_write_stays() {
    let server = Server::new(1);
    install(&server);
    plenty(&server);
    create(&server);
    let clock = Clock::simulated((server.clock())(), 1);
    let options = Options { workers: 4, ..Options::default() };
    let client = server.client("process").kube();
    let manager = Manager::new(client, clock, Gates::new(), Metrics::new(), options);
    let extension = vip::mount(&manager, Config::default()).unwrap();
    let rule = server::Rule::any().method("PATCH").path_contains("/clusters/a");
    let slow = server.inject(rule, server::Action::Delay(Duration::from_secs(1)));
    let user = async {
        assert!(server.wait_until(Duration::from_secs(60), |s| s.hits(slow) > 0).await || server.hits(slow) > 0);
        let chosen = json!({"host": "192.168.0.1", "port": 6443});
        server.edit(CLUSTERS, NS, "a", |object| object["spec"]["controlPlaneEndpoint"] = chosen.clone()).unwrap();
    };
    let book = Book::default();
    let rest = async {
        tokio::join!(async { manager.run().await.unwrap() }, ipam(&server), cluster_api(&server, &extension, &book))
    };
    let story = async {
        user.await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    };
    tokio::select! {
        _ = rest => panic!("the process ended"),
        () = story => {}
    }
    let cluster = server.get(CLUSTERS, NS, "a").unwrap();
    assert_eq!(host(&cluster), "192.168.0.1");
    assert_eq!(note(&cluster, "control-plane-source"), "manual");
    assert_eq!(note(&cluster, "control-plane-vip"), "192.168.0.1");
}
