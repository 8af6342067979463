//! The proxy between a kube client and a real API server.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use sim::plane::Plane;
use sim::proxy::{Inbound, Options, Proxy, Upstream};

use crate::support::soon;

/// The shared server; starting it takes seconds and blocks.
async fn plane(test: &'static str) -> Option<&'static Plane> {
    tokio::task::spawn_blocking(move || sim::plane::for_test(test)).await.unwrap()
}

async fn proxy_for(plane: &Plane, dir: &tempfile::TempDir) -> Proxy {
    let mut options = Options::new(Upstream::from_kubeconfig(&plane.kubeconfig_path()).unwrap());
    options.inbound = Inbound::Generated { dir: dir.path().join("tls") };
    Proxy::start(options).await.unwrap()
}

async fn client_through(proxy: &Proxy, plane: &Plane) -> Client {
    let text = proxy.kubeconfig(&plane.kubeconfig_path()).unwrap();
    assert!(!text.contains("client-key"), "the key stays with the proxy");
    let file = Kubeconfig::from_yaml(&text).unwrap();
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

fn config_map(name: &str, value: usize) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("n".to_owned(), value.to_string())])),
        ..ConfigMap::default()
    }
}

fn value(map: &ConfigMap) -> usize {
    map.data.as_ref().unwrap()["n"].parse().unwrap()
}

#[tokio::test]
async fn a_watcher_sees_the_last_object_through_a_cut_and_an_expired_watch() {
    let Some(plane) = plane("a_watcher_sees_the_last_object_through_a_cut_and_an_expired_watch").await else { return };
    let dir = tempfile::tempdir().unwrap();
    let proxy = proxy_for(plane, &dir).await;
    // The first watch breaks off after two lines, the second sends half a line, the third expires, the fourth lasts.
    proxy
        .load(
            r#"[{"name":"cut","match":{"path":"*/configmaps","query":"proxy-watcher","watch":true},"when":{"nth":1},
                 "action":{"cut_watch":{"after":2,"abrupt":true}}},
                {"name":"half","match":{"path":"*/configmaps","query":"proxy-watcher","watch":true},"when":{"nth":2},
                 "action":{"half_line":{"after":1}}},
                {"name":"gone","match":{"path":"*/configmaps","query":"proxy-watcher","watch":true},"when":{"nth":3},
                 "action":{"gone":{"after":1}}}]"#,
        )
        .unwrap();
    let watching: Api<ConfigMap> = Api::namespaced(client_through(&proxy, plane).await, "default");
    let writing: Api<ConfigMap> = Api::namespaced(plane.client().await.unwrap(), "default");
    let name = "proxy-watcher";
    writing.create(&PostParams::default(), &config_map(name, 0)).await.unwrap();

    let watch = watcher(watching, watcher::Config::default().fields("metadata.name=proxy-watcher"));
    pin_mut!(watch);
    let (mut last, mut written) = (None, 0);
    tokio::time::timeout(Duration::from_secs(90), async {
        // Each value is written once the one before it was seen, so that every watch has something to say.
        while proxy.hits().iter().filter(|hit| hit.landed).count() < 3 || last != Some(written) {
            // Errors are what is being injected; the watcher goes on.
            if let Ok(watcher::Event::Apply(map) | watcher::Event::InitApply(map)) = watch.next().await.unwrap() {
                last = Some(value(&map));
            }
            if last == Some(written) && proxy.hits().iter().filter(|hit| hit.landed).count() < 3 {
                written += 1;
                let patch = serde_json::json!({"data": {"n": written.to_string()}});
                writing.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
            }
        }
    })
    .await
    .unwrap_or_else(|_| panic!("saw {last:?} of {written}; hits {:?}", proxy.hits()));
    assert_eq!(last, Some(written));
    assert!(written >= 3, "{written}");
    let rules: Vec<String> = proxy.hits().into_iter().map(|hit| hit.rule).collect();
    assert_eq!(rules, ["cut", "half", "gone"]);
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_is_found_on_the_server() {
    let Some(plane) = plane("a_create_whose_answer_is_lost_is_found_on_the_server").await else { return };
    let dir = tempfile::tempdir().unwrap();
    let proxy = proxy_for(plane, &dir).await;
    proxy
        .load(r#"[{"name":"lost","match":{"methods":["POST"]},"when":{"nth":1},"action":{"reset_after":{}}}]"#)
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client_through(&proxy, plane).await, "default");
    let map = config_map("proxy-lost-answer", 7);
    soon("the lost answer", maps.create(&PostParams::default(), &map)).await.unwrap_err();
    assert_eq!(value(&maps.get("proxy-lost-answer").await.unwrap()), 7);
    let again = soon("the second try", maps.create(&PostParams::default(), &map)).await.unwrap_err();
    assert!(matches!(&again, kube::Error::Api(status) if status.code == 409), "{again}");
}

#[tokio::test]
async fn a_list_from_the_past_is_followed_by_the_present() {
    let Some(plane) = plane("a_list_from_the_past_is_followed_by_the_present").await else { return };
    let dir = tempfile::tempdir().unwrap();
    let proxy = proxy_for(plane, &dir).await;
    proxy
        .load(r#"[{"name":"old","match":{"path":"*/configmaps"},"when":{"nth":2},"action":{"replay":{"back":1}}}]"#)
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client_through(&proxy, plane).await, "default");
    let writing: Api<ConfigMap> = Api::namespaced(plane.client().await.unwrap(), "default");
    let count = || async {
        let list = maps.list(&ListParams::default().fields("metadata.name=proxy-past")).await.unwrap();
        list.items.len()
    };
    assert_eq!(count().await, 0);
    writing.create(&PostParams::default(), &config_map("proxy-past", 1)).await.unwrap();
    assert_eq!(count().await, 0, "the recorded list");
    assert_eq!(count().await, 1, "the server's list");
}
