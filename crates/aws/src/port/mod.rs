//! The calls rooms make, in domain types, without a word about how they travel.
//!
//! The network half implements these traits on the real wire protocol; a model in a property test implements them on a
//! map. Lists come back whole: paging is the implementation's business, and a failure on any page is a failure.

mod catalogue;
mod common;
mod host;
mod identity;
mod instance;
mod network;

use std::future::Future;

use api::names::{HostId, InstanceId, NetworkInterfaceId, SecurityGroupId, SubnetId, VpcId};

pub use catalogue::{
    Architecture, Gpu, Image, ImageQuery, LocationType, NeuronDevice, Offering, OptIn, RegionInfo, TypeFacts, TypeList,
    TypeQuery, ZoneInfo,
};
pub use common::{Filter, ItemError, Judged, Tags};
pub use host::{AllocateHosts, Host, HostQuery, HostRoom, HostShape, HostState, HostedInstance, ModifyHosts, Switch};
pub use identity::{AssumeRole, AssumeRoleWithWebIdentity, CallerIdentity, Credentials, Keys};
pub use instance::{
    Affinity, BlockDevice, Instance, InstanceInterface, InstanceQuery, InstanceState, MetadataOptions, Placement,
    RunInstance, StateChange, StateReason, Tenancy,
};
pub use network::{DhcpOptions, NetworkInterface, SecurityGroup, Subnet, TagDescription, Volume, Vpc};

use crate::errors::Error;

/// What a call gives.
pub type Answer<T> = Result<T, Error>;

/// EC2 as the rooms see it: one region, one identity.
///
/// Reads are eventually consistent: *not found* soon after a write proves nothing.
pub trait Ec2: Send + Sync {
    /// Allocates hosts; gives their ids, which may be fewer than asked for.
    fn allocate_hosts(&self, request: &AllocateHosts) -> impl Future<Output = Answer<Vec<HostId>>> + Send;

    /// Gives hosts back; each id is judged on its own.
    fn release_hosts(&self, hosts: &[HostId]) -> impl Future<Output = Answer<Judged<HostId>>> + Send;

    /// Describes hosts, released ones included for a while.
    fn describe_hosts(&self, query: &HostQuery) -> impl Future<Output = Answer<Vec<Host>>> + Send;

    /// Changes hosts; each id is judged on its own.
    fn modify_hosts(&self, request: &ModifyHosts) -> impl Future<Output = Answer<Judged<HostId>>> + Send;

    /// Launches one instance.
    fn run_instance(&self, request: &RunInstance) -> impl Future<Output = Answer<Instance>> + Send;

    /// Describes instances, terminated ones included for a while.
    fn describe_instances(&self, query: &InstanceQuery) -> impl Future<Output = Answer<Vec<Instance>>> + Send;

    /// Ends instances; doing it again changes nothing.
    fn terminate_instances(&self, instances: &[InstanceId]) -> impl Future<Output = Answer<Vec<StateChange>>> + Send;

    /// Stops instances, which keep their disks and, on a host they are tied to, their place; doing it again changes
    /// nothing.
    fn stop_instances(&self, instances: &[InstanceId]) -> impl Future<Output = Answer<Vec<StateChange>>> + Send;

    /// Starts stopped instances; doing it again changes nothing.
    fn start_instances(&self, instances: &[InstanceId]) -> impl Future<Output = Answer<Vec<StateChange>>> + Send;

    /// Changes how an instance reaches its metadata service; what is `None` stays.
    fn modify_instance_metadata_options(
        &self,
        instance: &InstanceId,
        options: &MetadataOptions,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// Sets tags on resources of any kind, by their ids; existing keys are overwritten.
    fn create_tags(&self, resources: &[String], tags: &Tags) -> impl Future<Output = Answer<()>> + Send;

    /// Takes tags of these keys off resources, whatever their values.
    fn delete_tags(&self, resources: &[String], keys: &[String]) -> impl Future<Output = Answer<()>> + Send;

    /// Lists tags that match all filters.
    fn describe_tags(&self, filters: &[Filter]) -> impl Future<Output = Answer<Vec<TagDescription>>> + Send;

    /// Describes instance types.
    fn describe_instance_types(&self, query: &TypeQuery) -> impl Future<Output = Answer<TypeList>> + Send;

    /// Lists where instance types are offered.
    fn describe_instance_type_offerings(
        &self,
        location: &LocationType,
        filters: &[Filter],
    ) -> impl Future<Output = Answer<Vec<Offering>>> + Send;

    /// Describes images.
    fn describe_images(&self, query: &ImageQuery) -> impl Future<Output = Answer<Vec<Image>>> + Send;

    /// Lists all regions of the partition, those not opted in included.
    fn describe_regions(&self) -> impl Future<Output = Answer<Vec<RegionInfo>>> + Send;

    /// Lists the zones of the region, local and wavelength zones included.
    fn describe_availability_zones(&self) -> impl Future<Output = Answer<Vec<ZoneInfo>>> + Send;

    /// Describes subnets: these, or those that match, or both.
    fn describe_subnets(
        &self,
        ids: &[SubnetId],
        filters: &[Filter],
    ) -> impl Future<Output = Answer<Vec<Subnet>>> + Send;

    /// Describes virtual private clouds.
    fn describe_vpcs(&self, ids: &[VpcId]) -> impl Future<Output = Answer<Vec<Vpc>>> + Send;

    /// Describes sets of DHCP options.
    fn describe_dhcp_options(&self, ids: &[String]) -> impl Future<Output = Answer<Vec<DhcpOptions>>> + Send;

    /// Describes security groups: these, or those that match, or both.
    fn describe_security_groups(
        &self,
        ids: &[SecurityGroupId],
        filters: &[Filter],
    ) -> impl Future<Output = Answer<Vec<SecurityGroup>>> + Send;

    /// Describes network interfaces that match.
    fn describe_network_interfaces(
        &self,
        filters: &[Filter],
    ) -> impl Future<Output = Answer<Vec<NetworkInterface>>> + Send;

    /// Sets the security groups of a network interface.
    fn set_interface_security_groups(
        &self,
        interface: &NetworkInterfaceId,
        groups: &[SecurityGroupId],
    ) -> impl Future<Output = Answer<()>> + Send;

    /// Describes disks that match.
    fn describe_volumes(&self, filters: &[Filter]) -> impl Future<Output = Answer<Vec<Volume>>> + Send;
}

/// STS as the rooms and the credential sources see it.
pub trait Sts: Send + Sync {
    /// Says who calls; needs no right.
    fn get_caller_identity(&self) -> impl Future<Output = Answer<CallerIdentity>> + Send;

    /// Takes on a role.
    fn assume_role(&self, request: &AssumeRole) -> impl Future<Output = Answer<Credentials>> + Send;

    /// Takes on a role with a token of another authority; the call itself is not signed.
    fn assume_role_with_web_identity(
        &self,
        request: &AssumeRoleWithWebIdentity,
    ) -> impl Future<Output = Answer<Credentials>> + Send;
}
