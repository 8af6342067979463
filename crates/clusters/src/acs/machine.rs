//! Whether what machines are made of is there, in one zone.

use api::own::anywhere::{CloudStackMachineConfigSpec, DiskOffering, Named};
use cloudstack::port::{
    AffinityGroupId, AffinityGroupQuery, CloudStack, DiskOfferingId, OfferingQuery, ServiceOffering, TemplateId,
    TemplateQuery,
};

use super::zone::{Place, pick, shown};
use super::{Fault, or_none};

/// What of a machine configuration is in CloudStack; two configurations with the same parts are checked once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parts {
    template: Named,
    offering: Named,
    disk: Option<(Named, i64)>,
    groups: Vec<Named>,
}

/// The template that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its id.
    pub id: TemplateId,
    /// Its name, which must carry the version.
    pub name: String,
    /// Where it was registered from, where the server says it.
    pub url: Option<String>,
}

/// What machines are made of, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stock {
    /// The template.
    pub template: Template,
    /// The compute offering.
    pub offering: ServiceOffering,
    /// The disk offering.
    pub disk: Option<DiskOfferingId>,
    /// The affinity groups.
    pub groups: Vec<AffinityGroupId>,
}

impl Parts {
    /// The parts of a configuration.
    #[must_use]
    pub fn of(machine: &CloudStackMachineConfigSpec) -> Self {
        let disk = |disk: &DiskOffering| (Named { id: disk.id.clone(), name: disk.name.clone() }, disk.size());
        let group = |id: &String| Named { id: id.clone(), name: String::new() };
        Self::new(
            machine.template.clone(),
            machine.compute_offering.clone(),
            machine.disk().map(disk),
            machine.affinity_group_ids.iter().map(group).collect(),
        )
    }

    /// Parts by id or name; a disk with the size that its offering leaves to the user, or zero.
    #[must_use]
    pub fn new(template: Named, offering: Named, disk: Option<(Named, i64)>, mut groups: Vec<Named>) -> Self {
        groups.sort();
        Self { template, offering, disk, groups }
    }

    /// Whether something is named by an id, which other servers do not know.
    #[must_use]
    pub fn has_ids(&self) -> bool {
        let disk = self.disk.as_ref().is_some_and(|(disk, _)| !disk.id.is_empty());
        !self.template.id.is_empty() || !self.offering.id.is_empty() || disk || !self.groups.is_empty()
    }
}

/// Checks all parts in one zone; tells every fault.
pub(super) async fn check<A: CloudStack>(acs: &A, place: &Place, parts: &Parts) -> Result<Stock, Vec<Fault>> {
    let (template, offering, disk, groups) = futures::join!(
        template(acs, place, &parts.template),
        offering(acs, place, &parts.offering),
        disk(acs, place, parts.disk.as_ref()),
        groups(acs, place, &parts.groups),
    );
    match (template, offering, disk, groups) {
        (Ok(template), Ok(offering), Ok(disk), Ok(groups)) => Ok(Stock { template, offering, disk, groups }),
        (template, offering, disk, groups) => {
            let mut faults: Vec<Fault> = Vec::new();
            faults.extend(template.err());
            faults.extend(offering.err());
            faults.extend(disk.err());
            faults.extend(groups.err().into_iter().flatten());
            Err(faults)
        }
    }
}

async fn template<A: CloudStack>(acs: &A, place: &Place, named: &Named) -> Result<Template, Fault> {
    let query = TemplateQuery { zone: place.zone.clone(), owner: place.owner(), pick: Some(pick(named)?) };
    let found = or_none(acs.list_templates(&query).await)?;
    let told = shown(named);
    let found = match found.as_slice() {
        [one] => one,
        [] => return Err(Fault::definitive(format!("template \"{told}\" not found"))),
        _ => return Err(Fault::definitive(format!("more than one template named \"{told}\", use id"))),
    };
    if !named.id.is_empty() && !named.name.is_empty() && found.name != named.name {
        return Err(Fault::definitive("template name and id disagree"));
    }
    if !found.ready {
        let status = found.status.clone().unwrap_or_else(|| "no status".to_owned());
        return Err(Fault::definitive(format!("template \"{told}\" is not ready ({status})")));
    }
    Ok(Template { id: found.id.clone(), name: found.name.clone(), url: found.url.clone() })
}

async fn offering<A: CloudStack>(acs: &A, place: &Place, named: &Named) -> Result<ServiceOffering, Fault> {
    let query = OfferingQuery { zone: Some(place.zone.clone()), pick: Some(pick(named)?) };
    let found = or_none(acs.list_service_offerings(&query).await)?;
    one("compute offering", named, found, |offering| &offering.name)
}

async fn disk<A: CloudStack>(
    acs: &A,
    place: &Place,
    disk: Option<&(Named, i64)>,
) -> Result<Option<DiskOfferingId>, Fault> {
    let Some((named, size)) = disk else { return Ok(None) };
    let query = OfferingQuery { zone: Some(place.zone.clone()), pick: Some(pick(named)?) };
    let found = or_none(acs.list_disk_offerings(&query).await)?;
    let found = one("disk offering", named, found, |offering| &offering.name)?;
    match (found.customized, *size > 0) {
        (true, false) => Err(Fault::definitive("size required for customized offering")),
        (false, true) => Err(Fault::definitive("size not allowed for fixed offering")),
        _ => Ok(Some(found.id)),
    }
}

/// The only one that was found.
fn one<T>(what: &str, named: &Named, mut found: Vec<T>, name: impl Fn(&T) -> &str) -> Result<T, Fault> {
    let told = shown(named);
    match (found.pop(), found.is_empty()) {
        (Some(one), true) if named.id.is_empty() || named.name.is_empty() || name(&one) == named.name => Ok(one),
        (Some(_), true) => Err(Fault::definitive(format!("{what} name and id disagree"))),
        (None, _) => Err(Fault::definitive(format!("{what} \"{told}\" not found"))),
        (Some(_), false) => Err(Fault::definitive(format!("{what} \"{told}\" is ambiguous, use id"))),
    }
}

async fn groups<A: CloudStack>(acs: &A, place: &Place, named: &[Named]) -> Result<Vec<AffinityGroupId>, Vec<Fault>> {
    let (mut ids, mut faults) = (Vec::new(), Vec::new());
    for group in named {
        let missing = || Fault::definitive(format!("affinity group {} not found", shown(group)));
        let Ok(wanted) = pick(group) else {
            faults.push(missing());
            continue;
        };
        let query = AffinityGroupQuery { owner: place.owner(), pick: Some(wanted) };
        match or_none(acs.list_affinity_groups(&query).await) {
            Ok(mut found) => match (found.pop(), found.is_empty()) {
                (Some(one), true) => ids.push(one.id),
                _ => faults.push(missing()),
            },
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(ids) } else { Err(faults) }
}
