//! What may change in a Cluster, and what may not.

use super::*;

/// CL30 to CL34: each row is what the old one had, what the new one has, and what is told.
#[test]
fn every_rule_of_a_change_has_its_field_and_message() {
    let step = "only one minor at a time, no downgrade";
    let bundles = json!({"bundlesRef": {"apiVersion": "a", "name": "b", "namespace": "n"}});
    let release = |version: &str| json!({"eksaVersion": version});
    let own = |version: &str| first(json!({"kubernetesVersion": version}));
    let proxy =
        |entries: &[&str]| json!({"proxyConfiguration": {"httpProxy": "p:1", "httpsProxy": "p:2", "noProxy": entries}});
    let iam = |name: &str| json!({"identityProviderRefs": [{"kind": "AWSIamConfig", "name": name}]});
    let oidc = json!({"identityProviderRefs": [{"kind": "OIDCConfig", "name": "o"}]});
    let group_version = at_group("kubernetesVersion");
    let endpoint = |host: &str| plane(json!({"endpoint": {"host": host}}));
    type Pair<'p> = (&'static str, Value, Value, Vec<(&'p str, &'p str)>);
    let rows: Vec<Pair<'_>> = vec![
        ("CL30", json!({}), json!({"kubernetesVersion": "1.32"}), vec![]),
        (
            "CL30",
            json!({}),
            json!({"kubernetesVersion": "1.33"}),
            vec![("spec.kubernetesVersion", step), (&group_version, step)],
        ),
        (
            "CL30",
            json!({}),
            json!({"kubernetesVersion": "1.30"}),
            vec![("spec.kubernetesVersion", step), (&group_version, step)],
        ),
        ("CL30", own("1.29"), own("1.31"), vec![(&group_version, step)]),
        ("CL30", own("1.30"), own("1.29"), vec![(&group_version, step)]),
        ("CL30", own("1.29"), own("1.30"), vec![]),
        (
            "CL31",
            own("1.31"),
            merged(first(json!({})), &json!({"kubernetesVersion": "1.32"})),
            vec![(&group_version, "raise the cluster first")],
        ),
        ("CL31", own("1.30"), first(json!({})), vec![]),
        ("CL32", release("v0.22.0"), json!({}), vec![("spec.eksaVersion", "cannot be removed")]),
        ("CL32", bundles.clone(), json!({}), vec![("spec.bundlesRef", "cannot be removed")]),
        ("CL32", bundles.clone(), release("v0.22.0"), vec![]),
        ("CL33", release("v0.22.0"), release("v0.23.4"), vec![]),
        ("CL33", release("v0.22.0"), release("v0.24.0"), vec![("spec.eksaVersion", step)]),
        ("CL33", release("v0.22.0"), release("v1.0.0"), vec![("spec.eksaVersion", step)]),
        ("CL33", release("v0.22.1"), release("v0.22.0"), vec![("spec.eksaVersion", step)]),
        (
            "CL34",
            json!({}),
            json!({"managementCluster": {"name": "other"}}),
            vec![("spec.managementCluster", "immutable")],
        ),
        ("CL34", json!({"managementCluster": null}), json!({"managementCluster": {"name": "prod"}}), vec![]),
        ("CL34", json!({}), json!({"datacenterRef": {"name": "other"}}), vec![("spec.datacenterRef", "immutable")]),
        ("CL34", json!({}), endpoint("172.16.0.6"), vec![("spec.controlPlaneConfiguration.endpoint", "immutable")]),
        ("CL34", json!({}), endpoint("172.16.0.5:443"), vec![("spec.controlPlaneConfiguration.endpoint", "immutable")]),
        ("CL34", json!({}), endpoint("172.16.0.5:6443"), vec![]),
        (
            "CL34",
            json!({}),
            network(json!({"pods": {"cidrBlocks": ["192.169.0.0/16"]}})),
            vec![("spec.clusterNetwork.pods", "immutable")],
        ),
        (
            "CL34",
            json!({}),
            network(json!({"services": {"cidrBlocks": ["10.128.0.0/12"]}})),
            vec![("spec.clusterNetwork.services", "immutable")],
        ),
        (
            "CL34",
            json!({}),
            network(json!({"dns": {"resolvConf": {"path": "/r"}}})),
            vec![("spec.clusterNetwork.dns", "immutable")],
        ),
        ("CL34", json!({}), network(json!({"dns": {}})), vec![]),
        (
            "CL34",
            json!({}),
            network(json!({"nodes": {"cidrMaskSize": 25}})),
            vec![("spec.clusterNetwork.nodes", "immutable")],
        ),
        ("CL34", proxy(&["a"]), proxy(&["a", "b"]), vec![("spec.proxyConfiguration", "immutable")]),
        ("CL34", proxy(&["a", "b"]), proxy(&["b", "a"]), vec![]),
        (
            "CL34",
            json!({}),
            json!({"gitOpsRef": {"kind": "FluxConfig", "name": "f"}}),
            vec![("spec.gitOpsRef", "immutable")],
        ),
        ("CL34", iam("a"), iam("b"), vec![("spec.identityProviderRefs", "immutable")]),
        ("CL34", iam("a"), json!({}), vec![("spec.identityProviderRefs", "immutable")]),
        ("CL34", json!({}), iam("a"), vec![]),
        ("CL34", oidc.clone(), json!({}), vec![]),
        (
            "mutable",
            json!({}),
            plane(json!({"count": 5, "certSans": ["a.example"], "labels": {"a": "b"}, "taints": [],
            "machineGroupRef": {"name": "other"}, "machineHealthCheck": {"maxUnhealthy": 1},
            "upgradeRolloutStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}})),
            vec![],
        ),
        ("mutable", json!({}), json!({"podIamConfig": {"serviceAccountIssuer": "https://i"}}), vec![]),
        ("mutable", json!({}), json!({"registryMirrorConfiguration": {"endpoint": "m", "port": "443"}}), vec![]),
        ("mutable", json!({}), cilium(json!({"policyEnforcementMode": "always"})), vec![]),
        (
            "mutable",
            json!({}),
            json!({"workerNodeGroupConfigurations": [group(), merged(group(), &json!({"name": "b"}))]}),
            vec![],
        ),
        (
            "mutable",
            json!({"workerNodeGroupConfigurations": [group(), merged(group(), &json!({"name": "b"}))]}),
            json!({}),
            vec![],
        ),
    ];
    for (id, before, after, expected) in rows {
        let old = cluster("prod", merged(cluster_spec(), &before));
        let new = cluster("prod", merged(cluster_spec(), &after));
        let judged = judge_cluster(&new, Some(&old), &Terms::default());
        assert_eq!(told(&judged), wanted(&expected), "{id}: {before} -> {after}");
        let mut immutable = judged.errors.iter().filter(|error| error.detail == "immutable");
        assert!(immutable.all(|error| error.kind == FaultKind::Forbidden), "{id}");
        let mut paused = old.clone();
        paused.metadata.annotations = Some([(PAUSED_ANNOTATION.to_owned(), "true".to_owned())].into());
        assert_eq!(told(&judge_cluster(&new, Some(&paused), &Terms::default())), [], "{id}: paused");
    }
}

#[test]
fn topology_of_etcd_and_versions_of_releases_have_their_ways_out() {
    let etcd = json!({"externalEtcdConfiguration": {"count": 3, "machineGroupRef": {"kind": "CloudStackMachineConfig", "name": "e"}}});
    let (stacked, external) = (cluster("prod", cluster_spec()), cluster("prod", merged(cluster_spec(), &etcd)));
    let found = told(&judge_cluster(&stacked, Some(&external), &Terms::default()));
    assert_eq!(found, wanted(&[("spec.externalEtcdConfiguration", "immutable")]));

    let release = |version: &str| cluster("prod", merged(cluster_spec(), &json!({"eksaVersion": version})));
    let mut failed = release("v0.24.0");
    failed.status =
        serde_json::from_value(json!({"failureReason": "EksaVersionInvalid", "failureMessage": "m"})).unwrap();
    assert_eq!(told(&judge_cluster(&release("v0.22.0"), Some(&failed), &Terms::default())), []);
    let mut free = release("v0.29.0");
    free.metadata.annotations =
        Some([("anywhere.eks.amazonaws.com/skip-eksa-version-skew-check".into(), "true".into())].into());
    assert_eq!(told(&judge_cluster(&free, Some(&release("v0.22.0")), &Terms::default())), []);
    let later = json!({"etcdEncryption": [{"providers": [], "resources": ["secrets"]}]});
    let found =
        told(&judge_cluster(&cluster("prod", merged(cluster_spec(), &later)), Some(&stacked), &Terms::default()));
    assert_eq!(found, wanted(&[("spec.etcdEncryption", "not supported")]));
}
