//! Lists, selectors, pages, watches, metadata only.

use http::Method;
use serde_json::{Value, json};

use super::{Case, Check, Ctx, MERGE, Reply, holds, named, same, str_at};

pub(super) fn cases() -> Vec<Case> {
    named![
        a_list_has_its_type_and_version,
        label_selectors_by_equality,
        label_selectors_by_set,
        a_broken_label_selector_is_a_bad_request,
        a_field_selector_finds_by_name,
        a_field_selector_finds_by_a_declared_field,
        an_undeclared_field_selector_is_a_bad_request,
        pages_are_consistent_and_complete,
        a_list_across_namespaces_finds_all,
        a_list_at_an_exact_version_shows_the_past,
        a_get_of_metadata_only,
        a_list_of_metadata_only,
        a_watch_tells_every_change_in_order,
        a_watch_without_version_begins_with_what_is_there,
        a_watch_of_selected_objects_sees_them_come_and_go,
        a_watch_of_one_name_sees_only_that,
        a_deletion_event_carries_a_newer_version,
        a_watch_from_before_the_kind_existed_is_expired,
        a_watch_ends_at_its_timeout,
        bookmarks_come_before_the_end_of_a_watch,
        a_watch_of_metadata_only,
        a_no_op_write_sends_no_event,
        only_json_is_accepted,
    ]
}

const META: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const META_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

fn names(reply: &Reply) -> Vec<String> {
    let items = reply.at("/items").as_array();
    items.into_iter().flatten().map(|i| str_at(i, "/metadata/name").to_owned()).collect()
}

async fn maps_labelled(ctx: &Ctx, set: &[(&str, &str)]) -> Result<(), String> {
    for (name, tier) in set {
        let mut map = ctx.new_map(name);
        if !tier.is_empty() {
            map["metadata"]["labels"]["tier"] = json!(tier);
        }
        ctx.post(&ctx.maps(), &map).await?.ok(201)?;
    }
    Ok(())
}

async fn selected(ctx: &Ctx, more: &str) -> Result<Vec<String>, String> {
    let reply = ctx.get(&format!("{}?{}%2C{more}", ctx.maps(), ctx.mine())).await?.ok(200)?;
    Ok(names(&reply))
}

async fn a_list_has_its_type_and_version(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let list = ctx.get(&format!("{}?{}", ctx.widgets(), ctx.mine())).await?.ok(200)?;
    same("kind", list.text("/kind"), "WidgetList")?;
    let (at, object): (u64, u64) = (list.version().parse().unwrap_or(0), made.version().parse().unwrap_or(u64::MAX));
    holds("the list is at least as new as the object", at >= object)?;
    same("item", list.text("/items/0/metadata/name"), ctx.name("w"))?;
    same("custom items carry their kind", list.text("/items/0/kind"), "Widget")?;
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let maps = ctx.get(&format!("{}?{}", ctx.maps(), ctx.mine())).await?.ok(200)?;
    same("the server's own do not", maps.at("/items/0/kind"), &Value::Null)
}

async fn label_selectors_by_equality(ctx: Ctx) -> Check {
    maps_labelled(&ctx, &[("a", "x"), ("b", "y"), ("c", "")]).await?;
    same("=", selected(&ctx, "tier%3Dx").await?, vec![ctx.name("a")])?;
    same("==", selected(&ctx, "tier%3D%3Dy").await?, vec![ctx.name("b")])?;
    same("!=", selected(&ctx, "tier%21%3Dx").await?, vec![ctx.name("b"), ctx.name("c")])
}

async fn label_selectors_by_set(ctx: Ctx) -> Check {
    maps_labelled(&ctx, &[("a", "x"), ("b", "y"), ("c", ""), ("d", "z")]).await?;
    same("in", selected(&ctx, "tier%20in%20%28x%2Cy%29").await?, vec![ctx.name("a"), ctx.name("b")])?;
    same("notin", selected(&ctx, "tier%20notin%20%28x%2Cy%29").await?, vec![ctx.name("c"), ctx.name("d")])?;
    same("exists", selected(&ctx, "tier").await?, vec![ctx.name("a"), ctx.name("b"), ctx.name("d")])?;
    same("absent", selected(&ctx, "%21tier").await?, vec![ctx.name("c")])
}

async fn a_broken_label_selector_is_a_bad_request(ctx: Ctx) -> Check {
    ctx.get(&format!("{}?labelSelector=a%20in%20x", ctx.maps())).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_field_selector_finds_by_name(ctx: Ctx) -> Check {
    maps_labelled(&ctx, &[("a", ""), ("b", "")]).await?;
    let path = format!("{}?fieldSelector=metadata.name%3D{}", ctx.maps(), ctx.name("b"));
    same("names", names(&ctx.get(&path).await?.ok(200)?), vec![ctx.name("b")])?;
    let path = format!("{}?{}&fieldSelector=metadata.name%21%3D{}", ctx.maps(), ctx.mine(), ctx.name("b"));
    same("others", names(&ctx.get(&path).await?.ok(200)?), vec![ctx.name("a")])
}

async fn a_field_selector_finds_by_a_declared_field(ctx: Ctx) -> Check {
    for (name, color) in [("r", "red"), ("b", "blue")] {
        let mut widget = ctx.new_widget(name);
        widget["spec"]["color"] = json!(color);
        ctx.post(&ctx.widgets(), &widget).await?.ok(201)?;
    }
    let path = format!("{}?{}&fieldSelector=spec.color%3Dred", ctx.widgets(), ctx.mine());
    same("names", names(&ctx.get(&path).await?.ok(200)?), vec![ctx.name("r")])
}

async fn an_undeclared_field_selector_is_a_bad_request(ctx: Ctx) -> Check {
    ctx.get(&format!("{}?fieldSelector=spec.size%3D1", ctx.widgets())).await?.refused(400, "BadRequest")?;
    Ok(())
}

async fn pages_are_consistent_and_complete(ctx: Ctx) -> Check {
    for i in 0..5 {
        ctx.post(&ctx.maps(), &ctx.new_map(&format!("p{i}"))).await?.ok(201)?;
    }
    let path = format!("{}?{}&limit=2", ctx.maps(), ctx.mine());
    let first = ctx.get(&path).await?.ok(200)?;
    same("first page", names(&first), vec![ctx.name("p0"), ctx.name("p1")])?;
    // A page shows the list as it was when the first was read.
    ctx.delete(&ctx.map("p3"), None).await?.ok(200)?;
    let mut seen = names(&first);
    let mut token = first.text("/metadata/continue").to_owned();
    while !token.is_empty() {
        let page = ctx.get(&format!("{path}&continue={}", encode(&token))).await?.ok(200)?;
        same("version of the page", page.version(), first.version())?;
        seen.extend(names(&page));
        page.text("/metadata/continue").clone_into(&mut token);
    }
    let wanted: Vec<String> = (0..5).map(|i| ctx.name(&format!("p{i}"))).collect();
    same("all pages", seen, wanted)
}

fn encode(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02X}")).collect()
}

async fn a_list_across_namespaces_finds_all(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("here")).await?.ok(201)?;
    ctx.post("/api/v1/namespaces/kube-system/configmaps", &ctx.new_map("there")).await?.ok(201)?;
    let all = ctx.get(&format!("/api/v1/configmaps?{}", ctx.mine())).await?.ok(200)?;
    let mut found = names(&all);
    found.sort();
    same("names", found, vec![ctx.name("here"), ctx.name("there")])?;
    let there = format!("/api/v1/namespaces/kube-system/configmaps/{}", ctx.name("there"));
    ctx.delete(&there, None).await?.ok(200)?;
    Ok(())
}

async fn a_list_at_an_exact_version_shows_the_past(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("a")).await?.ok(201)?;
    let then = ctx.get(&format!("{}?{}", ctx.maps(), ctx.mine())).await?.ok(200)?;
    ctx.post(&ctx.maps(), &ctx.new_map("b")).await?.ok(201)?;
    let path = format!("{}?{}&resourceVersion={}&resourceVersionMatch=Exact", ctx.maps(), ctx.mine(), then.version());
    let past = ctx.get(&path).await?.ok(200)?;
    same("names", names(&past), vec![ctx.name("a")])?;
    same("version", past.version(), then.version())
}

async fn a_get_of_metadata_only(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let reply = ctx.send(Method::GET, &ctx.widget("w"), "", META, None).await?.ok(200)?;
    same("kind", reply.text("/kind"), "PartialObjectMetadata")?;
    same("apiVersion", reply.text("/apiVersion"), "meta.k8s.io/v1")?;
    same("uid", reply.text("/metadata/uid"), made.text("/metadata/uid"))?;
    same("spec", reply.at("/spec"), &Value::Null)
}

async fn a_list_of_metadata_only(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let path = format!("{}?{}", ctx.maps(), ctx.mine());
    let reply = ctx.send(Method::GET, &path, "", META_LIST, None).await?.ok(200)?;
    same("kind", reply.text("/kind"), "PartialObjectMetadataList")?;
    same("names", names(&reply), vec![ctx.name("m")])?;
    same("data", reply.at("/items/0/data"), &Value::Null)
}

async fn a_watch_tells_every_change_in_order(ctx: Ctx) -> Check {
    let list = ctx.get(&format!("{}?{}", ctx.widgets(), ctx.mine())).await?.ok(200)?;
    let mut watch = ctx.watch(&ctx.widgets(), &format!("{}&resourceVersion={}", ctx.mine(), list.version())).await?;
    let name = ctx.name("w");
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let seen = watch.expect("ADDED", &name).await?;
    same("version", str_at(&seen, "/metadata/resourceVersion"), made.version())?;
    same("kind", str_at(&seen, "/kind"), "Widget")?;
    ctx.patch(&ctx.widget("w"), MERGE, &json!({ "spec": { "size": 2 } })).await?.ok(200)?;
    let seen = watch.expect("MODIFIED", &name).await?;
    same("size", seen.pointer("/spec/size"), Some(&json!(2)))?;
    ctx.delete(&ctx.widget("w"), None).await?.ok(200)?;
    watch.expect("DELETED", &name).await?;
    Ok(())
}

async fn a_watch_without_version_begins_with_what_is_there(ctx: Ctx) -> Check {
    ctx.post(&ctx.maps(), &ctx.new_map("a")).await?.ok(201)?;
    let mut watch = ctx.watch(&ctx.maps(), &ctx.mine()).await?;
    watch.expect("ADDED", &ctx.name("a")).await?;
    ctx.post(&ctx.maps(), &ctx.new_map("b")).await?.ok(201)?;
    watch.expect("ADDED", &ctx.name("b")).await?;
    Ok(())
}

async fn a_watch_of_selected_objects_sees_them_come_and_go(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let query = format!("{}%2Ctier%3Dx&resourceVersion={}", ctx.mine(), made.version());
    let mut watch = ctx.watch(&ctx.maps(), &query).await?;
    let tier = |tier: &str| json!({ "metadata": { "labels": { "tier": tier } } });
    ctx.patch(&ctx.map("m"), MERGE, &tier("x")).await?.ok(200)?;
    watch.expect("ADDED", &ctx.name("m")).await?;
    ctx.patch(&ctx.map("m"), MERGE, &tier("y")).await?.ok(200)?;
    watch.expect("DELETED", &ctx.name("m")).await?;
    ctx.delete(&ctx.map("m"), None).await?.ok(200)?;
    ctx.post(&ctx.maps(), &{
        let mut map = ctx.new_map("other");
        map["metadata"]["labels"]["tier"] = json!("x");
        map
    })
    .await?
    .ok(201)?;
    watch.expect("ADDED", &ctx.name("other")).await?;
    Ok(())
}

async fn a_watch_of_one_name_sees_only_that(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("first")).await?.ok(201)?;
    let query = format!("fieldSelector=metadata.name%3D{}&resourceVersion={}", ctx.name("mine"), made.version());
    let mut watch = ctx.watch(&ctx.maps(), &query).await?;
    ctx.post(&ctx.maps(), &ctx.new_map("other")).await?.ok(201)?;
    ctx.post(&ctx.maps(), &ctx.new_map("mine")).await?.ok(201)?;
    watch.expect("ADDED", &ctx.name("mine")).await?;
    Ok(())
}

async fn a_deletion_event_carries_a_newer_version(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let mut watch = ctx.watch(&ctx.maps(), &format!("{}&resourceVersion={}", ctx.mine(), made.version())).await?;
    ctx.delete(&ctx.map("m"), None).await?.ok(200)?;
    let last = watch.expect("DELETED", &ctx.name("m")).await?;
    let at = |v: &str| v.parse::<u64>().unwrap_or(0);
    holds("it is newer", at(str_at(&last, "/metadata/resourceVersion")) > at(made.version()))?;
    same("it shows the last state", str_at(&last, "/data/a"), "1")
}

async fn a_watch_from_before_the_kind_existed_is_expired(ctx: Ctx) -> Check {
    let mut watch = ctx.watch(&ctx.widgets(), "resourceVersion=1").await?;
    let event = watch.next().await?.ok_or("the watch ended without a word")?;
    same("type", str_at(&event, "/type"), "ERROR")?;
    same("code", event.pointer("/object/code"), Some(&json!(410)))?;
    same("reason", str_at(&event, "/object/reason"), "Expired")?;
    same("then it ends", watch.next().await?, None::<Value>)
}

async fn a_watch_ends_at_its_timeout(ctx: Ctx) -> Check {
    let mut watch = ctx.watch(&ctx.maps(), "fieldSelector=metadata.name%3Dnobody&timeoutSeconds=1").await?;
    same("it ends quietly", watch.next().await?, None::<Value>)
}

async fn bookmarks_come_before_the_end_of_a_watch(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("w")).await?.ok(201)?;
    let query = format!("{}&resourceVersion={}&allowWatchBookmarks=true&timeoutSeconds=5", ctx.mine(), made.version());
    let mut watch = ctx.watch(&ctx.widgets(), &query).await?;
    let event = watch.next().await?.ok_or("the watch ended without a bookmark")?;
    same("type", str_at(&event, "/type"), "BOOKMARK")?;
    same("kind", str_at(&event, "/object/kind"), "Widget")?;
    let at = |v: &str| v.parse::<u64>().unwrap_or(0);
    holds("it is not older", at(str_at(&event, "/object/metadata/resourceVersion")) >= at(made.version()))
}

async fn a_watch_of_metadata_only(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.widgets(), &ctx.new_widget("a")).await?.ok(201)?;
    let query = format!("{}&resourceVersion={}", ctx.mine(), made.version());
    let mut watch = ctx.watch_as(&ctx.widgets(), &query, META).await?;
    ctx.post(&ctx.widgets(), &ctx.new_widget("b")).await?.ok(201)?;
    let seen = watch.expect("ADDED", &ctx.name("b")).await?;
    same("kind", str_at(&seen, "/kind"), "PartialObjectMetadata")?;
    same("spec", seen.pointer("/spec"), None)
}

async fn a_no_op_write_sends_no_event(ctx: Ctx) -> Check {
    let made = ctx.post(&ctx.maps(), &ctx.new_map("m")).await?.ok(201)?;
    let mut watch = ctx.watch(&ctx.maps(), &format!("{}&resourceVersion={}", ctx.mine(), made.version())).await?;
    ctx.patch(&ctx.map("m"), MERGE, &json!({ "data": { "a": "1" } })).await?.ok(200)?;
    ctx.delete(&ctx.map("m"), None).await?.ok(200)?;
    watch.expect("DELETED", &ctx.name("m")).await?;
    Ok(())
}

async fn only_json_is_accepted(ctx: Ctx) -> Check {
    let reply = ctx.send(Method::GET, &ctx.widgets(), "", "text/csv", None).await?;
    same("code", reply.code, 406)
}
