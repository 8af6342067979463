//! Kinds that have no screen of their own.

use api::meta::View;
use api::views::{self, metal_ipam};
use clap::Parser as _;
use kit::explain::{Explanation, Level};
use kit::kinds::Kind;
use serde_json::{Value, json};
use sim::dock::objects::merged;
use sim::server::{Action, Rule, Server};

use super::super::other::{PLANE, SORTS, Sort, explanation, find, undrawn};
use super::super::{Subject, subject};
use super::{NOW, read};
use crate::cli::{Cli, Command};
use crate::screen::tests::{at_widths, document};
use crate::screen::{self, Screen};

const TEAM: &str = "team-a";
/// What is told of a machine's infrastructure.
const NO_HOST: &str = "0/2 hosts fit: 2 in use";

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-02T03:01:00Z", "observedGeneration": 1})
}

fn object(name: &str, more: &Value) -> Value {
    merged(json!({"metadata": {"namespace": TEAM, "name": name, "uid": "u", "generation": 1}}), more)
}

fn tell(kind: &str, object: Value) -> Explanation {
    explanation(find(kind, "").unwrap(), &read(object), NOW.parse().unwrap())
}

/// The same at three widths, with the certainty that it can be drawn at each.
fn shown(told: &Explanation) -> String {
    at_widths(|screen| screen::explanation(screen, told))
}

fn fact<'a>(facts: &'a [kit::explain::Fact], name: &str) -> Option<&'a str> {
    facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str())
}

fn commands(told: &Explanation) -> Vec<&str> {
    told.fixes.iter().filter_map(|fix| fix.command.as_deref()).collect()
}

fn metal_cluster(conditions: &[Value]) -> Value {
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod", "uid": "c"});
    let more = json!({
        "metadata": {"ownerReferences": [owner], "labels": {"cluster.x-k8s.io/cluster-name": "prod"}},
        "spec": {"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}},
        "status": {"conditions": conditions, "observedGeneration": 1}});
    object("prod", &more)
}

#[test]
fn an_object_that_is_fine_is_told_in_a_few_lines() {
    let conditions =
        [condition("Ready", "True", "InfrastructureReady", ""), condition("Paused", "False", "NotPaused", "")];
    let told = tell("metal3cluster", metal_cluster(&conditions));
    assert_eq!((told.level, told.needs.len(), told.fixes.len()), (Level::Ok, 0, 0));
    let text = screen::explanation(Screen { width: Some(100), colour: false }, &told);
    let wanted = "\
Metal3Cluster team-a/prod
✓ all 2 conditions are as they should be

  owner     Cluster prod
  cluster   prod
  endpoint  192.0.2.1
";
    assert_eq!(text, wanted);
    shown(&told);
}

#[test]
fn each_condition_that_does_not_hold_is_told_with_what_it_means_and_since_when() {
    let message = "the Secret eksa-system/global is not there";
    let conditions = [
        condition("Valid", "False", "CredentialsInvalid", "the credentials are not valid"),
        condition("CredentialsValid", "False", "CredentialsInvalid", message),
        condition("EndpointReachable", "True", "EndpointAnswers", ""),
    ];
    let status = json!({"status": {"conditions": conditions, "specValid": false, "failureMessage": message}});
    let told = tell("cloudstackdatacenterconfig", object("zones", &status));
    // The cause and not the sum.
    assert_eq!((told.level, told.summary.as_str()), (Level::Problem, message));
    assert_eq!(fact(&told.facts, "failure"), None, "it is said");
    let names: Vec<&str> = told.needs.iter().map(|need| need.name.as_str()).collect();
    assert_eq!(names, ["Valid", "CredentialsValid"]);
    for need in &told.needs {
        assert_eq!((need.level, need.reason, need.required), (Level::Problem, Some("CredentialsInvalid"), true));
        let meaning = "A Secret is missing or incomplete, or CloudStack does not take its keys.";
        assert_eq!(fact(&need.facts, "meaning"), Some(meaning));
        assert_eq!(fact(&need.facts, "page"), Some("reasons/clusters.md#credentialsinvalid"));
        assert_eq!(fact(&need.facts, "since"), Some("2026-01-02T03:01:00Z, 3m ago"));
        assert_eq!(fact(&need.facts, "reason"), None, "it stands beside the name");
    }
    let look = "kubectl describe cloudstackdatacenterconfigs.anywhere.eks.amazonaws.com zones -n team-a";
    assert_eq!(commands(&told), [look]);
    let text = shown(&told);
    assert!(text.contains("✗ CredentialsValid (CredentialsInvalid)"), "{text}");
    assert!(text.contains("look further into Valid, CredentialsValid"), "{text}");
    let document = document("Explanation", &told);
    for part in ["\"apiVersion\": \"cli.berth.dev/v1\"", "\"kind\": \"Explanation\"", "\"level\": \"problem\""] {
        assert!(document.contains(part), "{part}: {document}");
    }
}

#[test]
fn kinds_without_a_screen_of_their_own_on_every_screen() {
    let fine = [condition("Ready", "True", "InfrastructureReady", ""), condition("Paused", "False", "NotPaused", "")];
    let waits = [
        condition("Ready", "False", "NotReady", "* InfrastructureReady: 0/2 hosts fit"),
        condition("InfrastructureReady", "False", "NoBareMetalHost", NO_HOST),
        condition("BootstrapConfigReady", "Unknown", "TideTooLow", ""),
        condition("Paused", "False", "NotPaused", ""),
    ];
    let told = [
        tell("metal3cluster", metal_cluster(&fine)),
        tell("machine", machine(&json!({"conditions": waits}))),
        tell("bundles", object("v0", &json!({"spec": {}}))),
    ];
    insta::assert_snapshot!(at_widths(|screen| super::super::explanations_screen(screen, &told)));
    insta::assert_snapshot!("another_kind_for_programs", document("Explanation", &told[1]));
}

#[test]
fn without_a_status_it_is_told_whether_one_is_to_be_expected() {
    let policy = tell("hostdeploypolicy", object("teams", &json!({"spec": {}})));
    assert_eq!(
        (policy.level, policy.summary.as_str()),
        (Level::Waiting, "nothing was said of it yet: it has no status")
    );
    let look = "kubectl describe hostdeploypolicies.metal3.io teams -n team-a";
    assert_eq!(commands(&policy), [look, "berth doctor"]);
    let bundles = tell("bundles", object("v0", &json!({"spec": {}})));
    assert_eq!((bundles.level, bundles.fixes.len()), (Level::Aside, 0), "{}", bundles.summary);
    // Somebody wrote a status that says nothing.
    let vague = tell("metal3cluster", object("prod", &json!({"status": {"failureDomains": []}})));
    assert_eq!(vague.level, Level::Unknown, "{}", vague.summary);
    for told in [policy, bundles, vague] {
        shown(&told);
    }
}

#[test]
fn a_kind_without_conditions_is_judged_by_whether_its_spec_is_valid() {
    let config = |generation: i64, status: Value| {
        let more = json!({"metadata": {"generation": generation}, "status": status});
        tell("csmc", object("workers", &more))
    };
    let valid = config(1, json!({"specValid": true, "observedGeneration": 1}));
    assert_eq!((valid.level, valid.summary.as_str()), (Level::Ok, "its spec is valid"));
    let why = "template rhel-9 is not there";
    let bad = config(1, json!({"specValid": false, "observedGeneration": 1, "failureMessage": why}));
    assert_eq!((bad.level, bad.summary.as_str()), (Level::Problem, why));
    assert!(shown(&bad).contains(why));
    let unsaid = config(1, json!({"specValid": false, "observedGeneration": 1}));
    assert_eq!(unsaid.level, Level::Problem);
    let behind = config(3, json!({"specValid": true, "observedGeneration": 2}));
    assert_eq!(behind.level, Level::Waiting);
    assert_eq!(behind.summary, "its status speaks of generation 2, and the spec is at generation 3 by now");
    assert_eq!(config(1, Value::Null).level, Level::Waiting);
}

#[test]
fn a_reason_that_is_not_known_is_kept_as_it_is() {
    let conditions = [condition("Ready", "False", "TideTooLow", "there is no water under the keel")];
    let told = tell("hcq", json!({"metadata": {"name": "yard"}, "status": {"conditions": conditions}}));
    let need = &told.needs[0];
    assert_eq!((need.level, need.reason), (Level::Problem, None));
    assert_eq!(fact(&need.facts, "reason"), Some("TideTooLow"));
    assert_eq!((fact(&need.facts, "page"), fact(&need.facts, "meaning")), (None, None));
    assert_eq!(commands(&told), ["kubectl describe hostclaimquotas.berth.dev yard"]);
    assert!(shown(&told).contains("TideTooLow"));
}

fn machine(status: &Value) -> Value {
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "workers-x", "uid": "s",
        "controller": true});
    let to = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "m-1"});
    let more = json!({"metadata": {"ownerReferences": [owner]}, "status": status, "spec": {
        "infrastructureRef": to("infrastructure.cluster.x-k8s.io", "Metal3Machine"),
        "bootstrap": {"configRef": to("bootstrap.cluster.x-k8s.io", "KubeadmConfig")}}});
    object("m-1", &more)
}

#[test]
fn who_owns_it_and_whom_it_waits_for_is_told_with_the_way_there() {
    let conditions = [
        condition("Ready", "False", "NotReady", "* InfrastructureReady: 0/2 hosts fit"),
        condition("InfrastructureReady", "False", "NoBareMetalHost", NO_HOST),
        condition("BootstrapConfigReady", "True", "Ready", ""),
        condition("Paused", "False", "NotPaused", ""),
    ];
    let told = tell("machine", machine(&json!({"conditions": conditions})));
    assert_eq!((told.level, told.summary.as_str()), (Level::Problem, NO_HOST));
    assert_eq!(fact(&told.facts, "owner"), Some("MachineSet workers-x"));
    assert_eq!(fact(&told.facts, "waits for"), Some("Metal3Machine m-1"), "and not for its bootstrap data");
    assert_eq!(fact(&told.facts, "bootstrap"), Some("KubeadmConfig m-1"));
    let look = "kubectl describe machines.cluster.x-k8s.io m-1 -n team-a";
    let owner = "berth explain machineset.cluster.x-k8s.io/workers-x -n team-a";
    assert_eq!(commands(&told), ["berth explain metal3machine/m-1 -n team-a", owner, look]);
    for command in &commands(&told)[..2] {
        let words = command.split(' ');
        assert!(Cli::try_parse_from(words).is_ok(), "{command}");
    }
    // The object is of others, and so may the word be.
    let need = told.needs.iter().find(|need| need.name == "InfrastructureReady").unwrap();
    let meaning = fact(&need.facts, "meaning").unwrap();
    assert!(meaning.starts_with("where it comes from Berth: No host fits the claim"), "{meaning}");
    shown(&told);
    let waits = object("m-1", &json!({"spec": {"template": {"name": "node-data"}}}));
    let told = tell("m3dc", waits);
    assert_eq!(fact(&told.facts, "waits for"), Some("Metal3DataTemplate node-data"));
    assert_eq!(commands(&told)[0], "berth explain metal3datatemplate/node-data -n team-a");
}

#[test]
fn what_the_server_of_another_kind_has_is_looked_at_with_kubectl() {
    let spec = json!({"spec": {"pool": {"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "racks"}}});
    let told = tell("ipclaim", object("m-1", &spec));
    assert_eq!((told.level, fact(&told.facts, "waits for")), (Level::Waiting, Some("IPPool racks")));
    assert_eq!(commands(&told)[0], "kubectl get ippool.ipam.metal3.io racks -n team-a -o yaml");
    // One without a namespace is not looked for in one.
    let spec = json!({"spec": {"poolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "GlobalInClusterIPPool", "name": "vips"}}});
    let claim = tell("ipaddressclaim", object("vip", &spec));
    assert_eq!(commands(&claim)[0], "berth explain globalinclusterippool/vips");
}

#[test]
fn both_contracts_of_cluster_api_are_read() {
    let older = json!({"type": "Ready", "status": "False", "severity": "Info", "reason": "Creating",
        "lastTransitionTime": "2026-01-02T03:01:00Z"});
    let waits = tell("machine", machine(&json!({"conditions": [older]})));
    assert_eq!((waits.level, waits.summary.as_str()), (Level::Waiting, "Ready is False, and nothing more is said"));
    let newer = [condition("Ready", "True", "Ready", ""), condition("Deleting", "False", "NotDeleting", "")];
    let both = tell("machine", machine(&json!({"conditions": [older], "v1beta2": {"conditions": newer}})));
    assert_eq!((both.level, both.needs.len()), (Level::Ok, 0), "the newer form is the one to go by");
}

#[test]
fn what_does_not_hold_while_the_whole_does_is_told_and_no_trouble() {
    let conditions =
        [condition("Ready", "True", "Ready", ""), condition("UpToDate", "False", "NotUpToDate", "version v1.34.1")];
    let told = tell("machine", machine(&json!({"conditions": conditions})));
    assert_eq!((told.level, told.needs.len()), (Level::Ok, 1), "{}", told.summary);
    assert!(!told.needs[0].required && told.summary.contains("UpToDate"), "{}", told.summary);
    let rolling = [condition("Available", "True", "Available", ""), condition("RollingOut", "True", "RollingOut", "")];
    let plane =
        explanation(&PLANE, &read(object("prod", &json!({"status": {"conditions": rolling}}))), NOW.parse().unwrap());
    assert_eq!((plane.level, plane.needs[0].level), (Level::Ok, Level::Waiting));
    assert!(commands(&plane).contains(&"berth tree kubeadmcontrolplane/prod -n team-a"), "{:?}", plane.fixes);
}

#[test]
fn paused_and_deleted_objects_are_told_as_such() {
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    let told = tell("metal3cluster", merged(metal_cluster(&[]), &paused));
    assert_eq!(told.level, Level::Aside);
    let resume =
        "kubectl annotate metal3clusters.infrastructure.cluster.x-k8s.io prod -n team-a cluster.x-k8s.io/paused-";
    assert_eq!(commands(&told), [resume]);
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-02T03:00:00Z", "finalizers": ["berth.dev/machines"]}});
    let told = tell("metal3cluster", merged(metal_cluster(&[]), &gone));
    assert_eq!(told.level, Level::Waiting);
    assert!(told.summary.contains("berth.dev/machines"), "{}", told.summary);
}

#[test]
fn hosts_are_judged_by_the_words_they_have() {
    let host = |status: Value| tell("bmh", object("rack1-node1", &json!({"status": status})));
    let error = "connection to the controller was lost";
    assert_eq!(host(json!({"operationalStatus": "OK", "errorMessage": ""})).level, Level::Ok);
    let failed =
        host(json!({"operationalStatus": "error", "errorType": "power management error", "errorMessage": error}));
    assert_eq!((failed.level, failed.summary.as_str()), (Level::Problem, error));
    assert_eq!(fact(&failed.facts, "error"), Some("power management error"));
    assert_eq!(host(json!({"operationalStatus": "detached"})).level, Level::Aside);
    assert_eq!(host(json!({"operationalStatus": "delayed"})).level, Level::Waiting);
}

#[test]
fn what_others_wrote_into_conditions_cannot_move_the_cursor() {
    let evil = condition("\u{1b}[2JReady", "False\u{7}", "\u{1b}]0;x\u{7}", "\r\n\u{1b}[1A");
    let told = tell("metal3cluster", metal_cluster(&[evil]));
    let text = shown(&told);
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn every_kind_is_known_by_all_its_names_and_an_unknown_one_is_told_which_there_are() {
    let said = subject("castle/a").unwrap_err();
    for sort in SORTS.iter().filter(|sort| **sort != PLANE) {
        let is =
            |text: &str| assert_eq!(subject(&format!("{text}/x")), Ok(Subject::Other(sort, "x".to_owned())), "{text}");
        for word in [sort.plural, sort.kind] {
            is(&format!("{word}.{}", sort.group));
        }
        is(&sort.word());
        for short in sort.short {
            is(short);
            is(&short.to_uppercase());
            is(&format!("{short}s"));
        }
        assert!(said.contains(&sort.word()), "{said}");
    }
    for good in ["bmhs/x", "BareMetalHost/x", "baremetalhosts.metal3.io/x", "CloudStackMachineConfigs.anywhere/x"] {
        assert!(subject(good).is_ok(), "{good}");
    }
    assert!(subject("baremetalhosts.berth.dev/x").is_err() && subject("bmh/No_Name").is_err());
    assert!(said.contains("cluster.anywhere, metal3machine") && said.contains("kubeadmcontrolplane"), "{said}");
}

fn of(group: &str, kind: &str) -> &'static Sort {
    let found = SORTS.iter().find(|sort| sort.group == group && sort.kind == kind);
    found.unwrap_or_else(|| panic!("{kind} of {group} cannot be explained"))
}

#[test]
fn every_kind_that_berth_defines_or_reads_can_be_explained() {
    // These have screens of their own.
    let own = ["HostClaim", "Metal3Machine", "AWSMachine", "Cluster"];
    for crd in crate::definitions::all() {
        let (names, group) = (crd.spec.names, crd.spec.group);
        if own.contains(&names.kind.as_str()) {
            continue;
        }
        let sort = of(&group, &names.kind);
        assert_eq!(
            (sort.plural, sort.namespaced),
            (names.plural.as_str(), crd.spec.scope == "Namespaced"),
            "{}",
            sort.kind
        );
        assert_eq!(sort.short, names.short_names.unwrap_or_default(), "{}", sort.kind);
        for version in &crd.spec.versions {
            assert!(sort.versions.contains(&version.name.as_str()), "{} {}", sort.kind, version.name);
        }
    }
    macro_rules! same {
        ($($view:ty),+ $(,)?) => {$({
            let kind = Kind::of::<$view>();
            let sort = of(&kind.group, &kind.kind);
            assert_eq!((sort.plural, sort.namespaced), (kind.plural.as_str(), <$view as View>::NAMESPACED), "{kind}");
            assert_eq!(sort.versions, <$view as View>::VERSIONS, "{kind}");
        })+};
    }
    same!(
        views::AWSCluster,
        views::AWSClusterControllerIdentity,
        views::AWSClusterRoleIdentity,
        views::AWSClusterStaticIdentity,
        views::AWSMachinePool,
        views::AWSMachineTemplate,
        views::AWSManagedControlPlane,
        views::AWSManagedMachinePool,
        views::BareMetalHost,
        views::CloudStackCluster,
        views::CloudStackMachineTemplate,
        views::ClusterClass,
        views::ExtensionConfig,
        views::GlobalInClusterIPPool,
        views::HardwareData,
        views::IPAddress,
        views::IPAddressClaim,
        views::InClusterIPPool,
        views::Infrastructure,
        views::KubeadmConfigTemplate,
        views::KubeadmControlPlane,
        views::Machine,
        views::MachineHealthCheck,
        views::Metal3MachineTemplate,
        views::ROSAControlPlane,
        metal_ipam::IPAddress,
        metal_ipam::IPClaim,
    );
}

#[test]
fn what_cannot_be_drawn_is_told_how_to_explain_it() {
    let error = undrawn(find("m3c", "").unwrap(), "prod");
    assert!(error.is::<crate::Usage>());
    let error = error.to_string();
    for part in ["`metal3cluster`", "machinedeployment", "`berth explain metal3cluster/prod`"] {
        assert!(error.contains(part), "{error}");
    }
}

fn serve(server: &Server, sort: &Sort, version: &str) {
    let scope = if sort.namespaced { sim::server::Kind::namespaced } else { sim::server::Kind::cluster };
    server.register(scope(sort.group, version, sort.kind, sort.plural));
}

/// What a screen asks for, in that order, and what it shows.
async fn ask(server: &Server, about: &str) -> (Vec<String>, anyhow::Result<String>) {
    let (before, client) = (server.log().len(), server.kube());
    let Command::Explain(options) = Cli::parse_from(["berth", "explain", about, "-n", TEAM]).command else {
        panic!("not explain")
    };
    let shown = Box::pin(super::super::explained(&client, &options)).await;
    (server.log().iter().skip(before).map(|entry| entry.path.clone()).collect(), shown)
}

/// A server with a cluster on hosts, whose kind it serves at this version, and a quota.
fn site(version: &str) -> Server {
    let server = Server::new(3);
    serve(&server, of("infrastructure.cluster.x-k8s.io", "Metal3Cluster"), version);
    serve(&server, of("berth.dev", "HostClaimQuota"), "v1alpha1");
    server.namespace(TEAM);
    let api = json!({"apiVersion": format!("infrastructure.cluster.x-k8s.io/{version}"), "kind": "Metal3Cluster"});
    let conditions = [condition("Ready", "True", "InfrastructureReady", "")];
    let cluster = json!({"metadata": {"namespace": TEAM, "name": "prod"}, "status": {"conditions": conditions}});
    server.put(merged(api, &cluster)).unwrap();
    let quota = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "yard"},
        "status": {"conditions": [condition("Ready", "True", "WithinQuota", "")]}});
    server.put(quota).unwrap();
    server
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_with_one_request() {
    let server = site("v1beta2");
    let (requests, shown) = ask(&server, "m3c/prod").await;
    let path = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/team-a/metal3clusters/prod";
    assert_eq!(requests, [path]);
    assert!(shown.unwrap().contains("its only condition Ready is as it should be"));
    let (requests, shown) = ask(&server, "hcq/yard").await;
    assert_eq!(requests, ["/apis/berth.dev/v1alpha1/hostclaimquotas/yard"]);
    assert!(shown.unwrap().starts_with("HostClaimQuota yard"));
}

#[tokio::test(start_paused = true)]
async fn an_older_server_is_asked_what_it_has_and_then_for_that() {
    let (requests, shown) = ask(&site("v1beta1"), "metal3cluster/prod").await;
    assert!(shown.unwrap().contains("its only condition Ready is as it should be"));
    assert!(requests.first().unwrap().contains("/v1beta2/"), "{requests:?}");
    assert!(requests.last().unwrap().ends_with("/v1beta1/namespaces/team-a/metal3clusters/prod"), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_what_is_not_there_is_told_what_may_be_meant() {
    let server = site("v1beta2");
    for (about, says) in [
        ("metal3cluster/pro", "`berth explain metal3cluster/prod -n team-a`"),
        ("hostclaimquota/yar", "`berth explain hostclaimquota/yard`"),
        ("metal3cluster/harbour", "`kubectl get metal3clusters.infrastructure.cluster.x-k8s.io -A`"),
        ("hostclaimquota/harbour", "`kubectl get hostclaimquotas.berth.dev`"),
        ("hostclaimkind/baremetal", "the server does not know HostClaimKind (berth.dev)"),
    ] {
        let error = ask(&server, about).await.1.unwrap_err().to_string();
        assert!(error.contains(says), "{about}: {error}");
    }
    server.inject(Rule::any().path_contains("/metal3clusters").always(), Action::Status(403));
    let error = ask(&server, "metal3cluster/prod").await.1.unwrap_err().to_string();
    assert!(
        error.starts_with("you may not get metal3clusters.infrastructure.cluster.x-k8s.io in the namespace"),
        "{error}"
    );
}
