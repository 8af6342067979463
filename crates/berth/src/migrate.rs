//! `berth migrate` and `berth convert`: what has to change when Berth takes the place of another controller.
//!
//! Berth works on the kinds, labels and annotations of the controllers whose place it takes, so for most of them nothing
//! changes, and what is told rests on what was looked at. Machines of the Metal3 provider move to claims by another
//! template; that is done here, first as a plan, and with `--apply` in steps that each test what they rest on.

mod turn;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use api::key::ObjectKey;
use clap::{Args, ValueEnum};
use kit::class::chain;
use kit::kinds::{Kind, Kinds};
use kit::write::{Created, Target, Writer, add, test};
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::{OutputOptions, PlacesOptions};
use crate::doctor::{self, Check, Level};
use crate::explain::print;
use crate::plan;
use crate::screen::{self, Screen, count};
use crate::{Code, FAILED, Usage};
use turn::{Change, Turned, Way, rewritten, title, turn};

/// Objects in one answer of the server.
const PAGE: u32 = 500;
/// The definition whose templates must be able to name a kind.
const DEFINITION: &str = "metal3machinetemplates.infrastructure.cluster.x-k8s.io";

/// Whose place Berth takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// The earlier VIP allocator.
    VipAllocator,
    /// The claim controller of the bare-metal operator.
    BareMetalOperator,
    /// The Cluster API provider for Metal3.
    Metal3Provider,
    /// The Cluster API provider for AWS.
    AwsProvider,
    /// The annotator of OpenShift's machine API, or the one of Cluster API groups.
    CapacityAnnotator,
    /// The controller of EKS Anywhere, for CloudStack.
    EksAnywhere,
}

/// What is known of a peer.
struct Card {
    name: &'static str,
    room: &'static str,
    /// The kinds it works on: group, versions, kind and plural.
    kinds: &'static [(&'static str, &'static [&'static str], &'static str, &'static str)],
    /// Why nothing has to change.
    equal: &'static str,
    page: &'static str,
}

const CORE: &[&str] = &["v1beta2", "v1beta1"];
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

impl Peer {
    fn card(self) -> Card {
        match self {
            Self::VipAllocator => Card {
                name: "the earlier VIP allocator",
                room: "vip",
                kinds: &[
                    ("cluster.x-k8s.io", CORE, "ClusterClass", "clusterclasses"),
                    ("ipam.cluster.x-k8s.io", &["v1beta2", "v1beta1", "v1alpha1"], "IPAddressClaim", "ipaddressclaims"),
                    ("ipam.cluster.x-k8s.io", &["v1alpha2"], "GlobalInClusterIPPool", "globalinclusterippools"),
                    ("ipam.cluster.x-k8s.io", &["v1alpha2"], "InClusterIPPool", "inclusterippools"),
                ],
                equal: "handlers, labels, annotations and names of claims are the same, and claims are taken over",
                page: "vip/operating.md#upgrade-from-the-earlier-allocator",
            },
            Self::BareMetalOperator => Card {
                name: "the claim controller of the bare-metal operator",
                room: "claims",
                kinds: &[
                    ("metal3.io", &["v1alpha1"], "HostClaim", "hostclaims"),
                    ("metal3.io", &["v1alpha1"], "HostDeployPolicy", "hostdeploypolicies"),
                ],
                equal: "group, version, finalizer and the reference on hosts are the same, and bound claims are taken over",
                page: "claims/operating.md#beside-the-upstream-operator",
            },
            Self::Metal3Provider => Card {
                name: "the Cluster API provider for Metal3",
                room: "machines",
                kinds: &[
                    (INFRASTRUCTURE, CORE, "Metal3Cluster", "metal3clusters"),
                    (INFRASTRUCTURE, CORE, "Metal3Machine", "metal3machines"),
                ],
                equal: "no template without a kind has machines",
                page: "machines/migration.md",
            },
            Self::AwsProvider => Card {
                name: "the Cluster API provider for AWS",
                room: "hosts",
                kinds: &[
                    (INFRASTRUCTURE, &["v1beta2"], "AWSMachine", "awsmachines"),
                    (INFRASTRUCTURE, &["v1beta2"], "AWSMachineTemplate", "awsmachinetemplates"),
                ],
                equal: "finalizer, provider id and tags are the same; a host is taken over once its instance confirms it",
                page: "hosts/operating.md#beside-or-instead-of-the-provider",
            },
            Self::CapacityAnnotator => Card {
                name: "another annotator of groups",
                room: "capacity",
                kinds: &[
                    ("machine.openshift.io", &["v1beta1"], "MachineSet", "machinesets"),
                    ("cluster.x-k8s.io", CORE, "MachineDeployment", "machinedeployments"),
                ],
                equal: "the annotations are the same and are compared by what they mean, so none is written twice",
                page: "capacity/tutorial.md#on-openshift",
            },
            Self::EksAnywhere => Card {
                name: "the controller of EKS Anywhere",
                room: "clusters",
                kinds: &[
                    (api::names::clusters::GROUP, &["v1alpha1"], "Cluster", "clusters"),
                    (
                        api::names::clusters::GROUP,
                        &["v1alpha1"],
                        "CloudStackDatacenterConfig",
                        "cloudstackdatacenterconfigs",
                    ),
                    (api::names::clusters::GROUP, &["v1alpha1"], "CloudStackMachineConfig", "cloudstackmachineconfigs"),
                ],
                equal: "names, field manager, finalizer and conditions are the same, and clusters are taken as they are",
                page: "clusters/operating.md#clusters-made-by-eks-anywhere",
            },
        }
    }
}

/// Flags of `berth migrate`.
#[derive(Args, Debug)]
pub struct MigrateOptions {
    /// Whose place Berth takes
    #[arg(long, value_name = "PEER")]
    pub from: Peer,
    #[command(flatten)]
    pub places: PlacesOptions,
    /// Write what would be written; without it nothing is
    #[arg(long)]
    pub apply: bool,
    #[command(flatten)]
    pub output: OutputOptions,
    // The heading stays for whatever comes after it.
    #[command(flatten)]
    pub turn: TurnOptions,
}

/// Which templates are turned, and where to. They are those of the Metal3 provider; other peers have nothing to turn.
#[derive(Args, Debug)]
#[command(next_help_heading = "Machines of Metal3")]
pub struct TurnOptions {
    /// Kind of the claims that machines get
    #[arg(long, value_name = "KIND", default_value = "baremetal")]
    pub kind: api::names::DnsLabel,
    /// The other way around: from claims back to hosts that are taken directly
    #[arg(long, conflicts_with = "kind")]
    pub back: bool,
    /// Only this Metal3MachineTemplate; repeatable
    #[arg(long, value_name = "NAME")]
    pub template: Vec<String>,
}

impl TurnOptions {
    fn way(&self) -> Way {
        if self.back { Way::Hosts } else { Way::Claims(self.kind.to_string()) }
    }
}

/// Flags of `berth convert`.
#[derive(Args, Debug)]
pub struct ConvertOptions {
    /// File with Metal3MachineTemplates and whatever names them; repeatable; - for standard input
    #[arg(short, long, value_name = "FILE", required = true)]
    pub file: Vec<PathBuf>,
    #[command(flatten)]
    pub turn: TurnOptions,
}

/// What there is to do, and what was done.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    from: &'static str,
    /// Whether anything has to change at all.
    equal: bool,
    applied: bool,
    /// The whole in a sentence.
    summary: String,
    steps: Vec<Step>,
    checks: Vec<Check>,
    page: &'static str,
}

/// One object.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Step {
    /// `make`, `change`, `keep` or `stuck`.
    action: &'static str,
    object: String,
    note: String,
    /// What became of it; empty while it is only planned.
    #[serde(skip_serializing_if = "String::is_empty")]
    outcome: String,
}

/// Converts files and prints them.
pub fn convert(options: &ConvertOptions) -> anyhow::Result<()> {
    let mut objects = Vec::new();
    for file in &options.file {
        let text = plan::read(file).map_err(|error| Usage(format!("{}: {error}", file.display())))?;
        let parsed: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| Usage(format!("{}: {error}", file.display())))?;
        objects.extend(parsed.into_iter().filter(|object| !object.is_null()));
    }
    let turned = turn(&objects, &options.turn.way(), &options.turn.template);
    for (object, why) in turned.stuck.iter().chain(&turned.left) {
        eprintln!("berth: {object}: {why}");
    }
    let mut out = std::io::stdout().lock();
    for object in rewritten(&objects, &turned) {
        write!(out, "---\n{}", serde_saphyr::to_string(&object)?)?;
    }
    if turned.stuck.is_empty() { Ok(()) } else { Err(Code(FAILED).into()) }
}

/// Says what has to change, and changes it if that is asked for.
pub async fn migrate(options: MigrateOptions) -> anyhow::Result<()> {
    let agent = concat!("berth-migrate/", env!("CARGO_PKG_VERSION"));
    let client = crate::connect(options.places.cluster(), agent).await?;
    let only = options.places.namespace(&client);
    let report = Box::pin(report(&client, options.from, only.as_deref(), &options.turn, options.apply)).await?;
    print(options.output.output, "Migration", &report, |screen| draw(screen, &report))?;
    let failed = report.steps.iter().any(|step| step.action == "stuck" || step.outcome.starts_with("failed"))
        || report.checks.iter().any(|check| check.level == Level::Failure);
    if failed { Err(Code(FAILED).into()) } else { Ok(()) }
}

async fn report(
    client: &Client,
    peer: Peer,
    only: Option<&str>,
    flags: &TurnOptions,
    apply: bool,
) -> anyhow::Result<Report> {
    let card = peer.card();
    let (mut checks, mut seen) = (Vec::new(), Vec::new());
    for (group, versions, kind, plural) in card.kinds {
        match every(client, group, versions, kind, plural, only).await {
            Ok(Some(objects)) => seen.push(count(objects.len(), kind)),
            Ok(None) => checks.push(Check::ok("kinds", format!("the server does not know {kind} ({group})"))),
            Err(error) => checks.push(Check::fail("kinds", chain(&*error), "berth doctor")),
        }
    }
    checks.extend(doctor::of_room(client, card.room).await);
    if peer == Peer::EksAnywhere {
        checks.extend(bundles(client, only).await);
    }
    let mut steps = Vec::new();
    if peer == Peer::Metal3Provider {
        let (found, check) = templates(client, only).await?;
        checks.extend(check);
        let writable = checks.iter().all(|check| check.level != Level::Failure);
        let turned = turn(&found, &flags.way(), &flags.template);
        steps = Box::pin(carried(client, turned, apply && writable)).await;
        if apply && !writable {
            checks.push(Check::fail("apply", "nothing was written, because of what is wrong above", "berth doctor"));
        }
    }
    let changes = steps.iter().filter(|step| matches!(step.action, "make" | "change")).count();
    let found = if seen.is_empty() { "nothing".to_owned() } else { seen.join(", ") };
    let equal = changes == 0 && steps.iter().all(|step| step.action != "stuck");
    let summary = match (equal, apply) {
        (true, _) => format!("{found} found; nothing needs converting: {}", card.equal),
        (false, false) => format!("{found} found; {} would change, and nothing was written", count(changes, "object")),
        (false, true) => format!("{found} found; {} to change", count(changes, "object")),
    };
    Ok(Report { from: card.name, equal, applied: apply, summary, steps, checks, page: card.page })
}

/// Every object of a kind, at the first version that is served; none where the kind is not.
async fn every(
    client: &Client,
    group: &str,
    versions: &[&str],
    kind: &str,
    plural: &str,
    only: Option<&str>,
) -> Result<Option<Vec<DynamicObject>>, Box<kube::Error>> {
    let kind =
        Kind { group: group.to_owned(), version: String::new(), kind: kind.to_owned(), plural: plural.to_owned() };
    let candidates = kind.at(versions);
    let Some(kind) = Kinds::new(client.clone()).first_served(&candidates).await? else { return Ok(None) };
    let clusterwide = kind.kind == "GlobalInClusterIPPool";
    let api: Api<DynamicObject> = match only.filter(|_| !clusterwide) {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource()),
        None => Api::all_with(client.clone(), &kind.resource()),
    };
    let (mut all, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let page = api.list(&params).await?;
        let token = page.metadata.continue_.filter(|token| !token.is_empty());
        // Lists leave out what every object in them is.
        all.extend(page.items.into_iter().map(|mut object| {
            object.types = Some(kube::api::TypeMeta { api_version: kind.api_version(), kind: kind.kind.clone() });
            object
        }));
        match token {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(Some(all)),
        }
    }
}

/// Templates of Metal3 and everything that names one, and whether the definition can hold a kind.
async fn templates(client: &Client, only: Option<&str>) -> anyhow::Result<(Vec<Value>, Option<Check>)> {
    let mut all = Vec::new();
    for (group, versions, kind, plural) in [
        (INFRASTRUCTURE, &["v1beta2"][..], turn::TEMPLATE, "metal3machinetemplates"),
        ("cluster.x-k8s.io", CORE, "MachineDeployment", "machinedeployments"),
        ("cluster.x-k8s.io", CORE, "MachineSet", "machinesets"),
        ("controlplane.cluster.x-k8s.io", CORE, "KubeadmControlPlane", "kubeadmcontrolplanes"),
    ] {
        let found = every(client, group, versions, kind, plural, only).await;
        let found = found.with_context(|| format!("listing {plural}"))?;
        if kind == turn::TEMPLATE && found.is_none() {
            let why = format!("the server does not know {} {kind}", turn::TEMPLATE_VERSION);
            return Ok((all, Some(Check::fail("templates", why, "berth crds | kubectl apply --server-side -f -"))));
        }
        for object in found.into_iter().flatten() {
            all.push(serde_json::to_value(object)?);
        }
    }
    Ok((all, knows_kinds(client).await))
}

/// Whether a template may name a kind. With the provider's own definition the server would drop it without a word.
async fn knows_kinds(client: &Client) -> Option<Check> {
    let kind = Kind {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        plural: "customresourcedefinitions".to_owned(),
    };
    let definitions: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
    let definition = match definitions.get(DEFINITION).await {
        Ok(definition) => definition,
        Err(error) => {
            let why = format!("the definition of {} cannot be read: {}", turn::TEMPLATE, chain(&error));
            return Some(Check::fail("templates", why, "ask with rights to get customresourcedefinitions"));
        }
    };
    let versions = definition.data.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let field = "/schema/openAPIV3Schema/properties/spec/properties/template/properties/spec/properties/kind";
    let held = versions.iter().any(|version| version["name"] == "v1beta2" && version.pointer(field).is_some());
    let fix = "install Berth's definitions: crds.metal3=true in the chart";
    (!held).then(|| Check::fail("templates", "templates of this server cannot name a kind", fix))
}

/// Bundles that Berth cannot make clusters of, because it downloads nothing.
async fn bundles(client: &Client, only: Option<&str>) -> Option<Check> {
    let group = api::names::clusters::GROUP;
    let all = match every(client, group, &["v1alpha1"], "Bundles", "bundles", only).await {
        Ok(all) => all?,
        Err(error) => return Some(Check::fail("bundles", chain(&*error), "berth doctor")),
    };
    let lacking = |bundles: &&DynamicObject| {
        let versions = bundles.data.pointer("/spec/versionsBundles").and_then(Value::as_array);
        versions.into_iter().flatten().any(|version| {
            version.pointer("/kubeDistro").is_none() || version.pointer("/cilium/manifestConfigMapRef").is_none()
        })
    };
    let named: Vec<String> = all.iter().filter(lacking).map(|bundles| ObjectKey::of(bundles).to_string()).collect();
    if named.is_empty() {
        return Some(Check::ok("bundles", format!("{} with everything inline", count(all.len(), "Bundle"))));
    }
    let found = format!("{} without kubeDistro or cilium.manifestConfigMapRef inline", named.join(", "));
    Some(Check::fail(
        "bundles",
        found,
        "replace them as the tutorial shows, under the same names: Berth downloads nothing",
    ))
}

/// Carries the changes out, or tells them. A step that fails ends those that rest on it.
async fn carried(client: &Client, turned: Turned, apply: bool) -> Vec<Step> {
    let writer = Writer::new(client.clone(), "migrate");
    let mut steps = Vec::new();
    let mut broken = false;
    for change in &turned.changes {
        let (action, object, note) = match change {
            Change::Make(copy) => {
                let kind = copy.pointer("/spec/template/spec/kind").and_then(Value::as_str);
                let note = kind
                    .map_or_else(|| "a copy without a kind".to_owned(), |kind| format!("a copy of the kind {kind}"));
                ("make", title(copy), note)
            }
            Change::Refer { user, from, to, .. } => {
                let note = format!("names {to} instead of {from}, and Cluster API replaces {}", machines(user));
                ("change", title(user), note)
            }
        };
        let outcome = match apply {
            false => String::new(),
            true if broken => "failed: not tried, because a step before it failed".to_owned(),
            true => match Box::pin(write(&writer, change)).await {
                Ok(()) => "done".to_owned(),
                Err(error) => {
                    broken = true;
                    format!("failed: {error:#}")
                }
            },
        };
        steps.push(Step { action, object, note, outcome });
    }
    let more = |action: &'static str, all: Vec<(String, String)>| {
        all.into_iter().map(move |(object, note)| Step { action, object, note, outcome: String::new() })
    };
    steps.extend(more("stuck", turned.stuck));
    steps.extend(more("keep", turned.left));
    steps
}

fn machines(user: &Value) -> String {
    match user.pointer("/spec/replicas").and_then(Value::as_u64) {
        Some(number) => format!("its {}", count(usize::try_from(number).unwrap_or(usize::MAX), "machine")),
        None => "its machines".to_owned(),
    }
}

async fn write(writer: &Writer, change: &Change) -> anyhow::Result<()> {
    match change {
        Change::Make(copy) => {
            let kind = kind_of(copy, "metal3machinetemplates");
            let namespace = copy.pointer("/metadata/namespace").and_then(Value::as_str);
            match writer.create(&kind, namespace, copy).await {
                Ok(Created::New(_)) => Ok(()),
                Ok(Created::Existing(there)) if there.pointer("/spec") == copy.pointer("/spec") => Ok(()),
                Ok(Created::Existing(_)) => Err(anyhow!("one of this name is there and says something else")),
                Err(error) => Err(anyhow!("{}", chain(&error))),
            }
        }
        Change::Refer { user, path, from, to } => {
            let plural = match user.pointer("/kind").and_then(Value::as_str) {
                Some("MachineDeployment") => "machinedeployments",
                Some("MachineSet") => "machinesets",
                _ => "kubeadmcontrolplanes",
            };
            let object: DynamicObject = serde_json::from_value(user.clone())?;
            let uid = object.uid().unwrap_or_default();
            let target = Target { kind: kind_of(user, plural), key: ObjectKey::of(&object), uid: uid.into() };
            // It is changed only as it was looked at: the same object, which names the same template.
            let operations = vec![test(path, json!(from)), add(path, json!(to))];
            writer.operations(&target, operations).await.map(|_| ()).map_err(|error| anyhow!("{}", chain(&error)))
        }
    }
}

fn kind_of(object: &Value, plural: &str) -> Kind {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let version = text("/apiVersion");
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    Kind { group: group.to_owned(), version: version.to_owned(), kind: text("/kind"), plural: plural.to_owned() }
}

fn draw(screen: Screen, report: &Report) -> String {
    let mut out = screen::text(screen, &format!("From {}: {}", report.from, report.summary));
    let names = report.checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let width = report.steps.iter().map(|step| step.action.len()).max().unwrap_or_default();
    if !report.steps.is_empty() {
        out.push('\n');
    }
    for step in &report.steps {
        let sign = match (step.action, step.outcome.as_str()) {
            ("stuck", _) => ("31", "✗"),
            (_, failed) if failed.starts_with("failed") => ("31", "✗"),
            ("keep", _) => ("2", "-"),
            (_, "") => ("33", "…"),
            _ => ("32", "✓"),
        };
        let outcome = if step.outcome.is_empty() { String::new() } else { format!(" ({})", step.outcome) };
        let found = format!("{}: {}{outcome}", step.object, step.note);
        out += &screen::checked(screen, sign, (step.action, width), &found, None);
    }
    if !report.checks.is_empty() {
        out.push('\n');
    }
    for check in &report.checks {
        let sign = match check.level {
            Level::Ok => ("32", "✓"),
            Level::Warning => ("33", "!"),
            Level::Failure => ("31", "✗"),
        };
        out += &screen::checked(screen, sign, (check.name, names), &check.found, check.fix.as_deref());
    }
    out.push('\n');
    let planned = report.steps.iter().any(|step| step.outcome.is_empty() && matches!(step.action, "make" | "change"));
    if planned && !report.applied {
        out += &screen::text(screen, "Write it with --apply; --template takes one template at a time.");
    }
    out + &screen::text(screen, &format!("The way is described in the book: {}", report.page))
}

#[cfg(test)]
mod tests;
