//! The comma list of labels, which several writers share.

use std::collections::BTreeMap;

/// A list of labels as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelList {
    /// The labels; of two equal keys the last counts.
    pub labels: BTreeMap<String, String>,
    /// Whether cluster-autoscaler would read it otherwise: it does not trim.
    untidy: bool,
}

impl LabelList {
    /// Reads a list. Items without `=` and without a key are dropped; values may be empty and may hold `=`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut list = Self::default();
        for item in text.split(',') {
            let plain = item.trim();
            list.untidy |= plain != item;
            let Some((key, value)) = plain.split_once('=') else { continue };
            list.untidy |= key.trim() != key || value.trim() != value;
            let key = key.trim();
            if !key.is_empty() {
                list.labels.insert(key.to_owned(), value.trim().to_owned());
            }
        }
        list
    }

    /// The text that must replace the one that was read, for these labels; `None` when the old one says the same.
    #[must_use]
    pub fn rewritten(&self, labels: &BTreeMap<String, String>) -> Option<String> {
        (self.untidy || self.labels != *labels).then(|| text(labels))
    }
}

/// The list as text, ordered by key.
#[must_use]
pub fn text(labels: &BTreeMap<String, String>) -> String {
    let items: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    items.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged(old: &str, arch: &str) -> Option<String> {
        let list = LabelList::parse(old);
        let mut labels = list.labels.clone();
        labels.insert("kubernetes.io/arch".to_owned(), arch.to_owned());
        list.rewritten(&labels)
    }

    #[test]
    fn lists_are_merged_as_the_table_says() {
        for (old, new) in [
            (
                "custom-label=value,node-role.kubernetes.io/worker=",
                Some("custom-label=value,kubernetes.io/arch=arm64,node-role.kubernetes.io/worker="),
            ),
            ("kubernetes.io/arch=amd64,custom-label=value", Some("custom-label=value,kubernetes.io/arch=arm64")),
            ("broken, a=b", Some("a=b,kubernetes.io/arch=arm64")),
            ("", Some("kubernetes.io/arch=arm64")),
            ("kubernetes.io/arch=arm64,a=b", None),
            ("a=b,kubernetes.io/arch=arm64,broken", None),
            ("a=b=c,kubernetes.io/arch=arm64", None),
            (" a=b,kubernetes.io/arch=arm64", Some("a=b,kubernetes.io/arch=arm64")),
            ("a =b,kubernetes.io/arch=arm64", Some("a=b,kubernetes.io/arch=arm64")),
            ("a=1,a=2", Some("a=2,kubernetes.io/arch=arm64")),
            ("=x,a=b", Some("a=b,kubernetes.io/arch=arm64")),
            (",,", Some("kubernetes.io/arch=arm64")),
        ] {
            assert_eq!(merged(old, "arm64").as_deref(), new, "{old:?}");
        }
    }

    proptest! {
        #[test]
        fn a_merge_is_done_once_and_loses_no_label(old in "[a-z=, \t]{0,40}") {
            if let Some(new) = merged(&old, "arm64") {
                prop_assert_eq!(merged(&new, "arm64"), None, "{}", new);
                let (before, after) = (LabelList::parse(&old), LabelList::parse(&new));
                for (key, value) in &before.labels {
                    prop_assert_eq!(after.labels.get(key), Some(value));
                }
                prop_assert_eq!(after.labels.len(), before.labels.len() + 1);
            }
        }

        #[test]
        fn any_text_is_read(text in any::<String>()) {
            let list = LabelList::parse(&text);
            prop_assert!(list.labels.keys().all(|key| !key.is_empty()));
        }
    }
}
