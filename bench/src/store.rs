//! Filling the store behind an API server with objects in the form in which the server itself would have stored them.
//!
//! On two cores a server takes some 200 creates a second, so that 100,000 objects cost more time than everything that is
//! measured with them. Nothing that is counted or timed happens here: what the server serves afterwards is read back
//! through it and checked by whoever fills.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::scenario::{Dice, Kind};

/// Connections that put objects there, one object after the other. Each object is a write of its own, because a server takes it
/// for granted that a revision of its store is about one object.
const CONNECTIONS: usize = 16;

/// The owner of every field that a new object has.
pub const CREATOR: &str = "kind-installer";

/// The store of one server.
pub struct Store {
    port: u16,
}

impl Store {
    /// The store that answers on this port of 127.0.0.1.
    pub fn at(port: u16) -> Self {
        Self { port }
    }

    /// Puts `count` objects of a kind there, as `make` gives them.
    pub async fn put<F>(&self, kind: Kind, count: usize, make: F) -> Result<()>
    where
        F: Fn(usize) -> Result<Value>,
    {
        let make = &make;
        let share = |first: usize| async move {
            let mut connection = Connection::open(self.port).await?;
            for n in (first..count).step_by(CONNECTIONS) {
                let object = make(n)?;
                connection.put(&key(kind, &object)?, &object.to_string()).await?;
            }
            anyhow::Ok(())
        };
        futures::future::try_join_all((0..CONNECTIONS.min(count)).map(share))
            .await
            .map(drop)
            .with_context(|| format!("storing {}", kind.plural))
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    // Dropping it ends the connection.
    _driver: JoinSet<()>,
}

impl Connection {
    async fn open(port: u16) -> Result<Self> {
        let tcp = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.context("connecting to the store")?;
        tcp.set_nodelay(true).context("setting TCP_NODELAY")?;
        let (sender, connection) = handshake(TokioIo::new(tcp)).await.context("talking to the store")?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // A broken connection shows up at the request.
            let _ = connection.await;
        });
        Ok(Self { sender, host: format!("127.0.0.1:{port}"), _driver: driver })
    }

    async fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let body = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)}).to_string();
        let request = Request::builder()
            .method(Method::POST)
            .uri("/v3/kv/put")
            .header(http::header::HOST, &self.host)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .context("building a request to the store")?;
        self.sender.ready().await.context("the connection to the store is gone")?;
        let answer = self.sender.send_request(request).await.context("asking the store")?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await.context("reading the store's answer")?.to_bytes();
        if status != StatusCode::OK {
            bail!("the store answers {status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(())
    }
}

/// Where a server keeps an object of a custom kind.
fn key(kind: Kind, object: &Value) -> Result<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name").context("an object without a name")?;
    let place = text("/metadata/namespace").map(|namespace| format!("{namespace}/")).unwrap_or_default();
    Ok(format!("/registry/{}/{}/{place}{name}", kind.group, kind.plural))
}

/// An object as a server stores it once it was created, and its state reported: with an identity, a time, a generation, and
/// with the owners of its fields. Owners that it names itself stay, beside its creator.
pub fn stored(mut object: Value, index: u64) -> Value {
    let (owned, state) = (owned(&object), object.get("status").map(deep));
    let version = object.get("apiVersion").cloned().unwrap_or_default();
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return object };
    let mut dice = Dice::new(0x5eed, index);
    let (high, low) = (dice.next(), dice.next());
    metadata.insert(
        "uid".to_owned(),
        json!(format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            low >> 52,
            low & 0xffff_ffff_ffff
        )),
    );
    metadata.insert("generation".to_owned(), json!(1));
    metadata.insert("creationTimestamp".to_owned(), json!(now));
    let owner = |manager: &str, fields: Value| {
        json!({"manager": manager, "operation": "Update", "apiVersion": version, "time": now, "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    };
    let mut managers = vec![owner(CREATOR, owned)];
    let others = metadata.remove("managedFields");
    if let (Some(state), None) = (state, &others) {
        let mut reporter = owner("bench-reporter", json!({"f:status": state}));
        if let Some(entry) = reporter.as_object_mut() {
            entry.insert("subresource".to_owned(), json!("status"));
        }
        managers.push(reporter);
    }
    if let Some(Value::Array(others)) = others {
        managers.extend(others);
    }
    metadata.insert("managedFields".to_owned(), Value::Array(managers));
    object
}

fn fields(of: &Map<String, Value>, left_out: &[&str]) -> Map<String, Value> {
    let named = of.iter().filter(|(name, _)| !left_out.contains(&name.as_str()));
    named.map(|(name, value)| (format!("f:{name}"), deep(value))).collect()
}

/// A field and those below it in the form of `fieldsV1`; lists count as one.
fn deep(value: &Value) -> Value {
    let Value::Object(of) = value else { return json!({}) };
    let mut all = fields(of, &[]);
    all.insert(".".to_owned(), json!({}));
    Value::Object(all)
}

/// The fields that whoever creates an object owns.
fn owned(object: &Value) -> Value {
    let Value::Object(of) = object else { return json!({}) };
    let mut all = fields(of, &["apiVersion", "kind", "metadata", "status"]);
    if let Some(Value::Object(metadata)) = of.get("metadata") {
        let own = fields(metadata, &["name", "namespace", "uid", "managedFields"]);
        all.insert("f:metadata".to_owned(), Value::Object(own));
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { group: "berth.dev", version: "v1alpha1", plural: "things", kind: "Thing" };

    #[test]
    fn an_object_is_kept_where_a_server_looks_for_it() {
        let key = |metadata: Value| key(KIND, &json!({"metadata": metadata}));
        assert_eq!(key(json!({"name": "a"})).unwrap(), "/registry/berth.dev/things/a");
        assert_eq!(key(json!({"name": "a", "namespace": "n"})).unwrap(), "/registry/berth.dev/things/n/a");
        assert!(key(json!({})).is_err());
    }

    #[test]
    fn a_stored_object_has_an_identity_of_its_own_and_an_owner_for_each_field() {
        let new = json!({"apiVersion": "berth.dev/v1alpha1", "kind": "Thing",
            "metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"list": [1, 2], "deep": {"er": 1}},
            "status": {"known": true}});
        let (one, two) = (stored(new.clone(), 1), stored(new.clone(), 2));
        assert_ne!(one["metadata"]["uid"], two["metadata"]["uid"]);
        assert_eq!(one["metadata"]["uid"].as_str().unwrap().len(), 36);
        let managers = one["metadata"]["managedFields"].as_array().unwrap();
        let names = |managers: &[Value]| -> Vec<String> {
            managers.iter().map(|manager| manager["manager"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(managers), [CREATOR, "bench-reporter"]);
        assert_eq!(managers[1]["fieldsV1"], json!({"f:status": {".": {}, "f:known": {}}}));
        let mut named = new;
        named["metadata"]["managedFields"] = json!([{"manager": "other"}]);
        assert_eq!(names(stored(named, 3)["metadata"]["managedFields"].as_array().unwrap()), [CREATOR, "other"]);
        let wanted = json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}},
            "f:spec": {".": {}, "f:list": {}, "f:deep": {".": {}, "f:er": {}}}});
        assert_eq!(managers[0]["fieldsV1"], wanted);
    }
}
