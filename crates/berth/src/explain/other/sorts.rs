//! The kinds that have no screen of their own: how they are called, whose reasons they carry, and whom they refer to.

use api::names::GROUP as BERTH;
use api::names::clusters::GROUP as ANYWHERE;
use api::views::metal_ipam::METAL3_IPAM_GROUP;
use api::views::{
    BOOTSTRAP_GROUP, CLUSTER_API_GROUP, CONFIG_GROUP, CONTROL_PLANE_GROUP, INFRASTRUCTURE_GROUP, IPAM_GROUP,
    METAL3_GROUP, RUNTIME_GROUP,
};
use kit::kinds::Kind;

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    /// Singular CamelCase.
    pub kind: &'static str,
    /// Plural lower case.
    pub plural: &'static str,
    /// Its group.
    pub group: &'static str,
    /// The versions it may be served at, the preferred one first.
    pub versions: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// What else kubectl calls it.
    pub short: &'static [&'static str],
    /// Which part of Berth writes its conditions, by the name that stands in its reasons; none where others do.
    pub room: Option<&'static str>,
    /// Whether anybody says of its objects how they stand.
    pub judged: bool,
    /// Where it stands that an object has what it is for, of kinds whose conditions may be missing.
    pub done: Option<&'static str>,
    /// Whom its objects refer to.
    pub points: &'static [Point],
    /// What else is worth knowing, and where it stands.
    pub shows: &'static [(&'static str, &'static str)],
}

/// A reference from an object to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// What the other is to it.
    pub name: &'static str,
    /// Where the reference stands.
    pub at: &'static str,
    /// Group and kind, where the reference does not say it.
    pub to: (&'static str, &'static str),
    /// The conditions for which the other is waited for.
    pub until: &'static [&'static str],
    /// Whether the other is waited for until the object has what it is for.
    pub first: bool,
}

const ALPHA: &[&str] = &["v1alpha1"];
const BETA: &[&str] = &["v1beta2", "v1beta1"];
const IPAM: &[&str] = &["v1beta2", "v1beta1", "v1alpha1"];
const POOLS: &[&str] = &["v1alpha2"];
const CLOUDSTACK: &[&str] = &["v1beta3", "v1beta2", "v1beta1"];

/// What is shown of a pool of addresses.
const LEFT: &[(&str, &str)] = &[("free", "/status/ipAddresses/free"), ("total", "/status/ipAddresses/total")];

// References by the kinds that hold them.
const PLANE_POINTS: &[Point] = &[
    point("machines from", "/spec/machineTemplate/spec/infrastructureRef", ("", "")),
    point("machines from", "/spec/machineTemplate/infrastructureRef", ("", "")),
];
const DATA_POINTS: &[Point] = &[
    point("data claim", "/spec/claim", (INFRASTRUCTURE_GROUP, "Metal3DataClaim")),
    point("template", "/spec/template", (INFRASTRUCTURE_GROUP, "Metal3DataTemplate")),
];
const DATA_CLAIM_POINTS: &[Point] = &[
    point("template", "/spec/template", (INFRASTRUCTURE_GROUP, "Metal3DataTemplate")).first(),
    point("data", "/status/renderedData", (INFRASTRUCTURE_GROUP, "Metal3Data")).until(&["Ready"]),
];
const MACHINE_POINTS: &[Point] = &[
    point("infrastructure", "/spec/infrastructureRef", ("", "")).until(&["InfrastructureReady"]),
    point("bootstrap", "/spec/bootstrap/configRef", ("", "")).until(&["BootstrapConfigReady", "BootstrapReady"]),
];
const HEALTH_CHECK_POINTS: &[Point] = &[
    point("remedy", "/spec/remediation/templateRef", ("", "")),
    point("remedy", "/spec/remediationTemplate", ("", "")),
];
const ADDRESS_CLAIM_POINTS: &[Point] = &[
    point("pool", "/spec/poolRef", ("", "")).first(),
    point("address", "/status/addressRef", (IPAM_GROUP, "IPAddress")),
];
const ADDRESS_POINTS: &[Point] =
    &[point("claim", "/spec/claimRef", (IPAM_GROUP, "IPAddressClaim")), point("pool", "/spec/poolRef", ("", ""))];
const LEASE_POINTS: &[Point] = &[
    point("pool", "/spec/pool", (METAL3_IPAM_GROUP, "IPPool")).first(),
    point("address", "/status/address", (METAL3_IPAM_GROUP, "IPAddress")),
];
const LEASED_POINTS: &[Point] = &[
    point("claim", "/spec/claim", (METAL3_IPAM_GROUP, "IPClaim")),
    point("pool", "/spec/pool", (METAL3_IPAM_GROUP, "IPPool")),
];
const HOST_POINTS: &[Point] = &[point("consumer", "/spec/consumerRef", ("", ""))];
const IDENTITY_POINTS: &[Point] = &[point("identity", "/spec/identityRef", (INFRASTRUCTURE_GROUP, ""))];

const fn sort(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    versions: &'static [&'static str],
) -> Sort {
    Sort {
        kind,
        plural,
        group,
        versions,
        namespaced: true,
        short: &[],
        room: None,
        judged: true,
        done: None,
        points: &[],
        shows: &[],
    }
}

const fn point(name: &'static str, at: &'static str, to: (&'static str, &'static str)) -> Point {
    Point { name, at, to, until: &[], first: false }
}

impl Point {
    const fn until(self, until: &'static [&'static str]) -> Self {
        Self { until, ..self }
    }

    const fn first(self) -> Self {
        Self { first: true, ..self }
    }
}

impl Sort {
    const fn short(self, short: &'static [&'static str]) -> Self {
        Self { short, ..self }
    }

    const fn everywhere(self) -> Self {
        Self { namespaced: false, ..self }
    }

    const fn of(self, room: &'static str) -> Self {
        Self { room: Some(room), ..self }
    }

    const fn unjudged(self) -> Self {
        Self { judged: false, ..self }
    }

    const fn done(self, done: &'static str) -> Self {
        Self { done: Some(done), ..self }
    }

    const fn points(self, points: &'static [Point]) -> Self {
        Self { points, ..self }
    }

    const fn shows(self, shows: &'static [(&'static str, &'static str)]) -> Self {
        Self { shows, ..self }
    }

    /// The kind at each of its versions.
    pub fn at_versions(&self) -> Vec<Kind> {
        let at = |version: &&str| Kind {
            group: self.group.to_owned(),
            version: (*version).to_owned(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        };
        self.versions.iter().map(at).collect()
    }

    /// The shortest that `berth explain` takes for this kind and no other, of those that people know.
    pub fn word(&self) -> String {
        let word = self.kind.to_lowercase();
        match find(&word, "") {
            Some(found) if found == self => word,
            _ => format!("{word}.{}", self.group),
        }
    }

    /// What kubectl takes for it, whatever else there is.
    pub fn resource(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    fn is_called(&self, word: &str) -> bool {
        let bare = word.strip_suffix('s').unwrap_or(word);
        let called = |name: &str| name == word || name == bare;
        called(self.plural) || called(&self.kind.to_lowercase()) || self.short.iter().any(|name| called(name))
    }

    fn is_of(&self, group: &str) -> bool {
        group.is_empty() || group == self.group || (group == "anywhere" && self.group == ANYWHERE)
    }
}

/// The kind that is called so, in lower case; without a group the first of several.
pub fn find(word: &str, group: &str) -> Option<&'static Sort> {
    SORTS.iter().find(|sort| sort.is_of(group) && sort.is_called(word))
}

/// The kind that others refer to by these names.
pub fn referred(group: &str, kind: &str) -> Option<&'static Sort> {
    SORTS.iter().find(|sort| sort.group == group && sort.kind == kind)
}

/// Control planes of kubeadm, which can be drawn, too.
pub const PLANE: Sort =
    sort(CONTROL_PLANE_GROUP, "KubeadmControlPlane", "kubeadmcontrolplanes", BETA).short(&["kcp"]).points(PLANE_POINTS);

/// All of them: those that Berth defines, then those of others that it reads. Secrets and Namespaces are not among them: nobody
/// judges them, and of a Secret nothing is to be shown.
pub static SORTS: &[Sort] = &[
    sort(METAL3_GROUP, "HostDeployPolicy", "hostdeploypolicies", ALPHA)
        .short(&["hdp"])
        .of("claims")
        .shows(&[("hosts held", "/status/boundHosts")]),
    sort(BERTH, "HostClaimQuota", "hostclaimquotas", ALPHA)
        .short(&["hcq"])
        .everywhere()
        .of("claims")
        .shows(&[("hosts held", "/status/used/hosts"), ("of", "/spec/hard/hosts")]),
    sort(BERTH, "HostClaimKind", "hostclaimkinds", ALPHA)
        .short(&["hck"])
        .everywhere()
        .of("claim-kind")
        .shows(&[("controller", "/spec/controllerName"), ("heard", "/status/lastHeartbeat")]),
    sort(INFRASTRUCTURE_GROUP, "Metal3Cluster", "metal3clusters", BETA)
        .short(&["m3c", "m3cluster", "m3clusters", "metal3c", "metal3cluster"])
        .of("machines")
        .shows(&[("endpoint", "/spec/controlPlaneEndpoint/host")]),
    sort(INFRASTRUCTURE_GROUP, "Metal3Data", "metal3datas", BETA)
        .short(&["m3d", "m3data", "m3datas", "metal3d", "metal3data"])
        .of("machines")
        .points(DATA_POINTS)
        .shows(&[("index", "/spec/index")]),
    sort(INFRASTRUCTURE_GROUP, "Metal3DataClaim", "metal3dataclaims", BETA)
        .short(&["m3dc", "m3dataclaim", "m3dataclaims", "metal3dc", "metal3dataclaim"])
        .of("machines")
        .done("/status/renderedData")
        .points(DATA_CLAIM_POINTS),
    sort(INFRASTRUCTURE_GROUP, "Metal3DataTemplate", "metal3datatemplates", BETA)
        .short(&["m3dt", "m3datatemplate", "m3datatemplates", "metal3dt", "metal3datatemplate"])
        .of("machines"),
    sort(INFRASTRUCTURE_GROUP, "Metal3Remediation", "metal3remediations", BETA)
        .short(&["m3r", "m3remediation"])
        .of("machines")
        .shows(&[
            ("phase", "/status/phase"),
            ("tried", "/status/retryCount"),
            ("last tried", "/status/lastRemediated"),
        ]),
    sort(INFRASTRUCTURE_GROUP, "Metal3RemediationTemplate", "metal3remediationtemplates", BETA)
        .short(&["m3rt", "m3remediationtemplate", "m3remediationtemplates", "metal3rt", "metal3remediationtemplate"])
        .of("machines")
        .unjudged(),
    sort(INFRASTRUCTURE_GROUP, "Metal3ClusterTemplate", "metal3clustertemplates", BETA)
        .short(&["m3ct"])
        .of("machines")
        .unjudged(),
    sort(INFRASTRUCTURE_GROUP, "Metal3MachineTemplate", "metal3machinetemplates", BETA)
        .short(&["m3mt", "m3machinetemplate", "m3machinetemplates", "metal3mt", "metal3machinetemplate"])
        .of("machines")
        .unjudged(),
    sort(INFRASTRUCTURE_GROUP, "AWSMachineTemplate", "awsmachinetemplates", BETA)
        .short(&["awsmt"])
        .of("hosts")
        .unjudged()
        .shows(&[("type", "/spec/template/spec/instanceType")]),
    sort(ANYWHERE, "CloudStackDatacenterConfig", "cloudstackdatacenterconfigs", ALPHA)
        .short(&["csdc"])
        .of("clusters")
        .shows(&[("validated", "/status/lastValidated")]),
    sort(ANYWHERE, "CloudStackMachineConfig", "cloudstackmachineconfigs", ALPHA).short(&["csmc"]).of("clusters"),
    sort(ANYWHERE, "OIDCConfig", "oidcconfigs", ALPHA).of("clusters").unjudged(),
    sort(ANYWHERE, "AWSIamConfig", "awsiamconfigs", ALPHA).of("clusters").unjudged(),
    sort(ANYWHERE, "Bundles", "bundles", ALPHA).of("clusters").unjudged(),
    sort(ANYWHERE, "EKSARelease", "eksareleases", ALPHA).of("clusters").unjudged(),
    PLANE,
    sort(CLUSTER_API_GROUP, "Machine", "machines", BETA).short(&["ma"]).points(MACHINE_POINTS).shows(&[
        ("phase", "/status/phase"),
        ("version", "/spec/version"),
        ("node", "/status/nodeRef/name"),
    ]),
    sort(CLUSTER_API_GROUP, "ClusterClass", "clusterclasses", BETA).short(&["cc"]),
    sort(CLUSTER_API_GROUP, "MachineHealthCheck", "machinehealthchecks", BETA)
        .short(&["mhc"])
        .points(HEALTH_CHECK_POINTS)
        .shows(&[("healthy", "/status/currentHealthy"), ("expected", "/status/expectedMachines")]),
    sort(BOOTSTRAP_GROUP, "KubeadmConfigTemplate", "kubeadmconfigtemplates", BETA).unjudged(),
    sort(RUNTIME_GROUP, "ExtensionConfig", "extensionconfigs", &["v1beta2", "v1alpha1"]).short(&["ext"]).everywhere(),
    sort(IPAM_GROUP, "IPAddressClaim", "ipaddressclaims", IPAM).done("/status/addressRef").points(ADDRESS_CLAIM_POINTS),
    sort(IPAM_GROUP, "IPAddress", "ipaddresses", IPAM)
        .unjudged()
        .points(ADDRESS_POINTS)
        .shows(&[("address", "/spec/address")]),
    sort(IPAM_GROUP, "InClusterIPPool", "inclusterippools", POOLS).unjudged().shows(LEFT),
    sort(IPAM_GROUP, "GlobalInClusterIPPool", "globalinclusterippools", POOLS).everywhere().unjudged().shows(LEFT),
    sort(METAL3_IPAM_GROUP, "IPClaim", "ipclaims", ALPHA).done("/status/address").points(LEASE_POINTS),
    sort(METAL3_IPAM_GROUP, "IPAddress", "ipaddresses", ALPHA)
        .unjudged()
        .points(LEASED_POINTS)
        .shows(&[("address", "/spec/address")]),
    sort(METAL3_GROUP, "BareMetalHost", "baremetalhosts", ALPHA).short(&["bmh", "bmhost"]).points(HOST_POINTS).shows(
        &[
            ("state", "/status/provisioning/state"),
            ("operational", "/status/operationalStatus"),
            ("error", "/status/errorType"),
            ("powered on", "/status/poweredOn"),
        ],
    ),
    sort(METAL3_GROUP, "HardwareData", "hardwaredata", ALPHA).short(&["hd"]).unjudged(),
    sort(INFRASTRUCTURE_GROUP, "AWSCluster", "awsclusters", BETA)
        .short(&["awsc"])
        .points(IDENTITY_POINTS)
        .shows(&[("region", "/spec/region")]),
    sort(CONTROL_PLANE_GROUP, "AWSManagedControlPlane", "awsmanagedcontrolplanes", BETA)
        .short(&["awsmcp"])
        .points(IDENTITY_POINTS)
        .shows(&[("region", "/spec/region")]),
    sort(CONTROL_PLANE_GROUP, "ROSAControlPlane", "rosacontrolplanes", &["v1beta2"])
        .short(&["rosacp"])
        .points(IDENTITY_POINTS)
        .shows(&[("region", "/spec/region")]),
    sort(INFRASTRUCTURE_GROUP, "AWSMachinePool", "awsmachinepools", BETA).short(&["awsmp"]),
    sort(INFRASTRUCTURE_GROUP, "AWSManagedMachinePool", "awsmanagedmachinepools", BETA).short(&["awsmmp"]),
    sort(INFRASTRUCTURE_GROUP, "AWSClusterControllerIdentity", "awsclustercontrolleridentities", BETA)
        .short(&["awsci"])
        .everywhere()
        .unjudged(),
    sort(INFRASTRUCTURE_GROUP, "AWSClusterRoleIdentity", "awsclusterroleidentities", BETA)
        .short(&["awsri"])
        .everywhere()
        .unjudged(),
    sort(INFRASTRUCTURE_GROUP, "AWSClusterStaticIdentity", "awsclusterstaticidentities", BETA)
        .short(&["awssi"])
        .everywhere()
        .unjudged(),
    sort(INFRASTRUCTURE_GROUP, "CloudStackCluster", "cloudstackclusters", CLOUDSTACK),
    sort(INFRASTRUCTURE_GROUP, "CloudStackMachine", "cloudstackmachines", CLOUDSTACK)
        .shows(&[("instance", "/status/instanceState"), ("provider id", "/spec/providerID")]),
    sort(INFRASTRUCTURE_GROUP, "CloudStackMachineTemplate", "cloudstackmachinetemplates", CLOUDSTACK).unjudged(),
    sort(CONFIG_GROUP, "Infrastructure", "infrastructures", &["v1"])
        .everywhere()
        .unjudged()
        .shows(&[("platform", "/status/platformStatus/type")]),
];
