//! What the flags and the settings of the ExtensionConfig say.

use std::collections::BTreeMap;
use std::time::Duration;

/// What becomes of a cluster for which no pool can be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingPool {
    /// A managed cluster waits with the reason; any other passes untouched.
    #[default]
    Auto,
    /// Every cluster in scope waits with the reason.
    Block,
    /// Every cluster in scope is refused.
    Fail,
    /// Every cluster passes, unless it insists.
    Ignore,
}

impl MissingPool {
    /// Every policy, by its word.
    pub const ALL: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("block", Self::Block), ("fail", Self::Fail), ("ignore", Self::Ignore)];

    /// The policy that a word stands for.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(name, policy)| (name == word).then_some(policy))
    }
}

/// What the flags say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether hooks are served: then clusters with a topology are theirs alone.
    pub extension: bool,
    /// Prefix of the handler names.
    pub extension_name: String,
    /// Whether clusters without topology, and without hooks all clusters, are given addresses by the housekeeper.
    pub reconciler: bool,
    /// Port of an endpoint nobody named one for.
    pub default_port: u16,
    /// How long a hook waits for an address before it asks to be called again.
    pub allocation_wait: Duration,
    /// What becomes of a cluster without a pool.
    pub missing_pool: MissingPool,
    /// How long a claim waits at an exhausted pool before another is tried.
    pub fallback_after: Duration,
    /// How long a claim may exist without its Cluster.
    pub orphan_ttl: Duration,
    /// Whether conditions are written to Clusters.
    pub conditions: bool,
    /// Only clusters with this value of the label `cluster.x-k8s.io/watch-filter` are looked at.
    pub watch_filter: Option<String>,
    /// Whether a claim that a manual endpoint never needed is deleted.
    pub release_unused: bool,
    /// Whether the housekeeper writes the endpoint of the infrastructure cluster, for clusters without topology.
    pub patch_infrastructure: bool,
    /// Whether a claim is made for a Cluster that does not exist yet, as callers other than Cluster API may ask.
    pub preallocate: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            extension: true,
            extension_name: "vip-allocator".to_owned(),
            reconciler: false,
            default_port: 6443,
            allocation_wait: Duration::from_secs(2),
            missing_pool: MissingPool::Auto,
            fallback_after: Duration::from_secs(5),
            orphan_ttl: Duration::from_secs(600),
            conditions: true,
            watch_filter: None,
            release_unused: false,
            patch_infrastructure: false,
            preallocate: false,
        }
    }
}

/// A setting that cannot be used, named by its key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("settings: {key}: {problem}")]
pub struct SettingError {
    /// The key.
    pub key: &'static str,
    /// What is wrong with its value.
    pub problem: String,
}

impl Config {
    /// The flags with the gate's settings of an ExtensionConfig laid over them; keys of other hooks are not looked at.
    ///
    /// # Errors
    /// Names the setting whose value cannot be used.
    pub fn with_settings(&self, settings: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let mut config = self.clone();
        if let Some(word) = settings.get("missingPoolPolicy") {
            let problem = || format!("`{word}` is none of auto, block, fail, ignore");
            config.missing_pool =
                MissingPool::read(word).ok_or_else(|| SettingError { key: "missingPoolPolicy", problem: problem() })?;
        }
        if let Some(text) = settings.get("defaultPort") {
            let problem = || format!("`{text}` is no port between 1 and 65535");
            config.default_port = port(text).ok_or_else(|| SettingError { key: "defaultPort", problem: problem() })?;
        }
        Ok(config)
    }

    /// Whether a Cluster with this watch-filter label is another controller's.
    #[must_use]
    pub fn is_foreign(&self, label: Option<&str>) -> bool {
        self.watch_filter.is_some() && self.watch_filter.as_deref() != label
    }

    /// Whether a full handler name, as a ClusterClass spells it, is one of ours.
    #[must_use]
    pub fn is_ours(&self, handler: &str) -> bool {
        let Some((handler, _)) = handler.split_once('.') else { return false };
        let hook = handler.strip_prefix(self.extension_name.as_str());
        matches!(hook, Some("-generate-patches" | "-validate-topology" | "-discover-variables"))
    }
}

/// A port, as text.
#[must_use]
pub fn port(text: &str) -> Option<u16> {
    text.trim().parse().ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_laid_over_the_flags_and_bad_ones_named() {
        let flags = Config::default();
        let settings = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        assert_eq!(flags.with_settings(&settings("endpointPath", "x")), Ok(flags.clone()));
        let ignore = flags.with_settings(&settings("missingPoolPolicy", "ignore")).unwrap();
        assert_eq!(ignore.missing_pool, MissingPool::Ignore);
        assert_eq!(flags.with_settings(&settings("defaultPort", "8443")).unwrap().default_port, 8443);
        for (key, value) in [("missingPoolPolicy", "maybe"), ("defaultPort", "0"), ("defaultPort", "70000")] {
            let error = flags.with_settings(&settings(key, value)).unwrap_err().to_string();
            assert!(error.contains(key) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn a_class_names_our_handlers_with_the_name_of_the_extension_config() {
        let config = Config::default();
        assert!(config.is_ours("vip-allocator-generate-patches.any"));
        assert!(config.is_ours("vip-allocator-discover-variables.vip-allocator"));
        assert!(!config.is_ours("vip-allocator-generate-patches"));
        assert!(!config.is_ours("vip-allocator-before-create.vip-allocator"));
        assert!(!config.is_ours("other-generate-patches.vip-allocator"));
    }
}
