//! The fault script: what shall go wrong with which call.

use std::time::Duration;

use super::super::catalogue::family;
use super::super::wire::refusal::Refusal;
use super::filters::matches;
use crate::edge::script;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Refused before it had an effect.
    Refuse(Refusal),
    /// Had its effect, and is refused all the same.
    RefuseAfter(Refusal),
    /// The connection ends before it had an effect.
    CutBefore,
    /// Had its effect, and the connection ends without an answer.
    CutAfter,
    /// Answered late; the effect is not late.
    Delay(Duration),
    /// Answered with something that is not an answer, instead of having an effect.
    Raw {
        /// HTTP status.
        status: u16,
        /// Content type.
        content_type: String,
        /// Body.
        body: Vec<u8>,
    },
    /// A page without items, but with a token; the listing goes on behind it.
    EmptyPage,
    /// The page has the token it was asked for with, so that following it never ends.
    RepeatToken,
    /// The last page has an empty token instead of none.
    EmptyToken,
    /// Fewer hosts are made than were asked for.
    Partial(u32),
    /// Single items are refused within an answer that is a success.
    RefuseItems {
        /// The item; all when empty.
        id: String,
        /// Code with its prefix, `Client.InvalidHost.Occupied`.
        code: String,
        /// Text.
        message: String,
    },
}

/// Which calls a line of the script is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    operation: String,
    zone: Option<String>,
    kind: Option<String>,
}

/// One line of the script: which calls, how often, what.
pub type Fault = script::Fault<Which, What>;

impl script::Fault<Which, What> {
    /// The next call of an operation (`*` = of any) goes wrong once.
    #[must_use]
    pub fn on(operation: &str, what: What) -> Self {
        Self::new(Which { operation: operation.to_owned(), zone: None, kind: None }, what)
    }

    /// A refusal before the effect.
    #[must_use]
    pub fn refuse(operation: &str, status: u16, code: &str) -> Self {
        Self::on(operation, What::Refuse(Refusal::new(status, code, format!("{code} by script"))))
    }

    /// `RequestLimitExceeded`.
    #[must_use]
    pub fn throttle(operation: &str) -> Self {
        Self::on(operation, What::Refuse(Refusal::throttled()))
    }

    /// The caller may not do this, until the script is cleared.
    #[must_use]
    pub fn deny(operation: &str) -> Self {
        Self::on(operation, What::Refuse(Refusal::unauthorized(operation))).forever()
    }

    /// Only calls about a zone (wildcards allowed).
    #[must_use]
    pub fn zone(mut self, zone: &str) -> Self {
        self.which.zone = Some(zone.to_owned());
        self
    }

    /// Only calls about an instance type or family (wildcards allowed).
    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.which.kind = Some(kind.to_owned());
        self
    }
}

/// What a call is about, as far as the script can ask.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The operation.
    pub operation: String,
    /// The zone, if it is about one.
    pub zone: Option<String>,
    /// The instance type or family, if it is about one.
    pub kind: Option<String>,
}

fn fits(pattern: Option<&str>, value: Option<&str>) -> bool {
    pattern.is_none_or(|pattern| value.is_some_and(|value| matches(pattern, value)))
}

impl Subject {
    fn is_kind(&self, pattern: Option<&str>) -> bool {
        let kind = self.kind.as_deref();
        fits(pattern, kind) || fits(pattern, kind.map(family))
    }
}

/// The script, and what is short.
#[derive(Clone, Debug, Default)]
pub struct Script {
    faults: Vec<Fault>,
    shortages: Vec<(String, String, String)>,
}

impl Script {
    /// Adds a line.
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Nothing goes wrong any more, and nothing is short.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Lines that have not been used up.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.faults.iter().filter(|fault| fault.is_pending()).count()
    }

    /// What goes wrong with a call; counts it.
    pub fn hit(&mut self, subject: &Subject) -> Vec<What> {
        let hit = |fault: &mut Fault| {
            let which = &fault.which;
            let operation = which.operation == "*" || which.operation == subject.operation;
            let zone = fits(which.zone.as_deref(), subject.zone.as_deref());
            (operation && zone && subject.is_kind(which.kind.as_deref()) && fault.is_due()).then(|| fault.what.clone())
        };
        self.faults.iter_mut().filter_map(hit).collect()
    }

    /// From now on there is no capacity for a type or family in a zone (wildcards allowed). Requests that were granted
    /// before are still answered under their token.
    pub fn run_short(&mut self, operation: &str, kind: &str, zone: &str) {
        self.shortages.push((operation.to_owned(), kind.to_owned(), zone.to_owned()));
    }

    /// There is capacity again.
    pub fn restock(&mut self) {
        self.shortages.clear();
    }

    /// Whether there is no capacity.
    #[must_use]
    pub fn is_short(&self, subject: &Subject) -> bool {
        self.shortages.iter().any(|(operation, kind, zone)| {
            *operation == subject.operation && subject.is_kind(Some(kind)) && fits(Some(zone), subject.zone.as_deref())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(operation: &str, zone: &str, kind: &str) -> Subject {
        Subject { operation: operation.to_owned(), zone: Some(zone.to_owned()), kind: Some(kind.to_owned()) }
    }

    #[test]
    fn the_script_hits_the_calls_it_names_and_no_others() {
        let mut script = Script::default();
        script.add(Fault::on("A", What::CutAfter).nth(2).times(2).zone("z*").kind("m5"));
        let mut hit = |operation: &str, zone: &str, kind: &str| !script.hit(&subject(operation, zone, kind)).is_empty();
        assert!(!hit("A", "z1", "m5.large"), "the first one passes");
        assert!(!hit("B", "z1", "m5.large") && !hit("A", "y", "m5.large") && !hit("A", "z1", "m6i.large"));
        assert!(hit("A", "z1", "m5.large") && hit("A", "z2", "m5"));
        assert!(!hit("A", "z1", "m5.large"), "used up");
    }

    #[test]
    fn shortages_last_until_restocked() {
        let mut script = Script::default();
        script.run_short("AllocateHosts", "m5*", "z1");
        assert!(script.is_short(&subject("AllocateHosts", "z1", "m5.large")));
        assert!(!script.is_short(&subject("AllocateHosts", "z2", "m5.large")));
        assert!(!script.is_short(&subject("RunInstances", "z1", "m5.large")));
        script.restock();
        assert!(!script.is_short(&subject("AllocateHosts", "z1", "m5.large")));
    }
}
