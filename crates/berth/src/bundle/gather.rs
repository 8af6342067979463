//! Reads everything once, with the rights of whoever asks, and hands it on without secrets.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use anyhow::Context;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kit::class::chain;
use kit::kinds::Kind;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::index::{self, Count, Manifest, Removed};
use super::sink::{Sink, part};
use super::wanted::{self, Found};
use super::{MOST_LOG, redact, text};
use crate::pods::{self, OperatorPod};

/// Objects in one answer of the server: few, because whole objects are large.
const PAGE: u32 = 100;

/// Says on a terminal what is being done.
#[derive(Clone, Copy)]
pub struct Progress(bool);

impl Progress {
    /// Lines on standard error if that is a terminal.
    pub fn standard_error() -> Self {
        Self(std::io::stderr().is_terminal())
    }

    /// Says nothing.
    #[cfg(test)]
    pub fn silent() -> Self {
        Self(false)
    }

    fn say(self, what: &str) {
        if self.0 {
            // Nobody can be told that nothing can be told.
            let _ = writeln!(std::io::stderr(), "berth: {what}");
        }
    }
}

/// A bundle being gathered.
pub struct Gather<'a, S> {
    client: &'a Client,
    sink: &'a mut S,
    /// Only these namespaces; empty for all.
    namespaces: &'a [String],
    progress: Progress,
    /// What there is so far.
    pub manifest: Manifest,
    /// What was taken out so far.
    pub removed: Vec<Removed>,
}

impl<'a, S: Sink> Gather<'a, S> {
    /// Nothing is read yet.
    pub fn new(
        client: &'a Client,
        sink: &'a mut S,
        namespaces: &'a [String],
        progress: Progress,
        manifest: Manifest,
    ) -> Self {
        Self { client, sink, namespaces, progress, manifest, removed: Vec::new() }
    }

    /// Reads everything and writes it, and at last what the bundle says about itself.
    ///
    /// # Errors
    /// When the server does not answer at all, or a file cannot be written. What may not be read is left out and told.
    pub async fn all(&mut self) -> anyhow::Result<()> {
        let version = match self.client.apiserver_version().await {
            Ok(version) => json!(version),
            Err(kube::Error::Api(status)) => {
                self.manifest.miss("the server's version", status.message);
                Value::Null
            }
            Err(error) => return Err(error).context("asking the API server for its version; see `berth doctor`"),
        };
        self.manifest.server = version.get("gitVersion").and_then(Value::as_str).map(str::to_owned);
        let (found, missing) = wanted::find(self.client, &wanted::wanted()).await;
        for (what, why) in missing {
            self.manifest.miss(what, why);
        }
        for kind in &found {
            self.kind(kind, self.namespaces).await?;
        }
        self.events(&found).await?;
        self.operator().await?;
        let rooms: Vec<&str> = crate::rooms::BUILT.iter().map(|room| room.name).collect();
        let versions = json!({"server": version, "berth": {"version": self.manifest.berth, "rooms": rooms},
            "kinds": self.manifest.kinds});
        self.document("versions.json", "Versions", &versions)?;
        self.definitions(&found).await?;
        self.close()
    }

    /// What the bundle says about itself.
    fn close(&mut self) -> anyhow::Result<()> {
        self.manifest.removed = self.removed.len();
        let removed = json!({"items": self.removed});
        self.document("removed.json", "RemovedList", &removed)?;
        self.put("removed.txt", index::removed_text(&self.removed).as_bytes())?;
        self.document("manifest.json", "Bundle", &json!(self.manifest))?;
        self.put("README.txt", index::readme(&self.manifest).as_bytes())
    }

    fn put(&mut self, path: &str, content: &[u8]) -> anyhow::Result<()> {
        self.sink.put(path, content).with_context(|| format!("writing {path}"))
    }

    fn document(&mut self, path: &str, kind: &str, content: &Value) -> anyhow::Result<()> {
        let mut document = json!({"apiVersion": crate::explain::API_VERSION, "kind": kind});
        if let (Some(document), Some(content)) = (document.as_object_mut(), content.as_object()) {
            document.extend(content.clone());
        }
        self.put(path, format!("{document:#}\n").as_bytes())
    }

    /// Writes an object without its secrets.
    fn object(&mut self, kind: &Kind, object: Value) -> anyhow::Result<()> {
        let name = |field: &str| object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).map(part);
        let resource = resource(kind);
        let file = match (name("namespace"), name("name").unwrap_or_else(|| part(""))) {
            (Some(namespace), name) => format!("objects/{resource}/{namespace}/{name}.json"),
            (None, name) => format!("objects/{resource}/{name}.json"),
        };
        let (kept, removed) = redact::object(object);
        self.removed.extend(index::of_object(&file, removed));
        self.put(&file, format!("{kept:#}\n").as_bytes())
    }

    /// Writes text without its secrets.
    fn text(&mut self, file: &str, content: &str) -> anyhow::Result<()> {
        let (kept, cuts) = text::scrub(content);
        self.removed.extend(index::of_text(file, &cuts));
        self.put(file, kept.as_bytes())
    }

    /// Reads and writes every object of a kind that may be read: of these namespaces, or of all.
    async fn kind(&mut self, found: &Found, namespaces: &[String]) -> anyhow::Result<()> {
        let resource = resource(&found.kind);
        self.progress.say(&format!("reading {resource}"));
        let api = |namespace: Option<&str>| -> Api<DynamicObject> {
            match namespace {
                Some(name) => Api::namespaced_with(self.client.clone(), name, &found.kind.resource()),
                None => Api::all_with(self.client.clone(), &found.kind.resource()),
            }
        };
        let mut objects = 0;
        if namespaces.is_empty() || !found.namespaced {
            let all = api(None);
            let home = self.client.default_namespace().to_owned();
            let own = api(Some(&home));
            match self.pages(&found.kind, &all, &mut objects).await? {
                Some(why) if found.namespaced && why.forbidden => {
                    // The rights of one namespace are better than nothing.
                    let less = match self.pages(&found.kind, &own, &mut objects).await? {
                        Some(_) => why.words,
                        None => format!("{}; only those in the namespace {home} were read", why.words),
                    };
                    self.manifest.miss(&resource, less);
                }
                Some(why) => self.manifest.miss(&resource, why.words),
                None => {}
            }
        } else {
            let apis: Vec<(String, Api<DynamicObject>)> =
                namespaces.iter().map(|name| (name.clone(), api(Some(name)))).collect();
            for (namespace, api) in apis {
                if let Some(why) = self.pages(&found.kind, &api, &mut objects).await? {
                    self.manifest.miss(format!("{resource} in the namespace {namespace}"), why.words);
                }
            }
        }
        let (version, served) = (found.kind.version.clone(), found.served.clone());
        self.manifest.kinds.push(Count { resource, version, served, objects });
        Ok(())
    }

    /// Reads page by page, so that no kind is held whole; says why it ended early.
    async fn pages(
        &mut self,
        kind: &Kind,
        api: &Api<DynamicObject>,
        objects: &mut usize,
    ) -> anyhow::Result<Option<Why>> {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                Err(error) => return Ok(Some(Why::of(&error, *objects))),
            };
            for item in page.items {
                *objects += 1;
                self.object(kind, whole(kind, &item))?;
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(None),
            }
        }
    }

    /// Events about the objects of the bundle, and all of the operator's namespace.
    async fn events(&mut self, found: &[Found]) -> anyhow::Result<()> {
        self.progress.say("reading events");
        let kind = core("Event", "events");
        let mut scopes: Vec<Option<String>> = self.namespaces.iter().cloned().map(Some).collect();
        if scopes.is_empty() {
            scopes.push(None);
        }
        let home = self.manifest.operator_namespace.clone();
        let mut kept: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for scope in scopes {
            let api: Api<DynamicObject> = match &scope {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind.resource()),
                None => Api::all_with(self.client.clone(), &kind.resource()),
            };
            let mut params = ListParams::default().limit(PAGE * 5);
            loop {
                let page = match api.list(&params).await {
                    Ok(page) => page,
                    Err(error) => {
                        let place = scope.map(|name| format!(" in the namespace {name}")).unwrap_or_default();
                        self.manifest.miss(format!("events{place}"), Why::of(&error, 0).words);
                        break;
                    }
                };
                for item in page.items {
                    let event = whole(&kind, &item);
                    let namespace = item.metadata.namespace.unwrap_or_default();
                    if namespace == home || about(&event, found) {
                        kept.entry(namespace).or_default().push(event);
                    }
                }
                match page.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => params = params.continue_token(&token),
                    None => break,
                }
            }
        }
        for (namespace, events) in kept {
            self.manifest.events += events.len();
            let file = format!("events/{}.json", part(&namespace));
            let (kept, removed): (Vec<Value>, Vec<Vec<redact::Removed>>) =
                events.into_iter().map(redact::object).unzip();
            for (number, removed) in removed.into_iter().enumerate() {
                let placed = removed
                    .into_iter()
                    .map(|gone| redact::Removed { path: format!("items[{number}].{}", gone.path), ..gone });
                self.removed.extend(index::of_object(&file, placed.collect()));
            }
            let list = json!({"apiVersion": "v1", "kind": "EventList", "items": kept});
            self.put(&file, format!("{list:#}\n").as_bytes())?;
        }
        Ok(())
    }

    /// The operator's ConfigMaps, lease and deployment, its webhooks, and its pods with what they log and serve.
    async fn operator(&mut self) -> anyhow::Result<()> {
        let namespace = self.manifest.operator_namespace.clone();
        let kinds = [
            core("ConfigMap", "configmaps"),
            kind("coordination.k8s.io", "Lease", "leases"),
            kind("apps", "Deployment", "deployments"),
        ];
        for kind in kinds {
            let served = vec![kind.version.clone()];
            self.kind(&Found { kind, namespaced: true, served }, std::slice::from_ref(&namespace)).await?;
        }
        let hooks = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
        for name in hooks {
            let kind = kind("admissionregistration.k8s.io", name, &format!("{}s", name.to_lowercase()));
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind.resource());
            match api.get_opt("berth").await {
                Ok(Some(found)) => self.object(&kind, whole(&kind, &found))?,
                Ok(None) => {}
                Err(error) => self.manifest.miss(resource(&kind), Why::of(&error, 0).words),
            }
        }
        let pods = match pods::list(self.client, &namespace).await {
            Ok(pods) => pods,
            Err(error) => {
                self.manifest.miss(format!("pods in the namespace {namespace}"), Why::of(&error, 0).words);
                return Ok(());
            }
        };
        if pods.is_empty() {
            let why = format!("none with the label {} is there; see --operator-namespace", pods::LABEL);
            self.manifest.miss(format!("pods in the namespace {namespace}"), why);
        }
        for pod in pods {
            self.manifest.pods += 1;
            let mut object = json!(pod);
            if let Some(fields) = object.as_object_mut() {
                fields.extend([("apiVersion".to_owned(), json!("v1")), ("kind".to_owned(), json!("Pod"))]);
            }
            self.object(&core("Pod", "pods"), object)?;
            self.pod(&namespace, &OperatorPod::of(&pod)).await?;
        }
        Ok(())
    }

    /// What one pod logs and serves.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub async fn pod(&mut self, namespace: &str, pod: &OperatorPod) -> anyhow::Result<()> {
        self.progress.say(&format!("reading logs and metrics of the pod {}", pod.name));
        let dir = format!("operator/{}", part(&pod.name));
        for container in &pod.containers {
            for previous in [false, true].into_iter().take(if container.restarted { 2 } else { 1 }) {
                let which = (pod.name.as_str(), container.name.as_str());
                let end = if previous { ".previous.log" } else { ".log" };
                let file = format!("{dir}/{}{end}", part(&container.name));
                match pods::log(self.client, namespace, which, previous, MOST_LOG).await {
                    Ok((bytes, cut)) => {
                        self.manifest.logs += 1;
                        if cut {
                            let why = format!("longer than {} MiB", MOST_LOG >> 20);
                            self.manifest.miss(format!("the beginning of {file}"), why);
                        }
                        self.text(&file, &String::from_utf8_lossy(&bytes))?;
                    }
                    Err(why) => self.manifest.miss(file, why),
                }
            }
        }
        for (file, port, path) in
            [("metrics.txt", pod.metrics, "/metrics"), ("readyz.txt", pod.health, "/readyz?verbose")]
        {
            match pods::ask(self.client, namespace, &pod.name, port, path).await {
                // Whoever is not ready answers, too, and says why.
                Ok((status @ (401 | 403 | 404), _)) => {
                    self.manifest.miss(format!("{dir}/{file}"), format!("the pod answers {status}"));
                }
                Ok((_, body)) => self.text(&format!("{dir}/{file}"), &body)?,
                Err(why) => self.manifest.miss(format!("{dir}/{file}"), why),
            }
        }
        Ok(())
    }

    /// What is said about the definitions of the kinds; their schemas are large and known from their versions.
    async fn definitions(&mut self, found: &[Found]) -> anyhow::Result<()> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let list = match api.list_metadata(&ListParams::default()).await {
            Ok(list) => list.items,
            Err(error) => {
                self.manifest.miss("definitions of kinds", Why::of(&error, 0).words);
                return Ok(());
            }
        };
        let names: Vec<String> = found.iter().map(|found| found.kind.definition()).collect();
        let (mut kept, mut taken) = (Vec::new(), Vec::new());
        for item in list.into_iter().filter(|item| item.metadata.name.as_ref().is_some_and(|n| names.contains(n))) {
            let (item, removed) = redact::object(json!({"metadata": item.metadata}));
            kept.push(item);
            taken.extend(index::of_object("definitions.json", removed));
        }
        self.removed.extend(taken);
        self.document("definitions.json", "DefinitionList", &json!({"items": kept}))
    }
}

/// Why something was not read.
struct Why {
    forbidden: bool,
    words: String,
}

impl Why {
    fn of(error: &kube::Error, after: usize) -> Self {
        let forbidden = matches!(error, kube::Error::Api(status) if status.code == 403);
        let words = match error {
            kube::Error::Api(status) if status.code == 403 => "you may not list it".to_owned(),
            kube::Error::Api(status) if status.code == 404 => super::UNKNOWN.to_owned(),
            error if after > 0 => format!("ended after {after}: {}", chain(error)),
            error => chain(error),
        };
        Self { forbidden, words }
    }
}

fn core(name: &str, plural: &str) -> Kind {
    kind("", name, plural)
}

fn kind(group: &str, kind: &str, plural: &str) -> Kind {
    let (group, version) = (group.to_owned(), "v1".to_owned());
    Kind { group, version, kind: kind.to_owned(), plural: plural.to_owned() }
}

/// As kubectl names it.
fn resource(kind: &Kind) -> String {
    kind.definition().trim_end_matches('.').to_owned()
}

/// The object as JSON; in lists the server leaves out what its kind is.
fn whole(kind: &Kind, object: &DynamicObject) -> Value {
    let mut value = json!(object);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!(kind.api_version()));
        fields.insert("kind".to_owned(), json!(kind.kind));
    }
    value
}

/// Whether an event is about an object of one of these kinds.
fn about(event: &Value, found: &[Found]) -> bool {
    let said = |field: &str| event.pointer(&format!("/involvedObject/{field}")).and_then(Value::as_str);
    let version = said("apiVersion").unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    found.iter().any(|found| found.kind.group == group && Some(found.kind.kind.as_str()) == said("kind"))
}
