//! Who is looked at first. A host costs money from the moment it is asked for, and is of no use before its instance is
//! launched or after it is gone: whoever has such a host goes before all who cost nothing yet, or nothing more.

use std::time::Duration;

use api::key::ObjectKey;
use kit::queue::{Priority, Work};

use crate::classes::Class;
use crate::facts::MachineFacts;
use crate::journal::{Allocation, Journal, JournalError, Phase};
use crate::snapshot::{Doing, Mishap, Sky, Snapshot};

/// So many are looked at at once for a reason that concerns all of them.
const AT_ONCE: usize = 32;
/// The next ones follow after this.
const PAUSE: Duration = Duration::from_millis(100);

/// Looks at everybody whom something concerns that is nobody's own, a few at a time: somebody who is deleted or edited
/// meanwhile does not stand behind all of them.
pub fn all(work: &Work<ObjectKey>, keys: impl IntoIterator<Item = ObjectKey>) {
    for (n, key) in keys.into_iter().enumerate() {
        let groups_before = u32::try_from(n / AT_ONCE).unwrap_or(u32::MAX);
        work.add_after(key, PAUSE.saturating_mul(groups_before), Priority::Background);
    }
}

fn urgent(yes: bool) -> Priority {
    if yes { Priority::Urgent } else { Priority::Background }
}

/// By what is stored alone: for those that nobody has looked at yet.
#[must_use]
pub fn stored(journal: &Result<Journal, JournalError>, has_instance: bool) -> Priority {
    let allocation = journal.as_ref().ok().and_then(|journal| journal.allocation.as_ref());
    urgent(allocation.is_some_and(|allocation| match allocation.phase {
        Phase::Intended | Phase::Releasing => true,
        Phase::Allocated => !has_instance,
        Phase::Claimed | Phase::Released | Phase::Retained | Phase::Abandoned => false,
    }))
}

/// By what is stored of a machine.
#[must_use]
pub fn of_machine(machine: &MachineFacts) -> Priority {
    stored(&machine.journal, machine.instance().is_some())
}

/// By everything that a pass knows.
#[must_use]
pub fn known(s: &Snapshot) -> Priority {
    // Whoever misses its turn leaves a launch unused that EC2 would have taken, and all behind it wait longer.
    if s.turn.is_some() {
        return Priority::Urgent;
    }
    if !matches!(s.sky, Sky::Clear(_)) {
        return of_machine(&s.machine);
    }
    match &s.journal().allocation {
        Some(allocation) => recorded(s, allocation),
        None => Priority::Background,
    }
}

/// The same, once this is what the journal says.
#[must_use]
pub fn recorded(s: &Snapshot, allocation: &Allocation) -> Priority {
    urgent(match allocation.phase {
        // What EC2 has refused for a reason is not paid for.
        Phase::Intended => {
            let refused = |mishap: &Mishap| mishap.doing == Doing::Allocate && mishap.class != Class::Transient;
            !s.mishap.as_ref().is_some_and(refused)
        }
        Phase::Allocated if s.machine.deleting => s.alive().is_empty(),
        Phase::Allocated => s.instance().is_none() && s.machine.instance().is_none(),
        Phase::Releasing => allocation.hosts.iter().any(|host| {
            let shown = s.sight().and_then(|sight| sight.hosts.get(host));
            let given_back = s.refusals.get(host).is_some_and(|refusal| refusal.class.is_none());
            !given_back && !shown.is_some_and(|shown| shown.state.is_released())
        }),
        Phase::Claimed | Phase::Released | Phase::Retained | Phase::Abandoned => false,
    })
}

#[cfg(test)]
mod tests {
    use kit::clock::Clock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_is_deleted_does_not_stand_behind_everybody_whom_an_identity_concerns() {
        let work = Work::new(Clock::simulated(jiff::Timestamp::UNIX_EPOCH, 1));
        let name = |n: usize| ObjectKey::namespaced("default", format!("m-{n:04}"));
        all(&work, (0..1000).map(name));
        tokio::time::advance(Duration::from_millis(1)).await;
        let deleted = ObjectKey::namespaced("default", "deleted");
        work.add_now(deleted.clone(), Priority::Background);
        let mut before = 0;
        while *work.next().await != deleted {
            before += 1;
        }
        assert_eq!(before, AT_ONCE);
        let mut seen = before;
        while seen < 1000 {
            drop(work.next().await);
            seen += 1;
        }
        assert_eq!(work.depth().waiting, 0, "each has its turn");
    }
}
