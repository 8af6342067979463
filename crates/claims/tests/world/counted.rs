//! What is counted of claims, and what a process that comes later counts of them.

use std::time::Duration;

use claims::config::Config;
use serde_json::json;
use sim::metal::oracle::Forgiven;

use crate::objects::{CLAIMS, HOSTS, INFRA, claim, deployment, edit, hosts, policy, secrets};
use crate::site::Site;

/// The value of a series whose labels hold this text; none where there is none, or more than one.
fn value(site: &Site, metric: &str, labels: &str) -> Option<f64> {
    let found: Vec<String> = site.series(metric).into_iter().filter(|series| series.contains(labels)).collect();
    let [series] = found.as_slice() else { return None };
    series.rsplit(' ').next()?.parse().ok()
}

const CLAIM: &str = "room=\"claims\",kind=\"HostClaim\"";

fn objects(site: &Site) -> Vec<String> {
    let ours = |series: String| Some(series.strip_prefix(&format!("{CLAIM},"))?.to_owned());
    site.series("berth_room_objects").into_iter().filter_map(ours).collect()
}

#[tokio::test(start_paused = true)]
async fn claims_are_counted_by_why_they_wait_and_a_wait_once() {
    let mut site = Site::new(|server| {
        hosts(server, &["h1"]);
        policy(server, &json!({}));
    });
    site.server.put(claim("red", "first")).unwrap();
    site.until_ready("red", "first").await;
    site.server.put(claim("red", "second")).unwrap();
    site.until_condition("red", "second", "Associated", "False/NoBareMetalHost").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let waits = "state=\"waiting\",reason=\"NoBareMetalHost\"}";
    assert_eq!(objects(&site), ["state=\"ready\",reason=\"\"} 1".to_owned(), format!("{waits} 1")]);
    let oldest = value(&site, "berth_room_oldest_wait_seconds", &format!("{CLAIM},{waits}"));
    assert!(oldest.is_some_and(|seconds| (600.0..700.0).contains(&seconds)), "{oldest:?}");
    assert_eq!(value(&site, "berth_room_ready_seconds_count", CLAIM), Some(1.0), "the first one");

    // Another process finds things as they are, and counts what ends before its eyes alone.
    site.kill_room();
    site.add_room(Config::default());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(objects(&site), ["state=\"ready\",reason=\"\"} 1".to_owned(), format!("{waits} 1")]);
    assert_eq!(value(&site, "berth_room_ready_seconds_count", CLAIM), None);
    hosts(&site.server, &["h2"]);
    site.until_ready("red", "second").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(objects(&site), ["state=\"ready\",reason=\"\"} 2"]);
    assert_eq!(value(&site, "berth_room_ready_seconds_count", CLAIM), Some(1.0));
    let sum = value(&site, "berth_room_ready_seconds_sum", CLAIM);
    assert!(sum.is_some_and(|seconds| (660.0..900.0).contains(&seconds)), "all of its wait: {sum:?}");

    assert!(site.server.delete(CLAIMS, "red", "first"));
    assert!(site.server.delete(CLAIMS, "red", "second"));
    site.until_gone("red", "first").await;
    site.until_gone("red", "second").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(objects(&site), ["state=\"ready\",reason=\"\"} 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_is_told_of_under_its_quota_and_one_without_a_quota_is_not() {
    let site = Site::new(|server| {
        hosts(server, &["h1", "h2", "h3"]);
        policy(server, &json!({}));
        let quota = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "small"},
            "spec": {"tenants": {"names": ["red"]}, "hard": {"hosts": 1}},
        });
        server.put(quota).unwrap();
    });
    for (tenant, name) in [("red", "first"), ("red", "second"), ("blue", "third")] {
        site.server.put(claim(tenant, name)).unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    site.until_condition("red", "second", "Associated", "False/QuotaExceeded").await;
    site.until_ready("blue", "third").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tenant = "quota=\"small\",namespace=\"red\"}";
    assert_eq!(site.series("berth_claims_quota_limit_hosts"), ["quota=\"small\",each=\"namespace\"} 1"]);
    assert_eq!(site.series("berth_claims_quota_hosts"), ["quota=\"small\"} 1"]);
    assert_eq!(site.series("berth_claims_tenant_hosts"), [format!("{tenant} 1")]);
    assert_eq!(site.series("berth_claims_tenant_waiting_claims"), [format!("{tenant} 1")]);
    assert_eq!(site.series("berth_claims_waiting_claims"), ["reason=\"QuotaExceeded\"} 1"]);
}

#[tokio::test(start_paused = true)]
async fn what_claims_hosts_and_copies_have_come_to_is_counted_and_what_it_took() {
    let torn = [("red".to_owned(), "runs".to_owned())].into();
    let by_hand = [(INFRA.to_owned(), "h3".to_owned())].into();
    let site = Site::forgiving(Forgiven { claims: torn, hosts: by_hand, ..Forgiven::default() }, |server| {
        hosts(server, &["h1", "h2"]);
        policy(server, &json!({}));
        secrets(server, "red");
    });
    let shown = |metric: &str| site.series(&format!("berth_claims_{metric}"));
    site.server.put(deployment("red", "runs")).unwrap();
    site.until_ready("red", "runs").await;
    assert_eq!(shown("free_hosts"), ["namespace=\"infra\"} 1"]);
    site.server.put(claim("blue", "holds")).unwrap();
    site.until_ready("blue", "holds").await;
    site.server.put(claim("blue", "waits")).unwrap();
    site.until_condition("blue", "waits", "Associated", "False/NoBareMetalHost").await;
    site.rest().await;
    let phase = |phase: &str| format!("kind=\"baremetal\",phase=\"{phase}\"}} 1");
    assert_eq!(shown("claims"), ["bound", "provisioned", "waiting"].map(phase));
    assert!(shown("free_hosts").is_empty(), "{:?}", shown("free_hosts"));
    let counts = |metrics: &[&str]| -> Vec<Vec<String>> { metrics.iter().map(|metric| shown(metric)).collect() };
    assert_eq!(counts(&["secret_copies", "orphan_hosts", "duplicate_bindings_total"]), [["3"], ["0"], ["0"]]);
    assert_eq!(counts(&["bind_seconds_count", "select_steps_count", "release_seconds_count"]), [["2"], ["2"], ["0"]]);
    assert_ne!(shown("select_seconds_count"), ["0"]);

    // A second host of a claim, which is given back, and goes to whoever waits.
    let consumer = site.host_of("red", "runs")["spec"]["consumerRef"].clone();
    hosts(&site.server, &["h3"]);
    edit(&site.server, HOSTS, INFRA, "h3", &json!({"spec": {"consumerRef": consumer}}));
    site.until_ready("blue", "waits").await;
    assert_eq!(shown("duplicate_bindings_total"), ["1"]);
    // A claim that goes, and one that is torn off its host, which is told of at once.
    assert!(site.server.delete(CLAIMS, "blue", "holds"));
    site.until_gone("blue", "holds").await;
    assert_eq!(shown("release_seconds_count"), ["1"]);
    let _ = site.server.edit(CLAIMS, "red", "runs", |claim| claim["metadata"]["finalizers"] = json!([]));
    assert!(site.server.delete(CLAIMS, "red", "runs"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(counts(&["orphan_hosts", "secret_copies"]), [["1"], ["3"]]);
    assert_eq!(shown("claims"), ["bound"].map(phase));
}
