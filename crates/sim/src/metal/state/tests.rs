use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::metal::host::{Consumer, CustomDeploy, SecretRef};
use crate::metal::script::Script;

const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// A host and its machine, without anybody else in the world.
#[derive(Clone, Debug)]
struct Bench {
    host: Host,
    machine: Machine,
    rules: Rules,
    now: Timestamp,
    /// The data that secrets hold.
    data: Result<Data, String>,
    /// Every state, power and error that was told, in order.
    told: Vec<String>,
}

fn host() -> Host {
    serde_json::from_value(crate::metal::seed::host("infra", "h", &json!({}))).unwrap()
}

impl Bench {
    fn new(host: Host) -> Self {
        let machine = Machine::found(&host, START);
        Self { host, machine, rules: Rules::default(), now: START, data: Ok(Data::default()), told: Vec::new() }
    }

    fn available() -> Self {
        let mut bench = Self::new(host()).settled();
        bench.told.clear();
        bench
    }

    fn scripted(mut self, script: &str) -> Self {
        self.rules.script = Script::read(script).unwrap();
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Host)) -> Self {
        change(&mut self.host);
        self
    }

    fn note(mut self, key: &str, value: &str) -> Self {
        self.host.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// One step; false when there is nothing to do now.
    fn step(&mut self) -> Option<Timestamp> {
        let mut next = next(&self.host, &self.machine, &self.rules, self.now);
        if next == Next::Read {
            next = match &self.data {
                Ok(data) => Next::Turn(deployed(&self.host, &self.machine, data.clone(), self.now)),
                Err(why) => no_data(&self.host, &self.machine, &self.rules, why, self.now),
            };
        }
        match next {
            Next::Rest | Next::Read => return Some(Timestamp::MAX),
            Next::Wait(until) => return Some(until),
            Next::Turn(machine) => self.machine = machine,
            Next::Metadata(change, machine) => {
                self.machine = machine;
                if let Some(finalizers) = change.finalizers {
                    self.host.metadata.finalizers = Some(finalizers);
                }
                self.host.metadata.annotations.get_or_insert_default().retain(|key, _| !change.drop.contains(key));
            }
            Next::Become(status, machine) | Next::Inspected(_, status, machine) => {
                let error = status.error_type.clone().unwrap_or_default();
                let power = if status.powered_on { "on" } else { "off" };
                let told = format!("{} {power} {error}", status.provisioning.state);
                self.told.push(told.trim_end().to_owned());
                self.host.status = Some(*status);
                self.machine = machine;
            }
        }
        None
    }

    /// Until only a change of the host helps; time passes as it must.
    fn settled(mut self) -> Self {
        for _ in 0..400 {
            match self.step() {
                None => {}
                Some(until) if until == Timestamp::MAX => return self,
                Some(until) => {
                    assert!(until > self.now, "a wait that is over already: {self:?}");
                    self.now = until;
                }
            }
        }
        panic!("it never rests: {:?}", self.told);
    }

    /// Until nothing can be done at this moment.
    fn stopped(mut self) -> Self {
        while self.step().is_none() {}
        self
    }

    fn told(&self) -> Vec<&str> {
        self.told.iter().map(String::as_str).collect()
    }

    fn status(&self) -> &Status {
        self.host.status.as_ref().unwrap()
    }
}

fn deploy(host: &mut Host) {
    host.spec.online = true;
    host.spec.image = Some(Image { url: "http://images/a".to_owned(), ..Image::default() });
    host.spec.consumer_ref =
        Some(Consumer { kind: "HostClaim".to_owned(), namespace: "red".to_owned(), ..Consumer::default() });
}

fn release(host: &mut Host) {
    host.spec.image = None;
    host.spec.custom_deploy = None;
    host.spec.online = false;
}

#[test]
fn a_new_host_becomes_available_step_by_step() {
    let bench = Bench::new(host()).settled();
    assert_eq!(bench.told(), ["registering off", "inspecting off", "preparing off", "available off"]);
    assert!(bench.host.held_by(FINALIZER));
    let hardware = bench.status().hardware.clone().unwrap();
    assert_eq!(hardware["hostname"], "h");
    assert_eq!(hardware["nics"][0]["mac"], json!(bench.host.spec.boot_mac));
    assert_eq!(bench.status().operation_history.keys().collect::<Vec<_>>(), ["inspect", "register"]);
}

#[test]
fn the_way_depends_on_what_is_known_of_a_host() {
    let unknown = Bench::new(host().clone()).with(|host| host.spec.bmc = None).settled();
    assert_eq!(unknown.told(), ["unmanaged off"]);
    assert_eq!(unknown.status().operational_status, "discovered");
    let uninspected = Bench::new(host()).with(|h| h.spec.inspection_mode = Some("disabled".to_owned())).settled();
    assert_eq!(uninspected.told(), ["registering off", "preparing off", "available off"]);
    assert_eq!(uninspected.status().hardware, None);
    let foreign = Bench::new(host()).with(|host| host.spec.externally_provisioned = true).settled();
    assert_eq!(foreign.told(), ["registering off", "externally provisioned off"]);
    // Once it is ours again there is nothing that was asked for: it is cleaned.
    let mut ours = foreign.with(|host| host.spec.externally_provisioned = false);
    ours.told.clear();
    assert_eq!(ours.settled().told(), ["provisioned off", "deprovisioning off", "available off"]);
}

#[test]
fn it_deploys_only_what_is_asked_for_and_only_with_power() {
    let dark = Bench::available().with(|host| {
        deploy(host);
        host.spec.online = false;
    });
    assert_eq!(dark.settled().told(), [""; 0]);
    assert_eq!(Bench::available().with(|host| host.spec.online = true).settled().told(), ["available on"]);

    let mut bench = Bench::available().with(deploy);
    bench.data = Ok(Data { user_data: Some("#cloud-config".to_owned()), ..Data::default() });
    let bench = bench.settled();
    assert_eq!(bench.told(), ["provisioning off", "provisioned on"]);
    assert_eq!(bench.status().provisioning.image.url, "http://images/a");
    let disk = bench.machine.disk.clone().unwrap();
    assert!(disk.contains("#cloud-config") && disk.contains("http://images/a"));
    assert_eq!(disk.owner.unwrap().namespace, "red");

    let custom = Bench::available().with(|host| {
        host.spec.online = true;
        host.spec.custom_deploy = Some(CustomDeploy { method: "install".to_owned() });
    });
    let custom = custom.settled();
    assert_eq!(custom.told(), ["provisioning off", "provisioned on"]);
    assert_eq!(custom.machine.disk.clone().unwrap().custom_deploy.unwrap(), "install");
    assert_eq!(custom.with(release).settled().told()[2..], ["deprovisioning on", "available off"]);
}

#[test]
fn what_is_no_longer_asked_for_is_wiped_unless_the_admin_says_otherwise() {
    let deployed = Bench::available().with(deploy).settled();
    let clean = deployed.clone().with(release).settled();
    assert_eq!(clean.told()[2..], ["deprovisioning on", "available off"]);
    assert_eq!((&clean.machine.disk, clean.status().provisioning.image.url.as_str()), (&None, ""));

    let keeping = |host: &mut Host| host.spec.automated_cleaning_mode = Some("disabled".to_owned());
    let kept = deployed.clone().with(keeping).with(release).settled();
    assert!(kept.machine.disk.is_some());
    // What counts is what was asked when cleaning began.
    let mut late = deployed.clone().scripted(r#"{"delayMs": {"deprovisioning": 50}}"#).with(release).stopped();
    assert_eq!(late.host.state(), DEPROVISIONING);
    late = late.with(keeping).settled();
    assert_eq!(late.machine.disk, None);

    let other = deployed.with(|host| host.spec.image.as_mut().unwrap().url.push('b')).settled();
    assert_eq!(other.told()[2..], ["deprovisioning on", "available off", "provisioning off", "provisioned on"]);
}

#[test]
fn a_deployment_that_is_cancelled_before_it_wrote_anything_cleans_nothing() {
    let keeping = |host: &mut Host| host.spec.automated_cleaning_mode = Some("disabled".to_owned());
    let mut dirty = Bench::available().with(deploy).settled().with(keeping).with(release).settled();
    dirty = dirty.with(|host| host.spec.automated_cleaning_mode = None).with(deploy);
    while dirty.host.state() != PROVISIONING {
        assert_eq!(dirty.step(), None);
    }
    let cancelled = dirty.clone().with(release).settled();
    assert_eq!(cancelled.host.state(), AVAILABLE);
    assert!(cancelled.machine.disk.is_some(), "what lay there before still does");
    let undone = dirty.settled().with(release).settled();
    assert_eq!(undone.machine.disk, None, "what was deployed is cleaned away, and all below it");
}

#[test]
fn a_one_shot_reboot_happens_once_and_a_held_one_holds() {
    let running = Bench::available().with(deploy).settled();
    let cycled = running.clone().note(REBOOT, "").settled();
    assert_eq!(cycled.told()[2..], ["provisioned off", "provisioned on"]);
    assert_eq!((cycled.machine.power_offs, cycled.machine.power_ons), (1, 2));
    assert_eq!(cycled.host.note(REBOOT), None);

    let held = running.clone().note("reboot.metal3.io/mine", r#"{"mode": "hard"}"#).settled();
    assert!(!held.machine.power && held.host.note("reboot.metal3.io/mine").is_some());
    let both = held.clone().note(REBOOT, "").settled();
    assert!(!both.machine.power && both.host.note(REBOOT).is_none(), "the one-shot is done, the other still holds");
    let back = held.with(|host| host.metadata.annotations = None).settled();
    assert!(back.machine.power);

    let similar = running.clone().note("reboot.metal3.iox", "").settled();
    assert!(similar.machine.power, "a name that only begins alike");
    let never = running.with(|host| host.spec.disable_power_off = true).note(REBOOT, "").settled();
    assert_eq!((never.machine.power, never.machine.power_offs, never.host.note(REBOOT)), (true, 1, None));
}

#[test]
fn a_host_without_a_system_is_rebooted_by_force_only() {
    let idle = Bench::available().with(|host| host.spec.online = true).settled();
    assert!(idle.clone().note("reboot.metal3.io/k", r#"{"mode": "hard"}"#).settled().machine.power);
    assert!(!idle.note("reboot.metal3.io/k", r#"{"force": true}"#).settled().machine.power);
}

#[test]
fn reboots_that_wait_are_forgotten_by_a_deployment() {
    let bench = Bench::available().note(REBOOT, "").note("reboot.metal3.io/k", "").with(deploy).settled();
    assert_eq!(bench.told(), ["provisioning off", "provisioned on"]);
    assert_eq!(bench.host.metadata.annotations.unwrap().len(), 0);
}

#[test]
fn a_paused_host_is_left_alone_and_a_detached_one_does_not_progress() {
    let paused = Bench::new(host()).note(PAUSED, "").settled();
    assert!(paused.told.is_empty() && !paused.host.held_by(FINALIZER));
    assert!(Bench::available().note(PAUSED, "x").with(deploy).settled().told.is_empty());

    let detached = Bench::available().with(deploy).settled().note(DETACHED, "").with(release).settled();
    assert_eq!((detached.host.state(), detached.status().operational_status.as_str()), (PROVISIONED, "detached"));
    assert!(detached.machine.disk.is_some() && detached.machine.power);
    let back = detached.with(|host| host.metadata.annotations = None).settled();
    assert_eq!((back.host.state(), back.status().operational_status.as_str()), (AVAILABLE, "OK"));

    let busy = || Bench::available().scripted(r#"{"delayMs": {"provisioning": 50}}"#).with(deploy).stopped();
    assert_eq!(busy().note(DETACHED, "{}").settled().host.state(), PROVISIONED, "what was begun is finished");
    assert_eq!(busy().note(DETACHED, r#"{"force": true}"#).settled().host.state(), PROVISIONING);
}

#[test]
fn a_deleted_host_is_wiped_and_switched_off_first() {
    let gone = |host: &mut Host| {
        host.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(START));
    };
    let deployed = Bench::available().with(deploy).settled();
    let bench = deployed.clone().with(gone).settled();
    assert_eq!(bench.told()[2..], ["deprovisioning on", "powering off before delete off", "deleting off"]);
    assert!(!bench.host.held_by(FINALIZER) && bench.machine.disk.is_none() && !bench.machine.power);

    let fresh = Bench::available().with(gone).settled();
    assert_eq!(fresh.told(), ["powering off before delete off", "deleting off"]);
    let detached = deployed.clone().note(DETACHED, "").settled().with(gone).settled();
    assert_eq!(detached.told()[2..], ["provisioned on", "deleting on"], "as it is");
    assert!(detached.machine.disk.is_some());
    let delayed = deployed.clone().note(DETACHED, r#"{"deleteAction": "delay"}"#).settled().with(gone).settled();
    assert!(delayed.host.held_by(FINALIZER));
    let stuck = deployed.scripted(r#"{"fail": [{"state": "deprovisioning", "times": 99}]}"#).with(gone).settled();
    assert!(!stuck.host.held_by(FINALIZER), "cleaning is given up");
    assert!(Bench::new(host()).with(gone).settled().told.is_empty(), "nobody holds it");
}

#[test]
fn failures_are_told_by_class_and_tried_again() {
    let script = r#"{"fail": [{"state": "registering", "times": 2}, {"state": "inspecting"}, {"state": "preparing",
        "error": "servicing error"}]}"#;
    let bench = Bench::new(host()).scripted(script).settled();
    assert_eq!(
        bench.told(),
        [
            "registering off",
            "registering off registration error",
            "registering off registration error",
            "inspecting off",
            "inspecting off inspection error",
            "preparing off",
            "preparing off servicing error",
            "available off",
        ]
    );
    assert_eq!((bench.status().error_count, bench.status().operational_status.as_str()), (0, "OK"));
    // One second, then two, then one, then one.
    assert_eq!(bench.now.duration_since(START), SignedDuration::from_secs(5));
}

#[test]
fn a_failed_deployment_is_undone_and_counted() {
    let script = r#"{"fail": [{"state": "provisioning", "times": 2}], "retryMs": 10}"#;
    let bench = Bench::available().scripted(script).with(deploy);
    let mut counts = Vec::new();
    let mut step = bench.clone();
    for _ in 0..100 {
        if let Some(until) = step.step().filter(|until| *until < Timestamp::MAX) {
            step.now = until;
        }
        counts.push(step.host.status.as_ref().map_or(0, |status| status.provisioning_fail_count));
    }
    counts.dedup();
    assert_eq!(counts, [0, 1, 2, 0]);
    let once = ["provisioning off", "provisioning off provisioning error", "deprovisioning off", "available off"];
    let told = bench.settled();
    assert_eq!(told.told(), [&once[..], &once[..], &["provisioning off", "provisioned on"]].concat());
}

#[test]
fn a_missing_secret_is_a_provisioning_error_until_it_is_there() {
    let mut bench = Bench::available().with(deploy);
    bench.host.spec.user_data = Some(SecretRef { name: "s".to_owned(), ..SecretRef::default() });
    bench.data = Err("secret infra/s for userData not found".to_owned());
    bench = bench.stopped();
    assert_eq!(bench.told(), ["provisioning off", "provisioning off provisioning error"]);
    assert!(bench.status().error_message.contains("infra/s"));
    assert_eq!(bench.machine.disk, None);
    for _ in 0..3 {
        bench.now = bench.step().unwrap();
        bench = bench.stopped();
    }
    assert_eq!(bench.status().error_count, 4);
    bench.data = Ok(Data::default());
    let bench = bench.settled();
    assert_eq!(bench.told()[5..], ["provisioning off", "provisioned on"]);
    assert_eq!((bench.status().error_count, bench.status().provisioning_fail_count), (0, 0));
    assert_eq!(bench.status().error_message, "");
}

#[test]
fn a_switch_that_sticks_is_pressed_again() {
    let script = r#"{"fail": [{"state": "power", "times": 2}], "delayMs": {"power": 100}, "retryMs": 10}"#;
    let bench = Bench::available().scripted(script).with(|host| host.spec.online = true).settled();
    let error = "available off power management error";
    assert_eq!(bench.told(), [error, error, "available on"]);
    assert_eq!(bench.now.duration_since(START), SignedDuration::from_millis(120));
}

#[test]
fn a_status_can_be_rewritten_for_nothing() {
    let mut bench = Bench::available().scripted(r#"{"statusEveryMs": 200}"#);
    let mut times = std::collections::BTreeSet::new();
    for _ in 0..20 {
        if let Some(until) = bench.step() {
            assert!(until <= after(bench.now, Duration::from_millis(200)));
            bench.now = until;
        }
        times.insert(bench.status().last_updated.clone());
    }
    assert_eq!((times.len(), bench.machine.rewrites), (10, 10));
    assert!(Bench::available().scripted(r#"{"statusEveryMs": 200}"#).note(PAUSED, "").settled().told.is_empty());
}

#[test]
fn a_moved_host_brings_its_status_with_it() {
    let there = Bench::available().with(deploy).settled();
    let copy = serde_json::to_string(there.status()).unwrap();
    let mut moved = Host { status: None, ..there.host.clone() };
    moved.metadata.annotations.get_or_insert_default().insert(STATUS.to_owned(), copy);
    let here = Bench::new(moved).settled();
    assert_eq!(here.told(), ["provisioned on"]);
    assert_eq!(here.host.note(STATUS), None);
    assert!(here.told.iter().all(|told| !told.contains("provisioning")), "nothing is deployed again");
    let stale = there.note(STATUS, "{}").settled();
    assert_eq!((stale.host.note(STATUS), stale.host.state()), (None, PROVISIONED), "a copy never wins over a status");
}

#[test]
fn a_failing_machine_says_so() {
    let bench = Bench::new(host()).scripted(r#"{"health": "CriticalError"}"#).settled();
    let healthy = bench.status().conditions.iter().find(|condition| condition.kind == "Healthy").unwrap();
    assert_eq!((healthy.status.as_str(), healthy.reason.as_str()), ("False", "CriticalError"));
}

fn any_host() -> impl Strategy<Value = (Host, Script)> {
    let states = [
        "",
        UNMANAGED,
        REGISTERING,
        INSPECTING,
        PREPARING,
        AVAILABLE,
        READY,
        MATCH_PROFILE,
        PROVISIONING,
        PROVISIONED,
        EXTERNALLY_PROVISIONED,
        DEPROVISIONING,
        POWERING_OFF,
        DELETING,
    ];
    let notes = proptest::sample::subsequence(
        vec![
            (REBOOT, ""),
            (REBOOT, "{"),
            ("reboot.metal3.io/k", r#"{"force": true}"#),
            (DETACHED, ""),
            (DETACHED, r#"{"force": true, "deleteAction": "delay"}"#),
            (PAUSED, ""),
            (STATUS, "{}"),
            (STATUS, "x"),
        ],
        0..4,
    );
    let fails = proptest::collection::vec((proptest::sample::select(WORKING[..6].to_vec()), 0..3_u32), 0..3);
    let flags = any::<[bool; 8]>();
    (proptest::sample::select(states.to_vec()), notes, fails, flags, 0..4_i64).prop_map(
        |(state, notes, fails, [online, image, custom, foreign, keeps, deleting, on, fixed], errors)| {
            let mut host = host();
            // Only a host that is to go is ever there.
            let deleting = deleting || [POWERING_OFF, DELETING].contains(&state);
            host.metadata.annotations = Some(notes.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect());
            host.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
            host.metadata.deletion_timestamp =
                deleting.then_some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(START));
            host.spec.online = online;
            host.spec.image = image.then(|| Image { url: "http://a".to_owned(), ..Image::default() });
            host.spec.custom_deploy = custom.then(|| CustomDeploy { method: "m".to_owned() });
            host.spec.externally_provisioned = foreign;
            host.spec.disable_power_off = fixed;
            host.spec.automated_cleaning_mode = keeps.then(|| "disabled".to_owned());
            let mut status = Status { powered_on: on, error_count: errors, ..Status::default() };
            state.clone_into(&mut status.provisioning.state);
            if state == PROVISIONED {
                status.provisioning.image.url = "http://b".to_owned();
            }
            host.status = Some(status);
            let fail = fails.into_iter().map(|(state, times)| crate::metal::script::Failure {
                state: state.to_owned(),
                error: None,
                times,
            });
            (host, Script { fail: fail.collect(), ..Script::default() })
        },
    )
}

proptest! {
    /// Whatever a host looks like: it comes to rest, stays there, and ends where it was asked to.
    #[test]
    fn every_host_comes_to_rest_where_it_was_asked_to((host, script) in any_host()) {
        let mut bench = Bench::new(host);
        bench.rules.script = script;
        let bench = bench.settled();
        prop_assert_eq!(bench.clone().settled().told.len(), bench.told.len());
        let status = bench.status();
        if bench.host.note(PAUSED).is_some() {
            prop_assert!(bench.told.is_empty());
            return Ok(());
        }
        if status.operational_status == "detached" {
            return Ok(());
        }
        if bench.host.deleting() {
            prop_assert!(!bench.host.held_by(FINALIZER));
            return Ok(());
        }
        let spec = &bench.host.spec;
        prop_assert_eq!(status.powered_on, bench.machine.power);
        prop_assert!(status.error_type.is_none(), "{:?}", status);
        let asked = spec.image.is_some() || spec.custom_deploy.is_some();
        match bench.host.state() {
            UNMANAGED => prop_assert!(spec.bmc.is_none()),
            EXTERNALLY_PROVISIONED => prop_assert!(spec.externally_provisioned),
            PROVISIONED => {
                prop_assert!(asked || spec.externally_provisioned);
                let wanted = spec.image.as_ref().map_or("", |image| image.url.as_str());
                prop_assert!(wanted.is_empty() || status.provisioning.image.url == wanted
                    || status.provisioning.image.url.is_empty() || spec.custom_deploy.is_some());
            }
            AVAILABLE | READY => {
                prop_assert!(!(asked && spec.online));
                prop_assert_eq!(status.provisioning.image.url.as_str(), "");
            }
            other => prop_assert!(false, "it rests in {}", other),
        }
    }

    /// A deployment never begins without power, an image or a way to deploy.
    #[test]
    fn no_deployment_without_being_asked((host, script) in any_host()) {
        let asked = host.spec.online && (host.spec.image.is_some() || host.spec.custom_deploy.is_some());
        let begun = host.state() == PROVISIONING;
        let mut bench = Bench::new(host);
        bench.rules.script = script;
        let bench = bench.settled();
        prop_assert!(asked || begun || !bench.told.iter().any(|told| told.starts_with("provisioning")));
    }
}
