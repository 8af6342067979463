//! How Berth runs here, as far as its Deployment says: a check that knows the operator's own flags judges as the operator
//! does.

use clap::Parser as _;
use kit::class::chain;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::Value;

use super::Check;
use crate::cli::{Cli, Command, RunOptions};

/// What the chart calls the Deployment.
const NAME: &str = "berth";
/// What it calls the volume of a certificate that is not of Berth's own making.
const VOLUME: &str = "webhook-certificate";

/// How Berth runs.
#[derive(Debug)]
pub struct Operator {
    /// The namespace it runs in.
    pub namespace: String,
    /// Its flags; the defaults where no Deployment says.
    pub flags: Box<RunOptions>,
    /// Why they are the defaults although there is a Deployment, or may be one.
    pub guessed: Option<String>,
    /// The Secret with its certificate, where that is mounted and not of its own making.
    pub mounted: Option<String>,
}

impl Operator {
    /// Reads the Deployment. Whoever may not read it, or runs Berth in another way, gets the defaults.
    pub async fn find(client: &Client, namespace: &str) -> Self {
        // Untyped: the type of a pod's template is a large part of a release.
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"));
        let deployments: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        match deployments.get_opt(NAME).await {
            Ok(found) => Self::of(namespace, found.map(|found| found.data).as_ref()),
            Err(error) => {
                let why = format!("Deployment {namespace}/{NAME} cannot be read: {}", chain(&error));
                Self { guessed: Some(why), ..Self::of(namespace, None) }
            }
        }
    }

    /// What it is judged by, where that is not known.
    pub fn check(&self) -> Option<Check> {
        let why = self.guessed.as_ref()?;
        let fix = "run the doctor of the operator's own version, with the right to read its Deployment";
        Some(Check::warn("operator", format!("{why}; all below is judged as by its default flags"), fix))
    }

    fn of(namespace: &str, deployment: Option<&Value>) -> Self {
        let there = deployment.is_some();
        let part = |pointer: &str| {
            let all = deployment.and_then(|deployment| deployment.pointer(pointer)?.as_array());
            all.into_iter().flatten()
        };
        let called = |part: &Value, name: &str| part.get("name").is_some_and(|own| own == name);
        let mut volumes = part("/spec/template/spec/volumes").filter(|volume| called(volume, VOLUME));
        let mounted = volumes.find_map(|volume| volume.pointer("/secret/secretName")?.as_str().map(str::to_owned));
        let mut containers = part("/spec/template/spec/containers").filter(|container| called(container, NAME));
        let own = containers.find_map(|container| {
            let args = container.get("args")?.as_array()?;
            Some(args.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        });
        let (flags, guessed) = flags(own.unwrap_or_default());
        let told = |why| format!("the arguments of Deployment {namespace}/{NAME} are not those of this build: {why}");
        Self { namespace: namespace.to_owned(), flags, guessed: guessed.filter(|_| there).map(told), mounted }
    }
}

/// The flags of `berth run`; the defaults where these are not the arguments of a `run` that this build knows, and why not.
#[expect(clippy::expect_used, reason = "no flag of `berth run` must be given, as the tests of the flags show")]
fn flags(own: Vec<String>) -> (Box<RunOptions>, Option<String>) {
    let read = |args: Vec<String>| match Cli::try_parse_from(std::iter::once(NAME.to_owned()).chain(args)) {
        Ok(Cli { command: Command::Run(options) }) => Ok(options),
        Ok(_) => Err("they do not run it".to_owned()),
        Err(error) => {
            let told = error.to_string();
            let first = told.lines().next().unwrap_or_default();
            Err(first.strip_prefix("error: ").unwrap_or("they are incomplete").to_owned())
        }
    };
    match read(own) {
        Ok(flags) => (flags, None),
        Err(why) => {
            let flags = read(vec!["run".to_owned()]);
            (flags.expect("`berth run` is complete: because it has no flag that must be given"), Some(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(args: &[&str], secret: Option<&str>) -> Operator {
        let volumes = secret.map(|secret| json!([{"name": VOLUME, "secret": {"secretName": secret}}]));
        let pod = json!({"containers": [{"name": "sidecar", "args": ["run", "--workers=1"]}, {"name": NAME, "args": args}], "volumes": volumes});
        let deployment = json!({"spec": {"selector": {}, "template": {"spec": pod}}});
        Operator::of("berth-system", Some(&deployment))
    }

    #[test]
    fn the_operators_own_flags_are_read_from_its_deployment() {
        let found = of(&["run", "--workers=3", "--system-namespace=clouds"], Some("mine"));
        assert_eq!((found.flags.workers, found.flags.clusters.system_namespace.as_str()), (3, "clouds"));
        assert_eq!((found.mounted.as_deref(), found.check()), (Some("mine"), None));
    }

    #[test]
    fn what_this_build_does_not_know_leaves_the_defaults_and_is_told() {
        for (found, part) in [
            (
                of(&["run", "--a-flag-of-tomorrow", "--workers=3"], None),
                "unexpected argument '--a-flag-of-tomorrow' found",
            ),
            (of(&["version"], None), "they do not run it"),
            (of(&[], None), "they are incomplete"),
        ] {
            assert_eq!((found.flags.workers, &found.mounted), (16, &None));
            let told = found.check().unwrap().found;
            assert!(told.contains(part), "{told}");
        }
        let none = Operator::of("x", None);
        assert_eq!((none.flags.workers, none.check()), (16, None), "there is nothing to read");
    }
}
