//! What EC2 says of the types of groups, asked with the credentials of whoever asks: one question for all types of a
//! region.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::capacity::cloud::{Cloud, Door};
use ::capacity::judge::{Ec2Wish, Lookup, Wish};
use ::capacity::observe::place;
use ::capacity::offer::Offer;
use ::capacity::shelf::Ec2Place;
use ::capacity::status::Trouble;
use api::names::InstanceType;
use aws::credentials::Source;
use aws::net::{Aws, Meter, Options};
use aws::port::{Ec2, TypeFacts, TypeQuery};
use kit::class::chain;
use kit::clock::Clock;
use tokio::task::JoinSet;

use crate::capacity::{ambient_source, environment};

/// The most names that EC2 takes in one question.
const NAMES: usize = 100;

/// What EC2 said, by where it was asked.
#[derive(Debug, Default)]
pub struct Answers(BTreeMap<Ec2Place, Result<Types, Trouble>>);

type Types = BTreeMap<Box<str>, TypeFacts>;

impl Answers {
    /// Asks about the types of these groups; where it is not EC2 that knows them, nothing is asked.
    pub async fn to(wishes: &[Wish], clock: &Clock) -> Self {
        let wanted = wanted(wishes);
        if wanted.is_empty() {
            return Self::default();
        }
        match ambient_source(&environment()) {
            Ok(ambient) => {
                let agent = concat!("berth-explain/", env!("CARGO_PKG_VERSION"));
                let cloud = Aws::new(Options::new(agent), clock.clone(), Meter::default());
                Self::of(wanted, &cloud, ambient.source()).await
            }
            Err(why) => {
                let trouble = Trouble::refused(format!("no AWS credentials: {why}"));
                Self(wanted.into_keys().map(|place| (place, Err(trouble.clone()))).collect())
            }
        }
    }

    async fn of(wanted: Wanted<'_>, cloud: &impl Cloud, source: &Source) -> Self {
        let (mut answers, mut asked) = (BTreeMap::new(), JoinSet::new());
        for (place, (wish, names)) in wanted {
            let (region, endpoints) = (wish.region.clone(), wish.endpoints.clone());
            match cloud.open(&Door { region, source: source.clone(), endpoints, bundle: None }) {
                Ok(ec2) => {
                    asked.spawn(async move { (place, types(&ec2, names).await) });
                }
                Err(error) => {
                    answers.insert(place, Err(Trouble::passing(error.message)));
                }
            }
        }
        answers.extend(asked.join_all().await);
        Self(answers)
    }

    /// What is known of the types of a group; nothing where EC2 was not asked.
    pub fn offer(&self, wish: &Wish) -> Option<Result<Arc<Offer>, Trouble>> {
        let Lookup::Ec2(ec2) = &wish.lookup else { return None };
        let types = self.0.get(&place(ec2))?.as_ref();
        Some(types.map_err(Trouble::clone).and_then(|types| offered(wish, ec2, types)))
    }
}

fn offered(wish: &Wish, ec2: &Ec2Wish, types: &Types) -> Result<Arc<Offer>, Trouble> {
    let region = ec2.region.as_str();
    let unknown = |name: &str| Trouble::unknown(name, region, &[], None);
    let offer = |name: &str| match types.get(name).map(Offer::of_ec2) {
        Some(offer) if offer.is_incomplete() => Err(Trouble::incomplete(name, region)),
        Some(offer) => Ok(Arc::new(offer)),
        None => Err(unknown(name)),
    };
    let offers = wish.types.iter().map(|name| offer(name)).collect::<Result<Vec<_>, _>>()?;
    wish.offer(&offers).ok_or_else(|| unknown(&wish.around.instance_type))
}

/// What to ask about where.
type Wanted<'a> = BTreeMap<Ec2Place, (&'a Ec2Wish, BTreeSet<InstanceType>)>;

fn wanted(wishes: &[Wish]) -> Wanted<'_> {
    let mut wanted = Wanted::new();
    for wish in wishes {
        if let Lookup::Ec2(ec2) = &wish.lookup {
            let (_, names) = wanted.entry(place(ec2)).or_insert_with(|| (ec2, BTreeSet::new()));
            // What cannot be the name of a type need not be asked for.
            names.extend(wish.types.iter().filter_map(|name| name.parse().ok()));
        }
    }
    wanted
}

/// Those of the types that there are. EC2 answers a question about several for none of them where it does not know one,
/// so such a question is asked again in halves.
async fn types(ec2: &impl Ec2, names: BTreeSet<InstanceType>) -> Result<Types, Trouble> {
    let names: Vec<InstanceType> = names.into_iter().collect();
    let mut waiting: Vec<&[InstanceType]> = names.chunks(NAMES).collect();
    let mut found = Types::new();
    while let Some(names) = waiting.pop() {
        match ec2.describe_instance_types(&TypeQuery::Names(names.to_vec())).await {
            Ok(list) => found.extend(list.types.into_iter().map(|facts| (facts.name.clone(), facts))),
            Err(error) if error.code() == Some("InvalidInstanceType") => {
                let (left, right) = names.split_at(names.len() / 2);
                waiting.extend((!left.is_empty()).then_some([left, right]).into_iter().flatten());
            }
            Err(error) => return Err(Trouble::passing(chain(&error))),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use ::capacity::config::Config;
    use ::capacity::explain::{Lists, Sight};
    use aws::credentials::{Ambient, Files};
    use aws::place::Endpoints;
    use serde_json::{Value, json};
    use sim::ec2;

    use super::*;

    const NS: &str = "openshift-machine-api";

    /// What a MachineSet of each of these types in these regions asks for.
    fn wishes(endpoint: &str, sets: &[(&str, &str)]) -> Vec<Wish> {
        let set = |(number, (region, name)): (usize, &(&str, &str))| -> Value {
            let machine =
                json!({"instanceType": name, "placement": {"region": region}, "credentialsSecret": {"name": "aws"}});
            json!({"metadata": {"name": format!("s-{number:03}"), "namespace": NS},
                "spec": {"template": {"spec": {"providerSpec": {"value": machine}}}}})
        };
        let openshift_sets = sets.iter().enumerate().map(set).map(|set| serde_json::from_value(set).unwrap()).collect();
        let sight = Sight::of(Lists { openshift_sets, ..Lists::default() }, &Clock::system());
        let endpoints = Endpoints::new().flag(format!("ec2={endpoint}").parse().unwrap());
        let config = Arc::new(Config { endpoints, ..Config::default() });
        sight.groups().iter().map(|key| sight.wish(key, &config).unwrap()).collect()
    }

    /// What EC2 says of each: its processors, or the trouble with it; and how often it was asked.
    async fn ask(sets: &[(&str, &str)]) -> (Vec<Result<u64, String>>, usize) {
        let ec2 = ec2::start(ec2::Options::default()).await.unwrap();
        let wishes = wishes(&ec2.endpoint, sets);
        let vars = [("AWS_ACCESS_KEY_ID", &ec2.access_key), ("AWS_SECRET_ACCESS_KEY", &ec2.secret)];
        let vars = vars.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let keys = Ambient::decide(&vars, &Files::default()).unwrap();
        let cloud = Aws::new(Options::new("berth-test"), Clock::system(), Meter::default());
        let answers = Answers::of(wanted(&wishes), &cloud, keys.source()).await;
        let told =
            |wish: &Wish| answers.offer(wish).unwrap().map(|offer| offer.vcpus).map_err(|trouble| trouble.message);
        (wishes.iter().map(told).collect(), ec2.calls("DescribeInstanceTypes"))
    }

    #[tokio::test]
    async fn all_types_of_a_region_are_one_question() {
        let (told, calls) =
            ask(&[("us-east-1", "m5.xlarge"), ("us-east-1", "m5.4xlarge"), ("us-east-1", "m5.xlarge")]).await;
        assert_eq!((told, calls), (vec![Ok(4), Ok(16), Ok(4)], 1));
        let (told, calls) = ask(&[("us-east-1", "m5.xlarge"), ("eu-west-1", "m5.4xlarge")]).await;
        assert_eq!((told, calls), (vec![Ok(4), Ok(16)], 2));
    }

    #[tokio::test]
    async fn one_type_that_nobody_knows_spoils_nothing_for_the_others() {
        let families = ["c5", "m5", "r5"];
        let known: Vec<String> = families
            .iter()
            .flat_map(|family| ["large", "xlarge", "2xlarge", "4xlarge"].map(|size| format!("{family}.{size}")))
            .collect();
        let names = known.iter().map(String::as_str).chain(["m5.xlrage", "no type"]);
        let sets: Vec<(&str, &str)> = names.map(|name| ("us-east-1", name)).collect();
        let (told, calls) = ask(&sets).await;
        let unknown = |name: &str| Err(format!("instance type {name:?} is unknown in us-east-1"));
        let wanted = families.iter().flat_map(|_| [2, 4, 8, 16].map(Ok));
        assert_eq!(told, wanted.chain([unknown("m5.xlrage"), unknown("no type")]).collect::<Vec<_>>());
        assert!(calls < known.len(), "{calls} questions");
    }

    #[tokio::test]
    async fn nothing_is_asked_where_nothing_is_on_ec2() {
        let answers = Answers::to(&[], &Clock::system()).await;
        assert!(answers.0.is_empty());
    }
}
