//! What is asked of the API server, counted: by verb and resource, whoever of us asks.

use std::task::{Context, Poll};

use http::{Method, Request};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tower::{Layer, Service};

use crate::telemetry::Metrics;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Asked {
    verb: &'static str,
    resource: String,
}

/// Counts requests; clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    requests: Family<Asked, Counter>,
}

impl Meter {
    /// Shows the counts as `berth_api_requests_total`.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register("api_requests", "Requests to the API server", self.requests.clone());
    }

    fn count(&self, method: &Method, path: &str, query: &str) {
        self.requests.get_or_create(&asked(method, path, query)).inc();
    }
}

impl<S> Layer<S> for Meter {
    type Service = Metered<S>;

    fn layer(&self, inner: S) -> Metered<S> {
        Metered { meter: self.clone(), inner }
    }
}

/// A client whose requests are counted as they are sent.
#[derive(Clone, Debug)]
pub struct Metered<S> {
    meter: Meter,
    inner: S,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for Metered<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> S::Future {
        let uri = request.uri();
        self.meter.count(request.method(), uri.path(), uri.query().unwrap_or_default());
        self.inner.call(request)
    }
}

/// The verb and the resource of a request, as audit logs call them. Names of objects and namespaces are left out, so that
/// there are as many series as the code knows requests.
fn asked(method: &Method, path: &str, query: &str) -> Asked {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => ("", Default::default()),
    };
    let (plural, name, part) = match rest {
        ["namespaces", name, part @ ("status" | "finalize")] => ("namespaces", Some(name), Some(part)),
        ["namespaces", _, plural, rest @ ..] | [plural, rest @ ..] => (*plural, rest.first(), rest.get(1)),
        [] => return Asked { verb: verb(method, false, true), resource: "none".to_owned() },
    };
    let mut resource = plural.to_owned();
    for (sign, more) in [('.', Some(&group).filter(|group| !group.is_empty())), ('/', part)] {
        if let Some(more) = more {
            resource.push(sign);
            resource.push_str(more);
        }
    }
    let watches = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
    Asked { verb: verb(method, watches, name.is_some()), resource }
}

fn verb(method: &Method, watches: bool, named: bool) -> &'static str {
    match (method.as_str(), named) {
        ("GET", _) if watches => "watch",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_told_by_its_verb_and_resource_and_never_by_a_name() {
        let claims = "/apis/metal3.io/v1alpha1/namespaces/red/hostclaims";
        let (claim, status) = (format!("{claims}/c"), format!("{claims}/c/status"));
        let (claim, status) = (claim.as_str(), status.as_str());
        for (method, path, query, wanted) in [
            (Method::GET, "/apis/metal3.io/v1alpha1/hostclaims", "limit=100", "list hostclaims.metal3.io"),
            (Method::GET, "/apis/metal3.io/v1alpha1/hostclaims", "a=b&watch=true", "watch hostclaims.metal3.io"),
            (Method::GET, claims, "", "list hostclaims.metal3.io"),
            (Method::GET, claim, "", "get hostclaims.metal3.io"),
            (Method::POST, claims, "fieldManager=x", "create hostclaims.metal3.io"),
            (Method::PATCH, status, "", "patch hostclaims.metal3.io/status"),
            (Method::DELETE, claim, "", "delete hostclaims.metal3.io"),
            (Method::DELETE, claims, "", "deletecollection hostclaims.metal3.io"),
            (Method::PUT, "/api/v1/namespaces/red/secrets/s", "", "update secrets"),
            (Method::GET, "/api/v1/namespaces/red", "", "get namespaces"),
            (Method::GET, "/api/v1/namespaces", "watch=1", "watch namespaces"),
            (Method::PUT, "/api/v1/namespaces/red/finalize", "", "update namespaces/finalize"),
            (Method::GET, "/version", "", "get none"),
            (Method::GET, "/apis/metal3.io/v1alpha1", "", "get none"),
            (Method::GET, "", "", "get none"),
            (Method::OPTIONS, "/api/v1/pods", "", "other pods"),
        ] {
            let Asked { verb, resource } = asked(&method, path, query);
            assert_eq!(format!("{verb} {resource}"), wanted, "{method} {path}?{query}");
        }
    }

    #[tokio::test]
    async fn what_is_sent_is_counted_and_shown() {
        let (meter, metrics) = (Meter::default(), Metrics::new());
        meter.register(&metrics);
        let server = tower::service_fn(|_: Request<()>| async { Ok::<(), std::convert::Infallible>(()) });
        let mut client = meter.layer(server);
        for _ in 0..3 {
            let request = Request::get("https://server/api/v1/namespaces/red/secrets/s").body(()).unwrap();
            client.call(request).await.unwrap();
        }
        let text = metrics.encode();
        assert!(text.contains("berth_api_requests_total{verb=\"get\",resource=\"secrets\"} 3\n"), "{text}");
    }
}
