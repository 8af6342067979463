//! Create, replace, patch, status.

use http::Method;
use serde_json::{Value, json};

use super::{Case, Check, Ctx, GROUP, JSON, MERGE, holds, named, same, str_at};

pub(super) fn cases() -> Vec<Case> {
    named![
        a_new_object_gets_uid_version_time_and_generation,
        a_second_create_already_exists,
        generate_name_makes_different_names,
        an_object_without_a_name_is_invalid,
        a_bad_name_is_invalid,
        a_missing_namespace_is_not_found,
        a_create_drops_the_status,
        a_create_of_another_kind_is_refused,
        a_create_into_another_namespace_is_a_bad_request,
        a_missing_object_is_not_found_by_name,
        an_unknown_path_is_not_found,
        a_replace_with_an_old_version_conflicts,
        a_replace_of_a_custom_object_needs_a_version,
        a_replace_of_a_config_map_needs_no_version,
        a_replace_with_another_uid_conflicts,
        a_replace_under_another_name_is_a_bad_request,
        a_replace_that_changes_nothing_keeps_the_version,
        a_merge_patch_sets_and_removes,
        a_merge_patch_with_an_old_version_conflicts,
        a_merge_patch_that_changes_nothing_keeps_the_version,
        a_patch_of_a_missing_object_is_not_found,
        a_json_patch_test_guards_the_write,
        a_failed_test_names_no_causes_and_an_invalid_object_does,
        a_json_patch_on_a_missing_path_is_invalid,
        an_unknown_patch_type_is_unsupported,
        a_strategic_patch_of_a_custom_object_is_unsupported,
        a_body_of_unknown_type_is_unsupported,
        a_status_write_leaves_the_rest_alone,
        a_main_write_leaves_the_status_alone,
        a_status_replace_with_an_old_version_conflicts,
        the_generation_counts_spec_changes_only,
        a_dry_run_stores_nothing,
        a_force_without_apply_is_invalid,
        the_identity_of_an_object_cannot_be_patched,
        every_write_raises_the_version,
    ]
}

async fn a_new_object_gets_uid_version_time_and_generation(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    holds("uid has 36 letters", made.text("/metadata/uid").len() == 36)?;
    holds("version is a number", made.version().parse::<u64>().is_ok())?;
    holds("time ends in Z", made.text("/metadata/creationTimestamp").ends_with('Z'))?;
    same("time in whole seconds", made.text("/metadata/creationTimestamp").len(), 20)?;
    same("generation", made.at("/metadata/generation"), &json!(1))?;
    same("namespace", made.text("/metadata/namespace"), ctx.ns())?;
    let map = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    same("generation of a config map", map.at("/metadata/generation"), &Value::Null)
}

async fn a_second_create_already_exists(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let reply = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.refused(409, "AlreadyExists")?;
    same("message", reply.text("/message"), format!("configmaps \"{}\" already exists", ctx.name("m")))?;
    same("details name", reply.text("/details/name"), ctx.name("m"))?;
    same("details kind", reply.text("/details/kind"), "configmaps")
}

async fn generate_name_makes_different_names(ctx: Ctx) -> Check {
    let prefix = ctx.name("gen-");
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "generateName": prefix } });
    let one = ctx.post(&ctx.maps(), &object).await?.ok(201)?;
    let two = ctx.post(&ctx.maps(), &object).await?.ok(201)?;
    let (one, two) = (one.text("/metadata/name"), two.text("/metadata/name"));
    holds("both begin with the prefix", one.starts_with(&prefix) && two.starts_with(&prefix))?;
    same("five letters are added", one.len(), prefix.len() + 5)?;
    holds("they differ", one != two)
}

async fn an_object_without_a_name_is_invalid(ctx: Ctx) -> Check {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {} });
    ctx.post(&ctx.maps(), &object).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn a_bad_name_is_invalid(ctx: Ctx) -> Check {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "Not_Good" } });
    let reply = ctx.post(&ctx.maps(), &object).await?.refused(422, "Invalid")?;
    same("field", reply.text("/details/causes/0/field"), "metadata.name")
}

async fn a_missing_namespace_is_not_found(ctx: Ctx) -> Check {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" } });
    let reply = ctx.post("/api/v1/namespaces/no-such-place/configmaps", &object).await?.refused(404, "NotFound")?;
    same("what is missing", reply.text("/message"), "namespaces \"no-such-place\" not found")
}

async fn a_create_drops_the_status(ctx: Ctx) -> Check {
    let mut widget = ctx.new_widget("w");
    widget["status"] = json!({ "phase": "Ready" });
    let made = ctx.post(&ctx.widgets(), &widget).await?.ok(201)?;
    same("status", made.at("/status"), &Value::Null)
}

async fn a_create_of_another_kind_is_refused(ctx: Ctx) -> Check {
    let mut widget = ctx.new_widget("w");
    widget["kind"] = json!("Gadget");
    let reply = ctx.post(&ctx.widgets(), &widget).await?.refused(422, "Invalid")?;
    same("field", reply.text("/details/causes/0/field"), "kind")?;
    let mut map = ctx.new_map("m");
    map["kind"] = json!("Secret");
    ctx.post(&ctx.maps(), &map).await?.refused(400, "BadRequest")?;
    let mut widget = ctx.new_widget("w");
    widget["apiVersion"] = json!("v1");
    ctx.post(&ctx.widgets(), &widget).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_create_into_another_namespace_is_a_bad_request(ctx: Ctx) -> Check {
    let mut map = ctx.new_map("m");
    map["metadata"]["namespace"] = json!("kube-system");
    ctx.post(&ctx.maps(), &map).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_missing_object_is_not_found_by_name(ctx: Ctx) -> Check {
    let reply = ctx.get(&ctx.widget("none")).await?.refused(404, "NotFound")?;
    let name = ctx.name("none");
    same("message", reply.text("/message"), format!("widgets.{GROUP} \"{name}\" not found"))?;
    same("details", reply.at("/details"), &json!({ "name": name, "group": GROUP, "kind": "widgets" }))
}

async fn an_unknown_path_is_not_found(ctx: Ctx) -> Check {
    let reply = ctx.get(&format!("/apis/{GROUP}/v1/namespaces/{}/nothings", ctx.ns())).await?.ok(404)?;
    same("plain text", &reply.body, &json!("404 page not found\n"))?;
    ctx.get("/no/such/path").await?.ok(404)?;
    ctx.get(&format!("{}/sub/sub", ctx.widget("w"))).await?.ok(404)?;
    Ok(())
}

async fn a_replace_with_an_old_version_conflicts(ctx: Ctx) -> Check {
    let old = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?.body;
    let mut next = old.clone();
    next["spec"]["size"] = json!(2);
    let now = ctx.put(&ctx.widget("w"), &next).await?.ok(200)?;
    same("size", now.at("/spec/size"), &json!(2))?;
    let reply = ctx.put(&ctx.widget("w"), &next).await?.refused(409, "Conflict")?;
    holds("the words say it was modified", reply.text("/message").contains("the object has been modified"))
}

async fn a_replace_of_a_custom_object_needs_a_version(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let reply = ctx.put(&ctx.widget("w"), &ctx.new_widget("w")).await?.refused(422, "Invalid")?;
    same("field", reply.text("/details/causes/0/field"), "metadata.resourceVersion")
}

async fn a_replace_of_a_config_map_needs_no_version(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let mut next = ctx.new_map("m");
    next["data"] = json!({ "b": "2" });
    let now = ctx.put(&ctx.map("m"), &next).await?.ok(200)?;
    same("data is replaced", now.at("/data"), &json!({ "b": "2" }))
}

async fn a_replace_with_another_uid_conflicts(ctx: Ctx) -> Check {
    let mut object = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?.body;
    object["metadata"]["uid"] = json!("11111111-2222-4333-8444-555555555555");
    ctx.put(&ctx.map("m"), &object).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn a_replace_under_another_name_is_a_bad_request(ctx: Ctx) -> Check {
    let mut object = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?.body;
    object["metadata"]["name"] = json!("another");
    ctx.put(&ctx.map("m"), &object).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_replace_that_changes_nothing_keeps_the_version(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let again = ctx.put(&ctx.widget("w"), &made.body).await?.ok(200)?;
    same("version", again.version(), made.version())
}

async fn a_merge_patch_sets_and_removes(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let patch = json!({ "data": { "a": null, "b": "2" }, "metadata": { "labels": { "x": "y" } } });
    let now = ctx.patch(&ctx.map("m"), MERGE, &patch).await?.ok(200)?;
    same("data", now.at("/data"), &json!({ "b": "2" }))?;
    same("label", now.text("/metadata/labels/x"), "y")?;
    holds("the other label stays", !now.text("/metadata/labels/case").is_empty())
}

async fn a_merge_patch_with_an_old_version_conflicts(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let patch = |value: &str| json!({ "metadata": { "resourceVersion": made.version() }, "data": { "a": value } });
    ctx.patch(&ctx.map("m"), MERGE, &patch("2")).await?.ok(200)?;
    ctx.patch(&ctx.map("m"), MERGE, &patch("3")).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn a_merge_patch_that_changes_nothing_keeps_the_version(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let again = ctx.patch(&ctx.map("m"), MERGE, &json!({ "data": { "a": "1" } })).await?.ok(200)?;
    same("version", again.version(), made.version())
}

async fn a_patch_of_a_missing_object_is_not_found(ctx: Ctx) -> Check {
    ctx.patch(&ctx.map("none"), MERGE, &json!({ "data": {} })).await?.refused(404, "NotFound")?;
    ctx.patch(&ctx.map("none"), JSON, &json!([])).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_json_patch_test_guards_the_write(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let patch = |expected: &str| json!([{ "op": "test", "path": "/data/a", "value": expected }, { "op": "add", "path": "/data/b", "value": "2" }]);
    ctx.patch(&ctx.map("m"), JSON, &patch("wrong")).await?.refused(422, "Invalid")?;
    same("version", ctx.get(&ctx.map("m")).await?.version(), made.version())?;
    let now = ctx.patch(&ctx.map("m"), JSON, &patch("1")).await?.ok(200)?;
    same("data", now.at("/data"), &json!({ "a": "1", "b": "2" }))
}

/// Both are answered 422: only the causes tell whoever patches whether to read again or to give up.
async fn a_failed_test_names_no_causes_and_an_invalid_object_does(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    for path in [ctx.map("m"), ctx.widget("w")] {
        for (tested, value) in [("/metadata/uid", json!("other")), ("/metadata/finalizers", json!(["other"]))] {
            let patch = json!([{ "op": "test", "path": tested, "value": value },
                { "op": "add", "path": "/metadata/annotations", "value": {} }]);
            let reply = ctx.patch(&path, JSON, &patch).await?.refused(422, "Invalid")?;
            same("causes of a failed test", reply.at("/details/causes"), &Value::Null)?;
        }
    }
    let patch = json!([{ "op": "add", "path": "/spec/size", "value": 101 }]);
    let reply = ctx.patch(&ctx.widget("w"), JSON, &patch).await?.refused(422, "Invalid")?;
    same("field of an invalid object", reply.text("/details/causes/0/field"), "spec.size")
}

async fn a_json_patch_on_a_missing_path_is_invalid(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let patch = json!([{ "op": "remove", "path": "/metadata/finalizers/0" }]);
    ctx.patch(&ctx.map("m"), JSON, &patch).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn an_unknown_patch_type_is_unsupported(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let reply = ctx.patch(&ctx.map("m"), "application/json", &json!({})).await?;
    reply.refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn a_strategic_patch_of_a_custom_object_is_unsupported(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let reply = ctx.patch(&ctx.widget("w"), "application/strategic-merge-patch+json", &json!({})).await?;
    reply.refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn a_body_of_unknown_type_is_unsupported(ctx: Ctx) -> Check {
    let map = ctx.new_map("m");
    let reply = ctx.send(Method::POST, &ctx.maps(), "text/csv", "application/json", Some(&map)).await?;
    reply.refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn a_status_write_leaves_the_rest_alone(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let path = format!("{}/status", ctx.widget("w"));
    let patch =
        json!({ "spec": { "size": 9 }, "metadata": { "labels": { "new": "label" } }, "status": { "phase": "Ready" } });
    let now = ctx.patch(&path, MERGE, &patch).await?.ok(200)?;
    same("phase", now.text("/status/phase"), "Ready")?;
    same("size", now.at("/spec/size"), &json!(1))?;
    same("label", now.at("/metadata/labels/new"), &Value::Null)?;
    same("read back", ctx.get(&path).await?.ok(200)?.text("/status/phase"), "Ready")
}

async fn a_main_write_leaves_the_status_alone(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let status = json!({ "status": { "phase": "Ready" } });
    ctx.patch(&format!("{}/status", ctx.widget("w")), MERGE, &status).await?.ok(200)?;
    let patch = json!({ "spec": { "size": 9 }, "status": { "phase": "Broken" } });
    let now = ctx.patch(&ctx.widget("w"), MERGE, &patch).await?.ok(200)?;
    same("phase", now.text("/status/phase"), "Ready")?;
    same("size", now.at("/spec/size"), &json!(9))?;
    let mut whole = now.body;
    if let Some(map) = whole.as_object_mut() {
        map.remove("status");
    }
    let kept = ctx.put(&ctx.widget("w"), &whole).await?.ok(200)?;
    same("phase after a replace without status", kept.text("/status/phase"), "Ready")
}

async fn a_status_replace_with_an_old_version_conflicts(ctx: Ctx) -> Check {
    let old = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?.body;
    ctx.patch(&ctx.widget("w"), MERGE, &json!({ "spec": { "size": 2 } })).await?.ok(200)?;
    let mut next = old;
    next["status"] = json!({ "phase": "Ready" });
    ctx.put(&format!("{}/status", ctx.widget("w")), &next).await?.refused(409, "Conflict")?;
    Ok(())
}

async fn the_generation_counts_spec_changes_only(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let path = ctx.widget("w");
    let now = ctx.patch(&path, MERGE, &json!({ "metadata": { "annotations": { "a": "b" } } })).await?.ok(200)?;
    same("after a metadata change", now.at("/metadata/generation"), &json!(1))?;
    let status = json!({ "status": { "phase": "Ready" } });
    let now = ctx.patch(&format!("{path}/status"), MERGE, &status).await?.ok(200)?;
    same("after a status change", now.at("/metadata/generation"), &json!(1))?;
    let now = ctx.patch(&path, MERGE, &json!({ "spec": { "size": 2 } })).await?.ok(200)?;
    same("after a spec change", now.at("/metadata/generation"), &json!(2))?;
    let now = ctx.patch(&path, MERGE, &json!({ "metadata": { "generation": 77 } })).await?.ok(200)?;
    same("after an attempt to set it", now.at("/metadata/generation"), &json!(2))
}

async fn a_dry_run_stores_nothing(ctx: Ctx) -> Check {
    let made = ctx.post(&format!("{}?dryRun=All", ctx.maps()), &ctx.new_map("m")).await?.ok(201)?;
    same("the answer shows the object", made.text("/data/a"), "1")?;
    ctx.get(&ctx.map("m")).await?.ok(404)?;
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let path = format!("{}?dryRun=All", ctx.map("m"));
    let would = ctx.patch(&path, MERGE, &json!({ "data": { "a": "2" } })).await?.ok(200)?;
    same("the answer shows the change", would.text("/data/a"), "2")?;
    same("version", ctx.get(&ctx.map("m")).await?.version(), made.version())
}

async fn a_force_without_apply_is_invalid(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let path = format!("{}?force=true", ctx.map("m"));
    ctx.patch(&path, MERGE, &json!({ "data": {} })).await?.refused(422, "Invalid")?;
    Ok(())
}

async fn the_identity_of_an_object_cannot_be_patched(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let reply = ctx.patch(&ctx.widget("w"), MERGE, &json!({ "metadata": { "name": "other" } })).await?;
    reply.refused(400, "BadRequest")?;
    let patch = json!({ "metadata": { "deletionTimestamp": "2020-01-01T00:00:00Z" } });
    let reply = ctx.patch(&ctx.widget("w"), MERGE, &patch).await?.refused(422, "Invalid")?;
    same("field", reply.text("/details/causes/0/field"), "metadata.deletionTimestamp")?;
    same("version", ctx.get(&ctx.widget("w")).await?.version(), made.version())
}

async fn every_write_raises_the_version(ctx: Ctx) -> Check {
    let mut last = 0u64;
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    for i in 0..5 {
        let patch = json!({ "data": { "a": format!("v{i}") } });
        let now = ctx.patch(&ctx.map("m"), MERGE, &patch).await?.ok(200)?;
        let version: u64 = str_at(&now.body, "/metadata/resourceVersion").parse().map_err(|e| format!("{e}"))?;
        holds("it rises", version > last)?;
        last = version;
    }
    Ok(())
}
