//! `berth plan` for what others write and Berth fulfils: which host a claim of a file would get, which address a cluster.
//!
//! The objects of the files are laid beside what the server has, and told as `berth explain` would. Nothing is written, and
//! what is promised to others is not promised twice. What stands in the same files of clusters on CloudStack is told with it.

use ::claims::explain::{Sight as Hosts, explain as explain_claim};
use ::claims::yard::Settings;
use ::clusters::plan::Plan;
use ::vip::config::Config;
use ::vip::explain::{Sight as Addresses, explain as explain_cluster};
use anyhow::Context as _;
use api::key::ObjectKey;
use api::raw::HostClaim;
use api::views::Cluster;
use k8s_openapi::jiff::Timestamp;
use kit::clock::Clock;
use kit::explain::Explanation;
use kube::Client;
use serde_json::{Value, json};

use crate::cli::ClusterOptions;
use crate::explain::{Explanations, explanations_screen, print};
use crate::look::{self, Hardware, Reader, Which};
use crate::plan::{self, PlanOptions, Plans};
use crate::screen::Screen;
use crate::{Code, FAILED, Usage};

/// What is foretold of the files.
#[derive(Debug, Default, PartialEq)]
struct Wishes {
    claims: Vec<Value>,
    clusters: Vec<Value>,
    /// Whether the files hold something of clusters on CloudStack too, which are planned otherwise.
    anywhere: bool,
}

impl Wishes {
    /// The claims and clusters among the objects of these files.
    ///
    /// # Errors
    /// When a file is not YAML.
    fn read(files: &[(String, String)]) -> Result<Self, Usage> {
        let mut wishes = Self::default();
        for (file, text) in files {
            let wrong = |error| Usage(format!("{file}: {error}"));
            let objects: Vec<Value> = serde_saphyr::from_multiple(text).map_err(wrong)?;
            for object in objects {
                let part = |name: &str| object.get(name).and_then(Value::as_str);
                let of = |group: &str| part("apiVersion").is_some_and(|version| version.starts_with(group));
                match part("kind") {
                    Some("HostClaim") if of("metal3.io/") => wishes.claims.push(object),
                    Some("Cluster") if of("cluster.x-k8s.io/") => wishes.clusters.push(object),
                    Some(_) if of(api::names::clusters::GROUP) => wishes.anywhere = true,
                    _ => {}
                }
            }
        }
        Ok(wishes)
    }

    /// Whether there is nothing to tell.
    fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.clusters.is_empty()
    }
}

/// Plans the files: claims and clusters of Cluster API against the server, clusters on CloudStack as they always were.
pub fn plan(options: &PlanOptions) -> anyhow::Result<()> {
    let files = plan::texts(&options.file)?;
    let wishes = if options.live { Wishes::read(&files)? } else { Wishes::default() };
    let told = if wishes.is_empty() { Vec::new() } else { tell(&options.cluster, &wishes)? };
    // Whoever asks about claims alone needs no right to what CloudStack's clusters are made of.
    let plans = if wishes.is_empty() || wishes.anywhere { plan::plans(options, &files)? } else { Vec::new() };
    let output = options.output.output;
    if plans.is_empty() {
        if wishes.is_empty() {
            return Err(plan::nothing(options.live).into());
        }
        return print(output, "ExplanationList", &Explanations { items: &told }, |s| explanations_screen(s, &told));
    }
    print(output, "PlanList", &Plans { items: &plans, explanations: &told }, |screen| {
        both_screen(screen, &told, &plans)
    })?;
    if plans.iter().any(|plan| !plan.faults.is_empty()) { Err(Code(FAILED).into()) } else { Ok(()) }
}

fn both_screen(screen: Screen, told: &[Explanation], plans: &[Plan]) -> String {
    let parts = [explanations_screen(screen, told), plan::plans_screen(screen, plans)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Reads the server and says what would become of the claims and clusters.
fn tell(cluster: &ClusterOptions, wishes: &Wishes) -> anyhow::Result<Vec<Explanation>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    runtime.block_on(async {
        let client = crate::connect(cluster, concat!("berth-plan/", env!("CARGO_PKG_VERSION"))).await?;
        Box::pin(ahead(&client, wishes, Clock::system().now())).await
    })
}

async fn ahead(client: &Client, wishes: &Wishes, now: Timestamp) -> anyhow::Result<Vec<Explanation>> {
    let mut told = Vec::new();
    if !wishes.claims.is_empty() {
        let mut lists = look::claims(&Reader::new(client, None), &Which::All, Hardware::AtOnce, "plan").await?;
        let claims = wishes.claims.iter().map(|claim| born::<HostClaim>(client, claim, now));
        let claims = claims.collect::<Result<Vec<HostClaim>, Usage>>()?;
        let keys: Vec<ObjectKey> = claims.iter().map(ObjectKey::of).collect();
        lists.claims.retain(|there| !keys.contains(&ObjectKey::of(there)));
        lists.claims.extend(claims);
        let mut sight = Hosts::of(lists, Settings::default(), now);
        told.extend(keys.iter().filter_map(|key| explain_claim(&mut sight, key, now)));
    }
    if !wishes.clusters.is_empty() {
        let reader = Reader::new(client, None);
        let (_, mut lists) = Box::pin(look::addresses(&reader)).await?;
        let clusters = wishes.clusters.iter().map(|cluster| born::<Cluster>(client, cluster, now));
        let clusters = clusters.collect::<Result<Vec<Cluster>, Usage>>()?;
        let keys: Vec<ObjectKey> = clusters.iter().map(ObjectKey::of).collect();
        lists.clusters.retain(|there| !keys.contains(&ObjectKey::of(there)));
        lists.clusters.extend(clusters.iter().cloned());
        let sight = Addresses::of(lists, &Clock::system());
        told.extend(clusters.iter().map(|cluster| explain_cluster(&sight, cluster, &Config::default(), now)));
    }
    Ok(told)
}

/// An object as the server would have it a moment after it was made.
fn born<K: serde::de::DeserializeOwned>(client: &Client, object: &Value, now: Timestamp) -> Result<K, Usage> {
    let mut object = object.clone();
    let part = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, name) = (part("/kind"), part("/metadata/name"));
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.entry("namespace").or_insert_with(|| json!(client.default_namespace()));
        meta.entry("uid").or_insert_with(|| json!(format!("planned-{name}")));
        meta.entry("resourceVersion").or_insert_with(|| json!("0"));
        meta.entry("generation").or_insert_with(|| json!(1));
        meta.entry("creationTimestamp").or_insert_with(|| json!(format!("{now:.0}")));
    }
    serde_json::from_value(object).map_err(|error| Usage(format!("{kind} {name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use sim::server::{Kind, Server};

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn wishes(text: &str) -> Wishes {
        Wishes::read(&[("x.yaml".to_owned(), text.to_owned())]).unwrap()
    }

    fn server() -> Server {
        let server = Server::new(7);
        for (group, version, kind, plural) in [
            ("metal3.io", "v1alpha1", "HostClaim", "hostclaims"),
            ("metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts"),
            ("metal3.io", "v1alpha1", "HostDeployPolicy", "hostdeploypolicies"),
            ("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters"),
        ] {
            server.register(Kind::namespaced(group, version, kind, plural));
        }
        server.register(Kind::cluster(
            "ipam.cluster.x-k8s.io",
            "v1alpha2",
            "GlobalInClusterIPPool",
            "globalinclusterippools",
        ));
        for namespace in ["team-a", "metal"] {
            server.namespace(namespace);
        }
        server
    }

    fn host(name: &str, size: &str) -> Value {
        let plain = sim::metal::seed::host("metal", name, &json!({"size": size}));
        let status =
            json!({"status": {"provisioning": {"state": "available"}, "operationalStatus": "OK", "poweredOn": false}});
        sim::dock::objects::merged(plain, &status)
    }

    #[tokio::test]
    async fn a_claim_of_a_file_is_told_which_host_it_would_get_and_nothing_is_written() {
        let server = server();
        for object in [host("one", "small"), host("two", "large")] {
            server.put(object).unwrap();
        }
        let policy = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy",
            "metadata": {"namespace": "metal", "name": "teams"}, "spec": {"hostClaimNamespaces": {"names": ["team-a"]}}});
        server.put(policy).unwrap();
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/examples/claims/reserve.yaml");
        let wishes = wishes(&std::fs::read_to_string(file).unwrap());
        let told = Box::pin(ahead(&server.kube(), &wishes, NOW.parse().unwrap())).await.unwrap();
        let text = serde_json::to_string(&told).unwrap();
        assert!(told.len() == 1 && text.contains("bind metal/two") && !text.contains("bind metal/one"), "{text}");
        assert!(server.log().iter().all(|entry| entry.method == "GET"), "nothing is written");
    }

    #[tokio::test]
    async fn a_cluster_of_a_file_is_told_which_pool_it_would_be_served_from() {
        let server = server();
        server.put(sim::dock::objects::pool("vips", "quick", "10.40.0.1-10.40.0.9")).unwrap();
        let cluster = sim::dock::objects::cluster("team-a", "prod", "quick");
        let told = Box::pin(ahead(&server.kube(), &wishes(&cluster.to_string()), NOW.parse().unwrap())).await.unwrap();
        let text = serde_json::to_string(&told).unwrap();
        assert!(told.len() == 1 && text.contains("\"vips\"") && text.contains("\"rank\":1"), "{text}");
    }

    #[test]
    fn other_objects_are_passed_over_and_a_file_that_is_none_is_named() {
        let text = "apiVersion: v1\nkind: Secret\n";
        assert_eq!(wishes(text), Wishes::default());
        for kind in ["Cluster", "CloudStackMachineConfig"] {
            let found = wishes(&format!("{text}---\napiVersion: anywhere.eks.amazonaws.com/v1alpha1\nkind: {kind}\n"));
            assert!(found.is_empty() && found.anywhere, "{kind}: {found:?}");
        }
        let wrong = Wishes::read(&[("x.yaml".to_owned(), "a: [".to_owned())]);
        assert!(wrong.is_err_and(|Usage(why)| why.starts_with("x.yaml: ")));
    }

    #[test]
    fn whoever_forgets_to_ask_the_server_is_told_how() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "apiVersion: metal3.io/v1alpha1\nkind: HostClaim\nmetadata: {name: web}\n")
            .unwrap();
        let cli = crate::cli::Cli::parse_from(["berth", "plan", "-f", file.path().to_str().unwrap()]);
        let crate::cli::Command::Plan(options) = cli.command else { panic!("another command") };
        let refused = plan(&options).unwrap_err().to_string();
        assert!(refused.contains("HostClaims and Clusters of Cluster API are planned with --live"), "{refused}");
    }
}
