//! Answers that real servers gave to somebody else: Apache keeps them beside its client in Go, and
//! `hack/foreign-cloudstack go` says where they are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::judge::{Said, judge};
use super::read::{self, Item, Unread};
use crate::port::JobStatus;

type Read = fn(Item<'_>) -> Result<(), Unread>;

/// Every list that is read, with what it is a list of.
const LISTS: [(&str, &str, Read); 10] = [
    ("listZones", "zone", |item| read::zone(item).map(drop)),
    ("listDomains", "domain", |item| read::domain(item).map(drop)),
    ("listAccounts", "account", |item| read::account(item).map(drop)),
    ("listUsers", "user", |item| read::user(item).map(drop)),
    ("listNetworks", "network", |item| read::network(item).map(drop)),
    ("listTemplates", "template", |item| read::template(item).map(drop)),
    ("listServiceOfferings", "serviceoffering", |item| read::service_offering(item).map(drop)),
    ("listDiskOfferings", "diskoffering", |item| read::disk_offering(item).map(drop)),
    ("listAffinityGroups", "affinitygroup", |item| read::affinity_group(item).map(drop)),
    ("listVirtualMachines", "virtualmachine", |item| read::virtual_machine(item).map(drop)),
];

/// Every answer below a value, by its command.
fn gather(value: &Value, found: &mut Vec<(String, Value)>) {
    for (command, answer) in value.as_object().into_iter().flatten() {
        found.push((command.clone(), answer.clone()));
        gather(answer, found);
    }
}

/// What is behind the only key of an answer; what is none has no such key.
fn said(answer: &Value) -> Option<Said> {
    let now = "2026-11-15T20:00:00Z".parse().unwrap();
    judge(StatusCode::OK, &HeaderMap::new(), answer.to_string().as_bytes(), now, &[]).ok()
}

#[test]
#[ignore = "hack/foreign-cloudstack has the answers"]
fn what_real_servers_answered_is_read() {
    let place = PathBuf::from(std::env::var_os("BERTH_CLOUDSTACK_ANSWERS").unwrap());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&place).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "json") {
            gather(&serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap(), &mut found);
        }
    }
    let (mut counts, mut machines) = (BTreeMap::<&str, usize>::new(), 0);
    for (command, answer) in &found {
        let Some(said) = said(answer) else { continue };
        if let Some((name, noun, read)) = LISTS.iter().find(|(name, ..)| name == command) {
            for entry in said.get(*noun).and_then(Value::as_array).into_iter().flatten() {
                read(Item(entry.as_object().unwrap())).unwrap_or_else(|error| panic!("{name}: {error}: {entry}"));
                *counts.entry(name).or_default() += 1;
            }
        }
        // Of what takes its time the answer about the job was recorded; machines in it have such fields too.
        if said.contains_key("cmd") && said.contains_key("jobstatus") {
            let job = read::job(Item(&said)).unwrap_or_else(|error| panic!("{command}: {error}: {answer}"));
            assert!(matches!(job.status, JobStatus::Done(_)), "{command}: {job:?}");
            machines += usize::from(matches!(job.status, JobStatus::Done(Some(_))));
            *counts.entry("jobs").or_default() += 1;
        }
    }
    // Not every list was recorded.
    assert!(counts.len() > 5 && counts.contains_key("listVirtualMachines") && machines > 2, "{counts:?}");
    println!("{counts:?}");
}
