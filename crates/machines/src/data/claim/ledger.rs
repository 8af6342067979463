//! Numbers that were offered a moment ago, so that claims that are looked at together are not offered the same one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use api::key::ObjectKey;

/// By template: who was offered which number. What is lost with the process costs a second attempt, not a number.
#[derive(Default)]
pub struct Ledger(Mutex<BTreeMap<ObjectKey, BTreeMap<i32, ObjectKey>>>);

impl Ledger {
    /// The lowest number that is neither taken nor offered to another claim; asking again gives the same one while it is
    /// free.
    pub fn offer(&self, template: &ObjectKey, claim: &ObjectKey, taken: &BTreeSet<i32>) -> i32 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let offers = all.entry(template.clone()).or_default();
        // What is taken needs no offer any more, and a claim has one at a time.
        offers.retain(|index, held| !taken.contains(index) && held != claim);
        let mut index = 0;
        while taken.contains(&index) || offers.contains_key(&index) {
            index += 1;
        }
        offers.insert(index, claim.clone());
        index
    }

    /// The claim needs no number any more.
    pub fn forget(&self, claim: &ObjectKey) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for offers in all.values_mut() {
            offers.retain(|_, held| held != claim);
        }
        all.retain(|_, offers| !offers.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_that_ask_together_are_offered_different_numbers_and_gaps_are_filled() {
        let key = |name: &str| ObjectKey::namespaced("n", name);
        let (ledger, template) = (Ledger::default(), key("t"));
        let taken = BTreeSet::from([1]);
        assert_eq!(ledger.offer(&template, &key("a"), &taken), 0);
        assert_eq!(ledger.offer(&template, &key("b"), &taken), 2);
        assert_eq!(ledger.offer(&template, &key("a"), &taken), 0);
        assert_eq!(ledger.offer(&key("u"), &key("c"), &BTreeSet::new()), 0);
        // What was offered and taken by somebody else is offered no more.
        assert_eq!(ledger.offer(&template, &key("a"), &BTreeSet::from([0, 1])), 3);
        ledger.forget(&key("b"));
        assert_eq!(ledger.offer(&template, &key("d"), &BTreeSet::from([0, 1])), 2);
    }
}
