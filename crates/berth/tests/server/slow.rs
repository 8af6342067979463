//! A server that takes five seconds for every request is slow, and not broken.

use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;
use sim::proxy::{Inbound, Options, Proxy, Upstream};
use sim::{metal, plane};

use crate::support::{Operator, World, within};

const NAMESPACE: &str = "berth-slow";
/// All of it ends within this time.
const LIMIT: Duration = Duration::from_secs(150);
const WORKERS: u64 = 2;
/// More than are worked on at once.
const CLAIMS: usize = 3;

/// Watches have a name of their own: the server's record shows them only when they end.
const RULES: &str = r#"[
    {"name": "slow", "match": {"watch": false}, "action": {"delay": {"ms": 5000}}},
    {"name": "slow-watch", "match": {"watch": true}, "action": {"delay": {"ms": 5000}}}
]"#;

/// The largest number of objects that a room works on now.
async fn busy(port: u16) -> Option<u64> {
    let (_, text) = plane::http_get(port, "/metrics").await.ok()?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("berth_room_queue_busy{"));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).max()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_every_request_is_slow_claims_are_bound_and_no_request_is_given_up() {
    let Some(world) = World::enter("where_every_request_is_slow_claims_are_bound_and_no_request_is_given_up").await
    else {
        return;
    };
    world.installed().await;
    plane::install_crds(&world.client, metal::kinds::definitions()).await.expect("definitions are accepted");
    metal::seed::hosts(&world.client, NAMESPACE, CLAIMS, true).await.expect("hosts are made");
    for number in 0..CLAIMS {
        let claim = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "spec": {"poweredOn": false},
            "metadata": {"namespace": NAMESPACE, "name": format!("slow-{number}")}});
        world.apply(&claim).await;
    }
    let all = |kind: &str| -> Api<DynamicObject> {
        Api::namespaced_with(world.client.clone(), NAMESPACE, &metal::resource(kind).unwrap())
    };
    let (claims, hosts) = (all("HostClaim"), all("BareMetalHost"));
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(Upstream::from_kubeconfig(&world.plane.kubeconfig_path()).unwrap());
    options.inbound = Inbound::Generated { dir: dir.path().join("tls") };
    let proxy = Proxy::start(options).await.unwrap();
    proxy.load(RULES).unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, proxy.kubeconfig(&world.plane.kubeconfig_path()).unwrap()).unwrap();

    let (mark, begun) = (world.mark(), Instant::now());
    let left = || LIMIT.saturating_sub(begun.elapsed());
    let (workers, port) = (WORKERS.to_string(), plane::free_port().unwrap());
    let listen = format!("127.0.0.1:{port}");
    let mut operator = Operator::start_as(&kubeconfig, &["--workers", &workers, "--metrics-bind-address", &listen]);
    operator.ready().await;
    let mut most = 0;
    within(left(), "a claim has a host", async || {
        most = most.max(busy(port).await?);
        let found = claims.list(&ListParams::default()).await.ok()?;
        found.items.iter().any(|claim| claim.data["status"]["bareMetalHost"].is_object()).then_some(())
    })
    .await;
    assert_eq!(most, WORKERS, "as many passes at once as there are workers, and no more");

    // Whoever gives up while the proxy still waits sends nothing on, so the server never hears of that request.
    let sent = within(left(), "the server has heard of every request", async || {
        let sent = proxy.hits().iter().filter(|hit| hit.rule == "slow").count();
        let heard = world.requests(mark).iter().filter(|request| request.verb != "watch").count();
        (sent == heard).then_some(sent)
    })
    .await;
    eprintln!("{sent} requests in {:?}", begun.elapsed());
    assert!(operator.runs() && !operator.log().contains("panicked"), "{}", operator.log());

    proxy.clear().unwrap();
    operator.stop().await;
    proxy.stop().await;
    // No host is left to other tests: nobody is here to let one go.
    for host in hosts.list(&ListParams::default()).await.unwrap().items {
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        hosts.patch(&host.metadata.name.unwrap(), &PatchParams::default(), &free).await.unwrap();
    }
    world.bare().await;
}
