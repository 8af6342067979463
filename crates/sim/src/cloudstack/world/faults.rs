//! The fault script: what shall go wrong with which call.

use std::time::Duration;

use super::super::wire::refusal::Refusal;
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
    /// Every page is the first one.
    RepeatPage,
    /// The answer does not say how many there are in all.
    NoCount,
    /// The job ends with a failure; what it began to make stays.
    FailJob {
        /// Code.
        code: u16,
        /// Text.
        text: String,
    },
    /// The job never ends.
    HangJob,
}

/// Which calls a line of the script is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Which {
    command: String,
}

/// One line of the script: which calls, how often, what.
pub type Fault = script::Fault<Which, What>;

impl script::Fault<Which, What> {
    /// The next call of a command (`*` = of any) goes wrong once.
    #[must_use]
    pub fn on(command: &str, what: What) -> Self {
        Self::new(Which { command: command.to_owned() }, what)
    }

    /// A refusal before the effect.
    #[must_use]
    pub fn refuse(command: &str, code: u16, text: &str) -> Self {
        Self::on(command, What::Refuse(Refusal::new(code, Some(9999), text)))
    }

    /// An answer that is not CloudStack's.
    #[must_use]
    pub fn raw(command: &str, status: u16, body: &str) -> Self {
        let body = body.as_bytes().to_vec();
        Self::on(command, What::Raw { status, content_type: "text/html".to_owned(), body })
    }

    /// The caller's role does not have the command, until the script is cleared.
    #[must_use]
    pub fn deny(command: &str) -> Self {
        Self::on(command, What::Refuse(Refusal::role(command))).forever()
    }
}

/// The script.
#[derive(Clone, Debug, Default)]
pub struct Script {
    faults: Vec<Fault>,
}

impl Script {
    /// Adds a line.
    pub fn add(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Nothing goes wrong any more.
    pub fn clear(&mut self) {
        self.faults.clear();
    }

    /// What goes wrong with a call; counts it.
    pub fn hit(&mut self, command: &str) -> Vec<What> {
        let hit = |fault: &mut Fault| {
            let fits = fault.which.command == "*" || fault.which.command == command;
            (fits && fault.is_due()).then(|| fault.what.clone())
        };
        self.faults.iter_mut().filter_map(hit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_hits_the_calls_it_names_and_no_others() {
        let mut script = Script::default();
        script.add(Fault::on("a", What::CutAfter).nth(2).times(2));
        script.add(Fault::on("*", What::NoCount).forever());
        let hits: Vec<usize> = ["a", "b", "a", "a", "a"].iter().map(|command| script.hit(command).len()).collect();
        assert_eq!(hits, [1, 1, 2, 2, 1]);
    }
}
