//! Deletion, finalizers, owners.

use serde_json::{Value, json};

use super::{Case, Check, Ctx, JSON, MERGE, Reply, holds, named, same};

pub(super) fn cases() -> Vec<Case> {
    named![
        a_deleted_object_is_gone_and_the_answer_names_it,
        a_delete_of_a_missing_object_is_not_found,
        a_delete_is_guarded_by_the_uid,
        a_delete_is_guarded_by_the_version,
        a_recreated_object_has_another_uid,
        a_finalizer_holds_the_object_until_it_goes,
        a_deletion_counts_as_a_generation,
        a_second_delete_changes_nothing,
        a_deleting_object_takes_no_new_finalizer,
        a_deleting_object_can_still_be_written,
        finalizers_are_removed_one_by_one_under_a_test,
        a_collection_is_deleted_by_selector,
        dependents_follow_their_owner,
        a_dependent_with_another_living_owner_stays,
        a_dependent_of_a_former_object_of_that_name_is_collected,
        foreground_deletion_waits_for_blocking_dependents,
        orphaned_dependents_stay_without_their_owner,
    ]
}

const HOLD: &str = "berth.test/hold";

fn held(mut object: Value, finalizers: &[&str]) -> Value {
    object["metadata"]["finalizers"] = json!(finalizers);
    object
}

fn owned(mut object: Value, owners: &[&Reply]) -> Value {
    object["metadata"]["ownerReferences"] = owners
        .iter()
        .map(|o| {
            json!({
                "apiVersion": o.text("/apiVersion"), "kind": o.text("/kind"), "name": o.text("/metadata/name"),
                "uid": o.text("/metadata/uid"), "blockOwnerDeletion": true,
            })
        })
        .collect();
    object
}

async fn a_deleted_object_is_gone_and_the_answer_names_it(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let reply = ctx.delete(&ctx.widget("w"), None).await?.ok(200)?;
    same("status", reply.text("/status"), "Success")?;
    same("name", reply.text("/details/name"), ctx.name("w"))?;
    same("uid", reply.text("/details/uid"), made.text("/metadata/uid"))?;
    ctx.get(&ctx.widget("w")).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_delete_of_a_missing_object_is_not_found(ctx: Ctx) -> Check {
    ctx.delete(&ctx.widget("none"), None).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_delete_is_guarded_by_the_uid(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let wrong = json!({ "preconditions": { "uid": "11111111-2222-4333-8444-555555555555" } });
    ctx.delete(&ctx.map("m"), Some(wrong)).await?.refused(409, "Conflict")?;
    let right = json!({ "preconditions": { "uid": made.text("/metadata/uid") } });
    ctx.delete(&ctx.map("m"), Some(right)).await?.ok(200)?;
    Ok(())
}

async fn a_delete_is_guarded_by_the_version(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let now = ctx.patch(&ctx.map("m"), MERGE, &json!({ "data": { "a": "2" } })).await?.ok(200)?;
    let guard = |version: &str| Some(json!({ "preconditions": { "resourceVersion": version } }));
    ctx.delete(&ctx.map("m"), guard(made.version())).await?.refused(409, "Conflict")?;
    ctx.delete(&ctx.map("m"), guard(now.version())).await?.ok(200)?;
    Ok(())
}

async fn a_recreated_object_has_another_uid(ctx: Ctx) -> Check {
    let first = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    ctx.delete(&ctx.map("m"), None).await?.ok(200)?;
    let second = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    holds("uids differ", first.text("/metadata/uid") != second.text("/metadata/uid"))
}

async fn a_finalizer_holds_the_object_until_it_goes(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &held(ctx.new_widget("w"), &[HOLD])).await?.ok(201)?;
    let reply = ctx.delete(&ctx.widget("w"), None).await?.ok(200)?;
    same("the answer is the object", reply.text("/kind"), "Widget")?;
    let there = ctx.get(&ctx.widget("w")).await?.ok(200)?;
    holds("it has a deletion time", !there.text("/metadata/deletionTimestamp").is_empty())?;
    same("grace", there.at("/metadata/deletionGracePeriodSeconds"), &json!(0))?;
    let last = ctx.patch(&ctx.widget("w"), MERGE, &json!({ "metadata": { "finalizers": null } })).await?.ok(200)?;
    same("the answer shows it without", last.at("/metadata/finalizers"), &Value::Null)?;
    ctx.get(&ctx.widget("w")).await?.ok(404)?;
    Ok(())
}

async fn a_deletion_counts_as_a_generation(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &held(ctx.new_widget("w"), &[HOLD])).await?.ok(201)?;
    ctx.delete(&ctx.widget("w"), None).await?.ok(200)?;
    same("generation", ctx.get(&ctx.widget("w")).await?.at("/metadata/generation"), &json!(2))?;
    ctx.patch(&ctx.widget("w"), MERGE, &json!({ "metadata": { "finalizers": null } })).await?.ok(200)?;
    Ok(())
}

async fn a_second_delete_changes_nothing(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &held(ctx.new_map("m"), &[HOLD])).await?.ok(201)?;
    ctx.delete(&ctx.map("m"), None).await?.ok(200)?;
    let before = ctx.get(&ctx.map("m")).await?.ok(200)?;
    ctx.delete(&ctx.map("m"), None).await?.ok(200)?;
    let after = ctx.get(&ctx.map("m")).await?.ok(200)?;
    same("version", after.version(), before.version())?;
    ctx.patch(&ctx.map("m"), MERGE, &json!({ "metadata": { "finalizers": null } })).await?.ok(200)?;
    Ok(())
}

async fn a_deleting_object_takes_no_new_finalizer(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &held(ctx.new_widget("w"), &[HOLD])).await?.ok(201)?;
    ctx.delete(&ctx.widget("w"), None).await?.ok(200)?;
    let patch = json!({ "metadata": { "finalizers": [HOLD, "berth.test/late"] } });
    let reply = ctx.patch(&ctx.widget("w"), MERGE, &patch).await?.refused(422, "Invalid")?;
    same("field", reply.text("/details/causes/0/field"), "metadata.finalizers")?;
    ctx.patch(&ctx.widget("w"), MERGE, &json!({ "metadata": { "finalizers": [] } })).await?.ok(200)?;
    ctx.get(&ctx.widget("w")).await?.ok(404)?;
    Ok(())
}

async fn a_deleting_object_can_still_be_written(ctx: Ctx) -> Check {
    ctx.post(&ctx.widgets(), &held(ctx.new_widget("w"), &[HOLD])).await?.ok(201)?;
    ctx.delete(&ctx.widget("w"), None).await?.ok(200)?;
    let status = json!({ "status": { "phase": "Leaving" } });
    let now = ctx.patch(&format!("{}/status", ctx.widget("w")), MERGE, &status).await?.ok(200)?;
    same("phase", now.text("/status/phase"), "Leaving")?;
    holds("still deleting", !now.text("/metadata/deletionTimestamp").is_empty())?;
    ctx.patch(&ctx.widget("w"), MERGE, &json!({ "metadata": { "finalizers": null } })).await?.ok(200)?;
    Ok(())
}

async fn finalizers_are_removed_one_by_one_under_a_test(ctx: Ctx) -> Check {
    let other = "berth.test/other";
    ctx.post(&ctx.widgets(), &held(ctx.new_widget("w"), &[HOLD, other])).await?.ok(201)?;
    ctx.delete(&ctx.widget("w"), None).await?.ok(200)?;
    let swap = |from: &[&str], to: &[&str]| {
        json!([
            { "op": "test", "path": "/metadata/finalizers", "value": from },
            { "op": "replace", "path": "/metadata/finalizers", "value": to },
        ])
    };
    ctx.patch(&ctx.widget("w"), JSON, &swap(&[other], &[])).await?.refused(422, "Invalid")?;
    let now = ctx.patch(&ctx.widget("w"), JSON, &swap(&[HOLD, other], &[other])).await?.ok(200)?;
    same("finalizers", now.at("/metadata/finalizers"), &json!([other]))?;
    ctx.patch(&ctx.widget("w"), JSON, &swap(&[other], &[])).await?.ok(200)?;
    ctx.patch(&ctx.widget("w"), JSON, &swap(&[other], &[])).await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_collection_is_deleted_by_selector(ctx: Ctx) -> Check {
    let mut keep = ctx.new_map("keep");
    keep["metadata"]["labels"]["keep"] = json!("yes");
    ctx.post(&ctx.maps(), &keep).await?.ok(201)?;
    ctx.post(&ctx.maps(), &ctx.new_map("a")).await?.ok(201)?;
    ctx.post(&ctx.maps(), &held(ctx.new_map("b"), &[HOLD])).await?.ok(201)?;
    ctx.delete(&format!("{}?{}%2C%21keep", ctx.maps(), ctx.mine()), None).await?.ok(200)?;
    ctx.get(&ctx.map("a")).await?.ok(404)?;
    ctx.get(&ctx.map("keep")).await?.ok(200)?;
    let waits = ctx.get(&ctx.map("b")).await?.ok(200)?;
    holds("a held one waits", !waits.text("/metadata/deletionTimestamp").is_empty())?;
    ctx.patch(&ctx.map("b"), MERGE, &json!({ "metadata": { "finalizers": null } })).await?.ok(200)?;
    Ok(())
}

async fn dependents_follow_their_owner(ctx: Ctx) -> Check {
    let owner = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let child = ctx.post(&ctx.maps(), &owned(ctx.new_map("child"), &[&owner])).await?.ok(201)?;
    ctx.post(&ctx.maps(), &owned(ctx.new_map("grandchild"), &[&child])).await?.ok(201)?;
    ctx.delete(&ctx.widget("w"), Some(json!({ "propagationPolicy": "Background" }))).await?.ok(200)?;
    ctx.until(&ctx.map("child"), "the child is gone", |r| r.code == 404).await?;
    ctx.until(&ctx.map("grandchild"), "the grandchild is gone", |r| r.code == 404).await?;
    Ok(())
}

async fn a_dependent_with_another_living_owner_stays(ctx: Ctx) -> Check {
    let one = ctx.post(&ctx.widgets(), &ctx.new_widget("one")).await?.ok(201)?;
    let two = ctx.post(&ctx.widgets(), &ctx.new_widget("two")).await?.ok(201)?;
    ctx.post(&ctx.maps(), &owned(ctx.new_map("child"), &[&one, &two])).await?.ok(201)?;
    ctx.delete(&ctx.widget("one"), Some(json!({ "propagationPolicy": "Background" }))).await?.ok(200)?;
    let left = ctx
        .until(&ctx.map("child"), "it lost one owner", |r| {
            r.at("/metadata/ownerReferences").as_array().is_some_and(|l| l.len() == 1)
        })
        .await?;
    same("who is left", left.text("/metadata/ownerReferences/0/uid"), two.text("/metadata/uid"))
}

async fn a_dependent_of_a_former_object_of_that_name_is_collected(ctx: Ctx) -> Check {
    let first = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    ctx.delete(&ctx.widget("w"), None).await?.ok(200)?;
    ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    ctx.post(&ctx.maps(), &owned(ctx.new_map("child"), &[&first])).await?.ok(201)?;
    ctx.until(&ctx.map("child"), "the child is gone", |r| r.code == 404).await?;
    ctx.get(&ctx.widget("w")).await?.ok(200)?;
    Ok(())
}

async fn foreground_deletion_waits_for_blocking_dependents(ctx: Ctx) -> Check {
    let owner = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    ctx.post(&ctx.maps(), &held(owned(ctx.new_map("child"), &[&owner]), &[HOLD])).await?.ok(201)?;
    ctx.delete(&ctx.widget("w"), Some(json!({ "propagationPolicy": "Foreground" }))).await?.ok(200)?;
    let waits = ctx.get(&ctx.widget("w")).await?.ok(200)?;
    same("finalizers", waits.at("/metadata/finalizers"), &json!(["foregroundDeletion"]))?;
    ctx.until(&ctx.map("child"), "the child is being deleted", |r| !r.text("/metadata/deletionTimestamp").is_empty())
        .await?;
    ctx.get(&ctx.widget("w")).await?.ok(200)?;
    ctx.patch(&ctx.map("child"), MERGE, &json!({ "metadata": { "finalizers": null } })).await?.ok(200)?;
    ctx.until(&ctx.widget("w"), "the owner is gone", |r| r.code == 404).await?;
    ctx.get(&ctx.map("child")).await?.ok(404)?;
    Ok(())
}

async fn orphaned_dependents_stay_without_their_owner(ctx: Ctx) -> Check {
    let owner = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    ctx.post(&ctx.maps(), &owned(ctx.new_map("child"), &[&owner])).await?.ok(201)?;
    // The real collector must have seen the child before it can set it free.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    ctx.delete(&ctx.widget("w"), Some(json!({ "propagationPolicy": "Orphan" }))).await?.ok(200)?;
    ctx.until(&ctx.widget("w"), "the owner is gone", |r| r.code == 404).await?;
    let child = ctx.get(&ctx.map("child")).await?.ok(200)?;
    same("owners", child.at("/metadata/ownerReferences"), &Value::Null)
}
