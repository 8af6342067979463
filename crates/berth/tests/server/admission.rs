//! The real server calls the webhooks, whoever makes their certificates.

use std::path::Path;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::{Value, json};
use sim::plane;

use crate::capacity::openshift;
use crate::support::{Operator, SOON, World, documents, kind, within};

/// Two arguments whose patterns do not compile.
fn broken(name: &str) -> Value {
    kind(name, json!({"zone": {"pattern": "("}, "size": {"pattern": "a)(b"}, "fine": {"pattern": "[a-z]+"}}))
}

/// The message with which the server refuses a broken kind; nothing is stored either way.
async fn refusal(world: &World) -> Option<String> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let object: DynamicObject = serde_json::from_value(broken("broken")).unwrap();
    match world.kinds().create(&params, &object).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.message.clone()),
        Err(error) => panic!("the server does not answer: {error}"),
    }
}

/// The webhooks are asked and refuse, with every fault and its path.
async fn refuses(world: &World) {
    let message = within(SOON, "a kind with broken patterns is refused", async || refusal(world).await).await;
    assert!(message.contains("hostclaimkinds.berth.dev"), "{message}");
    for part in ["spec.argsSchema[zone].pattern", "spec.argsSchema[size].pattern"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("[fine]"), "{message}");
}

/// Makes our webhooks known at 127.0.0.1, with an authority or without.
pub async fn register(world: &World, port: u16, authority: Option<&str>) {
    let mut configurations = documents(&["webhooks"]);
    assert_eq!(configurations.len(), 2, "one that checks and one that fills in");
    for object in &mut configurations {
        plane::webhooks_by_url(object, port, authority.unwrap_or_default());
        if authority.is_none() {
            for hook in object["webhooks"].as_array_mut().unwrap() {
                hook["clientConfig"].as_object_mut().unwrap().remove("caBundle");
            }
        }
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/part-of"], "berth");
        world.apply(object).await;
    }
}

#[tokio::test]
async fn self_made_certificates_are_made_known_and_the_server_asks_the_webhooks() {
    let Some(world) = World::enter("self_made_certificates_are_made_known_and_the_server_asks_the_webhooks").await
    else {
        return;
    };
    world.installed().await;
    world.namespace("berth-made").await;
    let port = plane::free_port().unwrap();
    register(&world, port, None).await;
    assert_eq!(refusal(&world).await, None, "somebody refuses although no webhook is served");
    let mut operator = Operator::start(
        &world,
        &[
            "--webhook-self-signed",
            "--webhook-port",
            &port.to_string(),
            "--webhook-bind-host",
            "127.0.0.1",
            "--webhook-extra-name",
            "127.0.0.1",
            "--leader-elect-resource-namespace",
            "berth-made",
        ],
    );
    operator.ready().await;
    world.trusted().await;
    refuses(&world).await;
    // What is right is still let in.
    world.apply(&kind("fine", json!({"zone": {"pattern": "[a-z]+"}}))).await;
    world.judged("fine", "False", "HeartbeatMissing").await;
    operator.stop().await;
}

pub fn put(dir: &Path, certificate: &str, key: &str) {
    for (name, content) in [("tls.crt", certificate), ("tls.key", key)] {
        std::fs::write(dir.join(format!("{name}.new")), content).unwrap();
        std::fs::rename(dir.join(format!("{name}.new")), dir.join(name)).unwrap();
    }
}

/// An operator whose webhooks are served with the certificates of a directory.
pub fn served(world: &World, port: u16, certificates: &Path, more: &[&str]) -> Operator {
    let (port, certificates) = (port.to_string(), certificates.to_str().unwrap());
    let webhooks = ["--webhook-port", &port, "--webhook-bind-host", "127.0.0.1", "--webhook-cert-dir", certificates];
    Operator::start(world, &[&webhooks, more].concat())
}

#[tokio::test]
async fn certificates_of_a_directory_are_served_and_new_ones_taken_while_serving() {
    let Some(world) = World::enter("certificates_of_a_directory_are_served_and_new_ones_taken_while_serving").await
    else {
        return;
    };
    world.installed().await;
    let dir = tempfile::tempdir().unwrap();
    let port = plane::free_port().unwrap();
    let mut operator = served(&world, port, dir.path(), &[]);
    // Without a pair nothing can be served, and that is said with the file's name.
    let (status, text) = operator.says("tls.crt").await;
    assert_eq!(status, 503, "{text}");
    put(dir.path(), &world.plane.webhook_cert().unwrap(), &world.plane.webhook_key().unwrap());
    operator.ready().await;
    register(&world, port, Some(&world.plane.ca().unwrap())).await;
    refuses(&world).await;

    let new = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    put(dir.path(), &new.cert.pem(), &new.signing_key.serialize_pem());
    // The end of a certificate that names none.
    let (status, text) = operator.says("4096-01-01").await;
    assert_eq!(status, 200, "{text}");
    // Who trusts only the new pair can only have been answered by it.
    register(&world, port, Some(&new.cert.pem())).await;
    within(SOON, "the server trusts the new pair only", async || refusal(&world).await).await;
    refuses(&world).await;
    operator.stop().await;
}

/// The first object of a file of the book's examples, in a namespace.
fn example(file: &str, namespace: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/examples").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut object = serde_saphyr::from_multiple::<Value>(&text).unwrap().remove(0);
    object["metadata"]["namespace"] = json!(namespace);
    object
}

#[tokio::test]
async fn while_nobody_answers_guarded_specs_are_not_stored_and_everything_else_passes() {
    let name = "while_nobody_answers_guarded_specs_are_not_stored_and_everything_else_passes";
    let Some(world) = World::enter(name).await else { return };
    world.installed().await;
    world.namespace("unseen").await;
    let guarded = [
        ("clusters/cluster.yaml", "/spec/controlPlaneConfiguration/count", json!(3)),
        ("clusters/datacenter.yaml", "/spec/availabilityZones/0/zone/network/name", json!("other")),
        ("clusters/machines.yaml", "/spec/computeOffering/name", json!("Large Instance")),
        ("hosts/template.yaml", "/spec/template/spec/instanceType", json!("m5.4xlarge")),
    ]
    .map(|(file, field, value)| (example(file, "unseen"), field, value));
    for (object, _, _) in &guarded {
        world.apply(object).await;
    }
    // Nobody listens there.
    register(&world, plane::free_port().unwrap(), Some(&world.plane.ca().unwrap())).await;
    let refused = async |object: &Value| match plane::apply(&world.client, object).await {
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    for (object, field, value) in &guarded {
        let kind = object["kind"].as_str().unwrap();
        let mut other = object.clone();
        other["metadata"]["name"] = json!("other");
        let said = within(SOON, "a new object is refused", async || {
            let said = refused(&other).await;
            if said.is_none() {
                world.like(object).delete("other", &DeleteParams::default()).await.expect("deleted");
            }
            said
        })
        .await;
        assert!(said.contains("failed calling webhook"), "{kind}: {said}");
        let mut changed = object.clone();
        *changed.pointer_mut(field).unwrap_or_else(|| panic!("{kind} has no {field}")) = value.clone();
        let said = refused(&changed).await.unwrap_or_else(|| panic!("{kind}: a new {field} is stored"));
        assert!(said.contains("failed calling webhook"), "{kind}: {said}");
        // Labels, finalizers and deletion need nobody.
        let mut labelled = object.clone();
        labelled["metadata"]["labels"] = json!({"moved": "yes"});
        labelled["metadata"]["finalizers"] = json!(["example.com/held"]);
        let stored = world.apply(&labelled).await;
        assert_eq!(stored.metadata.labels.unwrap()["moved"], "yes", "{kind}");
        let (api, name) = (world.like(object), object["metadata"]["name"].as_str().unwrap());
        api.delete(name, &DeleteParams::default()).await.expect("deletion is taken");
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        api.patch(name, &PatchParams::default(), &free).await.expect("what held it is taken off");
        assert!(api.get_opt(name).await.unwrap().is_none(), "{kind} is still there");
    }
    // What rooms judge again by themselves passes unseen.
    world.apply(&broken("broken")).await;
    world.unregister().await;
}

const SIZES: &str = "machine.openshift.io/cluster-api-autoscaler-node-group";

/// A MachineSet of OpenShift with annotations.
fn sized(name: &str, annotations: &Value) -> Value {
    json!({"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": {"name": name, "namespace": "sizes", "annotations": annotations}, "spec": {"replicas": 0}})
}

/// What the server says to a new MachineSet with these annotations: its warnings, or why it refuses. Nothing is stored.
async fn tried(world: &World, annotations: &Value) -> Result<Vec<String>, String> {
    let body = Body::from(sized("tried", annotations).to_string().into_bytes());
    let request = http::Request::post("/apis/machine.openshift.io/v1beta1/namespaces/sizes/machinesets?dryRun=All")
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    let answer = world.client.send(request).await.unwrap();
    if answer.status().is_success() {
        let warnings = answer.headers().get_all("warning").iter();
        return Ok(warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect());
    }
    let body = answer.into_body().collect_bytes().await.unwrap();
    Err(serde_json::from_slice::<Value>(&body).unwrap()["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn annotations_that_stop_the_autoscaler_are_not_stored_and_old_ones_hold_up_nobody() {
    let name = "annotations_that_stop_the_autoscaler_are_not_stored_and_old_ones_hold_up_nobody";
    let Some(world) = World::enter(name).await else { return };
    world.installed().await;
    plane::install_crds(&world.client, vec![openshift::machine_sets()]).await.unwrap();
    world.namespace("sizes").await;
    let upside_down = json!({format!("{SIZES}-min-size"): "5", format!("{SIZES}-max-size"): "3"});
    let old = sized("old", &upside_down);
    world.apply(&old).await;

    let (dir, port) = (tempfile::tempdir().unwrap(), plane::free_port().unwrap());
    put(dir.path(), &world.plane.webhook_cert().unwrap(), &world.plane.webhook_key().unwrap());
    let mut operator = served(&world, port, dir.path(), &["--controllers", "capacity"]);
    operator.ready().await;
    register(&world, port, Some(&world.plane.ca().unwrap())).await;
    let gigabytes = json!({"machine.openshift.io/memoryMb": "8G"});
    let said = within(SOON, "8G is refused", async || tried(&world, &gigabytes).await.err()).await;
    for part in ["machine.openshift.io/memoryMb", "8G", "a whole number of MiB without a unit"] {
        assert!(said.contains(part), "{said}");
    }
    let said = tried(&world, &upside_down).await.unwrap_err();
    assert!(said.contains("max-size") && said.contains("must not be below the lower bound 5"), "{said}");
    let warned = tried(&world, &json!({format!("{SIZES}-min-size"): "0"})).await.unwrap();
    assert!(warned.len() == 1 && warned[0].contains("works only once"), "{warned:?}");
    assert_eq!(tried(&world, &json!({format!("{SIZES}-min-size"): "1"})).await, Ok(vec![]));

    // What was stored before is nobody's fault now.
    let api = world.like(&old);
    for more in [json!({"labels": {"team": "a"}}), json!({"annotations": {"example.org/note": "x"}})] {
        let patch = Patch::Merge(json!({"metadata": more}));
        api.patch("old", &PatchParams::default(), &patch).await.expect("what was stored before stays");
    }
    let worse = Patch::Merge(json!({"metadata": {"annotations": {format!("{SIZES}-max-size"): "4"}}}));
    assert!(api.patch("old", &PatchParams::default(), &worse).await.is_err(), "what is changed is looked at");

    // Without Berth nobody is held up.
    operator.stop().await;
    assert_eq!(tried(&world, &gigabytes).await, Ok(vec![]));
    api.patch("old", &PatchParams::default(), &worse).await.expect("nobody is asked");
    api.delete("old", &DeleteParams::default()).await.expect("deleted");
    world.unregister().await;
}
