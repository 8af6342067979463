//! The definitions of the kinds in both versions, with what the API server itself refuses.
//!
//! The schema of the older version is made of the newer one's by the same moves that convert objects.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionVersion, ServiceReference,
    ValidationRule, WebhookClientConfig, WebhookConversion,
};
use serde_json::{Map, Value, json};

use super::super::rule;
use super::convert::{FROM_POOLS, OLD, REFERENCE_FIELDS};
use crate::names::SYSTEM_NAMESPACE;

/// Where objects are converted, on the listener of admission.
pub const CONVERT_PATH: &str = "/convert/metal3";

type Fields = Map<String, Value>;

/// Adds the older version, and who converts.
pub(super) fn both(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let kind = crd.spec.names.kind.clone();
    let older = crd.spec.versions.first().and_then(|newer| older(&kind, newer));
    crd.spec.versions.extend(older);
    let service = ServiceReference {
        name: "berth-webhook".to_owned(),
        namespace: SYSTEM_NAMESPACE.to_owned(),
        path: Some(CONVERT_PATH.to_owned()),
        port: Some(443),
    };
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig { service: Some(service), ..WebhookClientConfig::default() }),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
    crd
}

/// The older version of a kind, made of the newer one.
fn older(kind: &str, newer: &CustomResourceDefinitionVersion) -> Option<CustomResourceDefinitionVersion> {
    let mut version = serde_json::to_value(newer).ok()?;
    let fields = version.as_object_mut()?;
    fields.insert("name".to_owned(), Value::from(OLD));
    fields.insert("storage".to_owned(), Value::from(false));
    fields.insert("deprecated".to_owned(), Value::from(true));
    let root = fields.get_mut("schema")?.get_mut("openAPIV3Schema")?;
    relax(root);
    schema(kind, root);
    let columns = fields.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
    if let Some(columns) = columns {
        columns.retain_mut(|column| printed(kind, column));
    }
    serde_json::from_value(version).ok()
}

/// The older version has no rules of its own, and its lists may hold the same entry twice.
fn relax(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("x-kubernetes-validations");
    fields.remove("x-kubernetes-list-map-keys");
    if let Some(list) = fields.get_mut("x-kubernetes-list-type") {
        *list = Value::from("atomic");
    }
    fields.values_mut().for_each(relax);
}

/// Changes the fields of the object at a path; `[]` is the items of a list.
fn at(schema: &mut Value, path: &[&str], change: impl FnOnce(&mut Fields)) {
    let field = path.iter().try_fold(schema, |schema, step| match *step {
        "[]" => schema.get_mut("items"),
        name => schema.get_mut("properties")?.get_mut(name),
    });
    if let Some(fields) = field.and_then(|field| field.get_mut("properties")).and_then(Value::as_object_mut) {
        change(fields);
    }
}

fn schema(kind: &str, root: &mut Value) {
    match kind {
        "Metal3Cluster" => {
            at(root, &["spec"], cluster_spec);
            at(root, &["status"], |status| {
                mapped(status, "failureDomains", "name");
                common_status(status);
            });
        }
        "Metal3ClusterTemplate" => {
            at(root, &["spec", "template"], |template| drop(template.remove("metadata")));
            at(root, &["spec", "template", "spec"], cluster_spec);
        }
        "Metal3Machine" => {
            at(root, &["spec"], machine_spec);
            at(root, &["spec", "image"], |image| renamed(image, "diskFormat", "format"));
            at(root, &["spec", "hostSelector"], |selector| drop(selector.remove("inNamespace")));
            at(root, &["status"], |status| {
                status.retain(|name, _| name != "hostClaim" && name != "failureDomain");
                status.insert("phase".to_owned(), text("How far the machine is; kept as others wrote it.", 256));
                reference(status, "renderedData");
                common_status(status);
            });
        }
        "Metal3MachineTemplate" => {
            at(root, &["spec", "template"], |template| drop(template.remove("metadata")));
            at(root, &["spec", "template", "spec"], machine_spec);
            at(root, &["spec", "template", "spec", "image"], |image| renamed(image, "diskFormat", "format"));
            at(root, &["spec", "template", "spec", "hostSelector"], |selector| drop(selector.remove("inNamespace")));
        }
        "Metal3Data" => {
            at(root, &["spec"], |spec| {
                template_reference(spec);
                reference(spec, "claim");
                reference(spec, "template");
            });
            at(root, &["status"], own_status);
        }
        "Metal3DataClaim" => {
            at(root, &["spec"], |spec| reference(spec, "template"));
            at(root, &["status"], |status| {
                reference(status, "renderedData");
                own_status(status);
            });
        }
        "Metal3DataTemplate" => {
            at(root, &["spec"], template_reference);
            at(root, &["spec", "metaData"], |meta| {
                for (old, hub) in FROM_POOLS {
                    renamed(meta, hub, old);
                }
            });
            at(root, &["spec", "networkData", "links", "bonds", "[]"], |bond| {
                let text = "Further parameters, as the deployed system knows them.";
                let anything = json!({"x-kubernetes-preserve-unknown-fields": true});
                bond.insert("parameters".to_owned(), map(text, 512, anything));
            });
            at(root, &["status"], |status| {
                let number = json!({"type": "integer", "format": "int32", "minimum": 0});
                let text = "The numbers that are taken, by the data claim that has them.";
                status.insert("indexes".to_owned(), map(text, 16384, number));
                own_status(status);
            });
        }
        "Metal3Remediation" => {
            at(root, &["spec", "strategy"], strategy);
            at(root, &["status"], own_status);
        }
        "Metal3RemediationTemplate" => {
            at(root, &["spec", "template", "spec", "strategy"], strategy);
            at(root, &["status", "status"], own_status);
        }
        _ => {}
    }
}

fn text(description: &str, most: u32) -> Value {
    json!({"type": "string", "maxLength": most, "description": description})
}

fn map(description: &str, most: u32, values: Value) -> Value {
    json!({"type": "object", "maxProperties": most, "additionalProperties": values, "description": description})
}

fn renamed(fields: &mut Fields, from: &str, to: &str) {
    if let Some(field) = fields.remove(from) {
        fields.insert(to.to_owned(), field);
    }
}

/// A list of entries with names, as a map.
fn mapped(fields: &mut Fields, name: &str, key: &str) {
    let Some(list) = fields.get_mut(name) else { return };
    let most = list.get("maxItems").and_then(Value::as_u64).and_then(|most| u32::try_from(most).ok());
    let description = list.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut entry = list.get("items").cloned().unwrap_or_default();
    if let Some(entry) = entry.as_object_mut() {
        entry.remove("required");
        if let Some(properties) = entry.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove(key);
        }
    }
    *list = map(&description, most.unwrap_or(100), entry);
}

fn cluster_spec(spec: &mut Fields) {
    mapped(spec, "failureDomains", "name");
    let none = "The opposite of cloudProviderEnabled, under its oldest name.";
    spec.insert("noCloudProvider".to_owned(), json!({"type": "boolean", "description": none}));
}

fn machine_spec(spec: &mut Fields) {
    spec.retain(|name, _| !["kind", "args", "failureDomainDataTemplates"].contains(&name.as_str()));
    reference(spec, "dataTemplate");
}

fn template_reference(spec: &mut Fields) {
    let description = "The template of an older object; it has no effect.";
    spec.insert("templateReference".to_owned(), text(description, 512));
}

/// A reference to an object, whose kind and version it may name although the field says them.
fn reference(fields: &mut Fields, name: &str) {
    let properties = fields.get_mut(name).and_then(|field| field.get_mut("properties"));
    let Some(properties) = properties.and_then(Value::as_object_mut) else { return };
    for field in REFERENCE_FIELDS {
        properties.insert(field.to_owned(), text("Part of an older form of references; it has no effect.", 1024));
    }
}

fn strategy(strategy: &mut Fields) {
    strategy.remove("timeoutSeconds");
    strategy.insert("timeout".to_owned(), text("How long one try may take, as a duration such as 10m0s.", 64));
}

fn own_status(status: &mut Fields) {
    status.retain(|name, _| name != "observedGeneration" && name != "conditions");
}

fn common_status(status: &mut Fields) {
    status.remove("observedGeneration");
    status.remove("initialization");
    status.insert("ready".to_owned(), json!({"type": "boolean", "description": "Whether it has been provisioned."}));
    let newer = status.remove("conditions");
    if let Some(mut newer) = newer {
        if let Some(list) = newer.as_object_mut() {
            list.insert("x-kubernetes-list-type".to_owned(), Value::from("map"));
            list.insert("x-kubernetes-list-map-keys".to_owned(), json!(["type"]));
        }
        let text = "What the newer version shows.";
        let newer = json!({"type": "object", "description": text, "properties": {"conditions": newer}});
        status.insert("v1beta2".to_owned(), newer);
    }
    if let Some(Value::Object(older)) = status
        .remove("deprecated")
        .map(|mut older| older.pointer_mut("/properties/v1beta1/properties").map(Value::take).unwrap_or_default())
    {
        status.extend(older);
    }
}

/// Whether the older version can print a column, brought to where its fields are.
fn printed(kind: &str, column: &mut Value) -> bool {
    const UNSAID: [&str; 4] =
        [".spec.kind", ".status.hostClaim.name", ".status.failureDomain", ".spec.template.spec.kind"];
    let path = column.get("jsonPath").and_then(Value::as_str).unwrap_or_default().to_owned();
    // Data has no conditions there, but the field that they sum up.
    let path = match (kind, path.as_str()) {
        ("Metal3Data", r#".status.conditions[?(@.type=="Ready")].status"#) => ".status.ready".to_owned(),
        _ => path,
    };
    let both = matches!(kind, "Metal3Machine" | "Metal3Cluster");
    if UNSAID.contains(&path.as_str()) || (path.starts_with(".status.conditions[") && !both) {
        return false;
    }
    let path = path
        .replace(".status.conditions[", ".status.v1beta2.conditions[")
        .replace(".status.initialization.provisioned", ".status.ready");
    if let Some(column) = column.as_object_mut() {
        if path.ends_with(".timeoutSeconds") {
            column.insert("type".to_owned(), Value::from("string"));
        }
        column.insert("jsonPath".to_owned(), Value::from(path.replace(".timeoutSeconds", ".timeout")));
    }
    true
}

/// A rule on the spec of a machine, alone or in a template.
pub(super) fn args_need_kind() -> ValidationRule {
    rule("!has(self.args) || self.args.size() == 0 || has(self.kind)", "args need a kind, which says what they mean")
}

/// What may not change in the spec of a machine.
pub(super) fn kind_stays() -> ValidationRule {
    rule(
        "has(self.kind) == has(oldSelf.kind) && (!has(self.kind) || self.kind == oldSelf.kind)",
        "kind cannot be changed: migration between kinds is a new machine from a new template",
    )
}

/// What may not change in the spec of data, or of a wish for it; what is absent and what is empty are the same.
/// `namespace` is a word of the language of rules, so the field has another name there.
pub(super) fn stays(references: &[&str]) -> Vec<ValidationRule> {
    let empty = |path: &str, part: &str| format!("(!has({path}) || !has({path}.{part}) || {path}.{part} == '')");
    let same = |field: &str, part: &str| {
        let (now, before) = (format!("self.{field}"), format!("oldSelf.{field}"));
        let none = format!("{} && {}", empty(&now, part), empty(&before, part));
        let there = |path: &str| format!("has({path}) && has({path}.{part})");
        let both = format!("{} && {} && {now}.{part} == {before}.{part}", there(&now), there(&before));
        format!("(({none}) || ({both}))")
    };
    let rule_of = |field: &&str| {
        let text = format!("{} && {}", same(field, "name"), same(field, "__namespace__"));
        rule(&text, &format!("{field} cannot be changed; create another object"))
    };
    references.iter().map(rule_of).collect()
}
