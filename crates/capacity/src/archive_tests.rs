use aws::port::Architecture;
use proptest::prelude::*;

use super::*;
use crate::offer::Offer;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn place(region: &str, endpoint: Option<&str>) -> Ec2Place {
    Ec2Place { region: region.parse().unwrap(), endpoint: endpoint.map(Into::into) }
}

fn facts(name: &str, vcpus: u32) -> TypeFacts {
    TypeFacts {
        name: name.into(),
        vcpus,
        memory_mib: 16384,
        architectures: vec![Architecture::I386, Architecture::X86_64, Architecture::Other("riscv64".into())],
        gpus: vec![Gpu { manufacturer: "NVIDIA".to_owned(), name: String::new(), count: 0, logical: 1 }],
        neuron: vec![NeuronDevice { name: String::new(), count: 6, cores: 2 }],
        storage_gb: 150,
        interfaces: 4,
        ipv4_per_interface: 15,
        dedicated_hosts: false,
        bare_metal: false,
    }
}

fn page(region: &str, listed: Timestamp) -> Page {
    Page { place: place(region, None), listed, types: vec![facts("a1.large", 2), facts("m5.xlarge", 4)] }
}

fn data(pages: &[&Page]) -> BTreeMap<String, Vec<u8>> {
    pages.iter().map(|page| (name(&page.place), page.pack().unwrap())).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap()
}

#[test]
fn a_page_is_read_as_it_was_written_and_equal_pages_are_equal_bytes() {
    let one = page("us-east-1", now());
    assert_eq!(Page::unpack(&one.pack().unwrap()).unwrap(), one);
    let mut turned = one.clone();
    turned.types.reverse();
    assert_eq!(turned.pack().unwrap(), one.pack().unwrap(), "the cloud lists in any order");
    // What is told of a type is what the room makes offers of.
    let mut whole = facts("p4d.24xlarge", 96);
    whole.gpus[0].name = "A100".to_owned();
    whole.dedicated_hosts = true;
    let kept = TypeFacts::from(Line::from(&whole));
    assert_eq!(Offer::of_ec2(&kept), Offer::of_ec2(&whole));
}

#[test]
fn a_catalogue_of_real_size_is_small() {
    let families = (0..70).flat_map(|family| (0..20).map(move |size| (family, size)));
    let types = families.map(|(family, size)| facts(&format!("m{family}gd.{size}xlarge"), 4 * size)).collect();
    let page = Page { types, ..page("us-east-1", now()) };
    let bytes = page.pack().unwrap();
    assert!(bytes.len() < 16 * 1024, "{} bytes for {} types", bytes.len(), page.types.len());
}

#[test]
fn pages_of_different_addresses_do_not_meet() {
    let plain = page("us-east-1", now());
    let other = |url: &str| Page { place: place("us-east-1", Some(url)), ..plain.clone() };
    let (one, two) = (other("http://127.0.0.1:1"), other("http://127.0.0.1:2"));
    let opened = Archive::open(data(&[&plain, &one, &two]), now());
    assert_eq!(opened.pages.len(), 3);
    assert!(opened.faults.is_empty());
    assert_eq!(opened.archive.data(), data(&[&plain, &one, &two]));
    for key in opened.archive.data().keys() {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        assert!(key.chars().all(allowed) && key.len() <= 253, "{key} is no key of a ConfigMap");
    }
}

#[test]
fn what_is_not_ours_is_passed_over_with_a_reason_and_the_rest_is_kept() {
    let good = page("us-east-1", now());
    let bytes = good.pack().unwrap();
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let week = Duration::from_secs(7 * 24 * 3600 + 1);
    let head = r#"{"format":1,"region":"eu-west-1","listed":"2026-01-02T03:04:05Z","types":1}"#;
    for (key, bytes, part) in [
        ("eu-west-1", b"".to_vec(), "damaged"),
        ("eu-west-1", b"no archive at all".to_vec(), "damaged"),
        ("eu-west-1", bytes[..bytes.len() / 2].to_vec(), "damaged"),
        ("eu-west-1", flipped, "damaged"),
        ("eu-west-1", gzip(""), "cannot be read"),
        ("eu-west-1", gzip("{}"), "cannot be read"),
        ("eu-west-1", gzip(r#"{"format":2,"whatever":true}"#), "format 2"),
        ("eu-west-1", gzip(r#"{"format":1,"region":"moon","listed":"2026-01-02T03:04:05Z","types":0}"#), "no region"),
        ("eu-west-1", gzip(head), "0 types and should have 1"),
        ("eu-west-1", gzip(&format!("{head}\n[\"m5.large\",-1]")), "cannot be read"),
        ("eu-west-1", gzip(&" ".repeat(LONGEST + 1)), "longer than"),
        ("eu-west-1", bytes.clone(), "one of us-east-1"),
        ("eu-west-1", page("eu-west-1", now().checked_add(SKEW * 2).unwrap()).pack().unwrap(), "from the future"),
        ("eu-west-1", page("eu-west-1", now().checked_sub(week).unwrap()).pack().unwrap(), "it is from 2025"),
    ] {
        let all = BTreeMap::from([("us-east-1".to_owned(), good.pack().unwrap()), (key.to_owned(), bytes)]);
        let opened = Archive::open(all, now());
        assert_eq!(opened.pages, std::slice::from_ref(&good), "{part}");
        let [(named, fault)] = opened.faults.as_slice() else { panic!("{part}: {:?}", opened.faults) };
        assert_eq!(named, key);
        assert!(fault.to_string().contains(part), "{part}: {fault}");
        assert_eq!(opened.archive.data(), data(&[&good]), "what is passed over is not written again");
    }
    let ahead = page("us-east-1", now().checked_add(SKEW / 2).unwrap());
    assert_eq!(Archive::open(data(&[&ahead]), now()).pages.len(), 1, "clocks differ a little");
}

#[test]
fn a_type_that_was_asked_for_by_name_is_kept_with_its_region() {
    let mut archive = Archive::default();
    let at = place("us-east-1", None);
    assert!(!archive.add(&at, &facts("m9.large", 2)).unwrap(), "nothing is listed there yet");
    archive.put(&page("us-east-1", now())).unwrap();
    assert!(archive.add(&at, &facts("m9.large", 2)).unwrap());
    assert!(!archive.add(&at, &facts("m9.large", 2)).unwrap(), "the same again changes nothing");
    assert!(archive.add(&at, &facts("m9.large", 4)).unwrap());
    let opened = Archive::open(archive.data(), now());
    let found: Vec<_> = opened.pages[0].types.iter().map(|facts| (facts.name.as_ref(), facts.vcpus)).collect();
    assert_eq!(found, [("a1.large", 2), ("m5.xlarge", 4), ("m9.large", 4)]);
    assert_eq!(opened.pages[0].listed, now(), "its age is that of the list");
}

#[test]
fn however_many_regions_are_named_the_archive_fits_and_the_oldest_go() {
    let mut archive = Archive::default();
    // Names that do not compress, so that few pages are many bytes.
    let noisy = |seed: u64| {
        let mut state = seed;
        let mut roll = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        };
        (0..2000).map(|_| facts(&format!("{:016x}{:016x}", roll(), roll()), 1)).collect::<Vec<_>>()
    };
    for number in 0..20_u32 {
        let listed = now().checked_add(Duration::from_secs(number.into())).unwrap();
        let place = place(&format!("xx-moon-{number}"), None);
        archive.put(&Page { place, listed, types: noisy(u64::from(number) + 1) }).unwrap();
    }
    let data = archive.data();
    let size: usize = data.values().map(Vec::len).sum();
    assert!(size <= MOST && data.len() > 2 && data.len() < 20, "{size} bytes in {} pages", data.len());
    assert!(data.contains_key("xx-moon-19") && !data.contains_key("xx-moon-0"));
}

proptest! {
    #[test]
    fn any_bytes_are_judged_and_what_is_believed_is_written_back_the_same(
        mut bytes in prop::collection::vec(any::<u8>(), 0..64), real in any::<bool>(), at in any::<prop::sample::Index>(), by in 1u8..,
    ) {
        let good = page("us-east-1", now());
        if real {
            bytes = good.pack().unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= by;
        }
        let opened = Archive::open(BTreeMap::from([("us-east-1".to_owned(), bytes)]), now());
        // The head of the compressed form has a few bytes that mean nothing.
        prop_assert!(opened.pages.is_empty() || opened.pages == [good]);
    }
}
