//! The catalogue as data: what is known of each region, how fresh it is, who waits for it. No I/O and no clock.

mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::acs::BY_ID;
use crate::near::nearest;
use crate::offer::{Arch, Offer};

pub use place::{AcsPlace, Ec2Place, Place};

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Errand {
    /// All types of a region.
    Fill(Place),
    /// One type that is not in the list.
    Look(Place, Box<str>),
    /// An image.
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
    /// What an earlier process was told must be read first, by whoever is told so; the others wait for it.
    Recall,
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

/// What an image says about the machines that are made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// Whether they run Windows.
    pub windows: bool,
    /// Their architecture, where the image settles it.
    pub arch: Option<Arch>,
    /// The size of their root disk in GiB, where nothing else settles it.
    pub disk_gib: Option<u64>,
}

/// What the shelf says about an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// What it says, as far as anybody could tell.
    Known {
        /// What it says.
        picture: Picture,
        /// What should be asked meanwhile.
        errand: Option<Errand>,
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

/// An image: whether it is being asked for, what is known of it, and why the last question was not answered.
#[derive(Debug, Default)]
struct Image {
    asked: bool,
    known: Option<Known>,
    failed: Option<(Refusal, Instant)>,
}

/// What is known of an image: for good, or until a time; and whether the cloud has said so.
#[derive(Clone, Copy, Debug)]
struct Known {
    picture: Picture,
    until: Option<Instant>,
    told: bool,
}

#[derive(Debug)]
struct Books<K> {
    types: BTreeMap<Box<str>, Arc<Offer>>,
    filled: Option<Instant>,
    refresh_at: Option<Instant>,
    failure: Option<Failure>,
    /// Refusals that are about whose credentials were used: by these, and by the type or nothing for all of them.
    denied: BTreeMap<(Box<str>, Box<str>), Failure>,
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
            denied: BTreeMap::new(),
            flying: false,
            looking: BTreeSet::new(),
            missing: BTreeMap::new(),
            images: BTreeMap::new(),
            waiting: BTreeSet::new(),
            used: 0,
        }
    }
}

impl<K> Books<K> {
    /// Why these credentials are not used for a list, or for one type, before a time.
    fn denied(&self, by: &str, name: &str, now: Instant) -> Option<&Failure> {
        if self.denied.is_empty() {
            return None;
        }
        self.denied.get(&denial(by, name)).filter(|failure| failure.again > now)
    }

    /// Why no list is asked for with these credentials before a time.
    fn barred(&self, by: &str, now: Instant) -> Option<&Failure> {
        self.failure.as_ref().filter(|failure| failure.again > now).or_else(|| self.denied(by, "", now))
    }

    fn deny(&mut self, by: &str, name: &str, failure: Failure) {
        if self.denied.len() >= MISSES {
            self.denied.pop_first();
        }
        self.denied.insert(denial(by, name), failure);
    }

    /// Puts a list in place that was made at `filled`.
    fn fill(&mut self, types: BTreeMap<Box<str>, Arc<Offer>>, ttl: Duration, filled: Instant, now: Instant, dice: u64) {
        self.types = types;
        self.filled = Some(filled);
        // Somewhere in the last tenth of its life, so that lookups do not wait and regions do not go together.
        let age = now.saturating_duration_since(filled);
        let from = age.max(ttl - ttl / 10).min(ttl);
        self.refresh_at = filled.checked_add(from + share(ttl - from, dice));
        self.failure = None;
        self.denied.clear();
        self.missing.clear();
    }
}

/// A list that an earlier process has been given.
#[derive(Clone, Debug)]
pub struct Recalled {
    /// Where it is from.
    pub place: Place,
    /// The types.
    pub types: BTreeMap<Box<str>, Arc<Offer>>,
    /// How long ago it was made.
    pub age: Duration,
}

/// Whether what an earlier process was told has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recall {
    Due,
    Flying,
    Over,
}

/// What metrics show of one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The provider.
    pub provider: &'static str,
    /// The region or zone.
    pub region: String,
    /// How many types are known.
    pub entries: usize,
    /// How long ago they were listed.
    pub age: Duration,
}

/// The catalogue of all regions; `K` is who asks.
#[derive(Debug)]
pub struct Shelf<K> {
    rules: Rules,
    recall: Recall,
    places: BTreeMap<Place, Books<K>>,
    turn: u64,
}

impl<K: Ord + Clone> Shelf<K> {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, recall: Recall::Over, places: BTreeMap::new(), turn: 0 }
    }

    /// The same, with something to be read before the cloud is asked for the first time.
    #[must_use]
    pub fn recalling(self) -> Self {
        Self { recall: Recall::Due, ..self }
    }

    /// What is known of a type; `who` is woken when there is more to know. `by` names the credentials that would be used.
    pub fn find(&mut self, place: &Place, name: &str, who: &K, by: &str, now: Instant) -> Found {
        self.make_room(place);
        self.turn += 1;
        let (ttl, turn) = (self.rules.ttl, self.turn);
        let books = self.places.entry(place.clone()).or_default();
        books.used = turn;
        let barred = books.barred(by, now).map(|failure| (failure.refusal.clone(), failure.again));
        let fresh = books.filled.is_some_and(|filled| now.saturating_duration_since(filled) < ttl);
        let due = !fresh || books.refresh_at.is_some_and(|at| at <= now);
        let fill = (due && barred.is_none() && !books.flying).then(|| Errand::Fill(place.clone()));
        if books.filled.is_some()
            && let Some(offer) = books.types.get(name)
        {
            if books.flying && books.failure.is_some() {
                // One that follows a failure may fail too, and then somebody must come again.
                books.waiting.insert(who.clone());
            }
            let again = barred.map(|(_, again)| again);
            return Found::Known { offer: Arc::clone(offer), stale: !fresh, errand: fill, again };
        }
        if !fresh {
            // Without a fresh list nobody can say that a type does not exist.
            if self.recall == Recall::Due {
                self.recall = Recall::Flying;
                books.waiting.insert(who.clone());
                return Found::Recall;
            }
            if books.flying || self.recall == Recall::Flying {
                books.waiting.insert(who.clone());
                return Found::Wait;
            }
            return match barred {
                Some((refusal, again)) => Found::Failed { refusal, again },
                None => Found::Ask(Errand::Fill(place.clone())),
            };
        }
        if let Some(failure) = books.denied(by, name, now) {
            return Found::Failed { refusal: failure.refusal.clone(), again: failure.again };
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

    /// What an earlier process was told has been read, as far as there is any; gives those who waited.
    pub fn recalled(&mut self, lists: Vec<Recalled>, now: Instant, dice: u64) -> Vec<K> {
        self.recall = Recall::Over;
        for (number, Recalled { place, types, age }) in (0_u64..).zip(lists) {
            let known = self.places.get(&place);
            if known.is_some_and(|books| books.filled.is_some()) || (known.is_none() && self.places.len() >= PLACES) {
                continue;
            }
            if let Some(filled) = now.checked_sub(age) {
                self.places.entry(place).or_default().fill(
                    types,
                    self.rules.ttl,
                    filled,
                    now,
                    dice.wrapping_mul(2 * number + 1),
                );
            }
        }
        self.places.values_mut().flat_map(|books| std::mem::take(&mut books.waiting)).collect()
    }

    /// Begins an errand; false when somebody else has begun it meanwhile, and then `who` waits for that one.
    pub fn begin(&mut self, errand: &Errand, who: Option<&K>) -> bool {
        let books = self.places.entry(errand.place().clone()).or_default();
        books.waiting.extend(who.cloned());
        match errand {
            Errand::Fill(_) => !std::mem::replace(&mut books.flying, true),
            Errand::Look(_, name) => books.looking.insert(name.clone()),
            Errand::Image(_, id) => !std::mem::replace(&mut books.images.entry(id.clone()).or_default().asked, true),
        }
    }

    /// A list has come, or failed; gives those who waited. `by` names the credentials, `dice` is any number.
    pub fn filled(
        &mut self,
        place: &Place,
        by: &str,
        answer: Result<BTreeMap<Box<str>, Arc<Offer>>, Refusal>,
        now: Instant,
        dice: u64,
    ) -> Vec<K> {
        let ttl = self.rules.ttl;
        let books = self.places.entry(place.clone()).or_default();
        books.flying = false;
        match answer {
            Ok(types) => books.fill(types, ttl, now, now, dice),
            Err(refusal) => {
                let last = match refusal.permission {
                    true => books.denied.get(&denial(by, "")),
                    false => books.failure.as_ref(),
                };
                let count = last.map_or(1, |failure| failure.count.saturating_add(1));
                let (first, longest) = if books.filled.is_some() { STALE_PAUSES } else { EMPTY_PAUSES };
                let longest = if refusal.terminal { NEGATIVE } else { longest };
                let first = if refusal.terminal { NEGATIVE } else { first };
                let whole = first.saturating_mul(1_u32.checked_shl(count - 1).unwrap_or(u32::MAX)).min(longest);
                let pause = whole / 2 + share(whole / 2, dice);
                let again = now.checked_add(pause).unwrap_or(now);
                if refusal.permission {
                    books.deny(by, "", Failure { refusal, count, again });
                } else {
                    books.failure = Some(Failure { refusal, count, again });
                }
            }
        }
        std::mem::take(&mut books.waiting).into_iter().collect()
    }

    /// One type has been asked for by name, with the credentials that `by` names; gives those who waited.
    pub fn looked(
        &mut self,
        place: &Place,
        name: &str,
        by: &str,
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
            Ok(None) => {
                // Ids are not near to anything.
                let names = books.types.keys().map(AsRef::as_ref).filter(|name: &&str| !name.starts_with(BY_ID));
                Some((NEGATIVE, Ok(nearest(name, names).into())))
            }
            Err(refusal) if refusal.permission => {
                let again = now.checked_add(STALE_PAUSES.0).unwrap_or(now);
                books.deny(by, name, Failure { refusal, count: 1, again });
                None
            }
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
        let ask = || Errand::Image(place.clone(), id.into());
        let Some(image) = books.images.get(id) else { return System::Ask(ask()) };
        let failed = image.failed.as_ref().filter(|(_, again)| *again > now);
        match &image.known {
            Some(known) => {
                // What is old goes on until there is something newer.
                let fresh = known.until.is_none_or(|until| now < until);
                let errand = (!fresh && !image.asked && failed.is_none()).then(ask);
                System::Known { picture: known.picture, errand }
            }
            None if image.asked => {
                books.waiting.insert(who.clone());
                System::Wait
            }
            None => match failed {
                Some((refusal, again)) => System::Failed { refusal: refusal.clone(), again: *again },
                None => System::Ask(ask()),
            },
        }
    }

    /// An image has been asked for. What was said lasts for `life`, or for good; where nothing was, what was known before
    /// goes on for a while.
    pub fn pictured(
        &mut self,
        place: &Place,
        id: &str,
        answer: Result<Option<Picture>, Refusal>,
        life: Option<Duration>,
        now: Instant,
    ) -> Vec<K> {
        let books = self.places.entry(place.clone()).or_default();
        if books.images.len() > MISSES {
            books.images.retain(|_, image| image.asked);
        }
        let image = books.images.entry(id.into()).or_default();
        image.asked = false;
        image.failed = None;
        match answer {
            Ok(Some(picture)) => {
                let until = life.and_then(|life| now.checked_add(life));
                image.known = Some(Known { picture, until, told: true });
            }
            Ok(None) => {
                let picture = image.known.map(|known| known.picture).unwrap_or_default();
                image.known = Some(Known { picture, until: now.checked_add(NEGATIVE), told: false });
            }
            Err(refusal) => image.failed = Some((refusal, now.checked_add(STALE_PAUSES.0).unwrap_or(now))),
        }
        std::mem::take(&mut books.waiting).into_iter().collect()
    }

    /// Credentials, endpoints or trust have changed: what was refused may be tried again at once.
    pub fn forgive(&mut self) {
        for books in self.places.values_mut() {
            books.failure = None;
            books.denied.clear();
            books.missing.retain(|_, miss| miss.verdict.is_ok());
            for image in books.images.values_mut() {
                image.failed = None;
                image.known = image.known.filter(|known| known.told);
            }
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
            // An offering is kept by its id and by its name.
            let entries = match place {
                Place::Ec2(_) => books.types.len(),
                Place::Acs(_) => books.types.keys().filter(|name| name.starts_with(BY_ID)).count(),
            };
            Some(Standing { provider: place.provider(), region: place.region().to_owned(), entries, age })
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

fn denial(by: &str, name: &str) -> (Box<str>, Box<str>) {
    (by.into(), name.into())
}

/// A part of a duration, chosen by a number.
fn share(whole: Duration, dice: u64) -> Duration {
    let nanos = u64::try_from(whole.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(dice.checked_rem(nanos).unwrap_or(0))
}

#[cfg(test)]
#[path = "shelf_tests.rs"]
mod tests;
