//! What the other commands print, how they end, and which mistakes are named.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sim::plane;

use crate::support::{BERTH, World, berth, documents, run, text};

#[test]
fn a_mistake_on_the_command_line_is_named_and_nothing_is_done() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", "--controllers", "kitchen"], &["--controllers", "`kitchen`", "vip, claims"]),
        (&["run", "--default-host-kind", "Bare Metal"], &["--default-host-kind"]),
        (&["run", "--sync-period", "soon"], &["--sync-period", "soon", "10h"]),
        (&["run", "--sync-period", "1ms"], &["--sync-period", "at least 1m"]),
        (&["run", "--leader-elect", "--leader-elect-lease-duration", "8s"], &["--leader-elect-lease-duration", "9 s"]),
        (&["run", "--leader-elect=maybe"], &["--leader-elect", "maybe"]),
        (&["run", "--leader-elect-resource-namespace", "No/Name"], &["--leader-elect-resource-namespace", "No/Name"]),
        (&["run", "--metrics-bind-address", "8080"], &["--metrics-bind-address", "8080", "no port"]),
        (&["run", "--metrics-client-ca", "no/such/file"], &["--metrics-client-ca", "no/such/file"]),
        (&["run", "--metrics-client-ca", "/proc/version"], &["--metrics-client-ca", "/proc/version", "no certificate"]),
        (&["run", "--health-addr", "localhost:99999"], &["--health-addr", "99999"]),
        (&["run", "--webhook-port", "70000"], &["--webhook-port", "70000"]),
        (&["run", "--webhook-bind-host", "here"], &["--webhook-bind-host", "here"]),
        (&["run", "--webhook-service", "a.b"], &["--webhook-service", "a.b"]),
        (&["run", "--webhook-extra-name", "*.example"], &["--webhook-extra-name", "*.example"]),
        (&["run", "--log-level", "inof"], &["--log-level", "inof"]),
        (&["run", "--log-format", "xml"], &["--log-format", "xml"]),
        (&["run", "--namespace", "Not_A_Name"], &["--namespace", "Not_A_Name"]),
        (&["run", "--workers", "0"], &["--workers", "0"]),
        (&["run", "--feature-gates", "Magic=maybe"], &["--feature-gates", "Magic"]),
        (&["run", "--fault", "claims.status.before"], &["--fault", "NAME=hang|panic|exit"]),
        (&["run", "--aws-endpoint", "http://x"], &["--aws-endpoint", "http://x", "<service>=<url>"]),
        (&["run", "--enable-runtime-extension=false"], &["--enable-runtime-extension", "--enable-reconciler", "`vip`"]),
        (&["run", "--runtime-extension-port", "0"], &["--runtime-extension-port", "0"]),
        (&["run", "--runtime-extension-name", "a.b"], &["--runtime-extension-name", "a.b"]),
        (&["run", "--runtime-extension-client-ca", "no/such/file"], &["--runtime-extension-client-ca", "no/such/file"]),
        (&["run", "--allocation-wait", "26s"], &["--allocation-wait", "26s", "25s"]),
        (&["run", "--missing-pool-policy", "maybe"], &["--missing-pool-policy", "maybe", "ignore"]),
        (&["run", "--hold-addresses"], &["--hold-addresses", "not built yet"]),
        (&["run", "--extra-pool-kinds", "A.v1.b"], &["--extra-pool-kinds", "not built yet"]),
        (&["run", "--kubeconfig", "no/such/file"], &["--kubeconfig", "no/such/file"]),
        (&["doctor", "--kubeconfig", "no/such/file"], &["--kubeconfig", "no/such/file"]),
        (&["doctor", "--output", "yaml"], &["--output", "yaml"]),
        (&["explain"], &["KIND/NAME"]),
        (&["explain", "prod"], &["KIND/NAME", "cluster/prod"]),
        (&["tree", "machine/prod"], &["`machine`", "cluster"]),
        (&["explain", "cluster/No_Name"], &["No_Name"]),
        (&["explain", "cluster/prod", "--missing-pool-policy", "maybe"], &["--missing-pool-policy", "maybe"]),
        (&["vips", "-A", "-n", "team-a"], &["--all-namespaces", "--namespace"]),
        (&["hosts", "--region", "us-west-2"], &["--region", "--aws"]),
        (&["hosts", "--aws", "--region", "the-moon"], &["--region", "the-moon"]),
        (&["iam"], &["--role"]),
        (&["iam", "--role", "nodes"], &["--role", "nodes"]),
        (&["leaks", "--yes"], &["--release"]),
        (&["leaks", "--cloudstack", "--release"], &["--cloudstack", "--release"]),
        (&["leaks", "--cloudstack", "--identity", "cloudstack"], &["--identity", "team-a/cloudstack"]),
        (&["top", "--interval", "1ms"], &["--interval", "200ms"]),
        (&["top", "--url", "here"], &["--url", "here", "http://127.0.0.1:8080"]),
        (&["top", "--health-url", "http://127.0.0.1:9440"], &["--url"]),
        (&["bundle", "-n", "No_Name"], &["--namespace", "No_Name"]),
        (&["bundle", "--kubeconfig", "no/such/file"], &["--kubeconfig", "no/such/file"]),
        (&["run", "--idle-host-timeout", "1m"], &["--idle-host-timeout", "600s"]),
        (&["run", "--service-endpoints", "us-east-1:ec2=https://x"], &["--service-endpoints", "--aws-endpoint"]),
        (&["crds", "--write", "--check"], &["--write", "--check"]),
        (&["completion", "tcsh"], &["tcsh"]),
        (&["sail"], &["sail"]),
        (&[], &["Usage: berth"]),
    ];
    for (args, parts) in cases {
        let output = berth(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        for part in *parts {
            assert!(said.contains(part), "{args:?} does not say {part:?}: {said}");
        }
    }
}

#[test]
fn half_of_a_web_identity_is_refused_by_the_name_of_the_missing_half() {
    let (role, token) = ("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE");
    let halves = [((role, "arn:aws:iam::123456789012:role/berth"), token), ((token, "/var/run/token"), role)];
    for room in ["capacity", "hosts"] {
        for ((name, value), missing) in halves {
            let mut command = Command::new(BERTH);
            command.args(["run", "--controllers", room]).stdin(Stdio::null());
            for other in ["KUBECONFIG", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", role, token] {
                command.env_remove(other);
            }
            let output = command.env("HOME", "/nonexistent").env(name, value).output().expect("the binary runs");
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{room}: {said}");
            assert!(said.contains(&format!("{name} is set but {missing} is not")), "{room}: {said}");
        }
    }
}

#[test]
fn without_any_cluster_the_operator_fails_and_says_what_it_looked_for() {
    for command in ["run", "doctor"] {
        let output = berth(&[command]);
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""), "{said}");
        assert!(said.contains("finding a cluster"), "{said}");
    }
}

#[test]
fn every_shell_gets_a_completion_script() {
    for (shell, mark) in
        [("bash", "_berth()"), ("zsh", "#compdef berth"), ("fish", "complete -c berth"), ("powershell", "'berth'")]
    {
        let output = berth(&["completion", shell]);
        let script = text(&output.stdout);
        assert!(output.status.success() && script.contains(mark), "{shell}: {script}");
        assert!(script.contains("webhook-self-signed"), "{shell} does not know the flags");
        assert_eq!(text(&output.stderr), "", "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    let output = berth(&["man", "--dir", pages.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!((text(&output.stdout), text(&output.stderr)), (String::new(), String::new()));
    let help = text(&berth(&["--help"]).stdout);
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    // Descriptions that go on in the next line stand further to the right.
    let commands = commands.lines().filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let commands: Vec<&str> = commands.map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(commands.contains(&"run") && commands.contains(&"man"), "{commands:?}");
    for command in &commands {
        let page = std::fs::read_to_string(pages.join(format!("berth-{command}.1"))).expect(command);
        assert!(page.contains(&format!(".TH berth-{command} 1")), "{page}");
    }
    assert_eq!(std::fs::read_dir(&pages).unwrap().count(), commands.len() + 1, "and one for berth itself");
    let main = text(&berth(&["man"]).stdout);
    assert_eq!(main, std::fs::read_to_string(pages.join("berth.1")).unwrap());
    assert!(main.contains("Exit codes") && main.contains("berth\\-run(1)"), "{main}");
    let run = std::fs::read_to_string(pages.join("berth-run.1")).unwrap();
    assert!(run.contains("webhook\\-self\\-signed") && !run.contains("\\-\\-fault"), "{run}");
    let refused = berth(&["man", "--dir", "/dev/null/man1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("/dev/null/man1"), "{}", text(&refused.stderr));
}

#[test]
fn as_a_plugin_of_kubectl_it_is_the_same_program() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("kubectl-berth");
    std::os::unix::fs::symlink(BERTH, &plugin).unwrap();
    for args in [&["version", "-o", "json"][..], &["--help"], &["run", "--help"], &["crds"], &["run", "--workers", "0"]]
    {
        let (own, other) = (berth(args), run(&plugin, args));
        assert_eq!(own.status.code(), other.status.code(), "{args:?}");
        assert_eq!(text(&own.stdout), text(&other.stdout), "{args:?}");
        assert_eq!(text(&own.stderr), text(&other.stderr), "{args:?}");
    }
    let version: Value = serde_json::from_slice(&berth(&["version", "-o", "json"]).stdout).unwrap();
    assert_eq!((&version["apiVersion"], &version["kind"]), (&"cli.berth.dev/v1".into(), &"Version".into()));
}

/// What the doctor says of a cluster, with its exit code.
fn doctor(kubeconfig: &str) -> (Option<i32>, Value) {
    let output = berth(&["doctor", "--kubeconfig", kubeconfig, "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&report["apiVersion"], &report["kind"]), (&"cli.berth.dev/v1".into(), &"Doctor".into()));
    assert_eq!(text(&output.stderr), "");
    (output.status.code(), report)
}

/// The names of the checks of one level.
fn at<'r>(report: &'r Value, level: &str) -> Vec<&'r str> {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().filter(|check| check["level"] == level).map(|check| check["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_doctor_names_what_is_missing_until_nothing_is() {
    let Some(world) = World::enter("the_doctor_names_what_is_missing_until_nothing_is").await else { return };
    world.bare().await;
    let kubeconfig = world.plane.kubeconfig_path();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let (code, report) = doctor(kubeconfig);
    assert_eq!(code, Some(2), "{report}");
    assert_eq!((at(&report, "failure"), &report["result"]), (vec!["kinds"], &"failure".into()));
    let kinds = report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "kinds").unwrap();
    assert_eq!(kinds["fix"], "berth crds | kubectl apply --server-side -f -");
    assert!(kinds["found"].as_str().unwrap().contains("HostClaimKind"), "{kinds}");

    world.installed().await;
    let (code, report) = doctor(kubeconfig);
    assert_eq!(code, Some(1), "{report}");
    assert_eq!((at(&report, "warning"), at(&report, "failure")), (vec!["webhooks"], vec![]));

    // A webhook that nobody can trust is worse than none.
    let webhooks = documents(&["webhooks"]);
    for (number, configuration) in webhooks.iter().enumerate() {
        // One of the two is not enough.
        let (level, wanted) = if number == 0 { ("warning", Some(1)) } else { ("failure", Some(2)) };
        let mut trusted = configuration.clone();
        plane::webhooks_by_url(&mut trusted, 1, &world.plane.ca().unwrap());
        world.apply(if number == 0 { &trusted } else { configuration }).await;
        let (code, report) = doctor(kubeconfig);
        assert_eq!((code, at(&report, level)), (wanted, vec!["webhooks"]), "{report}");
        world.apply(&trusted).await;
    }
    let (code, report) = doctor(kubeconfig);
    assert_eq!(code, Some(0), "{report}");
    assert_eq!(at(&report, "ok").len(), report["checks"].as_array().unwrap().len());
    let output = berth(&["doctor", "--kubeconfig", kubeconfig]);
    assert!(text(&output.stdout).ends_with("checks, all fine\n"), "{}", text(&output.stdout));
}

#[test]
fn an_unreachable_server_is_one_failure_and_found_out_quickly() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    let port = plane::free_port().unwrap();
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "gone",
        "clusters": [{"name": "gone", "cluster": {"server": format!("https://127.0.0.1:{port}")}}],
        "users": [{"name": "nobody", "user": {"token": "x"}}],
        "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "nobody"}}],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    let begun = Instant::now();
    let (code, report) = doctor(path.to_str().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    assert_eq!(code, Some(2), "{report}");
    assert_eq!((at(&report, "failure"), report["checks"].as_array().unwrap().len()), (vec!["api"], 1));
    for args in [&["claims"][..], &["tree", "cluster/prod"], &["explain", "hostclaim/web-1"]] {
        let output = berth(&[args, &["--kubeconfig", path.to_str().unwrap()]].concat());
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""), "{args:?}: {said}");
        assert!(said.trim_end().ends_with("; see `berth doctor`"), "{args:?} leaves without a hint: {said}");
    }
}
