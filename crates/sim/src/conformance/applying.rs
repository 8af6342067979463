//! Server-side apply.

use serde_json::{Value, json};

use super::{APPLY, Case, Check, Ctx, MERGE, Reply, holds, named, same, str_at};

pub(super) fn cases() -> Vec<Case> {
    named![
        an_apply_creates_and_owns,
        an_apply_that_changes_nothing_keeps_the_version,
        an_apply_over_anothers_field_conflicts_by_name,
        a_forced_apply_takes_the_field_over,
        the_same_value_is_owned_together,
        a_field_no_longer_applied_is_removed,
        a_field_no_longer_applied_stays_when_another_owns_it,
        a_part_no_longer_applied_goes_as_a_whole,
        a_field_nobody_applied_is_left_alone,
        conditions_of_two_managers_live_side_by_side,
        a_condition_no_longer_applied_is_removed,
        a_keyed_list_item_is_merged_field_by_field,
        a_set_keeps_the_values_of_others,
        an_atomic_list_has_one_owner,
        an_atomic_map_has_one_owner,
        an_update_takes_ownership_from_an_applier,
        an_apply_needs_a_manager,
        an_apply_needs_its_type,
        an_apply_to_status_owns_only_status,
        an_apply_to_main_ignores_status,
        an_apply_with_an_old_version_conflicts,
        an_apply_with_a_uid_never_creates,
        an_apply_under_another_name_is_a_bad_request,
        an_apply_may_not_bring_managed_fields,
        finalizers_and_owners_are_applied_as_sets,
        labels_of_two_managers_live_side_by_side,
        an_apply_counts_the_generation,
        managers_are_written_down_for_updates_too,
    ]
}

fn with_spec(ctx: &Ctx, spec: Value) -> Value {
    let mut config = ctx.applied("w");
    config["spec"] = spec;
    config
}

fn with_status(ctx: &Ctx, status: Value) -> Value {
    let mut config = ctx.applied("w");
    config["status"] = status;
    config
}

fn entry(reply: &Reply, manager: &str, operation: &str, subresource: &str) -> Option<Value> {
    let list = reply.at("/metadata/managedFields").as_array()?;
    let found = list.iter().find(|e| {
        str_at(e, "/manager") == manager
            && str_at(e, "/operation") == operation
            && str_at(e, "/subresource") == subresource
    });
    found.and_then(|e| e.get("fieldsV1")).cloned()
}

fn conditions(reply: &Reply) -> Vec<(String, String)> {
    let list = reply.at("/status/conditions").as_array();
    let mut out: Vec<(String, String)> =
        list.into_iter().flatten().map(|c| (str_at(c, "/type").to_owned(), str_at(c, "/status").to_owned())).collect();
    out.sort();
    out
}

async fn an_apply_creates_and_owns(ctx: Ctx) -> Check {
    let config = with_spec(&ctx, json!({ "size": 3, "inner": { "a": "x" } }));
    let made = ctx.apply(&ctx.widget("w"), "one", false, &config).await?.ok(201)?;
    same("size", made.at("/spec/size"), &json!(3))?;
    same("generation", made.at("/metadata/generation"), &json!(1))?;
    same(
        "owned fields",
        entry(&made, "one", "Apply", ""),
        Some(json!({ "f:spec": { "f:size": {}, "f:inner": { "f:a": {} } } })),
    )?;
    same("fields type", made.text("/metadata/managedFields/0/fieldsType"), "FieldsV1")
}

async fn an_apply_that_changes_nothing_keeps_the_version(ctx: Ctx) -> Check {
    let config = with_spec(&ctx, json!({ "size": 3, "tags": ["a"], "ports": [{ "name": "p", "number": 1 }] }));
    let made = ctx.apply(&ctx.widget("w"), "one", false, &config).await?.ok(201)?;
    let again = ctx.apply(&ctx.widget("w"), "one", true, &config).await?.ok(200)?;
    same("version", again.version(), made.version())
}

async fn an_apply_over_anothers_field_conflicts_by_name(ctx: Ctx) -> Check {
    ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 3 }))).await?.ok(201)?;
    let other = with_spec(&ctx, json!({ "size": 4 }));
    let reply = ctx.apply(&ctx.widget("w"), "two", false, &other).await?.refused(409, "Conflict")?;
    same("cause", reply.text("/details/causes/0/reason"), "FieldManagerConflict")?;
    same("field", reply.text("/details/causes/0/field"), ".spec.size")?;
    same("who", reply.text("/details/causes/0/message"), "conflict with \"one\"")?;
    same("message", reply.text("/message"), "Apply failed with 1 conflict: conflict with \"one\": .spec.size")?;
    same("size", ctx.get(&ctx.widget("w")).await?.at("/spec/size"), &json!(3))
}

async fn a_forced_apply_takes_the_field_over(ctx: Ctx) -> Check {
    ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 3, "note": "n" }))).await?.ok(201)?;
    let now = ctx.apply(&ctx.widget("w"), "two", true, &with_spec(&ctx, json!({ "size": 4 }))).await?.ok(200)?;
    same("size", now.at("/spec/size"), &json!(4))?;
    same("the new owner", entry(&now, "two", "Apply", ""), Some(json!({ "f:spec": { "f:size": {} } })))?;
    same("the old owner", entry(&now, "one", "Apply", ""), Some(json!({ "f:spec": { "f:note": {} } })))
}

async fn the_same_value_is_owned_together(ctx: Ctx) -> Check {
    let config = with_spec(&ctx, json!({ "size": 3 }));
    ctx.apply(&ctx.widget("w"), "one", false, &config).await?.ok(201)?;
    let now = ctx.apply(&ctx.widget("w"), "two", false, &config).await?.ok(200)?;
    let owned = Some(json!({ "f:spec": { "f:size": {} } }));
    same("one", entry(&now, "one", "Apply", ""), owned.clone())?;
    same("two", entry(&now, "two", "Apply", ""), owned)
}

async fn a_field_no_longer_applied_is_removed(ctx: Ctx) -> Check {
    ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 3, "note": "n" }))).await?.ok(201)?;
    let now = ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 3 }))).await?.ok(200)?;
    same("note", now.at("/spec/note"), &Value::Null)?;
    same("owned", entry(&now, "one", "Apply", ""), Some(json!({ "f:spec": { "f:size": {} } })))
}

async fn a_field_no_longer_applied_stays_when_another_owns_it(ctx: Ctx) -> Check {
    let both = with_spec(&ctx, json!({ "size": 3, "note": "n" }));
    ctx.apply(&ctx.widget("w"), "one", false, &both).await?.ok(201)?;
    ctx.apply(&ctx.widget("w"), "two", false, &both).await?.ok(200)?;
    let now = ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 3 }))).await?.ok(200)?;
    same("note", now.text("/spec/note"), "n")
}

async fn a_part_no_longer_applied_goes_as_a_whole(ctx: Ctx) -> Check {
    let config = with_spec(&ctx, json!({ "size": 3, "inner": { "a": "x", "b": "y" } }));
    ctx.apply(&ctx.widget("w"), "one", false, &config).await?.ok(201)?;
    let now = ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 3 }))).await?.ok(200)?;
    same("inner", now.at("/spec/inner"), &Value::Null)
}

async fn a_field_nobody_applied_is_left_alone(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let config = with_spec(&ctx, json!({ "note": "n" }));
    ctx.apply(&ctx.widget("w"), "one", false, &config).await?.ok(200)?;
    let now = ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "color": "red" }))).await?.ok(200)?;
    same("size", now.at("/spec/size"), &json!(1))?;
    same("note", now.at("/spec/note"), &Value::Null)?;
    same("color", now.text("/spec/color"), "red")
}

async fn status_of(ctx: &Ctx, manager: &str, list: Value) -> Result<Reply, String> {
    let path = format!("{}/status", ctx.widget("w"));
    ctx.apply(&path, manager, true, &with_status(ctx, json!({ "conditions": list }))).await
}

async fn conditions_of_two_managers_live_side_by_side(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    status_of(&ctx, "one", json!([{ "type": "Ready", "status": "True" }])).await?.ok(200)?;
    let now = status_of(&ctx, "two", json!([{ "type": "Bound", "status": "False" }])).await?.ok(200)?;
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    same("conditions", conditions(&now), vec![pair("Bound", "False"), pair("Ready", "True")])?;
    same(
        "owned",
        entry(&now, "two", "Apply", "status"),
        Some(
            json!({ "f:status": { "f:conditions": { "k:{\"type\":\"Bound\"}": { ".": {}, "f:type": {}, "f:status": {} } } } }),
        ),
    )
}

async fn a_condition_no_longer_applied_is_removed(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let both = json!([{ "type": "Ready", "status": "True" }, { "type": "Bound", "status": "False" }]);
    status_of(&ctx, "one", both).await?.ok(200)?;
    let now = status_of(&ctx, "one", json!([{ "type": "Ready", "status": "False" }])).await?.ok(200)?;
    same("conditions", conditions(&now), vec![("Ready".to_owned(), "False".to_owned())])
}

async fn a_keyed_list_item_is_merged_field_by_field(ctx: Ctx) -> Check {
    let one = with_spec(&ctx, json!({ "ports": [{ "name": "web" }] }));
    ctx.apply(&ctx.widget("w"), "one", false, &one).await?.ok(201)?;
    let two = with_spec(&ctx, json!({ "ports": [{ "name": "web", "number": 80 }, { "name": "ssh", "number": 22 }] }));
    let now = ctx.apply(&ctx.widget("w"), "two", false, &two).await?.ok(200)?;
    same("ports", now.at("/spec/ports").as_array().map(Vec::len), Some(2))?;
    let now = ctx
        .apply(&ctx.widget("w"), "two", false, &with_spec(&ctx, json!({ "ports": [{ "name": "ssh", "number": 22 }] })))
        .await?
        .ok(200)?;
    let ports = now.at("/spec/ports").as_array().cloned().unwrap_or_default();
    let web = ports.iter().find(|p| str_at(p, "/name") == "web").cloned();
    same("what the first applied stays", web, Some(json!({ "name": "web" })))?;
    holds("the other item stays", ports.iter().any(|p| str_at(p, "/name") == "ssh"))
}

async fn a_set_keeps_the_values_of_others(ctx: Ctx) -> Check {
    ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "tags": ["a", "b"] }))).await?.ok(201)?;
    let now =
        ctx.apply(&ctx.widget("w"), "two", false, &with_spec(&ctx, json!({ "tags": ["b", "c"] }))).await?.ok(200)?;
    let sorted = |reply: &Reply| {
        let list = reply.at("/spec/tags").as_array().cloned().unwrap_or_default();
        let mut tags: Vec<String> = list.iter().filter_map(|t| t.as_str().map(String::from)).collect();
        tags.sort();
        tags.join(",")
    };
    same("union", sorted(&now), "a,b,c")?;
    same(
        "owned",
        entry(&now, "two", "Apply", ""),
        Some(json!({ "f:spec": { "f:tags": { "v:\"b\"": {}, "v:\"c\"": {} } } })),
    )?;
    let now = ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "tags": [] }))).await?.ok(200)?;
    same("after the first lets go", sorted(&now), "b,c")
}

async fn an_atomic_list_has_one_owner(ctx: Ctx) -> Check {
    ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "steps": ["a", "b"] }))).await?.ok(201)?;
    let other = with_spec(&ctx, json!({ "steps": ["c"] }));
    let reply = ctx.apply(&ctx.widget("w"), "two", false, &other).await?.refused(409, "Conflict")?;
    same("field", reply.text("/details/causes/0/field"), ".spec.steps")?;
    let now = ctx.apply(&ctx.widget("w"), "two", true, &other).await?.ok(200)?;
    same("steps", now.at("/spec/steps"), &json!(["c"]))?;
    same("the first owns nothing", entry(&now, "one", "Apply", ""), None)
}

async fn an_atomic_map_has_one_owner(ctx: Ctx) -> Check {
    ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "whole": { "a": "1" } }))).await?.ok(201)?;
    let other = with_spec(&ctx, json!({ "whole": { "b": "2" } }));
    ctx.apply(&ctx.widget("w"), "two", false, &other).await?.refused(409, "Conflict")?;
    let now = ctx.apply(&ctx.widget("w"), "two", true, &other).await?.ok(200)?;
    same("whole", now.at("/spec/whole"), &json!({ "b": "2" }))
}

async fn an_update_takes_ownership_from_an_applier(ctx: Ctx) -> Check {
    let config = with_spec(&ctx, json!({ "size": 3 }));
    ctx.apply(&ctx.widget("w"), "one", false, &config).await?.ok(201)?;
    ctx.patch(&ctx.widget("w"), MERGE, &json!({ "spec": { "size": 5 } })).await?.ok(200)?;
    let reply = ctx.apply(&ctx.widget("w"), "one", false, &config).await?.refused(409, "Conflict")?;
    holds("it names the updater", reply.text("/message").contains("conflict with \"suite\""))?;
    let now = ctx.apply(&ctx.widget("w"), "one", true, &config).await?.ok(200)?;
    same("size", now.at("/spec/size"), &json!(3))
}

async fn an_apply_needs_a_manager(ctx: Ctx) -> Check {
    let reply = ctx.patch(&ctx.widget("w"), APPLY, &with_spec(&ctx, json!({}))).await?.refused(422, "Invalid")?;
    same("field", reply.text("/details/causes/0/field"), "fieldManager")
}

async fn an_apply_needs_its_type(ctx: Ctx) -> Check {
    let config = json!({ "metadata": { "name": ctx.name("w") }, "spec": { "size": 1 } });
    ctx.apply(&ctx.widget("w"), "one", false, &config).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn an_apply_to_status_owns_only_status(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let mut config = with_status(&ctx, json!({ "phase": "Ready" }));
    config["spec"] = json!({ "size": 50 });
    let now = ctx.apply(&format!("{}/status", ctx.widget("w")), "one", false, &config).await?.ok(200)?;
    same("size", now.at("/spec/size"), &json!(1))?;
    same("phase", now.text("/status/phase"), "Ready")?;
    let owned = Some(json!({ "f:status": { "f:phase": {} } }));
    same("owned", entry(&now, "one", "Apply", "status"), owned)?;
    let missing = format!("{}/status", ctx.widget("none"));
    let mut config = ctx.applied("none");
    config["status"] = json!({ "phase": "Ready" });
    ctx.apply(&missing, "one", false, &config).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn an_apply_to_main_ignores_status(ctx: Ctx) -> Check {
    let mut config = with_spec(&ctx, json!({ "size": 2 }));
    config["status"] = json!({ "phase": "Ready" });
    let made = ctx.apply(&ctx.widget("w"), "one", false, &config).await?.ok(201)?;
    same("status", made.at("/status"), &Value::Null)?;
    same("owned", entry(&made, "one", "Apply", ""), Some(json!({ "f:spec": { "f:size": {} } })))
}

async fn an_apply_with_an_old_version_conflicts(ctx: Ctx) -> Check {
    let made = ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 1 }))).await?.ok(201)?;
    ctx.patch(&ctx.widget("w"), MERGE, &json!({ "spec": { "note": "n" } })).await?.ok(200)?;
    let mut config = with_spec(&ctx, json!({ "size": 2 }));
    config["metadata"]["resourceVersion"] = made.at("/metadata/resourceVersion").clone();
    ctx.apply(&ctx.widget("w"), "one", true, &config).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn an_apply_with_a_uid_never_creates(ctx: Ctx) -> Check {
    let mut config = with_spec(&ctx, json!({ "size": 2 }));
    config["metadata"]["uid"] = json!("11111111-2222-4333-8444-555555555555");
    ctx.apply(&ctx.widget("w"), "one", true, &config).await?.refused(409, "Conflict")?;
    ctx.get(&ctx.widget("w")).await?.ok(404)?;
    Ok(())
}

async fn an_apply_under_another_name_is_a_bad_request(ctx: Ctx) -> Check {
    let mut config = with_spec(&ctx, json!({ "size": 2 }));
    config["metadata"]["name"] = json!("another");
    ctx.apply(&ctx.widget("w"), "one", true, &config).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn an_apply_may_not_bring_managed_fields(ctx: Ctx) -> Check {
    let made = ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 1 }))).await?.ok(201)?;
    ctx.apply(&ctx.widget("w"), "one", true, &made.body).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn finalizers_and_owners_are_applied_as_sets(ctx: Ctx) -> Check {
    let owner = ctx.post(&ctx.maps(), &ctx.new_map("owner")).await?.ok(201)?;
    let mut one = ctx.applied("w");
    one["metadata"]["finalizers"] = json!(["berth.test/one"]);
    ctx.apply(&ctx.widget("w"), "one", false, &one).await?.ok(201)?;
    let mut two = ctx.applied("w");
    two["metadata"]["finalizers"] = json!(["berth.test/two"]);
    two["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": ctx.name("owner"), "uid": owner.text("/metadata/uid"),
    }]);
    let now = ctx.apply(&ctx.widget("w"), "two", false, &two).await?.ok(200)?;
    let mut held: Vec<String> = now
        .at("/metadata/finalizers")
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|f| f.as_str().map(String::from))
        .collect();
    held.sort();
    same("finalizers", held, vec!["berth.test/one".to_owned(), "berth.test/two".to_owned()])?;
    same("owner", now.text("/metadata/ownerReferences/0/name"), ctx.name("owner"))?;
    let now = ctx.apply(&ctx.widget("w"), "two", false, &ctx.applied("w")).await?.ok(200)?;
    same("finalizers", now.at("/metadata/finalizers"), &json!(["berth.test/one"]))?;
    same("owners", now.at("/metadata/ownerReferences"), &Value::Null)?;
    ctx.patch(&ctx.widget("w"), MERGE, &json!({ "metadata": { "finalizers": null } })).await?.ok(200)?;
    Ok(())
}

async fn labels_of_two_managers_live_side_by_side(ctx: Ctx) -> Check {
    let labelled = |key: &str| {
        let mut config = ctx.applied("w");
        config["metadata"]["labels"] = json!({ key: "yes" });
        config
    };
    ctx.apply(&ctx.widget("w"), "one", false, &labelled("one")).await?.ok(201)?;
    let now = ctx.apply(&ctx.widget("w"), "two", false, &labelled("two")).await?.ok(200)?;
    same("labels", now.at("/metadata/labels"), &json!({ "one": "yes", "two": "yes" }))?;
    same("owned", entry(&now, "two", "Apply", ""), Some(json!({ "f:metadata": { "f:labels": { "f:two": {} } } })))?;
    let now = ctx.apply(&ctx.widget("w"), "two", false, &ctx.applied("w")).await?.ok(200)?;
    same("labels", now.at("/metadata/labels"), &json!({ "one": "yes" }))
}

async fn an_apply_counts_the_generation(ctx: Ctx) -> Check {
    ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 1 }))).await?.ok(201)?;
    let now = ctx.apply(&ctx.widget("w"), "one", false, &with_spec(&ctx, json!({ "size": 2 }))).await?.ok(200)?;
    same("after a spec change", now.at("/metadata/generation"), &json!(2))?;
    let now = ctx.apply(&ctx.widget("w"), "two", false, &with_spec(&ctx, json!({ "size": 2 }))).await?.ok(200)?;
    same("after a change of owners", now.at("/metadata/generation"), &json!(2))
}

async fn managers_are_written_down_for_updates_too(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let fields = entry(&made, "suite", "Update", "").ok_or("no entry for the creator")?;
    same("it owns the key", fields.pointer("/f:data/f:a"), Some(&json!({})))?;
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let path = format!("{}/status", ctx.widget("w"));
    let now = ctx.patch(&path, MERGE, &json!({ "status": { "phase": "Ready" } })).await?.ok(200)?;
    let fields = entry(&now, "suite", "Update", "status").ok_or("no entry for the status writer")?;
    same("it owns the phase", fields.pointer("/f:status/f:phase"), Some(&json!({})))
}
