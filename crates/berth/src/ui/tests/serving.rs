//! What browsers are answered, over the real stack and by the rules.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use api::meta::View;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use kit::clock::Clock;
use kit::serve::{Options, Server};
use serde_json::{Value, json};
use sim::server::{Action, Kind, Rule};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::flags;
use crate::ui::answer::{Hosts, Site, answer, router, secured};
use crate::ui::fleet::Fleet;
use crate::ui::look;
use crate::ui::shelf::{Read, Shelf};

fn site(shelf: Shelf) -> Site {
    Site { shelf, hosts: Hosts::Loopback }
}

fn saved() -> Site {
    site(Shelf::saved(json!({"apiVersion": "cli.berth.dev/v1", "kind": "Fleet", "trees": []})))
}

fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

const HERE: (&str, &str) = ("host", "127.0.0.1:8090");

async fn ask(site: &Site, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    secured(answer(site, &request(method, path, headers).into_parts().0).await)
}

async fn body(response: Response) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A fleet that is read this often, and how often it was.
fn counted(outcome: impl Fn(u32) -> anyhow::Result<Fleet> + Send + Sync + 'static) -> (Shelf, Arc<AtomicU32>) {
    let (count, outcome) = (Arc::new(AtomicU32::new(0)), Arc::new(outcome));
    let counter = Arc::clone(&count);
    let read: Read = Box::new(move || {
        let (counter, outcome) = (Arc::clone(&counter), Arc::clone(&outcome));
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            outcome(counter.fetch_add(1, Ordering::SeqCst))
        })
    });
    (Shelf::live(read, Duration::from_secs(5), Clock::system()), count)
}

#[tokio::test]
async fn every_answer_keeps_the_browser_to_our_own_files() {
    let site = saved();
    let asked =
        [("GET", "/"), ("GET", "/ui.js"), ("GET", "/api/v1/fleet"), ("GET", "/none"), ("POST", "/"), ("HEAD", "/")];
    for (method, path) in asked {
        let answer = ask(&site, method, path, &[HERE]).await;
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default();
        assert_eq!(
            header("content-security-policy"),
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
            "{method} {path}"
        );
        assert_eq!((header("x-content-type-options"), header("referrer-policy")), ("nosniff", "no-referrer"));
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
        assert!(answer.headers().get("set-cookie").is_none());
        assert!(answer.headers().get("access-control-allow-origin").is_none());
    }
}

#[tokio::test]
async fn the_page_is_small() {
    let (site, mut all) = (saved(), 0);
    for path in ["/", "/ui.js", "/ui.css"] {
        let file = body(ask(&site, "GET", path, &[HERE]).await).await;
        assert!(!file.is_empty(), "{path}");
        all += file.len();
    }
    assert!(all < 300 << 10, "{all} bytes");
}

#[tokio::test]
async fn nothing_can_be_done_but_looking() {
    let site = saved();
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"] {
        for path in ["/", "/api/v1/fleet", "/none"] {
            let answer = ask(&site, method, path, &[HERE]).await;
            assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(answer.headers()["allow"], "GET, HEAD");
        }
    }
    for method in [Method::GET, Method::HEAD] {
        assert_eq!(ask(&site, method.as_str(), "/", &[HERE]).await.status(), StatusCode::OK);
    }
    assert_eq!(body(ask(&site, "HEAD", "/ui.js", &[HERE]).await).await, "");
    assert_eq!(ask(&site, "GET", "/ui.js/..", &[HERE]).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_name_that_others_can_point_here_is_refused() {
    let good = [
        "localhost",
        "localhost:8090",
        "LOCALHOST:1",
        "berth.localhost:8090",
        "127.0.0.1",
        "127.0.0.1:8090",
        "[::1]:8090",
        "[::1]",
        "localhost.:80",
    ];
    let bad = [
        "",
        "evil.example",
        "evil.example:8090",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1:8090",
        "[::ffff:10.0.0.1]",
        "notlocalhost",
        "[::1].evil.example",
    ];
    for host in good {
        assert!(Hosts::Loopback.admit(host), "{host}");
    }
    for host in bad {
        assert!(!Hosts::Loopback.admit(host), "{host}");
        let answer = ask(&saved(), "GET", "/api/v1/fleet", &[("host", host)]).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{host}");
    }
    assert!(Hosts::Numbers.admit("10.0.0.1:8090") && Hosts::Numbers.admit("[2001:db8::1]:8090"));
    assert!(!Hosts::Numbers.admit("evil.example:8090"));
    assert_eq!(ask(&saved(), "GET", "/", &[]).await.status(), StatusCode::FORBIDDEN, "no name at all");
}

#[tokio::test]
async fn whoever_has_the_document_is_sent_nothing() {
    let site = saved();
    for path in ["/", "/ui.css", "/ui.js", "/api/v1/fleet"] {
        let first = ask(&site, "GET", path, &[HERE]).await;
        let etag = first.headers()["etag"].to_str().unwrap().to_owned();
        assert_eq!(first.status(), StatusCode::OK);
        assert!(!body(first).await.is_empty());
        for known in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
            let again = ask(&site, "GET", path, &[HERE, ("if-none-match", &known)]).await;
            assert_eq!(
                (again.status(), again.headers()["etag"].to_str().unwrap()),
                (StatusCode::NOT_MODIFIED, etag.as_str())
            );
            assert_eq!(body(again).await, "");
        }
        assert_eq!(ask(&site, "GET", path, &[HERE, ("if-none-match", "\"other\"")]).await.status(), StatusCode::OK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_browsers_cost_one_look_an_interval() {
    let (shelf, count) = counted(|_| Ok(Fleet::default()));
    let site = site(shelf);
    for round in 1..=3 {
        let asked = (0..100).map(|_| ask(&site, "GET", "/api/v1/fleet", &[HERE]));
        let answers = futures::future::join_all(asked).await;
        assert!(answers.iter().all(|answer| answer.status() == StatusCode::OK));
        assert_eq!(count.load(Ordering::SeqCst), round);
        tokio::time::advance(Duration::from_secs(4)).await;
        ask(&site, "GET", "/api/v1/fleet", &[HERE]).await;
        assert_eq!(count.load(Ordering::SeqCst), round, "what is fresh is not read again");
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    tokio::time::advance(Duration::from_secs(3_600)).await;
    assert_eq!(count.load(Ordering::SeqCst), 3, "while nobody looks nothing is read");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_leaves_what_was_seen_and_says_that_it_is_old() {
    let (shelf, _) = counted(|number| match number {
        0 | 2 => Ok(Fleet { unseen: vec!["something".to_owned()], ..Fleet::default() }),
        _ => Err(anyhow::anyhow!("connection refused").context("listing clusters")),
    });
    let site = site(shelf);
    let mut tags = Vec::new();
    for (failed, seconds) in [(false, 6), (true, 6), (false, 0)] {
        let answer = ask(&site, "GET", "/api/v1/fleet", &[HERE]).await;
        assert_eq!(answer.status(), StatusCode::OK);
        tags.push(answer.headers()["etag"].clone());
        let document: Value = serde_json::from_str(&body(answer).await).unwrap();
        assert_eq!(document["unseen"], json!(["something"]));
        let error = document["error"].as_str();
        assert_eq!(error, failed.then_some("listing clusters: connection refused"));
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }
    assert_ne!(tags[0], tags[1], "whoever has the old document is told");
    assert_eq!(tags[0], tags[2], "and has it again when nothing has changed");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answered_is_told_as_such() {
    let (shelf, _) = counted(|_| Err(anyhow::anyhow!("connection refused")));
    let answer = ask(&site(shelf), "GET", "/api/v1/fleet", &[HERE]).await;
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(body(answer).await.contains("connection refused"));
}

#[tokio::test]
async fn a_browser_on_the_wire_gets_the_same() {
    let server = Server::bind(Options::new("ui", "127.0.0.1:0".parse().unwrap())).await.unwrap();
    let (address, stop) = (server.address(), CancellationToken::new());
    let talk = async {
        let mut answers = Vec::new();
        for (method, host) in [("GET", "localhost"), ("DELETE", "localhost"), ("GET", "evil.example")] {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let text = format!(
                "{method} /api/v1/fleet HTTP/1.1\r\nHost: {host}:{}\r\nConnection: close\r\n\r\n",
                address.port()
            );
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answers.push(answer);
        }
        stop.cancel();
        answers
    };
    let (answers, served) = tokio::join!(talk, server.run(router(Arc::new(saved())), None, stop.clone()));
    served.unwrap();
    for (answer, status) in answers.iter().zip(["200 OK", "405 Method Not Allowed", "403 Forbidden"]) {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
        assert!(answer.to_lowercase().contains("content-security-policy: default-src 'none'"), "{answer}");
    }
    assert!(answers[0].contains(r#""kind":"Fleet""#));
}

/// An API server with clusters and hosts, on which nobody may see hosts or Namespaces.
#[tokio::test]
async fn a_kind_that_may_not_be_seen_is_named_and_hides_no_other() {
    let server = sim::server::Server::new(7);
    server.register(Kind::namespaced("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"));
    server.register(Kind::namespaced("metal3.io", "v1alpha1", "HostClaim", "hostclaims"));
    server.register(Kind::namespaced("metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts"));
    server.namespace("team-a");
    server.put(sim::dock::objects::cluster("team-a", "prod", "quick")).unwrap();
    server
        .put(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"namespace": "team-a", "name": "web-1"},
            "spec": {"kind": "baremetal", "poweredOn": true}}))
        .unwrap();
    for kind in ["/baremetalhosts", "/api/v1/namespaces"] {
        server.inject(Rule::any().method("GET").path_contains(kind).always(), Action::Status(403));
    }
    let seen = look(server.kube(), Arc::new(flags(&[])), Clock::system()).await.unwrap();
    let roots: Vec<String> =
        seen.trees.iter().map(|root| format!("{} {}", root.object.kind, root.object.path())).collect();
    assert_eq!(roots, ["Cluster team-a/prod", "HostClaim team-a/web-1"]);
    for kind in ["baremetalhosts.metal3.io", "namespaces"] {
        let told = seen.unseen.iter().filter(|why| why.contains(&format!("you may not list {kind}"))).count();
        assert_eq!(told, 1, "{kind}: {:?}", seen.unseen);
    }
    assert!(seen.absent.iter().any(|why| why.contains("GlobalInClusterIPPool")), "{:?}", seen.absent);
    assert!(seen.unseen.iter().all(|why| !why.contains("secrets")), "nobody asks for Secrets");
    let asked: Vec<String> = server.log().iter().map(|entry| format!("{entry:?}")).collect();
    assert!(asked.iter().all(|entry| !entry.contains("secrets")), "nobody asks for Secrets");
}

/// The kinds that the role `berth-ui` of the chart lets see, as `plural.group`.
fn granted() -> BTreeSet<String> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chart/templates/roles.yaml");
    let template = std::fs::read_to_string(path).unwrap();
    let words = |text: &str| text.split('"').skip(1).step_by(2).map(str::to_owned).collect::<Vec<String>>();
    let looked = template.lines().find_map(|line| line.strip_prefix("{{- $looked := ")).map(words).unwrap();
    let (_, role) = template.split_once("\"ui\" (dict ").unwrap();
    let (role, _) = role.split_once("\n}}").unwrap();
    let mut granted = BTreeSet::new();
    for rule in role.lines().skip(1) {
        assert!(rule.contains("\"verbs\" $look"), "{rule}");
        let mut said =
            words(rule).into_iter().filter(|word| !["apiGroups", "resources", "verbs"].contains(&word.as_str()));
        let group = said.next().unwrap();
        let resources: Vec<String> = if rule.contains("$looked") { looked.clone() } else { said.collect() };
        granted.extend(resources.iter().map(|plural| format!("{plural}.{group}").trim_end_matches('.').to_owned()));
    }
    granted
}

fn serve<K: View>(server: &sim::server::Server) {
    let kind = kit::kinds::Kind::of::<K>();
    let version = K::VERSIONS.first().map_or(kind.version.as_str(), |version| version);
    let scope = if K::NAMESPACED { Kind::namespaced } else { Kind::cluster };
    server.register(scope(&kind.group, version, &kind.kind, &kind.plural));
}

#[tokio::test]
async fn the_role_of_the_chart_is_what_is_read_and_nothing_more() {
    use api::{raw, views};
    let server = sim::server::Server::new(7);
    macro_rules! serve {
        ($($kind:ty),+ $(,)?) => { $(serve::<$kind>(&server);)+ };
    }
    serve!(
        views::Cluster,
        views::ClusterClass,
        views::Machine,
        views::MachineDeployment,
        views::MachineSet,
        views::MachinePool,
        views::ExtensionConfig,
        views::IPAddressClaim,
        views::IPAddress,
        views::InClusterIPPool,
        views::GlobalInClusterIPPool,
        views::BareMetalHost,
        views::HardwareData,
        views::AWSCluster,
        views::AWSMachineTemplate,
        views::AWSMachinePool,
        views::AWSManagedMachinePool,
        views::AWSManagedControlPlane,
        views::ROSAControlPlane,
        views::Infrastructure,
        views::OpenShiftMachineSet,
        views::Metal3MachineTemplate,
        views::AWSClusterControllerIdentity,
        views::AWSClusterRoleIdentity,
        views::AWSClusterStaticIdentity,
        views::CloudStackCluster,
        views::CloudStackMachineTemplate,
        raw::HostClaim,
        raw::HostDeployPolicy,
        raw::HostClaimQuota,
        raw::AWSMachine,
        raw::Cluster,
        raw::CloudStackDatacenterConfig,
        raw::CloudStackMachineConfig,
        raw::Metal3Machine,
    );
    server.register(Kind::namespaced(
        "controlplane.cluster.x-k8s.io",
        "v1beta2",
        "KubeadmControlPlane",
        "kubeadmcontrolplanes",
    ));
    server.namespace("team-a");
    for (api_version, kind) in
        [("anywhere.eks.amazonaws.com/v1alpha1", "Cluster"), ("infrastructure.cluster.x-k8s.io/v1beta2", "AWSMachine")]
    {
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "team-a", "name": "one"}, "spec": {}});
        server.put(object).unwrap();
    }
    let flags =
        flags(&["--capacity-metal3", "--use-cluster-identity", "--watch-machine-pools", "--capacity-cloudstack"]);
    look(server.kube(), Arc::new(flags), Clock::system()).await.unwrap();
    let log = server.log();
    assert!(log.iter().all(|entry| entry.method == "GET"), "nothing is written");
    let read: BTreeSet<String> = log
        .iter()
        .map(|entry| entry.resource.trim_end_matches('.').to_owned())
        .filter(|kind| !kind.is_empty())
        .collect();
    assert_eq!(read, granted());
}
