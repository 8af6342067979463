//! The servers over real sockets on the loopback interface: reload under load, drain, limits, deadlines, panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "tests drive real sockets in real time")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kit::certs::{CertMetrics, Directory, Pair, Slot};
use kit::clock::Clock;
use kit::gates::Gates;
use kit::serve::{Clients, FailureKind, Options, ServeMetrics, Server, Tls};
use kit::telemetry::{Metrics, metrics_router};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// Long enough for a loaded machine, short enough to fail a hung test.
const PATIENCE: Duration = Duration::from_secs(60);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn client(&self, protocol: &[u8], identity: Option<(String, String)>) -> TlsConnector {
        use rustls::pki_types::pem::PemObject;
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let cert = CertificateDer::from_pem_slice(cert.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![cert], key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        // Every handshake must look at the certificate of the day.
        config.resumption = rustls::client::Resumption::disabled();
        TlsConnector::from(Arc::new(config))
    }
}

fn slot(pair: &(String, String)) -> Slot {
    let slot = Slot::new();
    slot.store(Pair::from_pem(pair.0.as_bytes(), pair.1.as_bytes()).unwrap());
    slot
}

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    metrics: ServeMetrics,
    tasks: JoinSet<()>,
}

impl Running {
    async fn start(router: Router, tls: Option<Tls>, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new("test", "127.0.0.1:0".parse().unwrap());
        change(&mut options);
        let metrics = ServeMetrics::default();
        let server = Server::bind(options).await.unwrap().metrics(metrics.clone());
        let server = server.on_failure(|failure| {
            let size = failure.body.as_ref().map_or(0, Bytes::len);
            let text = format!("own answer: {} {} {size}", failure.kind.as_str(), failure.path);
            (failure.kind.status(), text).into_response()
        });
        let (address, stop) = (server.address(), CancellationToken::new());
        let mut tasks = JoinSet::new();
        let token = stop.clone();
        tasks.spawn(async move { server.run(router, tls, token).await.unwrap() });
        Self { address, stop, metrics, tasks }
    }

    async fn ended(mut self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.tasks.join_next()).await.expect("the server ends").unwrap().unwrap();
    }
}

enum Sender {
    One(hyper::client::conn::http1::SendRequest<Full<Bytes>>),
    Two(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

/// One connection; its driver lives in the set.
struct Connection {
    sender: Sender,
    _driver: JoinSet<()>,
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

impl Connection {
    async fn tls(address: SocketAddr, connector: &TlsConnector, two: bool) -> Result<Self, Failed> {
        let stream = TcpStream::connect(address).await?;
        let stream = connector.connect(ServerName::try_from("berth.test")?, stream).await?;
        let wanted: &[u8] = if two { b"h2" } else { b"http/1.1" };
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(wanted));
        Self::over(TokioIo::new(stream), two).await
    }

    async fn plain(address: SocketAddr) -> Result<Self, Failed> {
        Self::over(TokioIo::new(TcpStream::connect(address).await?), false).await
    }

    async fn over<I>(io: I, two: bool) -> Result<Self, Failed>
    where
        I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let mut driver = JoinSet::new();
        let sender = if two {
            let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
            driver.spawn(async move { drop(connection.await) });
            Sender::Two(sender)
        } else {
            let (sender, connection) = hyper::client::conn::http1::handshake(io).await?;
            driver.spawn(async move { drop(connection.await) });
            Sender::One(sender)
        };
        Ok(Self { sender, _driver: driver })
    }

    async fn send(&mut self, path: &str, body: Bytes) -> Result<(StatusCode, String), Failed> {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let two = matches!(self.sender, Sender::Two(_));
        let uri = if two { format!("https://berth.test{path}") } else { path.to_owned() };
        let mut request = Request::builder().method(method).uri(uri);
        if two {
            request = request.version(Version::HTTP_2);
        } else {
            request = request.header("host", "berth.test");
        }
        let request = request.body(Full::new(body))?;
        let response = match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Two(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let status = response.status();
        let text = String::from_utf8(response.into_body().collect().await?.to_bytes().to_vec())?;
        Ok((status, text))
    }
}

fn write_half(dir: &Path, (cert, key): &(String, String), key_half: bool) {
    let (name, text) = if key_half { ("tls.key", key) } else { ("tls.crt", cert) };
    std::fs::write(dir.join(name), text).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_change_under_load_without_a_failed_request() {
    const ROTATIONS: usize = 40;
    let authority = Arc::new(Authority::new());
    let dir = tempfile::tempdir().unwrap();
    let first = authority.issue("berth.test");
    write_half(dir.path(), &first, true);
    write_half(dir.path(), &first, false);
    let (gates, slot) = (Gates::new(), Slot::new());
    let source = Directory::new(dir.path(), slot.clone(), gates.gate("certs"), Clock::system(), CertMetrics::default());
    let stop_source = CancellationToken::new();
    let mut background = JoinSet::new();
    background.spawn(source.run(stop_source.clone()));
    tokio::time::timeout(PATIENCE, gates.until_ready()).await.unwrap();

    let router =
        Router::new().route("/echo", post(|body: String| async move { body })).route("/", get(|| async { "ok" }));
    let server = Running::start(router, Some(Tls::new(slot.clone())), |_| {}).await;
    let done = Arc::new(AtomicBool::new(false));
    let (fresh, kept) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut clients: JoinSet<Result<(), Failed>> = JoinSet::new();
    for (two, keep) in [(false, false), (true, false), (false, true), (true, true)] {
        let connector = authority.client(if two { b"h2" } else { b"http/1.1" }, None);
        let (done, count) = (done.clone(), if keep { kept.clone() } else { fresh.clone() });
        let address = server.address;
        clients.spawn(async move {
            let mut connection = Connection::tls(address, &connector, two).await?;
            while !done.load(Ordering::SeqCst) {
                if !keep {
                    connection = Connection::tls(address, &connector, two).await?;
                }
                let (status, text) = connection.send("/echo", Bytes::from_static(b"hello")).await?;
                assert_eq!((status, text.as_str()), (StatusCode::OK, "hello"));
                count.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        });
    }
    let served_more = async || {
        let served = (fresh.load(Ordering::SeqCst), kept.load(Ordering::SeqCst));
        let more = async {
            while fresh.load(Ordering::SeqCst) < served.0 + 2 || kept.load(Ordering::SeqCst) < served.1 + 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // When a client has failed no more will come; its own error says why.
        tokio::time::timeout(PATIENCE, more).await.is_ok()
    };
    // Each new pair is seen by its slot before the next is written, so that every one is really served under load.
    let (mut shown, mut mixed) = (0, 0);
    for round in 0..ROTATIONS {
        let pair = authority.issue("berth.test");
        let parsed = Pair::from_pem(pair.0.as_bytes(), pair.1.as_bytes()).unwrap();
        write_half(dir.path(), &pair, round % 2 == 0);
        if round % 4 < 2 {
            // The other half comes late: the mixed pair is seen, and not served.
            let refused = async {
                loop {
                    let change = gates.changed();
                    if gates.report().to_string().contains("does not belong") {
                        return;
                    }
                    change.await;
                }
            };
            tokio::time::timeout(PATIENCE, refused).await.expect("the mixed pair is refused");
            mixed += 1;
            if !served_more().await {
                break;
            }
        }
        write_half(dir.path(), &pair, round % 2 != 0);
        let seen = async {
            while !slot.shows(&parsed) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, seen).await.expect("the new pair is taken");
        shown += 1;
        if !served_more().await {
            break;
        }
    }
    done.store(true, Ordering::SeqCst);
    while let Some(ended) = clients.join_next().await {
        ended.unwrap().expect("no request and no handshake fails");
    }
    assert_eq!((shown, mixed), (ROTATIONS, ROTATIONS / 2));
    let (fresh, kept) = (fresh.load(Ordering::SeqCst), kept.load(Ordering::SeqCst));
    println!(
        "{shown} rotations, {mixed} of them through a mixed pair, {fresh} requests on new and {kept} on kept connections, none failed"
    );
    stop_source.cancel();
    server.ended().await;
    tokio::time::timeout(PATIENCE, background.join_next()).await.unwrap();
}

#[tokio::test]
async fn a_server_without_a_pair_refuses_the_handshake_and_serves_once_it_has_one() {
    let authority = Authority::new();
    let slot = Slot::new();
    let server =
        Running::start(Router::new().route("/", get(|| async { "ok" })), Some(Tls::new(slot.clone())), |_| {}).await;
    let connector = authority.client(b"h2", None);
    assert!(Connection::tls(server.address, &connector, true).await.is_err());
    let (cert, key) = authority.issue("berth.test");
    slot.store(Pair::from_pem(cert.as_bytes(), key.as_bytes()).unwrap());
    let mut connection = Connection::tls(server.address, &connector, true).await.unwrap();
    assert_eq!(connection.send("/", Bytes::new()).await.unwrap().1, "ok");
    drop(connection);
    server.ended().await;
}

#[tokio::test]
async fn passes_are_told_to_who_connects_on_loopback() {
    // A listener for both families is told of 127.0.0.1 as of an address of IPv6.
    for listen in ["127.0.0.1:0", "[::]:0"] {
        let router = metrics_router(Metrics::new());
        let server = Running::start(router, None, |options| options.address = listen.parse().unwrap()).await;
        let address = SocketAddr::new("127.0.0.1".parse().unwrap(), server.address.port());
        let mut connection = Connection::plain(address).await.unwrap();
        let (status, text) = connection.send("/passes", Bytes::new()).await.unwrap();
        assert_eq!(status, StatusCode::OK, "{listen}: {text}");
        drop(connection);
        server.ended().await;
    }
    let authority = Authority::new();
    let tls = Tls::new(slot(&authority.issue("berth.test")));
    let server = Running::start(metrics_router(Metrics::new()), Some(tls), |_| {}).await;
    let mut connection = Connection::tls(server.address, &authority.client(b"h2", None), true).await.unwrap();
    let (status, text) = connection.send("/passes", Bytes::new()).await.unwrap();
    assert_eq!(status, StatusCode::OK, "over TLS: {text}");
    drop(connection);
    server.ended().await;
}

#[tokio::test]
async fn only_clients_of_the_client_authority_come_in() {
    let (authority, clients, later) = (Authority::new(), Authority::new(), Authority::new());
    let gate = Clients::from_pem(clients.0.pem().as_bytes()).unwrap();
    let tls = Tls::new(slot(&authority.issue("berth.test"))).require_clients(gate.clone());
    let server = Running::start(Router::new().route("/", get(|| async { "ok" })), Some(tls), |_| {}).await;
    let attempt = async |identity| {
        let connector = authority.client(b"http/1.1", identity);
        let mut connection = Connection::tls(server.address, &connector, false).await?;
        connection.send("/", Bytes::new()).await
    };
    assert_eq!(attempt(Some(clients.issue("probe"))).await.unwrap().1, "ok");
    assert!(attempt(None).await.is_err());
    assert!(attempt(Some(authority.issue("probe"))).await.is_err());

    let connector = authority.client(b"http/1.1", Some(clients.issue("probe")));
    let mut open = Connection::tls(server.address, &connector, false).await.unwrap();
    assert_eq!(open.send("/", Bytes::new()).await.unwrap().1, "ok");
    for junk in ["", "junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert!(Clients::from_pem(junk.as_bytes()).is_err(), "{junk}");
        assert!(gate.store(junk.as_bytes()).is_err(), "{junk}");
    }
    assert_eq!(attempt(Some(clients.issue("probe"))).await.unwrap().1, "ok", "the old authority stays on any doubt");
    gate.store(later.0.pem().as_bytes()).unwrap();
    assert_eq!(open.send("/", Bytes::new()).await.unwrap().1, "ok", "who is in stays in");
    assert!(attempt(Some(clients.issue("probe"))).await.is_err(), "the old authority lets nobody in any more");
    // The same connector as before, which remembers its session.
    let mut resumed = Connection::tls(server.address, &connector, false).await;
    let refused = match &mut resumed {
        Ok(connection) => connection.send("/", Bytes::new()).await.is_err(),
        Err(_) => true,
    };
    assert!(refused, "a session is no way around the new authority");
    assert_eq!(attempt(Some(later.issue("probe"))).await.unwrap().1, "ok");
    drop(open);
    server.ended().await;
}

#[tokio::test]
async fn a_drain_finishes_what_is_in_flight_and_accepts_no_more() {
    let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let router = {
        let (entered, leave) = (entered.clone(), leave.clone());
        Router::new().route(
            "/slow",
            get(move || async move {
                entered.notify_one();
                leave.notified().await;
                "done"
            }),
        )
    };
    let server = Running::start(router, None, |_| {}).await;
    let address = server.address;
    let mut idle = Connection::plain(address).await.unwrap();
    assert_eq!(idle.send("/none", Bytes::new()).await.unwrap().0, StatusCode::NOT_FOUND);
    let mut busy = Connection::plain(address).await.unwrap();
    let request = busy.send("/slow", Bytes::new());
    let script = async {
        entered.notified().await;
        server.stop.cancel();
        let refused = async {
            while TcpStream::connect(address).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, refused).await.expect("new connections are refused");
        leave.notify_one();
    };
    let (answer, ()) = tokio::join!(request, script);
    assert_eq!(answer.unwrap(), (StatusCode::OK, "done".to_owned()));
    assert!(idle.send("/none", Bytes::new()).await.is_err(), "idle connections are closed");
    server.ended().await;
}

#[tokio::test]
async fn idle_and_silent_connections_do_not_hold_a_drain() {
    let authority = Authority::new();
    let tls = Tls::new(slot(&authority.issue("berth.test")));
    let router = Router::new().route("/", get(|| async { "ok" }));
    let hour = |options: &mut Options| {
        options.drain = Duration::from_secs(3600);
        options.header_timeout = Duration::from_secs(3600);
    };
    let server = Running::start(router, Some(tls), hour).await;
    let mut idle = Vec::new();
    for two in [false, true] {
        let connector = authority.client(if two { b"h2" } else { b"http/1.1" }, None);
        let mut connection = Connection::tls(server.address, &connector, two).await.unwrap();
        assert_eq!(connection.send("/", Bytes::new()).await.unwrap().1, "ok");
        idle.push(connection);
        // Connected, but nothing was ever asked.
        idle.push(Connection::tls(server.address, &connector, two).await.unwrap());
    }
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    silent.write_all(&[22, 3, 1]).await.unwrap();
    server.ended().await;
    drop((idle, silent));
}

#[tokio::test]
async fn a_drain_has_an_end_also_when_a_handler_has_none() {
    let entered = Arc::new(Notify::new());
    let router = {
        let entered = entered.clone();
        let endless = move || async move {
            entered.notify_one();
            std::future::pending::<&'static str>().await
        };
        Router::new().route("/endless", get(endless))
    };
    let server = Running::start(router, None, |options| options.drain = Duration::from_millis(50)).await;
    let mut connection = Connection::plain(server.address).await.unwrap();
    let request = connection.send("/endless", Bytes::new());
    let script = async {
        entered.notified().await;
        server.ended().await;
    };
    let (answer, ()) = tokio::join!(request, script);
    assert!(answer.is_err());
}

#[tokio::test]
async fn a_panic_becomes_the_callers_answer_is_counted_and_the_connection_lives() {
    let boom = || async {
        if true {
            panic!("boom");
        }
    };
    let router = Router::new().route("/boom", post(boom)).route("/", get(|| async { "ok" }));
    let server = Running::start(router, None, |_| {}).await;
    let mut connection = Connection::plain(server.address).await.unwrap();
    for count in 1..=3 {
        let (status, text) = connection.send("/boom", Bytes::from_static(b"12345")).await.unwrap();
        assert_eq!((status.as_u16(), text.as_str()), (500, "own answer: panic /boom 5"));
        assert_eq!(server.metrics.failures("test", FailureKind::Panic), count);
    }
    assert_eq!(connection.send("/", Bytes::new()).await.unwrap().1, "ok");
    drop(connection);
    server.ended().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_announced_or_not() {
    let router = Router::new().route("/", post(|body: Bytes| async move { body.len().to_string() }));
    let server = Running::start(router, None, |options| options.body_limit = 1000).await;
    let mut connection = Connection::plain(server.address).await.unwrap();
    assert_eq!(connection.send("/", Bytes::from(vec![b'x'; 1000])).await.unwrap().1, "1000");
    let (status, text) = connection.send("/", Bytes::from(vec![b'x'; 1001])).await.unwrap();
    assert_eq!((status.as_u16(), text.as_str()), (413, "own answer: body_too_large / 0"));
    // Without a length and without an end: chunks, the fourth of which goes over twice the limit.
    let mut raw = TcpStream::connect(server.address).await.unwrap();
    raw.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
    for _ in 0..4 {
        raw.write_all(format!("258\r\n{}\r\n", "y".repeat(0x258)).as_bytes()).await.unwrap();
    }
    let mut head = [0; 12];
    tokio::time::timeout(PATIENCE, raw.read_exact(&mut head)).await.unwrap().unwrap();
    assert_eq!(&head, b"HTTP/1.1 413");
    assert_eq!(server.metrics.failures("test", FailureKind::BodyTooLarge), 2);
    drop((connection, raw));
    server.ended().await;
}

#[tokio::test]
async fn who_sends_everything_before_reading_still_learns_that_it_was_too_much() {
    const LIMIT: usize = 8 << 20;
    let router = Router::new().route("/", post(|body: Bytes| async move { body.len().to_string() }));
    let server = Running::start(router, None, |options| options.body_limit = LIMIT).await;
    let head = |framing: &str| format!("POST / HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n");
    let (length, chunk) = (format!("content-length: {}", LIMIT * 2), format!("{:x}\r\n", LIMIT * 2));
    for (start, end) in [(head(&length), ""), (head("transfer-encoding: chunked") + &chunk, "\r\n0\r\n\r\n")] {
        let mut client = TcpStream::connect(server.address).await.unwrap();
        client.write_all(start.as_bytes()).await.unwrap();
        client.write_all(&vec![b'x'; LIMIT * 2]).await.expect("all of it is taken");
        client.write_all(end.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        tokio::time::timeout(PATIENCE, client.read_exact(&mut status)).await.unwrap().unwrap();
        assert_eq!(&status, b"HTTP/1.1 413");
    }
    // Far too much is not waited for.
    let mut client = TcpStream::connect(server.address).await.unwrap();
    client.write_all(head(&format!("content-length: {}", LIMIT * 3)).as_bytes()).await.unwrap();
    let mut status = [0; 12];
    tokio::time::timeout(PATIENCE, client.read_exact(&mut status)).await.unwrap().unwrap();
    assert_eq!(&status, b"HTTP/1.1 413");
    assert_eq!(server.metrics.failures("test", FailureKind::BodyTooLarge), 3);
    server.ended().await;
}

#[tokio::test]
async fn a_slow_handler_is_answered_for_at_the_smaller_of_both_deadlines() {
    let router = Router::new().route("/", post(std::future::pending::<&'static str>));
    let server = Running::start(router, None, |options| options.deadline = Duration::from_secs(3600)).await;
    let mut connection = Connection::plain(server.address).await.unwrap();
    let asked = connection.send("/?a=b&timeout=100ms", Bytes::from_static(b"123"));
    let (status, text) = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();
    assert_eq!((status.as_u16(), text.as_str()), (504, "own answer: deadline / 3"));
    drop(connection);
    server.ended().await;

    let router = Router::new().route("/", get(std::future::pending::<&'static str>));
    let server = Running::start(router, None, |options| options.deadline = Duration::from_millis(50)).await;
    let mut connection = Connection::plain(server.address).await.unwrap();
    let asked = connection.send("/?timeout=1h", Bytes::new());
    assert_eq!(tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap().0.as_u16(), 504);
    drop(connection);
    server.ended().await;
}

#[tokio::test]
async fn a_slow_body_and_a_silent_connection_are_not_waited_for() {
    let router = Router::new().route("/", post(|body: Bytes| async move { body.len().to_string() }));
    let change = |options: &mut Options| {
        options.body_timeout = Duration::from_millis(50);
        options.header_timeout = Duration::from_millis(50);
    };
    let server = Running::start(router, None, change).await;
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    slow.write_all(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab").await.unwrap();
    let mut head = [0; 12];
    tokio::time::timeout(PATIENCE, slow.read_exact(&mut head)).await.unwrap().unwrap();
    assert_eq!(&head, b"HTTP/1.1 408");
    assert_eq!(server.metrics.failures("test", FailureKind::SlowBody), 1);
    for start in [&b""[..], b"PRI * HT"] {
        let mut silent = TcpStream::connect(server.address).await.unwrap();
        silent.write_all(start).await.unwrap();
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut rest)).await.expect("closed in time");
        assert!(closed.is_err() || rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"), "{rest:?}");
    }
    server.ended().await;
}

#[tokio::test]
async fn no_more_requests_run_at_once_than_allowed_and_connections_are_bounded() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let router = {
        let (running, most) = (running.clone(), most.clone());
        let work = move || async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            running.fetch_sub(1, Ordering::SeqCst);
            "ok"
        };
        Router::new().route("/", get(work))
    };
    let change = |options: &mut Options| {
        options.concurrency = 3;
        options.connections = 12;
    };
    let server = Running::start(router, None, change).await;
    let mut held = Vec::new();
    for _ in 0..12 {
        held.push(Connection::plain(server.address).await.unwrap());
    }
    let answers = futures::future::join_all(held.iter_mut().map(|connection| connection.send("/", Bytes::new()))).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().0 == StatusCode::OK));
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    let mut extra = Connection::plain(server.address).await.unwrap();
    assert!(extra.send("/", Bytes::new()).await.is_err(), "the thirteenth connection is closed");
    drop((held, extra));
    server.ended().await;
}

#[tokio::test]
async fn a_crowd_is_told_to_come_again_instead_of_piling_up() {
    let open = CancellationToken::new();
    let gate = open.clone();
    let work = move || async move {
        gate.cancelled().await;
        "ok"
    };
    let server = Running::start(Router::new().route("/", get(work)), None, |options| options.concurrency = 1).await;
    let mut held = Vec::new();
    for _ in 0..40 {
        held.push(Connection::plain(server.address).await.unwrap());
    }
    let metrics = server.metrics.clone();
    let answers = futures::future::join_all(held.iter_mut().map(|connection| connection.send("/", Bytes::new())));
    let script = async {
        let refused = async {
            while metrics.failures("test", FailureKind::Overloaded) < 24 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, refused).await.expect("24 of 40 are refused while one runs and 15 wait");
        open.cancel();
    };
    let (answers, ()) = tokio::join!(answers, script);
    let ok = answers.into_iter().filter(|answer| answer.as_ref().unwrap().0 == StatusCode::OK).count();
    assert_eq!(ok, 16);
    drop(held);
    server.ended().await;
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = Server::bind(Options::new("webhooks", address)).await.err().expect("refused").to_string();
    assert!(error.contains(&address.to_string()) && error.contains("webhooks"), "{error}");
}
