//! The strict simulator of EC2, and how the process under test finds it.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sim::ec2::{self, Handle};

use crate::http::Pool;

/// The group of the AWS provider's kinds.
const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// A cloud with the published request limits, in which quotas are no matter.
pub async fn start() -> Result<Handle> {
    let mut options = ec2::Options::default();
    options.settings.host_quota = 100_000;
    ec2::start(options).await.context("starting the EC2 simulator")
}

/// Flags that send a process there, with the credentials of [`credentials`].
pub fn flags(ec2: &Handle) -> [String; 2] {
    [format!("--aws-endpoint=ec2={}", ec2.endpoint), "--aws-credentials-secret=default/aws".to_owned()]
}

/// Puts the credentials into a Secret.
pub async fn credentials(pool: &Pool, ec2: &Handle) -> Result<()> {
    let data = json!({"aws_access_key_id": ec2.access_key, "aws_secret_access_key": ec2.secret});
    let secret = json!({"metadata": {"name": "aws"}, "stringData": data});
    pool.create_all("/api/v1/namespaces/default/secrets", &[secret]).await.context("creating the credentials")
}

/// The definition of a kind of the AWS provider, with an open schema.
pub fn provider(kind: &str) -> Value {
    sim::plane::open_definition(GROUP, "v1beta2", kind)
}
