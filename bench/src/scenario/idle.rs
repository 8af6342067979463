//! Start-up and idle with N objects that need nothing: how fast, how small and how quiet is the process?

use serde_json::{Map, Value, json};

use super::{Dice, Ended, Kind, Scenario, Seeded, Shape};
use crate::oracle;

/// A feed of N settled objects and nothing to do.
pub struct Idle;

const KIND: Kind = Kind { group: "berth.dev", version: "v1alpha1", plural: "hostclaimkinds", kind: "HostClaimKind" };

const CAPABILITIES: [&str; 11] = [
    "power",
    "reboot",
    "detach",
    "networkData",
    "metaData",
    "userData",
    "image",
    "selector",
    "failureDomain",
    "nodeReuse",
    "customDeploy",
];

const WORDS: [&str; 24] = [
    "region", "zone", "offering", "template", "network", "disk", "affinity", "account", "domain", "identity", "subnet",
    "family", "image", "profile", "security", "group", "release", "tenant", "rack", "bond", "vlan", "firmware", "slot",
    "mirror",
];

impl Shape for Idle {
    fn kind(&self) -> Kind {
        KIND
    }

    fn object(&self, seed: u64, index: u64) -> Seeded {
        let mut dice = Dice::new(seed, index);
        // 5 + 8 + 1 fixed characters, then filled up to between 20 and 63.
        let mut name = format!("kind-{index:08}-");
        let length = dice.between(20, 63) as usize;
        while name.len() < length {
            name.push(char::from(b'a' + (dice.next() % 26) as u8));
        }
        let mut args = Map::new();
        let count = dice.between(9, 18);
        while (args.len() as u64) < count {
            let arg = format!("{}{}{}", dice.word(&WORDS), capital(dice.word(&WORDS)), args.len());
            let mut description = String::new();
            let length = dice.between(30, 120) as usize;
            while description.len() < length {
                description.push_str(dice.word(&WORDS));
                description.push(' ');
            }
            args.insert(arg, json!({"description": description.trim_end(), "required": dice.next().is_multiple_of(3)}));
        }
        let mut capabilities: Vec<&str> = CAPABILITIES.into_iter().filter(|_| dice.next().is_multiple_of(2)).collect();
        if capabilities.is_empty() {
            capabilities.push("power");
        }
        let object = json!({
            "apiVersion": format!("{}/{}", KIND.group, KIND.version), "kind": KIND.kind,
            "metadata": {
                "name": name,
                "labels": {
                    "app.kubernetes.io/part-of": "bench", "example.test/site": dice.word(&WORDS),
                    "example.test/tier": dice.word(&WORDS),
                },
                "annotations": {
                    "example.test/contact": format!("{}@example.test", dice.word(&WORDS)),
                    "example.test/ticket": format!("{:016x}", dice.next()),
                },
            },
            "spec": {
                "controllerName": "bench.example.test",
                "argsSchema": args,
                "capabilities": capabilities,
                "recyclable": dice.next().is_multiple_of(2),
            },
        });
        let owner = |manager: &str, operation: &str, fields: Value| {
            json!({"manager": manager, "operation": operation, "apiVersion": format!("{}/{}", KIND.group, KIND.version),
                "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": fields})
        };
        let condition =
            json!({".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:reason": {}, "f:status": {}, "f:type": {}});
        let mut status = owner(
            "kind-controller",
            "Update",
            json!({"f:status": {
                "f:conditions": {".": {}, "k:{\"type\":\"Available\"}": condition}, "f:lastHeartbeat": {}, "f:observedGeneration": {}}}),
        );
        if let Some(entry) = status.as_object_mut() {
            entry.insert("subresource".to_owned(), json!("status"));
        }
        let guard = owner(
            "site-guard",
            "Apply",
            json!({"f:metadata": {"f:finalizers": {"v:\"example.test/guard\"": {}}, "f:ownerReferences": {
                format!("k:{{\"uid\":\"{:016x}\"}}", dice.next()): {}}}}),
        );
        let managed_fields = json!([status, guard]);
        Seeded { collection: KIND.path(), name, object, managed_fields }
    }

    fn status_patch(&self, round: u64) -> Value {
        json!({"status": {"conditions": [{
            "type": "Available", "status": "True", "reason": "Measured", "message": format!("round {round}"),
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }]}})
    }
}

impl Scenario for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn about(&self) -> &'static str {
        "start-up and idle with N settled objects in a feed"
    }

    fn oracle(&self, ended: &Ended<'_>) -> Vec<String> {
        let mut wrong = oracle::unchanged(ended.before, ended.after);
        if !ended.stamps.is_empty() {
            let shown: Vec<String> = ended.stamps.iter().take(3).map(|s| format!("{} {}", s.event, s.key)).collect();
            wrong.push(format!("the watcher saw {} events, for example {}", ended.stamps.len(), shown.join(", ")));
        }
        wrong
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|c| c.to_ascii_uppercase().to_string() + chars.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(seed: u64, index: u64) -> (String, usize) {
        let mut s = Idle.object(seed, index);
        s.object["metadata"]["managedFields"] = s.managed_fields;
        (s.name, s.object.to_string().len())
    }

    #[test]
    fn objects_have_realistic_sizes_and_names_the_server_accepts() {
        for index in 0..2000 {
            let (name, size) = whole(7, index);
            // The server adds its creator's fields, defaults, identity and times, the controller its status: about 1 to 2 KiB.
            assert!((1 << 10..=4200).contains(&size), "object {index} has {size} bytes");
            assert!(
                (20..=63).contains(&name.len())
                    && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            );
            assert!(!name.ends_with('-'));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_set_and_another_seed_another() {
        assert_eq!(Idle.object(1, 5).object, Idle.object(1, 5).object);
        assert_ne!(Idle.object(1, 5).object, Idle.object(2, 5).object);
        assert_ne!(Idle.object(1, 5).name, Idle.object(1, 6).name);
    }

    #[test]
    fn the_objects_are_what_the_product_calls_a_host_claim_kind() {
        use api::own::{Capability, HostClaimKind};
        use kube::CustomResourceExt;
        assert_eq!(HostClaimKind::crd_name(), KIND.crd());
        let mut seen = std::collections::BTreeSet::new();
        for index in 0..50 {
            let kind: HostClaimKind = serde_json::from_value(Idle.object(3, index).object).unwrap();
            assert!((9..=18).contains(&kind.spec.args_schema.len()));
            assert!(kind.spec.args_schema.values().all(|a| (30..=1024).contains(&a.description.len())));
            seen.extend(kind.spec.capabilities);
        }
        assert_eq!(seen.len(), Capability::ALL.len(), "every capability occurs");
    }

    #[test]
    fn no_owner_claims_a_field_of_the_new_object_because_the_server_would_take_it_away() {
        let made = Idle.object(1, 1);
        let owners = made.managed_fields.as_array().unwrap();
        assert_eq!(owners.len(), 2, "the server adds whoever creates the object");
        for field in owners.iter().flat_map(|owner| owner["fieldsV1"].as_object().unwrap()) {
            let (part, fields) = (field.0.strip_prefix("f:").unwrap(), field.1.as_object().unwrap());
            assert!(
                fields.keys().all(|key| made.object[part].get(key.strip_prefix("f:").unwrap()).is_none()),
                "{field:?}"
            );
        }
    }
}
