use serde_json::json;

use super::super::pools::pools;
use super::*;

fn texts(pairs: &[(&str, &str)]) -> Texts {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

struct Scene {
    machine: (Texts, Texts),
    metal: (Texts, Texts),
    host: (Texts, Texts),
    nics: Vec<HostNic>,
    boot: Option<&'static str>,
    addresses: Addresses,
}

impl Scene {
    fn new() -> Self {
        let nic = |name: &str, mac: &str| HostNic { name: Some(name.into()), mac: Some(mac.into()), ip: None };
        let address = |address: &str, prefix, gateway: &str, dns: &[&str]| PoolAddress {
            address: address.into(),
            prefix,
            gateway: gateway.into(),
            dns: dns.iter().map(|server| (*server).into()).collect(),
        };
        Self {
            machine: (texts(&[("role", "worker")]), texts(&[("rack", "r7"), ("pool", "annotated")])),
            metal: (texts(&[("m", "l")]), texts(&[("m", "a")])),
            host: (texts(&[("zone", "z1")]), texts(&[("mac", "52-54-00-AA-BB-0F")])),
            nics: vec![nic("eth0", "52:54:00:00:00:01"), nic("eth1", "52:54:00:00:00:02")],
            boot: Some("52:54:00:00:00:01"),
            addresses: Addresses::from([
                ("four".into(), address("192.168.0.14", 24, "192.168.0.1", &["8.8.8.8", "8.8.4.4"])),
                ("six".into(), address("2001:db8::e", 64, "2001:db8::1", &["2001:db8::53"])),
                ("annotated".into(), address("10.0.0.5", 16, "10.0.0.1", &[])),
            ]),
        }
    }

    fn objects(&self) -> Objects<'_> {
        fn named<'a>(name: &'a str, of: &'a (Texts, Texts)) -> Named<'a> {
            Named { name, labels: &of.0, annotations: &of.1 }
        }
        Objects {
            namespace: "team",
            machine: named("md-0-abc", &self.machine),
            metal3machine: named("md-0-abc-m3m", &self.metal),
            host: HostView { named: named("host-3", &self.host), nics: &self.nics, boot_mac: self.boot },
            claim: "md-0-abc-m3m",
        }
    }

    fn render(&self, spec: Value) -> Result<Documents, Fault> {
        render(&serde_json::from_value(spec).unwrap(), 4, &self.objects(), &self.addresses)
    }

    fn meta(&self, meta: Value) -> Result<Value, Fault> {
        let documents = self.render(json!({ "metaData": meta }))?;
        Ok(serde_json::from_str(&documents.meta.unwrap()).unwrap())
    }

    fn fault(&self, network: Value) -> String {
        self.render(json!({ "networkData": network })).unwrap_err().to_string()
    }
}

/// Every source of metadata, and every form of links, networks, routes and services.
fn whole() -> Value {
    json!({
        "clusterName": "c1",
        "metaData": {
            "strings": [{"key": "abc", "value": "def"}, {"key": "quoted", "value": "yes: \"no\""}],
            "objectNames": [
                {"key": "name_m3m", "object": "metal3machine"}, {"key": "name_machine", "object": "machine"},
                {"key": "name_bmh", "object": "baremetalhost"},
            ],
            "indexes": [{"key": "index", "offset": 10, "step": 3, "prefix": "node-", "suffix": "-x"}, {"key": "plain"}],
            "ipAddressesFromPool": [{"key": "ip", "name": "four"}],
            "prefixesFromPool": [{"key": "prefix", "name": "four"}],
            "gatewaysFromPool": [{"key": "gateway", "name": "six"}],
            "dnsServersFromPool": [{"key": "dns", "name": "four"}],
            "fromHostInterfaces": [{"key": "mac", "interface": "eth1"}, {"key": "boot", "fromBootMAC": true}],
            "fromLabels": [
                {"key": "label_machine", "object": "machine", "label": "role"},
                {"key": "label_bmh", "object": "baremetalhost", "label": "zone"},
                {"key": "label_none", "object": "metal3machine", "label": "absent"},
            ],
            "fromAnnotations": [{"key": "rack", "object": "machine", "annotation": "rack"}],
            "namespaces": [{"key": "namespace"}],
        },
        "networkData": {
            "links": {
                "ethernets": [
                    {"type": "phy", "id": "enp1s0", "mtu": 1500, "macAddress": {"fromHostInterface": "eth0"}},
                    {"type": "phy", "id": "enp2s0", "name": "lan0", "macAddress": {"string": "52:54:00:00:00:aa"}},
                ],
                "bonds": [{
                    "id": "bond0", "mtu": 9000, "bondMode": "802.3ad", "bondXmitHashPolicy": "layer3+4",
                    "bondLinks": ["enp1s0", "enp2s0"], "macAddress": {"fromHostInterface": "eth1"},
                    "parameters": [{"name": "miimon", "value": 100}, {"name": "lacp_rate", "value": "fast"}],
                }],
                "vlans": [{
                    "id": "vlan1", "vlanID": 1, "vlanLink": "bond0", "mtu": 1400,
                    "macAddress": {"fromAnnotation": {"object": "baremetalhost", "annotation": "mac"}},
                }],
            },
            "networks": {
                "ipv4": [
                    {
                        "id": "lan", "link": "vlan1", "ipAddressFromIPPool": "four",
                        "routes": [{
                            "network": "0.0.0.0", "prefix": 0, "gateway": {"fromIPPool": "four"},
                            "services": {"dns": ["9.9.9.9"], "dnsFromIPPool": "four"},
                        }],
                    },
                    {
                        "id": "annotated", "link": "bond0",
                        "fromPoolAnnotation": {"object": "machine", "annotation": "pool"},
                        "routes": [{
                            "network": "10.0.0.0", "prefix": 8,
                            "gateway": {"fromPoolAnnotation": {"object": "machine", "annotation": "pool"}},
                        }],
                    },
                ],
                "ipv6": [{
                    "id": "lan6", "link": "vlan1",
                    "fromPoolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "six"},
                    "routes": [{
                        "network": "::", "prefix": 0,
                        "gateway": {"fromPoolRef": {"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "six"}},
                    }],
                }],
                "ipv4DHCP": [{
                    "id": "dhcp", "link": "enp1s0",
                    "routes": [{"network": "172.16.0.0", "prefix": 12, "gateway": {"string": "172.16.0.1"}}],
                }],
                "ipv6DHCP": [{"id": "dhcp6", "link": "enp1s0"}],
                "ipv6SLAAC": [{"id": "slaac", "link": "enp2s0"}],
            },
            "services": {"dns": ["1.1.1.1"]},
        },
    })
}

#[test]
fn a_template_with_everything_renders_to_these_very_bytes() {
    let mut spec = whole();
    // One name stands for one kind of pool.
    spec["metaData"]["gatewaysFromPool"] = json!([
        {"key": "gateway", "name": "six", "apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool"}
    ]);
    let scene = Scene::new();
    let documents = scene.render(spec.clone()).unwrap();
    assert_eq!(documents.meta.as_deref(), Some(include_str!("golden/metadata.json")));
    assert_eq!(documents.network.as_deref(), Some(include_str!("golden/networkdata.json")));
    assert_eq!(scene.render(spec.clone()).unwrap(), documents);
    let wanted = pools(&serde_json::from_value(spec).unwrap(), Some(&scene.objects())).unwrap();
    let kinds: Vec<(&str, bool)> = wanted.iter().map(|(name, kind)| (&**name, kind.is_metal3())).collect();
    assert_eq!(kinds, [("annotated", true), ("four", true), ("six", false)]);
}

#[test]
fn one_name_for_two_kinds_of_pools_is_refused() {
    let spec = serde_json::from_value(whole()).unwrap();
    let fault = pools(&spec, None).unwrap_err();
    assert_eq!(fault.to_string(), "multiple references with the same name but different resource types: six");
}

#[test]
fn what_is_absent_renders_nothing_and_an_empty_template_still_names_the_machine() {
    let scene = Scene::new();
    assert_eq!(scene.render(json!({})).unwrap(), Documents::default());
    assert_eq!(scene.meta(json!({})).unwrap(), json!({"providerid": "team/md-0-abc-m3m/md-0-abc-m3m"}));
    let documents = scene.render(json!({"networkData": {}})).unwrap();
    let network: Value = serde_json::from_str(&documents.network.unwrap()).unwrap();
    assert_eq!(network, json!({"links": [], "networks": [], "services": []}));
}

#[test]
fn the_provider_id_cannot_be_overruled_by_a_template() {
    let meta = Scene::new().meta(json!({"strings": [{"key": "providerid", "value": "mine"}]})).unwrap();
    assert_eq!(meta["providerid"], "team/md-0-abc-m3m/md-0-abc-m3m");
}

#[test]
fn what_a_host_does_not_have_is_told_as_metal3_tells_it() {
    let mut scene = Scene::new();
    let nic = |name: &str| json!({"fromHostInterfaces": [{"key": "k", "interface": name}]});
    assert_eq!(scene.meta(nic("eth9")), Err(Fault::UnknownNic("eth9".to_owned())));
    assert_eq!(scene.meta(nic("eth9")).unwrap_err().to_string(), "NIC name not found eth9");
    assert_eq!(
        scene.meta(json!({"objectNames": [{"key": "k", "object": "cluster"}]})).unwrap_err().to_string(),
        "Unknown object type cluster"
    );
    scene.nics.clear();
    scene.boot = None;
    assert_eq!(scene.meta(nic("eth0")).unwrap_err().to_string(), "NICs list not populated");
    assert_eq!(scene.meta(json!({"fromHostInterfaces": [{"key": "k", "fromBootMAC": true}]})), Err(Fault::NoBootMac));
}

#[test]
fn what_is_wrong_with_networks_is_told_by_name() {
    let scene = Scene::new();
    let link = |mac: Value| json!({"links": {"ethernets": [{"type": "phy", "id": "e", "macAddress": mac}]}});
    assert_eq!(scene.fault(link(json!({}))), "no MAC address given for link e");
    assert_eq!(scene.fault(link(json!({"string": "52:54:00"}))), "bad MAC address: 52:54:00");
    assert_eq!(
        scene.fault(link(json!({"fromAnnotation": {"object": "machine", "annotation": "no"}}))),
        "bad MAC address: "
    );
    let bond = json!({"links": {"bonds": [{"id": "b", "bondMode": "balance-rr", "macAddress": {"string": "52:54:00:00:00:01"},
        "parameters": [{"name": "mode", "value": 1}, {"name": "links", "value": []}]}]}});
    assert_eq!(scene.fault(bond), "illegal params \"mode\", \"links\" into bond params blob into link id=b");
    let network = |more: Value| {
        let mut net = json!({"id": "n", "link": "e"});
        net.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"networks": {"ipv4": [net]}})
    };
    assert_eq!(scene.fault(network(json!({}))), "Pool not found in cache: network n");
    assert_eq!(scene.fault(network(json!({"ipAddressFromIPPool": "other"}))), "Pool not found in cache: other");
    let annotated = network(json!({"fromPoolAnnotation": {"object": "machine", "annotation": "none"}}));
    assert_eq!(scene.fault(annotated), "annotation none not found or empty on machine");
    let long = network(json!({"ipAddressFromIPPool": "six"}));
    assert_eq!(scene.fault(long), "prefix 64 is too long for n");
}

#[test]
fn numbers_do_not_overflow() {
    let meta = json!({"indexes": [{"key": "k", "offset": i32::MAX, "step": i32::MAX}]});
    let spec = serde_json::from_value(json!({ "metaData": meta })).unwrap();
    let scene = Scene::new();
    let documents = render(&spec, i32::MAX, &scene.objects(), &scene.addresses).unwrap();
    assert!(documents.meta.unwrap().contains("4611686016279904256"));
}

proptest::proptest! {
    /// Whatever stands in labels and annotations, the documents are read back as they were meant.
    #[test]
    fn any_text_survives(text in "\\PC{0,40}") {
        let mut scene = Scene::new();
        scene.machine.0.insert("any".to_owned(), text.clone());
        let meta = scene.meta(json!({"fromLabels": [{"key": "k", "object": "Machine", "label": "any"}]})).unwrap();
        proptest::prop_assert_eq!(meta["k"].as_str(), Some(text.as_str()));
    }
}
