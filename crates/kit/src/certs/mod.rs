//! Certificates of the servers: where they come from, and how a running server takes a new one.
//!
//! A [`Slot`] holds the pair that is served and may be filled at any time: new handshakes use the new pair, existing
//! connections are not touched. Two sources fill it: [`Directory`] follows a mounted directory, and [`SelfSigned`]
//! keeps an authority of its own in a Secret and tells the API server about it. Both keep the old pair on any doubt.

mod authority;
mod clients;
mod directory;
mod inject;
mod self_signed;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::gates::GateState;
use crate::telemetry::Metrics;

pub use authority::{Action, AuthorityError, Bundle, Facts, LeafFacts, build, plan};
pub use clients::{ClientFile, ClientFileError};
pub use directory::{Directory, DirectoryError};
pub use inject::{Target, TargetKind, injection};
pub use self_signed::{Injected, PART_OF, SelfSigned, SelfSignedError, SelfSignedOptions, Targets};

/// Two machines' clocks may differ by this much without harm.
pub const SKEW: Duration = Duration::from_secs(5 * 60);

/// Why a certificate and a key are not a pair that can be served.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// No certificate.
    #[error("the certificate file holds no PEM certificate")]
    NoCertificate,
    /// A certificate that cannot be read.
    #[error("the certificate file holds a certificate that cannot be read: {detail}")]
    BadCertificate {
        /// What the parser says.
        detail: String,
    },
    /// No key, or one that cannot be used. The cause is left out: it may quote the key.
    #[error("the key file holds no usable PEM private key")]
    BadKey,
    /// The key is not that of the certificate.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// The certificate is over.
    #[error("the certificate expired at {not_after}")]
    Expired {
        /// Its end.
        not_after: Timestamp,
    },
    /// The certificate is not valid yet.
    #[error("the certificate is not valid before {not_before}")]
    NotYetValid {
        /// Its start.
        not_before: Timestamp,
    },
}

/// From when to when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub not_before: Timestamp,
    /// The last moment.
    pub not_after: Timestamp,
}

impl Validity {
    fn of(certificate: &X509Certificate<'_>) -> Option<Self> {
        let at = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        let validity = certificate.validity();
        Some(Self { not_before: at(validity.not_before)?, not_after: at(validity.not_after)? })
    }

    /// The whole length.
    #[must_use]
    pub fn length(self) -> Duration {
        Duration::try_from(self.not_after.duration_since(self.not_before)).unwrap_or_default()
    }

    /// What is left of it.
    #[must_use]
    pub fn remaining(self, now: Timestamp) -> Duration {
        Duration::try_from(self.not_after.duration_since(now)).unwrap_or_default()
    }

    /// Whether the moment lies in it; a start in the near future counts, because clocks differ.
    #[must_use]
    pub fn contains(self, now: Timestamp) -> bool {
        now < self.not_after && self.not_before <= later(now, SKEW)
    }
}

/// A moment later by `by`, or the end of time.
pub(crate) fn later(moment: Timestamp, by: Duration) -> Timestamp {
    moment.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// A certificate chain with its private key, proved to belong together.
#[derive(Clone)]
pub struct Pair {
    key: Arc<CertifiedKey>,
    validity: Validity,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("validity", &self.validity).field("key", &"***").finish_non_exhaustive()
    }
}

impl Pair {
    /// Reads a chain and a key from PEM and checks that they belong together.
    ///
    /// # Errors
    /// Says which of the two is wrong, or that they do not match; never quotes the key.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PairError> {
        let chain = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| PairError::BadCertificate { detail: error.to_string() })?;
        let leaf = chain.first().ok_or(PairError::NoCertificate)?;
        let bad = |detail: &str| PairError::BadCertificate { detail: detail.to_owned() };
        let (_, parsed) = X509Certificate::from_der(leaf).map_err(|_| bad("not X.509"))?;
        let validity = Validity::of(&parsed).ok_or_else(|| bad("impossible dates"))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| PairError::BadKey)?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = provider.key_provider.load_private_key(key).map_err(|_| PairError::BadKey)?;
        let key = CertifiedKey::new(chain, key);
        key.keys_match().map_err(|_| PairError::Mismatch)?;
        Ok(Self { key: Arc::new(key), validity })
    }

    /// From when to when the certificate is valid.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether it may be served now.
    ///
    /// # Errors
    /// When the certificate is over or not yet valid.
    pub fn check(&self, now: Timestamp) -> Result<(), PairError> {
        let Validity { not_before, not_after } = self.validity;
        if now >= not_after {
            return Err(PairError::Expired { not_after });
        }
        if !self.validity.contains(now) {
            return Err(PairError::NotYetValid { not_before });
        }
        Ok(())
    }
}

/// The pair that a server shows; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Slot(Arc<RwLock<Option<Pair>>>);

impl Slot {
    /// An empty slot, with which every handshake fails.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows this pair from the next handshake on.
    pub fn store(&self, pair: Pair) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(pair);
    }

    /// Whether exactly this certificate is shown.
    #[must_use]
    pub fn shows(&self, pair: &Pair) -> bool {
        let shown = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shown.as_ref().is_some_and(|shown| shown.key.cert == pair.key.cert)
    }

    /// The validity of what is shown.
    #[must_use]
    pub fn validity(&self) -> Option<Validity> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(Pair::validity)
    }
}

impl ResolvesServerCert for Slot {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|pair| pair.key.clone())
    }
}

/// The metrics of all certificate sources of a process.
#[derive(Clone, Debug, Default)]
pub struct CertMetrics {
    expiry: Family<SourceLabels, Gauge>,
    refused: Family<SourceLabels, prometheus_client::metrics::counter::Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SourceLabels {
    source: String,
}

impl CertMetrics {
    /// Adds them to the registry as `berth_serve_certificate_…`.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        let new = Self::default();
        let help = "End of the served certificate since the epoch";
        metrics.register("serve_certificate_expiry_timestamp_seconds", help, new.expiry.clone());
        let help = "New certificates that were not taken";
        metrics.register("serve_certificate_refused", help, new.refused.clone());
        new
    }

    fn serving(&self, source: &str, validity: Validity) {
        let labels = SourceLabels { source: source.to_owned() };
        self.expiry.get_or_create(&labels).set(validity.not_after.as_second());
    }

    fn refused(&self, source: &str) {
        self.refused.get_or_create(&SourceLabels { source: source.to_owned() }).inc();
    }
}

/// What a gate says about the pair that is served and the last problem, if any.
fn standing(served: Option<Validity>, problem: Option<&str>, now: Timestamp) -> (GateState, String) {
    let week = Duration::from_secs(7 * 24 * 3600);
    let after = |text: String| match problem {
        Some(problem) => (GateState::Waiting, format!("{text}; {problem}")),
        None => (GateState::Ready, text),
    };
    match served {
        None => (GateState::Blocked, problem.unwrap_or("no certificate yet").to_owned()),
        Some(validity) if now >= validity.not_after => {
            let (_, text) = after(format!("certificate expired at {}", validity.not_after));
            (GateState::Blocked, text)
        }
        // Short-lived certificates are replaced in their last third: only the last quarter is worth a word.
        Some(validity) if validity.remaining(now) < week.min(validity.length() / 4) => {
            let (_, text) = after(format!("certificate expires soon, at {}", validity.not_after));
            (GateState::Waiting, text)
        }
        Some(validity) => after(format!("certificate expires at {}", validity.not_after)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    pub(super) fn pair(name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new([name.to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn a_pair_is_accepted_only_if_both_halves_belong_together() {
        let ((cert, key), (other_cert, other_key)) = (pair("a"), pair("a"));
        assert!(Pair::from_pem(cert.as_bytes(), key.as_bytes()).is_ok());
        assert!(Pair::from_pem(other_cert.as_bytes(), other_key.as_bytes()).is_ok());
        let refused = |cert: &str, key: &str| Pair::from_pem(cert.as_bytes(), key.as_bytes()).unwrap_err();
        assert!(matches!(refused(&cert, &other_key), PairError::Mismatch));
        assert!(matches!(refused(&other_cert, &key), PairError::Mismatch));
        assert!(matches!(refused("", &key), PairError::NoCertificate));
        assert!(matches!(refused(&cert, ""), PairError::BadKey));
        assert!(matches!(refused(&cert, &cert), PairError::BadKey));
        let half = &cert[..cert.len() / 2];
        assert!(matches!(refused(half, &key), PairError::BadCertificate { .. } | PairError::NoCertificate));
    }

    #[test]
    fn neither_a_pair_nor_an_error_shows_the_key() {
        let (cert, key) = pair("a");
        let canary = key.lines().nth(1).unwrap().to_owned();
        let broken = key.replace("-----END", "-----ENT");
        let shown = format!(
            "{:?} {:?} {:?}",
            Pair::from_pem(cert.as_bytes(), key.as_bytes()).unwrap(),
            Pair::from_pem(cert.as_bytes(), broken.as_bytes()).unwrap_err(),
            Pair::from_pem(key.as_bytes(), key.as_bytes()).unwrap_err(),
        );
        assert!(!shown.contains(&canary), "{shown}");
    }

    #[test]
    fn the_gate_warns_a_week_ahead_and_blocks_at_the_end() {
        let validity = Validity { not_before: at("2030-01-01T00:00:00Z"), not_after: at("2030-04-01T00:00:00Z") };
        let state = |now: &str, problem| standing(Some(validity), problem, at(now)).0;
        assert_eq!(state("2030-02-01T00:00:00Z", None), GateState::Ready);
        assert_eq!(state("2030-03-24T23:00:00Z", None), GateState::Ready);
        assert_eq!(state("2030-03-25T01:00:00Z", None), GateState::Waiting);
        assert_eq!(state("2030-04-01T00:00:00Z", None), GateState::Blocked);
        assert_eq!(state("2030-02-01T00:00:00Z", Some("new pair refused")), GateState::Waiting);
        assert_eq!(standing(None, Some("no such directory"), at("2030-01-01T00:00:00Z")).0, GateState::Blocked);
    }
}
