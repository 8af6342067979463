//! What the watchers' stamps say: when each claim was born, bound and given up, and whose each host was.

use std::collections::BTreeMap;

use crate::watch::Stamp;

/// The condition of a claim that has its host.
const ASSOCIATED: &str = "Associated";
/// Texts that stamps of claims show.
pub const OF_CLAIMS: [&str; 1] = ["/metadata/deletionTimestamp"];
/// Texts that stamps of hosts show.
pub const OF_HOSTS: [&str; 2] = ["/spec/consumerRef/namespace", "/spec/consumerRef/name"];

/// Moments in microseconds of the Unix clock.
#[derive(Debug, Default)]
pub struct Seen {
    /// Claims by the moment at which they appeared.
    pub born: BTreeMap<String, i64>,
    /// By the moment at which they were first associated.
    pub bound: BTreeMap<String, i64>,
    /// By the moment at which their deletion was asked for.
    pub deleted: BTreeMap<String, i64>,
    /// Hosts with every change of their consumer.
    tenures: BTreeMap<String, Vec<(i64, String)>>,
}

impl Seen {
    /// Takes in a stamp of a claim.
    pub fn claim(&mut self, stamp: &Stamp) {
        let first = |moments: &mut BTreeMap<String, i64>| {
            moments.entry(stamp.key.clone()).or_insert(stamp.at_us);
        };
        if stamp.event == "ADDED" {
            first(&mut self.born);
        }
        if stamp.is(ASSOCIATED) && stamp.shows(0).is_empty() {
            first(&mut self.bound);
        }
        if !stamp.shows(0).is_empty() || stamp.event == "DELETED" {
            first(&mut self.deleted);
        }
    }

    /// Takes in a stamp of a host.
    pub fn host(&mut self, stamp: &Stamp) {
        let consumer = match (stamp.shows(0), stamp.shows(1)) {
            (_, "") => String::new(),
            (namespace, name) => format!("{namespace}/{name}"),
        };
        let tenures = self.tenures.entry(stamp.key.clone()).or_default();
        if tenures.last().map_or("", |(_, last)| last) != consumer {
            tenures.push((stamp.at_us, consumer));
        }
    }

    /// Milliseconds from birth to association of the claims whose key passes.
    pub fn bind_ms(&self, wanted: impl Fn(&str) -> bool) -> Vec<f64> {
        let took = |(key, bound): (&String, &i64)| Some(ms(*self.born.get(key)?, *bound));
        self.bound.iter().filter(|(key, _)| wanted(key)).filter_map(took).collect()
    }

    /// Seconds from the first birth to the last association.
    pub fn span_seconds(&self) -> Option<f64> {
        Some(ms(*self.born.values().min()?, *self.bound.values().max()?) / 1e3)
    }

    /// Milliseconds from the wish to delete a claim until its host was free.
    pub fn release_ms(&self) -> Vec<f64> {
        let took = |(before, after): (&(i64, String), &(i64, String))| {
            let asked = self.deleted.get(&before.1)?;
            after.1.is_empty().then(|| ms(*asked, after.0))
        };
        self.changes().filter_map(took).collect()
    }

    /// Milliseconds from the moment a host was free until the next claim was associated with it.
    pub fn handover_ms(&self) -> Vec<f64> {
        let took = |(before, after): (&(i64, String), &(i64, String))| {
            let bound = self.bound.get(&after.1)?;
            before.1.is_empty().then(|| ms(before.0, *bound))
        };
        self.changes().filter_map(took).collect()
    }

    /// The host that a claim got first, and the moment at which that showed.
    pub fn taken(&self, claim: &str) -> Option<(&str, i64)> {
        let first = |(host, tenures): (&'_ String, &'_ Vec<(i64, String)>)| {
            let (at, _) = tenures.iter().find(|(_, consumer)| consumer == claim)?;
            Some((*at, host.clone()))
        };
        let (at, host) = self.tenures.iter().filter_map(first).min()?;
        Some((self.tenures.get_key_value(&host)?.0, at))
    }

    /// Hosts that went from one claim to another without ever being free.
    pub fn snatched(&self) -> Vec<String> {
        let wrong = |(before, after): (&(i64, String), &(i64, String))| {
            let both = !before.1.is_empty() && !after.1.is_empty();
            both.then(|| format!("a host went from {} to {} without being free", before.1, after.1))
        };
        self.changes().filter_map(wrong).collect()
    }

    fn changes(&self) -> impl Iterator<Item = (&(i64, String), &(i64, String))> {
        self.tenures.values().flat_map(|tenures| tenures.iter().zip(tenures.iter().skip(1)))
    }
}

fn ms(from: i64, to: i64) -> f64 {
    (to - from) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(at_us: i64, event: &str, key: &str, conditions: &[&str], shown: &[&str]) -> Stamp {
        let texts = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect();
        let (event, key) = (event.to_owned(), key.to_owned());
        Stamp { at_us, event, key, version: String::new(), conditions: texts(conditions), shown: texts(shown) }
    }

    #[test]
    fn a_host_that_changes_hands_gives_both_latencies() {
        let mut seen = Seen::default();
        for (at, event, key, conditions, gone) in [
            (1_000, "ADDED", "t/a", &[][..], ""),
            (5_000, "MODIFIED", "t/a", &["Associated"][..], ""),
            (6_000, "MODIFIED", "t/a", &["Associated"][..], ""),
            (2_000, "ADDED", "t/b", &[][..], ""),
            (10_000, "MODIFIED", "t/a", &["Associated"][..], "2026-01-01T00:00:00Z"),
            (19_000, "MODIFIED", "t/b", &["Associated"][..], ""),
        ] {
            seen.claim(&stamp(at, event, key, conditions, &[gone]));
        }
        for (at, namespace, name) in [(4_000, "t", "a"), (4_500, "t", "a"), (12_000, "", ""), (15_000, "t", "b")] {
            seen.host(&stamp(at, "MODIFIED", "i/1", &[], &[namespace, name]));
        }
        assert_eq!(seen.bind_ms(|key| key == "t/a"), [4.0]);
        assert_eq!((seen.release_ms(), seen.handover_ms()), (vec![2.0], vec![7.0]));
        assert_eq!(seen.span_seconds(), Some(0.018));
        assert!(seen.snatched().is_empty());
        seen.host(&stamp(16_000, "MODIFIED", "i/1", &[], &["t", "c"]));
        assert_eq!(seen.snatched().len(), 1);
    }
}
