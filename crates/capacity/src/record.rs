//! What we wrote, kept on the object: a hint whose a value is, never an input for capacity.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The content of the annotation `capacity.berth.dev/applied`; members in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The type the values describe.
    #[serde(default)]
    pub instance_type: String,
    /// Labels that were added because a flag asked for them.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The region the values are from.
    #[serde(default)]
    pub region: String,
    /// Values of keys that a user may override.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
}

impl Record {
    /// Reads the annotation; what cannot be read counts as empty.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// The annotation; `None` when there is nothing to remember.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        if self.values.is_empty() && self.labels.is_empty() {
            return None;
        }
        serde_json::to_string(self).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_compact_ordered_and_read_back() {
        let record = Record {
            instance_type: "m5.4xlarge".to_owned(),
            region: "us-east-1".to_owned(),
            values: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
            labels: [("kubernetes.io/os".to_owned(), "linux".to_owned())].into(),
        };
        let text = record.text().unwrap();
        assert_eq!(
            text,
            r#"{"instanceType":"m5.4xlarge","labels":{"kubernetes.io/os":"linux"},"region":"us-east-1","values":{"a":"1","b":"2"}}"#
        );
        assert_eq!(Record::parse(Some(&text)), record);
        for odd in [None, Some(""), Some("[]"), Some("{\"values\":3}")] {
            assert_eq!(Record::parse(odd), Record::default());
        }
        assert_eq!(Record { instance_type: "x".to_owned(), ..Record::default() }.text(), None);
    }
}
