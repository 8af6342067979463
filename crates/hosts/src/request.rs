//! The exact requests for hosts and instances.

use api::names::hosts::{ALLOCATION_ID_TAG, MACHINE_NAME_TAG, NAME_TAG};
use api::names::{ClientToken, HostId, ImageId, InstanceType, SecurityGroupId, SubnetId};
use api::own::{AWSMachineSpec, HostAffinity, Tenancy as WantedTenancy, Volume};
use aws::port::{
    Affinity, AllocateHosts, BlockDevice, HostShape, Image, MetadataOptions, Placement, RunInstance, Tags, Tenancy,
};
use kit::secret::Secret;

use crate::facts::CloudFacts;
use crate::journal::Allocation;
use crate::obstacle::{About, Obstacle};

/// What hosts to ask for: the type given for them, else the family, else the type of the machine. EC2 takes exactly one.
///
/// # Errors
/// When a name is none.
pub fn shape(spec: &AWSMachineSpec) -> Result<HostShape, Obstacle> {
    let bad = |path: &str| {
        let path = path.to_owned();
        move |error: api::names::NameError| Obstacle::terminal(About::Host, format!("{path}: {error}"))
    };
    let wish = spec.dynamic_host_allocation.as_ref();
    if let Some(name) = wish.and_then(|wish| wish.instance_type.as_deref()) {
        return name.parse().map(HostShape::Type).map_err(bad("spec.dynamicHostAllocation.instanceType"));
    }
    if let Some(name) = wish.and_then(|wish| wish.instance_family.as_deref()) {
        return name.parse().map(HostShape::Family).map_err(bad("spec.dynamicHostAllocation.instanceFamily"));
    }
    spec.instance_type.parse().map(HostShape::Type).map_err(bad("spec.instanceType"))
}

/// The request for the hosts of a journal, and nothing but what the journal says.
#[must_use]
pub fn allocate(allocation: &Allocation) -> AllocateHosts {
    let terms = &allocation.terms;
    AllocateHosts {
        token: allocation.token.clone(),
        zone: terms.zone.clone(),
        shape: terms.shape.clone(),
        quantity: terms.quantity,
        recovery: terms.recovery,
        maintenance: terms.maintenance,
        outpost_arn: None,
        asset_ids: Vec::new(),
        tags: terms.tags.clone(),
    }
}

/// Everything about an instance that does not depend on where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The image.
    pub image: ImageId,
    /// The type.
    pub instance_type: InstanceType,
    /// The disks.
    pub block_devices: Vec<BlockDevice>,
    /// The security groups.
    pub groups: Vec<SecurityGroupId>,
    /// The SSH key.
    pub key_name: Option<String>,
    /// The instance profile.
    pub profile: Option<String>,
    /// Whether it gets a public address.
    pub public_ip: Option<bool>,
    /// The metadata service.
    pub metadata: MetadataOptions,
    /// The user data.
    pub user_data: Secret<Vec<u8>>,
    /// On whose hardware.
    pub tenancy: Option<Tenancy>,
    /// Whether it is tied to its host.
    pub affinity: Option<Affinity>,
    /// The tags.
    pub tags: Tags,
}

impl Recipe {
    /// The request for an instance. A rehearsal names no host: there may be none yet.
    #[must_use]
    pub fn run(&self, token: ClientToken, subnet: SubnetId, host: Option<HostId>, dry_run: bool) -> RunInstance {
        RunInstance {
            token,
            dry_run,
            image: self.image.clone(),
            instance_type: self.instance_type.clone(),
            subnet,
            security_groups: self.groups.clone(),
            public_ip: self.public_ip,
            key_name: self.key_name.clone(),
            profile: self.profile.clone(),
            block_devices: self.block_devices.clone(),
            metadata: self.metadata.clone(),
            user_data: Some(self.user_data.clone()).filter(|data| !data.expose().is_empty()),
            placement: Placement {
                tenancy: self.tenancy.clone(),
                affinity: self.affinity.clone().filter(|_| !dry_run),
                host: if dry_run { None } else { host },
                host_resource_group_arn: None,
                group_name: None,
                partition: None,
            },
            license_configuration_arns: Vec::new(),
            tags: self.tags.clone(),
        }
    }
}

/// A launch in words in which launches read the same that EC2 cannot tell apart before it has them: who is launched, and
/// with what data, is left out; what, where, with which rights and which tags of users is not.
#[must_use]
pub fn alike(request: &RunInstance) -> String {
    let mut tags = request.tags.clone();
    for key in [NAME_TAG, MACHINE_NAME_TAG, ALLOCATION_ID_TAG] {
        if let Some(value) = tags.get_mut(key) {
            value.clear();
        }
    }
    let nobody = RunInstance { user_data: None, tags, ..request.clone() };
    // The token names the machine.
    let text = format!("{nobody:?}");
    text.replace(request.token.as_str(), "")
}

/// On whose hardware a machine runs, and whether it is tied to it: exactly what is asked for, and nothing where nothing is.
#[must_use]
pub fn tenancy(spec: &AWSMachineSpec) -> (Option<Tenancy>, Option<Affinity>) {
    let affinity = |affinity| match affinity {
        HostAffinity::Host => Affinity::Host,
        HostAffinity::Default => Affinity::Default,
    };
    match spec.effective_tenancy() {
        WantedTenancy::Default => (None, None),
        WantedTenancy::Dedicated => (Some(Tenancy::Dedicated), None),
        WantedTenancy::Host if spec.dynamic_host_allocation.is_some() => (Some(Tenancy::Host), Some(Affinity::Host)),
        WantedTenancy::Host if spec.host_id.is_some() => {
            (Some(Tenancy::Host), Some(affinity(spec.host_affinity.unwrap_or_default())))
        }
        WantedTenancy::Host => (Some(Tenancy::Host), spec.host_affinity.map(affinity)),
    }
}

/// The SSH key: the machine's own, else the cluster's, else `default` where the cluster is kept by its provider; an empty
/// name means none.
#[must_use]
pub fn ssh_key(own: Option<&str>, cloud: &CloudFacts) -> Option<String> {
    let default = if cloud.external { None } else { Some("default") };
    own.or(cloud.ssh_key.as_deref()).or(default).filter(|name| !name.is_empty()).map(str::to_owned)
}

fn number(path: &str, value: Option<i64>) -> Result<Option<u32>, Obstacle> {
    let bad = |_| Obstacle::terminal(About::Instance, format!("{path}: must not be negative or that large"));
    value.filter(|value| *value != 0).map(u32::try_from).transpose().map_err(bad)
}

fn device(path: &str, name: String, volume: &Volume) -> Result<BlockDevice, Obstacle> {
    Ok(BlockDevice {
        device_name: name,
        size: number(&format!("{path}.size"), Some(volume.size))?,
        volume_type: volume.type_.clone().filter(|kind| !kind.is_empty()),
        iops: number(&format!("{path}.iops"), volume.iops)?,
        throughput: number(&format!("{path}.throughput"), volume.throughput)?,
        encrypted: volume.encrypted,
        kms_key_id: volume.encryption_key.clone().filter(|key| !key.is_empty()),
    })
}

/// The disks of a machine; the name of the root disk is the image's.
///
/// # Errors
/// When a disk cannot be what it is asked to be.
pub fn block_devices(spec: &AWSMachineSpec, image: &Image) -> Result<Vec<BlockDevice>, Obstacle> {
    let terminal = |message: String| Obstacle::terminal(About::Instance, message);
    let mut all = Vec::new();
    if let Some(root) = &spec.root_volume {
        let Some(name) = image.root_device.clone() else {
            return Err(terminal(format!("image {} names no root device, and spec.rootVolume needs it", image.id)));
        };
        if let Some(least) = image.root_size
            && root.size < i64::from(least)
        {
            let message =
                format!("spec.rootVolume.size: {} is less than the {least} GiB of image {}", root.size, image.id);
            return Err(terminal(message));
        }
        all.push(device("spec.rootVolume", name, root)?);
    }
    for (at, volume) in spec.non_root_volumes.iter().enumerate() {
        let path = format!("spec.nonRootVolumes[{at}]");
        let Some(name) = volume.device_name.clone().filter(|name| !name.is_empty()) else {
            return Err(terminal(format!("{path}.deviceName: must be given")));
        };
        all.push(device(&path, name, volume)?);
    }
    Ok(all)
}

/// The metadata service as a machine wants it, defaults filled in.
///
/// # Errors
/// When a number is none.
pub fn metadata(spec: &AWSMachineSpec) -> Result<MetadataOptions, Obstacle> {
    let filled = spec.instance_metadata_options.clone().unwrap_or_default().filled();
    let path = "spec.instanceMetadataOptions.httpPutResponseHopLimit";
    Ok(MetadataOptions {
        http_endpoint: filled.http_endpoint,
        http_tokens: filled.http_tokens,
        http_put_response_hop_limit: number(path, filled.http_put_response_hop_limit)?,
        http_protocol_ipv6: filled.http_protocol_ipv6,
        instance_metadata_tags: filled.instance_metadata_tags,
    })
}

#[cfg(test)]
mod tests {
    use api::own::DynamicHostAllocation;

    use super::*;
    use crate::sample;

    fn spec() -> AWSMachineSpec {
        AWSMachineSpec { instance_type: "m5.large".to_owned(), ..AWSMachineSpec::default() }
    }

    #[test]
    fn exactly_one_of_type_and_family_is_asked_for() {
        let shape_of = |type_: Option<&str>, family: Option<&str>| {
            let dynamic = DynamicHostAllocation {
                instance_type: type_.map(str::to_owned),
                instance_family: family.map(str::to_owned),
                ..DynamicHostAllocation::default()
            };
            shape(&AWSMachineSpec { dynamic_host_allocation: Some(dynamic), ..spec() })
        };
        let type_ = HostShape::Type("m5.large".parse().unwrap());
        assert_eq!(shape_of(None, None), Ok(type_.clone()));
        assert_eq!(shape_of(None, Some("m5")), Ok(HostShape::Family("m5".parse().unwrap())));
        assert_eq!(shape_of(Some("m5.large"), Some("m5")), Ok(type_));
        assert!(shape_of(None, Some("M5")).unwrap_err().message.contains("instanceFamily"));
    }

    #[test]
    fn tenancy_and_affinity_are_sent_as_asked_for() {
        let of = |tenancy_: Option<WantedTenancy>, affinity, host: bool, dynamic: bool| {
            tenancy(&AWSMachineSpec {
                tenancy: tenancy_,
                host_affinity: affinity,
                host_id: host.then(|| "h-0123456789abcdef0".to_owned()),
                dynamic_host_allocation: dynamic.then(DynamicHostAllocation::default),
                ..spec()
            })
        };
        use HostAffinity as A;
        use WantedTenancy as T;
        let host = |affinity| (Some(Tenancy::Host), affinity);
        assert_eq!(of(None, None, false, false), (None, None));
        assert_eq!(of(Some(T::Default), None, false, false), (None, None));
        assert_eq!(of(Some(T::Dedicated), None, false, false), (Some(Tenancy::Dedicated), None));
        assert_eq!(of(Some(T::Host), None, false, false), host(None), "automatic placement");
        assert_eq!(of(Some(T::Host), Some(A::Host), false, false), host(Some(Affinity::Host)), "and pinned");
        assert_eq!(of(Some(T::Host), None, true, false), host(Some(Affinity::Default)));
        assert_eq!(of(Some(T::Host), Some(A::Host), true, false), host(Some(Affinity::Host)));
        assert_eq!(of(None, None, false, true), host(Some(Affinity::Host)), "dynamic hosts are always pinned");
    }

    #[test]
    fn keys_come_from_the_machine_then_the_cluster_then_by_default() {
        let cloud = |key: Option<&str>, external| CloudFacts {
            ssh_key: key.map(str::to_owned),
            external,
            ..CloudFacts::default()
        };
        assert_eq!(ssh_key(Some("own"), &cloud(Some("theirs"), false)).as_deref(), Some("own"));
        assert_eq!(ssh_key(None, &cloud(Some("theirs"), true)).as_deref(), Some("theirs"));
        assert_eq!(ssh_key(None, &cloud(None, false)).as_deref(), Some("default"));
        assert_eq!(ssh_key(None, &cloud(None, true)), None);
        assert_eq!(ssh_key(Some(""), &cloud(Some("theirs"), false)), None);
    }

    #[test]
    fn disks_follow_the_image_and_the_spec() {
        let image = sample::image();
        let volume =
            |name: Option<&str>, size| Volume { device_name: name.map(str::to_owned), size, ..Volume::default() };
        let of = |root: Option<Volume>, others: Vec<Volume>| {
            block_devices(&AWSMachineSpec { root_volume: root, non_root_volumes: others, ..spec() }, &image)
        };
        assert_eq!(of(None, vec![]), Ok(vec![]));
        let both = of(Some(volume(Some("/dev/ignored"), 20)), vec![volume(Some("/dev/sdb"), 100)]).unwrap();
        let shown: Vec<_> = both.iter().map(|disk| (disk.device_name.as_str(), disk.size)).collect();
        assert_eq!(shown, [("/dev/xvda", Some(20)), ("/dev/sdb", Some(100))]);
        assert!(of(Some(volume(None, 7)), vec![]).unwrap_err().message.contains("less than the 8 GiB"));
        assert!(of(None, vec![volume(None, 7)]).unwrap_err().message.contains("nonRootVolumes[0].deviceName"));
        let fast = Volume { iops: Some(-1), ..volume(Some("/dev/sdb"), 10) };
        assert!(of(None, vec![fast]).unwrap_err().message.contains("nonRootVolumes[0].iops"));
    }

    #[test]
    fn a_rehearsal_names_no_host_and_the_real_thing_does() {
        let recipe = sample::recipe();
        let host: HostId = "h-0123456789abcdef0".parse().unwrap();
        let token = || "ri-x-1".parse().unwrap();
        let subnet = || "subnet-0000000a".parse().unwrap();
        let real = recipe.run(token(), subnet(), Some(host.clone()), false);
        assert_eq!((real.placement.host, real.placement.affinity), (Some(host.clone()), Some(Affinity::Host)));
        let dry = recipe.run(token(), subnet(), Some(host), true);
        assert_eq!((dry.placement.host, dry.placement.affinity, dry.dry_run), (None, None, true));
        assert_eq!(dry.placement.tenancy, Some(Tenancy::Host));
    }

    #[test]
    fn rehearsals_of_equal_machines_read_the_same_and_others_do_not() {
        let of = |name: &str, data: &[u8], change: &dyn Fn(&mut Recipe)| {
            let mut recipe = sample::recipe();
            recipe.user_data = data.to_vec().into();
            recipe.tags.insert(NAME_TAG.to_owned(), name.to_owned());
            recipe.tags.insert(MACHINE_NAME_TAG.to_owned(), format!("n/{name}"));
            recipe.tags.insert(ALLOCATION_ID_TAG.to_owned(), format!("id-of-{name}"));
            recipe.tags.insert("team".to_owned(), "blue".to_owned());
            change(&mut recipe);
            let token = format!("dr-id-of-{name}").parse().unwrap();
            alike(&recipe.run(token, "subnet-0000000a".parse().unwrap(), None, true))
        };
        let one = of("a", b"data of a", &|_| {});
        assert_eq!(one, of("b", b"data of b", &|_| {}));
        assert!(!one.contains("id-of-a") && one.contains("blue"), "{one}");
        for other in [
            of("a", b"data of a", &|recipe| recipe.image = "ami-0000000b".parse().unwrap()),
            of("a", b"data of a", &|recipe| recipe.profile = Some("nodes".to_owned())),
            of("a", b"data of a", &|recipe| recipe.groups.clear()),
            of("a", b"data of a", &|recipe| drop(recipe.tags.insert("team".to_owned(), "red".to_owned()))),
            of("a", b"data of a", &|recipe| drop(recipe.tags.remove(NAME_TAG))),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn hosts_are_asked_for_exactly_as_the_journal_says() {
        let allocation = sample::allocation();
        let request = allocate(&allocation);
        assert_eq!(
            (request.token, request.zone, request.shape, request.quantity, request.recovery, request.tags),
            (
                allocation.token,
                allocation.terms.zone,
                allocation.terms.shape,
                allocation.terms.quantity,
                allocation.terms.recovery,
                allocation.terms.tags
            )
        );
    }

    #[test]
    fn the_metadata_service_has_defaults() {
        let options = metadata(&spec()).unwrap();
        assert_eq!((options.http_tokens.as_deref(), options.http_put_response_hop_limit), (Some("optional"), Some(1)));
    }
}
