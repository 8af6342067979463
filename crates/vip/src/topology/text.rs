//! Placeholders in texts.

use crate::names::{PORT_PLACEHOLDER, Slot};

use super::standing::Means;

/// How every placeholder begins: texts without it are not looked at twice.
const START: &str = "@@VIP_";

/// What a placeholder stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// An address.
    Vip(Slot),
    /// The port of the endpoint.
    Port,
}

impl Placeholder {
    fn all() -> impl Iterator<Item = Self> {
        Slot::ALL.into_iter().map(Self::Vip).chain([Self::Port])
    }

    /// How it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vip(slot) => slot.placeholder(),
            Self::Port => PORT_PLACEHOLDER,
        }
    }

    /// What is missing where it has no value.
    pub fn lack(self) -> String {
        match self {
            Self::Vip(slot) => format!("{slot} address"),
            Self::Port => "control plane endpoint".to_owned(),
        }
    }

    fn value(self, means: &Means<'_>) -> Option<String> {
        match self {
            Self::Vip(slot) => means.vip(slot).map(str::to_owned),
            Self::Port => means.endpoint.map(|endpoint| endpoint.port.to_string()),
        }
    }
}

/// The placeholders in a text, each with where it begins, from left to right.
pub fn placeholders(text: &str) -> impl Iterator<Item = (usize, Placeholder)> + '_ {
    let mut end = 0;
    text.match_indices(START).filter_map(move |(at, _)| {
        let rest = text.get(at..).filter(|_| at >= end)?;
        let found = Placeholder::all().find(|placeholder| rest.starts_with(placeholder.as_str()))?;
        end = at + found.as_str().len();
        Some((at, found))
    })
}

/// The text with its placeholders replaced; nothing for a text without any.
///
/// # Errors
/// Names the first placeholder that has no value.
pub fn fill(text: &str, means: &Means<'_>) -> Result<Option<String>, Placeholder> {
    let (mut filled, mut done) = (String::new(), 0);
    for (at, placeholder) in placeholders(text) {
        filled.push_str(text.get(done..at).unwrap_or_default());
        filled.push_str(&placeholder.value(means).ok_or(placeholder)?);
        done = at + placeholder.as_str().len();
    }
    if done == 0 {
        return Ok(None);
    }
    filled.push_str(text.get(done..).unwrap_or_default());
    Ok(Some(filled))
}

#[cfg(test)]
mod tests {
    use super::super::standing::Standing;
    use super::super::wire::TopologyRequest;
    use super::*;
    use api::views::Endpoint;
    use serde_json::json;

    fn filled(text: &str) -> Result<Option<String>, Placeholder> {
        let holder = json!({"kind": "Cluster", "namespace": "a", "name": "b"});
        let request: TopologyRequest = serde_json::from_value(json!({"items": [{"holderReference": holder}]})).unwrap();
        let endpoint = Endpoint { host: "10.0.0.1".into(), port: 6443 };
        let standing = Standing { found: true, endpoint, ..Standing::default() };
        fill(text, &Means::of(&request, &standing).unwrap().unwrap())
    }

    #[test]
    fn placeholders_are_replaced_wherever_they_stand() {
        for (text, expected) in [
            ("@@VIP_CONTROL_PLANE@@", Some("10.0.0.1")),
            ("@@VIP_CONTROL_PLANE_PORT@@", Some("6443")),
            ("https://@@VIP_CONTROL_PLANE@@:@@VIP_CONTROL_PLANE_PORT@@/é", Some("https://10.0.0.1:6443/é")),
            ("@@VIP_CONTROL_PLANE@@@@VIP_CONTROL_PLANE@@", Some("10.0.0.110.0.0.1")),
            ("@@@VIP_CONTROL_PLANE@@@", Some("@10.0.0.1@")),
            ("@@VIP_CONTROL_PLANE@@VIP_CONTROL_PLANE@@", Some("10.0.0.1VIP_CONTROL_PLANE@@")),
            ("@@VIP_CONTROL_PLANE@", None),
            ("@@VIP_OTHER@@", None),
            ("@@vip_control_plane@@", None),
            ("", None),
        ] {
            assert_eq!(filled(text), Ok(expected.map(str::to_owned)), "{text}");
        }
        assert_eq!(filled("x @@VIP_INGRESS@@"), Err(Placeholder::Vip(Slot::INGRESS)));
    }
}
