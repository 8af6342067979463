//! The CustomResourceDefinitions of every kind that Berth brings.
//!
//! Builds for development make them of the schemas in the code. A release holds them packed, as the chart has them: making
//! them would cost it about a mebibyte of code that a running operator never uses. That the chart's copies equal the code is checked
//! by `berth crds --check`, and by a test below.

#[cfg(test)]
mod pack;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// All definitions by name.
#[cfg(not(packed_definitions))]
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all = api::own::crds();
    all.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    all
}

/// All definitions by name.
#[cfg(packed_definitions)]
#[expect(clippy::expect_used, reason = "what is packed is part of the binary, and a test reads the same files")]
pub fn all() -> Vec<CustomResourceDefinition> {
    unpack(include_bytes!(concat!(env!("OUT_DIR"), "/definitions.deflate")))
        .expect("the packed definitions can be read: because a test has read the same files")
}

#[cfg(any(test, packed_definitions))]
fn unpack(packed: &[u8]) -> anyhow::Result<Vec<CustomResourceDefinition>> {
    use anyhow::Context;
    use std::io::Read;
    let mut text = String::new();
    flate2::read::DeflateDecoder::new(packed).read_to_string(&mut text).context("unpacking the definitions")?;
    let documents: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&text).context("reading the packed definitions")?;
    documents.into_iter().map(|one| serde_json::from_value(one).context("reading a packed definition")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_that_a_release_holds_are_those_of_the_code() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../chart/files/crds"));
        let held = unpack(&pack::pack(folder).unwrap()).unwrap();
        assert_eq!(serde_json::to_value(held).unwrap(), serde_json::to_value(all()).unwrap());
        assert!(unpack(b"no archive").is_err());
    }
}
