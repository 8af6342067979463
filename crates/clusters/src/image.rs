//! Whether the name of an image says which version of Kubernetes is in it.

use crate::version::Minor;

/// Whether a name holds this minor version: `1`, perhaps `.`, `_` or `-`, and the minor, perhaps with a patch of one or two
/// digits right behind, and no other digits around.
#[must_use]
pub fn names(name: &str, minor: Minor) -> bool {
    let minor = minor.0.to_string();
    name.match_indices('1').any(|(at, _)| {
        let (before, rest) = name.split_at(at);
        let rest = rest.strip_prefix('1').unwrap_or_default();
        let rest = rest.strip_prefix(['.', '_', '-']).unwrap_or(rest);
        let alone = !before.ends_with(|c: char| c.is_ascii_digit());
        alone && rest.strip_prefix(minor.as_str()).is_some_and(|rest| digits(rest) <= 2)
    })
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_holds_the_version_as_a_whole_or_not_at_all() {
        for name in
            ["ubuntu-1.31.4", "rhel9_1_31", "kube-1-31-eks", "img131", "img1314", "1.31", "v1.31-2024", "11-1.31"]
        {
            assert!(names(name, Minor(31)), "{name}");
        }
        for name in ["ubuntu-1.30", "build2131", "img131074", "", "1", "13", "1..31", "ubuntu-2.31", "1.3.1"] {
            assert!(!names(name, Minor(31)), "{name}");
        }
    }
}
