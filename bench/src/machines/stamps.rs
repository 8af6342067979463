//! What the watchers' stamps say: when each machine was born, provisioned and given up, and what its host did meanwhile.

use std::collections::BTreeMap;

use crate::watch::Stamp;

/// Texts that stamps of machines show.
pub const OF_MACHINES: [&str; 3] =
    ["/spec/providerID", "/status/initialization/provisioned", "/metadata/deletionTimestamp"];
/// Texts that stamps of hosts show.
pub const OF_HOSTS: [&str; 4] =
    ["/spec/consumerRef/namespace", "/spec/consumerRef/name", "/spec/image/url", "/status/provisioning/state"];

/// Moments in microseconds of the Unix clock, by the key of the machine, which is that of its claim.
pub type Moments = BTreeMap<String, i64>;

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Seen {
    /// The machine appeared.
    pub born: Moments,
    /// It was provisioned and had its provider id.
    pub provisioned: Moments,
    /// Its deletion was asked for.
    pub asked: Moments,
    /// It was gone.
    pub gone: Moments,
    /// A host named its claim.
    pub bound: Moments,
    /// That host was deployed.
    pub deployed: Moments,
    /// That host was free again: nobody's, without an image, and available.
    pub free: Moments,
    /// Hosts that are not free, and whose they were last.
    held: BTreeMap<String, String>,
}

impl Seen {
    /// Takes in a stamp of a machine.
    pub fn machine(&mut self, stamp: &Stamp) {
        let moments = [
            (&mut self.born, stamp.event == "ADDED"),
            (&mut self.provisioned, !stamp.shows(0).is_empty() && stamp.shows(1) == "true"),
            (&mut self.asked, !stamp.shows(2).is_empty()),
            (&mut self.gone, stamp.event == "DELETED"),
        ];
        for (moments, is_so) in moments {
            if is_so {
                moments.entry(stamp.key.clone()).or_insert(stamp.at_us);
            }
        }
    }

    /// Takes in a stamp of a host.
    pub fn host(&mut self, stamp: &Stamp) {
        let [namespace, name, image, state] = [0, 1, 2, 3].map(|n| stamp.shows(n));
        if !name.is_empty() {
            let consumer = format!("{namespace}/{name}");
            self.bound.entry(consumer.clone()).or_insert(stamp.at_us);
            if state == "provisioned" {
                self.deployed.entry(consumer.clone()).or_insert(stamp.at_us);
            }
            self.held.insert(stamp.key.clone(), consumer);
        } else if image.is_empty()
            && state == "available"
            && let Some(consumer) = self.held.remove(&stamp.key)
        {
            self.free.entry(consumer).or_insert(stamp.at_us);
        }
    }
}

/// Milliseconds from one moment to another, of all who had both.
pub fn ms(from: &Moments, to: &Moments) -> Vec<f64> {
    to.iter().filter_map(|(key, at)| Some((*at - from.get(key)?) as f64 / 1e3)).collect()
}

/// Seconds from the first of some moments to the last of others.
pub fn span(from: &Moments, to: &Moments) -> Option<f64> {
    Some((to.values().max()? - from.values().min()?) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(at_us: i64, event: &str, key: &str, shown: &[&str]) -> Stamp {
        let shown = shown.iter().map(|&text| text.to_owned()).collect();
        let (event, key) = (event.to_owned(), key.to_owned());
        Stamp { at_us, event, key, version: String::new(), conditions: Vec::new(), shown }
    }

    #[test]
    fn a_life_is_told_by_the_machine_and_by_its_host() {
        let mut seen = Seen::default();
        for (at, event, id, done, going) in [
            (1_000, "ADDED", "", "", ""),
            (3_000, "MODIFIED", "metal3://t/a/a", "", ""),
            (9_000, "MODIFIED", "metal3://t/a/a", "true", ""),
            (9_500, "MODIFIED", "metal3://t/a/a", "true", ""),
            (20_000, "MODIFIED", "metal3://t/a/a", "true", "2026-01-01T00:00:00Z"),
            (28_000, "DELETED", "metal3://t/a/a", "true", "2026-01-01T00:00:00Z"),
        ] {
            seen.machine(&stamp(at, event, "t/a", &[id, done, going]));
        }
        for (at, name, image, state) in [
            (2_000, "a", "", "available"),
            (4_000, "a", "x", "provisioning"),
            (5_000, "a", "x", "provisioned"),
            (22_000, "a", "", "deprovisioning"),
            (24_000, "", "", "deprovisioning"),
            (26_000, "", "", "available"),
            (27_000, "", "", "available"),
        ] {
            seen.host(&stamp(at, "MODIFIED", "i/1", &["t", name, image, state]));
        }
        assert_eq!(ms(&seen.born, &seen.provisioned), [8.0]);
        assert_eq!((ms(&seen.born, &seen.bound), ms(&seen.deployed, &seen.provisioned)), (vec![1.0], vec![4.0]));
        assert_eq!((ms(&seen.asked, &seen.free), ms(&seen.asked, &seen.gone)), (vec![6.0], vec![8.0]));
        assert_eq!((span(&seen.born, &seen.free), span(&seen.born, &Moments::new())), (Some(0.025), None));
    }
}
