//! `berth doctor`: is everything Berth stands on in place, and if not, what puts it there?

mod aws;
mod capacity;
mod checks;
mod claims;
pub mod cloudstack;
mod clusters;
mod hosts;
mod machines;
pub mod operator;
mod pools;
mod vip;
mod webhooks;

use api::meta::View;
use kit::class::chain;
use kit::kinds::{Kind, Kinds};
use kube::Client;
use serde::Serialize;

use crate::Code;
use crate::cli::DoctorOptions;
use crate::explain::print;
use crate::look::{Shown, every};
use crate::screen::{self, Screen, count};
use operator::Operator;

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

/// The version at which the server knows a kind, if it does.
async fn served<K: View>(client: &Client) -> Result<Option<Kind>, Box<kube::Error>> {
    let versions = Kind::of::<K>().at(K::VERSIONS);
    Ok(Kinds::new(client.clone()).first_served(&versions).await?.cloned())
}

/// The first of many, and how many there are more.
fn some(all: &[String]) -> String {
    let shown = all.iter().take(TOLD).cloned().collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(TOLD) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// The checks of one room, for a Berth that runs where the chart puts it; without the Secrets of clouds, which say nothing of
/// whether a room can take the place of another controller.
pub async fn of_room(client: &Client, room: &str) -> Vec<Check> {
    let operator = Operator::find(client, api::names::SYSTEM_NAMESPACE).await;
    of_room_by(client, room, &operator).await
}

/// The checks of one room; none for a room that has none.
async fn of_room_by(client: &Client, room: &str, operator: &Operator) -> Vec<Check> {
    match room {
        "vip" => Box::pin(vip::all(client)).await,
        "claims" => Box::pin(claims::all(client)).await,
        "machines" => Box::pin(machines::all(client)).await,
        "hosts" => Box::pin(hosts::all(client)).await,
        "capacity" => Box::pin(capacity::all(client, operator)).await,
        "clusters" => Box::pin(clusters::all(client)).await,
        _ => Vec::new(),
    }
}

/// Runs every check and prints the report. The exit code is 0 when all is fine, 1 with warnings, 2 with failures.
pub async fn doctor(options: DoctorOptions) -> anyhow::Result<()> {
    let agent = concat!("berth-doctor/", env!("CARGO_PKG_VERSION"));
    let client = crate::connect(&options.cluster, agent).await?;
    let mut operator = Operator::find(&client, &options.namespace).await;
    if let Some(system) = options.system_namespace {
        operator.flags.clusters.system_namespace = system;
    }
    let mut checks = checks::all(&client, &operator).await;
    if options.aws {
        let reach = aws::Reach::new(&options.aws_endpoint)?;
        checks.extend(Box::pin(aws::rights(&client, &options.namespace, &reach)).await);
    }
    if options.cloudstack {
        let reach = cloudstack::reach(&operator, &options.cloudstack_endpoint_allow);
        checks.extend(Box::pin(cloudstack::keys(&client, &operator, &reach)).await);
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
    let of = |level| checks.iter().filter(|check| check.level == level).count();
    let all = count(checks.len(), "check");
    out + &match (of(Level::Warning), of(Level::Failure)) {
        (0, 0) => format!("{all}, all fine\n"),
        (warnings, failures) => format!("{all}, {warnings} to look at, {failures} failed\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::tests::{at_widths, document};

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

    /// What is found of a cluster where something of everything is wrong.
    fn found() -> Vec<Check> {
        let edit =
            "kubectl edit globalinclusterippool cp-vips   (enlarge spec.addresses, or add a pool with the same labels)";
        let logs = "kubectl logs -n berth-system deployment/berth   (Berth renews it, and says there why it cannot)";
        let keys =
            "refused: eksa-system/global at acs.example.com: listCapabilities: unable to verify user credentials";
        let groups = "machinedeployment/workers -n team-a: FailedUpdate; machinedeployment/gpu -n team-b: FailedUpdate";
        vec![
            Check::ok("api", "Kubernetes v1.36.3"),
            Check::fail("kinds", "2 kinds are missing", "berth crds | kubectl apply --server-side -f -"),
            Check::ok("webhooks", "24 registered, each with a certificate authority"),
            Check::warn(
                "certificates",
                "the certificate in Secret berth-system/berth-webhook-certs expires at 2026-04-02T03:04:05Z",
                logs,
            ),
            Check::fail(
                "pools",
                "GlobalInClusterIPPool/cp-vips: 0 of 20 free, 3 claims wait; InClusterIPPool/team-a/ingress: 1 of 20 free, almost full",
                edit,
            ),
            Check::ok("hosts", "BareMetalHosts are not installed, and no claim waits for one"),
            Check::warn(
                "groups",
                groups,
                "berth explain machinedeployment/workers -n team-a   (tells what keeps it from being described)",
            ),
            Check::fail(
                "cloudstack clusters",
                "1 Cluster of EKS Anywhere, and not served: CloudStackCluster, CloudStackMachineTemplate",
                "clusterctl init --infrastructure cloudstack",
            ),
            Check::fail(
                "cloudstack keys",
                keys,
                "write keys that CloudStack knows into the Secret; they are used from the next look on",
            ),
        ]
    }

    #[test]
    fn the_report_fits_any_screen_and_commands_stay_whole() {
        insta::assert_snapshot!(at_widths(|screen| text(screen, &found())));
    }

    #[test]
    fn the_report_for_programs() {
        let checks = found();
        let report = Report { result: Level::Failure, checks: &checks };
        insta::assert_snapshot!(document("Doctor", &report));
    }
}
