//! Whether an availability zone is there: its domain, account, zone and network.

use api::own::anywhere::{AvailabilityZone, Named};
use cloudstack::errors::Kind;
use cloudstack::port::{
    AccountQuery, AccountState, AllocationState, CloudStack, DomainId, NetworkQuery, NetworkType, Owner, Pick, ZoneId,
};

use super::{Fault, fault, or_none};

/// Where in CloudStack machines of an availability zone are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The zone.
    pub zone: ZoneId,
    /// The domain, when one is named.
    pub domain: Option<DomainId>,
    /// The account, when one is named.
    pub account: Option<String>,
}

impl Place {
    /// Whose things are looked for.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner { domain: self.domain.clone(), account: self.account.clone(), project: None }
    }
}

/// What an availability zone was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Where machines are made.
    pub place: Place,
    /// The network.
    pub network: String,
    /// The type of the network.
    pub network_type: String,
    /// Whether the domain is known to lie at the path that was asked for; who may not list domains knows only its name.
    pub verified: bool,
}

/// A domain as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundDomain {
    pub id: DomainId,
    pub verified: bool,
}

const ROOT: &str = "ROOT";

/// Checks domain, account and zone; a domain whose id is known is not asked for.
pub(super) async fn place<A: CloudStack>(
    acs: &A,
    zone: &AvailabilityZone,
    known: Option<FoundDomain>,
) -> Result<(Place, bool), Fault> {
    let owner = async {
        let domain = match known {
            Some(known) => Some(known),
            None if zone.domain.is_empty() => None,
            None => Some(domain(acs, zone).await?),
        };
        if !zone.account.is_empty() {
            account(acs, zone, domain.as_ref().map(|domain| domain.id.clone())).await?;
        }
        Ok::<Option<FoundDomain>, Fault>(domain)
    };
    // Neither needs the other; what is told first is the same as if they came one after the other.
    let (owner, found) = futures::join!(owner, the_zone(acs, zone));
    let domain = owner?;
    let account = Some(zone.account.clone()).filter(|account| !account.is_empty());
    let verified = domain.as_ref().is_none_or(|domain| domain.verified);
    Ok((Place { zone: found?, domain: domain.map(|domain| domain.id), account }, verified))
}

/// Checks everything of an availability zone; with several of them, networks must be shared. What a known id leads to is
/// believed only when it is good: a domain may have been made anew under its name.
pub(super) async fn whole<A: CloudStack>(
    acs: &A,
    zone: &AvailabilityZone,
    several: bool,
    known: Option<FoundDomain>,
) -> Result<Resolved, Fault> {
    let knows = known.is_some();
    match checked(acs, zone, several, known).await {
        Err(Fault::Definitive { credentials: false, .. }) if knows => checked(acs, zone, several, None).await,
        answer => answer,
    }
}

async fn checked<A: CloudStack>(
    acs: &A,
    zone: &AvailabilityZone,
    several: bool,
    known: Option<FoundDomain>,
) -> Result<Resolved, Fault> {
    let (place, verified) = place(acs, zone, known).await?;
    let (network, kind) = network(acs, zone, &place).await?;
    if several && kind != Some(NetworkType::Shared) {
        return Err(Fault::definitive("network must be Shared when several zones are used"));
    }
    let network_type = kind.map(|kind| kind.to_string()).unwrap_or_default();
    Ok(Resolved { place, network, network_type, verified })
}

/// The whole path of a domain as CloudStack writes it.
fn path(domain: &str) -> String {
    let below = domain.strip_prefix("ROOT/").unwrap_or(domain);
    if below == ROOT { ROOT.to_owned() } else { format!("{ROOT}/{below}") }
}

async fn domain<A: CloudStack>(acs: &A, zone: &AvailabilityZone) -> Result<FoundDomain, Fault> {
    let wanted = path(&zone.domain);
    let last = wanted.rsplit('/').next().unwrap_or(ROOT).to_owned();
    let found = match acs.list_domains(Some(&last)).await {
        Ok(found) => found,
        Err(error) if error.kind() == Kind::NotPermitted => return own_domain(acs, zone, &wanted, &last).await,
        Err(error) => return Err(fault(&error)),
    };
    let at = |path: &Option<String>| path.as_deref() == Some(wanted.as_str());
    match found.iter().find(|domain| at(&domain.path)) {
        Some(domain) if domain.state.as_deref().is_none_or(|state| state.eq_ignore_ascii_case("active")) => {
            Ok(FoundDomain { id: domain.id.clone(), verified: true })
        }
        Some(domain) => {
            let state = domain.state.clone().unwrap_or_default();
            Err(Fault::definitive(format!("domain \"{}\" is {state}", zone.domain)))
        }
        None if found.is_empty() => Err(Fault::definitive(format!("domain \"{}\" not found", zone.domain))),
        None => {
            let told = format!("found domains named {last}, none at path {wanted}");
            Err(Fault::definitive(told))
        }
    }
}

/// Who may not list domains may use the one its own user is in.
async fn own_domain<A: CloudStack>(
    acs: &A,
    zone: &AvailabilityZone,
    wanted: &str,
    last: &str,
) -> Result<FoundDomain, Fault> {
    let users = acs.list_users().await.map_err(|error| fault(&error))?;
    let fits = |user: &&cloudstack::port::User| {
        let same_account = zone.account.is_empty() || user.account == zone.account;
        let same_domain = match &user.domain_path {
            Some(path) => path == wanted,
            None => user.domain.as_deref() == Some(last),
        };
        same_account && same_domain
    };
    let found = users.iter().find(fits).and_then(|user| Some((user.domain_id.clone()?, user.domain_path.is_some())));
    if let Some((id, verified)) = found {
        return Ok(FoundDomain { id, verified });
    }
    let own = users.first().map(|user| (user.account.clone(), user.domain.clone().unwrap_or_default()));
    let (account, domain) = own.unwrap_or_default();
    Err(Fault::definitive(format!("caller may not list domains and belongs to {account}@{domain}")))
}

async fn account<A: CloudStack>(acs: &A, zone: &AvailabilityZone, domain: Option<DomainId>) -> Result<(), Fault> {
    let (name, of) = (&zone.account, &zone.domain);
    let query = AccountQuery { name: Some(name.clone()), domain };
    let found = or_none(acs.list_accounts(&query).await)?;
    let exact: Vec<_> = found.iter().filter(|account| account.name == *name).collect();
    match exact.as_slice() {
        [account] => match &account.state {
            None | Some(AccountState::Enabled) => Ok(()),
            Some(state) => Err(Fault::definitive(format!("account \"{name}\" is {state}"))),
        },
        _ => Err(Fault::definitive(format!("account \"{name}\" not found in domain \"{of}\""))),
    }
}

/// What an id or a name asks for: the id where there is one.
pub(super) fn pick<I: std::str::FromStr>(named: &Named) -> Result<Pick<I>, Fault>
where
    I::Err: std::fmt::Display,
{
    if named.id.is_empty() {
        return Ok(Pick::Name(named.name.clone()));
    }
    named.id.parse().map(Pick::Id).map_err(|error| Fault::definitive(format!("id \"{}\": {error}", named.id)))
}

/// How people know it: by its name, or by its id.
pub(super) fn shown(named: &Named) -> &str {
    if named.name.is_empty() { &named.id } else { &named.name }
}

async fn the_zone<A: CloudStack>(acs: &A, zone: &AvailabilityZone) -> Result<ZoneId, Fault> {
    let named = Named { id: zone.zone.id.clone(), name: zone.zone.name.clone() };
    let pick = pick(&named)?;
    let found = or_none(acs.list_zones(Some(&pick)).await)?;
    let told = shown(&named);
    let found = match found.as_slice() {
        [one] => one,
        [] => return Err(Fault::definitive(format!("zone \"{told}\" not found"))),
        _ => return Err(Fault::definitive(format!("more than one zone named \"{told}\", use id"))),
    };
    if !named.id.is_empty() && !named.name.is_empty() && found.name != named.name {
        return Err(Fault::definitive("zone name and id disagree"));
    }
    match &found.allocation {
        None | Some(AllocationState::Enabled) => Ok(found.id.clone()),
        Some(_) => Err(Fault::definitive(format!("zone \"{told}\" is disabled"))),
    }
}

async fn network<A: CloudStack>(
    acs: &A,
    zone: &AvailabilityZone,
    place: &Place,
) -> Result<(String, Option<NetworkType>), Fault> {
    let named = &zone.zone.network;
    let query = NetworkQuery { zone: Some(place.zone.clone()), owner: place.owner(), pick: Some(pick(named)?) };
    let mut found = or_none(acs.list_networks(&query).await)?;
    let of = Named { id: zone.zone.id.clone(), name: zone.zone.name.clone() };
    let (told, of) = (shown(named), shown(&of));
    if named.id.is_empty() {
        found.retain(|network| network.name == named.name);
    } else {
        found.retain(|network| network.id.as_str() == named.id);
    }
    let found = match found.as_slice() {
        [one] => one,
        [] => return Err(Fault::definitive(format!("network \"{told}\" not found in zone \"{of}\""))),
        _ => return Err(Fault::definitive(format!("more than one network named \"{told}\", use id"))),
    };
    if !named.id.is_empty() && !named.name.is_empty() && found.name != named.name {
        return Err(Fault::definitive("network name and id disagree"));
    }
    Ok((found.id.as_str().to_owned(), found.kind.clone()))
}
