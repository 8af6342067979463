//! What the flags say.

use std::time::Duration;

use crate::render::Settings;
use crate::version::Newest;

/// What is done when the name of a template does not say which version of Kubernetes is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TemplateCheck {
    /// Nobody looks.
    Off,
    /// It is told and goes on.
    Warn,
    /// The cluster is not made or changed.
    #[default]
    Enforce,
}

impl TemplateCheck {
    /// Every choice and its word.
    pub const ALL: [(&'static str, Self); 3] = [("off", Self::Off), ("warn", Self::Warn), ("enforce", Self::Enforce)];
}

/// The settings of the room.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--cloudstack-max-kubernetes-version`: the newest version of Kubernetes that is admitted.
    pub newest: Newest,
    /// `--template-version-check`: whether names of templates must carry the version.
    pub template_check: TemplateCheck,
    /// `--enable-api-server-extra-args`: whether users may give arguments to the API server.
    pub extra_args: bool,
    /// How objects are rendered, and where they are.
    pub settings: Settings,
    /// `--datacenter-resync`: how often a valid datacenter is checked again.
    pub datacenter_resync: Duration,
    /// `--cluster-resync`: how often a ready cluster is looked at again.
    pub cluster_resync: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            newest: Newest::Auto,
            template_check: TemplateCheck::Enforce,
            extra_args: false,
            settings: Settings::default(),
            datacenter_resync: Duration::from_secs(600),
            cluster_resync: Duration::from_secs(600),
        }
    }
}

impl Config {
    /// The namespace of credentials and of every generated object.
    #[must_use]
    pub fn system_namespace(&self) -> &str {
        &self.settings.system_namespace
    }
}
