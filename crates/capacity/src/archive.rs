//! The catalogue in a form that outlives the process: one page for each place, of facts as the cloud gave them.
//!
//! A page is text, one JSON value on each line: first what it is, then one type after the other. It is compressed, which
//! adds a checksum. It is a cache and nothing else: a page that is damaged, of another format, of another place or from the
//! future is passed over, and the cloud is asked again.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::time::Duration;

use api::names::Region;
use aws::port::{Gpu, NeuronDevice, TypeFacts};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::shelf::{Ec2Place, VERY_STALE};

/// The format of pages; whatever changes the meaning of a line changes it.
const FORMAT: u32 = 1;
/// Bytes of all pages together: half of what a ConfigMap takes.
const MOST: usize = 512 * 1024;
/// Bytes of one page before it is compressed.
const LONGEST: usize = 4 * 1024 * 1024;
/// Clocks of two processes may differ by this much.
const SKEW: Duration = Duration::from_secs(300);

/// Why a page is passed over.
#[derive(Debug, thiserror::Error)]
pub enum PageFault {
    /// It cannot be decompressed, or its checksum is another.
    #[error("it is damaged")]
    Damaged(#[from] io::Error),
    /// It is no text of ours.
    #[error("it cannot be read")]
    Unreadable(#[from] serde_json::Error),
    /// Another version of Berth wrote it.
    #[error("it is of format {0}, and this is format {FORMAT}")]
    Format(u32),
    /// It names no place.
    #[error("it is of no region")]
    NoRegion(#[source] api::names::NameError),
    /// It is not what its name says.
    #[error("it is one of {0}")]
    Misplaced(String),
    /// It says it has another number of types than it has.
    #[error("it has {found} types and should have {said}")]
    Incomplete {
        /// What it says.
        said: usize,
        /// What it has.
        found: usize,
    },
    /// It is longer than any list of types.
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    /// It was made later than now.
    #[error("it is from the future, {0}")]
    Future(Timestamp),
    /// It is so old that it is of no use.
    #[error("it is from {0}")]
    Old(Timestamp),
}

/// What a place offers, and when it said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where it is from.
    pub place: Ec2Place,
    /// When the cloud was asked.
    pub listed: Timestamp,
    /// The types.
    pub types: Vec<TypeFacts>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    format: u32,
    region: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    endpoint: Option<Box<str>>,
    listed: Timestamp,
    types: usize,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// A type: name, processors, memory in MiB, architectures, GPUs by maker with their count and logical count, Neuron devices
/// with their count and cores, storage in GB, interfaces, addresses of each.
#[derive(Serialize, Deserialize)]
struct Line(Box<str>, u32, u64, Vec<String>, Vec<(String, u32, u32)>, Vec<(u32, u32)>, u64, u32, u32);

impl From<&TypeFacts> for Line {
    fn from(facts: &TypeFacts) -> Self {
        Self(
            facts.name.clone(),
            facts.vcpus,
            facts.memory_mib,
            facts.architectures.iter().map(ToString::to_string).collect(),
            facts.gpus.iter().map(|gpu| (gpu.manufacturer.clone(), gpu.count, gpu.logical)).collect(),
            facts.neuron.iter().map(|device| (device.count, device.cores)).collect(),
            facts.storage_gb,
            facts.interfaces,
            facts.ipv4_per_interface,
        )
    }
}

impl From<Line> for TypeFacts {
    /// Names of devices, and what only other rooms ask for, are not kept.
    fn from(line: Line) -> Self {
        let Line(name, vcpus, memory_mib, architectures, gpus, neuron, storage_gb, interfaces, ipv4_per_interface) =
            line;
        let gpu = |(manufacturer, count, logical)| Gpu { manufacturer, name: String::new(), count, logical };
        let device = |(count, cores)| NeuronDevice { name: String::new(), count, cores };
        Self {
            name,
            vcpus,
            memory_mib,
            architectures: architectures.iter().map(|text| text.as_str().into()).collect(),
            gpus: gpus.into_iter().map(gpu).collect(),
            neuron: neuron.into_iter().map(device).collect(),
            storage_gb,
            interfaces,
            ipv4_per_interface,
            dedicated_hosts: false,
            bare_metal: false,
        }
    }
}

impl Page {
    /// The page as bytes; equal pages give equal bytes.
    ///
    /// # Errors
    /// When it is longer than any list of types.
    pub fn pack(&self) -> Result<Vec<u8>, PageFault> {
        let mut lines: Vec<Line> = self.types.iter().map(Line::from).collect();
        lines.sort_by(|one, other| one.0.cmp(&other.0));
        let head = Head {
            format: FORMAT,
            region: self.place.region.to_string(),
            endpoint: self.place.endpoint.clone(),
            listed: self.listed,
            types: lines.len(),
        };
        let mut text = serde_json::to_vec(&head)?;
        for line in &lines {
            text.push(b'\n');
            serde_json::to_writer(&mut text, line)?;
        }
        if text.len() > LONGEST {
            return Err(PageFault::TooLong);
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&text)?;
        Ok(packed.finish()?)
    }

    /// Reads a page.
    ///
    /// # Errors
    /// When it is damaged, or of another format.
    pub fn unpack(bytes: &[u8]) -> Result<Self, PageFault> {
        let mut text = String::new();
        let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX).saturating_add(1);
        GzDecoder::new(bytes).take(limit).read_to_string(&mut text)?;
        if text.len() > LONGEST {
            return Err(PageFault::TooLong);
        }
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let version: Version = serde_json::from_str(head)?;
        if version.format != FORMAT {
            return Err(PageFault::Format(version.format));
        }
        let head: Head = serde_json::from_str(head)?;
        let region: Region = head.region.parse().map_err(PageFault::NoRegion)?;
        let types = lines.map(|line| serde_json::from_str::<Line>(line).map(TypeFacts::from));
        let types: Vec<TypeFacts> = types.collect::<Result<_, _>>()?;
        if types.len() != head.types {
            return Err(PageFault::Incomplete { said: head.types, found: types.len() });
        }
        Ok(Self { place: Ec2Place { region, endpoint: head.endpoint }, listed: head.listed, types })
    }
}

/// The name of the page of a place: its region and, where somebody configured an address, a number that stands for it.
#[must_use]
pub fn name(place: &Ec2Place) -> String {
    match &place.endpoint {
        None => place.region.to_string(),
        Some(endpoint) => {
            let number = endpoint
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            format!("{}.{number:016x}", place.region)
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    listed: Timestamp,
    bytes: Vec<u8>,
}

/// All pages, packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    pages: BTreeMap<Ec2Place, Stored>,
}

/// What was found in an archive.
#[derive(Debug, Default)]
pub struct Opened {
    /// The archive, without what is passed over.
    pub archive: Archive,
    /// Its pages.
    pub pages: Vec<Page>,
    /// What is passed over, by its name.
    pub faults: Vec<(String, PageFault)>,
}

impl Archive {
    /// Reads an archive.
    #[must_use]
    pub fn open(data: BTreeMap<String, Vec<u8>>, now: Timestamp) -> Opened {
        let mut opened = Opened::default();
        for (key, bytes) in data {
            match judge(&key, &bytes, now) {
                Ok(page) => {
                    opened.archive.pages.insert(page.place.clone(), Stored { listed: page.listed, bytes });
                    opened.pages.push(page);
                }
                Err(fault) => opened.faults.push((key, fault)),
            }
        }
        opened
    }

    /// Takes over the pages of another archive for places that this one has none of.
    pub fn complete(&mut self, other: Self) {
        for (place, stored) in other.pages {
            self.pages.entry(place).or_insert(stored);
        }
        self.trim();
    }

    /// Puts a page in place of an older one.
    ///
    /// # Errors
    /// When it cannot be packed.
    pub fn put(&mut self, page: &Page) -> Result<(), PageFault> {
        let bytes = page.pack()?;
        self.pages.insert(page.place.clone(), Stored { listed: page.listed, bytes });
        self.trim();
        Ok(())
    }

    /// Adds a type to the page of a place, if there is one; says whether that changed anything.
    ///
    /// # Errors
    /// When the page cannot be read or packed.
    pub fn add(&mut self, place: &Ec2Place, facts: &TypeFacts) -> Result<bool, PageFault> {
        let Some(stored) = self.pages.get(place) else { return Ok(false) };
        let mut page = Page::unpack(&stored.bytes)?;
        page.types.retain(|known| known.name != facts.name);
        page.types.push(facts.clone());
        let bytes = page.pack()?;
        let changed = bytes != stored.bytes;
        self.pages.insert(place.clone(), Stored { listed: page.listed, bytes });
        self.trim();
        Ok(changed)
    }

    /// Every page by its name.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, Vec<u8>> {
        self.pages.iter().map(|(place, stored)| (name(place), stored.bytes.clone())).collect()
    }

    /// Regions come from what users write, so there may be any number of them: the oldest pages go first.
    fn trim(&mut self) {
        let size = |pages: &BTreeMap<Ec2Place, Stored>| pages.values().map(|stored| stored.bytes.len()).sum::<usize>();
        while size(&self.pages) > MOST {
            let oldest = self.pages.iter().min_by_key(|(_, stored)| stored.listed).map(|(place, _)| place.clone());
            let Some(oldest) = oldest else { return };
            self.pages.remove(&oldest);
        }
    }
}

fn judge(key: &str, bytes: &[u8], now: Timestamp) -> Result<Page, PageFault> {
    let page = Page::unpack(bytes)?;
    let meant = name(&page.place);
    if meant != key {
        return Err(PageFault::Misplaced(meant));
    }
    let later = |time: Timestamp, by: Duration| time.saturating_add(by).unwrap_or(time);
    if page.listed > later(now, SKEW) {
        return Err(PageFault::Future(page.listed));
    }
    if later(page.listed, VERY_STALE) < now {
        return Err(PageFault::Old(page.listed));
    }
    Ok(page)
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
