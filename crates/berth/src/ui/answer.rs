//! What browsers are answered: four things that can be looked at, and nothing else.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HOST, HeaderName, HeaderValue, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::shelf::{Page, Shelf};

const HTML: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/ui.css");
const SCRIPT: &str = include_str!("page/ui.js");

/// Nothing but our own three files and our own document, in no frame, and no form that leads anywhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// What every answer carries, whatever it is.
const HEADERS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
    (CACHE_CONTROL, "no-cache"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// By which names it may be asked for. A page from elsewhere can make its own name mean this machine, but it can neither make
/// a number mean anything, nor a name of loopback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Those that mean this machine everywhere.
    Loopback,
    /// Those, and addresses in numbers.
    Numbers,
}

impl Hosts {
    /// Whether it may be asked for by this value of the header Host.
    pub fn admit(self, host: &str) -> bool {
        let name = name(host).trim_end_matches('.').to_ascii_lowercase();
        match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback() || self == Self::Numbers,
            Err(_) => name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

/// The name of `name:port`.
fn name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// What is shown, and to whom.
pub struct Site {
    /// The document.
    pub shelf: Shelf,
    /// By which names it may be asked for.
    pub hosts: Hosts,
}

/// Answers everything.
pub fn router(site: Arc<Site>) -> Router {
    Router::new().fallback(move |request: Request| {
        let (site, (asked, _)) = (Arc::clone(&site), request.into_parts());
        async move { secured(answer(&site, &asked).await) }
    })
}

/// The same answer with everything that every answer carries.
pub fn secured(mut response: Response) -> Response {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Answers one request.
pub async fn answer(site: &Site, asked: &Parts) -> Response {
    if asked.method != Method::GET && asked.method != Method::HEAD {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "this can only be looked at\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    let host = asked.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| asked.uri.authority().map(http::uri::Authority::as_str));
    if !host.is_some_and(|host| site.hosts.admit(host)) {
        return plain(StatusCode::FORBIDDEN, "ask for this by the address that berth ui printed\n");
    }
    let (kind, page) = match asked.uri.path() {
        "/" => ("text/html; charset=utf-8", Page::new(HTML)),
        "/ui.css" => ("text/css; charset=utf-8", Page::new(STYLE)),
        "/ui.js" => ("text/javascript; charset=utf-8", Page::new(SCRIPT)),
        "/api/v1/fleet" => match site.shelf.get().await {
            Ok(page) => ("application/json", Page::clone(&page)),
            Err(why) => return plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        },
        _ => return plain(StatusCode::NOT_FOUND, "there is no such page\n"),
    };
    let known = is_known(&asked.headers, &page.etag);
    let empty = known || asked.method == Method::HEAD;
    let mut response = Response::new(Body::from(if empty { Bytes::new() } else { page.body }));
    *response.status_mut() = if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if let Ok(etag) = HeaderValue::from_str(&page.etag) {
        headers.insert(ETAG, etag);
    }
    response
}

/// Whether whoever asks has this already.
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    tags.any(|tag| tag == etag || tag == "*")
}

fn plain(status: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
