//! Signatures, retries, time, trust, and what is never shown.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cloudstack::errors::{Cause, Kind};
use cloudstack::limits::Limits;
use cloudstack::net::{COMMANDS, CloudStacks, Meter, Timing};
use cloudstack::port::CloudStack;
use cloudstack::profile::{Profile, Trust};
use kit::class::chain;
use kit::clock::Clock;
use sim::cloudstack::world::faults::{Fault, What};
use sim::cloudstack::{KeyPair, Options, start};

use crate::support::{client, client_with, options, secret, world};

#[tokio::test]
async fn every_request_expires_in_ten_minutes_and_goes_as_a_form() {
    let sim = world().await;
    client(&sim).list_zones(None).await.unwrap();
    let entry = sim.log().remove(0);
    assert_eq!((entry.method.as_str(), entry.user_agent.as_str(), entry.status), ("POST", "berth/0", 200));
    assert_eq!(entry.parameters.get("signatureVersion").map(String::as_str), Some("3"));
    let expires = entry.parameters.get("expires").unwrap().replace("+0000", "Z").parse::<jiff::Timestamp>().unwrap();
    let ahead = expires.duration_since(entry.at).as_secs();
    assert!((598..=600).contains(&ahead), "{ahead}");
}

#[tokio::test]
async fn wrong_keys_are_definitive_asked_once_and_never_shown() {
    let sim = world().await;
    for (key, word) in [("canary-key", "canary-secret"), (sim.api_key.as_str(), "canary-secret")] {
        sim.clear_log();
        let client = client_with(options(), &secret(&sim.endpoint, key, word));
        let error = client.list_zones(None).await.unwrap_err();
        assert_eq!((error.kind(), error.maybe_done(), sim.calls("listZones")), (Kind::Credentials, false, 1));
        let shown = format!("{error} {error:?} {} {}", chain(&error), error.words());
        assert!(!shown.contains("canary") && !shown.contains(&sim.api_key), "{shown}");
        assert!(chain(&error).contains("unable to verify user credentials"));
    }
    // A server that repeats what it was sent gives nothing away either.
    for body in
        ["<html>canary-key and canary-secret</html>", r#"{"x":{"errorcode":431,"errortext":"no canary-secret"}}"#]
    {
        let client = client_with(options(), &secret(&sim.endpoint, "admin-canary-key", "admin-canary-secret"));
        sim.rotate("admin", "admin-canary-key", "admin-canary-secret");
        sim.script(Fault::raw("listZones", 431, &body.replace("canary", "admin-canary")).forever());
        let error = client.list_zones(None).await.unwrap_err();
        assert!(!format!("{error:?} {}", chain(&error)).contains("canary"), "{error:?}");
        sim.clear_script();
    }
}

/// Everything that is logged on this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn nothing_that_is_logged_holds_a_key_a_signature_or_user_data() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let sim = world().await;
    sim.rotate("admin", "canary-key", "canary-secret");
    let mut get = options();
    get.use_get = true;
    for options in [options(), get] {
        let client = client_with(options, &secret(&sim.endpoint, "canary-key", "canary-secret"));
        let ground = crate::support::ground(&client).await;
        let mut request = crate::support::deploy(&ground, "vm-1");
        request.user_data = Some(b"canary-data".to_vec().into());
        let _ = client.deploy_virtual_machine(&request).await;
        let _ = client.caller().await.unwrap();
        sim.script(Fault::refuse("listZones", 431, "no canary-key"));
        let _ = client.list_zones(None).await.unwrap_err();
    }
    let logged = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("listZones") && logged.contains("deployVirtualMachine"), "{logged}");
    let signatures = sim.log().len();
    assert!(
        signatures > 10 && !logged.contains("canary") && !logged.contains("Y2FuYXJ5") && !logged.contains("signature="),
        "{logged}"
    );
}

#[tokio::test]
async fn rotation_needs_nothing_but_the_new_secret() {
    let sim = world().await;
    let all = CloudStacks::new(options(), Clock::system(), Meter::default());
    let client = |key: &str, word: &str| {
        let profile = Profile::from_secret(&secret(&sim.endpoint, key, word), all.policy()).unwrap();
        all.client(&profile).unwrap()
    };
    let old = client(&sim.api_key, &sim.secret_key);
    assert!(old.list_zones(None).await.is_ok());
    sim.rotate("admin", "new-key", "new-secret");
    assert_eq!(old.list_zones(None).await.unwrap_err().kind(), Kind::Credentials);
    assert!(client("new-key", "new-secret").list_zones(None).await.is_ok());
}

#[tokio::test]
async fn a_clock_that_is_off_is_named() {
    let time = Clock::system().now() - jiff::SignedDuration::from_mins(30);
    let sim = start(Options { time: Some(time), ..Options::default() }).await.unwrap();
    let error = client(&sim).list_zones(None).await.unwrap_err();
    assert!(chain(&error).contains("clock and the server's differ by more than 5 minutes"), "{}", chain(&error));
    sim.settings(|settings| settings.enforce_expiry = false);
    assert!(client(&sim).list_zones(None).await.is_ok(), "only a server that enforces it minds one that is behind");
}

#[tokio::test]
async fn passing_troubles_are_borne_three_times_and_then_told() {
    let sim = world().await;
    let client = client(&sim);
    for fault in [
        Fault::refuse("listZones", 530, "internal"),
        Fault::refuse("listZones", 503, "starting"),
        Fault::refuse("listZones", 429, "slow down"),
        Fault::raw("listZones", 502, "<html>Bad   Gateway</html>"),
        Fault::raw("listZones", 200, "{\"half\":"),
        Fault::on("listZones", What::CutBefore),
        Fault::on("listZones", What::CutAfter),
    ] {
        sim.clear_log();
        sim.script(fault.clone().times(3));
        assert_eq!(client.list_zones(None).await.unwrap().len(), 3, "{fault:?}");
        assert_eq!(sim.calls("listZones"), 4);
        sim.clear_log();
        sim.script(fault.clone().times(4));
        let error = client.list_zones(None).await.unwrap_err();
        assert!(!error.is_definitive() && sim.calls("listZones") == 4, "{fault:?}: {error:?}");
        sim.clear_script();
    }
    sim.script(Fault::raw("listZones", 502, "<html>Bad   Gateway</html>").forever());
    let error = client.list_zones(None).await.unwrap_err();
    assert!(chain(&error).ends_with("not an answer of CloudStack (HTTP status 502): Bad Gateway"), "{}", chain(&error));
}

#[tokio::test]
async fn odd_answers_are_errors_that_name_the_command() {
    let sim = world().await;
    let client = client(&sim);
    for (body, kind) in [
        (r#"{"listzonesresponse":{"count":1,"zone":[{"name":"nameless"}]}}"#, Kind::Malformed),
        (r#"{"listzonesresponse":{"count":1,"zone":{"id":"a","name":"b"}}}"#, Kind::Malformed),
        (r#"{"listzonesresponse":{"count":1,"zone":["a"]}}"#, Kind::Malformed),
        (r#"{"listzonesresponse":{"zone":[{"id":"a","name":5}]}}"#, Kind::Malformed),
        (r#"{"listzonesresponse":{"errorcode":431,"errortext":"no"}}"#, Kind::BadRequest),
        (r#"["a"]"#, Kind::Transport),
        ("", Kind::Transport),
    ] {
        sim.script(Fault::raw("listZones", 200, body).forever());
        let error = client.list_zones(None).await.unwrap_err();
        assert_eq!((error.kind(), error.command()), (kind, "listZones"), "{body}: {error:?}");
        sim.clear_script();
    }
    sim.script(Fault::raw(
        "listZones",
        200,
        r#"{"x":{"count":1,"zone":[{"id":"a","name":"b","allocationstate":"Odd","more":{}}]}}"#,
    ));
    assert_eq!(client.list_zones(None).await.unwrap()[0].allocation.as_ref().unwrap().as_str(), "Odd");
}

#[tokio::test]
async fn an_answer_that_never_ends_is_not_read() {
    let sim = world().await;
    let client = client(&sim);
    let body = format!("{{\"x\":{{\"zone\":[],\"pad\":\"{}\"}}}}", "x".repeat(9 << 20));
    sim.script(Fault::raw("listZones", 200, &body).forever());
    let error = client.list_zones(None).await.unwrap_err();
    assert!(chain(&error).contains("larger than 8388608 bytes"), "{}", chain(&error));
}

#[tokio::test]
async fn a_slow_server_costs_the_time_that_was_given_and_no_more() {
    let sim = world().await;
    let mut quick = options();
    quick.timing = Timing {
        request: Duration::from_millis(100),
        call: Duration::from_millis(600),
        pauses: [Duration::from_millis(1); 3],
    };
    let client = client_with(quick, &secret(&sim.endpoint, &sim.api_key, &sim.secret_key));
    sim.script(Fault::on("listZones", What::Delay(Duration::from_secs(30))).forever());
    let begin = Clock::system().instant();
    let error = client.list_zones(None).await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
    assert!(matches!(error.cause(), Cause::NoAnswer(_)) && error.maybe_done(), "{error:?}");
    sim.stop();
}

#[tokio::test]
async fn the_shipped_limits_keep_a_throttling_server_content() {
    let sim = world().await;
    sim.settings(|settings| settings.request_limit = Some(25));
    let mut shipped = options();
    shipped.limits = Limits::SHIPPED;
    let client = client_with(shipped, &secret(&sim.endpoint, &sim.api_key, &sim.secret_key));
    let begin = Clock::system().instant();
    for n in 0..30 {
        client.list_zones(Some(&cloudstack::port::Pick::Name(format!("z{n}")))).await.unwrap();
    }
    assert!(begin.elapsed() >= Duration::from_millis(1200), "twenty had to wait: {:?}", begin.elapsed());
}

/// A key pair of a server with this name, and its certificate.
pub fn pair(name: &str) -> (KeyPair, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let pem = certificate.pem();
    (KeyPair { chain: pem.clone().into_bytes(), key: key.serialize_pem().into_bytes() }, pem)
}

#[tokio::test]
async fn a_server_must_prove_who_it_is_unless_somebody_said_otherwise() {
    let (tls, pem) = pair("127.0.0.1");
    let sim = start(Options { tls: Some(tls), ..Options::default() }).await.unwrap();
    let data = secret(&sim.endpoint, &sim.api_key, &sim.secret_key);
    let error = client_with(options(), &data).list_zones(None).await.unwrap_err();
    assert_eq!((error.kind(), error.is_definitive()), (Kind::Untrusted, true), "{}", chain(&error));
    assert_eq!(sim.log().len(), 0);
    let mut trusting = data.clone();
    trusting.insert("ca-cert".to_owned(), pem.into_bytes());
    assert_eq!(client_with(options(), &trusting).list_zones(None).await.unwrap().len(), 3);
    let mut careless = data.clone();
    careless.insert("verify-ssl".to_owned(), b"false".to_vec());
    assert_eq!(client_with(options(), &careless).list_zones(None).await.unwrap().len(), 3);
    let mut broken = Profile::from_secret(&data, &options().policy).unwrap();
    broken.trust = Trust::Also(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".as_slice().into());
    let error = CloudStacks::new(options(), Clock::system(), Meter::default()).client(&broken).err().unwrap();
    assert!(chain(&error).contains("the extra CA is not usable"), "{}", chain(&error));
}

#[tokio::test]
async fn an_address_of_this_machine_is_called_only_if_the_operator_said_so() {
    let sim = world().await;
    let mut strict = options();
    strict.policy = cloudstack::profile::policy();
    let data = secret(&sim.endpoint, &sim.api_key, &sim.secret_key);
    assert!(Profile::from_secret(&data, &strict.policy).is_err());
    // Even a profile that was read under another policy gets nowhere.
    let profile = Profile::from_secret(&data, &options().policy).unwrap();
    let client = CloudStacks::new(strict, Clock::system(), Meter::default()).client(&profile).unwrap();
    let error = client.list_zones(None).await.unwrap_err();
    assert!(error.is_definitive() && sim.log().is_empty(), "{}", chain(&error));
}

#[test]
fn every_command_and_parameter_of_the_client_is_in_the_catalogue() {
    for (name, parameters) in COMMANDS {
        let command = sim::cloudstack::wire::commands::find(name).unwrap_or_else(|| panic!("{name} is unknown"));
        for parameter in *parameters {
            assert!(command.parameters.contains_key(parameter), "{name} has no {parameter}");
        }
        for (parameter, facts) in &command.parameters {
            assert!(!facts.required || parameters.contains(parameter), "{name} needs {parameter}");
        }
    }
}
