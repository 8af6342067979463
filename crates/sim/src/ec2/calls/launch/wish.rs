//! A launch as it was asked for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::super::wire::params::Fields;
use super::super::super::wire::refusal::Refusal;
use super::super::super::world::instance::MetadataOptions;
use super::super::super::world::place::Tags;
use super::super::Call;
use super::super::instances::metadata;
use super::super::shared::{check_ids, not_modelled, tag_specifications};

/// Of a network interface.
const INTERFACE_NOT_MODELLED: &[&str] = &[
    "AssociateCarrierIpAddress",
    "ConnectionTrackingSpecification",
    "EnaQueueCount",
    "EnaSrdSpecification",
    "Ipv4Prefix",
    "Ipv4PrefixCount",
    "Ipv6AddressCount",
    "Ipv6Addresses",
    "Ipv6Prefix",
    "Ipv6PrefixCount",
    "NetworkInterfaceId",
    "PrimaryIpv6",
    "PrivateIpAddress",
    "PrivateIpAddresses",
    "SecondaryPrivateIpAddressCount",
];

/// Of a volume.
const EBS_NOT_MODELLED: &[&str] =
    &["AvailabilityZone", "AvailabilityZoneId", "EbsCardIndex", "OutpostArn", "VolumeInitializationRate"];

/// A launch as it was asked for.
pub(super) struct Wish {
    pub(super) image: String,
    pub(super) kind: String,
    pub(super) least: u32,
    pub(super) most: u32,
    pub(super) placement: Placement,
    pub(super) subnet: Option<String>,
    pub(super) groups: Vec<String>,
    pub(super) public_ip: Option<bool>,
    pub(super) description: String,
    pub(super) key: Option<String>,
    pub(super) profile: Option<String>,
    pub(super) user_data: usize,
    pub(super) devices: Vec<Device>,
    pub(super) metadata: MetadataOptions,
    pub(super) ebs_optimized: bool,
    pub(super) tags: [Tags; 3],
}

#[derive(Default)]
pub(super) struct Placement {
    pub(super) zone: Option<String>,
    pub(super) tenancy: Option<String>,
    pub(super) host: Option<String>,
    pub(super) affinity: Option<String>,
}

pub(super) struct Device {
    pub(super) name: String,
    pub(super) size: Option<u32>,
    pub(super) kind: String,
    pub(super) encrypted: bool,
    pub(super) delete: bool,
}

pub(super) fn wish(call: &mut Call<'_>) -> Result<Wish, Refusal> {
    let region = call.place.region;
    let fields = &mut call.fields;
    let least = fields.number("MinCount", 1, 1_000)?.ok_or_else(|| Refusal::missing("MinCount"))?;
    let most = fields.number("MaxCount", 1, 1_000)?.ok_or_else(|| Refusal::missing("MaxCount"))?;
    if least > most {
        return Err(Refusal::combination("MinCount must not be greater than MaxCount"));
    }
    let mut monitoring = fields.group("Monitoring")?;
    monitoring.flag("Enabled")?;
    monitoring.finish()?;
    for name in ["DisableApiTermination", "DisableApiStop"] {
        fields.flag(name)?;
    }
    fields.one_of("InstanceInitiatedShutdownBehavior", &["stop", "terminate"])?;
    let mut dns = fields.group("PrivateDnsNameOptions")?;
    dns.one_of("HostnameType", &["ip-name", "resource-name"])?;
    dns.flag("EnableResourceNameDnsARecord")?;
    dns.flag("EnableResourceNameDnsAAAARecord")?;
    dns.finish()?;
    let mut maintenance = fields.group("MaintenanceOptions")?;
    maintenance.one_of("AutoRecovery", &["disabled", "default"])?;
    maintenance.finish()?;
    let placement = placement(fields, |id| region.zone_of_id(id))?;
    let mut profile = fields.group("IamInstanceProfile")?;
    let profile_name = match (profile.text("Arn")?, profile.text("Name")?) {
        (Some(_), Some(_)) => {
            return Err(Refusal::combination(
                "The parameter 'iamInstanceProfile.name' may not be used in combination with 'iamInstanceProfile.arn'",
            ));
        }
        (arn, name) => arn.or(name),
    };
    profile.finish()?;
    let (mut subnet, mut groups) = (fields.text("SubnetId")?, fields.texts("SecurityGroupId")?);
    let (mut public_ip, mut description) = (None, String::new());
    for (at, mut interface) in fields.groups("NetworkInterface")?.into_iter().enumerate() {
        not_modelled(&interface, INTERFACE_NOT_MODELLED)?;
        if at > 0 {
            return Err(Refusal::bad(
                "UnsupportedOperation",
                "The simulator models one network interface per instance",
            ));
        }
        if subnet.is_some() || !groups.is_empty() {
            return Err(Refusal::combination(
                "Network interfaces and an instance-level subnet ID or security groups may not be specified on the same request",
            ));
        }
        let device = interface
            .number("DeviceIndex", 0, 15)?
            .ok_or_else(|| Refusal::missing("NetworkInterface.1.DeviceIndex"))?;
        if device != 0 {
            return Err(Refusal::bad(
                "InvalidParameterValue",
                "The primary network interface must have the device index 0",
            ));
        }
        subnet = interface.text("SubnetId")?;
        groups = interface.texts("SecurityGroupId")?;
        public_ip = interface.flag("AssociatePublicIpAddress")?;
        description = interface.text("Description")?.unwrap_or_default();
        interface.flag("DeleteOnTermination")?;
        interface.number("NetworkCardIndex", 0, 0)?;
        interface.one_of("InterfaceType", &["interface", "efa"])?;
        interface.finish()?;
    }
    Ok(Wish {
        image: fields.required("ImageId")?,
        kind: fields.text("InstanceType")?.unwrap_or_else(|| "m1.small".to_owned()),
        least,
        most,
        placement,
        subnet,
        groups,
        public_ip,
        description,
        key: fields.text("KeyName")?,
        profile: profile_name,
        user_data: user_data(fields)?,
        devices: devices(fields)?,
        metadata: metadata(&mut fields.group("MetadataOptions")?, MetadataOptions::default())?,
        ebs_optimized: fields.flag("EbsOptimized")?.unwrap_or(false),
        tags: tag_specifications(fields, ["instance", "volume", "network-interface"])?,
    })
}

fn placement(fields: &mut Fields, zone_of: impl Fn(&str) -> Option<String>) -> Result<Placement, Refusal> {
    let mut group = fields.group("Placement")?;
    let tenancy = group.text("Tenancy")?;
    if let Some(other) = tenancy.as_deref().filter(|t| !["default", "dedicated", "host"].contains(t)) {
        return Err(Refusal::bad("InvalidTenancy", format!("The tenancy {other} is not supported")));
    }
    let affinity = group.text("Affinity")?;
    if let Some(other) = affinity.as_deref().filter(|a| !["default", "host"].contains(a)) {
        return Err(Refusal::bad("InvalidAffinity", format!("The specified affinity value is not valid: {other}")));
    }
    let host = group.text("HostId")?;
    let on_host = tenancy.as_deref() == Some("host");
    for (name, given) in [("affinity", affinity.is_some()), ("hostId", host.is_some())] {
        if given && !on_host {
            return Err(Refusal::combination(format!(
                "The parameter {name} cannot be used without specifying a tenancy of 'host'"
            )));
        }
    }
    let named = group.text("GroupName")?;
    if named.as_ref().is_some_and(|name| !name.is_empty()) {
        if on_host {
            return Err(Refusal::combination(
                "You cannot launch an instance with a tenancy of 'host' into a placement group. Either remove the \
                 placement group from the request, or specify a different tenancy.",
            ));
        }
        return Err(Refusal::bad("InvalidPlacementGroup.Unknown", "The placement group is unknown"));
    }
    not_modelled(&group, &["HostResourceGroupArn", "PartitionNumber", "SpreadDomain", "GroupId"])?;
    let zone = match (group.text("AvailabilityZone")?, group.text("AvailabilityZoneId")?) {
        (Some(_), Some(_)) => {
            return Err(Refusal::combination(
                "Placement.AvailabilityZone and Placement.AvailabilityZoneId cannot be used together",
            ));
        }
        (Some(zone), None) => Some(zone),
        (None, Some(id)) => Some(zone_of(&id).unwrap_or(id)),
        (None, None) => None,
    };
    group.finish()?;
    if let Some(host) = &host {
        check_ids(std::slice::from_ref(host), "h", "InvalidHostId.Malformed")?;
    }
    Ok(Placement { zone, tenancy, host, affinity })
}

fn user_data(fields: &mut Fields) -> Result<usize, Refusal> {
    let Some(text) = fields.text("UserData")? else { return Ok(0) };
    let bytes = STANDARD
        .decode(&text)
        .map_err(|_| Refusal::bad("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."))?;
    if bytes.len() > 16_384 {
        return Err(Refusal::bad("InvalidParameterValue", "User data is limited to 16384 bytes"));
    }
    Ok(bytes.len())
}

fn devices(fields: &mut Fields) -> Result<Vec<Device>, Refusal> {
    let mut devices = Vec::new();
    for mut mapping in fields.groups("BlockDeviceMapping")? {
        let name = mapping.required("DeviceName")?;
        not_modelled(&mapping, &["NoDevice", "VirtualName"])?;
        let mut ebs = mapping.group("Ebs")?;
        not_modelled(&ebs, EBS_NOT_MODELLED)?;
        let kind = ebs
            .one_of("VolumeType", &["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"])?
            .unwrap_or_else(|| "gp2".to_owned());
        let iops = ebs.number("Iops", 100, 256_000)?;
        let throughput = ebs.number("Throughput", 125, 2_000)?;
        if matches!(kind.as_str(), "io1" | "io2") && iops.is_none() {
            let text = format!("The parameter iops must be specified for {kind} volumes.");
            return Err(Refusal::bad("InvalidBlockDeviceMapping", text));
        }
        if throughput.is_some() && kind != "gp3" {
            let text = format!("The parameter throughput is not supported for {kind} volumes.");
            return Err(Refusal::bad("InvalidBlockDeviceMapping", text));
        }
        devices.push(Device {
            name,
            size: ebs.number("VolumeSize", 1, 65_536)?,
            encrypted: ebs.flag("Encrypted")?.unwrap_or(false),
            delete: ebs.flag("DeleteOnTermination")?.unwrap_or(true),
            kind,
        });
        ebs.text("KmsKeyId")?;
        ebs.text("SnapshotId")?;
        ebs.finish()?;
        mapping.finish()?;
    }
    Ok(devices)
}
