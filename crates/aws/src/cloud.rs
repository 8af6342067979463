//! The way to a cloud: who asks, where, and whom to trust.

use std::future::Future;
use std::sync::Arc;

use api::names::{AccountId, Region};

use crate::credentials::Source;
use crate::place::Endpoints;
use crate::port::{Answer, Ec2};

/// Everything a client of EC2 depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    /// The region that is called and signed for.
    pub region: Region,
    /// Whose credentials.
    pub source: Source,
    /// Where services answer.
    pub endpoints: Endpoints,
    /// Certificate authorities instead of the machine's own, as PEM.
    pub bundle: Option<Arc<str>>,
}

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DoorError {
    /// One sentence.
    pub message: String,
}

/// Gives clients of EC2; equal doors share one.
pub trait Cloud: Send + Sync + 'static {
    /// The client.
    type Ec2: Ec2 + 'static;

    /// The client behind a door; nothing is called yet.
    ///
    /// # Errors
    /// When connections or credentials cannot be set up.
    fn open(&self, door: &Door) -> Result<Self::Ec2, DoorError>;

    /// The account behind a door: what the credentials name, else what the token service says.
    fn account(&self, door: &Door) -> impl Future<Output = Answer<AccountId>> + Send;

    /// Forgets the client behind a door: its credentials are no longer good.
    fn forget(&self, door: &Door);
}

#[cfg(feature = "net")]
mod net {
    use api::names::AccountId;

    use super::{Cloud, Door, DoorError};
    use crate::errors::Error;
    use crate::net::{Aws, Ec2Client, Scope, Trust};
    use crate::port::{Answer, Sts};

    fn scope(door: &Door) -> Scope {
        Scope {
            region: door.region.clone(),
            source: door.source.clone(),
            endpoints: door.endpoints.clone(),
            trust: door.bundle.as_deref().map_or(Trust::System, Trust::from_bundle),
        }
    }

    impl Cloud for Aws {
        type Ec2 = Ec2Client;

        fn open(&self, door: &Door) -> Result<Ec2Client, DoorError> {
            if self.is_closed() {
                return Err(DoorError { message: "EC2 was not asked".to_owned() });
            }
            let client = self.client(&scope(door));
            client.map(|client| client.ec2().clone()).map_err(|e| DoorError { message: kit::class::chain(&e) })
        }

        async fn account(&self, door: &Door) -> Answer<AccountId> {
            if self.is_closed() {
                return Err(Error::refused("GetCallerIdentity", door.region.as_str(), "NotAsked", "AWS was not asked"));
            }
            if let Some(account) = door.source.account() {
                return Ok(account.clone());
            }
            let client = self.client(&scope(door)).map_err(|error| {
                Error::refused("GetCallerIdentity", door.region.as_str(), "NoClient", &kit::class::chain(&error))
            })?;
            Ok(client.get_caller_identity().await?.account)
        }

        fn forget(&self, door: &Door) {
            Aws::forget(self, &scope(door));
        }
    }
}
