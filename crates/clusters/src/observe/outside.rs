//! What is asked outside of the management cluster: endpoints and CloudStack.

use std::collections::{BTreeMap, BTreeSet};

use api::names::clusters::SKIP_IP_CHECK_ANNOTATION;
use api::own::anywhere::AvailabilityZone;
use api::reasons::clusters::Reason;

use crate::acs::{Clouds, Fault, Parts};
use crate::config::TemplateCheck;
use crate::endpoint::HostPort;
use crate::facts::ClusterFacts;
use crate::image;
use crate::memory::{Ground, Trial};
use crate::phase::{Failure, Holder, endpoint_holder, endpoint_taken};
use crate::room::{Error, Keeper, read};
use crate::secrets::{self, Profiles};
use crate::snapshot::{Checks, Endpoint, Snapshot, kube_vip};
use crate::trials::Asked;
use crate::version::Minor;

fn endpoint_of(cluster: &ClusterFacts) -> Option<HostPort> {
    let plane = cluster.object.spec.control_plane_configuration.as_ref()?;
    plane.endpoint.as_ref()?.host.parse().ok()
}

impl<C: Clouds> Keeper<C> {
    /// Who has the endpoint of a cluster that is not made yet.
    pub(super) async fn look_at_endpoint(&self, s: &Snapshot) -> Result<Endpoint, Error> {
        // What is no endpoint broke a rule before.
        let Some(endpoint) = endpoint_of(&s.cluster) else { return Ok(Endpoint::Free) };
        // A cluster that an index does not show yet answers at its own endpoint.
        if self.known(&s.key, &self.world.capi.kind(), s.key.name()).await?.is_some() {
            return Ok(Endpoint::Free);
        }
        let kube_vip = s.kube_vip();
        let mine = Holder {
            name: s.key.to_string(),
            uid: s.cluster.uid().to_owned(),
            created: s.cluster.created(),
            endpoint: endpoint.clone(),
            kube_vip,
        };
        if let Some(holder) = endpoint_holder(&mine, &self.holders(s, &endpoint)) {
            return Ok(Endpoint::Taken(endpoint_taken(&mine, holder)));
        }
        Ok(match self.try_endpoint(s, &endpoint) {
            Trial::Found(Ground::Free) => Endpoint::Free,
            Trial::Found(Ground::Unresolved) => Endpoint::Unresolved,
            Trial::Found(Ground::Taken) => {
                let message = format!("endpoint {endpoint} already answers");
                Endpoint::Taken(Failure { reason: Reason::UnavailableControlPlaneIP, message })
            }
            Trial::UnderWay | Trial::Unknown => Endpoint::Trying,
        })
    }

    /// Begins to try the endpoint of a cluster that was just seen: what takes longest to know is asked first. What is found
    /// counts only once the cheaper checks have passed.
    pub(super) fn try_early(&self, s: &Snapshot) {
        let made = s.capi.is_some() || s.cluster.is_on(SKIP_IP_CHECK_ANNOTATION);
        if let Some(endpoint) = endpoint_of(&s.cluster).filter(|_| !made) {
            self.try_endpoint(s, &endpoint);
        }
    }

    /// What is known of the endpoint of a cluster; it is tried unless it was a moment ago.
    fn try_endpoint(&self, s: &Snapshot, endpoint: &HostPort) -> Trial {
        let (tried, now) = ((endpoint.to_string(), s.kube_vip()), self.clock.instant());
        let trial = self.memories.trial(&s.key, &tried, now);
        if trial == Trial::Unknown {
            self.memories.tries(&s.key, tried.clone(), now);
            // Whoever tries lives as long as there are passes.
            let _ = self.trials.send(Asked { cluster: s.key.clone(), endpoint: endpoint.clone(), tried });
        }
        trial
    }

    /// The other clusters at a host, those of Cluster API among them.
    fn holders(&self, s: &Snapshot, endpoint: &HostPort) -> Vec<Holder> {
        let own = self.world.clusters.all().into_iter();
        let own = own.filter(|(key, facts)| *key != s.key && !facts.is_deleting()).filter_map(|(key, facts)| {
            Some(Holder {
                name: key.to_string(),
                uid: facts.uid().to_owned(),
                created: facts.created(),
                endpoint: endpoint_of(&facts)?,
                kube_vip: kube_vip(&facts, &self.config),
            })
        });
        let others = self.world.capi.by("host", &endpoint.host).into_iter();
        let others = others.filter(|(key, facts)| {
            // Those of our own clusters stand for them already.
            let mine = key.namespace() == Some(self.config.system_namespace()) && key.name() == s.key.name();
            facts.mark.owner.is_none() && !mine
        });
        let others = others.map(|(key, facts)| Holder {
            name: key.to_string(),
            uid: facts.mark.uid.to_string(),
            created: facts.mark.created,
            endpoint: HostPort { host: facts.host.clone(), port: Some(facts.port).filter(|port| *port != 0) },
            kube_vip: false,
        });
        own.chain(others).collect()
    }

    /// What CloudStack says of the machine configurations of a cluster, in every zone.
    pub(super) async fn check_machines(&self, s: &Snapshot) -> Result<Checks, Error> {
        // What was asked a moment ago with the same keys is not asked again; an index tells when keys change.
        let inputs = self.checked_by(s);
        if let Some(checks) = self.memories.has_passed(&s.key, &inputs, self.clock.instant()) {
            return Ok(checks);
        }
        let checks = self.ask_for_machines(s).await?;
        if let Checks::Judged { machines, .. } = &checks
            && machines.values().all(Option::is_none)
        {
            self.memories.passed(&s.key, inputs, checks.clone(), self.clock.instant());
        }
        Ok(checks)
    }

    /// What a verdict on machine configurations depends on: everything users wrote, and the versions of secrets.
    fn checked_by(&self, s: &Snapshot) -> String {
        let namespace = self.config.system_namespace();
        let mut inputs = s.hash.clone();
        for zone in zones(s) {
            let version = self.world.secret_version(namespace, &zone.credentials_ref);
            inputs.push(' ');
            inputs.push_str(version.as_deref().unwrap_or("-"));
        }
        inputs
    }

    async fn ask_for_machines(&self, s: &Snapshot) -> Result<Checks, Error> {
        let zones = zones(s);
        let client = self.writer.client();
        let policy = self.shelf.clouds().policy();
        let namespace = self.config.system_namespace();
        let profiles = secrets::read(client, namespace, zones, policy).await;
        let profiles = profiles.map_err(read(|| format!("Secrets in {namespace}")))?;
        let asked = s.machines.iter().flat_map(|(name, machine)| zones.iter().map(move |zone| (name, machine, zone)));
        let asked: Vec<_> =
            asked.map(|(name, machine, zone)| (name.clone(), Parts::of(&machine.object.spec), zone)).collect();
        let checks = asked.iter().map(|(_, parts, zone)| self.check_machine(&profiles, zone, parts));
        let answers = futures::future::join_all(checks).await;
        let endpoints: BTreeSet<&str> = zones.iter().map(|zone| zone.management_api_endpoint.as_str()).collect();
        let mut judged: BTreeMap<String, Vec<String>> =
            s.machines.keys().map(|name| (name.clone(), Vec::new())).collect();
        let mut templates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut passing = None;
        for ((name, parts, zone), answer) in asked.iter().zip(answers) {
            match answer {
                Ok(stock) => {
                    templates.entry(name.clone()).or_default().insert(stock.template.name);
                }
                Err(faults) => {
                    for fault in faults {
                        match fault {
                            Fault::Definitive { message, credentials: true, .. } => {
                                return Ok(Checks::Datacenter(zone_text(zone, &message)));
                            }
                            Fault::Definitive { message, .. } => {
                                let hint = parts.has_ids() && endpoints.len() > 1 && message.contains("not found");
                                let hint = if hint { " (ids differ between endpoints, use a name)" } else { "" };
                                let text = format!("machine config {name}, {}{hint}", zone_text(zone, &message));
                                judged.entry(name.clone()).or_default().push(text);
                            }
                            Fault::Passing { message, at_least, .. } => {
                                passing = passing.or(Some((zone_text(zone, &message), at_least)));
                            }
                        }
                    }
                }
            }
        }
        let certain = judged.values().any(|faults| !faults.is_empty());
        if let Some((message, at_least)) = passing.filter(|_| !certain) {
            return Ok(Checks::Passing { message, at_least });
        }
        let mut warnings = Vec::new();
        for (name, text) in self.versions(s, &templates) {
            match self.config.template_check {
                TemplateCheck::Off => {}
                TemplateCheck::Warn => warnings.push(text),
                TemplateCheck::Enforce => judged.entry(name).or_default().push(text),
            }
        }
        let machines = judged.into_iter().map(|(name, faults)| (name, told(&faults))).collect();
        Ok(Checks::Judged { machines, warnings })
    }

    async fn check_machine(
        &self,
        profiles: &Profiles,
        zone: &AvailabilityZone,
        parts: &Parts,
    ) -> Result<crate::acs::Stock, Vec<Fault>> {
        let policy = self.shelf.clouds().policy();
        let credentials = secrets::of_zone(profiles, zone, policy).map_err(|fault| vec![fault])?;
        let answer = self.shelf.machine(credentials, zone, parts).await;
        answer.map_err(|faults| faults.into_iter().map(|fault| secrets::refused(credentials, fault)).collect())
    }

    /// Templates whose names do not carry the version of the machines that are made from them.
    fn versions(&self, s: &Snapshot, templates: &BTreeMap<String, BTreeSet<String>>) -> Vec<(String, String)> {
        let spec = &s.cluster.object.spec;
        let plane = spec.control_plane_configuration.as_ref().and_then(|plane| plane.machine_group_ref.as_ref());
        let mut uses: BTreeSet<(String, String)> =
            plane.map(|one| (one.name.clone(), spec.kubernetes_version.clone())).into_iter().collect();
        for group in &spec.worker_node_group_configurations {
            let own = &group.kubernetes_version;
            let version = if own.is_empty() { &spec.kubernetes_version } else { own };
            uses.extend(group.machine_group_ref.as_ref().map(|one| (one.name.clone(), version.clone())));
        }
        let mut all = Vec::new();
        for (machine, version) in uses {
            let Ok(minor) = version.parse::<Minor>() else { continue };
            let names = templates.get(&machine).into_iter().flatten();
            for name in names.filter(|name| !image::names(name, minor)) {
                let text = format!("machine config {machine}: template \"{name}\" does not name Kubernetes {version}");
                all.push((machine.clone(), text));
            }
        }
        all
    }
}

fn zones(s: &Snapshot) -> &[AvailabilityZone] {
    s.datacenter.as_ref().map(|one| one.object.spec.availability_zones.as_slice()).unwrap_or_default()
}

fn zone_text(zone: &AvailabilityZone, message: &str) -> String {
    // What is wrong with a secret is wrong for every zone that names it.
    if message.starts_with("secret ") {
        return message.to_owned();
    }
    format!("availability zone \"{}\": {message}", zone.name)
}

fn told(faults: &[String]) -> Option<String> {
    (!faults.is_empty()).then(|| crate::decide::cut(&faults.join("; ")))
}
