//! Fills the feeds of one kind from the API server for as long as the process runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::key::ObjectKey;
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use super::wire::{Letter, Wire};
use super::{Delta, Feed, Phase, Project, Version, Watched, lists};
use crate::clock::Clock;
use crate::gates::Gate;
use crate::kinds::{Kind, Kinds};

/// A kind that is named by discovery but answered with 404, or an object that cannot be read, is looked at again after
/// this, half of it jitter.
const DOUBT: Duration = Duration::from_secs(2);

/// What is asked of the server about one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    kind: Kind,
    versions: &'static [&'static str],
    namespaced: bool,
    metadata_only: bool,
    labels: &'static str,
    fields: &'static str,
}

impl Question {
    pub(crate) fn of<K: Watched>() -> Self {
        Self {
            kind: Kind::of::<K>(),
            versions: K::VERSIONS,
            namespaced: K::NAMESPACED,
            metadata_only: K::metadata_api(),
            labels: K::LABELS,
            fields: K::FIELDS,
        }
    }

    /// Follows the objects in one namespace or all of them, at the version that is served.
    fn ask(&self, client: Client, namespace: Option<&str>, served: &Kind) -> Events {
        if self.metadata_only {
            objects::<true>(client, namespace, served, self.config())
        } else {
            objects::<false>(client, namespace, served, self.config())
        }
    }

    fn config(&self) -> watcher::Config {
        let selector = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let all = lists::config();
        watcher::Config { label_selector: selector(self.labels), field_selector: selector(self.fields), ..all }
    }
}

type Events = BoxStream<'static, watcher::Result<Event<Letter>>>;

fn objects<const PART: bool>(client: Client, namespace: Option<&str>, kind: &Kind, config: watcher::Config) -> Events {
    let resource = kind.resource();
    let api: Api<Wire<PART>> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    watcher::watcher(api, config).backoff(Reconnect::default()).map(|event| event.map(letters)).boxed()
}

fn letters<const PART: bool>(event: Event<Wire<PART>>) -> Event<Letter> {
    match event {
        Event::Apply(object) => Event::Apply(object.into()),
        Event::Delete(object) => Event::Delete(object.into()),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(object.into()),
        Event::InitDone => Event::InitDone,
    }
}

/// The pauses between two attempts to watch: kube's own, scaled down from 0.8 .. 60 s to 25 ms .. 1.9 s. After an
/// outage of any length work resumes within five seconds, even when the first attempt only learns that its version is
/// too old, and an attempt that is refused costs next to nothing.
#[derive(Default)]
pub(crate) struct Reconnect(watcher::DefaultBackoff);

impl Iterator for Reconnect {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.0.next().map(|pause| pause / 32)
    }
}

impl Backoff for Reconnect {
    /// Asked for after anything that is no error, and every attempt to list begins with a notice: lists that fail would
    /// never back off. The pauses start again by themselves once two minutes went well.
    fn reset(&mut self) {}
}

/// Which part of the cluster is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Every namespace, and cluster-scoped objects.
    #[default]
    All,
    /// These namespaces only; cluster-scoped kinds are followed whole.
    Namespaces(Vec<String>),
}

impl Scope {
    /// Whether objects of this namespace are followed.
    #[must_use]
    pub fn holds(&self, namespace: Option<&str>) -> bool {
        match self {
            Self::Namespaces(names) if !names.is_empty() => {
                namespace.is_none_or(|namespace| names.iter().any(|name| name == namespace))
            }
            Self::All | Self::Namespaces(_) => true,
        }
    }

    /// What of it is followed of a kind that is wanted there.
    fn of(&self, wanted: &Wanted) -> Self {
        let Wanted::In(names) = wanted else { return self.clone() };
        let held: Vec<String> = names.iter().filter(|name| self.holds(Some(name))).cloned().collect();
        if held.is_empty() { self.clone() } else { Self::Namespaces(held) }
    }

    fn parts(&self, namespaced: bool) -> Vec<Option<String>> {
        match self {
            Self::Namespaces(names) if namespaced && !names.is_empty() => names.iter().cloned().map(Some).collect(),
            Self::All | Self::Namespaces(_) => vec![None],
        }
    }
}

/// Where those who ask for a kind want to see its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// Wherever anything is followed.
    Everywhere,
    /// In these namespaces, and nobody needs others.
    In(BTreeSet<String>),
}

impl Wanted {
    fn holds(&self, place: Option<&str>) -> bool {
        match (self, place) {
            (Self::Everywhere, _) => true,
            (Self::In(names), Some(name)) => names.contains(name),
            (Self::In(_), None) => false,
        }
    }

    fn add(&mut self, place: Option<&str>) {
        match (&mut *self, place) {
            (Self::Everywhere, _) => {}
            (Self::In(names), Some(name)) => drop(names.insert(name.to_owned())),
            (Self::In(_), None) => *self = Self::Everywhere,
        }
    }
}

/// Where feeds are filled from.
#[derive(Clone)]
pub(crate) struct Source {
    /// The API server, by a client that may be asked for first lists.
    pub(crate) client: Client,
    /// Which part of it.
    pub(crate) scope: Scope,
    /// Whether the kind is served.
    pub(crate) kinds: Kinds,
    /// How often everything is listed again, in case an event was lost on the way; `None` = only when a watch breaks.
    pub(crate) refresh: Option<Duration>,
}

/// What happened to the objects of one kind, in the words of an index.
#[derive(Clone, Copy)]
enum Change<'a> {
    /// A list begins, with this number.
    Listing(u32),
    /// This is gone, and was last seen at that version.
    Gone(&'a ObjectKey, &'a Version),
    /// The list with this number, of one namespace or of all, is complete.
    Listed(u32, Option<&'a str>),
}

/// What is left to say once every index holds a change.
type Announcement = Box<dyn FnOnce() + Send>;

/// One of the feeds that a watch fills. Each keeps something else of the same objects.
trait Filled: Send + Sync {
    fn serve(&self, kind: &Kind);
    /// Says whether it was in another phase before.
    fn enter(&self, phase: Phase) -> bool;
    fn count(&self) -> usize;
    /// The object is there, by the list with that number or by the watch. Without being read it is not taken.
    fn show(&self, letter: &Letter, list: Option<u32>) -> Result<Option<Announcement>, serde_json::Error>;
    fn take(&self, change: Change<'_>) -> Option<Announcement>;
}

impl<P: Project> Filled for Feed<P> {
    fn serve(&self, kind: &Kind) {
        kind.clone_into(&mut self.inner.kind.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn enter(&self, phase: Phase) -> bool {
        self.advance(phase)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn show(&self, letter: &Letter, list: Option<u32>) -> Result<Option<Announcement>, serde_json::Error> {
        let object = letter.read()?;
        let deltas = self.write().put(object, list);
        Ok(self.announcement(deltas))
    }

    fn take(&self, change: Change<'_>) -> Option<Announcement> {
        let deltas = {
            let mut index = self.write();
            match change {
                Change::Listing(epoch) => {
                    index.begin(epoch);
                    Vec::new()
                }
                Change::Gone(key, last) => index.remove(key, last),
                Change::Listed(epoch, namespace) => index.finish(epoch, namespace),
            }
        };
        self.announcement(deltas)
    }
}

impl<P: Project> Feed<P> {
    fn announcement(&self, deltas: Vec<Delta<P::Slim>>) -> Option<Announcement> {
        let feed = self.clone();
        (!deltas.is_empty()).then(|| -> Announcement { Box::new(move || feed.announce(&deltas)) })
    }
}

/// The one watch of a kind, and all feeds it fills.
pub(crate) struct Watch {
    question: Question,
    clock: Clock,
    /// `None` once the watch has begun: a feed that came later would miss what has been shown.
    feeds: Mutex<Option<Vec<Box<dyn Filled>>>>,
    wanted: Mutex<Wanted>,
}

/// Why following ended.
enum End {
    NotServed,
    Stopped,
    /// It is time to list again.
    Refresh,
    /// An object could not be read, or a list ended before it was complete. Whoever went on would decide without what was
    /// not shown, so everything is listed again until it is.
    Incomplete,
}

impl Watch {
    pub(crate) fn new(question: Question, clock: Clock) -> Self {
        Self { question, clock, feeds: Mutex::new(Some(Vec::new())), wanted: Mutex::new(Wanted::In(BTreeSet::new())) }
    }

    /// Somebody wants to see objects in this namespace, or everywhere. Once the watch has begun it says whether it shows them.
    pub(crate) fn want(&self, place: Option<&str>) -> bool {
        let feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if feeds.is_some() {
            wanted.add(place);
        }
        wanted.holds(place)
    }

    /// Whether this watch shows what the view `K` asks for.
    pub(crate) fn answers<K: Watched>(&self) -> bool {
        self.question == Question::of::<K>()
    }

    /// Fills one more feed, unless the watch has begun: then there is none.
    pub(crate) fn feed<P: Project>(&self) -> Option<Feed<P>> {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let feed = Feed::new(self.clock.clone());
        feeds.as_mut()?.push(Box::new(feed.clone()));
        Some(feed)
    }

    /// How long to wait before something doubtful is looked at again.
    fn doubt(&self) -> Duration {
        DOUBT / 2 + self.clock.jitter(DOUBT / 2)
    }

    /// Follows the kind until cancelled. `gate` shows how far it is; it never blocks readiness.
    pub(crate) async fn run(self: Arc<Self>, mut source: Source, gate: Gate, stop: CancellationToken) {
        let feeds = {
            let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
            source.scope = source.scope.of(&self.wanted.lock().unwrap_or_else(PoisonError::into_inner));
            feeds.take().unwrap_or_default()
        };
        let preferred = &self.question.kind;
        let mut filler =
            Filler { question: &self.question, clock: &self.clock, feeds, lists: 0, kind: preferred.clone() };
        let candidates = preferred.at(self.question.versions);
        gate.waiting(format!("asking whether the kind {preferred} is served"));
        loop {
            let missing = || {
                tracing::info!(kind = %preferred, "kind is not served, waiting for it");
                gate.waiting(format!("waiting for the kind {preferred} to be served"));
                filler.enter(Phase::Missing);
            };
            let kind = tokio::select! {
                () = stop.cancelled() => return,
                kind = source.kinds.served(&candidates, missing) => kind,
            };
            gate.waiting(format!("listing {}", kind.plural));
            filler.serve(kind);
            let end = loop {
                match filler.follow(&source, &gate, &stop).await {
                    End::Refresh => tracing::debug!(kind = %filler.kind, "listing again"),
                    End::Incomplete => {
                        tokio::select! {
                            () = stop.cancelled() => return,
                            () = tokio::time::sleep(self.doubt()) => {}
                        }
                    }
                    end => break end,
                }
            };
            match end {
                End::Stopped | End::Refresh | End::Incomplete => return,
                End::NotServed => {
                    // One 404 is no proof (another server behind the same address, a proxy): nothing is given up, and
                    // nothing is asked in a tight loop, before discovery says the same.
                    let pause = self.doubt();
                    let doubt = async {
                        let doubtful = !matches!(source.kinds.first_served(&candidates).await, Ok(None));
                        if doubtful {
                            tokio::time::sleep(pause).await;
                        }
                        doubtful
                    };
                    tokio::select! {
                        () = stop.cancelled() => return,
                        doubtful = doubt => if doubtful { continue },
                    }
                    tracing::warn!(kind = %filler.kind, "kind is no longer served");
                    let nothing = filler.begin();
                    filler.tell(Change::Listed(nothing, None));
                }
            }
        }
    }
}

/// A watch at work.
struct Filler<'a> {
    question: &'a Question,
    clock: &'a Clock,
    feeds: Vec<Box<dyn Filled>>,
    /// How many lists have begun.
    lists: u32,
    kind: Kind,
}

/// The streams of one watch, one per followed namespace, and how far each has come.
struct Parts {
    namespaces: Vec<Option<String>>,
    /// Lists under way: part -> number of the list.
    open: BTreeMap<usize, u32>,
    listed: Vec<bool>,
}

impl Parts {
    fn complete(&self) -> bool {
        self.open.is_empty() && self.listed.iter().all(|listed| *listed)
    }
}

impl Filler<'_> {
    fn serve(&mut self, kind: Kind) {
        for feed in &self.feeds {
            feed.serve(&kind);
        }
        self.kind = kind;
        self.enter(Phase::Listing);
    }

    fn enter(&self, phase: Phase) {
        for feed in &self.feeds {
            if feed.enter(phase) && phase == Phase::Synced {
                tracing::info!(kind = %self.kind, objects = feed.count(), "index complete");
            }
        }
    }

    /// Every index holds a change before anybody hears of it: whoever is woken may look at any of them.
    fn tell(&self, change: Change<'_>) {
        let words: Vec<Announcement> = self.feeds.iter().filter_map(|feed| feed.take(change)).collect();
        for announce in words {
            announce();
        }
    }

    /// As [`Filler::tell`]. Fails when a feed cannot read the object; the others have it all the same.
    fn show(&self, letter: &Letter, list: Option<u32>) -> Result<(), serde_json::Error> {
        let mut words: Vec<Announcement> = Vec::new();
        let mut unreadable = None;
        for feed in &self.feeds {
            match feed.show(letter, list) {
                Ok(word) => words.extend(word),
                Err(error) => unreadable = Some(error),
            }
        }
        for announce in words {
            announce();
        }
        unreadable.map_or(Ok(()), Err)
    }

    fn begin(&mut self) -> u32 {
        self.lists = self.lists.wrapping_add(1);
        self.tell(Change::Listing(self.lists));
        self.lists
    }

    async fn follow(&mut self, source: &Source, gate: &Gate, stop: &CancellationToken) -> End {
        let namespaces = source.scope.parts(self.question.namespaced);
        let watch = |(number, namespace): (usize, &Option<String>)| {
            let events = self.question.ask(source.client.clone(), namespace.as_deref(), &self.kind);
            events.map(move |event| (number, event)).boxed()
        };
        let mut events = futures::stream::select_all(namespaces.iter().enumerate().map(watch));
        let mut parts = Parts { listed: vec![false; namespaces.len()], open: BTreeMap::new(), namespaces };
        let mut current = false;
        // Kinds that started together are not listed again together.
        let due = source.refresh.map(|period| period.saturating_sub(self.clock.jitter(period / 4)));
        let due = async {
            match due {
                Some(due) => tokio::time::sleep(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(due);
        loop {
            let (number, event) = tokio::select! {
                biased;
                () = stop.cancelled() => return End::Stopped,
                () = &mut due => return End::Refresh,
                next = events.next() => match next {
                    Some(next) => next,
                    None => return End::Stopped,
                },
            };
            match event {
                Ok(Event::Init) if parts.open.contains_key(&number) => {
                    tracing::warn!(kind = %self.kind, "a list was cut short, trying again");
                    return End::Incomplete;
                }
                Ok(event) => {
                    if let Err(error) = self.take(&mut parts, number, event) {
                        tracing::error!(kind = %self.kind, error = %error, "an object cannot be read, listing again");
                        if !current {
                            gate.waiting(format!("listing {}: an object cannot be read: {error}", self.kind.plural));
                        }
                        return End::Incomplete;
                    }
                    if !current && parts.complete() {
                        current = true;
                        self.enter(Phase::Synced);
                        gate.ready(format!("watching {}", self.kind.plural));
                    }
                }
                Err(error) if is_missing(&error) => return End::NotServed,
                Err(error) => {
                    tracing::warn!(kind = %self.kind, error = %error, "watch interrupted, trying again");
                    // Once the index is complete an interruption heals unannounced, so the gate would go on lying.
                    if !current {
                        gate.waiting(format!("listing {}: interrupted, trying again", self.kind.plural));
                    }
                    // A stream may go on behind an error, and would then seem complete without what was lost.
                    if parts.open.contains_key(&number) {
                        return End::Incomplete;
                    }
                }
            }
        }
    }

    fn take(&mut self, parts: &mut Parts, number: usize, event: Event<Letter>) -> Result<(), serde_json::Error> {
        match event {
            Event::Init => {
                parts.open.insert(number, self.begin());
            }
            Event::InitApply(letter) => self.show(&letter, parts.open.get(&number).copied())?,
            Event::Apply(letter) => self.show(&letter, None)?,
            Event::Delete(letter) => self.tell(Change::Gone(&letter.key, &letter.version)),
            Event::InitDone => {
                if let Some(listed) = parts.listed.get_mut(number) {
                    *listed = true;
                }
                if let Some(list) = parts.open.remove(&number) {
                    let namespace = parts.namespaces.get(number).and_then(Option::as_deref);
                    self.tell(Change::Listed(list, namespace));
                }
            }
        }
        Ok(())
    }
}

/// A 404 on list or watch means the kind itself is gone: objects are never asked for by name here.
fn is_missing(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => status.code == 404,
        watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_followed_no_further_than_somebody_wants_it_and_never_beyond_what_is_followed_at_all() {
        let only = |names: &[&str]| Scope::Namespaces(names.iter().map(|name| (*name).to_owned()).collect());
        let mut wanted = Wanted::In(BTreeSet::new());
        assert!(!wanted.holds(Some("a")) && !wanted.holds(None));
        wanted.add(Some("a"));
        assert!(wanted.holds(Some("a")) && !wanted.holds(Some("b")) && !wanted.holds(None));
        assert_eq!(Scope::All.of(&wanted), only(&["a"]));
        assert_eq!(only(&["a", "b"]).of(&wanted), only(&["a"]));
        assert_eq!(only(&["b"]).of(&wanted), only(&["b"]), "whoever keeps it out of there is obeyed");
        wanted.add(Some("b"));
        assert_eq!(Scope::All.of(&wanted), only(&["a", "b"]));
        wanted.add(None);
        assert!(wanted.holds(Some("c")) && wanted.holds(None));
        assert_eq!((Scope::All.of(&wanted), only(&["a"]).of(&wanted)), (Scope::All, only(&["a"])));
        wanted.add(Some("a"));
        assert_eq!(wanted, Wanted::Everywhere);
        assert_eq!(only(&["a", "b"]).parts(false), [None], "what is in no namespace is followed whole");
    }

    #[test]
    fn a_lost_server_is_tried_again_within_seconds_however_long_it_was_away() {
        let mut pauses = Reconnect::default();
        let first = pauses.next().unwrap();
        assert!(first >= Duration::from_millis(25) && first <= Duration::from_millis(50), "{first:?}");
        let later: Vec<Duration> = pauses.by_ref().skip(8).take(200).collect();
        assert!(later.iter().all(|p| (900..=1_875).contains(&p.as_millis())), "{later:?}");
        // The notice that a list begins is no success.
        pauses.reset();
        assert!(pauses.next().unwrap() >= Duration::from_millis(900));
    }
}
