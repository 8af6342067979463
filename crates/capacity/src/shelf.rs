//! The catalogue as data: what is known of each region, how fresh it is, who waits for it. No I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::names::Region;
use tokio::time::Instant;

use crate::near::nearest;
use crate::offer::Offer;

/// Where a catalogue is from: types are public, so credentials are no part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The region.
    pub region: Region,
    /// The address of EC2, where somebody configured one.
    pub endpoint: Option<Box<str>>,
}

/// Why the cloud did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One sentence without anything that changes from try to try.
    pub message: String,
    /// Whether only a person can change it.
    pub terminal: bool,
    /// Whether other credentials may get an answer.
    pub permission: bool,
}

/// What is asked of the cloud.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Errand {
    /// All types of a region.
    Fill(Place),
    /// One type that is not in the list.
    Look(Place, Box<str>),
    /// The system of an image.
    Image(Place, Box<str>),
}

impl Errand {
    /// Where it goes.
    #[must_use]
    pub fn place(&self) -> &Place {
        match self {
            Self::Fill(place) | Self::Look(place, _) | Self::Image(place, _) => place,
        }
    }
}

/// What the shelf says about a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is known.
    Known {
        /// What it offers.
        offer: Arc<Offer>,
        /// Whether the catalogue is older than it should be.
        stale: bool,
        /// What should be asked meanwhile.
        errand: Option<Errand>,
        /// When to look again, where a refresh has failed.
        again: Option<Instant>,
    },
    /// There is no such type.
    Unknown {
        /// Names that may have been meant.
        near: Arc<[String]>,
    },
    /// The cloud must be asked first; whoever asks is woken when it has answered.
    Ask(Errand),
    /// The cloud is being asked; whoever asks is woken when it has answered.
    Wait,
    /// The cloud did not answer, and is not asked again before a time.
    Failed {
        /// Why.
        refusal: Refusal,
        /// When it is asked again.
        again: Instant,
    },
}

/// What the shelf says about the system of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// Whether it is Windows, as far as anybody could tell.
    Known(bool),
    /// The cloud must be asked first; whoever asks is woken when it has answered.
    Ask(Errand),
    /// The cloud is being asked; whoever asks is woken when it has answered.
    Wait,
}

/// How the shelf behaves.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How long a list is fresh.
    pub ttl: Duration,
}

/// A type that is not in the list is asked for by name at most this often.
pub const NEGATIVE: Duration = Duration::from_secs(15 * 60);
/// The pauses after a failed list: without data, and with.
const EMPTY_PAUSES: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));
const STALE_PAUSES: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(900));
/// A list this old is worth a warning.
pub const VERY_STALE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Regions that are kept, and names that are not types per region.
const PLACES: usize = 256;
const MISSES: usize = 1024;

#[derive(Debug)]
struct Failure {
    refusal: Refusal,
    count: u32,
    again: Instant,
}

#[derive(Debug)]
struct Miss {
    until: Instant,
    verdict: Result<Arc<[String]>, Refusal>,
}

/// An image that is being asked for, or its system: for good where the cloud said so, or else until a time.
#[derive(Debug)]
enum Image {
    Asked,
    Known { windows: bool, until: Option<Instant> },
}

#[derive(Debug)]
struct Books<K> {
    types: BTreeMap<Box<str>, Arc<Offer>>,
    filled: Option<Instant>,
    refresh_at: Option<Instant>,
    failure: Option<Failure>,
    flying: bool,
    looking: BTreeSet<Box<str>>,
    missing: BTreeMap<Box<str>, Miss>,
    images: BTreeMap<Box<str>, Image>,
    waiting: BTreeSet<K>,
    used: u64,
}

impl<K> Default for Books<K> {
    fn default() -> Self {
        Self {
            types: BTreeMap::new(),
            filled: None,
            refresh_at: None,
            failure: None,
            flying: false,
            looking: BTreeSet::new(),
            missing: BTreeMap::new(),
            images: BTreeMap::new(),
            waiting: BTreeSet::new(),
            used: 0,
        }
    }
}

/// What metrics show of one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The region.
    pub region: Region,
    /// How many types are known.
    pub entries: usize,
    /// How long ago they were listed.
    pub age: Duration,
}

/// The catalogue of all regions; `K` is who asks.
#[derive(Debug)]
pub struct Shelf<K> {
    rules: Rules,
    places: BTreeMap<Place, Books<K>>,
    turn: u64,
}

impl<K: Ord + Clone> Shelf<K> {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, places: BTreeMap::new(), turn: 0 }
    }

    /// What is known of a type; `who` is woken when there is more to know.
    pub fn find(&mut self, place: &Place, name: &str, who: &K, now: Instant) -> Found {
        self.make_room(place);
        self.turn += 1;
        let (ttl, turn) = (self.rules.ttl, self.turn);
        let books = self.places.entry(place.clone()).or_default();
        books.used = turn;
        let may_try = books.failure.as_ref().is_none_or(|failure| failure.again <= now);
        let fresh = books.filled.is_some_and(|filled| now.saturating_duration_since(filled) < ttl);
        let due = !fresh || books.refresh_at.is_some_and(|at| at <= now);
        let fill = (due && may_try && !books.flying).then(|| Errand::Fill(place.clone()));
        if books.filled.is_some()
            && let Some(offer) = books.types.get(name)
        {
            let again = books.failure.as_ref().map(|failure| failure.again);
            return Found::Known { offer: Arc::clone(offer), stale: !fresh, errand: fill, again };
        }
        if !fresh {
            // Without a fresh list nobody can say that a type does not exist.
            if books.flying {
                books.waiting.insert(who.clone());
                return Found::Wait;
            }
            return match (&books.failure, fill) {
                (_, Some(errand)) => Found::Ask(errand),
                (Some(failure), None) => Found::Failed { refusal: failure.refusal.clone(), again: failure.again },
                (None, None) => Found::Ask(Errand::Fill(place.clone())),
            };
        }
        match books.missing.get(name) {
            Some(Miss { until, verdict }) if *until > now => match verdict {
                Ok(near) => Found::Unknown { near: Arc::clone(near) },
                Err(refusal) => Found::Failed { refusal: refusal.clone(), again: *until },
            },
            _ if books.looking.contains(name) => {
                books.waiting.insert(who.clone());
                Found::Wait
            }
            _ => Found::Ask(Errand::Look(place.clone(), name.into())),
        }
    }

    /// Begins an errand; false when somebody else has begun it meanwhile, and then `who` waits for that one.
    pub fn begin(&mut self, errand: &Errand, who: Option<&K>) -> bool {
        let books = self.places.entry(errand.place().clone()).or_default();
        books.waiting.extend(who.cloned());
        match errand {
            Errand::Fill(_) => !std::mem::replace(&mut books.flying, true),
            Errand::Look(_, name) => books.looking.insert(name.clone()),
            Errand::Image(_, id) => !matches!(books.images.insert(id.clone(), Image::Asked), Some(Image::Asked)),
        }
    }

    /// A list has come, or failed; gives those who waited. `dice` is any number.
    pub fn filled(
        &mut self,
        place: &Place,
        answer: Result<BTreeMap<Box<str>, Arc<Offer>>, Refusal>,
        now: Instant,
        dice: u64,
    ) -> Vec<K> {
        let ttl = self.rules.ttl;
        let books = self.places.entry(place.clone()).or_default();
        books.flying = false;
        match answer {
            Ok(types) => {
                books.types = types;
                books.filled = Some(now);
                // Somewhere in the last tenth of its life, so that lookups do not wait and regions do not go together.
                let tenth = ttl / 10;
                books.refresh_at = now.checked_add(ttl - tenth + share(tenth, dice));
                books.failure = None;
                books.missing.clear();
            }
            Err(refusal) => {
                let count = books.failure.as_ref().map_or(1, |failure| failure.count.saturating_add(1));
                let (first, longest) = if books.filled.is_some() { STALE_PAUSES } else { EMPTY_PAUSES };
                let longest = if refusal.terminal { NEGATIVE } else { longest };
                let first = if refusal.terminal { NEGATIVE } else { first };
                let whole = first.saturating_mul(1_u32.checked_shl(count - 1).unwrap_or(u32::MAX)).min(longest);
                let pause = whole / 2 + share(whole / 2, dice);
                books.failure = Some(Failure { refusal, count, again: now.checked_add(pause).unwrap_or(now) });
            }
        }
        std::mem::take(&mut books.waiting).into_iter().collect()
    }

    /// One type has been asked for by name; gives those who waited.
    pub fn looked(
        &mut self,
        place: &Place,
        name: &str,
        answer: Result<Option<Arc<Offer>>, Refusal>,
        now: Instant,
    ) -> Vec<K> {
        let books = self.places.entry(place.clone()).or_default();
        books.looking.remove(name);
        let verdict = match answer {
            Ok(Some(offer)) => {
                books.types.insert(name.into(), offer);
                None
            }
            Ok(None) => Some((NEGATIVE, Ok(nearest(name, books.types.keys().map(AsRef::as_ref)).into()))),
            Err(refusal) => Some((STALE_PAUSES.0, Err(refusal))),
        };
        if let Some((pause, verdict)) = verdict {
            books.missing.retain(|_, miss| miss.until > now);
            if books.missing.len() < MISSES {
                let until = now.checked_add(pause).unwrap_or(now);
                books.missing.insert(name.into(), Miss { until, verdict });
            }
        }
        std::mem::take(&mut books.waiting).into_iter().collect()
    }

    /// What is known of an image; `who` is woken when there is more to know.
    pub fn image(&mut self, place: &Place, id: &str, who: &K, now: Instant) -> System {
        self.make_room(place);
        let books = self.places.entry(place.clone()).or_default();
        match books.images.get(id) {
            Some(Image::Known { windows, until }) if until.is_none_or(|until| now < until) => System::Known(*windows),
            Some(Image::Asked) => {
                books.waiting.insert(who.clone());
                System::Wait
            }
            _ => System::Ask(Errand::Image(place.clone(), id.into())),
        }
    }

    /// An image has been asked for; `None` is no answer, and then it counts as none of Windows for a while.
    pub fn pictured(&mut self, place: &Place, id: &str, windows: Option<bool>, now: Instant) -> Vec<K> {
        let books = self.places.entry(place.clone()).or_default();
        if books.images.len() > MISSES {
            books.images.retain(|_, image| matches!(image, Image::Asked));
        }
        let until = if windows.is_some() { None } else { now.checked_add(NEGATIVE) };
        books.images.insert(id.into(), Image::Known { windows: windows.unwrap_or(false), until });
        std::mem::take(&mut books.waiting).into_iter().collect()
    }

    /// Credentials, endpoints or trust have changed: what was refused may be tried again at once.
    pub fn forgive(&mut self) {
        for books in self.places.values_mut() {
            books.failure = None;
            books.missing.retain(|_, miss| miss.verdict.is_ok());
            books.images.retain(|_, image| !matches!(image, Image::Known { until: Some(_), .. }));
        }
    }

    /// Nobody needs to be told any more.
    pub fn forget(&mut self, who: &K) {
        for books in self.places.values_mut() {
            books.waiting.remove(who);
        }
    }

    /// What metrics show.
    #[must_use]
    pub fn standing(&self, now: Instant) -> Vec<Standing> {
        let one = |(place, books): (&Place, &Books<K>)| {
            let age = now.saturating_duration_since(books.filled?);
            Some(Standing { region: place.region.clone(), entries: books.types.len(), age })
        };
        self.places.iter().filter_map(one).collect()
    }

    /// Regions come from what users write, so there may be any number of them.
    fn make_room(&mut self, wanted: &Place) {
        if self.places.len() < PLACES || self.places.contains_key(wanted) {
            return;
        }
        let idle = self.places.iter().filter(|(_, books)| !books.flying && books.waiting.is_empty());
        let oldest = idle.min_by_key(|(_, books)| (books.filled.is_some(), books.used)).map(|(place, _)| place.clone());
        if let Some(oldest) = oldest {
            self.places.remove(&oldest);
        }
    }
}

/// A part of a duration, chosen by a number.
fn share(whole: Duration, dice: u64) -> Duration {
    let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(dice.checked_rem(nanos).unwrap_or(0))
}

#[cfg(test)]
#[path = "shelf_tests.rs"]
mod tests;
