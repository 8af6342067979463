//! The half that touches the network.
//!
//! [`CloudStacks`] is made once per process. A room asks it for the [`Client`] of a [`Profile`] in every pass, with the
//! secret it has just read: nothing of a profile is kept but the connections to its server, its place in line and the
//! lists under way.

#[cfg(test)]
mod answers;
mod call;
mod client;
mod gates;
mod judge;
mod meter;
mod reach;
mod read;
mod sign;

use std::sync::Arc;

use kit::clock::Clock;
use kit::http::{Carry, HttpClient, HttpError, HttpOptions, Policy, Pools, Proxies, Resolve, SystemResolver};

pub use call::Timing;
pub use client::Client;
pub use meter::Meter;
pub use reach::{Allowed, Reach};
pub use sign::{canonical, signature};

use crate::limits::Limits;
use crate::paging;
use crate::profile::{self, Profile, Trust};
use call::{Caller, Shared};
use gates::Gates;

/// The commands the client sends and the parameters of each, besides those every request has.
pub const COMMANDS: &[(&str, &[&str])] = &[
    ("listCapabilities", &[]),
    ("listZones", &["id", "name", "page", "pagesize"]),
    ("listDomains", &["name", "listall", "page", "pagesize"]),
    ("listAccounts", &["name", "domainid", "listall", "page", "pagesize"]),
    ("listUsers", &["page", "pagesize"]),
    ("getUser", &["userapikey"]),
    ("listNetworks", &["id", "keyword", "zoneid", "domainid", "account", "projectid", "page", "pagesize"]),
    (
        "listTemplates",
        &["templatefilter", "id", "name", "zoneid", "domainid", "account", "projectid", "page", "pagesize"],
    ),
    ("listServiceOfferings", &["id", "name", "zoneid", "page", "pagesize"]),
    ("listDiskOfferings", &["id", "name", "zoneid", "page", "pagesize"]),
    ("listAffinityGroups", &["id", "name", "domainid", "account", "projectid", "page", "pagesize"]),
    (
        "listVirtualMachines",
        &["id", "name", "listall", "zoneid", "domainid", "account", "projectid", "tags", "page", "pagesize"],
    ),
    (
        "deployVirtualMachine",
        &[
            "zoneid",
            "serviceofferingid",
            "templateid",
            "name",
            "displayname",
            "networkids",
            "affinitygroupids",
            "diskofferingid",
            "size",
            "userdata",
            "startvm",
            "domainid",
            "account",
            "projectid",
        ],
    ),
    ("startVirtualMachine", &["id"]),
    ("stopVirtualMachine", &["id", "forced"]),
    ("rebootVirtualMachine", &["id", "forced"]),
    ("destroyVirtualMachine", &["id", "expunge"]),
    ("createTags", &["resourcetype", "resourceids", "tags"]),
    ("deleteTags", &["resourcetype", "resourceids", "tags"]),
    ("queryAsyncJobResult", &["jobid"]),
];

/// How all clients of a process behave.
#[derive(Clone)]
pub struct Options {
    /// The user agent of every request: a product and its version.
    pub user_agent: String,
    /// How fast and how wide servers are called.
    pub limits: Limits,
    /// How long calls may take.
    pub timing: Timing,
    /// Entries of a page.
    pub page_size: u32,
    /// Whether parameters travel in the URL, where access logs see them, instead of in a form.
    pub use_get: bool,
    /// Which addresses may be called.
    pub policy: Policy,
    /// How names are resolved.
    pub resolver: Arc<dyn Resolve>,
    /// What goes through a proxy.
    pub proxies: Arc<Proxies>,
    /// Who carries requests instead of sockets: for simulators.
    pub carrier: Option<Arc<dyn Carry>>,
}

impl Options {
    /// The defaults: the shipped limits, 30 s per request, pages of 500, forms.
    #[must_use]
    pub fn new(user_agent: &str) -> Self {
        Self {
            user_agent: user_agent.to_owned(),
            limits: Limits::SHIPPED,
            timing: Timing::default(),
            page_size: paging::SIZE,
            use_get: false,
            policy: profile::policy(),
            resolver: Arc::new(SystemResolver),
            proxies: Arc::default(),
            carrier: None,
        }
    }
}

/// Why there is no client for a profile: for instance, its CA is no PEM.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up connections to {host}")]
pub struct SetupError {
    host: String,
    #[source]
    source: HttpError,
}

impl kit::class::Classify for SetupError {
    fn class(&self) -> kit::class::Class {
        self.source.class()
    }
}

/// Everything that calls CloudStack in a process; clones share all of it.
#[derive(Clone)]
pub struct CloudStacks {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    clock: Clock,
    meter: Meter,
    gates: Arc<Gates>,
    flights: Arc<Shared>,
    pools: Pools<(String, Trust)>,
}

impl CloudStacks {
    /// Nothing is connected yet.
    #[must_use]
    pub fn new(options: Options, clock: Clock, meter: Meter) -> Self {
        let gates = Arc::new(Gates::new(clock.clone(), options.limits));
        meter.show(&gates);
        let inner = Inner { options, clock, meter, gates, flights: Arc::default(), pools: Pools::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Which addresses may be called.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.inner.options.policy
    }

    /// The client of a profile.
    ///
    /// # Errors
    /// When connections cannot be set up; nothing is called yet.
    pub fn client(&self, profile: &Profile) -> Result<Client, SetupError> {
        let Inner { options, clock, meter, gates, flights, pools } = &*self.inner;
        let key = (profile.url.clone(), profile.trust.clone());
        let http = pools.get(key, || self.http(&profile.trust));
        let host = profile.host();
        let http = http.map_err(|source| SetupError { host: host.clone(), source })?;
        Ok(Client {
            caller: Caller {
                host: host.into(),
                http,
                gate: gates.of(&profile.url, profile.api_key.expose()),
                profile: Arc::new(profile.clone()),
                flights: Arc::clone(flights),
                clock: clock.clone(),
                meter: meter.clone(),
                timing: options.timing,
                page_size: options.page_size,
                use_get: options.use_get,
            },
        })
    }

    fn http(&self, trust: &Trust) -> Result<HttpClient, HttpError> {
        let Inner { options, clock, .. } = &*self.inner;
        let mut http = HttpOptions::new(&options.user_agent);
        http.call = options.timing.request;
        http.attempt = options.timing.request;
        http.connect = http.connect.min(options.timing.request);
        http.policy = options.policy.clone();
        http.resolver = Arc::clone(&options.resolver);
        http.proxies = Arc::clone(&options.proxies);
        http.carrier = options.carrier.clone();
        match trust {
            Trust::System => {}
            Trust::Also(pem) => http.extra_ca = Some(pem.to_vec()),
            Trust::Anyone => http.verify = false,
        }
        HttpClient::new(http, clock.clone())
    }
}
