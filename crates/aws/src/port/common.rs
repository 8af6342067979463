//! What requests and answers of several calls share.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::errors::{Kind, kind_of, presentable, strip_prefix};

/// Tags by key; a key occurs once.
pub type Tags = BTreeMap<String, String>;

/// A filter of a describe call: any of the values, `*` and `?` as wildcards where EC2 allows them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    /// The name, for instance `client-token` or `tag-key`.
    pub name: String,
    /// Any of these.
    pub values: Vec<String>,
}

impl Filter {
    /// A filter with one or more values.
    pub fn new<V: Into<String>>(name: &str, values: impl IntoIterator<Item = V>) -> Self {
        Self { name: name.to_owned(), values: values.into_iter().map(Into::into).collect() }
    }
}

/// What EC2 says about one item of a call that as a whole succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemError {
    /// The code, without the `Client.` or `Server.` that items carry.
    pub code: String,
    /// The text.
    pub message: String,
}

impl ItemError {
    /// An error as it was sent.
    #[must_use]
    pub fn new(code: &str, message: &str) -> Self {
        let code = strip_prefix(code);
        Self { code: code.to_owned(), message: presentable(code, message) }
    }

    /// From when on a host that is too young may be released, as EC2's own words say ("… any time after …").
    #[must_use]
    pub fn releasable_after(&self) -> Option<Timestamp> {
        let mut words = self.message.split_whitespace();
        words.find_map(|word| word.trim_end_matches(['.', ',']).parse().ok())
    }

    /// The class of the code.
    #[must_use]
    pub fn kind(&self) -> Kind {
        kind_of(&self.code)
    }
}

/// The outcome of a call that judges each item on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged<T> {
    /// Those that were done.
    pub done: Vec<T>,
    /// Those that were refused, with the reason of each.
    pub refused: Vec<(T, ItemError)>,
}

impl<T> Default for Judged<T> {
    fn default() -> Self {
        Self { done: Vec::new(), refused: Vec::new() }
    }
}

impl<T: PartialEq> Judged<T> {
    /// What became of one item; `None` when the answer does not mention it.
    #[must_use]
    pub fn verdict(&self, item: &T) -> Option<Result<(), &ItemError>> {
        if let Some((_, error)) = self.refused.iter().find(|(refused, _)| refused == item) {
            return Some(Err(error));
        }
        self.done.contains(item).then_some(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_the_refusal_of_a_young_host_is_read() {
        let words = "Unable to release Dedicated Host h-06a303b1211602365. mac2-m2.metal hosts must be allocated to your \
                     AWS account for at least 24 hour(s). You can release this host any time after 2023-12-03T14:33:06.089Z.";
        let error = ItemError::new("Client.HostMinAllocationPeriodUnexpired", words);
        assert_eq!(error.releasable_after().unwrap().to_string(), "2023-12-03T14:33:06.089Z");
        assert_eq!(ItemError::new("X", "later").releasable_after(), None);
    }

    #[test]
    fn a_refused_item_is_refused_even_if_it_is_also_listed_as_done() {
        let error = ItemError::new("Client.InvalidHost.Occupied", "busy");
        assert_eq!(error.code, "InvalidHost.Occupied");
        assert_eq!(error.kind(), Kind::HostOccupied);
        let judged = Judged { done: vec![1, 2], refused: vec![(2, error)] };
        assert_eq!(judged.verdict(&1), Some(Ok(())));
        assert!(matches!(judged.verdict(&2), Some(Err(_))));
        assert_eq!(judged.verdict(&3), None);
    }
}
