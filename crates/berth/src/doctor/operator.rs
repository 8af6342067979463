//! How Berth runs here, as far as its Deployment says: a check that knows the operator's own flags judges as the operator
//! does.

use clap::Parser as _;
use k8s_openapi::api::apps::v1::Deployment;
use kit::class::chain;
use kube::{Api, Client};

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
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        match deployments.get_opt(NAME).await {
            Ok(found) => Self::of(namespace, found),
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

    fn of(namespace: &str, deployment: Option<Deployment>) -> Self {
        let there = deployment.is_some();
        let pod = deployment.and_then(|deployment| deployment.spec?.template.spec);
        let volumes = pod.iter().flat_map(|pod| pod.volumes.iter().flatten());
        let mounted = volumes.filter(|volume| volume.name == VOLUME).find_map(|volume| {
            let secret = volume.secret.as_ref()?;
            secret.secret_name.clone()
        });
        let containers = pod.iter().flat_map(|pod| &pod.containers);
        let own = containers.filter(|container| container.name == NAME).find_map(|container| container.args.clone());
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
        Operator::of("berth-system", Some(serde_json::from_value(deployment).unwrap()))
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
