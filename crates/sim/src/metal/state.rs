//! The life of a host as a pure function: host, machine and moment in, the next small thing to do out.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::host::{Host, Image, Span, Status};
use super::machine::{Disk, Machine};
use super::script::{POWER, Script};
use super::{DETACHED, FINALIZER, PAUSED, REBOOT, STATUS, conditions, hardware};

/// Its management controller is unknown.
pub const UNMANAGED: &str = "unmanaged";
/// Its management controller is being asked.
pub const REGISTERING: &str = "registering";
/// Its hardware is being looked at.
pub const INSPECTING: &str = "inspecting";
/// Its settings are being made.
pub const PREPARING: &str = "preparing";
/// It can be used.
pub const AVAILABLE: &str = "available";
/// The old word for [`AVAILABLE`].
pub const READY: &str = "ready";
/// The old step after inspection.
pub const MATCH_PROFILE: &str = "match profile";
/// An image is being written.
pub const PROVISIONING: &str = "provisioning";
/// An image was written.
pub const PROVISIONED: &str = "provisioned";
/// Somebody else put the system on it.
pub const EXTERNALLY_PROVISIONED: &str = "externally provisioned";
/// The image is being removed.
pub const DEPROVISIONING: &str = "deprovisioning";
/// It is being switched off before it goes.
pub const POWERING_OFF: &str = "powering off before delete";
/// It goes.
pub const DELETING: &str = "deleting";

/// The states in which something is done that takes time and can fail.
pub const WORKING: [&str; 7] =
    [REGISTERING, INSPECTING, PREPARING, PROVISIONING, DEPROVISIONING, POWERING_OFF, DELETING];

/// The first pause after a failure, unless the script says otherwise; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// As often as the operator, cleaning is given up for a host that is to go.
const GIVE_UP: i64 = 3;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing, until the host changes.
    Rest,
    /// Nothing before this moment, unless the host changes.
    Wait(Timestamp),
    /// Something happens to the machine that nobody is told of.
    Turn(Machine),
    /// Finalizers or annotations are to be changed.
    Metadata(Metadata, Machine),
    /// The status is to be written; when that succeeds, the machine has become this.
    Become(Box<Status>, Machine),
    /// What was found is to be stored as HardwareData, and then as this status.
    Inspected(Value, Box<Status>, Machine),
    /// The data secrets are to be read; [`deployed`] or [`no_data`] says how it goes on.
    Read,
}

/// A change of metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The finalizers it has from now on.
    pub finalizers: Option<Vec<String>>,
    /// Annotations to remove.
    pub drop: Vec<String>,
}

/// How steps go: what the host's own script says, and how long steps take that it says nothing of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The host's own script.
    pub script: Script,
    /// How long every other working state takes.
    pub delay: Duration,
}

/// What a deployment puts on the disk besides the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// User data.
    pub user_data: Option<String>,
    /// Network data.
    pub network_data: Option<String>,
    /// Meta data.
    pub meta_data: Option<String>,
}

/// What is to be done next for a host.
#[must_use]
pub fn next(host: &Host, machine: &Machine, rules: &Rules, now: Timestamp) -> Next {
    let step = Step { host, machine, rules, now };
    let next = step.next();
    let pause = match (&next, rules.script.status_every_ms) {
        (Next::Rest | Next::Wait(_), Some(ms)) if host.note(PAUSED).is_none() => Duration::from_millis(ms),
        _ => return next,
    };
    // A status that is written for its own sake: what makes other writers' versions old.
    let due = machine.beat.map_or(now, |beat| after(beat, pause));
    if due > now {
        return match next {
            Next::Wait(at) if at < due => next,
            _ => Next::Wait(due),
        };
    }
    let Some(status) = host.status.clone() else { return next };
    let rewrites = machine.rewrites + 1;
    Next::Become(step.told(status), Machine { beat: Some(now), rewrites, ..machine.clone() })
}

/// The data has been read: the disk is written.
#[must_use]
pub fn deployed(host: &Host, machine: &Machine, data: Data, now: Timestamp) -> Machine {
    let disk = Disk {
        image: host.image().cloned(),
        custom_deploy: host.custom_deploy().map(|deploy| deploy.method.clone()),
        user_data: data.user_data,
        network_data: data.network_data,
        meta_data: data.meta_data,
        owner: host.spec.consumer_ref.clone(),
    };
    Machine { disk: Some(disk), written: true, since: now, ..machine.clone() }
}

/// The data is not there: the deployment has failed, and is tried again in its place.
#[must_use]
pub fn no_data(host: &Host, machine: &Machine, rules: &Rules, why: &str, now: Timestamp) -> Next {
    let step = Step { host, machine, rules, now };
    step.fail(step.status(), "provisioning error", why)
}

/// Whether deprovisioning begun now would wipe the disk.
#[must_use]
pub fn wipes(host: &Host) -> bool {
    host.spec.automated_cleaning_mode.as_deref() != Some("disabled")
}

fn after(moment: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| moment.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

/// A moment as objects carry it.
pub(super) fn stamp(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

struct Step<'a> {
    host: &'a Host,
    machine: &'a Machine,
    rules: &'a Rules,
    now: Timestamp,
}

impl Step<'_> {
    fn next(&self) -> Next {
        let host = self.host;
        if host.note(PAUSED).is_some() {
            return Next::Rest;
        }
        if let Some(copy) = host.note(STATUS) {
            return self.moved(copy);
        }
        if host.deleting() {
            if !host.held_by(FINALIZER) {
                return Next::Rest;
            }
            if let Some(next) = self.go() {
                return next;
            }
        } else if !host.held_by(FINALIZER) {
            let finalizers = host.metadata.finalizers.iter().flatten().cloned().chain([FINALIZER.to_owned()]).collect();
            return self.metadata(Metadata { finalizers: Some(finalizers), drop: Vec::new() });
        }
        if let Some(next) = self.detached() {
            return next;
        }
        match host.state() {
            "" | UNMANAGED => self.begin(),
            REGISTERING => self.work(REGISTERING, |step, status| {
                let next = match () {
                    () if step.host.spec.externally_provisioned => EXTERNALLY_PROVISIONED,
                    () if step.uninspected() => PREPARING,
                    () => INSPECTING,
                };
                step.enter(status, next)
            }),
            INSPECTING => self.work(INSPECTING, |step, mut status| {
                let found = hardware::of(step.host);
                status.hardware = Some(found.clone());
                match step.enter(status, PREPARING) {
                    Next::Become(status, machine) => Next::Inspected(found, status, machine),
                    other => other,
                }
            }),
            MATCH_PROFILE => self.enter(self.status(), PREPARING),
            PREPARING => self.work(PREPARING, |step, status| step.enter(status, AVAILABLE)),
            AVAILABLE | READY => self.available(),
            PROVISIONING => self.provisioning(),
            PROVISIONED => match self.cancelled() {
                true => self.enter(self.status(), DEPROVISIONING),
                false => self.steady(true),
            },
            EXTERNALLY_PROVISIONED => self.externally_provisioned(),
            DEPROVISIONING => self.work(DEPROVISIONING, Step::clean),
            POWERING_OFF => self.work(POWERING_OFF, |step, mut status| {
                status.powered_on = false;
                let mut machine = step.machine.clone();
                machine.power_offs += u32::from(machine.power);
                machine.power = false;
                step.enter_with(status, machine, DELETING)
            }),
            DELETING => self.work(DELETING, |step, _| {
                let held = step.host.metadata.finalizers.iter().flatten();
                let finalizers = held.filter(|held| *held != FINALIZER).cloned().collect();
                step.metadata(Metadata { finalizers: Some(finalizers), drop: Vec::new() })
            }),
            // A state that only a newer operator knows.
            _ => Next::Rest,
        }
    }

    fn status(&self) -> Status {
        self.host.status.clone().unwrap_or_default()
    }

    fn metadata(&self, change: Metadata) -> Next {
        Next::Metadata(change, self.machine.clone())
    }

    /// The status as it is written: with its time and its conditions.
    fn told(&self, mut status: Status) -> Box<Status> {
        status.last_updated = Some(self.now.to_string());
        status.conditions = conditions::of(&status, self.rules.script.health.as_deref(), self.now);
        Box::new(status)
    }

    fn write(&self, status: Status, machine: Machine) -> Next {
        Next::Become(self.told(status), machine)
    }

    fn enter(&self, status: Status, state: &str) -> Next {
        self.enter_with(status, self.machine.clone(), state)
    }

    /// Goes to another state: what happened before is over, errors included.
    fn enter_with(&self, mut status: Status, mut machine: Machine, state: &str) -> Next {
        if let Some(span) = operation(&status.provisioning.state) {
            let span = status.operation_history.entry(span.to_owned()).or_default();
            span.end = Some(stamp(self.now));
        }
        if let Some(name) = operation(state) {
            let span = Span { start: Some(stamp(self.now)), end: None };
            status.operation_history.insert(name.to_owned(), span);
        }
        // A failed deployment is undone and tried again; the failures are counted until one succeeds.
        let undone = status.provisioning.state == PROVISIONING && state == DEPROVISIONING;
        if !undone && status.provisioning_fail_count == 0 || state == PROVISIONED {
            status.error_count = 0;
        }
        if state == PROVISIONED {
            status.provisioning_fail_count = 0;
        }
        status.error_type = None;
        status.error_message.clear();
        status.operational_status = if state == UNMANAGED { "discovered" } else { "OK" }.to_owned();
        status.provisioning.state = state.to_owned();
        machine.since = self.now;
        machine.pressed = None;
        match state {
            PROVISIONING => (machine.written, machine.spoilt) = (false, false),
            // A node that was never written is not cleaned either: what lay on its disk before still does.
            DEPROVISIONING => machine.wipes = wipes(self.host) && (!undone || machine.written),
            _ => {}
        }
        self.write(status, machine)
    }

    /// Does what a state is for once its time has come, or fails as the script says.
    fn work(&self, state: &str, done: impl FnOnce(&Self, Status) -> Next) -> Next {
        let status = self.status();
        let pause = match status.error_type {
            Some(_) => self.pause(status.error_count),
            None => self.rules.script.delay(state).unwrap_or(self.rules.delay),
        };
        let due = after(self.machine.since, pause);
        if self.now < due {
            return Next::Wait(due);
        }
        let times = self.machine.failed.get(state).copied().unwrap_or_default();
        if let Some(class) = self.rules.script.fails(state, times) {
            let give_up = matches!(state, DEPROVISIONING | POWERING_OFF) && status.error_count >= GIVE_UP;
            if !(self.host.deleting() && give_up) {
                return self.failed(state, status, class);
            }
        }
        done(self, status)
    }

    fn failed(&self, step: &str, status: Status, class: &str) -> Next {
        let why =
            format!("the simulator was told to fail at {step}; the management controller is redfish://192.0.2.7/1");
        match self.fail(status, class, &why) {
            Next::Become(status, mut machine) => {
                machine.spoilt = machine.written && step == PROVISIONING;
                *machine.failed.entry(step.to_owned()).or_default() += 1;
                Next::Become(status, machine)
            }
            other => other,
        }
    }

    fn fail(&self, mut status: Status, class: &str, why: &str) -> Next {
        status.error_count += 1;
        if status.provisioning.state == PROVISIONING {
            status.provisioning_fail_count += 1;
        }
        status.error_type = Some(class.to_owned());
        why.clone_into(&mut status.error_message);
        "error".clone_into(&mut status.operational_status);
        self.write(status, Machine { since: self.now, pressed: None, ..self.machine.clone() })
    }

    fn pause(&self, failures: i64) -> Duration {
        if let Some(ms) = self.rules.script.retry_ms {
            return Duration::from_millis(ms);
        }
        let doublings = u32::try_from(failures.clamp(1, 16) - 1).unwrap_or_default();
        FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE)
    }

    /// A host that came from another cluster brings its status with it.
    fn moved(&self, copy: &str) -> Next {
        let brought = serde_json::from_str::<Status>(copy).ok().filter(|_| self.host.status.is_none());
        match brought {
            Some(status) => self.write(status, self.machine.clone()),
            None => self.metadata(Metadata { finalizers: None, drop: vec![STATUS.to_owned()] }),
        }
    }

    /// The first look at a host.
    fn begin(&self) -> Next {
        let mut status = self.status();
        status.provisioning.id = hardware::id(self.host);
        status.provisioning.boot_mode = Some("UEFI".to_owned());
        status.powered_on = self.machine.power;
        match (&self.host.spec.bmc, self.host.state()) {
            (Some(_), _) => self.enter(status, REGISTERING),
            (None, UNMANAGED) => Next::Rest,
            (None, _) => self.enter(status, UNMANAGED),
        }
    }

    /// Leads a host that is to go to its end; `None` when its state must be finished first.
    fn go(&self) -> Option<Next> {
        let status = self.status();
        let state = self.host.state();
        if state != DELETING && status.operational_status == "detached" {
            return (!self.detachment("deleteAction").is_some_and(|action| action == "delay"))
                .then(|| self.enter(status, DELETING));
        }
        match state {
            DEPROVISIONING | POWERING_OFF | DELETING => None,
            "" | UNMANAGED | REGISTERING => Some(self.enter(status, DELETING)),
            PROVISIONING | PROVISIONED => Some(self.enter(status, DEPROVISIONING)),
            _ => Some(self.enter(status, POWERING_OFF)),
        }
    }

    fn detachment(&self, field: &str) -> Option<Value> {
        serde_json::from_str::<Value>(self.host.note(DETACHED)?).ok()?.get(field).cloned()
    }

    fn detached(&self) -> Option<Next> {
        let mut status = self.status();
        let shown = status.operational_status == "detached";
        if self.host.note(DETACHED).is_some() {
            let settled = matches!(self.host.state(), PROVISIONED | EXTERNALLY_PROVISIONED | READY | AVAILABLE);
            let forced = self.detachment("force") == Some(Value::Bool(true));
            if shown {
                return Some(Next::Rest);
            }
            if self.host.state() == DELETING || !(settled || forced) {
                return None;
            }
            "detached".clone_into(&mut status.operational_status);
            return Some(self.write(status, self.machine.clone()));
        }
        if shown {
            let word = if status.error_type.is_some() { "error" } else { "OK" };
            word.clone_into(&mut status.operational_status);
            return Some(self.write(status, self.machine.clone()));
        }
        None
    }

    fn uninspected(&self) -> bool {
        self.host.spec.inspection_mode.as_deref() == Some("disabled")
            || self.host.note("inspect.metal3.io") == Some("disabled")
    }

    fn wanted(&self) -> bool {
        self.host.spec.online && (self.host.image().is_some() || self.host.custom_deploy().is_some())
    }

    fn available(&self) -> Next {
        if self.host.spec.externally_provisioned {
            return self.enter(self.status(), EXTERNALLY_PROVISIONED);
        }
        if self.wanted() {
            return self.enter(self.status(), PROVISIONING);
        }
        self.steady(false)
    }

    /// Whether what is deployed, or being deployed, is no longer asked for.
    fn cancelled(&self) -> bool {
        let status = self.status();
        let there = status.provisioning.image.url.as_str();
        let image = self.host.image().map(|image| image.url.as_str());
        let method = status.provisioning.custom_deploy.as_ref().map(|deploy| deploy.method.as_str());
        match (self.host.custom_deploy(), method) {
            (Some(wanted), Some(method)) if wanted.method != method => true,
            (Some(_), _) => !there.is_empty() && image != Some(there),
            (None, Some(_)) => true,
            (None, None) => image.is_none_or(|image| !there.is_empty() && image != there),
        }
    }

    fn provisioning(&self) -> Next {
        let status = self.status();
        if self.cancelled() {
            return self.enter(status, DEPROVISIONING);
        }
        if status.error_type.is_some() {
            let due = after(self.machine.since, self.pause(status.error_count));
            return match () {
                // The data is there at last.
                () if self.machine.written && !self.machine.spoilt => self.healthy(status),
                () if self.now < due => Next::Wait(due),
                () if self.machine.spoilt => self.enter(status, DEPROVISIONING),
                () => Next::Read,
            };
        }
        if !self.machine.written {
            return Next::Read;
        }
        self.work(PROVISIONING, |step, mut status| {
            let reboots: Vec<String> = step.reboots().map(str::to_owned).collect();
            if !reboots.is_empty() {
                return step.metadata(Metadata { finalizers: None, drop: reboots });
            }
            let disk = step.machine.disk.clone().unwrap_or_default();
            status.provisioning.image = disk.image.unwrap_or_default();
            status.provisioning.custom_deploy = step.host.custom_deploy().cloned();
            status.powered_on = true;
            let mut machine = step.machine.clone();
            machine.power_ons += u32::from(!machine.power);
            machine.power = true;
            step.enter_with(status, machine, PROVISIONED)
        })
    }

    fn healthy(&self, mut status: Status) -> Next {
        status.error_type = None;
        status.error_message.clear();
        "OK".clone_into(&mut status.operational_status);
        self.write(status, self.machine.clone())
    }

    fn clean(&self, mut status: Status) -> Next {
        let mut machine = self.machine.clone();
        // The disk is clean before anybody can read that the host is free.
        if machine.wipes && machine.disk.take().is_some() {
            return Next::Turn(machine);
        }
        status.provisioning.image = Image::default();
        status.provisioning.custom_deploy = None;
        if !self.host.spec.disable_power_off {
            machine.power_offs += u32::from(machine.power);
            machine.power = false;
        }
        status.powered_on = machine.power;
        self.enter_with(status, machine, if self.host.deleting() { POWERING_OFF } else { AVAILABLE })
    }

    fn externally_provisioned(&self) -> Next {
        if self.host.spec.externally_provisioned {
            return self.steady(true);
        }
        let mut status = self.status();
        status.provisioning.image = self.host.image().cloned().unwrap_or_default();
        status.provisioning.custom_deploy = self.host.custom_deploy().cloned();
        self.enter(status, PROVISIONED)
    }

    /// The reboot annotations, with and without a key.
    fn reboots(&self) -> impl Iterator<Item = &str> {
        let notes = self.host.metadata.annotations.iter().flatten().map(|(key, _)| key.as_str());
        notes.filter(|key| *key == REBOOT || key.strip_prefix(REBOOT).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Whether a reboot annotation counts: a host without a system is switched off by force only.
    fn heeded(&self, key: &str, provisioned: bool) -> bool {
        let value = self.host.note(key).unwrap_or_default();
        let forced = || serde_json::from_str::<Value>(value).ok()?.get("force")?.as_bool();
        provisioned || forced() == Some(true)
    }

    /// Nothing is to be done but to keep power as it is asked for.
    fn steady(&self, provisioned: bool) -> Next {
        let mut status = self.status();
        let one_shot = self.host.note(REBOOT).is_some();
        if one_shot && !self.machine.power {
            return self.metadata(Metadata { finalizers: None, drop: vec![REBOOT.to_owned()] });
        }
        let reboot = self.reboots().any(|key| self.heeded(key, provisioned));
        let mut machine = self.machine.clone();
        if self.host.spec.disable_power_off && one_shot && self.heeded(REBOOT, provisioned) {
            machine.power_offs += 1;
            machine.power_ons += 1;
            return Next::Metadata(Metadata { finalizers: None, drop: vec![REBOOT.to_owned()] }, machine);
        }
        let on = match self.host.spec.disable_power_off {
            true => self.machine.power || self.host.spec.online,
            false => self.host.spec.online && !reboot,
        };
        if on == self.machine.power {
            if status.powered_on == on && status.error_type.is_none() {
                return Next::Rest;
            }
            status.powered_on = on;
            return self.recovered(status, machine);
        }
        let pause = match status.error_type {
            Some(_) => self.pause(status.error_count),
            None => self.rules.script.delay(POWER).unwrap_or_default(),
        };
        let Some(pressed) = self.machine.pressed else {
            return Next::Turn(Machine { pressed: Some(self.now), ..machine });
        };
        if self.now < after(pressed, pause) {
            return Next::Wait(after(pressed, pause));
        }
        let times = self.machine.failed.get(POWER).copied().unwrap_or_default();
        if let Some(class) = self.rules.script.fails(POWER, times) {
            return self.failed(POWER, status, class);
        }
        machine.power = on;
        machine.pressed = None;
        match on {
            true => machine.power_ons += 1,
            false => machine.power_offs += 1,
        }
        status.powered_on = on;
        self.recovered(status, machine)
    }

    fn recovered(&self, mut status: Status, machine: Machine) -> Next {
        status.error_type = None;
        status.error_message.clear();
        status.error_count = 0;
        "OK".clone_into(&mut status.operational_status);
        self.write(status, machine)
    }
}

/// The name under which the history keeps the operation of a state.
fn operation(state: &str) -> Option<&'static str> {
    match state {
        REGISTERING => Some("register"),
        INSPECTING => Some("inspect"),
        PROVISIONING => Some("provision"),
        DEPROVISIONING => Some("deprovision"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
