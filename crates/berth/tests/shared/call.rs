//! Calls a hook as Cluster API does: by the name of the Service, trusting one authority.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::Request;
use kit::clock::Clock;
use kit::http::{HttpClient, HttpOptions, Policy, Resolve};
use serde_json::Value;

/// What the paths of hooks start with.
const PATHS: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// Every name is this machine.
struct Here;

impl Resolve for Here {
    fn resolve(&self, _: &str) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })
    }
}

/// Calls a hook by the name of its server, trusting one authority only.
pub async fn call(host: &str, port: u16, authority: &str, path: &str, body: &Value) -> Option<Value> {
    let mut options = HttpOptions::new("cluster-api");
    options.policy = Policy::new().schemes(&["https"]).admit(["127.0.0.1/32".parse().unwrap()]);
    options.resolver = Arc::new(Here);
    options.native_roots = false;
    options.extra_ca = Some(authority.as_bytes().to_vec());
    let client = HttpClient::new(options, Clock::system()).unwrap();
    let request = Request::post(format!("https://{host}:{port}/{PATHS}/{path}")).body(body.to_string().into()).unwrap();
    let response = client.send(request).await.ok()?;
    assert_eq!(response.status(), 200);
    Some(serde_json::from_slice(response.body()).expect("JSON"))
}
