//! Pages that lead from nothing to something, carried out: their manifests and commands as they stand in the book, with the
//! real kubectl and helm, the real binary and a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "real processes run by the real clock")]

mod addresses;
mod capacity;
mod claims;
mod clusters;
#[path = "../shared/ground.rs"]
mod ground;
mod hosts;
mod machines;
#[path = "../server/capacity/openshift.rs"]
mod openshift;
#[path = "../docs/pages.rs"]
#[allow(dead_code, reason = "links and the like are nobody's business here")]
mod pages;
#[path = "../shared/places.rs"]
mod places;
#[path = "../shared/pod.rs"]
#[allow(dead_code, reason = "others run it, these only need that it runs")]
mod pod;
mod release;
#[path = "../shared/shell.rs"]
#[allow(dead_code, reason = "no page needs a variable here")]
mod shell;
mod walk;

use std::time::Duration;

use serde_json::{Value, json};
use sim::plane::{Plane, PlaneError, apply, required};

/// How long anything may take.
const BOUND: Duration = Duration::from_secs(180);
const BERTH: &str = env!("CARGO_BIN_EXE_berth");

/// A server for one test; nothing, with a notice, where none is built.
fn plane(test: &str) -> Option<Plane> {
    match Plane::start() {
        Ok(plane) => Some(plane),
        Err(error @ PlaneError::NotFound { .. }) if !required() => {
            eprintln!("SKIPPED {test}: {error}");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

async fn namespace(client: &kube::Client, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    apply(client, &namespace).await.unwrap();
}

/// A condition of an object.
fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    static NONE: Value = Value::Null;
    let all = object["status"]["conditions"].as_array();
    all.into_iter().flatten().find(|condition| condition["type"] == kind).unwrap_or(&NONE)
}
