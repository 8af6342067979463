//! Rules of ValidateTopology, one by one.

use api::views::Endpoint;
use serde_json::{Value, json};
use vip::names::Slot;
use vip::topology::Standing;

use super::support::*;

fn infra(spec: Value) -> Value {
    infrastructure(json!({"template": {"spec": spec}}))
}

fn good() -> Value {
    infra(json!({"controlPlaneEndpoint": {"host": HOST, "port": 6443}}))
}

fn verdict(items: &[Value]) -> Option<String> {
    judge(&request(items), &settings(&[]), &standing())
}

const HOST_PLACE: &str = ": InfraTemplate/t /spec/template/spec/controlPlaneEndpoint/host";

#[test]
fn a_sound_topology_is_accepted() {
    assert_eq!(verdict(&[good(), control_plane(json!({"a": ["x"]}))]), None);
    assert_eq!(verdict(&[infra(json!({"controlPlaneEndpoint": {"host": HOST}}))]), None);
    for port in [json!(0), json!(""), json!("6443"), Value::Null] {
        assert_eq!(verdict(&[infra(json!({"controlPlaneEndpoint": {"host": HOST, "port": port}}))]), None);
    }
    let mut six = standing();
    six.endpoint.host = "2001:db8::1".into();
    let spelled = infra(json!({"controlPlaneEndpoint": {"host": "2001:DB8:0:0::1"}}));
    assert_eq!(judge(&request(&[spelled]), &settings(&[]), &six), None);
}

#[test]
fn v1_an_empty_host_or_no_value_is_explained() {
    for (spec, shown) in [
        (json!({}), "is empty but"),
        (json!({"controlPlaneEndpoint": {"host": ""}}), "is empty but"),
        (json!({"controlPlaneEndpoint": {"host": null}}), "is empty but"),
        (json!({"controlPlaneEndpoint": {"host": "<no value>"}}), "is `<no value>` but"),
    ] {
        let message = verdict(&[infra(spec)]).unwrap();
        assert!(message.contains(shown) && message.ends_with(HOST_PLACE), "{message}");
        assert!(
            message.contains("copies a builtin that does not exist") && message.contains("to the end"),
            "{message}"
        );
        assert_eq!(message.matches("InfraTemplate/t").count(), 1, "{message}");
    }
}

#[test]
fn v1_another_host_is_named() {
    for (host, shown) in [(json!("10.9.9.9"), "`10.9.9.9`"), (json!(7), "`7`"), (json!({}), "`{}`")] {
        let message = verdict(&[infra(json!({"controlPlaneEndpoint": {"host": host}}))]).unwrap();
        assert!(message.contains(&format!("is {shown} but the Cluster has `{HOST}`")), "{message}");
    }
    let elsewhere = settings(&[("endpointPath", "/lb")]);
    let message = judge(&request(&[good()]), &elsewhere, &standing()).unwrap();
    assert!(message.ends_with("/spec/template/spec/lb/host"), "{message}");
    let off = settings(&[("patchInfrastructureCluster", "false")]);
    assert_eq!(judge(&request(&[infra(json!({"controlPlaneEndpoint": {"port": 1}}))]), &off, &standing()), None);
}

#[test]
fn v2_another_port_is_named_with_the_annotation_that_chooses_it() {
    for port in [json!(443), json!("443"), json!(6443.5), json!({})] {
        let message = verdict(&[infra(json!({"controlPlaneEndpoint": {"host": HOST, "port": port}}))]).unwrap();
        assert!(message.starts_with("the endpoint port of the infrastructure cluster is "), "{message}");
        assert!(message.contains("vip.capi.gorizond.io/port"), "{message}");
    }
}

#[test]
fn v3_whatever_stands_for_a_value_is_rejected_wherever_it_is_left() {
    let spec = json!({"a": "<no value>", "b": ["x <no value> y"], "c": {"d/e": "@@VIP_INGRESS@@"}});
    let message = verdict(&[good(), control_plane(spec.clone())]).unwrap();
    let findings: Vec<_> = message.split("; ").collect();
    assert_eq!(findings.len(), 2, "{message}");
    assert!(
        findings[0].starts_with("@@VIP_INGRESS@@ is left")
            && findings[0].ends_with(": ControlPlaneTemplate/t /spec/c/d~1e")
    );
    assert!(findings[1].ends_with(": ControlPlaneTemplate/t /spec/a, ControlPlaneTemplate/t /spec/b/0"), "{message}");

    let off = settings(&[("placeholders", "false")]);
    let message = judge(&request(&[good(), control_plane(spec)]), &off, &standing()).unwrap();
    assert!(!message.contains("@@VIP_INGRESS@@"), "{message}");
}

#[test]
fn v3_at_most_five_places_are_named_and_equal_ones_once() {
    let many: Vec<_> = (0..9).map(|_| "<no value>").collect();
    let message = verdict(&[good(), control_plane(json!({"l": many})), control_plane(json!({"l": many}))]).unwrap();
    assert_eq!(message.matches("ControlPlaneTemplate/t").count(), 5);
    assert!(message.ends_with("/spec/l/4 and 4 more"), "{message}");
}

#[test]
fn v4_an_address_in_the_ranges_of_nodes_is_rejected() {
    let with = |config: Value| {
        infra(
            json!({"controlPlaneEndpoint": {"host": HOST, "port": 6443}, "ipv4Config": config.clone(), "ipv6Config": config}),
        )
    };
    for (range, vip) in [
        (HOST, HOST),
        ("10.0.0.10-10.0.0.20", HOST),
        ("10.0.0.0/27", HOST),
        ("10.0.0.80-10.0.0.80", INGRESS),
        ("2001:db8::/64", SECOND),
    ] {
        let message = verdict(&[with(json!({"addresses": ["10.7.0.0/24", range]}))]).unwrap();
        assert!(message.starts_with(&format!("the address `{vip}` lies inside `{range}`")), "{message}");
        assert!(message.contains("/spec/template/spec/ipv4Config/addresses/1, "), "{message}");
        assert!(message.ends_with("/spec/template/spec/ipv6Config/addresses/1"), "{message}");
    }
    for addresses in [json!(["10.0.0.16-10.0.0.20", "10.0.1.0/24", "bad", 7]), json!("10.0.0.15"), Value::Null] {
        assert_eq!(verdict(&[with(json!({"addresses": addresses}))]), None);
    }
    assert_eq!(verdict(&[with(json!({"excluded": [HOST]}))]), None);
}

#[test]
fn v5_a_damaged_variable_is_rejected() {
    let mut damaged = request(&[good()]);
    damaged["variables"].as_array_mut().unwrap().push(json!({"name": "clusterVip", "value": ""}));
    let message = judge(&damaged, &settings(&[]), &standing()).unwrap();
    assert!(
        message.starts_with("variable clusterVip is `` but the control-plane address of the Cluster is `10.0.0.15`"),
        "{message}"
    );
    damaged["variables"].as_array_mut().unwrap().push(json!({"name": "clusterVip", "value": HOST}));
    assert_eq!(judge(&damaged, &settings(&[]), &standing()), None, "the last of two counts");
}

#[test]
fn all_findings_come_at_once_in_an_order_of_their_own() {
    let bad = infra(
        json!({"controlPlaneEndpoint": {"host": "x", "port": 1}, "a": "<no value>", "ipv4Config": {"addresses": [HOST]}}),
    );
    let other = control_plane(json!({"b": "@@VIP_CONTROL_PLANE@@"}));
    let mut one = request(&[bad.clone(), other.clone()]);
    one["variables"].as_array_mut().unwrap().push(json!({"name": "ingressVip", "value": "x"}));
    let mut two = one.clone();
    two["items"] = json!([other, bad]);
    let message = judge(&one, &settings(&[]), &standing()).unwrap();
    assert_eq!(judge(&two, &settings(&[]), &standing()), Some(message.clone()));
    let starts = [
        "the endpoint host ",
        "the endpoint port ",
        "@@VIP_CONTROL_PLANE@@ is left",
        "`<no value>` is left",
        "the address `10.0.0.15`",
        "variable ingressVip ",
    ];
    let places: Vec<_> =
        starts.iter().map(|start| message.find(start).unwrap_or_else(|| panic!("{start}: {message}"))).collect();
    assert!(places.is_sorted(), "{message}");
}

#[test]
fn a_cluster_without_an_endpoint_of_its_own_is_judged_by_what_is_left_in_the_templates() {
    let standing = Standing { vip_only: true, endpoint: Endpoint::default(), ..standing() };
    assert_eq!(judge(&request(&[infra(json!({}))]), &settings(&[]), &standing), None);
    let host = infra(json!({"controlPlaneEndpoint": {"host": "<no value>"}}));
    assert!(judge(&request(&[host]), &settings(&[]), &standing).unwrap().ends_with(HOST_PLACE));
    let mut own = Standing { endpoint: Endpoint { host: "api.example.org".into(), port: 443 }, ..standing };
    own.vips.insert(Slot::CONTROL_PLANE, "10.0.0.99".into());
    let ranges = infra(
        json!({"controlPlaneEndpoint": {"host": "api.example.org", "port": 443}, "ipv4Config": {"addresses": ["10.0.0.99"]}}),
    );
    assert!(
        judge(&request(&[ranges]), &settings(&[]), &own).unwrap().starts_with("the address `10.0.0.99` lies inside")
    );
}

#[test]
fn a_cluster_nothing_is_known_of_is_not_judged_sound() {
    let standing = Standing { endpoint: Endpoint::default(), ..standing() };
    let message = judge(&request(&[good()]), &settings(&[]), &standing).unwrap();
    assert_eq!(message, "control plane endpoint of team-a/prod is not set yet");
}
