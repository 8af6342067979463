//! The checks themselves. Each only reads.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kit::class::chain;
use kit::kinds::{Kind, Kinds};
use kit::rights::Reach;
use kube::api::PostParams;
use kube::{Api, Client};

use super::operator::Operator;
use super::{Check, Level, cloudstack, of_room_by, webhooks};
use crate::rooms;

/// The oldest server whose fields we rely on.
const OLDEST_MINOR: u32 = 33;

/// Every check, in the order in which one depends on the next.
pub async fn all(client: &Client, operator: &Operator) -> Vec<Check> {
    let (api, namespace) = (api(client).await, operator.namespace.as_str());
    let reachable = api.level != Level::Failure;
    let mut checks = vec![api];
    if reachable {
        checks.extend(operator.check());
        checks.push(kinds(client).await);
        checks.push(rights(client, operator).await);
        checks.extend(webhooks::all(client, operator).await);
        checks.push(leadership(client, namespace).await);
        for room in rooms::BUILT.iter().filter(|room| rooms::runs(&operator.flags, room.name)) {
            checks.extend(of_room_by(client, room.name, operator).await);
            if room.name == "clusters" {
                checks.extend(Box::pin(cloudstack::secrets(client, operator)).await);
            }
        }
    }
    checks
}

async fn api(client: &Client) -> Check {
    let version = match client.apiserver_version().await {
        Ok(version) => version,
        Err(error) => {
            let fix = "check --kubeconfig and --context, and that the server answers `kubectl version`";
            return Check::fail("api", format!("the API server does not answer: {}", chain(&error)), fix);
        }
    };
    let minor: u32 = version.minor.trim_end_matches('+').parse().unwrap_or_default();
    let found = format!("Kubernetes {}", version.git_version);
    if version.major == "1" && minor < OLDEST_MINOR {
        let fix = format!("Berth is tested with Kubernetes 1.{OLDEST_MINOR} and later");
        return Check::warn("api", format!("{found} is older than Berth supports"), fix);
    }
    Check::ok("api", found)
}

async fn kinds(client: &Client) -> Check {
    let kinds = Kinds::new(client.clone());
    let mut missing = Vec::new();
    let definitions = crate::definitions::all();
    for definition in &definitions {
        let spec = &definition.spec;
        for version in spec.versions.iter().filter(|version| version.served && version.storage) {
            let kind = Kind {
                group: spec.group.clone(),
                version: version.name.clone(),
                kind: spec.names.kind.clone(),
                plural: spec.names.plural.clone(),
            };
            match kinds.is_served(&kind).await {
                Ok(true) => {}
                Ok(false) => missing.push(kind.to_string()),
                Err(error) => {
                    return Check::fail("kinds", format!("asking for {kind}: {}", chain(&error)), "try again");
                }
            }
        }
    }
    if missing.is_empty() {
        return Check::ok("kinds", format!("{} kinds of Berth are served", definitions.len()));
    }
    let fix = "berth crds | kubectl apply --server-side -f -";
    Check::fail("kinds", format!("not served: {}", missing.join(", ")), fix)
}

/// Asks for the operator's own account where it is installed, otherwise for whoever runs the doctor.
async fn rights(client: &Client, operator: &Operator) -> Check {
    let (namespace, system) = (operator.namespace.as_str(), operator.flags.clusters.system_namespace.as_str());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let account = matches!(accounts.get_opt("berth").await, Ok(Some(_)));
    let user = account.then(|| format!("system:serviceaccount:{namespace}:berth"));
    let who = user.clone().unwrap_or_else(|| "the current user".to_owned());
    // Nobody can be given rights in a namespace that is not there.
    let spaces: Api<Namespace> = Api::all(client.clone());
    let there = needs_system(operator) && !matches!(spaces.get_opt(system).await, Ok(None));
    let (mut asked, mut denied, mut apart) = (0usize, Vec::new(), Vec::new());
    for right in rooms::rights_of(&operator.flags).into_iter().filter(|right| there || right.reach != Reach::System) {
        for (resource, verb) in right.resources.iter().flat_map(|r| right.verbs.iter().map(move |v| (r, v))) {
            let (plural, part) = resource.split_once('/').unwrap_or((resource, ""));
            let attributes = ResourceAttributes {
                group: Some(right.group.to_owned()),
                resource: Some(plural.to_owned()),
                subresource: (!part.is_empty()).then(|| part.to_owned()),
                verb: Some((*verb).to_owned()),
                // One name stands for all: they are granted by one rule.
                name: right.names.first().map(|name| (*name).to_owned()),
                namespace: match right.reach {
                    Reach::Cluster => None,
                    Reach::System => Some(system.to_owned()),
                    Reach::OwnNamespace => Some(namespace.to_owned()),
                },
                ..ResourceAttributes::default()
            };
            asked += 1;
            match allowed(client, user.as_deref(), attributes).await {
                Ok(true) => {}
                Ok(false) if right.reach == Reach::System => apart.push(format!("{verb} {resource}")),
                Ok(false) => denied.push(format!("{verb} {resource}")),
                Err(error) => {
                    let fix = "run the doctor as a user who may create subject access reviews";
                    return Check::warn("rights", format!("cannot be checked: {}", chain(&error)), fix);
                }
            }
        }
    }
    apart.sort();
    apart.dedup();
    if denied.is_empty() && !apart.is_empty() {
        let found = format!("{who} may not, in {system}: {}", apart.join(", "));
        let fix = "install or upgrade the chart with the room clusters, which alone needs them; or name another --system-namespace";
        return Check::warn("rights", found, fix);
    }
    if denied.is_empty() {
        return Check::ok("rights", format!("{who} may make all {asked} kinds of calls the rooms make"));
    }
    denied.extend(apart.into_iter().map(|one| format!("{one} in {system}")));
    denied.sort();
    denied.dedup();
    let found = format!("{who} may not: {}", denied.join(", "));
    Check::fail("rights", found, "install or upgrade the chart, whose roles are generated from the same list")
}

/// Whether the operator looks into the namespace of the system at all.
fn needs_system(operator: &Operator) -> bool {
    let own = &operator.flags;
    own.namespace.is_empty() || own.namespace.contains(&own.clusters.system_namespace)
}

async fn allowed(client: &Client, user: Option<&str>, attributes: ResourceAttributes) -> Result<bool, kube::Error> {
    let params = PostParams::default();
    if let Some(user) = user {
        let spec = SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = Api::<SubjectAccessReview>::all(client.clone()).create(&params, &review).await?;
        return Ok(answer.status.is_some_and(|status| status.allowed));
    }
    let spec =
        SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SelfSubjectAccessReviewSpec::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = Api::<SelfSubjectAccessReview>::all(client.clone()).create(&params, &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn leadership(client: &Client, namespace: &str) -> Check {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match leases.get_opt("berth").await {
        Ok(Some(lease)) => match lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty()) {
            Some(holder) => Check::ok("leadership", format!("{holder} decides")),
            None => {
                let fix = "normal for a few seconds after a replica stopped; then look at the pods' logs";
                Check::warn("leadership", "the lease has no holder: nobody decides", fix)
            }
        },
        Ok(None) => Check::ok("leadership", format!("no lease in {namespace}: a single replica decides")),
        Err(error) => {
            Check::warn("leadership", format!("cannot be read: {}", chain(&error)), "run the doctor with more rights")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sim::server::Server;

    use super::*;

    /// What is said of an operator with these arguments.
    async fn of(args: &[&str]) -> Vec<Check> {
        let server = Server::new(1);
        server.register(sim::server::Kind::namespaced("apps", "v1", "Deployment", "deployments"));
        for namespace in ["berth-system", "eksa-system"] {
            server.namespace(namespace);
        }
        let pod = json!({"containers": [{"name": "berth", "args": args}]});
        server
            .put(json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"namespace": "berth-system", "name": "berth"}, "spec": {"template": {"spec": pod}}}))
            .unwrap();
        let client = server.client("doctor").kube();
        all(&client, &Operator::find(&client, "berth-system").await).await
    }

    #[tokio::test(start_paused = true)]
    async fn rooms_that_do_not_run_are_not_judged() {
        let names = |checks: &[Check]| checks.iter().map(|check| check.name).collect::<Vec<_>>();
        let everything = of(&["run"]).await;
        assert!(names(&everything).contains(&"cluster api") && names(&everything).contains(&"groups"));
        let one = of(&["run", "--controllers=vip"]).await;
        assert!(names(&one).contains(&"cluster api") && !names(&one).contains(&"groups"), "{:?}", names(&one));
    }

    #[tokio::test(start_paused = true)]
    async fn arguments_that_are_not_known_are_told_and_not_taken_for_none() {
        let told = |checks: Vec<Check>| checks.into_iter().find(|check| check.name == "operator");
        assert_eq!(told(of(&["run", "--workers=3"]).await), None);
        let check = told(of(&["run", "--a-flag-of-tomorrow"]).await).unwrap();
        assert_eq!(check.level, Level::Warning);
        assert!(check.found.contains("--a-flag-of-tomorrow"), "{check:?}");
    }
}
