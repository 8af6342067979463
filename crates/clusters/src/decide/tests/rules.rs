//! Rules that hold for every plan.

use proptest::prelude::*;

use super::*;

#[test]
fn the_guard_refuses_what_must_never_happen() {
    let mut s = snapshot();
    (s.endpoint, s.checked, s.generated) = (Endpoint::Free, Some(checks(None)), Some(Ok(generated(0))));
    let template = generated(0).rendered.control_plane_template.object;
    let change = Step::Apply { object: template, paths: Vec::new(), drift: false };
    assert!(guard(&s, std::slice::from_ref(&change)).is_err(), "a template is never changed");
    let plane = generated(0).rendered.control_plane;
    let write = Step::Apply { object: plane.clone(), paths: Vec::new(), drift: false };
    assert!(guard(&s, std::slice::from_ref(&write)).is_ok());
    assert!(guard(&s, &[Step::Look, write.clone()]).is_err(), "nothing follows the end");
    let mut elsewhere = plane;
    elsewhere["metadata"]["namespace"] = json!("team-a");
    assert!(guard(&s, &[Step::Apply { object: elsewhere, paths: Vec::new(), drift: false }]).is_err());
    edit(&mut s, |cluster| {
        cluster.metadata.annotations =
            Some([("anywhere.eks.amazonaws.com/paused".to_owned(), "true".to_owned())].into());
    });
    assert!(guard(&s, &[write]).is_err(), "a paused cluster is left alone");
}

proptest! {
    /// Whatever is known or not, there is a plan, it breaks no rule, and it is the same the next time.
    #[test]
    fn any_sight_gives_a_plan_that_breaks_no_rule(
        finalizer in any::<bool>(), deleting in any::<bool>(), paused in any::<bool>(), own in any::<bool>(),
        datacenter in any::<bool>(), clash in any::<bool>(), stored in 0_usize..12, capi in any::<bool>(),
        ready in 0_u8..3, inside in 0_u8..6, due in any::<bool>(), converged in any::<bool>(), left in 0_u8..3,
        failed in any::<bool>(),
    ) {
        let mut s = snapshot();
        edit(&mut s, |cluster| {
            if !finalizer { cluster.metadata.finalizers = None; }
            if deleting {
                let now = "2030-01-01T00:00:00Z".parse().unwrap();
                cluster.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            }
            if paused {
                let pause = ("anywhere.eks.amazonaws.com/paused".to_owned(), "true".to_owned());
                cluster.metadata.annotations = Some([pause].into());
            }
            if own { cluster.spec.management_cluster = None; }
        });
        if !datacenter { s.datacenter = None; }
        s.clash = clash.then(|| "b/prod".to_owned());
        s.endpoint = Endpoint::Free;
        s.checked = Some(checks(None));
        s.generated = Some(Ok(generated(stored)));
        s.capi = capi.then(Arc::default);
        s.plane = match ready { 0 => None, 1 => Some(plane("v1.30.0")), _ => Some(plane("v1.31.4-eks-1-31-12")) };
        s.inside = Some(match inside {
            0 => Inside::NoKubeconfig,
            1 => Inside::Unreachable("no".into()),
            2 => plugin(Next::Install),
            3 => plugin(Next::Check),
            4 => plugin(Next::LeaveAlone),
            _ => plugin(Next::Nothing),
        });
        s.due = due;
        if converged {
            let status = &mut s.stored.status;
            (status.reconciled_generation, status.inputs_hash, status.render_revision) = (Some(3), "h".into(), Some(1));
        }
        s.leftovers = (left > 0).then(|| {
            let target = Target { kind: Kind::of::<api::views::Cluster>(), key: ObjectKey::namespaced("eksa-system", "prod"), uid: "u".into() };
            let proof = Some(crate::snapshot::Belongs::Proven);
            Leftovers { capi: (left > 1).then_some((target, left > 2)), proof, ..Leftovers::default() }
        });
        if failed {
            let status = &mut s.stored.status;
            (status.failure_reason, status.failure_message) = ("MachineConfigInvalid".into(), "no".into());
        }
        let plan = decide(&s);
        prop_assert!(guard(&s, &plan).is_ok(), "{:?}", guard(&s, &plan));
        prop_assert_eq!(&plan, &decide(&s));
        if let Ok(thought) = think(&s) {
            let next = crate::status::status(&s, &thought, false);
            let again = Snapshot { stored: next.clone(), ..s.clone() };
            if let Ok(thought) = think(&again) {
                let twice = crate::status::status(&again, &thought, false);
                prop_assert!(twice.status.failure_reason.is_empty() == twice.status.failure_message.is_empty());
            }
        }
    }
}
