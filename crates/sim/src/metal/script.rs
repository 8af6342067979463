//! How one host misbehaves: the annotation `berth.dev/sim`.
//!
//! ```json
//! {
//!   "delayMs": {"inspecting": 500, "provisioning": 2000, "power": 100},
//!   "fail": [{"state": "provisioning", "error": "provisioning error", "times": 2}],
//!   "retryMs": 1000,
//!   "statusEveryMs": 200,
//!   "health": "CriticalError"
//! }
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::state;

/// Steps that can be delayed or made to fail, besides the states: switching power.
pub const POWER: &str = "power";
/// The longest delay that is taken seriously: one day.
const LONGEST: u64 = 24 * 3600 * 1000;
/// The classes of errors that hosts report.
pub const ERRORS: [&str; 7] = [
    "provisioned registration error",
    "registration error",
    "inspection error",
    "preparation error",
    "provisioning error",
    "power management error",
    "servicing error",
];
const HEALTH: [&str; 4] = ["Healthy", "Unknown", "Warning", "CriticalError"];

/// How a host misbehaves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Script {
    /// How long each state, or switching power, takes; in milliseconds.
    pub delay_ms: BTreeMap<String, u64>,
    /// What fails, and how often.
    pub fail: Vec<Failure>,
    /// How long until a failed step is tried again; doubling from one second up to five minutes when absent.
    pub retry_ms: Option<u64>,
    /// The status is written again and again with this pause, for nothing but a new time in it.
    pub status_every_ms: Option<u64>,
    /// What the machine says of its health.
    pub health: Option<String>,
}

/// A step that fails some times before it succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// The state, or `power`.
    pub state: String,
    /// The class; what is usual for the state when absent.
    #[serde(default)]
    pub error: Option<String>,
    /// How often; once when absent.
    #[serde(default = "once")]
    pub times: u32,
}

fn once() -> u32 {
    1
}

/// Why an annotation is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {annotation}, {path}: {why}", annotation = super::SCRIPT)]
pub struct Bad {
    /// The field.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
}

impl Script {
    /// Reads the annotation; a field, state, class or number that is not known is refused.
    pub fn read(text: &str) -> Result<Self, Bad> {
        let mut json = serde_json::Deserializer::from_str(text);
        let script: Self = serde_path_to_error::deserialize(&mut json)
            .map_err(|error| Bad { path: error.path().to_string(), why: error.inner().to_string() })?;
        json.end().map_err(|error| Bad { path: ".".to_owned(), why: error.to_string() })?;
        script.check()?;
        Ok(script)
    }

    fn check(&self) -> Result<(), Bad> {
        let bad = |path: String, why: String| Err(Bad { path, why });
        for (step, delay) in &self.delay_ms {
            known(step).map_err(|why| Bad { path: format!("delayMs.{step}"), why })?;
            if *delay > LONGEST {
                return bad(format!("delayMs.{step}"), format!("at most {LONGEST}"));
            }
        }
        for (i, failure) in self.fail.iter().enumerate() {
            known(&failure.state).map_err(|why| Bad { path: format!("fail[{i}].state"), why })?;
            if let Some(error) = failure.error.as_deref().filter(|error| !ERRORS.contains(error)) {
                return bad(format!("fail[{i}].error"), format!("`{error}` is none of: {}", ERRORS.join(", ")));
            }
        }
        for (name, value) in [("retryMs", self.retry_ms), ("statusEveryMs", self.status_every_ms)] {
            if let Some(value) = value.filter(|value| !(1..=LONGEST).contains(value)) {
                return bad(name.to_owned(), format!("{value} is not between 1 and {LONGEST}"));
            }
        }
        if let Some(health) = self.health.as_deref().filter(|health| !HEALTH.contains(health)) {
            return bad("health".to_owned(), format!("`{health}` is none of: {}", HEALTH.join(", ")));
        }
        Ok(())
    }

    /// How long a step takes.
    #[must_use]
    pub fn delay(&self, step: &str) -> Option<Duration> {
        self.delay_ms.get(step).map(|ms| Duration::from_millis(*ms))
    }

    /// The class of the error with which a step fails that has failed `times` times.
    #[must_use]
    pub fn fails(&self, step: &str, times: u32) -> Option<&str> {
        let mut before = 0;
        for failure in self.fail.iter().filter(|failure| failure.state == step) {
            before += failure.times;
            if times < before {
                return Some(failure.error.as_deref().unwrap_or_else(|| usual(step)));
            }
        }
        None
    }
}

fn known(step: &str) -> Result<(), String> {
    if step == POWER || state::WORKING.contains(&step) {
        return Ok(());
    }
    Err(format!("`{step}` is none of: {}, {POWER}", state::WORKING.join(", ")))
}

/// The class of error that a step fails with, unless it is told otherwise.
fn usual(step: &str) -> &'static str {
    match step {
        state::REGISTERING => "registration error",
        state::INSPECTING => "inspection error",
        state::PREPARING => "preparation error",
        state::PROVISIONING | state::DEPROVISIONING => "provisioning error",
        _ => "power management error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_script_is_read() {
        let script = Script::read(
            r#"{"delayMs": {"provisioning": 2000, "power": 5}, "retryMs": 7, "statusEveryMs": 200, "health": "Warning",
                "fail": [{"state": "provisioning", "times": 2}, {"state": "provisioning", "error": "servicing error"}]}"#,
        )
        .unwrap();
        assert_eq!(script.delay("provisioning"), Some(Duration::from_secs(2)));
        assert_eq!(script.delay("inspecting"), None);
        let classes: Vec<_> = (0..4).map(|times| script.fails("provisioning", times)).collect();
        assert_eq!(classes, [Some("provisioning error"), Some("provisioning error"), Some("servicing error"), None]);
        assert_eq!(script.fails("inspecting", 0), None);
        assert_eq!(Script::read("{}").unwrap(), Script::default());
    }

    #[test]
    fn whatever_is_not_known_is_named_by_its_path() {
        for (text, path, word) in [
            (r#"{"delay": 3}"#, "delay", "unknown field"),
            (r#"{"fail": [{"state": "preparing", "time": 3}]}"#, "fail[0].time", "unknown field"),
            (r#"{"delayMs": {"dreaming": 3}}"#, "delayMs.dreaming", "inspecting"),
            (r#"{"delayMs": {"preparing": -3}}"#, "delayMs.preparing", "-3"),
            (r#"{"delayMs": {"preparing": 86400001}}"#, "delayMs.preparing", "86400000"),
            (r#"{"fail": [{"state": "provisioned"}]}"#, "fail[0].state", "provisioned"),
            (r#"{"fail": [{"state": "power", "error": "bad luck"}]}"#, "fail[0].error", "power management error"),
            (r#"{"statusEveryMs": 0}"#, "statusEveryMs", "between"),
            (r#"{"health": "fine"}"#, "health", "CriticalError"),
            (r#"{"health": "Healthy"} x"#, ".", "trailing"),
            ("slow", ".", "expected"),
        ] {
            let bad = Script::read(text).unwrap_err();
            assert!(bad.path == path && bad.why.contains(word), "{text}: {bad}");
            assert!(bad.to_string().contains("berth.dev/sim"));
        }
    }
}
