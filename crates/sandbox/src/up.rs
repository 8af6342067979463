//! `up`: the world, kept until somebody asks it to stop.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::UpOptions;
use crate::berth::{EXTENSION, Program};
use crate::parts::{Part, Spared, in_order};
use crate::world::{HOSTS, World};

/// How often the parts are looked at: a dead one is noticed within this time.
const LOOK: Duration = Duration::from_millis(200);

/// Brings the world up, keeps it, and takes it down again.
pub async fn up(options: UpOptions) -> Result<()> {
    let mut signals = Signals::listen()?;
    let program = Program::find()?;
    let (dir, _lock) = prepare(&options.dir)?;
    let mut world = World::default();

    let outcome = tokio::select! {
        started = bring_up(&mut world, &options, &program, &dir) => match started {
            Ok(()) => keep(&mut world, &mut signals).await,
            Err(error) => Err(error),
        },
        name = signals.next() => {
            println!("{name}: stopping before everything was up");
            Ok(())
        }
    };
    let _ = fs::remove_file(dir.join("ready"));
    world.stop().await;
    println!("everything is stopped; data and logs stay in {}", dir.display());
    outcome
}

async fn bring_up(world: &mut World, options: &UpOptions, program: &Program, dir: &Path) -> Result<()> {
    let mut env = Vec::new();
    let begun = Instant::now();
    let say = |what: &str| println!("{what} ({:.1} s)", begun.elapsed().as_secs_f64());

    world.start_plane(dir.join("plane")).await?;
    let kubeconfig = world.plane()?.kubeconfig_path();
    env.push(("KUBECONFIG", kubeconfig.display().to_string()));
    say("API server: ready");

    let parts = in_order(&options.with);
    for part in &parts {
        let variable = match part {
            Part::Capi => "CAPI_HEALTH",
            Part::Ipam => "IPAM_HEALTH",
            Part::Hosts => {
                world.start_hosts(options.hosts).await?;
                env.push(("HOSTS_NAMESPACE", HOSTS.to_owned()));
                say(&format!("host simulator: {} hosts in the namespace {HOSTS}", options.hosts));
                continue;
            }
            Part::Ec2 => {
                let cloud = world.start_cloud().await?;
                env.extend(
                    ["BERTH_EC2_ENDPOINT", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_STS"]
                        .map(|name| (name, cloud.endpoint.clone())),
                );
                env.push(("AWS_ACCESS_KEY_ID", cloud.access_key.clone()));
                env.push(("AWS_SECRET_ACCESS_KEY", cloud.secret.clone()));
                say(&format!("EC2 simulator: {}", cloud.endpoint));
                continue;
            }
            Part::CloudStack => {
                let server = world.start_cloudstack().await?;
                env.push(("BERTH_CLOUDSTACK_ENDPOINT", server.endpoint.clone()));
                env.push(("BERTH_CLOUDSTACK_API_KEY", server.api_key.clone()));
                env.push(("BERTH_CLOUDSTACK_SECRET_KEY", server.secret_key.clone()));
                say(&format!("CloudStack simulator: {}", server.endpoint));
                continue;
            }
        };
        let port = world.start_manager(*part).await?.health_port();
        env.push((variable, address(port)));
        say(&format!("{}: ready", world.managers.last().map_or("", |(name, _)| name)));
    }

    if parts.contains(&Part::Capi) && parts.contains(&Part::CloudStack) {
        world.start_provider().await?;
        say("CloudStack provider: the kubeadm managers run, clusters get machines and an API server");
    }

    // Berth first: kinds with several versions carry the address at which it turns one into another.
    let wanted = !options.without.contains(&Spared::Berth);
    if wanted {
        world.start_operator(program, &dir.join("berth.log"))?;
    }
    let kinds = world.install_kinds(program).await?;
    say(&format!("Berth's kinds: {kinds} installed"));
    if wanted {
        let operator = world.operator()?;
        operator.ready().await?;
        env.push(("BERTH_HEALTH", address(operator.health)));
        env.push(("BERTH_METRICS", address(operator.metrics)));
        let client = world.plane()?.client().await?;
        let operator = world.operator.as_ref().context("Berth has not been started")?;
        let hooks = operator.register(program, world.plane()?, &client).await?;
        say(&format!("Berth: ready, {hooks} admission webhooks registered"));
        if parts.contains(&Part::Capi) {
            let handlers = world.register_hooks(&client).await?;
            say(&format!("Cluster API: {} hooks of Berth registered as {EXTENSION}", handlers.len()));
        }
    }

    env.push(("BERTH_SANDBOX", dir.display().to_string()));
    let text: String = env.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value))).collect();
    fs::write(dir.join("env"), text).context("writing env")?;
    // Written beside and renamed: whoever waits for it never reads half of it.
    fs::write(dir.join(".ready"), format!("{}\n", std::process::id())).context("writing ready")?;
    fs::rename(dir.join(".ready"), dir.join("ready")).context("writing ready")?;
    say("ready");
    println!("\n  . {}/env", dir.display());
    println!("  {} doctor", program.path().display());
    println!("\nCtrl-C or SIGTERM to process {} stops it. Logs are in {}.", std::process::id(), dir.display());
    Ok(())
}

/// Waits for a signal, which is a good end, or for the death of a part, which is not.
async fn keep(world: &mut World, signals: &mut Signals) -> Result<()> {
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            name = signals.next() => {
                println!("{name}: stopping");
                return Ok(());
            }
            _ = look.tick() => if let Some(failure) = world.failure() {
                return Err(failure).context("a part of the world ended by itself, the rest is stopped");
            },
        }
    }
}

/// Makes the directory, refuses one that is in use, and removes what an earlier run said about itself.
///
/// The lock ends with the process, however that ends, so that nobody has to clean up after a crash.
fn prepare(dir: &Path) -> Result<(PathBuf, fs::File)> {
    fs::create_dir_all(dir).with_context(|| format!("--dir: creating {}", dir.display()))?;
    let dir = dir.canonicalize().with_context(|| format!("--dir: resolving {}", dir.display()))?;
    let lock = fs::File::create(dir.join("lock")).context("--dir: creating the file lock")?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => bail!("--dir: a sandbox runs in {} already", dir.display()),
        Err(fs::TryLockError::Error(error)) => return Err(error).context("--dir: locking it"),
    }
    for name in ["ready", "env"] {
        match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("--dir: removing the old {name}"));
            }
            _ => {}
        }
    }
    Ok((dir, lock))
}

fn address(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// A value as a shell reads it, whatever it holds.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// The signals that ask for an end.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Result<Self> {
        let on = |kind| signal(kind).context("listening for signals");
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    /// The name of the next one.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_survives_any_path() {
        let dir = tempfile::tempdir().unwrap();
        let value = "it's $HOME; `rm` \"x\"\\";
        let file = dir.path().join("env");
        fs::write(&file, format!("export X={}\n", quoted(value))).unwrap();
        let script = format!(". {}; printf %s \"$X\"", file.display());
        let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), value);
    }

    #[test]
    fn a_directory_in_use_is_refused_and_one_left_behind_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ready"), "1\n").unwrap();
        fs::write(dir.path().join("env"), "").unwrap();
        let (prepared, lock) = prepare(dir.path()).unwrap();
        assert!(!prepared.join("ready").exists() && !prepared.join("env").exists());

        fs::write(dir.path().join("ready"), "2\n").unwrap();
        assert!(prepare(dir.path()).unwrap_err().to_string().contains("already"));
        assert!(prepared.join("ready").exists(), "what the other one wrote stays");
        drop(lock);
        assert!(prepare(dir.path()).is_ok());
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(prepare(&file.join("below")).unwrap_err().to_string().contains("--dir"));
    }
}
