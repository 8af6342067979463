//! The metadata: keys and texts.

use std::collections::BTreeMap;

use api::own::metal3::MetaData;
use serde_json::Value;

use super::{Addresses, Fault, Objects, pool};

/// The key under which a node finds the id that its Machine has.
const PROVIDER_ID: &str = "providerid";

/// One source after the other: of two entries with one key the later source counts, and the id of the machine before all.
pub(super) fn render(
    meta: &MetaData,
    index: i32,
    objects: &Objects<'_>,
    addresses: &Addresses,
) -> Result<Value, Fault> {
    let mut out: BTreeMap<&str, String> = BTreeMap::new();
    for entry in &meta.from_host_interfaces {
        let mac = if entry.from_boot_mac.unwrap_or_default() {
            objects.host.boot_mac.ok_or(Fault::NoBootMac)?
        } else {
            objects.nic(entry.interface.as_deref().unwrap_or_default())?
        };
        out.insert(&entry.key, mac.to_owned());
    }
    for entry in &meta.ip_addresses_from_pool {
        out.insert(&entry.key, pool(addresses, &entry.name)?.address.to_string());
    }
    for entry in &meta.prefixes_from_pool {
        out.insert(&entry.key, pool(addresses, &entry.name)?.prefix.to_string());
    }
    for entry in &meta.gateways_from_pool {
        out.insert(&entry.key, pool(addresses, &entry.name)?.gateway.to_string());
    }
    for entry in &meta.dns_servers_from_pool {
        let servers: Vec<&str> = pool(addresses, &entry.name)?.dns.iter().map(|server| &**server).collect();
        out.insert(&entry.key, servers.join(","));
    }
    for entry in &meta.indexes {
        let step = if entry.step == 0 { 1 } else { entry.step };
        let number = i64::from(entry.offset.unwrap_or_default()) + i64::from(index) * i64::from(step);
        let around = |text: &Option<String>| text.clone().unwrap_or_default();
        out.insert(&entry.key, format!("{}{number}{}", around(&entry.prefix), around(&entry.suffix)));
    }
    for entry in &meta.namespaces {
        out.insert(&entry.key, objects.namespace.to_owned());
    }
    for entry in &meta.object_names {
        out.insert(&entry.key, objects.object(&entry.object)?.name.to_owned());
    }
    for entry in &meta.from_labels {
        let label = objects.object(&entry.object)?.labels.get(&entry.label);
        out.insert(&entry.key, label.cloned().unwrap_or_default());
    }
    for entry in &meta.from_annotations {
        out.insert(&entry.key, objects.annotation(&entry.object, &entry.annotation)?.to_owned());
    }
    for entry in &meta.strings {
        out.insert(&entry.key, entry.value.clone());
    }
    let provider_id = format!("{}/{}/{}", objects.namespace, objects.claim, objects.metal3machine.name);
    out.insert(PROVIDER_ID, provider_id);
    Ok(out.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect())
}
