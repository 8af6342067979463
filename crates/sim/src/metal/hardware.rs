//! What inspection finds: the same for the same host every time, and different for different hosts.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Value, json};

use super::host::Host;
use super::{GROUP, VERSION};

/// Hardware details that an admin knows better than the inspection.
const DETAILS: &str = "inspect.metal3.io/hardwaredetails";

fn number(host: &Host) -> u64 {
    let mut hasher = DefaultHasher::new();
    host.metadata.namespace.hash(&mut hasher);
    host.metadata.name.hash(&mut hasher);
    hasher.finish()
}

/// The provisioner's own name for a host, in the form of a UUID.
#[must_use]
pub fn id(host: &Host) -> String {
    let number = number(host);
    let tail = number & 0xffff_ffff_ffff;
    format!("{:08x}-{:04x}-4000-8000-{tail:012x}", number >> 32, number >> 16 & 0xffff)
}

/// The address of the network card a host boots from: what it says, or one derived from its name.
#[must_use]
pub fn mac(host: &Host) -> String {
    host.spec.boot_mac.clone().unwrap_or_else(|| derived_mac(number(host)))
}

/// A locally administered address.
pub(super) fn derived_mac(number: u64) -> String {
    let [.., a, b, c, d, e] = number.to_be_bytes();
    format!("02:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}")
}

/// What inspection finds in a host.
#[must_use]
pub fn of(host: &Host) -> Value {
    if let Some(known) = host.note(DETAILS).and_then(|text| serde_json::from_str(text).ok()) {
        return known;
    }
    let number = number(host);
    let (mac, second) = (mac(host), derived_mac(!number));
    let ip = |net: u8| format!("192.168.{net}.{}", 1 + number % 250);
    json!({
        "hostname": host.metadata.name,
        "cpu": {"arch": "x86_64", "model": "Simulated CPU", "clockMegahertz": 2400, "count": 8 << (number % 4)},
        "ramMebibytes": 32768_u64 << (number >> 8 & 3),
        "firmware": {"bios": {"vendor": "Berth", "version": "1.0", "date": "01/01/2026"}},
        "nics": [
            {"name": "eth0", "mac": mac, "ip": ip(10), "model": "0x1af4 0x0001", "speedGbps": 10, "pxe": true},
            {"name": "eth1", "mac": second, "ip": ip(20), "model": "0x1af4 0x0001", "speedGbps": 25, "pxe": false},
        ],
        "storage": [{"name": "/dev/sda", "type": "SSD", "sizeBytes": 500_107_862_016_u64, "rotational": false,
            "serialNumber": format!("{number:016x}")}],
        "systemVendor": {"manufacturer": "Berth", "productName": "Simulated server",
            "serialNumber": format!("{number:016x}")},
    })
}

/// The HardwareData of a host; it goes with the host.
#[must_use]
pub fn data(host: &Host, found: &Value) -> Value {
    let meta = &host.metadata;
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "HardwareData",
        "metadata": {"namespace": meta.namespace, "name": meta.name, "ownerReferences": [{
            "apiVersion": format!("{GROUP}/{VERSION}"), "kind": "BareMetalHost", "name": meta.name, "uid": meta.uid,
        }]},
        "spec": {"hardware": found},
    })
}
