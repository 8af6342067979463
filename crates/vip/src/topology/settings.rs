//! The settings of the topology hooks.

use std::collections::BTreeMap;

use super::pointer;
use crate::config::SettingError;
use crate::facts::entries;
use crate::names::Slot;

const PATCH_INFRASTRUCTURE: &str = "patchInfrastructureCluster";
const ENDPOINT_PATH: &str = "endpointPath";
const PLACEHOLDERS: &str = "placeholders";
const NO_VALUE_PATHS: &str = "noValuePaths";
const EXTRA_TARGETS: &str = "extraTargets";
const VARIABLES: &str = "variables";

/// Every key that some hook knows, those of the gate included: all hooks share the settings of the ExtensionConfig.
const KEYS: [&str; 8] = [
    PATCH_INFRASTRUCTURE,
    ENDPOINT_PATH,
    PLACEHOLDERS,
    NO_VALUE_PATHS,
    EXTRA_TARGETS,
    VARIABLES,
    "missingPoolPolicy",
    "defaultPort",
];

/// Where the founding description of this capability had authors put the endpoint's host.
const DEFAULT_NO_VALUE_PATHS: &str = "registrationAddress,tlsSAN,tlsSan,certSANs,controlPlaneEndpoint/host";

/// Where everything that becomes the spec of an object lies in a template.
const OBJECT_SPEC: [&str; 3] = ["spec", "template", "spec"];

/// What a target is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The host of the endpoint.
    Host,
    /// The port of the endpoint.
    Port,
    /// Both, with brackets around an IPv6 address.
    HostPort,
}

/// A further place for the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The kind of the templates.
    pub kind: String,
    /// The place in them, as parts of a pointer; a last `-` appends to a list.
    pub path: Vec<String>,
    /// What it is set to.
    pub what: What,
}

/// What the settings say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the template of the infrastructure cluster is given the endpoint.
    pub patch_infrastructure: bool,
    /// Where in a template of an infrastructure cluster the endpoint lies, from the template's root.
    pub endpoint_path: Vec<String>,
    /// Whether placeholders are replaced.
    pub placeholders: bool,
    /// Ends of paths, without list indices, at which `<no value>` stands for the address.
    pub no_value_paths: Vec<Vec<String>>,
    /// Further places for the endpoint, sorted.
    pub targets: Vec<Target>,
    /// The variables to define.
    pub variables: Vec<Slot>,
}

impl Settings {
    /// Reads the settings; unknown keys are not looked at.
    ///
    /// # Errors
    /// Names the first key whose value cannot be used.
    pub fn read(settings: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let text = |key, default| settings.get(key).map_or(default, String::as_str);
        let mut endpoint_path: Vec<String> = OBJECT_SPEC.map(str::to_owned).into();
        endpoint_path.extend(pointer::read(text(ENDPOINT_PATH, "/controlPlaneEndpoint")).map_err(bad(ENDPOINT_PATH))?);
        let paths = entries(text(NO_VALUE_PATHS, DEFAULT_NO_VALUE_PATHS));
        let suffix = |path: &str| pointer::tokens(path.strip_prefix('/').unwrap_or(path)).map_err(bad(NO_VALUE_PATHS));
        Ok(Self {
            patch_infrastructure: flag(settings, PATCH_INFRASTRUCTURE)?,
            endpoint_path,
            placeholders: flag(settings, PLACEHOLDERS)?,
            no_value_paths: paths.map(suffix).collect::<Result<_, _>>()?,
            targets: targets(text(EXTRA_TARGETS, "")).map_err(bad(EXTRA_TARGETS))?,
            variables: match settings.get(VARIABLES) {
                Some(list) => variables(list).map_err(bad(VARIABLES))?,
                None => VARIABLE_ORDER.into(),
            },
        })
    }
}

/// The keys that no hook knows, sorted.
#[must_use]
pub fn unknown_keys(settings: &BTreeMap<String, String>) -> Vec<String> {
    settings.keys().filter(|key| !KEYS.contains(&key.as_str())).cloned().collect()
}

/// The order in which variables are defined.
pub const VARIABLE_ORDER: [Slot; 4] = {
    let [control_plane, second_control_plane, ingress, second_ingress] = Slot::ALL;
    [control_plane, ingress, second_control_plane, second_ingress]
};

fn bad(key: &'static str) -> impl Fn(String) -> SettingError {
    move |problem| SettingError { key, problem }
}

fn flag(settings: &BTreeMap<String, String>, key: &'static str) -> Result<bool, SettingError> {
    match settings.get(key).map_or("true", |text| text.trim()) {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(bad(key)(format!("`{other}` is neither true nor false"))),
    }
}

fn variables(list: &str) -> Result<Vec<Slot>, String> {
    let known = |name: &&str| VARIABLE_ORDER.iter().any(|slot| slot.variable() == *name);
    if let Some(name) = entries(list).find(|name| !known(name)) {
        let all = VARIABLE_ORDER.map(Slot::variable).join(", ");
        return Err(format!("`{name}` is none of {all}"));
    }
    Ok(VARIABLE_ORDER.into_iter().filter(|slot| entries(list).any(|name| name == slot.variable())).collect())
}

fn targets(list: &str) -> Result<Vec<Target>, String> {
    let texts = list.split(';').map(str::trim).filter(|text| !text.is_empty());
    let mut targets = texts.map(target).collect::<Result<Vec<_>, _>>()?;
    targets.sort();
    targets.dedup();
    for (number, one) in targets.iter().enumerate() {
        if let Some(other) = targets.iter().skip(number + 1).find(|other| collide(one, other)) {
            let write = |target: &Target| pointer::write(target.path.iter().map(String::as_str));
            return Err(format!("`{}` and `{}` of {} cannot both be set", write(one), write(other), one.kind));
        }
    }
    Ok(targets)
}

fn target(text: &str) -> Result<Target, String> {
    let form = || format!("`{text}` is not of the form Kind:/json/pointer[:host|port|hostport]");
    let (kind, rest) = text.split_once(':').ok_or_else(form)?;
    let (path, what) = match rest.split_once(':') {
        None | Some((_, "host")) => (rest.strip_suffix(":host").unwrap_or(rest), What::Host),
        Some((path, "port")) => (path, What::Port),
        Some((path, "hostport")) => (path, What::HostPort),
        Some(_) => return Err(form()),
    };
    if kind.is_empty() {
        return Err(form());
    }
    let path = pointer::read(path)?;
    // Cluster API takes over nothing else.
    if path.len() < 2 || path.first().is_none_or(|first| first != "spec") {
        return Err(format!("`{text}`: only what lies below /spec can be set"));
    }
    if path.iter().rev().skip(1).any(|token| token == "-") {
        return Err(format!("`{text}`: `-` can only be the last part"));
    }
    Ok(Target { kind: kind.to_owned(), path, what })
}

/// Whether setting one target undoes the other. Appending twice to one list is fine; appending to it and setting one of its
/// elements is not, because then it depends on the list which element is meant.
fn collide(one: &Target, other: &Target) -> bool {
    if one.kind != other.kind {
        return false;
    }
    let fork = one.path.iter().zip(&other.path).find(|(a, b)| a != b);
    match fork {
        Some((a, b)) => a == "-" || b == "-",
        None => one.path.len() != other.path.len() || one.path.last().is_none_or(|last| last != "-"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, SettingError> {
        Settings::read(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn without_settings_everything_is_on_and_nothing_is_added() {
        let settings = read(&[]).unwrap();
        assert!(settings.patch_infrastructure && settings.placeholders && settings.targets.is_empty());
        assert_eq!(settings.endpoint_path, ["spec", "template", "spec", "controlPlaneEndpoint"]);
        assert_eq!(settings.no_value_paths.len(), 5);
        assert!(settings.no_value_paths.contains(&vec!["controlPlaneEndpoint".to_owned(), "host".to_owned()]));
        let names: Vec<_> = settings.variables.iter().map(|slot| slot.variable()).collect();
        assert_eq!(names, ["clusterVip", "ingressVip", "clusterVipSecondary", "ingressVipSecondary"]);
    }

    #[test]
    fn values_are_read() {
        let settings = read(&[
            ("patchInfrastructureCluster", "false"),
            ("placeholders", " false "),
            ("endpointPath", "/load~1balancer/endpoint"),
            ("noValuePaths", " /a/b , c~1d ,"),
            ("extraTargets", "B:/spec/x/-:hostport; A:/spec/y ;B:/spec/a~0b:port;A:/spec/y:host;"),
            ("variables", "ingressVip, clusterVip"),
        ])
        .unwrap();
        assert!(!settings.patch_infrastructure && !settings.placeholders);
        assert_eq!(settings.endpoint_path, ["spec", "template", "spec", "load/balancer", "endpoint"]);
        assert_eq!(settings.no_value_paths, [vec!["a".to_owned(), "b".to_owned()], vec!["c/d".to_owned()]]);
        let target = |kind: &str, path: &[&str], what| Target {
            kind: kind.to_owned(),
            path: path.iter().map(|token| (*token).to_owned()).collect(),
            what,
        };
        let expected = [
            target("A", &["spec", "y"], What::Host),
            target("B", &["spec", "a~b"], What::Port),
            target("B", &["spec", "x", "-"], What::HostPort),
        ];
        assert_eq!(settings.targets, expected);
        assert_eq!(settings.variables, [Slot::CONTROL_PLANE, Slot::INGRESS]);
        assert!(read(&[("noValuePaths", "")]).unwrap().no_value_paths.is_empty());
        assert!(read(&[("variables", "")]).unwrap().variables.is_empty());
    }

    #[test]
    fn a_bad_value_is_refused_with_its_key() {
        for (key, value) in [
            ("patchInfrastructureCluster", "yes"),
            ("patchInfrastructureCluster", ""),
            ("placeholders", "TRUE"),
            ("endpointPath", "controlPlaneEndpoint"),
            ("endpointPath", ""),
            ("endpointPath", "/"),
            ("endpointPath", "/a~"),
            ("noValuePaths", "a//b"),
            ("noValuePaths", "~3"),
            ("variables", "clusterVIP"),
            ("extraTargets", "Kind"),
            ("extraTargets", ":/spec/a"),
            ("extraTargets", "Kind:spec/a"),
            ("extraTargets", "Kind:/spec"),
            ("extraTargets", "Kind:/metadata/name"),
            ("extraTargets", "Kind:/spec/a:address"),
            ("extraTargets", "Kind:/spec/a:host:port"),
            ("extraTargets", "Kind:/spec/a:"),
            ("extraTargets", "Kind:/spec/-/a"),
            ("extraTargets", "Kind:/spec/a;Kind:/spec/a:port"),
            ("extraTargets", "Kind:/spec/a;Kind:/spec/a/b"),
            ("extraTargets", "Kind:/spec/a/-;Kind:/spec/a/0"),
            ("extraTargets", "Kind:/spec/a/-;Kind:/spec/a"),
        ] {
            let error = read(&[(key, value)]).unwrap_err();
            assert_eq!(error.key, key, "{value}");
            assert!(error.to_string().starts_with(&format!("settings: {key}: ")), "{error}");
        }
    }

    #[test]
    fn targets_that_do_not_meet_live_together() {
        for list in [
            "A:/spec/a;B:/spec/a:port",
            "A:/spec/a/-;A:/spec/a/-:port",
            "A:/spec/a/0;A:/spec/a/1",
            "A:/spec/ab;A:/spec/a",
        ] {
            assert_eq!(read(&[("extraTargets", list)]).unwrap().targets.len(), 2, "{list}");
        }
    }

    #[test]
    fn keys_that_no_hook_knows_are_listed() {
        let settings = ["z", "defaultPort", "a", "placeholders"].map(|key| (key.to_owned(), String::new())).into();
        assert_eq!(unknown_keys(&settings), ["a", "z"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn any_settings_are_read_or_refused(
            key in proptest::sample::select(KEYS.as_slice()),
            value in prop_oneof!["\\PC{0,30}", "(A|B|):(/spec|/a|/-|/0|~){0,3}(:host|:port|:x|;){0,3}"],
        ) {
            if let Err(error) = read(&[(key, &value)]) {
                prop_assert_eq!(error.key, key);
            }
        }
    }
}
