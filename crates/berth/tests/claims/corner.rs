//! The part of the world that belongs to one test: a namespace with hosts, and tenants with theirs.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sim::metal::oracle::{self, Breach, Forgiven};
use sim::metal::{self, Disk, DiskChange, seed};
use sim::record::Version;
use sim::wait::within;

use crate::world::{SOON, World};

/// Who checks what tenants write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Checks {
    /// The webhooks, before it is stored.
    On,
    /// Nobody: it is stored as it comes, as if the webhooks had been down.
    Off,
}

pub struct Corner {
    pub world: &'static World,
    /// The namespace of the hosts.
    pub metal: String,
    name: String,
    checks: Checks,
    tenants: BTreeSet<String>,
    forgiven: Forgiven,
}

/// The refusal of a request.
#[derive(Debug)]
pub struct Refusal {
    pub code: u16,
    pub message: String,
}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self { code: status.code, message: status.message.clone() },
            other => panic!("the server does not answer: {other}"),
        }
    }
}

/// One who administrates a namespace, and nothing else.
pub struct Tenant {
    pub namespace: String,
    pub client: Client,
}

fn api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &metal::resource(kind).expect("a known kind"))
}

impl Corner {
    pub async fn new(world: &'static World, name: &str, checks: Checks) -> Self {
        let metal = format!("{name}-metal");
        let corner = Self {
            world,
            metal: metal.clone(),
            name: name.to_owned(),
            checks,
            tenants: BTreeSet::new(),
            forgiven: Forgiven::default(),
        };
        corner.namespace(&metal).await;
        corner
    }

    async fn namespace(&self, name: &str) {
        let labels = if self.checks == Checks::Off { json!({"checks": "off"}) } else { json!({}) };
        self.world
            .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))
            .await;
    }

    /// A tenant with a namespace of its own, which it administrates: claims by the role that comes with Berth, and
    /// everything of its own there besides.
    pub async fn tenant(&mut self, name: &str) -> Tenant {
        let namespace = format!("{}-{name}", self.name);
        self.namespace(&namespace).await;
        self.tenants.insert(namespace.clone());
        let group = "rbac.authorization.k8s.io";
        let meta = |name: &str| json!({"name": name, "namespace": namespace});
        let own = json!([
            {"apiGroups": [""], "verbs": ["*"],
                "resources": ["secrets", "configmaps", "pods", "services", "serviceaccounts", "events"]},
            {"apiGroups": ["events.k8s.io"], "verbs": ["*"], "resources": ["events"]},
            {"apiGroups": [group], "verbs": ["*"], "resources": ["roles", "rolebindings"]},
        ]);
        let bound = |role: &str, kind: &str| {
            json!({"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": meta(role),
                "roleRef": {"apiGroup": group, "kind": kind, "name": role},
                "subjects": [{"apiGroup": group, "kind": "User", "name": namespace}]})
        };
        let role =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": meta("admin"), "rules": own});
        for object in [role, bound("admin", "Role"), bound("berth-hostclaim-editor", "ClusterRole")] {
            self.world.apply(&object).await;
        }
        let mut config = self.world.plane.config().await.unwrap();
        config.default_retry = false;
        config.auth_info.impersonate = Some(namespace.clone());
        let client = Client::try_from(config).unwrap();
        let tenant = Tenant { namespace, client };
        within(SOON, "the tenant's rights are known", async || {
            tenant.claims().list(&ListParams::default()).await.ok()?;
            api(&tenant.client, "Secret", &tenant.namespace).list(&ListParams::default()).await.ok()
        })
        .await;
        tenant
    }

    /// Objects of the administrator beside the hosts.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        api(&self.world.client, kind, &self.metal)
    }

    /// Makes hosts and waits until they are inspected and free.
    pub async fn hosts(&self, names: &[&str], labels: &Value) {
        for name in names {
            self.world.apply(&seed::host(&self.metal, name, labels)).await;
        }
        for name in names {
            self.host_until(name, "the host is available", |host| {
                host["status"]["provisioning"]["state"] == "available"
            })
            .await;
        }
    }

    pub async fn host(&self, name: &str) -> Value {
        serde_json::to_value(self.api("BareMetalHost").get(name).await.unwrap()).unwrap()
    }

    pub async fn host_until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        within(SOON, &format!("{what}: {}/{name}", self.metal), async || {
            let host = self.api("BareMetalHost").get_opt(name).await.ok()??;
            Some(serde_json::to_value(host).unwrap()).filter(&is)
        })
        .await
    }

    /// Changes a host as its administrator does.
    pub async fn edit_host(&self, name: &str, change: Value) {
        let params = PatchParams::default();
        self.api("BareMetalHost").patch(name, &params, &Patch::Merge(change)).await.unwrap();
    }

    /// Opens the hosts of this corner by a policy.
    pub async fn policy(&self, name: &str, spec: Value) {
        self.world
            .apply(&json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
                "metadata": {"namespace": self.metal, "name": name}, "spec": spec}))
            .await;
    }

    /// Opens the hosts to these tenants, with more to say.
    pub async fn open_to(&self, tenants: &[&Tenant], more: Value) {
        let names: Vec<&str> = tenants.iter().map(|tenant| tenant.namespace.as_str()).collect();
        let mut spec = json!({"hostClaimNamespaces": {"names": names}});
        for (field, value) in more.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        self.policy("open", spec).await;
    }

    /// A secret of the administrator, beside the hosts.
    pub async fn secret(&self, name: &str, data: Value) {
        self.world
            .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": self.metal},
                "stringData": data}))
            .await;
    }

    /// The copies of tenants' secrets beside the hosts.
    pub async fn copies(&self) -> Vec<Value> {
        let copies = ListParams::default().labels("berth.dev/claim-uid");
        let found = self.api("Secret").list(&copies).await.unwrap();
        found.items.iter().map(|secret| serde_json::to_value(secret).unwrap()).collect()
    }

    /// What lies on the disk of a host.
    pub fn disk(&self, host: &str) -> Option<Disk> {
        self.world.machines.disk(&self.metal, host)
    }

    /// A claim's finalizer is torn off.
    pub fn forgive_claim(&mut self, tenant: &Tenant, name: &str) {
        self.forgiven.claims.insert((tenant.namespace.clone(), name.to_owned()));
    }

    /// What happened in this corner so far.
    pub async fn history(&self) -> Vec<Arc<Version>> {
        let mut history = self.world.record.history().await.unwrap();
        history.retain(|version| version.namespace == self.metal || self.tenants.contains(&version.namespace));
        history
    }

    async fn breaches(&self) -> Vec<Breach> {
        let history = self.history().await;
        let mut disks: Vec<DiskChange> = self.world.machines.changes();
        disks.retain(|change| change.namespace == self.metal);
        oracle::judge(&history, &disks, self.forgiven.clone())
    }

    /// Every promise held at every revision, and holds now that this corner has come to rest.
    pub async fn judge(&self) {
        let breaches = self.breaches().await;
        assert!(breaches.is_empty(), "{breaches:#?}");
    }
}

impl Tenant {
    pub fn claims(&self) -> Api<DynamicObject> {
        api(&self.client, "HostClaim", &self.namespace)
    }

    /// A claim of this tenant, as it writes it.
    pub fn plan(&self, name: &str, spec: &Value) -> Value {
        let mut claim = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
            "metadata": {"namespace": self.namespace, "name": name}, "spec": {"poweredOn": true, "kind": "baremetal"}});
        for (field, value) in spec.as_object().into_iter().flatten() {
            claim["spec"][field] = value.clone();
        }
        claim
    }

    pub async fn create(&self, claim: &Value) -> Result<Value, Refusal> {
        let object: DynamicObject = serde_json::from_value(claim.clone()).unwrap();
        let made = self.claims().create(&PostParams::default(), &object).await?;
        Ok(serde_json::to_value(made).unwrap())
    }

    /// Makes a claim that is taken.
    pub async fn claim(&self, name: &str, spec: Value) -> Value {
        self.create(&self.plan(name, &spec)).await.unwrap_or_else(|refused| panic!("{name}: {refused:?}"))
    }

    pub async fn merge(&self, name: &str, change: Value) -> Result<Value, Refusal> {
        let changed = self.claims().patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(serde_json::to_value(changed).unwrap())
    }

    pub async fn edit(&self, name: &str, change: Value) {
        self.merge(name, change).await.unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
    }

    pub async fn delete(&self, name: &str) {
        self.claims().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn secret(&self, name: &str, data: Value) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace}, "stringData": data});
        sim::plane::apply(&self.client, &secret).await.unwrap();
    }

    pub async fn get(&self, name: &str) -> Value {
        serde_json::to_value(self.claims().get(name).await.unwrap()).unwrap()
    }

    pub async fn until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let found = sim::wait::seek(SOON, async || {
            let claim = self.claims().get_opt(name).await.ok()??;
            Some(serde_json::to_value(claim).unwrap()).filter(&is)
        });
        match found.await {
            Some(claim) => claim,
            None => {
                let last = self.claims().get_opt(name).await;
                panic!("not seen within {SOON:?}: {what}; last: {}", json!(last.ok().flatten()))
            }
        }
    }

    /// Waits for a condition, written as `Associated=True/BareMetalHostAssociated`; the reason may be left out.
    pub async fn until_condition(&self, name: &str, wanted: &str) -> Value {
        self.until(name, wanted, |claim| shows(claim, wanted)).await
    }

    pub async fn until_ready(&self, name: &str) -> Value {
        self.until_condition(name, "Ready=True").await
    }

    pub async fn until_gone(&self, name: &str) {
        within(SOON, &format!("{name} is gone"), async || {
            self.claims().get_opt(name).await.ok()?.is_none().then_some(())
        })
        .await;
    }

    /// Deletes a claim and waits for its end.
    pub async fn end(&self, name: &str) {
        self.delete(name).await;
        self.until_gone(name).await;
    }

    /// The events of its namespace that this tenant can read.
    pub async fn events(&self) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        events.list(&ListParams::default()).await.unwrap().items
    }

    pub async fn until_event(&self, reason: &str) -> Event {
        within(SOON, &format!("an event {reason} in {}", self.namespace), async || {
            self.events().await.into_iter().find(|event| event.reason.as_deref() == Some(reason))
        })
        .await
    }

    /// Everything about its claims that this tenant can read, as text.
    pub async fn can_read(&self) -> String {
        let claims = self.claims().list(&ListParams::default()).await.unwrap();
        format!("{}\n{}", json!(claims.items), json!(self.events().await))
    }
}

/// Whether a claim shows a condition, written as `Type=Status/Reason`; the reason may be left out.
pub fn shows(claim: &Value, wanted: &str) -> bool {
    let (kind, rest) = wanted.split_once('=').expect("Type=Status/Reason");
    let (status, reason) = rest.split_once('/').unwrap_or((rest, ""));
    let all = claim["status"]["conditions"].as_array();
    all.into_iter().flatten().any(|c| {
        c["type"] == kind && c["status"] == status && (reason.is_empty() || c["reason"] == reason)
            // What was said of an older spec is no answer.
            && c["observedGeneration"] == claim["metadata"]["generation"]
    })
}

pub fn message(claim: &Value, kind: &str) -> String {
    let all = claim["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|c| c["type"] == kind);
    found.and_then(|c| c["message"].as_str()).unwrap_or_default().to_owned()
}
