//! `berth plan`: what would be done for the clusters of files, told and not done. Without `--live` no server is asked.

mod server;

use std::io::Read;
use std::path::{Path, PathBuf};

use ::clusters::admit::Terms;
use ::clusters::change::{Action, Cause, Effect, Role, RoleChange};
use ::clusters::plan::{Documents, Plan, Server, plan, plan_running};
use ::clusters::render::Settings;
use ::clusters::version::Newest;
use anyhow::Context;
use clap::{Args, ValueEnum};
use kit::explain::Explanation;
use serde::Serialize;
use serde_json::Value;

use crate::Usage;
use crate::ahead::{AheadOptions, PassedOver};
use crate::cli::{ClusterOptions, OutputOptions};
use crate::screen::{self, Screen};

/// Files larger than this are not read.
const FILE_LIMIT: u64 = 8 << 20;
/// More causes than this are only counted on a screen.
const CAUSES_SHOWN: usize = 8;
/// Longer values are cut on a screen.
const VALUE_SHOWN: usize = 40;

/// Flags of `berth plan`.
#[derive(Args, Debug)]
pub struct PlanOptions {
    /// File with the Cluster and what it refers to, also the Bundles; repeatable; - for standard input
    #[arg(short, long, value_name = "FILE", required = true)]
    pub file: Vec<PathBuf>,
    /// File with the same objects as they are now, to see what the change does; repeatable
    #[arg(long, value_name = "FILE")]
    pub old: Vec<PathBuf>,
    /// Compare with the clusters as they run: what is not in the files is read from the server, and nothing is written
    #[arg(long, conflicts_with = "old")]
    pub live: bool,
    #[command(flatten)]
    pub output: OutputOptions,
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Newest version of Kubernetes that is admitted, such as 1.31, or auto
    #[arg(long, value_name = "VERSION", default_value = "auto", value_parser = newest, help_heading = "As the operator runs")]
    pub cloudstack_max_kubernetes_version: Newest,
    /// Admit arguments for the API server of clusters
    #[arg(long, help_heading = "As the operator runs")]
    pub enable_api_server_extra_args: bool,
    /// Whether kube-vip holds the endpoint of clusters that do not say
    #[arg(long, value_name = "SWITCH", default_value = "on", help_heading = "As the operator runs")]
    pub kube_vip_default: Switch,
    /// Registry that a mirror without namespaces stands in for
    #[arg(long, value_name = "HOST", default_value = "public.ecr.aws", help_heading = "As the operator runs")]
    pub core_registry: String,
    /// Namespace of bundles and every generated object
    #[arg(long, value_name = "NAME", default_value = api::names::clusters::SYSTEM_NAMESPACE, help_heading = "As the operator runs")]
    pub system_namespace: String,
    // Boxed: these are as many as those of all other commands together. The heading stays for whatever comes after it.
    #[command(flatten, next_help_heading = "As the operator runs")]
    pub ahead: Box<AheadOptions>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On.
    On,
    /// Off.
    Off,
}

/// Reads `--cloudstack-max-kubernetes-version`.
pub fn newest(text: &str) -> Result<Newest, String> {
    text.parse().map_err(|_| format!("`{text}` is neither auto nor a version such as 1.31"))
}

/// The plans of the clusters on CloudStack that the files are about; none when they are about no such cluster.
pub fn plans(options: &PlanOptions, files: &[(String, String)]) -> anyhow::Result<Vec<Plan>> {
    let new = documents(files)?;
    let old = (!options.old.is_empty()).then(|| documents(&texts(&options.old)?)).transpose()?;
    let terms = Terms {
        newest: options.cloudstack_max_kubernetes_version.limit(None),
        extra_args: options.enable_api_server_extra_args,
    };
    let settings = Settings {
        kube_vip: options.kube_vip_default == Switch::On,
        core_registry: options.core_registry.clone(),
        system_namespace: options.system_namespace.clone(),
    };
    Ok(if options.live {
        plan_running(&new, &running(options)?, &terms, &settings)
    } else {
        plan(&new, old.as_ref(), &terms, &settings)
    })
}

/// What is said of files that nothing can be told of.
pub fn nothing(live: bool) -> Usage {
    let what = format!("the files hold no workload Cluster of the group {}", api::names::clusters::GROUP);
    Usage(if live {
        format!(
            "--file: {what}, no HostClaim and no Cluster, machine or group of machines of Cluster API, and none on the server refers to what they hold"
        )
    } else {
        format!("--file: {what}; HostClaims, and Clusters, machines and groups of Cluster API, are planned with --live")
    })
}

/// What the server holds; files alone need none, and no runtime.
fn running(options: &PlanOptions) -> anyhow::Result<Server> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        let agent = concat!("berth-plan/", env!("CARGO_PKG_VERSION"));
        let client = crate::connect(&options.cluster, agent).await?;
        server::read(&client, &options.system_namespace).await
    })
}

/// What is told of clusters on CloudStack, and with it of what else the files hold.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plans<'p> {
    /// The plans.
    pub items: &'p [Plan],
    /// What would become of what others write in the same files.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub explanations: &'p [Explanation],
    /// What nothing was told of.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub passed_over: &'p [PassedOver],
}

fn documents(files: &[(String, String)]) -> Result<Documents, Usage> {
    let mut all = Documents::default();
    for (file, text) in files {
        all.read(text).map_err(|error| Usage(format!("{file}: {error}")))?;
    }
    Ok(all)
}

/// The names and texts of files, each of which is read once: standard input cannot be read again.
pub fn texts(files: &[PathBuf]) -> Result<Vec<(String, String)>, Usage> {
    let named = |file: &PathBuf| {
        let (name, text) = (file.display().to_string(), read(file));
        text.map(|text| (name.clone(), text)).map_err(|error| Usage(format!("{name}: {error}")))
    };
    files.iter().map(named).collect()
}

/// The text of a file, or of standard input for `-`.
pub fn read(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let mut source: Box<dyn Read> =
        if file == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(file)?) };
    let length = source.by_ref().take(FILE_LIMIT + 1).read_to_string(&mut text)?;
    if u64::try_from(length).unwrap_or(u64::MAX) > FILE_LIMIT {
        return Err(std::io::Error::other(format!("larger than {} MiB", FILE_LIMIT >> 20)));
    }
    Ok(text)
}

/// What people read of plans.
pub fn plans_screen(screen: Screen, plans: &[Plan]) -> String {
    plans.iter().map(|plan| plan_screen(screen, plan)).collect::<Vec<_>>().join("\n")
}

fn plan_screen(screen: Screen, plan: &Plan) -> String {
    let bundle = plan.bundles.as_deref().map(|bundle| format!(", images of {bundle}")).unwrap_or_default();
    let title = format!("Cluster {}/{}: Kubernetes {}{bundle}", plan.namespace, plan.name, plan.kubernetes_version);
    let mut out = screen::text(screen, &title);
    for warning in &plan.warnings {
        out += &screen::text(screen, &format!("! {warning}"));
    }
    if !plan.faults.is_empty() {
        out += "\n";
        out += &screen::text(screen, "It would be refused; nothing would be done.");
        for fault in &plan.faults {
            out += &screen::text(screen, &format!("✗ {} {}: {}", fault.kind, fault.name, fault.message));
        }
        return out;
    }
    let shown = |action| match action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Delete => "delete",
        Action::Keep => "keep",
    };
    let rows = plan.objects.iter().filter(|change| change.action != Action::Keep);
    let rows: Vec<[String; 3]> =
        rows.map(|change| [shown(change.action).to_owned(), change.kind.clone(), change.name.clone()]).collect();
    out += "\n";
    out += &if rows.is_empty() {
        screen::text(screen, "No object would change.")
    } else {
        screen::table(screen, ["ACTION", "OBJECT", "NAME"], &rows)
    };
    out += "\n";
    for change in &plan.machines {
        out += &screen::text(screen, &role_line(change));
        for cause in change.because.iter().take(CAUSES_SHOWN) {
            out += &screen::text(screen, &format!("  because {}", cause_line(cause)));
        }
        if change.because.len() > CAUSES_SHOWN {
            out += &screen::text(screen, &format!("  and {} more differences", change.because.len() - CAUSES_SHOWN));
        }
    }
    out
}

fn role_line(change: &RoleChange) -> String {
    let role = match &change.role {
        Role::ControlPlane => "control plane".to_owned(),
        Role::Group(name) => format!("group {name}"),
    };
    let machines = |count: i64| if count == 1 { "1 machine".to_owned() } else { format!("{count} machines") };
    let wanted = change.replicas.map_or_else(|| "as many as cluster-autoscaler says".to_owned(), machines);
    let resized = change.replicas_before.map(|before| format!(" (was {before})")).unwrap_or_default();
    match change.effect {
        Effect::Create => format!("{role}: {wanted} would be made"),
        Effect::Roll => format!("{role}: every machine would be replaced, {wanted}{resized}"),
        Effect::Scale => format!("{role}: {wanted}{resized}, none would be replaced"),
        Effect::Remove => format!("{role}: all its machines would be removed"),
        Effect::Keep => format!("{role}: no machine would be replaced"),
    }
}

fn cause_line(cause: &Cause) -> String {
    let difference = &cause.difference;
    let at = format!("{} {}", cause.kind, difference.path);
    match (&difference.old, &difference.new) {
        (Some(old), Some(new)) => format!("{at}: {} -> {}", value(old), value(new)),
        (None, Some(new)) => format!("{at}: {} is new", value(new)),
        (Some(old), None) => format!("{at}: {} is gone", value(old)),
        (None, None) => at,
    }
}

fn value(value: &Value) -> String {
    let text = value.to_string();
    let mut short: String = text.chars().take(VALUE_SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::screen::tests::{at_widths, document};

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGE7LJhzVsoIcAcSZjhoSDDTH12Jl0t6eJLWlrHjBPGi";

    /// A cluster with everything that it refers to.
    pub fn files(version: &str, offering: &str, count: u8, host: &str) -> Documents {
        let text = format!(
            r#"
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Cluster
metadata: {{name: prod, namespace: team-a}}
spec:
  kubernetesVersion: "{version}"
  managementCluster: {{name: mgmt}}
  datacenterRef: {{kind: CloudStackDatacenterConfig, name: dc}}
  clusterNetwork:
    pods: {{cidrBlocks: [192.168.0.0/16]}}
    services: {{cidrBlocks: [10.96.0.0/12]}}
    cniConfig: {{cilium: {{}}}}
  controlPlaneConfiguration:
    count: 1
    endpoint: {{host: "{host}"}}
    machineGroupRef: {{kind: CloudStackMachineConfig, name: cp}}
  workerNodeGroupConfigurations:
  - name: md-0
    count: {count}
    machineGroupRef: {{kind: CloudStackMachineConfig, name: worker}}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: CloudStackDatacenterConfig
metadata: {{name: dc, namespace: team-a}}
spec:
  availabilityZones:
  - name: az-1
    credentialsRef: global
    managementApiEndpoint: https://cs.example/client/api
    zone: {{name: zone-1, network: {{name: net-1}}}}
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: CloudStackMachineConfig
metadata: {{name: cp, namespace: team-a}}
spec:
  template: {{name: ubuntu-1.31}}
  computeOffering: {{name: {offering}}}
  users: [{{name: capc, sshAuthorizedKeys: ["{KEY}"]}}]
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: CloudStackMachineConfig
metadata: {{name: worker, namespace: team-a}}
spec:
  template: {{name: ubuntu-1.31}}
  computeOffering: {{name: large}}
  users: [{{name: capc, sshAuthorizedKeys: ["{KEY}"]}}]
---
apiVersion: anywhere.eks.amazonaws.com/v1alpha1
kind: Bundles
metadata: {{name: bundles-7, namespace: eksa-system}}
spec:
  number: 7
  versionsBundles:
  - kubeVersion: "1.31"
    kubeDistro: {{kubernetes: {{repository: images.example/k8s, tag: v1.31.4}}}}
    cloudStack: {{kubeVip: {{uri: "images.example/kube-vip:v1"}}}}
"#
        );
        let mut documents = Documents::default();
        documents.read(&text).unwrap();
        documents
    }

    fn screens(new: &Documents, old: Option<&Documents>) -> String {
        let plans = plan(new, old, &Terms::default(), &Settings::default());
        at_widths(|screen| plans_screen(screen, &plans))
    }

    #[test]
    fn a_new_cluster() {
        insta::assert_snapshot!(screens(&files("1.31", "large", 2, "172.16.0.5"), None));
    }

    #[test]
    fn a_change_that_replaces_and_one_that_scales() {
        let old = files("1.31", "large", 2, "172.16.0.5");
        insta::assert_snapshot!(screens(&files("1.31", "huge", 3, "172.16.0.5"), Some(&old)));
    }

    #[test]
    fn no_change() {
        let same = files("1.31", "large", 2, "172.16.0.5");
        insta::assert_snapshot!(screens(&same, Some(&same)));
    }

    #[test]
    fn faults() {
        let old = files("1.31", "large", 2, "172.16.0.5");
        insta::assert_snapshot!(screens(&files("1.29", "large", 2, "172.16.0.6:0"), Some(&old)));
    }

    #[test]
    fn the_document_for_programs() {
        let old = files("1.31", "large", 2, "172.16.0.5");
        let plans = plan(&files("1.31", "huge", 3, "172.16.0.5"), Some(&old), &Terms::default(), &Settings::default());
        let plans = Plans { items: &plans, explanations: &[], passed_over: &[] };
        insta::assert_snapshot!(document("PlanList", &plans));
    }
}
