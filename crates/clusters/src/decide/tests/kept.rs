//! Clusters that are carried out, by us or by others.

use super::*;

#[test]
fn a_cluster_that_is_carried_out_asks_nobody_until_it_is_time_to_look() {
    let mut s = snapshot();
    s.capi = Some(Arc::default());
    s.plane = Some(plane("v1.31.4-eks-1-31-12"));
    let status = &mut s.stored.status;
    (status.reconciled_generation, status.inputs_hash, status.render_revision) = (Some(3), "h".into(), Some(1));
    s.due = false;
    assert_eq!(names(&think(&s).unwrap().steps), Vec::<String>::new());
    s.due = true;
    assert_eq!(think(&s), Err(Need::Generated));
    let mut drifted = generated(99);
    let key = ("MachineDeployment".to_owned(), "prod-md-0".to_owned());
    drifted.stored.get_mut(&key).unwrap()["spec"]["replicas"] = json!(9);
    s.generated = Some(Ok(drifted));
    let thought = think(&s).unwrap();
    assert_eq!(applied(&thought.steps), ["MachineDeployment"]);
    assert!(matches!(&thought.steps[0], Step::Apply { drift: true, paths, .. } if *paths == ["spec.replicas"]));
    s.generated = Some(Ok(generated(99)));
    s.inside = Some(Inside::Unreachable("no route".into()));
    let thought = think(&s).unwrap();
    assert!(thought.verified && thought.steps.is_empty(), "a cluster out of reach was carried out nevertheless");
    // What another revision rendered is left as it is.
    s.stored.status.render_revision = Some(0);
    s.generated = None;
    assert_eq!(names(&think(&s).unwrap().steps), Vec::<String>::new());
}

#[test]
fn a_cluster_of_others_is_labelled_and_remembered() {
    let mut s = snapshot();
    s.stored.status.reconciled_generation = Some(3);
    s.capi = Some(Arc::default());
    s.plane = Some(plane("v1.31.4-eks-1-31-12"));
    s.groups = ["prod-md-0", "theirs"].map(|name| (name.to_owned(), crate::facts::GroupFacts::default())).into();
    let thought = think(&s).unwrap();
    assert!(thought.adopted);
    let labelled: Vec<&str> = thought
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Label { target } => Some(target.key.name()),
            _ => None,
        })
        .collect();
    assert_eq!(labelled, ["prod", "prod", "prod-md-0"], "what others made beside them stays theirs");
    let next = crate::status::status(&s, &thought, false);
    assert_eq!((next.status.render_revision, next.status.inputs_hash.as_str()), (Some(0), "h"));
}

#[test]
fn only_what_is_provably_its_own_belongs_to_a_cluster() {
    use crate::facts::{CapiFacts, Mark};
    use crate::snapshot::{Belongs, belongs};
    let s = snapshot();
    let capi = |owner: Option<(&str, &str)>, host: &str| CapiFacts {
        mark: Mark { owner: owner.map(|(namespace, name)| ObjectKey::namespaced(namespace, name)), ..Mark::default() },
        host: host.to_owned(),
        port: 6443,
    };
    let mut done = (*s.cluster).clone();
    done.status.reconciled_generation = Some(1);
    let (new, done) = ((*s.cluster).clone(), done);
    for (capi, cluster, alone, wanted) in [
        (capi(Some(("team-a", "prod")), "x"), &new, false, Belongs::Labelled),
        (capi(Some(("team-a", "other")), "172.16.0.5"), &done, true, Belongs::Elsewhere),
        (capi(Some(("team-b", "prod")), "172.16.0.5"), &done, true, Belongs::Elsewhere),
        (capi(None, "172.16.0.5"), &done, true, Belongs::Proven),
        (capi(None, "172.16.0.5"), &done, false, Belongs::Elsewhere),
        (capi(None, "172.16.0.6"), &done, true, Belongs::Elsewhere),
        (capi(None, "172.16.0.5"), &new, true, Belongs::Alike),
    ] {
        assert_eq!(belongs(&capi, &s.key, cluster, alone), wanted, "{capi:?} {alone}");
    }
}
