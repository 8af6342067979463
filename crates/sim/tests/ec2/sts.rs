//! Who am I, and who may I become.

use std::collections::BTreeSet;

use sim::ec2::world::engine::Request;
use sim::ec2::world::identity::Role;

use crate::support::{Answer, Bench, Signer};

const ROLE: &str = "arn:aws:iam::123456789012:role/team/nodes";

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.signer = Signer::to("sts");
    bench
}

fn web(bench: &mut Bench, parameters: &str) -> Answer {
    let body = format!("Action=AssumeRoleWithWebIdentity&Version=2011-06-15&{parameters}");
    let request = Request {
        method: "POST".into(),
        path: "/".into(),
        query: String::new(),
        headers: vec![
            ("content-type".into(), "application/x-www-form-urlencoded".into()),
            ("host".into(), "sts.test".into()),
        ],
        body: body.into_bytes(),
    };
    bench.send(&request)
}

fn signer(answer: &Answer) -> Signer {
    Signer {
        access_key: answer.one("AccessKeyId"),
        secret: answer.one("SecretAccessKey"),
        session: Some(answer.one("SessionToken")),
        ..Signer::default()
    }
}

#[test]
fn a_caller_learns_who_it_is() {
    let mut bench = bench();
    let answer = bench.call("GetCallerIdentity", "").ok();
    assert!(answer.body.contains("<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">"));
    assert_eq!(answer.one("Account"), "123456789012");
    assert_eq!(answer.one("ResponseMetadata").len(), "<RequestId></RequestId>".len() + 36);
}

#[test]
fn errors_have_the_shape_of_this_service() {
    let mut bench = bench();
    let unknown = bench.call("Nope", "").refused(400, "InvalidAction");
    assert!(
        unknown
            .body
            .contains("<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>")
    );
    bench.signer.secret = "x".into();
    bench.call("GetCallerIdentity", "").refused(403, "SignatureDoesNotMatch");
    bench.signer.access_key = "AKIANOBODY".into();
    bench.call("GetCallerIdentity", "").refused(403, "InvalidClientTokenId");
}

#[test]
fn a_session_in_a_role_works_until_it_ends() {
    let mut bench = bench();
    bench.world.identities.roles.insert(ROLE.into(), Role::default());
    let answer = bench.call("AssumeRole", &format!("RoleArn={ROLE}&RoleSessionName=berth&DurationSeconds=900")).ok();
    assert_eq!(answer.one("Arn"), "arn:aws:sts::123456789012:assumed-role/nodes/berth");
    assert_eq!(answer.one("Expiration"), "2026-01-01T00:15:00.000Z");
    bench.signer = signer(&answer);
    bench.call("DescribeHosts", "").ok();
    bench.signer.service = "sts".into();
    assert_eq!(
        bench.call("GetCallerIdentity", "").ok().one("Arn"),
        "arn:aws:sts::123456789012:assumed-role/nodes/berth"
    );
    bench
        .call("AssumeRole", &format!("RoleArn={ROLE}&RoleSessionName=berth&DurationSeconds=3601"))
        .refused(400, "ValidationError");
    bench.pass(900);
    bench.call("GetCallerIdentity", "").refused(403, "ExpiredToken");
    bench.signer.service = "ec2".into();
    bench.call("DescribeHosts", "").refused(400, "RequestExpired");
    bench.signer.session = None;
    bench.call("DescribeHosts", "").refused(401, "AuthFailure");
}

#[test]
fn a_role_is_taken_on_only_by_those_it_trusts() {
    let mut bench = bench();
    let ask = format!("RoleArn={ROLE}&RoleSessionName=berth");
    bench.call("AssumeRole", &ask).refused(403, "AccessDenied");
    bench.world.identities.roles.insert(ROLE.into(), Role { external_id: Some("word".into()), ..Role::default() });
    bench.call("AssumeRole", &ask).refused(403, "AccessDenied");
    bench.call("AssumeRole", &format!("{ask}&ExternalId=wrong")).refused(403, "AccessDenied");
    bench.call("AssumeRole", &format!("{ask}&ExternalId=word")).ok();
    bench.call("AssumeRole", &format!("{ask}&ExternalId=word&PolicyArns.member.1.arn=arn:aws:iam::aws:policy/x")).ok();
    bench.world.identities.roles.insert(ROLE.into(), Role { closed: true, ..Role::default() });
    bench.call("AssumeRole", &ask).refused(403, "AccessDenied");
}

#[test]
fn requests_for_a_role_are_checked() {
    let mut bench = bench();
    bench.world.identities.roles.insert(ROLE.into(), Role::default());
    for (parameters, code) in [
        ("RoleSessionName=berth".to_owned(), "ValidationError"),
        (format!("RoleArn={ROLE}"), "ValidationError"),
        ("RoleArn=nodes&RoleSessionName=berth".to_owned(), "ValidationError"),
        (format!("RoleArn={ROLE}&RoleSessionName=x"), "ValidationError"),
        (format!("RoleArn={ROLE}&RoleSessionName=a%20b"), "ValidationError"),
        (format!("RoleArn={ROLE}&RoleSessionName=berth&DurationSeconds=899"), "ValidationError"),
        (format!("RoleArn={ROLE}&RoleSessionName=berth&DurationSeconds=43201"), "ValidationError"),
        (format!("RoleArn={ROLE}&RoleSessionName=berth&Policy=%7B"), "MalformedPolicyDocument"),
        (format!("RoleArn={ROLE}&RoleSessionName=berth&Nonsense=1"), "UnknownParameter"),
    ] {
        let answer = bench.call("AssumeRole", &parameters);
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{parameters}");
    }
}

#[test]
fn a_web_identity_is_exchanged_without_a_signature() {
    let mut bench = bench();
    let role = Role { web_tokens: BTreeSet::from(["token".to_owned()]), ..Role::default() };
    bench.world.identities.roles.insert(ROLE.into(), role);
    bench.world.identities.roles.insert(format!("{ROLE}2"), Role::default());
    let ask = format!("RoleArn={ROLE}&RoleSessionName=berth");
    let answer = web(&mut bench, &format!("{ask}&WebIdentityToken=token")).ok();
    bench.signer = signer(&answer);
    bench.call("DescribeHosts", "").ok();
    web(&mut bench, &format!("{ask}&WebIdentityToken=other")).refused(400, "InvalidIdentityToken");
    web(&mut bench, &format!("RoleArn={ROLE}2&RoleSessionName=berth&WebIdentityToken=token"))
        .refused(403, "AccessDenied");
    web(&mut bench, &ask).refused(400, "ValidationError");
    let kept = format!("{:?}", bench.world.log.entries());
    assert!(!kept.contains("\"token\""), "the token is not kept");
}

#[test]
fn nothing_else_goes_without_a_signature() {
    let mut bench = bench();
    let mut request = bench.signer.form("Action=GetCallerIdentity&Version=2011-06-15", bench.now);
    request.headers.retain(|(name, _)| name != "authorization");
    bench.send(&request).refused(403, "MissingAuthenticationToken");
}
