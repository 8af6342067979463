//! What several operations need: ids, tags.

use jiff::Timestamp;

use super::super::wire::params::Fields;
use super::super::wire::refusal::Refusal;
use super::super::wire::xml::Xml;
use super::super::world::place::Tags;
use super::super::world::time::History;

/// The most tags of one resource.
const MOST_TAGS: usize = 50;

/// Parameters the service knows and the simulator does not model are refused, so that no test relies on them by mistake;
/// with another code than unknown ones, so that nobody takes them for a typing error.
pub(super) fn not_modelled(fields: &Fields, names: &[&str]) -> Result<(), Refusal> {
    match names.iter().find(|name| fields.has(name)) {
        None => Ok(()),
        Some(name) => {
            let text = format!("The simulator does not model the parameter {}", fields.path(name));
            Err(Refusal::bad("UnsupportedOperation", text))
        }
    }
}

/// Checks the form of ids: a prefix, then 8 or 17 hex digits.
pub(super) fn check_ids(ids: &[String], prefix: &str, code: &str) -> Result<(), Refusal> {
    for id in ids {
        let digits = id.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-')).unwrap_or_default();
        let fits =
            matches!(digits.len(), 8 | 17) && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !fits {
            return Err(Refusal::bad(code, format!("Invalid id: \"{id}\" (expecting \"{prefix}-...\")")));
        }
    }
    Ok(())
}

/// Refuses a listing that names something that is not there.
pub(super) fn all_found(
    wanted: &[String],
    found: impl Fn(&str) -> bool,
    code: &str,
    noun: &str,
) -> Result<(), Refusal> {
    let missing: Vec<&str> = wanted.iter().map(String::as_str).filter(|id| !found(id)).collect();
    match missing.as_slice() {
        [] => Ok(()),
        [one] => Err(Refusal::bad(code, format!("The {noun} ID '{one}' does not exist"))),
        many => Err(Refusal::bad(code, format!("The {noun} IDs '{}' do not exist", many.join(", ")))),
    }
}

fn check_tag(key: &str, value: &str) -> Result<(), Refusal> {
    if key.is_empty() {
        return Err(Refusal::bad("InvalidParameterValue", "Tag key must not be empty"));
    }
    if key.to_lowercase().starts_with("aws:") {
        let text = format!("Tag keys starting with 'aws:' are reserved for internal use: {key}");
        return Err(Refusal::bad("InvalidParameterValue", text));
    }
    if key.chars().count() > 128 {
        return Err(Refusal::bad("InvalidParameterValue", "Tag key exceeds the maximum length of 128 characters"));
    }
    if value.chars().count() > 256 {
        return Err(Refusal::bad("InvalidParameterValue", "Tag value exceeds the maximum length of 256 characters"));
    }
    let allowed = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_.:/=+-@".contains(c);
    if !key.chars().chain(value.chars()).all(allowed) {
        let text = format!("Tag '{key}' contains characters that are not allowed");
        return Err(Refusal::bad("InvalidParameterValue", text));
    }
    Ok(())
}

/// Takes a list of tags (`Tag.1.Key`, `Tag.1.Value`).
pub(super) fn tags(fields: &mut Fields) -> Result<Tags, Refusal> {
    let mut tags = Tags::new();
    for mut tag in fields.groups("Tag")? {
        let key = tag.text("Key")?.unwrap_or_default();
        let value = tag.text("Value")?.unwrap_or_default();
        tag.finish()?;
        check_tag(&key, &value)?;
        if tags.insert(key.clone(), value).is_some() {
            return Err(Refusal::bad("InvalidParameterValue", format!("Duplicate tag key '{key}' specified.")));
        }
    }
    check_count(tags.len())?;
    Ok(tags)
}

/// A resource has at most 50 tags.
pub(super) fn check_count(count: usize) -> Result<(), Refusal> {
    if count <= MOST_TAGS {
        return Ok(());
    }
    Err(Refusal::bad(
        "TagLimitExceeded",
        format!("The maximum number of Tags for a resource has been reached ({MOST_TAGS})"),
    ))
}

/// Takes `TagSpecification.N`: the tags for each of the kinds of resource the operation makes.
pub(super) fn tag_specifications<const N: usize>(fields: &mut Fields, kinds: [&str; N]) -> Result<[Tags; N], Refusal> {
    let mut all = kinds.map(|_| None);
    for mut specification in fields.groups("TagSpecification")? {
        let kind = specification.required("ResourceType")?;
        let tags = tags(&mut specification)?;
        specification.finish()?;
        let slot = kinds.iter().zip(&mut all).find(|(known, _)| **known == kind).map(|(_, slot)| slot);
        match slot {
            None => {
                let text = format!("'{kind}' is not a valid taggable resource type for this operation.");
                return Err(Refusal::bad("InvalidParameterValue", text));
            }
            Some(slot) if slot.is_some() => {
                let text = format!("Tag specification for resource type '{kind}' was specified more than once");
                return Err(Refusal::bad("InvalidParameterValue", text));
            }
            Some(slot) => *slot = Some(tags),
        }
    }
    Ok(all.map(Option::unwrap_or_default))
}

/// The tags at a moment.
pub(super) fn tags_at(tags: &History<Tags>, at: Timestamp) -> Tags {
    tags.at(at).cloned().unwrap_or_default()
}

/// Writes tags.
pub(super) fn write_tags(xml: &mut Xml, tags: &Tags) {
    if tags.is_empty() {
        return;
    }
    xml.list("tagSet", tags, |xml, (key, value)| {
        xml.text("key", key);
        xml.text("value", value);
    });
}
