//! What is said of things that CloudStack has otherwise than somebody wrote, word by word, and how often.

use std::time::Duration;

use clusters::config::TemplateCheck;
use serde_json::{Value, json};
use sim::server::Server;

use crate::site::*;

fn id(site: &Site, what: &str) -> String {
    site.acs.with(|world, _| match what {
        "zone" => world.zones.iter().find(|one| one.name == "zone-1").unwrap().id.clone(),
        "network" => world.networks.iter().find(|one| one.name == "shared").unwrap().id.clone(),
        "offering" => world.offerings.iter().find(|one| one.name == "Medium Instance").unwrap().id.clone(),
        template => world.templates.iter().find(|one| one.name == template).unwrap().id.clone(),
    })
}

fn message(server: &Server) -> String {
    let status = &server.get(DATACENTERS, NS, "dc").unwrap()["status"];
    status["failureMessage"].as_str().unwrap_or_default().to_owned()
}

/// A zone of a datacenter, with some fields otherwise.
fn zone(site: &Site, name: &str, fields: Value) -> Value {
    let mut zone = datacenter(site, "dc")["spec"]["availabilityZones"][0].clone();
    zone["name"] = json!(name);
    for (key, value) in fields.as_object().unwrap() {
        zone[key] = value.clone();
    }
    zone
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_a_zone_has_its_words() {
    let (server, site) = world();
    let (key, word) = site.acs.key_of("user").unwrap();
    server.put(secret("of-a-user", &site.acs.endpoint, &key, &word)).unwrap();
    site.acs.with(|world, _| {
        for _ in 0..2 {
            world.add_zone("twin", true);
            world.add_network("twin", "zone-1", "Shared", "admin");
        }
        world.add_domain("ROOT/closed");
        world.domains.last_mut().unwrap().state = "Inactive".to_owned();
    });
    let (first, shared) = (id(&site, "zone"), id(&site, "network"));
    let nobody = "00000000-0000-4000-8000-000000000000";
    let one = |fields: Value| vec![zone(&site, "az-1", fields)];
    let network = |network: Value| one(json!({"zone": {"name": "zone-1", "network": network}}));
    let is = |network: &str| json!({"name": "zone-2", "network": {"name": network}});
    let rows: Vec<(Vec<Value>, String)> = vec![
        (one(json!({"domain": "elsewhere/team"})), "found domains named team, none at path ROOT/elsewhere/team".into()),
        (one(json!({"domain": "nowhere"})), "domain \"nowhere\" not found".into()),
        (one(json!({"domain": "closed"})), "domain \"closed\" is Inactive".into()),
        (
            one(json!({"credentialsRef": "of-a-user", "domain": "tenant", "account": "user"})),
            "caller may not list domains and belongs to user@team".into(),
        ),
        (
            one(json!({"domain": "tenant", "account": "nobody"})),
            "account \"nobody\" not found in domain \"tenant\"".into(),
        ),
        (one(json!({"domain": "tenant", "account": "locked"})), "account \"locked\" is locked".into()),
        (
            one(json!({"zone": {"id": first, "name": "zone-2", "network": {"name": "shared"}}})),
            "zone name and id disagree".into(),
        ),
        (one(json!({"zone": {"id": nobody, "network": {"name": "shared"}}})), format!("zone \"{nobody}\" not found")),
        (
            one(json!({"zone": {"name": "twin", "network": {"name": "shared"}}})),
            "more than one zone named \"twin\", use id".into(),
        ),
        (network(json!({"name": "twin"})), "more than one network named \"twin\", use id".into()),
        (network(json!({"id": shared, "name": "isolated"})), "network name and id disagree".into()),
        (network(json!({"name": "none"})), "network \"none\" not found in zone \"zone-1\"".into()),
        (network(json!({"id": nobody})), format!("network \"{nobody}\" not found in zone \"zone-1\"")),
        // That of another zone.
        (
            one(json!({"zone": {"name": "zone-2", "network": {"id": shared}}})),
            format!("network \"{shared}\" not found in zone \"zone-2\""),
        ),
    ];
    let mut rows: Vec<(Vec<Value>, String)> =
        rows.into_iter().map(|(zones, said)| (zones, format!("availability zone \"az-1\": {said}"))).collect();
    rows.push((
        vec![zone(&site, "az-1", json!({})), zone(&site, "az-2", json!({"zone": is("isolated")}))],
        "availability zone \"az-2\": network must be Shared when several zones are used".into(),
    ));
    server.put(datacenter(&site, "dc")).unwrap();
    let _process = site.start(&server, site.config());
    for (zones, said) in rows {
        change(&server, DATACENTERS, "dc", |object| object["spec"]["availabilityZones"] = json!(zones));
        let told = server.wait_until(LIMIT, |server| message(server) == said).await;
        assert!(told, "{said}\n{}", message(&server));
    }
    // The only zone may have an isolated network.
    let alone = [zone(&site, "az-2", json!({"zone": is("isolated")}))];
    change(&server, DATACENTERS, "dc", |object| object["spec"]["availabilityZones"] = json!(alone));
    let valid = server.wait_until(LIMIT, |server| {
        let status = &server.get(DATACENTERS, NS, "dc").unwrap()["status"];
        status["specValid"] == true && status["availabilityZones"][0]["networkType"] == "Isolated"
    });
    assert!(valid.await, "{}", message(&server));
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_a_machine_configuration_has_its_words() {
    let (server, site) = world();
    site.acs.with(|world, _| {
        for _ in 0..2 {
            world.add_template("twin-1.31", true, true);
            world.add_offering("Twin Instance", Some((1, 500, 512)), json!({}));
        }
    });
    server.put(datacenter(&site, "dc")).unwrap();
    let (whole, loading, medium) = (id(&site, "kube-1.31"), id(&site, "kube-1.33-loading"), id(&site, "offering"));
    let nobody = "00000000-0000-4000-8000-000000000000";
    let disk = |name: &str, size: i64| {
        json!({"diskOffering": {"name": name, "customSizeInGB": size, "mountPath": "/data", "device": "/dev/vdb",
            "filesystem": "ext4", "label": "data"}})
    };
    let rows: Vec<(Value, String)> = vec![
        (json!({"template": {"id": loading}}), format!("template \"{loading}\" is not ready (17% Downloaded)")),
        (
            json!({"template": {"id": loading, "name": "kube-1.33-loading"}}),
            "template \"kube-1.33-loading\" is not ready (17% Downloaded)".into(),
        ),
        (json!({"template": {"name": "twin-1.31"}}), "more than one template named \"twin-1.31\", use id".into()),
        (json!({"template": {"id": whole, "name": "kube-1.30"}}), "template name and id disagree".into()),
        (json!({"template": {"name": "none-1.31"}}), "template \"none-1.31\" not found".into()),
        (json!({"template": {"id": nobody}}), format!("template \"{nobody}\" not found")),
        (
            json!({"computeOffering": {"name": "Twin Instance"}}),
            "compute offering \"Twin Instance\" is ambiguous, use id".into(),
        ),
        (
            json!({"computeOffering": {"id": medium, "name": "Large Instance"}}),
            "compute offering name and id disagree".into(),
        ),
        (disk("None", 0), "disk offering \"None\" not found".into()),
        (disk("Custom", 0), "size required for customized offering".into()),
        (disk("Small", 5), "size not allowed for fixed offering".into()),
        (json!({"affinityGroupIds": [nobody]}), format!("affinity group {nobody} not found")),
    ];
    server.put(machine("m", "kube-1.31", "Medium Instance")).unwrap();
    let _process = site.start(&server, site.config());
    for (number, (fields, said)) in rows.into_iter().enumerate() {
        change(&server, MACHINES, "m", |object| {
            object["spec"] = machine("m", "kube-1.31", "Medium Instance")["spec"].clone();
            for (key, value) in fields.as_object().unwrap() {
                object["spec"][key] = value.clone();
            }
        });
        if number == 0 {
            server.put(cluster("prod")).unwrap();
        }
        let said = format!("machine config m, availability zone \"az-1\": {said}");
        let told = server.wait_until(LIMIT, |server| failure(server, "prod").1 == said).await;
        assert!(told, "{said}\n{:?}", failure(&server, "prod"));
    }
    assert_eq!(generated(&server), Vec::<String>::new());
}

/// Another server knows other ids.
#[tokio::test(start_paused = true)]
async fn an_id_that_only_one_of_several_servers_knows_is_told_with_the_way_out() {
    let (server, site) = world();
    let elsewhere = "http://acs.example/client/api";
    server.put(secret("elsewhere", elsewhere, &site.acs.api_key, &site.acs.secret_key)).unwrap();
    let first = id(&site, "zone");
    let template = site.acs.with(|world, _| {
        let id = world.add_template("here-1.31", true, true);
        world.templates.last_mut().unwrap().zones = vec![first];
        id
    });
    let mut place = datacenter(&site, "dc");
    let there = json!({"name": "zone-2", "network": {"name": "shared"}});
    let other = json!({"credentialsRef": "elsewhere", "managementApiEndpoint": elsewhere, "zone": there});
    place["spec"]["availabilityZones"].as_array_mut().unwrap().push(zone(&site, "az-2", other));
    server.put(place).unwrap();
    let mut made = machine("m", "kube-1.31", "Medium Instance");
    made["spec"]["template"] = json!({"id": template});
    server.put(made).unwrap();
    server.put(cluster("prod")).unwrap();
    let _process = site.start(&server, site.config());
    let said = format!(
        "machine config m, availability zone \"az-2\": template \"{template}\" not found (ids differ between endpoints, use a name)"
    );
    assert_eq!(fails(&server, "prod", "MachineConfigInvalid").await, said);
    change(&server, MACHINES, "m", |object| object["spec"]["template"] = json!({"name": "kube-1.31"}));
    ready(&server, "prod").await;
}

#[tokio::test(start_paused = true)]
async fn ids_do_for_zones_networks_templates_and_offerings() {
    let (server, site) = world();
    apply(&server, &site);
    let (here, shared, template, offering) =
        (id(&site, "zone"), id(&site, "network"), id(&site, "kube-1.31"), id(&site, "offering"));
    change(&server, DATACENTERS, "dc", |object| {
        object["spec"]["availabilityZones"][0]["zone"] = json!({"id": here, "network": {"id": shared}});
    });
    change(&server, MACHINES, "m", |object| {
        object["spec"]["template"] = json!({"id": template});
        object["spec"]["computeOffering"] = json!({"id": offering, "name": "Medium Instance"});
    });
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let resolved = &server.get(DATACENTERS, NS, "dc").unwrap()["status"]["availabilityZones"][0];
    assert_eq!((&resolved["zoneID"], &resolved["networkID"]), (&json!(here), &json!(shared)));
    let provider = &server.get(PROVIDER, SYSTEM, "prod").unwrap()["spec"]["failureDomains"][0]["zone"];
    assert_eq!(*provider, json!({"id": here, "network": {"id": shared, "name": ""}}), "as it was written");
    for made in server.list(TEMPLATES, SYSTEM) {
        let spec = &made["spec"]["template"]["spec"];
        assert_eq!(spec["template"], json!({"id": template}));
        assert_eq!(spec["offering"], json!({"id": offering, "name": "Medium Instance"}));
    }
    // Which version is in it is read from the name behind the id.
    let newer = id(&site, "kube-1.32");
    change(&server, MACHINES, "m", |object| object["spec"]["template"] = json!({"id": newer}));
    let said = "machine config m: template \"kube-1.32\" does not name Kubernetes 1.31";
    assert_eq!(fails(&server, "prod", "MachineConfigInvalid").await, said);
}

#[tokio::test(start_paused = true)]
async fn a_broken_secret_concerns_its_own_zones_and_is_mended_by_itself() {
    let (server, site) = world();
    let (key, word) = site.acs.key_of("tenant-admin").unwrap();
    server.put(secret("a", &site.acs.endpoint, &site.acs.api_key, &site.acs.secret_key)).unwrap();
    server.put(secret("b", &site.acs.endpoint, &key, &word)).unwrap();
    apply(&server, &site);
    let second = json!({"credentialsRef": "b", "domain": "tenant", "account": "tenant-admin",
        "zone": {"name": "zone-2", "network": {"name": "shared"}}});
    change(&server, DATACENTERS, "dc", |object| {
        object["spec"]["availabilityZones"] =
            json!([zone(&site, "az-1", json!({"credentialsRef": "a"})), zone(&site, "az-2", second)]);
    });
    let _process = site.start(&server, site.config());
    ready(&server, "prod").await;
    let look = |server: &Server| server.get(DATACENTERS, NS, "dc").unwrap();
    let invalid = |server: &Server| {
        found(&look(server), "CredentialsValid").0 == "False" && look(server)["status"]["specValid"] == false
    };
    let mended = |server: &Server| found(&look(server), "CredentialsValid").0 == "True";
    // Keys that the server does not take any more.
    site.acs.rotate("tenant-admin", "canary-key", "canary-secret");
    assert!(server.wait_until(LIMIT, invalid).await, "{:#}", look(&server)["status"]);
    let said = message(&server);
    assert!(said.starts_with("availability zone \"az-2\": the keys of secret b are refused: "), "{said}");
    assert!(!said.contains("az-1") && !said.contains("secret a") && !said.contains("canary"), "{said}");
    server.put(secret("b", &site.acs.endpoint, "canary-key", "canary-secret")).unwrap();
    assert!(server.wait_until(Duration::from_secs(5), mended).await, "{:#}", look(&server)["status"]);
    assert_eq!(message(&server), "");
    // A secret that is not there, and one that is none.
    for (broken, said) in [
        (None, "secret eksa-system/b not found (availability zone az-2)"),
        (Some(""), "secret eksa-system/b: key secret-key empty"),
    ] {
        match broken {
            None => drop(server.delete("secrets", SYSTEM, "b")),
            Some(word) => drop(server.put(secret("b", &site.acs.endpoint, "canary-key", word)).unwrap()),
        }
        let told = server.wait_until(Duration::from_secs(5), |server| message(server) == said).await;
        assert!(told && invalid(&server), "{said}: {:#}", look(&server)["status"]);
        server.put(secret("b", &site.acs.endpoint, "canary-key", "canary-secret")).unwrap();
        assert!(server.wait_until(Duration::from_secs(5), mended).await, "{:#}", look(&server)["status"]);
    }
    ready(&server, "prod").await;
    let asked: Vec<String> =
        site.acs.log().into_iter().filter(|entry| entry.status == 401).map(|entry| entry.caller).collect();
    assert!(!asked.is_empty(), "the server was asked with the old keys");
}

/// What is said on a cluster, and how often.
fn said(server: &Server, reason: &str) -> Vec<(String, i64)> {
    let all = server.list(EVENTS, NS);
    let all = all.iter().filter(|event| event["regarding"]["name"] == "prod" && event["reason"] == reason);
    all.map(|event| (event["note"].as_str().unwrap().to_owned(), event["series"]["count"].as_i64().unwrap_or(1)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_template_of_another_version_is_told_once_or_not_at_all_when_that_is_chosen() {
    let warned = "machine config m: template \"kube-1.32\" does not name Kubernetes 1.31".to_owned();
    for (check, expected) in [(TemplateCheck::Warn, vec![(warned, 1)]), (TemplateCheck::Off, vec![])] {
        let (server, site) = world();
        apply(&server, &site);
        change(&server, MACHINES, "m", |object| object["spec"]["template"] = json!({"name": "kube-1.32"}));
        let mut config = site.config();
        config.template_check = check;
        let _process = site.start(&server, config);
        ready(&server, "prod").await;
        pass(60).await;
        assert_eq!(said(&server, "ValidationFailed"), expected, "{check:?}");
        assert_eq!(failure(&server, "prod"), Default::default());
        let offer = |name: &str| {
            change(&server, MACHINES, "m", |object| object["spec"]["template"] = json!({"name": name}));
        };
        // Other changes are no news of it.
        change(&server, CLUSTERS, "prod", |object| {
            object["spec"]["workerNodeGroupConfigurations"][0]["count"] = json!(3);
        });
        ready(&server, "prod").await;
        pass(60).await;
        assert_eq!(said(&server, "ValidationFailed"), expected, "{check:?}");
        // What was put right and goes wrong again is told again.
        offer("kube-1.31");
        pass(900).await;
        ready(&server, "prod").await;
        offer("kube-1.32");
        pass(900).await;
        ready(&server, "prod").await;
        let times: i64 = said(&server, "ValidationFailed").iter().map(|(_, times)| times).sum();
        assert_eq!(times, 2 * i64::try_from(expected.len()).unwrap(), "{check:?}");
    }
}
