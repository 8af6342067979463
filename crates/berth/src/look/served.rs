//! Which kinds the server serves, asked once for a whole screen.

use std::collections::BTreeSet;

use http::header::ACCEPT;
use kit::kinds::{Kind, Kinds};
use kube::Client;
use serde::Deserialize;

/// How a client asks for all groups, versions and resources in one document; what follows is for servers that have none.
const WHOLE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// What the server serves.
pub struct Served {
    /// Group, version and plural of everything; none where the server has no document of all.
    all: Option<BTreeSet<(String, String, String)>>,
    /// Group and version of what another server behind this one serves and was not asked about lately.
    doubtful: BTreeSet<(String, String)>,
    /// Asks for each version by itself.
    each: Kinds,
}

#[derive(Deserialize)]
struct Document {
    kind: String,
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    metadata: Named,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Resource>,
    #[serde(default)]
    freshness: String,
}

#[derive(Deserialize)]
struct Resource {
    resource: String,
}

impl Served {
    /// Asks the server.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn ask(client: &Client) -> Result<Self, Box<kube::Error>> {
        let request = http::Request::get("/apis").header(ACCEPT, WHOLE).body(Vec::new());
        let request = request.map_err(|error| Box::new(kube::Error::HttpError(error)))?;
        let document = match client.request::<Document>(request).await {
            Ok(document) => Some(document),
            // Who may not see all of it, or asks a server that cannot tell, may still ask for each.
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => None,
            Err(kube::Error::SerdeError(_)) => None,
            Err(error) => return Err(Box::new(error)),
        };
        Ok(Self::of(document, Kinds::new(client.clone())))
    }

    /// Every kind is asked for by itself.
    pub fn each(client: &Client) -> Self {
        Self::of(None, Kinds::new(client.clone()))
    }

    fn of(document: Option<Document>, each: Kinds) -> Self {
        let Some(document) = document.filter(|document| document.kind == "APIGroupDiscoveryList") else {
            return Self { all: None, doubtful: BTreeSet::new(), each };
        };
        let (mut all, mut doubtful) = (BTreeSet::new(), BTreeSet::new());
        for group in document.items {
            for version in group.versions {
                let at = |plural: String| (group.metadata.name.clone(), version.version.clone(), plural);
                if version.freshness == "Stale" {
                    doubtful.insert((group.metadata.name.clone(), version.version.clone()));
                }
                all.extend(version.resources.into_iter().map(|one| at(one.resource)));
            }
        }
        Self { all: Some(all), doubtful, each }
    }

    /// The first of these versions of a kind that is served.
    ///
    /// # Errors
    /// When the server has to be asked and does not answer.
    pub async fn first<'k>(&self, candidates: &'k [Kind]) -> Result<Option<&'k Kind>, Box<kube::Error>> {
        for kind in candidates {
            if self.has(kind).await? {
                return Ok(Some(kind));
            }
        }
        Ok(None)
    }

    async fn has(&self, kind: &Kind) -> Result<bool, Box<kube::Error>> {
        // Every server has the core, whose document is another one.
        if kind.group.is_empty() && kind.version == "v1" {
            return Ok(true);
        }
        let Some(all) = &self.all else { return self.each.is_served(kind).await };
        if all.contains(&(kind.group.clone(), kind.version.clone(), kind.plural.clone())) {
            return Ok(true);
        }
        match self.doubtful.contains(&(kind.group.clone(), kind.version.clone())) {
            true => self.each.is_served(kind).await,
            false => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use sim::server::Server;

    use super::*;

    fn kind(group: &str, version: &str, plural: &str) -> Kind {
        Kind { group: group.to_owned(), version: version.to_owned(), kind: String::new(), plural: plural.to_owned() }
    }

    fn of(server: &Server, document: &Value) -> Served {
        Served::of(serde_json::from_value(document.clone()).ok(), Kinds::new(server.kube()))
    }

    fn document(freshness: &str) -> Value {
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [
            {"metadata": {"name": "metal3.io", "creationTimestamp": null}, "versions": [
                {"version": "v1alpha1", "freshness": freshness, "resources": [
                    {"resource": "hostclaims", "scope": "Namespaced", "verbs": ["list"], "subresources": [{"subresource": "status"}]}]},
            ]},
        ]})
    }

    #[tokio::test]
    async fn one_document_answers_for_every_kind_and_version() {
        let server = Server::new(1);
        let served = of(&server, &document("Current"));
        let versions = [kind("metal3.io", "v1", "hostclaims"), kind("metal3.io", "v1alpha1", "hostclaims")];
        assert_eq!(served.first(&versions).await.unwrap(), Some(&versions[1]));
        assert_eq!(served.first(&[kind("metal3.io", "v1alpha1", "hosts")]).await.unwrap(), None);
        assert!(served.first(&[kind("", "v1", "namespaces")]).await.unwrap().is_some());
        assert_eq!(server.requests(), 0);
    }

    #[tokio::test]
    async fn what_the_document_cannot_say_is_asked() {
        let server = Server::new(1);
        server.register(sim::server::Kind::namespaced("metal3.io", "v1alpha1", "Host", "hosts"));
        let hosts = [kind("metal3.io", "v1alpha1", "hosts")];
        let groups = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []});
        let cut = json!({"kind": "APIGroupDiscoveryList"});
        for vague in [document("Stale"), groups, cut, json!("?")] {
            assert!(of(&server, &vague).first(&hosts).await.unwrap().is_some(), "{vague}");
        }
        assert_eq!(server.requests(), 4);
    }
}
