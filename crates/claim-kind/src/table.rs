//! One table for all kinds that a process serves: who is about to have a machine, before its claim shows it.
//!
//! A quota binds a tenant over all kinds, and a kind learns from the claims what the others hold, a moment after it is stored.
//! In that moment two kinds could both give the last unit away. So they decide one at a time: whoever has its turn at the
//! table tells all others what it takes before the next one decides. Nothing is stored for it: what is taken is on record on
//! the claim before anything is made, and after a restart it is read there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::key::ObjectKey;

use crate::held::Held;

/// What a claim of another kind has taken, or given back without its own object having shown it.
#[derive(Clone, Copy, Debug)]
pub struct News<'n> {
    /// The claim.
    pub claim: &'n ObjectKey,
    /// Its uid.
    pub uid: &'n str,
    /// What it is about to have; `None` when it gave that back.
    pub held: Option<&'n Held>,
}

type Ear = Box<dyn Fn(News<'_>) + Send + Sync>;

/// The table.
#[derive(Default)]
pub struct Table {
    ears: Mutex<Vec<Option<Ear>>>,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Ear>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for one kind.
    #[must_use]
    pub fn seat(self: &Arc<Self>) -> Seat {
        let mut ears = self.lock();
        ears.push(None);
        Seat { number: ears.len() - 1, table: Arc::clone(self) }
    }
}

/// The place of one kind at the table; clones are the same place.
#[derive(Clone)]
pub struct Seat {
    table: Arc<Table>,
    number: usize,
}

impl Seat {
    /// Has `ear` called with all that others tell. It must be quick, and may take no turn itself.
    pub fn listen(&self, ear: impl Fn(News<'_>) + Send + Sync + 'static) {
        if let Some(place) = self.table.lock().get_mut(self.number) {
            *place = Some(Box::new(ear));
        }
    }

    /// Waits for the turn: until it ends nobody else decides. Never to be held over an await.
    #[must_use]
    pub fn turn(&self) -> Turn<'_> {
        Turn { ears: self.table.lock(), number: self.number }
    }
}

/// The turn of one kind.
pub struct Turn<'t> {
    ears: MutexGuard<'t, Vec<Option<Ear>>>,
    number: usize,
}

impl Turn<'_> {
    /// Tells all others.
    pub fn tell(&self, news: News<'_>) {
        let others = self.ears.iter().enumerate().filter(|(number, _)| *number != self.number);
        others.filter_map(|(_, ear)| ear.as_ref()).for_each(|ear| ear(news));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_takes_all_others_hear_before_the_next_decides() {
        let table = Arc::new(Table::default());
        let seats: Vec<Seat> = (0..3).map(|_| table.seat()).collect();
        let heard: Arc<Mutex<Vec<(usize, String, bool)>>> = Arc::default();
        for (number, seat) in seats.iter().enumerate().take(2) {
            let heard = Arc::clone(&heard);
            seat.listen(move |news| {
                heard.lock().unwrap().push((number, news.claim.to_string(), news.held.is_some()));
            });
        }
        let claim = ObjectKey::namespaced("red", "c");
        let held = Held { uid: "u".into(), kind: "vm".into(), place: None, labels: Default::default() };
        {
            let turn = seats[0].turn();
            turn.tell(News { claim: &claim, uid: "u", held: Some(&held) });
            assert_eq!(*heard.lock().unwrap(), [(1, "red/c".to_owned(), true)], "and not whoever says it");
            assert!(table.ears.try_lock().is_err(), "nobody else decides meanwhile");
        }
        seats[2].clone().turn().tell(News { claim: &claim, uid: "u", held: None });
        let last = heard.lock().unwrap().split_off(1);
        assert_eq!(last, [(0, "red/c".to_owned(), false), (1, "red/c".to_owned(), false)]);
    }
}
