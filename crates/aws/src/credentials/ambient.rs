//! Credentials of the process itself: environment, files, container platform, machine.
//!
//! The order is that of AWS's own tools. What is decided here is which source is meant; whether it answers is found out
//! when it is asked. A half-written source is an error, never a reason to fall through to the next one: the next one
//! may be somebody else's identity.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kit::secret::Secret;

use super::config::{ConfigError, Profiles, web_identity};
use super::source::{ContainerAuth, Role, Source, WebIdentity};
use crate::port::Keys;

/// The metadata service of EC2.
const METADATA: &str = "http://169.254.169.254";
/// The same over IPv6.
const METADATA_V6: &str = "http://[fd00:ec2::254]";
/// Where the container agent of ECS answers.
const CONTAINER: &str = "http://169.254.170.2";
/// Roles taken on one after the other in files.
const LINKS: usize = 8;

/// The shared files, as far as they exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The text of the config file.
    pub config: Option<Secret<String>>,
    /// The text of the credentials file; its settings win.
    pub credentials: Option<Secret<String>>,
}

/// Why the credentials of the process are not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmbientError {
    /// A variable without its other half.
    #[error("{has} is set but {lacks} is not")]
    Half {
        /// What is set.
        has: &'static str,
        /// What is missing.
        lacks: &'static str,
    },
    /// A variable with a bad value, which is not quoted.
    #[error("{variable} {rule}")]
    Variable {
        /// The variable.
        variable: &'static str,
        /// What it should be.
        rule: &'static str,
    },
    /// A shared file is not usable.
    #[error("the shared {file} file is not usable")]
    File {
        /// `config` or `credentials`.
        file: &'static str,
        /// Why.
        #[source]
        source: ConfigError,
    },
    /// A profile is not usable.
    #[error("the profile {profile} is not usable")]
    Profile {
        /// The profile.
        profile: String,
        /// Why.
        #[source]
        source: ConfigError,
    },
    /// A chain of profiles that does not end.
    #[error("the profile {profile} takes on too many roles one after the other")]
    Circle {
        /// Where it started.
        profile: String,
    },
    /// Nothing at all.
    #[error(
        "there are no AWS credentials in the environment, in shared files, from a container platform or from the machine"
    )]
    None,
}

/// How sure it is that the process was given credentials on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Somebody gave this process an identity: a web identity or a container credential address.
    Given,
    /// Only the usual places would be asked.
    Guessed,
}

/// The credentials of the process, decided once from what it was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambient {
    source: Source,
    evidence: Evidence,
}

impl Ambient {
    /// Decides which source the process was given.
    ///
    /// # Errors
    /// When a source is half written or there is none.
    pub fn decide(vars: &BTreeMap<String, String>, files: &Files) -> Result<Self, AmbientError> {
        let get = |name: &str| vars.get(name).map(|value| value.trim()).filter(|value| !value.is_empty());
        let identity = identity_of(&get)?;
        let container = container_of(&get)?;
        let evidence = if identity.is_some() || container.is_some() { Evidence::Given } else { Evidence::Guessed };
        let found = match keys_of(&get)? {
            Some(keys) => Some(Source::Keys(keys)),
            None => Context { vars: &get, profiles: profiles(files)?, identity: &identity, container: &container }
                .default_profile()?,
        };
        let source = found
            .or_else(|| identity.clone().map(Source::WebIdentity))
            .or_else(|| container.clone())
            .or_else(|| machine_of(&get))
            .ok_or(AmbientError::None)?;
        Ok(Self { source, evidence })
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// How sure it is that the process was given credentials on purpose.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        self.evidence
    }
}

fn keys_of<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Result<Option<Keys>, AmbientError> {
    const ID: &str = "AWS_ACCESS_KEY_ID";
    const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
    match (get(ID), get(SECRET)) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(AmbientError::Half { has: ID, lacks: SECRET }),
        (None, Some(_)) => Err(AmbientError::Half { has: SECRET, lacks: ID }),
        (Some(id), Some(secret)) => Ok(Some(Keys {
            id: id.to_owned(),
            secret: Secret::new(secret.to_owned()),
            session: get("AWS_SESSION_TOKEN").map(|token| Secret::new(token.to_owned())),
        })),
    }
}

fn identity_of<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Result<Option<WebIdentity>, AmbientError> {
    const ROLE: &str = "AWS_ROLE_ARN";
    const FILE: &str = "AWS_WEB_IDENTITY_TOKEN_FILE";
    match (get(ROLE), get(FILE)) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(AmbientError::Half { has: ROLE, lacks: FILE }),
        (None, Some(_)) => Err(AmbientError::Half { has: FILE, lacks: ROLE }),
        (Some(role), Some(file)) => Ok(Some(WebIdentity {
            role: role
                .parse()
                .map_err(|_| AmbientError::Variable { variable: ROLE, rule: "is not the ARN of a role" })?,
            token_file: PathBuf::from(file),
            session_name: get("AWS_ROLE_SESSION_NAME").map(str::to_owned),
        })),
    }
}

fn container_of<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Result<Option<Source>, AmbientError> {
    const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    let uri = match (get(RELATIVE), get("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
        (Some(path), _) if path.starts_with('/') => format!("{CONTAINER}{path}"),
        (Some(_), _) => return Err(AmbientError::Variable { variable: RELATIVE, rule: "must start with /" }),
        (None, Some(uri)) => uri.to_owned(),
        (None, None) => return Ok(None),
    };
    let auth = match (get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), get("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
        (Some(file), _) => ContainerAuth::File(PathBuf::from(file)),
        (None, Some(token)) => ContainerAuth::Token(Secret::new(token.to_owned())),
        (None, None) => ContainerAuth::None,
    };
    Ok(Some(Source::Container { uri, auth }))
}

fn machine_of<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Option<Source> {
    if get("AWS_EC2_METADATA_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return None;
    }
    let v6 = get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE").is_some_and(|mode| mode.eq_ignore_ascii_case("ipv6"));
    let usual = if v6 { METADATA_V6 } else { METADATA };
    let endpoint = get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(usual).trim_end_matches('/').to_owned();
    Some(Source::InstanceMetadata { endpoint })
}

fn profiles(files: &Files) -> Result<Profiles, AmbientError> {
    let parse = |text: &Option<Secret<String>>, file| {
        let text = text.as_ref().map_or("", |text| text.expose());
        Profiles::parse(text).map_err(|source| AmbientError::File { file, source })
    };
    Ok(parse(&files.config, "config")?.merged(parse(&files.credentials, "credentials")?))
}

/// What a profile may refer to.
struct Context<'a, G> {
    vars: &'a G,
    profiles: Profiles,
    identity: &'a Option<WebIdentity>,
    container: &'a Option<Source>,
}

impl<'v, G: Fn(&str) -> Option<&'v str>> Context<'_, G> {
    /// The profile that is meant; nothing if none was named and the default one does not exist or holds nothing.
    fn default_profile(&self) -> Result<Option<Source>, AmbientError> {
        let named = (self.vars)("AWS_PROFILE");
        let profile = named.unwrap_or("default");
        if !self.profiles.has(profile) {
            return match named {
                Some(name) => Err(AmbientError::Profile {
                    profile: name.to_owned(),
                    source: ConfigError::NoProfile(name.to_owned()),
                }),
                None => Ok(None),
            };
        }
        match self.profile(profile, 0) {
            // Files often hold only a region; that is no credential and no error.
            Err(AmbientError::Profile { source: ConfigError::Neither, .. }) if named.is_none() => Ok(None),
            Err(AmbientError::Circle { .. }) => Err(AmbientError::Circle { profile: profile.to_owned() }),
            found => found.map(Some),
        }
    }

    fn profile(&self, profile: &str, depth: usize) -> Result<Source, AmbientError> {
        let bad = |source| AmbientError::Profile { profile: profile.to_owned(), source };
        if depth > LINKS {
            return Err(AmbientError::Circle { profile: profile.to_owned() });
        }
        if !self.profiles.has(profile) {
            return Err(bad(ConfigError::NoProfile(profile.to_owned())));
        }
        let get = |key| self.profiles.get(profile, key);
        self.profiles.refuse_never(profile).map_err(bad)?;
        let from = match (get("role_arn"), get("source_profile"), get("credential_source")) {
            (Some(_), Some(source), None) if source == profile => Source::Keys(self.keys(profile)?),
            (Some(_), Some(source), None) => self.profile(source, depth + 1)?,
            (Some(_), None, Some(source)) => self.borrowed(profile, source)?,
            (Some(_), Some(_), Some(_)) => return Err(bad(ConfigError::Both)),
            (Some(_), None, None) => {
                let identity =
                    web_identity(&self.profiles, profile).map_err(bad)?.ok_or_else(|| bad(ConfigError::Neither))?;
                return Ok(Source::WebIdentity(identity));
            }
            (None, ..) => return self.keys(profile).map(Source::Keys),
        };
        let role = get("role_arn").and_then(|role| role.parse().ok()).ok_or_else(|| bad(ConfigError::Role))?;
        Ok(Source::Role(Box::new(Role {
            role,
            session_name: get("role_session_name").map(str::to_owned),
            duration_seconds: get("duration_seconds").and_then(|text| text.parse().ok()),
            external_id: get("external_id").map(str::to_owned),
            inline_policy: None,
            policy_arns: Vec::new(),
            from,
        })))
    }

    fn keys(&self, profile: &str) -> Result<Keys, AmbientError> {
        let bad = |source| AmbientError::Profile { profile: profile.to_owned(), source };
        self.profiles.static_keys(profile).map_err(bad)?.ok_or_else(|| bad(ConfigError::Neither))
    }

    fn borrowed(&self, profile: &str, source: &str) -> Result<Source, AmbientError> {
        let found = match source {
            "Environment" => match keys_of(self.vars)? {
                Some(keys) => Some(Source::Keys(keys)),
                None => self.identity.clone().map(Source::WebIdentity),
            },
            "EcsContainer" => self.container.clone(),
            "Ec2InstanceMetadata" => machine_of(self.vars),
            _ => None,
        };
        let why = "what it names is not there";
        let refused = ConfigError::Refused { key: "credential_source".to_owned(), why };
        found.ok_or_else(|| AmbientError::Profile { profile: profile.to_owned(), source: refused })
    }
}

#[cfg(test)]
#[path = "ambient_tests.rs"]
mod tests;
