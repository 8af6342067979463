//! From an HTTP request to the store and back.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use serde_json::{Value, json};

use super::{
    Inner, Line,
    faults::RequestInfo,
    kinds::{Kind, Registry},
    status::Failure,
};

/// A decoded query string.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn parse(raw: &str) -> Self {
        Self(
            raw.split('&')
                .filter(|p| !p.is_empty())
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(value))
                })
                .collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Failure> {
        match self.0.get(key).map(String::as_str) {
            None => Ok(None),
            Some("true" | "1" | "") => Ok(Some(true)),
            Some("false" | "0") => Ok(Some(false)),
            Some(other) => Err(Failure::bad_request(format!("{key}={other} is not true or false"))),
        }
    }

    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Failure> {
        match self.get(key) {
            "" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| Failure::bad_request(format!("Invalid value: {key}={text:?} is not a number"))),
        }
    }
}

fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let pair: Vec<u8> = bytes.by_ref().take(2).collect();
                let hex = std::str::from_utf8(&pair).ok().and_then(|h| u8::from_str_radix(h, 16).ok());
                out.extend(hex);
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// What a path addresses.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: Arc<Kind>,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: Option<String>,
}

/// Finds the resource a path addresses; `None` when there is no such type.
pub(crate) fn target(registry: &Registry, path: &[&str]) -> Option<Target> {
    let (group, version, rest) = match path {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", _, "status" | "finalize"] if group.is_empty() => ("", rest),
        ["namespaces", ns, inner @ ..] if !inner.is_empty() => (*ns, inner),
        _ => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, "", None),
        [plural, name] => (*plural, *name, None),
        [plural, name, sub] => (*plural, *name, Some((*sub).to_owned())),
        _ => return None,
    };
    let kind = registry.served(group, version, plural)?.clone();
    if !namespace.is_empty() && !kind.namespaced {
        return None;
    }
    if kind.namespaced && namespace.is_empty() && !name.is_empty() {
        return None;
    }
    if let Some(sub) = &subresource
        && !(sub == "status" && kind.status)
    {
        return None;
    }
    Some(Target {
        kind,
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource,
    })
}

/// Whether a client would have all groups, versions and resources in one document.
fn wants_all(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|offer| offer.contains("as=APIGroupDiscoveryList") && offer.contains("v=v2;"))
}

/// How much of an object the client wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negotiated {
    Whole,
    Metadata,
}

impl Negotiated {
    fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        let accept = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("*/*");
        for offer in accept.split(',') {
            let parts: Vec<&str> = offer.split(';').map(str::trim).collect();
            let media = parts.first().copied().unwrap_or_default();
            if !matches!(media, "application/json" | "application/*" | "*/*" | "") {
                continue;
            }
            match parts.iter().find_map(|p| p.strip_prefix("as=")) {
                None => return Ok(Self::Whole),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Ok(Self::Metadata),
                Some(_) => {}
            }
        }
        Err(Failure::new(406, "NotAcceptable", "only the following media types are accepted: application/json"))
    }

    pub(crate) fn show(self, object: Value) -> Value {
        if self == Self::Whole || object.get("kind").and_then(Value::as_str) == Some("Status") {
            return object;
        }
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
        })
    }

    pub(crate) fn list_type(self, kind: &Kind, version: &str) -> (String, String) {
        match self {
            Self::Whole => (kind.api_version(version), format!("{}List", kind.kind)),
            Self::Metadata => ("meta.k8s.io/v1".into(), "PartialObjectMetadataList".into()),
        }
    }
}

/// A request, taken apart.
pub(crate) struct Asked {
    pub(crate) info: RequestInfo,
    pub(crate) method: Method,
    pub(crate) path: Vec<String>,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn new(line: &Line, registry: &Registry, parts: &http::request::Parts, body: Bytes) -> Self {
        let raw_query = parts.uri.query().unwrap_or_default().to_owned();
        let query = Query::parse(&raw_query);
        let path: Vec<String> = parts.uri.path().split('/').filter(|p| !p.is_empty()).map(decode).collect();
        let slices: Vec<&str> = path.iter().map(String::as_str).collect();
        let found = target(registry, &slices);
        let agent = parts.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let info = RequestInfo {
            client: line.name().to_owned(),
            agent,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: raw_query,
            resource: found.as_ref().map(|t| t.kind.resource()).unwrap_or_default(),
            name: found.as_ref().map(|t| t.name.clone()).unwrap_or_default(),
            watch: query.flag("watch").ok().flatten() == Some(true),
            mutating: parts.method != Method::GET && parts.method != Method::HEAD,
        };
        Self { info, method: parts.method.clone(), path, query, headers: parts.headers.clone(), body }
    }

    pub(crate) fn content_type(&self) -> &str {
        self.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }

    pub(crate) fn shown(&self) -> Result<Negotiated, Failure> {
        Negotiated::of(&self.headers)
    }

    /// The body of a create, replace or delete.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        let media = self.content_type().split(';').next().unwrap_or_default().trim();
        if !matches!(media, "" | "application/json") {
            return Err(Failure::unsupported(format!(
                "the body of the request was in an unknown format ({media}) - accepted media types include: application/json"
            )));
        }
        self.parsed()
    }

    pub(crate) fn parsed(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body)
            .map_err(|e| Failure::bad_request(format!("the body of the request could not be decoded as JSON: {e}")))
    }
}

/// What goes back.
pub(crate) enum Answer {
    Json(u16, Value),
    Text(u16, String),
    Watch(Box<super::watch::WatchSpec>),
}

impl From<Failure> for Answer {
    fn from(failure: Failure) -> Self {
        if failure.plain { Self::Text(failure.code, failure.message) } else { Self::Json(failure.code, failure.body()) }
    }
}

impl Answer {
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Json(code, _) | Self::Text(code, _) => *code,
            Self::Watch(_) => 200,
        }
    }
}

/// Decides a request on the store.
pub(crate) fn dispatch(inner: &Inner, line: &Line, asked: &Asked) -> Answer {
    route(inner, line, asked).unwrap_or_else(Answer::from)
}

fn route(inner: &Inner, line: &Line, asked: &Asked) -> Result<Answer, Failure> {
    let path: Vec<&str> = asked.path.iter().map(String::as_str).collect();
    if let ["healthz" | "readyz" | "livez", ..] = path.as_slice() {
        return Ok(Answer::Text(200, "ok".into()));
    }
    let mut core = inner.core();
    if let Some(answer) = super::discovery::answer(&core.registry, &path, wants_all(&asked.headers)) {
        if asked.method != Method::GET {
            return Err(Failure::method_not_allowed());
        }
        return answer.map(|value| Answer::Json(200, value));
    }
    let target = target(&core.registry, &path).ok_or_else(Failure::unknown_path)?;
    let shown = asked.shown()?;
    let before = core.store.rev;
    let answer = if asked.info.mutating {
        let now = inner.now();
        let written = super::verbs::write(&mut core, line, asked, &target, now);
        core.collect(now);
        written.map(|(code, object)| Answer::Json(code, shown.show(object)))
    } else {
        super::verbs::read(&core, line, asked, &target, shown)
    };
    let moved = core.store.rev != before;
    drop(core);
    if moved {
        inner.tick();
    }
    answer
}

/// The namespaces every cluster begins with.
pub(crate) fn first_namespaces() -> [Value; 2] {
    ["default", "kube-system"]
        .map(|name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))
}
