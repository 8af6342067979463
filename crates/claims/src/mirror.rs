//! Thinks: which labels and annotations of a host its tenant may see, and keeping them on the claim.
//!
//! What may be seen stands in the claim's status, where only Berth writes. It is also put on the claim itself, so that
//! people can select by it; there a key that the tenant has set is left alone, and one that the claim's own selector spells
//! out is not repeated: a bind of a claim that says what it wants costs no write for that.

use std::collections::BTreeMap;

use api::own::HostMetadata;

use crate::facts::{HardwareFacts, HostFacts};
use crate::labels::{HostLabels, Selector, Test};
use crate::names::fingerprint;
use crate::observe::Snapshot;
use crate::yard::Grant;

/// The labels and annotations that Berth keeps on a claim: all of them, or they are taken away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Domains whose keys mean something to a program: never shown, whatever a policy says.
const RESERVED: [&str; 5] = ["metal3.io", "kubernetes.io", "k8s.io", "x-k8s.io", "berth.dev"];

fn is_reserved(key: &str) -> bool {
    // Some of Metal3's own keys are a domain and nothing more: on a claim `reboot.metal3.io` is a request.
    let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
    RESERVED
        .iter()
        .any(|reserved| domain == *reserved || domain.strip_suffix(reserved).is_some_and(|d| d.ends_with('.')))
}

/// The metadata of the host that the claim's tenant may see.
#[must_use]
pub fn visible(s: &Snapshot, host: &HostFacts) -> HostMetadata {
    // Without a word of any policy a tenant sees what it named itself, as far as it could choose by it.
    let labels = HostLabels {
        name: s.bound().map_or("", |found| found.key.name()),
        labels: &host.labels,
        hardware: s.hardware.as_deref().or(host.hardware.as_deref()).map(HardwareFacts::figures),
    };
    let fitting = s.claim.selector.as_ref().ok().filter(|selector| selector.fits(&labels));
    let asked = |key: &str| {
        s.grant.selects_by(key) && fitting.is_some_and(|selector| selector.keys().any(|asked| asked == key))
    };
    if s.grant.copies_metadata {
        return shown(&s.grant, host);
    }
    let labels = host.labels.iter().filter(|(key, _)| !is_reserved(key) && asked(key));
    let labels = labels.map(|(key, value)| (key.to_string(), value.to_string()));
    HostMetadata { labels: labels.take(HostMetadata::LABELS).collect(), ..HostMetadata::default() }
}

/// The metadata of the host that these policies show.
#[must_use]
pub fn shown(grant: &Grant, host: &HostFacts) -> HostMetadata {
    let labels = host.labels.iter().filter(|(key, _)| !is_reserved(key) && grant.shows_label(key));
    let annotations = host.annotations.iter().filter(|(key, value)| {
        !is_reserved(key) && grant.shows_annotation(key) && value.chars().count() <= HostMetadata::ANNOTATION_CHARS
    });
    HostMetadata {
        labels: labels.map(|(key, value)| (key.to_string(), value.to_string())).take(HostMetadata::LABELS).collect(),
        annotations: annotations
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .take(HostMetadata::ANNOTATIONS)
            .collect(),
    }
}

/// What has to be written on the claim so that it shows what may be seen; `None` when it does.
#[must_use]
pub fn due(s: &Snapshot, host: Option<&HostFacts>) -> Option<Mirror> {
    // Whose the keys are that were left out is not known: nothing of the tenant's is written over.
    if s.claim.crowded {
        return None;
    }
    let mut visible = host.map(|host| visible(s, host)).unwrap_or_default();
    let mut before = s.claim.status.host_metadata.clone().unwrap_or_default();
    let repeated: Vec<String> = visible.labels.keys().filter(|key| is_spelled_out(s, key)).cloned().collect();
    for key in repeated {
        visible.labels.remove(&key);
        before.labels.remove(&key);
    }
    let labels = Side { now: &visible.labels, before: &before.labels, on_claim: &s.claim.labels };
    let annotations = Side { now: &visible.annotations, before: &before.annotations, on_claim: &s.claim.annotations };
    (labels.is_due() || annotations.is_due()).then(|| Mirror { labels: labels.ours(), annotations: annotations.ours() })
}

/// Whether the claim's own selector gives the value of a label that no policy speaks of. Whoever lists claims finds it in
/// the spec, and the status has it too; on the claim it would cost every bind a write of its own.
fn is_spelled_out(s: &Snapshot, key: &str) -> bool {
    let one = |test: &Test| matches!(test, Test::OneOf(values) if values.len() == 1);
    let terms = s.claim.selector.as_ref().map(Selector::terms).unwrap_or_default();
    !s.grant.copies_metadata && terms.iter().any(|term| *term.key == *key && one(&term.test))
}

/// Labels or annotations: what may be seen, what could be seen before, and what the claim carries.
struct Side<'s> {
    now: &'s BTreeMap<String, String>,
    before: &'s BTreeMap<String, String>,
    on_claim: &'s BTreeMap<Box<str>, Box<str>>,
}

impl Side<'_> {
    /// What may be seen and is not the tenant's own: absent on the claim, or there as we had put it.
    fn ours(&self) -> BTreeMap<String, String> {
        let mine = |key: &str, value: &str| match self.on_claim.get(key) {
            None => true,
            Some(there) => {
                *there == fingerprint(value) || self.before.get(key).is_some_and(|old| *there == fingerprint(old))
            }
        };
        self.now.iter().filter(|(key, value)| mine(key, value)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn is_due(&self) -> bool {
        let missing = |(key, value): (&String, &String)| {
            self.on_claim.get(key.as_str()).is_none_or(|there| *there != fingerprint(value))
        };
        // The status is written right after, so what it still shows has not been taken away yet.
        let gone = |(key, value): (&String, &String)| {
            !self.now.contains_key(key)
                && self.on_claim.get(key.as_str()).is_some_and(|there| *there == fingerprint(value))
        };
        self.ours().iter().any(missing) || self.before.iter().any(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_programs_go_by_are_known_by_their_domain() {
        for key in [
            "reboot.metal3.io",
            "reboot.metal3.io/admin",
            "inspect.metal3.io",
            "baremetalhost.metal3.io/status",
            "metal3.io/uuid",
            "metal3.io",
            "kubernetes.io/arch",
            "node.kubernetes.io/type",
            "k8s.io/x",
            "x-k8s.io/x",
            "infrastructure.cluster.x-k8s.io/failure-domain",
            "berth.dev/infra-defaults",
        ] {
            assert!(is_reserved(key), "{key}");
        }
        for key in ["rack", "site/row", "example.org/metal3.io", "notmetal3.io/x", "myk8s.io", "io"] {
            assert!(!is_reserved(key), "{key}");
        }
    }
}
