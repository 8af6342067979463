//! The same over real sockets.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use sim::ec2::world::engine::Request;
use sim::ec2::world::faults::{Fault, What};
use sim::ec2::{Handle, KeyPair, Options, start};

use crate::support::{Answer, Signer};

fn signer(handle: &Handle) -> Signer {
    Signer { access_key: handle.access_key.clone(), secret: handle.secret.clone(), ..Signer::default() }
}

fn signed(handle: &Handle, body: &str) -> http::Request<Full<Bytes>> {
    let host = handle.endpoint.split("//").nth(1).unwrap().to_owned();
    let mut request = Request {
        method: "POST".into(),
        path: "/".into(),
        query: String::new(),
        headers: vec![("content-type".into(), "application/x-www-form-urlencoded".into()), ("host".into(), host)],
        body: body.as_bytes().to_vec(),
    };
    signer(handle).sign(&mut request, jiff::Timestamp::now());
    let mut built = http::Request::post(format!("{}/", handle.endpoint));
    for (name, value) in &request.headers {
        built = built.header(name, value);
    }
    built.body(Full::new(Bytes::from(request.body))).unwrap()
}

async fn call(handle: &Handle, body: &str) -> Result<Answer, hyper_util::client::legacy::Error> {
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(signed(handle, body)).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Ok(Answer { status, body: String::from_utf8(body.to_vec()).unwrap() })
}

const ASK: &str = "Action=AllocateHosts&Version=2016-11-15&AvailabilityZone=us-east-1a&InstanceType=m5.large&Quantity=1&ClientToken=t";
const LIST: &str = "Action=DescribeHosts&Version=2016-11-15";

#[tokio::test]
async fn hosts_live_through_their_whole_life_over_http() {
    let handle = start(Options { frozen: true, ..Options::default() }).await.unwrap();
    let id = call(&handle, ASK).await.unwrap().ok().one("item");
    assert_eq!(call(&handle, LIST).await.unwrap().ok().one("state"), "pending", "time stands still");
    handle.advance(Duration::from_secs(2));
    assert_eq!(call(&handle, LIST).await.unwrap().ok().one("state"), "available");
    handle.advance(Duration::from_secs(7 * 24 * 3_600));
    let release = format!("Action=ReleaseHosts&Version=2016-11-15&HostId.1={id}");
    assert_eq!(call(&handle, &release).await.unwrap().ok().one("item"), id, "signed with our own clock all the same");
    assert_eq!(handle.bill().0, Duration::from_secs(7 * 24 * 3_600 + 2));
    assert_eq!((handle.calls("AllocateHosts"), handle.calls("DescribeHosts"), handle.log().len()), (1, 2, 4));
    assert!(handle.leaks("owner", &std::collections::BTreeSet::new()).is_empty());
}

#[tokio::test]
async fn a_lost_answer_ends_the_connection_and_the_effect_stays() {
    let handle = start(Options::default()).await.unwrap();
    handle.script(Fault::on("AllocateHosts", What::CutAfter));
    assert!(call(&handle, ASK).await.is_err());
    assert_eq!(handle.hosts().len(), 1);
    let id = call(&handle, ASK).await.unwrap().ok().one("item");
    assert_eq!(handle.hosts()[0].id, id);
    handle.script(Fault::on("AllocateHosts", What::CutBefore));
    assert!(call(&handle, &ASK.replace("=t", "=u")).await.is_err());
    assert_eq!(handle.hosts().len(), 1);
}

#[tokio::test]
async fn a_withdrawn_key_and_a_stopped_server_answer_no_more() {
    let handle = start(Options::default()).await.unwrap();
    call(&handle, LIST).await.unwrap().ok();
    handle.revoke(&handle.access_key);
    call(&handle, LIST).await.unwrap().refused(401, "AuthFailure");
    handle.stop();
    let gone = async {
        while call(&handle, LIST).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("the server stops");
}

#[tokio::test]
async fn the_server_speaks_tls_with_the_key_pair_it_is_given() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let cert = params.self_signed(&key).unwrap();
    let pair = KeyPair { chain: cert.pem().into_bytes(), key: key.serialize_pem().into_bytes() };
    let handle = start(Options { tls: Some(pair), ..Options::default() }).await.unwrap();
    assert!(handle.endpoint.starts_with("https://127.0.0.1:"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    // Both versions: over HTTP/2 the host is in the target, and signed all the same.
    for two in [false, true] {
        let connector = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config.clone()).https_only();
        let connector = if two { connector.enable_http2().build() } else { connector.enable_http1().build() };
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).http2_only(two).build(connector);
        let mut request = signed(&handle, LIST);
        if two {
            request.headers_mut().remove("host");
        }
        let response = client.request(request).await.unwrap();
        assert_eq!(response.status().as_u16(), 200, "HTTP/2: {two}");
    }
    let broken = KeyPair { chain: b"x".to_vec(), key: b"y".to_vec() };
    assert!(start(Options { tls: Some(broken), ..Options::default() }).await.is_err());
}

#[tokio::test]
async fn many_clients_at_once_lose_nothing() {
    let handle = start(Options::default()).await.unwrap();
    handle.settings(|settings| settings.host_quota = 100);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..40 {
        let (handle, body) = (handle.clone(), ASK.replace("ClientToken=t", &format!("ClientToken=t{}", n % 10)));
        tasks.spawn(async move { call(&handle, &body).await.unwrap().ok().one("item") });
    }
    let ids: std::collections::BTreeSet<String> = tasks.join_all().await.into_iter().collect();
    assert_eq!((ids.len(), handle.hosts().len()), (10, 10), "one host for each token");
}

#[tokio::test]
async fn what_the_handle_offers_a_test_is_there() {
    let handle = start(Options::default()).await.unwrap();
    let subnet = handle.subnet("us-east-1", "us-east-1b", false).unwrap();
    let image = handle.image("us-east-1", "x86_64").unwrap();
    let launch = format!(
        "Action=RunInstances&Version=2016-11-15&ImageId={image}&InstanceType=m5.large&MinCount=1&MaxCount=1&SubnetId={subnet}"
    );
    let instance = call(&handle, &launch).await.unwrap().ok().one("instanceId");
    assert!(handle.set_instance_state("us-east-1", &instance, sim::ec2::world::instance::InstanceState::Terminated));
    assert_eq!(handle.instances()[0].state, sim::ec2::world::instance::InstanceState::Terminated);
    let host = call(&handle, ASK).await.unwrap().ok().one("item");
    assert!(handle.reserve_host("us-east-1", &host, "hr-1"));
    assert!(handle.set_host_state("us-east-1", &host, sim::ec2::world::host::HostState::PermanentFailure));
    assert!(!handle.set_host_state("us-east-1", "h-1", sim::ec2::world::host::HostState::Available));
    assert_eq!(handle.fail_host("us-east-1", &host), None);
    assert_eq!(handle.hosts()[0].state, sim::ec2::world::host::HostState::UnderAssessment);
    handle.clear_log();
    assert!(handle.log().is_empty());
    handle.run_short("AllocateHosts", "*", "*");
    call(&handle, &ASK.replace("=t", "=u")).await.unwrap().refused(500, "InsufficientHostCapacity");
    handle.clear_script();
    call(&handle, &ASK.replace("=t", "=u")).await.unwrap().ok();
}
