//! Type, region, credentials and endpoints of a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::key::ObjectKey;
use api::reasons::capacity::Reason;
use api::views::ServiceEndpoint;
use aws::credentials::{Ambient, Files};
use aws::errors::Service;
use aws::identity::{Chain, IdentityError, IdentityKind, IdentityName};
use capacity::config::{AmbientUse, Config, NodeLabel};
use capacity::facts::{GroupFacts, GroupKind, InfrastructureFacts, TemplateFacts};
use capacity::goal::{Goal, Profile};
use capacity::judge::{Credential, Ec2Wish, Judgement, Lookup, Scene, Wish, judge};
use capacity::names::{OS, REGION};
use capacity::status::{Outlook, Trouble};
use serde_json::json;

use crate::build::{NAMESPACE, aws, catalogue, deployment, openshift, plain_deployment, scene};

fn wants(scene: &Scene) -> Wish {
    match judge(scene) {
        Judgement::Wants(wish) => *wish,
        other => panic!("{other:?}"),
    }
}

fn ec2(scene: &Scene) -> Ec2Wish {
    match wants(scene).lookup {
        Lookup::Ec2(wish) => wish,
        other => panic!("{other:?}"),
    }
}

fn stuck(scene: &Scene) -> Trouble {
    match judge(scene) {
        Judgement::Stuck(trouble) => trouble,
        other => panic!("{other:?}"),
    }
}

fn config(scene: &mut Scene, change: impl FnOnce(&mut Config)) {
    let mut config = Config::clone(&scene.config);
    change(&mut config);
    scene.config = Arc::new(config);
}

fn template(instance_type: Option<&str>) -> Arc<TemplateFacts> {
    Arc::new(TemplateFacts {
        instance_type: instance_type.map(Into::into),
        root_gib: Some(100),
        ..TemplateFacts::default()
    })
}

fn cluster_api() -> Scene {
    let mut one = scene(GroupKind::Deployment, deployment(plain_deployment(&[])));
    one.template = Some(template(Some("m5.xlarge")));
    one.cluster_region = Some("us-west-2".into());
    one
}

fn given() -> Ambient {
    let vars = BTreeMap::from([
        ("AWS_ROLE_ARN".to_owned(), "arn:aws:iam::123456789012:role/a".to_owned()),
        ("AWS_WEB_IDENTITY_TOKEN_FILE".to_owned(), "/var/run/secrets/t".to_owned()),
    ]);
    Ambient::decide(&vars, &Files::default()).unwrap()
}

fn guessed() -> Ambient {
    Ambient::decide(&BTreeMap::new(), &Files::default()).unwrap()
}

#[test]
fn regions_are_found_in_their_order() {
    let of = |placement: serde_json::Value| {
        let mut spec = aws("m5.xlarge");
        spec["placement"] = placement;
        scene(GroupKind::OpenShiftSet, openshift(&[(REGION, "eu-west-3")], spec))
    };
    for (placement, region) in [
        (json!({"region": "us-east-1", "availabilityZone": "us-west-2a"}), "us-east-1"),
        (json!({"availabilityZone": "us-west-2a"}), "us-west-2"),
        (json!({"availabilityZone": "us-west-2-lax-1a"}), "us-west-2"),
        (json!({"availabilityZone": "us-east-1-wl1-bos-wlz-1"}), "us-east-1"),
        (json!({"region": "us-gov-west-1"}), "us-gov-west-1"),
    ] {
        assert_eq!(ec2(&of(placement.clone())).region.as_str(), region, "{placement}");
    }
    let mut none = of(json!({}));
    assert!(stuck(&none).message.contains("region"), "the annotation is for Cluster API only");
    config(&mut none, |c| c.environment_region = "eu-north-1".parse().ok());
    assert_eq!(ec2(&none).region.as_str(), "eu-north-1");
    config(&mut none, |c| c.default_region = "eu-south-1".parse().ok());
    assert_eq!(ec2(&none).region.as_str(), "eu-south-1");
    none.infrastructure = Some(Arc::new(InfrastructureFacts { region: Some("ap-south-1".into()), endpoints: vec![] }));
    assert_eq!(ec2(&none).region.as_str(), "ap-south-1");
}

#[test]
fn regions_of_cluster_api_come_from_the_cluster_then_the_annotation() {
    let mut one = cluster_api();
    assert_eq!(ec2(&one).region.as_str(), "us-west-2");
    one.group = Arc::new(deployment(plain_deployment(&[(REGION, "eu-west-3")])));
    assert_eq!(ec2(&one).region.as_str(), "us-west-2");
    one.cluster_region = None;
    assert_eq!(ec2(&one).region.as_str(), "eu-west-3");
    one.group = Arc::new(deployment(plain_deployment(&[])));
    let trouble = stuck(&one);
    assert_eq!((trouble.reason, trouble.outlook), (Reason::FailedUpdate, Outlook::Terminal));
    one.cluster_region = Some("not a region".into());
    assert!(stuck(&one).message.contains("not a region"));
}

#[test]
fn the_identity_of_a_cluster_comes_before_every_other_credential() {
    let mut one = cluster_api();
    config(&mut one, |c| c.credentials = Some(ObjectKey::namespaced("x", "y")));
    one.identity = Some(Ok(Chain::process()));
    assert_eq!(ec2(&one).credential, Credential::Identity(Box::new(Chain::process())));
    let name = IdentityName { kind: IdentityKind::Role, name: "r".to_owned() };
    one.identity = Some(Err(IdentityError::Missing(name.clone())));
    let trouble = stuck(&one);
    assert_eq!((trouble.reason, trouble.outlook), (Reason::FailedUpdate, Outlook::Missing));
    assert_eq!(trouble.message, "AWSClusterRoleIdentity r is not there");
    one.identity = Some(Err(IdentityError::Loop(name)));
    let trouble = stuck(&one);
    assert_eq!((trouble.reason, trouble.outlook), (Reason::FailedUpdate, Outlook::Terminal));
    assert!(trouble.message.contains("AWSClusterRoleIdentity r"), "{}", trouble.message);
}

#[test]
fn credentials_are_chosen_in_their_order() {
    let secret = |namespace: &str, name: &str| Credential::Secret(ObjectKey::namespaced(namespace, name));
    let own = secret(NAMESPACE, "aws-cloud-credentials");
    let named = || scene(GroupKind::OpenShiftSet, openshift(&[], aws("m5.xlarge")));
    let mut one = named();
    assert_eq!(ec2(&one).credential, own);
    config(&mut one, |c| c.ambient = Ok(given()));
    assert_eq!(ec2(&one).credential, own);
    config(&mut one, |c| c.prefer_ambient = true);
    assert_eq!(ec2(&one).credential, Credential::Ambient);
    config(&mut one, |c| c.ambient_use = AmbientUse::Never);
    assert_eq!(ec2(&one).credential, own);
    config(&mut one, |c| c.credentials = Some(ObjectKey::namespaced("a", "b")));
    assert_eq!(ec2(&one).credential, secret("a", "b"));

    let mut spec = aws("m5.xlarge");
    spec["credentialsSecret"] = json!(null);
    let mut bare = scene(GroupKind::OpenShiftSet, openshift(&[], spec));
    let trouble = stuck(&bare);
    assert_eq!((trouble.reason, trouble.outlook), (Reason::ReconcileError, Outlook::Terminal));
    assert!(trouble.message.contains("openshift-machine-api/a"), "{}", trouble.message);
    config(&mut bare, |c| c.ambient = Ok(guessed()));
    assert_eq!(stuck(&bare).outlook, Outlook::Terminal, "a guess is no evidence");
    config(&mut bare, |c| c.ambient_use = AmbientUse::Always);
    assert_eq!(ec2(&bare).credential, Credential::Ambient);
    config(&mut bare, |c| (c.ambient_use, c.ambient) = (AmbientUse::Auto, Ok(given())));
    assert_eq!(ec2(&bare).credential, Credential::Ambient);

    let mut other = cluster_api();
    assert_eq!(ec2(&other).credential, Credential::Ambient, "the whole chain");
    config(&mut other, |c| c.ambient_use = AmbientUse::Never);
    assert_eq!(stuck(&other).reason, Reason::FailedUpdate);
}

#[test]
fn endpoints_of_the_cluster_are_used_and_bad_ones_named() {
    let mut one = cluster_api();
    let infrastructure = |url: &str| {
        let endpoint = |name: &str, url: &str| ServiceEndpoint { name: name.to_owned(), url: url.to_owned() };
        let endpoints = vec![endpoint("s3", "http://odd"), endpoint("ec2", url)];
        Some(Arc::new(InfrastructureFacts { region: None, endpoints }))
    };
    one.infrastructure = infrastructure("https://ec2.example");
    let wish = ec2(&one);
    assert_eq!(wish.endpoints.of(Service::Ec2, &wish.region).url, "https://ec2.example/");
    assert_eq!(capacity::observe::place(&wish).endpoint.as_deref(), Some("https://ec2.example/"));
    config(&mut one, |c| c.endpoints = c.endpoints.clone().flag("ec2=http://127.0.0.1:1".parse().unwrap()));
    assert_eq!(capacity::observe::place(&ec2(&one)).endpoint.as_deref(), Some("http://127.0.0.1:1/"));
    one.infrastructure = infrastructure("http://plain.example");
    assert!(stuck(&one).message.contains("Infrastructure"));
}

#[test]
fn what_a_template_lacks_is_said() {
    let mut one = cluster_api();
    let wish = wants(&one);
    assert_eq!((wish.around.instance_type.as_str(), wish.around.root_gib), ("m5.xlarge", Some(100)));
    one.template = None;
    let trouble = stuck(&one);
    assert_eq!((trouble.reason, trouble.outlook), (Reason::FailedUpdate, Outlook::Missing));
    assert!(trouble.message.contains("AWSMachineTemplate t"));
    for empty in [None, Some("")] {
        one.template = Some(template(empty));
        let trouble = stuck(&one);
        assert_eq!((trouble.reason, trouble.outlook), (Reason::FailedUpdate, Outlook::Terminal));
    }
}

#[test]
fn nodes_run_what_the_label_of_the_machines_or_the_template_says() {
    for (os, windows) in [(Some("Windows"), true), (Some("windows"), true), (Some("RHEL"), false), (None, false)] {
        let set = json!({
            "metadata": {"name": "a", "namespace": NAMESPACE},
            "spec": {"template": {
                "metadata": {"labels": os.map(|os| json!({"machine.openshift.io/os-id": os}))},
                "spec": {"providerSpec": {"value": aws("m5.xlarge")}},
            }},
        });
        let group = GroupFacts::of_openshift(serde_json::from_value(set).unwrap());
        assert_eq!(wants(&scene(GroupKind::OpenShiftSet, group)).around.windows, windows, "{os:?}");
        let mut one = cluster_api();
        let mut facts = TemplateFacts::clone(&template(Some("m5.xlarge")));
        facts.status.operating_system = os.map(str::to_owned);
        one.template = Some(Arc::new(facts));
        let wish = wants(&one);
        assert_eq!(wish.around.windows, windows, "{os:?}");
        let config = Config { node_labels: [NodeLabel::Os].into(), ..Config::default() };
        let goal = Goal::of(&catalogue("m5.xlarge"), &wish.around, Profile::of(config.keys, false), &config);
        assert_eq!(goal.labels[OS], if windows { "windows" } else { "linux" });
    }
}

#[test]
fn references_lie_in_the_objects_own_namespace() {
    let with = |namespace: &str| {
        let mut wire = plain_deployment(&[]);
        wire["spec"]["template"]["spec"]["infrastructureRef"] = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate", "name": "t", "namespace": namespace});
        let mut one = cluster_api();
        one.group = Arc::new(deployment(wire));
        one
    };
    assert_eq!(wants(&with("default")).around.instance_type, "m5.xlarge");
    let trouble = stuck(&with("kube-system"));
    assert!(trouble.message.contains("kube-system") && trouble.outlook == Outlook::Terminal);
    let mut none = cluster_api();
    none.group = Arc::new(deployment(json!({"metadata": {"name": "a", "namespace": "default"}})));
    assert!(stuck(&none).message.contains("infrastructureRef"));
}

#[test]
fn an_empty_type_is_unknown_and_a_bad_spec_is_invalid() {
    let trouble = stuck(&scene(GroupKind::OpenShiftSet, openshift(&[], aws(""))));
    assert_eq!((trouble.reason, trouble.outlook), (Reason::FailedUpdate, Outlook::UnknownType));
    for part in ["instance type", "\"\"", "unknown", "us-east-1"] {
        assert!(trouble.message.contains(part), "{}", trouble.message);
    }
    let trouble = stuck(&scene(GroupKind::OpenShiftSet, openshift(&[], json!({"instanceType": 3}))));
    assert_eq!((trouble.reason, trouble.outlook), (Reason::ReconcileError, Outlook::Terminal));
    assert!(trouble.message.contains("instanceType"));
}
