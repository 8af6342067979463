//! What is seen of the network plugin inside of a cluster, and how it is put there.

use std::collections::BTreeSet;

use api::key::ObjectKey;
use api::names::clusters::{FIELD_MANAGER, MANAGED_LABEL, ON};
use kit::kinds::Kind;
use kit::write::{self, Target, Writer};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;

use crate::cni::Seen;
use crate::manifest::{self, AGENT, NAMESPACE, OPERATOR, SETTINGS, word};

/// What is seen of the plugin in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// The plugin, if it is ours.
    pub seen: Option<Seen>,
    /// Whether something of the check before an upgrade is there.
    pub check: bool,
    /// Whether some of that is the check of another upgrade, with other images.
    pub old_check: bool,
    /// The settings that we put there.
    pub applied: BTreeSet<String>,
}

fn resource(object: &Value) -> ApiResource {
    let version = word(object, "/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, word(object, "/kind")))
}

async fn fetch(client: &Client, api_version: &str, kind: &str, name: &str) -> Result<Option<Value>, kube::Error> {
    let named = serde_json::json!({"apiVersion": api_version, "kind": kind});
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource(&named));
    let found = api.get_opt(name).await?;
    Ok(found.and_then(|object| serde_json::to_value(object).ok()))
}

fn number(object: &Value, at: &str) -> i64 {
    object.pointer(at).and_then(Value::as_i64).unwrap_or_default()
}

fn agent_ready(agent: &Value) -> bool {
    let current = number(agent, "/status/observedGeneration") >= number(agent, "/metadata/generation");
    let wanted = number(agent, "/status/desiredNumberScheduled");
    current
        && number(agent, "/status/numberReady") >= wanted
        && number(agent, "/status/updatedNumberScheduled") >= wanted
}

/// Looks at the plugin. `check` holds the objects of the check before an upgrade, nothing where it cannot be there; `known`
/// every image of any bundle.
///
/// # Errors
/// When the cluster does not say.
pub async fn look(client: &Client, check: Option<&[Value]>, known: &[String]) -> Result<Sight, kube::Error> {
    let ours = |agent: &Value| {
        let labelled = agent.pointer("/metadata/labels").and_then(|labels| labels.get(MANAGED_LABEL));
        labelled.and_then(Value::as_str) == Some(ON)
            || manifest::images(agent).iter().any(|image| known.contains(image))
    };
    // Where the plugin is not, or is another one, nothing hangs on the rest.
    let Some(agent) = fetch(client, "apps/v1", "DaemonSet", AGENT).await?.filter(ours) else {
        return Ok(Sight::default());
    };
    let workloads: Vec<&Value> = check
        .into_iter()
        .flatten()
        .filter(|object| ["DaemonSet", "Deployment"].contains(&word(object, "/kind")))
        .collect();
    let checks = workloads.iter().map(|object| {
        let (kind, name) = (word(object, "/kind"), word(object, "/metadata/name"));
        fetch(client, "apps/v1", kind, name)
    });
    let (operator, settings, checks) = futures::future::try_join3(
        fetch(client, "apps/v1", "Deployment", OPERATOR),
        fetch(client, "v1", "ConfigMap", SETTINGS),
        futures::future::try_join_all(checks),
    )
    .await?;
    let there = workloads.iter().zip(&checks).filter_map(|(object, there)| Some((*object, there.as_ref()?)));
    let there: Vec<(&Value, &Value)> = there.collect();
    // An upgrade that was broken off for another one leaves its check; that it passed says nothing of other images.
    let found = there.iter().filter(|(object, there)| manifest::images(object) == manifest::images(there));
    let found: Vec<(&str, &Value)> = found.map(|(object, there)| (word(object, "/kind"), *there)).collect();
    let passed = found.iter().all(|(kind, there)| {
        let (ready, wanted) = match *kind {
            "DaemonSet" => (number(there, "/status/numberReady"), number(&agent, "/status/numberReady")),
            _ => (number(there, "/status/readyReplicas"), number(there, "/spec/replicas").max(1)),
        };
        ready >= wanted
    });
    let ready = agent_ready(&agent);
    let seen = operator.map(|operator| Seen {
        images: manifest::images(&agent).into_iter().collect(),
        operator: manifest::images(&operator).into_iter().next().unwrap_or_default(),
        ready,
        // A bundle without a check has nothing to wait for but the plugin itself; a check that is there by half is applied
        // again.
        preflight: (check.is_some() && found.len() == workloads.len() && (ready || !workloads.is_empty()))
            .then_some(passed),
        settings: settings.as_ref().map(manifest::settings).unwrap_or_default(),
    });
    let applied = settings.as_ref().map(|map| manifest::applied(map, FIELD_MANAGER)).unwrap_or_default();
    Ok(Sight { seen, check: !there.is_empty(), old_check: found.len() < there.len(), applied })
}

fn target(object: &Value) -> Target {
    let resource = resource(object);
    let kind = Kind {
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
    };
    let name = word(object, "/metadata/name");
    let key = match manifest::namespace(object) {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster_scoped(name),
    };
    Target { kind, key, uid: "".into() }
}

/// Applies objects in a cluster, in their order.
///
/// # Errors
/// The first that is refused.
pub async fn apply(client: &Client, room: &'static str, objects: &[Value]) -> Result<(), write::Error> {
    let writer = Writer::with_manager(client.clone(), room, FIELD_MANAGER);
    for object in objects {
        writer.apply(&target(object), object.clone()).await?;
    }
    Ok(())
}

/// Kinds of which each minor version has lists of its own: an apply leaves items that others own, or that were put there by an
/// update, beside the new ones, as the containers or ports of the version before.
const REPLACED: [&str; 3] = ["DaemonSet", "Deployment", "Service"];

/// A DaemonSet that runs changes its status at any moment: what was read is read again this often.
const READS: usize = 4;

/// Puts objects of a newer version in a cluster, in their order: workloads and Services in the place of those that are there,
/// whoever put these there, everything else as it is applied.
///
/// # Errors
/// The first that could not be read, or is refused.
pub async fn upgrade(client: &Client, room: &'static str, objects: &[Value]) -> Result<(), ChangeError> {
    let writer = Writer::with_manager(client.clone(), room, FIELD_MANAGER);
    for object in objects {
        let target = target(object);
        if !REPLACED.contains(&word(object, "/kind")) || !replace(client, &writer, &target, object).await? {
            writer.apply(&target, object.clone()).await?;
        }
    }
    Ok(())
}

/// Puts an object in the place of the one that is there; false when there is none.
async fn replace(client: &Client, writer: &Writer, target: &Target, object: &Value) -> Result<bool, ChangeError> {
    let namespace = target.key.namespace().unwrap_or(NAMESPACE);
    let mut reads = 0;
    loop {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource(object));
        let Some(there) = api.get_opt(target.key.name()).await? else { return Ok(false) };
        reads += 1;
        // The whole object as the server has it, not a view of ours: nothing of it is lost but what the manifest leaves out.
        let there = serde_json::to_value(there).unwrap_or_default();
        let next = manifest::replacement(object, &there, FIELD_MANAGER);
        match writer.replace(target, &next).await {
            Ok(_) => return Ok(true),
            Err(write::Error::Changed { .. }) if reads < READS => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Removes the workloads of a manifest from a cluster; what they used is shared with the plugin itself.
///
/// # Errors
/// The first that is refused.
pub async fn remove(client: &Client, room: &'static str, objects: &[Value]) -> Result<(), ChangeError> {
    let writer = Writer::with_manager(client.clone(), room, FIELD_MANAGER);
    for object in objects.iter().filter(|object| ["DaemonSet", "Deployment"].contains(&word(object, "/kind"))) {
        let mut target = target(object);
        let namespace = target.key.namespace().unwrap_or(NAMESPACE).to_owned();
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource(object));
        if let Some(found) = api.get_opt(target.key.name()).await? {
            target.uid = found.metadata.uid.unwrap_or_default().into();
            writer.delete(&target, None).await?;
        }
    }
    Ok(())
}

/// Why something that is there could not be replaced or removed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It could not be read.
    #[error("read what is there")]
    Read(#[source] Box<kube::Error>),
    /// It was not written.
    #[error(transparent)]
    Write(#[from] write::Error),
}

impl From<kube::Error> for ChangeError {
    fn from(error: kube::Error) -> Self {
        Self::Read(Box::new(error))
    }
}
