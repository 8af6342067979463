//! What is listed, how, and how long lists end.

use std::collections::BTreeSet;

use cloudstack::errors::{Cause, Kind, PagingError};
use cloudstack::port::{
    AccountQuery, AccountState, AffinityGroupQuery, AllocationState, CloudStack, NetworkQuery, NetworkType,
    OfferingQuery, Owner, Pick, TemplateQuery, ZoneId,
};
use futures::future::join_all;
use sim::cloudstack::world::faults::{Fault, What};
use sim::cloudstack::world::things::Role;

use crate::support::{client, client_as, client_with, ground, named, options, secret, world};

#[tokio::test]
async fn zones_are_found_by_name_and_by_id_and_an_unknown_id_is_not_found() {
    let sim = world().await;
    let client = client(&sim);
    assert_eq!(client.list_capabilities().await.unwrap().version.as_deref(), Some("4.20.3.1"));
    let all = client.list_zones(None).await.unwrap();
    assert_eq!(all.iter().map(|zone| zone.name.as_str()).collect::<Vec<_>>(), ["zone-1", "zone-2", "zone-off"]);
    assert_eq!(all[2].allocation, Some(AllocationState::Disabled));
    let by_id = client.list_zones(Some(&Pick::Id(all[1].id.clone()))).await.unwrap();
    assert_eq!(by_id, [all[1].clone()]);
    assert!(client.list_zones(named("zone").as_ref()).await.unwrap().is_empty(), "a part of a name is not the name");
    let unknown: ZoneId = "00000000-0000-0000-0000-000000000000".parse().unwrap();
    let error = client.list_zones(Some(&Pick::Id(unknown))).await.unwrap_err();
    assert_eq!((error.kind(), error.is_definitive()), (Kind::NotFound, true));
    assert_eq!(sim.calls("listZones"), 4, "what is definitive is not asked again");
}

#[tokio::test]
async fn every_name_survives_the_way_through_signature_and_form() {
    let sim = world().await;
    let client = client(&sim);
    for name in ["a b", "a+b", "a*b", "a~b", "ümläut ß", "a&b=c", "50% (x)", "日本", "a%20b", "'\"<>"] {
        sim.with(|world, _| world.add_zone(name, true));
        let found = client.list_zones(named(name).as_ref()).await.unwrap();
        assert_eq!(found.iter().map(|zone| zone.name.as_str()).collect::<Vec<_>>(), [name]);
        let mut get = options();
        get.use_get = true;
        let other = client_with(get, &secret(&sim.endpoint, &sim.api_key, &sim.secret_key));
        assert_eq!(other.list_zones(named(name).as_ref()).await.unwrap().len(), 1, "GET {name}");
    }
    let log = sim.log();
    assert!(log.iter().all(|entry| entry.status == 200));
    let methods: BTreeSet<&str> = log.iter().map(|entry| entry.method.as_str()).collect();
    assert_eq!(methods, BTreeSet::from(["GET", "POST"]));
}

#[tokio::test]
async fn domains_accounts_and_users_are_told_apart_by_role() {
    let sim = world().await;
    sim.with(|world, _| world.add_domain("ROOT/other/tenant"));
    let admin = client(&sim);
    let domains = admin.list_domains(Some("tenant")).await.unwrap();
    let paths: Vec<Option<&str>> = domains.iter().map(|domain| domain.path.as_deref()).collect();
    assert_eq!(paths, [Some("ROOT/tenant"), Some("ROOT/other/tenant")]);
    let query = AccountQuery { name: Some("locked".to_owned()), domain: Some(domains[0].id.clone()) };
    let accounts = admin.list_accounts(&query).await.unwrap();
    assert_eq!((accounts.len(), &accounts[0].state), (1, &Some(AccountState::Locked)));
    let caller = admin.caller().await.unwrap();
    assert_eq!((caller.account.as_str(), caller.domain.as_deref()), ("admin", Some("ROOT")));
    let user = client_as(&sim, "user");
    for error in [user.list_domains(Some("team")).await.unwrap_err(), user.caller().await.unwrap_err()] {
        assert_eq!((error.kind(), error.is_definitive()), (Kind::NotPermitted, true), "{error:?}");
    }
    let users = user.list_users().await.unwrap();
    assert_eq!((users.len(), users[0].account.as_str(), users[0].domain.as_deref()), (1, "user", Some("team")));
    let tenant = client_as(&sim, "tenant-admin");
    assert_eq!(tenant.list_domains(Some("team")).await.unwrap().len(), 1);
    assert!(tenant.list_domains(Some("ROOT")).await.unwrap().is_empty());
    let foreign = NetworkQuery {
        owner: Owner { domain: Some(domains[1].id.clone()), ..Owner::default() },
        ..NetworkQuery::default()
    };
    assert_eq!(tenant.list_networks(&foreign).await.unwrap_err().kind(), Kind::NotPermitted);
}

#[tokio::test]
async fn networks_are_found_by_exactly_their_name_within_zone_and_owner() {
    let sim = world().await;
    sim.with(|world, _| {
        world.add_network("shared-backup", "zone-1", "Shared", "admin");
        world.add_network("own", "zone-1", "Isolated", "user");
    });
    let admin = client(&sim);
    let zone = admin.list_zones(named("zone-1").as_ref()).await.unwrap().remove(0);
    let query = |name: &str| NetworkQuery { zone: Some(zone.id.clone()), pick: named(name), ..NetworkQuery::default() };
    let found = admin.list_networks(&query("shared")).await.unwrap();
    assert_eq!((found.len(), &found[0].kind, &found[0].zone), (1, &Some(NetworkType::Shared), &Some(zone.id.clone())));
    assert!(admin.list_networks(&query("own")).await.unwrap().is_empty(), "of somebody else");
    let domain = admin.list_domains(Some("team")).await.unwrap().remove(0);
    let owner = Owner { domain: Some(domain.id), account: Some("user".to_owned()), project: None };
    let owned = NetworkQuery { owner, ..query("own") };
    assert_eq!(admin.list_networks(&owned).await.unwrap().len(), 1);
    assert_eq!(client_as(&sim, "user").list_networks(&query("own")).await.unwrap().len(), 1);
    let by_id = NetworkQuery { pick: Some(Pick::Id(found[0].id.clone())), ..NetworkQuery::default() };
    assert_eq!(admin.list_networks(&by_id).await.unwrap(), found);
}

#[tokio::test]
async fn templates_and_offerings_are_what_a_machine_can_be_made_of() {
    let sim = world().await;
    let user = client_as(&sim, "user");
    let ground = ground(&user).await;
    let templates = |pick| TemplateQuery { zone: ground.zone.id.clone(), owner: Owner::default(), pick };
    let names: Vec<String> = {
        let found = user.list_templates(&templates(None)).await.unwrap();
        assert!(found.iter().all(|template| template.ready && template.zone.as_ref() == Some(&ground.zone.id)));
        found.into_iter().map(|template| template.name).collect()
    };
    assert_eq!(names, ["kube-1.30", "kube-1.31", "kube-1.32"], "neither what is private nor what is loading");
    let loading = sim.with(|world, _| world.templates.iter().find(|one| !one.ready).unwrap().id.clone());
    let found = user.list_templates(&templates(Some(Pick::Id(loading.parse().unwrap())))).await.unwrap();
    assert_eq!((found[0].ready, found[0].status.as_deref()), (false, Some("17% Downloaded")));
    assert_eq!((ground.offering.cpus, ground.offering.memory_mib), (Some(2), Some(4096)));
    let custom = OfferingQuery { zone: Some(ground.zone.id.clone()), pick: named("Custom") };
    let disks = user.list_disk_offerings(&custom).await.unwrap();
    assert_eq!((disks.len(), disks[0].customized, disks[0].size_gb), (1, true, None));
    let fixed = OfferingQuery { zone: None, pick: named("Small") };
    let disks = user.list_disk_offerings(&fixed).await.unwrap();
    assert_eq!((disks[0].customized, disks[0].size_gb), (false, Some(5)));
    assert!(user.list_affinity_groups(&AffinityGroupQuery::default()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_list_of_many_pages_is_read_whole_and_once() {
    let sim = world().await;
    sim.with(|world, _| {
        for n in 0..1200 {
            world.add_zone(&format!("z{n}"), true);
        }
    });
    let client = client(&sim);
    let zones = client.list_zones(None).await.unwrap();
    let ids: BTreeSet<String> = zones.iter().map(|zone| zone.id.to_string()).collect();
    assert_eq!((zones.len(), ids.len(), sim.calls("listZones")), (1203, 1203, 3));
    sim.clear_log();
    sim.script(Fault::on("listZones", What::NoCount).forever());
    assert_eq!(client.list_zones(None).await.unwrap().len(), 1203);
    assert_eq!(sim.calls("listZones"), 3);
    sim.clear_script();
    sim.script(Fault::on("listZones", What::RepeatPage).forever());
    let error = client.list_zones(None).await.unwrap_err();
    assert_eq!(error.cause(), &Cause::Paging(PagingError::Loop));
}

#[tokio::test]
async fn a_server_with_smaller_pages_gets_smaller_pages() {
    let sim = world().await;
    sim.with(|world, _| {
        for n in 0..200 {
            world.add_zone(&format!("z{n}"), true);
        }
        world.settings.page_limit = 100;
    });
    let client = client(&sim);
    assert_eq!(client.list_zones(None).await.unwrap().len(), 203);
    let sizes: Vec<String> =
        sim.log().iter().map(|entry| entry.parameters.get("pagesize").cloned().unwrap_or_default()).collect();
    assert_eq!(sizes, ["500", "250", "125", "62", "62", "62", "62"]);
    sim.settings(|settings| settings.page_limit = 10);
    let error = client.list_zones(None).await.unwrap_err();
    assert_eq!(error.cause(), &Cause::Paging(PagingError::TooSmall));
}

#[tokio::test]
async fn who_asks_the_same_at_the_same_time_shares_one_request_and_others_do_not() {
    let sim = world().await;
    sim.with(|world, _| world.add_account("second", "ROOT", Role::Admin, "second-key", "second-secret"));
    let everybody =
        cloudstack::net::CloudStacks::new(options(), kit::clock::Clock::system(), cloudstack::net::Meter::default());
    let profile = |key: &str, word: &str| {
        cloudstack::profile::Profile::from_secret(&secret(&sim.endpoint, key, word), everybody.policy()).unwrap()
    };
    let clients: Vec<_> = (0..20)
        .map(|_| everybody.client(&profile(&sim.api_key, &sim.secret_key)).unwrap())
        .chain((0..20).map(|_| everybody.client(&profile("second-key", "second-secret")).unwrap()))
        .collect();
    sim.script(Fault::on("listZones", What::Delay(std::time::Duration::from_millis(300))).forever());
    let answers = join_all(clients.iter().map(|client| client.list_zones(None))).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|zones| zones.len() == 3)));
    assert_eq!(sim.calls("listZones"), 2, "one for each user");
    sim.clear_script();
    let wrong = everybody.client(&profile(&sim.api_key, "wrong")).unwrap();
    assert_eq!(wrong.list_zones(None).await.unwrap_err().kind(), Kind::Credentials, "no answer of somebody else's");
}

#[tokio::test]
async fn no_more_than_four_requests_are_under_way_at_one_server() {
    let sim = world().await;
    let client = client(&sim);
    sim.script(Fault::on("listZones", What::Delay(std::time::Duration::from_millis(100))).forever());
    let begin = kit::clock::Clock::system().instant();
    let names: Vec<_> = (0..12).map(|n| Pick::Name(format!("z{n}"))).collect();
    let answers = join_all(names.iter().map(|name| client.list_zones(Some(name)))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert!(begin.elapsed() >= std::time::Duration::from_millis(300), "twelve in fours: {:?}", begin.elapsed());
}
