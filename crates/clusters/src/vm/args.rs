//! What the arguments of a claim say.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use api::names::DnsSubdomain;
use api::own::anywhere::{AvailabilityZone, Named, Zone};
use api::own::{ArgSchema, FailureDomainMode, HostClaimKindSpec, HostClaimSpec};
use claim_kind::terms::Terms;
use kit::field::FieldPath;

use super::words::Obstacle;
use crate::acs::Parts;

/// The zone.
pub const ZONE: &str = "zone";
/// The compute offering.
pub const OFFERING: &str = "offering";
/// The template.
pub const TEMPLATE: &str = "template";
/// The network.
pub const NETWORK: &str = "network";
/// The offering of a data disk.
pub const DISK_OFFERING: &str = "diskOffering";
/// Affinity groups, separated by commas.
pub const AFFINITY_GROUPS: &str = "affinityGroups";
/// The account.
pub const ACCOUNT: &str = "account";
/// The path of the account's domain.
pub const DOMAIN: &str = "domain";
/// The Secret with the credentials.
pub const IDENTITY: &str = "identity";

/// The arguments of the kind.
#[must_use]
pub fn schema() -> BTreeMap<String, ArgSchema> {
    let argument = |name: &str, required: bool, description: &str| {
        let (required, description) = (required, description.to_owned());
        (name.to_owned(), ArgSchema { required, description, max_length: 253, ..ArgSchema::default() })
    };
    let mut all = BTreeMap::from([
        argument(ZONE, true, "The zone, by name or id; spec.failureDomain must be the same where it is given."),
        argument(OFFERING, true, "The compute offering, by name or id, with a fixed size."),
        argument(TEMPLATE, true, "The template, by name or id; spec.image.url must be what it was registered from."),
        argument(NETWORK, true, "The network, by name or id."),
        argument(DISK_OFFERING, false, "The offering of a data disk, by name or id, with a fixed size."),
        argument(AFFINITY_GROUPS, false, "Affinity groups, by name or id, separated by commas."),
        argument(ACCOUNT, false, "The account that the machine belongs to; with domain."),
        argument(DOMAIN, false, "The path of that account's domain, without ROOT/."),
        argument(IDENTITY, false, "The Secret with api-url, api-key and secret-key, in the namespace of the claim."),
    ]);
    for (name, longest) in [(AFFINITY_GROUPS, 4096), (DOMAIN, 1024)] {
        if let Some(argument) = all.get_mut(name) {
            argument.max_length = longest;
        }
    }
    all
}

static TERMS: LazyLock<Terms> =
    LazyLock::new(|| Terms::of(HostClaimKindSpec { args_schema: schema(), ..HostClaimKindSpec::default() }));

/// What a claim asks for, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The zone, as the claim writes it.
    pub zone: String,
    /// Where the machine is to be, as the room asks for places.
    pub place: AvailabilityZone,
    /// What it is made of.
    pub parts: Parts,
}

/// An id where the text looks like one, and a name otherwise.
fn named(text: &str) -> Named {
    let hex = |part: &str, length: usize| part.len() == length && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = text.split('-').collect();
    let is_id = parts.len() == 5 && parts.iter().zip([8, 4, 4, 4, 12]).all(|(part, length)| hex(part, length));
    let text = text.to_owned();
    if is_id { Named { id: text, name: String::new() } } else { Named { id: String::new(), name: text } }
}

/// The Secret with the credentials of a claim.
///
/// # Errors
/// When the claim names none that it could have.
pub fn identity(spec: &HostClaimSpec) -> Result<&str, Obstacle> {
    let name = spec.args.get(IDENTITY).map(String::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err(Obstacle::Identity(
            "spec.args.identity must name a Secret of the claim's namespace; there is no default identity".into(),
        ));
    }
    // A name with a namespace in front would be somebody else's.
    if name.parse::<DnsSubdomain>().is_err() {
        return Err(Obstacle::Identity(
            "spec.args.identity must be the plain name of a Secret of the claim's own namespace".into(),
        ));
    }
    Ok(name)
}

/// Reads what a claim asks for.
///
/// # Errors
/// The first thing that stands against it.
pub fn read(spec: &HostClaimSpec) -> Result<Wish, Obstacle> {
    let faults = TERMS.faults(&FieldPath::new("spec").field("args"), &spec.args);
    if let Some(fault) = faults.first() {
        return Err(Obstacle::Arguments(fault.to_string()));
    }
    if spec.meta_data.is_some() {
        return Err(Obstacle::Data("metaData"));
    }
    if spec.network_data.is_some() {
        return Err(Obstacle::Data("networkData"));
    }
    if spec.custom_deploy.is_some() {
        return Err(Obstacle::Image("Machines of this kind have no deploy methods; leave spec.customDeploy out."));
    }
    let text = |name: &str| spec.args.get(name).map(|value| value.trim()).unwrap_or_default();
    for required in [ZONE, OFFERING, TEMPLATE, NETWORK] {
        if text(required).is_empty() {
            return Err(Obstacle::Arguments(format!("spec.args[{required}]: must not be empty")));
        }
    }
    if text(ACCOUNT).is_empty() != text(DOMAIN).is_empty() {
        return Err(Obstacle::Arguments("spec.args[account] and spec.args[domain] go together".to_owned()));
    }
    let zone = text(ZONE);
    match spec.failure_domain.as_deref() {
        Some(domain) if domain != zone && spec.failure_domain_mode == FailureDomainMode::Required => {
            return Err(Obstacle::Zone);
        }
        Some(domain) if domain != zone => {
            let told = format!("spec.failureDomain is {domain:?} and spec.args[zone] is {zone:?}; they must be equal");
            return Err(Obstacle::Arguments(told));
        }
        _ => {}
    }
    let Named { id, name } = named(zone);
    let place = AvailabilityZone {
        name: zone.to_owned(),
        zone: Zone { id, name, network: named(text(NETWORK)) },
        domain: text(DOMAIN).to_owned(),
        account: text(ACCOUNT).to_owned(),
        ..AvailabilityZone::default()
    };
    let disk = Some(text(DISK_OFFERING)).filter(|name| !name.is_empty()).map(|name| (named(name), 0));
    let groups = text(AFFINITY_GROUPS).split(',').map(str::trim).filter(|name| !name.is_empty()).map(named).collect();
    let parts = Parts::new(named(text(TEMPLATE)), named(text(OFFERING)), disk, groups);
    Ok(Wish { zone: zone.to_owned(), place, parts })
}
