//! Where the figures come from: one address, or the operator's pods through the API server.

use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use kit::class::chain;
use kit::clock::Clock;
use kit::http::{HttpClient, HttpOptions, Policy};
use kit::telemetry::{Lately, Samples};
use kube::Client;
use serde::de::DeserializeOwned;

use super::TopOptions;
use super::figures::{Look, Taken};
use crate::Usage;
use crate::pods::{self, OperatorPod};

/// The longest an address may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where metrics are served.
const METRICS: &str = "/metrics";
/// Where, beside them, the slowest objects and the last failures are.
const PASSES: &str = "/passes";
/// What `/readyz` is asked.
const READY: &str = "/readyz?format=json";

/// Who is asked.
pub enum Source {
    /// One process.
    Url { http: Box<HttpClient>, url: String, passes: Option<String>, health: Option<String> },
    /// All pods of the operator in a namespace.
    Pods { client: Client, namespace: String },
}

impl Source {
    /// As the flags say.
    ///
    /// # Errors
    /// When an address is none, or no cluster is found.
    pub async fn open(options: &TopOptions, clock: &Clock) -> anyhow::Result<Self> {
        let agent = concat!("berth-top/", env!("CARGO_PKG_VERSION"));
        let Some(url) = &options.url else {
            let client = crate::connect(&options.cluster, agent).await?;
            return Ok(Self::Pods { client, namespace: options.operator_namespace.to_string() });
        };
        // A person names the address, and `kubectl port-forward` makes it one of this machine.
        let here = ["127.0.0.0/8", "::1/128"].into_iter().filter_map(|network| network.parse().ok());
        let policy = Policy::new().schemes(&["http", "https"]).admit(here);
        let settings = HttpOptions { policy, call: PATIENCE, attempt: PATIENCE, ..HttpOptions::new(agent) };
        let http = Box::new(HttpClient::new(settings, clock.clone()).context("setting up the HTTP client")?);
        let url = address("--url", url, METRICS)?;
        let passes = url.strip_suffix(METRICS).map(|base| format!("{base}{PASSES}"));
        let health = options.health_url.as_ref().map(|url| address("--health-url", url, READY)).transpose()?;
        Ok(Self::Url { http, url, passes, health })
    }

    /// Looks once.
    ///
    /// # Errors
    /// When nobody answers.
    pub async fn look(&self, clock: &Clock, since: tokio::time::Instant) -> anyhow::Result<Look> {
        let (mut taken, mut unseen) = (Vec::new(), Vec::new());
        match self {
            Self::Url { http, url, passes, health } => {
                let metrics = metrics(get(http, url).await).map_err(|why| {
                    anyhow!("{url}: {why}; is it the address of --metrics-bind-address? see `berth top --help`")
                })?;
                let report = match health {
                    Some(health) => read(get(http, health).await, health, "how it is", &mut unseen),
                    None => None,
                };
                let (lately, closed) = match passes {
                    Some(passes) => {
                        let way = || forwarded("berth-system", "deployment/berth", 8080);
                        lately(get(http, passes).await, passes, way, &mut unseen)
                    }
                    None => (None, None),
                };
                taken.push(Taken { name: name(url).to_owned(), metrics, report, lately, closed });
            }
            Self::Pods { client, namespace } => {
                let found = pods::list(client, namespace).await;
                let found = found.with_context(|| {
                    format!(
                        "listing pods in the namespace {namespace}; see `kubectl auth can-i list pods -n {namespace}`"
                    )
                })?;
                if found.is_empty() {
                    return Err(anyhow!(
                        "no pod with the label {} in the namespace {namespace}; give --operator-namespace or --url",
                        pods::LABEL
                    ));
                }
                for pod in found.iter().map(OperatorPod::of) {
                    let ask = async |port, path| pods::ask(client, namespace, &pod.name, port, path).await;
                    match metrics(ask(pod.metrics, METRICS).await) {
                        Ok(metrics) => {
                            let what = format!("readiness of {}", pod.name);
                            let report = read(ask(pod.health, READY).await, &what, "how it is", &mut unseen);
                            let what = format!("passes of {}", pod.name);
                            let way = || forwarded(namespace, &format!("pod/{}", pod.name), pod.metrics);
                            let answer = ask(pod.metrics, PASSES).await;
                            let (lately, closed) = lately(answer, &what, way, &mut unseen);
                            taken.push(Taken { name: pod.name.clone(), metrics, report, lately, closed });
                        }
                        Err(why) => unseen.push(format!("{}: {why}", pod.name)),
                    }
                }
                if taken.is_empty() {
                    let right = format!("kubectl auth can-i get pods/proxy -n {namespace}");
                    return Err(anyhow!("no pod answers: {}; see `{right}`", unseen.join("; ")));
                }
            }
        }
        let at = clock.instant().saturating_duration_since(since);
        Ok(Look { taken, unseen, at, now: clock.now().as_second() })
    }
}

/// An address with a scheme, and with a path of its own or this one.
fn address(flag: &str, text: &str, path: &str) -> Result<String, Usage> {
    let wrong = || Usage(format!("{flag}: `{text}` is not an address such as http://127.0.0.1:8080"));
    let uri: http::Uri = text.parse().map_err(|_| wrong())?;
    if uri.host().is_none_or(str::is_empty) || !uri.scheme_str().is_some_and(|s| ["http", "https"].contains(&s)) {
        return Err(wrong());
    }
    let bare = uri.path() == "/" && uri.query().is_none();
    Ok(if bare { format!("{}{path}", text.trim_end_matches('/')) } else { text.to_owned() })
}

/// Host and port of an address.
fn name(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

async fn get(http: &HttpClient, url: &str) -> Result<(u16, String), String> {
    let request = http::Request::get(url).body(Bytes::new()).map_err(|error| error.to_string())?;
    let answer = http.send(request).await.map_err(|error| chain(&error))?;
    Ok((answer.status().as_u16(), String::from_utf8_lossy(answer.body()).into_owned()))
}

fn metrics(answer: Result<(u16, String), String>) -> Result<Samples, String> {
    let (status, body) = answer?;
    let samples = Samples::parse(&body);
    match status {
        200 if samples.is_empty() => Err("what it answers are no metrics".to_owned()),
        200 => Ok(samples),
        status => Err(format!("it answers {status}")),
    }
}

/// What a process says of itself; with 503 it says why it is not ready.
fn read<T: DeserializeOwned>(
    answer: Result<(u16, String), String>,
    what: &str,
    wanted: &str,
    unseen: &mut Vec<String>,
) -> Option<T> {
    let read = answer.and_then(|(status, body)| {
        serde_json::from_str(&body).map_err(|_| format!("it answers {status}, and not {wanted}"))
    });
    read.map_err(|why| unseen.push(format!("{what}: {why}"))).ok()
}

/// Its slowest objects and last failures, or the way to them where it tells them on its own loopback interface alone; one
/// from before there were any to ask for is no less seen.
fn lately(
    answer: Result<(u16, String), String>,
    what: &str,
    way: impl FnOnce() -> String,
    unseen: &mut Vec<String>,
) -> (Option<Lately>, Option<String>) {
    match answer {
        Ok((404, _)) => (None, None),
        // Its own answer: a refusal of the API server is no answer of the pod.
        Ok((403, _)) => (None, Some(way())),
        answer => (read(answer, what, "its passes", unseen), None),
    }
}

/// The commands by which a process is asked on its own loopback interface.
fn forwarded(namespace: &str, what: &str, port: u16) -> String {
    format!("kubectl --namespace {namespace} port-forward {what} {port}, then berth top --url http://127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use super::super::figures::Report;
    use super::*;

    #[test]
    fn addresses_get_their_path_and_wrong_ones_are_named() {
        let made = |text: &str| address("--url", text, "/metrics").map_err(|error| error.to_string());
        assert_eq!(made("http://127.0.0.1:8080").as_deref(), Ok("http://127.0.0.1:8080/metrics"));
        assert_eq!(made("http://127.0.0.1:8080/").as_deref(), Ok("http://127.0.0.1:8080/metrics"));
        assert_eq!(made("https://x.test/a/metrics").as_deref(), Ok("https://x.test/a/metrics"));
        for wrong in ["127.0.0.1:8080", "ftp://x", "http://", "a b"] {
            assert!(made(wrong).is_err_and(|error| error.contains("--url") && error.contains(wrong)), "{wrong}");
        }
        assert_eq!(name("http://127.0.0.1:8080/metrics"), "127.0.0.1:8080");
    }

    #[test]
    fn answers_that_are_no_metrics_are_refused() {
        assert!(metrics(Ok((200, "a 1\n".to_owned()))).is_ok());
        assert!(metrics(Ok((200, "<html>".to_owned()))).is_err());
        assert!(metrics(Ok((404, "a 1\n".to_owned()))).is_err_and(|why| why.contains("404")));
        let mut unseen = Vec::new();
        let blocked = r#"{"ready":false,"gates":[{"name":"certs","state":"blocked","detail":"not started"}]}"#;
        let mut report = |status: u16, body: &str| -> Option<Report> {
            read(Ok((status, body.to_owned())), "x", "how it is", &mut unseen)
        };
        assert!(report(503, blocked).is_some_and(|report| !report.ready));
        assert!(report(404, "no").is_none() && unseen.len() == 1);
        let mut passes = |answer| (lately(answer, "x", || "way".to_owned(), &mut unseen), unseen.len());
        let way = Some("way".to_owned());
        assert_eq!(passes(Ok((404, "no".to_owned()))), ((None, None), 1), "an older one");
        assert_eq!(passes(Ok((403, "elsewhere".to_owned()))), ((None, way), 1), "told on loopback alone");
        assert_eq!(passes(Ok((500, "no".to_owned()))), ((None, None), 2));
        assert_eq!(passes(Err("pods is forbidden".to_owned())), ((None, None), 3), "the API server refuses");
    }
}
