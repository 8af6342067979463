//! The outgoing client against real servers on the loopback interface.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Redirect;
use axum::routing::{get, post};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, StatusCode};
use kit::certs::{Pair, Slot};
use kit::class::{Class, Classify};
use kit::clock::Clock;
use kit::http::{HttpClient, HttpError, HttpOptions, Policy, Proxies, Resolve, TargetError};
use kit::serve::{Options, Server, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

struct Served {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

async fn serve(router: Router, tls: Option<Tls>) -> Served {
    let server = Server::bind(Options::new("test", "127.0.0.1:0".parse().unwrap())).await.unwrap();
    let address = server.address();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { server.run(router, tls, CancellationToken::new()).await.unwrap() });
    Served { address, _tasks: tasks }
}

fn open() -> Policy {
    Policy::new().schemes(&["http", "https"]).admit(["127.0.0.1/32".parse().unwrap()])
}

fn client(change: impl FnOnce(&mut HttpOptions)) -> HttpClient {
    let mut options = HttpOptions::new("berth-test/1");
    options.policy = open();
    change(&mut options);
    HttpClient::new(options, Clock::system()).unwrap()
}

fn ask(url: &str) -> Request<Bytes> {
    Request::get(url).body(Bytes::new()).unwrap()
}

/// Answers each question with the next list.
struct Script(Mutex<Vec<Vec<&'static str>>>);

impl Resolve for Script {
    fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let answers = self.0.lock().unwrap().remove(0);
        async move { Ok(answers.iter().map(|text| text.parse().unwrap()).collect()) }.boxed()
    }
}

fn script(answers: &[&[&'static str]]) -> Arc<Script> {
    Arc::new(Script(Mutex::new(answers.iter().map(|list| list.to_vec()).collect())))
}

#[tokio::test]
async fn an_answer_comes_back_whole_with_our_user_agent() {
    let router = Router::new().route(
        "/x",
        post(|headers: HeaderMap, body: Bytes| async move {
            format!("{} {}", headers["user-agent"].to_str().unwrap(), body.len())
        }),
    );
    let served = serve(router, None).await;
    let request = Request::post(format!("http://{}/x", served.address)).body(Bytes::from_static(b"12345")).unwrap();
    let response = client(|_| {}).send(request).await.unwrap();
    assert_eq!(response.body(), "berth-test/1 5");
}

#[tokio::test]
async fn forbidden_addresses_are_refused_before_and_after_resolution_and_on_every_connection() {
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = hits.clone();
    let handler = move || async move {
        counted.fetch_add(1, Ordering::SeqCst);
        ([("connection", "close")], "hit")
    };
    let served = serve(Router::new().route("/", get(handler)), None).await;
    let port = served.address.port();

    // The default policy: as a literal, in another spelling, and behind a name.
    let strict = |resolver: Arc<Script>| {
        client(|options| {
            options.policy = Policy::new().schemes(&["http", "https"]);
            options.resolver = resolver;
        })
    };
    let names = strict(script(&[&["127.0.0.1"], &["93.184.215.14", "127.0.0.1"], &["::ffff:127.0.0.1"], &[]]));
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://name.example:{port}/"),
        format!("http://name.example:{port}/"),
        format!("http://name.example:{port}/"),
        format!("http://name.example:{port}/"),
    ] {
        let error = names.send(ask(&url)).await.unwrap_err();
        assert!(matches!(error, HttpError::Refused(_)), "{url}: {error:?}");
        assert!(!error.maybe_sent());
        assert_eq!(error.class(), Class::Terminal);
    }
    assert_eq!(hits.load(Ordering::SeqCst), 0);

    // A name that changes its mind: the first answer is admitted, the second is not, and each connection is checked.
    let rebinding = client(|options| options.resolver = script(&[&["127.0.0.1"], &["127.0.0.2"]]));
    let url = format!("http://name.example:{port}/");
    assert_eq!(rebinding.send(ask(&url)).await.unwrap().body(), "hit");
    let error = rebinding.send(ask(&url)).await.unwrap_err();
    assert!(matches!(&error, HttpError::Refused(TargetError::Address { address, .. }) if address == "127.0.0.2"));
    assert_eq!(hits.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn redirects_come_back_as_they_are() {
    let router = Router::new().route("/", get(|| async { Redirect::temporary("http://169.254.169.254/latest") }));
    let served = serve(router, None).await;
    let response = client(|_| {}).send(ask(&format!("http://{}/", served.address))).await.unwrap();
    assert_eq!(response.status(), StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(response.headers()["location"], "http://169.254.169.254/latest");
}

#[tokio::test]
async fn an_answer_over_the_limit_is_refused_whether_announced_or_not() {
    let chunks = || async {
        let parts = (0..30).map(|_| Ok::<_, Infallible>(Bytes::from(vec![b'x'; 100])));
        Body::from_stream(futures::stream::iter(parts))
    };
    let router = Router::new()
        .route("/announced", get(|| async { "x".repeat(1001) }))
        .route("/exact", get(|| async { "x".repeat(1000) }))
        .route("/chunks", get(chunks));
    let served = serve(router, None).await;
    let client = client(|options| options.body_limit = 1000);
    let url = |path: &str| format!("http://{}{path}", served.address);
    assert_eq!(client.send(ask(&url("/exact"))).await.unwrap().body().len(), 1000);
    for path in ["/announced", "/chunks"] {
        let error = client.send(ask(&url(path))).await.unwrap_err();
        assert!(matches!(error, HttpError::TooLarge { limit: 1000, .. }), "{error:?}");
        assert!(error.maybe_sent());
    }
    let head = Request::head(url("/announced")).body(Bytes::new()).unwrap();
    assert_eq!(client.send(head).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn silence_and_a_dripping_body_end_at_the_deadline() {
    let drip = || async {
        let first = futures::stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"drop"))]);
        Body::from_stream(futures::StreamExt::chain(first, futures::stream::pending()))
    };
    let router = Router::new().route("/silent", get(std::future::pending::<()>)).route("/drip", get(drip));
    let served = serve(router, None).await;
    let client = client(|options| options.attempt = Duration::from_millis(50));
    for path in ["/silent", "/drip"] {
        let error = client.send(ask(&format!("http://{}{path}", served.address))).await.unwrap_err();
        assert!(matches!(error, HttpError::Timeout { .. }), "{error:?}");
        assert!(error.maybe_sent());
    }
}

#[tokio::test]
async fn nothing_is_repeated_unless_the_caller_says_so_and_then_within_the_deadline() {
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = hits.clone();
    let handler = move || async move {
        let hit = counted.fetch_add(1, Ordering::SeqCst) + 1;
        if hit < 4 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
    };
    let served = serve(Router::new().route("/", get(handler)), None).await;
    let url = format!("http://{}/", served.address);
    let client = client(|_| {});
    assert_eq!(client.send(ask(&url)).await.unwrap().status(), 503);
    assert_eq!(hits.load(Ordering::SeqCst), 1);
    let mut seen = Vec::new();
    let mut retry = |attempt: u32, outcome: &Result<Response<Bytes>, HttpError>| {
        seen.push(attempt);
        matches!(outcome, Ok(response) if response.status() == 503).then_some(Duration::from_millis(1))
    };
    assert_eq!(client.send_with(ask(&url), &mut retry).await.unwrap().status(), 200);
    assert_eq!((seen, hits.load(Ordering::SeqCst)), (vec![1, 2, 3], 4));
    // A pause beyond the end of the call is not waited for: the outcome stands.
    let mut patient = |_: u32, _: &Result<Response<Bytes>, HttpError>| Some(Duration::from_secs(3600));
    assert_eq!(client.send_with(ask(&url), &mut patient).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_closed_port_is_a_connect_error_and_nothing_was_sent() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = client(|_| {}).send(ask(&format!("http://{address}/"))).await.unwrap_err();
    assert!(matches!(error, HttpError::Connect { .. }), "{error:?}");
    assert!(!error.maybe_sent());
}

#[tokio::test]
async fn a_server_certificate_is_always_checked() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["name.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let slot = Slot::new();
    slot.store(Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap());
    let served = serve(Router::new().route("/", get(|| async { "safe" })), Some(Tls::new(slot))).await;
    let port = served.address.port();
    let answers = || script(&[&["127.0.0.1"], &["127.0.0.1"]]);
    let url = format!("https://name.example:{port}/");
    let trusting = client(|options| {
        options.resolver = answers();
        options.extra_ca = Some(certificate.pem().into_bytes());
    });
    assert_eq!(trusting.send(ask(&url)).await.unwrap().body(), "safe");
    let wrong_name = trusting.send(ask(&format!("https://other.example:{port}/"))).await.unwrap_err();
    assert!(matches!(wrong_name, HttpError::Connect { .. }), "{wrong_name:?}");
    let strange = client(|options| options.resolver = answers());
    let error = strange.send(ask(&url)).await.unwrap_err();
    assert!(matches!(error, HttpError::Connect { .. }) && !error.maybe_sent(), "{error:?}");
}

#[tokio::test]
async fn neither_query_nor_header_is_in_an_error() {
    let router = Router::new().route("/canary", get(std::future::pending::<()>));
    let served = serve(router, None).await;
    let client = client(|options| options.attempt = Duration::from_millis(30));
    let closed = "http://127.0.0.1:1/canary?signature=canary".to_owned();
    for url in [format!("http://{}/canary?signature=canary", served.address), closed, "https://u:canary@x/".to_owned()]
    {
        let request = Request::get(url).header("authorization", "canary").body(Bytes::new()).unwrap();
        let error = client.send(request).await.unwrap_err();
        let mut text = format!("{error:?} {error:#?} {error}");
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text.push_str(&format!("{error} {error:?}"));
            cause = error.source();
        }
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn a_client_that_trusts_nobody_or_has_an_odd_name_is_not_made() {
    let made = |change: fn(&mut HttpOptions)| {
        let mut options = HttpOptions::new("berth");
        change(&mut options);
        HttpClient::new(options, Clock::system()).err().map(|error| error.to_string())
    };
    assert_eq!(made(|_| {}), None);
    assert!(made(|options| options.user_agent = "a\nb".to_owned()).unwrap().contains("user agent"));
    assert!(made(|options| options.native_roots = false).unwrap().contains("no certificate authority"));
    assert!(
        made(
            |options| options.extra_ca = Some(b"-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n".to_vec())
        )
        .unwrap()
        .contains("extra CA")
    );
}

/// A proxy whose every tunnel ends at one server, or that answers with something else.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl Proxy {
    async fn start(answer: &'static str, end: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, mut task) = (asked.clone(), JoinSet::new());
        task.spawn(async move {
            let mut tunnels = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let seen = seen.clone();
                tunnels.spawn(async move {
                    let (mut head, mut byte) = (Vec::new(), [0]);
                    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap() > 0 {
                        head.push(byte[0]);
                    }
                    seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                    // In two parts, as a network may bring it.
                    let (first, second) = answer.split_at(answer.len() / 2);
                    stream.write_all(first.as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                    stream.write_all(second.as_bytes()).await.unwrap();
                    if let Some(end) = end {
                        let mut end = TcpStream::connect(end).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut end).await;
                    }
                });
            }
        });
        Self { address, asked, _task: task }
    }

    /// Everything goes through it.
    fn proxies(&self) -> Arc<Proxies> {
        let url = format!("http://berth:canary@{}", self.address);
        Arc::new(
            Proxies::by(|name| {
                name.ends_with("_PROXY").then(|| if name == "NO_PROXY" { String::new() } else { url.clone() })
            })
            .unwrap(),
        )
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

const GRANTED: &str = "HTTP/1.1 200 Connection established\r\nX-Proxy: test\r\n\r\n";

#[tokio::test]
async fn a_proxy_is_asked_for_the_address_that_was_checked_and_never_for_a_name() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["name.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let slot = Slot::new();
    slot.store(Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap());
    let router = |word: &'static str| Router::new().route("/", get(move || async move { word }));
    let (plain, safe) = (serve(router("plain"), None).await, serve(router("safe"), Some(Tls::new(slot))).await);
    for (served, url, wanted) in
        [(&plain, "http://name.example:8080/", "plain"), (&safe, "https://name.example/", "safe")]
    {
        let proxy = Proxy::start(GRANTED, Some(served.address)).await;
        let client = client(|options| {
            options.policy = Policy::new().schemes(&["http", "https"]);
            options.proxies = proxy.proxies();
            options.resolver = script(&[&["198.51.100.7"], &["169.254.169.254"]]);
            options.extra_ca = Some(certificate.pem().into_bytes());
        });
        assert_eq!(client.send(ask(url)).await.unwrap().body(), wanted, "the name is for the server behind it");
        let [asked] = proxy.asked().try_into().unwrap();
        let port = if wanted == "safe" { 443 } else { 8080 };
        assert!(asked.starts_with(&format!("CONNECT 198.51.100.7:{port} HTTP/1.1\r\n")), "{asked}");
        assert!(asked.contains("Proxy-Authorization: Basic YmVydGg6Y2FuYXJ5\r\n") && !asked.contains("name.example"));
        // What may not be called may not be called through a proxy either.
        let other = url.replace("name.example", "other.example");
        let error = client.send(ask(&other)).await.unwrap_err();
        assert!(matches!(error, HttpError::Refused(_)), "{error:?}");
        assert_eq!(proxy.asked(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_help_is_told_and_nothing_was_sent() {
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(8 << 10)).leak();
    for (answer, told) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "refused a tunnel: 407"),
        ("HTTP/1.1 407 Who are you\r\nContent-Length: 6\r\n\r\n<html>", "refused a tunnel: 407"),
        ("HTTP/1.1 200 OK\r\n\r\n220 mail.example", "said more than that there is a tunnel"),
        (&*endless, "gave no answer"),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "refused a tunnel: 403"),
        ("SSH-2.0-Server\r\n\r\n", "gave no answer"),
        ("HTTP/1.1 200 OK\r\n", "gave no answer"),
    ] {
        let proxy = Proxy::start(answer, None).await;
        let client = client(|options| {
            options.policy = Policy::new().schemes(&["http", "https"]);
            options.proxies = proxy.proxies();
        });
        let error = client.send(ask("http://198.51.100.7/?signature=canary")).await.unwrap_err();
        assert!(matches!(error, HttpError::Connect { .. }) && !error.maybe_sent(), "{error:?}");
        let text = format!("{error:?} {}", kit::class::chain(&error));
        assert!(text.contains(told) && text.contains("198.51.100.7") && !text.contains("canary"), "{text}");
        assert_eq!(proxy.asked().len(), 1);
    }
}
