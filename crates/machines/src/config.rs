//! What the flags say.

use std::str::FromStr;

/// The settings of the room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Only objects with this value of the label `cluster.x-k8s.io/watch-filter` are ours.
    pub watch_filter: Option<String>,
    /// `--default-host-kind`: the kind of claim for machines that name none; without it those take hosts directly, and are
    /// not ours.
    pub default_host_kind: Option<String>,
    /// `--reserve-early`: claims are made as soon as the infrastructure of the cluster is ready, before there is bootstrap
    /// data.
    pub reserve_early: bool,
    /// `--manage-metal3-clusters`: which Metal3Clusters are ours.
    pub manage_clusters: Manage,
}

/// Which Metal3Clusters are ours; an annotation on one of them counts more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manage {
    /// Those whose status nobody else writes.
    #[default]
    Auto,
    /// All.
    Always,
    /// None.
    Never,
}

impl Manage {
    /// Every value, as users write it.
    pub const ALL: [(&'static str, Self); 3] = [("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];
}

impl FromStr for Manage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|(name, _)| *name == text);
        known.map(|(_, value)| value).ok_or_else(|| "must be auto, always or never".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_for_who_looks_after_clusters_is_read() {
        for (name, value) in Manage::ALL {
            assert_eq!(name.parse(), Ok(value));
        }
        assert!("sometimes".parse::<Manage>().is_err());
    }
}
