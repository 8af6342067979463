//! The calls: a zone, its offerings, one offering, one image.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::own::anywhere::Named;
use cloudstack::errors::{Error, Kind};
use cloudstack::port::{CloudStack, OfferingQuery, Owner, Template, TemplateQuery, ZoneId};

use super::{entry, offers, pick, picture, shown};
use crate::offer::Offer;
use crate::shelf::{AcsPlace, Picture, Refusal};

/// All offerings of a zone that the caller may use.
///
/// # Errors
/// Why the server did not say.
pub async fn list<A: CloudStack>(acs: &A, place: &AcsPlace) -> Result<BTreeMap<Box<str>, Arc<Offer>>, Refusal> {
    let query = OfferingQuery { zone: Some(zone(acs, &place.zone).await?), pick: None };
    let all = acs.list_service_offerings(&query).await.map_err(|error| refusal(&error))?;
    if all.is_empty() {
        let message = format!("CloudStack lists no compute offerings in zone {}", shown(&place.zone));
        return Err(Refusal { message, terminal: false, permission: false });
    }
    Ok(offers(&all))
}

/// One offering of a zone; `None` when there is no such one.
///
/// # Errors
/// Why the server did not say.
pub async fn look<A: CloudStack>(acs: &A, place: &AcsPlace, wanted: &str) -> Result<Option<Arc<Offer>>, Refusal> {
    // What cannot be an id need not be asked for.
    let Ok(picked) = pick(wanted) else { return Ok(None) };
    let query = OfferingQuery { zone: Some(zone(acs, &place.zone).await?), pick: Some(picked) };
    let found = or_none(acs.list_service_offerings(&query).await)?;
    Ok(offers(&found).remove(wanted))
}

/// What an image says; `None` when there is no such one, or several that say different things.
///
/// # Errors
/// Why the server did not say.
pub async fn image<A: CloudStack>(acs: &A, place: &AcsPlace, wanted: &str) -> Result<Option<Picture>, Refusal> {
    let Ok(picked) = pick(wanted) else { return Ok(None) };
    let zone = zone(acs, &place.zone).await?;
    let query = TemplateQuery { zone, owner: Owner::default(), pick: Some(picked) };
    let found: Vec<Template> = or_none(acs.list_templates(&query).await)?;
    let mut pictures = found.iter().map(picture);
    let first = pictures.next();
    Ok(first.filter(|first| pictures.all(|other| other == *first)))
}

/// The id of a zone.
async fn zone<A: CloudStack>(acs: &A, named: &Named) -> Result<ZoneId, Refusal> {
    let refused = |why: &str| {
        let message = format!("CloudStack: zone {:?} {why}", shown(named));
        Refusal { message, terminal: true, permission: false }
    };
    let picked = pick(&entry(named)).map_err(|error| refused(&format!("cannot be one: {error}")))?;
    match or_none(acs.list_zones(Some(&picked)).await)?.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => Err(refused("is unknown")),
        _ => Err(refused("is the name of several, use its id")),
    }
}

/// Answers an unknown id with nothing instead of an error.
fn or_none<T>(answer: Result<Vec<T>, Error>) -> Result<Vec<T>, Refusal> {
    match answer {
        Err(error) if error.kind() == Kind::NotFound => Ok(Vec::new()),
        answer => answer.map_err(|error| refusal(&error)),
    }
}

/// What a failed call means. The address is no part of it: who owns a group need not know it.
fn refusal(error: &Error) -> Refusal {
    let permission = matches!(error.kind(), Kind::Credentials | Kind::NotPermitted | Kind::Untrusted);
    let message = format!("CloudStack: {}: {}", error.command(), error.words());
    Refusal { message, terminal: error.is_definitive() && !permission, permission }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_call_means_is_told_apart() {
        for (code, text, terminal, permission) in [
            (401, "unable to verify user credentials and/or request signature", false, true),
            (432, "The user is not allowed to request the API command", false, true),
            (431, "Unable to execute API command due to missing parameter", true, false),
            (429, "too many requests", false, false),
            (530, "internal error", false, false),
        ] {
            let found = refusal(&Error::refused("listServiceOfferings", "acs.example.com", code, text));
            assert_eq!((found.terminal, found.permission), (terminal, permission), "{code} {text}");
            assert!(found.message.starts_with("CloudStack: listServiceOfferings: "), "{}", found.message);
            assert!(!found.message.contains("example.com"), "{}", found.message);
        }
    }
}
