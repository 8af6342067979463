//! What clusters on CloudStack stand on: Cluster API with its kubeadm managers, a simulated CloudStack, and the provider and
//! the control planes that are played.

use std::time::Duration;

use kube::Client;
use sim::cloudstack::{self, Handle, Options};
use sim::plane::{self, Manager, Plane, PlaneError};
use sim::provider::Provider;

/// The value of the watch filter of the real control-plane manager, which judges everything and works on nothing else.
pub const REAL: &str = "real";

/// It ends when this is dropped.
pub struct Ground {
    pub acs: Handle,
    pub provider: Provider,
    pub managers: [Manager; 3],
}

impl Ground {
    /// Lays it on a server.
    pub async fn lay(plane: &Plane, client: &Client) -> Result<Self, PlaneError> {
        plane::install_crds(client, plane::cloudstack_definitions()?).await?;
        let managers = [
            plane::capi(plane).await?,
            plane::kubeadm_bootstrap(plane).await?,
            plane::kubeadm_control_plane_with(plane, &[&format!("--watch-filter={REAL}")]).await?,
        ];
        Ok(Self { acs: simulated().await, provider: Provider::start(client), managers })
    }
}

/// A simulated CloudStack in which nothing takes time.
pub async fn simulated() -> Handle {
    let (mut options, now) = (Options::default(), Duration::ZERO);
    options.settings.delays = cloudstack::world::settings::Delays { deploy: now, power: now, expunge: now, other: now };
    cloudstack::start(options).await.expect("the CloudStack simulator starts")
}

/// What stands here for what the book made up about a CloudStack.
pub fn own(acs: &Handle) -> [(&str, &'static str); 3] {
    [
        (&acs.endpoint, "http://cloudstack.example:8080/client/api"),
        (&acs.api_key, "the-api-key"),
        (&acs.secret_key, "the-secret-key"),
    ]
}
