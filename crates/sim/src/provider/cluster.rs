//! CloudStackClusters: reported as ready once their zones are found, and held until their machines are gone.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::acs::Acs;
use super::objects::{Kind, going, held, hold, holds, owner, report, space};
use super::{Hand, Scene, objects};
use crate::plane::PlaneError;

impl Hand {
    pub(super) async fn infrastructure(&self, object: &DynamicObject, scene: &Scene) -> Result<(), PlaneError> {
        let api = self.api(Kind::CloudStackCluster, &space(object));
        let name = object.name_any();
        if going(object) {
            let left = scene.instances.iter().any(|one| objects::cluster_of(one) == Some(&name));
            if left || !held(object) {
                return Ok(());
            }
            self.end_workload(&name).await;
            return hold(&api, object, false).await;
        }
        if !held(object) {
            return hold(&api, object, true).await;
        }
        // Cluster API looks for the API server as soon as the infrastructure is there, and again only after half a minute.
        if owner(object, "Cluster").is_none()
            || !self.api_server(object, scene).await?
            || holds(object, "/status/ready")
        {
            return Ok(());
        }
        let mut domains = Map::new();
        for domain in failure_domains(object) {
            self.place(domain).await?;
            let name = domain.get("name").and_then(Value::as_str).unwrap_or_default();
            domains.insert(name.to_owned(), json!({"controlPlane": true}));
        }
        report(&api, object, &json!({"ready": true, "failureDomains": domains})).await
    }

    /// The CloudStack of a failure domain, and the ids of its zone and its network.
    pub(super) async fn place(&self, domain: &Value) -> Result<(Acs, String, String), PlaneError> {
        let say = |pointer: &str| domain.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (name, namespace) = (say("/acsEndpoint/name"), say("/acsEndpoint/namespace"));
        let secret = self.api(Kind::Secret, namespace).get(name).await;
        let acs = Acs::of(&secret.map_err(PlaneError::kube(format!("reading the secret {name}")))?)?;
        let zone = domain.get("zone").cloned().unwrap_or_default();
        let id = acs.id(("listZones", "zone"), &[], &zone).await?;
        let network = zone.get("network").cloned().unwrap_or_default();
        let network = acs.id(("listNetworks", "network"), &[("zoneid", &id), ("listall", "true")], &network).await?;
        Ok((acs, id, network))
    }
}

/// The failure domains of a CloudStackCluster.
pub(super) fn failure_domains(object: &DynamicObject) -> &[Value] {
    let all = object.data.pointer("/spec/failureDomains").and_then(Value::as_array);
    all.map(Vec::as_slice).unwrap_or_default()
}
