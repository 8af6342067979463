//! Whether the room `clusters` stands on firm ground: the kinds that it makes clusters of, and datacenters that passed their
//! check.

use api::key::ObjectKey;
use api::own::anywhere::AvailabilityZone;
use api::raw::{CloudStackDatacenterConfig, Cluster};
use api::views;
use kit::class::chain;
use kube::Client;
use serde_json::Value;

use super::{Check, count, list, served, some};

/// The checks of the room; without a cluster or datacenter only that there is none.
pub async fn all(client: &Client) -> Vec<Check> {
    let lists = async {
        let clusters = list::<Cluster>(client, "cloudstack clusters").await?;
        Ok::<_, Check>((clusters, list::<CloudStackDatacenterConfig>(client, "datacenters").await?))
    };
    let (clusters, datacenters) = match lists.await {
        Ok((Some(clusters), Some(datacenters))) => (clusters, datacenters),
        // The check of Berth's own kinds has told that they are missing.
        Ok(_) => return Vec::new(),
        Err(check) => return vec![check],
    };
    if clusters.is_empty() && datacenters.is_empty() {
        return vec![Check::ok("cloudstack clusters", "no Cluster of EKS Anywhere, so nothing is needed for one")];
    }
    let found = format!("{} of EKS Anywhere", count(clusters.len(), "Cluster"));
    vec![providers(client, &found).await, of_datacenters(&datacenters)]
}

/// What clusters are made of is other projects'.
async fn providers(client: &Client, clusters: &str) -> Check {
    let asked = async {
        let core = "clusterctl init";
        let cloud = "clusterctl init --infrastructure cloudstack";
        Ok::<_, Box<kube::Error>>([
            ("Cluster (cluster.x-k8s.io)", core, served::<views::Cluster>(client).await?),
            ("MachineDeployment", core, served::<views::MachineDeployment>(client).await?),
            ("MachineHealthCheck", core, served::<views::MachineHealthCheck>(client).await?),
            ("KubeadmControlPlane", core, served::<views::KubeadmControlPlane>(client).await?),
            ("KubeadmConfigTemplate", core, served::<views::KubeadmConfigTemplate>(client).await?),
            ("CloudStackCluster", cloud, served::<views::CloudStackCluster>(client).await?),
            ("CloudStackMachineTemplate", cloud, served::<views::CloudStackMachineTemplate>(client).await?),
        ])
    };
    let asked = match asked.await {
        Ok(asked) => asked,
        Err(error) => {
            return Check::warn("cloudstack clusters", format!("asking for kinds: {}", chain(&*error)), "try again");
        }
    };
    let missing: Vec<_> = asked.iter().filter(|(_, _, kind)| kind.is_none()).collect();
    let Some((_, fix, _)) = missing.first() else {
        let found = format!("{clusters}, and every kind they are made of is served");
        return Check::ok("cloudstack clusters", found);
    };
    let names: Vec<&str> = missing.iter().map(|(name, _, _)| *name).collect();
    let found = format!("{clusters}, and not served: {}", names.join(", "));
    Check::fail("cloudstack clusters", found, *fix)
}

/// The zones of a datacenter; none where they cannot be read.
pub fn zones(datacenter: &CloudStackDatacenterConfig) -> Vec<AvailabilityZone> {
    let all = datacenter.spec.get("availabilityZones").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(|zone| serde_json::from_value(zone.clone()).ok()).collect()
}

/// What the room itself has found of each.
fn of_datacenters(all: &[CloudStackDatacenterConfig]) -> Check {
    let refused = all.iter().filter_map(|datacenter| {
        let field = |name: &str| datacenter.status.get(name);
        let current = field("observedGeneration").and_then(Value::as_i64) == datacenter.metadata.generation;
        let refused = current && field("specValid").and_then(Value::as_bool) == Some(false);
        let message = field("failureMessage").and_then(Value::as_str).unwrap_or("it says no more");
        refused.then(|| format!("{}: {message}", ObjectKey::of(datacenter)))
    });
    let refused: Vec<String> = refused.collect();
    if refused.is_empty() {
        return Check::ok("datacenters", format!("{}, none refused", count(all.len(), "CloudStackDatacenterConfig")));
    }
    let fix = "kubectl get csdc -A -o wide   (correct what is named, or its credentials; it is checked again at once)";
    Check::warn("datacenters", some(&refused), fix)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sim::server::{Kind, Server};

    use super::super::Level;
    use super::*;

    const OWN: &str = "anywhere.eks.amazonaws.com";

    fn serve<K: api::meta::View>(server: &Server) {
        let kind = kit::kinds::Kind::of::<K>();
        let version = K::VERSIONS.first().map_or(kind.version.as_str(), |version| version);
        server.register(Kind::namespaced(&kind.group, version, &kind.kind, &kind.plural));
    }

    async fn checked(server: &Server) -> Vec<Check> {
        let client = server.client("doctor").kube();
        all(&client).await
    }

    #[tokio::test(start_paused = true)]
    async fn what_clusters_are_made_of_must_be_served_where_there_is_one() {
        let server = Server::new(1);
        server.namespace("team-a");
        assert!(checked(&server).await.is_empty(), "Berth's own kinds are missing, which is told elsewhere");
        serve::<Cluster>(&server);
        serve::<CloudStackDatacenterConfig>(&server);
        let none = checked(&server).await;
        assert_eq!((none.len(), none[0].level), (1, Level::Ok));
        let api = format!("{OWN}/v1alpha1");
        let meta = json!({"namespace": "team-a", "name": "prod"});
        server.put(json!({"apiVersion": api, "kind": "Cluster", "metadata": meta, "spec": {}})).unwrap();
        let first = checked(&server).await.remove(0);
        assert_eq!((first.level, first.fix.as_deref()), (Level::Failure, Some("clusterctl init")));
        serve::<views::Cluster>(&server);
        serve::<views::MachineDeployment>(&server);
        serve::<views::MachineHealthCheck>(&server);
        serve::<views::KubeadmControlPlane>(&server);
        serve::<views::KubeadmConfigTemplate>(&server);
        let first = checked(&server).await.remove(0);
        assert!(first.found.ends_with("not served: CloudStackCluster, CloudStackMachineTemplate"), "{}", first.found);
        assert_eq!(first.fix.as_deref(), Some("clusterctl init --infrastructure cloudstack"));
        serve::<views::CloudStackCluster>(&server);
        serve::<views::CloudStackMachineTemplate>(&server);
        assert_eq!(checked(&server).await.remove(0).level, Level::Ok);
    }

    #[test]
    fn a_datacenter_that_was_refused_is_named_as_long_as_that_is_about_what_is_written() {
        let datacenter = |generation: i64| -> CloudStackDatacenterConfig {
            serde_json::from_value(json!({"metadata": {"namespace": "team-a", "name": "acs", "generation": generation},
                "status": {"observedGeneration": 2, "specValid": false, "failureMessage": "zone z1 not found"}}))
            .unwrap()
        };
        let check = of_datacenters(&[datacenter(2)]);
        assert_eq!((check.level, check.found.as_str()), (Level::Warning, "team-a/acs: zone z1 not found"));
        assert_eq!(of_datacenters(&[datacenter(3)]).level, Level::Ok, "it is looked at again");
    }
}
