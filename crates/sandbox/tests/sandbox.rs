//! The sandbox keeps its word: it starts what it is asked to, says when it is ready, and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

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
    let (out, err) = (fs::File::create(dir.join("out")).unwrap(), fs::File::create(dir.join("err")).unwrap());
    let mut command = Command::new(SANDBOX);
    command.args(["up", "--dir"]).arg(dir.join("world")).args(args).env("BERTH_BIN", stand_in(dir));
    command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap()
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
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            let file = kube::config::Kubeconfig::read_from(world.join("plane/kubeconfig")).unwrap();
            let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
            let client = kube::Client::try_from(config).unwrap();
            let kind = sim::metal::resource("BareMetalHost").unwrap();
            let api: kube::Api<kube::api::DynamicObject> = kube::Api::namespaced_with(client, "infra", &kind);
            let hosts = api.list(&Default::default()).await.unwrap();
            let state = |host: &kube::api::DynamicObject| {
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
    let berth = Path::new(SANDBOX).with_file_name("berth");
    if !berth.is_file() && !required() {
        eprintln!("SKIPPED {test}: {} is not built", berth.display());
        return;
    }
    let output = Command::new(SANDBOX).arg("demo").stdin(Stdio::null()).env_remove("BERTH_BIN").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(!out.contains('\x1b'), "no escape codes where there is no terminal");
    assert!(out.contains("claims, all true"), "{out}");
}
