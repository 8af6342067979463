//! The operator's own pods, and what they serve, read through the API server: nothing has to be reachable from here.

use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use k8s_openapi::api::core::v1::Pod;
use kit::class::chain;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::client::Body;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

/// What the chart's pods are labelled with.
pub const LABEL: &str = "app.kubernetes.io/name=berth";
/// The largest answer of a pod that is read.
const MOST_BYTES: usize = 8 << 20;
/// The longest a pod may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest a log may take.
const LOG_PATIENCE: Duration = Duration::from_secs(120);

/// One container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Whether it was started more than once, so that there is a log of the time before.
    pub restarted: bool,
}

/// A pod of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorPod {
    /// Its name.
    pub name: String,
    /// Its containers.
    pub containers: Vec<Container>,
    /// Where it serves `/metrics`.
    pub metrics: u16,
    /// Where it serves `/readyz`.
    pub health: u16,
}

impl OperatorPod {
    /// What matters of a pod here.
    pub fn of(pod: &DynamicObject) -> Self {
        let every = |pointer: &str| pod.data.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let name = |of: &Value| of.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let port = |wanted: &str, otherwise: u16| {
            let ports = every("/spec/containers").filter_map(|container| container.get("ports")?.as_array()).flatten();
            let found = ports.into_iter().find(|port| name(port) == wanted);
            let number = found.and_then(|port| port.get("containerPort")?.as_u64());
            number.and_then(|number| u16::try_from(number).ok()).unwrap_or(otherwise)
        };
        let restarted = |container: &str| {
            every("/status/containerStatuses").chain(every("/status/initContainerStatuses")).any(|status| {
                name(status) == container && status.get("restartCount").and_then(Value::as_i64).is_some_and(|n| n > 0)
            })
        };
        let containers = every("/spec/initContainers").chain(every("/spec/containers")).map(name);
        Self {
            name: pod.name_any(),
            containers: containers.map(|name| Container { restarted: restarted(&name), name }).collect(),
            metrics: port("metrics", 8080),
            health: port("health", 9440),
        }
    }
}

/// The operator's pods in a namespace, by name.
///
/// # Errors
/// When they may not be listed, or the server does not answer.
pub async fn list(client: &Client, namespace: &str) -> Result<Vec<DynamicObject>, Box<kube::Error>> {
    // Not as a `Pod`: the binary would hold the reading of every field of every volume and container for a few of them.
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    let mut pods = api.list(&ListParams::default().labels(LABEL)).await.map_err(Box::new)?.items;
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods)
}

/// What a pod answers, with its status code, whatever that is.
///
/// # Errors
/// Why there is no answer, or why the API server does not pass the question on.
pub async fn ask(client: &Client, namespace: &str, pod: &str, port: u16, path: &str) -> Result<(u16, String), String> {
    let uri = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy{path}");
    let request = http::Request::get(uri).body(Body::empty()).map_err(|error| error.to_string())?;
    let work = async {
        let answer = client.send(request).await.map_err(|error| chain(&error))?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    };
    let (status, body) = tokio::time::timeout(PATIENCE, work).await.map_err(|_| "no answer".to_owned())??;
    match refusal(status, &body) {
        Some(why) => Err(why),
        None => Ok((status, body)),
    }
}

/// The end of a container's log: at most `most` bytes, whole lines, and whether it was longer.
///
/// # Errors
/// Why it cannot be read.
pub async fn log(
    client: &Client,
    namespace: &str,
    (pod, container): (&str, &str),
    previous: bool,
    most: usize,
) -> Result<(Vec<u8>, bool), String> {
    let uri = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&previous={previous}");
    let request = http::Request::get(uri).body(Body::empty()).map_err(|error| error.to_string())?;
    let work = async {
        let answer = client.send(request).await.map_err(|error| chain(&error))?;
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        // `limitBytes` counts from the beginning, so the end is kept while all of it passes by.
        let mut tail = Tail::new(most);
        while let Some(frame) = body.frame().await {
            if let Ok(bytes) = frame.map_err(|error| chain(&error))?.into_data() {
                tail.push(&bytes);
            }
        }
        let (bytes, cut) = tail.finish();
        match refusal(status, &String::from_utf8_lossy(&bytes)) {
            Some(why) => Err(why),
            None if status >= 400 => Err(format!("the server answers {status}")),
            None => Ok((bytes, cut)),
        }
    };
    tokio::time::timeout(LOG_PATIENCE, work).await.map_err(|_| "not read to its end in time".to_owned())?
}

/// Keeps the end of what passes by.
struct Tail {
    most: usize,
    bytes: Vec<u8>,
    cut: bool,
}

impl Tail {
    fn new(most: usize) -> Self {
        Self { most, bytes: Vec::new(), cut: false }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        // Moved only when twice the size is reached, so that every byte is moved once.
        if self.bytes.len() > self.most.saturating_mul(2) {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        let over = self.bytes.len().saturating_sub(self.most);
        self.cut |= over > 0;
        self.bytes.drain(..over);
    }

    /// What is left, from the beginning of a line.
    fn finish(mut self) -> (Vec<u8>, bool) {
        self.shorten();
        if self.cut {
            let line = self.bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            self.bytes.drain(..line);
        }
        (self.bytes, self.cut)
    }
}

/// The API server's own refusal, which it words as a Status; a pod of ours never does.
fn refusal(status: u16, body: &str) -> Option<String> {
    if status < 400 {
        return None;
    }
    let said: Value = serde_json::from_str(body).ok()?;
    let own = said.get("kind").and_then(Value::as_str) == Some("Status");
    let message = said.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    own.then(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_are_found_by_name_and_otherwise_those_of_the_chart() {
        let pod = |ports: Value| {
            let pod = json!({"metadata": {"name": "berth-1"}, "spec": {"initContainers": [{"name": "first"}],
                "containers": [{"name": "berth", "ports": ports}]},
                "status": {"containerStatuses": [{"name": "berth", "restartCount": 2, "ready": true, "image": "", "imageID": ""}]}});
            OperatorPod::of(&serde_json::from_value(pod).unwrap())
        };
        let found =
            pod(json!([{"name": "metrics", "containerPort": 18080}, {"name": "health", "containerPort": 19440}]));
        assert_eq!((found.metrics, found.health), (18080, 19440));
        let named: Vec<(&str, bool)> = found.containers.iter().map(|c| (c.name.as_str(), c.restarted)).collect();
        assert_eq!(named, [("first", false), ("berth", true)]);
        assert_eq!((pod(json!([])).metrics, pod(json!([])).health), (8080, 9440));
    }

    #[test]
    fn of_a_long_log_the_last_whole_lines_are_kept() {
        let read = |most, parts: &[&str]| {
            let mut tail = Tail::new(most);
            parts.iter().for_each(|part| tail.push(part.as_bytes()));
            let (bytes, cut) = tail.finish();
            (String::from_utf8(bytes).unwrap(), cut)
        };
        assert_eq!(read(10, &["one\n", "two\n"]), ("one\ntwo\n".to_owned(), false));
        assert_eq!(read(6, &["one\n", "two\n"]), ("two\n".to_owned(), true));
        let many: Vec<String> = (0..1000).map(|n| format!("line {n:04}\n")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(read(25, &many), ("line 0998\nline 0999\n".to_owned(), true));
    }

    #[test]
    fn a_pod_that_is_not_ready_is_an_answer_and_a_refusal_of_the_server_is_none() {
        assert_eq!(refusal(503, "[-]certs not started\nnot ready\n"), None);
        assert_eq!(refusal(503, r#"{"ready":false,"gates":[]}"#), None);
        let refused = r#"{"kind":"Status","apiVersion":"v1","message":"pods \"x\" is forbidden","code":403}"#;
        assert_eq!(refusal(403, refused).as_deref(), Some("pods \"x\" is forbidden"));
    }
}
