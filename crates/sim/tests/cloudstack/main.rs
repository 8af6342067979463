//! The CloudStack simulator by hand: shapes and codes of its answers, as a real server gives them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use sim::cloudstack::wire::commands;
use sim::cloudstack::wire::sign::signature;
use sim::cloudstack::world::World;
use sim::cloudstack::world::engine::{PATH, Reply, Request};
use sim::cloudstack::world::faults::{Fault, What};
use sim::cloudstack::world::machine::State;
use sim::cloudstack::world::settings::Settings;
use sim::percent::encode;

struct Hand {
    world: World,
    now: Timestamp,
}

impl Hand {
    fn new() -> Self {
        Self { world: World::new(Settings::default(), "k", "s", 1), now: "2030-01-01T00:00:00Z".parse().unwrap() }
    }

    fn raw(&mut self, method: &str, pairs: &[(String, String)]) -> Reply {
        let text: Vec<String> =
            pairs.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
        let mut request = Request { method: method.to_owned(), path: PATH.to_owned(), ..Request::default() };
        if method == "GET" {
            request.query = text.join("&");
        } else {
            request.headers.push(("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
            request.body = text.join("&").into_bytes();
        }
        self.world.handle(self.now, self.now, &request)
    }

    fn ask_as(&mut self, key: &str, secret: &str, parameters: &[(&str, &str)]) -> (u16, Value) {
        let mut pairs: Vec<(String, String)> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        for (name, value) in [
            ("apiKey", key),
            ("response", "json"),
            ("signatureVersion", "3"),
            ("expires", &self.now.strftime("%Y-%m-%dT%H:%M:%S+0000").to_string()),
        ] {
            if !parameters.iter().any(|(given, _)| given == &name) {
                pairs.push((name.to_owned(), value.to_owned()));
            }
        }
        pairs.push(("signature".to_owned(), signature(secret, &pairs)));
        match self.raw("POST", &pairs) {
            Reply::Answer { status, body, headers, .. } => {
                assert_eq!(headers[0], ("content-type", "application/json;charset=utf-8".to_owned()));
                (status, serde_json::from_slice(&body).unwrap())
            }
            Reply::Cut { .. } => panic!("cut"),
        }
    }

    fn ask(&mut self, parameters: &[(&str, &str)]) -> (u16, Value) {
        self.ask_as("k", "s", parameters)
    }

    fn first(&mut self, command: &str, noun: &str, name: &str, more: &[(&str, &str)]) -> String {
        let parameters = [&[("command", command), ("name", name)][..], more].concat();
        let (status, answer) = self.ask(&parameters);
        assert_eq!(status, 200, "{answer}");
        answer[format!("{}response", command.to_lowercase())][noun][0]["id"].as_str().unwrap().to_owned()
    }

    fn deploy(&mut self, name: &str) -> (u16, Value) {
        let zone = self.first("listZones", "zone", "zone-1", &[]);
        let offering = self.first("listServiceOfferings", "serviceoffering", "Small Instance", &[]);
        let template = self.first(
            "listTemplates",
            "template",
            "kube-1.31",
            &[("templatefilter", "executable"), ("zoneid", &zone)],
        );
        let network = self.first("listNetworks", "network", "shared", &[("zoneid", &zone)]);
        self.ask(&[
            ("command", "deployVirtualMachine"),
            ("zoneid", &zone),
            ("serviceofferingid", &offering),
            ("templateid", &template),
            ("networkids", &network),
            ("name", name),
        ])
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now.checked_add(Duration::from_secs(seconds)).unwrap();
    }
}

const WHO: &str = "unable to verify user credentials and/or request signature";

#[test]
fn refused_credentials_look_alike_whatever_is_wrong() {
    let mut hand = Hand::new();
    let refused = (401, json!({"listzonesresponse": {"uuidList": [], "errorcode": 401, "errortext": WHO}}));
    let list = [("command", "listZones")];
    assert_eq!(hand.ask(&list).0, 200);
    assert_eq!(hand.ask_as("nobody", "s", &list), refused);
    assert_eq!(hand.ask_as("k", "wrong", &list), refused);
    assert_eq!(hand.ask_as("locked-key", "locked-secret", &list), refused);
    for expires in ["2029-12-31T23:59:59+0000", "2030-01-01T00:15:01+0000", "soon"] {
        assert_eq!(hand.ask(&[("command", "listZones"), ("expires", expires)]), refused, "{expires}");
    }
    assert_eq!(hand.ask(&[("command", "listZones"), ("signatureVersion", "2")]), refused);
    let unknown = json!({"errorresponse": {"uuidList": [], "errorcode": 401, "errortext": WHO}});
    assert_eq!(hand.ask(&[("command", "noSuchCommand")]), (401, unknown));
    let Reply::Answer { status: 401, .. } = hand.raw("GET", &[("command".into(), "listZones".into())]) else {
        panic!("an unsigned request")
    };
}

#[test]
fn lists_have_counts_pages_and_empty_answers() {
    let mut hand = Hand::new();
    assert_eq!(hand.ask(&[("command", "listZones"), ("name", "absent")]), (200, json!({"listzonesresponse": {}})));
    let (_, page) = hand.ask(&[("command", "listZones"), ("page", "2"), ("pagesize", "2")]);
    assert_eq!(
        (&page["listzonesresponse"]["count"], page["listzonesresponse"]["zone"].as_array().unwrap().len()),
        (&json!(3), 1)
    );
    for (given, inner, text) in [
        (&[("page", "1")][..], 9999, "\"pagesize\" parameter is required when \"page\" is specified"),
        (&[("page", "1"), ("pagesize", "501")], 4350, "Page size can't exceed max allowed page size value: 500"),
        (
            &[("id", "nope")],
            9999,
            "Unable to execute API command listzones due to invalid value. Invalid parameter id value=nope due to \
             incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the \
             field in api cmd class.",
        ),
    ] {
        let expected =
            json!({"listzonesresponse": {"uuidList": [], "errorcode": 431, "cserrorcode": inner, "errortext": text}});
        assert_eq!(hand.ask(&[&[("command", "listZones")][..], given].concat()), (431, expected));
    }
    let (status, answer) = hand.ask(&[("command", "listTemplates")]);
    let text = "Unable to execute API command listtemplates due to missing parameter templatefilter";
    assert_eq!((status, answer["listtemplatesresponse"]["errortext"].as_str()), (431, Some(text)));
    let (status, _) =
        hand.ask_as("user-key", "user-secret", &[("command", "listTemplates"), ("templatefilter", "all")]);
    assert_eq!(status, 431);
}

#[test]
fn a_job_is_pending_until_it_is_done_and_names_its_machine_from_the_start() {
    let mut hand = Hand::new();
    let (status, answer) = hand.deploy("vm1");
    assert_eq!(status, 200, "{answer}");
    let said = &answer["deployvirtualmachineresponse"];
    let (id, job) = (said["id"].as_str().unwrap().to_owned(), said["jobid"].as_str().unwrap().to_owned());
    let query = [("command", "queryAsyncJobResult"), ("jobid", job.as_str())];
    let (_, pending) = hand.ask(&query);
    let pending = &pending["queryasyncjobresultresponse"];
    assert_eq!(
        (&pending["jobstatus"], &pending["jobinstanceid"], pending.get("jobresult")),
        (&json!(0), &json!(id), None)
    );
    hand.pass(4);
    let (_, done) = hand.ask(&query);
    let done = &done["queryasyncjobresultresponse"];
    assert_eq!((&done["jobstatus"], &done["jobresult"]["virtualmachine"]["state"]), (&json!(1), &json!("Running")));
    let (status, taken) = hand.deploy("vm1");
    let text = "The vm with hostName vm1 already exists in the network domain: cs2cloud.internal; network=shared";
    let expected = json!({"uuidList": [], "errorcode": 431, "cserrorcode": 4350, "errortext": text});
    assert_eq!((status, &taken["deployvirtualmachineresponse"]), (431, &expected));
    let destroy = [("command", "destroyVirtualMachine"), ("id", id.as_str()), ("expunge", "true")];
    let (_, answer) = hand.ask(&destroy);
    assert_eq!(answer["destroyvirtualmachineresponse"].as_object().unwrap().keys().collect::<Vec<_>>(), ["jobid"]);
    hand.pass(8);
    assert_eq!(hand.world.machine_facts(hand.now)[0].state, State::Gone);
    let (status, again) = hand.ask(&destroy);
    assert_eq!(
        (status, &again["destroyvirtualmachineresponse"]["errortext"]),
        (431, &json!("Unable to find UUID for id [3] of type [VirtualMachine]"))
    );
    let (_, listed) = hand.ask(&[("command", "listVirtualMachines"), ("listall", "true")]);
    assert_eq!(listed, json!({"listvirtualmachinesresponse": {}}));
    hand.pass(25 * 3600);
    hand.deploy("vm2");
    assert_eq!(hand.ask(&query).0, 431, "jobs are forgotten after a day");
}

#[test]
fn jobs_of_one_machine_run_one_after_the_other() {
    let mut hand = Hand::new();
    let (_, answer) = hand.deploy("vm1");
    let id = answer["deployvirtualmachineresponse"]["id"].as_str().unwrap().to_owned();
    for command in ["stopVirtualMachine", "startVirtualMachine"] {
        assert_eq!(hand.ask(&[("command", command), ("id", &id)]).0, 200);
    }
    let states: Vec<State> = [0, 3, 4, 5, 6, 7, 8]
        .iter()
        .map(|second| hand.world.machine_facts(hand.now.checked_add(Duration::from_secs(*second)).unwrap())[0].state)
        .collect();
    use State::{Running, Starting, Stopping};
    assert_eq!(states, [Starting, Starting, Stopping, Stopping, Starting, Starting, Running]);
}

#[test]
fn the_script_has_its_way_and_is_told_apart_in_the_log() {
    let mut hand = Hand::new();
    hand.world.script.add(Fault::refuse("listZones", 530, "by script"));
    hand.world.script.add(Fault::on("listDomains", What::CutAfter));
    assert_eq!(hand.ask(&[("command", "listZones")]).0, 530);
    assert_eq!(hand.ask(&[("command", "listZones")]).0, 200);
    let log = hand.world.log.entries();
    assert_eq!(log.iter().map(|entry| (entry.status, entry.scripted)).collect::<Vec<_>>(), [(530, true), (200, false)]);
    assert!(log.iter().all(|entry| entry.caller == "admin@ROOT" && entry.parameters["signature"].starts_with("***")));
}

#[test]
fn every_command_of_the_catalogue_is_carried_out() {
    let mut hand = Hand::new();
    for command in commands::all() {
        let (status, answer) = hand.ask(&[("command", command.name)]);
        assert!(!answer.to_string().contains("does not model the command"), "{answer}");
        assert_eq!(
            status == 200,
            !command.parameters.values().any(|one| one.required) && command.name != "deleteAffinityGroup",
            "{answer}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_request_breaks_the_world(
        method in "(GET|POST|PUT)", query in ".{0,60}", body in prop::collection::vec(any::<u8>(), 0..60),
        command in 0usize..24, values in prop::collection::vec((0usize..40, ".{0,8}"), 0..5),
    ) {
        let mut hand = Hand::new();
        let request = Request { method, path: PATH.to_owned(), query, headers: vec![("content-type".into(), "application/x-www-form-urlencoded".into())], body };
        let _ = hand.world.handle(hand.now, hand.now, &request);
        let command = commands::all().nth(command).unwrap();
        let names: Vec<&&str> = command.parameters.keys().collect();
        let given: Vec<(&str, &str)> = values.iter().filter_map(|(at, value)| Some((**names.get(at % names.len().max(1))?, value.as_str()))).collect();
        let (status, _) = hand.ask(&[&[("command", command.name)][..], given.as_slice()].concat());
        prop_assert!([200, 431, 531].contains(&status), "{}", status);
    }
}
