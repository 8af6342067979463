//! The kind `fake`: the smallest controller that keeps every promise, over a platform in memory. It is never part of
//! the product. With a [`Flaw`] it breaks one promise, which shows that the test of that promise can fail.

mod cloud;
mod decide;
mod room;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use api::own::{ArgSchema, Capability};
use kit::clock::Clock;
use kit::gates::Gates;
use kit::manager::{Manager, Options};
use kit::telemetry::Metrics;
use serde_json::{Value, json};
use sim::server::{self, Gate};

pub use cloud::{Cloud, Machine, Phase};

use super::{Kind, Mood, Place, Resource, TENANT};
use crate::heartbeat::{self, KindProfile};

/// The Secret with the credentials of well-behaved claims.
const CREDENTIALS: &str = "cloud-account";

/// What a broken controller does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It acts on claims of every kind.
    TouchesOtherKinds,
    /// It makes the machine first and stores its finalizer later.
    ActsBeforeFinalizer,
    /// It makes machines with a new token each time and finds them by the status only.
    ForgetsToken,
    /// It does not write down which machine it made.
    KeepsNoRecord,
    /// It says that a machine runs as soon as it is ordered.
    ReadyEarly,
    /// It starts something else when it cannot start what was asked for.
    BootsAnything,
    /// It does not switch machines off.
    IgnoresPower,
    /// It forgets which reboot it has done.
    RebootsAgain,
    /// It lets the claim go when it has ordered the destruction.
    LetsGoEarly,
    /// It lets the claim go and keeps the machine.
    LeaksOnDelete,
    /// It reads credentials wherever a claim says.
    ReadsAnyNamespace,
    /// It takes another zone when there is none of that name.
    IgnoresZone,
    /// It does not ask for quotas.
    IgnoresQuota,
    /// It asks every second.
    Polls,
    /// It goes on while paused.
    IgnoresPause,
    /// It shows the platform's own words.
    TellsAll,
}

impl Flaw {
    /// Every flaw, and the promise it breaks.
    pub const ALL: [(Self, &'static str); 16] = [
        (Self::TouchesOtherKinds, "K1"),
        (Self::ActsBeforeFinalizer, "K2"),
        (Self::ForgetsToken, "K3"),
        (Self::KeepsNoRecord, "K4"),
        (Self::ReadyEarly, "K5"),
        (Self::BootsAnything, "K6"),
        (Self::IgnoresPower, "K7"),
        (Self::RebootsAgain, "K8"),
        (Self::LetsGoEarly, "K9"),
        (Self::LeaksOnDelete, "K9"),
        (Self::ReadsAnyNamespace, "K10"),
        (Self::IgnoresZone, "K11"),
        (Self::IgnoresQuota, "K12"),
        (Self::Polls, "K13"),
        (Self::IgnoresPause, "K14"),
        (Self::TellsAll, "K15"),
    ];
}

/// The kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fake {
    /// What is wrong with its controller.
    pub flaw: Option<Flaw>,
    /// Its machines can be neither switched nor rebooted.
    pub modest: bool,
}

impl Fake {
    fn capabilities(self) -> &'static [Capability] {
        const MODEST: &[Capability] =
            &[Capability::UserData, Capability::MetaData, Capability::Image, Capability::FailureDomain];
        const ALL: &[Capability] = &[
            Capability::Power,
            Capability::Reboot,
            Capability::UserData,
            Capability::MetaData,
            Capability::Image,
            Capability::FailureDomain,
        ];
        if self.modest { MODEST } else { ALL }
    }
}

impl Kind for Fake {
    type Platform = Arc<Cloud>;

    fn profile(&self) -> KindProfile {
        KindProfile {
            name: "fake",
            controller_name: "fake.berth.dev",
            capabilities: self.capabilities(),
            recyclable: false,
            args: BTreeMap::from([("account".to_owned(), ArgSchema { required: true, ..ArgSchema::default() })]),
        }
    }

    fn platform(&self, gate: &Gate, _: &server::Clock) -> Arc<Cloud> {
        Arc::new(Cloud::new(gate))
    }

    async fn prepare(&self, place: &Place<Self>) {
        let account = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": TENANT, "name": CREDENTIALS},
            "data": {"value": "c2VzYW1l"},
        });
        // Acceptable by construction.
        let _ = place.server.put(account);
    }

    async fn process(&self, place: Arc<Place<Self>>, client: kube::Client) {
        let clock = Clock::simulated((place.clock)(), 1);
        let options = Options { workers: 4, ..Options::default() };
        let manager = Manager::new(client, clock, Gates::new(), Metrics::new(), options);
        // Feeds are asked for before anything runs, so this cannot be too late, and nobody else follows these kinds.
        let _ = room::mount(&manager, Arc::clone(&place.outside), *self);
        let _ = heartbeat::mount(&manager, self.profile(), || true);
        let _ = manager.run().await;
    }

    fn spec(&self) -> Value {
        json!({
            "poweredOn": true,
            "args": {"account": CREDENTIALS},
            "image": {"url": "https://images.example.org/linux", "checksum": "abc", "checksumType": "sha256"},
        })
    }

    fn resources(&self, place: &Place<Self>) -> Vec<Resource> {
        let shown = |machine: Machine| Resource {
            id: machine.id,
            claim: machine.order.claim,
            running: machine.phase == Phase::Running,
            powered: machine.powered,
            image: machine.order.image,
            data: machine.order.data,
            reboots: machine.reboots,
        };
        place.outside.machines().into_iter().map(shown).collect()
    }

    fn mood(&self, place: &Place<Self>, mood: Mood) {
        place.outside.set_mood(mood);
    }

    fn lose(&self, place: &Place<Self>, id: &str) {
        place.outside.lose(id);
    }

    fn calls(&self, place: &Place<Self>) -> usize {
        place.outside.calls()
    }

    fn sensitive(&self) -> Vec<String> {
        cloud::SENSITIVE.map(str::to_owned).into()
    }

    fn zone(&self) -> &'static str {
        "south"
    }

    fn credentials(&self) -> Option<&'static str> {
        Some("account")
    }

    fn bad_image(&self) -> Option<Value> {
        Some(json!({"url": "https://elsewhere.example.org/linux", "checksum": "abc", "checksumType": "sha256"}))
    }
}
