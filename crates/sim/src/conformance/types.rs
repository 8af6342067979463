//! Custom kinds, schemas, and the server's own kinds.

use serde_json::{Value, json};

use super::{Case, Check, Ctx, GROUP, MERGE, holds, named, same, str_at};

pub(super) fn cases() -> Vec<Case> {
    named![
        a_created_definition_is_established_and_served,
        a_deleted_definition_takes_its_objects_with_it,
        unknown_fields_are_dropped,
        defaults_are_filled_in,
        a_value_of_the_wrong_type_is_invalid,
        a_value_out_of_bounds_is_invalid,
        every_served_version_shows_the_same_object,
        a_secrets_plain_text_is_stored_encoded,
        a_lease_is_won_by_one_of_two_writers,
        discovery_lists_the_custom_kind_and_its_status,
        the_server_tells_its_version,
        a_terminating_namespace_takes_no_new_objects,
    ]
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": { "type": "integer", "minimum": 0, "maximum": 100 },
                    "color": text,
                    "mode": { "type": "string", "default": "auto" },
                    "note": text,
                    "inner": { "type": "object", "properties": { "a": text, "b": text } },
                    "tags": { "type": "array", "items": text, "x-kubernetes-list-type": "set" },
                    "ports": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": { "type": "object", "required": ["name"],
                                   "properties": { "name": text, "number": { "type": "integer" } } },
                    },
                    "steps": { "type": "array", "items": text, "x-kubernetes-list-type": "atomic" },
                    "whole": { "type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic" },
                    "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "phase": text,
                    "conditions": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                        "items": { "type": "object", "required": ["type"],
                                   "properties": { "type": text, "status": text, "reason": text, "message": text } },
                    },
                },
            },
        },
    })
}

fn definition(kind: &str, plural: &str) -> Value {
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": schema() },
            "subresources": { "status": {} },
            "selectableFields": [{ "jsonPath": ".spec.color" }],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{GROUP}") },
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural },
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    })
}

/// Installs the suite's kind and waits until it is served.
pub(super) async fn install(ctx: &Ctx) -> Check {
    let reply = ctx.post(DEFINITIONS, &definition("Widget", "widgets")).await?;
    holds(&format!("the definition was accepted: {}", reply.body), [201, 409].contains(&reply.code))?;
    established(ctx, "widgets").await?;
    ctx.until(&ctx.widgets(), "the kind is served", |r| r.code == 200).await?;
    Ok(())
}

async fn established(ctx: &Ctx, plural: &str) -> Result<super::Reply, String> {
    ctx.until(&format!("{DEFINITIONS}/{plural}.{GROUP}"), "established", |r| {
        r.at("/status/conditions").as_array().is_some_and(|list| {
            list.iter().any(|c| str_at(c, "/type") == "Established" && str_at(c, "/status") == "True")
        })
    })
    .await
}

async fn a_created_definition_is_established_and_served(ctx: Ctx) -> Check {
    let reply = established(&ctx, "widgets").await?;
    same("accepted kind", reply.text("/status/acceptedNames/kind"), "Widget")?;
    same("stored versions", reply.at("/status/storedVersions"), &json!(["v1"]))
}

async fn a_deleted_definition_takes_its_objects_with_it(ctx: Ctx) -> Check {
    let plural = "shortlived";
    ctx.post(DEFINITIONS, &definition("Shortlived", plural)).await?.ok(201)?;
    established(&ctx, plural).await?;
    let path = format!("/apis/{GROUP}/v1/namespaces/{}/{plural}", ctx.ns());
    ctx.until(&path, "served", |r| r.code == 200).await?;
    let object =
        json!({ "apiVersion": format!("{GROUP}/v1"), "kind": "Shortlived", "metadata": { "name": "x" }, "spec": {} });
    ctx.post(&path, &object).await?.ok(201)?;
    let definition = format!("{DEFINITIONS}/{plural}.{GROUP}");
    ctx.delete(&definition, None).await?.ok(200)?;
    ctx.until(&definition, "the definition is gone", |r| r.code == 404).await?;
    ctx.until(&path, "the kind is gone", |r| r.code == 404).await?;
    Ok(())
}

async fn unknown_fields_are_dropped(ctx: Ctx) -> Check {
    let mut widget = ctx.new_widget("w");
    widget["spec"]["nobody"] = json!(1);
    widget["spec"]["free"] = json!({ "anything": { "deep": [1] } });
    widget["top"] = json!(true);
    let made = ctx.post(&ctx.widgets(), &widget).await?.ok(201)?;
    same("undeclared field", made.at("/spec/nobody"), &Value::Null)?;
    same("undeclared root field", made.at("/top"), &Value::Null)?;
    same("free-form part", made.at("/spec/free/anything/deep/0"), &json!(1))
}

async fn defaults_are_filled_in(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    same("default", made.text("/spec/mode"), "auto")?;
    let read = ctx.get(&ctx.widget("w")).await?.ok(200)?;
    same("default when read", read.text("/spec/mode"), "auto")
}

async fn a_value_of_the_wrong_type_is_invalid(ctx: Ctx) -> Check {
    let mut widget = ctx.new_widget("w");
    widget["spec"]["color"] = json!(7);
    let reply = ctx.post(&ctx.widgets(), &widget).await?.refused(422, "Invalid")?;
    same("field", reply.text("/details/causes/0/field"), "spec.color")?;
    same("cause", reply.text("/details/causes/0/reason"), "FieldValueTypeInvalid")
}

async fn a_value_out_of_bounds_is_invalid(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let patch = json!({ "spec": { "size": 101 } });
    let reply = ctx.patch(&ctx.widget("w"), MERGE, &patch).await?.refused(422, "Invalid")?;
    same("field", reply.text("/details/causes/0/field"), "spec.size")
}

async fn every_served_version_shows_the_same_object(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let other = format!("/apis/{GROUP}/v1beta1/namespaces/{}/widgets/{}", ctx.ns(), ctx.name("w"));
    let read = ctx.get(&other).await?.ok(200)?;
    same("apiVersion", read.text("/apiVersion"), format!("{GROUP}/v1beta1"))?;
    same("uid", read.text("/metadata/uid"), made.text("/metadata/uid"))?;
    same("version", read.version(), made.version())?;
    same("spec", read.at("/spec"), made.at("/spec"))
}

async fn a_secrets_plain_text_is_stored_encoded(ctx: Ctx) -> Check {
    let path = format!("/api/v1/namespaces/{}/secrets", ctx.ns());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": ctx.name("s") },
        "data": { "k": "AQID" }, "stringData": { "word": "open sesame" },
    });
    let made = ctx.post(&path, &secret).await?.ok(201)?;
    same("data", made.at("/data"), &json!({ "k": "AQID", "word": "b3BlbiBzZXNhbWU=" }))?;
    same("stringData", made.at("/stringData"), &Value::Null)?;
    same("type", made.text("/type"), "Opaque")
}

async fn a_lease_is_won_by_one_of_two_writers(ctx: Ctx) -> Check {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", ctx.ns());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": ctx.name("l") },
        "spec": { "holderIdentity": "nobody", "leaseDurationSeconds": 15 },
    });
    let seen = ctx.post(&path, &lease).await?.ok(201)?.body;
    let one = format!("{path}/{}", ctx.name("l"));
    let claim = |who: &str| {
        let mut mine = seen.clone();
        mine["spec"]["holderIdentity"] = json!(who);
        mine
    };
    ctx.put(&one, &claim("a")).await?.ok(200)?;
    ctx.put(&one, &claim("b")).await?.refused(409, "Conflict")?;
    same("holder", ctx.get(&one).await?.text("/spec/holderIdentity"), "a")
}

async fn discovery_lists_the_custom_kind_and_its_status(ctx: Ctx) -> Check {
    let list = ctx.get(&format!("/apis/{GROUP}/v1")).await?.ok(200)?;
    same("kind", list.text("/kind"), "APIResourceList")?;
    same("group version", list.text("/groupVersion"), format!("{GROUP}/v1"))?;
    let empty = Vec::new();
    let names: Vec<&str> =
        list.at("/resources").as_array().unwrap_or(&empty).iter().map(|r| str_at(r, "/name")).collect();
    holds("widgets are listed", names.contains(&"widgets"))?;
    holds("their status is listed", names.contains(&"widgets/status"))?;
    let groups = ctx.get("/apis").await?.ok(200)?;
    let listed = groups.at("/groups").as_array().unwrap_or(&empty).iter().any(|g| str_at(g, "/name") == GROUP);
    holds("the group is listed", listed)?;
    let core = ctx.get("/api/v1").await?.ok(200)?;
    let maps = core.at("/resources").as_array().unwrap_or(&empty).iter().any(|r| str_at(r, "/name") == "configmaps");
    holds("core lists config maps", maps)?;
    ctx.get("/apis/no.such.group/v1").await?.ok(404)?;
    Ok(())
}

async fn the_server_tells_its_version(ctx: Ctx) -> Check {
    let version = ctx.get("/version").await?.ok(200)?;
    same("major", version.text("/major"), "1")?;
    holds("gitVersion begins with v1.", version.text("/gitVersion").starts_with("v1."))
}

async fn a_terminating_namespace_takes_no_new_objects(ctx: Ctx) -> Check {
    let name = ctx.name("ns");
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    let made = ctx.post("/api/v1/namespaces", &namespace).await?.ok(201)?;
    same("phase", made.text("/status/phase"), "Active")?;
    let label = made.at("/metadata/labels").get("kubernetes.io/metadata.name").cloned();
    same("name label", label, Some(json!(name)))?;
    let maps = format!("/api/v1/namespaces/{name}/configmaps");
    let mut held = ctx.new_map("held");
    held["metadata"]["finalizers"] = json!(["berth.test/hold"]);
    ctx.post(&maps, &held).await?.ok(201)?;
    ctx.delete(&format!("/api/v1/namespaces/{name}"), None).await?.ok(200)?;
    let gone = ctx.get(&format!("/api/v1/namespaces/{name}")).await?.ok(200)?;
    same("phase", gone.text("/status/phase"), "Terminating")?;
    let reply = ctx.post(&maps, &ctx.new_map("late")).await?.refused(403, "Forbidden")?;
    same("cause", reply.text("/details/causes/0/reason"), "NamespaceTerminating")?;
    let one = format!("{maps}/{}", ctx.name("held"));
    ctx.until(&one, "content is being deleted", |r| !r.text("/metadata/deletionTimestamp").is_empty()).await?;
    ctx.patch(&one, MERGE, &json!({ "metadata": { "finalizers": null } })).await?.ok(200)?;
    ctx.until(&format!("/api/v1/namespaces/{name}"), "the namespace is gone", |r| r.code == 404).await?;
    Ok(())
}
