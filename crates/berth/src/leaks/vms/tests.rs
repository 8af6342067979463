use ::cloudstack::port::{MachineState, Tags};
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use sim::cloudstack::world::faults::Fault;
use sim::cloudstack::world::machine::{Machine, State};
use sim::cloudstack::{Handle, Options};
use sim::server::{Action, Kind as Served, Rule, Server};
use sim::time::History;

use super::*;
use crate::screen::tests::{at_widths, document};

const CLAIMS: &str = "hostclaims.metal3.io";
/// The uid of a claim that is there, and that of one that is not.
const HERE: &str = "5b2c7f0e-6a60-4c0b-9a2f-0d6f2f3c9c11";
const GONE: &str = "0b6f7a6e-3f2e-4a51-9d43-7c1f7f0e8a11";

fn world() -> Server {
    let server = Server::new(1);
    server.register(Served::namespaced("metal3.io", "v1alpha1", "HostClaim", "hostclaims"));
    for space in ["team-a", "team-b"] {
        server.namespace(space);
    }
    server
}

/// A claim whose Secret is of its namespace; gives its uid.
fn claim(server: &Server, space: &str, name: &str) -> String {
    let meta = json!({"namespace": space, "name": name});
    let spec = json!({"poweredOn": true, "kind": KIND, "args": {"identity": "cloudstack"}});
    let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": meta, "spec": spec});
    let made = server.put(object).unwrap();
    made["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn keys_of(server: &Server, space: &str, values: [&str; 3]) {
    let data: serde_json::Map<String, Value> = ["api-url", "api-key", "secret-key"]
        .into_iter()
        .zip(values)
        .map(|(key, value)| (key.to_owned(), json!(ByteString(value.as_bytes().to_vec()))))
        .collect();
    let meta = json!({"namespace": space, "name": "cloudstack"});
    server.put(json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})).unwrap();
}

/// A machine that runs, by its name and the value of its tag; gives its id.
fn machine(acs: &Handle, name: &str, tag: Option<&str>) -> String {
    acs.with(|world, now| {
        let number = world.machines.len() as u64 + 1;
        let id = format!("00000000-0000-4000-a000-{number:012}");
        let one = Machine {
            id: id.clone(),
            number,
            name: name.to_owned(),
            display_name: name.to_owned(),
            account: "user".to_owned(),
            domain: "ROOT/tenant/team".to_owned(),
            zone: world.zones[0].id.clone(),
            template: String::new(),
            offering: String::new(),
            networks: Vec::new(),
            groups: Vec::new(),
            disk: None,
            user_data: Vec::new(),
            created: now,
            state: History::new(now, State::Running),
            tags: tag.map(|uid| (TAG.to_owned(), uid.to_owned())).into_iter().collect(),
            busy: now,
        };
        world.machines.insert(id.clone(), one);
        id
    })
}

async fn looked(server: &Server, acs: &Handle, identities: &[ObjectKey]) -> anyhow::Result<Seen> {
    let client = server.client("leaks").kube();
    let operator = Operator::find(&client, SYSTEM_NAMESPACE).await;
    let origin: Allowed = acs.endpoint.trim_end_matches("/client/api").parse().unwrap();
    let reach = keys::reach_within(&operator, &[origin], PATIENCE);
    Box::pin(look(&client, &operator, identities, &reach, &Clock::system())).await
}

/// What is found, each by its id.
async fn found(server: &Server, acs: &Handle) -> Vec<(String, Whose)> {
    let seen = looked(server, acs, &[]).await.unwrap();
    seen.rows.into_iter().map(|row| (row.id, row.whose)).collect()
}

#[tokio::test]
async fn a_machine_leaks_when_its_claim_is_gone_and_neither_before_nor_when_it_is_not_ours() {
    let acs = sim::cloudstack::start(Options::default()).await.unwrap();
    let server = world();
    keys_of(&server, "team-a", [&acs.endpoint, &acs.api_key, &acs.secret_key]);
    // This one goes on naming the keys.
    claim(&server, "team-a", "web-1");
    let uid = claim(&server, "team-a", "web-0");
    let lost = machine(&acs, &machine_name(&uid), Some(&uid));
    for foreign in ["db-1", "hc-backup-0"] {
        machine(&acs, foreign, None);
    }
    assert_eq!(found(&server, &acs).await, []);

    assert!(server.delete(CLAIMS, "team-a", "web-0"));
    let seen = looked(&server, &acs, &[]).await.unwrap();
    assert_eq!(seen.rows.len(), 1, "{:?}", seen.rows);
    let row = &seen.rows[0];
    assert_eq!((&row.id, row.whose, row.claim_uid.as_str()), (&lost, Whose::Nobody, uid.as_str()));
    assert_eq!((row.zone.as_deref(), row.account.as_deref()), (Some("zone-1"), Some("user")));
    assert_eq!((row.domain.as_deref(), row.state.as_str()), (Some("ROOT/tenant/team"), "Running"));
    assert!(row.age_seconds.is_some_and(|age| age < 3_600), "{row:?}");
    assert_eq!(row.identities, ["team-a/cloudstack"]);

    let again = claim(&server, "team-a", "web-0");
    assert_ne!(again, uid);
    assert_eq!(found(&server, &acs).await, [(lost.clone(), Whose::Nobody)], "another claim of that name owns nothing");
    assert!(acs.set_state(&lost, State::Expunging));
    assert_eq!(found(&server, &acs).await, [], "it is being removed");
    assert!(acs.log().iter().all(|call| call.command == "listVirtualMachines"), "it only looks");
}

#[tokio::test]
async fn keys_that_do_not_work_are_told_and_what_they_are_is_not() {
    let acs = sim::cloudstack::start(Options::default()).await.unwrap();
    let server = world();
    claim(&server, "team-a", "web-0");
    claim(&server, "team-b", "web-0");
    let lost = machine(&acs, &machine_name(GONE), Some(GONE));
    let right = [acs.endpoint.as_str(), acs.api_key.as_str(), acs.secret_key.as_str()];
    keys_of(&server, "team-a", right);
    keys_of(&server, "team-b", right);
    let seen = looked(&server, &acs, &[]).await.unwrap();
    assert_eq!(seen.rows[0].identities, ["team-a/cloudstack", "team-b/cloudstack"]);
    assert_eq!((seen.rows.len(), acs.calls("listVirtualMachines")), (1, 1), "the same keys ask once");

    keys_of(&server, "team-b", [&acs.endpoint, &acs.api_key, "canary-of-a-secret"]);
    let seen = looked(&server, &acs, &[]).await.unwrap();
    assert_eq!(seen.rows.iter().map(|row| &row.id).collect::<Vec<_>>(), [&lost], "the others are asked all the same");
    let told = seen.unseen.join("\n");
    assert!(told.contains("with the keys of Secret team-b/cloudstack: "), "{told}");
    assert!(!told.contains("canary") && !told.contains(&acs.api_key), "{told}");

    acs.script(Fault::deny("listVirtualMachines"));
    assert!(server.delete("secrets", "team-b", "cloudstack"));
    let error = looked(&server, &acs, &[]).await.err().unwrap();
    let told = format!("{error:#}");
    assert!(told.starts_with("no CloudStack could be looked into: "), "{told}");
    assert!(told.contains("Secret team-b/cloudstack: it is not there"), "{told}");
    assert!(!told.contains("canary") && !told.contains(&acs.secret_key), "{told}");
}

#[tokio::test]
async fn without_all_claims_nothing_is_called_a_leak() {
    let acs = sim::cloudstack::start(Options::default()).await.unwrap();
    let right = [acs.endpoint.as_str(), acs.api_key.as_str(), acs.secret_key.as_str()];
    let lost = machine(&acs, &machine_name(GONE), Some(GONE));
    let server = world();
    keys_of(&server, "team-a", right);
    let error = looked(&server, &acs, &[]).await.err().unwrap();
    assert!(error.is::<Usage>() && error.to_string().contains("--identity"), "{error:#}");
    let given = [secret("team-a/cloudstack").unwrap()];
    let seen = looked(&server, &acs, &given).await.unwrap();
    assert_eq!(seen.rows.iter().map(|row| (&row.id, row.whose)).collect::<Vec<_>>(), [(&lost, Whose::Nobody)]);

    server.inject(Rule::any().path_contains("/hostclaims").always(), Action::Status(403));
    let error = looked(&server, &acs, &given).await.err().unwrap();
    let told = format!("{error:#}");
    assert!(told.starts_with("whose a virtual machine is cannot be told: you may not list hostclaims"), "{told}");

    let bare = Server::new(2);
    bare.namespace("team-a");
    keys_of(&bare, "team-a", right);
    let seen = looked(&bare, &acs, &given).await.unwrap();
    assert_eq!(seen.rows.iter().map(|row| (&row.id, row.whose)).collect::<Vec<_>>(), [(&lost, Whose::Doubtful)]);
    assert!(seen.unseen.iter().any(|why| why.contains("does not know HostClaim")), "{:?}", seen.unseen);
}

#[test]
fn a_secret_is_given_with_its_namespace() {
    assert_eq!(secret("team-a/cloudstack").unwrap(), ObjectKey::namespaced("team-a", "cloudstack"));
    for bad in ["", "cloudstack", "/cloudstack", "team-a/", "a/b/c"] {
        assert!(secret(bad).unwrap_err().contains("team-a/cloudstack"), "{bad}");
    }
}

#[test]
fn virtual_machines_are_only_listed_and_not_mixed_with_hosts() {
    use clap::Parser as _;
    let read = |more: &[&str]| crate::cli::Cli::try_parse_from([&["berth", "leaks"], more].concat());
    let given = ["--cloudstack", "--identity", "team-a/cloudstack", "-n", "ops", "--system-namespace", "clouds"];
    match read(&given).unwrap().command {
        crate::cli::Command::Leaks(options) => {
            assert!(options.cloudstack.cloudstack && options.cloudstack.identity.len() == 1);
        }
        other => panic!("{other:?}"),
    }
    for wrong in [
        &["--cloudstack", "--release"][..],
        &["--cloudstack", "--fix", "--yes"],
        &["--cloudstack", "--price", "m5.metal=1"],
        &["--cloudstack", "--region", "us-west-2"],
        &["--identity", "team-a/cloudstack"],
        &["--system-namespace", "clouds"],
    ] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
}

fn vm(id: &str, name: &str, tag: Option<&str>) -> VirtualMachine {
    VirtualMachine {
        id: id.parse().unwrap(),
        name: name.to_owned(),
        display_name: None,
        state: MachineState::Stopped,
        zone: None,
        zone_name: None,
        account: None,
        domain: None,
        created: None,
        template: None,
        offering: None,
        nics: Vec::new(),
        affinity_groups: Vec::new(),
        tags: tag.map(|uid| (TAG.to_owned(), uid.to_owned())).into_iter().collect::<Tags>(),
    }
}

fn shown(machine: VirtualMachine) -> Shown {
    let identities = BTreeSet::from(["team-a/cloudstack".to_owned()]);
    Shown { cloud: "acs.example".to_owned(), machine, identities }
}

fn owners() -> Owners {
    Owners { claims: BTreeMap::from([(HERE.into(), ObjectKey::namespaced("team-a", "web-0"))]), served: true }
}

fn now() -> Timestamp {
    "2026-01-02T12:00:00Z".parse().unwrap()
}

#[test]
fn a_machine_is_its_claims_by_uid_and_name_and_what_does_not_fit_is_doubtful() {
    let whose = |machine: VirtualMachine| owners().rows([&shown(machine)], now()).first().map(|row| row.whose);
    let (here, gone) = (machine_name(HERE), machine_name(GONE));
    assert_eq!(whose(vm("a", &here, Some(HERE))), None);
    assert_eq!(whose(vm("a", &here, None)), None, "its tag is set in a moment");
    assert_eq!(whose(vm("a", "db-1", None)), None);
    assert_eq!(whose(vm("a", &gone, Some(GONE))), Some(Whose::Nobody));
    assert_eq!(whose(vm("a", &gone, None)), Some(Whose::Doubtful));
    assert_eq!(whose(vm("a", "renamed", Some(GONE))), Some(Whose::Doubtful));
    assert_eq!(whose(vm("a", "renamed", Some(HERE))), Some(Whose::Doubtful), "its claim does not find it");
    assert_eq!(whose(vm("a", &here, Some(GONE))), Some(Whose::Doubtful));
    for state in [MachineState::Destroyed, MachineState::Expunging] {
        assert_eq!(whose(VirtualMachine { state, ..vm("a", &gone, Some(GONE)) }), None);
    }
    let failed = VirtualMachine { state: MachineState::Error, ..vm("a", &gone, Some(GONE)) };
    assert_eq!(whose(failed), Some(Whose::Nobody), "what could not be made must be destroyed, too");
}

#[test]
fn a_claim_that_came_or_went_while_cloudstack_was_asked_owns_its_machine() {
    let of = |uid: &str| {
        let wire = json!({"metadata": {"namespace": "team-a", "name": "web-0", "uid": uid},
            "spec": {"poweredOn": true, "kind": KIND}});
        let facts = ClaimFacts::of(serde_json::from_value(wire).unwrap());
        Claims { all: vec![(ObjectKey::namespaced("team-a", "web-0"), facts)], absent: None }
    };
    let (went, came) =
        (shown(vm("a", &machine_name(GONE), Some(GONE))), shown(vm("b", &machine_name(HERE), Some(HERE))));
    assert_eq!(Owners::of(&of(GONE), &of(HERE)).rows([&went, &came], now()), []);
    assert_eq!(Owners::of(&of(HERE), &of(HERE)).rows([&went, &came], now()).len(), 1);
}

fn account() -> Vec<Row> {
    let lost = VirtualMachine {
        state: MachineState::Running,
        zone_name: Some("zone-1".to_owned()),
        account: Some("user".to_owned()),
        domain: Some("ROOT/tenant/team".to_owned()),
        created: Some("2026-01-02T08:30:00Z".parse().unwrap()),
        ..vm("a-1", &machine_name(GONE), Some(GONE))
    };
    let mut lost = shown(lost);
    lost.identities.insert("team-b/cloudstack".to_owned());
    let renamed = VirtualMachine { zone: Some("z-2".parse().unwrap()), ..vm("a-2", "renamed", Some(HERE)) };
    let kept = vm("a-3", &machine_name(HERE), Some(HERE));
    owners().rows([&shown(renamed), &shown(kept), &lost], now())
}

#[test]
fn machines_without_a_claim_with_what_proves_it() {
    let rows = account();
    let unseen = ["machines with the keys of Secret team-c/cloudstack: it is not there".to_owned()];
    insta::assert_snapshot!(at_widths(|screen| machines_screen(screen, &rows) + &unseen_screen(screen, &unseen)));
    let all = Rows { items: &rows, unseen: &unseen };
    insta::assert_snapshot!("machines_for_programs", document("VirtualMachineLeakList", &all));
    insta::assert_snapshot!("no_machine_without_a_claim", at_widths(|screen| machines_screen(screen, &[])));
}
