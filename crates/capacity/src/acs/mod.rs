//! What machines on CloudStack offer: a compute offering in a zone, what the machine's spec chooses of it, and the image.

pub mod ask;
pub mod cards;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::key::ObjectKey;
use api::own::anywhere::Named;
use cloudstack::port::{IdError, Pick, ServiceOffering, Template};

use crate::offer::{Accelerators, Arch, Choice, Disk, Offer, Vendor};
use crate::shelf::{AcsPlace, Picture};
use cards::Card;

/// Machines on CloudStack, as they must be looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcsWish {
    /// The compute offering.
    pub offering: Named,
    /// The image.
    pub image: Named,
    /// What the machine's spec chooses.
    pub chosen: Chosen,
    /// Where machines may be made; mostly one.
    pub sites: Vec<Site>,
}

/// A place where machines may be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// The zone.
    pub zone: Named,
    /// The domain, account and project, as far as they are written.
    pub account: Box<str>,
    /// The Secret with the address of the server and the keys.
    pub secret: ObjectKey,
}

impl Site {
    /// The key of the catalogue: server and caller, zone, account.
    #[must_use]
    pub fn place(&self, card: Card) -> AcsPlace {
        AcsPlace { card, zone: self.zone.clone(), account: self.account.clone() }
    }
}

/// What a machine's spec chooses where the offering leaves a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Processors.
    pub cpus: Option<u64>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// The root disk in GiB, whatever the offering says.
    pub root_gib: Option<u64>,
}

/// How people know something: by its name, or else by its id.
#[must_use]
pub fn shown(named: &Named) -> &str {
    if named.name.is_empty() { &named.id } else { &named.name }
}

/// What an entry that stands for an id begins with; no name does.
pub const BY_ID: char = '\0';

/// The entry of the catalogue that an id or a name means; the id where there is one.
#[must_use]
pub fn entry(named: &Named) -> Box<str> {
    if named.id.is_empty() { named.name.as_str().into() } else { format!("{BY_ID}{}", named.id).into() }
}

/// What an entry asks for.
///
/// # Errors
/// When it is an id that no server would give.
pub fn pick<I: std::str::FromStr<Err = IdError>>(entry: &str) -> Result<Pick<I>, IdError> {
    match entry.strip_prefix(BY_ID) {
        Some(id) => id.parse().map(Pick::Id),
        None => Ok(Pick::Name(entry.to_owned())),
    }
}

/// The entries of a list: each offering by its id and by its name. A name that several have stands for none of them.
#[must_use]
pub fn offers(all: &[ServiceOffering]) -> BTreeMap<Box<str>, Arc<Offer>> {
    let mut entries = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for offering in all {
        let offer = Arc::new(offer(offering));
        let named = if seen.insert(offering.name.as_str()) {
            Arc::clone(&offer)
        } else {
            Arc::new(Offer { choice: Choice::Several, ..Offer::default() })
        };
        entries.insert(offering.name.as_str().into(), named);
        entries.insert(format!("{BY_ID}{}", offering.id).into(), offer);
    }
    entries
}

/// What an offering says by itself.
#[must_use]
pub fn offer(offering: &ServiceOffering) -> Offer {
    let count = u64::from(offering.gpus.unwrap_or_default());
    let vendor = offering.gpu_card.as_deref().and_then(Vendor::among);
    let accelerators = vendor.filter(|_| count > 0).map(|vendor| Accelerators {
        vendor: Some(vendor),
        resource: vendor.resource().into(),
        count,
        cores: 0,
    });
    Offer {
        vcpus: offering.cpus.unwrap_or_default().into(),
        memory_mib: offering.memory_mib.unwrap_or_default(),
        accelerators,
        gpus: count,
        nvidia: if vendor == Some(Vendor::Nvidia) { count } else { 0 },
        // CloudStack calls it GB and counts in powers of two.
        disk: offering.root_disk_gb.filter(|size| *size > 0).map(Disk::Gib),
        choice: if offering.customized { Choice::User } else { Choice::None },
        ..Offer::default()
    }
}

/// What an image says about the machines that are made of it.
#[must_use]
pub fn picture(template: &Template) -> Picture {
    Picture {
        windows: template.system.as_deref().is_some_and(|name| name.to_ascii_lowercase().contains("windows")),
        arch: template.arch.as_deref().and_then(Arch::read),
        disk_gib: template.size.map(|bytes| bytes >> 30).filter(|size| *size > 0),
    }
}

/// Why an offering does not say what a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Several have the name.
    Several,
    /// The user must choose this and has not.
    Unchosen(&'static str),
    /// The server does not say.
    Incomplete,
}

/// What a machine has: of the offering, of what its spec chooses, and of its image.
///
/// # Errors
/// What is missing.
pub fn settle(offer: &Offer, chosen: Chosen, picture: Picture) -> Result<Offer, Gap> {
    if offer.choice == Choice::Several {
        return Err(Gap::Several);
    }
    // A server takes a choice only where the offering leaves one, so what the offering says comes first.
    let figure = |said: u64, chosen: Option<u64>, field: &'static str| match (said, offer.choice) {
        (0, Choice::User) => chosen.ok_or(Gap::Unchosen(field)),
        (0, _) => Err(Gap::Incomplete),
        (said, _) => Ok(said),
    };
    let chosen_disk = chosen.root_gib.map(Disk::Gib);
    Ok(Offer {
        vcpus: figure(offer.vcpus, chosen.cpus, crate::facts::CPUS)?,
        memory_mib: figure(offer.memory_mib, chosen.memory_mib, crate::facts::MEMORY)?,
        arch: Some(picture.arch.unwrap_or(Arch::Amd64)),
        assumed: picture.arch.is_none(),
        disk: chosen_disk.or(offer.disk).or(picture.disk_gib.map(Disk::Gib)),
        windows: picture.windows.then_some(true),
        choice: Choice::None,
        ..offer.clone()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offering(id: &str, name: &str) -> ServiceOffering {
        ServiceOffering {
            id: id.parse().unwrap(),
            name: name.to_owned(),
            cpus: Some(4),
            cpu_mhz: Some(2000),
            memory_mib: Some(8192),
            root_disk_gb: None,
            gpus: None,
            gpu_card: None,
            customized: false,
        }
    }

    fn template() -> Template {
        Template {
            id: "t-1".parse().unwrap(),
            name: "t".to_owned(),
            ready: true,
            status: None,
            zone: None,
            url: None,
            arch: Some("aarch64".to_owned()),
            system: Some("Ubuntu 22.04 LTS".to_owned()),
            size: Some(21_474_836_480),
        }
    }

    #[test]
    fn a_fixed_offering_says_everything_and_choices_do_not_change_it() {
        let chosen = Chosen { cpus: Some(64), memory_mib: Some(1), root_gib: None };
        let found = settle(&offer(&offering("o", "n")), chosen, picture(&template())).unwrap();
        assert_eq!((found.vcpus, found.memory_mib, found.disk), (4, 8192, Some(Disk::Gib(20))));
        assert_eq!((found.arch, found.assumed, found.windows), (Some(Arch::Arm64), false, None));
    }

    #[test]
    fn disks_come_from_the_choice_then_the_offering_then_the_image() {
        let own = offer(&ServiceOffering { root_disk_gb: Some(50), ..offering("o", "n") });
        let of = |root_gib, offer: &Offer, picture| {
            settle(offer, Chosen { root_gib, ..Chosen::default() }, picture).unwrap().disk
        };
        assert_eq!(of(Some(80), &own, picture(&template())), Some(Disk::Gib(80)));
        assert_eq!(of(None, &own, picture(&template())), Some(Disk::Gib(50)));
        assert_eq!(of(None, &offer(&offering("o", "n")), picture(&template())), Some(Disk::Gib(20)));
        assert_eq!(of(None, &offer(&offering("o", "n")), Picture::default()), None);
    }

    #[test]
    fn a_custom_offering_takes_what_the_spec_chooses_and_names_what_it_does_not() {
        let custom = ServiceOffering { cpus: None, memory_mib: None, customized: true, ..offering("o", "n") };
        let of = |custom: &ServiceOffering, cpus, memory_mib| {
            settle(&offer(custom), Chosen { cpus, memory_mib, root_gib: None }, Picture::default())
                .map(|found| (found.vcpus, found.memory_mib))
        };
        assert_eq!(of(&custom, Some(2), Some(4096)), Ok((2, 4096)));
        assert_eq!(of(&custom, None, Some(4096)), Err(Gap::Unchosen("cpuNumber")));
        assert_eq!(of(&custom, Some(2), None), Err(Gap::Unchosen("memory")));
        let half = ServiceOffering { memory_mib: Some(2048), ..custom };
        assert_eq!(of(&half, Some(2), Some(4096)), Ok((2, 2048)), "only processors are left to choose");
        let silent = ServiceOffering { cpus: None, ..offering("o", "n") };
        assert_eq!(of(&silent, Some(2), None), Err(Gap::Incomplete), "nothing is left to choose");
    }

    #[test]
    fn an_image_without_a_known_architecture_leaves_it_assumed() {
        for (arch, found, assumed) in [
            (Some("x86_64"), Arch::Amd64, false),
            (Some("aarch64"), Arch::Arm64, false),
            (Some("s390x"), Arch::S390x, false),
            (Some("vax"), Arch::Amd64, true),
            (None, Arch::Amd64, true),
        ] {
            let template = Template { arch: arch.map(str::to_owned), ..template() };
            let offer = settle(&offer(&offering("o", "n")), Chosen::default(), picture(&template)).unwrap();
            assert_eq!((offer.arch, offer.assumed), (Some(found), assumed), "{arch:?}");
        }
        let windows = Template { system: Some("Windows Server 2022 (64-bit)".to_owned()), ..template() };
        let offer = settle(&offer(&offering("o", "n")), Chosen::default(), picture(&windows)).unwrap();
        assert_eq!(offer.windows, Some(true));
    }

    #[test]
    fn gpus_are_named_by_a_maker_among_the_words_of_their_card() {
        for (gpus, card, named, nvidia) in [
            (Some(2), Some("NVIDIA Corporation TU104GL [Tesla T4]"), Some(("nvidia.com/gpu", 2)), 2),
            (Some(1), Some("Group of Advanced Micro Devices, Inc. [AMD/ATI] GPUs"), Some(("amd.com/gpu", 1)), 0),
            (Some(1), Some("Graphics of somebody"), None, 0),
            (Some(1), None, None, 0),
            (None, Some("NVIDIA"), None, 0),
        ] {
            let offer = offer(&ServiceOffering { gpus, gpu_card: card.map(str::to_owned), ..offering("o", "n") });
            let found = offer.accelerators.as_ref().map(|found| (found.resource.as_ref(), found.count));
            assert_eq!((found, offer.nvidia), (named, nvidia), "{card:?}");
            assert_eq!(offer.gpus, u64::from(gpus.unwrap_or_default()));
        }
    }

    #[test]
    fn offerings_are_found_by_id_and_by_a_name_that_only_one_has() {
        let list = offers(&[offering("o-1", "small"), offering("o-2", "twice"), offering("o-3", "twice")]);
        let of = |id: &str, name: &str| {
            let found = list.get(&entry(&Named { id: id.to_owned(), name: name.to_owned() }));
            found.map(|offer| settle(offer, Chosen::default(), Picture::default()).map(|offer| offer.vcpus))
        };
        assert_eq!(of("", "small"), Some(Ok(4)));
        assert_eq!(of("o-2", ""), Some(Ok(4)));
        assert_eq!(of("o-3", "twice"), Some(Ok(4)), "the id settles it");
        assert_eq!(of("", "twice"), Some(Err(Gap::Several)));
        assert_eq!((of("small", ""), of("", "o-1"), of("", "\0o-1").is_some()), (None, None, true));
    }

    proptest! {
        #[test]
        fn whatever_is_known_nothing_is_written_without_processors_and_memory(
            cpus in prop::option::of(0_u32..4), memory in prop::option::of(0_u64..4), customized in any::<bool>(),
            chosen_cpus in prop::option::of(1_u64..4), chosen_memory in prop::option::of(1_u64..4),
        ) {
            let offering = ServiceOffering { cpus, memory_mib: memory, customized, ..offering("o", "n") };
            let chosen = Chosen { cpus: chosen_cpus, memory_mib: chosen_memory, root_gib: None };
            if let Ok(found) = settle(&offer(&offering), chosen, Picture::default()) {
                prop_assert!(!found.is_incomplete());
                prop_assert!(customized || (found.vcpus, found.memory_mib) == (cpus.unwrap().into(), memory.unwrap()));
            }
        }

        #[test]
        fn an_entry_asks_for_what_it_was_made_of(id in "[a-z0-9-]{0,8}", name in "[ -~]{1,12}") {
            let named = Named { id: id.clone(), name: name.clone() };
            let picked = pick::<cloudstack::port::ServiceOfferingId>(&entry(&named)).unwrap();
            let wanted = if id.is_empty() { Pick::Name(name) } else { Pick::Id(id.parse().unwrap()) };
            prop_assert_eq!(picked, wanted);
        }
    }
}
