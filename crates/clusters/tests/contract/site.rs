//! A CloudStack, and the controller of the kind that calls it.

use std::sync::Arc;

use bytes::Bytes;
use claim_kind::contract::TENANT;
use claim_kind::heartbeat;
use cloudstack::limits::Limits;
use cloudstack::net::{Allowed, Meter, Options as AcsOptions, Reach};
use clusters::vm;
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::clock::Clock;
use kit::gates::Gates;
use kit::http::Carry;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::cloudstack::world::machine::State;
use sim::cloudstack::{self as acs, Options as SimOptions};
use sim::server::{self, Gate};

pub const CLAIMS: &str = "hostclaims.metal3.io";
pub const IDENTITY: &str = "cloud";
pub const URL: &str = "http://images.example.com/kube-1.31.qcow2";

/// The commands that change something.
const WRITES: [&str; 6] = [
    "deployVirtualMachine",
    "startVirtualMachine",
    "stopVirtualMachine",
    "rebootVirtualMachine",
    "destroyVirtualMachine",
    "createTags",
];

/// Carries requests to the simulator; those that change something pass the gate of a sweep.
struct Wire {
    acs: acs::Handle,
    gate: Option<Gate>,
}

impl Carry for Wire {
    fn carry(&self, request: http::Request<Bytes>) -> BoxFuture<'static, Option<http::Response<Bytes>>> {
        let (acs, gate) = (self.acs.clone(), self.gate.clone());
        async move {
            let body = String::from_utf8_lossy(request.body()).into_owned();
            let command = body.split('&').find_map(|pair| pair.strip_prefix("command=")).unwrap_or_default().to_owned();
            match gate.filter(|_| WRITES.contains(&command.as_str())) {
                None => acs.carry(request).await,
                Some(gate) => {
                    let pass = gate.enter(&format!("cloudstack {command}"), "cloudstack").await;
                    let answer = acs.carry(request).await;
                    pass.committed().await;
                    answer
                }
            }
        }
        .boxed()
    }
}

/// What outlives a process.
#[derive(Clone)]
pub struct Site {
    pub acs: acs::Handle,
    gate: Option<Gate>,
}

impl Site {
    pub fn new(clock: &server::Clock, gate: Option<Gate>) -> Self {
        Self { acs: acs::without_socket(SimOptions { time: Some(clock()), ..SimOptions::default() }), gate }
    }

    fn clouds(&self, clock: Clock) -> Reach {
        let mut options = AcsOptions::new("berth/test");
        options.carrier = Some(Arc::new(Wire { acs: self.acs.clone(), gate: self.gate.clone() }));
        options.limits = Limits::UNLIMITED;
        let allowed: Allowed = self.acs.endpoint.trim_end_matches("/client/api").parse().unwrap();
        Reach::new(options, &[allowed], clock, Meter::default())
    }

    /// The controller and its heartbeat.
    pub async fn run(&self, client: kube::Client, clock: Clock) {
        let options = Options { workers: 4, ..Options::default() };
        let clouds = self.clouds(clock.clone());
        let manager = Manager::new(client, clock, Gates::new(), Metrics::new(), options);
        vm::mount(&manager, clouds).unwrap();
        heartbeat::mount(&manager, vm::profile(), || true).unwrap();
        manager.run().await.unwrap();
    }

    /// A Secret with the key of an account.
    pub fn secret(&self, namespace: &str, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name},
            "stringData": {"api-url": self.acs.endpoint, "api-key": self.acs.api_key, "secret-key": self.acs.secret_key}})
    }

    /// Machines that are not gone: id, uid of the claim, state.
    pub fn machines(&self) -> Vec<(String, String, State)> {
        let there = self.acs.machines().into_iter().filter(|machine| machine.state != State::Gone);
        let claim = |name: &str| name.strip_prefix("hc-").unwrap_or_default().to_owned();
        there.map(|machine| (machine.id.clone(), claim(&machine.name), machine.state)).collect()
    }

    /// How often a machine was stopped.
    pub fn stops(&self, id: &str) -> u32 {
        let stopped = |entry: &&acs::world::log::Entry| {
            entry.command == "stopVirtualMachine"
                && entry.status == 200
                && entry.parameters.get("id").is_some_and(|one| one == id)
        };
        u32::try_from(self.acs.log().iter().filter(stopped).count()).unwrap()
    }

    /// What hung comes to its end.
    pub fn finish(&self) {
        self.acs.clear_script();
        self.acs.with(|world, now| {
            for machine in world.machines.values_mut() {
                match machine.state_at(now) {
                    State::Starting => machine.state.set(now, State::Running),
                    State::Stopping => machine.state.set(now, State::Stopped),
                    State::Expunging => machine.state.set(now, State::Gone),
                    _ => {}
                }
                machine.busy = now;
            }
            for job in world.jobs.values_mut() {
                job.ends.get_or_insert(now);
            }
        });
    }
}

/// The spec of a claim that gets a machine.
pub fn spec() -> Value {
    json!({
        "poweredOn": true,
        "kind": vm::KIND,
        "args": {"zone": "zone-1", "offering": "Small Instance", "template": "kube-1.31", "network": "shared",
            "identity": IDENTITY},
        "image": {"url": URL, "checksum": "abc", "checksumType": "sha256"},
    })
}

pub fn claim(name: &str) -> Value {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"namespace": TENANT, "name": name},
        "spec": spec()})
}
