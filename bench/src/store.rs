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
use serde_json::{Value, json};
use sim::server::Rng;
use tokio::task::JoinSet;

use crate::scenario::Kind;

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

/// The `index`-th object as a server stores it once it was created and its state reported. Owners that it names itself stay,
/// beside its creator.
pub fn stored(object: Value, index: u64) -> Value {
    sim::server::stored(object, CREATOR, "bench-reporter", jiff::Timestamp::now(), &mut Rng::new(index))
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
    fn a_stored_object_has_an_identity_of_its_own_and_a_creator() {
        let new =
            json!({"apiVersion": "berth.dev/v1alpha1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": 1}});
        let (one, two) = (stored(new.clone(), 1), stored(new, 2));
        assert_ne!(one["metadata"]["uid"], two["metadata"]["uid"]);
        assert_eq!(one["metadata"]["managedFields"][0]["manager"], CREATOR);
    }
}
