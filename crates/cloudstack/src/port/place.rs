//! Where things are and whose they are: zones, domains, accounts, users, networks.

use kit::open;

use super::ids::{AccountId, DomainId, NetworkId, ProjectId, UserId, ZoneId};

/// Which one: by id, or all of exactly this name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pick<I> {
    /// This id. A server answers an id it does not know with an error of the kind *not found*.
    Id(I),
    /// Exactly this name; there may be several.
    Name(String),
}

/// Whose things: nobody named means those of the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Of this domain.
    pub domain: Option<DomainId>,
    /// Of this account of the domain.
    pub account: Option<String>,
    /// Of this project.
    pub project: Option<ProjectId>,
}

open! {
    /// Whether a zone takes new machines.
    AllocationState {
        /// It does.
        Enabled = "Enabled",
        /// Only administrators may use it.
        Disabled = "Disabled",
    }
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Its id.
    pub id: ZoneId,
    /// Its name.
    pub name: String,
    /// Whether it takes new machines.
    pub allocation: Option<AllocationState>,
    /// `Basic` or `Advanced`.
    pub network_type: Option<String>,
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its id.
    pub id: DomainId,
    /// The last part of its path.
    pub name: String,
    /// The whole path, `ROOT/a/b`.
    pub path: Option<String>,
    /// `Active` or `Inactive`; older servers do not say.
    pub state: Option<String>,
}

open! {
    /// Whether an account or a user may act.
    AccountState {
        /// It may.
        Enabled = "enabled",
        /// It may not, and its machines are stopped.
        Disabled = "disabled",
        /// It may not.
        Locked = "locked",
    }
}

/// Which accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountQuery {
    /// Of exactly this name.
    pub name: Option<String>,
    /// Of this domain.
    pub domain: Option<DomainId>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Its name, unique within the domain.
    pub name: String,
    /// Whether it may act.
    pub state: Option<AccountState>,
    /// Its domain.
    pub domain_id: Option<DomainId>,
    /// The last part of the domain's path.
    pub domain: Option<String>,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its id.
    pub id: UserId,
    /// Its name.
    pub name: String,
    /// Its account.
    pub account: String,
    /// Its domain.
    pub domain_id: Option<DomainId>,
    /// The last part of the domain's path.
    pub domain: Option<String>,
    /// The whole path, where the server says it.
    pub domain_path: Option<String>,
    /// Whether it may act.
    pub state: Option<AccountState>,
}

open! {
    /// Who shares a network.
    NetworkType {
        /// Nobody: it belongs to one account.
        Isolated = "Isolated",
        /// Many accounts.
        Shared = "Shared",
        /// As isolated, without services.
        L2 = "L2",
    }
}

/// Which networks.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkQuery {
    /// Of this zone.
    pub zone: Option<ZoneId>,
    /// Whose.
    pub owner: Owner,
    /// Which one.
    pub pick: Option<Pick<NetworkId>>,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its id.
    pub id: NetworkId,
    /// Its name.
    pub name: String,
    /// Who shares it.
    pub kind: Option<NetworkType>,
    /// Its zone.
    pub zone: Option<ZoneId>,
    /// `Allocated`, `Implemented`, `Setup` …
    pub state: Option<String>,
}
