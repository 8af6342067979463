use std::collections::BTreeMap;
use std::time::Duration;

use cloudstack::limits::Limits;
use cloudstack::net::{Client, CloudStacks, Meter, Options, Timing};
use cloudstack::port::CloudStack as _;
use cloudstack::port::{
    Deploy, MachineQuery, Network, NetworkQuery, OfferingQuery, Owner, Pick, ServiceOffering, Template, TemplateQuery,
    Zone,
};
use cloudstack::profile::Profile;
use ipnet::IpNet;
use kit::clock::Clock;
use sim::cloudstack::{Handle, start};

pub async fn world() -> Handle {
    let mut options = sim::cloudstack::Options::default();
    let delays = &mut options.settings.delays;
    for delay in [&mut delays.deploy, &mut delays.power, &mut delays.expunge, &mut delays.other] {
        *delay = Duration::from_millis(20);
    }
    start(options).await.unwrap()
}

/// Options that let clients reach this machine, without pauses worth mentioning.
pub fn options() -> Options {
    let mut options = Options::new("berth/0");
    options.policy = options.policy.admit(["127.0.0.0/8".parse::<IpNet>().unwrap()]);
    options.limits = Limits::UNLIMITED;
    options.timing = Timing { pauses: [Duration::from_millis(1); 3], ..Timing::default() };
    options
}

pub fn secret(url: &str, key: &str, secret: &str) -> BTreeMap<String, Vec<u8>> {
    [("api-url", url), ("api-key", key), ("secret-key", secret)]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .collect()
}

pub fn client_with(options: Options, data: &BTreeMap<String, Vec<u8>>) -> Client {
    let profile = Profile::from_secret(data, &options.policy).unwrap();
    CloudStacks::new(options, Clock::system(), Meter::default()).client(&profile).unwrap()
}

pub fn client(sim: &Handle) -> Client {
    client_with(options(), &secret(&sim.endpoint, &sim.api_key, &sim.secret_key))
}

pub fn client_as(sim: &Handle, account: &str) -> Client {
    let (key, word) = sim.key_of(account).unwrap();
    client_with(options(), &secret(&sim.endpoint, &key, &word))
}

/// What a machine needs, by the names the simulator begins with.
pub struct Ground {
    pub zone: Zone,
    pub network: Network,
    pub template: Template,
    pub offering: ServiceOffering,
}

pub fn named<I>(name: &str) -> Option<Pick<I>> {
    Some(Pick::Name(name.to_owned()))
}

pub async fn ground(client: &Client) -> Ground {
    let zone = client.list_zones(named("zone-1").as_ref()).await.unwrap().remove(0);
    let networks = NetworkQuery { zone: Some(zone.id.clone()), owner: Owner::default(), pick: named("shared") };
    let templates = TemplateQuery { zone: zone.id.clone(), owner: Owner::default(), pick: named("kube-1.31") };
    let offerings = OfferingQuery { zone: Some(zone.id.clone()), pick: named("Medium Instance") };
    Ground {
        network: client.list_networks(&networks).await.unwrap().remove(0),
        template: client.list_templates(&templates).await.unwrap().remove(0),
        offering: client.list_service_offerings(&offerings).await.unwrap().remove(0),
        zone,
    }
}

pub fn deploy(ground: &Ground, name: &str) -> Deploy {
    Deploy {
        name: name.to_owned(),
        zone: ground.zone.id.clone(),
        offering: ground.offering.id.clone(),
        template: ground.template.id.clone(),
        networks: vec![ground.network.id.clone()],
        disk: None,
        affinity_groups: Vec::new(),
        owner: Owner::default(),
        user_data: None,
        start: true,
    }
}

pub fn by_name(name: &str) -> MachineQuery {
    MachineQuery { pick: named(name), ..MachineQuery::default() }
}
