//! Helm, as people run it, on a real API server.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sim::plane::Plane;

use crate::{root, shell};

/// The namespace of every release here.
pub const NAMESPACE: &str = "berth-system";

/// Helm and a server; its settings are its own.
pub struct Helm {
    program: PathBuf,
    home: tempfile::TempDir,
}

impl Helm {
    /// Unless it is not built; then the test says so, or fails where it must run.
    pub fn find(test: &str) -> Option<Self> {
        Some(Self { program: shell::helm(test)?, home: tempfile::tempdir().unwrap() })
    }

    fn said(&self, kubeconfig: &Path, args: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        for place in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{place}_HOME"), self.home.path().join(place));
        }
        command.env("KUBECONFIG", kubeconfig).current_dir(root()).args(args).args(["--namespace", NAMESPACE]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    /// Runs it on a server and returns what it said.
    pub fn run(&self, plane: &Plane, args: &[&str]) -> String {
        self.said(&plane.kubeconfig_path(), args)
    }

    /// The objects that a chart renders, without what only Helm runs.
    pub fn template(&self, chart: &Path) -> Vec<Value> {
        let text = self.said(Path::new("/dev/null"), &["template", "berth", &chart.to_string_lossy(), "--no-hooks"]);
        super::parsed(&text, &chart.display().to_string())
    }

    /// The notes with which a chart is installed on a server: the chart looks at what is there.
    pub fn notes(&self, plane: &Plane, args: &[&str]) -> String {
        let args = [&["install", "berth", "chart", "--dry-run=server"], args].concat();
        let said = self.run(plane, &args);
        said.split_once("\nNOTES:\n").expect("notes").1.to_owned()
    }

    /// A program for `--post-renderer` that puts our port in the place of the Services'.
    pub fn ask_at(&self, port: u16) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.home.path().join("ask-at");
        std::fs::write(&path, format!("#!/bin/sh\nexec sed 's/port: 443$/port: {port}/'\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_string_lossy().into_owned()
    }
}
