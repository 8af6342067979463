//! The kind `baremetal` keeps every promise that is asked of a kind, with hosts as its machines.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "the hosts' controller owns its task")]

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use claim_kind::contract::{Kind, Mood, Place, Resource, TENANT};
use claim_kind::heartbeat::{self, KindProfile};
use claims::config::Config;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::metal::{Machines, SCRIPT, Settings, Simulator, kinds, seed};
use sim::server::{self, Gate};

/// Where the hosts are.
const INFRA: &str = "infra";
const HOSTS: &str = "baremetalhosts.metal3.io";
const NAMES: [&str; 3] = ["h1", "h2", "h3"];
const ZONE: &str = "cellar";
/// A day: what is begun does not end, and what failed is not tried again, before the mood is better.
const NEVER: u64 = 24 * 3600 * 1000;

struct Baremetal;

impl Kind for Baremetal {
    /// The machines behind the hosts; the API server is the platform.
    type Platform = OnceLock<Arc<Machines>>;

    fn profile(&self) -> KindProfile {
        claims::kind::profile()
    }

    fn platform(&self, _: &Gate, _: &server::Clock) -> OnceLock<Arc<Machines>> {
        OnceLock::new()
    }

    async fn prepare(&self, place: &Place<Self>) {
        let server = &place.server;
        for definition in kinds::definitions() {
            server.put(definition).unwrap();
        }
        server.namespace(INFRA);
        let labels = json!({"infrastructure.cluster.x-k8s.io/failure-domain": ZONE});
        for name in NAMES {
            server.put(seed::settled(&seed::host(INFRA, name, &labels), (place.clock)())).unwrap();
        }
        let policy = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
            "metadata": {"namespace": INFRA, "name": "open"},
            "spec": {"hostClaimNamespaces": {"names": [TENANT]}},
        });
        server.put(policy).unwrap();
        let settings = Settings { labelled_only: true, ..Settings::default() };
        let simulator = Simulator::with_clock(server.client("operator").kube(), settings, Arc::clone(&place.clock));
        place.outside.set(simulator.machines()).unwrap();
        tokio::spawn(simulator.run());
    }

    async fn process(&self, place: Arc<Place<Self>>, client: kube::Client) {
        let options = Options { workers: 4, ..Options::default() };
        let clock = Clock::simulated((place.clock)(), 1);
        let manager = Manager::new(client, clock, Gates::new(), Metrics::new(), options);
        claims::mount(&manager, Config::default()).unwrap();
        heartbeat::mount(&manager, self.profile(), || true).unwrap();
        manager.run().await.unwrap();
    }

    fn spec(&self) -> Value {
        json!({
            "poweredOn": true,
            "image": {"url": "https://images.example.org/linux", "checksum": "abc", "checksumType": "sha256"},
        })
    }

    fn resources(&self, place: &Place<Self>) -> Vec<Resource> {
        let machines = place.outside.get().unwrap();
        let held = |host: &Value| host["spec"]["consumerRef"]["kind"] == "HostClaim";
        let shown = |host: Value| {
            let text = |pointer: &str| host.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (id, claim) = (text("/metadata/name"), text("/spec/consumerRef/uid"));
            let machine = machines.get(INFRA, &id).unwrap_or_default();
            let running = text("/status/provisioning/state") == "provisioned";
            let disk = machine.disk.unwrap_or_default();
            let parts =
                [("userData", disk.user_data), ("metaData", disk.meta_data), ("networkData", disk.network_data)];
            let data: BTreeMap<String, String> =
                parts.into_iter().filter_map(|(part, text)| Some((part.to_owned(), text?))).collect();
            let image = disk.image.map(|image| image.url);
            Resource { id, claim, running, powered: machine.power, image, data, reboots: machine.power_offs }
        };
        place.server.list(HOSTS, INFRA).into_iter().filter(held).map(shown).collect()
    }

    fn mood(&self, place: &Place<Self>, mood: Mood) {
        let script = match mood {
            Mood::Well => Value::Null,
            Mood::Slow => json!(json!({"delayMs": {"provisioning": NEVER, "deprovisioning": NEVER}}).to_string()),
            Mood::Failing => {
                let fail = json!([{"state": "provisioning", "times": 1_000_000}]);
                json!(json!({"fail": fail, "retryMs": NEVER}).to_string())
            }
        };
        for name in NAMES {
            let change = |host: &mut Value| match &script {
                Value::Null => drop(host["metadata"]["annotations"].as_object_mut().map(|notes| notes.remove(SCRIPT))),
                script => host["metadata"]["annotations"][SCRIPT] = script.clone(),
            };
            let _ = place.server.edit(HOSTS, INFRA, name, change);
        }
    }

    fn lose(&self, place: &Place<Self>, id: &str) {
        place.server.edit(HOSTS, INFRA, id, |host| host["metadata"]["finalizers"] = json!([])).unwrap();
        assert!(place.server.delete(HOSTS, INFRA, id));
    }

    /// Every request about a host but the one that waits for news.
    fn calls(&self, place: &Place<Self>) -> usize {
        let asked = |entry: &&server::Entry| {
            entry.client.starts_with("process") && entry.resource == HOSTS && !entry.query.contains("watch=")
        };
        place.server.log().iter().filter(asked).count()
    }

    fn sensitive(&self) -> Vec<String> {
        ["redfish", "192.0.2.", "-bmc", "other-tenant"].map(str::to_owned).into()
    }

    fn zone(&self) -> &'static str {
        ZONE
    }
}

claim_kind::contract!(Baremetal);
