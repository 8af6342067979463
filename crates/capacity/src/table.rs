//! Types from a ConfigMap, for sites without a cloud to ask and for types that no catalogue knows.
//!
//! One entry per type: the key is its name (`m5.xlarge`), or kind and name of what other providers have
//! (`VSphereMachineTemplate.workers`); the value is JSON or YAML.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::offer::{Accelerators, Arch, Disk, Offer};

/// Entries that are read at most.
const ENTRIES: usize = 2000;

/// One entry.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    cpu: u64,
    memory_mib: u64,
    #[serde(default)]
    gpu_count: u64,
    #[serde(default)]
    gpu_type: Option<String>,
    #[serde(default)]
    arch: Option<String>,
    #[serde(default)]
    os: Option<String>,
    #[serde(default)]
    disk_gib: Option<u64>,
}

/// A table of types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    types: BTreeMap<Box<str>, Arc<Offer>>,
    /// Entries that cannot be used, each with what is wrong with it.
    pub faults: BTreeMap<Box<str>, String>,
}

impl Table {
    /// Reads the data of a ConfigMap. Entries that cannot be used are named and do not spoil the others.
    #[must_use]
    pub fn parse(data: &BTreeMap<String, String>) -> Self {
        let mut table = Self::default();
        for (name, text) in data.iter().take(ENTRIES) {
            match offer(text) {
                Ok(offer) => drop(table.types.insert(name.as_str().into(), Arc::new(offer))),
                Err(fault) => drop(table.faults.insert(name.as_str().into(), fault)),
            }
        }
        table
    }

    /// What a type offers.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Offer>> {
        self.types.get(name).cloned()
    }

    /// Names of types.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(AsRef::as_ref)
    }
}

fn offer(text: &str) -> Result<Offer, String> {
    let entry: Entry = serde_saphyr::from_str(text)
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    if entry.cpu == 0 || entry.memory_mib == 0 {
        return Err("cpu and memoryMib must not be 0".to_owned());
    }
    let arch = match &entry.arch {
        None => None,
        Some(text) => {
            Some(Arch::read(text).ok_or_else(|| format!("arch: {text:?} is none of amd64, arm64, ppc64le, s390x"))?)
        }
    };
    let windows = match entry.os.as_deref() {
        None => None,
        Some("linux") => Some(false),
        Some("windows") => Some(true),
        Some(other) => return Err(format!("os: {other:?} is neither linux nor windows")),
    };
    let accelerators = match (entry.gpu_count, entry.gpu_type) {
        (0, _) => None,
        (count, Some(resource)) => Some(Accelerators { vendor: None, resource: resource.into(), count, cores: 0 }),
        (_, None) => return Err("gpuCount needs gpuType beside it".to_owned()),
    };
    let nvidia = accelerators.as_ref().filter(|found| found.resource.starts_with("nvidia.com/")).map_or(0, |a| a.count);
    Ok(Offer {
        vcpus: entry.cpu,
        memory_mib: entry.memory_mib,
        gpus: entry.gpu_count,
        nvidia,
        accelerators,
        arch: Some(arch.unwrap_or(Arch::Amd64)),
        assumed: arch.is_none(),
        disk: entry.disk_gib.map(Disk::Gib),
        windows,
        ..Offer::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[(&str, &str)]) -> Table {
        Table::parse(&entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn entries_are_read_as_yaml_and_json_and_bad_ones_named() {
        let table = table(&[
            ("m5.xlarge", r#"{"cpu": 4, "memoryMib": 16384}"#),
            (
                "VSphereMachineTemplate.gpu",
                "cpu: 8\nmemoryMib: 32768\ngpuCount: 2\ngpuType: nvidia.com/gpu\narch: arm64\ndiskGib: 100\nos: windows\n",
            ),
            ("no-memory", "cpu: 8"),
            ("odd", "cpu: 8\nmemoryMib: 1\ncolour: red"),
            ("half", "cpu: 8\nmemoryMib: 1\ngpuCount: 1"),
            ("arch", "cpu: 8\nmemoryMib: 1\narch: vax"),
            ("nothing", "cpu: 0\nmemoryMib: 1"),
            ("text", "hello"),
        ]);
        assert_eq!(table.names().collect::<Vec<_>>(), ["VSphereMachineTemplate.gpu", "m5.xlarge"]);
        let plain = table.get("m5.xlarge").unwrap();
        assert_eq!((plain.vcpus, plain.memory_mib, plain.assumed, plain.disk), (4, 16384, true, None));
        let gpu = table.get("VSphereMachineTemplate.gpu").unwrap();
        assert_eq!((gpu.gpus, gpu.nvidia, gpu.arch, gpu.disk), (2, 2, Some(Arch::Arm64), Some(Disk::Gib(100))));
        assert_eq!(gpu.windows, Some(true));
        assert_eq!(table.faults.len(), 6);
        assert!(table.faults.values().all(|fault| !fault.is_empty() && fault.len() < 300), "{:?}", table.faults);
    }
}
