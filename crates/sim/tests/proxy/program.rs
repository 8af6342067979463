//! The program around the proxy.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use sim::proxy::command;
use tokio::process::{Child, Command};

use crate::support::{self, Client, Pki, Wire, file_appears, soon};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_berth-fault-proxy"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn run(arguments: &[&str]) -> Output {
    soon("the program's end", program().args(arguments).output()).await.unwrap()
}

fn start(pki: &Pki, url: &str, rules: &Path) -> Child {
    program()
        .args(["--listen", "127.0.0.1:0", "--to", url, "--seed", "42"])
        .arg("--ca")
        .arg(pki.file("ca.crt"))
        .arg("--client-cert")
        .arg(pki.file("client.crt"))
        .arg("--client-key")
        .arg(pki.file("client.key"))
        .arg("--tls-dir")
        .arg(pki.file("tls"))
        .arg("--rules")
        .arg(rules)
        .arg("--control")
        .arg(pki.file("control"))
        .arg("--ready-file")
        .arg(pki.file("ready"))
        .spawn()
        .unwrap()
}

/// Sends a signal with the shell's own kill, which every system has.
async fn terminate(child: &Child) {
    let kill = format!("kill -TERM {}", child.id().unwrap());
    assert!(Command::new("sh").args(["-c", &kill]).status().await.unwrap().success());
}

#[tokio::test]
async fn the_program_serves_answers_control_and_ends_within_two_seconds_of_sigterm() {
    let pki = Pki::new();
    let server = support::server(Wire::TlsHttp2, &pki).await;
    let rules = pki.file("rules.json");
    std::fs::write(&rules, r#"[{"name":"no","match":{"path":"/no"},"action":{"answer":{"status":500}}}]"#).unwrap();
    let child = start(&pki, &server.url, &rules);
    let url = file_appears(&pki.file("ready")).await.trim().to_owned();
    let ca = std::fs::read_to_string(pki.file("tls/ca.crt")).unwrap();
    let client = Client::new(url.clone(), Some(&ca), true);
    assert_eq!(client.get("/yes").await.unwrap().status, 200);
    assert_eq!(client.get("/no").await.unwrap().status, 500);
    let hits = command(&pki.file("control"), &serde_json::json!({"hits": true})).await.unwrap();
    assert_eq!((hits["hits"][0]["seed"].as_u64(), hits["hits"][0]["path"].as_str()), (Some(42), Some("/no")));

    // A watch that is open and a request that a rule holds must not hold up the end.
    let held = serde_json::json!({"set": [
        {"name": "hold", "match": {"path": "/held"}, "action": {"delay": {"ms": 600_000}}}
    ]});
    assert_eq!(command(&pki.file("control"), &held).await.unwrap()["ok"], true);
    let _feed = server.feed();
    let _watch = client.watch().await;
    let started = Instant::now();
    let end = async {
        soon("the hit of the held request", async {
            loop {
                let hits = command(&pki.file("control"), &serde_json::json!({"hits": true})).await.unwrap();
                if hits["hits"].as_array().unwrap().len() == 2 {
                    return;
                }
            }
        })
        .await;
        terminate(&child).await;
        Instant::now()
    };
    let (answer, sent) = tokio::join!(client.get("/held"), end);
    answer.unwrap_err();
    let output = soon("the program's end", child.wait_with_output()).await.unwrap();
    assert!(sent.elapsed() < Duration::from_secs(2), "took {:?} of {:?}", sent.elapsed(), started.elapsed());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{url}\n"), "one line with the address");
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("\"rule\":\"no\"") && log.contains("\"seed\":42"), "{log}");
    assert!(!pki.file("control").exists());
}

#[tokio::test]
async fn the_program_stops_when_its_control_socket_is_told_so() {
    let pki = Pki::new();
    let rules = pki.file("rules.json");
    std::fs::write(&rules, "[]").unwrap();
    let child = start(&pki, "https://127.0.0.1:9", &rules);
    file_appears(&pki.file("ready")).await;
    let answer = command(&pki.file("control"), &serde_json::json!({"stop": true})).await.unwrap();
    assert_eq!(answer["ok"], true);
    assert!(soon("the program's end", child.wait_with_output()).await.unwrap().status.success());
}

#[tokio::test]
async fn wrong_flags_and_rules_end_with_code_two_and_a_name() {
    let pki = Pki::new();
    let rules = pki.file("rules.json");
    std::fs::write(&rules, r#"[{"name":"a","action":{"delay":{"ms":"long"}}}]"#).unwrap();
    let rules = rules.to_str().unwrap();
    let to = ["--to", "http://127.0.0.1:9"];
    for (arguments, named) in [
        (vec![], "--to"),
        (vec!["--to", "nowhere"], "to: "),
        (vec![to[0], to[1], "--listen", "0.0.0.0:0"], "listen: "),
        (vec![to[0], to[1], "--seed", "many"], "--seed"),
        (vec![to[0], to[1], "--rules", rules], "rules[0].action.delay.ms: "),
        (vec![to[0], to[1], "--rules", "/missing/file"], "rules: /missing/file"),
        (vec!["--to", "https://127.0.0.1:9", "--ca", rules], "ca: holds no certificate"),
        (vec!["--to", "https://127.0.0.1:9", "--client-cert", rules], "--client-key"),
        (vec!["--kubeconfig", "/missing/file"], "kubeconfig: /missing/file"),
    ] {
        let output = run(&arguments).await;
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(named), "{arguments:?} should name {named}: {text}");
        assert!(output.stdout.is_empty());
    }
}

#[tokio::test]
async fn the_program_stands_in_for_the_server_of_a_kubeconfig() {
    let pki = Pki::new();
    let server = support::server(Wire::TlsHttp1, &pki).await;
    let original = pki.file("kubeconfig");
    let text = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority": pki.file("ca.crt")}}],
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {
            "client-certificate": pki.file("client.crt"), "client-key": pki.file("client.key")
        }}]
    });
    std::fs::write(&original, text.to_string()).unwrap();
    let child = program()
        .arg("--kubeconfig")
        .arg(&original)
        .arg("--kubeconfig-out")
        .arg(pki.file("through"))
        .arg("--tls-dir")
        .arg(pki.file("tls"))
        .arg("--ready-file")
        .arg(pki.file("ready"))
        .spawn()
        .unwrap();
    let url = file_appears(&pki.file("ready")).await.trim().to_owned();
    let through = std::fs::read_to_string(pki.file("through")).unwrap();
    assert!(through.contains(&url) && !through.contains("client"), "{through}");
    let ca = std::fs::read_to_string(pki.file("tls/ca.crt")).unwrap();
    assert_eq!(Client::new(url, Some(&ca), false).get("/").await.unwrap().status, 200);
    terminate(&child).await;
    assert!(soon("the program's end", child.wait_with_output()).await.unwrap().status.success());
}
