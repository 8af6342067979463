//! Credentials from text: AWS's shared-config form, and the Secrets that carry it.
//!
//! Whoever may write such a Secret must not gain more than the credentials in it: nothing in the text runs a program,
//! reads a file outside the allowed folders, or borrows an identity of this process.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use kit::secret::Secret;

use super::source::{Source, WebIdentity};
use crate::port::Keys;

/// The largest text that is read.
const LIMIT: usize = 64 * 1024;

/// Settings that nobody may use, because they run a program or need a person; `*` at the end stands for any rest.
const NEVER: &[(&str, &str)] = &[
    ("credential_process", "no program is run for credentials"),
    ("sso_*", "single sign-on needs a person and a browser"),
    ("mfa_serial", "a second factor needs a person"),
    ("login_session", "a login needs a person and a browser"),
];

/// Settings that a Secret may not use, because they would lend it an identity that is not its own.
const NOT_LENT: &[(&str, &str)] = &[
    ("source_profile", "only keys, or a role with a web identity token, are accepted"),
    ("credential_source", "the identity of this process is not lent out"),
];

/// A text that gives no credentials. Values are never quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Too long.
    #[error("the text is longer than {LIMIT} bytes")]
    TooLong,
    /// Not text.
    #[error("the text is not UTF-8")]
    NotText,
    /// A line of no known form.
    #[error("line {line}: {rule}")]
    Line {
        /// Its number.
        line: usize,
        /// What it should be.
        rule: &'static str,
    },
    /// No such profile.
    #[error("there is no profile [{0}]")]
    NoProfile(String),
    /// A setting that is refused.
    #[error("{key} is refused: {why}")]
    Refused {
        /// The setting.
        key: String,
        /// Why.
        why: &'static str,
    },
    /// A setting that needs another one.
    #[error("{has} needs {lacks} beside it")]
    Half {
        /// What is there.
        has: &'static str,
        /// What is not.
        lacks: &'static str,
    },
    /// Two kinds of credentials at once.
    #[error("both keys and role_arn are set: only one can be meant")]
    Both,
    /// Neither kind.
    #[error("neither aws_access_key_id and aws_secret_access_key nor role_arn and web_identity_token_file are set")]
    Neither,
    /// Not a role.
    #[error("role_arn is not the ARN of a role")]
    Role,
    /// Not an absolute path without detours.
    #[error("web_identity_token_file must be an absolute path without \"..\"")]
    TokenPath,
    /// A path outside the allowed folders.
    #[error("web_identity_token_file lies outside the folders that --token-path-allowlist names")]
    TokenOutside,
}

/// A Secret without usable credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing usable in it.
    #[error(
        "the Secret holds no usable AWS credentials: neither the key credentials nor aws_access_key_id and aws_secret_access_key"
    )]
    Nothing,
    /// The shared-config text in it is not usable.
    #[error("the key credentials of the Secret is not usable")]
    Config(#[source] ConfigError),
    /// A key that is not there.
    #[error("the Secret has no key {0}")]
    Missing(&'static str),
    /// A key that is not text.
    #[error("the key {0} of the Secret is not text")]
    NotText(&'static str),
}

/// Folders from which token files may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPaths(Vec<PathBuf>);

impl Default for TokenPaths {
    /// Where Kubernetes and OpenShift mount service account tokens.
    fn default() -> Self {
        Self(vec![
            PathBuf::from("/var/run/secrets/openshift/serviceaccount"),
            PathBuf::from("/var/run/secrets/eks.amazonaws.com/serviceaccount"),
        ])
    }
}

impl TokenPaths {
    /// These folders; none means that no token file is read for a Secret.
    #[must_use]
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(folders.into_iter().collect())
    }

    /// Checks a path by its text: files below a mounted token are links, so following them tells nothing.
    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        let odd = path.to_str().is_none_or(|text| text.chars().any(char::is_control));
        if odd || !path.is_absolute() || !path.components().all(plain) {
            return Err(ConfigError::TokenPath);
        }
        if self.0.iter().any(|folder| path.starts_with(folder) && path != folder) {
            return Ok(());
        }
        Err(ConfigError::TokenOutside)
    }
}

/// Settings by profile, as written in AWS's shared-config form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profiles(BTreeMap<String, BTreeMap<String, Secret<String>>>);

impl Profiles {
    /// Reads the text. Settings before the first profile, in sections that are no profiles, and nested ones are passed
    /// over; of two equal settings the later one counts.
    ///
    /// # Errors
    /// When a line is neither a section, a setting, a comment nor empty. The line is named by its number only.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.len() > LIMIT {
            return Err(ConfigError::TooLong);
        }
        let mut profiles = Self::default();
        let mut section: Option<String> = None;
        for (at, raw) in text.lines().enumerate() {
            let bad = |rule| ConfigError::Line { line: at + 1, rule };
            let line = raw.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let (name, tail) = rest.split_once(']').ok_or_else(|| bad("a section needs a closing ]"))?;
                if !matches!(tail.trim_start().chars().next(), None | Some('#' | ';')) {
                    return Err(bad("only a comment may follow a section"));
                }
                section = profile_name(name);
                if let Some(name) = &section {
                    profiles.0.entry(name.clone()).or_default();
                }
                continue;
            }
            let (key, value) = line.split_once('=').ok_or_else(|| bad("must be a setting (key = value)"))?;
            let key = key.trim().to_ascii_lowercase();
            if key.is_empty() {
                return Err(bad("a setting needs a name"));
            }
            if let Some(settings) = section.as_ref().and_then(|name| profiles.0.get_mut(name)) {
                settings.insert(key, Secret::new(uncommented(value).to_owned()));
            }
        }
        Ok(profiles)
    }

    /// Adds the settings of another file; its own win.
    #[must_use]
    pub fn merged(mut self, other: Self) -> Self {
        for (name, settings) in other.0 {
            self.0.entry(name).or_default().extend(settings);
        }
        self
    }

    /// Whether there is such a profile.
    #[must_use]
    pub fn has(&self, profile: &str) -> bool {
        self.0.contains_key(profile)
    }

    /// A setting that is there and not empty.
    pub(crate) fn get(&self, profile: &str, key: &str) -> Option<&str> {
        let value = self.0.get(profile)?.get(key)?.expose().as_str();
        (!value.is_empty()).then_some(value)
    }

    /// Refuses a profile with settings that nobody may use.
    pub(crate) fn refuse_never(&self, profile: &str) -> Result<(), ConfigError> {
        self.refuse(profile, NEVER)
    }

    fn refuse(&self, profile: &str, refused: &[(&str, &'static str)]) -> Result<(), ConfigError> {
        for key in self.0.get(profile).into_iter().flat_map(BTreeMap::keys) {
            let fits = |pattern: &str| pattern.strip_suffix('*').map_or(key == pattern, |start| key.starts_with(start));
            if let Some((_, why)) = refused.iter().find(|(pattern, _)| fits(pattern)) {
                return Err(ConfigError::Refused { key: key.chars().take(64).collect(), why });
            }
        }
        Ok(())
    }

    /// The keys of a profile, if it has them.
    ///
    /// # Errors
    /// When only one half is there.
    pub(crate) fn static_keys(&self, profile: &str) -> Result<Option<Keys>, ConfigError> {
        let get = |key| self.get(profile, key);
        match (get("aws_access_key_id"), get("aws_secret_access_key")) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(ConfigError::Half { has: "aws_access_key_id", lacks: "aws_secret_access_key" }),
            (None, Some(_)) => Err(ConfigError::Half { has: "aws_secret_access_key", lacks: "aws_access_key_id" }),
            (Some(id), Some(secret)) => Ok(Some(keys_of(id, secret, get("aws_session_token")))),
        }
    }
}

/// `[default]`, `[name]` and `[profile name]` are profiles; `[sso-session x]` and `[services x]` are not.
fn profile_name(section: &str) -> Option<String> {
    let mut words = section.split_whitespace();
    let name = match (words.next(), words.next(), words.next()) {
        (Some(name), None, None) | (Some("profile"), Some(name), None) => name,
        _ => return None,
    };
    Some(name.trim_matches('"').to_owned())
}

/// A value without the comment behind it; a comment starts with a blank.
fn uncommented(value: &str) -> &str {
    let cut = [" #", " ;", "\t#", "\t;"].iter().filter_map(|mark| value.find(mark)).min();
    cut.and_then(|at| value.get(..at)).unwrap_or(value).trim()
}

/// Credentials from shared-config text, profile `[default]`.
///
/// # Errors
/// When the text is not of that form, or holds anything but keys or a role with a web identity token.
pub fn from_config_text(text: &str, allowed: &TokenPaths) -> Result<Source, ConfigError> {
    const PROFILE: &str = "default";
    let profiles = Profiles::parse(text)?;
    if !profiles.has(PROFILE) {
        return Err(ConfigError::NoProfile(PROFILE.to_owned()));
    }
    profiles.refuse(PROFILE, NEVER)?;
    profiles.refuse(PROFILE, NOT_LENT)?;
    let keys = profiles.static_keys(PROFILE)?;
    let role = web_identity(&profiles, PROFILE)?;
    match (keys, role) {
        (Some(_), Some(_)) => Err(ConfigError::Both),
        (Some(keys), None) => Ok(Source::Keys(keys)),
        (None, Some(identity)) => {
            allowed.check(&identity.token_file)?;
            Ok(Source::WebIdentity(identity))
        }
        (None, None) => Err(ConfigError::Neither),
    }
}

/// The role with a web identity token of a profile, if it has one.
pub(crate) fn web_identity(profiles: &Profiles, profile: &str) -> Result<Option<WebIdentity>, ConfigError> {
    let get = |key| profiles.get(profile, key);
    match (get("role_arn"), get("web_identity_token_file")) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(ConfigError::Half { has: "role_arn", lacks: "web_identity_token_file" }),
        (None, Some(_)) => Err(ConfigError::Half { has: "web_identity_token_file", lacks: "role_arn" }),
        (Some(role), Some(file)) => Ok(Some(WebIdentity {
            role: role.parse().map_err(|_| ConfigError::Role)?,
            token_file: PathBuf::from(file),
            session_name: get("role_session_name").map(str::to_owned),
        })),
    }
}

/// A key of a Secret that is there and not blank.
fn text_of<'a>(data: &'a BTreeMap<String, Vec<u8>>, key: &'static str) -> Result<Option<&'a str>, SecretError> {
    let Some(bytes) = data.get(key) else { return Ok(None) };
    let text = std::str::from_utf8(bytes).map_err(|_| SecretError::NotText(key))?.trim();
    Ok((!text.is_empty()).then_some(text))
}

fn keys_of(id: &str, secret: &str, session: Option<&str>) -> Keys {
    let secret_of = |text: &str| Secret::new(text.to_owned());
    Keys { id: id.to_owned(), secret: secret_of(secret), session: session.map(secret_of) }
}

/// Credentials from the data of a Secret: the key `credentials` as shared-config text, else the two keys by name.
///
/// # Errors
/// When neither is there, or what is there is not usable.
pub fn from_secret(data: &BTreeMap<String, Vec<u8>>, allowed: &TokenPaths) -> Result<Source, SecretError> {
    let text = |key| text_of(data, key);
    if let Some(config) = text("credentials")? {
        return from_config_text(config, allowed).map_err(SecretError::Config);
    }
    let (Some(id), Some(secret)) = (text("aws_access_key_id")?, text("aws_secret_access_key")?) else {
        return Err(SecretError::Nothing);
    };
    Ok(Source::Keys(keys_of(id, secret, text("aws_session_token")?)))
}

/// Credentials from the Secret of an AWSClusterStaticIdentity.
///
/// # Errors
/// When a key is missing or not text.
pub fn from_static_identity(data: &BTreeMap<String, Vec<u8>>) -> Result<Source, SecretError> {
    let need = |key| text_of(data, key)?.ok_or(SecretError::Missing(key));
    let (id, secret) = (need("AccessKeyID")?, need("SecretAccessKey")?);
    Ok(Source::Keys(keys_of(id, secret, text_of(data, "SessionToken")?)))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
