//! What is done about the network plugin of a cluster, from what is seen in it.

use crate::version::Release;

/// What is seen of Cilium in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The images of its DaemonSet, with those that initialise it.
    pub images: Vec<String>,
    /// The image of its operator.
    pub operator: String,
    /// Whether it runs on every node it should.
    pub ready: bool,
    /// Whether the check before an upgrade is there, and passed everywhere.
    pub preflight: Option<bool>,
    /// Its settings.
    pub settings: Vec<(String, String)>,
}

/// What is wanted of Cilium.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The image that runs on each node.
    pub image: String,
    /// The image of the operator.
    pub operator: String,
    /// Its settings.
    pub settings: Vec<(String, String)>,
    /// Whether it is left alone once it was installed.
    pub skip_upgrade: bool,
    /// Whether it was installed once.
    pub installed_once: bool,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is not there and its manifest is applied.
    Install,
    /// It is left alone, as the cluster asks.
    LeaveAlone,
    /// It is to be upgraded, and does not run everywhere yet.
    WaitUntilReady,
    /// The check before an upgrade is made.
    Check,
    /// The check has not passed everywhere yet.
    WaitForCheck,
    /// The manifest for an upgrade from this minor version is applied, and the check is removed.
    Upgrade {
        /// The minor version that is there, such as `1.15`, when its image tells.
        from: Option<String>,
    },
    /// The manifest is applied with other settings.
    Configure,
    /// It is as wanted.
    Nothing,
}

/// Decides what is to be done next.
#[must_use]
pub fn next(seen: Option<&Seen>, wanted: &Wanted) -> Next {
    let Some(seen) = seen else {
        // Without a plugin no node ever becomes ready, so it is installed once whatever the cluster says.
        return if wanted.skip_upgrade && wanted.installed_once { Next::LeaveAlone } else { Next::Install };
    };
    if wanted.skip_upgrade {
        return Next::LeaveAlone;
    }
    let other = seen.images.iter().find(|image| **image != wanted.image);
    let outdated = other.is_some() || seen.operator != wanted.operator;
    if outdated {
        return match (seen.preflight, seen.ready) {
            (None, false) => Next::WaitUntilReady,
            (None, true) => Next::Check,
            (Some(false), _) => Next::WaitForCheck,
            (Some(true), _) => Next::Upgrade { from: other.and_then(|image| minor(image)) },
        };
    }
    let (mut is, mut should) = (seen.settings.clone(), wanted.settings.clone());
    is.sort();
    should.sort();
    if is == should { Next::Nothing } else { Next::Configure }
}

/// The minor version in the tag of an image.
fn minor(image: &str) -> Option<String> {
    let bare = image.split_once('@').map_or(image, |(name, _)| name);
    let (_, tag) = bare.rsplit_once(':')?;
    let release: Release = tag.parse().ok()?;
    Some(format!("{}.{}", release.major, release.minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_is_installed_checked_upgraded_configured_or_left_alone() {
        let image = |version: &str| format!("images.example:5000/cilium:{version}");
        let wanted = Wanted { image: image("v1.16.5"), operator: "o:1".into(), ..Wanted::default() };
        let seen = Seen { images: vec![image("v1.16.5")], operator: "o:1".into(), ready: true, ..Seen::default() };
        let old = Seen { images: vec![image("v1.16.5"), image("v1.15.2-eks.1")], ..seen.clone() };
        let policy = vec![("enable-policy".to_owned(), "always".to_owned())];
        let skip = Wanted { skip_upgrade: true, ..wanted.clone() };
        let rows: Vec<(Option<Seen>, Wanted, Next)> = vec![
            (None, wanted.clone(), Next::Install),
            (None, Wanted { installed_once: true, ..wanted.clone() }, Next::Install),
            (None, skip.clone(), Next::Install),
            (None, Wanted { installed_once: true, ..skip.clone() }, Next::LeaveAlone),
            (Some(old.clone()), skip, Next::LeaveAlone),
            (Some(seen.clone()), wanted.clone(), Next::Nothing),
            (Some(old.clone()), wanted.clone(), Next::Check),
            (Some(Seen { ready: false, ..old.clone() }), wanted.clone(), Next::WaitUntilReady),
            (Some(Seen { preflight: Some(false), ..old.clone() }), wanted.clone(), Next::WaitForCheck),
            (Some(Seen { preflight: Some(true), ..old }), wanted.clone(), Next::Upgrade { from: Some("1.15".into()) }),
            (
                Some(Seen { operator: "o:0".into(), preflight: Some(true), ..seen.clone() }),
                wanted.clone(),
                Next::Upgrade { from: None },
            ),
            (Some(seen.clone()), Wanted { settings: policy.clone(), ..wanted.clone() }, Next::Configure),
            (Some(Seen { settings: policy.clone(), ..seen }), Wanted { settings: policy, ..wanted }, Next::Nothing),
        ];
        for (seen, wanted, expected) in rows {
            assert_eq!(next(seen.as_ref(), &wanted), expected, "{seen:?} {wanted:?}");
        }
    }
}
