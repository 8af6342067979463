//! Many claims and many hosts at once, while the hosts' controller rewrites the status of every host without rest.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::objects::{CLAIMS, HOSTS, INFRA, at, claim, condition, policy};
use crate::site::Site;

const COUNT: usize = 500;

#[tokio::test(start_paused = true)]
async fn five_hundred_claims_find_five_hundred_hosts_rewritten_five_times_a_second() {
    let site = Site::new(|server| {
        for n in 0..COUNT {
            let mut host = sim::metal::seed::host(INFRA, &format!("h{n:03}"), &json!({"size": "large"}));
            let script = json!({"statusEveryMs": 200}).to_string();
            host["metadata"]["annotations"] = json!({"berth.dev/sim": script});
            server.put(sim::metal::seed::settled(&host, (server.clock())())).unwrap();
        }
        policy(server, &json!({}));
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    let rewrites = || {
        let log = site.server.log();
        let status = |entry: &&sim::server::Entry| entry.client == "operator" && entry.path.ends_with("/status");
        log.iter().filter(status).count()
    };
    let (begun, before) = (tokio::time::Instant::now(), rewrites());
    for n in 0..COUNT {
        site.server.put(claim(if n % 2 == 0 { "red" } else { "blue" }, &format!("c{n:03}"))).unwrap();
    }
    let ready = |claim: &Value| condition(claim, "Ready") == "True/Ready";
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        site.yonder.judge(&site.server).unwrap();
        if site.server.list(CLAIMS, "").iter().all(ready) {
            break;
        }
    }
    let claims = site.server.list(CLAIMS, "");
    assert_eq!(claims.iter().filter(|claim| ready(claim)).count(), COUNT);
    let taken: BTreeSet<&str> = claims.iter().map(|claim| at(claim, "/status/bareMetalHost/name")).collect();
    assert_eq!(taken.len(), COUNT, "all different");
    let (took, rewrites) = (begun.elapsed().as_secs(), rewrites() - before);
    println!("{COUNT} claims on {COUNT} hosts in {took} s, the status of hosts written {rewrites} times meanwhile");
    assert!(rewrites as u64 >= 4 * COUNT as u64 * took, "{rewrites} rewrites in {took} s");
    for host in site.server.list(HOSTS, INFRA) {
        let name = at(&host, "/metadata/name");
        site.server
            .edit(HOSTS, INFRA, name, |host| host["metadata"]["annotations"]["berth.dev/sim"] = json!("{}"))
            .unwrap();
    }
    site.rest().await;
}
