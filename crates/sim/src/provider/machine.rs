//! CloudStackMachines: each has one virtual machine of its name, which is looked for before it is made.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::acs::Acs;
use super::cluster::failure_domains;
use super::objects::{Kind, cluster_of, going, held, hold, holds, merge, owner, report, space, text};
use super::{Hand, Scene};
use crate::plane::PlaneError;

impl Hand {
    pub(super) async fn instance(&self, object: &DynamicObject, scene: &Scene) -> Result<(), PlaneError> {
        let api = self.api(Kind::CloudStackMachine, &space(object));
        if going(object) {
            if held(object) && self.is_gone(object, scene).await? {
                self.forget_node(object).await;
                hold(&api, object, false).await?;
            }
            return Ok(());
        }
        if !held(object) {
            return hold(&api, object, true).await;
        }
        if holds(object, "/status/ready") {
            return Ok(());
        }
        let Some(machine) = machine_of(object, scene) else { return Ok(()) };
        let Some(infrastructure) = infrastructure_of(object, scene) else { return Ok(()) };
        let data = text(machine, "/spec/bootstrap/dataSecretName");
        if data.is_empty() || !holds(infrastructure, "/status/ready") || going(machine) {
            return Ok(());
        }
        let Some(domain) = domain_of(object, machine, infrastructure) else { return Ok(()) };
        let (acs, zone, network) = self.place(domain).await?;
        let Some(found) = find(&acs, &zone, &object.name_any()).await? else {
            let data = self.api(Kind::Secret, &space(object)).get(data).await;
            let data = data.map_err(PlaneError::kube("reading the bootstrap data"))?;
            let data = data.data.pointer("/data/value").and_then(Value::as_str).unwrap_or_default();
            return deploy(&acs, object, (&zone, &network), data).await;
        };
        let say = |pointer: &str| found.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (id, state) = (say("/id"), say("/state"));
        if state != "Running" {
            return Ok(());
        }
        let name = domain.get("name").cloned().unwrap_or_default();
        let provider = format!("cloudstack:///{id}");
        if text(object, "/spec/providerID") != provider {
            let spec = json!({"instanceID": id, "providerID": provider, "failureDomainName": name});
            return merge(&api, &object.name_any(), &json!({"spec": spec})).await;
        }
        let addresses = json!([{"type": "InternalIP", "address": say("/nic/0/ipaddress")}]);
        report(&api, object, &json!({"ready": true, "instanceState": state, "addresses": addresses})).await
    }

    /// Destroys the virtual machine, and says whether nothing of it is left.
    async fn is_gone(&self, object: &DynamicObject, scene: &Scene) -> Result<bool, PlaneError> {
        let Some(infrastructure) = infrastructure_of(object, scene) else { return Ok(true) };
        for domain in failure_domains(infrastructure) {
            let (acs, zone, _) = self.place(domain).await?;
            let Some(found) = find(&acs, &zone, &object.name_any()).await? else { continue };
            let say = |key: &str| found.get(key).and_then(Value::as_str).unwrap_or_default();
            if say("state") != "Expunging" {
                acs.call("destroyVirtualMachine", &[("id", say("id")), ("expunge", "true")]).await?;
            }
            return Ok(false);
        }
        Ok(true)
    }
}

/// The Machine that a CloudStackMachine is of.
pub(super) fn machine_of<'s>(object: &DynamicObject, scene: &'s Scene) -> Option<&'s DynamicObject> {
    let (name, space) = (owner(object, "Machine")?, object.namespace());
    scene.machines.iter().find(|machine| machine.name_any() == name && machine.namespace() == space)
}

fn infrastructure_of<'s>(object: &DynamicObject, scene: &'s Scene) -> Option<&'s DynamicObject> {
    let (name, space) = (cluster_of(object)?, object.namespace());
    scene.infrastructures.iter().find(|one| one.name_any() == name && one.namespace() == space)
}

/// Where a machine goes: where it is, where it is to be, or anywhere, always the same.
fn domain_of<'s>(
    object: &DynamicObject,
    machine: &DynamicObject,
    infrastructure: &'s DynamicObject,
) -> Option<&'s Value> {
    let all = failure_domains(infrastructure);
    let wanted = [text(object, "/spec/failureDomainName"), text(machine, "/spec/failureDomain")];
    let wanted = wanted.into_iter().find(|name| !name.is_empty());
    if let Some(wanted) = wanted {
        return all.iter().find(|domain| domain.get("name").and_then(Value::as_str) == Some(wanted));
    }
    let sum: usize = object.name_any().bytes().map(usize::from).sum();
    all.get(sum.checked_rem(all.len())?)
}

/// The virtual machine of exactly this name.
async fn find(acs: &Acs, zone: &str, name: &str) -> Result<Option<Value>, PlaneError> {
    let answer = acs.call("listVirtualMachines", &[("zoneid", zone), ("name", name), ("listall", "true")]).await?;
    let all = answer.get("virtualmachine").and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(all.into_iter().find(|one| one.get("name").and_then(Value::as_str) == Some(name)))
}

async fn deploy(
    acs: &Acs,
    object: &DynamicObject,
    (zone, network): (&str, &str),
    data: &str,
) -> Result<(), PlaneError> {
    let wish = |key: &str| object.data.pointer(&format!("/spec/{key}")).cloned().unwrap_or_default();
    let filter = [("templatefilter", "executable"), ("zoneid", zone)];
    let template = acs.id(("listTemplates", "template"), &filter, &wish("template")).await?;
    let offering = acs.id(("listServiceOfferings", "serviceoffering"), &[], &wish("offering")).await?;
    let (name, wished) = (object.name_any(), wish("diskOffering"));
    let mut disk = Vec::new();
    if wished.is_object() {
        disk.push(("diskofferingid", acs.id(("listDiskOfferings", "diskoffering"), &[], &wished).await?));
        let size = wished.get("customSizeInGB").and_then(Value::as_i64).filter(|size| *size > 0);
        disk.extend(size.map(|size| ("size", size.to_string())));
    }
    let mut parameters = vec![
        ("name", name.as_str()),
        ("zoneid", zone),
        ("networkids", network),
        ("templateid", template.as_str()),
        ("serviceofferingid", offering.as_str()),
        ("userdata", data),
    ];
    parameters.extend(disk.iter().map(|(name, value)| (*name, value.as_str())));
    acs.call("deployVirtualMachine", &parameters).await.map(drop)
}
