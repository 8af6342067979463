//! The roles for people grant what they say, and no tenant's role reaches what is the administrator's.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::support::{SOON, World, within};

const TENANT: &str = "people-tenant";
const METAL: &str = "people-metal";

const ROLES: [&str; 6] = [
    "hostclaim-editor",
    "hostclaim-viewer",
    "host-catalogue-viewer",
    "hostdeploypolicy-viewer",
    "hostdeploypolicy-editor",
    "host-admin",
];

/// What one role may do where it is bound: group, resource, verbs. Everything else it may not.
type Grant = (&'static str, &'static str, &'static [&'static str]);

const READ: &[&str] = &["get", "list", "watch"];
const ALL: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

fn grants(role: &str) -> &'static [Grant] {
    match role {
        "hostclaim-editor" => &[("metal3.io", "hostclaims", ALL), ("metal3.io", "hostclaims/status", READ)],
        "hostclaim-viewer" => &[("metal3.io", "hostclaims", READ), ("metal3.io", "hostclaims/status", READ)],
        "host-catalogue-viewer" => &[("metal3.io", "hardwaredata", READ)],
        "hostdeploypolicy-viewer" => {
            &[("metal3.io", "hostdeploypolicies", READ), ("metal3.io", "hostdeploypolicies/status", READ)]
        }
        "hostdeploypolicy-editor" => {
            &[("metal3.io", "hostdeploypolicies", ALL), ("metal3.io", "hostdeploypolicies/status", READ)]
        }
        _ => &[
            ("metal3.io", "baremetalhosts", ALL),
            ("metal3.io", "hardwaredata", ALL),
            ("metal3.io", "hostdeploypolicies", ALL),
            ("metal3.io", "baremetalhosts/status", READ),
            ("metal3.io", "hostdeploypolicies/status", READ),
            ("", "secrets", ALL),
        ],
    }
}

/// Everything that somebody might want to do with claims and hosts.
const ASKED: [(&str, &str); 12] = [
    ("metal3.io", "hostclaims"),
    ("metal3.io", "hostclaims/status"),
    ("metal3.io", "hostclaims/finalizers"),
    ("metal3.io", "hostdeploypolicies"),
    ("metal3.io", "hostdeploypolicies/status"),
    ("metal3.io", "baremetalhosts"),
    ("metal3.io", "baremetalhosts/status"),
    ("metal3.io", "hardwaredata"),
    ("", "secrets"),
    ("", "namespaces"),
    ("berth.dev", "hostclaimquotas"),
    ("berth.dev", "hostclaimkinds"),
];

async fn may(world: &World, user: &str, namespace: &str, group: &str, resource: &str, verb: &str) -> bool {
    let (resource, part) = resource.split_once('/').map_or((resource, None), |(resource, part)| (resource, Some(part)));
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: part.map(str::to_owned),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(user.to_owned()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews: Api<SubjectAccessReview> = Api::all(world.client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await.expect("the server answers");
    answer.status.is_some_and(|status| status.allowed)
}

#[tokio::test]
async fn each_role_for_people_grants_exactly_what_it_says() {
    let Some(world) = World::enter("each_role_for_people_grants_exactly_what_it_says").await else { return };
    for namespace in [TENANT, METAL] {
        world.namespace(namespace).await;
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/berth.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap();
    for role in ROLES {
        let name = format!("berth-{role}");
        let found = objects.iter().find(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == name.as_str());
        let found = found.unwrap_or_else(|| panic!("{name} is not rendered"));
        assert_eq!(found["metadata"]["labels"][format!("rbac.berth.dev/{role}")], "true");
        world.apply(found).await;
        let home = if role.starts_with("hostclaim") { TENANT } else { METAL };
        let user = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": role});
        let to = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
        world
            .apply(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": role, "namespace": home}, "roleRef": to, "subjects": [user]}))
            .await;
        let (group, resource, verbs) = grants(role)[0];
        within(SOON, "the binding is known", async || {
            may(&world, role, home, group, resource, verbs[0]).await.then_some(())
        })
        .await;
        for (group, resource) in ASKED {
            let granted = grants(role).iter().find(|(g, r, _)| (*g, *r) == (group, resource)).map_or(&[][..], |g| g.2);
            for verb in ALL {
                // Real requests for quotas and kinds have no namespace, so only a binding for the whole cluster counts.
                let wanted = granted.contains(verb) || (role == "host-admin" && group == "berth.dev");
                assert_eq!(may(&world, role, home, group, resource, verb).await, wanted, "{role}: {verb} {resource}");
            }
            let elsewhere = if home == TENANT { METAL } else { TENANT };
            assert!(!may(&world, role, elsewhere, group, resource, "get").await, "{role} in {elsewhere}: {resource}");
        }
    }
}
