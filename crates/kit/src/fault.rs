//! Named fault points: places where a test stops the process, as a power cut would.
//!
//! A point stands before and after every effect. In release builds they are empty functions; in builds with debug
//! assertions a test arms a point by name and the code that reaches it hangs for ever, panics or exits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

/// What happens when an armed point is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The task never continues, as if its process had been paused for ever.
    Hang,
    /// The task panics.
    Panic,
    /// The process exits at once with code 137, the code of a kill, without running destructors.
    Exit,
}

#[derive(Debug, Default)]
struct Points {
    armed: BTreeMap<String, (Fault, u64)>,
    reached: BTreeSet<String>,
}

static POINTS: Mutex<Points> = Mutex::new(Points { armed: BTreeMap::new(), reached: BTreeSet::new() });

/// Arms `name` for its `nth` passage (1 = the next one). Has no effect in release builds.
pub fn arm(name: &str, fault: Fault, nth: u64) {
    points().armed.insert(name.to_owned(), (fault, nth.max(1)));
}

/// Parses `name=hang|panic|exit[:nth]` and arms it.
///
/// # Errors
/// When the text has another form.
pub fn arm_text(text: &str) -> Result<(), String> {
    let form = || format!("`{text}` is not of the form NAME=hang|panic|exit[:NTH]");
    let (name, rest) = text.split_once('=').ok_or_else(form)?;
    let (what, nth) = rest.split_once(':').unwrap_or((rest, "1"));
    let nth = nth.parse().map_err(|_| form())?;
    let fault = match what {
        "hang" => Fault::Hang,
        "panic" => Fault::Panic,
        "exit" => Fault::Exit,
        _ => return Err(form()),
    };
    arm(name, fault, nth);
    Ok(())
}

/// Disarms `name`.
pub fn disarm(name: &str) {
    points().armed.remove(name);
}

/// Every point that has been passed so far, so that a test can find an effect that has none.
#[must_use]
pub fn reached() -> BTreeSet<String> {
    points().reached.clone()
}

fn points() -> std::sync::MutexGuard<'static, Points> {
    POINTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes the point `<scope>.<what>.<side>`.
#[cfg(debug_assertions)]
pub async fn point(scope: &str, what: &str, side: Side) {
    let due = {
        let name = format!("{scope}.{what}.{}", side.as_str());
        let mut points = points();
        let due = match points.armed.get_mut(&name) {
            Some((fault, nth)) if *nth <= 1 => Some(*fault),
            Some((_, nth)) => {
                *nth -= 1;
                None
            }
            None => None,
        };
        if due.is_some() {
            points.armed.remove(&name);
        }
        points.reached.insert(name);
        due
    };
    match due {
        None => {}
        Some(Fault::Hang) => std::future::pending().await,
        #[expect(clippy::panic, reason = "that is what the point was armed for")]
        Some(Fault::Panic) => panic!("fault point"),
        Some(Fault::Exit) => std::process::exit(137),
    }
}

/// Passes the point; compiled to nothing in release builds.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub async fn point(_scope: &str, _what: &str, _side: Side) {}

/// On which side of an effect a point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before the effect.
    Before,
    /// After the effect, before anything records it.
    After,
}

impl Side {
    /// The last part of the point's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "fault point")]
    async fn an_armed_point_fires_at_its_nth_passage_only() {
        arm("fault-test.write.before", Fault::Panic, 2);
        point("fault-test", "write", Side::Before).await;
        assert!(reached().contains("fault-test.write.before"));
        point("fault-test", "write", Side::Before).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_point_never_continues_and_fires_once() {
        arm_text("fault-hang.write.after=hang").unwrap();
        let stuck =
            tokio::time::timeout(std::time::Duration::from_secs(3600), point("fault-hang", "write", Side::After));
        assert!(stuck.await.is_err());
        point("fault-hang", "write", Side::After).await;
    }

    #[test]
    fn a_malformed_fault_is_refused_with_its_form() {
        for text in ["", "a", "a=b", "a=exit:x"] {
            assert!(arm_text(text).unwrap_err().contains("NAME=hang|panic|exit[:NTH]"), "{text}");
        }
    }
}
