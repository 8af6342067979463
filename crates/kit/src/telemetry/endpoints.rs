//! `/metrics`, `/passes`, `/healthz`, `/livez` and `/readyz`.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};

use super::Metrics;
use crate::gates::{Gates, Report};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What who asks for `/passes` from elsewhere is told.
const ELSEWHERE: &str = "/passes names objects of all tenants and is therefore answered on the loopback interface alone: \
                         run `kubectl --namespace berth-system port-forward deployment/berth 8080`, and beside it \
                         `berth top --url http://127.0.0.1:8080`.\n";

/// Serves `/metrics`, and as JSON at `/passes` the slowest objects of the last ten minutes and the last failures: these to
/// peers on the loopback interface alone, because they name objects of all tenants.
pub fn metrics_router(metrics: Metrics) -> Router {
    Router::new().route("/metrics", get(scrape)).route("/passes", get(passes)).with_state(metrics)
}

async fn scrape(State(metrics): State<Metrics>) -> Response {
    ([(CONTENT_TYPE, OPENMETRICS)], metrics.encode()).into_response()
}

/// The other end of the connection, as the connection tells it: a header could say anything. Where nothing tells it, it is
/// missing.
type Peer = Option<Extension<ConnectInfo<SocketAddr>>>;

/// Whether somebody on this machine or in this pod asks, as `kubectl port-forward` does. A listener for both families
/// writes addresses of IPv4 as addresses of IPv6.
fn here(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

async fn passes(peer: Peer, State(metrics): State<Metrics>) -> Response {
    if !peer.is_some_and(|Extension(ConnectInfo(peer))| here(peer)) {
        return (StatusCode::FORBIDDEN, [(CACHE_CONTROL, "no-store")], ELSEWHERE).into_response();
    }
    match serde_json::to_string(&metrics.passes().lately()) {
        Ok(body) => ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], body).into_response(),
        // Texts and finite numbers can always be written.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Serves `/readyz` from the gates; `/healthz` and `/livez` say that the process answers. A part that fails stops the
/// process by itself, and an unreachable API server must not get it killed.
///
/// `?verbose` shows every line also when all is well; `?format=json` or `Accept: application/json` asks for JSON.
pub fn health_router(gates: Gates) -> Router {
    let ready = |State(gates): State<Gates>, RawQuery(query): RawQuery, headers: HeaderMap| async move {
        answer(&gates.report(), query.as_deref(), &headers)
    };
    let live = |RawQuery(query): RawQuery, headers: HeaderMap| async move {
        answer(&Report { ready: true, gates: Vec::new() }, query.as_deref(), &headers)
    };
    Router::new().route("/readyz", get(ready)).route("/healthz", get(live)).route("/livez", get(live)).with_state(gates)
}

fn answer(report: &Report, query: Option<&str>, headers: &HeaderMap) -> Response {
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let parts = || query.unwrap_or_default().split('&');
    let accepts = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let json = parts().any(|part| part == "format=json") || accepts.contains("application/json");
    let verbose = parts().any(|part| part == "verbose" || part.starts_with("verbose="));
    let (kind, body) = if json {
        ("application/json", report.to_json())
    } else if report.ready && !verbose {
        ("text/plain; charset=utf-8", "ok\n".to_owned())
    } else {
        ("text/plain; charset=utf-8", report.to_string())
    };
    (status, [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    async fn get_text(router: &Router, path: &str, accept: Option<&str>) -> (u16, String) {
        let mut request = Request::builder().uri(path);
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        sent(router, request.body(Body::empty()).unwrap()).await
    }

    /// What who asks for the passes from there is told; headers say that it is here.
    async fn passes_to(router: &Router, peer: Option<&str>) -> (u16, String) {
        let request = Request::builder().uri("/passes").header("host", "localhost");
        let request = request.header("x-forwarded-for", "127.0.0.1").header("forwarded", "for=127.0.0.1");
        let mut request = request.body(Body::empty()).unwrap();
        if let Some(peer) = peer {
            request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer.parse().unwrap()));
        }
        sent(router, request).await
    }

    async fn sent(router: &Router, request: Request<Body>) -> (u16, String) {
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readyz_says_which_gate_blocks_and_healthz_stays_well() {
        let gates = Gates::new();
        let gate = gates.gate("certs");
        let router = health_router(gates);
        assert_eq!(get_text(&router, "/readyz", None).await, (503, "[-]certs not started\nnot ready\n".to_owned()));
        for alive in ["/healthz", "/livez"] {
            assert_eq!(get_text(&router, alive, None).await, (200, "ok\n".to_owned()));
        }
        gate.ready("expires 2030");
        assert_eq!(get_text(&router, "/readyz", None).await, (200, "ok\n".to_owned()));
        let verbose = (200, "[+]certs expires 2030\nready\n".to_owned());
        assert_eq!(get_text(&router, "/readyz?verbose", None).await, verbose);
        let (_, json) = get_text(&router, "/readyz", Some("application/json")).await;
        assert_eq!(json, get_text(&router, "/readyz?format=json", None).await.1);
        assert!(json.starts_with(r#"{"ready":true"#), "{json}");
    }

    #[tokio::test]
    async fn passes_are_served_beside_metrics_and_read_back_as_they_are_kept() {
        use super::super::{Failure, Lately, Pass};
        let (metrics, clock) = (Metrics::new(), crate::clock::Clock::system());
        let failure = Some(Failure { sort: "failed", class: "transient", reason: Some("Forbidden") });
        let (outcome, took) = ("failed", std::time::Duration::from_millis(20));
        let pass = Pass { room: "claims", kind: Some("HostClaim"), object: &"team-a/web-1", outcome, took, failure };
        metrics.passes().ended(&clock, &pass);
        let (status, text) = passes_to(&metrics_router(metrics.clone()), Some("127.0.0.1:40000")).await;
        assert_eq!(status, 200);
        let read: Lately = serde_json::from_str(&text).unwrap();
        assert_eq!(read, metrics.passes().lately());
        assert_eq!((read.slowest.len(), read.errors.len()), (1, 1), "{text}");
        assert!(!metrics.encode().contains("web-1"), "labels hold no names of objects");
    }

    #[tokio::test]
    async fn passes_are_answered_on_loopback_alone_whatever_headers_say() {
        let router = metrics_router(Metrics::new());
        for here in ["127.0.0.1:40000", "127.9.9.9:1", "[::1]:40000", "[::ffff:127.0.0.1]:40000"] {
            assert_eq!(passes_to(&router, Some(here)).await.0, 200, "{here}");
        }
        let elsewhere = ["10.0.0.7:40000", "169.254.1.1:1", "[fd00::7]:40000", "[::ffff:10.0.0.7]:40000", "0.0.0.0:1"];
        for peer in elsewhere.into_iter().map(Some).chain([None]) {
            let (status, text) = passes_to(&router, peer).await;
            assert_eq!(status, 403, "{peer:?}");
            for way in ["port-forward deployment/berth 8080", "berth top --url http://127.0.0.1:8080"] {
                assert!(text.contains(way), "{text}");
            }
            assert_eq!(text.lines().count(), 1, "{text}");
        }
        assert_eq!(get_text(&router, "/metrics", None).await.0, 200, "metrics are told to everybody");
    }

    #[tokio::test]
    async fn metrics_are_openmetrics_text() {
        let (status, text) = get_text(&metrics_router(Metrics::new()), "/metrics", None).await;
        assert_eq!(status, 200);
        assert!(text.ends_with("# EOF\n"));
    }
}
