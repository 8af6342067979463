//! One call: what is sent, what is repeated, what comes back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws::errors::{Cause, Kind};
use aws::limits::Limits;
use aws::port::{AllocateHosts, Ec2, HostQuery, HostShape, ModifyHosts, Sts, Switch, Tags};
use http::Method;
use kit::class::chain;
use kit::clock::Clock;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use tokio::time::Instant;

use crate::support::{answer, aws, aws_within, bytes, client, keys, ok, quick, refused, scope, serve, silence};

const HOST: &str = "h-0123456789abcdef0";

fn allocation() -> AllocateHosts {
    AllocateHosts {
        token: "dh-1".parse().unwrap(),
        zone: "us-west-2a".parse().unwrap(),
        shape: HostShape::Type("m5.metal".parse().unwrap()),
        quantity: 1,
        recovery: None,
        maintenance: None,
        outpost_arn: None,
        asset_ids: Vec::new(),
        tags: Tags::new(),
    }
}

fn allocated() -> axum::response::Response {
    ok("AllocateHosts", &format!("<hostIdSet><item>{HOST}</item></hostIdSet>"))
}

#[tokio::test]
async fn a_call_is_a_signed_form_with_our_name_on_it() {
    let fake = serve(|_, _| allocated()).await;
    let client = quick().client(&scope(keys("AKIDEXAMPLE", Some("session-1")), &fake.url, &fake.url)).unwrap();
    let hosts = client.ec2().allocate_hosts(&allocation()).await.unwrap();
    assert_eq!(hosts.iter().map(ToString::to_string).collect::<Vec<_>>(), [HOST]);
    let asked = &fake.asked()[0];
    assert_eq!((&asked.method, asked.path.as_str()), (&Method::POST, "/"));
    assert_eq!(asked.header("content-type"), "application/x-www-form-urlencoded; charset=utf-8");
    assert_eq!(asked.header("user-agent"), "berth/0.0.0-test");
    assert_eq!(asked.header("x-amz-security-token"), "session-1");
    let (authorization, date) = (asked.header("authorization"), asked.header("x-amz-date"));
    let credential = format!("Credential=AKIDEXAMPLE/{}/us-west-2/ec2/aws4_request", date.split('T').next().unwrap());
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 ") && authorization.contains(&credential), "{authorization}");
    assert!(
        authorization.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token"),
        "{authorization}"
    );
    assert_eq!((asked.get("Action"), asked.get("Version")), ("AllocateHosts", "2016-11-15"));
    assert_eq!((asked.get("ClientToken"), asked.get("AutoPlacement")), ("dh-1", "off"));
}

#[tokio::test]
async fn an_error_carries_code_words_and_request_id() {
    let fake = serve(|_, _| refused(400, "Client.HostLimitExceeded", "You have reached your limit")).await;
    let error = client(&fake).ec2().allocate_hosts(&allocation()).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::HostQuota, Some("HostLimitExceeded")));
    assert_eq!((error.request_id(), error.operation(), error.region()), (Some("req-1"), "AllocateHosts", "us-west-2"));
    assert_eq!(chain(&error), "ec2:AllocateHosts in us-west-2 failed: HostLimitExceeded: You have reached your limit");
    assert_eq!(fake.asked().len(), 1, "a refusal that lasts is not repeated");
}

#[tokio::test]
async fn a_call_with_a_token_is_repeated_as_the_same_request() {
    let fake = serve(|_, before| match before {
        0 => refused(503, "RequestLimitExceeded", "slow down"),
        1 => answer(500, "<!doctype html><title>500</title>"),
        2 => refused(500, "InternalError", "sorry"),
        _ => allocated(),
    })
    .await;
    assert_eq!(client(&fake).ec2().allocate_hosts(&allocation()).await.unwrap().len(), 1);
    let asked = fake.asked();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|one| one.form == asked[0].form), "all requests are equal");
}

#[tokio::test]
async fn a_release_of_unknown_outcome_is_not_repeated_but_a_throttled_one_is() {
    let host = [HOST.parse().unwrap()];
    let fake = serve(|_, _| refused(500, "InternalError", "sorry")).await;
    let error = client(&fake).ec2().release_hosts(&host).await.unwrap_err();
    assert!(error.maybe_done());
    assert_eq!(fake.asked().len(), 1);
    let fake = serve(|_, before| match before {
        0 => refused(503, "RequestLimitExceeded", "slow down"),
        _ => ok("ReleaseHosts", &format!("<successful><item>{HOST}</item></successful><unsuccessful/>")),
    })
    .await;
    let judged = client(&fake).ec2().release_hosts(&host).await.unwrap();
    assert_eq!((judged.verdict(&host[0]), fake.asked().len()), (Some(Ok(())), 2));
}

#[tokio::test]
async fn a_throttled_client_slows_down() {
    let arrivals: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (seen, clock) = (arrivals.clone(), Clock::system());
    let fake = serve(move |_, before| {
        seen.lock().unwrap().push(clock.instant());
        match before {
            0 => refused(503, "RequestLimitExceeded", "slow down"),
            _ => ok("DescribeRegions", "<regionInfo/>"),
        }
    })
    .await;
    let aws = aws_within(Limits::Published, |_| {});
    let client = aws.client(&scope(keys("AKIDEXAMPLE", None), &fake.url, &fake.url)).unwrap();
    client.ec2().describe_regions().await.unwrap();
    let arrivals = arrivals.lock().unwrap().clone();
    let apart = arrivals[1] - arrivals[0];
    // Half of ten per second: the next token takes a fifth of a second, although dozens were left before.
    assert!(apart >= Duration::from_millis(190), "{apart:?}");
}

#[tokio::test]
async fn attempts_and_time_are_bounded() {
    let fake = serve(|_, _| refused(500, "InternalError", "sorry")).await;
    assert_eq!(client(&fake).ec2().describe_regions().await.unwrap_err().kind(), Kind::Transient);
    assert_eq!(fake.asked().len(), 5);
    let fake = serve(|_, _| silence()).await;
    let short = aws(|timing| {
        timing.attempt = Duration::from_millis(40);
        timing.call = Duration::from_millis(100);
    });
    let client = short.client(&scope(keys("AKIDEXAMPLE", None), &fake.url, &fake.url)).unwrap();
    let error = client.ec2().describe_regions().await.unwrap_err();
    assert!(matches!(error.cause(), Cause::NoAnswer(_)) && error.maybe_done(), "{error:?}");
    assert!((1..=5).contains(&fake.asked().len()), "{}", fake.asked().len());
}

#[tokio::test]
async fn answers_of_others_are_malformed_and_large_ones_are_not_read() {
    for (status, body) in [(200, "<html></html>".into()), (200, "".into()), (200, bytes(9 << 20))] {
        let fake = serve(move |_, _| answer(status, body.clone())).await;
        let error = client(&fake).ec2().allocate_hosts(&allocation()).await.unwrap_err();
        assert!(error.maybe_done(), "{error:?}");
        assert!(matches!(error.kind(), Kind::Malformed | Kind::Transient), "{error:?}");
    }
}

#[tokio::test]
async fn empty_lists_of_ids_ask_nothing() {
    let fake = serve(|_, _| refused(400, "InvalidParameterValue", "never")).await;
    let client = client(&fake);
    let ec2 = client.ec2();
    assert!(ec2.release_hosts(&[]).await.unwrap().done.is_empty());
    assert!(ec2.describe_hosts(&HostQuery::Ids(Vec::new())).await.unwrap().is_empty());
    assert!(ec2.terminate_instances(&[]).await.unwrap().is_empty());
    assert!(ec2.modify_hosts(&ModifyHosts { recovery: Some(Switch::On), ..ModifyHosts::default() }).await.is_ok());
    ec2.delete_tags(&[HOST.to_owned()], &[]).await.unwrap();
    ec2.create_tags(&[], &Tags::from([("a".to_owned(), "b".to_owned())])).await.unwrap();
    assert_eq!(fake.asked().len(), 0);
}

#[tokio::test]
async fn sts_says_who_calls() {
    let fake = serve(|_, _| {
        answer(200, "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/Alice</Arn><UserId>AID</UserId><Account>123456789012</Account></GetCallerIdentityResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></GetCallerIdentityResponse>")
    })
    .await;
    let who = client(&fake).get_caller_identity().await.unwrap();
    assert_eq!((who.account.as_str(), who.arn.as_str()), ("123456789012", "arn:aws:iam::123456789012:user/Alice"));
    let asked = &fake.asked()[0];
    assert_eq!(asked.get("Version"), "2011-06-15");
    assert!(asked.header("authorization").contains("/us-west-2/sts/aws4_request"));
}

#[tokio::test]
async fn no_error_shows_a_secret() {
    let fake = serve(|asked, _| {
        let token = asked.header("x-amz-security-token").to_owned();
        refused(403, "SignatureDoesNotMatch", &format!("It does not match.\nCanonical: x-amz-security-token:{token}"))
    })
    .await;
    let scope = scope(keys("AKIDEXAMPLE", Some("canary-session")), &fake.url, &fake.url);
    let client = quick().client(&scope).unwrap();
    let error = client.ec2().describe_regions().await.unwrap_err();
    let shown = format!("{error:?} {error} {} {scope:?} {:?}", chain(&error), client.source());
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("It does not match."), "{shown}");
}

#[test]
fn tags_travel_unchanged() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (fake, client) = runtime.block_on(async {
        let fake = serve(|_, _| ok("CreateTags", "<return>true</return>")).await;
        let client = client(&fake);
        (fake, client)
    });
    let tags = prop::collection::btree_map("[ -~äé]{1,20}", "[ -~äé\u{4e2d}]{0,20}", 1..5);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(256));
    let run = runner.run(&tags, |tags| {
        runtime.block_on(client.ec2().create_tags(&[HOST.to_owned()], &tags)).unwrap();
        let asked = fake.asked().pop().unwrap();
        for (at, (key, value)) in tags.iter().enumerate() {
            prop_assert_eq!(asked.get(&format!("Tag.{}.Key", at + 1)), key);
            prop_assert_eq!(asked.get(&format!("Tag.{}.Value", at + 1)), value);
        }
        Ok(())
    });
    run.unwrap();
}
