//! `demo`: a story in claims, each of them checked while it is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use serde_json::{Value, json};

use crate::berth::Program;
use crate::story::Story;
use crate::up::Signals;
use crate::world::World;
use crate::{DemoOptions, Usage};

/// How long a claim may take to come true.
const BOUND: Duration = Duration::from_secs(20);
/// The kind the story is about.
const PLURAL: &str = "hostclaimkinds";

/// Tells the story and ends.
pub async fn demo(options: DemoOptions) -> Result<()> {
    let mut signals = Signals::listen()?;
    let program = Program::find()?;
    let temporary = options.dir.is_none();
    let dir = match options.dir {
        Some(dir) => dir,
        None => std::env::temp_dir().join(format!("berth-demo-{}", std::process::id())),
    };
    fs::create_dir_all(&dir).with_context(|| format!("--dir: creating {}", dir.display()))?;
    let dir = dir.canonicalize().with_context(|| format!("--dir: resolving {}", dir.display()))?;
    let mut entries = fs::read_dir(&dir).with_context(|| format!("--dir: reading {}", dir.display()))?;
    if entries.next().is_some() {
        return Err(Usage(format!("--dir: {} is not empty, and the story begins with nothing", dir.display())).into());
    }
    let mut world = World::default();
    let outcome = tokio::select! {
        told = tell(&mut world, &program, &dir) => told,
        name = signals.next() => Err(anyhow::anyhow!("{name}: the story ends here")),
    };
    world.stop().await;
    if temporary && outcome.is_ok() {
        let _ = fs::remove_dir_all(&dir);
    }
    outcome
}

async fn tell(world: &mut World, program: &Program, dir: &Path) -> Result<()> {
    let mut story = Story::begin("Berth on a real Kubernetes API server, without containers");
    let (plane_log, log): (PathBuf, PathBuf) = (dir.join("plane/plane.log"), dir.join("berth.log"));

    let client = story
        .tell("A real API server starts on an empty directory", &plane_log, async {
            world.start_plane(dir.join("plane")).await?;
            world.start_cloud().await?;
            world.start_cloudstack().await?;
            let client = world.plane()?.client().await?;
            let version = client.apiserver_version().await.context("asking for the version")?.git_version;
            Ok((client, format!("Kubernetes {version}, process {}", world.plane()?.pid().unwrap_or_default())))
        })
        .await?;

    let pid = story
        .tell("Berth starts before its kinds exist, is ready, and says what it waits for", &log, async {
            let operator = world.start_operator(program, &log)?;
            operator.ready().await?;
            let begun = Instant::now();
            let line = loop {
                let gates = operator.gates().await?;
                if let Some(line) = gate(&gates).filter(|line| line.contains("waiting")) {
                    break line.to_owned();
                }
                patience(begun, || format!("it should wait for {PLURAL}, but says:\n{gates}"))?;
                pause().await;
            };
            Ok((operator.process.pid(), line))
        })
        .await?;

    story
        .tell("The kinds are installed", &plane_log, async {
            let count = world.install_kinds(program).await?;
            Ok(((), format!("{count} CustomResourceDefinitions, from `berth crds`")))
        })
        .await?;

    story
        .tell("Berth picks them up without a restart", &log, async {
            let operator = world.operator()?;
            let begun = Instant::now();
            loop {
                if let Some(failure) = operator.process.failure() {
                    return Err(failure.into());
                }
                let gates = operator.gates().await?;
                if let Some(line) = gate(&gates).filter(|line| line.contains("watching")) {
                    if operator.process.pid() != pid {
                        bail!("it is another process");
                    }
                    return Ok(((), line.to_owned()));
                }
                patience(begun, || format!("still not watched:\n{gates}"))?;
                pause().await;
            }
        })
        .await?;

    let kinds: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    story
        .tell("A HostClaimKind that nobody serves says so", &log, async {
            kinds.patch("demo", &PatchParams::apply("demo"), &Patch::Apply(&kind("demo", "[a-z]+"))).await?;
            Ok(((), available(&kinds, "False").await?))
        })
        .await?;

    story
        .tell("Once its controller reports, it is available", &log, async {
            let beat = json!({"status": {"lastHeartbeat": jiff::Timestamp::now().to_string()}});
            kinds.patch_status("demo", &PatchParams::default(), &Patch::Merge(&beat)).await?;
            Ok(((), available(&kinds, "True").await?))
        })
        .await?;

    story
        .tell("A mistake is refused at the door, and the field is named", &log, async {
            let operator = world.operator.as_ref().context("Berth has not been started")?;
            operator.register(program, world.plane()?, &client).await?;
            Ok(((), refused(&kinds).await?))
        })
        .await?;

    crate::vip::tell(&mut story, world, &client, dir).await?;

    crate::capacity::tell(&mut story, world, &client, dir).await?;

    crate::hosts::tell(&mut story, world, program, &client, dir).await?;

    crate::clusters::tell(&mut story, world, &client, dir).await?;

    let machines = crate::claims::tell(&mut story, world, program, &client, dir).await?;

    crate::machines::tell(&mut story, world, program, &client, dir, &machines).await?;

    story
        .tell("berth doctor finds nothing wrong", &log, async {
            let kubeconfig = world.plane()?.kubeconfig_path();
            let (code, out, err) = program.run(&["doctor", "--kubeconfig", &kubeconfig.to_string_lossy()])?;
            if code != Some(0) {
                bail!("exit code {code:?}\n{out}{err}");
            }
            Ok(((), out))
        })
        .await?;

    story
        .tell("Asked to stop, Berth stops in order", &log, async {
            let mut operator = world.operator.take().context("Berth has not been started")?;
            operator.process.stop();
            match operator.process.ended() {
                Some(status) if status.success() => Ok(((), status.to_string())),
                status => bail!("it ended with {status:?}\n{}", operator.process.log_tail()),
            }
        })
        .await?;

    story.line("");
    story.end();
    story.line("Next:");
    story.line("  make sandbox                                       the same managers and simulators, kept running");
    story.line("  . target/sandbox/env; target/debug/berth hosts -A  all hosts, asked from another terminal");
    story.line("  make test                                          everything that is promised, checked");
    Ok(())
}

/// The readiness line about the story's kind.
fn gate(gates: &str) -> Option<&str> {
    gates.lines().find(|line| line.contains(PLURAL)).map(str::trim)
}

fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("berth.dev", "v1alpha1", "HostClaimKind"), PLURAL)
}

fn kind(name: &str, pattern: &str) -> Value {
    json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "HostClaimKind",
        "metadata": {"name": name},
        "spec": {
            "controllerName": "demo.berth.dev",
            "capabilities": ["power", "reboot"],
            "argsSchema": {"zone": {"required": true, "pattern": pattern, "description": "where the host stands"}},
        },
    })
}

/// Waits for the condition `Available` with this status, and says it in one line.
async fn available(kinds: &Api<DynamicObject>, wanted: &str) -> Result<String> {
    let begun = Instant::now();
    loop {
        let object = kinds.get("demo").await.context("reading the HostClaimKind")?;
        let conditions =
            object.data.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |condition: &Value, key: &str| condition.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let found = conditions.iter().find(|c| text(c, "type") == "Available" && text(c, "status") == wanted);
        if let Some(found) = found {
            return Ok(format!("Available={wanted} {}: {}", text(found, "reason"), text(found, "message")));
        }
        patience(begun, || format!("Available is not {wanted}: {}", Value::from(conditions)))?;
        pause().await;
    }
}

/// A pattern that does not compile is refused; nothing is stored.
async fn refused(kinds: &Api<DynamicObject>) -> Result<String> {
    let bad = kind("mistake", "(");
    let field = "spec.argsSchema[zone].pattern";
    let begun = Instant::now();
    // The API server takes a moment to learn of a new webhook; only trials are let through until then.
    let trial = PatchParams { dry_run: true, ..PatchParams::apply("demo") };
    while kinds.patch("mistake", &trial, &Patch::Apply(&bad)).await.is_ok() {
        patience(begun, || "it was accepted".to_owned())?;
        pause().await;
    }
    let refusal = match kinds.patch("mistake", &PatchParams::apply("demo"), &Patch::Apply(&bad)).await {
        Ok(_) => bail!("it was accepted"),
        Err(kube::Error::Api(status)) => status.message.clone(),
        Err(error) => return Err(error).context("applying a mistake"),
    };
    if !refusal.contains(field) {
        bail!("{field} is not named in: {refusal}");
    }
    if kinds.get_opt("mistake").await.context("looking for the mistake")?.is_some() {
        bail!("it was refused and stored");
    }
    Ok(refusal)
}

/// Fails when a claim takes too long to come true.
pub fn patience(begun: Instant, last: impl FnOnce() -> String) -> Result<()> {
    if begun.elapsed() > BOUND {
        bail!("not within {} s: {}", BOUND.as_secs(), last());
    }
    Ok(())
}

/// Between two looks.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}
