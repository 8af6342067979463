//! Tags of anything.

use super::super::wire::refusal::Refusal;
use super::super::wire::xml::Xml;
use super::super::world::filters::Filters;
use super::super::world::place::Tags;
use super::Call;
use super::shared::{check_count, tags};

fn resources(call: &mut Call<'_>) -> Result<Vec<String>, Refusal> {
    let ids = call.fields.texts("ResourceId")?;
    if ids.is_empty() { Err(Refusal::missing("ResourceId")) } else { Ok(ids) }
}

/// What is answered about an id that names nothing.
fn unknown(id: &str) -> Refusal {
    let (code, noun) = match id.split('-').next().unwrap_or_default() {
        "h" => ("InvalidHostID.NotFound", "host"),
        "i" => ("InvalidInstanceID.NotFound", "instance"),
        "vol" => ("InvalidVolume.NotFound", "volume"),
        "eni" => ("InvalidNetworkInterfaceID.NotFound", "networkInterface"),
        "subnet" => ("InvalidSubnetID.NotFound", "subnet"),
        "vpc" => ("InvalidVpcID.NotFound", "vpc"),
        "sg" => ("InvalidGroup.NotFound", "security group"),
        "ami" => ("InvalidAMIID.NotFound", "image"),
        _ => return Refusal::bad("InvalidID", format!("The ID '{id}' is not valid")),
    };
    Refusal::bad(code, format!("The {noun} ID '{id}' does not exist"))
}

pub(super) fn create(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = resources(call)?;
    let new = tags(&mut call.fields)?;
    let dry_run = call.fields.flag("DryRun")?;
    if new.is_empty() {
        return Err(Refusal::missing("Tag"));
    }
    call.finish(dry_run)?;
    let now = call.now;
    let mut merged: Vec<(String, Tags)> = Vec::new();
    for id in ids {
        let (_, history) = call.place.tags_of(&id, now).ok_or_else(|| unknown(&id))?;
        let mut all = history.at(now).cloned().unwrap_or_default();
        all.extend(new.clone());
        check_count(all.len())?;
        merged.push((id, all));
    }
    for (id, all) in merged {
        if let Some((_, history)) = call.place.tags_of(&id, now) {
            history.set(now, all);
        }
    }
    xml.text("return", true);
    Ok(())
}

pub(super) fn delete(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let ids = resources(call)?;
    let mut doomed: Vec<(String, Option<String>)> = Vec::new();
    for mut tag in call.fields.groups("Tag")? {
        doomed.push((tag.required("Key")?, tag.text("Value")?));
        tag.finish()?;
    }
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    let now = call.now;
    for id in &ids {
        call.place.tags_of(id, now).ok_or_else(|| unknown(id))?;
    }
    for id in ids {
        let Some((_, history)) = call.place.tags_of(&id, now) else { continue };
        let mut all = history.at(now).cloned().unwrap_or_default();
        // Without any tag named, all tags go; with a value named, only a tag that has it.
        all.retain(|key, value| {
            !doomed.is_empty() && !doomed.iter().any(|(k, v)| k == key && v.as_ref().is_none_or(|v| v == value))
        });
        history.set(now, all);
    }
    xml.text("return", true);
    Ok(())
}

pub(super) fn describe(call: &mut Call<'_>, xml: &mut Xml) -> Result<(), Refusal> {
    let filters = Filters::parse(&mut call.fields, &["key", "resource-id", "resource-type", "tag:", "value"])?;
    let paging = call.paging(5, 1_000)?;
    let dry_run = call.fields.flag("DryRun")?;
    call.finish(dry_run)?;
    let (now, view) = (call.now, call.view);
    let mut found: Vec<[String; 4]> = Vec::new();
    for id in call.place.taggable() {
        let Some((kind, history)) = call.place.tags_of(&id, now) else { continue };
        for (key, value) in history.at(view).cloned().unwrap_or_default() {
            let passes = filters.pass(|name| match name {
                "key" => vec![key.clone()],
                "resource-id" => vec![id.clone()],
                "resource-type" => vec![kind.to_owned()],
                "value" => vec![value.clone()],
                _ if name.strip_prefix("tag:") == Some(&key) => vec![value.clone()],
                _ => Vec::new(),
            });
            if passes {
                found.push([id.clone(), kind.to_owned(), key, value]);
            }
        }
    }
    found.sort();
    let page = call.cut(found, |[id, _, key, _]| format!("{id}\n{key}"), &paging, 1_000)?;
    xml.list("tagSet", page.items, |xml, [id, kind, key, value]| {
        xml.text("resourceId", id);
        xml.text("resourceType", kind);
        xml.text("key", key);
        xml.text("value", value);
    });
    xml.maybe("nextToken", page.next);
    Ok(())
}
