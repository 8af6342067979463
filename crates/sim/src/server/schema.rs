//! What a structural schema does to an object: unknown fields go, defaults come, wrong values are refused.
//!
//! Patterns, formats and CEL rules are not judged here; they are the real server's business.

use serde_json::Value;

/// Drops fields the schema does not name.
pub(crate) fn prune(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            let open = schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(true);
            let declared = schema.get("properties").and_then(Value::as_object);
            let extra = schema.get("additionalProperties");
            let keep_unknown = open || extra.is_some_and(|e| e.is_object() || e.as_bool() == Some(true));
            map.retain(|key, _| keep_unknown || declared.is_some_and(|d| d.contains_key(key)));
            for (key, child) in map.iter_mut() {
                let shape = declared.and_then(|d| d.get(key)).or(extra.filter(|e| e.is_object()));
                if let Some(shape) = shape {
                    prune(child, shape);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                list.iter_mut().for_each(|item| prune(item, items));
            }
        }
        _ => {}
    }
}

/// Fills in the schema's defaults.
pub(crate) fn default(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            for (key, shape) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if let Some(wanted) = shape.get("default")
                    && !map.contains_key(key)
                {
                    map.insert(key.clone(), wanted.clone());
                }
                if let Some(child) = map.get_mut(key) {
                    default(child, shape);
                }
            }
            if let Some(extra) = schema.get("additionalProperties").filter(|e| e.is_object()) {
                map.values_mut().for_each(|child| default(child, extra));
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                list.iter_mut().for_each(|item| default(item, items));
            }
        }
        _ => {}
    }
}

/// A value the schema refuses: the reason as the server names it, the field, the words.
pub(crate) struct Wrong {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) why: String,
}

/// Finds the first values that the schema refuses.
pub(crate) fn validate(value: &Value, schema: &Value, at: &str, out: &mut Vec<Wrong>) {
    let mut wrong = |reason, field: &str, why: String| {
        out.push(Wrong { reason, field: field.trim_start_matches('.').to_owned(), why });
    };
    if value.is_null() && schema.get("nullable").and_then(Value::as_bool) == Some(true) {
        return;
    }
    let int_or_string = schema.get("x-kubernetes-int-or-string").and_then(Value::as_bool) == Some(true);
    if let Some(wanted) = schema.get("type").and_then(Value::as_str)
        && !int_or_string
    {
        let fits = match wanted {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            _ => true,
        };
        if !fits {
            let why = format!("Invalid value: {value}: must be of type {wanted}");
            return wrong("FieldValueTypeInvalid", at, why);
        }
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let listed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        wrong(
            "FieldValueNotSupported",
            at,
            format!("Unsupported value: {value}: supported values: {}", listed.join(", ")),
        );
    }
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    if let Some(number) = value.as_f64() {
        if let Some(min) = bound("minimum").filter(|min| number < *min) {
            wrong("FieldValueInvalid", at, format!("Invalid value: {value}: should be greater than or equal to {min}"));
        }
        if let Some(max) = bound("maximum").filter(|max| number > *max) {
            wrong("FieldValueInvalid", at, format!("Invalid value: {value}: should be less than or equal to {max}"));
        }
    }
    let size = |key: &str| schema.get(key).and_then(Value::as_u64);
    let measured = match value {
        Value::String(s) => Some((s.chars().count(), "minLength", "maxLength")),
        Value::Array(a) => Some((a.len(), "minItems", "maxItems")),
        Value::Object(o) => Some((o.len(), "minProperties", "maxProperties")),
        _ => None,
    };
    if let Some((len, min, max)) = measured {
        let len = len as u64;
        if size(min).is_some_and(|m| len < m) {
            wrong("FieldValueInvalid", at, format!("Invalid value: {value}: too short ({min})"));
        }
        if size(max).is_some_and(|m| len > m) {
            wrong("FieldValueTooLong", at, format!("Too long: more than {max}"));
        }
    }
    match value {
        Value::Object(map) => {
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                if let Some(name) = name.as_str()
                    && !map.contains_key(name)
                {
                    wrong("FieldValueRequired", &format!("{at}.{name}"), "Required value".into());
                }
            }
            for (key, child) in map {
                let declared = schema.get("properties").and_then(|p| p.get(key));
                if let Some(shape) = declared.or_else(|| schema.get("additionalProperties")) {
                    validate(child, shape, &format!("{at}.{key}"), out);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = schema.get("items") {
                for (i, item) in list.iter().enumerate() {
                    validate(item, items, &format!("{at}[{i}]"), out);
                }
            }
        }
        _ => {}
    }
}
