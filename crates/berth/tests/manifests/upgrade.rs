//! A chart takes over from an earlier one, and the other way round: objects, trust and the rest stay, what a chart does not
//! have goes, and what is left in the end is what the notes say.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use serde_json::{Value, json};
use sim::plane::{self, Plane};

use crate::helm::{Helm, NAMESPACE};
use crate::kinds::{self, called};
use crate::pod::{self, Pod, Ports};
use crate::{documents, of_kind, root, text};

/// The charts of earlier versions, oldest first: every release leaves its own here.
fn earlier() -> Vec<PathBuf> {
    let folder = root().join("chart/tests/earlier");
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "tgz"));
    found.sort();
    assert!(!found.is_empty(), "no earlier chart to come from");
    found
}

/// The kinds of objects that a chart is made of.
const PARTS: [(&str, &str); 13] = [
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("apps/v1", "Deployment"),
    ("policy/v1", "PodDisruptionBudget"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
];

/// What is there of Berth, whoever made it: kind and name, and the whole object.
async fn installed(client: &Client) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (version, kind) in PARTS {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let (resource, _) = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await.unwrap();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let ours = ListParams::default().labels("app.kubernetes.io/name=berth");
        for object in api.list(&ours).await.unwrap() {
            let mut object = serde_json::to_value(object).unwrap();
            object["kind"] = json!(kind);
            object["metadata"].as_object_mut().unwrap().remove("managedFields");
            found.insert(called(&object), object);
        }
    }
    found
}

/// The authority of every webhook and conversion, by object and webhook.
fn trust(installed: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (name, object) in installed {
        for hook in object["webhooks"].as_array().into_iter().flatten() {
            found.insert(format!("{name} {}", text(hook, "/name")), hook["clientConfig"]["caBundle"].clone());
        }
        let conversion = object.pointer("/spec/conversion/webhook/clientConfig");
        found.extend(conversion.map(|config| (name.clone(), config["caBundle"].clone())));
    }
    found
}

/// What is in both of the same name is the same object, trusts the same authority, and is stored in the same versions.
fn taken_over(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) {
    let mut same = 0;
    for (name, old) in before {
        let Some(new) = after.get(name) else { continue };
        assert_eq!(old["metadata"]["uid"], new["metadata"]["uid"], "{name} was made anew");
        assert_eq!(old["status"]["storedVersions"], new["status"]["storedVersions"], "{name}");
        let refused = new["status"]["conditions"].as_array().into_iter().flatten();
        for condition in refused.filter(|_| text(new, "/kind") == "CustomResourceDefinition") {
            let good = condition["type"] == "NonStructuralSchema" || condition["status"] == "True";
            assert!(good || text(condition, "/type") == "Terminating", "{name}: {condition}");
        }
        same += 1;
    }
    assert!(same >= 25, "only {same} objects are in both charts");
    let (old, new) = (trust(before), trust(after));
    assert!(old.len() > 15 && old.values().all(Value::is_string), "{old:#?}");
    for (name, authority) in old {
        assert!(new.get(&name).is_none_or(|now| *now == authority), "{name} does not trust what it trusted");
    }
}

/// What the chart of this tree renders is what is there, but for what the server and Berth add.
fn is_current(helm: &Helm, installed: &BTreeMap<String, Value>, port: u16) {
    let rendered = helm.template(&root().join("chart"));
    // Namespaces are made where they are not there.
    for mut object in rendered.into_iter().filter(|object| object["kind"] != "Namespace") {
        pod::ask_at(&mut object, port);
        let name = called(&object);
        let found = installed.get(&name).unwrap_or_else(|| panic!("{name} is missing"));
        assert!(kinds::holds(&found["metadata"]["labels"], &object["metadata"]["labels"]), "{name}");
        if object["kind"] == "CustomResourceDefinition" {
            // The server drops what says nothing, and knows one kind of number only.
            for (old, new) in
                object["spec"]["versions"].as_array().unwrap().iter().zip(found["spec"]["versions"].as_array().unwrap())
            {
                let columns = |version: &Value| version["additionalPrinterColumns"].clone();
                assert_eq!(columns(old), columns(new), "{name}");
                assert!(crate::same(&old["schema"], &new["schema"]), "{name}");
            }
        }
        if let Some(rules) = object.get("rules") {
            assert_eq!(found["rules"], *rules, "{name}");
        }
        for (wanted, there) in
            object["webhooks"].as_array().into_iter().flatten().zip(found["webhooks"].as_array().into_iter().flatten())
        {
            assert!(kinds::holds(there, wanted), "{name}: {there} is not {wanted}");
        }
        if object["kind"] == "Deployment" {
            let container = "/spec/template/spec/containers/0";
            for part in ["args", "env", "image", "ports"] {
                let path = format!("{container}/{part}");
                assert!(kinds::holds(found.pointer(&path).unwrap(), object.pointer(&path).unwrap()), "{name}: {part}");
            }
        }
    }
}

/// Runs the pod of what is installed until it is asked, and stops it again.
async fn run(plane: &Plane, client: &Client, ports: Ports, while_it_runs: impl AsyncFnOnce()) {
    pod::lead_here(client, NAMESPACE).await;
    let deployment = installed(client).await.remove("Deployment berth").unwrap();
    let mut berth = Pod::start(plane, &deployment, ports).await;
    berth.ready().await;
    berth
        .sees("every webhook trusts it", async || {
            trust(&installed(client).await).values().all(Value::is_string).then_some(())
        })
        .await;
    berth.is_asked(client).await;
    while_it_runs().await;
    berth.stop();
}

/// Nothing of the chart is a pod here: what is installed is what the server stores, which is all that Helm waits for. The pod is
/// a process that does what the installed Deployment says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgraded_rolled_back_cut_down_removed_and_installed_again_by_helm_users_keep_their_objects() {
    let test = "upgraded_rolled_back_cut_down_removed_and_installed_again_by_helm_users_keep_their_objects";
    if plane::for_test(test).is_none() {
        return;
    }
    let Some(helm) = Helm::find(test) else { return };
    for chart in earlier() {
        let plane = Plane::start().unwrap();
        let client = plane.client().await.unwrap();
        let ports = Ports::free();
        let ask = helm.ask_at(ports.webhooks);
        let here = |args: &[&str]| helm.run(&plane, &[args, &["--post-renderer", &ask]].concat());

        here(&["install", "berth", &chart.to_string_lossy(), "--create-namespace", "--set", "podLabels.team=quay"]);
        run(&plane, &client, ports, async || kinds::create(&client).await).await;
        kinds::fill(&client).await;
        let (objects, first) = (kinds::stored(&client).await, installed(&client).await);

        // The new chart has everything that it renders, and users have everything that they had, to the last version.
        here(&["upgrade", "berth", "chart", "--reset-then-reuse-values"]);
        let second = installed(&client).await;
        taken_over(&first, &second);
        is_current(&helm, &second, ports.webhooks);
        assert_eq!(text(&second["Deployment berth"], "/spec/template/metadata/labels/team"), "quay", "values are kept");
        assert_eq!(kinds::stored(&client).await, objects, "an upgrade changes no object");
        let new: BTreeSet<_> = second.keys().filter(|name| !first.contains_key(*name)).collect();
        let gone: Vec<_> = first.keys().filter(|name| !second.contains_key(*name)).collect();
        let rendered: BTreeMap<String, Value> =
            helm.template(&root().join("chart")).into_iter().map(|object| (called(&object), object)).collect();
        // Whoever removes a release loses no cluster.
        let space = &rendered["Namespace eksa-system"]["metadata"]["annotations"];
        assert_eq!(space["helm.sh/resource-policy"], "keep");
        assert!(gone.iter().all(|name| !rendered.contains_key(*name)), "{gone:?}");

        // The new pod takes over: what the old one had trusted is asked, and everything works.
        run(&plane, &client, ports, async || ()).await;
        let objects = kinds::stored(&client).await;
        let second = installed(&client).await;

        // Back, and what only the new chart has is gone.
        helm.run(&plane, &["rollback", "berth", "1"]);
        let third = installed(&client).await;
        taken_over(&second, &third);
        assert!(new.iter().all(|name| !third.contains_key(*name)), "{new:?} must be gone");
        let names = |of: &BTreeMap<String, Value>| of.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&third), names(&first));
        assert_eq!(kinds::stored(&client).await, objects, "the way back changes no object");

        // Without much of what can be left out: that goes, and definitions do not.
        let less = "rbac.roles=false,crds.metal3=false,crds.awsMachines=false,metrics.enabled=false,\
            networkPolicy.enabled=false,podDisruptionBudget.enabled=false,controllers={claims}";
        here(&["upgrade", "berth", "chart", "--set", less]);
        let least = installed(&client).await;
        taken_over(&third, &least);
        for gone in [
            "ClusterRole berth-ui",
            "Service berth-metrics",
            "Service berth-runtime-extension",
            "NetworkPolicy berth",
            "PodDisruptionBudget berth",
            "ConfigMap berth-capacity-catalogue",
        ] {
            assert!(!least.contains_key(gone), "{gone} is left");
        }
        let kinds_of = |of: &BTreeMap<String, Value>| {
            of.keys().filter(|name| name.starts_with("CustomResourceDefinition ")).cloned().collect::<BTreeSet<_>>()
        };
        assert_eq!(kinds_of(&least), kinds_of(&second));
        assert_eq!(kinds::stored(&client).await, objects, "what is left out takes no object with it");

        // What is left in the end is what the notes say.
        let said = helm.run(&plane, &["uninstall", "berth"]);
        assert!(said.contains("kept due to the resource policy"), "{said}");
        let left = installed(&client).await;
        assert_eq!(names(&left), kinds_of(&second), "only definitions are left");
        assert_eq!(kinds::stored(&client).await, objects, "a removal takes no object with it");
        let notes = helm.notes(&plane, &["--set", "crds.install=true"]);
        for name in left.keys() {
            let command = format!("kubectl delete crd {}\n", name.strip_prefix("CustomResourceDefinition ").unwrap());
            assert!(notes.contains(&command), "the notes do not say {command}: {notes}");
        }
        let (lease, secret) = ("the Lease berth in namespace", "the Secret berth-webhook-certs that Berth made");
        assert!(notes.contains(lease) && notes.contains(secret), "{notes}");
        assert!(notes.contains("- the namespace eksa-system with everything in it"), "{notes}");
        for other in ["controllers={claims}", "clusters.createNamespace=false", "clusters.systemNamespace=berth-system"]
        {
            let notes = helm.notes(&plane, &["--set", other]);
            assert!(!notes.contains("- the namespace "), "{other}: {notes}");
        }
        // Definitions that somebody else has installed are not theirs to remove.
        let notes = helm.notes(&plane, &["--set", "crds.metal3=false,crds.awsMachines=false"]);
        assert!(notes.contains("delete crd hostclaims.metal3.io\n"), "{notes}");
        assert!(!notes.contains("crd metal3") && !notes.contains("crd awsmachine"), "{notes}");
        for (version, kind, name) in [
            ("coordination.k8s.io/v1", "Lease", "berth"),
            ("v1", "Secret", "berth-webhook-certs"),
            ("v1", "Namespace", "eksa-system"),
        ] {
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": NAMESPACE}});
            kinds::like(&client, &object)
                .await
                .unwrap()
                .get(name)
                .await
                .unwrap_or_else(|e| panic!("{kind} {name}: {e}"));
        }

        // And without any value it is there again, with what was left.
        here(&["install", "berth", "chart"]);
        assert_eq!(kinds::stored(&client).await, objects, "and so does a new start");
        run(&plane, &client, ports, async || ()).await;

        // The namespace of clusters was there before the chart. One that the chart makes stays just so, and the next release of
        // that name goes on with it.
        let made = "clusters.systemNamespace=clouds";
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "clouds"}});
        let spaces = kinds::like(&client, &space).await.unwrap();
        assert!(spaces.get_opt("clouds").await.unwrap().is_none());
        here(&["upgrade", "berth", "chart", "--set", made]);
        let uid = spaces.get("clouds").await.unwrap().metadata.uid;
        let said = helm.run(&plane, &["uninstall", "berth"]);
        let left = spaces.get("clouds").await.unwrap().metadata;
        assert!(left.uid == uid && left.deletion_timestamp.is_none(), "{said}");
        here(&["install", "berth", "chart", "--set", made]);
        let last = installed(&client).await;
        assert_eq!(text(&last["RoleBinding berth-clusters"], "/metadata/namespace"), "clouds");
        assert_eq!(spaces.get("clouds").await.unwrap().metadata.uid, uid);
    }
}

/// Applies objects as kubectl does on the server: a field that is somebody else's would be a conflict.
async fn apply(client: &Client, objects: &[Value]) {
    for object in objects {
        let api = kinds::like(client, object).await.unwrap();
        let params = PatchParams::apply("kubectl").validation_strict();
        let stored = api.patch(text(object, "/metadata/name"), &params, &Patch::Apply(object)).await;
        stored.unwrap_or_else(|e| panic!("{}: {e}", called(object)));
    }
}

#[tokio::test]
async fn manifests_are_applied_over_those_of_an_earlier_chart_without_a_conflict() {
    let test = "manifests_are_applied_over_those_of_an_earlier_chart_without_a_conflict";
    if plane::for_test(test).is_none() {
        return;
    }
    let Some(helm) = Helm::find(test) else { return };
    for chart in earlier() {
        let plane = Plane::start().unwrap();
        let client = plane.client().await.unwrap();
        let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
        let (old_kinds, old): (Vec<Value>, Vec<Value>) = helm.template(&chart).into_iter().partition(is_definition);
        let (new_kinds, new): (Vec<Value>, Vec<Value>) =
            documents("deploy/berth.yaml").into_iter().partition(is_definition);
        apply(&client, &new[..1]).await;

        // An object that definitions did not refuse yet. Nobody is asked here, so it is theirs alone to refuse.
        apply(&client, &old_kinds).await;
        let odd = json!({"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "CloudStackMachineConfig",
            "metadata": {"name": "odd", "namespace": NAMESPACE}, "spec": {"template": {"name": "t"},
            "computeOffering": {"name": "o"}, "users": [{"name": "u", "sshAuthorizedKeys": ["k"]}],
            "diskOffering": {"name": "d", "customSizeInGB": -1, "device": "/dev/vdb", "filesystem": "ext4",
                "label": "l", "mountPath": "/d"}}});
        let served = async || kinds::like(&client, &odd).await.ok();
        let odds = sim::wait::within(pod::BOUND, "the old definition is served", served).await;
        apply(&client, std::slice::from_ref(&odd)).await;
        apply(&client, &new_kinds).await;
        let change = async |patch: Value| odds.patch("odd", &PatchParams::default(), &Patch::Merge(patch)).await;
        let refused = async || change(json!({"spec": {"diskOffering": {"customSizeInGB": -2}}})).await.err();
        let refused = sim::wait::within(pod::BOUND, "the new definition refuses it", refused).await.to_string();
        assert!(refused.contains("customSizeInGB: must be >= 0"), "{refused}");
        let changed = change(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"affinity": "anti"}})).await.unwrap();
        assert_eq!(changed.data["spec"]["diskOffering"]["customSizeInGB"], -1, "it stays what it was");
        odds.delete("odd", &DeleteParams::default()).await.unwrap();

        apply(&client, &old).await;
        let authority = "eA==";
        for config in old.iter().filter(|object| object["webhooks"].is_array()) {
            let hooks = config["webhooks"].as_array().unwrap().iter();
            let hooks: Vec<Value> =
                hooks.map(|hook| json!({"name": hook["name"], "clientConfig": {"caBundle": authority}})).collect();
            let trusting = json!({"apiVersion": config["apiVersion"], "kind": config["kind"],
                "metadata": {"name": "berth"}, "webhooks": hooks});
            let api = kinds::like(&client, config).await.unwrap();
            api.patch("berth", &PatchParams::apply("berth"), &Patch::Apply(&trusting)).await.unwrap();
        }
        apply(&client, &new).await;
        let trusted = trust(&installed(&client).await);
        let known: Vec<String> = old
            .iter()
            .flat_map(|config| {
                let hooks = config["webhooks"].as_array().into_iter().flatten();
                hooks.map(|hook| format!("{} {}", called(config), text(hook, "/name"))).collect::<Vec<_>>()
            })
            .filter(|name| trusted.contains_key(name))
            .collect();
        assert!(known.len() > 10, "{known:?}");
        assert!(known.iter().all(|name| trusted[name] == authority), "{trusted:#?}");
    }
}

/// The fields of a schema: the path of each, and what it holds.
fn fields(path: &str, schema: &Value, found: &mut BTreeMap<String, String>) {
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let sort = if open { "anything" } else { schema["type"].as_str().unwrap_or("int or string") };
    found.insert(path.to_owned(), sort.to_owned());
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        fields(&format!("{path}.{name}"), property, found);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", ".*")] {
        if schema[key].is_object() {
            fields(&format!("{path}{mark}"), &schema[key], found);
        }
    }
}

/// Of every kind and version, the fields.
fn served(objects: &[Value]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for definition in of_kind(objects, "CustomResourceDefinition") {
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let mut found = BTreeMap::new();
            fields("", &version["schema"]["openAPIV3Schema"], &mut found);
            all.insert(format!("{} {}", text(definition, "/metadata/name"), text(version, "/name")), found);
        }
    }
    all
}

#[test]
fn no_field_that_an_earlier_chart_stores_is_dropped_by_the_newer_one() {
    let Some(helm) = Helm::find("no_field_that_an_earlier_chart_stores_is_dropped_by_the_newer_one") else { return };
    let new = served(&documents("deploy/berth.yaml"));
    for chart in earlier() {
        let mut seen = 0;
        for (version, fields) in served(&helm.template(&chart)) {
            let now = new.get(&version).unwrap_or_else(|| panic!("{version} is not served any more"));
            for (field, sort) in fields {
                assert_eq!(now.get(&field), Some(&sort), "{version}: {field}");
                seen += 1;
            }
        }
        assert!(seen > 1000, "only {seen} fields");
    }
}
