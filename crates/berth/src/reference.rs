//! Pages about every kind, made of the schemas that the API server is given: what a page says is what the server checks.

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::Value;

/// The page that leads to the others.
const INDEX: &str = "kinds.md";
/// Fields that a page shows nothing below: lists of conditions are the same everywhere.
const KNOWN: &[&str] = &["conditions"];

/// One page for each kind and one that lists them, by their path below the reference.
pub fn pages(definitions: &[CustomResourceDefinition]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    let mut index = String::from(
        "# Kinds\n\nEvery field of every kind that Berth brings, as the API server checks it.\n\n| Kind | Group | Versions | Scope |\n|---|---|---|---|\n",
    );
    for definition in definitions {
        let (spec, path) = (&definition.spec, path(definition));
        let versions: Vec<&str> = spec.versions.iter().map(|version| version.name.as_str()).collect();
        let (kind, group, scope) = (&spec.names.kind, &spec.group, &spec.scope);
        writeln!(index, "| [{kind}]({path}) | `{group}` | {} | {scope} |", versions.join(", "))?;
        pages.insert(path, page(definition)?);
    }
    pages.insert(INDEX.to_owned(), index);
    Ok(pages)
}

/// Two groups may have kinds of one name, so a page is called after both.
fn path(definition: &CustomResourceDefinition) -> String {
    format!("kinds/{}.md", definition.metadata.name.as_deref().unwrap_or_default())
}

fn page(definition: &CustomResourceDefinition) -> anyhow::Result<String> {
    let (spec, mut page) = (&definition.spec, String::new());
    writeln!(page, "# {}\n", spec.names.kind)?;
    let short = spec.names.short_names.as_deref().unwrap_or_default();
    let also =
        if short.is_empty() { String::new() } else { format!(", or {}", list(short.iter().map(String::as_str))) };
    writeln!(page, "`kubectl get {}.{}`{also}. {}.", spec.names.plural, spec.group, spec.scope)?;
    for version in &spec.versions {
        write!(page, "\n## {}/{}\n", spec.group, version.name)?;
        if !version.storage {
            page.push_str("\nServed; stored in the other version.\n");
        }
        body(&mut page, version)?;
    }
    Ok(page)
}

fn body(page: &mut String, version: &CustomResourceDefinitionVersion) -> anyhow::Result<()> {
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    let schema = serde_json::to_value(schema)?;
    let mut found = Found::default();
    found.walk("", &schema);
    page.push_str("\n| Field | Type | Must be | What it is |\n|---|---|---|---|\n");
    for row in &found.rows {
        writeln!(page, "| `{}` | {} | {} | {} |", row.path, row.kind, row.bounds, row.text)?;
    }
    if !found.rules.is_empty() {
        page.push_str("\nBeside that it is refused when one of these does not hold:\n\n");
        for (path, message) in &found.rules {
            let whole = path.is_empty();
            writeln!(page, "- {}{}", if whole { String::new() } else { format!("`{path}`: ") }, cell(message))?;
        }
    }
    Ok(())
}

struct Row {
    path: String,
    kind: String,
    bounds: String,
    text: String,
}

/// What a schema says, field by field, in the order of their names.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    rules: Vec<(String, String)>,
}

impl Found {
    fn walk(&mut self, path: &str, schema: &Value) {
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
        for rule in rules.into_iter().flatten() {
            let said = text(rule, "message").or_else(|| text(rule, "rule")).unwrap_or_default();
            self.rules.push((path.to_owned(), said.to_owned()));
        }
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            // What every object has is told by Kubernetes.
            if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                continue;
            }
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.rows.push(Row {
                kind: kind(field),
                bounds: bounds(field, required.contains(&name.as_str())),
                text: cell(text(field, "description").unwrap_or_default()),
                path: path.clone(),
            });
            if !KNOWN.contains(&name.as_str()) {
                self.walk(&path, field);
            }
        }
        if let Some(items) = schema.get("items") {
            self.walk(&format!("{path}[]"), items);
        }
        if let Some(values) = schema.get("additionalProperties") {
            self.walk(&format!("{path}.*"), values);
        }
    }
}

/// The type in a word or two.
fn kind(schema: &Value) -> String {
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return "integer or string".to_owned();
    }
    let inner = |key: &str| schema.get(key).map_or_else(|| "anything".to_owned(), kind);
    match text(schema, "type") {
        Some("array") => format!("list of {}", inner("items")),
        Some("object") if schema.get("additionalProperties").is_some_and(Value::is_object) => {
            format!("map to {}", inner("additionalProperties"))
        }
        Some("string") => {
            text(schema, "format").map_or_else(|| "string".to_owned(), |format| format!("string, {format}"))
        }
        Some(other) => other.to_owned(),
        None => "anything".to_owned(),
    }
}

/// Everything the server refuses a value for, and what it puts in where there is none.
fn bounds(schema: &Value, required: bool) -> String {
    let mut said: Vec<String> = Vec::new();
    if required {
        said.push("there".to_owned());
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> =
            values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), quoted)).collect();
        said.push(format!("one of {}", list(values.iter().map(String::as_str))));
    }
    for (least, most, of) in [
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
        ("minProperties", "maxProperties", " entries"),
    ] {
        match (number(schema, least), number(schema, most)) {
            (Some(least), Some(most)) => said.push(format!("{least} to {most}{of}")),
            (Some(least), None) => said.push(format!("at least {least}{of}")),
            (None, Some(most)) => said.push(format!("at most {most}{of}")),
            (None, None) => {}
        }
    }
    if let Some(pattern) = text(schema, "pattern") {
        said.push(format!("like {}", code(pattern)));
    }
    if let Some(default) = schema.get("default") {
        said.push(format!("{} if it is not given", code(&default.to_string())));
    }
    said.join("; ")
}

/// A whole number as one: the schema keeps limits as floating point.
fn number(schema: &Value, key: &str) -> Option<String> {
    let value = schema.get(key)?;
    let whole = value.as_f64().filter(|number| number.fract() == 0.0);
    Some(whole.map_or_else(|| value.to_string(), |number| format!("{number:.0}")))
}

fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn quoted(value: &str) -> String {
    if value.is_empty() { "`\"\"`".to_owned() } else { value.to_owned() }
}

fn list<'t>(words: impl Iterator<Item = &'t str>) -> String {
    words.map(|word| if word.starts_with('`') { word.to_owned() } else { code(word) }).collect::<Vec<_>>().join(", ")
}

/// Text as it stands, inside a table: a bar would end the cell even between backticks.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// One line of prose inside a table. Angle brackets would be taken for a tag.
fn cell(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('|', "\\|").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(schema: &Value) -> String {
        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": {"name": "boats.harbour.example"},
            "spec": {"group": "harbour.example", "scope": "Namespaced",
                "names": {"kind": "Boat", "plural": "boats", "shortNames": ["bt"]},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
        }))
        .unwrap();
        pages(&[definition]).unwrap().remove("kinds/boats.harbour.example.md").unwrap()
    }

    #[test]
    fn every_field_is_named_with_what_the_server_checks() {
        let page = one(&json!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "required": ["length"], "properties": {
                "length": {"type": "integer", "minimum": 1.0, "maximum": 400.0, "description": "From bow\nto <stern>."},
                "flag": {"type": "string", "enum": ["", "se"], "default": "se"},
                "crew": {"type": "array", "maxItems": 3, "items": {"type": "object", "properties": {
                    "name": {"type": "string", "pattern": "a|b"}}}},
                "marks": {"type": "object", "additionalProperties": {"type": "string"}},
            }, "x-kubernetes-validations": [{"rule": "self.length > 0", "message": "it floats"}]},
        }}));
        assert_eq!(
            page,
            "# Boat\n\n`kubectl get boats.harbour.example`, or `bt`. Namespaced.\n\n## harbour.example/v1\n\n\
             | Field | Type | Must be | What it is |\n|---|---|---|---|\n\
             | `spec` | object |  |  |\n\
             | `spec.crew` | list of object | at most 3 items |  |\n\
             | `spec.crew[].name` | string | like `a\\|b` |  |\n\
             | `spec.flag` | string | one of `\"\"`, `se`; `\"se\"` if it is not given |  |\n\
             | `spec.length` | integer | there; 1 to 400 | From bow to &lt;stern&gt;. |\n\
             | `spec.marks` | map to string |  |  |\n\n\
             Beside that it is refused when one of these does not hold:\n\n- `spec`: it floats\n"
        );
    }

    #[test]
    fn every_kind_has_a_page_and_a_line_in_the_list() {
        let definitions = api::own::crds();
        let pages = pages(&definitions).unwrap();
        assert_eq!(pages.len(), definitions.len() + 1);
        let index = &pages[INDEX];
        for definition in &definitions {
            let path = path(definition);
            assert!(pages.contains_key(&path) && index.contains(&format!("]({path})")), "{path}");
        }
    }
}
