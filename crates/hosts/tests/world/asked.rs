//! What is asked for and by whom: filters, identities, tokens that EC2 knows otherwise, turns, and calls that are shared.

use std::time::Duration;

use aws::port::{Ec2, MetadataOptions};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hosts::config::Config;
use serde_json::{Value, json};
use sim::ec2::wire::refusal::Refusal;
use sim::ec2::world::faults::{Fault, What};
use sim::ec2::world::identity::Role;
use sim::ec2::world::instance::InstanceState;
use sim::server::{Action, Rule, Server};

use crate::site::*;

#[tokio::test(start_paused = true)]
async fn only_machines_with_the_label_of_the_filter_are_touched() {
    let (server, site) = world();
    for (name, label) in [("mine", Some("us")), ("theirs", Some("them")), ("nobodys", None)] {
        let mut machine = dynamic(&site, name);
        if let Some(label) = label {
            machine["metadata"]["labels"]["cluster.x-k8s.io/watch-filter"] = json!(label);
        }
        add(&server, machine);
    }
    let before = ["theirs", "nobodys"].map(|name| server.get(MACHINES, NS, name));
    let _process = site.start(&server, Config { watch_filter: Some("us".to_owned()), ..site.config() });
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "mine")).await);
    pass(3_600).await;
    assert_eq!((site.paid().len(), site.alive().len()), (1, 1));
    assert_eq!(["theirs", "nobodys"].map(|name| server.get(MACHINES, NS, name)), before, "not even a condition");
    server.delete(MACHINES, NS, "theirs");
    assert!(is_gone(&server, "theirs"), "nobody of us held it");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_names_no_image_in_any_way_has_failed_for_good() {
    let (server, site) = world();
    let mut machine = dynamic(&site, "m");
    machine["spec"]["ami"] = json!({});
    server.put(secret("m")).unwrap();
    let mut nameless = owner("m");
    nameless["spec"].as_object_mut().unwrap().remove("version");
    put_under(&server, nameless, machine);
    let _process = site.start(&server, site.config());
    let failed = |s: &Server| s.get(MACHINES, NS, "m").unwrap()["status"]["failureReason"] == "CreateError";
    assert!(server.wait_until(LIMIT, failed).await, "{:?}", server.get(MACHINES, NS, "m"));
    let machine = server.get(MACHINES, NS, "m").unwrap();
    assert!(machine["status"]["failureMessage"].as_str().unwrap().contains("spec.ami.id"), "{machine}");
    pass(3_600).await;
    assert_eq!((site.ec2.calls("AllocateHosts"), site.ec2.calls("RunInstances")), (0, 0), "and cost nothing");
    server.delete(MACHINES, NS, "m");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ec2_knows_with_other_parameters_leads_to_its_host_and_never_to_another() {
    for lag in [0, 240] {
        let (server, site) = world();
        site.ec2.settings(|settings| settings.lag = Duration::from_secs(lag));
        let mismatch = Refusal::new(400, "IdempotentParameterMismatch", "the token was used with other parameters");
        site.ec2.script(Fault::on("AllocateHosts", What::RefuseAfter(mismatch)));
        add(&server, dynamic(&site, "m"));
        let _process = site.start(&server, site.config());
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
        let journal = note(&server.get(MACHINES, NS, "m").unwrap(), "allocation").unwrap();
        assert_eq!((&journal["epoch"], site.ec2.hosts().len()), (&json!(1), 1), "lag {lag}: {journal}");
        site.check(&[&server]).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn options_of_the_metadata_service_are_set_back() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    pass(120).await;
    assert_eq!(site.ec2.calls("ModifyInstanceMetadataOptions"), 0, "they are as they should be");
    let (ec2, instance) = (site.somebody(&server), site.alive()[0].parse().unwrap());
    let odd = MetadataOptions {
        http_tokens: Some("required".to_owned()),
        http_put_response_hop_limit: Some(7),
        ..MetadataOptions::default()
    };
    ec2.modify_instance_metadata_options(&instance, &odd).await.unwrap();
    let has = || {
        site.ec2.with(|world, now| {
            let place = world.place("123456789012", REGION, now).unwrap();
            let metadata = &place.instances.values().next().unwrap().metadata;
            (metadata.tokens.clone(), metadata.hop_limit)
        })
    };
    assert_eq!(has(), ("required".to_owned(), 7));
    assert!(server.wait_until(LIMIT, |_| has() == ("optional".to_owned(), 1)).await, "{:?}", has());
    pass(3_600).await;
    assert_eq!(site.ec2.calls("ModifyInstanceMetadataOptions"), 2, "theirs, and ours once");
}

fn identity(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn served_as(server: &Server, kind: &str, name: &str) {
    let reference = json!({"kind": kind, "name": name});
    server.edit(CLOUDS, NS, "c", |cloud| cloud["spec"]["identityRef"] = reference).unwrap();
}

/// A static identity with a key of its own; the process itself has none that is good.
fn keyed(server: &Server, site: &Site, namespace: &str) {
    site.ec2.add_user("123456789012", "AKIASIMULATOR0000003", "a-secret-key-of-a-tenant-in-the-same-account");
    site.ec2.revoke(&site.ec2.access_key.clone());
    server.namespace(namespace);
    let data = json!({
        "AccessKeyID": STANDARD.encode("AKIASIMULATOR0000003"),
        "SecretAccessKey": STANDARD.encode("a-secret-key-of-a-tenant-in-the-same-account"),
    });
    let meta = json!({"name": "tenant-keys", "namespace": namespace});
    server.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})).unwrap();
    let spec = json!({"secretRef": "tenant-keys", "allowedNamespaces": {"list": [NS]}});
    server.put(identity("AWSClusterStaticIdentity", "tenant", spec)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_static_identity_serves_the_cluster_that_names_it() {
    let (server, site) = world();
    let config = site.config();
    keyed(&server, &site, &config.controller_namespace);
    served_as(&server, "AWSClusterStaticIdentity", "tenant");
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, config);
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert!(site.ec2.log().iter().all(|entry| entry.access_key == "AKIASIMULATOR0000003"), "nobody else called");
    let scope = note(&server.get(MACHINES, NS, "m").unwrap(), "scope").unwrap();
    assert_eq!(scope["identityRef"]["name"], "tenant");
    // Without the cluster the machine itself says as whom.
    for (resource, name) in [(CLUSTERS, "c"), (CLOUDS, "c")] {
        server.delete(resource, NS, name);
    }
    server.delete(MACHINES, NS, "m");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_credentials_is_counted_by_what_it_lacks_until_it_has_them() {
    let (server, site) = world();
    let (config, metrics) = (site.config(), kit::telemetry::Metrics::new());
    let space = config.controller_namespace.clone();
    keyed(&server, &site, &space);
    let mut keys = server.get("secrets", &space, "tenant-keys").unwrap();
    assert!(server.delete("secrets", &space, "tenant-keys"));
    served_as(&server, "AWSClusterRoleIdentity", "gone");
    add(&server, dynamic(&site, "m"));
    let lacking = || -> Vec<String> {
        let start = "berth_room_credentials_lacking{room=\"hosts\",";
        metrics.encode().lines().filter_map(|line| line.strip_prefix(start)).map(str::to_owned).collect()
    };
    let _process = site.start_counted(&server, config, &metrics);
    let refused = |s: &Server| reason(s, "m", "InstanceReady") == "InstanceProvisionFailed";
    assert!(server.wait_until(LIMIT, refused).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(lacking(), [r#"kind="identity",reason="unusable"} 1"#]);
    served_as(&server, "AWSClusterStaticIdentity", "tenant");
    let missing = [r#"kind="secret",reason="missing"} 1"#];
    assert!(server.wait_until(LIMIT, |_| lacking() == missing).await, "{:?}", lacking());
    keys["metadata"] = json!({"name": "tenant-keys", "namespace": space});
    server.put(keys).unwrap();
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    pass(120).await;
    assert_eq!(lacking(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_role_is_taken_on_with_the_keys_it_names_and_only_where_it_is_allowed() {
    let (server, site) = world();
    let config = site.config();
    keyed(&server, &site, &config.controller_namespace);
    let arn = "arn:aws:iam::123456789012:role/tenant";
    site.ec2.add_role(arn, Role { external_id: Some("word".to_owned()), web_tokens: [].into(), closed: false });
    let role = |allowed: Value| {
        let source = json!({"kind": "AWSClusterStaticIdentity", "name": "tenant"});
        let spec = json!({"roleARN": arn, "sessionName": "berth", "externalID": "word", "sourceIdentityRef": source,
            "allowedNamespaces": allowed});
        identity("AWSClusterRoleIdentity", "tenant", spec)
    };
    server.put(role(json!({"list": ["other"]}))).unwrap();
    served_as(&server, "AWSClusterRoleIdentity", "tenant");
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, config);
    let refused = |s: &Server| reason(s, "m", "InstanceReady") == "InstanceProvisionFailed";
    assert!(server.wait_until(LIMIT, refused).await, "{:?}", server.get(MACHINES, NS, "m"));
    let message = condition(&server, "m", "InstanceReady").2;
    assert!(message.contains("AWSClusterRoleIdentity tenant does not allow the namespace team"), "{message}");
    assert_eq!(site.ec2.log().len(), 0, "nobody was called");
    server.put(role(json!({"list": [NS]}))).unwrap();
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    let log = site.ec2.log();
    let taken = log.iter().filter(|entry| entry.action == "AssumeRole");
    assert!(taken.clone().count() >= 1 && taken.clone().all(|entry| entry.access_key == "AKIASIMULATOR0000003"));
    let ec2 = log.iter().filter(|entry| entry.service == "ec2");
    assert!(
        ec2.clone().count() > 0 && ec2.clone().all(|entry| entry.access_key.starts_with("ASIA")),
        "as the role alone"
    );
    server.delete(MACHINES, NS, "m");
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(site.paid().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_machines_take_turns_and_share_calls() {
    const MANY: usize = 60;
    let (server, site) = world();
    site.ec2.settings(|settings| settings.host_quota = 100);
    for number in 0..MANY {
        add(&server, dynamic(&site, &format!("m{number:02}")));
    }
    let begun = site.ec2.now();
    let config = Config { max_hosts_per_cluster: 100, max_allocations_per_hour: 100, ..site.config() };
    let _process = site.start(&server, config);
    let all = |s: &Server| (0..MANY).all(|number| is_ready(s, &format!("m{number:02}")));
    assert!(server.wait_until(LIMIT, all).await);
    let calls = |operation: &str| site.ec2.log().iter().filter(|entry| entry.action == operation).count();
    assert_eq!((calls("AllocateHosts"), calls("RunInstances")), (MANY, MANY + 1), "one rehearsal for all");
    let reads = calls("DescribeHosts") + calls("DescribeInstances");
    let launches: Vec<jiff::Timestamp> =
        site.ec2.log().iter().filter(|entry| entry.action == "RunInstances").map(|entry| entry.at).collect();
    let span = launches.last().unwrap().duration_since(begun).as_secs_f64();
    // Two a second, of which the first five may go at once, and what one machine takes by itself.
    assert!((27.0..40.0).contains(&span), "{span} s for {MANY} launches");
    assert!((reads as f64) < 9.0 * span, "{reads} reads in {span} s are more than lists for all");
    let empty = site.ec2.hosts().into_iter().map(|host| host.empty).max().unwrap();
    assert!(empty < Duration::from_secs(10), "a host stood empty for {empty:?}");
    assert!(
        site.ec2.log().iter().all(|entry| entry.code != "RequestLimitExceeded"),
        "and nobody was told to slow down"
    );

    for number in 0..MANY {
        assert!(server.delete(MACHINES, NS, &format!("m{number:02}")));
    }
    let gone = |s: &Server| (0..MANY).all(|number| is_gone(s, &format!("m{number:02}")));
    assert!(server.wait_until(LIMIT, gone).await);
    assert_eq!((site.paid().len(), site.alive().len()), (0, 0));
    let shared = (calls("TerminateInstances"), calls("ReleaseHosts"));
    assert!(shared.0 <= MANY / 2 && shared.1 <= MANY / 2, "{shared:?} calls for {MANY} machines");
}

#[tokio::test(start_paused = true)]
async fn rights_to_look_that_are_missing_are_found_before_they_are_missed() {
    let (server, site) = world();
    let ec2 = site.somebody(&server);
    let actions = |found: Vec<hosts::selfcheck::Failed>| found.into_iter().map(|d| d.action).collect::<Vec<_>>();
    assert!(actions(hosts::selfcheck::denied(&ec2).await).is_empty());
    for action in hosts::iam::READ {
        let operation = action.strip_prefix("ec2:").unwrap();
        site.ec2.script(Fault::refuse(operation, 403, "UnauthorizedOperation").forever());
    }
    assert_eq!(actions(hosts::selfcheck::denied(&ec2).await), hosts::iam::READ, "every one that the policy grants");
    site.ec2.clear_script();
    site.ec2.script(Fault::refuse("DescribeVolumes", 403, "UnauthorizedOperation").forever());
    site.ec2.script(Fault::refuse("DescribeHosts", 500, "InternalError").forever());
    assert_eq!(actions(hosts::selfcheck::denied(&ec2).await), ["ec2:DescribeVolumes"], "an outage is no right");
}

#[tokio::test(start_paused = true)]
async fn what_is_paid_for_is_counted_from_scrape_to_scrape() {
    let (server, site) = world();
    add(&server, machine(&site, "m", "m5.large", json!({"dynamicHostAllocation": {"quantity": 2}})));
    let metrics = kit::telemetry::Metrics::new();
    let _process = site.start_counted(&server, site.config(), &metrics);
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    let figure = |name: &str| {
        let text = metrics.encode();
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse::<u64>().ok())
    };
    let seconds = || figure("berth_hosts_allocated_seconds_total{cluster=\"c\"}");
    assert_eq!(seconds(), Some(0), "the first scrape begins");
    pass(100).await;
    assert_eq!(seconds(), Some(200), "two hosts for a hundred seconds");
    let place = "cluster=\"c\",state=\"available\",instance_type=\"m5.large\",az=\"us-west-2a\"";
    assert_eq!(figure(&format!("berth_hosts_dedicated_hosts{{{place}}}")), Some(2), "{}", metrics.encode());
    assert_eq!(figure("berth_hosts_idle{cluster=\"c\"}"), Some(1), "the instance is on one of them");
    assert_eq!(figure("berth_hosts_allocations_total{result=\"done\",class=\"none\"}"), Some(1));
    // A release that is refused for a while is counted as such, and its wait is told.
    site.ec2.settings(|settings| settings.delays.vacate = Duration::from_secs(600));
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostRelease") == "HostOccupied").await);
    pass(300).await;
    let waits = figure("berth_hosts_release_wait_seconds{cluster=\"c\"}");
    assert!(waits.is_some_and(|seconds| (200..400).contains(&seconds)), "{waits:?}");
    assert!(figure("berth_hosts_releases_total{result=\"refused\",class=\"host-occupied\"}").is_some_and(|n| n >= 1));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await);
    assert_eq!(figure("berth_hosts_releases_total{result=\"done\",class=\"none\"}"), Some(2));
    assert_eq!(figure("berth_hosts_ended_total{phase=\"Released\"}"), Some(2));
    assert_eq!(figure("berth_hosts_dedicated_hosts{"), None, "nothing is paid for any more");
}

#[tokio::test(start_paused = true)]
async fn machines_are_counted_by_why_they_wait_and_a_wait_once() {
    let (server, site) = world();
    let refused = Fault::refuse("AllocateHosts", 400, "HostLimitExceeded");
    site.ec2.script(refused.forever());
    add(&server, dynamic(&site, "m"));
    let metrics = kit::telemetry::Metrics::new();
    let process = site.start_counted(&server, site.config(), &metrics);
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostReady") == "HostQuotaExceeded").await);
    pass(3_000).await;
    let figure = |metrics: &kit::telemetry::Metrics, name: &str| {
        let text = metrics.encode();
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse::<f64>().ok())
    };
    let ours = "room=\"hosts\",kind=\"AWSMachine\"";
    let waits = format!("{{{ours},state=\"waiting\",reason=\"HostQuotaExceeded\"}}");
    let long = |seconds: Option<f64>| seconds.is_some_and(|seconds| (3_000.0..4_000.0).contains(&seconds));
    assert_eq!(figure(&metrics, &format!("berth_room_objects{waits}")), Some(1.0), "{}", metrics.encode());
    assert!(long(figure(&metrics, &format!("berth_room_oldest_wait_seconds{waits}"))));
    assert!(long(figure(&metrics, "berth_hosts_unready_seconds{cluster=\"c\"}")));

    // The next process counts the end of the wait, all of it, and the one after that knows nothing of it.
    drop(process);
    site.ec2.clear_script();
    let ready = format!("berth_room_objects{{{ours},state=\"ready\",reason=\"\"}}");
    for counted in [Some(1.0), None] {
        let metrics = kit::telemetry::Metrics::new();
        let _process = site.start_counted(&server, site.config(), &metrics);
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
        pass(120).await;
        assert_eq!(figure(&metrics, &ready), Some(1.0));
        assert_eq!(figure(&metrics, "berth_hosts_unready_seconds{"), None);
        assert_eq!(figure(&metrics, &format!("berth_room_ready_seconds_count{{{ours}}}")), counted);
        assert_eq!(figure(&metrics, "berth_hosts_allocation_seconds_count{kind=\"AWSMachine\"}"), counted);
        let sum = figure(&metrics, "berth_hosts_allocation_seconds_sum{kind=\"AWSMachine\"}");
        assert!(counted.is_none() || sum.is_some_and(|seconds| seconds > 3_000.0), "{sum:?}");
    }
}

/// What the journal could not be told is found, or asked for again, under the same token.
#[tokio::test(start_paused = true)]
async fn an_allocation_that_was_not_stored_is_counted_once() {
    for (lag, calls) in [(0, 1), (90, 2)] {
        let (server, site) = world();
        site.ec2.settings(|settings| settings.lag = Duration::from_secs(lag));
        add(&server, dynamic(&site, "m"));
        let ec2 = site.ec2.clone();
        let journal = Rule::any().method("PATCH").client("hosts").path_contains("/awsmachines/m");
        let journal = journal.matching(move |asked| !asked.path.ends_with("/status") && ec2.calls("AllocateHosts") > 0);
        server.inject(journal.times(1), Action::Status(500));
        let metrics = kit::telemetry::Metrics::new();
        let _process = site.start_counted(&server, site.config(), &metrics);
        assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await, "{lag}");
        assert_eq!(site.ec2.calls("AllocateHosts"), calls, "{lag}");
        let text = metrics.encode();
        let count = "berth_hosts_allocation_seconds_count{kind=\"AWSMachine\"} 1";
        assert!(text.lines().any(|line| line == count), "{lag}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_with_somebody_elses_instance_on_it_is_kept_and_told_of() {
    let (server, site) = world();
    add(&server, dynamic(&site, "m"));
    let _process = site.start(&server, site.config());
    assert!(server.wait_until(LIMIT, |s| is_ready(s, "m")).await);
    let host = hosts_of(&server, "m")[0].clone();
    let guest = crate::others::instance(&site, &server, Some(&host), &json!({})).await;
    pass(120).await;
    assert!(server.delete(MACHINES, NS, "m"));
    assert!(server.wait_until(LIMIT, |s| reason(s, "m", "DedicatedHostRelease") == "HostOccupied").await);
    assert!(server.wait_until(LIMIT, |s| condition(s, "m", "DedicatedHostRelease").2.contains(&guest)).await);
    pass(4 * 3_600).await;
    assert_eq!((site.alive(), site.paid().len()), (vec![guest.clone()], 1), "it is not ours to end");
    let overdue = |event: &Value| event["note"].as_str().unwrap_or_default().contains("still occupied after");
    assert!(server.list(EVENTS, NS).iter().any(overdue), "somebody should look: {:?}", server.list(EVENTS, NS));
    assert!(site.ec2.set_instance_state(REGION, &guest, InstanceState::Terminated));
    assert!(server.wait_until(LIMIT, |s| is_gone(s, "m")).await, "{:?}", server.get(MACHINES, NS, "m"));
    assert_eq!(site.paid().len(), 0);
}
