//! The program around the simulator.

use std::process::{Output, Stdio};
use std::time::Duration;

use kube::api::{Api, DynamicObject, ListParams};
use sim::metal;
use sim::plane;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Longer than anything takes.
const LIMIT: Duration = Duration::from_secs(60);

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth-metal"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn ended(program: impl Future<Output = std::io::Result<Output>>) -> (Option<i32>, String, String) {
    let output = tokio::time::timeout(LIMIT, program).await.expect("it ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn wrong_flags_end_with_code_two_and_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let broken = dir.path().join("kubeconfig");
    std::fs::write(&broken, "clusters: 7\n").unwrap();
    let broken = broken.to_str().unwrap();
    for (arguments, named) in [
        (vec![], "--kubeconfig"),
        (vec!["--kubeconfig", "/missing/file"], "--kubeconfig: /missing/file"),
        (vec!["--kubeconfig", broken], "--kubeconfig: "),
        (vec!["--kubeconfig", broken, "--hosts", "many"], "--hosts"),
        (vec!["--kubeconfig", broken, "--workers", "0"], "--workers"),
        (vec!["--kubeconfig", broken, "--namespace", "Yard"], "--namespace"),
        (vec!["--kubeconfig", broken, "--fast"], "--fast"),
    ] {
        let (code, out, told) = ended(program().args(&arguments).output()).await;
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}: {told}");
        assert!(told.contains(named), "{arguments:?} should name {named}: {told}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_ends_it_with_code_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let nowhere = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&file, nowhere.to_string()).unwrap();
    let (code, out, told) = ended(program().arg("--kubeconfig").arg(&file).output()).await;
    assert_eq!((code, out.as_str()), (Some(1), ""), "{told}");
    // What libraries log of the refused connection may come before it.
    assert!(told.lines().any(|line| line.starts_with("berth-metal: ")), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_makes_hosts_brings_them_to_life_and_ends_when_it_is_told_to() {
    let name = "it_makes_hosts_brings_them_to_life_and_ends_when_it_is_told_to";
    let Some(plane) = plane::for_test(name) else { return };
    let (_alone, space) = (crate::real::ALONE.lock().await, "metal-program");
    let mut child = program()
        .arg("--kubeconfig")
        .arg(plane.kubeconfig_path())
        .args(["--hosts", "3", "--namespace", space, "--workers", "4"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = tokio::time::timeout(LIMIT, lines.next_line()).await.expect("it is ready in time").unwrap();
    assert_eq!(first.as_deref(), Some("ready"));
    let client = plane.client().await.unwrap();
    let hosts: Api<DynamicObject> = Api::namespaced_with(client, space, &metal::resource("BareMetalHost").unwrap());
    let available = |host: &DynamicObject| host.data["status"]["provisioning"]["state"] == "available";
    crate::real::until("three hosts are available", async || {
        let found = hosts.list(&ListParams::default()).await.ok()?.items;
        (found.len() == 3 && found.iter().all(available)).then_some(())
    })
    .await;
    // The shell's own kill, which every system has.
    let kill = format!("kill -TERM {}", child.id().unwrap());
    assert!(Command::new("sh").args(["-c", &kill]).status().await.unwrap().success());
    let (code, _, told) = ended(child.wait_with_output()).await;
    assert_eq!(code, Some(0), "{told}");
}
