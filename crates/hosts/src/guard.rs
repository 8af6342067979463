//! What must hold of any plan, whoever thought it up: the rules that keep hosts from being lost, doubled, or taken from
//! others.

use api::names::HostId;
use kit::room::Violation;

use crate::decide::{CONSISTENT, Gate, Step, gate, is_in_use, launch_is_settled};
use crate::journal::{Allocation, Phase, legal};
use crate::own::is_retained;
use crate::request;
use crate::snapshot::{Snapshot, is_alive};

/// Looks at a plan.
///
/// # Errors
/// The rule it breaks.
pub fn guard(s: &Snapshot, plan: &[Step]) -> Result<(), Violation> {
    let broken = |rule: String| Err(Violation::new(rule));
    let touches = |step: &Step| step.doing().is_some();
    let idle = matches!(gate(s), Gate::Paused(_) | Gate::Ignored | Gate::Unowned | Gate::Waiting(_));
    if idle && plan.iter().any(|step| !waits(step)) {
        return broken("a machine that is not ours to work on is left alone".to_owned());
    }
    if s.machine.journal.is_err() && plan.iter().any(|step| touches(step) || *step == Step::Conclude) {
        return broken("nothing is done while the journal makes no sense".to_owned());
    }
    if plan.iter().any(touches) && !s.machine.has_finalizer() {
        return broken("the finalizer comes before the first request that changes EC2".to_owned());
    }
    let stored = plan.iter().filter(|step| stores(step)).count();
    let asked =
        plan.iter().any(|step| matches!(step, Step::Allocate { .. } | Step::Launch { .. } | Step::Release { .. }));
    if stored > 1 || (stored == 1 && asked) {
        return broken("a journal is stored in one pass and acted on in a later one".to_owned());
    }
    plan.iter().try_for_each(|step| one(s, step))
}

fn waits(step: &Step) -> bool {
    matches!(step, Step::Wait { .. })
}

fn stores(step: &Step) -> bool {
    matches!(
        step,
        Step::Record { .. }
            | Step::RecordLaunch { .. }
            | Step::Secure { .. }
            | Step::Publish { .. }
            | Step::Reboot { .. }
            | Step::Conclude
    )
}

fn one(s: &Snapshot, step: &Step) -> Result<(), Violation> {
    let journal = s.journal();
    let broken = |rule: String| Err(Violation::new(rule));
    match step {
        Step::Record { allocation } => {
            if let Err(illegal) = legal(journal.allocation.as_ref(), allocation) {
                return broken(illegal.to_string());
            }
            match &journal.allocation {
                Some(before) if before.epoch != allocation.epoch => {
                    taken(s, allocation).and_then(|()| ended(s, before, allocation))
                }
                Some(before) => ended(s, before, allocation),
                None => begun(s, allocation),
            }
        }
        Step::Allocate { allocation } => {
            if s.machine.deleting {
                return broken("no host is asked for while the machine is being deleted".to_owned());
            }
            if journal.allocation.as_ref() != Some(&**allocation) || allocation.phase != Phase::Intended {
                return broken("hosts are asked for only as the stored journal intends".to_owned());
            }
            let request = request::allocate(allocation);
            if request.token != allocation.token || request.zone != allocation.terms.zone {
                return broken("a token stands for one request in one zone".to_owned());
            }
            Ok(())
        }
        Step::RecordLaunch { launch } => {
            let Some(before) = &journal.launch else { return Ok(()) };
            let same = before.token == launch.token && before.host == launch.host && before.subnet == launch.subnet;
            let next = launch.epoch == before.epoch.saturating_add(1) && launch.token != before.token;
            if before.id != launch.id || !(same || next) {
                return broken("a token stands for one launch in one place".to_owned());
            }
            if next && !launch_is_settled(s, before) {
                return broken("another launch begins when nothing can come of the last one".to_owned());
            }
            Ok(())
        }
        Step::Launch { launch, request } => {
            if s.machine.deleting {
                return broken("nothing is launched while the machine is being deleted".to_owned());
            }
            if journal.launch.as_ref() != Some(&**launch) || launch.refused.is_some() {
                return broken("an instance is launched only as the stored journal says".to_owned());
            }
            let as_stored = request.token == launch.token
                && request.subnet == launch.subnet
                && request.placement.host == launch.host
                && !request.dry_run;
            if !as_stored {
                return broken("a token stands for one launch in one place".to_owned());
            }
            if !s.alive().is_empty() || s.machine.instance().is_some() {
                return broken("a machine has one instance".to_owned());
            }
            let ready = |allocation: &&Allocation| matches!(allocation.phase, Phase::Allocated | Phase::Claimed);
            let own = journal.allocation.as_ref().filter(ready);
            let hosted = launch.host.as_ref().is_none_or(|host| own.is_some_and(|own| own.hosts.contains(host)));
            if s.is_dynamic() && (!hosted || launch.host.is_none()) {
                return broken("a machine with hosts of its own runs on one of them".to_owned());
            }
            let shown = launch.host.as_ref().and_then(|host| s.sight()?.hosts.get(host));
            let mine = |host: &aws::port::Host| {
                let place = |own: &Allocation| own.phase == Phase::Claimed && s.may_share(host);
                own.is_some_and(|own| s.owns(host) || s.may_take(host, &own.id) || place(own))
            };
            if s.is_dynamic() && shown.is_some_and(|host| !mine(host)) {
                return broken(
                    "nothing is launched on a host whose tags do not say that it is the machine's".to_owned(),
                );
            }
            Ok(())
        }
        Step::Rehearse { request } if !request.dry_run => broken("a rehearsal launches nothing".to_owned()),
        Step::Terminate { instances } => {
            let known = s.alive();
            let own = |id: &api::names::InstanceId| {
                s.sight().is_some_and(|sight| sight.instances.iter().any(|i| i.id == *id && s.is_own(i)))
            };
            if !instances.iter().all(own) {
                return broken("only what is provably the machine's is ended".to_owned());
            }
            if !s.machine.deleting || instances.iter().any(|id| !known.contains(id)) {
                return broken("only instances of a machine that is being deleted are ended".to_owned());
            }
            Ok(())
        }
        Step::Release { hosts } => {
            let allocation = journal.allocation.as_ref().filter(|allocation| allocation.phase == Phase::Releasing);
            for host in hosts {
                let listed = allocation.is_some_and(|allocation| allocation.hosts.contains(host));
                let owned = s.sight().and_then(|sight| sight.hosts.get(host)).is_some_and(|host| s.owns(host));
                let fixed = s.machine.spec.host_id.as_deref() == Some(host.as_str());
                if !listed || !owned || fixed {
                    return broken(format!("host {host} is not ours to give back"));
                }
                let used = s
                    .sight()
                    .into_iter()
                    .flat_map(|sight| &sight.instances)
                    .any(|instance| is_alive(&instance.state) && instance.host.as_ref() == Some(host));
                if used {
                    return broken(format!("host {host} is in use"));
                }
                let selects = s.claim.as_ref().is_some_and(|claim| claim.selector.is_some());
                let counted_on = s.pool.as_ref().map(|pool| pool.others(host, &s.key).next().is_some());
                if counted_on.unwrap_or(selects) {
                    return broken(format!("others count on host {host}, or nobody has looked whether they do"));
                }
            }
            Ok(())
        }
        Step::Retain { host, heir, .. } => {
            let owned = s.sight().and_then(|sight| sight.hosts.get(host)).is_some_and(|host| s.owns(host));
            if !owned {
                return broken(format!("host {host} is not ours to leave"));
            }
            let Some(heir) = heir else { return Ok(()) };
            let counts = |own: &Allocation| {
                let others = s.pool.iter().flat_map(|pool| pool.others(host, &s.key));
                others.filter(|other| other.key == *heir).any(|other| other.may_inherit(&own.id))
            };
            let releasing = journal.allocation.as_ref().filter(|own| own.phase == Phase::Releasing);
            if !s.alive().is_empty() || !releasing.is_some_and(counts) {
                return broken(format!(
                    "host {host} is handed over only to a claim that counts on it, once it is left"
                ));
            }
            Ok(())
        }
        Step::Share { host, .. } => {
            let named = s.machine.spec.host_id.as_deref() == Some(host.as_str());
            if named { Ok(()) } else { broken(format!("host {host} is not the one the spec names")) }
        }
        Step::Power { instance, .. } => {
            let own = s.instance().is_some_and(|known| known.id == *instance && s.is_own(known));
            if s.claim.is_none() || s.machine.deleting || !own {
                return broken("only the instance of a claim that stays is switched".to_owned());
            }
            Ok(())
        }
        Step::Reboot { .. } if s.claim.is_none() => broken("only claims ask for reboots".to_owned()),
        Step::Conclude => conclude(s),
        _ => Ok(()),
    }
}

/// Whether an epoch begins with nothing, or with hosts that are provably the machine's to take.
fn taken(s: &Snapshot, allocation: &Allocation) -> Result<(), Violation> {
    let shown = |id: &HostId| {
        s.sight().and_then(|sight| sight.hosts.get(id)).is_some_and(|host| s.may_take(host, &allocation.id))
    };
    // What a claim selects is not in sight before it has it.
    let offered = || crate::decide::offered(s, allocation).is_some();
    match allocation.hosts.iter().find(|id| !shown(id) && !offered()) {
        Some(host) => Err(Violation::new(format!("host {host} is not ours to take"))),
        None => Ok(()),
    }
}

/// Whether a journal begins as an epoch does, and with no host in doubt.
fn begun(s: &Snapshot, allocation: &Allocation) -> Result<(), Violation> {
    taken(s, allocation)?;
    if allocation.hosts.is_empty() && s.doubtful().is_some() {
        return Err(Violation::new("no host is asked for while another one may be the machine's"));
    }
    Ok(())
}

/// Whether every host that a record lets go of is known not to be paid for through us any more.
fn ended(s: &Snapshot, before: &Allocation, after: &Allocation) -> Result<(), Violation> {
    if before.phase.is_over() {
        let next = before.epoch != after.epoch;
        return match s.paid().next().filter(|_| next) {
            Some(host) => Err(Violation::new(format!("host {} of an earlier epoch is still paid for", host.id))),
            None => Ok(()),
        };
    }
    let lets_go = matches!(after.phase, Phase::Released | Phase::Retained);
    if before.phase == Phase::Claimed {
        let own = s.paid().any(|host| before.hosts.contains(&host.id));
        return match lets_go && (own || is_in_use(s)) {
            true => {
                Err(Violation::new("a place is left when nothing of the claim is on it, and the host is another's"))
            }
            false => Ok(()),
        };
    }
    let over = |host: &HostId| {
        let shown = s.sight().and_then(|sight| sight.hosts.get(host));
        match shown {
            Some(shown) => {
                shown.state.is_released()
                    || (is_retained(&shown.tags) && !s.owns(shown))
                    || s.is_passed_on(before, shown)
            }
            None => {
                let unknown = s.sight().is_some_and(|sight| sight.unknown_hosts.contains(host));
                unknown && s.is_older(before.at, CONSISTENT) && s.is_at_home()
            }
        }
    };
    let gone = before.hosts.iter().filter(|host| lets_go || !after.hosts.contains(host));
    for host in gone {
        if !over(host) {
            return Err(Violation::new(format!("host {host} may still be paid for")));
        }
    }
    let surfaces = !s.is_older(before.at, CONSISTENT) || !s.is_at_home();
    if lets_go && before.phase == Phase::Intended && surfaces {
        return Err(Violation::new("a host that was asked for may still surface"));
    }
    Ok(())
}

fn conclude(s: &Snapshot) -> Result<(), Violation> {
    let journal = s.journal();
    let broken = |rule: &str| Err(Violation::new(rule));
    if !s.machine.deleting {
        return broken("the finalizer stays while the machine is wanted");
    }
    if journal.allocation.as_ref().is_some_and(|allocation| !allocation.phase.is_over()) {
        return broken("the finalizer stays until every host is released, retained or abandoned");
    }
    if !s.alive().is_empty() {
        return broken("the finalizer stays while an instance runs");
    }
    if s.machine.is_abandoned() {
        return Ok(());
    }
    let phase = journal.allocation.as_ref().map(|allocation| allocation.phase);
    // Tags of a host that was left to its owner may be read late.
    if !matches!(phase, Some(Phase::Retained | Phase::Abandoned)) && s.paid().next().is_some() {
        return broken("the finalizer stays while EC2 shows a host of the machine");
    }
    if phase != Some(Phase::Abandoned) && s.doubtful().is_some() {
        return broken("the finalizer stays while a host may be the machine's");
    }
    Ok(())
}
