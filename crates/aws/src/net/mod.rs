//! The half that touches the network.
//!
//! [`Aws`] is made once per process. A room asks it for the [`Client`] of a [`Scope`] (region, credentials, endpoints,
//! trust) whenever it needs one: equal scopes share one client, its connections, its credentials and its place in line.

mod call;
mod ec2;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod identity;
mod sts;
mod trust;
mod wire;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::names::Region;
use kit::clock::Clock;
use kit::http::{Carry, HttpClient, HttpError, HttpOptions, Policy, Pools, Resolve, SystemResolver};
use tokio::time::Instant;

pub use call::{Meter, Timing};
pub use ec2::Ec2Client;
pub use identity::shared_files;
pub use trust::Trust;

use crate::credentials::{CredentialsError, Source};
use crate::errors::Service;
use crate::limits::{Limits, Pace};
use crate::place::{Endpoint, Endpoints};
use crate::port::{Answer, AssumeRole, AssumeRoleWithWebIdentity, CallerIdentity, Credentials, Sts};
use call::{Buckets, Caller, Signer};
use identity::{Container, How, Machine, Provider};

/// Clients that are kept.
const CLIENTS: usize = 64;

/// A client that nobody asked for in this time is dropped.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// Roles taken on one after the other.
const CHAIN: usize = 10;

/// How all clients of a process behave.
#[derive(Clone)]
pub struct Options {
    /// The user agent of every call: a product and its version.
    pub user_agent: String,
    /// Which buckets are kept to.
    pub limits: Limits,
    /// What users say about some of them.
    pub paces: Vec<Pace>,
    /// How long calls may take.
    pub timing: Timing,
    /// How names are resolved.
    pub resolver: Arc<dyn Resolve>,
    /// Who carries requests in place of the network.
    pub carrier: Option<Arc<dyn Carry>>,
    /// Whether no door opens, for whoever thinks as a room does without asking AWS.
    pub closed: bool,
}

impl Options {
    /// The defaults: the shipped buckets, 60 s per call.
    #[must_use]
    pub fn new(user_agent: &str) -> Self {
        Self {
            user_agent: user_agent.to_owned(),
            limits: Limits::Shipped,
            paces: Vec::new(),
            timing: Timing::default(),
            resolver: Arc::new(SystemResolver),
            carrier: None,
            closed: false,
        }
    }

    /// AWS is not asked at all.
    #[must_use]
    pub fn closed() -> Self {
        Self { closed: true, ..Self::new("") }
    }
}

/// What a client is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The region that is called and signed for.
    pub region: Region,
    /// Whose credentials.
    pub source: Source,
    /// Where services answer.
    pub endpoints: Endpoints,
    /// Which authorities are trusted.
    pub trust: Trust,
}

/// Why there is no client for a scope.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SetupError {
    /// The connection cannot be set up, for instance because the CA bundle is no PEM.
    #[error("cannot set up connections to {place}")]
    Http {
        /// To what.
        place: &'static str,
        /// Why.
        #[source]
        source: crate::credentials::Why,
    },
    /// The credentials cannot be set up.
    #[error("cannot set up credentials")]
    Credentials(#[source] CredentialsError),
}

impl kit::class::Classify for SetupError {
    fn class(&self) -> kit::class::Class {
        match self {
            // A bundle is replaced by somebody else and nothing announces it here.
            Self::Http { .. } => kit::class::Class::Transient { at_least: None },
            Self::Credentials(error) => error.kind().class(),
        }
    }
}

/// Everything that calls AWS in a process; clones share all of it.
#[derive(Clone)]
pub struct Aws {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    clock: Clock,
    meter: Meter,
    buckets: Arc<Buckets>,
    pools: Pools<(Endpoint, Trust)>,
    clients: Mutex<Vec<Kept>>,
}

struct Kept {
    scope: Scope,
    client: Client,
    used: Instant,
}

/// EC2 and STS for one scope; clones share everything.
#[derive(Clone)]
pub struct Client {
    ec2: Ec2Client,
    sts: Caller,
    nobody: Caller,
    provider: Arc<Provider>,
}

impl Client {
    /// EC2.
    #[must_use]
    pub fn ec2(&self) -> &Ec2Client {
        &self.ec2
    }

    /// Where the credentials come from.
    #[must_use]
    pub fn source(&self) -> &Source {
        self.provider.source()
    }
}

impl Sts for Client {
    async fn get_caller_identity(&self) -> Answer<CallerIdentity> {
        let caller = sts::get_caller_identity(&self.sts).await?;
        self.provider.learn(&caller.account);
        Ok(caller)
    }

    async fn assume_role(&self, request: &AssumeRole) -> Answer<Credentials> {
        sts::assume_role(&self.sts, request).await
    }

    async fn assume_role_with_web_identity(&self, request: &AssumeRoleWithWebIdentity) -> Answer<Credentials> {
        sts::assume_role_with_web_identity(&self.nobody, request).await
    }
}

impl Aws {
    /// Nothing is connected yet.
    #[must_use]
    pub fn new(options: Options, clock: Clock, meter: Meter) -> Self {
        let buckets = Arc::new(Buckets::new(clock.clone(), options.limits, options.paces.clone()));
        meter.show(&buckets);
        let pools = Pools::default();
        Self { inner: Arc::new(Inner { options, clock, meter, buckets, pools, clients: Mutex::default() }) }
    }

    /// The client of a scope: the same one for an equal scope, as long as somebody asks for it.
    ///
    /// # Errors
    /// When connections or credentials cannot be set up; nothing is called yet.
    pub fn client(&self, scope: &Scope) -> Result<Client, SetupError> {
        let now = self.inner.clock.instant();
        if let Some(kept) = self.clients().iter_mut().find(|kept| kept.scope == *scope) {
            kept.used = now;
            return Ok(kept.client.clone());
        }
        let client = self.build(scope)?;
        let mut clients = self.clients();
        clients.retain(|kept| now.saturating_duration_since(kept.used) < IDLE && kept.scope != *scope);
        if clients.len() >= CLIENTS {
            let oldest = clients.iter().enumerate().min_by_key(|(_, kept)| kept.used).map(|(at, _)| at);
            oldest.map(|at| clients.swap_remove(at));
        }
        clients.push(Kept { scope: scope.clone(), client: client.clone(), used: now });
        Ok(client)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.inner.options.closed
    }

    /// Forgets the client of a scope: its credentials or its endpoints are no longer what they were.
    pub fn forget(&self, scope: &Scope) {
        self.clients().retain(|kept| kept.scope != *scope);
    }

    /// How many clients are kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.clients().len()
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.inner.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, scope: &Scope) -> Result<Client, SetupError> {
        let depth = scope.source.depth();
        if depth > CHAIN {
            return Err(SetupError::Credentials(CredentialsError::TooDeep { limit: CHAIN }));
        }
        let provider = self.provider(scope, &scope.source)?;
        let signer = Signer::Provider(Arc::clone(&provider));
        Ok(Client {
            ec2: Ec2Client::new(self.caller(scope, Service::Ec2, signer.clone())?),
            sts: self.caller(scope, Service::Sts, signer)?,
            nobody: self.caller(scope, Service::Sts, Signer::Nobody)?,
            provider,
        })
    }

    /// The provider of a source; of a role, first that of the credentials that take it on. The depth is bounded.
    fn provider(&self, scope: &Scope, source: &Source) -> Result<Arc<Provider>, SetupError> {
        let how = match source {
            Source::Keys(keys) => How::Keys(keys.clone()),
            Source::WebIdentity(identity) => How::WebIdentity {
                identity: identity.clone(),
                sts: Box::new(self.caller(scope, Service::Sts, Signer::Nobody)?),
            },
            Source::Role(role) => {
                let signer = Signer::Provider(self.provider(scope, &role.from)?);
                How::Role { role: role.clone(), sts: Box::new(self.caller(scope, Service::Sts, signer)?) }
            }
            Source::Container { uri, auth } => {
                let http = self.near("the container's credential service", Container::policy(uri), &scope.trust)?;
                How::Container(Container::new(http, uri.clone(), auth.clone()))
            }
            Source::InstanceMetadata { endpoint } => {
                let http = self.near("the machine's metadata service", Machine::policy(), &scope.trust)?;
                How::Machine(Machine::new(http, endpoint.clone()))
            }
        };
        Ok(Arc::new(Provider::new(source.clone(), how, self.inner.clock.clone())))
    }

    fn caller(&self, scope: &Scope, service: Service, signer: Signer) -> Result<Caller, SetupError> {
        let endpoint = scope.endpoints.of(service, &scope.region);
        let make = || self.http(endpoint.policy(), &scope.trust, self.inner.options.timing.attempt);
        let http = self.inner.pools.get((endpoint.clone(), scope.trust.clone()), make);
        Ok(Caller {
            service,
            region: scope.region.clone(),
            url: endpoint.url,
            http: http.map_err(|error| setup(service.as_str(), error))?,
            signer,
            buckets: Arc::clone(&self.inner.buckets),
            clock: self.inner.clock.clone(),
            meter: self.inner.meter.clone(),
            timing: self.inner.options.timing,
        })
    }

    /// A connection to a service on this machine or next to it, which answers at once or is not there.
    fn near(&self, place: &'static str, policy: Policy, trust: &Trust) -> Result<HttpClient, SetupError> {
        self.http(policy, trust, Duration::from_secs(2)).map_err(|error| setup(place, error))
    }

    fn http(&self, policy: Policy, trust: &Trust, attempt: Duration) -> Result<HttpClient, HttpError> {
        let mut options = HttpOptions::new(&self.inner.options.user_agent);
        options.call = attempt;
        options.attempt = attempt;
        options.connect = attempt.min(options.connect);
        options.policy = policy;
        options.resolver = Arc::clone(&self.inner.options.resolver);
        options.carrier = self.inner.options.carrier.clone();
        if let Trust::Only(bundle) = trust {
            options.native_roots = false;
            options.extra_ca = Some(bundle.to_vec());
        }
        HttpClient::new(options, self.inner.clock.clone())
    }
}

fn setup(place: &'static str, error: HttpError) -> SetupError {
    SetupError::Http { place, source: crate::credentials::Why::new(error) }
}
