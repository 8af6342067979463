//! The rules of datacenters and machine configurations.

use super::*;

/// Fields and what is told of them.
type Told<'t> = Vec<(&'t str, &'t str)>;

/// MC8: every detail that CloudStack and its provider set themselves.
const RESTRICTED: &str = "
    keyboard cpu.corespersocket rootdisksize boot.mode nameonhypervisor nicAdapter rootDiskController
    dataDiskController svga.vramSize nestedVirtualizationFlag ramReservation hypervisortoolsversion platform timeoffset
    kvm.vnc.port kvm.vnc.address video.hardware video.ram smc.present firmware cpuNumber cpuSpeed memory
    cpuOvercommitRatio memoryOvercommitRatio Message.ReservedCapacityFreed.Flag deployvm SSH.PublicKey
    SSH.KeyPairNames password Encrypted.Password configDriveLocation nic network ip4Address ip6Address disk
    diskOffering configurationId keypairnames controlNodeLoginUser";

pub(super) fn zone(name: &str) -> Value {
    json!({"name": name, "credentialsRef": "global", "domain": "d1", "account": "admin",
        "zone": {"name": "z", "network": {"name": "n"}}, "managementApiEndpoint": "https://cs.example/client/api"})
}

pub(super) fn datacenter(zones: &[Value]) -> CloudStackDatacenterConfig {
    CloudStackDatacenterConfig::new("dc", serde_json::from_value(json!({"availabilityZones": zones})).unwrap())
}

#[test]
fn a_datacenter_written_in_the_older_way_is_stored_in_the_newer_one() {
    let legacy = json!({"domain": "d1", "account": "admin", "managementApiEndpoint": "https://cs.example/client/api",
        "zones": [{"name": "z", "network": {"name": "n"}}, {"id": "2", "network": {"id": "3"}}]});
    let mut spec = serde_json::from_value(legacy).unwrap();
    default_datacenter(&mut spec);
    let second =
        merged(zone("default-az-1"), &json!({"zone": {"id": "2", "name": null, "network": {"id": "3", "name": null}}}));
    assert_eq!(serde_json::to_value(&spec).unwrap(), json!({"availabilityZones": [zone("default-az-0"), second]}));
    let once = spec.clone();
    default_datacenter(&mut spec);
    assert_eq!(spec, once);
    assert_eq!(datacenter::faults(&spec), []);
}

#[test]
fn every_rule_of_a_datacenter_has_its_field_and_message() {
    let az = "spec.availabilityZones[0]";
    let dns = "must be a lower-case DNS name of at most 63 characters";
    let patched = |patch: Value| json!({"availabilityZones": [merged(zone("az-1"), &patch)]});
    type Owned<'t> = Vec<(String, &'t str)>;
    let rows: Vec<(&str, Value, Owned<'_>)> = vec![
        ("good", patched(json!({})), vec![]),
        (
            "DC1",
            json!({"availabilityZones": [zone("az-1")], "domain": "d", "zones": [{"name": "z", "network": {}}]}),
            vec![("spec.zones".into(), "use availabilityZones"), ("spec.domain".into(), "use availabilityZones")],
        ),
        ("DC2", json!({}), vec![("spec.availabilityZones".into(), "at least one")]),
        ("DC3", patched(json!({"name": "AZ"})), vec![(format!("{az}.name"), dns)]),
        ("DC3", patched(json!({"name": "a".repeat(64)})), vec![(format!("{az}.name"), dns)]),
        ("DC3", patched(json!({"name": "a.b-c"})), vec![]),
        (
            "DC3",
            json!({"availabilityZones": [zone("a"), zone("a")]}),
            vec![("spec.availabilityZones[1].name".into(), "duplicate name")],
        ),
        (
            "DC4",
            patched(json!({"managementApiEndpoint": "cs.example"})),
            vec![(format!("{az}.managementApiEndpoint"), "not an http(s) URL")],
        ),
        (
            "DC4",
            patched(json!({"managementApiEndpoint": "ftp://cs.example"})),
            vec![(format!("{az}.managementApiEndpoint"), "not an http(s) URL")],
        ),
        (
            "DC4",
            patched(json!({"managementApiEndpoint": "https:///x"})),
            vec![(format!("{az}.managementApiEndpoint"), "not an http(s) URL")],
        ),
        (
            "DC4",
            patched(json!({"managementApiEndpoint": "https://cs.example:80800/client/api"})),
            vec![(format!("{az}.managementApiEndpoint"), "not an http(s) URL")],
        ),
        (
            "DC4",
            patched(json!({"managementApiEndpoint": "http://[fd00::1]8080/client/api"})),
            vec![(format!("{az}.managementApiEndpoint"), "not an http(s) URL")],
        ),
        ("DC4", patched(json!({"managementApiEndpoint": "http://[fd00::1]:8080/client/api"})), vec![]),
        ("DC5", patched(json!({"zone": {"name": null}})), vec![(format!("{az}.zone"), "set id or name")]),
        (
            "DC5",
            patched(json!({"zone": {"network": {"name": ""}}})),
            vec![(format!("{az}.zone.network"), "set id or name")],
        ),
        ("DC5", patched(json!({"zone": {"name": null, "id": "1", "network": {"name": null, "id": "2"}}})), vec![]),
        ("DC6", patched(json!({"credentialsRef": ""})), vec![(format!("{az}.credentialsRef"), "required")]),
        (
            "DC6",
            patched(json!({"credentialsRef": "A_b"})),
            vec![(format!("{az}.credentialsRef"), "not the name of a Secret")],
        ),
        ("DC7", patched(json!({"domain": null})), vec![(format!("{az}.domain"), "domain required with account")]),
        ("DC7", patched(json!({"domain": "ROOT/ROOT"})), vec![(format!("{az}.domain"), "not a domain path")]),
        ("DC7", patched(json!({"domain": "a//b"})), vec![(format!("{az}.domain"), "not a domain path")]),
        ("DC7", patched(json!({"domain": "ROOT/a/b"})), vec![]),
        ("DC7", patched(json!({"domain": "ROOT"})), vec![]),
        ("DC7", patched(json!({"domain": null, "account": null})), vec![]),
    ];
    for (id, spec, wanted) in rows {
        let new = CloudStackDatacenterConfig::new("dc", serde_json::from_value(spec.clone()).unwrap());
        let wanted: Vec<(String, String)> = wanted.into_iter().map(|(p, m)| (p, m.to_owned())).collect();
        assert_eq!(told(&judge_datacenter(&new, None)), wanted, "{id}: {spec}");
    }
}

#[test]
fn zones_come_and_go_but_never_change() {
    let uuid = "3f2b1c4d-5e6f-4a7b-8c9d-0e1f2a3b4c5d";
    let other = merged(zone("a"), &json!({"account": "other"}));
    let ids = merged(zone("a"), &json!({"zone": {"id": "1"}}));
    let path = "spec.availabilityZones";
    let keep = (path, "keep at least one existing availability zone");
    let rows: Vec<(&str, Vec<Value>, Vec<Value>, Told<'_>)> = vec![
        ("add", vec![zone("a")], vec![zone("a"), zone("b")], vec![]),
        ("remove", vec![zone("a"), zone("b")], vec![zone("b")], vec![]),
        ("DC8", vec![zone("a")], vec![other], vec![("spec.availabilityZones[0]", "availability zone a is immutable")]),
        (
            "DC8",
            vec![zone("a")],
            vec![ids.clone()],
            vec![("spec.availabilityZones[0]", "availability zone a is immutable")],
        ),
        ("same ids", vec![ids.clone(), zone("b")], vec![ids], vec![]),
        ("DC9", vec![zone("a")], vec![zone("b")], vec![keep]),
        ("migration", vec![zone("default-az-0")], vec![zone(uuid)], vec![]),
        ("migration", vec![zone("default-az-0")], vec![zone(uuid), zone("c")], vec![keep]),
        ("migration", vec![zone("a")], vec![zone(uuid)], vec![keep]),
        ("migration", vec![zone("default-az-0")], vec![zone("3f2b1c4d-5e6f-1a7b-8c9d-0e1f2a3b4c5d")], vec![keep]),
    ];
    for (id, before, after, expected) in rows {
        let (mut old, new) = (datacenter(&before), datacenter(&after));
        let judged = judge_datacenter(&new, Some(&old));
        assert_eq!(told(&judged), wanted(&expected), "{id}");
        assert!(judged.errors.iter().all(|error| error.kind == FaultKind::Forbidden), "{id}");
        old.metadata.annotations = Some([(PAUSED_ANNOTATION.to_owned(), "true".to_owned())].into());
        assert_eq!(told(&judge_datacenter(&new, Some(&old))), [], "{id}: paused");
    }
}

/// The first write of an object that nobody defaulted fills it in: that is no change of its owner.
#[test]
fn a_write_that_leaves_an_old_datacenter_alone_is_admitted_whatever_it_holds() {
    let legacy = json!({"domain": "d1", "managementApiEndpoint": "nowhere", "zones": [{"name": "z", "network": {}}]});
    let old = CloudStackDatacenterConfig::new("dc", serde_json::from_value(legacy).unwrap());
    let mut new = old.clone();
    default_datacenter(&mut new.spec);
    assert_eq!(judge_datacenter(&new, Some(&old)), Judgement::default());
    assert_eq!(judge_datacenter(&new, None).errors.len(), 2);
    new.spec.availability_zones[0].account = "a".into();
    assert_eq!(judge_datacenter(&new, Some(&old)).errors.len(), 3, "what is wrong, and that zones never change");
}

pub(super) fn machine_spec() -> Value {
    json!({"template": {"name": "ubuntu-1.31"}, "computeOffering": {"name": "large"},
        "users": [{"name": "capc", "sshAuthorizedKeys": [KEY]}]})
}

pub(super) fn machine(patch: &Value) -> CloudStackMachineConfig {
    CloudStackMachineConfig::new("m", serde_json::from_value(merged(machine_spec(), patch)).unwrap())
}

#[test]
fn every_rule_of_a_machine_configuration_has_its_field_and_message() {
    let disk = |patch: Value| {
        let whole =
            json!({"name": "d", "mountPath": "/data", "device": "/dev/vdb", "filesystem": "ext4", "label": "data"});
        json!({"diskOffering": merged(whole, &patch)})
    };
    let link = |from: &str, to: &str| json!({"symlinks": {from: to}});
    let slash = "must start and not end with /";
    let users = |users: Value| json!({"users": users});
    let mut rows: Vec<(&str, Value, Told<'_>)> = vec![
        ("good", json!({}), vec![]),
        ("MC1", json!({"template": {"name": ""}}), vec![("spec.template", "set id or name")]),
        ("MC1", json!({"computeOffering": {"name": null}}), vec![("spec.computeOffering", "set id or name")]),
        ("MC1", json!({"computeOffering": {"name": null, "id": "1"}}), vec![]),
        ("MC2", disk(json!({})), vec![]),
        ("MC2", disk(json!({"mountPath": "/"})), vec![("spec.diskOffering.mountPath", "must be absolute")]),
        ("MC2", disk(json!({"mountPath": "data"})), vec![("spec.diskOffering.mountPath", "must be absolute")]),
        ("MC2", disk(json!({"filesystem": ""})), vec![("spec.diskOffering.filesystem", "required")]),
        ("MC2", disk(json!({"device": ""})), vec![("spec.diskOffering.device", "required")]),
        ("MC2", disk(json!({"label": ""})), vec![("spec.diskOffering.label", "required")]),
        ("MC2", disk(json!({"device": "vdb"})), vec![("spec.diskOffering.device", "must be under /dev/")]),
        ("MC3", disk(json!({"name": null})), vec![("spec.diskOffering", "set id or name")]),
        (
            "MC3",
            json!({"diskOffering": {"customSizeInGB": 5, "mountPath": "", "device": "", "filesystem": "", "label": ""}}),
            vec![("spec.diskOffering", "set id or name")],
        ),
        ("MC3", disk(json!({"customSizeInGB": -1})), vec![("spec.diskOffering.customSizeInGB", "must be >= 0")]),
        (
            "MC3",
            json!({"diskOffering": {"customSizeInGB": 0, "mountPath": "", "device": "", "filesystem": "", "label": ""}}),
            vec![],
        ),
        ("MC4", link("/var/log", "/data/log"), vec![]),
        ("MC4", link("var", "/data"), vec![("spec.symlinks[var]", slash)]),
        ("MC4", link("/var/", "/data"), vec![("spec.symlinks[/var/]", slash)]),
        ("MC4", link("/var", "data"), vec![("spec.symlinks[/var]", slash)]),
        ("MC4", link("/var/$x", "/data"), vec![("spec.symlinks[/var/$x]", "illegal character")]),
        ("MC4", link("/var", "/da ta"), vec![("spec.symlinks[/var]", "illegal character")]),
        ("MC4", link("/var/../x", "/data"), vec![("spec.symlinks[/var/../x]", "must not hold ..")]),
        ("MC4", link("/var", "/var"), vec![("spec.symlinks[/var]", "must differ from its target")]),
        ("MC4", link("/", "/data"), vec![("spec.symlinks[/]", "system directory")]),
        ("MC4", link("//etc", "/data"), vec![("spec.symlinks[//etc]", "system directory")]),
        ("MC4", link("/./usr/.", "/data"), vec![("spec.symlinks[/./usr/.]", "system directory")]),
        ("MC4", link("/var", "/"), vec![("spec.symlinks[/var]", slash)]),
        ("MC4", link("/var", "//var"), vec![("spec.symlinks[/var]", "must differ from its target")]),
        ("MC5", users(json!([])), vec![("spec.users", "at least one user")]),
        ("MC5", users(json!([{"name": "", "sshAuthorizedKeys": [KEY]}])), vec![("spec.users[0].name", "required")]),
        (
            "MC5",
            users(json!([{"name": "a", "sshAuthorizedKeys": []}])),
            vec![("spec.users[0].sshAuthorizedKeys", "required")],
        ),
        (
            "MC5",
            users(json!([{"name": "a", "sshAuthorizedKeys": [""]}])),
            vec![("spec.users[0].sshAuthorizedKeys", "required")],
        ),
        (
            "MC5",
            users(json!([{"name": "a", "sshAuthorizedKeys": [KEY, "nonsense"]}])),
            vec![("spec.users[0].sshAuthorizedKeys[1]", "not an ssh public key")],
        ),
        (
            "MC5",
            users(json!([{"name": "A b", "sshAuthorizedKeys": [KEY]}])),
            vec![("spec.users[0].name", "not a user name")],
        ),
        (
            "MC5",
            users(json!([{"name": "a", "sshAuthorizedKeys": [KEY]}, {"name": "a", "sshAuthorizedKeys": [KEY]}])),
            vec![("spec.users[1].name", "duplicate user")],
        ),
        ("MC6", json!({"affinity": "both"}), vec![("spec.affinity", "must be pro, anti or no")]),
        ("MC6", json!({"affinity": "no"}), vec![]),
        (
            "MC7",
            json!({"affinity": "anti", "affinityGroupIds": ["g"]}),
            vec![("spec.affinityGroupIds", "mutually exclusive")],
        ),
        ("MC7", json!({"affinity": "no", "affinityGroupIds": ["g"]}), vec![]),
        ("MC7", json!({"affinityGroupIds": ["g", ""]}), vec![("spec.affinityGroupIds[1]", "required")]),
        ("MC7", json!({"affinityGroupIds": ["g", "g"]}), vec![("spec.affinityGroupIds[1]", "duplicate id")]),
        ("MC8", json!({"userCustomDetails": {"Keyboard": "us"}}), vec![]),
        ("MC8", json!({"userCustomDetails": {"": "us"}}), vec![("spec.userCustomDetails", "required")]),
    ];
    let known = RESTRICTED.split_whitespace().map(|key| {
        let path = format!("spec.userCustomDetails[{key}]");
        (json!({"userCustomDetails": {key: "x"}}), path, format!("key {key} is managed by the platform"))
    });
    let known: Vec<(Value, String, String)> = known.collect();
    assert_eq!(known.len(), 41);
    for (patch, path, message) in &known {
        rows.push(("MC8", patch.clone(), vec![(path, message)]));
    }
    let system = ["/etc", "/usr", "/boot", "/dev", "/proc", "/sys", "/bin", "/sbin", "/lib", "/lib64"];
    let paths = system.map(|directory| format!("spec.symlinks[{directory}]"));
    for (directory, path) in system.iter().zip(&paths) {
        rows.push(("MC4", link(directory, "/data"), vec![(path, "system directory")]));
    }
    for (id, patch, expected) in rows {
        assert_eq!(told(&judge_machine(&machine(&patch), None)), wanted(&expected), "{id}: {patch}");
    }
}

/// What is stored already is no way around the rules of what is written.
#[test]
fn data_is_judged_even_while_what_was_stored_is_paused() {
    let pause = |meta: &mut ObjectMeta| {
        meta.annotations = Some([(PAUSED_ANNOTATION.to_owned(), "true".to_owned())].into());
    };
    let mut old = cluster("prod", cluster_spec());
    pause(&mut old.metadata);
    let new = cluster("prod", merged(cluster_spec(), &plane(json!({"count": 0}))));
    let judged = told(&judge_cluster(&new, Some(&old), &Terms::default()));
    assert_eq!(judged, wanted(&[(&format!("{CP}.count"), "must be at least 1")]));
    let mut old = datacenter(&[zone("a")]);
    pause(&mut old.metadata);
    let judged = told(&judge_datacenter(&datacenter(&[]), Some(&old)));
    assert_eq!(judged, wanted(&[("spec.availabilityZones", "at least one")]));
    let mut old = machine(&json!({}));
    pause(&mut old.metadata);
    let judged = told(&judge_machine(&machine(&json!({"affinity": "both"})), Some(&old)));
    assert_eq!(judged, wanted(&[("spec.affinity", "must be pro, anti or no")]));
}

/// MC9 and MC10.
#[test]
fn machines_of_a_role_stay_in_their_affinity() {
    let message = "immutable, use a new machine config";
    let rows: Vec<(Value, Value, Told<'_>)> = vec![
        (json!({}), json!({"affinity": "no"}), vec![]),
        (json!({"affinity": "no"}), json!({"affinity": ""}), vec![]),
        (json!({"affinity": "pro"}), json!({"affinity": "anti"}), vec![("spec.affinity", message)]),
        (json!({"affinityGroupIds": ["a", "b"]}), json!({"affinityGroupIds": ["b", "a"]}), vec![]),
        (
            json!({"affinityGroupIds": ["a"]}),
            json!({"affinityGroupIds": ["b"]}),
            vec![("spec.affinityGroupIds", message)],
        ),
        (
            json!({}),
            json!({"template": {"name": "t"}, "computeOffering": {"name": "o"}, "userCustomDetails": {"a": "b"},
            "symlinks": {"/a": "/b"}, "users": [{"name": "x", "sshAuthorizedKeys": [KEY]}]}),
            vec![],
        ),
    ];
    for (before, after, expected) in rows {
        let (mut old, new) = (machine(&before), machine(&after));
        assert_eq!(told(&judge_machine(&new, Some(&old))), wanted(&expected), "{before} -> {after}");
        old.metadata.annotations = Some([(PAUSED_ANNOTATION.to_owned(), "true".to_owned())].into());
        assert_eq!(told(&judge_machine(&new, Some(&old))), []);
    }
}
