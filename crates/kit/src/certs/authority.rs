//! The authority that Berth keeps for its own webhooks: what to do about it, and doing it, without a network.
//!
//! Several replicas serve the same leaf, and the API server trusts the bundle that was injected. Both travel with a
//! delay. So a change of authority is made in steps that are an [`OVERLAP`] apart: first both authorities are trusted,
//! then the leaf changes, then the old authority goes. [`plan`] derives the step from what is stored and the time,
//! so that any replica can take the next step at any moment and all come to the same one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Pair, SKEW, Validity, later};
use crate::secret::Secret;

/// How long an authority is valid.
pub const CA_LIFE: Duration = Duration::from_secs(3650 * 24 * 3600);
/// How long a leaf is valid.
pub const LEAF_LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
/// Time for every replica and API server to learn of a step; many times the interval at which replicas look.
pub const OVERLAP: Duration = Duration::from_secs(3600);
/// More authorities than this are never trusted at one time.
const MAX_CAS: usize = 4;

/// What is stored: authorities (the signing one first) and one leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The trusted authorities as PEM, the signing one first.
    pub ca: String,
    /// The key of the signing authority.
    pub ca_key: Secret<String>,
    /// The leaf as PEM.
    pub leaf: String,
    /// The key of the leaf.
    pub leaf_key: Secret<String>,
}

const KEYS: [&str; 4] = ["ca.crt", "ca.key", "tls.crt", "tls.key"];

impl Bundle {
    /// Reads the four entries of a Secret; `None` if one is missing or not text.
    #[must_use]
    pub fn from_data(data: &BTreeMap<String, Vec<u8>>) -> Option<Self> {
        let [ca, ca_key, leaf, leaf_key] =
            KEYS.map(|key| data.get(key).and_then(|bytes| String::from_utf8(bytes.clone()).ok()));
        Some(Self { ca: ca?, ca_key: ca_key?.into(), leaf: leaf?, leaf_key: leaf_key?.into() })
    }

    /// The four entries of a Secret.
    #[must_use]
    pub fn to_data(&self) -> BTreeMap<String, Vec<u8>> {
        let values = [&self.ca, self.ca_key.expose(), &self.leaf, self.leaf_key.expose()];
        KEYS.iter().zip(values).map(|(key, value)| ((*key).to_owned(), value.clone().into_bytes())).collect()
    }
}

/// What matters about a stored leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafFacts {
    /// Its validity.
    pub validity: Validity,
    /// Which of the authorities signed it.
    pub issuer: Option<usize>,
    /// The names and addresses it is good for.
    pub names: BTreeSet<String>,
}

/// What matters about what is stored.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Facts {
    /// The authorities, in order.
    pub cas: Vec<Validity>,
    /// Whether the stored key is that of the first authority.
    pub can_sign: bool,
    /// The leaf, unless it is unreadable or its key is not its own.
    pub leaf: Option<LeafFacts>,
}

impl Facts {
    /// Looks at what is stored; what is broken counts as absent.
    #[must_use]
    pub fn read(bundle: &Bundle) -> Self {
        let certificates = |pem: &str| -> Vec<CertificateDer<'static>> {
            CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect()
        };
        let ders = certificates(&bundle.ca);
        let mut facts = Self::default();
        for der in &ders {
            match X509Certificate::from_der(der).ok().and_then(|(_, ca)| Validity::of(&ca)) {
                Some(validity) => facts.cas.push(validity),
                // Positions must stay those of the file, so the list ends at the first unreadable entry.
                None => break,
            }
        }
        let signer = ders.first().and_then(|der| X509Certificate::from_der(der).ok());
        let key = KeyPair::from_pem(bundle.ca_key.expose()).ok();
        facts.can_sign = match (signer, key) {
            (Some((_, ca)), Some(key)) => ca.public_key().raw == key.subject_public_key_info(),
            _ => false,
        };
        facts.leaf = Self::leaf(bundle, &ders, &certificates(&bundle.leaf));
        facts
    }

    fn leaf(bundle: &Bundle, cas: &[CertificateDer<'static>], chain: &[CertificateDer<'static>]) -> Option<LeafFacts> {
        let pair = Pair::from_pem(bundle.leaf.as_bytes(), bundle.leaf_key.expose().as_bytes()).ok()?;
        let der = chain.first()?;
        let (_, leaf) = X509Certificate::from_der(der).ok()?;
        let names = names_of(&leaf);
        let issuer = cas.iter().position(|ca| signed(ca, der, &names, pair.validity()));
        Some(LeafFacts { validity: pair.validity(), issuer, names })
    }
}

fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    let ip = |bytes: &[u8]| match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(v4), _) => Some(IpAddr::from(v4).to_string()),
        (_, Ok(v6)) => Some(IpAddr::from(v6).to_string()),
        _ => None,
    };
    names
        .iter()
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => ip(bytes),
            _ => None,
        })
        .collect()
}

/// Asks the same code that a TLS client would ask.
fn signed(ca: &CertificateDer<'static>, leaf: &CertificateDer<'_>, names: &BTreeSet<String>, when: Validity) -> bool {
    let mut roots = RootCertStore::empty();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = roots
        .add(ca.clone())
        .ok()
        .and_then(|()| WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok());
    let (Some(verifier), Some(name)) = (verifier, names.first()) else { return false };
    let Ok(name) = ServerName::try_from(name.as_str()) else { return false };
    // Who signed it does not depend on today's date: dates are judged apart.
    let second = u64::try_from(when.not_before.as_second()).unwrap_or_default();
    let moment = UnixTime::since_unix_epoch(Duration::from_secs(second));
    verifier.verify_server_cert(leaf, &[], &name, &[], moment).is_ok()
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a new authority and a leaf at once, because nothing usable is stored.
    Create {
        /// What is not usable.
        reason: &'static str,
    },
    /// Add a new authority in front; the leaf stays.
    RenewAuthority,
    /// Make a new leaf with the first authority.
    IssueLeaf {
        /// What was wrong with the old one.
        reason: &'static str,
    },
    /// Trust only the first authority from now on.
    RetireAuthorities,
    /// Nothing to do before this moment.
    Keep {
        /// When to look again.
        until: Timestamp,
    },
}

/// Decides the next step from what is stored, the names that must be served, and the time.
#[must_use]
pub fn plan(facts: Option<&Facts>, names: &BTreeSet<String>, now: Timestamp) -> Action {
    let Some(facts) = facts else { return Action::Create { reason: "nothing is stored" } };
    let Some(signer) = facts.cas.first().copied() else { return Action::Create { reason: "no authority is stored" } };
    if !facts.can_sign {
        return Action::Create { reason: "the authority's key is missing or not its own" };
    }
    if !signer.contains(now) {
        return Action::Create { reason: "the authority is expired or not yet valid" };
    }
    let issue = |reason| Action::IssueLeaf { reason };
    let Some(leaf) = &facts.leaf else { return issue("no usable leaf is stored") };
    if !leaf.validity.contains(now) {
        return issue("the leaf is expired or not yet valid");
    }
    let trusted = leaf.issuer.and_then(|issuer| facts.cas.get(issuer)).is_some_and(|ca| ca.contains(now));
    if !trusted {
        return issue("no trusted authority signed the leaf");
    }
    let signer_due = two_thirds(signer);
    if now >= signer_due {
        return Action::RenewAuthority;
    }
    // What was made at `not_before` plus the skew is known everywhere an overlap later.
    let known = |validity: Validity| later(validity.not_before, SKEW + OVERLAP);
    let outdated = if leaf.issuer != Some(0) {
        Some("the leaf is of an older authority")
    } else if !names.is_subset(&leaf.names) {
        Some("the leaf lacks a name")
    } else if now >= two_thirds(leaf.validity) {
        Some("the leaf is due for renewal")
    } else {
        None
    };
    if let Some(reason) = outdated {
        // A leaf about to end cannot wait for the overlap.
        if now >= known(signer) || leaf.validity.remaining(now) <= OVERLAP {
            return issue(reason);
        }
        return Action::Keep { until: known(signer) };
    }
    let next = signer_due.min(two_thirds(leaf.validity));
    if facts.cas.len() > 1 {
        if now >= known(leaf.validity) {
            return Action::RetireAuthorities;
        }
        return Action::Keep { until: next.min(known(leaf.validity)) };
    }
    Action::Keep { until: next }
}

fn two_thirds(validity: Validity) -> Timestamp {
    later(validity.not_before, validity.length() / 3 * 2)
}

/// Why a step could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// No name to serve.
    #[error("a certificate needs at least one name")]
    NoName,
    /// The names, the stored authority or its key are not usable.
    #[error("cannot make a certificate for {names:?}")]
    Make {
        /// The names asked for.
        names: Vec<String>,
        /// What the generator says.
        #[source]
        source: rcgen::Error,
    },
}

/// Makes the step: the bundle to be stored, or `None` if there is nothing to do.
///
/// # Errors
/// When a certificate cannot be made, for instance for an impossible name.
pub fn build(
    action: &Action,
    stored: Option<&Bundle>,
    names: &BTreeSet<String>,
    now: Timestamp,
) -> Result<Option<Bundle>, AuthorityError> {
    if names.is_empty() {
        return Err(AuthorityError::NoName);
    }
    let failed = |source| AuthorityError::Make { names: names.iter().cloned().collect(), source };
    let made = match (action, stored) {
        (Action::Keep { .. }, _) => return Ok(None),
        (Action::RenewAuthority, Some(old)) => {
            let (ca, ca_key) = authority(now).map_err(failed)?;
            Bundle { ca: joined(&ca, &old.ca, now), ca_key, ..old.clone() }
        }
        (Action::IssueLeaf { .. }, Some(old)) => {
            let (leaf, leaf_key) = leaf(&old.ca, &old.ca_key, names, now).map_err(failed)?;
            Bundle { leaf, leaf_key, ..old.clone() }
        }
        (Action::RetireAuthorities, Some(old)) => {
            let first = pems(&old.ca).into_iter().next().unwrap_or_default();
            Bundle { ca: first, ..old.clone() }
        }
        // Whatever was asked for, with nothing stored there is only one thing to do.
        (_, old) => {
            let (ca, ca_key) = authority(now).map_err(failed)?;
            let (leaf, leaf_key) = leaf(&ca, &ca_key, names, now).map_err(failed)?;
            let ca = joined(&ca, old.map(|old| old.ca.as_str()).unwrap_or_default(), now);
            Bundle { ca, ca_key, leaf, leaf_key }
        }
    };
    Ok(Some(made))
}

/// The readable certificates of a PEM text, each with its own lines.
fn pems(text: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    text.split_inclusive(END)
        .filter_map(|part| part.find("-----BEGIN CERTIFICATE-----").and_then(|start| part.get(start..)))
        .filter(|part| part.ends_with(END))
        .map(|part| format!("{part}\n"))
        .collect()
}

/// The new authority, then the older ones that are still valid.
fn joined(new: &str, old: &str, now: Timestamp) -> String {
    let valid = |pem: &String| {
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok();
        let validity = der.and_then(|der| X509Certificate::from_der(&der).ok().and_then(|(_, ca)| Validity::of(&ca)));
        validity.is_some_and(|validity| validity.contains(now))
    };
    std::iter::once(new.to_owned()).chain(pems(old).into_iter().filter(valid).take(MAX_CAS - 1)).collect()
}

fn dated(mut params: CertificateParams, now: Timestamp, life: Duration) -> CertificateParams {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let second = u64::try_from(now.as_second()).unwrap_or_default();
    let start = Duration::from_secs(second).saturating_sub(SKEW);
    params.not_before = epoch + start;
    params.not_after = epoch + start.saturating_add(life);
    params
}

fn authority(now: Timestamp) -> Result<(String, Secret<String>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = dated(CertificateParams::default(), now, CA_LIFE);
    // The date tells authorities apart, for verifiers that look one up by its name.
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("berth webhook CA {now:.0}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), Secret::new(key.serialize_pem())))
}

fn leaf(
    ca: &str,
    ca_key: &Secret<String>,
    names: &BTreeSet<String>,
    now: Timestamp,
) -> Result<(String, Secret<String>), rcgen::Error> {
    let first = pems(ca).into_iter().next().unwrap_or_default();
    let der = CertificateDer::from_pem_slice(first.as_bytes()).map_err(|_| rcgen::Error::CouldNotParseCertificate)?;
    let issuer = Issuer::from_ca_cert_der(&der, KeyPair::from_pem(ca_key.expose())?)?;
    let key = KeyPair::generate()?;
    let mut params = dated(CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?, now, LEAF_LIFE);
    params.distinguished_name = rcgen::DistinguishedName::new();
    // Names live in the alternative names; a common name may hold 64 characters only.
    params.distinguished_name.push(DnType::CommonName, "berth webhook");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok((certificate.pem(), Secret::new(key.serialize_pem())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> BTreeSet<String> {
        ["berth.berth-system.svc".to_owned(), "127.0.0.1".to_owned()].into()
    }

    fn start() -> Timestamp {
        "2030-01-01T00:00:00Z".parse().unwrap()
    }

    fn step(stored: Option<&Bundle>, now: Timestamp) -> (Action, Option<Bundle>) {
        let facts = stored.map(Facts::read);
        let action = plan(facts.as_ref(), &names(), now);
        let made = build(&action, stored, &names(), now).unwrap();
        (action, made)
    }

    #[test]
    fn a_new_bundle_is_complete_verifies_and_needs_nothing() {
        let (action, made) = step(None, start());
        assert_eq!(action, Action::Create { reason: "nothing is stored" });
        let bundle = made.unwrap();
        let facts = Facts::read(&bundle);
        assert!(facts.can_sign && facts.cas.len() == 1);
        let leaf = facts.leaf.clone().unwrap();
        assert_eq!((leaf.issuer, &leaf.names), (Some(0), &names()));
        assert_eq!((leaf.validity.length(), facts.cas[0].length()), (LEAF_LIFE, CA_LIFE));
        // Two thirds of 90 days, counted from the backdated start.
        let until = later(start(), Duration::from_secs(60 * 24 * 3600) - SKEW);
        assert_eq!(step(Some(&bundle), start()), (Action::Keep { until }, None));
        assert_eq!(Bundle::from_data(&bundle.to_data()), Some(bundle));
    }

    #[test]
    fn a_full_change_of_authority_keeps_old_and_new_trusted_until_the_leaf_has_moved() {
        let (_, first) = step(None, start());
        let mut bundle = first.unwrap();
        let mut now = start();
        let mut seen = Vec::new();
        while now < later(start(), CA_LIFE) {
            let (action, made) = step(Some(&bundle), now);
            match (action, made) {
                (Action::Keep { until }, None) => {
                    assert!(until > now);
                    now = until;
                }
                (action, Some(made)) => {
                    seen.push(format!("{action:?}").split(' ').next().unwrap().to_owned());
                    bundle = made;
                    if seen.last().unwrap() == "RetireAuthorities" {
                        break;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        let tail: Vec<&str> = seen.iter().rev().take(3).rev().map(String::as_str).collect();
        assert_eq!(tail, ["RenewAuthority", "IssueLeaf", "RetireAuthorities"]);
        // One leaf per 60 days of the 2,433 until the authority is due, plus the one that follows it.
        assert!((40..=43).contains(&seen.len()), "{}", seen.len());
        let facts = Facts::read(&bundle);
        assert_eq!((facts.cas.len(), facts.leaf.unwrap().issuer), (1, Some(0)));
    }

    #[test]
    fn whatever_is_broken_is_repaired_and_old_authorities_stay_trusted() {
        let (_, first) = step(None, start());
        let good = first.unwrap();
        let (_, other) = step(None, start());
        let other = other.unwrap();
        let broken = [
            Bundle { ca: String::new(), ..good.clone() },
            Bundle { ca: "junk".to_owned(), ..good.clone() },
            Bundle { ca_key: "junk".to_owned().into(), ..good.clone() },
            Bundle { ca_key: other.ca_key.clone(), ..good.clone() },
            Bundle { leaf: String::new(), ..good.clone() },
            Bundle { leaf_key: other.leaf_key.clone(), ..good.clone() },
            Bundle { leaf: other.leaf.clone(), leaf_key: other.leaf_key.clone(), ..good.clone() },
            Bundle { ca: other.ca.clone(), ..good.clone() },
        ];
        for (index, bundle) in broken.iter().enumerate() {
            let (action, made) = step(Some(bundle), start());
            assert!(matches!(action, Action::Create { .. } | Action::IssueLeaf { .. }), "{index}: {action:?}");
            let made = made.unwrap();
            let (again, _) = step(Some(&made), start());
            assert!(matches!(again, Action::Keep { .. }), "{index}: {again:?}");
            if bundle.ca == good.ca {
                assert!(made.ca.contains(good.ca.trim()), "{index}: the trusted authority was dropped");
            }
        }
        let wider: BTreeSet<String> = names().into_iter().chain(["extra".to_owned()]).collect();
        let soon = later(start(), OVERLAP * 2);
        let action = plan(Some(&Facts::read(&good)), &wider, soon);
        assert_eq!(action, Action::IssueLeaf { reason: "the leaf lacks a name" });
    }

    #[test]
    fn no_name_and_impossible_names_are_errors() {
        let create = Action::Create { reason: "" };
        assert!(matches!(build(&create, None, &BTreeSet::new(), start()), Err(AuthorityError::NoName)));
        let odd = BTreeSet::from(["ünicode".to_owned()]);
        assert!(build(&create, None, &odd, start()).unwrap_err().to_string().contains("ünicode"));
    }

    #[test]
    fn printing_a_bundle_shows_no_key() {
        let (_, bundle) = step(None, start());
        let bundle = bundle.unwrap();
        let shown = format!("{bundle:?}");
        for key in [&bundle.ca_key, &bundle.leaf_key] {
            assert!(!shown.contains(key.expose().lines().nth(1).unwrap()), "{shown}");
        }
    }

    /// The steps on facts alone, as `build` makes them on certificates; small enough for thousands of years.
    fn model(action: &Action, facts: Option<&Facts>, ids: &mut Vec<u32>, now: Timestamp) -> Option<(Facts, u32)> {
        let valid = |life| Validity {
            not_before: now.saturating_sub(SKEW).unwrap(),
            not_after: later(now.saturating_sub(SKEW).unwrap(), life),
        };
        let next = ids.iter().max().map_or(0, |id| id + 1);
        let leaf = |issuer| LeafFacts { validity: valid(LEAF_LIFE), issuer: Some(issuer), names: names() };
        let mut made = facts.cloned().unwrap_or_default();
        match action {
            Action::Keep { .. } => return None,
            Action::Create { .. } => {
                made = Facts { cas: vec![valid(CA_LIFE)], can_sign: true, leaf: Some(leaf(0)) };
                *ids = vec![next];
            }
            Action::RenewAuthority => {
                made.cas.insert(0, valid(CA_LIFE));
                ids.insert(0, next);
                let old = made.leaf.as_mut().unwrap();
                old.issuer = old.issuer.map(|issuer| issuer + 1);
            }
            Action::IssueLeaf { .. } => made.leaf = Some(leaf(0)),
            Action::RetireAuthorities => {
                made.cas.truncate(1);
                ids.truncate(1);
            }
        }
        let issuer = ids[made.leaf.as_ref().unwrap().issuer.unwrap()];
        Some((made, issuer))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Twenty-five years. Each replica looks at its own interval of five to thirty minutes on its own clock, and
        /// holds what it last read: the leaf it serves must be trusted by the bundle that any other last injected.
        #[test]
        fn every_served_leaf_is_trusted_by_every_injected_bundle(
            replicas in proptest::collection::vec((300u64..1800, -240i64..240), 1..4),
            naps in proptest::collection::vec(1u64..40, 30),
        ) {
            let end = later(start(), CA_LIFE * 5 / 2);
            let mut ids = Vec::new();
            let mut stored: Option<(Facts, u32)> = None;
            // Per replica: the leaf's issuer, its end, and the authorities.
            let mut held: Vec<Option<(u32, Timestamp, Vec<u32>)>> = vec![None; replicas.len()];
            let mut wakes: Vec<Timestamp> = (0..replicas.len()).map(|i| later(start(), Duration::from_secs(i as u64))).collect();
            let mut nap = naps.iter().cycle();
            let mut steps = 0;
            loop {
                let index = (0..wakes.len()).min_by_key(|index| wakes[*index]).unwrap();
                let now = wakes[index];
                if now >= end {
                    break;
                }
                let (lag, skew) = replicas[index];
                let skew = jiff::SignedDuration::from_secs(skew);
                let local = now.saturating_add(skew).unwrap();
                let action = plan(stored.as_ref().map(|(facts, _)| facts), &names(), local);
                let soon = |lag: u64| later(now, Duration::from_secs(lag));
                match model(&action, stored.as_ref().map(|(facts, _)| facts), &mut ids, local) {
                    Some(made) => {
                        stored = Some(made);
                        steps += 1;
                        for (wake, (lag, _)) in wakes.iter_mut().zip(&replicas) {
                            *wake = (*wake).min(soon(*lag));
                        }
                        wakes[index] = soon(lag);
                    }
                    // Looking in vain changes nothing, so idle weeks are skipped, but no step is slept over.
                    None => {
                        let Action::Keep { until } = action else { panic!("{action:?}") };
                        let until = until.saturating_sub(skew).unwrap();
                        let rested = later(now, Duration::from_secs(86_400 * nap.next().unwrap()));
                        wakes[index] = until.min(rested).max(soon(1));
                    }
                }
                let (facts, issuer) = stored.as_ref().unwrap();
                held[index] = Some((*issuer, facts.leaf.as_ref().unwrap().validity.not_after, ids.clone()));
                let mine = held[index].as_ref().unwrap();
                for other in held.iter().flatten() {
                    prop_assert!(mine.2.contains(&other.0) && other.2.contains(&mine.0), "at {} {:?}", now, held);
                    prop_assert!(other.1 > now, "an expired leaf is served at {}", now);
                }
                prop_assert!(steps < 1000);
            }
            prop_assert!(steps > 150, "{} steps in 25 years", steps);
        }

        #[test]
        fn no_stored_bytes_make_it_panic(ca in ".{0,40}", key in ".{0,40}") {
            let bundle = Bundle { ca: ca.clone(), ca_key: key.clone().into(), leaf: ca, leaf_key: key.into() };
            let (action, _) = step(Some(&bundle), start());
            let created = matches!(action, Action::Create { .. });
            prop_assert!(created);
        }
    }
}
