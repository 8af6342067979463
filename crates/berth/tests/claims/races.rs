//! Many who want the same thing at the same time: processes, claims, and the host controller with its status.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use sim::metal::{self, seed};
use sim::wait::within;

use crate::corner::{Checks, Corner, shows};
use crate::fleet::Replica;
use crate::world::{SOON, run_alone};

/// Long enough for a busy machine; what is counted does not depend on it.
const LONG: Duration = Duration::from_secs(900);

#[test]
fn processes_without_leader_election_never_give_the_last_host_to_two() {
    run_alone("processes_without_leader_election_never_give_the_last_host_to_two", async |world| {
        const ROUNDS: usize = 8;
        let mut corner = Corner::new(world, "race", Checks::Off).await;
        let tenants = [corner.tenant("red").await, corner.tenant("blue").await];
        corner.hosts(&["last"], &json!({})).await;
        // Every namespace of this corner and no other, beside the one that leads.
        let names: Vec<String> =
            [corner.metal.clone()].into_iter().chain(tenants.iter().map(|t| t.namespace.clone())).collect();
        let mut args: Vec<&str> = vec!["--orphan-grace", "0s"];
        names.iter().for_each(|name| args.extend(["--namespace", name]));
        let start = || Replica::start(&world.kubeconfig, world.plane.dir(), &args);
        let mut racers = [start().await, start().await];
        let mut logs = [vec![racers[0].log()], vec![racers[1].log()]];
        for n in 0..ROUNDS {
            for tenant in &tenants {
                tenant.claim(&format!("c-{n}"), json!({"image": {"url": "oci://i.example/a"}})).await;
            }
        }
        corner.open_to(&[&tenants[0], &tenants[1]], json!({})).await;
        let mut served = 0;
        while served < 2 * ROUNDS {
            let (tenant, name) = within(SOON, "somebody has the host", async || {
                for tenant in &tenants {
                    let claims = tenant.claims().list(&ListParams::default()).await.ok()?.items;
                    let claims = claims.iter().map(|claim| serde_json::to_value(claim).unwrap());
                    let ready = claims
                        .into_iter()
                        .find(|claim| shows(claim, "Ready=True") && claim["metadata"]["deletionTimestamp"].is_null());
                    if let Some(claim) = ready {
                        return Some((tenant, claim["metadata"]["name"].as_str().unwrap().to_owned()));
                    }
                }
                None
            })
            .await;
            // One of the two dies in the middle of the race and comes back.
            if served == ROUNDS / 2 {
                racers[0].kill();
            }
            tenant.end(&name).await;
            if served == ROUNDS / 2 {
                racers[0] = start().await;
                logs[0].push(racers[0].log());
            }
            served += 1;
        }
        // A race with one runner proves nothing: each has bound the host, given it back, or come too late for it.
        for (racer, logs) in logs.iter().enumerate() {
            let said: String = logs.iter().map(|log| std::fs::read_to_string(log).unwrap()).collect();
            let tried = ["the host was bound", "the host was given back", "the host was not bound"];
            let tries: Vec<usize> = tried.iter().map(|line| said.matches(line).count()).collect();
            eprintln!("racer {racer}: bound, gave back, came too late: {tries:?}");
            assert!(tries.iter().any(|tries| *tries > 0), "racer {racer} never tried");
        }
        let host = corner.host("last").await;
        assert_eq!((&host["spec"]["consumerRef"], &host["spec"]["image"]), (&Value::Null, &Value::Null));
        assert_eq!(corner.disk("last"), None);
        drop(racers);
        corner.judge().await;
    });
}

#[test]
fn five_hundred_claims_find_five_hundred_hosts_whose_status_never_rests() {
    run_alone("five_hundred_claims_find_five_hundred_hosts_whose_status_never_rests", async |world| {
        const COUNT: usize = 500;
        const AT_ONCE: usize = 16;
        let mut corner = Corner::new(world, "many", Checks::Off).await;
        let tenants = [corner.tenant("red").await, corner.tenant("blue").await];
        seed::hosts(&world.client, &corner.metal, COUNT, true).await.unwrap();
        let hosts = corner.api("BareMetalHost");
        // The simulator is to write every host's status five times a second, for nothing: what makes the versions of others
        // old. The server takes fewer writes than that, so it gets as many as it can take.
        let noise = |script: Value| {
            let hosts = hosts.clone();
            async move {
                let change = json!({"metadata": {"annotations": {metal::SCRIPT: script}}});
                let each = futures::stream::iter(0..COUNT).map(|n| {
                    let (hosts, change, name) = (hosts.clone(), Patch::Merge(change.clone()), format!("host-{n:05}"));
                    async move {
                        within(SOON, "the host takes its script", async || {
                            match hosts.patch(&name, &PatchParams::default(), &change).await {
                                // The server gives up on a patch that always comes too late.
                                Err(kube::Error::Api(status)) if status.code == 409 => None,
                                other => Some(other.unwrap()),
                            }
                        })
                        .await;
                    }
                });
                each.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
            }
        };
        let revisions = async || -> u64 {
            let all = hosts.list(&ListParams::default()).await.unwrap();
            all.metadata.resource_version.unwrap_or_default().parse().unwrap()
        };
        corner.open_to(&[&tenants[0], &tenants[1]], json!({})).await;
        noise(json!(json!({"statusEveryMs": 200}).to_string())).await;

        let rewrites = || world.machines.rewrites(&corner.metal);
        let (begun, before, quiet) = (Instant::now(), revisions().await, rewrites());
        let made = futures::stream::iter(0..COUNT).map(|n| {
            let tenant = &tenants[n % 2];
            async move { tenant.claim(&format!("c-{n:03}"), json!({})).await }
        });
        made.buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;
        let all = async || -> Vec<Value> {
            let mut found = Vec::new();
            for tenant in &tenants {
                let claims = world.record.present("HostClaim", &tenant.namespace);
                found.extend(claims.iter().map(|version| version.object.clone()));
            }
            found
        };
        let claims = within(LONG, "every claim is ready", async || {
            let claims = all().await;
            (claims.iter().filter(|claim| shows(claim, "Ready=True")).count() == COUNT).then_some(claims)
        })
        .await;
        let (took, after) = (begun.elapsed(), revisions().await);
        let mut held: BTreeMap<String, usize> = BTreeMap::new();
        for claim in &claims {
            *held.entry(claim["status"]["bareMetalHost"]["name"].to_string()).or_default() += 1;
        }
        assert_eq!(held.len(), COUNT, "all different");
        // What the record has of hosts leaves out versions with nothing but a new time; the simulator counts its own writes.
        let noisy: BTreeMap<String, u64> =
            rewrites().into_iter().map(|(name, count)| (name.clone(), count - quiet[&name])).collect();
        let (writes, rewritten): (u64, u64) = (after - before, noisy.values().sum());
        noise(Value::Null).await;
        eprintln!(
            "{COUNT} claims on {COUNT} hosts in {took:?}, {writes} writes meanwhile, {:.0} a second, {rewritten} of them for nothing",
            writes as f64 / took.as_secs_f64()
        );
        assert!(rewritten >= 2 * COUNT as u64, "the hosts were quiet: {rewritten} of {writes} writes in {took:?}");
        let rested: Vec<&String> = noisy.iter().filter(|(_, count)| **count == 0).map(|(name, _)| name).collect();
        assert!(noisy.len() == COUNT && rested.is_empty(), "never rewritten while claims were bound: {rested:?}");
        corner.judge().await;
        // A conflict is nobody's business: who is bound stays bound, and nothing is told in between.
        let mut bound: BTreeMap<String, bool> = BTreeMap::new();
        for version in corner.history().await.iter().filter(|version| version.kind == "HostClaim" && !version.gone) {
            let is = shows(&version.object, "Associated=True");
            let was = bound.insert(version.uid.clone(), is).unwrap_or(false);
            assert!(!was || is, "{}", version.object);
            assert!(!shows(&version.object, "Synchronized=False/Forbidden"), "{}", version.object);
        }
        let said = world.leader().await.said();
        let errors: Vec<&str> = said.lines().filter(|line| line.contains(" ERROR ")).take(3).collect();
        assert!(errors.is_empty(), "{errors:?}");
        for tenant in &tenants {
            tenant.claims().delete_collection(&Default::default(), &ListParams::default()).await.unwrap();
        }
        within(LONG, "all hosts are free again", async || {
            let hosts = world.record.present("BareMetalHost", &corner.metal);
            let free = hosts.iter().filter(|host| host.object["spec"]["consumerRef"].is_null()).count();
            (free == COUNT && all().await.is_empty()).then_some(())
        })
        .await;
        corner.judge().await;
    });
}
