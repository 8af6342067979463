//! From a Cluster to the bundle its images come from.

use api::own::anywhere::{Bundles, BundlesRef, Cluster, EKSARelease};
use api::reasons::clusters::Reason;

use crate::version::{Release, release_object};

/// Why no bundle is found, and the word for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotFound {
    /// The reason.
    pub reason: Reason,
    /// What has to be put right.
    pub message: String,
}

/// What there is to choose from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shelf<'s> {
    /// The managing Cluster, if it is known.
    pub management: Option<&'s Cluster>,
    /// The releases.
    pub releases: &'s [EKSARelease],
    /// The namespace that releases are in: one of the same name that somebody has elsewhere is none.
    pub system: &'s str,
    /// The bundles.
    pub bundles: &'s [Bundles],
}

/// Finds the bundle of a cluster: the one it names, that of its release, or what its management cluster has.
///
/// # Errors
/// When nothing names a bundle, or what is named is not there.
pub fn find<'s>(cluster: &Cluster, shelf: &Shelf<'s>) -> Result<&'s Bundles, NotFound> {
    let spec = &cluster.spec;
    newer_than_manager(cluster, shelf)?;
    if let Some(reference) = &spec.bundles_ref {
        return named(reference, shelf);
    }
    if !spec.eksa_version.is_empty() {
        return released(&spec.eksa_version, shelf);
    }
    if let Some(manager) = shelf.management {
        if !manager.spec.eksa_version.is_empty() {
            return released(&manager.spec.eksa_version, shelf);
        }
        if let Some(reference) = &manager.spec.bundles_ref {
            return named(reference, shelf);
        }
    }
    let manager = spec.management_cluster.clone().unwrap_or_default().name;
    let message = format!("set eksaVersion or bundlesRef here or on management cluster {manager}");
    Err(NotFound { reason: Reason::EksaVersionInvalid, message })
}

/// Refuses a version that is newer than that of the management cluster.
///
/// # Errors
/// When it is.
pub fn newer_than_manager(cluster: &Cluster, shelf: &Shelf<'_>) -> Result<(), NotFound> {
    let Some(manager) = shelf.management else { return Ok(()) };
    let (wanted, managed) = (&cluster.spec.eksa_version, &manager.spec.eksa_version);
    match (wanted.parse::<Release>(), managed.parse::<Release>()) {
        (Ok(one), Ok(other)) if one > other => {
            let message = format!("eksaVersion {wanted} is newer than {managed} of the management cluster");
            Err(NotFound { reason: Reason::EksaVersionInvalid, message })
        }
        _ => Ok(()),
    }
}

fn released<'s>(version: &str, shelf: &Shelf<'s>) -> Result<&'s Bundles, NotFound> {
    let name = release_object(version);
    let release = shelf.releases.iter().find(|release| {
        let meta = &release.metadata;
        meta.namespace.as_deref() == Some(shelf.system) && meta.name.as_deref() == Some(name.as_str())
    });
    match release {
        Some(release) => named(&release.spec.bundles_ref, shelf),
        None => {
            let message = format!("EKSARelease {name} not found");
            Err(NotFound { reason: Reason::EksaVersionInvalid, message })
        }
    }
}

fn named<'s>(reference: &BundlesRef, shelf: &Shelf<'s>) -> Result<&'s Bundles, NotFound> {
    let fits = |bundles: &&Bundles| {
        let meta = &bundles.metadata;
        let here = meta.namespace.as_deref().unwrap_or(&reference.namespace) == reference.namespace;
        here && meta.name.as_deref() == Some(reference.name.as_str())
    };
    shelf.bundles.iter().find(fits).ok_or_else(|| NotFound {
        reason: Reason::BundleNotFoundForCluster,
        message: format!("Bundles {}/{} not found", reference.namespace, reference.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::own::anywhere::{BundlesSpec, ClusterSpec, EKSAReleaseSpec};
    use serde_json::{Value, json};

    fn cluster(spec: Value) -> Cluster {
        Cluster::new("c", serde_json::from_value::<ClusterSpec>(spec).unwrap())
    }

    fn reference(name: &str) -> Value {
        json!({"apiVersion": "v", "name": name, "namespace": "eksa-system"})
    }

    #[test]
    fn a_bundle_is_found_or_the_reason_is_told() {
        let mut bundles = Bundles::new("bundles-7", BundlesSpec::default());
        bundles.metadata.namespace = Some("eksa-system".into());
        let bundles = [bundles];
        let release: EKSAReleaseSpec =
            serde_json::from_value(json!({"version": "v0.22.1", "bundlesRef": reference("bundles-7")})).unwrap();
        let in_namespace = |name: &str, namespace: &str| {
            let mut found = EKSARelease::new(name, release.clone());
            found.metadata.namespace = Some(namespace.to_owned());
            found
        };
        let releases = [in_namespace("eksa-v0-23-0", "team-a"), in_namespace("eksa-v0-22-1", "eksa-system")];
        let manager = |spec: Value| Some(cluster(spec));
        type Found<'f> = Result<&'f str, (Reason, &'f str)>;
        let rows: Vec<(Value, Option<Cluster>, Found<'_>)> = vec![
            (json!({"bundlesRef": reference("bundles-7")}), None, Ok("bundles-7")),
            (json!({"eksaVersion": "v0.22.1"}), None, Ok("bundles-7")),
            (json!({}), manager(json!({"eksaVersion": "v0.22.1"})), Ok("bundles-7")),
            (json!({}), manager(json!({"bundlesRef": reference("bundles-7")})), Ok("bundles-7")),
            (
                json!({"managementCluster": {"name": "mgmt"}}),
                manager(json!({})),
                Err((Reason::EksaVersionInvalid, "set eksaVersion or bundlesRef here or on management cluster mgmt")),
            ),
            (
                json!({"eksaVersion": "v0.23.0"}),
                None,
                Err((Reason::EksaVersionInvalid, "EKSARelease eksa-v0-23-0 not found")),
            ),
            (
                json!({"eksaVersion": "v0.23.0"}),
                manager(json!({"eksaVersion": "v0.22.1"})),
                Err((
                    Reason::EksaVersionInvalid,
                    "eksaVersion v0.23.0 is newer than v0.22.1 of the management cluster",
                )),
            ),
            (
                json!({"bundlesRef": reference("bundles-8")}),
                None,
                Err((Reason::BundleNotFoundForCluster, "Bundles eksa-system/bundles-8 not found")),
            ),
        ];
        for (spec, management, wanted) in rows {
            let (management, system) = (management.as_ref(), "eksa-system");
            let shelf = Shelf { management, releases: &releases, system, bundles: &bundles };
            let found = find(&cluster(spec.clone()), &shelf);
            let found = found.map(|bundles| bundles.metadata.name.as_deref().unwrap());
            let wanted = wanted.map_err(|(reason, message)| NotFound { reason, message: message.to_owned() });
            assert_eq!(found, wanted, "{spec}");
        }
    }
}
