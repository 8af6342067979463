use api::names::hosts::{ALLOCATION_ID_TAG, MANAGEMENT_CLUSTER_TAG, RETAINED_FROM_TAG, RETAINED_TAG};
use api::raw::{AWSMachine, HostClaim};
use aws::port::{HostState, HostedInstance};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::release::{Outcome, Outcomes, confirmed, outcomes_screen};
use super::*;
use crate::screen::tests::{at_widths, document};

const NOW: &str = "2026-01-02T12:00:00Z";
const HERE: &str = "5b2c7f0e-6a60-4c0b-9a2f-0d6f2f3c9c11";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn host(number: u8, allocation: Option<&str>, allocated: &str) -> Host {
    let mut tags = aws::port::Tags::from([
        (MANAGEMENT_CLUSTER_TAG.to_owned(), HERE.to_owned()),
        ("sigs.k8s.io/cluster-api-provider-aws/cluster/prod".to_owned(), "owned".to_owned()),
        ("MachineName".to_owned(), format!("team-a/prod-{number}")),
    ]);
    tags.extend(allocation.map(|id| (ALLOCATION_ID_TAG.to_owned(), id.to_owned())));
    Host {
        id: format!("h-000000000000000{number:02x}").parse().unwrap(),
        state: HostState::Available,
        zone: Some("us-west-2a".parse().unwrap()),
        instance_type: Some("m5.metal".to_owned()),
        instance_family: None,
        client_token: None,
        allocated: Some(allocated.parse().unwrap()),
        released: None,
        room: Vec::new(),
        free_vcpus: None,
        instances: Vec::new(),
        auto_placement: None,
        recovery: None,
        maintenance: None,
        reservation: None,
        owner: None,
        in_resource_group: false,
        tags,
    }
}

fn used(mut host: Host) -> Host {
    let id = "i-0123456789abcdef0".parse().unwrap();
    host.instances = vec![HostedInstance { id, instance_type: "m5.metal".to_owned(), owner: None }];
    host
}

fn machine(name: &str, id: &str, phase: &str, hosts: &[&Host]) -> AWSMachine {
    with(name, &journal(id, phase, hosts))
}

fn journal(id: &str, phase: &str, hosts: &[&Host]) -> String {
    let hosts: Vec<String> = hosts.iter().map(|host| host.id.to_string()).collect();
    let journal = json!({"v": 1, "id": id, "epoch": 1, "token": format!("dh-{id}-1"), "az": "us-west-2a",
        "subnet": "subnet-0a0a0a0a", "type": "m5.metal", "qty": 1, "phase": phase, "hosts": hosts, "at": "2026-01-02T09:00:00Z"});
    journal.to_string()
}

fn with(name: &str, journal: &str) -> AWSMachine {
    let wire: Value = json!({
        "metadata": {"namespace": "team-a", "name": name, "annotations": {
            "hosts.berth.dev/allocation": journal, "hosts.berth.dev/scope": "{\"region\":\"us-west-2\"}"}},
        "spec": {"instanceType": "m5.metal"},
    });
    serde_json::from_value(wire).unwrap()
}

/// A claim of a kind whose journal says this.
fn claim(name: &str, kind: &str, journal: &str) -> HostClaim {
    let wire: Value = json!({
        "metadata": {"namespace": "team-a", "name": name, "uid": format!("uid-of-{name}"), "annotations": {
            "hosts.berth.dev/allocation": journal, "hosts.berth.dev/scope": "{\"region\":\"us-west-2\"}"}},
        "spec": {"poweredOn": true, "kind": kind},
    });
    serde_json::from_value(wire).unwrap()
}

/// The same host, allocated for a claim.
fn claimed(mut host: Host, name: &str) -> Host {
    host.tags.insert("MachineName".to_owned(), format!("team-a/HostClaim/{name}"));
    host
}

fn paused(name: &str) -> api::views::Cluster {
    serde_json::from_value(json!({"metadata": {"namespace": "team-a", "name": name}, "spec": {"paused": true}}))
        .unwrap()
}

const OLD: &str = "2026-01-02T08:30:00Z";

/// One of each.
fn account() -> (Books, Vec<Host>) {
    let (runs, empty, leaves) = (
        used(host(1, Some("allocation-1"), OLD)),
        host(2, Some("allocation-2"), OLD),
        host(3, Some("allocation-3"), OLD),
    );
    let mut retained = host(4, None, OLD);
    retained.tags.insert(RETAINED_TAG.to_owned(), "true".to_owned());
    retained.tags.insert(RETAINED_FROM_TAG.to_owned(), "team-b/win-1".to_owned());
    let mut foreign = host(5, Some("allocation-5"), OLD);
    foreign.tags.insert(MANAGEMENT_CLUSTER_TAG.to_owned(), "another".to_owned());
    let machines = vec![
        machine("prod-1", "allocation-1", "Allocated", &[&runs]),
        machine("prod-2", "allocation-2", "Intended", &[]),
        machine("prod-3", "allocation-3", "Releasing", &[&leaves]),
    ];
    let (lost, young) = (host(6, Some("allocation-6"), OLD), host(7, Some("allocation-7"), "2026-01-02T11:30:00Z"));
    let busy = used(host(8, Some("allocation-8"), OLD));
    (Books::of(machines, Vec::new(), &[], HERE), vec![runs, empty, leaves, retained, foreign, lost, young, busy])
}

fn whose(books: &Books, host: &Host) -> (Whose, String) {
    let row = books.rows("us-west-2", std::slice::from_ref(host), now()).remove(0);
    (row.whose, row.note)
}

#[test]
fn a_host_of_a_cluster_that_is_kept_here_is_listed_although_it_names_another_keeper() {
    let mut lost = host(5, Some("allocation-5"), OLD);
    lost.tags.insert(MANAGEMENT_CLUSTER_TAG.to_owned(), "another".to_owned());
    let mut kept = paused("prod");
    kept.spec.paused = false;
    let books = |machines| Books::of(machines, Vec::new(), std::slice::from_ref(&kept), HERE);
    let (found, note) = whose(&books(Vec::new()), &lost);
    assert_eq!(found, Whose::Doubtful, "{note}");
    assert!(note.contains("another"), "{note}");
    let named = machine("prod-5", "allocation-5", "Allocated", &[&lost]);
    assert_eq!(whose(&books(vec![named]), &lost).0, Whose::Elsewhere, "its machine tags it in its next pass");
}

#[test]
fn every_host_is_told_whose_it_is() {
    let (books, hosts) = account();
    let found: Vec<Whose> = hosts.iter().map(|host| whose(&books, host).0).collect();
    use Whose::{Doubtful, Elsewhere, Idle, Leaving, Machine, Nobody, Retained};
    assert_eq!(found, [Machine, Idle, Leaving, Retained, Elsewhere, Nobody, Doubtful, Doubtful]);
    assert_eq!(books.regions.iter().map(ToString::to_string).collect::<Vec<_>>(), ["us-west-2"]);
}

#[test]
fn a_leak_must_be_proven() {
    let lost = host(6, Some("allocation-6"), OLD);
    let proven = Books::of(Vec::new(), Vec::new(), &[], HERE);
    assert_eq!(whose(&proven, &lost).0, Whose::Nobody);
    let torn = Books::of(vec![with("torn", "{")], Vec::new(), &[], HERE);
    let (found, note) = whose(&torn, &lost);
    assert!(found == Whose::Doubtful && note.contains("team-a/torn"), "{note}");
    let moving = Books::of(Vec::new(), Vec::new(), &[paused("prod")], HERE);
    let (found, note) = whose(&moving, &lost);
    assert!(found == Whose::Doubtful && note.contains("Cluster prod is paused"), "{note}");
    assert_eq!(whose(&Books::of(Vec::new(), Vec::new(), &[paused("other")], HERE), &lost).0, Whose::Nobody);
    let reserved = Host { reservation: Some("hr-1".to_owned()), ..lost.clone() };
    assert_eq!(whose(&proven, &reserved).0, Whose::Doubtful);
    let mut untagged = lost.clone();
    untagged.tags.remove(MANAGEMENT_CLUSTER_TAG);
    let (found, note) = whose(&proven, &untagged);
    assert!(found == Whose::Doubtful && note.contains(MANAGEMENT_CLUSTER_TAG), "{note}");
    let over = Books::of(vec![machine("m", "allocation-6", "Released", &[])], Vec::new(), &[], HERE);
    assert_eq!(whose(&over, &lost).0, Whose::Doubtful, "its machine must say what became of it");
}

#[test]
fn a_host_that_a_claim_names_is_no_leak() {
    let (runs, empty) = (
        claimed(used(host(9, Some("allocation-9"), OLD)), "web-0"),
        claimed(host(10, Some("allocation-10"), OLD), "web-1"),
    );
    let left = claimed(host(11, Some("allocation-11"), OLD), "gone");
    let alone = Books::of(Vec::new(), Vec::new(), &[], HERE);
    assert_eq!(whose(&alone, &empty).0, Whose::Nobody, "its claim is not there");
    let (first, second) = (journal("allocation-9", "Allocated", &[&runs]), journal("allocation-10", "Intended", &[]));
    let claims = vec![claim("web-0", "aws-dedicated-host", &first), claim("web-1", "aws-dedicated-host", &second)];
    let books = Books::of(Vec::new(), claims, &[], HERE);
    let rows = books.rows("us-west-2", &[runs.clone(), empty.clone(), left.clone()], now());
    let told: Vec<_> = rows.iter().map(|row| (row.whose, row.machine.as_deref().unwrap())).collect();
    assert_eq!(
        told,
        [
            (Whose::Machine, "team-a/HostClaim/web-0"),
            (Whose::Idle, "team-a/HostClaim/web-1"),
            (Whose::Nobody, "team-a/HostClaim/gone")
        ]
    );
    assert!(rows[2].proof.iter().any(|line| line.contains("none of the 0 AWSMachines and 2 claims")), "{:?}", rows[2]);
    assert_eq!(books.regions.iter().map(ToString::to_string).collect::<Vec<_>>(), ["us-west-2"]);
    // A claim of another kind owns nothing here, whatever its tenant wrote on it.
    let other = Books::of(Vec::new(), vec![claim("web-1", "cloudstack-vm", &second)], &[], HERE);
    assert_eq!(whose(&other, &empty).0, Whose::Nobody);
    // Nor does a tenant hide what was allocated for somebody else.
    let thief = journal("allocation-11", "Allocated", &[&left]);
    let (found, note) =
        whose(&Books::of(Vec::new(), vec![claim("thief", "aws-dedicated-host", &thief)], &[], HERE), &left);
    assert!(found == Whose::Doubtful && note.contains("HostClaim/thief") && note.contains("HostClaim/gone"), "{note}");
    let torn = Books::of(Vec::new(), vec![claim("torn", "aws-dedicated-host", "{")], &[], HERE);
    let (found, note) = whose(&torn, &left);
    assert!(found == Whose::Doubtful && note.contains("team-a/HostClaim/torn"), "{note}");
}

#[test]
fn a_shared_host_is_that_of_the_claim_which_its_tags_name() {
    let shared = claimed(used(host(12, Some("allocation-12"), OLD)), "web-1");
    let (place, has) =
        (journal("allocation-13", "Claimed", &[&shared]), journal("allocation-12", "Allocated", &[&shared]));
    let claims = vec![claim("web-0", "aws-dedicated-host", &place), claim("web-1", "aws-dedicated-host", &has)];
    let books = Books::of(Vec::new(), claims, &[], HERE);
    let row = books.rows("us-west-2", std::slice::from_ref(&shared), now()).remove(0);
    assert_eq!((row.whose, row.machine.as_deref()), (Whose::Machine, Some("team-a/HostClaim/web-1")), "{}", row.note);
}

#[test]
fn the_table_of_dedicated_hosts() {
    let (books, hosts) = account();
    let mut rows = books.rows("us-west-2", &hosts, now());
    rows.sort_by(|a, b| (a.whose, &a.host).cmp(&(b.whose, &b.host)));
    insta::assert_snapshot!(at_widths(|screen| hosts_screen(screen, &rows)));
}

#[test]
fn leaks_with_what_proves_them() {
    let (books, hosts) = account();
    let mut rows = books.rows("us-west-2", &hosts, now());
    rows.retain(|row| row.whose <= Whose::Doubtful);
    rows.sort_by(|a, b| (a.whose, &a.host).cmp(&(b.whose, &b.host)));
    let unseen = ["hosts in us-east-1: no credentials".to_owned()];
    insta::assert_snapshot!(at_widths(|screen| leaks_screen(screen, &rows, false) + &unseen_screen(screen, &unseen)));
    insta::assert_snapshot!("leaks_for_programs", document("LeakList", &Rows { items: &rows, unseen: &unseen }));
}

#[test]
fn what_is_said_when_nothing_leaks_fits_any_screen() {
    insta::assert_snapshot!(at_widths(|screen| leaks_screen(screen, &[], false) + &hosts_screen(screen, &[])));
}

/// The leaks of the account, the first of them twice: of another type as well.
fn leaked(prices: &[&str]) -> Vec<Row> {
    let (books, hosts) = account();
    let prices: Vec<Price> = prices.iter().map(|price| price.parse().unwrap()).collect();
    let mut rows = books.rows("us-west-2", &hosts, now());
    rows.retain(|row| row.whose == Whose::Nobody);
    let other = Row { host: "h-00000000000000099".to_owned(), kind: Some("c5.metal".to_owned()), ..rows[0].clone() };
    rows.push(other);
    rows.into_iter().map(|row| priced(row, &prices)).collect()
}

#[test]
fn what_leaks_cost_is_told_at_given_prices_and_never_guessed() {
    let told = |prices: &[&str]| {
        let shown = leaks_screen(Screen { width: None, colour: false }, &leaked(prices), false);
        let lines = shown.lines().filter(|line| line.contains(" hours"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let bare = told(&[]);
    assert!(
        bare[0].ends_with("m5.metal, available, paid for 3.5 hours") && bare[1].ends_with("paid for 3.5 hours"),
        "{bare:?}"
    );
    assert_eq!(
        bare[2],
        "2 of 2 proven to be nobody's, together paid for 7.0 hours; what that costs is told with --price TYPE=USD"
    );
    let one = told(&["m5.metal=4.608", "mac2.metal=1"]);
    assert!(
        one[0].ends_with("paid for 3.5 hours, about 16.13 USD") && one[1].ends_with("paid for 3.5 hours"),
        "{one:?}"
    );
    assert!(one[2].ends_with("hours, about 16.13 USD without c5.metal, whose price was not given"), "{one:?}");
    let both = told(&["m5.metal=4.608", "c5.metal=4.08"]);
    assert!(both[2].ends_with("together paid for 7.0 hours, about 30.41 USD"), "{both:?}");
}

#[test]
fn a_host_of_which_too_little_is_known_is_not_left_out_in_silence() {
    let mut rows = leaked(&["m5.metal=4.608"]);
    let nameless = Row { kind: None, cost: None, ..rows[0].clone() };
    rows.push(nameless);
    let told = together(rows.iter());
    let both = "about 16.13 USD without c5.metal, whose price was not given, and without those of which type or age is not known";
    assert_eq!(told, format!("together paid for 10.5 hours, {both}"));
    rows.remove(1);
    rows[1].age_seconds = None;
    let told = together(rows.iter());
    let blank = "about 16.13 USD without those of which type or age is not known";
    assert_eq!(told, format!("together paid for at least 3.5 hours, {blank}"));
}

#[test]
fn releasing_goes_by_two_names() {
    use clap::Parser as _;
    for (args, wanted) in [(vec![], false), (vec!["--release"], true), (vec!["--fix", "--yes"], true)] {
        match crate::cli::Cli::parse_from([vec!["berth", "leaks"], args].concat()).command {
            crate::cli::Command::Leaks(options) => assert_eq!(options.release, wanted),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn dedicated_hosts_for_programs() {
    let (books, hosts) = account();
    let rows = books.rows("us-west-2", &hosts[..2], now());
    let unseen = ["hosts in us-east-1: no credentials".to_owned()];
    insta::assert_snapshot!(document("DedicatedHostList", &Rows { items: &rows, unseen: &unseen }));
}

#[test]
fn releasing_shows_the_proof_asks_and_tells_what_became_of_each() {
    let rows = leaked(&["m5.metal=4.608", "c5.metal=4.08"]);
    let outcome = |number: u8, why: Option<&str>| Outcome {
        host: format!("h-000000000000000{number:02x}"),
        region: "us-west-2".to_owned(),
        released: why.is_none(),
        why: why.map(str::to_owned),
        proof: if why.is_none() { rows[0].proof.clone() } else { Vec::new() },
    };
    let outcomes = [
        outcome(6, None),
        outcome(0x99, Some("looked at once more, no machine names it, but something runs on it")),
        outcome(8, Some("InvalidHost.Occupied: the host is in use")),
    ];
    let mut question = Vec::new();
    assert!(confirmed(rows.len(), true, &mut "yes\n".as_bytes(), &mut question).unwrap());
    let question = String::from_utf8(question).unwrap();
    let unseen = ["hosts in us-east-1: no credentials".to_owned()];
    insta::assert_snapshot!(at_widths(|screen| {
        let shown = leaks_screen(screen, &rows, true) + &unseen_screen(screen, &unseen);
        let asked = screen::text(screen, question.trim_start());
        format!("{shown}\n{asked}{}", outcomes_screen(screen, &outcomes))
    }));
    insta::assert_snapshot!("releases_for_programs", document("ReleaseList", &Outcomes { items: &outcomes }));
    assert_eq!(outcomes_screen(Screen { width: None, colour: false }, &outcomes[..1]).lines().count(), 1);
}
