//! ValidateTopology: the last look at the patched templates, before anything is applied.

use std::net::IpAddr;

use api::views::Endpoint;
use serde_json::Value;

use super::findings::{Findings, quote};
use super::pointer::{self, Step};
use super::settings::Settings;
use super::standing::{Means, same_host};
use super::walk::{lookup, walk_spec};
use super::wire::{Item, ValidateRequest};
use super::{Standing, text, variables};
use crate::facts::Range;
use crate::names::{NO_VALUE, PORT, Slot};

/// The lists of addresses that a provider gives to nodes.
const NODE_RANGES: [&str; 2] = ["ipv4Config", "ipv6Config"];

/// Whether the patched templates carry the cluster's addresses and nothing that stands for one.
///
/// # Errors
/// Lists all findings, in an order that depends on nothing but the templates.
pub fn validate(request: &ValidateRequest, settings: &Settings, standing: &Standing) -> Result<(), String> {
    let Some(means) = Means::of(request, standing)? else { return Ok(()) };
    let mut findings = Findings::default();
    for item in &request.items {
        let infrastructure = item.is_infrastructure_cluster();
        let endpoint = means.endpoint.filter(|_| infrastructure && settings.patch_infrastructure);
        if let Some(endpoint) = endpoint {
            check_host(item, settings, endpoint, &mut findings);
            check_port(item, settings, endpoint, &mut findings);
        }
        // The host has been judged with more to say.
        let judged = endpoint.map(|_| pointer(settings, "host"));
        check_texts(item, settings, judged.as_deref(), &mut findings);
        if infrastructure {
            check_ranges(item, &means, &mut findings);
        }
    }
    variables::check(request, &means, &mut findings);
    findings.verdict()
}

fn pointer(settings: &Settings, field: &str) -> String {
    pointer::write(settings.endpoint_path.iter().map(String::as_str).chain([field]))
}

fn present<'a>(item: &'a Item, settings: &Settings, field: &str) -> Option<&'a Value> {
    let path = settings.endpoint_path.iter().skip(1).map(String::as_str).chain([field]);
    lookup(&item.object.spec, path).filter(|value| !value.is_null())
}

fn place(item: &Item, pointer: &str) -> String {
    format!("{} {pointer}", item.object.title())
}

/// V1: the host of the infrastructure cluster is the Cluster's.
fn check_host(item: &Item, settings: &Settings, endpoint: &Endpoint, findings: &mut Findings) {
    let host = present(item, settings, "host");
    let text = host.map_or(Some(""), Value::as_str);
    if text.is_some_and(|text| same_host(text, &endpoint.host)) {
        return;
    }
    let wanted = &endpoint.host;
    let problem = match text {
        Some(text) if text.is_empty() || text == NO_VALUE => {
            let shown = if text.is_empty() { "empty".to_owned() } else { quote(text) };
            format!(
                "the endpoint host of the infrastructure cluster is {shown} but the Cluster has `{wanted}` (a patch of the \
                 ClusterClass copies a builtin that does not exist, such as builtin.controlPlane.endpoint, after the patch \
                 of the VIP allocator: remove it, or move the patch of the VIP allocator to the end)"
            )
        }
        _ => {
            let shown = text.map_or_else(|| quote(&host.map(Value::to_string).unwrap_or_default()), quote);
            format!(
                "the endpoint host of the infrastructure cluster is {shown} but the Cluster has `{wanted}` (a patch of the \
                 ClusterClass sets it after the patch of the VIP allocator: remove it, or move the patch of the VIP \
                 allocator to the end)"
            )
        }
    };
    findings.note(1, problem, place(item, &pointer(settings, "host")));
}

/// V2: the port of the infrastructure cluster, where it has one, is the Cluster's.
fn check_port(item: &Item, settings: &Settings, endpoint: &Endpoint, findings: &mut Findings) {
    let Some(port) = present(item, settings, "port") else { return };
    let number = port.as_i64().or_else(|| port.as_str().and_then(|text| text.parse().ok()));
    let unset = number == Some(0) || port.as_str().is_some_and(|text| text.is_empty() || text == NO_VALUE);
    if unset || number == Some(endpoint.port.into()) {
        return;
    }
    let shown = quote(&port.to_string());
    let wanted = endpoint.port;
    let problem = format!(
        "the endpoint port of the infrastructure cluster is {shown} but the Cluster has `{wanted}` (annotation {PORT} on the \
         Cluster or the ClusterClass chooses the port of new clusters)"
    );
    findings.note(2, problem, place(item, &pointer(settings, "port")));
}

/// V3: nothing is left that stands for a value.
fn check_texts(item: &Item, settings: &Settings, judged: Option<&str>, findings: &mut Findings) {
    walk_spec(&item.object.spec, &mut |trail, text| {
        let no_value = text.contains(NO_VALUE);
        let placeholder = if settings.placeholders { text::placeholders(text).next() } else { None };
        if !no_value && placeholder.is_none() {
            return;
        }
        let pointer = pointer::of(trail);
        if no_value && judged != Some(pointer.as_str()) {
            let problem = format!(
                "`{NO_VALUE}` is left (a patch of the ClusterClass names a variable or a builtin that does not exist)"
            );
            findings.note(3, problem, place(item, &pointer));
        }
        if let Some((_, placeholder)) = placeholder {
            let problem = format!(
                "{} is left (a patch of the ClusterClass puts it there after the patch of the VIP allocator: move the patch \
                 of the VIP allocator to the end)",
                placeholder.as_str()
            );
            findings.note(3, problem, place(item, &pointer));
        }
    });
}

/// V4: no address of the cluster is one that the provider gives to nodes.
fn check_ranges(item: &Item, means: &Means<'_>, findings: &mut Findings) {
    let host = means.endpoint.map(|endpoint| endpoint.host.as_str());
    let vips = Slot::ALL.into_iter().filter_map(|slot| means.vip(slot)).chain(host);
    let mut vips: Vec<IpAddr> = vips.filter_map(|vip| vip.parse().ok()).collect();
    vips.sort_unstable();
    vips.dedup();
    walk_spec(&item.object.spec, &mut |trail, text| {
        let Some(range) = is_node_range(trail).then(|| Range::read(text)).flatten() else { return };
        for vip in vips.iter().filter(|vip| range.contains(**vip)) {
            let problem = format!(
                "the address `{vip}` lies inside {}, which the provider gives to nodes (take it out of that range, or \
                 exclude the range from the pool)",
                quote(text)
            );
            findings.note(4, problem, place(item, &pointer::of(trail)));
        }
    });
}

fn is_node_range(trail: &[Step<'_>]) -> bool {
    let object_spec = ["spec", "template", "spec"].iter().zip(trail).all(|(token, step)| step.is(token));
    let ends = matches!(trail, [.., Step::Key(config), Step::Key("addresses"), Step::Index(_)] if NODE_RANGES.contains(config));
    object_spec && ends
}
