//! The decision who leads, as a value.

use std::time::Duration;

use tokio::time::Instant;

/// The default length of a term.
pub const DURATION: Duration = Duration::from_secs(120);

/// A leader that could not renew stops handing out work this long before its term ends.
const MARGIN: Duration = Duration::from_secs(10);

/// How often a follower looks, and how soon anything that failed is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// No request may take longer.
const REQUEST: Duration = Duration::from_secs(5);

/// How long terms last and when things are due within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The length of a term, in whole seconds on the wire.
    pub duration: Duration,
    /// Not renewed this long before the end: stop handing out work.
    pub margin: Duration,
    /// Renew this long after the last renewal was sent.
    pub renew: Duration,
    /// Look again, or try again, after this.
    pub retry: Duration,
    /// The deadline of one request.
    pub request: Duration,
}

/// A term that is too short to be renewed in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lease duration of {0:?} is not a whole number of seconds between 9 s and one day")]
pub struct BadTerms(pub Duration);

impl Terms {
    /// Terms of `duration`; the renew deadline is ten seconds before the end, or a third of a term under 30 s.
    pub fn new(duration: Duration) -> Result<Self, BadTerms> {
        if !(9..=86_400).contains(&duration.as_secs()) || duration.subsec_nanos() != 0 {
            return Err(BadTerms(duration));
        }
        let third = duration / 3;
        Ok(Self {
            duration,
            margin: MARGIN.min(third),
            renew: duration / 4,
            retry: RETRY.min(duration / 8),
            request: REQUEST.min(third),
        })
    }
}

impl Default for Terms {
    fn default() -> Self {
        let third = DURATION / 3;
        Self { duration: DURATION, margin: MARGIN, renew: DURATION / 4, retry: RETRY, request: REQUEST.min(third) }
    }
}

/// What matters of a stored Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The resource version: the only proof that nothing changed.
    pub version: String,
    /// Who holds it; none when it was released.
    pub holder: Option<String>,
    /// The term its holder gave itself; none when the Lease does not say.
    pub duration: Option<Duration>,
    /// How often the holder changed.
    pub transitions: i32,
}

/// What to write into the Lease, guarded by the version it was decided on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Draft {
    /// The new holder; none releases it.
    pub holder: Option<String>,
    /// The term in whole seconds.
    pub duration: Duration,
    /// How often the holder changed.
    pub transitions: i32,
    /// True when the holder changes with this write.
    pub acquired: bool,
}

/// What a candidate does next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read the Lease and give it to [`Election::observe`].
    Look,
    /// Create the Lease.
    Create,
    /// Replace the known version with a new term of our own.
    Renew,
    /// Replace the known version, which nobody holds any more.
    TakeOver,
    /// Nothing for this long.
    Wait(Duration),
    /// Somebody else holds the Lease while we believed in our term: stop at once.
    StepDown,
}

/// What a candidate is at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Somebody else leads, or nobody yet.
    Follower {
        /// The holder as last seen.
        holder: Option<String>,
    },
    /// Ours: hand out work.
    Leading,
    /// The term ends soon (a late renewal still saves it), or we are shutting down: hand out nothing, let running
    /// steps finish.
    Stopping,
    /// The term is over: nothing may run. Candidature goes on unless the program ends.
    Lost,
}

/// One candidate's view of the Lease and of its own term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    me: String,
    terms: Terms,
    known: Option<Known>,
    /// The longest term we must grant a holder whose Lease disappeared.
    owed: Option<Duration>,
    held: Option<Held>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    /// None: there is no Lease.
    view: Option<View>,
    since: Instant,
    /// False after a write that was refused or not answered: look before the next one.
    current: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    until: Instant,
    renew_at: Instant,
}

impl Election {
    /// A candidate that has seen nothing yet; `me` must be unique among all processes.
    #[must_use]
    pub fn new(me: String, terms: Terms) -> Self {
        Self { me, terms, known: None, owed: None, held: None }
    }

    /// What is due at `now` without a new look.
    pub fn due(&mut self, now: Instant) -> Action {
        match &self.known {
            Some(known) if known.current && self.leads(now) => self.decide(now),
            _ => Action::Look,
        }
    }

    /// The Lease was read (none: it does not exist) and this is the answer at `now`.
    pub fn observe(&mut self, view: Option<View>, now: Instant) -> Action {
        let same = |known: &Known| known.view.as_ref().map(|v| &v.version) == view.as_ref().map(|v| &v.version);
        let since = self.known.as_ref().filter(|known| same(known)).map_or(now, |known| known.since);
        if let Some(view) = &view {
            self.owed = Some(self.term_of(view).max(self.terms.duration));
        }
        self.known = Some(Known { view, since, current: true });
        self.decide(now)
    }

    /// Our write, sent at `sent`, succeeded and the Lease is now `view`.
    pub fn wrote(&mut self, view: View, sent: Instant, now: Instant) {
        let ours = view.holder.as_deref() == Some(self.me.as_str());
        self.known = Some(Known { view: Some(view), since: now, current: true });
        self.owed = Some(self.terms.duration);
        let until = sent + self.terms.duration;
        // An answer that took a whole term proves nothing about now.
        self.held = (ours && now < until).then_some(Held { until, renew_at: sent + self.terms.renew });
    }

    /// Our write was refused or not answered: what we know may be old, the term we hold is not longer for it.
    pub fn doubt(&mut self) {
        if let Some(known) = &mut self.known {
            known.current = false;
        }
    }

    /// Ends our own term at once; the view to release, if the Lease was ours when last seen.
    pub fn resign(&mut self) -> Option<&View> {
        self.held = None;
        self.known.as_ref()?.view.as_ref().filter(|view| view.holder.as_deref() == Some(self.me.as_str()))
    }

    /// What `action` writes; none for actions that write nothing.
    #[must_use]
    pub fn draft(&self, action: &Action) -> Option<Draft> {
        let transitions = self.known_view().map_or(0, |view| view.transitions);
        let (transitions, acquired) = match action {
            Action::Create => (transitions, true),
            Action::TakeOver => (transitions.saturating_add(1), true),
            Action::Renew => (transitions, false),
            Action::Look | Action::Wait(_) | Action::StepDown => return None,
        };
        Some(Draft { holder: Some(self.me.clone()), duration: self.terms.duration, transitions, acquired })
    }

    /// What a release writes over `view`: no holder and the shortest term.
    #[must_use]
    pub fn release(view: &View) -> Draft {
        Draft { holder: None, duration: Duration::from_secs(1), transitions: view.transitions, acquired: false }
    }

    /// The Lease as last seen.
    #[must_use]
    pub fn known_view(&self) -> Option<&View> {
        self.known.as_ref()?.view.as_ref()
    }

    /// What we are at `now`; a term that ended without a new look is lost.
    #[must_use]
    pub fn standing(&self, now: Instant) -> Standing {
        match self.held {
            Some(held) if now + self.terms.margin < held.until => Standing::Leading,
            Some(held) if now < held.until => Standing::Stopping,
            Some(_) => Standing::Lost,
            None => Standing::Follower { holder: self.known_view().and_then(|view| view.holder.clone()) },
        }
    }

    /// When the present term ends.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.held.map(|held| held.until)
    }

    /// The terms this candidate keeps.
    #[must_use]
    pub fn terms(&self) -> Terms {
        self.terms
    }

    fn leads(&self, now: Instant) -> bool {
        self.held.is_some_and(|held| now < held.until)
    }

    fn term_of(&self, view: &View) -> Duration {
        view.duration.unwrap_or(self.terms.duration)
    }

    fn decide(&mut self, now: Instant) -> Action {
        let leads = self.leads(now);
        if !leads {
            self.held = None;
        }
        let Some(known) = &self.known else { return Action::Look };
        // How long until the version (or the absence) we know has stood for a whole term.
        let left = |term: Duration| (known.since + term).saturating_duration_since(now);
        let wait = |left: Duration| Action::Wait(left.min(self.terms.retry));
        let holder = known.view.as_ref().map(|view| (view, view.holder.as_deref()));
        match (holder, self.held) {
            (None, Some(_)) => Action::Create,
            // Its last holder may have renewed just before it was deleted.
            (None, None) => match self.owed.map(left) {
                Some(left) if !left.is_zero() => wait(left),
                _ => Action::Create,
            },
            (Some((_, Some(holder))), Some(held)) if holder == self.me => match held.renew_at {
                at if at > now => Action::Wait(at - now),
                _ => Action::Renew,
            },
            // Ours, but no answer told us so: only a new write gives a term.
            (Some((_, Some(holder))), None) if holder == self.me => Action::Renew,
            (Some(_), Some(_)) => {
                self.held = None;
                Action::StepDown
            }
            (Some((_, None)), None) => Action::TakeOver,
            (Some((view, Some(_))), None) => match left(self.term_of(view)) {
                Duration::ZERO => Action::TakeOver,
                left => wait(left),
            },
        }
    }
}

#[cfg(test)]
impl Election {
    /// The same candidate with everything that no longer matters at `now` made equal, `past` ago, so that a model
    /// checker sees finitely many states however long it runs.
    pub(super) fn essence(&mut self, now: Instant, past: Duration, rename: impl Fn(&str) -> String) {
        self.held = self.held.filter(|held| held.until > now + past);
        let leads = self.held.is_some();
        if let Some(held) = &mut self.held {
            held.until -= past;
            held.renew_at = (held.renew_at - past).max(now);
        }
        self.owed = None;
        let Some(known) = &mut self.known else { return };
        known.current |= !leads;
        known.since = (known.since - past).max(now - self.terms.duration);
        if let Some(view) = &mut known.view {
            view.version = rename(&view.version);
            // Only a foreign holder's age is ever asked for.
            if view.holder.as_ref().is_none_or(|holder| *holder == self.me) {
                known.since = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    const SEC: Duration = Duration::from_secs(1);

    fn view(version: u32, holder: Option<&str>) -> View {
        View {
            version: version.to_string(),
            holder: holder.map(str::to_owned),
            duration: Some(DURATION),
            transitions: 4,
        }
    }

    fn candidate() -> (Election, Instant) {
        (Election::new("me".to_owned(), Terms::default()), Clock::system().instant())
    }

    #[test]
    fn an_unknown_lease_is_looked_at_and_an_absent_one_is_created() {
        let (mut election, now) = candidate();
        assert_eq!(election.due(now), Action::Look);
        assert_eq!(election.observe(None, now), Action::Create);
    }

    #[test]
    fn a_held_lease_is_taken_only_after_a_whole_term_without_a_new_version() {
        let (mut election, now) = candidate();
        assert_eq!(election.observe(Some(view(1, Some("other"))), now), Action::Wait(2 * SEC));
        assert_eq!(election.observe(Some(view(2, Some("other"))), now + 100 * SEC), Action::Wait(2 * SEC));
        assert_eq!(election.observe(Some(view(2, Some("other"))), now + 219 * SEC), Action::Wait(SEC));
        let at = now + 220 * SEC;
        assert_eq!(election.observe(Some(view(2, Some("other"))), at), Action::TakeOver);
        let draft = election.draft(&Action::TakeOver).unwrap();
        assert_eq!((draft.holder.as_deref(), draft.transitions, draft.acquired), (Some("me"), 5, true));
    }

    #[test]
    fn the_holders_own_term_counts_not_ours() {
        let (mut election, now) = candidate();
        let long = View { duration: Some(600 * SEC), ..view(1, Some("other")) };
        let _ = election.observe(Some(long.clone()), now);
        assert_eq!(election.observe(Some(long), now + 599 * SEC), Action::Wait(SEC));
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        let (mut election, now) = candidate();
        assert_eq!(election.observe(Some(view(1, None)), now), Action::TakeOver);
    }

    #[test]
    fn a_term_counts_from_sending_and_stops_ten_seconds_before_its_end() {
        let (mut election, now) = candidate();
        let _ = election.observe(None, now);
        election.wrote(view(1, Some("me")), now, now + 4 * SEC);
        assert_eq!(election.due(now + 4 * SEC), Action::Wait(26 * SEC));
        assert_eq!(election.due(now + 30 * SEC), Action::Renew);
        assert_eq!(election.standing(now + 109 * SEC), Standing::Leading);
        assert_eq!(election.standing(now + 110 * SEC), Standing::Stopping);
        assert_eq!(election.standing(now + 120 * SEC), Standing::Lost);
        assert_eq!(election.due(now + 120 * SEC), Action::Look);
        // The Lease still names us, but only a new write gives a term.
        assert_eq!(election.observe(Some(view(1, Some("me"))), now + 121 * SEC), Action::Renew);
        assert_eq!(election.standing(now + 121 * SEC), Standing::Follower { holder: Some("me".to_owned()) });
    }

    #[test]
    fn an_answer_that_took_a_whole_term_gives_none() {
        let (mut election, now) = candidate();
        let _ = election.observe(None, now);
        election.wrote(view(1, Some("me")), now, now + DURATION);
        assert_eq!(election.until(), None);
    }

    #[test]
    fn a_leader_that_sees_another_holder_stops_at_once() {
        let (mut election, now) = candidate();
        let _ = election.observe(None, now);
        election.wrote(view(1, Some("me")), now, now);
        election.doubt();
        assert_eq!(election.due(now + SEC), Action::Look);
        assert_eq!(election.observe(Some(view(2, Some("other"))), now + SEC), Action::StepDown);
        assert_eq!(election.standing(now + SEC), Standing::Follower { holder: Some("other".to_owned()) });
    }

    #[test]
    fn a_deleted_lease_is_still_owed_its_term_and_its_leader_creates_it_again() {
        let (mut follower, now) = candidate();
        let _ = follower.observe(Some(view(1, Some("other"))), now);
        assert_eq!(follower.observe(None, now + 50 * SEC), Action::Wait(2 * SEC));
        assert_eq!(follower.observe(None, now + 169 * SEC), Action::Wait(SEC));
        assert_eq!(follower.observe(None, now + 170 * SEC), Action::Create);
        let (mut leader, now) = candidate();
        leader.wrote(view(1, Some("me")), now, now);
        leader.doubt();
        assert_eq!(leader.observe(None, now + SEC), Action::Create);
    }

    #[test]
    fn terms_that_cannot_be_kept_are_refused() {
        for secs in [0, 1, 8, 86_401] {
            assert_eq!(Terms::new(secs * SEC), Err(BadTerms(secs * SEC)));
        }
        assert!(Terms::new(Duration::from_millis(15_500)).is_err());
        assert_eq!(Terms::new(DURATION), Ok(Terms::default()));
        for secs in 9..200 {
            let terms = Terms::new(secs * SEC).unwrap();
            // Even when the first renewal runs into its deadline there is time for another before we stop.
            assert!(terms.renew + 2 * terms.request + terms.retry <= terms.duration || secs < 30);
            assert!(terms.renew + terms.request + terms.margin <= terms.duration);
        }
    }
}
