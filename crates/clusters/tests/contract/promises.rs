//! The fifteen promises.

use std::collections::BTreeMap;
use std::sync::Arc;

use claim_kind::contract::{Kind, Mood, Place, Resource, TENANT};
use claim_kind::heartbeat::KindProfile;
use clusters::vm;
use kit::clock::Clock;
use serde_json::{Value, json};
use sim::cloudstack::world::faults::{Fault, What};
use sim::cloudstack::world::machine::State;
use sim::server::{self, Gate};

use crate::site::{IDENTITY, Site, spec};

/// What a failing server says; no tenant may read it.
const COMPLAINT: &str = "https://cloud.internal:8443 refused admin/hunter2 in the account of other-tenant";

struct CloudStackVm;

impl Kind for CloudStackVm {
    type Platform = Site;

    fn profile(&self) -> KindProfile {
        vm::profile()
    }

    fn platform(&self, gate: &Gate, clock: &server::Clock) -> Site {
        Site::new(clock, Some(gate.clone()))
    }

    async fn prepare(&self, place: &Place<Self>) {
        place.server.put(place.outside.secret(TENANT, IDENTITY)).unwrap();
    }

    async fn process(&self, place: Arc<Place<Self>>, client: kube::Client) {
        place.outside.run(client, Clock::simulated((place.clock)(), 1)).await;
    }

    fn spec(&self) -> Value {
        spec()
    }

    fn resources(&self, place: &Place<Self>) -> Vec<Resource> {
        let site = &place.outside;
        let facts: BTreeMap<String, (Vec<u8>, String)> = site.acs.with(|world, _| {
            let image = |id: &str| {
                let found = world.templates.iter().find(|template| template.id == id);
                found.map(|template| format!("http://images.example.com/{}.qcow2", template.name)).unwrap_or_default()
            };
            let facts = |machine: &sim::cloudstack::world::machine::Machine| {
                (machine.id.clone(), (machine.user_data.clone(), image(&machine.template)))
            };
            world.machines.values().map(facts).collect()
        });
        let shown = |(id, claim, state): (String, String, State)| {
            let (user_data, image) = facts[&id].clone();
            let data = (!user_data.is_empty())
                .then(|| ("userData".to_owned(), String::from_utf8(user_data).unwrap()))
                .into_iter()
                .collect();
            Resource {
                reboots: site.stops(&id),
                running: state == State::Running,
                powered: state == State::Running,
                image: Some(image),
                id,
                claim,
                data,
            }
        };
        site.machines().into_iter().map(shown).collect()
    }

    fn mood(&self, place: &Place<Self>, mood: Mood) {
        let acs = &place.outside.acs;
        match mood {
            Mood::Well => place.outside.finish(),
            Mood::Slow => {
                for command in ["deployVirtualMachine", "destroyVirtualMachine"] {
                    acs.script(Fault::on(command, What::HangJob).forever());
                }
            }
            Mood::Failing => acs.script(Fault::refuse("*", 530, COMPLAINT).forever()),
        }
    }

    fn lose(&self, place: &Place<Self>, id: &str) {
        assert!(place.outside.acs.set_state(id, State::Gone));
    }

    fn calls(&self, place: &Place<Self>) -> usize {
        place.outside.acs.log().len()
    }

    fn sensitive(&self) -> Vec<String> {
        ["cloud.internal", "hunter2", "other-tenant", "127.0.0.1", "simulator-"].map(str::to_owned).into()
    }

    fn zone(&self) -> &'static str {
        "zone-1"
    }

    fn credentials(&self) -> Option<&'static str> {
        Some("identity")
    }

    fn account(&self, place: &Place<Self>, namespace: &str, name: &str) -> Value {
        place.outside.secret(namespace, name)
    }

    fn bad_image(&self) -> Option<Value> {
        Some(json!({"url": "http://images.example.com/kube-1.32.qcow2", "checksum": "abc", "checksumType": "sha256"}))
    }
}

claim_kind::contract!(CloudStackVm);
