//! One world for all tests of a program: its servers start once, and what the tests share outlives each of them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sim::plane::{self, PlaneError};
use tokio::runtime::Runtime;
use tokio::sync::RwLock;

/// What the tests of a program share.
pub trait Shared: Sized + Send + Sync + 'static {
    /// Where it is kept.
    fn cell() -> &'static OnceLock<Result<Self, PlaneError>>;

    /// Starts everything.
    async fn start() -> Result<Self, PlaneError>;

    /// Why no test can be run in it.
    fn unfit(&self) -> Option<&'static str> {
        None
    }

    /// What must stand before each test.
    async fn prepare(&self) {}

    /// What is shown of a test that failed, and how many lines of each.
    fn logs(&self) -> (Vec<PathBuf>, usize) {
        (Vec::new(), 0)
    }
}

/// Beside whom a test runs.
pub enum Beside {
    /// All others that allow it.
    Others,
    /// Nobody.
    #[allow(dead_code, reason = "not every program has a test that must be alone")]
    Nobody,
}

/// Runs a test in the shared world; says so and does nothing where that is not built.
pub fn run<W: Shared>(test: &str, beside: &Beside, body: impl AsyncFnOnce(&'static W)) {
    static TURN: RwLock<()> = RwLock::const_new(());
    let Some(world) = world::<W>(test) else { return };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        runtime().block_on(async {
            let (_beside, _alone) = match beside {
                Beside::Others => (Some(TURN.read().await), None),
                Beside::Nobody => (None, Some(TURN.write().await)),
            };
            world.prepare().await;
            body(world).await;
        });
    }));
    if let Err(panic) = outcome {
        let (logs, lines) = world.logs();
        for log in logs {
            eprintln!("--- the end of {}\n{}", log.display(), tail(&log, lines));
        }
        resume_unwind(panic);
    }
}

/// The last lines of a file, set in.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let kept: Vec<&str> = text.lines().rev().take(lines).collect();
    kept.into_iter().rev().map(|line| format!("  {}\n", line.chars().take(500).collect::<String>())).collect()
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
    })
}

fn world<W: Shared>(test: &str) -> Option<&'static W> {
    let skipped = |why: &dyn std::fmt::Display| {
        eprintln!("SKIPPED {test}: {why}");
        None
    };
    match W::cell().get_or_init(|| runtime().block_on(W::start())) {
        Ok(world) => match world.unfit() {
            Some(why) => skipped(&why),
            None => Some(world),
        },
        Err(error @ (PlaneError::NotFound { .. } | PlaneError::NotBuilt { .. })) if !plane::required() => {
            skipped(error)
        }
        Err(error) => panic!("{test}: {error}"),
    }
}
