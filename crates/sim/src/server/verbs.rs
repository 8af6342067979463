//! The verbs of one resource.

use std::{sync::Arc, time::Duration};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Line,
    http::{Answer, Asked, Negotiated, Target},
    patch::PatchKind,
    select::Selector,
    status::Failure,
    store::Key,
    watch::WatchSpec,
    write::{Call, Core, in_version},
};

/// Everything that can change the store.
pub(crate) fn write(
    core: &mut Core,
    line: &Line,
    asked: &Asked,
    target: &Target,
    now: Timestamp,
) -> Result<(u16, Value), Failure> {
    let query = &asked.query;
    let dry_run = match query.get("dryRun") {
        "" => false,
        "All" => true,
        other => return Err(Failure::bad_request(format!("dryRun={other}: only All is known"))),
    };
    let explicit = query.get("fieldManager");
    let agent = asked.info.agent.split('/').next().unwrap_or_default();
    let manager = match (explicit, agent) {
        ("", "") => line.name(),
        ("", agent) => agent,
        (explicit, _) => explicit,
    };
    if manager.len() > 128 {
        return Err(Failure::bad_request("fieldManager: Too long: may not be more than 128 bytes"));
    }
    let call = Call {
        kind: target.kind.clone(),
        version: target.version.clone(),
        namespace: target.namespace.clone(),
        name: target.name.clone(),
        subresource: target.subresource.clone(),
        manager: manager.to_owned(),
        explicit_manager: !explicit.is_empty(),
        force: query.flag("force")?,
        now,
        dry_run,
    };
    let (code, object) = match (&asked.method, target.name.is_empty()) {
        (&Method::POST, true) => core.create(&call, asked.json()?)?,
        (&Method::PUT, false) => core.replace(&call, asked.json()?)?,
        (&Method::PATCH, false) => {
            let patch = PatchKind::of(asked.content_type(), target.kind.custom)?;
            core.patch(&call, patch, &asked.parsed()?)?
        }
        (&Method::DELETE, false) if call.subresource.is_none() => core.delete(&call, &delete_options(asked)?)?,
        (&Method::DELETE, true) => return delete_all(core, asked, target, &call),
        _ => return Err(Failure::method_not_allowed()),
    };
    Ok((code, in_version(&target.kind, &target.version, &object)))
}

fn delete_options(asked: &Asked) -> Result<Value, Failure> {
    let mut options = if asked.body.is_empty() { json!({}) } else { asked.json()? };
    if !options.is_object() {
        return Err(Failure::bad_request("the delete options are not an object"));
    }
    let given = asked.query.get("propagationPolicy");
    if !given.is_empty() {
        options["propagationPolicy"] = json!(given);
    }
    Ok(options)
}

fn delete_all(core: &mut Core, asked: &Asked, target: &Target, call: &Call) -> Result<(u16, Value), Failure> {
    let options = delete_options(asked)?;
    let selector = Selector::parse(&target.kind, asked.query.get("labelSelector"), asked.query.get("fieldSelector"))?;
    let chosen: Vec<(Key, Arc<Value>)> = core
        .store
        .range(&target.kind.resource(), &target.namespace)
        .filter(|(_, v)| selector.matches(v))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    for (key, _) in &chosen {
        let one = Call { namespace: key.namespace.clone(), name: key.name.clone(), ..call.clone() };
        core.delete(&one, &options)?;
    }
    let items: Vec<Value> = chosen.iter().map(|(_, v)| listed(target, v, Negotiated::Whole)).collect();
    let (api_version, kind) = Negotiated::Whole.list_type(&target.kind, &target.version);
    Ok((
        200,
        json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": { "resourceVersion": core.store.rev.to_string() }, "items": items,
        }),
    ))
}

/// Get, list and watch.
pub(crate) fn read(
    core: &Core,
    line: &Line,
    asked: &Asked,
    target: &Target,
    shown: Negotiated,
) -> Result<Answer, Failure> {
    if asked.method != Method::GET {
        return Err(Failure::method_not_allowed());
    }
    let seen = line.visible(core.store.rev, &asked.info);
    if target.name.is_empty() {
        if asked.info.watch {
            return watch(core, line, asked, target, shown, seen);
        }
        return list(core, asked, target, shown, seen);
    }
    if asked.info.watch {
        return Err(Failure::bad_request(
            "a watch of one object is asked as a watch of its collection with fieldSelector=metadata.name",
        ));
    }
    let key = Key::new(&target.kind.resource(), &target.namespace, &target.name);
    let found = if seen < core.store.rev { core.store.get_at(seen, &key) } else { core.store.get(&key).cloned() };
    let object = found.ok_or_else(|| Failure::not_found(&target.kind, &target.name))?;
    Ok(Answer::Json(200, shown.show(in_version(&target.kind, &target.version, &object))))
}

/// An object as an item of a list: the server's own kinds come without their type there.
fn listed(target: &Target, object: &Arc<Value>, shown: Negotiated) -> Value {
    let mut item = shown.show(in_version(&target.kind, &target.version, object));
    if !target.kind.custom
        && shown == Negotiated::Whole
        && let Some(map) = item.as_object_mut()
    {
        map.remove("apiVersion");
        map.remove("kind");
    }
    item
}

fn list(core: &Core, asked: &Asked, target: &Target, shown: Negotiated, seen: u64) -> Result<Answer, Failure> {
    let query = &asked.query;
    let selector = Selector::parse(&target.kind, query.get("labelSelector"), query.get("fieldSelector"))?;
    let asked_rv = query.number("resourceVersion")?;
    let exact = query.get("resourceVersionMatch") == "Exact";
    if exact && asked_rv.is_none_or(|rv| rv == 0) {
        return Err(Failure::bad_request(
            "resourceVersionMatch is forbidden unless a non-zero resourceVersion is provided",
        ));
    }
    let (mut at, mut after) = (seen, None);
    if let Some((rev, rest)) = query.get("continue").split_once('/') {
        at = rev.parse().map_err(|_| Failure::bad_request("continue key is not valid"))?;
        after = rest.split_once('/').map(|(ns, name)| Key::new(&target.kind.resource(), ns, name));
        if at < core.store.compacted {
            return Err(Failure::expired(
                "The provided continue parameter is too old to display a consistent list result.",
            ));
        }
    } else if !query.get("continue").is_empty() {
        return Err(Failure::bad_request("continue key is not valid"));
    } else if let Some(wanted) = asked_rv.filter(|rv| *rv > 0) {
        if wanted > core.store.rev {
            let mut failure = Failure::new(
                504,
                "Timeout",
                format!("Too large resource version: {wanted}, current: {}", core.store.rev),
            );
            failure.details = json!({ "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }], "retryAfterSeconds": 1 });
            return Err(failure);
        }
        if exact {
            at = wanted.min(seen);
            if at < core.store.compacted {
                return Err(Failure::expired(format!("The resourceVersion for the provided list is too old: {at}")));
            }
        }
    }
    let limit = query.number("limit")?.filter(|l| *l > 0).and_then(|l| usize::try_from(l).ok());
    let all = core.store.range_at(at, &target.kind.resource(), &target.namespace);
    let mut rest =
        all.into_iter().filter(|(k, v)| after.as_ref().is_none_or(|a| k > a) && selector.matches(v)).peekable();
    let mut items = Vec::new();
    let mut last = None;
    while limit.is_none_or(|l| items.len() < l) {
        let Some((key, object)) = rest.next() else { break };
        items.push(listed(target, &object, shown));
        last = Some(key);
    }
    let mut metadata = json!({ "resourceVersion": at.to_string() });
    if rest.peek().is_some()
        && let Some(last) = last
    {
        metadata["continue"] = json!(format!("{at}/{}/{}", last.namespace, last.name));
        if selector.is_empty() {
            metadata["remainingItemCount"] = json!(rest.count());
        }
    }
    let (api_version, kind) = shown.list_type(&target.kind, &target.version);
    Ok(Answer::Json(200, json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "items": items })))
}

fn watch(
    core: &Core,
    line: &Line,
    asked: &Asked,
    target: &Target,
    shown: Negotiated,
    seen: u64,
) -> Result<Answer, Failure> {
    let query = &asked.query;
    if query.flag("sendInitialEvents")?.is_some() {
        return Err(Failure::new(
            422,
            "Invalid",
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: this server does not stream initial lists: list, then watch from its resource version",
        ));
    }
    let selector = Selector::parse(&target.kind, query.get("labelSelector"), query.get("fieldSelector"))?;
    let rv = query.number("resourceVersion")?.filter(|rv| *rv > 0);
    // A type has no history from before it was there; the watch says so in its first line.
    let from = match rv {
        Some(rv) if rv < target.kind.since && !line.frozen() => 0,
        Some(rv) => rv,
        None => seen,
    };
    Ok(Answer::Watch(Box::new(WatchSpec {
        kind: target.kind.clone(),
        version: target.version.clone(),
        namespace: target.namespace.clone(),
        selector,
        shown,
        from,
        expired: from == 0 || from < core.store.compacted,
        initial: rv.is_none(),
        bookmarks: query.flag("allowWatchBookmarks")? == Some(true),
        timeout: query.number("timeoutSeconds")?.filter(|t| *t > 0).map(Duration::from_secs),
    })))
}
