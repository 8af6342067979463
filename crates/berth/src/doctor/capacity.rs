//! Whether the room `capacity` stands on firm ground: groups of machines that it cannot describe, and clouds that have not
//! told it their types.

use std::collections::BTreeMap;

use ::capacity::archive::Archive;
use ::capacity::names::CATALOGUE;
use k8s_openapi::api::core::v1::ConfigMap;
use kit::clock::Clock;
use kit::explain::Level as Standing;
use kube::{Api, Client};

use super::operator::Operator;
use super::{Check, count, some};
use crate::groups::{GroupOptions, Row, rows};
use crate::look::Reader;

const NAME: &str = "groups";

/// The check of the room. Groups are judged by the operator's own flags, without asking a cloud.
pub async fn all(client: &Client, operator: &Operator) -> Vec<Check> {
    let flags = &operator.flags;
    let options = GroupOptions {
        judgement: flags.capacity.judgement.clone(),
        feature_gates: flags.feature_gates.clone(),
        lookup: false,
    };
    let read = Box::pin(rows(&Reader::new(client, None), None, &options, &flags.watch_filter)).await;
    let (all, unseen) = match read {
        Ok(read) => read,
        Err(error) => {
            let fix = "run the doctor with more rights";
            return vec![Check::warn(NAME, format!("cannot be read: {error:#}"), fix)];
        }
    };
    // Only who waits has to know whether anybody was told anything.
    let told = match all.iter().any(waits) {
        true => told(client, &operator.namespace).await,
        false => Told::default(),
    };
    vec![judge(&all, &told, &unseen)]
}

/// What clouds have told the operator: how many places of each region, as far as it is kept.
type Told = Option<BTreeMap<String, usize>>;

async fn told(client: &Client, namespace: &str) -> Told {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let pages = maps.get_opt(CATALOGUE).await.ok()??.binary_data.unwrap_or_default();
    let pages = pages.into_iter().map(|(page, bytes)| (page, bytes.0)).collect();
    let mut regions = BTreeMap::new();
    for page in Archive::open(pages, Clock::system().now()).pages {
        *regions.entry(page.place.region.to_string()).or_default() += 1;
    }
    Some(regions)
}

/// Whether its type is one of EC2 and nothing was written on it yet.
fn waits(row: &Row) -> bool {
    row.level == Standing::Waiting && row.region.is_some()
}

fn judge(all: &[Row], told: &Told, unseen: &[String]) -> Check {
    let name = |row: &Row| {
        let kind = row.kind.split('.').next().unwrap_or(row.kind).to_lowercase();
        format!("{kind}/{} -n {}", row.name, row.namespace)
    };
    let bad = all.iter().filter(|row| row.level == Standing::Problem);
    let bad: Vec<(String, String)> = bad.map(|row| (name(row), row.state.clone())).collect();
    if let Some((first, _)) = bad.first() {
        let fix = format!("berth explain {first}   (tells what keeps it from being described)");
        let found: Vec<String> = bad.iter().map(|(name, state)| format!("{name}: {state}")).collect();
        return Check::warn(NAME, some(&found), fix);
    }
    let silent = |row: &&Row| {
        let region = row.region.as_deref().unwrap_or_default();
        waits(row) && told.as_ref().is_some_and(|told| !told.contains_key(region))
    };
    let silent: Vec<&Row> = all.iter().filter(silent).collect();
    if let Some(first) = silent.first() {
        // One region is told at a time, with its own groups.
        let found: Vec<String> = silent.iter().filter(|row| row.region == first.region).map(|row| name(row)).collect();
        let found =
            format!("EC2 has told nothing about {}: {}", first.region.as_deref().unwrap_or_default(), some(&found));
        let fix = format!(
            "kubectl get events -n {} --field-selector involvedObject.name={}   (tells what keeps EC2 from answering, such as credentials)",
            first.namespace, first.name
        );
        return Check::warn(NAME, found, fix);
    }
    if !unseen.is_empty() {
        let found = format!("not everything can be seen: {}", some(unseen));
        return Check::warn(NAME, found, "run the doctor with more rights");
    }
    let of = |level: Standing| all.iter().filter(|row| row.level == level).count();
    let found = match all.len() {
        0 => "no group of machines, so nothing has to be told cluster-autoscaler".to_owned(),
        many => format!(
            "{} of machines: {} described, {} not yet, {} left alone",
            count(many, "group"),
            of(Standing::Ok),
            of(Standing::Waiting),
            of(Standing::Aside)
        ),
    };
    Check::ok(NAME, found)
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn row(name: &str, level: Standing, region: Option<&str>) -> Row {
        Row {
            kind: "machinedeployment.cluster.x-k8s.io",
            namespace: "team-a".to_owned(),
            name: name.to_owned(),
            level,
            instance_type: None,
            region: region.map(str::to_owned),
            cpu: None,
            memory: None,
            gpus: None,
            state: "FailedUpdate".to_owned(),
        }
    }

    #[test]
    fn a_group_that_cannot_be_described_is_named_with_the_way_to_why() {
        assert_eq!(judge(&[], &None, &[]).level, Level::Ok);
        let fine = row("fine", Standing::Ok, Some("us-west-2"));
        let check = judge(&[fine.clone(), row("odd", Standing::Problem, None)], &None, &[]);
        assert_eq!(check.level, Level::Warning);
        assert_eq!(check.found, "machinedeployment/odd -n team-a: FailedUpdate");
        assert!(check.fix.unwrap().starts_with("berth explain machinedeployment/odd -n team-a "));
        let aside = row("other", Standing::Aside, None);
        let check = judge(&[fine.clone(), aside], &None, &[]);
        assert_eq!(check.found, "2 groups of machines: 1 described, 0 not yet, 1 left alone");
        assert!(judge(&[fine], &None, &[]).found.starts_with("1 group of machines: "));
    }

    #[tokio::test(start_paused = true)]
    async fn groups_that_may_not_be_listed_are_not_told_as_fine() {
        let server = sim::server::Server::new(1);
        let kind = kit::kinds::Kind::of::<api::views::MachineDeployment>();
        server.register(sim::server::Kind::namespaced(&kind.group, "v1beta2", &kind.kind, &kind.plural));
        let client = server.client("doctor").kube();
        let operator = Operator::find(&client, "berth-system").await;
        assert_eq!(all(&client, &operator).await[0].level, Level::Ok);
        let rule = sim::server::Rule::any().path_contains("/machinedeployments").always();
        server.inject(rule, sim::server::Action::Status(403));
        let check = all(&client, &operator).await.remove(0);
        assert_eq!(check.level, Level::Warning, "{check:?}");
        assert!(check.found.contains("you may not list machinedeployments.cluster.x-k8s.io"), "{check:?}");
    }

    #[test]
    fn one_that_waits_for_a_region_nobody_spoke_of_is_told_and_one_that_was_just_made_is_not() {
        let waiting = [row("new", Standing::Waiting, Some("us-west-2"))];
        let spoken = |region: &str| Some(BTreeMap::from([(region.to_owned(), 1)]));
        assert_eq!(judge(&waiting, &spoken("us-west-2"), &[]).level, Level::Ok);
        assert_eq!(judge(&waiting, &None, &[]).level, Level::Ok, "what is kept could not be read");
        let check = judge(&waiting, &spoken("eu-west-1"), &[]);
        assert_eq!(check.level, Level::Warning);
        assert!(check.found.starts_with("EC2 has told nothing about us-west-2: "), "{}", check.found);
        assert!(check.fix.unwrap().starts_with("kubectl get events -n team-a "));
        let two = [waiting[0].clone(), row("far", Standing::Waiting, Some("us-east-1"))];
        let check = judge(&two, &spoken("eu-west-1"), &[]);
        assert_eq!(check.found, "EC2 has told nothing about us-west-2: machinedeployment/new -n team-a");
        assert_eq!(judge(&[row("disk", Standing::Waiting, None)], &spoken("eu-west-1"), &[]).level, Level::Ok);
    }
}
