//! Regions and zones.

use super::super::catalogue::regions::{REGIONS, Region};
use super::super::wire::refusal::Refusal;
use super::super::wire::xml::Xml;
use super::super::world::filters::Filters;
use super::Call;

fn status(region: &Region) -> &'static str {
    if region.opt_in { "not-opted-in" } else { "opt-in-not-required" }
}

pub(super) fn regions(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let names = call.fields.texts("RegionName")?;
    let all = call.fields.flag("AllRegions")?.unwrap_or(false);
    let filters = Filters::parse(&mut call.fields, &["endpoint", "opt-in-status", "region-name"])?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    let partition = call.place.region.partition();
    let known: Vec<&Region> = REGIONS.iter().filter(|region| region.partition() == partition).collect();
    let unknown: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !known.iter().any(|region| region.name == *name)).collect();
    if !unknown.is_empty() {
        let text = format!("Invalid region names provided: [{}]", unknown.join(", "));
        return Err(Refusal::bad("InvalidParameterValue", text));
    }
    let found = known.into_iter().filter(|region| {
        let named = names.iter().any(|name| name == region.name);
        let listed = if names.is_empty() { all || !region.opt_in } else { named };
        listed
            && filters.pass(|name| {
                vec![match name {
                    "endpoint" => region.endpoint(),
                    "opt-in-status" => status(region).to_owned(),
                    _ => region.name.to_owned(),
                }]
            })
    });
    xml.list("regionInfo", found, |xml, region| {
        xml.text("regionName", region.name);
        xml.text("regionEndpoint", region.endpoint());
        xml.text("optInStatus", status(region));
    });
    Ok(())
}

pub(super) fn zones(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let names = call.fields.texts("ZoneName")?;
    let ids = call.fields.texts("ZoneId")?;
    call.fields.flag("AllAvailabilityZones")?;
    let known = &["group-name", "opt-in-status", "region-name", "state", "zone-id", "zone-name", "zone-type"];
    let filters = Filters::parse(&mut call.fields, known)?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    let region = call.place.region;
    let all: Vec<(String, String)> =
        region.zones().filter_map(|zone| region.zone_id(&zone).map(|id| (zone, id))).collect();
    for name in names.iter().chain(&ids) {
        if !all.iter().any(|(zone, id)| zone == name || id == name) {
            return Err(Refusal::bad("InvalidParameterValue", format!("Invalid availability zone: [{name}]")));
        }
    }
    let found = all.into_iter().filter(|(zone, id)| {
        (names.is_empty() || names.contains(zone))
            && (ids.is_empty() || ids.contains(id))
            && filters.pass(|name| {
                vec![match name {
                    "group-name" | "region-name" => region.name.to_owned(),
                    "opt-in-status" => "opt-in-not-required".to_owned(),
                    "state" => "available".to_owned(),
                    "zone-id" => id.clone(),
                    "zone-type" => "availability-zone".to_owned(),
                    _ => zone.clone(),
                }]
            })
    });
    xml.list("availabilityZoneInfo", found, |xml, (zone, id)| {
        xml.text("zoneName", &zone);
        xml.text("zoneState", "available");
        xml.text("regionName", region.name);
        xml.text("zoneId", id);
        xml.text("groupName", region.name);
        xml.text("networkBorderGroup", region.name);
        xml.text("zoneType", "availability-zone");
        xml.text("optInStatus", "opt-in-not-required");
        xml.texts("messageSet", Vec::<String>::new());
    });
    Ok(())
}
