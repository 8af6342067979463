//! Secrets with credentials: read in every pass, kept by nobody.

use std::collections::BTreeMap;

use api::own::anywhere::AvailabilityZone;
use cloudstack::profile::{self, Profile, ProfileError};
use k8s_openapi::api::core::v1::Secret;
use kit::http::Policy;
use kube::{Api, Client};

use crate::acs::Fault;

/// What a secret says at one of its versions.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The name of the secret.
    pub name: String,
    /// The version that was read.
    pub version: String,
    /// Who calls, and where.
    pub profile: Profile,
}

/// The secrets of some zones, by name, or what is wrong with each.
pub type Profiles = BTreeMap<String, Result<Credentials, Fault>>;

/// Reads every secret that zones name, each once.
///
/// # Errors
/// When the server does not say.
pub async fn read(
    client: &Client,
    namespace: &str,
    zones: &[AvailabilityZone],
    policy: &Policy,
) -> Result<Profiles, kube::Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let mut all = Profiles::new();
    for zone in zones {
        let name = &zone.credentials_ref;
        if all.contains_key(name) {
            continue;
        }
        let read = match api.get_opt(name).await? {
            None => {
                let told = format!("secret {namespace}/{name} not found (availability zone {})", zone.name);
                Err(Fault::credentials(told))
            }
            Some(secret) => credentials(namespace, name, secret, policy),
        };
        all.insert(name.clone(), read);
    }
    Ok(all)
}

fn credentials(namespace: &str, name: &str, secret: Secret, policy: &Policy) -> Result<Credentials, Fault> {
    of_secret(name, secret, policy).map_err(|error| Fault::credentials(format!("secret {namespace}/{name}: {error}")))
}

/// What the Secret of this name says.
///
/// # Errors
/// What is wrong with it, by the name of its key.
pub fn of_secret(name: &str, secret: Secret, policy: &Policy) -> Result<Credentials, ProfileError> {
    let data: BTreeMap<String, Vec<u8>> =
        secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect();
    let version = secret.metadata.resource_version.unwrap_or_default();
    let profile = Profile::from_secret(&data, policy)?;
    Ok(Credentials { name: name.to_owned(), version, profile })
}

/// A fault that the server found in these credentials, with the name of the secret that has to be put right.
#[must_use]
pub fn refused(credentials: &Credentials, fault: Fault) -> Fault {
    match fault {
        Fault::Definitive { credentials: true, .. } => {
            fault.after(&format!("the keys of secret {} are refused: ", credentials.name))
        }
        fault => fault,
    }
}

/// The credentials of a zone, if they are for the server that the zone names.
///
/// # Errors
/// What is wrong with the secret, or that it is for another server.
pub fn of_zone<'p>(profiles: &'p Profiles, zone: &AvailabilityZone, policy: &Policy) -> Result<&'p Credentials, Fault> {
    let missing = || Fault::credentials(format!("secret {} was not read", zone.credentials_ref));
    let found = profiles.get(&zone.credentials_ref).ok_or_else(missing)?.as_ref().map_err(Clone::clone)?;
    let endpoint = &zone.management_api_endpoint;
    match profile::normal(endpoint, policy) {
        Ok(url) if url == found.profile.url => Ok(found),
        Ok(_) => Err(Fault::unasked(format!(
            "managementApiEndpoint {endpoint} differs from api-url {} of secret {}",
            found.profile.url, found.name
        ))),
        Err(error) => {
            let words = error.to_string().replacen(&format!("key {} ", profile::URL), "managementApiEndpoint ", 1);
            Err(Fault::unasked(words))
        }
    }
}
