//! Clusters that go.

use super::*;

#[test]
fn a_cluster_goes_when_nothing_of_it_is_left_and_not_before() {
    let mut s = snapshot();
    edit(&mut s, |cluster| {
        let now = "2030-01-01T00:00:00Z".parse().unwrap();
        cluster.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
    });
    s.datacenter = None;
    assert_eq!(think(&s), Err(Need::Leftovers));
    let capi = Target {
        kind: Kind::of::<api::views::Cluster>(),
        key: ObjectKey::namespaced("eksa-system", "prod"),
        uid: "u-2".into(),
    };
    s.nodes = 4;
    s.leftovers = Some(Leftovers { capi: Some((capi.clone(), false)), ..Leftovers::default() });
    assert!(guard(&s, &decide(&s)).is_err(), "what is not proven to be its own is never deleted");
    let proof = Some(crate::snapshot::Belongs::Labelled);
    s.leftovers = Some(Leftovers { capi: Some((capi.clone(), false)), proof, ..Leftovers::default() });
    assert_eq!(names(&decide(&s)), ["Dissolve", "Wait"]);
    assert!(guard(&s, &decide(&s)).is_ok());
    let thought = think(&s).unwrap();
    let next = crate::status::status(&s, &thought, false).status;
    let ready = next.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!((ready.reason.as_str(), ready.message.as_str()), ("Deleting", "4 machines left"));
    s.leftovers = Some(Leftovers { capi: Some((capi.clone(), true)), ..Leftovers::default() });
    assert_eq!(names(&decide(&s)), ["Wait"]);
    assert!(guard(&s, &[Step::Release]).is_err());
    let rest = Target { kind: Kind::of::<api::views::MachineHealthCheck>(), ..capi };
    s.leftovers = Some(Leftovers { rest: vec![rest], ..Leftovers::default() });
    assert_eq!(names(&decide(&s)), ["Delete", "Release", "Wait"]);
    assert!(guard(&s, &decide(&s)).is_ok());
}

#[test]
fn nothing_is_written_for_a_cluster_that_others_delete() {
    let mut s = snapshot();
    s.capi = Some(Arc::default());
    s.fading = true;
    assert_eq!(names(&decide(&s)), ["Wait"]);
    let next = crate::status::status(&s, &think(&s).unwrap(), false).status;
    assert_eq!(next.conditions[0].message, "its Cluster of Cluster API is being deleted");
    let plane = generated(0).rendered.control_plane;
    assert!(guard(&s, &[Step::Apply { object: plane, paths: Vec::new(), drift: false }]).is_err());
    // One that is gone is made anew by way of every check.
    let status = &mut s.stored.status;
    (status.reconciled_generation, status.inputs_hash, status.render_revision) = (Some(3), "h".into(), Some(1));
    (s.capi, s.fading) = (None, false);
    assert_eq!(think(&s), Err(Need::Endpoint));
}

#[test]
fn annotations_count_by_their_value() {
    let mut s = snapshot();
    edit(&mut s, |cluster| {
        let now = "2030-01-01T00:00:00Z".parse().unwrap();
        cluster.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        let word = |name: &str, value: &str| (format!("anywhere.eks.amazonaws.com/{name}"), value.to_owned());
        cluster.metadata.annotations = Some([word("paused", "true"), word("allow-delete-when-paused", "false")].into());
    });
    assert_eq!(names(&decide(&s)), ["Wait"]);
    edit(&mut s, |cluster| {
        let all = cluster.metadata.annotations.as_mut().unwrap();
        all.insert("anywhere.eks.amazonaws.com/allow-delete-when-paused".to_owned(), "true".to_owned());
    });
    assert_eq!(think(&s), Err(Need::Leftovers));
    edit(&mut s, |cluster| {
        cluster.spec.management_cluster = None;
        let all = cluster.metadata.annotations.as_mut().unwrap();
        all.insert("anywhere.eks.amazonaws.com/managed-by-cli".to_owned(), "false".to_owned());
    });
    assert!(!names(&decide(&s)).contains(&"Release".to_owned()));
}
