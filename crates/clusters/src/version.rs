//! Versions: minors of Kubernetes as users write them, releases of EKS Anywhere, and the newest minor that is allowed.

use std::fmt;
use std::str::FromStr;

/// A minor version of Kubernetes 1, written `1.31`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minor(pub u8);

/// A text that is not a minor version of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quote it, e.g. \"1.30\"")]
pub struct NotAMinor;

impl FromStr for Minor {
    type Err = NotAMinor;

    fn from_str(text: &str) -> Result<Self, NotAMinor> {
        let digits = text.strip_prefix("1.").filter(|digits| digits.len() == 2).ok_or(NotAMinor)?;
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(NotAMinor);
        }
        digits.parse().map(Self).map_err(|_| NotAMinor)
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// Which minor versions the CloudStack provider of a management cluster can run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Newest {
    /// Decided by the newest version of its API that is served.
    #[default]
    Auto,
    /// Up to this one.
    Only(Minor),
}

/// The newest minor that providers of the CloudStack API before v1beta3 can run.
const BEFORE_V1BETA3: Minor = Minor(23);

impl Newest {
    /// The newest minor that is admitted; none when there is no limit.
    ///
    /// `served` is the newest version of the provider's API that the server has, if it has any.
    #[must_use]
    pub fn limit(self, served: Option<&str>) -> Option<Minor> {
        match self {
            Self::Only(minor) => Some(minor),
            Self::Auto => served.filter(|version| api_age(version) < api_age("v1beta3")).map(|_| BEFORE_V1BETA3),
        }
    }
}

impl FromStr for Newest {
    type Err = NotAMinor;

    fn from_str(text: &str) -> Result<Self, NotAMinor> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Only) }
    }
}

/// The age of a version of an API: major, then alpha before beta before stable, then the number.
fn api_age(version: &str) -> (u32, u8, u32) {
    let rest = version.strip_prefix('v').unwrap_or(version);
    let number = |text: &str| text.parse().unwrap_or_default();
    let split = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(split);
    match (rest.strip_prefix("alpha"), rest.strip_prefix("beta")) {
        (Some(n), _) => (number(major), 0, number(n)),
        (_, Some(n)) => (number(major), 1, number(n)),
        _ => (number(major), 2, 0),
    }
}

/// A release of EKS Anywhere, written `v0.22.1` with or without the `v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
    /// The patch version.
    pub patch: u32,
}

/// A text that is not a semantic version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a semantic version")]
pub struct NotARelease;

impl FromStr for Release {
    type Err = NotARelease;

    fn from_str(text: &str) -> Result<Self, NotARelease> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let (bare, build) = bare.split_once('+').map_or((bare, None), |(bare, build)| (bare, Some(build)));
        let (core, pre) = bare.split_once('-').map_or((bare, None), |(core, pre)| (core, Some(pre)));
        let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if ![pre, build].into_iter().flatten().all(|text| text.split('.').all(word)) {
            return Err(NotARelease);
        }
        let number = |part: &str| {
            let plain = part == "0" || (!part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit()));
            part.parse::<u32>().ok().filter(|_| plain).ok_or(NotARelease)
        };
        let mut parts = core.split('.');
        let (Some(major), Some(minor), Some(patch), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotARelease);
        };
        Ok(Self { major: number(major)?, minor: number(minor)?, patch: number(patch)? })
    }
}

/// The name of the EKSARelease object of a version.
#[must_use]
pub fn release_object(version: &str) -> String {
    format!("eksa-{}", version.replace('+', "-plus-").replace('.', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minors_are_one_dot_two_digits_and_nothing_else() {
        assert_eq!("1.31".parse(), Ok(Minor(31)));
        assert_eq!(Minor(30).to_string(), "1.30");
        for bad in ["", "1", "1.3", "1.311", "2.31", "v1.31", "1.31.4", " 1.31", "1.+3", "1.3x"] {
            assert_eq!(bad.parse::<Minor>(), Err(NotAMinor), "{bad}");
        }
    }

    #[test]
    fn releases_are_semantic_versions_with_or_without_v() {
        let release = |major, minor, patch| Ok(Release { major, minor, patch });
        for (text, wanted) in [
            ("v0.22.1", release(0, 22, 1)),
            ("0.22.1", release(0, 22, 1)),
            ("v1.0.0-dev+build.7", release(1, 0, 0)),
            ("v0.22.0-rc.1", release(0, 22, 0)),
            ("v0.0.0+dev-main.5", release(0, 0, 0)),
            ("v0.22", Err(NotARelease)),
            ("0.22.1.2", Err(NotARelease)),
            ("v0.22.x", Err(NotARelease)),
            ("v0.022.1", Err(NotARelease)),
            ("v0.22.1-", Err(NotARelease)),
            ("latest", Err(NotARelease)),
            ("", Err(NotARelease)),
        ] {
            assert_eq!(text.parse::<Release>(), wanted, "{text}");
        }
    }

    #[test]
    fn the_object_of_a_release_is_found_by_its_version() {
        assert_eq!(release_object("v0.22.1"), "eksa-v0-22-1");
        assert_eq!(release_object("v0.0.0+dev.3"), "eksa-v0-0-0-plus-dev-3");
    }

    #[test]
    fn an_old_provider_limits_the_version_and_a_flag_overrides_it() {
        for (newest, served, wanted) in [
            ("auto", Some("v1beta1"), Some(Minor(23))),
            ("auto", Some("v1beta2"), Some(Minor(23))),
            ("auto", Some("v1alpha4"), Some(Minor(23))),
            ("auto", Some("v1beta3"), None),
            ("auto", Some("v1beta4"), None),
            ("auto", Some("v1"), None),
            ("auto", None, None),
            ("1.30", Some("v1beta3"), Some(Minor(30))),
            ("1.30", None, Some(Minor(30))),
        ] {
            assert_eq!(newest.parse::<Newest>().unwrap().limit(served), wanted, "{newest} {served:?}");
        }
        assert!("newest".parse::<Newest>().is_err());
    }
}
