//! Machine pools: groups of machines that the infrastructure itself keeps.

use api::views::{AWSMachinePool, AWSManagedMachinePool, AwsPoolSpec};
use kit::feed::{Feed, Project};
use kit::manager::{self, Manager};

use super::group::MachinePools;
use crate::offer::Arch;

/// What EKS takes where a node group names no type.
const USUAL_TYPE: &str = "t3.medium";
/// What EKS takes where a node group names no size of a disk, in GiB.
const USUAL_DISK: u64 = 20;

/// The kind of auto scaling groups.
pub const POOL: &str = "AWSMachinePool";
/// The kind of node groups of EKS.
pub const MANAGED_POOL: &str = "AWSManagedMachinePool";

/// Feeds of machine pools, followed only where they are asked for.
#[derive(Clone)]
pub struct Pools {
    /// Machine pools.
    pub groups: Feed<MachinePools>,
    /// Auto scaling groups.
    pub scaling: Feed<ScalingGroups>,
    /// Node groups of EKS.
    pub managed: Feed<NodeGroups>,
}

impl Pools {
    /// Starts, or joins, the feeds.
    ///
    /// # Errors
    /// When a kind cannot be followed.
    pub fn follow(manager: &Manager) -> Result<Self, manager::Error> {
        Ok(Self { groups: manager.feed()?, scaling: manager.feed()?, managed: manager.feed()? })
    }

    /// Waits until every index that a pool is judged by is complete, or known to have nothing to hold.
    pub async fn settled(&self) {
        self.scaling.settled().await;
        self.managed.settled().await;
    }
}

/// What machines of a pool are, as decisions use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolFacts {
    /// The types that may be launched.
    pub types: Vec<Box<str>>,
    /// The size of the root disk in GiB.
    pub root_gib: Option<u64>,
    /// Whether nodes run Windows.
    pub windows: bool,
    /// The architecture, where the image settles it.
    pub arch: Option<Arch>,
}

impl PoolFacts {
    fn of(spec: AwsPoolSpec, managed: bool) -> Self {
        let family = spec.image_family.unwrap_or_default().to_ascii_uppercase();
        let own = spec.template_type.or(spec.instance_type);
        let own = if managed { own.or_else(|| Some(USUAL_TYPE.to_owned())) } else { own };
        // With overrides only those are launched.
        let types = if spec.overrides.is_empty() { own.into_iter().collect() } else { spec.overrides };
        let named = types.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
        let mut types: Vec<Box<str>> = named.map(Into::into).collect();
        types.sort();
        types.dedup();
        let root = spec.root_gib.and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0);
        Self {
            types,
            root_gib: root.or(managed.then_some(USUAL_DISK)),
            windows: family.starts_with("WINDOWS"),
            arch: match () {
                () if family.contains("ARM_64") => Some(Arch::Arm64),
                () if family.contains("X86_64") => Some(Arch::Amd64),
                () => None,
            },
        }
    }
}

macro_rules! pools {
    ($($(#[$doc:meta])* $pools:ident of $source:ident, managed: $managed:literal;)+) => {$(
        $(#[$doc])*
        pub struct $pools;

        impl Project for $pools {
            type Source = $source;
            type Slim = PoolFacts;

            fn slim(source: $source) -> PoolFacts {
                PoolFacts::of(source.spec, $managed)
            }
        }
    )+};
}

pools! {
    /// Auto scaling groups.
    ScalingGroups of AWSMachinePool, managed: false;
    /// Node groups of EKS.
    NodeGroups of AWSManagedMachinePool, managed: true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_disks_and_images_are_those_that_aws_would_take() {
        let text = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let plain =
            PoolFacts::of(AwsPoolSpec { template_type: Some("m5.large".to_owned()), ..AwsPoolSpec::default() }, false);
        assert_eq!((plain.types, plain.root_gib, plain.arch), (vec!["m5.large".into()], None, None));
        let mixed = AwsPoolSpec {
            template_type: Some("m5.large".to_owned()),
            overrides: text(&["m6i.large", "m5a.large", "m6i.large"]),
            ..AwsPoolSpec::default()
        };
        let found = PoolFacts::of(mixed, false).types;
        assert_eq!(found.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["m5a.large", "m6i.large"]);
        let eks = PoolFacts::of(AwsPoolSpec::default(), true);
        assert_eq!((eks.types, eks.root_gib), (vec!["t3.medium".into()], Some(20)));
        assert!(PoolFacts::of(AwsPoolSpec::default(), false).types.is_empty());
        for (family, windows, arch) in [
            ("AL2023_ARM_64_STANDARD", false, Some(Arch::Arm64)),
            ("AL2_x86_64_GPU", false, Some(Arch::Amd64)),
            ("WINDOWS_CORE_2022_x86_64", true, Some(Arch::Amd64)),
            ("CUSTOM", false, None),
        ] {
            let found =
                PoolFacts::of(AwsPoolSpec { image_family: Some(family.to_owned()), ..AwsPoolSpec::default() }, true);
            assert_eq!((found.windows, found.arch), (windows, arch), "{family}");
        }
    }
}
