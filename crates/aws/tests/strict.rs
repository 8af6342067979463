//! The client against the strict simulator: one effect per token, refusals of single items, pages, roles.
#![cfg(feature = "net")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::names::HostId;
use aws::credentials::{Role as RoleSource, Source, WebIdentity};
use aws::errors::{Cause, Kind, PagingError};
use aws::limits::Limits;
use aws::net::{Aws, Client, Meter, Options, Scope, Trust};
use aws::place::Endpoints;
use aws::port::{
    Affinity, AllocateHosts, Ec2, Filter, HostQuery, HostShape, HostState, ImageQuery, InstanceQuery, InstanceState,
    Keys, MetadataOptions, Placement, RunInstance, Sts, Tags, Tenancy, TypeQuery,
};
use futures::StreamExt;
use kit::class::chain;
use kit::clock::Clock;
use kit::http::Carry;
use sim::ec2::world::faults::{Fault, What};
use sim::ec2::world::identity::Role;
use sim::ec2::world::settings::Throttle;
use sim::ec2::{Handle, start};

const ZONE: &str = "us-east-1a";

async fn world() -> Handle {
    let mut options = sim::ec2::Options::default();
    options.settings.throttle = Throttle::Off;
    options.settings.delays.allocate = Duration::ZERO;
    options.settings.delays.launch = Duration::ZERO;
    start(options).await.unwrap()
}

fn client_of(sim: &Handle, source: Source) -> Client {
    let flag = |service: &str| format!("{service}={}", sim.endpoint).parse().unwrap();
    let scope = Scope {
        region: "us-east-1".parse().unwrap(),
        source,
        endpoints: Endpoints::new().flag(flag("ec2")).flag(flag("sts")),
        trust: Trust::System,
    };
    let mut options = Options::new("berth/0");
    options.limits = Limits::Unlimited;
    options.timing.pause = Duration::from_millis(1);
    Aws::new(options, Clock::system(), Meter::default()).client(&scope).unwrap()
}

fn keys(sim: &Handle) -> Source {
    Source::Keys(Keys { id: sim.access_key.clone(), secret: sim.secret.clone().into(), session: None })
}

fn client(sim: &Handle) -> Client {
    client_of(sim, keys(sim))
}

fn allocation(token: &str, instance_type: &str, quantity: u32) -> AllocateHosts {
    AllocateHosts {
        token: token.parse().unwrap(),
        zone: ZONE.parse().unwrap(),
        shape: HostShape::Type(instance_type.parse().unwrap()),
        quantity,
        recovery: None,
        maintenance: None,
        outpost_arn: None,
        asset_ids: Vec::new(),
        tags: Tags::from([("owner".to_owned(), token.to_owned())]),
    }
}

fn launch(sim: &Handle, token: &str, host: Option<&HostId>) -> RunInstance {
    let hosted = host.is_some();
    RunInstance {
        token: token.parse().unwrap(),
        dry_run: false,
        image: sim.image("us-east-1", "x86_64").unwrap().parse().unwrap(),
        instance_type: "m5.large".parse().unwrap(),
        subnet: sim.subnet("us-east-1", ZONE, false).unwrap().parse().unwrap(),
        security_groups: Vec::new(),
        public_ip: None,
        key_name: None,
        profile: None,
        block_devices: Vec::new(),
        metadata: MetadataOptions::default(),
        user_data: None,
        placement: Placement {
            tenancy: hosted.then_some(Tenancy::Host),
            host: host.cloned(),
            affinity: hosted.then_some(Affinity::Host),
            ..Placement::default()
        },
        license_configuration_arns: Vec::new(),
        tags: Tags::from([("owner".to_owned(), token.to_owned())]),
    }
}

#[tokio::test]
async fn an_instance_is_stopped_and_started_again() {
    let sim = world().await;
    sim.settings(|settings| settings.delays.stop = Duration::ZERO);
    let client = client(&sim);
    let ec2 = client.ec2();
    let hosts = ec2.allocate_hosts(&allocation("dh-1", "m5.large", 1)).await.unwrap();
    let id = ec2.run_instance(&launch(&sim, "ri-1", Some(&hosts[0]))).await.unwrap().id;
    let one = std::slice::from_ref(&id);
    sim.script(Fault::on("StopInstances", What::CutAfter));
    let stopped = ec2.stop_instances(one).await.unwrap();
    assert_eq!((&stopped[0].id, &stopped[0].now), (&id, &InstanceState::Stopped), "a repetition changes nothing");
    assert_eq!(sim.instances()[0].stops, 1);
    let started = ec2.start_instances(one).await.unwrap();
    assert_eq!((&started[0].before, &started[0].now), (&InstanceState::Stopped, &InstanceState::Running));
    assert!(ec2.stop_instances(&[]).await.unwrap().is_empty() && ec2.start_instances(&[]).await.unwrap().is_empty());
    ec2.terminate_instances(one).await.unwrap();
    assert_eq!(ec2.start_instances(one).await.unwrap_err().code(), Some("IncorrectInstanceState"));
}

#[tokio::test]
async fn a_lost_answer_never_costs_a_second_host_or_instance() {
    let sim = world().await;
    let client = client(&sim);
    let ec2 = client.ec2();
    sim.script(Fault::on("AllocateHosts", What::CutAfter));
    sim.script(Fault::on("RunInstances", What::CutAfter));
    let hosts = ec2.allocate_hosts(&allocation("dh-1", "m5.large", 1)).await.unwrap();
    assert_eq!((sim.calls("AllocateHosts"), sim.hosts().len()), (2, 1));
    let found = ec2.describe_hosts(&HostQuery::by_token(&"dh-1".parse().unwrap())).await.unwrap();
    assert_eq!(found.iter().map(|host| &host.id).collect::<Vec<_>>(), hosts.iter().collect::<Vec<_>>());
    assert_eq!((&found[0].state, found[0].zone.as_ref().unwrap().as_str()), (&HostState::Available, ZONE));
    let instance = ec2.run_instance(&launch(&sim, "ri-1", Some(&hosts[0]))).await.unwrap();
    assert_eq!((sim.calls("RunInstances"), sim.instances().len()), (2, 1));
    assert_eq!(instance.host.as_ref(), Some(&hosts[0]));
    let adopted = ec2.describe_instances(&InstanceQuery::by_token(&"ri-1".parse().unwrap())).await.unwrap();
    assert_eq!((&adopted[0].id, &adopted[0].state), (&instance.id, &InstanceState::Running));
    assert_eq!(
        (adopted[0].tenancy.as_ref(), adopted[0].affinity.as_ref()),
        (Some(&Tenancy::Host), Some(&Affinity::Host))
    );
}

#[tokio::test]
async fn another_request_under_a_used_token_is_an_idempotency_error() {
    let sim = world().await;
    let client = client(&sim);
    client.ec2().allocate_hosts(&allocation("dh-1", "m5.large", 1)).await.unwrap();
    let error = client.ec2().allocate_hosts(&allocation("dh-1", "m5.xlarge", 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Idempotency, Some("IdempotentParameterMismatch")));
    assert_eq!(sim.hosts().len(), 1);
}

#[tokio::test]
async fn each_host_of_a_release_is_judged_on_its_own() {
    let sim = world().await;
    sim.settings(|settings| settings.host_quota = 10);
    let client = client(&sim);
    let ec2 = client.ec2();
    let plain = ec2.allocate_hosts(&allocation("dh-1", "m5.large", 2)).await.unwrap();
    let mac = ec2.allocate_hosts(&allocation("dh-2", "mac1.metal", 1)).await.unwrap();
    ec2.run_instance(&launch(&sim, "ri-1", Some(&plain[0]))).await.unwrap();
    let unknown: HostId = "h-00000000000000000".parse().unwrap();
    let all = [plain[0].clone(), plain[1].clone(), mac[0].clone(), unknown.clone()];
    let judged = ec2.release_hosts(&all).await.unwrap();
    let kind = |host: &HostId| judged.verdict(host).unwrap().map_err(aws::port::ItemError::kind);
    assert_eq!(kind(&plain[0]), Err(Kind::HostOccupied));
    assert_eq!(kind(&plain[1]), Ok(()));
    assert_eq!(kind(&mac[0]), Err(Kind::HostTooYoung));
    assert_eq!(kind(&unknown), Err(Kind::NotFound));
    let after = judged.verdict(&mac[0]).unwrap().unwrap_err().releasable_after().expect("the text names the time");
    let wait = after.duration_since(sim.now()).as_secs();
    assert!((23 * 3600..=24 * 3600).contains(&wait), "{wait}");
}

#[tokio::test]
async fn quotas_capacity_rights_and_mistakes_have_their_kinds() {
    let sim = world().await;
    let client = client(&sim);
    let ec2 = client.ec2();
    let kind = async |request| ec2.allocate_hosts(&request).await.unwrap_err().kind();
    assert_eq!(kind(allocation("dh-1", "m5.large", 3)).await, Kind::HostQuota);
    sim.run_short("AllocateHosts", "c5", ZONE);
    assert_eq!(kind(allocation("dh-2", "c5.large", 1)).await, Kind::HostCapacity);
    sim.script(Fault::deny("AllocateHosts"));
    let error = ec2.allocate_hosts(&allocation("dh-3", "m5.large", 1)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Permission);
    assert!(!chain(&error).contains("Encoded"), "{}", chain(&error));
    let unknown = TypeQuery::Names(vec!["m5.xlrage".parse().unwrap()]);
    let error = ec2.describe_instance_types(&unknown).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Terminal, Some("InvalidInstanceType")));
    let mut dry = launch(&sim, "ri-1", None);
    dry.dry_run = true;
    assert_eq!(ec2.run_instance(&dry).await.unwrap_err().kind(), Kind::DryRun);
    let gone = InstanceQuery::Ids(vec!["i-00000000000000000".parse().unwrap()]);
    assert_eq!(ec2.describe_instances(&gone).await.unwrap_err().kind(), Kind::NotFound);
    assert!(sim.hosts().is_empty() && sim.instances().is_empty());
}

#[tokio::test]
async fn the_catalogue_comes_in_pages_of_a_hundred_and_only_once() {
    let sim = world().await;
    let client = client(&sim);
    let all = client.ec2().describe_instance_types(&TypeQuery::All).await.unwrap();
    assert_eq!(sim.calls("DescribeInstanceTypes"), all.types.len().div_ceil(100));
    let names: BTreeSet<&str> = all.types.iter().map(|facts| &*facts.name).collect();
    assert_eq!((names.len(), all.nameless), (all.types.len(), 0), "no type comes twice");
    assert!(all.types.iter().all(|facts| facts.vcpus > 0 && facts.memory_mib > 0));
    for fault in [What::EmptyPage, What::EmptyToken] {
        sim.script(Fault::on("DescribeInstanceTypes", fault));
        let again = client.ec2().describe_instance_types(&TypeQuery::All).await.unwrap();
        assert_eq!(again, all);
        sim.clear_script();
    }
    sim.script(Fault::on("DescribeInstanceTypes", What::RepeatToken).nth(2).forever());
    let error = client.ec2().describe_instance_types(&TypeQuery::All).await.unwrap_err();
    assert_eq!(error.cause(), &Cause::Paging(PagingError::Loop));
}

#[tokio::test]
async fn more_hosts_than_a_page_holds_are_all_found() {
    let sim = world().await;
    sim.settings(|settings| settings.host_quota = 700);
    let client = client(&sim);
    let ec2 = client.ec2();
    let made: BTreeSet<HostId> =
        ec2.allocate_hosts(&allocation("dh-1", "m5.large", 600)).await.unwrap().into_iter().collect();
    let found = ec2.describe_hosts(&HostQuery::by_tag_key("owner")).await.unwrap();
    assert_eq!((found.len(), sim.calls("DescribeHosts")), (600, 2));
    assert_eq!(found.iter().map(|host| host.id.clone()).collect::<BTreeSet<_>>(), made);
    assert!(ec2.describe_hosts(&HostQuery::by_tag_key("nobody")).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_ground_of_a_launch_is_described() {
    let sim = world().await;
    let client = client(&sim);
    let ec2 = client.ec2();
    let request = launch(&sim, "ri-1", None);
    let instance = ec2.run_instance(&request).await.unwrap();
    let subnets = ec2.describe_subnets(std::slice::from_ref(&request.subnet), &[]).await.unwrap();
    assert_eq!(subnets[0].zone.as_ref().unwrap().as_str(), ZONE);
    let vpc = subnets[0].vpc.clone().unwrap();
    let vpcs = ec2.describe_vpcs(std::slice::from_ref(&vpc)).await.unwrap();
    let dhcp = vpcs[0].dhcp_options.clone().unwrap();
    assert_eq!(ec2.describe_dhcp_options(&[dhcp]).await.unwrap().len(), 1);
    let groups = ec2.describe_security_groups(&[], &[Filter::new("vpc-id", [vpc.as_str()])]).await.unwrap();
    let interface = instance.interfaces[0].id.clone().unwrap();
    ec2.set_interface_security_groups(&interface, std::slice::from_ref(&groups[0].id)).await.unwrap();
    let filter = [Filter::new("attachment.instance-id", [instance.id.as_str()])];
    let interfaces = ec2.describe_network_interfaces(&filter).await.unwrap();
    assert_eq!(interfaces[0].security_groups, std::slice::from_ref(&groups[0].id));
    let volumes = ec2.describe_volumes(&filter).await.unwrap();
    assert_eq!(volumes[0].tags, request.tags);
    let images = ec2.describe_images(&ImageQuery { ids: vec![request.image.clone()], ..ImageQuery::default() }).await;
    assert_eq!(images.unwrap()[0].id, request.image);
    let options = MetadataOptions { http_tokens: Some("required".to_owned()), ..MetadataOptions::default() };
    ec2.modify_instance_metadata_options(&instance.id, &options).await.unwrap();
    let again = ec2.describe_instances(&InstanceQuery::Ids(vec![instance.id.clone()])).await.unwrap();
    assert_eq!(again[0].metadata.http_tokens.as_deref(), Some("required"));
    ec2.delete_tags(&[instance.id.to_string()], &["owner".to_owned()]).await.unwrap();
    let filter = [Filter::new("resource-id", [instance.id.as_str()])];
    assert!(ec2.describe_tags(&filter).await.unwrap().is_empty());
    let ended = ec2.terminate_instances(std::slice::from_ref(&instance.id)).await.unwrap();
    assert_eq!(ended[0].now, InstanceState::ShuttingDown);
    assert!(ec2.describe_regions().await.unwrap().iter().any(|region| region.name == "us-east-1"));
    assert!(ec2.describe_availability_zones().await.unwrap().iter().any(|zone| zone.name.as_str() == ZONE));
}

#[tokio::test]
async fn roles_and_web_identities_sign_what_the_service_accepts() {
    let sim = world().await;
    let (first, second) = ("arn:aws:iam::123456789012:role/first", "arn:aws:iam::123456789012:role/second");
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "web.token.1").unwrap();
    let open = Role { external_id: None, web_tokens: BTreeSet::from(["web.token.1".to_owned()]), closed: false };
    sim.add_role(first, open);
    sim.add_role(second, Role { external_id: Some("word".to_owned()), web_tokens: BTreeSet::new(), closed: false });
    let web = Source::WebIdentity(WebIdentity {
        role: first.parse().unwrap(),
        token_file: token.path().to_owned(),
        session_name: Some("berth".to_owned()),
    });
    let second_role = |external_id: Option<&str>| {
        Source::Role(Box::new(RoleSource {
            role: second.parse().unwrap(),
            session_name: None,
            duration_seconds: None,
            external_id: external_id.map(str::to_owned),
            inline_policy: None,
            policy_arns: Vec::new(),
            from: web.clone(),
        }))
    };
    let client = client_of(&sim, second_role(Some("word")));
    let who = client.get_caller_identity().await.unwrap();
    assert_eq!(who.account.as_str(), "123456789012");
    assert!(who.arn.contains(":assumed-role/second/berth"), "{}", who.arn);
    assert!(client.ec2().describe_regions().await.is_ok());
    assert_eq!((sim.calls("AssumeRoleWithWebIdentity"), sim.calls("AssumeRole")), (1, 1));
    let error = client_of(&sim, second_role(None)).ec2().describe_regions().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Permission, "{}", chain(&error));
    std::fs::write(token.path(), "forged").unwrap();
    let error = client_of(&sim, web).ec2().describe_regions().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Permission, "{}", chain(&error));
}

#[tokio::test]
async fn wrong_keys_are_a_matter_of_rights_and_nothing_is_done() {
    let sim = world().await;
    let wrong = Source::Keys(Keys { id: sim.access_key.clone(), secret: "other".to_owned().into(), session: None });
    let error = client_of(&sim, wrong).ec2().allocate_hosts(&allocation("dh-1", "m5.large", 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_done()), (Kind::Permission, false), "{}", chain(&error));
    assert!(sim.hosts().is_empty());
}

/// Carries requests to a simulator in the same process, so that time can be paused.
struct Wire(Handle);

impl Carry for Wire {
    fn carry(
        &self,
        request: http::Request<bytes::Bytes>,
    ) -> futures::future::BoxFuture<'static, Option<http::Response<bytes::Bytes>>> {
        let ec2 = self.0.clone();
        Box::pin(async move { ec2.carry(request).await })
    }
}

#[tokio::test(start_paused = true)]
async fn in_an_account_that_others_use_too_at_most_a_fifth_of_what_is_left_goes_unused() {
    const CALLS: usize = 300;
    let begin = jiff::Timestamp::UNIX_EPOCH;
    let mut options = sim::ec2::Options { time: Some(begin), ..sim::ec2::Options::default() };
    // Others take half of it.
    options.settings.throttle = Throttle::Percent(50);
    options.settings.host_quota = 1_000;
    let sim = sim::ec2::without_socket(options);
    let mut options = Options::new("berth/0");
    options.limits = Limits::Published;
    options.carrier = Some(Arc::new(Wire(sim.clone())));
    let clock = Clock::simulated(begin, 1);
    let flag = format!("ec2={}", sim.endpoint).parse().unwrap();
    let scope = Scope {
        region: "us-east-1".parse().unwrap(),
        source: keys(&sim),
        endpoints: Endpoints::new().flag(flag),
        trust: Trust::System,
    };
    let client = Aws::new(options, clock.clone(), Meter::default()).client(&scope).unwrap();
    let started = clock.instant();
    let one = |number: usize| {
        let ec2 = client.ec2();
        async move {
            let wanted = allocation(&format!("t{number}"), "m5.large", 1);
            // Who is sent away comes again, as a room does.
            while let Err(error) = ec2.allocate_hosts(&wanted).await {
                assert_eq!(error.kind(), Kind::Throttled, "{error}");
            }
        }
    };
    futures::stream::iter((0..CALLS).map(one)).buffer_unordered(40).collect::<Vec<()>>().await;
    assert_eq!(sim.hosts().len(), CALLS, "and nothing was asked for twice");
    let (took, best) = ((clock.instant() - started).as_secs_f64(), (CALLS as f64 - 25.0) / 2.5);
    assert!(took <= best / 0.8, "{took} s, and {best} s are possible");
}
