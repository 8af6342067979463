//! Which addresses are called, with whose trust, and how many clients there are.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use aws::cloud::{Cloud, Door};
use aws::errors::Kind;
use aws::net::{Aws, Meter, Options, Scope, Trust};
use aws::place::Endpoints;
use aws::port::Ec2;
use futures::FutureExt;
use futures::future::BoxFuture;
use kit::certs::{Pair, Slot};
use kit::class::{Class, Classify, chain};
use kit::clock::Clock;
use kit::http::Resolve;
use kit::serve::Tls;

use crate::support::{keys, ok, quick, scope, serve, serve_with};

/// Gives every name this machine's address.
struct Here;

impl Resolve for Here {
    fn resolve(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        async { Ok(vec!["127.0.0.1".parse().unwrap()]) }.boxed()
    }
}

#[tokio::test]
async fn a_bundle_replaces_the_machines_authorities() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["ec2.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    let slot = Slot::new();
    slot.store(Pair::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap());
    let fake = serve_with(Some(Tls::new(slot)), |_, _| ok("DescribeRegions", "<regionInfo/>")).await;
    let port = fake.url.rsplit(':').next().unwrap().to_owned();
    let mut options = Options::new("berth/0");
    options.resolver = Arc::new(Here);
    options.timing.attempts = 1;
    let aws = Aws::new(options, Clock::system(), Meter::default());
    let url = format!("https://ec2.example:{port}");
    let mut scope = scope(keys("AKIDEXAMPLE", None), &url, &url);
    scope.trust = Trust::from_bundle(&certificate.pem());
    aws.client(&scope).unwrap().ec2().describe_regions().await.unwrap();
    scope.trust = Trust::System;
    let error = aws.client(&scope).unwrap().ec2().describe_regions().await.unwrap_err();
    assert!(!error.maybe_done(), "{error:?}");
    scope.trust = Trust::from_bundle("-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n");
    let error = aws.client(&scope).err().unwrap();
    assert!(chain(&error).contains("CA is not usable"), "{error}");
    assert_eq!(error.class(), Class::Transient { at_least: None });
}

#[tokio::test]
async fn an_endpoint_of_the_cluster_that_means_this_machine_is_not_called() {
    let fake = serve(|_, _| ok("DescribeRegions", "<regionInfo/>")).await;
    let port = fake.url.rsplit(':').next().unwrap().to_owned();
    let mut options = Options::new("berth/0");
    options.resolver = Arc::new(Here);
    let aws = Aws::new(options, Clock::system(), Meter::default());
    let endpoints = Endpoints::new().cluster("ec2", &format!("https://ec2.example:{port}")).unwrap();
    let scope = Scope {
        region: "us-west-2".parse().unwrap(),
        source: keys("AKIDEXAMPLE", None),
        endpoints,
        trust: Trust::System,
    };
    let error = aws.client(&scope).unwrap().ec2().describe_regions().await.unwrap_err();
    assert_eq!((error.kind(), fake.asked().len()), (Kind::Terminal, 0), "{}", chain(&error));
}

#[tokio::test]
async fn a_cloud_that_is_closed_opens_no_door_and_asks_nobody() {
    let fake = serve(|_, _| ok("DescribeRegions", "<regionInfo/>")).await;
    let scope = scope(keys("AKIDEXAMPLE", None), &fake.url, &fake.url);
    let door = Door { region: scope.region, source: scope.source, endpoints: scope.endpoints, bundle: None };
    let open = |options| Aws::new(options, Clock::system(), Meter::default());
    assert!(Cloud::open(&open(Options::new("berth/0")), &door).is_ok());
    let closed = open(Options::closed());
    assert!(Cloud::open(&closed, &door).err().unwrap().message.contains("not asked"));
    assert!(closed.account(&door).await.is_err());
    assert_eq!((fake.asked().len(), closed.kept()), (0, 0));
}

#[tokio::test]
async fn equal_scopes_share_a_client_and_no_more_than_64_are_kept() {
    let aws = quick();
    let one = |id: &str| scope(keys(id, None), "http://127.0.0.1:1", "http://127.0.0.1:1");
    for _ in 0..3 {
        aws.client(&one("AKID")).unwrap();
    }
    assert_eq!(aws.kept(), 1);
    aws.forget(&one("AKID"));
    assert_eq!(aws.kept(), 0);
    for n in 0..200 {
        aws.client(&one(&format!("AKID{n}"))).unwrap();
    }
    assert_eq!(aws.kept(), 64);
}

#[tokio::test(start_paused = true)]
async fn a_client_nobody_asks_for_is_dropped_after_half_an_hour() {
    let aws = quick();
    let one = |id: &str| scope(keys(id, None), "http://127.0.0.1:1", "http://127.0.0.1:1");
    aws.client(&one("idle")).unwrap();
    aws.client(&one("used")).unwrap();
    for _ in 0..4 {
        tokio::time::advance(std::time::Duration::from_secs(10 * 60)).await;
        aws.client(&one("used")).unwrap();
    }
    aws.client(&one("new")).unwrap();
    assert_eq!(aws.kept(), 2);
}
