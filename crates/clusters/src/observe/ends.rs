//! What is left of a cluster that goes.

use api::key::ObjectKey;
use k8s_openapi::api::core::v1::Secret;
use kit::write::Target;
use kube::Api;
use serde_json::Value;

use crate::acs::Clouds;
use crate::facts::{CapiFacts, ClusterFacts, Mark, capi_of};
use crate::room::{Error, Keeper, read};
use crate::snapshot::{Belongs, Leftovers, Snapshot, belongs};

fn mark(object: &Value) -> Mark {
    let meta = object.get("metadata").cloned().unwrap_or_default();
    Mark::of(&serde_json::from_value(meta).unwrap_or_default())
}

impl<C: Clouds> Keeper<C> {
    /// Whether no other Cluster has the name, not even one that goes.
    pub(crate) fn is_alone(&self, key: &ObjectKey) -> bool {
        self.world.clusters.by("name", key.name()).iter().all(|(other, _)| other == key)
    }

    /// The Cluster of Cluster API as the server has it, if it is provably that of this Cluster: what is not is never
    /// removed with it, whoever has its name.
    pub(crate) async fn own_cluster(
        &self,
        key: &ObjectKey,
        cluster: &ClusterFacts,
    ) -> Result<Option<(CapiFacts, Belongs)>, Error> {
        let found = self.fetch(&self.world.capi.kind(), key.name()).await?;
        let found = found.and_then(|found| serde_json::from_value::<api::views::Cluster>(found).ok()).map(capi_of);
        Ok(found.and_then(|facts| {
            let proof = belongs(&facts, key, cluster, self.is_alone(key));
            matches!(proof, Belongs::Labelled | Belongs::Proven).then_some((facts, proof))
        }))
    }

    /// What the server has of a cluster that goes.
    pub(super) async fn look_for_leftovers(&self, s: &Snapshot) -> Result<Leftovers, Error> {
        let name = s.key.name();
        let inside = ObjectKey::namespaced(self.config.system_namespace(), name);
        let kind = self.world.capi.kind();
        let mut left = Leftovers::default();
        if let Some((facts, proof)) = self.own_cluster(&s.key, &s.cluster).await? {
            left.capi = Some((Target { kind, key: inside, uid: facts.mark.uid }, facts.mark.deleting));
            left.proof = Some(proof);
            left.missing_secrets = self.missing_secrets(s).await?;
            return Ok(left);
        }
        let world = &self.world;
        let kinds = [
            world.planes.kind(),
            world.groups.kind(),
            world.checks.kind(),
            world.provider.kind(),
            world.templates.kind(),
            world.configs.kind(),
        ];
        for kind in kinds {
            for object in self.labelled(&kind, name).await? {
                let mark = mark(&object);
                if mark.owner.as_ref() == Some(&s.key) && !mark.deleting {
                    let name = crate::manifest::word(&object, "/metadata/name");
                    let key = ObjectKey::namespaced(self.config.system_namespace(), name);
                    left.rest.push(Target { kind: kind.clone(), key, uid: mark.uid });
                }
            }
        }
        Ok(left)
    }

    /// Secrets without which the provider cannot destroy machines.
    async fn missing_secrets(&self, s: &Snapshot) -> Result<Vec<String>, Error> {
        let namespace = self.config.system_namespace();
        let api: Api<Secret> = Api::namespaced(self.writer.client().clone(), namespace);
        let mut names: Vec<String> = s
            .datacenter
            .iter()
            .flat_map(|datacenter| &datacenter.object.spec.availability_zones)
            .map(|zone| zone.credentials_ref.clone())
            .collect();
        names.sort();
        names.dedup();
        let mut missing = Vec::new();
        for name in names {
            let found = api.get_metadata_opt(&name).await.map_err(read(|| format!("Secret {namespace}/{name}")))?;
            if found.is_none() {
                missing.push(name);
            }
        }
        Ok(missing)
    }
}
