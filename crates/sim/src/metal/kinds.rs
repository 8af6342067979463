//! The definitions of hosts and hardware data, with the fields that claims and the simulator use; the rest is kept as it
//! comes.

use serde_json::{Value, json};

use super::{GROUP, VERSION, script};

/// The definitions of BareMetalHost and HardwareData, for a server without the operator's own.
#[must_use]
pub fn definitions() -> Vec<Value> {
    vec![
        definition(
            "BareMetalHost",
            "baremetalhosts",
            &["bmh", "bmhost"],
            &json!([
                column("Status", ".status.operationalStatus", 1),
                column("State", ".status.provisioning.state", 0),
                column("Consumer", ".spec.consumerRef.name", 0),
                column("Online", ".spec.online", 0),
                column("Error", ".status.errorType", 0),
            ]),
            json!({"spec": spec(), "status": status()}),
        ),
        definition(
            "HardwareData",
            "hardwaredata",
            &["hd"],
            &json!([]),
            json!({"spec": object(json!({"hardware": hardware()}))}),
        ),
    ]
}

fn definition(kind: &str, plural: &str, short: &[&str], columns: &Value, properties: Value) -> Value {
    let status = properties.get("status").is_some();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}"), "labels": {"clusterctl.cluster.x-k8s.io": ""}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
                "shortNames": short,
            },
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": object(properties)},
                "subresources": if status { json!({"status": {}}) } else { json!({}) },
                "additionalPrinterColumns": columns,
            }],
        },
    })
}

fn column(name: &str, path: &str, priority: i32) -> Value {
    json!({"name": name, "type": "string", "jsonPath": path, "priority": priority})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn count() -> Value {
    json!({"type": "integer", "default": 0})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn needs(mut schema: Value, required: &[&str]) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

/// References are replaced as a whole, never merged.
fn atomic(mut schema: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
    schema
}

/// What is not looked into here.
fn open() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn image() -> Value {
    let image = json!({
        "url": text(), "checksum": text(), "checksumType": one_of(&["md5", "sha256", "sha512", "auto"]),
        "format": one_of(&["raw", "qcow2", "vdi", "vmdk", "live-iso"]), "ociAuthSecretName": text(),
    });
    needs(object(image), &["url"])
}

fn custom_deploy() -> Value {
    needs(object(json!({"method": text()})), &["method"])
}

fn spec() -> Value {
    let secret = || atomic(object(json!({"name": text(), "namespace": text()})));
    let consumer = json!({
        "apiVersion": text(), "fieldPath": text(), "kind": text(), "name": text(), "namespace": text(),
        "resourceVersion": text(), "uid": text(),
    });
    let bmc = json!({"address": text(), "credentialsName": text(), "disableCertificateVerification": flag()});
    let spec = json!({
        "architecture": text(),
        "automatedCleaningMode": {"type": "string", "enum": ["metadata", "disabled"], "default": "metadata"},
        "bmc": needs(object(bmc), &["address", "credentialsName"]),
        "bootMACAddress": {"type": "string", "pattern": "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}"},
        "bootMode": one_of(&["UEFI", "UEFISecureBoot", "legacy"]),
        "consumerRef": atomic(object(consumer)),
        "customDeploy": custom_deploy(),
        "disablePowerOff": flag(),
        "externallyProvisioned": flag(),
        "firmware": open(),
        "hardwareProfile": text(),
        "image": image(),
        "inspectionMode": one_of(&["disabled", "agent", "fast"]),
        "metaData": secret(),
        "networkData": secret(),
        "networkInterfaces": {"type": "array", "items": open()},
        "online": flag(),
        "preprovisioningNetworkDataName": text(),
        "raid": open(),
        "rootDeviceHints": open(),
        "taints": {"type": "array", "items": open()},
        "userData": secret(),
    });
    needs(object(spec), &["online"])
}

fn status() -> Value {
    let condition = json!({
        "type": text(), "status": one_of(&["True", "False", "Unknown"]), "reason": {"type": "string", "minLength": 1},
        "message": text(), "lastTransitionTime": time(), "observedGeneration": {"type": "integer", "format": "int64"},
    });
    let condition = needs(object(condition), &["lastTransitionTime", "message", "reason", "status", "type"]);
    let at = json!({"type": "string", "format": "date-time", "nullable": true});
    let span = object(json!({"start": at, "end": at}));
    let provisioning = json!({
        "ID": text(), "state": text(), "bootMode": one_of(&["UEFI", "UEFISecureBoot", "legacy"]), "image": image(),
        "customDeploy": custom_deploy(), "firmware": open(), "raid": open(), "rootDeviceHints": open(),
    });
    let status = json!({
        "conditions": {"type": "array", "items": condition, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"]},
        "errorCount": count(),
        "errorMessage": text(),
        "errorType": one_of(&script::ERRORS),
        "goodCredentials": open(),
        "hardware": hardware(),
        "hardwareProfile": text(),
        "lastUpdated": time(),
        "operationHistory": object(json!({
            "register": span, "inspect": span, "provision": span, "deprovision": span,
        })),
        "operationalStatus": one_of(&["", "OK", "discovered", "error", "delayed", "detached", "servicing"]),
        "poweredOn": flag(),
        "provisioning": needs(object(provisioning), &["ID", "state"]),
        "provisioningFailCount": count(),
        "triedCredentials": open(),
    });
    let required =
        ["errorCount", "errorMessage", "operationalStatus", "poweredOn", "provisioning", "provisioningFailCount"];
    needs(object(status), &required)
}

fn hardware() -> Value {
    let nic = json!({
        "name": text(), "model": text(), "mac": {"type": "string", "pattern": "[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}"},
        "ip": text(), "pxe": flag(), "speedGbps": {"type": "integer"}, "vlanId": {"type": "integer", "format": "int32"},
        "vlans": {"type": "array", "items": open()}, "lldp": open(), "pciAddress": text(),
    });
    let cpu = json!({
        "arch": text(), "model": text(), "clockMegahertz": {"type": "number", "format": "double"},
        "count": {"type": "integer"}, "flags": {"type": "array", "items": text()},
    });
    object(json!({
        "hostname": text(), "cpu": object(cpu), "ramMebibytes": {"type": "integer"},
        "nics": {"type": "array", "items": object(nic)}, "storage": {"type": "array", "items": open()},
        "firmware": open(), "systemVendor": open(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_carries_the_name_it_is_found_by() {
        for definition in definitions() {
            let kind = definition["spec"]["names"]["kind"].as_str().unwrap();
            let found = crate::metal::resource(kind).unwrap();
            assert_eq!(definition["metadata"]["name"], format!("{}.{}", found.plural, found.group));
            assert_eq!(definition["spec"]["versions"][0]["name"], found.version.as_str());
        }
    }
}
