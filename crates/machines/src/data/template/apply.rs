//! Carries out the steps for a template.

use api::names::CLUSTER_NAME_LABEL;
use api::raw;
use kit::room::Flow;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use super::super::error::Error;
use super::super::facts::{DataFacts, read};
use super::super::names::{CLAIM_FINALIZER, CLAIM_KIND, DATA_KIND, TEMPLATE_FINALIZER};
use super::Templates;
use super::decide::Step;
use super::observe::Snapshot;

impl Templates {
    pub(super) async fn carry_out(&self, s: &Snapshot, step: Step) -> Result<Flow, Error> {
        let written = match step {
            Step::Finalize => {
                let seen = s.template.head.finalizers();
                self.writer.add_finalizer(&s.target(), &seen, &s.version, TEMPLATE_FINALIZER).await?
            }
            Step::Adopt => self.adopt(s).await?,
            Step::Unfinalize => {
                if self.is_needed(s).await? {
                    return Err(Error::Behind);
                }
                self.writer.remove_finalizer(&s.target(), &s.template.head.finalizers(), TEMPLATE_FINALIZER).await?
            }
            Step::Wait { until } => return Ok(Flow::Wait(Some(until))),
        };
        if let Some(version) = written {
            self.world.templates.wrote(&s.key, &version);
        }
        Ok(Flow::Next)
    }

    async fn adopt(&self, s: &Snapshot) -> Result<Option<kit::feed::Version>, Error> {
        let Some(cluster) = &s.cluster else { return Ok(None) };
        let mut owners = s.template.owners.clone();
        // An owner of the same name is an earlier incarnation of the cluster, as after a restore.
        owners.retain(|owner| !(owner.kind == "Cluster" && owner.name == *cluster.name));
        let mut owners: Vec<serde_json::Value> = owners.iter().map(|owner| json!(owner)).collect();
        owners.push(json!({
            "apiVersion": s.cluster_kind.api_version(), "kind": "Cluster", "name": cluster.name, "uid": cluster.uid,
        }));
        let body = json!({"metadata": {"ownerReferences": owners, "labels": {CLUSTER_NAME_LABEL: cluster.name}}});
        Ok(Some(self.writer.merge(&s.target(), body, Some(&s.version)).await?))
    }

    /// Asks the server itself whether claims or data of ours still need the template.
    async fn is_needed(&self, s: &Snapshot) -> Result<bool, Error> {
        let (client, namespace) = (self.writer.client().clone(), s.key.namespace().unwrap_or_default());
        let datas: Api<raw::Metal3Data> = Api::namespaced(client.clone(), namespace);
        let all = datas.list(&ListParams::default()).await.map_err(|e| Error::read(DATA_KIND, &s.key, e))?;
        let ours = |data: DataFacts| data.is_kept() && &*data.template == s.key.name();
        if all.items.into_iter().any(|data| ours(DataFacts::of(data))) {
            return Ok(true);
        }
        let claims: Api<raw::Metal3DataClaim> = Api::namespaced(client, namespace);
        let all = claims.list(&ListParams::default()).await.map_err(|e| Error::read(CLAIM_KIND, &s.key, e))?;
        Ok(all.items.into_iter().any(|claim| {
            let spec: api::own::metal3::Metal3DataClaimSpec = read(claim.spec);
            let kept = claim.metadata.finalizers.iter().flatten().any(|held| held == CLAIM_FINALIZER);
            kept && spec.template.name == s.key.name()
        }))
    }
}
