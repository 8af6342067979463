//! What OpenShift's provider of machines is told, as far as it decides about capacity.

use serde_json::Value;

/// Which provider makes the machines, and of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// EC2.
    Aws(AwsMachine),
    /// Another one.
    Other {
        /// Its kind.
        kind: Box<str>,
        /// What it calls the size of a machine, where that is a plain word.
        size: Option<Box<str>>,
    },
    /// It cannot be read.
    Invalid(SpecFault),
}

impl Default for Provider {
    fn default() -> Self {
        Self::Aws(AwsMachine::default())
    }
}

/// A machine on EC2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwsMachine {
    /// The instance type, empty when none is named.
    pub instance_type: Box<str>,
    /// The region.
    pub region: Option<Box<str>>,
    /// The zone.
    pub zone: Option<Box<str>>,
    /// The Secret with credentials, in the namespace of the object.
    pub secret: Option<Box<str>>,
    /// The size of the root disk in GiB.
    pub root_gib: Option<u64>,
}

/// A field that is not of the form it must have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.template.spec.providerSpec.value{path}: must be {form}")]
pub struct SpecFault {
    path: String,
    form: &'static str,
}

/// Reads what the provider is told; an absent value is an empty one.
#[must_use]
pub fn provider(value: &Value) -> Provider {
    match read(value) {
        Ok(provider) => provider,
        Err(fault) => Provider::Invalid(fault),
    }
}

fn read(value: &Value) -> Result<Provider, SpecFault> {
    let kind = text(value, "", "kind")?.unwrap_or_default();
    let version = text(value, "", "apiVersion")?.unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let ours = kind.is_empty()
        || (kind == "AWSMachineProviderConfig"
            && matches!(group, "" | "machine.openshift.io" | "awsproviderconfig.openshift.io"));
    if !ours {
        let size = SIZES.iter().find_map(|field| value.get(field)?.as_str());
        return Ok(Provider::Other { kind: kind.into(), size: filled(size) });
    }
    let none = Value::Null;
    let placement = object(value, "", "placement")?.unwrap_or(&none);
    let secret = object(value, "", "credentialsSecret")?.unwrap_or(&none);
    Ok(Provider::Aws(AwsMachine {
        instance_type: text(value, "", "instanceType")?.unwrap_or_default().trim().into(),
        region: filled(text(placement, ".placement", "region")?),
        zone: filled(text(placement, ".placement", "availabilityZone")?),
        secret: filled(text(secret, ".credentialsSecret", "name")?),
        root_gib: root(value)?,
    }))
}

/// What other providers call the size of a machine.
const SIZES: [&str; 4] = ["vmSize", "machineType", "flavor", "instanceType"];

fn filled(text: Option<&str>) -> Option<Box<str>> {
    text.map(str::trim).filter(|text| !text.is_empty()).map(Into::into)
}

/// The root disk is the one that no device name is given for.
fn root(value: &Value) -> Result<Option<u64>, SpecFault> {
    let fault = |path: String, form| SpecFault { path, form };
    let devices = match value.get("blockDevices") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(devices)) => devices,
        Some(_) => return Err(fault(".blockDevices".to_owned(), "a list")),
    };
    let mut size = None;
    for (number, device) in devices.iter().enumerate() {
        let path = format!(".blockDevices[{number}]");
        if text(device, &path, "deviceName")?.is_some_and(|name| !name.is_empty()) {
            continue;
        }
        let Some(disk) = object(device, &path, "ebs")? else { continue };
        match disk.get("volumeSize") {
            None | Some(Value::Null) => {}
            Some(found) => {
                let found = found.as_i64().ok_or_else(|| fault(format!("{path}.ebs.volumeSize"), "a whole number"))?;
                size = size.or_else(|| u64::try_from(found).ok().filter(|size| *size > 0));
            }
        }
    }
    Ok(size)
}

fn text<'v>(value: &'v Value, path: &str, field: &str) -> Result<Option<&'v str>, SpecFault> {
    let fault = |form| SpecFault { path: path.to_owned(), form };
    match value {
        Value::Null => return Ok(None),
        Value::Object(_) => {}
        _ => return Err(fault("an object")),
    }
    match value.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(SpecFault { path: format!("{path}.{field}"), form: "a text" }),
    }
}

fn object<'v>(value: &'v Value, path: &str, field: &str) -> Result<Option<&'v Value>, SpecFault> {
    match value.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(found @ Value::Object(_)) => Ok(Some(found)),
        Some(_) => Err(SpecFault { path: format!("{path}.{field}"), form: "an object" }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_provider_spec_is_read_and_unknown_fields_passed_over() {
        let spec = json!({
            "kind": "AWSMachineProviderConfig", "apiVersion": "machine.openshift.io/v1beta1", "ami": {"id": "ami-1"},
            "instanceType": " m5.xlarge ", "placement": {"region": "us-east-1", "availabilityZone": "us-east-1a"},
            "credentialsSecret": {"name": "aws-cloud-credentials"}, "cpuOptions": {"x": 1},
            "blockDevices": [{"deviceName": "/dev/sdb", "ebs": {"volumeSize": 500}}, {"ebs": {"volumeSize": 120}}],
        });
        let wanted = AwsMachine {
            instance_type: "m5.xlarge".into(),
            region: Some("us-east-1".into()),
            zone: Some("us-east-1a".into()),
            secret: Some("aws-cloud-credentials".into()),
            root_gib: Some(120),
        };
        assert_eq!(provider(&spec), Provider::Aws(wanted));
    }

    #[test]
    fn kinds_decide_whose_it_is() {
        let of = |kind: &str, version: &str| provider(&json!({"kind": kind, "apiVersion": version}));
        let aws = Provider::default();
        let other = |kind: &str| Provider::Other { kind: kind.into(), size: None };
        assert_eq!(provider(&Value::Null), aws);
        assert_eq!(provider(&json!({})), aws);
        assert_eq!(of("AWSMachineProviderConfig", "machine.openshift.io/v1beta1"), aws);
        assert_eq!(of("AWSMachineProviderConfig", "awsproviderconfig.openshift.io/v1beta1"), aws);
        assert_eq!(of("AzureMachineProviderSpec", "machine.openshift.io/v1beta1"), other("AzureMachineProviderSpec"));
        assert!(matches!(of("AWSMachineProviderConfig", "example.org/v1"), Provider::Other { .. }));
        let azure = json!({"kind": "AzureMachineProviderSpec", "vmSize": "Standard_D4s_v3"});
        let size = Some("Standard_D4s_v3".into());
        assert_eq!(provider(&azure), Provider::Other { kind: "AzureMachineProviderSpec".into(), size });
    }

    #[test]
    fn a_wrong_type_is_named_by_its_path() {
        for (spec, path) in [
            (json!("text"), "value: must be an object"),
            (json!({"instanceType": 5}), "value.instanceType: must be a text"),
            (json!({"placement": "x"}), "value.placement: must be an object"),
            (json!({"placement": {"region": {}}}), "value.placement.region: must be a text"),
            (json!({"blockDevices": {}}), "value.blockDevices: must be a list"),
            (json!({"blockDevices": [3]}), "value.blockDevices[0]: must be an object"),
            (json!({"blockDevices": [{"ebs": {"volumeSize": "1"}}]}), "value.blockDevices[0].ebs.volumeSize"),
        ] {
            let Provider::Invalid(fault) = provider(&spec) else { panic!("{spec}") };
            assert!(fault.to_string().contains(path), "{fault}");
        }
        assert!(matches!(provider(&json!({"userDataSecret": 4, "tags": "x"})), Provider::Aws(_)));
    }

    proptest! {
        #[test]
        fn anything_is_read_or_refused(text in r#"\{("(kind|instanceType|placement|blockDevices)": ?(null|1|"x"|\{\}|\[\{"ebs":\{"volumeSize":(-3|7|"a")\}\}\]),?){0,3}\}"#) {
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                let _ = provider(&value);
            }
        }
    }
}
