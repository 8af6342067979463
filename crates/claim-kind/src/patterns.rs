//! Patterns of arguments, compiled once: a kind comes by with every heartbeat, and with it the same patterns.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use regex::{Regex, RegexBuilder};

/// How large a compiled pattern may be: generous for 256 characters, small enough for many kinds.
const PATTERN_BYTES: usize = 256 * 1024;
/// So many patterns are kept. Those of all kinds of a cluster are far fewer; what is only tried at admission may push them out,
/// and costs no more than compiling them once again.
const KEPT: usize = 64;

/// A compiled pattern, or what is wrong with it.
type Compiled = Result<Regex, String>;

static PATTERNS: Mutex<BTreeMap<Box<str>, Compiled>> = Mutex::new(BTreeMap::new());

/// Compiles a pattern so that it must match the whole value, in time linear in the value.
pub(crate) fn compile(pattern: &str) -> Compiled {
    let mut kept = PATTERNS.lock().unwrap_or_else(PoisonError::into_inner);
    remembered(&mut kept, pattern, anew)
}

fn remembered(kept: &mut BTreeMap<Box<str>, Compiled>, pattern: &str, anew: impl FnOnce(&str) -> Compiled) -> Compiled {
    if let Some(known) = kept.get(pattern) {
        return known.clone();
    }
    if kept.len() >= KEPT {
        kept.clear();
    }
    let compiled = anew(pattern);
    kept.insert(pattern.into(), compiled.clone());
    compiled
}

fn anew(pattern: &str) -> Compiled {
    // The pattern itself first: in a group of our own an unbalanced one could look balanced.
    let build = |text: &str| RegexBuilder::new(text).size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES).build();
    build(pattern).and_then(|_| build(&format!("^(?:{pattern})$"))).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "is too large once compiled".to_owned(),
        _ => "is not a regular expression without look-around and back references".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_same_pattern_is_compiled_once_whether_it_can_be_used_or_not() {
        let (mut kept, count) = (BTreeMap::new(), Cell::new(0));
        let counted = |pattern: &str| {
            count.set(count.get() + 1);
            anew(pattern)
        };
        for _ in 0..3 {
            assert!(
                remembered(&mut kept, "a|b", counted).is_ok_and(|found| found.is_match("a") && !found.is_match("ab"))
            );
            assert!(remembered(&mut kept, "(", counted).is_err());
        }
        assert_eq!(count.get(), 2);
    }

    #[test]
    fn no_more_than_so_many_are_kept() {
        let mut kept = BTreeMap::new();
        for number in 0..3 * KEPT {
            assert!(remembered(&mut kept, &format!("a{number}"), anew).is_ok());
            assert!(kept.len() <= KEPT && kept.contains_key(&*format!("a{number}")));
        }
    }
}
