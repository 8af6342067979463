//! Credentials as text, from a Secret that others may write and from files of the machine.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use aws::credentials::{Ambient, Files, Source, TokenPaths, from_secret};
use kit::secret::Secret;

const ALLOWED: &str = "/var/run/secrets/openshift/serviceaccount";

/// A text in the form of AWS's shared configuration.
pub fn shared_config(data: &[u8]) {
    let secret = BTreeMap::from([("credentials".to_owned(), data.to_vec())]);
    match from_secret(&secret, &TokenPaths::new([ALLOWED.into()])) {
        Ok(Source::Keys(keys)) => assert!(!keys.id.is_empty(), "a key has a name"),
        Ok(Source::WebIdentity(identity)) => {
            let path: &Path = &identity.token_file;
            assert!(path.starts_with(ALLOWED), "a token outside: {path:?}");
            assert!(path.components().all(|part| part != Component::ParentDir), "a detour: {path:?}");
        }
        Ok(_) => panic!("a Secret borrowed an identity of the process"),
        Err(error) => {
            let told = format!("{error:?} {error}");
            assert!(!told.contains("canary"), "a value is told: {told}");
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let files = Files { config: Some(Secret::new(text.to_owned())), ..Files::default() };
        let _ = Ambient::decide(&BTreeMap::new(), &files);
    }
}
