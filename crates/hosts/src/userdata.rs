//! The data that makes a node of an instance, as it is sent.

use std::collections::BTreeMap;
use std::io::Read as _;

use api::own::{AWSMachineSpec, IgnitionStorage};
use flate2::Compression;
use flate2::read::GzEncoder;
use kit::secret::Secret;

use crate::obstacle::{About, Obstacle};

/// What EC2 takes at most, before it is encoded.
pub const LIMIT: usize = 16 * 1024;

/// The bytes to send, from the bootstrap secret.
///
/// # Errors
/// When the secret lacks its data, or they are too long, or they would need a store that is not built.
pub fn prepare(secret: &BTreeMap<String, Vec<u8>>, spec: &AWSMachineSpec) -> Result<Secret<Vec<u8>>, Obstacle> {
    let Some(value) = secret.get("value").filter(|value| !value.is_empty()) else {
        return Err(Obstacle::dependency(About::Instance, "the bootstrap secret has no key value"));
    };
    let format = secret.get("format").map_or("cloud-config".into(), |format| String::from_utf8_lossy(format));
    match format.trim() {
        "" | "cloud-config" => {}
        "ignition" => {
            let storage = spec.ignition.as_ref().map(|ignition| ignition.storage_type.unwrap_or_default());
            if storage != Some(IgnitionStorage::UnencryptedUserData) {
                return Err(Obstacle::terminal(
                    About::Instance,
                    "the bootstrap data are for ignition: only spec.ignition.storageType UnencryptedUserData is built",
                ));
            }
        }
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(Obstacle::terminal(
                About::Instance,
                format!("the bootstrap data have the unknown format {other:?}"),
            ));
        }
    }
    let bytes = if spec.compresses_user_data() { gzip(value)? } else { value.clone() };
    if bytes.len() > LIMIT {
        let message = format!("the user data have {} bytes, and EC2 takes {LIMIT}", bytes.len());
        return Err(Obstacle::terminal(About::Instance, message));
    }
    Ok(Secret::from(bytes))
}

/// The bytes to send for a claim: none where it names no Secret, else what its Secret holds under the key `userData` or,
/// where there is none, `value`.
///
/// # Errors
/// When the Secret is not there, lacks its data, or they are too long.
pub fn of_claim(named: bool, secret: Option<&BTreeMap<String, Vec<u8>>>) -> Result<Secret<Vec<u8>>, Obstacle> {
    if !named {
        return Ok(Secret::from(Vec::new()));
    }
    let missing = |message| Obstacle::dependency(About::Data, message);
    let secret = secret.ok_or_else(|| missing("The Secret of spec.userData is not there yet."))?;
    let found = ["userData", "value"].iter().find_map(|key| secret.get(*key).filter(|value| !value.is_empty()));
    let bytes = found.ok_or_else(|| missing("The Secret of spec.userData has neither the key userData nor value."))?;
    if bytes.len() > LIMIT {
        let message = format!("The user data have {} bytes, and EC2 takes {LIMIT}.", bytes.len());
        return Err(Obstacle::terminal(About::Size, message));
    }
    Ok(Secret::from(bytes.clone()))
}

/// Compressed, and byte-equal for equal input: a launch that is asked for again must be the same request.
fn gzip(data: &[u8]) -> Result<Vec<u8>, Obstacle> {
    let mut packed = Vec::new();
    let failed = |error| Obstacle::terminal(About::Instance, format!("the user data cannot be compressed: {error}"));
    GzEncoder::new(data, Compression::best()).read_to_end(&mut packed).map_err(failed)?;
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use api::own::Ignition;

    use super::*;
    use crate::classes::Class;

    fn secret(value: &[u8], format: Option<&str>) -> BTreeMap<String, Vec<u8>> {
        let mut data = BTreeMap::from([("value".to_owned(), value.to_vec())]);
        if let Some(format) = format {
            data.insert("format".to_owned(), format.as_bytes().to_vec());
        }
        data
    }

    fn bytes(found: Result<Secret<Vec<u8>>, Obstacle>) -> Vec<u8> {
        found.unwrap().into_inner()
    }

    #[test]
    fn data_go_as_they_are_unless_compression_is_asked_for() {
        let long = vec![b'a'; LIMIT * 10];
        let mut spec = AWSMachineSpec::default();
        assert_eq!(bytes(prepare(&secret(b"#cloud-config", None), &spec)), b"#cloud-config");
        spec.uncompressed_user_data = Some(true);
        assert_eq!(bytes(prepare(&secret(b"x", Some("cloud-config")), &spec)), b"x");
        let error = prepare(&secret(&long, None), &spec).unwrap_err();
        assert!(error.class == Class::Terminal && error.message.contains("163840 bytes"), "{error:?}");
        spec.uncompressed_user_data = Some(false);
        let packed = bytes(prepare(&secret(&long, None), &spec));
        assert_eq!(packed, bytes(prepare(&secret(&long, None), &spec)));
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut back).unwrap();
        assert_eq!(back, long);
        assert_eq!(bytes(prepare(&secret(&vec![b'a'; LIMIT], None), &AWSMachineSpec::default())).len(), LIMIT);
    }

    #[test]
    fn what_is_missing_or_not_built_is_said() {
        let mut spec = AWSMachineSpec::default();
        assert_eq!(prepare(&BTreeMap::new(), &spec).unwrap_err().class, Class::Dependency);
        assert_eq!(prepare(&secret(b"", None), &spec).unwrap_err().class, Class::Dependency);
        assert_eq!(prepare(&secret(b"x", Some("xml")), &spec).unwrap_err().class, Class::Terminal);
        assert!(prepare(&secret(b"x", Some("ignition")), &spec).unwrap_err().message.contains("UnencryptedUserData"));
        spec.ignition =
            Some(Ignition { storage_type: Some(IgnitionStorage::UnencryptedUserData), ..Ignition::default() });
        assert_eq!(bytes(prepare(&secret(b"x", Some("ignition")), &spec)), b"x");
    }
}
