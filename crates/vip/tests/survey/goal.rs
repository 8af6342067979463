//! What should stand on a Cluster, and the smallest patch for it.

use serde_json::{Value, json};
use vip::facts::ClusterFacts;
use vip::names::Slot;
use vip::survey::survey;

use crate::build::*;

const CP: Slot = Slot::CONTROL_PLANE;

fn patch(cluster: &ClusterFacts, holdings: Vec<(Slot, vip::scene::Holding)>) -> Option<Value> {
    let scene = scene(vec![control(), ingress()], holdings);
    survey(cluster, &scene).goal.patch(cluster, &variables_of(&live(cluster)))
}

fn held() -> Vec<(Slot, vip::scene::Holding)> {
    vec![(CP, bound(CP, claim(CP), "10.0.0.10"))]
}

fn done() -> ClusterFacts {
    let mut cluster = allocated("10.0.0.10");
    cluster.annotations.insert(key("control-plane-pool"), "GlobalInClusterIPPool/control".to_owned());
    cluster.variables.insert(CP, "10.0.0.10".to_owned());
    cluster
}

#[test]
fn everything_is_written_at_once_and_the_users_variables_stay_as_they_are() {
    let patch = patch(&fresh(), held()).unwrap();
    let users = &variables_of(&live(&fresh()))[0];
    assert_eq!(
        patch,
        json!({
            "metadata": {"annotations": {
                key("control-plane-vip"): "10.0.0.10",
                key("control-plane-source"): "allocated",
                key("control-plane-pool"): "GlobalInClusterIPPool/control",
            }},
            "spec": {
                "controlPlaneEndpoint": {"host": "10.0.0.10", "port": 6443},
                "topology": {"variables": [users, {"name": "clusterVip", "value": "10.0.0.10"}]},
            },
        })
    );
}

#[test]
fn nothing_is_written_when_nothing_is_missing() {
    assert_eq!(patch(&done(), held()), None);
}

#[test]
fn only_what_is_missing_is_written() {
    let mut cluster = done();
    cluster.annotations.remove(CP.annotation());
    let note = json!({"metadata": {"annotations": {key("control-plane-vip"): "10.0.0.10"}}});
    assert_eq!(patch(&cluster, held()), Some(note.clone()));
    assert_eq!(patch(&cluster, vec![]), Some(note), "also when the claim is gone: the endpoint is the truth");
    let mut cluster = done();
    cluster.variables.clear();
    let whole = json!([variables_of(&live(&cluster))[0], {"name": "clusterVip", "value": "10.0.0.10"}]);
    assert_eq!(patch(&cluster, held()), Some(json!({"spec": {"topology": {"variables": whole}}})));
}

#[test]
fn a_variable_is_set_in_place_and_only_where_the_class_defines_it() {
    let mut cluster = done();
    cluster.variables.insert(CP, "10.0.0.99".to_owned());
    let scene = scene(vec![control()], held());
    let mut entries = vec![json!({"name": "clusterVip", "value": "10.0.0.99", "definitionFrom": "x"})];
    entries.push(json!({"name": "region", "value": 1}));
    let patch = survey(&cluster, &scene).goal.patch(&cluster, &entries).unwrap();
    let list =
        json!([{"name": "clusterVip", "value": "10.0.0.10", "definitionFrom": "x"}, {"name": "region", "value": 1}]);
    assert_eq!(patch, json!({"spec": {"topology": {"variables": list}}}));
    let mut undefined = scene;
    undefined.class = Some(std::sync::Arc::new(class(&[])));
    assert_eq!(survey(&cluster, &undefined).goal.patch(&cluster, &entries), None);
}

#[test]
fn the_port_is_the_users_then_the_annotations_then_the_default() {
    let port = |cluster: &ClusterFacts| patch(cluster, held()).unwrap()["spec"]["controlPlaneEndpoint"]["port"].clone();
    assert_eq!(port(&fresh()), json!(6443));
    assert_eq!(port(&noted(&[("port", " 7443 ")])), json!(7443));
    let mut chosen = noted(&[("port", "7443")]);
    chosen.endpoint.port = 8443;
    assert_eq!(port(&chosen), json!(8443));
}

#[test]
fn a_host_that_is_there_is_never_replaced() {
    let mut cluster = shown("10.9.9.9", None);
    cluster.endpoint.port = 0;
    let written = patch(&cluster, vec![]).unwrap();
    assert_eq!(written["spec"]["controlPlaneEndpoint"], json!({"host": "10.9.9.9", "port": 6443}));
    assert_eq!(written["metadata"]["annotations"][key("control-plane-source")], "manual");
    let complete = patch(&shown("10.9.9.9", None), vec![]).unwrap();
    assert!(complete["spec"].get("controlPlaneEndpoint").is_none(), "{complete}");
}

#[test]
fn an_address_in_the_variable_becomes_the_endpoint_and_a_name_does_not_become_a_variable() {
    let mut cluster = fresh();
    cluster.variables.insert(CP, "10.9.9.9".to_owned());
    let written = patch(&cluster, vec![]).unwrap();
    assert_eq!(written["spec"], json!({"controlPlaneEndpoint": {"host": "10.9.9.9", "port": 6443}}));
    let named = patch(&shown("api.example.org", None), vec![]).unwrap();
    assert!(named.get("spec").is_none(), "{named}");
    assert_eq!(named["metadata"]["annotations"][CP.annotation()], "api.example.org");
}

#[test]
fn an_ingress_address_is_shown_with_its_label_and_taken_off_only_where_it_was_ours() {
    let holdings = || {
        let mut all = held();
        all.push((Slot::INGRESS, bound(Slot::INGRESS, claim(Slot::INGRESS), "10.1.0.10")));
        all
    };
    let written = patch(&done(), holdings()).unwrap();
    assert_eq!(written["metadata"]["labels"], json!({key("ingress-vip"): "10.1.0.10"}));
    assert_eq!(written["metadata"]["annotations"], json!({key("ingress-vip"): "10.1.0.10"}));
    let mut off = done();
    off.annotations.insert(key("ingress-enabled"), "false".to_owned());
    off.annotations.insert(key("ingress-vip"), "10.1.0.10".to_owned());
    off.ingress_label = Some("10.1.0.10".to_owned());
    off.variables.insert(Slot::INGRESS, "10.1.0.10".to_owned());
    let hidden = patch(&off, holdings()).unwrap();
    assert_eq!(hidden["metadata"]["labels"], json!({key("ingress-vip"): null}));
    assert_eq!(hidden["metadata"]["annotations"], json!({key("ingress-vip"): null}));
    let left = hidden["spec"]["topology"]["variables"].as_array().unwrap();
    assert!(left.iter().all(|entry| entry["name"] != "ingressVip"), "{hidden}");
    assert_eq!(patch(&off, held()), None, "what a user wrote stays");
    let six = vec![(Slot::INGRESS, bound(Slot::INGRESS, claim(Slot::INGRESS), "2001:db8::1"))];
    let written = patch(&by_hand("api.example.org"), six).unwrap();
    assert!(written["metadata"].get("labels").is_none(), "a label cannot hold colons: {written}");
}

#[test]
fn both_families_are_shown_and_the_first_is_the_endpoint() {
    let mut cluster = noted(&[("ip-families", "ipv6,ipv4")]);
    cluster.created = ago(60);
    let holdings =
        vec![(CP, bound(CP, claim(CP), "2001:db8::10")), (SECOND, bound(SECOND, claim(SECOND), "10.0.0.10"))];
    let written = patch(&cluster, holdings).unwrap();
    assert_eq!(written["spec"]["controlPlaneEndpoint"]["host"], "2001:db8::10");
    let notes = &written["metadata"]["annotations"];
    assert_eq!(notes[key("control-plane-vip-secondary")], "10.0.0.10");
    assert_eq!(notes[key("control-plane-vip")], "2001:db8::10");
}
