//! Shorthand: texts of claims repeat the same phrases thousands of times, and two bytes can stand for each.

use std::sync::OnceLock;

/// Stands before the number of a phrase. No JSON holds it: there it is written `\u0000`.
const MARK: u8 = 0;

/// What claims say again and again, as JSON spells it. Whatever is missing here is kept letter by letter; at most 256.
const PHRASES: &[&str] = &[
    r#"{"generation":1,"deleted_at":null,"finalizers":["metal3.io/hostclaim"],"labels":{"#,
    r#"{"generation":"#,
    r#""deleted_at":null,"finalizers":["metal3.io/hostclaim"],"labels":{"#,
    r#"},"annotations":{},"crowded":false,"spec":{"poweredOn":true,"kind":"baremetal""#,
    r#"},"annotations":{},"crowded":false,"spec":{"poweredOn":false,"kind":"baremetal""#,
    r#"},"annotations":{"#,
    r#"},"crowded":false,"spec":{"#,
    r#","hostSelector":{"matchLabels":{""#,
    r#","hostSelector":{"matchExpressions":[{"key":""#,
    r#""operator":""#,
    r#""values":[""#,
    r#","image":{"url":""#,
    r#""checksum":""#,
    r#""checksumType":""#,
    r#""format":""#,
    r#"},"userData":{"name":""#,
    r#"},"networkData":{"name":""#,
    r#"},"metaData":{"name":""#,
    r#"},"consumerRef":{""#,
    r#","failureDomain":""#,
    r#","failureDomainMode":"Preferred","priority":0,"onHostFailure":"Wait"},"status":{"observedGeneration":"#,
    r#","failureDomainMode":""#,
    r#"},"status":{"observedGeneration":"#,
    r#","ready":true,"lastUpdated":""#,
    r#","ready":false,"lastUpdated":""#,
    r#"","selectedHost":{"namespace":""#,
    r#""},"bareMetalHost":{"namespace":""#,
    r#""},"hardwareData":{"namespace":""#,
    r#""},"hostUID":""#,
    r#"","poweredOn":true,"provisioningState":"Provisioned""#,
    r#"","poweredOn":false,"provisioningState":"Available""#,
    r#","poweredOn":"#,
    r#""provisioningState":""#,
    r#","addresses":[{"type":"InternalIP","address":""#,
    r#""},{"type":"InternalIP","address":""#,
    r#""},{"type":"Hostname","address":""#,
    r#""},{"type":"InternalDNS","address":""#,
    r#""}],"bootMACAddress":""#,
    r#"","nics":[{"MAC":""#,
    r#""},{"MAC":""#,
    r#"","ip":""#,
    r#"","name":"eth"#,
    r#"","name":""#,
    r#"","uid":""#,
    r#""}],"hostMetadata":{"labels":{""#,
    r#""}}},"conditions":[{"lastTransitionTime":""#,
    r#""}},"conditions":[{"lastTransitionTime":""#,
    r#","conditions":[{"lastTransitionTime":""#,
    r#""unbound":{"total":"#,
    r#""reasons":[{"reason":""#,
    r#""observedAt":""#,
    r#""count":"#,
    r#"},{"reason":""#,
    r#"]},"managers":["berth-claims"],"problem":null}"#,
    r#"},"managers":["berth-claims"],"problem":null}"#,
    r#""managers":[""#,
    r#"","message":"The claim has the host "#,
    r#".","observedGeneration":"#,
    r#"","message":""#,
    r#"","observedGeneration":"#,
    "hosts fit: ",
    " in use",
    " labels do not match",
    r#"","message":"A policy admits claims of this namespace to the host.","observedGeneration":"#,
    r#"","message":"The host can be deployed.","observedGeneration":"#,
    r#"","message":"The host is in another namespace, so the claim cannot be moved to another management cluster.","observedGeneration":"#,
    r#"","message":"The claim is looked after.","observedGeneration":"#,
    r#"","message":"Nothing is deployed on the host.","observedGeneration":"#,
    r#"","message":"The claim has what it asks for.","observedGeneration":"#,
    r#"","message":"The host has been told everything the claim asks for.","observedGeneration":"#,
    r#","reason":"BareMetalHostAssociated","status":"True","type":"Associated"},{"lastTransitionTime":""#,
    r#","reason":"NoBareMetalHost","status":"False","type":"Associated"},{"lastTransitionTime":""#,
    r#","reason":"HostClaimDeleting","status":"False","type":"Associated"},{"lastTransitionTime":""#,
    r#","reason":"PolicyAdmits","status":"True","type":"Authorized"},{"lastTransitionTime":""#,
    r#","reason":"Available","status":"True","type":"AvailableForProvisioning"},{"lastTransitionTime":""#,
    r#","reason":"NotAvailable","status":"False","type":"AvailableForProvisioning"},{"lastTransitionTime":""#,
    r#","reason":"HostInOtherNamespace","status":"False","type":"Movable"},{"lastTransitionTime":""#,
    r#","reason":"NotPaused","status":"False","type":"Paused"},{"lastTransitionTime":""#,
    r#","reason":"Provisioned","status":"True","type":"Provisioned"},{"lastTransitionTime":""#,
    r#","reason":"NotProvisioned","status":"False","type":"Provisioned"},{"lastTransitionTime":""#,
    r#","reason":"Ready","status":"True","type":"Ready"},{"lastTransitionTime":""#,
    r#","reason":"ConfigurationSynced","status":"True","type":"Synchronized"},{"lastTransitionTime":""#,
    r#","reason":"ConfigurationSynced","status":"True","type":"Synchronized"}"#,
    r#""},{"lastTransitionTime":""#,
    r#","reason":""#,
    r#"","status":"True","type":""#,
    r#"","status":"False","type":""#,
    r#"","status":"Unknown","type":""#,
    "Associated",
    "Authorized",
    "AvailableForProvisioning",
    "Movable",
    "Paused",
    "Provisioned",
    "Ready",
    "Synchronized",
    "Provisioning",
    "Deprovisioning",
    "NotProvisioned",
    "PolicyRevoked",
    "HostInOtherNamespace",
    "metal3.io/hostclaim",
    "cluster.x-k8s.io/",
    "infrastructure.",
    "berth-claims-mirror",
    "https://",
    "sha256",
    "192.168.",
    "-0000-",
    "00:00:00",
    "2026-",
    "2027-",
    "2028-",
];

/// The numbers of the phrases that begin with each byte, the longest first.
fn beginnings() -> &'static [Vec<u8>] {
    static BEGINNINGS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    BEGINNINGS.get_or_init(|| {
        let mut numbers: Vec<(u8, &str)> = (0..=u8::MAX).zip(PHRASES.iter().copied()).collect();
        numbers.sort_by_key(|(_, phrase)| std::cmp::Reverse(phrase.len()));
        let begins = |byte: u8| move |(_, phrase): &&(u8, &str)| phrase.as_bytes().first() == Some(&byte);
        (0..=u8::MAX).map(|byte| numbers.iter().filter(begins(byte)).map(|(number, _)| *number).collect()).collect()
    })
}

/// A text in shorthand; one that holds the mark itself is lost.
#[must_use]
pub fn pack(text: &str) -> Box<[u8]> {
    let mut short = Vec::with_capacity(text.len() / 2);
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let candidates = beginnings().get(usize::from(*first)).into_iter().flatten();
        let found = candidates.copied().find_map(|number| {
            let phrase = PHRASES.get(usize::from(number))?;
            Some((number, rest.strip_prefix(phrase.as_bytes())?))
        });
        match found {
            Some((number, after)) => {
                short.extend([MARK, number]);
                rest = after;
            }
            None => {
                short.push(*first);
                rest = others;
            }
        }
    }
    short.into()
}

/// The text that was packed.
#[must_use]
pub fn unpack(short: &[u8]) -> Option<String> {
    let mut text = Vec::with_capacity(short.len() * 3);
    let mut bytes = short.iter();
    while let Some(byte) = bytes.next() {
        match *byte {
            MARK => text.extend_from_slice(PHRASES.get(usize::from(*bytes.next()?))?.as_bytes()),
            plain => text.push(plain),
        }
    }
    String::from_utf8(text).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_comes_back_as_it_was(text in "\\PC*", numbers in proptest::collection::vec(any::<u8>(), 0..20)) {
            let phrases = numbers.iter().filter_map(|number| PHRASES.get(usize::from(*number)).copied());
            let text = phrases.chain([&*text]).collect::<Vec<_>>().join("x");
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unpack(&pack(&json)), Some(json));
        }

        #[test]
        fn whatever_is_unpacked_nothing_breaks(bytes in proptest::collection::vec(0..100_u8, 0..50)) {
            let _ = unpack(&bytes);
        }
    }

    #[test]
    fn each_phrase_has_a_number_and_is_worth_one() {
        assert!(PHRASES.len() <= 256);
        for phrase in PHRASES {
            assert!(phrase.len() >= 4 && !phrase.bytes().any(|byte| byte == MARK), "{phrase}");
            assert_eq!(pack(phrase).len(), 2, "{phrase}");
        }
    }
}
