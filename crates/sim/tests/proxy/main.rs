//! The fault proxy between real clients and a real upstream, over both protocols, with and without TLS.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs
)]

mod kubernetes;
mod program;
mod support;

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use sim::proxy::{Error, Inbound, Options, Proxy, Upstream, command};
use support::{Pki, Wire, drain, soon, world, world_with};

const EVERY_WATCH: &str = r#""match":{"watch":true}"#;

#[tokio::test]
async fn requests_pass_unchanged_over_every_pair_of_protocols() {
    for inside in Wire::ALL {
        for outside in Wire::ALL {
            let world = world_with(inside, outside, "[]", 1).await;
            let request = world
                .client
                .request("POST", "/create?a=1%2F2")
                .header("authorization", "Bearer x")
                .header("connection-like", "kept");
            let got = world.client.send(request, "a body").await.unwrap();
            assert_eq!((got.status.as_u16(), got.text()), (200, r#"{"answer":1}"#), "{inside:?} to {outside:?}");
            let seen = world.server.seen();
            assert_eq!(seen.len(), 1);
            assert_eq!(seen[0].method, "POST");
            assert_eq!(seen[0].target, "/create?a=1%2F2");
            assert_eq!(seen[0].body, "a body");
            assert_eq!(seen[0].headers["authorization"], "Bearer x");
            assert_eq!(seen[0].headers["connection-like"], "kept");
            assert_eq!(seen[0].authority, world.proxy.address().to_string(), "a signed Host must survive");
            assert_eq!(seen[0].version == http::Version::HTTP_2, outside.http2(), "{inside:?} to {outside:?}");
            assert_eq!(world.proxy.requests(), 1);
            assert!(world.proxy.hits().is_empty());
        }
    }
}

#[tokio::test]
async fn a_watch_line_arrives_before_the_next_one_is_sent() {
    for inside in Wire::ALL {
        for outside in Wire::ALL {
            // The rule makes the stream go through the line code as well, which must not hold lines back either.
            let rules = format!(r#"[{{"name":"late",{EVERY_WATCH},"action":{{"cut_watch":{{"after":99}}}}}}]"#);
            let world = world_with(inside, outside, &rules, 1).await;
            let feed = world.server.feed();
            let mut body = world.client.watch().await;
            for line in ["one\n", "two\n", "three\n"] {
                feed.send(Bytes::from_static(line.as_bytes())).unwrap();
                let frame = soon("a watch line", body.frame()).await.unwrap().unwrap();
                assert_eq!(frame.data_ref().unwrap(), line, "{inside:?} to {outside:?}");
            }
            drop(feed);
            assert_eq!(drain(body).await, (String::new(), true));
            assert!(!world.proxy.hits()[0].landed, "the fault lay beyond the end of the watch");
        }
    }
}

#[tokio::test]
async fn a_watch_that_its_client_leaves_is_left_upstream_too() {
    let world = world(Wire::Http1, "[]").await;
    let feed = world.server.feed();
    let body = world.client.watch().await;
    drop(body);
    soon("the upstream's end of the watch", async {
        while feed.send(Bytes::from_static(b"line\n")).is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_delay_holds_a_request_back() {
    let world = world(Wire::Http1, r#"[{"name":"slow","when":{"nth":1},"action":{"delay":{"ms":200}}}]"#).await;
    let start = Instant::now();
    world.client.get("/a").await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_eq!(world.server.seen().len(), 1);
}

#[tokio::test]
async fn an_answer_is_given_without_asking_the_upstream() {
    for wire in Wire::ALL {
        let world = world(
            wire,
            r#"[{"name":"busy","match":{"methods":["GET"],"path":"/a*"},"when":{"first":2},
                 "action":{"answer":{"status":429,"headers":{"retry-after":"3"},"body":{"code":429}}}},
                {"name":"html","match":{"path":"/html"},
                 "action":{"answer":{"status":200,"headers":{"content-type":"text/html"},"body":"<html>"}}},
                {"name":"huge","match":{"path":"/huge"},"action":{"answer":{"status":200,"body":"x","size":10485760}}}]"#,
        )
        .await;
        for _ in 0..2 {
            let got = world.client.get("/abc").await.unwrap();
            assert_eq!((got.status.as_u16(), got.text()), (429, r#"{"code":429}"#));
            assert_eq!(got.headers["retry-after"], "3");
            assert_eq!(got.headers["content-type"], "application/json");
        }
        assert!(world.server.seen().is_empty());
        assert_eq!(world.client.get("/abc").await.unwrap().status, 200);
        assert_eq!(world.client.post("/abc", "").await.unwrap().status, 200);
        let html = world.client.get("/html").await.unwrap();
        assert_eq!((html.text(), html.headers["content-type"].to_str().unwrap()), ("<html>", "text/html"));
        assert_eq!(world.client.get("/huge").await.unwrap().body.len(), 10 * 1024 * 1024);
        assert_eq!(world.server.seen().len(), 2);
    }
}

#[tokio::test]
async fn a_reset_before_forwarding_never_reaches_the_upstream() {
    for wire in Wire::ALL {
        for connection in [false, true] {
            let rules = format!(
                r#"[{{"name":"r","when":{{"nth":1}},"action":{{"reset_before":{{"connection":{connection}}}}}}}]"#
            );
            let world = world(wire, &rules).await;
            world.client.post("/create", "x").await.unwrap_err();
            assert!(world.server.seen().is_empty(), "{wire:?}");
            assert_eq!(world.client.post("/create", "x").await.unwrap().status, 200, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn a_lost_answer_was_an_effect_upstream() {
    for wire in Wire::ALL {
        let world = world(
            wire,
            r#"[{"name":"lost","match":{"methods":["POST"]},"when":{"nth":1},"action":{"reset_after":{"hold_ms":20}}}]"#,
        )
        .await;
        world.client.post("/create", "the body").await.unwrap_err();
        let seen = world.server.seen();
        assert_eq!(seen.len(), 1, "{wire:?}");
        assert_eq!(seen[0].body, "the body");
        assert!(world.proxy.hits()[0].landed);
        assert_eq!(world.client.post("/create", "again").await.unwrap().text(), r#"{"answer":2}"#);
    }
}

#[tokio::test]
async fn a_plain_connection_that_is_broken_ends_with_a_reset() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let world = world(Wire::Http1, r#"[{"name":"r","action":{"reset_before":{}}}]"#).await;
    let mut stream = tokio::net::TcpStream::connect(world.proxy.address()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let error = soon("the reset", stream.read_to_end(&mut Vec::new())).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// Runs one line rule over four lines on every kind of connection.
async fn lines(action: &str) -> Vec<(String, bool)> {
    let mut results = Vec::new();
    for wire in Wire::ALL {
        let rules = format!(r#"[{{"name":"l",{EVERY_WATCH},"action":{action}}}]"#);
        let world = world(wire, &rules).await;
        let feed = world.server.feed();
        for line in ["one", "two", "three", "four"] {
            feed.send(Bytes::from(format!("{line}\n"))).unwrap();
        }
        // Faults that end the stream do so while the upstream still holds it open.
        let keep = (action.contains("after")).then_some(feed);
        results.push(drain(world.client.watch().await).await);
        assert!(world.proxy.hits()[0].landed, "{action} on {wire:?}");
        drop(keep);
    }
    results
}

fn all_four(text: &str, proper: bool) -> Vec<(String, bool)> {
    vec![(text.to_owned(), proper); 4]
}

#[tokio::test]
async fn a_watch_is_cut_after_so_many_lines() {
    assert_eq!(lines(r#"{"cut_watch":{"after":2}}"#).await, all_four("one\ntwo\n", true));
    assert_eq!(lines(r#"{"cut_watch":{"after":2,"abrupt":true}}"#).await, all_four("one\ntwo\n", false));
    assert_eq!(lines(r#"{"cut_watch":{"after":0}}"#).await, all_four("", true));
}

#[tokio::test]
async fn a_watch_expires_with_an_error_event() {
    for (text, proper) in lines(r#"{"gone":{"after":1}}"#).await {
        assert!(proper);
        let (first, event) = text.split_once('\n').unwrap();
        let event: serde_json::Value = serde_json::from_str(event).unwrap();
        assert_eq!((first, event["type"].as_str()), ("one", Some("ERROR")));
        assert_eq!(
            (event["object"]["code"].as_u64(), event["object"]["reason"].as_str()),
            (Some(410), Some("Expired"))
        );
    }
}

#[tokio::test]
async fn a_watch_ends_in_the_middle_of_a_line() {
    assert_eq!(lines(r#"{"half_line":{"after":2}}"#).await, all_four("one\ntwo\nthr", true));
    assert_eq!(lines(r#"{"half_line":{"after":2,"abrupt":true}}"#).await, all_four("one\ntwo\nthr", false));
}

#[tokio::test]
async fn watch_lines_are_repeated_swapped_and_lost() {
    assert_eq!(lines(r#"{"duplicate_line":{"line":2}}"#).await, all_four("one\ntwo\ntwo\nthree\nfour\n", true));
    assert_eq!(lines(r#"{"swap_lines":{"line":2}}"#).await, all_four("one\nthree\ntwo\nfour\n", true));
    assert_eq!(lines(r#"{"drop_line":{"line":2}}"#).await, all_four("one\nthree\nfour\n", true));
}

#[tokio::test]
async fn line_faults_stack_and_leave_failed_answers_alone() {
    let world = world(
        Wire::Http1,
        r#"[{"name":"twice","action":{"duplicate_line":{"line":1}}},{"name":"stop","action":{"cut_watch":{"after":3}}}]"#,
    )
    .await;
    world.server.feed_lines(&["one", "two", "three"]);
    assert_eq!(drain(world.client.watch().await).await, ("one\none\ntwo\n".to_owned(), true));
    let got = world.client.get("/missing").await.unwrap();
    assert_eq!((got.status.as_u16(), got.text()), (404, "missing"));
    let landed: Vec<bool> = world.proxy.hits().iter().map(|hit| hit.landed).collect();
    assert_eq!(landed, [true, true, false, false]);
}

#[tokio::test]
async fn a_starved_watch_carries_only_bookmarks() {
    let world = world(Wire::Http1, r#"[{"name":"b","action":{"only_bookmarks":{}}}]"#).await;
    let bookmark = r#"{"type":"BOOKMARK","object":{}}"#;
    world.server.feed_lines(&[r#"{"type":"ADDED","object":{}}"#, bookmark]);
    assert_eq!(drain(world.client.watch().await).await, (format!("{bookmark}\n"), true));
}

#[tokio::test]
async fn a_line_rule_asks_the_upstream_for_lines() {
    let world = world(Wire::Http1, r#"[{"name":"b","action":{"drop_line":{"line":9}}}]"#).await;
    let request = world
        .client
        .request("GET", "/list")
        .header("accept", "application/vnd.kubernetes.protobuf, application/json;as=Table")
        .header("accept-encoding", "gzip");
    world.client.send(request, "").await.unwrap();
    let seen = &world.server.seen()[0];
    assert_eq!(seen.headers["accept"], "application/json;as=Table");
    assert!(!seen.headers.contains_key("accept-encoding"));
}

#[tokio::test]
async fn an_older_list_is_served_and_then_the_present_one() {
    for wire in Wire::ALL {
        let world =
            world(wire, r#"[{"name":"old","match":{"path":"/list"},"when":{"nth":4},"action":{"replay":{"back":2}}}]"#)
                .await;
        let mut texts = Vec::new();
        for target in ["/list?resourceVersion=0", "/list?resourceVersion=7", "/list", "/list", "/list"] {
            texts.push(world.client.get(target).await.unwrap().text().to_owned());
        }
        let wanted = [1, 2, 3, 2, 4].map(|n| format!("{{\"answer\":{n}}}"));
        assert_eq!(texts, wanted, "{wire:?}");
        assert_eq!(world.server.seen().len(), 4);
        assert_eq!(world.proxy.hits().len(), 1);
    }
}

#[tokio::test]
async fn a_list_that_was_never_recorded_comes_from_the_upstream() {
    let world = world(Wire::Http1, r#"[{"name":"old","action":{"replay":{"back":1}}}]"#).await;
    assert_eq!(world.client.get("/list?labelSelector=a").await.unwrap().text(), r#"{"answer":1}"#);
    assert_eq!(world.client.get("/list?labelSelector=b").await.unwrap().text(), r#"{"answer":2}"#);
    assert_eq!(world.client.get("/missing").await.unwrap().status, 404);
    assert_eq!(world.client.get("/missing").await.unwrap().status, 404);
    assert!(world.proxy.hits().is_empty());
    assert_eq!(world.client.get("/list?labelSelector=a").await.unwrap().text(), r#"{"answer":1}"#);
    assert_eq!(world.proxy.hits().len(), 1);
}

#[tokio::test]
async fn a_slow_body_keeps_its_pace_and_its_bytes() {
    let world = world(
        Wire::Http1,
        r#"[{"name":"drip","action":{"slow_body":{"bytes_per_second":500}}},
            {"name":"text","action":{"answer":{"status":200,"body":"0123456789","size":200}}}]"#,
    )
    .await;
    let start = Instant::now();
    let got = world.client.get("/").await.unwrap();
    assert_eq!(got.text(), "0123456789".repeat(20));
    assert!(start.elapsed() >= Duration::from_millis(390), "200 bytes at 500 a second: {:?}", start.elapsed());
}

#[tokio::test]
async fn a_bucket_refuses_what_is_beyond_its_burst() {
    let world = world(Wire::Http1, r#"[{"name":"limit","action":{"bucket":{"rate":0.01,"burst":3}}}]"#).await;
    let mut codes = Vec::new();
    for _ in 0..5 {
        let got = world.client.get("/").await.unwrap();
        if got.status == 429 {
            let seconds: u64 = got.headers["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((90..=100).contains(&seconds), "{seconds}");
        }
        codes.push(got.status.as_u16());
    }
    assert_eq!(codes, [200, 200, 200, 429, 429]);
    assert_eq!(world.server.seen().len(), 3);
}

#[tokio::test]
async fn a_rule_can_look_at_the_operation_in_a_form_body() {
    let world = world(
        Wire::Http1,
        r#"[{"name":"run","match":{"body":"Action=RunInstances"},"action":{"answer":{"status":503}}}]"#,
    )
    .await;
    assert_eq!(world.client.post("/", "Action=RunInstances&Version=1").await.unwrap().status, 503);
    // Longer than what a rule looks at: all of it must arrive all the same.
    let long = format!("Action=DescribeInstances&{}", "x".repeat(300_000));
    assert_eq!(world.client.post("/", &long).await.unwrap().status, 200);
    assert_eq!(world.server.seen()[0].body, long);
}

#[tokio::test]
async fn the_same_seed_and_requests_give_the_same_hits() {
    let rules = r#"[{"name":"some","match":{"user_agent":"berth"},"when":{"probability":0.3},
                     "action":{"answer":{"status":500}}},
                    {"name":"third","when":{"every":3},"action":{"reset_before":{}}}]"#;
    let run = |seed: u64| async move {
        let world = world_with(Wire::Http1, Wire::Http1, rules, seed).await;
        let mut codes = Vec::new();
        for number in 0..60 {
            let request = world.client.request("GET", &format!("/n/{number}")).header("user-agent", "berth/1");
            codes.push(world.client.send(request, "").await.map(|got| got.status.as_u16()).unwrap_or(0));
        }
        (codes, world.proxy.hits())
    };
    let (codes, hits) = run(7).await;
    assert!(codes.contains(&500) && codes.contains(&200) && codes.contains(&0), "{codes:?}");
    assert_eq!((codes, hits.clone()), run(7).await);
    let other: Vec<u64> = run(8).await.1.iter().map(|hit| hit.request).collect();
    assert_ne!(hits.iter().map(|hit| hit.request).collect::<Vec<_>>(), other);
    let numbers: Vec<u64> = hits.iter().map(|hit| hit.number).collect();
    assert_eq!(numbers, (1..=hits.len() as u64).collect::<Vec<_>>());
    assert_eq!(hits[0].path, format!("/n/{}", hits[0].request - 1));
    assert_eq!((hits[0].seed, hits[0].method.as_str()), (7, "GET"));
}

#[tokio::test]
async fn the_control_socket_sets_clears_reports_and_stops() {
    let pki = Pki::new();
    let server = support::server(Wire::Http1, &pki).await;
    let socket = pki.file("control");
    let mut options = Options::new(Upstream::plain(server.url.clone()));
    options.control = Some(socket.clone());
    let proxy = Proxy::start(options).await.unwrap();
    let client = support::Client::new(proxy.url(), None, false);
    let send = |text: &str| {
        let (socket, text) = (socket.clone(), serde_json::from_str(text).unwrap());
        async move { command(&socket, &text).await.unwrap() }
    };

    let set = send(r#"{"set":[{"name":"no","action":{"answer":{"status":500}}}]}"#).await;
    assert_eq!(set, serde_json::json!({"ok": true, "rules": 1}));
    assert_eq!(client.get("/x").await.unwrap().status, 500);

    let refused = send(r#"{"set":[{"name":"a","when":{"nth":0},"action":{"delay":{"ms":1}}}]}"#).await;
    assert_eq!((refused["ok"].as_bool(), refused["field"].as_str()), (Some(false), Some("rules[0].when.nth")));
    assert_eq!(client.get("/x").await.unwrap().status, 500, "a refused document changes nothing");

    let hits = send(r#"{"hits":true}"#).await;
    assert_eq!((hits["requests"].as_u64(), hits["dropped"].as_u64()), (Some(2), Some(0)));
    assert_eq!(hits["hits"][1]["rule"], "no");
    assert_eq!(hits["hits"][1]["number"], 2);

    assert_eq!(send(r#"{"clear":true}"#).await["ok"], true);
    assert_eq!(client.get("/x").await.unwrap().status, 200);
    for bad in [r#"{}"#, r#"{"jump":true}"#, r#"{"clear":false}"#, r#"{"hits":true,"stop":true}"#, "3"] {
        assert_eq!(send(bad).await["ok"], false, "{bad}");
    }

    let second = Proxy::start(Options { control: Some(socket.clone()), ..Options::new(Upstream::plain(server.url)) });
    assert!(matches!(second.await, Err(Error::Option { field: "control", .. })));

    assert_eq!(send(r#"{"stop":true}"#).await["ok"], true);
    soon("the end", proxy.stopped()).await;
    proxy.stop().await;
    assert!(!socket.exists());
    client.get("/x").await.unwrap_err();
}

#[tokio::test]
async fn an_unreachable_upstream_is_told_apart_from_a_fault() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut options = Options::new(Upstream::plain(format!("http://{gone}")));
    options.rules = sim::proxy::rules::parse(r#"[{"name":"lost","action":{"reset_after":{}}}]"#).unwrap();
    let proxy = Proxy::start(options).await.unwrap();
    let got = support::Client::new(proxy.url(), None, false).get("/").await.unwrap();
    assert_eq!(got.status, 502);
    assert!(got.text().contains("no answer from the upstream"), "{}", got.text());
    assert!(!proxy.hits()[0].landed);
}

#[tokio::test]
async fn tunnels_are_refused_by_name() {
    let world = world(Wire::Http1, "[]").await;
    let request = world.client.request("GET", "/exec").header("connection", "upgrade").header("upgrade", "websocket");
    let got = world.client.send(request, "").await.unwrap();
    assert_eq!(got.status, 501);
    assert!(got.text().contains("port-forward"));
    assert!(world.server.seen().is_empty());
}

#[tokio::test]
async fn wrong_options_are_named() {
    let field = |options: Options| async move {
        match Proxy::start(options).await {
            Err(Error::Option { field, .. }) => field.to_owned(),
            Err(other) => other.to_string(),
            Ok(_) => "started".to_owned(),
        }
    };
    let plain = || Options::new(Upstream::plain("http://127.0.0.1:1"));
    assert_eq!(field(Options { listen: "0.0.0.0:0".parse().unwrap(), ..plain() }).await, "listen");
    for bad in ["127.0.0.1", "ftp://127.0.0.1", "http://127.0.0.1/base", ""] {
        assert_eq!(field(Options::new(Upstream::plain(bad))).await, "to", "{bad}");
    }
    assert_eq!(field(Options::new(Upstream::plain("https://127.0.0.1:1"))).await, "ca");
    let missing = Inbound::Files { cert: "missing".into(), key: "missing".into(), ca: None };
    assert_eq!(field(Options { inbound: missing, ..plain() }).await, "tls-cert");
}

#[tokio::test]
async fn given_certificates_serve_clients() {
    let pki = Pki::new();
    let server = support::server(Wire::TlsHttp2, &pki).await;
    let mut options = Options::new(support::upstream(&server, Wire::TlsHttp2, &pki));
    options.inbound =
        Inbound::Files { cert: pki.file("server.crt"), key: pki.file("server.key"), ca: Some(pki.file("ca.crt")) };
    let proxy = Proxy::start(options).await.unwrap();
    let client = support::Client::new(proxy.url(), proxy.ca_pem(), true);
    assert_eq!(client.get("/").await.unwrap().status, 200);
    drop(proxy);
    soon("the end of the listener", async {
        while client.get("/").await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
