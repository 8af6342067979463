//! The screens of groups of machines and control planes.

use api::views;
use clap::Parser as _;
use kit::explain::Node;
use serde_json::json;
use sim::server::{Action, Rule, Server};

use super::super::{Subject, members};
use super::at_widths;
use super::requests::{CORE, PLANES, TEAM, group, member, serve, world};
use crate::cli::{Cli, Command};
use crate::screen;

const WORKERS: &str = "cluster.x-k8s.io/deployment-name";

/// A group of three machines, of which one is on its way, and a control plane of one.
fn site() -> Server {
    let server = world(0);
    serve::<views::MachineSet>(&server);
    serve::<views::KubeadmControlPlane>(&server);
    group(&server, CORE, "MachineDeployment", "workers", [3, 2]);
    let set = group(&server, CORE, "MachineSet", "workers-x", [3, 2]);
    let plane = group(&server, PLANES, "KubeadmControlPlane", "prod", [1, 1]);
    let label = json!({WORKERS: "workers"});
    for name in ["worker-1", "worker-2"] {
        member(&server, name, &set, &label);
    }
    member(&server, "plane-1", &plane, &json!({"cluster.x-k8s.io/control-plane": ""}));
    let labels = json!({WORKERS: "workers", "cluster.x-k8s.io/cluster-name": "prod"});
    let new = json!({"apiVersion": CORE, "kind": "Machine",
        "metadata": {"namespace": TEAM, "name": "worker-3", "labels": labels},
        "status": {"phase": "Pending"}, "spec": {"clusterName": "prod", "version": "v1.34.1"}});
    server.put(new).unwrap();
    server
}

async fn drawn(server: &Server, subject: &str) -> anyhow::Result<Node> {
    let client = server.client("person").kube();
    let Command::Tree(options) = Cli::parse_from(["berth", "tree", subject, "-n", TEAM]).command else {
        panic!("no tree")
    };
    match &options.about.subject {
        Subject::Group(kinds, name) => members::draw(&client, &options.about, kinds, name).await,
        Subject::Plane(name) => members::plane(&client, &options.about, name).await,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_and_a_control_plane_are_drawn_on_every_screen() {
    let server = site();
    for (subject, name) in [("machinedeployment/workers", "a_group"), ("kubeadmcontrolplane/prod", "a_control_plane")] {
        let root = drawn(&server, subject).await.unwrap();
        insta::assert_snapshot!(name, at_widths(|screen| screen::tree(screen, &screen::folded(&root))));
    }
}

#[tokio::test(start_paused = true)]
async fn machines_that_may_not_be_listed_are_not_told_as_none() {
    let server = site();
    server.inject(Rule::any().path_contains("/machines").always(), Action::Status(403));
    let error = drawn(&server, "machinedeployment/workers").await.unwrap_err().to_string();
    assert!(error.starts_with("you may not list machines.cluster.x-k8s.io"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_a_machine_is_made_of_and_may_not_be_seen_is_not_told_as_fine() {
    let server = site();
    server.inject(Rule::any().path_contains("/metal3machines").always(), Action::Status(403));
    let root = drawn(&server, "kubeadmcontrolplane/prod").await.unwrap();
    let text = screen::tree(screen::Screen { width: Some(100), colour: false }, &screen::folded(&root));
    assert!(text.contains("? Machine plane-1  Running"), "{text}");
    assert!(text.contains("? Metal3Machine plane-1  was not read: it is not there, or you may not see it"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn on_openshift_nobody_is_told_to_install_cluster_api() {
    let told = async |server: &Server, subject: &str| drawn(server, subject).await.unwrap_err().to_string();
    let bare = Server::new(1);
    for subject in ["machineset/x", "machineset.machine.openshift.io/x"] {
        let error = told(&bare, subject).await;
        assert!(error.contains("`berth explain`") && !error.contains("install"), "{subject}: {error}");
    }
    let error = told(&bare, "machineset.cluster.x-k8s.io/x").await;
    assert!(error.contains("install Cluster API"), "{error}");
}
