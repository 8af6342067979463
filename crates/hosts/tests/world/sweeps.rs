//! Stopped at every effect, started on old news, robbed of every event, disturbed by early users, under random schedules:
//! the room always ends in the same world, and at no moment is a host paid for that no journal names.

use std::sync::Arc;
use std::time::Duration;

use hosts::decide::CONSISTENT;
use kit::clock::Clock;
use serde_json::{Value, json};
use sim::server::{self, Server};
use sim::sweep::{self, Scenario, World};

use crate::site::*;

/// Without an effect for this long nothing is under way. The longest that is waited for in silence is what may still
/// surface in EC2, and that is looked at every half minute.
const SETTLED: Duration = CONSISTENT.saturating_add(Duration::from_secs(60));

/// What is done, and what must hold at every moment beside what [`Site::check`] says.
struct Story {
    name: &'static str,
    prepare: fn(&Server, &Site),
    act: fn(&World<Site>, usize) -> bool,
    bound: fn(&Site) -> Result<(), String>,
    /// Whether it matters how many hosts there ever were.
    counts_hosts: bool,
}

fn settled(server: &Server, site: &Site) -> Value {
    let machines: Vec<Value> = server
        .list(MACHINES, NS)
        .iter()
        .map(|machine| {
            json!({
                "phase": note(machine, "allocation").unwrap_or_default()["phase"],
                "ready": machine["status"]["ready"], "host": machine["status"]["dedicatedHost"]["state"],
                "published": machine["spec"]["providerID"].is_string(),
            })
        })
        .collect();
    json!({"machines": machines, "paid": site.paid().len(), "alive": site.alive().len()})
}

impl Scenario for Story {
    type Outside = Site;

    fn name(&self) -> &str {
        self.name
    }

    fn outside(&self, gate: &server::Gate, clock: &server::Clock) -> Site {
        Site::new(clock, Some(gate.clone()))
    }

    async fn prepare(&self, world: &World<Site>) {
        install(&world.server, &world.outside);
        (self.prepare)(&world.server, &world.outside);
    }

    async fn process(&self, world: Arc<World<Site>>, client: kube::Client) {
        let clock = Clock::simulated((world.clock)(), 1);
        world.outside.run(client, clock, world.outside.config()).await;
    }

    async fn act(&self, world: &World<Site>, step: usize) -> bool {
        (self.act)(world, step)
    }

    fn invariant(&self, world: &World<Site>) -> Result<(), String> {
        world.outside.check(&[&world.server])?;
        (self.bound)(&world.outside)
    }

    fn ignored(&self) -> Vec<String> {
        // Events are told once and may be lost with the process; nothing depends on them.
        vec![EVENTS.to_owned(), "leases.coordination.k8s.io".to_owned()]
    }

    fn picture(&self, world: &World<Site>) -> Value {
        let hosts = self.counts_hosts.then(|| world.outside.ec2.hosts().len());
        json!({"now": settled(&world.server, &world.outside), "hosts there ever were": hosts})
    }

    fn settle(&self) -> Duration {
        SETTLED
    }
}

/// A machine is made, and deleted.
const LIFE: Story = Story {
    name: "life of a machine",
    prepare: |server, site| add(server, dynamic(site, "m")),
    act: |world, step| {
        if step == 0 {
            world.server.delete(MACHINES, NS, "m");
        }
        step == 0
    },
    bound: |_| Ok(()),
    counts_hosts: false,
};

/// A machine is made and stays.
const STANDING: Story = Story {
    name: "a machine that stays",
    prepare: |server, site| {
        add(server, dynamic(site, "m"));
        add(server, machine(site, "plain", "m5.large", json!({})));
    },
    act: |_, _| false,
    bound: |site| match (site.ec2.hosts().len(), site.ec2.instances().len()) {
        (0..=1, 0..=2) => Ok(()),
        many => Err(format!("{many:?} hosts and instances were made")),
    },
    counts_hosts: false,
};

/// A machine whose host fails under it, so that EC2 moves the instance to another one; then it is deleted.
const REPLACED: Story = Story {
    name: "a machine whose host is replaced",
    prepare: |server, site| {
        let wish = json!({"dynamicHostAllocation": {"hostRecovery": "on"}});
        add(server, machine(site, "m", "m5.large", wish));
    },
    act: |world, step| {
        let site = &world.outside;
        match step {
            0 => {
                let host = site.paid().remove(0).id;
                assert!(site.ec2.fail_host(REGION, &host).is_some(), "{host} recovers");
            }
            1 => drop(world.server.delete(MACHINES, NS, "m")),
            _ => return false,
        }
        true
    },
    bound: |site| match site.ec2.instances().len() {
        0..=1 => Ok(()),
        many => Err(format!("{many} instances were launched")),
    },
    counts_hosts: true,
};

#[test]
fn stopped_at_every_effect_no_host_is_lost() {
    let report = sweep::crash_sweep(&LIFE);
    report.assert_passed();
    assert!(report.effects.len() >= 12, "too little happened: {:?}", report.effects);
    let what = |word: &str| report.effects.iter().any(|effect| effect.what.contains(word));
    for call in ["AllocateHosts", "RunInstances", "TerminateInstances", "ReleaseHosts"] {
        assert!(what(call), "{call} is not among the effects: {:?}", report.effects);
    }
}

#[test]
fn stopped_at_every_effect_a_machine_that_stays_has_one_host_and_one_instance() {
    sweep::crash_sweep(&STANDING).assert_passed();
}

#[test]
fn stopped_at_every_effect_a_host_that_is_replaced_is_followed_and_none_is_lost() {
    let report = sweep::crash_sweep(&REPLACED);
    report.assert_passed();
    assert!(report.effects.len() >= 14, "too little happened: {:?}", report.effects);
}

#[test]
fn started_on_any_older_cache_no_host_is_lost() {
    sweep::stale_sweep(&LIFE).assert_passed();
}

#[test]
fn robbed_of_any_event_no_host_is_lost() {
    sweep::missed_event_sweep(&LIFE).assert_passed();
}

#[test]
fn deleted_after_any_effect_no_host_is_lost() {
    sweep::early_act_sweep(&LIFE).assert_passed();
}

#[test]
fn under_random_schedules_no_host_is_lost() {
    sweep::seeds(&LIFE, 0..40).assert_passed();
}

#[tokio::test(start_paused = true)]
async fn two_processes_at_once_make_one_host_and_one_instance() {
    let (server, site) = world();
    for number in 0..4 {
        add(&server, dynamic(&site, &format!("m{number}")));
    }
    let _one = site.start(&server, site.config());
    let _two = site.start(&server, site.config());
    for number in 0..4 {
        assert!(server.wait_until(LIMIT, |s| is_ready(s, &format!("m{number}"))).await, "m{number}");
    }
    pass(3_600).await;
    assert_eq!((site.ec2.hosts().len(), site.ec2.instances().len()), (4, 4));
    site.check(&[&server]).unwrap();
    for number in 0..4 {
        server.delete(MACHINES, NS, &format!("m{number}"));
    }
    for number in 0..4 {
        assert!(server.wait_until(LIMIT, |s| is_gone(s, &format!("m{number}"))).await, "m{number}");
    }
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
}
