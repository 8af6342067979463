//! Hosts to begin with.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::host::Host;
use super::machine::Machine;
use super::state::{self, Data, Next, Rules};
use super::{FINALIZER, GROUP, MANAGER, VERSION, hardware, resource};
use crate::plane::PlaneError;

/// How many requests are under way while hosts are made.
const AT_ONCE: usize = 16;

/// A host as an admin writes it.
#[must_use]
pub fn host(namespace: &str, name: &str, labels: &Value) -> Value {
    let plain = Host {
        metadata: kube::api::ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            ..Default::default()
        },
        ..Host::default()
    };
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "BareMetalHost",
        "metadata": {"namespace": namespace, "name": name, "labels": labels},
        "spec": {
            "online": false,
            "bootMACAddress": hardware::mac(&plain),
            "automatedCleaningMode": "metadata",
            "bmc": {"address": format!("redfish://192.0.2.1/redfish/v1/Systems/{name}"),
                "credentialsName": format!("{name}-bmc")},
        },
    })
}

/// The same host as the simulator would leave it after its way through all states, held by its finalizer and with its
/// status. A server that takes the status only by itself needs it written apart.
#[must_use]
pub fn settled(host: &Value, now: Timestamp) -> Value {
    let mut object = host.clone();
    let mut typed: Host = serde_json::from_value(host.clone()).unwrap_or_default();
    typed.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    let mut machine = Machine::found(&typed, now);
    // No host takes more steps than this.
    for _ in 0..64 {
        match state::next(&typed, &machine, &Rules::default(), now) {
            Next::Become(status, become_) | Next::Inspected(_, status, become_) => {
                typed.status = Some(*status);
                machine = become_;
            }
            Next::Turn(become_) => machine = become_,
            Next::Read => machine = state::deployed(&typed, &machine, Data::default(), now),
            Next::Rest | Next::Wait(_) | Next::Metadata(..) => break,
        }
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("finalizers".to_owned(), json!([FINALIZER]));
    }
    if let (Some(object), Some(status)) = (object.as_object_mut(), &typed.status) {
        object.insert("status".to_owned(), json!(status));
    }
    object
}

/// The labels of the n-th of many hosts: what selectors of a bench choose by.
#[must_use]
pub fn labels(n: usize) -> BTreeMap<&'static str, String> {
    let racks = ["a", "b", "c", "d"];
    BTreeMap::from([
        ("rack", racks.get(n % racks.len()).copied().unwrap_or("a").to_owned()),
        ("size", format!("s{}", n % 10)),
        ("infrastructure.cluster.x-k8s.io/failure-domain", format!("zone-{}", n % 3)),
    ])
}

/// Makes `count` hosts named `host-00000` and on in a namespace, which is made too; those that are there stay.
///
/// With `settled`, each is made with its status and its HardwareData, which spares the simulator the way there.
pub async fn hosts(client: &Client, namespace: &str, count: usize, settled: bool) -> Result<(), PlaneError> {
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    crate::plane::apply(client, &space).await?;
    let one = |n: usize| async move {
        let object = host(namespace, &format!("host-{n:05}"), &json!(labels(n)));
        make(client, &object, settled).await.map_err(PlaneError::kube(format!("making host-{n:05} in {namespace}")))
    };
    futures::stream::iter((0..count).map(one)).buffer_unordered(AT_ONCE).try_collect().await
}

async fn make(client: &Client, object: &Value, whole: bool) -> kube::Result<()> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let (Some(hosts), Some(data)) = (resource("BareMetalHost"), resource("HardwareData")) else { return Ok(()) };
    let hosts: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &hosts);
    let data: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &data);
    let object = if whole { settled(object, Timestamp::now()) } else { object.clone() };
    let given = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    let made = match hosts.create(&kube::api::PostParams::default(), &given).await {
        Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
        other => other?,
    };
    let (true, Some(status)) = (whole, object.get("status")) else { return Ok(()) };
    let mut typed: Host = serde_json::from_value(object.clone()).map_err(kube::Error::SerdeError)?;
    typed.metadata.uid = made.metadata.uid;
    let found = hardware::data(&typed, &hardware::of(&typed));
    data.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(found)).await?;
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    hosts.patch_status(name, &params, &Patch::Merge(json!({ "status": status }))).await.map(drop)
}
