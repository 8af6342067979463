//! EC2 through the Query protocol.

mod catalogue;
mod hosts;
mod instances;
mod network;
mod read;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::names::{HostId, InstanceId, NetworkInterfaceId, SecurityGroupId, SubnetId, VpcId};
use kit::flight::Flights;

use super::call::{Call, Caller, Repeat, Said};
use super::wire::{Document, Form, Node};
use crate::errors::Cause;
use crate::port::{
    AllocateHosts, Answer, DhcpOptions, Ec2, Filter, Host, HostQuery, Image, ImageQuery, Instance, InstanceQuery,
    Judged, LocationType, MetadataOptions, ModifyHosts, NetworkInterface, Offering, RegionInfo, RunInstance,
    SecurityGroup, StateChange, Subnet, TagDescription, Tags, TypeList, TypeQuery, Volume, Vpc, ZoneInfo,
};

/// Reads that many ask at the same time and whose answer is the same for all.
#[derive(Default)]
struct Shared {
    types: Flights<TypeQuery, Answer<TypeList>>,
    offerings: Flights<(LocationType, Vec<Filter>), Answer<Vec<Offering>>>,
    images: Flights<ImageQuery, Answer<Vec<Image>>>,
    regions: Flights<(), Answer<Vec<RegionInfo>>>,
    zones: Flights<(), Answer<Vec<ZoneInfo>>>,
}

/// EC2 of one region, called with one identity; clones share everything.
#[derive(Clone)]
pub struct Ec2Client {
    caller: Caller,
    shared: Arc<Shared>,
}

impl Ec2Client {
    pub(crate) fn new(caller: Caller) -> Self {
        Self { caller, shared: Arc::default() }
    }

    /// Makes a call and reads the one thing it gives.
    async fn one<T>(&self, call: Call, read: impl FnOnce(Node<'_>) -> Result<T, String> + Send) -> Answer<T> {
        let operation = call.operation;
        let Said { document, request_id } = self.caller.call(&call).await?;
        let value = read(document.root());
        value.map_err(|detail| self.caller.error(operation, Cause::Malformed { detail }).with_request_id(request_id))
    }

    /// Reads a list to its end.
    async fn list<T>(
        &self,
        operation: &'static str,
        form: Form,
        read: impl Fn(Node<'_>, &mut Vec<T>) -> Result<(), String> + Send + Sync,
    ) -> Answer<Vec<T>> {
        let page = |document: &Document, found: &mut Vec<T>| read(document.root(), found);
        self.caller.list(Call::read(operation, form), page).await
    }

    /// Makes a call that only says whether it worked.
    async fn done(&self, call: Call) -> Answer<()> {
        // Some of these answer `<return>false</return>` instead of an error.
        let read = |root: Node<'_>| match root.get("return") {
            Some("false") => Err("it says that nothing was done".to_owned()),
            _ => Ok(()),
        };
        self.one(call, read).await
    }

    /// Makes a call that changes the states of instances.
    async fn change_states(&self, call: Call) -> Answer<Vec<StateChange>> {
        let read = |root: Node<'_>| {
            let mut found = Vec::new();
            instances::changed(root, &mut found).map(|()| found)
        };
        self.one(call, read).await
    }

    async fn types(&self, query: &TypeQuery) -> Answer<TypeList> {
        const OPERATION: &str = "DescribeInstanceTypes";
        let forms: Vec<Form> = match query {
            TypeQuery::All => vec![catalogue::all_types()],
            TypeQuery::Names(names) => {
                names.chunks(catalogue::TYPES).map(|names| Form::new().list("InstanceType", names)).collect()
            }
        };
        let mut whole = TypeList::default();
        for form in forms {
            let page = |document: &Document, pages: &mut Vec<TypeList>| {
                let mut page = TypeList::default();
                catalogue::types(document.root(), &mut page);
                pages.push(page);
                Ok(())
            };
            for page in self.caller.list(Call::read(OPERATION, form), page).await? {
                whole.types.extend(page.types);
                whole.nameless += page.nameless;
            }
        }
        Ok(whole)
    }
}

impl Ec2 for Ec2Client {
    async fn allocate_hosts(&self, request: &AllocateHosts) -> Answer<Vec<HostId>> {
        let call = Call::change("AllocateHosts", hosts::allocate(request), Repeat::Safe);
        self.one(call, hosts::allocated).await
    }

    async fn release_hosts(&self, hosts: &[HostId]) -> Answer<Judged<HostId>> {
        if hosts.is_empty() {
            return Ok(Judged::default());
        }
        // A repetition would call the hosts of the first one unknown.
        let call = Call::change("ReleaseHosts", hosts::release(hosts), Repeat::IfNotDone).urgent();
        self.one(call, hosts::each_judged).await
    }

    async fn describe_hosts(&self, query: &HostQuery) -> Answer<Vec<Host>> {
        let form = match query {
            // Without an id this would be a question for all of them.
            HostQuery::Ids(ids) if ids.is_empty() => return Ok(Vec::new()),
            HostQuery::Ids(ids) => Form::new().list("HostId", ids),
            HostQuery::Matching(filters) => hosts::page_size(Form::new().filters(filters)),
        };
        self.list("DescribeHosts", form, hosts::described).await
    }

    async fn modify_hosts(&self, request: &ModifyHosts) -> Answer<Judged<HostId>> {
        if request.hosts.is_empty() {
            return Ok(Judged::default());
        }
        let call = Call::change("ModifyHosts", hosts::modify(request), Repeat::Safe);
        self.one(call, hosts::each_judged).await
    }

    async fn run_instance(&self, request: &RunInstance) -> Answer<Instance> {
        let call = Call::change("RunInstances", instances::run(request), Repeat::Safe).resources(1);
        self.one(call, instances::launched).await
    }

    async fn describe_instances(&self, query: &InstanceQuery) -> Answer<Vec<Instance>> {
        let form = match query {
            InstanceQuery::Ids(ids) if ids.is_empty() => return Ok(Vec::new()),
            InstanceQuery::Ids(ids) => Form::new().list("InstanceId", ids),
            InstanceQuery::Matching(filters) => instances::page_size(Form::new().filters(filters)),
        };
        self.list("DescribeInstances", form, instances::described).await
    }

    async fn terminate_instances(&self, instances: &[InstanceId]) -> Answer<Vec<StateChange>> {
        if instances.is_empty() {
            return Ok(Vec::new());
        }
        let call = Call::change("TerminateInstances", instances::named(instances), Repeat::Safe);
        self.change_states(call.urgent().resources(instances.len())).await
    }

    async fn stop_instances(&self, instances: &[InstanceId]) -> Answer<Vec<StateChange>> {
        if instances.is_empty() {
            return Ok(Vec::new());
        }
        self.change_states(
            Call::change("StopInstances", instances::named(instances), Repeat::Safe).resources(instances.len()),
        )
        .await
    }

    async fn start_instances(&self, instances: &[InstanceId]) -> Answer<Vec<StateChange>> {
        if instances.is_empty() {
            return Ok(Vec::new());
        }
        let call = Call::change("StartInstances", instances::named(instances), Repeat::Safe);
        self.change_states(call.resources(instances.len())).await
    }

    async fn modify_instance_metadata_options(&self, instance: &InstanceId, options: &MetadataOptions) -> Answer<()> {
        let form = instances::metadata(Form::new().with("InstanceId", instance), "", options);
        self.done(Call::change("ModifyInstanceMetadataOptions", form, Repeat::Safe)).await
    }

    async fn create_tags(&self, resources: &[String], tags: &Tags) -> Answer<()> {
        if resources.is_empty() || tags.is_empty() {
            return Ok(());
        }
        let form = Form::new().list("ResourceId", resources).tags("", tags);
        self.done(Call::change("CreateTags", form, Repeat::Safe)).await
    }

    async fn delete_tags(&self, resources: &[String], keys: &[String]) -> Answer<()> {
        // Without a key this would delete all of them.
        if resources.is_empty() || keys.is_empty() {
            return Ok(());
        }
        let mut form = Form::new().list("ResourceId", resources);
        for (at, key) in keys.iter().enumerate() {
            form = form.with(&format!("Tag.{}.Key", at + 1), key);
        }
        self.done(Call::change("DeleteTags", form, Repeat::Safe)).await
    }

    async fn describe_tags(&self, filters: &[Filter]) -> Answer<Vec<TagDescription>> {
        self.list("DescribeTags", network::query::<String>("", &[], filters, 1000), network::tag_list).await
    }

    async fn describe_instance_types(&self, query: &TypeQuery) -> Answer<TypeList> {
        let (client, asked) = (self.clone(), query.clone());
        self.shared.types.join(query.clone(), || async move { client.types(&asked).await }).await
    }

    async fn describe_instance_type_offerings(
        &self,
        location: &LocationType,
        filters: &[Filter],
    ) -> Answer<Vec<Offering>> {
        let (client, form) = (self.clone(), catalogue::offerings(location, filters));
        let ask = || async move { client.list("DescribeInstanceTypeOfferings", form, catalogue::offered).await };
        self.shared.offerings.join((location.clone(), filters.to_vec()), ask).await
    }

    async fn describe_images(&self, query: &ImageQuery) -> Answer<Vec<Image>> {
        let (client, form) = (self.clone(), catalogue::images(query));
        let read = |root: Node<'_>, found: &mut Vec<Image>| {
            catalogue::image_list(root, found);
            Ok(())
        };
        let ask = || async move { client.list("DescribeImages", form, read).await };
        self.shared.images.join(query.clone(), ask).await
    }

    async fn describe_regions(&self) -> Answer<Vec<RegionInfo>> {
        let (client, form) = (self.clone(), Form::new().with("AllRegions", true));
        let ask = || async move { client.list("DescribeRegions", form, catalogue::regions).await };
        self.shared.regions.join((), ask).await
    }

    async fn describe_availability_zones(&self) -> Answer<Vec<ZoneInfo>> {
        let (client, form) = (self.clone(), Form::new().with("AllAvailabilityZones", true));
        let read = |root: Node<'_>, found: &mut Vec<ZoneInfo>| {
            catalogue::zones(root, found);
            Ok(())
        };
        let ask = || async move { client.list("DescribeAvailabilityZones", form, read).await };
        self.shared.zones.join((), ask).await
    }

    async fn describe_subnets(&self, ids: &[SubnetId], filters: &[Filter]) -> Answer<Vec<Subnet>> {
        self.list("DescribeSubnets", network::query("SubnetId", ids, filters, 500), network::subnets).await
    }

    async fn describe_vpcs(&self, ids: &[VpcId]) -> Answer<Vec<Vpc>> {
        self.list("DescribeVpcs", network::query("VpcId", ids, &[], 500), network::vpcs).await
    }

    async fn describe_dhcp_options(&self, ids: &[String]) -> Answer<Vec<DhcpOptions>> {
        self.list("DescribeDhcpOptions", network::query("DhcpOptionsId", ids, &[], 500), network::dhcp_options).await
    }

    async fn describe_security_groups(
        &self,
        ids: &[SecurityGroupId],
        filters: &[Filter],
    ) -> Answer<Vec<SecurityGroup>> {
        // Each brings all its rules along, so pages are small.
        let form = network::query("GroupId", ids, filters, 100);
        self.list("DescribeSecurityGroups", form, network::security_groups).await
    }

    async fn describe_network_interfaces(&self, filters: &[Filter]) -> Answer<Vec<NetworkInterface>> {
        let form = network::query::<String>("", &[], filters, 500);
        self.list("DescribeNetworkInterfaces", form, network::interfaces).await
    }

    async fn set_interface_security_groups(
        &self,
        interface: &NetworkInterfaceId,
        groups: &[SecurityGroupId],
    ) -> Answer<()> {
        let form = Form::new().with("NetworkInterfaceId", interface).list("SecurityGroupId", groups);
        self.done(Call::change("ModifyNetworkInterfaceAttribute", form, Repeat::Safe)).await
    }

    async fn describe_volumes(&self, filters: &[Filter]) -> Answer<Vec<Volume>> {
        self.list("DescribeVolumes", network::query::<String>("", &[], filters, 500), network::volumes).await
    }
}

/// Reads a tree as every answer there is; gives how many things were found.
#[cfg(feature = "fuzz")]
pub(crate) fn read_everything(root: Node<'_>) -> usize {
    fn list<T>(root: Node<'_>, read: impl Fn(Node<'_>, &mut Vec<T>) -> Result<(), String>) -> usize {
        let mut found = Vec::new();
        let _ = read(root, &mut found);
        found.len()
    }
    let mut types = TypeList::default();
    catalogue::types(root, &mut types);
    let (mut images, mut zones) = (Vec::new(), Vec::new());
    catalogue::image_list(root, &mut images);
    catalogue::zones(root, &mut zones);
    let judged = hosts::each_judged(root).map_or(0, |judged| judged.done.len() + judged.refused.len());
    types.types.len()
        + images.len()
        + zones.len()
        + judged
        + hosts::allocated(root).map_or(0, |hosts| hosts.len())
        + usize::from(instances::launched(root).is_ok())
        + list(root, catalogue::offered)
        + list(root, catalogue::regions)
        + list(root, hosts::described)
        + list(root, instances::described)
        + list(root, instances::changed)
        + list(root, network::subnets)
        + list(root, network::vpcs)
        + list(root, network::dhcp_options)
        + list(root, network::security_groups)
        + list(root, network::interfaces)
        + list(root, network::volumes)
        + list(root, network::tag_list)
}
