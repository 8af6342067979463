//! Credentials from every source, on the wire.

use std::path::PathBuf;

use aws::credentials::{ContainerAuth, Files, Role, Source, WebIdentity};
use aws::errors::{Cause, Kind};
use aws::net::shared_files;
use aws::port::{Ec2, HostQuery, Sts};
use axum::response::Response;
use futures::future::join_all;
use http::Method;
use kit::class::chain;

use crate::support::{Asked, Fake, answer, keys, ok, quick, refused, scope, serve};

const ROLE: &str = "arn:aws:iam::123456789012:role/berth";

fn given(operation: &str, id: &str) -> Response {
    answer(
        200,
        format!(
            "<{operation}Response><{operation}Result><Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>canary-secret</SecretAccessKey><SessionToken>session-of-{id}</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></{operation}Result><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></{operation}Response>"
        ),
    )
}

fn regions() -> Response {
    ok("DescribeRegions", "<regionInfo><item><regionName>us-west-2</regionName></item></regionInfo>")
}

/// Plays STS and EC2: gives each role its own keys.
async fn cloud() -> Fake {
    serve(|asked, _| match asked.get("Action") {
        "AssumeRoleWithWebIdentity" => given("AssumeRoleWithWebIdentity", "ASIAWEB"),
        "AssumeRole" => {
            let name = asked.get("RoleArn").rsplit('/').next().unwrap().to_uppercase();
            given("AssumeRole", &format!("ASIA{name}"))
        }
        _ => regions(),
    })
    .await
}

fn signer(asked: &Asked) -> String {
    let authorization = asked.header("authorization");
    let id = authorization.split("Credential=").nth(1).and_then(|rest| rest.split('/').next());
    id.unwrap_or_default().to_owned()
}

fn web_identity(file: PathBuf) -> Source {
    Source::WebIdentity(WebIdentity {
        role: ROLE.parse().unwrap(),
        token_file: file,
        session_name: Some("my session!".to_owned()),
    })
}

fn role(name: &str, from: Source) -> Source {
    Source::Role(Box::new(Role {
        role: format!("arn:aws:iam::123456789012:role/{name}").parse().unwrap(),
        session_name: None,
        duration_seconds: Some(900),
        external_id: Some("ext".to_owned()),
        inline_policy: Some("{}".to_owned()),
        policy_arns: vec!["arn:aws:iam::aws:policy/a".to_owned()],
        from,
    }))
}

fn token(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test]
async fn a_web_identity_is_exchanged_once_for_many_calls_without_a_signature() {
    let (fake, file) = (cloud().await, token("canary.jwt.token\n"));
    let client = quick().client(&scope(web_identity(file.path().to_owned()), &fake.url, &fake.url)).unwrap();
    let all = HostQuery::Matching(Vec::new());
    let calls = join_all((0..20).map(|_| client.ec2().describe_hosts(&all))).await;
    assert!(calls.iter().all(Result::is_ok), "{calls:?}");
    let exchanges: Vec<Asked> =
        fake.asked().into_iter().filter(|asked| asked.get("Action") == "AssumeRoleWithWebIdentity").collect();
    assert_eq!(exchanges.len(), 1);
    let asked = &exchanges[0];
    assert_eq!((asked.get("WebIdentityToken"), asked.get("RoleArn")), ("canary.jwt.token", ROLE));
    assert_eq!((asked.get("RoleSessionName"), asked.header("authorization")), ("mysession", ""));
    let call = fake.asked().pop().unwrap();
    assert_eq!((signer(&call).as_str(), call.header("x-amz-security-token")), ("ASIAWEB", "session-of-ASIAWEB"));
}

#[tokio::test]
async fn roles_are_taken_on_one_after_the_other() {
    let fake = cloud().await;
    let source = role("top", role("mid", keys("AKIDBASE", None)));
    let client = quick().client(&scope(source, &fake.url, &fake.url)).unwrap();
    client.ec2().describe_regions().await.unwrap();
    client.ec2().describe_regions().await.unwrap();
    let seen: Vec<(String, String)> =
        fake.asked().iter().map(|asked| (asked.get("Action").to_owned(), signer(asked))).collect();
    let expected = [
        ("AssumeRole", "AKIDBASE"),
        ("AssumeRole", "ASIAMID"),
        ("DescribeRegions", "ASIATOP"),
        ("DescribeRegions", "ASIATOP"),
    ];
    assert_eq!(seen, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let first = &fake.asked()[0];
    for (name, value) in [
        ("RoleSessionName", "berth"),
        ("DurationSeconds", "900"),
        ("ExternalId", "ext"),
        ("Policy", "{}"),
        ("PolicyArns.member.1.arn", "arn:aws:iam::aws:policy/a"),
    ] {
        assert_eq!(first.get(name), value, "{name}");
    }
}

#[tokio::test]
async fn a_refused_role_is_an_error_that_names_it_and_its_right() {
    let fake = serve(|_, _| refused(403, "AccessDenied", "not authorized to perform: sts:AssumeRole")).await;
    let client = quick().client(&scope(role("top", keys("AKIDBASE", None)), &fake.url, &fake.url)).unwrap();
    let error = client.ec2().describe_regions().await.unwrap_err();
    assert_eq!((error.kind(), error.maybe_done()), (Kind::Permission, false));
    assert_eq!(
        chain(&error),
        "ec2:DescribeRegions in us-west-2 failed: no usable credentials: cannot take on the role \
         arn:aws:iam::123456789012:role/top: sts:AssumeRole in us-west-2 failed: AccessDenied: not authorized to perform: \
         sts:AssumeRole"
    );
    let again = client.ec2().describe_regions().await.unwrap_err();
    assert_eq!((chain(&again), fake.asked().len()), (chain(&error), 1), "the source is left alone for a moment");
}

#[tokio::test]
async fn a_missing_or_odd_token_file_is_an_error_that_names_the_file() {
    let fake = cloud().await;
    for (file, said) in [
        (None, "cannot read the token file"),
        (Some(token("  \n")), "does not hold a token"),
        (Some(token("two words")), "does not hold a token"),
        (Some(token(&"x".repeat(70_000))), "larger than any token"),
    ] {
        let path = file.as_ref().map_or_else(|| PathBuf::from("/nowhere/token"), |file| file.path().to_owned());
        let client = quick().client(&scope(web_identity(path.clone()), &fake.url, &fake.url)).unwrap();
        let error = client.ec2().describe_regions().await.unwrap_err();
        let shown = chain(&error);
        assert!(shown.contains(said) && shown.contains(path.to_str().unwrap()), "{shown}");
        assert!(matches!(error.cause(), Cause::Credentials(_)));
    }
    assert_eq!(fake.asked().len(), 0);
}

#[tokio::test]
async fn shared_files_are_read_where_they_are_said_to_be() {
    let home = tempfile::tempdir().unwrap();
    let vars = |pairs: &[(&str, String)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    let at_home = ("HOME", home.path().to_str().unwrap().to_owned());
    assert_eq!(shared_files(&vars(&[])).await.unwrap(), Files::default());
    assert_eq!(shared_files(&vars(std::slice::from_ref(&at_home))).await.unwrap(), Files::default());
    std::fs::create_dir(home.path().join(".aws")).unwrap();
    std::fs::write(home.path().join(".aws/config"), "[default]").unwrap();
    std::fs::write(home.path().join("other"), "[other]").unwrap();
    let other = home.path().join("other").to_str().unwrap().to_owned();
    let found = shared_files(&vars(&[at_home.clone(), ("AWS_SHARED_CREDENTIALS_FILE", other)])).await.unwrap();
    assert_eq!(found.config.unwrap().expose(), "[default]");
    assert_eq!(found.credentials.unwrap().expose(), "[other]");
    assert!(shared_files(&vars(&[("AWS_CONFIG_FILE", at_home.1)])).await.is_err(), "a folder is no file");
}

#[tokio::test]
async fn a_container_gives_credentials_for_its_token() {
    let file = token("canary-token");
    let fake = serve(|asked, _| match asked.path.as_str() {
        "/creds" => {
            assert_eq!((&asked.method, asked.header("authorization")), (&Method::GET, "canary-token"));
            answer(200, r#"{"AccessKeyId":"ASIACONTAINER","SecretAccessKey":"canary-secret","Token":"t","Expiration":"2999-01-01T00:00:00Z"}"#)
        }
        _ => regions(),
    })
    .await;
    let auth = ContainerAuth::File(file.path().to_owned());
    let source = Source::Container { uri: format!("{}/creds", fake.url), auth };
    let client = quick().client(&scope(source, &fake.url, &fake.url)).unwrap();
    client.ec2().describe_regions().await.unwrap();
    assert_eq!(signer(&fake.asked()[1]), "ASIACONTAINER");
}

#[tokio::test]
async fn a_container_elsewhere_is_not_asked_without_encryption() {
    let fake = cloud().await;
    let source = Source::Container { uri: "http://192.0.2.1/creds".to_owned(), auth: ContainerAuth::None };
    let client = quick().client(&scope(source, &fake.url, &fake.url)).unwrap();
    let shown = chain(&client.ec2().describe_regions().await.unwrap_err());
    assert!(shown.contains("the container's credential service") && shown.contains("may not be called"), "{shown}");
}

async fn machine() -> Fake {
    serve(|asked, _| {
        let session = asked.header("x-aws-ec2-metadata-token");
        match (asked.method.as_str(), asked.path.as_str()) {
            ("PUT", "/latest/api/token") => {
                assert_eq!(asked.header("x-aws-ec2-metadata-token-ttl-seconds"), "300");
                answer(200, "session-1")
            }
            ("GET", _) if session != "session-1" => answer(401, ""),
            ("GET", "/latest/meta-data/iam/security-credentials/") => answer(200, "node-role\n"),
            ("GET", "/latest/meta-data/iam/security-credentials/node-role") => answer(200, r#"{"Code":"Success","AccessKeyId":"ASIAMACHINE","SecretAccessKey":"canary-secret","Token":"t","Expiration":"2999-01-01T00:00:00Z"}"#),
            _ => regions(),
        }
    })
    .await
}

#[tokio::test]
async fn a_machine_gives_the_credentials_of_its_role() {
    let fake = machine().await;
    let source = Source::InstanceMetadata { endpoint: fake.url.clone() };
    let client = quick().client(&scope(source, &fake.url, &fake.url)).unwrap();
    client.ec2().describe_regions().await.unwrap();
    client.get_caller_identity().await.unwrap_err();
    let asked = fake.asked();
    assert_eq!((asked.len(), signer(&asked[3]).as_str()), (5, "ASIAMACHINE"), "three questions, then two calls");
}

#[tokio::test]
async fn a_machine_without_a_role_and_one_that_lies_about_it_are_errors() {
    for role in ["", "../../user-data", "a b", ".", "x/y"] {
        let fake = serve(move |asked, _| match asked.method.as_str() {
            "PUT" => answer(200, "session-1"),
            _ => answer(200, role),
        })
        .await;
        let source = Source::InstanceMetadata { endpoint: fake.url.clone() };
        let client = quick().client(&scope(source, &fake.url, &fake.url)).unwrap();
        let shown = chain(&client.ec2().describe_regions().await.unwrap_err());
        assert!(shown.contains("it names no role"), "{role}: {shown}");
        assert_eq!(fake.asked().len(), 2, "{role}");
    }
}
