//! The commands: each takes its parameters apart, refuses what it does not know, changes the world, gives its answer.

mod lists;
mod machines;
mod tags;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::wire::params::Params;
use super::wire::refusal::Refusal;
use super::world::World;
use super::world::machine::{End, Job};
use super::world::things::{Account, Role};
use crate::time::later;

/// One call.
pub(crate) struct Call {
    pub(crate) now: Timestamp,
    pub(crate) caller: Account,
    pub(crate) params: Params,
    pub(crate) quirks: Quirks,
    pub(crate) is_get: bool,
}

/// What the script wants of this call beyond failing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quirks {
    pub(crate) repeat_page: bool,
    pub(crate) no_count: bool,
    pub(crate) fail_job: Option<(u16, String)>,
    pub(crate) hang_job: bool,
}

/// What a command gives.
pub(crate) type Said = Result<Map<String, Value>, Refusal>;

/// Whether a role has a command.
pub(crate) fn may(role: Role, command: &str) -> bool {
    match command {
        "getUser" => role == Role::Admin,
        "listDomains" => role != Role::User,
        _ => true,
    }
}

/// Carries a command out.
pub(crate) fn answer(world: &mut World, mut call: Call) -> Said {
    match call.params.command() {
        "listCapabilities" => lists::capabilities(),
        "listZones" => lists::zones(world, &mut call),
        "listDomains" => lists::domains(world, &mut call),
        "listAccounts" => lists::accounts(world, &mut call),
        "listUsers" => lists::users(world, &mut call),
        "getUser" => lists::user(world, &mut call),
        "listNetworks" => lists::networks(world, &mut call),
        "listTemplates" => lists::templates(world, &mut call),
        "listServiceOfferings" => lists::service_offerings(world, &mut call),
        "listDiskOfferings" => lists::disk_offerings(world, &mut call),
        "listAffinityGroups" => lists::affinity_groups(world, &mut call),
        "createAffinityGroup" => tags::create_group(world, &mut call),
        "deleteAffinityGroup" => tags::delete_group(world, &mut call),
        "createTags" => tags::create(world, &mut call),
        "deleteTags" => tags::delete(world, &mut call),
        "listTags" => tags::list(world, &mut call),
        "listVirtualMachines" => machines::list(world, &mut call),
        "deployVirtualMachine" => machines::deploy(world, &mut call),
        "startVirtualMachine" => machines::start(world, &mut call),
        "stopVirtualMachine" => machines::stop(world, &mut call),
        "rebootVirtualMachine" => machines::reboot(world, &mut call),
        "destroyVirtualMachine" => machines::destroy(world, &mut call),
        "expungeVirtualMachine" => machines::expunge(world, &mut call),
        "queryAsyncJobResult" => machines::job(world, &mut call),
        other => Err(Refusal::parameter(format!("the simulator does not model the command {other}"))),
    }
}

/// Whose things a list shows.
pub(crate) enum Whose {
    /// Everybody's.
    All,
    /// Those of this domain and the ones below it.
    Below(String),
    /// Those of accounts of this domain.
    Of(String),
    /// Those of this account of this domain.
    Account(String, String),
}

impl Whose {
    /// Whether something of an account is shown.
    pub(crate) fn shows(&self, account: &str, domain: &str) -> bool {
        match self {
            Self::All => true,
            Self::Below(path) => {
                domain.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Of(path) => domain == path,
            Self::Account(name, path) => account == name && domain == path,
        }
    }
}

impl Call {
    /// Whether the caller may look into a domain.
    fn may_enter(&self, domain: &str) -> bool {
        match self.caller.role {
            Role::Admin => true,
            Role::DomainAdmin => Whose::Below(self.caller.domain.clone()).shows("", domain),
            Role::User => domain == self.caller.domain,
        }
    }

    /// Takes `account`, `domainid` and `listall`.
    pub(crate) fn whose(&mut self, world: &World) -> Result<Whose, Refusal> {
        let domain = self.domain(world)?;
        let (account, all) = (self.params.text("account"), self.params.flag("listall") == Some(true));
        if self.params.text("isrecursive").is_some() {
            return Err(Refusal::parameter("the simulator does not model the parameter isrecursive"));
        }
        match (account, domain) {
            (Some(_), None) => Err(Refusal::invalid("account and domainid must be specified together")),
            (Some(account), Some(domain)) => {
                let own = account == self.caller.name && domain == self.caller.domain;
                let known = world.accounts.iter().any(|one| one.name == account && one.domain == domain);
                if !known {
                    return Err(Refusal::invalid(format!("Unable to find account {account} in domain {domain}")));
                }
                if self.caller.role == Role::User && !own {
                    return Err(Refusal::access(&self.caller.name));
                }
                Ok(Whose::Account(account, domain))
            }
            (None, Some(domain)) => Ok(Whose::Of(domain)),
            (None, None) if all => Ok(match self.caller.role {
                Role::Admin => Whose::All,
                Role::DomainAdmin => Whose::Below(self.caller.domain.clone()),
                Role::User => Whose::Account(self.caller.name.clone(), self.caller.domain.clone()),
            }),
            (None, None) => Ok(Whose::Account(self.caller.name.clone(), self.caller.domain.clone())),
        }
    }

    /// Takes `domainid`; gives the path.
    pub(crate) fn domain(&mut self, world: &World) -> Result<Option<String>, Refusal> {
        let Some(id) = self.params.text("domainid") else { return Ok(None) };
        let found = world.domains.iter().find(|domain| domain.id == id);
        let path = found.ok_or_else(|| self.no_such("domainid", &id))?.path.clone();
        if self.may_enter(&path) { Ok(Some(path)) } else { Err(Refusal::access(&self.caller.name)) }
    }

    /// Takes the id of something; refuses that of nothing.
    pub(crate) fn id(&mut self, name: &str, exists: impl Fn(&str) -> bool) -> Result<Option<String>, Refusal> {
        let Some(id) = self.params.text(name) else { return Ok(None) };
        if exists(&id) { Ok(Some(id)) } else { Err(self.no_such(name, &id)) }
    }

    /// Takes ids; refuses the list if one is that of nothing.
    pub(crate) fn ids(&mut self, name: &str, exists: impl Fn(&str) -> bool) -> Result<Vec<String>, Refusal> {
        let ids = self.params.list(name);
        match ids.iter().find(|id| !exists(id)) {
            Some(id) => Err(self.no_such(name, id)),
            None => Ok(ids),
        }
    }

    pub(crate) fn no_such(&self, name: &str, value: &str) -> Refusal {
        Refusal::value(self.params.command(), name, value)
    }

    /// Takes `page` and `pagesize`, ends the reading of parameters, and gives the page.
    pub(crate) fn page(&mut self, world: &World, noun: &str, all: Vec<Map<String, Value>>) -> Said {
        let (page, size) = (self.params.number("page")?, self.params.number("pagesize")?);
        self.params.clone().finish()?;
        let limit = world.settings.page_limit;
        let (page, size) = match (page, size) {
            (None, None) => (1, limit),
            (Some(_), None) => {
                return Err(Refusal::parameter("\"pagesize\" parameter is required when \"page\" is specified"));
            }
            (None, Some(_)) => {
                return Err(Refusal::parameter("\"page\" parameter is required when \"pagesize\" is specified"));
            }
            (Some(page), Some(size)) => (page, size),
        };
        if page == 0 || size == 0 {
            return Err(Refusal::value(self.params.command(), "page", "0"));
        }
        if size > limit {
            let text = format!("Page size can't exceed max allowed page size value: {limit}");
            return Err(Refusal::invalid(text));
        }
        let total = all.len();
        let page = if self.quirks.repeat_page { 1 } else { page };
        let usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let shown: Vec<Value> =
            all.into_iter().skip(usize((page - 1).saturating_mul(size))).take(usize(size)).map(Value::Object).collect();
        let mut said = Map::new();
        if shown.is_empty() {
            return Ok(said);
        }
        if !self.quirks.no_count {
            said.insert("count".to_owned(), json!(total));
        }
        said.insert(noun.to_owned(), Value::Array(shown));
        Ok(said)
    }

    /// Begins a job that takes its time from `from` on; gives its id.
    pub(crate) fn begin(
        &self,
        world: &mut World,
        about: Option<(&'static str, String)>,
        ends: Timestamp,
        end: End,
    ) -> String {
        let memory = world.settings.job_memory;
        world.jobs.retain(|_, job| job.ends.is_none_or(|ends| later(ends, memory) > self.now));
        let id = world.rng.uid();
        let end = match &self.quirks.fail_job {
            Some((code, text)) => End::Failure(*code, text.clone()),
            None => end,
        };
        let job = Job {
            id: id.clone(),
            command: self.params.command(),
            owner: (self.caller.name.clone(), self.caller.domain.clone()),
            about,
            created: self.now,
            ends: (!self.quirks.hang_job).then_some(ends),
            end,
        };
        world.jobs.insert(id.clone(), job);
        id
    }
}
