//! Reading values out of a tree: what must be there is an error if it is not, all else is passed over.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use api::names::SecurityGroupId;
use jiff::Timestamp;

use crate::net::wire::Node;
use crate::port::{ItemError, Judged, Tags};

/// A value without which the element means nothing.
pub(super) fn need<T: FromStr>(node: Node<'_>, what: &str, name: &str) -> Result<T, String> {
    parsed(node, name).ok_or_else(|| format!("{what} without a readable {name}"))
}

/// A value that may be missing or of a form this version does not know.
pub(super) fn parsed<T: FromStr>(node: Node<'_>, name: &str) -> Option<T> {
    node.get(name)?.parse().ok()
}

/// A text that may be missing.
pub(super) fn text(node: Node<'_>, name: &str) -> Option<String> {
    node.get(name).map(str::to_owned)
}

/// A figure; 0 if it is missing.
pub(super) fn figure<T: FromStr + Default>(node: Node<'_>, name: &str) -> T {
    parsed(node, name).unwrap_or_default()
}

/// Whether it says yes.
pub(super) fn yes(node: Node<'_>, name: &str) -> bool {
    node.get(name).is_some_and(|text| text == "true")
}

/// A moment; EC2 writes RFC 3339.
pub(super) fn moment(node: Node<'_>, name: &str) -> Option<Timestamp> {
    parsed(node, name)
}

/// An address.
pub(super) fn address(node: Node<'_>, name: &str) -> Option<IpAddr> {
    parsed(node, name)
}

/// The IPv6 addresses of an interface.
pub(super) fn ipv6(node: Node<'_>) -> Vec<Ipv6Addr> {
    node.items("ipv6AddressesSet").filter_map(|item| parsed(item, "ipv6Address")).collect()
}

/// The tags of a resource.
pub(super) fn tags(node: Node<'_>) -> Tags {
    let pair = |item: Node<'_>| {
        let value = item.get("value").unwrap_or_default().to_owned();
        Some((item.child("key")?.text().to_owned(), value))
    };
    node.items("tagSet").filter_map(pair).collect()
}

/// The security groups of a resource.
pub(super) fn groups(node: Node<'_>) -> Vec<SecurityGroupId> {
    node.items("groupSet").filter_map(|item| parsed(item, "groupId")).collect()
}

/// A list of which every element must be readable.
pub(super) fn each<T>(
    root: Node<'_>,
    set: &str,
    found: &mut Vec<T>,
    read: impl Fn(Node<'_>) -> Result<T, String>,
) -> Result<(), String> {
    root.items(set).try_for_each(|item| read(item).map(|value| found.push(value)))
}

/// The outcome of a call that judges each item on its own.
pub(super) fn judged<T: FromStr>(root: Node<'_>) -> Result<Judged<T>, String> {
    let id = |text: &str| text.parse().map_err(|_| "an item without a readable id".to_owned());
    let mut judged = Judged::default();
    for item in root.items("successful") {
        judged.done.push(id(item.text())?);
    }
    for item in root.items("unsuccessful") {
        let error = item.child("error");
        let word = |name| error.and_then(|error| error.get(name)).unwrap_or_default();
        let error = ItemError::new(word("code"), word("message"));
        judged.refused.push((id(item.get("resourceId").unwrap_or_default())?, error));
    }
    Ok(judged)
}
