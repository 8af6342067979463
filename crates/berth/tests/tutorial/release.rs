//! The release that a page installs with helm, as a cluster would run it: the pod of its Deployment, with the rights of its
//! service account, is asked by the server for webhooks and versions. Only its ports are this machine's.

use std::path::Path;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sim::ec2;
use sim::plane::Plane;

use crate::BERTH;
use crate::pages::root;
use crate::pod::{self, Pod, Ports};
use crate::shell::{self, Shell};

/// The namespace and the name of the release.
pub const HOME: &str = "berth-system";
const NAME: &str = "berth";

/// A shell in the project's directory, whose helm has Services ask at our port; nothing where a program is not built.
pub fn shell(test: &str, kubeconfig: &Path, ports: Ports) -> Option<Shell> {
    let (kubectl, helm) = (shell::kubectl(test)?, shell::helm(test)?);
    let shell = Shell::new(&root(), kubeconfig).with("kubectl", &kubectl).with("berth", Path::new(BERTH));
    let ask_at = format!("exec sed 's/port: 443$/port: {}/'", ports.webhooks);
    let (shell, helm) = (shell.script("ask-at", &ask_at), helm.canonicalize().unwrap());
    let helm = format!(
        "case $1 in install | upgrade) exec {0} \"$@\" --post-renderer ask-at ;; *) exec {0} \"$@\" ;; esac",
        helm.display()
    );
    Some(shell.script("helm", &helm))
}

/// The arguments by which Berth finds a simulated account of EC2.
pub fn endpoints(cloud: &ec2::Handle) -> Vec<String> {
    ["ec2", "sts"].map(|service| format!("--aws-endpoint={service}={}", cloud.endpoint)).to_vec()
}

/// The variables with which it is in that account.
pub fn identity(cloud: &ec2::Handle) -> [(&'static str, &str); 3] {
    [
        ("AWS_ACCESS_KEY_ID", cloud.access_key.as_str()),
        ("AWS_SECRET_ACCESS_KEY", &cloud.secret),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]
}

/// A shell in which Berth's commands find that account too.
pub fn with_account(shell: Shell, cloud: &ec2::Handle) -> Shell {
    let shell = identity(cloud).into_iter().fold(shell, |shell, (name, value)| shell.variable(name, value));
    let ask_there = format!(
        "case $1 in hosts | leaks) exec {BERTH} \"$@\" {} ;; *) exec {BERTH} \"$@\" ;; esac",
        endpoints(cloud).join(" ")
    );
    shell.script("berth", &ask_there)
}

/// Runs it, with more arguments and variables than the page gives, and waits until it is ready.
pub async fn run(plane: &Plane, client: &Client, ports: Ports, args: &[String], env: &[(&str, &str)]) -> Pod {
    pod::lead_here(client, HOME).await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), HOME);
    let mut deployment = serde_json::to_value(deployments.get(NAME).await.unwrap()).unwrap();
    let container = deployment.pointer_mut("/spec/template/spec/containers/0").unwrap();
    container["args"].as_array_mut().unwrap().extend(args.iter().map(|arg| json!(arg)));
    let variables = env.iter().map(|(name, value)| json!({"name": name, "value": value}));
    container["env"].as_array_mut().unwrap().extend(variables.collect::<Vec<Value>>());
    let mut pod = Pod::start(plane, &deployment, ports).await;
    pod.ready().await;
    pod
}

/// Waits until the server asks it about an object of the namespace default, and refuses that with these words. The server
/// learns of webhooks by watches of its own, and lets nothing in that it could not ask about.
pub async fn refuses(berth: &mut Pod, client: &Client, object: &Value, words: &str) {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!("default");
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind));
    let tried = PostParams { dry_run: true, ..PostParams::default() };
    berth
        .sees(&format!("{} is refused: {words}", kind.kind), async || {
            api.create(&tried, &object).await.err().filter(|error| error.to_string().contains(words))
        })
        .await;
}
