//! The families, grouped by what they share.

use super::InstanceType;
use super::rules::{Chip, Extra, Row};

const GEN5: &str = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge metal";
const GEN5_AMD: &str = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge";
const GEN6: &str = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge metal";
const GEN6_AMD: &str = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge 48xlarge metal";
const GEN7: &str = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge metal-24xl metal-48xl";
const GEN7_AMD: &str =
    "medium large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge 48xlarge metal-48xl";
const GEN8: &str =
    "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 32xlarge 48xlarge 96xlarge metal-48xl metal-96xl";
const FLEX: &str = "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge";
const ARM6: &str = "medium large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge metal";
const ARM8: &str =
    "medium large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge metal-24xl metal-48xl";
const BURST: &str = "nano=2 micro=2 small=2 medium=2 large xlarge 2xlarge";

const fn row(families: &'static str, chip: Chip, memory: u64, sizes: &'static str) -> Row {
    Row { families, chip, memory, sizes, extra: Extra::None, disk: 0, hosts: true }
}

const fn without_hosts(row: Row) -> Row {
    Row { hosts: false, ..row }
}

const fn with_disks(row: Row, disk: u32) -> Row {
    Row { disk, ..row }
}

const fn with(row: Row, extra: Extra) -> Row {
    Row { extra, ..row }
}

const GENERAL: &[Row] = &[
    row("m5 m5d m5n m5dn", Chip::Intel, 4_096, GEN5),
    row("m5a m5ad", Chip::Amd, 4_096, GEN5_AMD),
    row("m5zn", Chip::Intel, 4_096, "large xlarge 2xlarge 3xlarge 6xlarge 12xlarge metal"),
    row("m6i m6id m6in m6idn", Chip::Intel, 4_096, GEN6),
    row("m6a", Chip::Amd, 4_096, GEN6_AMD),
    row("m6g m6gd m7g m7gd", Chip::Arm, 4_096, ARM6),
    row("m7i", Chip::Intel, 4_096, GEN7),
    row("m7a m8a", Chip::Amd, 4_096, GEN7_AMD),
    row("m8g m8gd m8gn m8gb m9g m9gd", Chip::Arm, 4_096, ARM8),
    row("m8i m8id m8in m8ib", Chip::Intel, 4_096, GEN8),
    without_hosts(row("m7i-flex m8i-flex", Chip::Intel, 4_096, FLEX)),
    row("m4", Chip::Intel, 4_096, "large xlarge 2xlarge 4xlarge 10xlarge 16xlarge"),
    with_disks(row("m3", Chip::Old, 3_840, "medium large xlarge 2xlarge"), 10),
    without_hosts(with_disks(row("m1", Chip::Old, 1_740, "small medium large xlarge"), 160)),
    without_hosts(with_disks(row("m2", Chip::Old, 8_755, "xlarge=2 2xlarge=4 4xlarge=8"), 210)),
];

const COMPUTE: &[Row] = &[
    row("c5 c5d", Chip::Intel, 2_048, "large xlarge 2xlarge 4xlarge 9xlarge 12xlarge 18xlarge 24xlarge metal"),
    row("c5n", Chip::Intel, 2_688, "large xlarge 2xlarge 4xlarge 9xlarge 18xlarge metal"),
    row("c5a c5ad", Chip::Amd, 2_048, GEN5_AMD),
    row("c6i c6id c6in", Chip::Intel, 2_048, GEN6),
    row("c6a", Chip::Amd, 2_048, GEN6_AMD),
    row("c6g c6gd c7g c7gd c7gn", Chip::Arm, 2_048, ARM6),
    row("c6gn", Chip::Arm, 2_048, "medium large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge"),
    row("c7i", Chip::Intel, 2_048, GEN7),
    row("c7a c8a", Chip::Amd, 2_048, GEN7_AMD),
    row("c8g c8gd c8gn c8gb c9g c9gd", Chip::Arm, 2_048, ARM8),
    row("c8i c8id c8in c8ib", Chip::Intel, 2_048, GEN8),
    without_hosts(row("c7i-flex c8i-flex", Chip::Intel, 2_048, FLEX)),
    row("c4", Chip::Intel, 1_920, "large xlarge 2xlarge 4xlarge 8xlarge=36"),
    with_disks(row("c3", Chip::Old, 1_920, "large xlarge 2xlarge 4xlarge 8xlarge"), 10),
    without_hosts(with_disks(row("c1", Chip::Old, 870, "medium=2 xlarge=8"), 210)),
];

const MEMORY: &[Row] = &[
    row("r5 r5d r5n r5dn r5b", Chip::Intel, 8_192, GEN5),
    row("r5a r5ad", Chip::Amd, 8_192, GEN5_AMD),
    row("r6i r6id r6in r6idn", Chip::Intel, 8_192, GEN6),
    row("r6a", Chip::Amd, 8_192, GEN6_AMD),
    row("r6g r6gd r7g r7gd", Chip::Arm, 8_192, ARM6),
    row("r7i", Chip::Intel, 8_192, GEN7),
    row(
        "r7iz",
        Chip::Intel,
        8_192,
        "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 32xlarge metal-16xl metal-32xl",
    ),
    row("r7a r8a", Chip::Amd, 8_192, GEN7_AMD),
    row("r8g r8gd r8gn r8gb r9g r9gd", Chip::Arm, 8_192, ARM8),
    row("r8i r8id r8in r8ib", Chip::Intel, 8_192, GEN8),
    without_hosts(row("r8i-flex", Chip::Intel, 8_192, FLEX)),
    row("r4", Chip::Intel, 7_808, "large xlarge 2xlarge 4xlarge 8xlarge 16xlarge"),
    with_disks(row("r3", Chip::Old, 7_808, "large xlarge 2xlarge 4xlarge 8xlarge"), 16),
    with_disks(row("x1", Chip::Old, 15_616, "16xlarge 32xlarge"), 30),
    with_disks(row("x1e", Chip::Old, 31_232, "xlarge 2xlarge 4xlarge 8xlarge 16xlarge 32xlarge"), 30),
    row("x2gd", Chip::Arm, 16_384, ARM6),
    row("x2idn", Chip::Intel, 16_384, "16xlarge 24xlarge 32xlarge metal"),
    row("x2iedn", Chip::Intel, 32_768, "xlarge 2xlarge 4xlarge 8xlarge 16xlarge 24xlarge 32xlarge metal"),
    row("x2iezn", Chip::Intel, 32_768, "2xlarge 4xlarge 6xlarge 8xlarge 12xlarge metal"),
    row("x8g", Chip::Arm, 16_384, ARM8),
    row("x8i", Chip::Intel, 16_384, GEN8),
    row("x8aedz", Chip::Amd, 32_768, "large xlarge 3xlarge 6xlarge 12xlarge 24xlarge metal-12xl metal-24xl"),
    row("z1d", Chip::Intel, 8_192, "large xlarge 2xlarge 3xlarge 6xlarge 12xlarge metal"),
    row("u-3tb1", Chip::Intel, 0, "56xlarge=224:3145728"),
    row("u-6tb1", Chip::Intel, 0, "56xlarge=224:6291456 112xlarge=448:6291456 metal=448:6291456"),
    row("u-9tb1", Chip::Intel, 0, "56xlarge=224:9437184 112xlarge=448:9437184 metal=448:9437184"),
    row("u-12tb1", Chip::Intel, 0, "56xlarge=224:12582912 112xlarge=448:12582912 metal=448:12582912"),
    row("u-18tb1", Chip::Intel, 0, "112xlarge=448:18874368 metal=448:18874368"),
    row("u-24tb1", Chip::Intel, 0, "112xlarge=448:25165824 metal=448:25165824"),
    row("u7i-6tb", Chip::Intel, 0, "112xlarge=448:6291456"),
    row("u7i-8tb", Chip::Intel, 0, "112xlarge=448:8388608"),
    row("u7i-12tb", Chip::Intel, 0, "224xlarge=896:12582912"),
    row("u7in-16tb", Chip::Intel, 0, "224xlarge=896:16777216"),
    row("u7in-24tb", Chip::Intel, 0, "224xlarge=896:25165824"),
    row("u7in-32tb", Chip::Intel, 0, "224xlarge=896:33554432"),
    row("u7inh-32tb", Chip::Intel, 0, "480xlarge=1920:33554432"),
];

const STORAGE: &[Row] = &[
    with_disks(row("i2", Chip::Old, 7_808, "xlarge 2xlarge 4xlarge 8xlarge"), 200),
    with_disks(row("i3", Chip::Intel, 7_808, "large xlarge 2xlarge 4xlarge 8xlarge 16xlarge metal=72"), 237),
    with_disks(row("i3en", Chip::Intel, 8_192, "large xlarge 2xlarge 3xlarge 6xlarge 12xlarge 24xlarge metal"), 625),
    with_disks(row("i4i", Chip::Intel, 8_192, GEN6), 234),
    with_disks(row("i4g", Chip::Arm, 8_192, "large xlarge 2xlarge 4xlarge 8xlarge 16xlarge"), 234),
    with_disks(row("i7i", Chip::Intel, 8_192, GEN7), 234),
    with_disks(row("i7ie", Chip::Intel, 8_192, GEN7), 625),
    with_disks(
        row(
            "i8g i8ge",
            Chip::Arm,
            8_192,
            "large xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge metal-24xl metal-48xl",
        ),
        234,
    ),
    with_disks(row("im4gn", Chip::Arm, 4_096, "large xlarge 2xlarge 4xlarge 8xlarge 16xlarge"), 468),
    with_disks(row("is4gen", Chip::Arm, 6_144, "medium large xlarge 2xlarge 4xlarge 8xlarge"), 937),
    with_disks(row("d2", Chip::Old, 7_808, "xlarge 2xlarge 4xlarge 8xlarge=36"), 1_500),
    with_disks(row("d3", Chip::Intel, 8_192, "xlarge 2xlarge 4xlarge 8xlarge"), 1_485),
    with_disks(row("d3en", Chip::Intel, 4_096, "xlarge 2xlarge 4xlarge 6xlarge 8xlarge 12xlarge"), 6_990),
    with_disks(row("h1", Chip::Old, 4_096, "2xlarge 4xlarge 8xlarge 16xlarge"), 250),
];

const ACCELERATED: &[Row] = &[
    without_hosts(with(
        row("p2", Chip::Old, 15_616, "xlarge 8xlarge 16xlarge"),
        Extra::Gpu("K80", "NVIDIA", 12_288, &[1, 8, 16]),
    )),
    with(row("p3", Chip::Intel, 7_808, "2xlarge 8xlarge 16xlarge"), Extra::Gpu("V100", "NVIDIA", 16_384, &[1, 4, 8])),
    without_hosts(with(row("p3dn", Chip::Intel, 8_192, "24xlarge"), Extra::Gpu("V100", "NVIDIA", 32_768, &[8]))),
    without_hosts(with(row("p4d", Chip::Intel, 12_288, "24xlarge"), Extra::Gpu("A100", "NVIDIA", 40_960, &[8]))),
    without_hosts(with(row("p4de", Chip::Intel, 12_288, "24xlarge"), Extra::Gpu("A100", "NVIDIA", 81_920, &[8]))),
    without_hosts(with(
        row("p5", Chip::Amd, 0, "4xlarge=16:262144 48xlarge=192:2097152"),
        Extra::Gpu("H100", "NVIDIA", 81_920, &[1, 8]),
    )),
    without_hosts(with(
        row("p5e p5en", Chip::Amd, 0, "48xlarge=192:2097152"),
        Extra::Gpu("H200", "NVIDIA", 144_384, &[8]),
    )),
    without_hosts(with(
        row("p6-b200", Chip::Intel, 0, "48xlarge=192:2097152"),
        Extra::Gpu("B200", "NVIDIA", 183_296, &[8]),
    )),
    with(row("g3", Chip::Old, 7_808, "4xlarge 8xlarge 16xlarge"), Extra::Gpu("M60", "NVIDIA", 8_192, &[1, 2, 4])),
    with(row("g3s", Chip::Old, 7_808, "xlarge"), Extra::Gpu("M60", "NVIDIA", 8_192, &[1])),
    with(
        row("g4dn", Chip::Intel, 4_096, "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge metal"),
        Extra::Gpu("T4", "NVIDIA", 16_384, &[1, 1, 1, 1, 4, 1, 8]),
    ),
    with(
        row("g4ad", Chip::Amd, 4_096, "xlarge 2xlarge 4xlarge 8xlarge 16xlarge"),
        Extra::Gpu("Radeon Pro V520", "AMD", 8_192, &[1, 1, 1, 2, 4]),
    ),
    with(
        row("g5", Chip::Amd, 4_096, "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"),
        Extra::Gpu("A10G", "NVIDIA", 24_576, &[1, 1, 1, 1, 4, 1, 4, 8]),
    ),
    with(
        row("g5g", Chip::Arm, 2_048, "xlarge 2xlarge 4xlarge 8xlarge 16xlarge metal"),
        Extra::Gpu("T4g", "NVIDIA", 16_384, &[1, 1, 1, 1, 2, 2]),
    ),
    with(
        row("g6", Chip::Amd, 4_096, "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"),
        Extra::Gpu("L4", "NVIDIA", 24_576, &[1, 1, 1, 1, 4, 1, 4, 8]),
    ),
    with(
        row("g6e", Chip::Amd, 8_192, "xlarge 2xlarge 4xlarge 8xlarge 12xlarge 16xlarge 24xlarge 48xlarge"),
        Extra::Gpu("L40S", "NVIDIA", 46_080, &[1, 1, 1, 1, 4, 1, 4, 8]),
    ),
    without_hosts(with(
        row("g6f", Chip::Amd, 4_096, "large xlarge 2xlarge 4xlarge"),
        Extra::Slice("L4", "NVIDIA", 24_576),
    )),
    with(row("gr6", Chip::Amd, 8_192, "4xlarge 8xlarge"), Extra::Gpu("L4", "NVIDIA", 24_576, &[1, 1])),
    without_hosts(with(row("gr6f", Chip::Amd, 8_192, "4xlarge"), Extra::Slice("L4", "NVIDIA", 24_576))),
    with(
        row("inf1", Chip::Intel, 2_048, "xlarge 2xlarge 6xlarge 24xlarge"),
        Extra::Neuron("Inferentia", 4, 8_192, &[1, 1, 4, 16]),
    ),
    with(
        row("inf2", Chip::Amd, 4_096, "xlarge 8xlarge 24xlarge 48xlarge"),
        Extra::Neuron("Inferentia2", 2, 32_768, &[1, 1, 6, 12]),
    ),
    without_hosts(with(
        row("trn1", Chip::Intel, 4_096, "2xlarge 32xlarge"),
        Extra::Neuron("Trainium", 2, 32_768, &[1, 16]),
    )),
    without_hosts(with(row("trn1n", Chip::Intel, 4_096, "32xlarge"), Extra::Neuron("Trainium", 2, 32_768, &[16]))),
    without_hosts(with(
        row("trn2", Chip::Intel, 0, "3xlarge=12:131072 48xlarge=192:2097152"),
        Extra::Neuron("Trainium2", 8, 98_304, &[1, 16]),
    )),
    without_hosts(with(
        row("trn2u", Chip::Intel, 0, "48xlarge=192:2097152"),
        Extra::Neuron("Trainium2", 8, 98_304, &[16]),
    )),
    without_hosts(with(row("dl1", Chip::Intel, 8_192, "24xlarge"), Extra::Gpu("Gaudi HL-205", "Habana", 32_768, &[8]))),
    without_hosts(row("dl2q", Chip::Intel, 8_192, "24xlarge")),
    without_hosts(with_disks(row("f1", Chip::Old, 15_616, "2xlarge 4xlarge 16xlarge"), 58)),
    with_disks(row("f2", Chip::Amd, 0, "6xlarge=24:262144 12xlarge=48:524288 48xlarge=192:2097152"), 40),
    row("vt1", Chip::Intel, 2_048, "3xlarge 6xlarge 24xlarge"),
];

const OTHERS: &[Row] = &[
    without_hosts(row("t1", Chip::Old, 627, "micro")),
    without_hosts(row("t2", Chip::Old, 4_096, "nano micro small medium=2 large xlarge 2xlarge")),
    row("t3", Chip::Intel, 4_096, BURST),
    without_hosts(row("t3a", Chip::Amd, 4_096, BURST)),
    without_hosts(row("t4g", Chip::Arm, 4_096, BURST)),
    without_hosts(row("hpc6a", Chip::Amd, 4_096, "48xlarge=96")),
    without_hosts(row("hpc6id", Chip::Intel, 16_384, "32xlarge=64")),
    without_hosts(row("hpc7a", Chip::Amd, 8_192, "12xlarge=24 24xlarge=48 48xlarge=96 96xlarge=192")),
    without_hosts(row("hpc7g", Chip::Arm, 2_048, "4xlarge 8xlarge 16xlarge")),
    row("mac1", Chip::IntelMac, 0, "metal=12:32768"),
    row("mac2", Chip::AppleMac, 0, "metal=8:16384"),
    row("mac2-m2", Chip::AppleMac, 0, "metal=8:24576"),
    row("mac2-m2pro", Chip::AppleMac, 0, "metal=12:32768"),
    row("mac2-m1ultra", Chip::AppleMac, 0, "metal=20:131072"),
    row("mac-m4", Chip::AppleMac, 0, "metal=10:24576"),
    row("mac-m4pro", Chip::AppleMac, 0, "metal=14:49152"),
    row("mac-m4max", Chip::AppleMac, 0, "metal=16:131072"),
];

/// Every instance type, sorted by name.
#[must_use]
pub fn all() -> Vec<InstanceType> {
    let rows = [GENERAL, COMPUTE, MEMORY, STORAGE, ACCELERATED, OTHERS];
    let mut types: Vec<InstanceType> = rows.into_iter().flatten().flat_map(Row::types).collect();
    types.sort_by(|a, b| a.name.cmp(&b.name));
    types
}
