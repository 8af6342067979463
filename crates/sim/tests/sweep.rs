//! The sweeps find the classic mistakes of controllers, and let a correct one pass.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
    runtime::watcher,
};
use serde_json::{Value, json};
use sim::{
    server::{Clock, Gate, Kind},
    sweep::{self, Scenario, World},
};

const FINALIZER: &str = "berth.test/disk";

/// A cloud that sells disks. It never forgets, and it counts.
struct Cloud {
    gate: Gate,
    disks: Mutex<BTreeMap<String, String>>,
    made: Mutex<u64>,
}

impl Cloud {
    /// With a token, a second call gives the same disk; without, it is a second disk.
    async fn create(&self, owner: &str, token: Option<&str>) -> String {
        let pass = self.gate.enter("create disk", "disks").await;
        let id = {
            let mut made = self.made.lock().unwrap();
            let mut disks = self.disks.lock().unwrap();
            let id = match token {
                Some(token) => format!("disk-{token}"),
                None => format!("disk-{}", *made + 1),
            };
            if disks.insert(id.clone(), owner.to_owned()).is_none() {
                *made += 1;
            }
            id
        };
        pass.committed().await;
        id
    }

    async fn release(&self, id: &str) {
        let pass = self.gate.enter("release disk", "disks").await;
        self.disks.lock().unwrap().remove(id);
        pass.committed().await;
    }

    fn all(&self) -> BTreeMap<String, String> {
        self.disks.lock().unwrap().clone()
    }
}

/// A controller that gives every widget a disk, with the mistakes one can make.
#[derive(Clone, Copy)]
struct Disks {
    /// Creates with a token, so that a second call is no second disk.
    token: bool,
    /// Looks at the server before it releases a disk whose owner its cache does not have.
    live_check: bool,
    /// Takes a new list as news.
    heeds_relist: bool,
    /// Compares before it writes.
    compares: bool,
}

const CORRECT: Disks = Disks { token: true, live_check: true, heeds_relist: true, compares: true };

fn widgets() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("berth.test", "v1", "Widget"), "widgets")
}

fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "berth.test/v1", "kind": "Widget",
        "metadata": { "name": name, "namespace": "default" }, "spec": { "size": 1 },
    })
}

impl Disks {
    async fn reconcile(&self, api: &Api<DynamicObject>, cloud: &Cloud, seen: &DynamicObject) -> kube::Result<()> {
        let name = seen.name_any();
        let params = PatchParams::default();
        if seen.metadata.deletion_timestamp.is_some() {
            if !seen.finalizers().iter().any(|f| f == FINALIZER) {
                return Ok(());
            }
            let ids: Vec<String> =
                cloud.all().into_iter().filter(|(_, owner)| *owner == name).map(|(id, _)| id).collect();
            if let Some(known) = seen.data.pointer("/status/disk").and_then(Value::as_str)
                && ids.iter().any(|id| id == known)
            {
                cloud.release(known).await;
            } else if self.token {
                for id in ids {
                    cloud.release(&id).await;
                }
            }
            let patch: json_patch::Patch = serde_json::from_value(json!([
                { "op": "test", "path": "/metadata/uid", "value": seen.uid() },
                { "op": "test", "path": "/metadata/finalizers", "value": seen.finalizers() },
                { "op": "remove", "path": "/metadata/finalizers" },
            ]))
            .unwrap();
            return match api.patch(&name, &params, &Patch::Json::<()>(patch)).await {
                Err(kube::Error::Api(e)) if e.code == 404 => Ok(()),
                other => other.map(|_| ()),
            };
        }
        if seen.finalizers().is_empty() {
            let patch = json!({ "metadata": {
                "finalizers": [FINALIZER], "resourceVersion": seen.resource_version(), "uid": seen.uid(),
            } });
            api.patch(&name, &params, &Patch::Merge(&patch)).await?;
            return Ok(());
        }
        let recorded = seen.data.pointer("/status/disk").and_then(Value::as_str);
        if recorded.is_some() && self.compares {
            return Ok(());
        }
        let uid = seen.uid().unwrap_or_default();
        let id = match recorded {
            Some(id) => id.to_owned(),
            None if self.token => {
                // Paying for something needs a fresh look: the widget may be going or gone.
                let now = api.get(&name).await?;
                if now.metadata.deletion_timestamp.is_some() || now.uid() != seen.uid() {
                    return Ok(());
                }
                cloud.create(&name, Some(&uid)).await
            }
            None => cloud.create(&name, None).await,
        };
        let patch = json!({ "metadata": { "uid": uid }, "status": { "disk": id } });
        api.patch_status(&name, &params, &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Releases disks nobody owns.
    async fn sweep_up(
        &self,
        api: &Api<DynamicObject>,
        cloud: &Cloud,
        cache: &BTreeMap<String, DynamicObject>,
    ) -> kube::Result<()> {
        for (id, owner) in cloud.all() {
            if cache.contains_key(&owner) {
                continue;
            }
            if self.live_check && api.get_opt(&owner).await?.is_some() {
                continue;
            }
            cloud.release(&id).await;
        }
        Ok(())
    }

    async fn run(&self, client: kube::Client, cloud: &Cloud) {
        let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &widgets());
        let mut events = Box::pin(watcher(api.clone(), watcher::Config::default()));
        let mut cache: BTreeMap<String, DynamicObject> = BTreeMap::new();
        let mut listed: BTreeMap<String, DynamicObject> = BTreeMap::new();
        let mut due: BTreeSet<String> = BTreeSet::new();
        let mut lists = 0;
        loop {
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Some(Ok(watcher::Event::Init)) => listed.clear(),
                    Some(Ok(watcher::Event::InitApply(object))) => {
                        listed.insert(object.name_any(), object);
                    }
                    Some(Ok(watcher::Event::InitDone)) => {
                        lists += 1;
                        if lists == 1 || self.heeds_relist {
                            cache = std::mem::take(&mut listed);
                            due.extend(cache.keys().cloned());
                        }
                        if self.sweep_up(&api, cloud, &cache).await.is_err() {
                            due.insert(String::new());
                        }
                    }
                    Some(Ok(watcher::Event::Apply(object))) => {
                        due.insert(object.name_any());
                        cache.insert(object.name_any(), object);
                    }
                    Some(Ok(watcher::Event::Delete(object))) => {
                        cache.remove(&object.name_any());
                    }
                    Some(Err(_)) => tokio::time::sleep(Duration::from_secs(1)).await,
                    None => return,
                },
                () = tokio::time::sleep(Duration::from_secs(1)), if !due.is_empty() => {
                    for name in std::mem::take(&mut due) {
                        let failed = match cache.get(&name) {
                            Some(object) => self.reconcile(&api, cloud, object).await.is_err(),
                            None => self.sweep_up(&api, cloud, &cache).await.is_err(),
                        };
                        if failed || !self.compares {
                            due.insert(name);
                        }
                    }
                }
            }
        }
    }
}

impl Scenario for Disks {
    type Outside = Cloud;

    fn name(&self) -> &str {
        "disks"
    }

    fn outside(&self, gate: &Gate, _: &Clock) -> Cloud {
        Cloud { gate: gate.clone(), disks: Mutex::default(), made: Mutex::default() }
    }

    async fn prepare(&self, world: &World<Cloud>) {
        world.server.register(Kind::namespaced("berth.test", "v1", "Widget", "widgets"));
        world.server.put(widget("a")).unwrap();
    }

    async fn process(&self, world: Arc<World<Cloud>>, client: kube::Client) {
        self.run(client, &world.outside).await;
    }

    async fn act(&self, world: &World<Cloud>, step: usize) -> bool {
        match step {
            0 => world.server.put(widget("b")).is_ok(),
            1 => world.server.delete("widgets.berth.test", "default", "a"),
            _ => false,
        }
    }

    fn picture(&self, world: &World<Cloud>) -> Value {
        let owners: Vec<String> = world.outside.all().into_values().collect();
        json!({
            "objects": sweep::picture(&world.server)
                .as_object()
                .unwrap()
                .keys()
                .filter(|k| k.starts_with("widgets"))
                .collect::<Vec<_>>(),
            "owners of disks": owners,
            "disks ever made": *world.outside.made.lock().unwrap(),
        })
    }

    fn invariant(&self, world: &World<Cloud>) -> Result<(), String> {
        for widget in world.server.list("widgets.berth.test", "default") {
            let Some(disk) = widget.pointer("/status/disk").and_then(Value::as_str) else { continue };
            let going = widget.pointer("/metadata/deletionTimestamp").is_some();
            if !going && !world.outside.all().contains_key(disk) {
                return Err(format!("{disk} was taken from {}", widget["metadata"]["name"]));
            }
        }
        Ok(())
    }
}

#[test]
fn a_correct_controller_survives_a_crash_at_every_effect() {
    let report = sweep::crash_sweep(&CORRECT);
    println!("{report}");
    report.assert_passed();
    assert!(report.effects.len() >= 8, "{report}");
    assert_eq!(report.points, report.effects.len() * 3);
}

#[test]
fn a_correct_controller_survives_old_caches() {
    let report = sweep::stale_sweep(&CORRECT);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn a_correct_controller_survives_missed_events() {
    let report = sweep::missed_event_sweep(&CORRECT);
    println!("{report}");
    report.assert_passed();
    assert!(report.points >= 6, "{report}");
}

#[test]
fn a_correct_controller_survives_users_who_act_early() {
    let report = sweep::early_act_sweep(&CORRECT);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn a_correct_controller_survives_random_schedules() {
    let report = sweep::seeds(&CORRECT, 0..200);
    println!("{report}");
    report.assert_passed();
}

#[test]
fn a_controller_that_forgets_what_it_paid_for_is_caught_by_a_crash() {
    let leaky = Disks { token: false, ..CORRECT };
    let report = sweep::crash_sweep(&leaky);
    println!("{report}");
    assert!(report.failures.iter().all(|f| f.point.contains("disk") || f.point.contains("status")), "{report}");
    let between =
        report.failures.iter().filter(|f| f.point.contains("create disk") && !f.point.contains("before the call"));
    assert!(between.count() >= 2, "{report}");
}

#[test]
fn a_controller_that_trusts_its_cache_is_caught_by_an_old_one() {
    let trusting = Disks { live_check: false, ..CORRECT };
    sweep::crash_sweep(&trusting).assert_passed();
    let report = sweep::stale_sweep(&trusting);
    println!("{report}");
    assert!(report.failures.iter().any(|f| f.why.contains("was taken from")), "{report}");
}

#[test]
fn a_controller_that_does_not_heed_a_new_list_is_caught_by_a_missed_event() {
    let deaf = Disks { heeds_relist: false, ..CORRECT };
    sweep::crash_sweep(&deaf).assert_passed();
    let report = sweep::missed_event_sweep(&deaf);
    println!("{report}");
    assert!(!report.passed(), "{report}");
}

#[test]
fn a_controller_that_never_rests_is_caught_without_any_fault() {
    let busy = Disks { compares: false, ..CORRECT };
    let report = sweep::crash_sweep(&busy);
    println!("{report}");
    assert_eq!(report.points, 0);
    assert!(report.failures[0].why.contains("settled"), "{report}");
}

#[test]
fn a_failing_seed_gives_the_same_run_again() {
    let leaky = Disks { token: false, ..CORRECT };
    let report = sweep::schedules(&leaky, 0..60);
    assert!(!report.passed(), "{report}");
    for failing in report.failures.iter().take(3) {
        let seed: u64 = failing.point.strip_prefix("seed ").unwrap().parse().unwrap();
        let again = sweep::schedules(&leaky, seed..seed + 1);
        assert_eq!(again.failures.len(), 1);
        assert_eq!(again.failures[0].why, failing.why);
    }
}
