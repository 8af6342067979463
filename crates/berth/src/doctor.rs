//! `berth doctor`: is everything Berth stands on in place, and if not, what puts it there?

mod aws;
mod checks;
mod claims;
mod hosts;
mod machines;
mod vip;

use kit::class::chain;
use kube::Client;
use serde::Serialize;

use crate::Code;
use crate::cli::DoctorOptions;
use crate::explain::print;
use crate::look::{Shown, every};
use crate::screen::{self, Screen};

/// Names of one sort that are told; more are counted.
const TOLD: usize = 5;
/// What the names of our own field managers begin with.
const OURS: &str = "berth";

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Berth works, but somebody should look.
    Warning,
    /// Berth cannot work like this.
    Failure,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    /// All is well.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, found: found.into(), fix: None }
    }

    /// Berth works, but somebody should look.
    pub fn warn(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, level: Level::Warning, found: found.into(), fix: Some(fix.into()) }
    }

    /// Berth cannot work like this.
    pub fn fail(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, level: Level::Failure, found: found.into(), fix: Some(fix.into()) }
    }
}

/// Everything that was looked at.
#[derive(Serialize)]
struct Report<'a> {
    /// The worst of the levels.
    result: Level,
    checks: &'a [Check],
}

/// Every object of a kind; `None` when the server does not know the kind.
async fn list<K: Shown>(client: &Client, name: &'static str) -> Result<Option<Vec<K>>, Check> {
    every(client).await.map_err(|error| {
        Check::warn(name, format!("cannot be read: {}", chain(&*error)), "run the doctor with more rights")
    })
}

/// The first of many, and how many there are more.
fn some(all: &[String]) -> String {
    let shown = all.iter().take(TOLD).cloned().collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(TOLD) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// The checks of one room; none for a room that has none.
pub async fn of_room(client: &Client, room: &str) -> Vec<Check> {
    match room {
        "vip" => Box::pin(vip::all(client)).await,
        "claims" => Box::pin(claims::all(client)).await,
        "machines" => Box::pin(machines::all(client)).await,
        "hosts" => Box::pin(hosts::all(client)).await,
        _ => Vec::new(),
    }
}

/// Runs every check and prints the report. The exit code is 0 when all is fine, 1 with warnings, 2 with failures.
pub async fn doctor(options: DoctorOptions) -> anyhow::Result<()> {
    let agent = concat!("berth-doctor/", env!("CARGO_PKG_VERSION"));
    let client = crate::connect(&options.cluster, agent).await?;
    let mut checks = checks::all(&client, &options.namespace).await;
    if options.aws {
        let reach = aws::Reach::new(&options.aws_endpoint)?;
        checks.extend(Box::pin(aws::rights(&client, &options.namespace, &reach)).await);
    }
    let worst = checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok);
    print(options.output.output, "Doctor", &Report { result: worst, checks: &checks }, |screen| text(screen, &checks))?;
    match worst {
        Level::Ok => Ok(()),
        Level::Warning => Err(Code(1).into()),
        Level::Failure => Err(Code(2).into()),
    }
}

/// One line per check, and below what is not fine what to do about it.
fn text(screen: Screen, checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let mut out = String::new();
    for check in checks {
        let sign = match check.level {
            Level::Ok => ("32", "✓"),
            Level::Warning => ("33", "!"),
            Level::Failure => ("31", "✗"),
        };
        out += &screen::checked(screen, sign, (check.name, width), &check.found, check.fix.as_deref());
    }
    let count = |level| checks.iter().filter(|check| check.level == level).count();
    out + &match (count(Level::Warning), count(Level::Failure)) {
        (0, 0) => format!("{} checks, all fine\n", checks.len()),
        (warnings, failures) => format!("{} checks, {warnings} to look at, {failures} failed\n", checks.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::tests::at_widths;

    #[test]
    fn the_report_shows_marks_and_fixes() {
        let checks = [
            Check::ok("api", "Kubernetes v1.36.3"),
            Check::warn("webhooks", "none", "berth webhooks | kubectl apply -f -"),
            Check::fail("kinds", "missing", "berth crds | kubectl apply --server-side -f -"),
        ];
        insta::assert_snapshot!(text(Screen { width: None, colour: false }, &checks), @r"
        ✓ api       Kubernetes v1.36.3
        ! webhooks  none
                    → berth webhooks | kubectl apply -f -
        ✗ kinds     missing
                    → berth crds | kubectl apply --server-side -f -
        3 checks, 1 to look at, 1 failed
        ");
    }

    #[test]
    fn colour_is_only_used_when_asked_for() {
        let checks = [Check::ok("api", "fine")];
        let drawn = |colour| text(Screen { width: None, colour }, &checks);
        assert!(!drawn(false).contains('\x1b'));
        assert!(drawn(true).contains('\x1b'));
    }

    #[test]
    fn the_report_fits_any_screen_and_commands_stay_whole() {
        let long = "2 pools have no address left: GlobalInClusterIPPool/cp-vips and InClusterIPPool/team-a/ingress";
        let checks = [
            Check::ok("api", "Kubernetes v1.36.3"),
            Check::warn("pools", long, "enlarge them, or add others with the same labels; see the page about pools"),
            Check::fail("kinds", "2 kinds are missing", "berth crds | kubectl apply --server-side -f -"),
        ];
        insta::assert_snapshot!(at_widths(|screen| text(screen, &checks)));
    }
}
