//! `berth run`: puts the parts together and runs until stopped.

use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kit::clock::Clock;
use kit::feed::Scope;
use kit::gates::{Gate, Gates};
use kit::lease::{self, Candidate, Leadership, Settings, Terms};
use kit::manager::{Manager, Options, Stage};
use kit::pace::{Lanes, Pace};
use kit::serve::ServeMetrics;
use kit::telemetry::{self, Metrics};
use kube::Client;

use crate::Usage;
use crate::cli::{LogFormat, RunOptions};
use crate::rooms::{self, Room};
use crate::serving::{self, Certificates, ClientCa};

/// Between two attempts to reach the API server at start.
const KNOCK: Duration = Duration::from_secs(1);

/// A shorter sync period would spend the API server's time on lists.
const SHORTEST_SYNC: Duration = Duration::from_secs(60);

/// Runs the operator.
pub async fn run(options: RunOptions) -> anyhow::Result<()> {
    let plan = Plan::new(&options)?;
    let format = match options.log_format {
        LogFormat::Json => telemetry::LogFormat::Json,
        LogFormat::Text => telemetry::LogFormat::Text,
    };
    let colour = telemetry::coloured(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    telemetry::init_logs(format, &options.log_level, colour).map_err(|e| Usage(format!("--log-level: {e}")))?;

    let agent = concat!("berth/", env!("CARGO_PKG_VERSION"));
    let requests = kit::client::Meter::default();
    let client = crate::connect_metered(&options.cluster, agent, &requests).await?;
    let (clock, gates, metrics) = (Clock::system(), Gates::new(), Metrics::new());
    requests.register(&metrics);
    metrics.build_info(&[("version", env!("CARGO_PKG_VERSION"))]);
    let instance = lease::identity(&host(), &clock);
    let settings = Options {
        instance: instance.clone(),
        scope: if options.namespace.is_empty() { Scope::All } else { Scope::Namespaces(options.namespace.clone()) },
        resync: (!options.sync_period.is_zero()).then_some(options.sync_period),
        workers: usize::from(options.workers),
        drain: options.shutdown_delay,
    };
    let lanes = match options.kube_api_qps {
        0 => Lanes::unlimited(client.clone()),
        per_second => Lanes::paced(&client, &clock, Pace { per_second, burst: options.kube_api_burst }),
    };
    let manager = Manager::with_lanes(lanes, clock.clone(), gates.clone(), metrics.clone(), settings);
    let served = ServeMetrics::register(&metrics);

    serving::plain(&manager, &served, "health", plan.health, telemetry::health_router(gates.clone())).await?;
    let namespace = own_namespace(&client, &options);
    let mut certificates = Certificates::new(&manager, &options, &namespace);
    if let Some(address) = plan.webhooks {
        serving::admission(&mut certificates, &served, address, &plan.rooms).await?;
    }
    if let Some(terms) = plan.terms {
        stand(&manager, namespace.clone(), instance, terms);
    }
    metrics.standing(&gates, manager.leadership());
    let mut listening = false;
    for room in &plan.rooms {
        let mounted = (room.mount)(&manager, &options);
        for listener in mounted.with_context(|| format!("mounting the room {}", room.name))? {
            serving::secured(&mut certificates, &served, listener).await?;
            listening = true;
        }
    }
    // After the others: the gate of a certificate that all of them share is named after the first of them.
    let router = telemetry::metrics_router(metrics.clone());
    serving::scraped(&mut certificates, &served, plan.metrics, plan.scrapers, router).await?;
    knock(&manager, manager.front().clone(), !listening);
    let names: Vec<&str> = plan.rooms.iter().map(|room| room.name).collect();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), rooms = names.join(","), "berth started");
    manager.run().await?;
    tracing::info!("berth stopped");
    Ok(())
}

/// Everything the flags say, checked before anything is started.
struct Plan {
    rooms: Vec<&'static Room>,
    metrics: Option<SocketAddr>,
    scrapers: Option<ClientCa>,
    health: Option<SocketAddr>,
    webhooks: Option<SocketAddr>,
    terms: Option<Terms>,
}

impl Plan {
    fn new(options: &RunOptions) -> Result<Self, Usage> {
        crate::capacity::gates(&options.feature_gates)?;
        for point in &options.fault {
            if !cfg!(debug_assertions) {
                return Err(Usage("--fault: fault points exist only in builds with debug assertions".to_owned()));
            }
            kit::fault::arm_text(point).map_err(|e| Usage(format!("--fault: {e}")))?;
        }
        for name in &options.namespace {
            label("--namespace", name)?;
        }
        if let Some(name) = &options.leader_elect_resource_namespace {
            label("--leader-elect-resource-namespace", name)?;
        }
        label("--webhook-service", &options.webhook_service)?;
        for name in &options.webhook_extra_name {
            if name.parse::<IpAddr>().is_err() {
                let bad = |e: api::names::NameError| Usage(format!("--webhook-extra-name: not an IP address, and {e}"));
                name.parse::<api::names::DnsSubdomain>().map_err(bad)?;
            }
        }
        let period = options.sync_period;
        if !period.is_zero() && period < SHORTEST_SYNC {
            return Err(Usage(
                "--sync-period: must be 0 or at least 1m, because everything is listed each time".to_owned(),
            ));
        }
        let bind =
            |flag: &str, value: &str| telemetry::parse_bind_address(value).map_err(|e| Usage(format!("{flag}: {e}")));
        let port = options.webhook_port;
        let terms = match options.leader_elect {
            true => Some(
                Terms::new(options.leader_elect_lease_duration)
                    .map_err(|e| Usage(format!("--leader-elect-lease-duration: {e}")))?,
            ),
            false => None,
        };
        let rooms = rooms::chosen(&options.controllers)?;
        for room in &rooms {
            (room.check)(options)?;
        }
        Ok(Self {
            rooms,
            metrics: bind("--metrics-bind-address", &options.metrics_bind_address)?,
            scrapers: serving::client_ca("--metrics-client-ca", &options.metrics_client_ca)?,
            health: bind("--health-addr", &options.health_addr)?,
            webhooks: (port != 0).then(|| SocketAddr::new(options.webhook_bind_host, port)),
            terms,
        })
    }
}

/// Refuses what cannot be the name of a namespace or Service.
fn label(flag: &str, name: &str) -> Result<(), Usage> {
    name.parse::<api::names::DnsLabel>().map(drop).map_err(|e| Usage(format!("{flag}: {e}")))
}

/// Not ready before the API server has answered once; later interruptions do not take readiness back. Who serves
/// rooms' own listeners is ready without it: Cluster API ends its own process when it does not reach a hook.
fn knock(manager: &Arc<Manager>, client: Client, needed: bool) {
    let gate = manager.gates().gate("api server");
    let missing = move |gate: &Gate, detail: &str| if needed { gate.blocked(detail) } else { gate.waiting(detail) };
    missing(&gate, "not reached yet");
    manager.spawn(Stage::Watch, "api server", |stop| async move {
        loop {
            let answer = tokio::select! {
                () = stop.cancelled() => return,
                answer = client.apiserver_version() => answer,
            };
            match answer {
                Ok(version) => {
                    gate.ready(format!("Kubernetes {}", version.git_version));
                    return stop.cancelled().await;
                }
                Err(error) => {
                    tracing::warn!(error = %kit::class::chain(&error), "API server not reached, trying again");
                    missing(&gate, "the API server does not answer");
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(KNOCK) => {}
            }
        }
    });
}

/// Stands for the lease `berth`: only its holder decides.
fn stand(manager: &Arc<Manager>, namespace: String, identity: String, terms: Terms) {
    let settings = Settings { namespace, name: "berth".to_owned(), identity, terms };
    let (candidate, leadership): (_, Leadership) =
        Candidate::new(manager.front().clone(), manager.clock().clone(), settings);
    manager.follow(leadership);
    // The stage before this one is over when it stops, so nothing runs any more when the lease is given back.
    manager.spawn(Stage::Watch, "lease", |stop| candidate.run(stop, async {}));
}

/// The namespace Berth runs in: where its lease and its own objects are.
pub fn own_namespace(client: &Client, options: &RunOptions) -> String {
    options.leader_elect_resource_namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned())
}

/// The pod's or the machine's name, for people who look at the lease.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "berth".to_owned() } else { name.to_owned() }
}
