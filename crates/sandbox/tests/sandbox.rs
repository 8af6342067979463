//! The sandbox keeps its word: it starts what it is asked to, says when it is ready, and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::DynamicObject;
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::json;
use sim::plane::{PlaneError, Server, required};

const SANDBOX: &str = env!("CARGO_BIN_EXE_berth-sandbox");

/// Stands in for `berth` where the sandbox is tested and not the operator.
const STAND_IN: &str = r#"#!/bin/sh
case $1 in
crds) cat <<YAML
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.stand.in}
spec:
  group: stand.in
  scope: Cluster
  names: {kind: Thing, plural: things, singular: thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
YAML
;;
run) echo "the disk is full" >&2; exit 3 ;;
esac
"#;

fn server(test: &str) -> bool {
    match Server::find() {
        Ok(_) => true,
        Err(error @ PlaneError::NotFound { .. }) if !required() => {
            eprintln!("SKIPPED {test}: {error}");
            false
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

fn stand_in(dir: &Path) -> PathBuf {
    let path = dir.join("stand-in");
    fs::write(&path, STAND_IN).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn up(dir: &Path, args: &[&str]) -> Child {
    up_with(dir, args, &stand_in(dir))
}

fn up_with(dir: &Path, args: &[&str], berth: &Path) -> Child {
    let (out, err) = (fs::File::create(dir.join("out")).unwrap(), fs::File::create(dir.join("err")).unwrap());
    let mut command = Command::new(SANDBOX);
    command.args(["up", "--dir"]).arg(dir.join("world")).args(args).env("BERTH_BIN", berth);
    command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap()
}

/// The operator itself, for what cannot be seen without it.
fn built(test: &str) -> Option<PathBuf> {
    let berth = Path::new(SANDBOX).with_file_name("berth");
    if !berth.is_file() && !required() {
        eprintln!("SKIPPED {test}: {} is not built", berth.display());
        return None;
    }
    Some(berth)
}

async fn client(world: &Path) -> kube::Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let file = kube::config::Kubeconfig::read_from(world.join("plane/kubeconfig")).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

fn within<T>(seconds: u64, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(seconds), "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn plane_pid(dir: &Path) -> u32 {
    fs::read_to_string(dir.join("world/plane/ready")).unwrap().trim().parse().unwrap()
}

fn run(args: &[&str]) -> Output {
    Command::new(SANDBOX).args(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_wrong_command_line_is_exit_code_2_and_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let world = dir.path().join("world");
    let world = world.to_str().unwrap();
    for (args, named) in [
        (vec!["up", "--dir", world, "--with", "capi,openstack"], "openstack"),
        (vec!["up", "--dir", world, "--with", "moon"], "moon"),
        (vec!["up", "--dir", world, "--without", "plane"], "--without"),
        (vec!["up"], "--dir"),
    ] {
        let output = run(&args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(named), "{args:?}: {error}");
    }
    assert!(!Path::new(world).exists());
    let output = Command::new(SANDBOX).args(["up", "--dir", world]).env("BERTH_BIN", "/no/such/file").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(!Path::new(world).exists());
}

#[test]
fn the_demo_begins_with_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("something"), "").unwrap();
    let mut demo = Command::new(SANDBOX);
    let output = demo.args(["demo", "--dir"]).arg(dir.path()).env("BERTH_BIN", stand_in(dir.path())).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--dir"));
}

#[test]
fn it_is_ready_last_and_a_signal_stops_exactly_what_it_started() {
    if !server("it_is_ready_last_and_a_signal_stops_exactly_what_it_started") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut sandbox = up(dir.path(), &["--without", "berth"]);
    let world = dir.path().join("world");
    within(120, "it is ready", || world.join("ready").exists().then_some(()));
    let env = fs::read_to_string(world.join("env")).unwrap();
    assert!(env.contains("export KUBECONFIG='") && !env.contains("BERTH_HEALTH"), "{env}");
    let pid = plane_pid(dir.path());
    assert!(alive(pid));

    let mut second = Command::new(SANDBOX);
    second.args(["up", "--dir"]).arg(&world).env("BERTH_BIN", dir.path().join("stand-in")).stdin(Stdio::null());
    let second = second.output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(world.join("ready").exists() && alive(pid), "the first one is left alone");

    assert!(Command::new("kill").args(["-TERM", &sandbox.id().to_string()]).status().unwrap().success());
    let status = within(30, "it ends", || sandbox.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert!(!alive(pid));
    assert!(!world.join("ready").exists());
}

#[test]
fn hosts_become_available_in_it() {
    if !server("hosts_become_available_in_it") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut sandbox = up(dir.path(), &["--without", "berth", "--with", "hosts", "--hosts", "2"]);
    let world = dir.path().join("world");
    within(120, "it is ready", || world.join("ready").exists().then_some(()));
    assert!(fs::read_to_string(world.join("env")).unwrap().contains("export HOSTS_NAMESPACE='infra'"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let states = || {
        runtime.block_on(async {
            let client = client(&world).await;
            let kind = sim::metal::resource("BareMetalHost").unwrap();
            let api: Api<DynamicObject> = Api::namespaced_with(client, "infra", &kind);
            let hosts = api.list(&Default::default()).await.unwrap();
            let state = |host: &DynamicObject| {
                host.data.pointer("/status/provisioning/state").and_then(|state| state.as_str().map(str::to_owned))
            };
            hosts.items.iter().filter_map(state).collect::<Vec<_>>()
        })
    };
    within(60, "both hosts are available", || (states() == ["available", "available"]).then_some(()));
    assert!(Command::new("kill").args(["-TERM", &sandbox.id().to_string()]).status().unwrap().success());
    assert_eq!(within(30, "it ends", || sandbox.try_wait().unwrap()).code(), Some(0));
}

#[test]
fn simulated_clouds_answer_in_it_and_are_gone_with_it() {
    if !server("simulated_clouds_answer_in_it_and_are_gone_with_it") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut sandbox = up(dir.path(), &["--without", "berth", "--with", "ec2,cloudstack"]);
    let world = dir.path().join("world");
    within(120, "it is ready", || world.join("ready").exists().then_some(()));
    let script = format!(
        ". {}/env; echo $BERTH_EC2_ENDPOINT $AWS_ACCESS_KEY_ID $BERTH_CLOUDSTACK_ENDPOINT $BERTH_CLOUDSTACK_API_KEY $BERTH_CLOUDSTACK_SECRET_KEY",
        world.display()
    );
    let said = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let said: Vec<&str> = said.trim().split(' ').collect();
    assert!(said.len() == 5 && said[1].starts_with("AKIA"), "{said:?}");
    let port = |endpoint: &str| -> u16 { endpoint.strip_prefix("http://127.0.0.1:").unwrap().parse().unwrap() };
    let (port, other) = (port(said[0]), port(said[2].strip_suffix("/client/api").unwrap()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Unsigned, so that it is refused as EC2 refuses it.
    let (code, body) = runtime.block_on(sim::plane::http_get(port, "/?Action=DescribeRegions")).unwrap();
    assert!((400..500).contains(&code) && body.contains("<Code>"), "{code} {body}");
    let (code, body) = runtime.block_on(sim::plane::http_get(other, "/client/api?command=listZones")).unwrap();
    assert!(code == 401 && body.contains("listzonesresponse"), "{code} {body}");

    assert!(Command::new("kill").args(["-TERM", &sandbox.id().to_string()]).status().unwrap().success());
    assert_eq!(within(30, "it ends", || sandbox.try_wait().unwrap()).code(), Some(0));
    for port in [port, other] {
        assert!(runtime.block_on(sim::plane::http_get(port, "/")).is_err(), "it still listens");
    }
}

/// What the sandbox writes for whoever works in it, with all parts.
const VARIABLES: [&str; 14] = [
    "KUBECONFIG",
    "CAPI_HEALTH",
    "IPAM_HEALTH",
    "HOSTS_NAMESPACE",
    "BERTH_EC2_ENDPOINT",
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "BERTH_CLOUDSTACK_ENDPOINT",
    "BERTH_CLOUDSTACK_API_KEY",
    "BERTH_CLOUDSTACK_SECRET_KEY",
    "BERTH_HEALTH",
    "BERTH_METRICS",
];

/// The text of the Quickstart that begins like this.
fn shown(begins: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/quickstart.md");
    let page = fs::read_to_string(page).unwrap();
    let text = page.split("```text\n").find(|text| text.starts_with(begins));
    text.unwrap_or_else(|| panic!("no text begins with {begins:?}")).split("```").next().unwrap().to_owned()
}

/// A line without the seconds at its end, without ports, and without the moment until which something is good.
fn timeless(line: &str) -> String {
    if let Some((before, after)) = line.split_once(" is good until ") {
        let rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || "-T:Z".contains(c));
        return format!("{before} is good until{rest}");
    }
    let line = line.rsplit_once(" (").filter(|(_, rest)| rest.ends_with(" s)")).map_or(line, |(line, _)| line);
    let Some((before, after)) = line.split_once("127.0.0.1:") else { return line.to_owned() };
    format!("{before}127.0.0.1{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn the_whole_world_stands_and_every_version_of_a_kind_can_be_used_in_it() {
    let test = "the_whole_world_stands_and_every_version_of_a_kind_can_be_used_in_it";
    if !server(test) {
        return;
    }
    let Some(berth) = built(test) else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut sandbox = up_with(dir.path(), &["--with", "capi,ipam,hosts,ec2,cloudstack"], &berth);
    let world = dir.path().join("world");
    let said =
        || fs::read_to_string(dir.path().join("out")).unwrap() + &fs::read_to_string(dir.path().join("err")).unwrap();
    within(180, "it is ready", || {
        assert!(sandbox.try_wait().unwrap().is_none(), "it has ended:\n{}", said());
        world.join("ready").exists().then_some(())
    });

    let sourced = |script: &str| {
        let script = format!(". '{}/env'; {script}", world.display());
        let output =
            Command::new("sh").args(["-c", &script]).env("BERTH", &berth).env_remove("COLUMNS").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (_, environment) = sourced("env");
    for name in VARIABLES.into_iter().chain(["BERTH_SANDBOX"]) {
        let set = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('=') && rest.len() > 1);
        assert!(environment.lines().any(set), "{name} is not set:\n{environment}");
    }
    // All is in place and nothing runs yet, so there is nothing to look at either.
    let report = within(60, "the three kinds of machines are served", || {
        let (code, report) = sourced("\"$BERTH\" doctor");
        assert_eq!(code, Some(0), "{report}");
        // Berth says that it serves them once it leads.
        report.contains("served: aws-dedicated-host, baremetal, cloudstack-vm").then_some(report)
    });
    // The page about it shows what is printed.
    let lines = |text: &str| text.lines().map(timeless).collect::<Vec<_>>();
    // Another server has another version; that is its first line.
    assert_eq!(lines(&report)[1..], lines(shown("✓ api").trim_end())[1..], "{report}");
    // They are made before the sandbox is ready, and inspected at their own pace.
    let hosts = within(60, "four hosts are free", || {
        let hosts = sourced("\"$BERTH\" hosts -A").1;
        hosts.contains("4 hosts: 4 free").then_some(hosts)
    });
    assert_eq!(hosts.trim_end(), shown("NAMESPACE  NAME").trim_end());
    let (printed, steps) = (lines(&said()), lines(&shown("API server: ready")));
    for step in &steps {
        assert!(printed.contains(step), "{step:?} is not among {printed:#?}");
    }

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client(&world).await;
        let api = |group: &str, version: &str, kind: &str, namespace: &str| -> Api<DynamicObject> {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            match namespace {
                "" => Api::all_with(client.clone(), &resource),
                _ => Api::namespaced_with(client.clone(), namespace, &resource),
            }
        };
        let hooks =
            api("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig", "").get("vip-allocator").await.unwrap();
        let handlers = hooks.data["status"]["handlers"].as_array().cloned().unwrap_or_default();
        let answers = |hook: &str| handlers.iter().any(|handler| handler["requestHook"]["hook"] == hook);
        assert!(answers("BeforeClusterCreate") && answers("GeneratePatches"), "{handlers:?}");

        let infrastructure = "infrastructure.cluster.x-k8s.io";
        let image = json!({"url": "http://images.example.com/a.qcow2", "checksum": "http://images.example.com/a.sha256",
            "checksumType": "sha256", "format": "raw"});
        let machine = json!({"apiVersion": format!("{infrastructure}/v1beta1"), "kind": "Metal3Machine",
            "metadata": {"name": "older", "namespace": "default"}, "spec": {"image": image}});
        sim::plane::apply(&client, &machine).await.unwrap();
        for (version, format) in [("v1beta1", "format"), ("v1beta2", "diskFormat")] {
            let found = api(infrastructure, version, "Metal3Machine", "default").get("older").await.unwrap();
            assert_eq!(found.types.unwrap().api_version, format!("{infrastructure}/{version}"));
            assert_eq!(found.data["spec"]["image"][format], "raw", "{version}");
        }
    });

    assert!(Command::new("kill").args(["-TERM", &sandbox.id().to_string()]).status().unwrap().success());
    assert_eq!(within(30, "it ends", || sandbox.try_wait().unwrap()).code(), Some(0), "{}", said());
}

#[test]
fn a_part_that_dies_is_named_with_its_code_and_its_last_words() {
    if !server("a_part_that_dies_is_named_with_its_code_and_its_last_words") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut sandbox = up(dir.path(), &[]);
    let status = within(120, "it ends", || sandbox.try_wait().unwrap());
    assert_eq!(status.code(), Some(1));
    let error = fs::read_to_string(dir.path().join("err")).unwrap();
    assert!(["berth", "3", "the disk is full", "berth.log"].iter().all(|part| error.contains(part)), "{error}");
    assert!(!dir.path().join("world/ready").exists());
}

#[test]
fn killed_without_a_chance_it_still_leaves_nothing_behind() {
    if !server("killed_without_a_chance_it_still_leaves_nothing_behind") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut sandbox = up(dir.path(), &["--without", "berth"]);
    within(120, "it is ready", || dir.path().join("world/ready").exists().then_some(()));
    let pid = plane_pid(dir.path());
    sandbox.kill().unwrap();
    sandbox.wait().unwrap();
    within(30, "the API server ends", || (!alive(pid)).then_some(()));
}

#[test]
fn every_claim_of_the_demo_holds() {
    let test = "every_claim_of_the_demo_holds";
    if !server(test) {
        return;
    }
    if built(test).is_none() {
        return;
    }
    let output = Command::new(SANDBOX).arg("demo").stdin(Stdio::null()).env_remove("BERTH_BIN").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(!out.contains('\x1b'), "no escape codes where there is no terminal");
    assert!(out.contains("claims, all true"), "{out}");
    let next = out.split_once("\nNext:\n").map(|(_, next)| next.lines().map(command).collect::<Vec<_>>());
    let wanted = ["make sandbox", ". target/sandbox/env; target/debug/berth hosts -A", "make test"];
    assert_eq!(next.as_deref(), Some(wanted.as_slice()), "{out}");
}

/// The command of a line that also says what it is for.
fn command(line: &str) -> &str {
    line.trim_start().split("  ").next().unwrap_or_default()
}

#[test]
fn a_step_of_the_demo_that_fails_is_named_with_its_log() {
    if !server("a_step_of_the_demo_that_fails_is_named_with_its_log") {
        return;
    }
    let (dir, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut demo = Command::new(SANDBOX);
    demo.args(["demo", "--dir"]).arg(dir.path()).env("BERTH_BIN", stand_in(programs.path())).stdin(Stdio::null());
    let output = demo.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
    let step = "Berth starts before its kinds exist, is ready, and says what it waits for";
    assert!(out.contains(&format!("  FAILED {step} (")) && !out.contains("Next:"), "{out}");
    let log = dir.path().canonicalize().unwrap().join("berth.log");
    let told = format!("berth-sandbox: the step \"{step}\" failed, see {}: ", log.display());
    assert!(err.contains(&told) && err.contains("the disk is full"), "{err}");
    assert!(fs::read_to_string(log).unwrap().contains("the disk is full"));
}
