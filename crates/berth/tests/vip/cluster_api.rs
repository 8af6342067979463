//! Facts about Cluster API that Berth is built on, asked of the real one by an extension that says what it is told to.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sim::dock::objects::{self, Class, inline};
use sim::dock::oracle::Promise;
use sim::dock::{self, extension};
use sim::plane::{self, Plane};

use crate::front::{Asked, Front};
use crate::world::{Corner, SOON, run, within};

const PREFIX: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1";
const VIP: &str = "vip.capi.gorizond.io/control-plane-vip";

/// What the extension says to BeforeClusterCreate.
#[derive(Clone, Debug)]
enum Say {
    /// These, one after the other; the last one from then on.
    Answers(VecDeque<Value>),
    /// It writes an endpoint and an annotation to the Cluster and lets it through in the same call.
    WriteAndOpen(String),
}

type Script = Arc<Mutex<BTreeMap<(String, String), Say>>>;

/// An extension that remembers what it is asked; it lets everything through that it has no words for.
pub struct Logbook {
    pub front: Front,
    script: Script,
}

impl Logbook {
    pub async fn start(plane: &Plane, client: &Client) -> Self {
        let script = Script::default();
        let (words, api) = (script.clone(), client.clone());
        let front = Front::start(plane, "logbook", move |asked| {
            let (words, api) = (words.clone(), api.clone());
            Box::pin(async move { (200, Bytes::from(answer(&asked, &words, &api).await.to_string())) })
        })
        .await;
        let selector = json!({"matchLabels": {"hooks": "logbook"}});
        let config = extension::config("logbook", front.port, &plane.ca().expect("a CA"), &selector);
        let handlers = extension::register(client, &config).await.expect("discovered");
        assert!(handlers.contains(&"logbook-before-create.logbook".to_owned()), "{handlers:?}");
        Self { front, script }
    }

    fn say(&self, namespace: &str, name: &str, say: Say) {
        self.script.lock().expect("no panic").insert((namespace.to_owned(), name.to_owned()), say);
    }
}

async fn answer(asked: &Asked, script: &Script, client: &Client) -> Value {
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let (_, hook) = asked.path.split_once(PREFIX).unwrap_or_default();
    let response = |kind: &str, more: Value| {
        let base = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": kind, "status": "Success"});
        objects::merged(base, &more)
    };
    match hook {
        "/discovery" => {
            let seconds = if asked.path.starts_with("/slow/") { 31 } else { 7 };
            let handler = |name: &str, hook: &str| {
                json!({"name": format!("logbook-{name}"), "timeoutSeconds": seconds, "failurePolicy": "Fail",
                    "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook}})
            };
            let handlers = [handler("before-create", "BeforeClusterCreate"), handler("patches", "GeneratePatches")];
            response("DiscoveryResponse", json!({"handlers": handlers}))
        }
        "/beforeclustercreate/logbook-before-create" => {
            let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (namespace, name) = (text("/cluster/metadata/namespace"), text("/cluster/metadata/name"));
            let said = next(script, &namespace, &name);
            let said = match said {
                Ok(said) => said,
                Err(host) => {
                    let resource = dock::resource("Cluster").expect("a kind");
                    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
                    let patch = json!({"metadata": {"annotations": {VIP: host}},
                        "spec": {"controlPlaneEndpoint": {"host": host, "port": 6443}}});
                    api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("written");
                    json!({"retryAfterSeconds": 0})
                }
            };
            response("BeforeClusterCreateResponse", said)
        }
        "/generatepatches/logbook-patches" => response("GeneratePatchesResponse", json!({"items": []})),
        _ => response("UnknownResponse", json!({"status": "Failure", "message": format!("no such hook: {hook}")})),
    }
}

/// What to say next, or the host to write.
fn next(script: &Script, namespace: &str, name: &str) -> Result<Value, String> {
    match script.lock().expect("no panic").get_mut(&(namespace.to_owned(), name.to_owned())) {
        None => Ok(json!({"retryAfterSeconds": 0})),
        Some(Say::WriteAndOpen(host)) => Err(host.clone()),
        Some(Say::Answers(answers)) if answers.len() > 1 => Ok(answers.pop_front().expect("more than one")),
        Some(Say::Answers(answers)) => Ok(answers.front().cloned().unwrap_or_default()),
    }
}

fn wait(seconds: i64, message: &str) -> Value {
    json!({"retryAfterSeconds": seconds, "message": message})
}

fn go() -> Value {
    wait(0, "")
}

#[test]
fn a_blocking_answer_is_told_in_a_condition_and_not_asked_again_before_its_time() {
    run("a_blocking_answer_is_told_in_a_condition_and_not_asked_again_before_its_time", async |world| {
        let ns = "fact-blocks";
        let logbook = world.logbook().await;
        let mut corner = Corner::new(world, ns, "logbook").await;
        corner.class(&Class::new(ns, ns)).await;
        logbook.say(ns, "c", Say::Answers([wait(4, "still looking"), go()].into()));
        corner.create(&objects::cluster(ns, "c", ns), Promise::Untouched).await;
        let told = corner.condition("c", "TopologyReconciled", |c| c["status"] == "False").await;
        assert_eq!(told["reason"], "ClusterCreating");
        assert!(told["message"].as_str().unwrap().contains("still looking"), "{told}");
        assert!(corner.cluster("c").await.data["spec"].get("infrastructureRef").is_none());
        // Changes of the Cluster wake Cluster API, but not the hook.
        for n in 0..3 {
            corner.edit("c", &json!({"metadata": {"annotations": {"touched": n.to_string()}}})).await;
        }
        corner.dock("c").await;
        let calls = logbook.front.about("beforeclustercreate", ns, "c");
        assert_eq!(calls.len(), 2, "{calls:?}");
        let pause = calls[1].begun - (calls[0].begun + calls[0].took);
        assert!(pause > Duration::from_millis(3900), "{pause:?}");
        corner.condition("c", "TopologyReconciled", |c| c["status"] == "True").await;
        corner.edit("c", &json!({"metadata": {"annotations": {"touched": "later"}}})).await;
        corner.condition("c", "TopologyReconciled", |c| c["status"] == "True").await;
        assert_eq!(
            logbook.front.about("beforeclustercreate", ns, "c").len(),
            2,
            "never again once it has infrastructure"
        );

        // What is sent, and how.
        let call = &calls[1];
        assert_eq!(call.body["kind"], "BeforeClusterCreateRequest");
        assert!(!call.headers.contains_key("content-type"), "{:?}", call.headers);
        assert!(call.target.ends_with("/beforeclustercreate/logbook-before-create?timeout=7s"), "{}", call.target);
        assert_eq!(call.version, http::Version::HTTP_2);
        let cluster = &call.body["cluster"];
        assert_eq!(cluster["spec"]["topology"]["classRef"]["name"], ns, "the v1beta2 shape: {cluster}");
        assert_eq!(cluster["metadata"]["annotations"]["touched"], "2", "a fresh copy");
        assert!(cluster["metadata"]["uid"].is_string() && cluster["metadata"]["resourceVersion"].is_string());
        assert!(cluster["metadata"].get("managedFields").is_none());
        assert!(
            cluster.get("status").is_none_or(|status| status.as_object().is_some_and(|s| s.is_empty())),
            "{cluster}"
        );
    });
}

#[test]
fn a_blocking_answer_also_holds_the_next_cluster_of_the_same_name() {
    run("a_blocking_answer_also_holds_the_next_cluster_of_the_same_name", async |world| {
        let ns = "fact-names";
        let logbook = world.logbook().await;
        let mut corner = Corner::new(world, ns, "logbook").await;
        corner.class(&Class::new(ns, ns)).await;
        logbook.say(ns, "c", Say::Answers([wait(6, "the first one waits"), go()].into()));
        corner.create(&objects::cluster(ns, "c", ns), Promise::Untouched).await;
        corner.condition("c", "TopologyReconciled", |c| c["status"] == "False").await;
        let first = corner.cluster("c").await.uid();
        corner.delete("c").await;
        corner.create(&objects::cluster(ns, "c", ns), Promise::Untouched).await;
        let second = corner.cluster("c").await.uid();
        assert_ne!(first, second);
        corner.dock("c").await;
        let calls = logbook.front.about("beforeclustercreate", ns, "c");
        let uids: Vec<_> = calls.iter().map(|call| call.body["cluster"]["metadata"]["uid"].as_str()).collect();
        assert_eq!(uids, [first.as_deref(), second.as_deref()]);
        let pause = calls[1].begun - calls[0].begun;
        assert!(pause > Duration::from_millis(5900), "the second one waited {pause:?} for the answer to the first");
    });
}

#[test]
fn a_hook_that_writes_and_opens_in_one_call_comes_too_late() {
    run("a_hook_that_writes_and_opens_in_one_call_comes_too_late", async |world| {
        let ns = "fact-race";
        let logbook = world.logbook().await;
        let mut corner = Corner::new(world, ns, "logbook").await;
        let template =
            format!("host: \"{{{{ index .builtin.cluster.metadata.annotations \"{VIP}\" }}}}\"\nport: 6443\n");
        let class =
            Class::new(ns, ns).patch(inline("vip", "add", "/spec/template/spec/controlPlaneEndpoint", &template));
        corner.class(&class).await;
        logbook.say(ns, "c", Say::WriteAndOpen(corner.address(9)));
        // Without any annotation the template would fail instead, which is safe but not the rule.
        let annotated = json!({"metadata": {"annotations": {"some": "other"}}});
        corner.create(&objects::merged(objects::cluster(ns, "c", ns), &annotated), Promise::Managed).await;
        corner.dock("c").await;
        let breaches = corner.breaches().await;
        assert!(breaches.iter().any(|breach| breach.rule == "O1"), "the judge must see it: {breaches:?}");
    });
}

#[test]
fn a_failure_is_told_in_a_condition_and_tried_again() {
    run("a_failure_is_told_in_a_condition_and_tried_again", async |world| {
        let ns = "fact-fails";
        let logbook = world.logbook().await;
        let mut corner = Corner::new(world, ns, "logbook").await;
        corner.class(&Class::new(ns, ns)).await;
        let failure = json!({"status": "Failure", "message": "the tide is out"});
        logbook.say(ns, "c", Say::Answers([failure.clone(), failure, go()].into()));
        corner.create(&objects::cluster(ns, "c", ns), Promise::Untouched).await;
        let told = corner.condition("c", "TopologyReconciled", |c| c["status"] == "False").await;
        assert_eq!(told["reason"], "ReconcileFailed");
        assert!(told["message"].as_str().unwrap().contains("the tide is out"), "{told}");
        corner.dock("c").await;
        assert_eq!(logbook.front.about("beforeclustercreate", ns, "c").len(), 3);
    });
}

#[test]
fn a_handler_that_wants_more_than_thirty_seconds_is_not_discovered() {
    run("a_handler_that_wants_more_than_thirty_seconds_is_not_discovered", async |world| {
        let logbook = world.logbook().await;
        let ca = world.plane.ca().unwrap();
        let mut config = extension::config("slow", logbook.front.port, &ca, &json!({"matchLabels": {"hooks": "slow"}}));
        config["spec"]["clientConfig"]["url"] = json!(format!("https://127.0.0.1:{}/slow", logbook.front.port));
        plane::apply(&world.client, &config).await.unwrap();
        let api: Api<DynamicObject> = Api::all_with(world.client.clone(), &dock::resource("ExtensionConfig").unwrap());
        let message = within(SOON, "it is refused", async || {
            let found = api.get("slow").await.ok()?;
            let told = crate::world::condition(&found.data, "Discovered")?;
            (told["status"] == "False").then(|| told["message"].to_string())
        })
        .await;
        assert!(message.contains("must be between 0 and 30"), "{message}");
        assert!(logbook.front.calls().iter().any(|call| call.target.contains("/slow/")));
        // It would be asked again for ever, and would keep a restarting manager from starting.
        api.delete("slow", &kube::api::DeleteParams::default()).await.unwrap();
    });
}

#[test]
fn patches_are_asked_for_with_templates_holders_and_builtin_variables() {
    run("patches_are_asked_for_with_templates_holders_and_builtin_variables", async |world| {
        let ns = "fact-patches";
        let logbook = world.logbook().await;
        let mut corner = Corner::new(world, ns, "logbook").await;
        let external = json!({"generatePatchesExtension": "logbook-patches.logbook", "settings": {"colour": "blue"}});
        corner.class(&Class::new(ns, ns).patch(json!({"name": "logbook", "external": external}))).await;
        let workers = json!({"machineDeployments": [{"class": "worker", "name": "w", "replicas": 0}]});
        let cluster = objects::merged(
            objects::cluster(ns, "c", ns),
            &json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"topology": {"workers": workers},
                "controlPlaneEndpoint": {"host": corner.address(1), "port": 6443}}}),
        );
        corner.create(&cluster, Promise::Untouched).await;
        corner.dock("c").await;
        let calls = logbook.front.about("generatepatches", ns, "c");
        let body = &calls[0].body;
        assert_eq!(body["settings"], json!({"colour": "blue"}));
        let items = body["items"].as_array().unwrap();
        let mut holders: Vec<_> = items
            .iter()
            .map(|item| {
                let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                (text("/object/kind"), text("/holderReference/kind"), text("/holderReference/fieldPath"))
            })
            .collect();
        holders.sort_unstable();
        assert_eq!(
            holders,
            [
                ("DockClusterTemplate", "Cluster", "spec.infrastructureRef"),
                ("DockMachineTemplate", "MachineDeployment", "spec.template.spec.infrastructureRef"),
                ("DockMachineTemplate", "QuayControlPlane", "spec.machineTemplate.spec.infrastructureRef"),
                ("QuayControlPlaneTemplate", "Cluster", "spec.controlPlaneRef"),
                ("RopeConfigTemplate", "MachineDeployment", "spec.template.spec.bootstrap.configRef"),
            ]
        );
        let builtin = body["variables"].as_array().unwrap().iter().find(|v| v["name"] == "builtin").unwrap();
        let seen = &builtin["value"]["cluster"];
        assert_eq!((&seen["name"], &seen["namespace"]), (&json!("c"), &json!(ns)));
        assert_eq!(seen["metadata"]["annotations"]["a"], "b");
        assert_eq!(seen["uid"].as_str(), corner.cluster("c").await.uid().as_deref());
        assert!(!body.to_string().contains(&corner.address(1)), "the endpoint is nowhere in the request");
        assert!(calls.len() == 1 || calls[0].body["items"][0]["uid"] != calls[1].body["items"][0]["uid"]);
    });
}
