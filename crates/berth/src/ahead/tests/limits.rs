//! How many hosts a tenant may hold.

use super::*;

fn quota(hosts: u32) -> Value {
    json!({"apiVersion": "berth.dev/v1alpha1", "kind": "HostClaimQuota", "metadata": {"name": "teams"},
        "spec": {"tenants": {"names": ["team-a"]}, "hard": {"hosts": hosts}}})
}

#[tokio::test]
async fn a_claim_that_a_quota_refuses_is_told_so() {
    let server = server();
    put(&server, [host("one", "large"), host("two", "large"), policy(), quota(1)]);
    let mut files = file(&[claim("web-1"), claim("web-2")]);
    let told = told(&server, &mut files, &[]).await;
    let reason = |one: &Explanation| one.needs.iter().find_map(|need| need.reason).unwrap().to_owned();
    let reasons: Vec<String> = told.iter().map(reason).collect();
    assert_eq!(
        reasons,
        ["HostSelected", "QuotaExceeded"],
        "one may have a host, and the last one is not promised twice"
    );
    insta::assert_snapshot!(shown(&told, &files));
}

#[tokio::test]
async fn a_quota_of_the_same_files_counts() {
    let server = server();
    put(&server, [host("one", "large"), policy()]);
    let mut files = file(&[quota(0), claim("web-1")]);
    let told = told(&server, &mut files, &[]).await;
    assert_eq!(told[0].needs[0].reason, Some("QuotaExceeded"), "{told:?}");
    assert_eq!(files.passed_over(), [], "what was taken into account is not passed over");
}
