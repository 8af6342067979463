//! Rules of GeneratePatches, one by one.

use api::views::Endpoint;
use serde_json::{Value, json};
use vip::names::Slot;
use vip::topology::{Settings, Standing, answer_generate, generate, parse_generate};

use super::sample;
use super::support::*;

fn merge(uid: &str, patch: Value) -> (String, String, Value) {
    (uid.into(), "JSONMergePatch".into(), patch)
}

fn json_patch(uid: &str, patch: Value) -> (String, String, Value) {
    (uid.into(), "JSONPatch".into(), patch)
}

fn replace(path: &str, value: &str) -> Value {
    json!({"op": "replace", "path": path, "value": value})
}

fn endpoint() -> Value {
    json!({"spec": {"template": {"spec": {"controlPlaneEndpoint": {"host": HOST, "port": 6443}}}}})
}

fn below(spec: Value) -> Value {
    json!({"template": {"spec": spec}})
}

#[test]
fn the_infrastructure_cluster_is_given_the_endpoint_whatever_it_has() {
    for spec in [
        Value::Null,
        json!({}),
        json!("text"),
        below(json!({})),
        below(json!({"controlPlaneEndpoint": null})),
        below(json!({"controlPlaneEndpoint": {"host": "", "port": 0}})),
        below(json!({"controlPlaneEndpoint": {"host": HOST}})),
        below(json!({"controlPlaneEndpoint": {"host": HOST, "port": "6443"}})),
        below(json!({"controlPlaneEndpoint": {"host": "10.9.9.9", "port": 6443}})),
        below(json!({"controlPlaneEndpoint": {"host": "<no value>", "port": "<no value>"}})),
        below(json!({"controlPlaneEndpoint": {"host": "@@VIP_CONTROL_PLANE@@", "port": "@@VIP_CONTROL_PLANE_PORT@@"}})),
        below(json!({"controlPlaneEndpoint": "@@VIP_CONTROL_PLANE@@"})),
    ] {
        let request = request(&[infrastructure(spec)]);
        let answer = ask(&request, &settings(&[]), &standing());
        assert_eq!(patches(&answer), [merge("infra", endpoint())], "{request}");
        let after = applied(&request, &answer);
        assert_eq!(after["items"][0]["object"]["spec"]["template"]["spec"]["controlPlaneEndpoint"]["host"], HOST);
        assert_eq!(judge(&after, &settings(&[]), &standing()), None);
    }
}

#[test]
fn a_template_in_the_desired_state_is_left_alone() {
    let spec = below(json!({"controlPlaneEndpoint": {"host": HOST, "port": 6443}, "other": "x"}));
    let request = request(&[infrastructure(spec), control_plane(below(json!({"a": ["b", 1, true, null]})))]);
    let answer = ask(&request, &settings(&[]), &standing());
    assert_eq!(answer["items"], json!([]));
}

#[test]
fn only_the_template_of_the_infrastructure_cluster_is_given_the_endpoint() {
    let spec = below(json!({}));
    let request = request(&[
        control_plane(spec.clone()),
        item("a", "MachineDeployment", "spec.template.spec.infrastructureRef", "InfraClusterTemplate", spec.clone()),
        item("b", "Other", "spec.infrastructureRef", "InfraTemplate", spec),
    ]);
    assert_eq!(patches(&ask(&request, &settings(&[]), &standing())), []);
}

#[test]
fn the_endpoint_can_lie_elsewhere_or_nowhere() {
    let request = request(&[infrastructure(below(json!({"lb/x": {"kept": 1}})))]);
    let answer = ask(&request, &settings(&[("endpointPath", "/lb~1x/endpoint")]), &standing());
    let patch = json!({"spec": {"template": {"spec": {"lb/x": {"endpoint": {"host": HOST, "port": 6443}}}}}});
    assert_eq!(patches(&answer), [merge("infra", patch)]);
    assert_eq!(patches(&ask(&request, &settings(&[("patchInfrastructureCluster", "false")]), &standing())), []);
}

#[test]
fn an_endpoint_below_a_list_is_refused_because_merging_would_replace_the_list() {
    for (spec, place) in [
        (below(json!({"balancers": [{}]})), "InfraTemplate/t /spec/template/spec/balancers"),
        (below(json!({"balancers": {"0": []}})), "InfraTemplate/t /spec/template/spec/balancers/0"),
    ] {
        let answer =
            ask(&request(&[infrastructure(spec)]), &settings(&[("endpointPath", "/balancers/0")]), &standing());
        assert!(
            failure(&answer).starts_with("settings: endpointPath: ") && failure(&answer).ends_with(place),
            "{answer}"
        );
    }
}

#[test]
fn placeholders_are_replaced_in_all_texts_below_spec_sorted_by_pointer() {
    let spec = json!({
        "z": "@@VIP_INGRESS@@",
        "template": {"metadata": {"annotations": {"a/b~c": "@@VIP_CONTROL_PLANE@@"}}, "spec": {
            "files": [{"content": "no"}, {"content": "address: @@VIP_CONTROL_PLANE@@,@@VIP_CONTROL_PLANE_SECONDARY@@\nport: @@VIP_CONTROL_PLANE_PORT@@"}],
        }},
    });
    let mut item = control_plane(spec);
    item["object"]["metadata"]["annotations"] = json!({"x": "@@VIP_INGRESS@@"});
    item["object"]["status"] = json!("@@VIP_INGRESS@@");
    let request = request(&[item]);
    let answer = ask(&request, &settings(&[]), &standing());
    let operations = json!([
        replace("/spec/template/metadata/annotations/a~1b~0c", HOST),
        replace("/spec/template/spec/files/1/content", &format!("address: {HOST},{SECOND}\nport: 6443")),
        replace("/spec/z", INGRESS),
    ]);
    assert_eq!(patches(&answer), [json_patch("cp", operations)]);
    assert_eq!(judge(&applied(&request, &answer), &settings(&[]), &standing()), None);
    assert_eq!(patches(&ask(&request, &settings(&[("placeholders", "false")]), &standing())), []);
}

#[test]
fn a_placeholder_without_a_value_fails_with_its_pointer() {
    let spec =
        below(json!({"b": "x@@VIP_INGRESS_SECONDARY@@", "a": ["@@VIP_INGRESS_SECONDARY@@"], "c": "@@VIP_INGRESS@@"}));
    let answer = ask(&request(&[control_plane(spec)]), &settings(&[]), &standing());
    let expected = "@@VIP_INGRESS_SECONDARY@@ cannot be replaced, the cluster has no ingress (second family) address: \
                    ControlPlaneTemplate/t /spec/template/spec/a/0, ControlPlaneTemplate/t /spec/template/spec/b";
    assert_eq!(failure(&answer), expected);
}

#[test]
fn no_value_is_repaired_where_the_endpoint_was_meant_and_nowhere_else() {
    let spec = below(json!({
        "registrationAddress": "<no value>",
        "serverConfig": {"tlsSan": ["a", "<no value>"], "other": "<no value>"},
        "agent": {"tlsSAN": [["<no value>"]]},
        "clusterConfiguration": {"apiServer": {"certSANs": ["<no value>"]}},
        "x": {"controlPlaneEndpoint": {"host": "<no value>", "port": "<no value>"}, "host": "<no value>"},
        "myregistrationAddress": "<no value>",
        "registrationAddresses": "<no value>",
        "tlsSan": "has <no value> inside",
        "certSANs": {"0": "<no value>"},
    }));
    let request = request(&[control_plane(spec)]);
    let repaired = [
        "/agent/tlsSAN/0/0",
        "/clusterConfiguration/apiServer/certSANs/0",
        "/registrationAddress",
        "/serverConfig/tlsSan/1",
        "/x/controlPlaneEndpoint/host",
    ];
    let operations: Value = repaired.iter().map(|path| replace(&format!("/spec/template/spec{path}"), HOST)).collect();
    assert_eq!(patches(&ask(&request, &settings(&[]), &standing())), [json_patch("cp", operations)]);

    let paths = settings(&[("noValuePaths", "certSANs/0,/serverConfig/other")]);
    let other = ["/certSANs/0", "/serverConfig/other"];
    let operations: Value = other.iter().map(|path| replace(&format!("/spec/template/spec{path}"), HOST)).collect();
    assert_eq!(patches(&ask(&request, &paths, &standing())), [json_patch("cp", operations)]);
    assert_eq!(patches(&ask(&request, &settings(&[("noValuePaths", "")]), &standing())), []);
}

#[test]
fn extra_targets_are_added_with_their_parents() {
    let spec = below(json!({"san": ["x"], "full": [HOST], "note": {"a/b": "y"}, "nil": null}));
    let request = request(&[control_plane(spec), infrastructure(below(json!({})))]);
    let targets = "ControlPlaneTemplate:/spec/template/spec/registration/address; ControlPlaneTemplate:/spec/template/spec/san/-;\
                   ControlPlaneTemplate:/spec/template/spec/full/-:host;ControlPlaneTemplate:/spec/template/spec/new/-:hostport;\
                   ControlPlaneTemplate:/spec/template/spec/note/a~1b:port;ControlPlaneTemplate:/spec/template/spec/registration/port:port;\
                   ControlPlaneTemplate:/spec/template/spec/nil/x;ControlPlaneTemplate:/spec/template/metadata/annotations/port:port;\
                   Unknown:/spec/x";
    let settings = settings(&[("extraTargets", targets)]);
    let answer = ask(&request, &settings, &standing());
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let operations = json!([
        add("/spec/template/metadata", json!({"annotations": {"port": "6443"}})),
        add("/spec/template/spec/new", json!([format!("{HOST}:6443")])),
        add("/spec/template/spec/nil", json!({"x": HOST})),
        add("/spec/template/spec/note/a~1b", json!(6443)),
        add("/spec/template/spec/registration", json!({"address": HOST})),
        add("/spec/template/spec/registration/port", json!(6443)),
        add("/spec/template/spec/san/-", json!(HOST)),
    ]);
    assert_eq!(patches(&answer), [json_patch("cp", operations), merge("infra", endpoint())]);
    let after = applied(&request, &answer);
    assert_eq!(patches(&ask(&after, &settings, &standing())), []);
}

#[test]
fn a_target_builds_on_the_endpoint_and_on_replaced_texts() {
    let spec = below(
        json!({"san": ["<no value>", "@@VIP_INGRESS@@"], "tlsSan": ["<no value>"], "set": "@@VIP_INGRESS_SECONDARY@@"}),
    );
    let request = request(&[infrastructure(spec)]);
    let settings = settings(&[
        ("noValuePaths", "san,tlsSan"),
        (
            "extraTargets",
            "InfraTemplate:/spec/template/spec/san/-;InfraTemplate:/spec/template/spec/controlPlaneEndpoint/name;\
                          InfraTemplate:/spec/template/spec/set;InfraTemplate:/spec/template/spec/tlsSan/0",
        ),
    ]);
    let answer = ask(&request, &settings, &standing());
    let add = |path: &str| json!({"op": "add", "path": format!("/spec/template/spec{path}"), "value": HOST});
    let operations = json!([
        add("/controlPlaneEndpoint/name"),
        replace("/spec/template/spec/san/0", HOST),
        replace("/spec/template/spec/san/1", INGRESS),
        add("/set"),
        replace("/spec/template/spec/tlsSan/0", HOST),
    ]);
    assert_eq!(patches(&answer), [merge("infra", endpoint()), json_patch("infra", operations)]);
    let after = applied(&request, &answer);
    assert_eq!(judge(&after, &settings, &standing()), None);
    assert_eq!(patches(&ask(&after, &settings, &standing())), []);
}

#[test]
fn a_target_that_cannot_be_reached_or_undoes_the_endpoint_fails() {
    let request = request(&[infrastructure(below(json!({"text": "x", "list": []})))]);
    for (target, problem) in [
        (
            "/spec/template/spec/text/a",
            "/spec/template/spec/text is neither an object nor a list: InfraTemplate/t /spec/template/spec/text/a",
        ),
        (
            "/spec/template/spec/list/1",
            "/spec/template/spec/list has no element 1: InfraTemplate/t /spec/template/spec/list/1",
        ),
        (
            "/spec/template/spec/controlPlaneEndpoint",
            "a target overwrites the endpoint of the infrastructure cluster: InfraTemplate/t /spec/template/spec/controlPlaneEndpoint",
        ),
        (
            "/spec/template",
            "a target overwrites the endpoint of the infrastructure cluster: InfraTemplate/t /spec/template/spec/controlPlaneEndpoint",
        ),
        (
            "/spec/template/spec/controlPlaneEndpoint/host:hostport",
            "a target overwrites the endpoint of the infrastructure cluster: InfraTemplate/t /spec/template/spec/controlPlaneEndpoint",
        ),
    ] {
        let answer = ask(&request, &settings(&[("extraTargets", &format!("InfraTemplate:{target}"))]), &standing());
        assert_eq!(failure(&answer), format!("settings: extraTargets: {problem}"));
    }
}

#[test]
fn a_host_of_six_comes_in_brackets_only_before_a_port() {
    let mut standing = standing();
    standing.endpoint.host = SECOND.into();
    let request = request(&[control_plane(below(json!({})))]);
    let targets = "ControlPlaneTemplate:/spec/a:host;ControlPlaneTemplate:/spec/b:hostport";
    let answer = ask(&request, &settings(&[("extraTargets", targets)]), &standing);
    let after = applied(&request, &answer);
    assert_eq!(after["items"][0]["object"]["spec"]["a"], SECOND);
    assert_eq!(after["items"][0]["object"]["spec"]["b"], format!("[{SECOND}]:6443"));
}

#[test]
fn without_a_valid_endpoint_there_are_no_patches_but_a_failure() {
    let request = request(&[infrastructure(below(json!({})))]);
    for endpoint in [("", 0), ("", 6443), (HOST, 0)] {
        let endpoint = Endpoint { host: endpoint.0.into(), port: endpoint.1 };
        let answer = ask(&request, &settings(&[]), &Standing { endpoint, ..standing() });
        assert_eq!(failure(&answer), "control plane endpoint of team-a/prod is not set yet");
    }
    let answer = ask(&request, &settings(&[]), &Standing { found: false, ..standing() });
    assert_eq!(failure(&answer), "Cluster team-a/prod was not found");
    let answer = ask(&request, &settings(&[]), &Standing { uid: Some("other".into()), ..standing() });
    assert!(failure(&answer).starts_with("Cluster team-a/prod was deleted and made again"));
    let nobody =
        json!({"items": [item("x", "MachineDeployment", "spec.template.spec.infrastructureRef", "K", json!({}))]});
    assert!(failure(&ask(&nobody, &settings(&[]), &standing())).starts_with("the request names no cluster"));
}

#[test]
fn a_cluster_that_opted_out_is_left_alone() {
    let standing = Standing { opted_out: true, endpoint: Endpoint::default(), ..standing() };
    let request = request(&[infrastructure(below(json!({"a": "@@VIP_INGRESS_SECONDARY@@ <no value>"})))]);
    assert_eq!(patches(&ask(&request, &settings(&[]), &standing)), []);
    assert_eq!(judge(&request, &settings(&[]), &standing), None);
}

#[test]
fn a_cluster_with_its_own_endpoint_has_the_address_only_in_placeholders() {
    let mut standing = Standing { vip_only: true, ..standing() };
    standing.endpoint = Endpoint { host: "api.example.org".into(), port: 443 };
    let spec = below(
        json!({"vip": "@@VIP_CONTROL_PLANE@@", "tlsSan": ["<no value>"], "controlPlaneEndpoint": {"host": "<no value>"}}),
    );
    let request = request(&[infrastructure(spec.clone()), control_plane(spec)]);
    let extra = settings(&[("extraTargets", "ControlPlaneTemplate:/spec/template/spec/target:hostport")]);
    let answer = ask(&request, &extra, &standing);
    let after = applied(&request, &answer);
    let specs = [0, 1].map(|number| after["items"][number]["object"]["spec"]["template"]["spec"].clone());
    assert_eq!(
        specs[0],
        json!({"vip": HOST, "tlsSan": [HOST], "controlPlaneEndpoint": {"host": "api.example.org", "port": 443}})
    );
    let expected = json!({"vip": HOST, "tlsSan": [HOST], "controlPlaneEndpoint": {"host": "api.example.org"}, "target": "api.example.org:443"});
    assert_eq!(specs[1], expected);
    assert_eq!(judge(&after, &extra, &standing), None);

    standing.endpoint = Endpoint::default();
    let answer = ask(&request, &extra, &standing);
    let vip = json!([replace("/spec/template/spec/vip", HOST)]);
    assert_eq!(patches(&answer), [json_patch("infra", vip.clone()), json_patch("cp", vip)]);
    let port = super::support::request(&[control_plane(json!({"a": "@@VIP_CONTROL_PLANE_PORT@@"}))]);
    assert!(failure(&ask(&port, &extra, &standing)).contains("the cluster has no control plane endpoint"));
    standing.vips.remove(&Slot::CONTROL_PLANE);
    assert!(failure(&ask(&request, &extra, &standing)).contains("the cluster has no control-plane address"));
}

#[test]
fn a_manual_endpoint_is_the_address_even_when_it_is_a_name() {
    let endpoint = Endpoint { host: "api.example.org".into(), port: 443 };
    let standing = Standing { found: true, endpoint, ..Standing::default() };
    let mut request = request(&[control_plane(json!({"a": "@@VIP_CONTROL_PLANE@@:@@VIP_CONTROL_PLANE_PORT@@"}))]);
    request["variables"].as_array_mut().unwrap().push(json!({"name": "clusterVip", "value": ""}));
    let answer = ask(&request, &settings(&[]), &standing);
    assert_eq!(patches(&answer), [json_patch("cp", json!([replace("/spec/a", "api.example.org:443")]))]);
}

#[test]
fn a_dropped_variable_stops_the_rendering() {
    let with = |name: &str, value: Value| {
        let mut request = request(&[infrastructure(below(json!({})))]);
        request["variables"].as_array_mut().unwrap().push(json!({"name": name, "value": value}));
        request
    };
    for (name, value) in [
        ("clusterVip", json!("")),
        ("ingressVip", json!(HOST)),
        ("clusterVip", json!(7)),
        ("clusterVipSecondary", Value::Null),
    ] {
        let request = with(name, value);
        let answer = ask(&request, &settings(&[]), &standing());
        assert!(failure(&answer).starts_with(&format!("variable {name} is ")), "{answer}");
        assert!(failure(&answer).ends_with(": spec.topology.variables"), "{answer}");
    }
    for (name, value) in
        [("clusterVip", HOST), ("clusterVipSecondary", "2001:DB8:0::15"), ("ingressVipSecondary", "any"), ("x", "")]
    {
        assert_eq!(ask(&with(name, value.into()), &settings(&[]), &standing())["status"], "Success", "{name}");
    }
    let mut request = with("clusterVip", HOST.into());
    request["items"][0]["variables"] = json!([{"name": "clusterVip", "value": "10.1.1.1"}]);
    assert!(failure(&ask(&request, &settings(&[]), &standing())).ends_with(": override for InfraTemplate/t"));
}

#[test]
fn a_text_below_an_empty_key_is_refused_because_cluster_api_would_patch_another() {
    let answer = ask(&request(&[control_plane(json!({"": {"a": "@@VIP_INGRESS@@"}}))]), &settings(&[]), &standing());
    assert_eq!(failure(&answer), "a text below an empty key cannot be patched: ControlPlaneTemplate/t /spec//a");
}

#[test]
fn a_large_request_gets_one_patch_for_each_template_that_needs_one() {
    let body = sample::request(200).to_string();
    let request = parse_generate(body.as_bytes()).unwrap();
    let settings = Settings::read(&settings(&[])).unwrap();
    let first = generate(&request, &settings, &standing()).unwrap();
    let again = generate(&parse_generate(body.as_bytes()).unwrap(), &settings, &standing()).unwrap();
    assert_eq!(answer_generate(Ok(&first)), answer_generate(Ok(&again)));
    // One merge patch; a control plane and 99 bootstrap templates with one text to repair and one manifest each.
    assert_eq!(first.len(), 1 + 100);
    let operations: usize = first.iter().filter_map(|patch| patch.patch.as_array()).map(Vec::len).sum();
    assert_eq!(operations, 2 * 100);
}
