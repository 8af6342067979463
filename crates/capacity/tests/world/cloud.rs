//! A model of EC2 behind the port: a short catalogue, counted calls, failures on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::names::{HostId, ImageId, InstanceId, NetworkInterfaceId, SecurityGroupId, SubnetId, VpcId};
use aws::errors::Error;
use aws::port::*;
use capacity::cloud::{Cloud, Door, DoorError};

#[derive(Default)]
struct Inside {
    calls: BTreeMap<String, u32>,
    down: BTreeSet<String>,
    extra: BTreeMap<String, TypeFacts>,
    doors: Vec<Door>,
    refused: BTreeSet<String>,
    hanging: BTreeSet<String>,
    empty: BTreeSet<String>,
    forgotten: u32,
}

/// The one image of Windows.
pub const WINDOWS: &str = "ami-0a1b2c3d";

/// The model; clones share it.
#[derive(Clone, Default)]
pub struct Model(Arc<Mutex<Inside>>);

/// One region of it.
pub struct Region {
    name: String,
    source: String,
    model: Model,
}

pub fn facts(name: &str) -> Option<TypeFacts> {
    let (vcpus, memory_mib, arch) = match name {
        "m5.xlarge" => (4, 16384, Architecture::X86_64),
        "m5.4xlarge" => (16, 65536, Architecture::X86_64),
        "m6g.4xlarge" => (16, 65536, Architecture::Arm64),
        "odd.large" => (0, 1024, Architecture::X86_64),
        _ => return None,
    };
    Some(TypeFacts {
        name: name.into(),
        vcpus,
        memory_mib,
        architectures: vec![arch],
        gpus: vec![],
        neuron: vec![],
        storage_gb: 0,
        interfaces: 4,
        ipv4_per_interface: 15,
        dedicated_hosts: false,
        bare_metal: false,
    })
}

impl Model {
    pub fn lists(&self, region: &str) -> u32 {
        self.count(&format!("list {region}"))
    }

    pub fn looks(&self, region: &str) -> u32 {
        self.count(&format!("look {region}"))
    }

    /// How often somebody asked which regions there are, all of them in the one that answers for its partition.
    pub fn regions(&self) -> u32 {
        self.regions_told_by("us-east-1")
    }

    /// The same, of the one that answers for another partition.
    pub fn regions_told_by(&self, home: &str) -> u32 {
        self.count(&format!("regions {home}"))
    }

    /// How often a client was let go of.
    pub fn forgotten(&self) -> u32 {
        self.0.lock().unwrap().forgotten
    }

    pub fn calls(&self) -> u32 {
        self.0.lock().unwrap().calls.values().sum()
    }

    pub fn doors(&self) -> Vec<Door> {
        self.0.lock().unwrap().doors.clone()
    }

    fn count(&self, what: &str) -> u32 {
        self.0.lock().unwrap().calls.get(what).copied().unwrap_or(0)
    }

    /// A region does not answer from now on, or does again.
    pub fn down(&self, region: &str, down: bool) {
        let mut inside = self.0.lock().unwrap();
        if down {
            inside.down.insert(region.to_owned())
        } else {
            inside.down.remove(region)
        };
    }

    /// A region lists no types at all from now on, or does again.
    pub fn empty(&self, region: &str, empty: bool) {
        let mut inside = self.0.lock().unwrap();
        if empty {
            inside.empty.insert(region.to_owned())
        } else {
            inside.empty.remove(region)
        };
    }

    /// A region takes calls and never answers from now on, or does again.
    pub fn hang(&self, region: &str, hang: bool) {
        let mut inside = self.0.lock().unwrap();
        if hang {
            inside.hanging.insert(region.to_owned())
        } else {
            inside.hanging.remove(region)
        };
    }

    /// These credentials are refused from now on.
    pub fn refuse(&self, source: &str) {
        self.0.lock().unwrap().refused.insert(source.to_owned());
    }

    /// A type that is launched after the list was made.
    pub fn launch(&self, facts: TypeFacts) {
        self.0.lock().unwrap().extra.insert(facts.name.to_string(), facts);
    }
}

impl Cloud for Model {
    type Ec2 = Region;

    fn open(&self, door: &Door) -> Result<Region, DoorError> {
        self.0.lock().unwrap().doors.push(door.clone());
        Ok(Region { name: door.region.to_string(), source: door.source.describe(), model: self.clone() })
    }

    async fn account(&self, _: &Door) -> Answer<api::names::AccountId> {
        Ok("123456789012".parse().unwrap())
    }

    fn forget(&self, _: &Door) {
        self.0.lock().unwrap().forgotten += 1;
    }
}

impl Region {
    async fn call(&self, what: &str) -> Result<(), Error> {
        let (down, refused, hanging) = {
            let mut inside = self.model.0.lock().unwrap();
            *inside.calls.entry(format!("{what} {}", self.name)).or_default() += 1;
            let (down, hanging) = (inside.down.contains(&self.name), inside.hanging.contains(&self.name));
            (down, inside.refused.contains(&self.source), hanging)
        };
        if hanging {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        if refused {
            let message = "You are not authorized to perform this operation.";
            return Err(Error::refused("DescribeInstanceTypes", &self.name, "UnauthorizedOperation", message));
        }
        if down {
            return Err(Error::refused(
                "DescribeInstanceTypes",
                &self.name,
                "RequestLimitExceeded",
                "Request limit exceeded.",
            ));
        }
        Ok(())
    }

    fn no<T>(&self, operation: &'static str) -> Answer<T> {
        Err(Error::refused(operation, &self.name, "UnsupportedOperation", "the model does not know it"))
    }
}

impl Ec2 for Region {
    async fn describe_instance_types(&self, query: &TypeQuery) -> Answer<TypeList> {
        match query {
            TypeQuery::All => {
                self.call("list").await?;
                if self.model.0.lock().unwrap().empty.contains(&self.name) {
                    return Ok(TypeList { types: Vec::new(), nameless: 0 });
                }
                let types =
                    ["m5.xlarge", "m5.4xlarge", "m6g.4xlarge", "odd.large"].iter().filter_map(|name| facts(name));
                Ok(TypeList { types: types.collect(), nameless: 1 })
            }
            TypeQuery::Names(names) => {
                self.call("look").await?;
                let extra = self.model.0.lock().unwrap().extra.clone();
                let found: Vec<TypeFacts> = names
                    .iter()
                    .filter_map(|name| facts(name.as_str()).or_else(|| extra.get(name.as_str()).cloned()))
                    .collect();
                if found.len() < names.len() {
                    return Err(Error::refused(
                        "DescribeInstanceTypes",
                        &self.name,
                        "InvalidInstanceType",
                        "no such type",
                    ));
                }
                Ok(TypeList { types: found, nameless: 0 })
            }
        }
    }
    async fn describe_regions(&self) -> Answer<Vec<RegionInfo>> {
        self.call("regions").await?;
        let region = |name: &str, opt_in| RegionInfo { name: name.to_owned(), opt_in };
        Ok(vec![
            region("us-east-1", OptIn::NotRequired),
            region("xx-shut-1", OptIn::NotOptedIn),
            region("xx-open-1", OptIn::OptedIn),
        ])
    }
    async fn allocate_hosts(&self, _: &AllocateHosts) -> Answer<Vec<HostId>> {
        self.no("AllocateHosts")
    }
    async fn release_hosts(&self, _: &[HostId]) -> Answer<Judged<HostId>> {
        self.no("ReleaseHosts")
    }
    async fn describe_hosts(&self, _: &HostQuery) -> Answer<Vec<Host>> {
        self.no("DescribeHosts")
    }
    async fn modify_hosts(&self, _: &ModifyHosts) -> Answer<Judged<HostId>> {
        self.no("ModifyHosts")
    }
    async fn run_instance(&self, _: &RunInstance) -> Answer<Instance> {
        self.no("RunInstances")
    }
    async fn describe_instances(&self, _: &InstanceQuery) -> Answer<Vec<Instance>> {
        self.no("DescribeInstances")
    }
    async fn terminate_instances(&self, _: &[InstanceId]) -> Answer<Vec<StateChange>> {
        self.no("TerminateInstances")
    }
    async fn stop_instances(&self, _: &[InstanceId]) -> Answer<Vec<StateChange>> {
        self.no("StopInstances")
    }
    async fn start_instances(&self, _: &[InstanceId]) -> Answer<Vec<StateChange>> {
        self.no("StartInstances")
    }
    async fn modify_instance_metadata_options(&self, _: &InstanceId, _: &MetadataOptions) -> Answer<()> {
        self.no("ModifyInstanceMetadataOptions")
    }
    async fn create_tags(&self, _: &[String], _: &Tags) -> Answer<()> {
        self.no("CreateTags")
    }
    async fn delete_tags(&self, _: &[String], _: &[String]) -> Answer<()> {
        self.no("DeleteTags")
    }
    async fn describe_tags(&self, _: &[Filter]) -> Answer<Vec<TagDescription>> {
        self.no("DescribeTags")
    }
    async fn describe_instance_type_offerings(&self, _: &LocationType, _: &[Filter]) -> Answer<Vec<Offering>> {
        self.no("DescribeInstanceTypeOfferings")
    }
    async fn describe_images(&self, query: &ImageQuery) -> Answer<Vec<Image>> {
        self.call("images").await?;
        let image = |id: &ImageId| Image {
            id: id.clone(),
            name: None,
            owner: None,
            state: "available".to_owned(),
            architecture: None,
            created: None,
            platform: (id.as_str() == WINDOWS).then(|| "windows".to_owned()),
            platform_details: None,
            root_device: None,
            root_size: None,
            virtualization: None,
            tags: Tags::default(),
        };
        Ok(query.ids.iter().map(image).collect())
    }
    async fn describe_availability_zones(&self) -> Answer<Vec<ZoneInfo>> {
        self.no("DescribeAvailabilityZones")
    }
    async fn describe_subnets(&self, _: &[SubnetId], _: &[Filter]) -> Answer<Vec<Subnet>> {
        self.no("DescribeSubnets")
    }
    async fn describe_vpcs(&self, _: &[VpcId]) -> Answer<Vec<Vpc>> {
        self.no("DescribeVpcs")
    }
    async fn describe_dhcp_options(&self, _: &[String]) -> Answer<Vec<DhcpOptions>> {
        self.no("DescribeDhcpOptions")
    }
    async fn describe_security_groups(&self, _: &[SecurityGroupId], _: &[Filter]) -> Answer<Vec<SecurityGroup>> {
        self.no("DescribeSecurityGroups")
    }
    async fn describe_network_interfaces(&self, _: &[Filter]) -> Answer<Vec<NetworkInterface>> {
        self.no("DescribeNetworkInterfaces")
    }
    async fn set_interface_security_groups(&self, _: &NetworkInterfaceId, _: &[SecurityGroupId]) -> Answer<()> {
        self.no("ModifyNetworkInterfaceAttribute")
    }
    async fn describe_volumes(&self, _: &[Filter]) -> Answer<Vec<Volume>> {
        self.no("DescribeVolumes")
    }
}
