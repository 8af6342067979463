//! Which hooks there are, what their handlers are called and where they are served.

use std::fmt;
use std::time::Duration;

use api::names::DnsLabel;

/// The API of all hooks, in every version of Cluster API.
pub const API_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// A hook of Cluster API that is answered here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// Which handlers there are.
    Discovery,
    /// The gate before anything of a cluster is rendered.
    BeforeClusterCreate,
    /// Changes of templates.
    GeneratePatches,
    /// A look at the finished templates.
    ValidateTopology,
    /// Variables for a class.
    DiscoverVariables,
    /// The last moment before a cluster is taken down.
    BeforeClusterDelete,
}

/// What Cluster API does when a handler cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Stops.
    Fail,
    /// Goes on as if the handler had agreed.
    Ignore,
}

impl FailurePolicy {
    /// The word in Discovery.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

impl Hook {
    /// Every hook.
    pub const ALL: [Self; 6] = [
        Self::Discovery,
        Self::BeforeClusterCreate,
        Self::GeneratePatches,
        Self::ValidateTopology,
        Self::DiscoverVariables,
        Self::BeforeClusterDelete,
    ];

    /// The hook as Cluster API spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "Discovery",
            Self::BeforeClusterCreate => "BeforeClusterCreate",
            Self::GeneratePatches => "GeneratePatches",
            Self::ValidateTopology => "ValidateTopology",
            Self::DiscoverVariables => "DiscoverVariables",
            Self::BeforeClusterDelete => "BeforeClusterDelete",
        }
    }

    /// What follows the extension's name in the handler's; Discovery has no handler.
    #[must_use]
    pub const fn suffix(self) -> Option<&'static str> {
        match self {
            Self::Discovery => None,
            Self::BeforeClusterCreate => Some("-before-create"),
            Self::GeneratePatches => Some("-generate-patches"),
            Self::ValidateTopology => Some("-validate-topology"),
            Self::DiscoverVariables => Some("-discover-variables"),
            Self::BeforeClusterDelete => Some("-before-delete"),
        }
    }

    /// How long Cluster API waits for an answer. More than 30 seconds would make it reject every handler.
    #[must_use]
    pub const fn timeout(self) -> Duration {
        match self {
            Self::BeforeClusterDelete => Duration::from_secs(5),
            _ => Duration::from_secs(10),
        }
    }

    /// What becomes of a cluster while nobody answers. Ignoring the gate or the patches would render a cluster without
    /// its address; nothing is lost when a deletion goes on.
    #[must_use]
    pub const fn failure_policy(self) -> FailurePolicy {
        match self {
            Self::BeforeClusterDelete => FailurePolicy::Ignore,
            _ => FailurePolicy::Fail,
        }
    }

    /// Whether the answer can ask to be called again.
    #[must_use]
    pub const fn can_wait(self) -> bool {
        matches!(self, Self::BeforeClusterCreate | Self::BeforeClusterDelete)
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why the handlers cannot be named or served so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The extension's name makes a handler's name that Cluster API rejects, and with it all others.
    #[error(
        "`{name}` cannot start the names of handlers: it must be 1 to {longest} lower case letters, digits or '-', \
         starting and ending with a letter or digit"
    )]
    Extension {
        /// The name.
        name: String,
        /// How long it may be.
        longest: usize,
    },
    /// The prefix is no path.
    #[error("`{prefix}` cannot start a path: it must hold only letters, digits, '/', '-', '_' and '.'")]
    Prefix {
        /// The prefix.
        prefix: String,
    },
}

/// The names of the handlers and the paths they are served at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    extension: DnsLabel,
    prefix: String,
}

/// The longest DNS label.
const LABEL: usize = 63;

impl Names {
    /// Names that start with `extension`, at paths that may start with `prefix` (empty: none).
    ///
    /// # Errors
    /// When Cluster API would reject a handler's name, or the prefix is no path.
    pub fn new(extension: &str, prefix: &str) -> Result<Self, NameError> {
        let suffix = Hook::ALL.iter().filter_map(|hook| hook.suffix()).map(str::len).max().unwrap_or_default();
        let longest = LABEL.saturating_sub(suffix);
        let refused = || NameError::Extension { name: extension.to_owned(), longest };
        let name: DnsLabel = extension.parse().map_err(|_| refused())?;
        if extension.len() > longest {
            return Err(refused());
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        if !prefix.chars().all(plain) {
            return Err(NameError::Prefix { prefix: prefix.to_owned() });
        }
        // As Cluster API joins them: no empty parts.
        let parts: String = prefix.split('/').filter(|part| !part.is_empty()).flat_map(|part| ["/", part]).collect();
        Ok(Self { extension: name, prefix: parts })
    }

    /// The name of a hook's handler.
    #[must_use]
    pub fn handler(&self, hook: Hook) -> Option<String> {
        hook.suffix().map(|suffix| format!("{}{suffix}", self.extension))
    }

    /// The path of a hook, without the prefix.
    #[must_use]
    pub fn path(&self, hook: Hook) -> String {
        let word = hook.as_str().to_ascii_lowercase();
        match self.handler(hook) {
            Some(handler) => format!("/{API_VERSION}/{word}/{handler}"),
            None => format!("/{API_VERSION}/{word}"),
        }
    }

    /// All paths of a hook: as it is, and after the prefix if there is one.
    #[must_use]
    pub fn paths(&self, hook: Hook) -> Vec<String> {
        let path = self.path(hook);
        if self.prefix.is_empty() { vec![path] } else { vec![format!("{}{path}", self.prefix), path] }
    }

    /// The hook that is served at a path.
    #[must_use]
    pub fn hook_at(&self, path: &str) -> Option<Hook> {
        Hook::ALL.into_iter().find(|hook| self.paths(*hook).iter().any(|known| known == path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_lower_case_and_carry_the_handler() {
        let names = Names::new("vip-allocator", "").unwrap();
        let paths: Vec<String> = Hook::ALL.into_iter().flat_map(|hook| names.paths(hook)).collect();
        let api = "/hooks.runtime.cluster.x-k8s.io/v1alpha1";
        assert_eq!(
            paths,
            [
                format!("{api}/discovery"),
                format!("{api}/beforeclustercreate/vip-allocator-before-create"),
                format!("{api}/generatepatches/vip-allocator-generate-patches"),
                format!("{api}/validatetopology/vip-allocator-validate-topology"),
                format!("{api}/discovervariables/vip-allocator-discover-variables"),
                format!("{api}/beforeclusterdelete/vip-allocator-before-delete"),
            ]
        );
        for (path, hook) in paths.iter().zip(Hook::ALL) {
            assert_eq!(names.hook_at(path), Some(hook));
            assert_eq!(names.hook_at(&format!("{path}/")), None);
            assert_eq!(names.hook_at(&path.to_uppercase()), None);
        }
    }

    #[test]
    fn a_prefix_is_understood_however_it_is_written() {
        for prefix in ["a/b", "/a/b", "/a/b/", "//a//b//"] {
            let names = Names::new("n", prefix).unwrap();
            let path = names.path(Hook::Discovery);
            assert_eq!(names.hook_at(&format!("/a/b{path}")), Some(Hook::Discovery), "{prefix}");
            assert_eq!(names.hook_at(&path), Some(Hook::Discovery));
            assert_eq!(names.hook_at(&format!("/b{path}")), None);
        }
        for prefix in ["a b", "a?b", "{a}", "ä", "a%20b"] {
            assert!(Names::new("n", prefix).is_err_and(|e| e.to_string().contains(prefix)), "{prefix}");
        }
        assert_eq!(Names::new("n", "/").unwrap().paths(Hook::Discovery).len(), 1);
    }

    #[test]
    fn every_handler_of_an_accepted_name_is_a_label_and_used_once() {
        for name in ["v", "vip-allocator", &"x".repeat(44)] {
            let names = Names::new(name, "").unwrap();
            let mut seen = std::collections::BTreeSet::new();
            for handler in Hook::ALL.into_iter().filter_map(|hook| names.handler(hook)) {
                assert!(handler.parse::<DnsLabel>().is_ok(), "{handler}");
                assert!(seen.insert(handler));
            }
            assert_eq!(seen.len(), 5);
        }
        for bad in ["", "-a", "a-", "a.b", "A", "a_b", &"x".repeat(45)] {
            let error = Names::new(bad, "").unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("44"), "{error}");
        }
    }
}
