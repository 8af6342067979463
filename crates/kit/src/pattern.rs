//! Regular expressions that users write: bounded in length, in memory and in time.

use regex::{Regex, RegexBuilder};

/// The longest pattern that is read.
pub const LONGEST_PATTERN: usize = 512;
/// The most memory a compiled pattern may take.
const PATTERN_MEMORY: usize = 1 << 20;

/// Compiles a pattern that takes time in proportion to what it is tried on, and bounded memory.
///
/// # Errors
/// What is wrong with the pattern.
pub fn pattern(text: &str) -> Result<Regex, String> {
    if text.len() > LONGEST_PATTERN {
        return Err(format!("must have at most {LONGEST_PATTERN} bytes"));
    }
    let built = RegexBuilder::new(text).size_limit(PATTERN_MEMORY).dfa_size_limit(PATTERN_MEMORY).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "must be simpler: it takes too much memory".to_owned(),
        // The parser draws a picture of the pattern; the last line says what is wrong.
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim();
            format!("must be a regular expression: {}", last.strip_prefix("error: ").unwrap_or(last))
        }
    })
}

/// Compiles a pattern that must match the whole text.
///
/// # Errors
/// What is wrong with the pattern.
pub fn whole(text: &str) -> Result<Regex, String> {
    // Checked alone first, so that no text can close the group.
    pattern(text)?;
    let built = RegexBuilder::new(&format!("^(?:{text})$")).size_limit(PATTERN_MEMORY).build();
    built.map_err(|error| error.to_string())
}
