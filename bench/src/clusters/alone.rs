//! The server once nobody else is there: what it needs for the generated objects, from a client that thinks about none of them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use http::Method;
use serde_json::{Value, json};
use sim::cloudstack::Handle;

use super::world::{GENERATED, OWNER};
use crate::again::as_written;
use crate::ceiling::{CONNECTIONS, IN_FLIGHT};
use crate::http::{Body, Pool};
use crate::oracle::each;
use crate::server::Server;
use crate::stage;

/// The namespace that everything is created in once more.
const ELSEWHERE: &str = "once-more";

/// What is left of a scene.
pub struct Alone {
    pub dir: PathBuf,
    pub server: Server,
    pub acs: Handle,
    pub wrong: Vec<String>,
}

impl Alone {
    /// Creates everything that was generated once more, elsewhere; the seconds that it took, and how many objects it were.
    pub async fn create_again(&self) -> Result<(f64, usize)> {
        let pool = Pool::connect(&self.server.kubeconfig(), CONNECTIONS, "berth-bench-driver").await?;
        pool.create_all("/api/v1/namespaces", &[json!({"metadata": {"name": ELSEWHERE}})]).await?;
        let mut all = Vec::new();
        for (kind, _) in GENERATED {
            let keep = |object: &Value| {
                let owner = object.pointer("/metadata/labels").and_then(|labels| labels.get(OWNER));
                let owner = owner.and_then(Value::as_str).unwrap_or_default().to_owned();
                all.push((owner, kind.within(ELSEWHERE), as_written(object, ELSEWHERE).to_string()));
            };
            each(&pool, &kind.path(), keep).await?;
        }
        // One cluster after the other, as they were written.
        all.sort();
        let make = |n: usize| {
            let (_, collection, object) = all.get(n).context("no such object")?;
            Ok((Method::POST, collection.clone(), Body::Json(object.clone().into())))
        };
        let (_, seconds) = pool.many(all.len(), IN_FLIGHT, make).await.context("creating everything once more")?;
        Ok((seconds, all.len()))
    }

    /// Stops the rest; what was wrong.
    pub async fn end(self) -> Result<Vec<String>> {
        self.server.stop().await?;
        self.acs.stop();
        stage::clear(&self.dir)?;
        Ok(self.wrong)
    }
}
