//! The operations: each takes its parameters apart, refuses what it does not know, changes the world, writes its answer.

mod hosts;
mod instances;
mod launch;
mod network;
mod shared;
pub mod sts;
mod tags;
mod types;
mod zones;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::catalogue::InstanceType;
use super::wire::params::Fields;
use super::wire::refusal::Refusal;
use super::wire::xml::Xml;
use super::world::faults::{Script, Subject};
use super::world::pages::{self, Page};
use super::world::place::Place;
use super::world::settings::Settings;
use crate::server::Rng;

/// One call, with what it may look at and change.
pub(crate) struct Call<'a> {
    pub(crate) action: &'a str,
    pub(crate) now: Timestamp,
    /// The moment reads see; not later than `now`.
    pub(crate) view: Timestamp,
    pub(crate) place: &'a mut Place,
    pub(crate) settings: &'a Settings,
    pub(crate) types: &'a [InstanceType],
    pub(crate) script: &'a Script,
    pub(crate) rng: &'a mut Rng,
    pub(crate) fields: Fields,
    pub(crate) raw: &'a BTreeMap<String, String>,
    pub(crate) subject: &'a Subject,
    pub(crate) quirks: Quirks,
}

/// What the script wants of this call beyond failing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quirks {
    pub(crate) empty_page: bool,
    pub(crate) repeat_token: bool,
    pub(crate) empty_token: bool,
    pub(crate) partial: Option<u32>,
    pub(crate) refuse_items: Vec<(String, String, String)>,
}

/// Page size and token of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paging {
    size: Option<u32>,
    token: Option<String>,
}

pub(crate) type Handler = fn(&mut Call<'_>, &mut Xml) -> Result<(), Refusal>;

/// The code behind an operation.
pub(crate) fn find(action: &str) -> Option<Handler> {
    Some(match action {
        "AllocateHosts" => hosts::allocate,
        "DescribeHosts" => hosts::describe,
        "ReleaseHosts" => hosts::release,
        "ModifyHosts" => hosts::modify,
        "DescribeHostReservations" => hosts::reservations,
        "RunInstances" => launch::run,
        "TerminateInstances" => instances::terminate,
        "StopInstances" => instances::stop,
        "StartInstances" => instances::start,
        "DescribeInstances" => instances::describe,
        "ModifyInstanceMetadataOptions" => instances::modify_metadata,
        "DescribeVolumes" => instances::volumes,
        "DescribeNetworkInterfaces" => instances::interfaces,
        "ModifyNetworkInterfaceAttribute" => instances::modify_interface,
        "DescribeInstanceTypes" => types::describe,
        "DescribeInstanceTypeOfferings" => types::offerings,
        "DescribeRegions" => zones::regions,
        "DescribeAvailabilityZones" => zones::zones,
        "DescribeImages" => network::images,
        "DescribeSubnets" => network::subnets,
        "DescribeSecurityGroups" => network::groups,
        "DescribeVpcs" => network::vpcs,
        "DescribeDhcpOptions" => network::dhcp,
        "CreateTags" => tags::create,
        "DeleteTags" => tags::delete,
        "DescribeTags" => tags::describe,
        _ => return None,
    })
}

/// Refuses parameters that exist and are not modelled.
pub(crate) fn check_modelled(call: &Call<'_>) -> Result<(), Refusal> {
    shared::not_modelled(&call.fields, not_modelled(call.action))
}

fn not_modelled(action: &str) -> &'static [&'static str] {
    match action {
        "AllocateHosts" => &["CpuOptions"],
        "ModifyNetworkInterfaceAttribute" => &[
            "AssociatePublicIpAddress",
            "AssociatedSubnetId",
            "Attachment",
            "ConnectionTrackingSpecification",
            "EnablePrimaryIpv6",
            "EnaSrdSpecification",
        ],
        "RunInstances" => &[
            "AdditionalInfo",
            "CapacityReservationSpecification",
            "CpuOptions",
            "CreditSpecification",
            "ElasticGpuSpecification",
            "ElasticInferenceAccelerator",
            "EnablePrimaryIpv6",
            "EnclaveOptions",
            "HibernationOptions",
            "InstanceMarketOptions",
            "Ipv6Address",
            "Ipv6AddressCount",
            "KernelId",
            "LaunchTemplate",
            "LicenseSpecification",
            "NetworkPerformanceOptions",
            "Operator",
            "PrivateIpAddress",
            "RamdiskId",
            "SecondaryInterface",
            "SecurityGroup",
        ],
        _ => &[],
    }
}

impl Call<'_> {
    /// Takes `MaxResults` and `NextToken`.
    pub(crate) fn paging(&mut self, least: u32, most: u32) -> Result<Paging, Refusal> {
        let size = self.fields.number("MaxResults", least, most)?;
        // An empty token asks for the first page again, which is why a client must not send one.
        let token = self.fields.text("NextToken")?.filter(|token| !token.is_empty());
        Ok(Paging { size, token })
    }

    /// Ids and a page size exclude each other.
    pub(crate) fn not_both(ids: &[String], paging: &Paging, name: &str) -> Result<(), Refusal> {
        if ids.is_empty() || paging.size.is_none() {
            return Ok(());
        }
        Err(Refusal::combination(format!("The parameter {name} cannot be used with the parameter maxResults")))
    }

    /// Ends the reading of parameters and answers dry runs.
    pub(crate) fn finish(&mut self, dry_run: Option<bool>) -> Result<(), Refusal> {
        std::mem::take(&mut self.fields).finish()?;
        if dry_run == Some(true) { Err(Refusal::dry_run()) } else { Ok(()) }
    }

    /// Cuts a page out of a listing and writes its token; `all` is the page size when none is given.
    pub(crate) fn cut<T>(
        &self,
        items: Vec<T>,
        key: impl Fn(&T) -> String,
        paging: &Paging,
        all: usize,
    ) -> Result<Page<T>, Refusal> {
        let parameters: Vec<String> = self
            .raw
            .iter()
            .filter(|(name, _)| !["NextToken", "MaxResults", "DryRun"].contains(&name.as_str()))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let listing =
            format!("{}/{}/{}/{}", self.place.account, self.place.region.name, self.action, parameters.join("&"));
        let size = paging.size.and_then(|size| usize::try_from(size).ok()).unwrap_or(all);
        let given = paging.token.as_deref();
        let mut page = pages::page(items, key, &listing, size, given)?;
        if self.quirks.empty_page {
            let at = given.map(|token| pages::after(&listing, token)).transpose()?.unwrap_or_default();
            page = Page { items: Vec::new(), next: Some(pages::other_token(&listing, &at)) };
        }
        if self.quirks.repeat_token && given.is_some() {
            page.next = given.map(str::to_owned);
        }
        if self.quirks.empty_token && page.next.is_none() {
            page.next = Some(String::new());
        }
        Ok(page)
    }
}
