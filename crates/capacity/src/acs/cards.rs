//! Where Secrets with keys of CloudStack lead, and as whom, without the keys.
//!
//! The address of a server stands in the Secret, and it is part of the catalogue's key: without a memory of it every look
//! at a group would read the Secret again. The keys themselves are read when a server is called, and kept by nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::key::ObjectKey;
use cloudstack::profile::Profile;
use tokio::time::Instant;

use crate::LOOK;

/// Secrets that are remembered at most.
const MOST: usize = 1024;

/// A server, and a number that stands for whoever calls it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Card {
    /// The address of the server, in its normal form.
    pub url: Box<str>,
    /// Another number for other keys: what a server shows depends on who asks, and only who has the keys has asked.
    caller: u64,
}

impl Card {
    /// The card of who calls a server.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        let mut caller = DefaultHasher::new();
        // Who believes another server may be told something else, and others must not hear it.
        (profile.api_key.expose(), profile.secret_key.expose(), &profile.trust).hash(&mut caller);
        Self { url: profile.url.as_str().into(), caller: caller.finish() }
    }

    /// A card without a profile, for tests.
    #[must_use]
    pub fn new(url: &str, caller: u64) -> Self {
        Self { url: url.into(), caller }
    }
}

#[derive(Debug, Default)]
struct Kept {
    cards: BTreeMap<ObjectKey, (Card, Instant)>,
    followed: BTreeSet<ObjectKey>,
}

/// The cards of Secrets that were read.
#[derive(Debug, Default)]
pub struct Cards(Mutex<Kept>);

impl Cards {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The card of a Secret; of one whose changes nobody would tell, only for a while.
    pub fn get(&self, secret: &ObjectKey, now: Instant) -> Option<Card> {
        let kept = self.kept();
        let (card, read) = kept.cards.get(secret)?;
        let good = kept.followed.contains(secret) || now.saturating_duration_since(*read) < LOOK;
        good.then(|| card.clone())
    }

    /// A Secret was read.
    pub fn keep(&self, secret: &ObjectKey, card: Card, now: Instant) {
        let mut kept = self.kept();
        if kept.cards.len() >= MOST && !kept.cards.contains_key(secret) {
            kept.cards.pop_first();
        }
        kept.cards.insert(secret.clone(), (card, now));
    }

    /// A Secret has changed.
    pub fn forget(&self, secret: &ObjectKey) {
        self.kept().cards.remove(secret);
    }

    /// Changes of these Secrets are told from now on.
    pub fn follow(&self, secrets: impl IntoIterator<Item = ObjectKey>) {
        let mut kept = self.kept();
        kept.followed = secrets.into_iter().collect();
        let Kept { cards, followed } = &mut *kept;
        cards.retain(|secret, _| followed.contains(secret));
    }
}

#[cfg(test)]
mod tests {
    use cloudstack::profile::Trust;
    use kit::secret::Secret;

    use super::*;

    fn profile(key: &str, secret: &str) -> Profile {
        Profile {
            url: "https://acs.example.com/client/api".to_owned(),
            api_key: Secret::new(key.to_owned()),
            secret_key: Secret::new(secret.to_owned()),
            trust: Trust::System,
        }
    }

    #[test]
    fn a_card_is_the_same_for_the_same_keys_only_and_does_not_show_them() {
        let card = Card::of(&profile("canary-key", "canary-secret"));
        assert_eq!(card, Card::of(&profile("canary-key", "canary-secret")));
        for other in [profile("canary-key", "guessed"), profile("other", "canary-secret")] {
            assert_ne!(card, Card::of(&other));
        }
        assert_ne!(card, Card::of(&Profile { trust: Trust::Anyone, ..profile("canary-key", "canary-secret") }));
        assert!(!format!("{card:?}").contains("canary"));
    }

    #[test]
    fn a_card_lasts_while_its_secret_is_followed_and_else_for_a_while() {
        #[expect(clippy::disallowed_methods, reason = "any moment will do")]
        let now = Instant::now();
        let (cards, secret, card) = (Cards::default(), ObjectKey::namespaced("n", "a"), Card::new("u", 1));
        assert_eq!(cards.get(&secret, now), None);
        cards.keep(&secret, card.clone(), now);
        assert_eq!(cards.get(&secret, now), Some(card.clone()));
        assert_eq!(cards.get(&secret, now + LOOK), None);
        cards.follow([secret.clone()]);
        assert_eq!(cards.get(&secret, now + LOOK * 1000), Some(card.clone()));
        cards.forget(&secret);
        assert_eq!(cards.get(&secret, now), None);
        cards.keep(&secret, card, now);
        cards.follow([]);
        assert_eq!(cards.get(&secret, now), None, "nobody names it any more");
    }
}
