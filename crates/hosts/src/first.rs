//! Who is looked at first. A host costs money from the moment it is asked for, and is of no use before its instance is
//! launched or after it is gone: whoever has such a host goes before all who cost nothing yet, or nothing more.

use kit::queue::Priority;

use crate::classes::Class;
use crate::facts::MachineFacts;
use crate::journal::{Allocation, Journal, JournalError, Phase};
use crate::snapshot::{Doing, Mishap, Sky, Snapshot};

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
