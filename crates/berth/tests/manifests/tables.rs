//! What `kubectl get` shows of every kind: the server's own table, laid out as kubectl lays it out.

use serde_json::{Value, json};
use sim::plane;

use crate::{columns, kinds, of_kind, text};

/// The blanks between columns, and the least that a column takes with them.
const BETWEEN: usize = 3;
const LEAST: usize = 6;

/// The columns that are always shown, each with its header and the cell of the only row.
async fn table(client: &kube::Client, object: &Value) -> Vec<(String, String)> {
    let api = kinds::like(client, object).await.unwrap();
    let path = format!("{}/{}", api.resource_url(), text(object, "/metadata/name"));
    let request = http::Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let table: Value = client.request(request.body(Vec::new()).unwrap()).await.unwrap();
    assert_eq!(table["kind"], "Table", "{table}");
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    let shown = table["columnDefinitions"].as_array().unwrap().iter().zip(cells);
    let shown = shown.filter(|(column, _)| column["priority"] == 0);
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    shown.map(|(column, value)| (text(column, "/name").to_uppercase(), cell(value))).collect()
}

fn width(table: &[(String, String)]) -> usize {
    let columns = table.iter().map(|(header, cell)| header.len().max(cell.len()).max(age(header)));
    let last = columns.clone().next_back().unwrap();
    columns.take(table.len() - 1).map(|column| LEAST.max(column + BETWEEN)).sum::<usize>() + last
}

/// What was made a moment ago grows older: 2d23h, 9999d.
fn age(header: &str) -> usize {
    if header == "AGE" { 5 } else { 0 }
}

#[tokio::test]
async fn the_server_shows_of_every_kind_how_an_object_is_and_why_within_one_hundred_columns() {
    let test = "the_server_shows_of_every_kind_how_an_object_is_and_why_within_one_hundred_columns";
    let Some(plane) = plane::for_test(test) else { return };
    let client = plane.client().await.unwrap();
    let mut definitions: Vec<Value> =
        of_kind(&super::documents("deploy/berth.yaml"), "CustomResourceDefinition").into_iter().cloned().collect();
    for definition in &mut definitions {
        // Nobody is asked here, and only the stored version is looked at.
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    plane::install_crds(&client, definitions.clone()).await.unwrap();
    kinds::create(&client).await;
    kinds::fill(&client).await;

    let objects = kinds::objects();
    let kinds_of = |objects: &[Value], pointer: &str| {
        let mut kinds: Vec<String> = objects.iter().map(|object| text(object, pointer).to_owned()).collect();
        kinds.sort();
        kinds
    };
    assert_eq!(kinds_of(&objects, "/kind"), kinds_of(&definitions, "/spec/names/kind"), "an object of every kind");
    let mut wrong = Vec::new();
    for object in &objects {
        let called = kinds::called(object);
        let table = table(&client, object).await;
        let shown = || table.iter().map(|(header, cell)| format!("{header}={cell}")).collect::<Vec<_>>().join(" ");
        if width(&table) > columns::TERMINAL {
            wrong.push(format!("{called} takes {}: {}", width(&table), shown()));
        }
        // Every column finds what it is for; none is there for nothing.
        if table.iter().any(|(_, cell)| cell.is_empty()) {
            wrong.push(format!("{called} leaves a cell empty: {}", shown()));
        }
        if object["status"]["conditions"].is_array() {
            let reason = columns::longest_reason(text(object, "/kind"));
            if !table.contains(&("REASON".to_owned(), reason.to_owned())) {
                wrong.push(format!("{called} does not say {reason}: {}", shown()));
            }
            let bad = |cell: &str| ["False", "false", "Deleting machine"].contains(&cell);
            if !table.iter().any(|(_, cell)| bad(cell)) {
                wrong.push(format!("{called} does not say that something is wrong: {}", shown()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
