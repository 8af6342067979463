//! A shell that has the programs it is given, a few that every machine has, and no others; and where kubectl and helm are.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sim::plane;

/// Programs of every machine that pages use, and the one that ends a script which does not.
const USUAL: [&str; 6] = ["base64", "bash", "ln", "sed", "timeout", "wc"];
/// How many seconds a script may take. kubectl waits as long as it takes for what it deletes.
const BOUND: u16 = 600;

/// The directory that Cargo builds into.
fn target() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or(here, PathBuf::from)
}

/// The program that `hack/chart helm` builds, of the version that it builds: older ones may lie beside it.
fn built_helm() -> Option<PathBuf> {
    let versions =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plane/helm/go.mod")).ok()?;
    let version = versions.lines().find_map(|line| line.trim().strip_prefix("helm.sh/helm/v3 "))?;
    Some(target().join("tools").join(format!("helm-{}", version.trim()))).filter(|path| path.is_file())
}

/// The program that `hack/plane kubectl` builds, or that came with the server.
fn built_kubectl() -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(|dir| PathBuf::from(dir).join("kubectl"));
    assets.into_iter().chain([target().join("plane/bin/kubectl")]).find(|path| path.is_file())
}

/// A program of the control plane's side, unless this machine has none; then the test says so, or fails where it must run.
fn tool(test: &str, found: Option<PathBuf>, command: &str) -> Option<PathBuf> {
    if found.is_none() {
        assert!(!plane::required(), "{test}: run {command} first");
        eprintln!("SKIPPED {test}: {command} was not run");
    }
    found
}

/// Where helm is.
pub fn helm(test: &str) -> Option<PathBuf> {
    tool(test, built_helm(), "hack/chart helm")
}

/// Where kubectl is.
pub fn kubectl(test: &str) -> Option<PathBuf> {
    tool(test, built_kubectl(), "hack/plane kubectl")
}

/// The shell, with a home directory of its own.
pub struct Shell {
    home: tempfile::TempDir,
    work: PathBuf,
    variables: Vec<(String, PathBuf)>,
}

impl Shell {
    /// One that works in this directory and speaks to a server through a kubeconfig.
    pub fn new(work: &Path, kubeconfig: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("bin")).unwrap();
        let variables = vec![("KUBECONFIG".to_owned(), kubeconfig.to_owned())];
        let shell = Self { home, work: work.to_owned(), variables };
        USUAL.into_iter().fold(shell, Self::of_machine)
    }

    /// With a program of this machine.
    pub fn of_machine(self, name: &str) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
        self.with(name, &found.unwrap_or_else(|| panic!("this machine has no {name}")))
    }

    /// With a program under this name.
    pub fn with(self, name: &str, program: &Path) -> Self {
        symlink(program.canonicalize().unwrap(), self.home.path().join("bin").join(name)).unwrap();
        self
    }

    /// With a program that does this, instead of the one that has the name so far.
    pub fn script(self, name: &str, text: &str) -> Self {
        let path = self.home.path().join("bin").join(name);
        // Written through a link it would be the program itself.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// With a program under this name that does nothing.
    pub fn without(self, name: &str) -> Self {
        self.script(name, "")
    }

    /// With a variable.
    pub fn variable(mut self, name: &str, value: impl Into<PathBuf>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Its home directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Runs a script, which ends at the first command that fails.
    pub fn run(&self, script: &str) -> Output {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", &BOUND.to_string(), "bash", "-euo", "pipefail", "-c", script]);
        command.current_dir(&self.work).stdin(Stdio::null());
        command.env_clear().env("PATH", self.home.path().join("bin")).env("HOME", self.home.path());
        command
            .env("NO_COLOR", "1")
            .env("COLUMNS", "200")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = command.output().unwrap();
        let ended = output.status.code().is_some_and(|code| code != 124);
        let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(ended, "did not end within {BOUND} s: {script}\n{said}{why}");
        output
    }
}
