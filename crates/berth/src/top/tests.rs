use kit::telemetry::{Failed, Lately, Samples, Slow};

use super::figures::{Gate, Report, Taken};
use super::*;
use crate::screen::tests::at_widths;

/// The metrics of one process: as many passes of `claims` as are given, and what else a busy Berth serves.
fn metrics(passes: u32, failed: u32, cpu: f64) -> String {
    let fast = passes - passes / 10;
    format!(
        r#"# HELP berth_build What this binary was built from
berth_build_info{{version="0.1.0"}} 1
berth_room_queue_waiting{{room="claims"}} 12
berth_room_queue_waiting{{room="vip"}} 0
berth_room_queue_busy{{room="claims"}} 3
berth_room_queue_busy{{room="vip"}} 0
berth_room_passes_total{{room="claims",outcome="changed"}} {passes}
berth_room_passes_total{{room="claims",outcome="failed"}} {failed}
berth_room_passes_total{{room="vip",outcome="unchanged"}} 7
berth_room_failures_total{{room="claims",class="transient"}} {failed}
berth_room_panics_total{{room="claims"}} 1
berth_room_pass_seconds_sum{{room="claims"}} {sum}
berth_room_pass_seconds_count{{room="claims"}} {passes}
berth_room_pass_seconds_bucket{{le="0.02",room="claims"}} {fast}
berth_room_pass_seconds_bucket{{le="0.5",room="claims"}} {passes}
berth_room_pass_seconds_bucket{{le="+Inf",room="claims"}} {passes}
berth_room_pass_seconds_sum{{room="vip"}} 0.0021
berth_room_pass_seconds_count{{room="vip"}} 7
berth_room_pass_seconds_bucket{{le="0.001",room="vip"}} 7
berth_room_pass_seconds_bucket{{le="+Inf",room="vip"}} 7
berth_aws_requests_total{{service="ec2",operation="DescribeHosts",region="us-west-2",code=""}} {passes}
berth_aws_requests_total{{service="ec2",operation="DescribeHosts",region="us-west-2",code="RequestLimitExceeded"}} {failed}
berth_aws_requests_total{{service="ec2",operation="AllocateHosts",region="us-west-2",code="HostLimitExceeded"}} 2
berth_aws_request_seconds_bucket{{le="0.1",service="ec2",operation="DescribeHosts"}} {passes}
berth_aws_request_seconds_bucket{{le="+Inf",service="ec2",operation="DescribeHosts"}} {passes}
berth_aws_request_seconds_count{{service="ec2",operation="DescribeHosts"}} {passes}
berth_cloudstack_requests_total{{endpoint="acs:8080",command="listZones",class="ok"}} 40
berth_cloudstack_requests_total{{endpoint="acs:8080",command="listZones",class="throttled"}} 4
berth_serve_requests_total{{server="hooks",code="200"}} {passes}
berth_serve_requests_total{{server="metrics",code="200"}} 9
berth_serve_in_flight{{server="hooks"}} 2
berth_serve_request_duration_seconds_bucket{{le="0.005",server="hooks"}} {passes}
berth_serve_request_duration_seconds_bucket{{le="+Inf",server="hooks"}} {passes}
berth_serve_request_duration_seconds_count{{server="hooks"}} {passes}
berth_claims_waiting_claims{{reason="NoMatchingHost"}} 9
berth_claims_waiting_claims{{reason="QuotaExceeded"}} 2
berth_machines_waiting_machines{{reason="WaitingForClaim"}} 3
process_resident_memory_bytes 35651584
process_cpu_seconds_total {cpu}
process_start_time_seconds 1767225600
# EOF
"#,
        sum = f64::from(passes) * 0.05,
    )
}

fn gate(name: &str, state: &str, detail: &str) -> Gate {
    Gate { name: name.to_owned(), state: state.to_owned(), detail: detail.to_owned() }
}

/// What the one that decides says of its passes: more failures than a screen shows.
fn lately() -> Lately {
    let at = |minute: u32| format!("2026-01-01T02:{minute:02}:00Z").parse().unwrap();
    let slow = |room: &str, kind: Option<&str>, object: &str, seconds: f64| Slow {
        room: room.to_owned(),
        kind: kind.map(str::to_owned),
        object: object.to_owned(),
        outcome: "changed".to_owned(),
        seconds,
        at: at(55),
    };
    let failed = |number: u32| Failed {
        room: "hosts".to_owned(),
        kind: Some("AWSMachine".to_owned()),
        object: format!("team-a/prod-md-0-{number}"),
        sort: "failed".to_owned(),
        class: "transient".to_owned(),
        reason: Some("HostCapacityUnavailable".to_owned()),
        seconds: 1.25,
        times: u64::from(number),
        at: at(59 - number),
    };
    let mut errors: Vec<Failed> = (1..10).map(failed).collect();
    errors.insert(
        0,
        Failed {
            room: "capacity".to_owned(),
            kind: None,
            object: "MachineDeployment team-a/prod-md-0".to_owned(),
            sort: "timed out".to_owned(),
            reason: None,
            seconds: 30.0,
            ..failed(0)
        },
    );
    let slowest = vec![
        slow("capacity", None, "MachineDeployment team-a/prod-md-0", 30.0),
        slow("claims", Some("HostClaim"), "team-a/web-1", 0.26),
    ];
    Lately { window_seconds: 600, slowest, errors }
}

fn look(at: u64, passes: u32, failed: u32) -> Look {
    let leading = Report { ready: true, gates: vec![gate("leadership", "ready", "this replica decides")] };
    let standing = Report {
        ready: false,
        gates: vec![gate("certs", "blocked", "not started"), gate("leadership", "waiting", "berth-a decides")],
    };
    let idle = "berth_build_info{version=\"0.1.0\"} 1\nprocess_resident_memory_bytes 20971520\n\
                process_cpu_seconds_total 1\nberth_claims_waiting_claims{reason=\"NoMatchingHost\"} 9\n";
    Look {
        taken: vec![
            Taken {
                name: "berth-7d9c-a".to_owned(),
                metrics: Samples::parse(&metrics(passes, failed, f64::from(passes) / 1000.0)),
                report: Some(leading),
                lately: Some(lately()),
                closed: None,
            },
            Taken {
                name: "berth-7d9c-b".to_owned(),
                metrics: Samples::parse(idle),
                report: Some(standing),
                lately: Some(Lately::default()),
                closed: None,
            },
        ],
        unseen: vec!["berth-7d9c-c: pods \"berth-7d9c-c\" is forbidden".to_owned()],
        at: Duration::from_secs(at),
        now: 1_767_225_600 + 10_800,
    }
}

pub fn busy() -> Figures {
    Figures::of(&look(0, 1_000, 10), &look(2, 1_200, 12))
}

#[test]
fn rates_are_those_since_the_last_look_and_totals_those_since_the_start() {
    let figures = busy();
    let claims = &figures.rooms[0];
    assert_eq!((claims.room.as_str(), claims.waiting, claims.busy), ("claims", 12.0, 3.0), "the busiest comes first");
    assert_eq!((claims.passes_per_second, claims.failures_per_second, claims.failures), (101.0, 1.0, 12.0));
    assert!((claims.load - 5.0).abs() < 1e-9 && claims.mean_seconds.is_some_and(|mean| (mean - 0.05).abs() < 1e-9));
    assert_eq!(claims.panics, 1.0);
    let quiet = &figures.rooms[1];
    assert_eq!((quiet.passes_per_second, quiet.load), (0.0, 0.0));
    assert!(quiet.mean_seconds.is_some(), "without a pass since the last look, that of all passes is told");
    let ec2 = &figures.calls[0];
    assert_eq!(
        (ec2.errors, ec2.throttled, ec2.throttled_per_second),
        (14.0, 12.0, 1.0),
        "a limit of hosts is no throttle"
    );
    assert_eq!(figures.calls[1].throttled, 4.0);
    assert_eq!(figures.servers.len(), 1, "what is asked by this program is not shown");
    assert_eq!(figures.waits[0].objects, 9.0, "two replicas see the same claims");
    assert_eq!((figures.errors.len(), figures.slowest.len()), (10, 2), "programs get all");
    let decides: Vec<Option<bool>> = figures.instances.iter().map(|one| one.decides).collect();
    assert_eq!(decides, [Some(true), Some(false)]);
}

#[test]
fn a_process_that_restarted_or_is_new_has_no_wrong_rates() {
    let restarted = Figures::of(&look(0, 1_000, 10), &look(2, 20, 0));
    assert_eq!(restarted.rooms[0].passes_per_second, 10.0);
    let fresh = Figures::of(&Look::default(), &look(2, 1_000, 10));
    assert_eq!((fresh.rooms[0].passes_per_second, fresh.rooms[0].failures), (0.0, 10.0));
    assert_eq!(fresh.instances[0].cpus, None);
    let alone = Look { taken: vec![Taken { report: None, ..Taken::default() }], ..Look::default() };
    let figures = Figures::of(&alone, &alone);
    assert_eq!((figures.instances[0].ready, figures.instances[0].decides), (None, None));
}

#[test]
fn the_screen_of_a_busy_berth() {
    let figures = busy();
    insta::assert_snapshot!(at_widths(|screen| show::draw(screen, &figures)));
    insta::assert_snapshot!("figures_for_programs", serde_json::to_string_pretty(&figures).unwrap());
}

#[test]
fn the_screen_of_a_berth_that_says_little() {
    let (name, metrics) = ("127.0.0.1:8080".to_owned(), Samples::parse("x 1\n"));
    let taken = vec![Taken { name, metrics, ..Taken::default() }];
    let look = Look { taken, at: Duration::from_secs(1), ..Look::default() };
    insta::assert_snapshot!(at_widths(|screen| show::draw(screen, &Figures::of(&Look::default(), &look))));
}

#[test]
fn who_is_refused_the_passes_is_told_how_to_see_them_and_programs_read_the_same_document() {
    let mut after = look(2, 1_200, 12);
    for taken in &mut after.taken {
        (taken.lately, taken.closed) = (None, Some(format!("ask {}", taken.name)));
    }
    let (figures, open) = (Figures::of(&look(0, 1_000, 10), &after), busy());
    let shown = show::draw(Screen { width: None, colour: false }, &figures);
    // It stands where the others would, and names the one that decides.
    let told = "last errors and slowest objects are told on the loopback interface alone: ask berth-7d9c-a\n";
    let (before, rest) = shown.split_once(told).unwrap();
    assert!(before.contains("ROOM") && rest.contains("CALLS TO") && !rest.contains("loopback"), "{shown}");
    assert!(!shown.contains("SLOWEST") && !shown.contains("LAST ERRORS"), "{shown}");
    let parts = |figures: &Figures| match serde_json::to_value(figures).unwrap() {
        serde_json::Value::Object(parts) => parts,
        other => panic!("{other}"),
    };
    let (seen, all) = (parts(&figures), parts(&open));
    assert!(seen.keys().eq(all.keys()), "{seen:?}");
    assert_eq!((&seen["slowest"], &seen["errors"]), (&serde_json::json!([]), &serde_json::json!([])));
}

#[test]
fn the_first_screen_is_there_again_even_after_a_panic() {
    let mut written = Vec::new();
    let drawing = std::panic::AssertUnwindSafe(|| -> std::io::Result<()> {
        let mut other = Other::enter(&mut written)?;
        other.show("figures")?;
        panic!("a fault in what is drawn");
    });
    assert!(std::panic::catch_unwind(drawing).is_err());
    assert_eq!(String::from_utf8(written).unwrap(), format!("{ENTER}{CLEAR}figures{LEAVE}"));
}

#[test]
fn nothing_is_left_on_the_terminal_of_who_left_before_the_first_look() {
    let (screen, view) = (Screen { width: Some(80), colour: false }, View::default());
    assert_eq!(told(screen, &view, None), "looking…\n");
    assert_eq!(left(screen, &view, None), "");
    let figures = Ok(busy());
    assert_eq!(left(screen, &view, Some(&figures)), told(screen, &view, Some(&figures)));
}

/// Serves a router on a port of this machine while `work` runs.
pub async fn serving<T>(router: axum::Router, work: impl AsyncFnOnce(String) -> T) -> T {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = router.into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::select! {
        end = axum::serve(listener, app).into_future() => panic!("{end:?}"),
        result = work(url) => result,
    }
}

fn options(args: &[&str]) -> TopOptions {
    use clap::Parser;
    match crate::cli::Cli::parse_from(["berth", "top"].iter().chain(args)).command {
        crate::cli::Command::Top(options) => options,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_process_is_asked_by_its_address() {
    let gates = kit::gates::Gates::new();
    gates.gate("certs").waiting("soon");
    let metrics = kit::telemetry::Metrics::new();
    let (object, took) = ("team-a/web-1", Duration::from_millis(7));
    let pass =
        kit::telemetry::Pass { room: "claims", kind: None, object: &object, outcome: "changed", took, failure: None };
    metrics.passes().ended(&Clock::system(), &pass);
    let router = kit::telemetry::metrics_router(metrics).merge(kit::telemetry::health_router(gates));
    serving(router, async |url: String| {
        let clock = Clock::system();
        let flags = options(&["--url", &url, "--health-url", &url]);
        let source = Source::open(&flags, &clock).await.unwrap();
        let look = source.look(&clock, clock.instant()).await.unwrap();
        assert_eq!((look.taken.len(), look.unseen.len()), (1, 0), "{look:?}");
        assert!(look.taken[0].report.as_ref().is_some_and(|report| report.ready && report.gates[0].detail == "soon"));
        let figures = Figures::of(&look, &look);
        assert!(figures.instances[0].memory_bytes.is_some_and(|bytes| bytes > 0.0));
        assert_eq!(figures.slowest.iter().map(|slow| slow.object.as_str()).collect::<Vec<_>>(), ["team-a/web-1"]);
        let wrong = options(&["--url", &format!("{url}/elsewhere")]);
        let error = Source::open(&wrong, &clock).await.unwrap().look(&clock, clock.instant()).await.unwrap_err();
        assert!(error.to_string().contains("it answers 404"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn through_the_api_server_everything_is_seen_but_what_is_told_on_loopback_alone() {
    let pods = serde_json::json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [
        {"metadata": {"name": "berth-a"}, "spec": {"containers": [
            {"name": "berth", "ports": [{"name": "metrics", "containerPort": 18080}]}]}}]});
    let pods = pods.to_string();
    let root = "/api/v1/namespaces/harbour/pods";
    let refused = || async { (http::StatusCode::FORBIDDEN, "on the loopback interface alone\n") };
    let router = axum::Router::new()
        .route(root, axum::routing::get(move || async move { pods }))
        .route(&format!("{root}/berth-a:18080/proxy/metrics"), axum::routing::get(|| async { "x 1\n" }))
        .route(&format!("{root}/berth-a:18080/proxy/passes"), axum::routing::get(refused))
        .route(&format!("{root}/berth-a:9440/proxy/readyz"), axum::routing::get(|| async { "{\"ready\":true}" }));
    serving(router, async |url: String| {
        let mut config = kube::Config::new(url.parse().unwrap());
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        let (source, clock) = (Source::Pods { client, namespace: "harbour".to_owned() }, Clock::system());
        let look = source.look(&clock, clock.instant()).await.unwrap();
        assert_eq!((look.taken.len(), look.unseen.len()), (1, 0), "{look:?}");
        let figures = Figures::of(&look, &look);
        assert_eq!(figures.instances[0].ready, Some(true));
        let way = "kubectl --namespace harbour port-forward pod/berth-a 18080, \
                   then berth top --url http://127.0.0.1:18080";
        assert_eq!(figures.closed.as_deref(), Some(way));
    })
    .await;
}
