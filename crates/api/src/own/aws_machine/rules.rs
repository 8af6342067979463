//! What the API server itself refuses of AWSMachines and their templates, with or without webhooks.
//!
//! An object that was stored under other rules, by another provider for instance, must stay changeable: what is wrong with
//! it already is not held against a change of something else.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;

use super::super::rule;

/// Tenancy `host`, said or implied.
fn on_host(spec: &str) -> String {
    format!("((has({spec}.tenancy) && {spec}.tenancy == 'host') || has({spec}.dynamicHostAllocation))")
}

/// Pinned to a host, on hardware that is none.
fn pinned_to_nothing(spec: &str) -> String {
    format!("(has({spec}.hostAffinity) && {spec}.hostAffinity == 'host' && !{})", on_host(spec))
}

/// Something EC2 refuses on dedicated hosts.
fn refused_on_hosts(spec: &str) -> String {
    let markets = format!("(has({spec}.marketType) && {spec}.marketType != 'OnDemand')");
    let reserved = format!(
        "(has({spec}.capacityReservationPreference) && {spec}.capacityReservationPreference == 'CapacityReservationsOnly')"
    );
    let given = |field: &str| format!("(has({spec}.{field}) && {spec}.{field} != '')");
    format!(
        "({} && ({} || has({spec}.spotMarketOptions) || {markets} || {} || {reserved}))",
        on_host(spec),
        given("placementGroupName"),
        given("capacityReservationId"),
    )
}

/// A rule that only objects that did not break it before can break.
fn unless_before(broken: fn(&str) -> String, message: &str) -> ValidationRule {
    let text = format!("!{} || (oldSelf.hasValue() && {})", broken("self"), broken("oldSelf.value()"));
    ValidationRule { optional_old_self: Some(true), ..rule(&text, message) }
}

/// Rules on the spec of a machine, alone or in a template.
pub fn spec() -> Vec<ValidationRule> {
    vec![
        rule(
            "!has(self.capacityReservationId) || !has(self.marketType) || self.marketType != 'Spot'",
            "capacityReservationId may not be set when marketType is Spot",
        ),
        rule(
            "!has(self.capacityReservationId) || !has(self.spotMarketOptions)",
            "capacityReservationId cannot be set when spotMarketOptions is specified",
        ),
        rule(
            "!(has(self.hostID) && has(self.dynamicHostAllocation))",
            "hostID and dynamicHostAllocation exclude each other: a host is named or allocated",
        ),
        rule(
            "!has(self.dynamicHostAllocation) || !has(self.tenancy) || self.tenancy == 'host'",
            "dynamicHostAllocation needs tenancy host; leave tenancy out",
        ),
        rule(
            "!has(self.dynamicHostAllocation) || !has(self.hostAffinity) || self.hostAffinity == 'host'",
            "dynamicHostAllocation needs hostAffinity host, or the instance could leave a host that is paid for; leave hostAffinity out",
        ),
        rule("!has(self.hostID) || (has(self.tenancy) && self.tenancy == 'host')", "hostID needs tenancy host"),
        unless_before(pinned_to_nothing, "hostAffinity host needs tenancy host"),
        unless_before(
            refused_on_hosts,
            "EC2 refuses placement groups, capacity reservations, spot and capacity blocks on dedicated hosts",
        ),
        rule(
            "!has(self.hostResourceGroupArn) || !(has(self.hostID) || has(self.dynamicHostAllocation) || \
             (has(self.hostAffinity) && self.hostAffinity == 'host'))",
            "hostResourceGroupArn excludes hostID, dynamicHostAllocation and hostAffinity host: EC2 chooses the host",
        ),
        rule(
            "!has(self.dynamicHostAllocation) || !has(self.dynamicHostAllocation.instanceFamily) || \
             self.instanceType.startsWith(self.dynamicHostAllocation.instanceFamily + '.')",
            "dynamicHostAllocation.instanceFamily must be the family of instanceType, the part before the dot",
        ),
        rule(
            "!has(self.dynamicHostAllocation) || !has(self.dynamicHostAllocation.instanceType) || \
             self.dynamicHostAllocation.instanceType == self.instanceType",
            "dynamicHostAllocation.instanceType must be instanceType, because the host takes no other type",
        ),
    ]
}

/// One more rule on the spec in a template: pinned machines of one template would all need the same host.
pub fn template_spec() -> ValidationRule {
    let pinned = |spec: &str| {
        let host = format!("has({spec}.tenancy) && {spec}.tenancy == 'host'");
        let pinned = format!("has({spec}.hostAffinity) && {spec}.hostAffinity == 'host'");
        format!("({host} && {pinned} && !has({spec}.hostID) && !has({spec}.dynamicHostAllocation))")
    };
    let text = format!("!{} || (oldSelf.hasValue() && {})", pinned("self"), pinned("oldSelf.value()"));
    let message = "hostID must be given for hostAffinity host in a template, or dynamicHostAllocation instead of both";
    ValidationRule { optional_old_self: Some(true), ..rule(&text, message) }
}

/// What may not change in the spec of a machine; admission freezes more than this.
///
/// What admission fills in and what is left out are the same.
pub fn frozen() -> Vec<ValidationRule> {
    let same = |field: &str| {
        format!("has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})")
    };
    let or = |field: &str, unsaid: &str| {
        let value =
            |object: &str| format!("(has({object}.{field}) ? {object}.{field} : {})", unsaid.replace('$', object));
        format!("{} == {}", value("self"), value("oldSelf"))
    };
    let placed = |with: &str| format!("(has($.dynamicHostAllocation) ? 'host' : '{with}')");
    let inside = |field: &str| {
        format!("(!has(self.dynamicHostAllocation) || ({}))", same(&format!("dynamicHostAllocation.{field}")))
    };
    let block: Vec<String> = ["instanceFamily", "instanceType", "availabilityZone", "outpostArn", "assetIDs"]
        .map(inside)
        .into_iter()
        .chain([format!("(!has(self.dynamicHostAllocation) || {})", or("dynamicHostAllocation.quantity", "1"))])
        .collect();
    vec![
        rule("self.instanceType == oldSelf.instanceType", "instanceType cannot be changed; create another machine"),
        rule(&same("hostID"), "hostID cannot be changed; create another machine"),
        rule(&or("tenancy", &placed("default")), "tenancy cannot be changed; create another machine"),
        rule(&or("hostAffinity", &placed("default")), "hostAffinity cannot be changed; create another machine"),
        rule(
            "has(self.dynamicHostAllocation) == has(oldSelf.dynamicHostAllocation)",
            "dynamicHostAllocation cannot be added or removed; create another machine",
        ),
        rule(
            &format!("!has(oldSelf.dynamicHostAllocation) || ({})", block.join(" && ")),
            "of dynamicHostAllocation only autoRelease and tags can be changed; create another machine",
        ),
    ]
}
