//! What CloudStack said lately, asked once for all who ask the same at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::own::anywhere::AvailabilityZone;
use kit::clock::Clock;
use kit::flight::Flights;
use tokio::time::Instant;

use super::machine::{self, Parts, Stock};
use super::zone::{self, FoundDomain, Resolved};
use super::{Clouds, Fault};
use crate::secrets::Credentials;

/// What was found stays good for this long.
const FOUND: Duration = Duration::from_secs(600);
/// What was not found is looked for again after this long.
const MISSED: Duration = Duration::from_secs(60);
/// Which id a domain has is not asked again for this long: paths of domains hardly ever change, and what hangs on the id is
/// asked with it every time.
const DOMAIN: Duration = Duration::from_secs(1_800);
/// More answers than this are not kept.
const MOST: usize = 4_096;

/// What a zone is asked by: the secret at its version, and everything of the zone but its name.
type ZoneKey = (String, String, String);
type MachineKey = (ZoneKey, Parts);
type Found = Result<Stock, Vec<Fault>>;

/// What CloudStack said lately; clones share it.
pub struct Shelf<C: Clouds> {
    clouds: C,
    clock: Clock,
    zones: Flights<(ZoneKey, bool), Result<Resolved, Fault>>,
    machines: Flights<MachineKey, Found>,
    kept: Mutex<BTreeMap<MachineKey, (Instant, Found)>>,
    places: Mutex<BTreeMap<ZoneKey, (Instant, Resolved)>>,
    domains: Mutex<BTreeMap<ZoneKey, (Instant, FoundDomain)>>,
}

fn zone_key(credentials: &Credentials, zone: &AvailabilityZone) -> ZoneKey {
    let asked = (&zone.zone, &zone.domain, &zone.account);
    let asked = serde_json::to_string(&asked).unwrap_or_default();
    (credentials.name.clone(), credentials.version.clone(), asked)
}

impl<C: Clouds> Shelf<C> {
    /// Nothing was asked yet.
    #[must_use]
    pub fn new(clouds: C, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clouds,
            clock,
            zones: Flights::new(),
            machines: Flights::new(),
            kept: Mutex::default(),
            places: Mutex::default(),
            domains: Mutex::default(),
        })
    }

    /// Who opens the way to servers.
    #[must_use]
    pub fn clouds(&self) -> &C {
        &self.clouds
    }

    /// Checks an availability zone anew; who asks the same meanwhile gets the same answer.
    ///
    /// # Errors
    /// The first fault of the zone.
    pub async fn zone(
        &self,
        credentials: &Credentials,
        zone: &AvailabilityZone,
        several: bool,
    ) -> Result<Resolved, Fault> {
        let key = zone_key(credentials, zone);
        let acs = self.clouds.open(&credentials.profile).map_err(Fault::unasked)?;
        let (asked, known) = (zone.clone(), self.domain(&key));
        let flight = (key.clone(), several);
        let answer = self.zones.join(flight, || async move { zone::whole(&acs, &asked, several, known).await }).await;
        match &answer {
            Ok(resolved) => {
                self.keep_domain(&key, resolved);
                self.keep_place(key, resolved.clone());
            }
            Err(Fault::Definitive { .. }) => drop(lock(&self.domains).remove(&key)),
            Err(Fault::Passing { .. }) => {}
        }
        answer
    }

    /// What a zone was found to be lately; it is asked for when nobody knows.
    ///
    /// # Errors
    /// The first fault of the zone.
    pub async fn resolved(&self, credentials: &Credentials, zone: &AvailabilityZone) -> Result<Resolved, Fault> {
        match self.place(&zone_key(credentials, zone)) {
            Some(resolved) => Ok(resolved),
            None => self.zone(credentials, zone, false).await,
        }
    }

    /// Whether what machines are made of is there; of what was found lately the same is said again.
    ///
    /// # Errors
    /// Every fault in this zone.
    pub async fn machine(&self, credentials: &Credentials, zone: &AvailabilityZone, parts: &Parts) -> Found {
        let key = (zone_key(credentials, zone), parts.clone());
        if let Some(found) = self.kept(&key) {
            return found;
        }
        let acs = self.clouds.open(&credentials.profile).map_err(|words| vec![Fault::unasked(words)])?;
        let (asked, parts, known) = (zone.clone(), parts.clone(), self.place(&key.0));
        let answer = self
            .machines
            .join(key.clone(), || async move {
                let place = match known {
                    Some(known) => known.place,
                    None => zone::place(&acs, &asked, None).await.map_err(|fault| vec![fault])?.0,
                };
                machine::check(&acs, &place, &parts).await
            })
            .await;
        let passing = |fault: &Fault| matches!(fault, Fault::Passing { .. });
        let certain = answer.as_ref().err().is_none_or(|faults| !faults.iter().any(passing));
        if certain {
            let now = self.clock.instant();
            let mut kept = lock(&self.kept);
            kept.retain(|_, (at, found)| now.saturating_duration_since(*at) < life(found));
            if kept.len() < MOST {
                kept.insert(key, (now, answer.clone()));
            }
        }
        answer
    }

    fn kept(&self, key: &MachineKey) -> Option<Found> {
        let now = self.clock.instant();
        let kept = lock(&self.kept);
        let (at, found) = kept.get(key)?;
        (now.saturating_duration_since(*at) < life(found)).then(|| found.clone())
    }

    fn place(&self, key: &ZoneKey) -> Option<Resolved> {
        let now = self.clock.instant();
        let places = lock(&self.places);
        let (at, place) = places.get(key)?;
        (now.saturating_duration_since(*at) < FOUND).then(|| place.clone())
    }

    fn domain(&self, key: &ZoneKey) -> Option<FoundDomain> {
        let now = self.clock.instant();
        let domains = lock(&self.domains);
        let (at, found) = domains.get(key)?;
        (now.saturating_duration_since(*at) < DOMAIN).then(|| found.clone())
    }

    /// Keeps the id of a domain from when it was asked for; using it does not make it younger.
    fn keep_domain(&self, key: &ZoneKey, resolved: &Resolved) {
        let Some(id) = resolved.place.domain.clone() else { return };
        let found = FoundDomain { id, verified: resolved.verified };
        let now = self.clock.instant();
        let mut domains = lock(&self.domains);
        domains.retain(|_, (at, _)| now.saturating_duration_since(*at) < DOMAIN);
        if domains.get(key).is_none_or(|(_, known)| *known != found) && domains.len() < MOST {
            domains.insert(key.clone(), (now, found));
        }
    }

    fn keep_place(&self, key: ZoneKey, place: Resolved) {
        let now = self.clock.instant();
        let mut places = lock(&self.places);
        places.retain(|_, (at, _)| now.saturating_duration_since(*at) < FOUND);
        if places.len() < MOST {
            places.insert(key, (now, place));
        }
    }
}

fn life(found: &Found) -> Duration {
    if found.is_ok() { FOUND } else { MISSED }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
