//! The real kubectl in the hands of the administrator.

use std::process::Output;

use serde_json::Value;

use crate::shell::{self, Shell};
use crate::world::World;

/// Both ways in which kubectl applies and compares, as its flags say them.
pub const WAYS: [&str; 2] = ["--server-side=false", "--server-side --force-conflicts"];

/// What runs it.
pub struct Kubectl(Shell);

impl Kubectl {
    /// Nothing where it is not built.
    pub fn of(test: &str, world: &World) -> Option<Self> {
        let program = shell::kubectl(test)?;
        let shell = Shell::new(world.plane.dir(), &world.plane.kubeconfig_path());
        // It leaves the comparison itself to this one.
        Some(Self(shell.with("kubectl", &program).of_machine("diff")))
    }

    /// Applies a file of these objects.
    pub fn apply(&self, way: &str, objects: &[Value]) {
        let output = self.run(&format!("apply {way}"), objects);
        assert!(output.status.success(), "kubectl apply {way}: {output:?}");
    }

    /// What it shows as different between what is stored and a file of these objects.
    pub fn diff(&self, way: &str, objects: &[Value]) -> String {
        let output = self.run(&format!("diff {way}"), objects);
        let shown = String::from_utf8(output.stdout).unwrap();
        // Above 1 it has failed.
        let code = i32::from(!shown.is_empty());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "kubectl diff {way}: {shown}{error}");
        shown
    }

    fn run(&self, what: &str, objects: &[Value]) -> Output {
        let text: Vec<String> = objects.iter().map(|object| format!("---\n{object}\n")).collect();
        std::fs::write(self.0.home().join("file.yaml"), text.concat()).unwrap();
        tokio::task::block_in_place(|| self.0.run(&format!("kubectl {what} --filename ~/file.yaml")))
    }
}
