//! The rights the room needs in an AWS account, as a policy to attach to its role.

use api::names::hosts::{ALLOCATION_ID_TAG, MANAGEMENT_CLUSTER_TAG, RETAINED_TAG};
use serde_json::{Value, json};

/// Rights to look.
pub const READ: [&str; 12] = [
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeHosts",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVolumes",
    "ec2:DescribeVpcs",
];

/// Rights to launch, change, stop, start and end instances.
pub const INSTANCES: [&str; 6] = [
    "ec2:ModifyInstanceMetadataOptions",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:RunInstances",
    "ec2:StartInstances",
    "ec2:StopInstances",
    "ec2:TerminateInstances",
];

/// Rights on hosts and tags.
pub const HOSTS: [&str; 4] = ["ec2:AllocateHosts", "ec2:CreateTags", "ec2:DeleteTags", "ec2:ReleaseHosts"];

fn statement(id: &str, actions: &[&str], resource: &str, condition: Option<Value>) -> Value {
    let mut statement = json!({"Sid": id, "Effect": "Allow", "Action": actions, "Resource": resource});
    if let (Some(condition), Some(fields)) = (condition, statement.as_object_mut()) {
        fields.insert("Condition".to_owned(), condition);
    }
    statement
}

fn document(statements: Vec<Value>) -> Value {
    json!({"Version": "2012-10-17", "Statement": statements})
}

/// The policy in its plain form. `profiles` are the roles of nodes, which instances are given.
#[must_use]
pub fn policy(profiles: &[&str]) -> Value {
    document(vec![
        statement("Look", &READ, "*", None),
        statement("Instances", &INSTANCES, "*", None),
        statement("Hosts", &HOSTS, "*", None),
        pass_role(profiles),
    ])
}

fn pass_role(profiles: &[&str]) -> Value {
    json!({"Sid": "Profiles", "Effect": "Allow", "Action": ["iam:PassRole"], "Resource": profiles})
}

/// The policy in a form that holds EC2 itself to our rules: hosts are allocated only with the tag of a management cluster,
/// and released or untagged only if they carry an allocation id.
#[must_use]
pub fn hardened_policy(profiles: &[&str]) -> Value {
    const HOST: &str = "arn:*:ec2:*:*:dedicated-host/*";
    let has = |tag: &str| json!({"Null": {format!("aws:ResourceTag/{tag}"): "false"}});
    let has_id = || has(ALLOCATION_ID_TAG);
    let names_keeper = json!({"Null": {format!("aws:RequestTag/{MANAGEMENT_CLUSTER_TAG}"): "false"}});
    let tagging = |actions: &[&str]| {
        let not = json!({"Sid": "TagsOfOthers", "Effect": "Allow", "Action": actions, "NotResource": HOST});
        not
    };
    document(vec![
        statement("Look", &READ, "*", None),
        statement("Instances", &INSTANCES, "*", None),
        statement("Allocate", &["ec2:AllocateHosts"], HOST, Some(names_keeper)),
        statement("Release", &["ec2:DeleteTags", "ec2:ReleaseHosts"], HOST, Some(has_id())),
        statement(
            "TagNewHosts",
            &["ec2:CreateTags"],
            HOST,
            Some(json!({"StringEquals": {"ec2:CreateAction": "AllocateHosts"}})),
        ),
        statement("TagOwnHosts", &["ec2:CreateTags"], HOST, Some(has_id())),
        // What was left behind on purpose may be taken again.
        statement("TagLeftHosts", &["ec2:CreateTags"], HOST, Some(has(RETAINED_TAG))),
        tagging(&["ec2:CreateTags", "ec2:DeleteTags"]),
        pass_role(profiles),
    ])
}

/// Every action of the plain policy.
#[must_use]
pub fn actions() -> Vec<&'static str> {
    READ.iter().chain(&INSTANCES).chain(&HOSTS).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hardened_policy_lets_nobody_release_a_host_that_is_not_ours() {
        let policy = hardened_policy(&["arn:aws:iam::123456789012:role/nodes"]);
        let all = policy["Statement"].as_array().unwrap();
        let allowing = |action: &str| -> Vec<&Value> {
            all.iter().filter(|s| s["Action"].as_array().unwrap().iter().any(|a| a == action)).collect()
        };
        let release = allowing("ec2:ReleaseHosts");
        assert_eq!(release.len(), 1);
        assert_eq!(release[0]["Condition"]["Null"][format!("aws:ResourceTag/{ALLOCATION_ID_TAG}")], "false");
        let allocate = allowing("ec2:AllocateHosts");
        assert_eq!(allocate[0]["Condition"]["Null"][format!("aws:RequestTag/{MANAGEMENT_CLUSTER_TAG}")], "false");
        for tags in allowing("ec2:CreateTags") {
            assert!(tags["Condition"].is_object() || tags["NotResource"].is_string(), "{tags}");
        }
    }

    #[test]
    fn both_policies_allow_the_same_actions() {
        let listed = |policy: Value| {
            let mut all: Vec<String> = policy["Statement"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|s| s["Action"].as_array().unwrap().clone())
                .map(|action| action.as_str().unwrap().to_owned())
                .collect();
            all.sort();
            all.dedup();
            all
        };
        let mut wanted: Vec<String> =
            actions().into_iter().map(str::to_owned).chain(["iam:PassRole".to_owned()]).collect();
        wanted.sort();
        assert_eq!(listed(policy(&[])), wanted);
        assert_eq!(listed(hardened_policy(&[])), wanted);
    }
}
