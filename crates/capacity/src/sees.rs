//! What each build of cluster-autoscaler makes of a group's annotations.

use api::views::TemplateStatus;

use crate::names;
use crate::offer::Vendor;
use crate::plan::Annotations;
use crate::quantity::{Quantity, count};

/// A build of cluster-autoscaler, by what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Upstream, on Cluster API; OpenShift from 5.0 on reads Cluster API objects the same way.
    Upstream,
    /// OpenShift up to 4.18: the older keys alone.
    OpenShiftOld,
    /// OpenShift from 4.19 on: the newer key where it says anything, else the older one.
    OpenShiftNew,
}

impl Build {
    /// The builds that look at objects of OpenShift's Machine API, or else of Cluster API.
    #[must_use]
    pub fn of(machine_api: bool) -> &'static [Self] {
        if machine_api { &[Self::OpenShiftOld, Self::OpenShiftNew] } else { &[Self::Upstream, Self::OpenShiftNew] }
    }

    /// Its name for people.
    #[must_use]
    pub fn name(self, machine_api: bool) -> &'static str {
        match (self, machine_api) {
            (Self::Upstream, _) => "cluster-autoscaler, and OpenShift 5",
            (Self::OpenShiftOld, _) => "OpenShift up to 4.18",
            (Self::OpenShiftNew, true) => "OpenShift from 4.19 on",
            (Self::OpenShiftNew, false) => "OpenShift 4.19 to 4.23",
        }
    }
}

/// What a build sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Enough to plan with.
    Enough {
        /// Processors, as written.
        cpu: String,
        /// Memory, as written; MiB where it is an older key.
        memory: String,
        /// Accelerators and their resource.
        gpus: Option<(u64, String)>,
    },
    /// Not enough: the group cannot be scaled from zero.
    Lacks(&'static str),
    /// A value that cannot be read: the group cannot be scaled from zero.
    Unreadable(&'static str),
}

/// What a build makes of annotations and, where it reads that, of what the status of the machines' template says: of each
/// resource the annotation wins.
#[must_use]
pub fn sees(build: Build, annotations: &Annotations, template: Option<&TemplateStatus>) -> Sees {
    match read(build, annotations, template.filter(|_| build == Build::Upstream)) {
        Ok(Some(seen)) => seen,
        Ok(None) => Sees::Lacks("processors or memory"),
        Err(key) => Sees::Unreadable(key),
    }
}

fn read(
    build: Build,
    annotations: &Annotations,
    template: Option<&TemplateStatus>,
) -> Result<Option<Sees>, &'static str> {
    let newer = build != Build::OpenShiftOld;
    let older = build != Build::Upstream;
    let amount = |key: &'static str, wanted: bool| -> Result<Option<String>, &'static str> {
        let Some(text) = annotations.get(key).filter(|text| wanted && !text.is_empty()) else { return Ok(None) };
        let counted = [names::LEGACY_MEMORY, names::LEGACY_GPU, names::GPU_COUNT].contains(&key);
        let zero = if counted { count(text).map(|n| n == 0) } else { Quantity::parse(text).map(Quantity::is_zero) };
        Ok((!zero.ok_or(key)?).then(|| text.to_string()))
    };
    let status = |resource: &str| promised(template?, resource);
    let cpu = match amount(names::CPU, newer)? {
        Some(text) => Some(text),
        None => amount(names::LEGACY_CPU, older)?.or_else(|| status("cpu")),
    };
    let memory = match amount(names::MEMORY, newer)? {
        Some(text) => Some(text),
        None => amount(names::LEGACY_MEMORY, older)?.map(|text| format!("{text}Mi")).or_else(|| status("memory")),
    };
    let gpus = match amount(names::GPU_COUNT, newer)? {
        Some(text) => Some(text),
        None => amount(names::LEGACY_GPU, older)?,
    };
    let (Some(cpu), Some(memory)) = (cpu, memory) else { return Ok(None) };
    // OpenShift takes every GPU for NVIDIA's; upstream sees none without its resource.
    let resource = match build {
        Build::Upstream => {
            annotations.get(names::GPU_TYPE).filter(|text| !text.is_empty()).map(|text| text.to_string())
        }
        Build::OpenShiftOld | Build::OpenShiftNew => Some(names::NVIDIA_RESOURCE.to_owned()),
    };
    let others = || {
        let mut all = Vendor::ALL.iter().map(|(_, vendor)| vendor.resource());
        all.find_map(|resource| Some((count(&status(resource)?)?, resource.to_owned())))
    };
    let gpus = gpus.and_then(|text| count(&text)).zip(resource).or_else(others);
    Ok(Some(Sees::Enough { cpu, memory, gpus }))
}

/// How much of a resource the status of a template promises. What cannot be read there is passed over, unlike in
/// annotations.
fn promised(template: &TemplateStatus, resource: &str) -> Option<String> {
    let text = template.capacity.get(resource)?;
    let amount = Quantity::parse(text)?;
    (!amount.is_zero() && !amount.is_negative()).then(|| text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
    }

    fn enough(cpu: &str, memory: &str, gpus: Option<(u64, &str)>) -> Sees {
        Sees::Enough {
            cpu: cpu.to_owned(),
            memory: memory.to_owned(),
            gpus: gpus.map(|(count, resource)| (count, resource.to_owned())),
        }
    }

    #[test]
    fn each_build_reads_its_own_keys() {
        let legacy = map(&[(names::LEGACY_CPU, "4"), (names::LEGACY_MEMORY, "16384"), (names::LEGACY_GPU, "2")]);
        assert!(
            matches!(sees(Build::Upstream, &legacy, None), Sees::Lacks(_)),
            "older keys alone enable nothing upstream"
        );
        let nvidia = Some((2, names::NVIDIA_RESOURCE));
        assert_eq!(sees(Build::OpenShiftOld, &legacy, None), enough("4", "16384Mi", nvidia));
        assert_eq!(sees(Build::OpenShiftNew, &legacy, None), enough("4", "16384Mi", nvidia));
        let newer = map(&[
            (names::CPU, "8"),
            (names::MEMORY, "32Gi"),
            (names::GPU_COUNT, "1"),
            (names::GPU_TYPE, "amd.com/gpu"),
        ]);
        assert_eq!(sees(Build::Upstream, &newer, None), enough("8", "32Gi", Some((1, "amd.com/gpu"))));
        assert!(matches!(sees(Build::OpenShiftOld, &newer, None), Sees::Lacks(_)));
        assert_eq!(sees(Build::OpenShiftNew, &newer, None), enough("8", "32Gi", Some((1, names::NVIDIA_RESOURCE))));
        let mut both = legacy;
        both.insert(names::CPU.into(), "0".into());
        assert_eq!(
            sees(Build::OpenShiftNew, &both, None),
            enough("4", "16384Mi", nvidia),
            "nothing is as good as absent"
        );
        both.insert(names::MEMORY.into(), "lots".into());
        assert_eq!(sees(Build::OpenShiftNew, &both, None), Sees::Unreadable(names::MEMORY));
        let half = map(&[(names::CPU, "8"), (names::MEMORY, "32Gi"), (names::GPU_COUNT, "1")]);
        assert_eq!(
            sees(Build::Upstream, &half, None),
            enough("8", "32Gi", None),
            "a count without its resource is not seen"
        );
    }

    #[test]
    fn upstream_takes_from_the_template_what_no_annotation_says() {
        let status = |pairs: &[(&str, &str)]| TemplateStatus {
            capacity: pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..TemplateStatus::default()
        };
        let whole = status(&[("cpu", "4"), ("memory", "16Gi"), ("amd.com/gpu", "1")]);
        let of = |build, pairs: &[(&str, &str)], status: &TemplateStatus| sees(build, &map(pairs), Some(status));
        let amd = Some((1, "amd.com/gpu"));
        assert_eq!(of(Build::Upstream, &[], &whole), enough("4", "16Gi", amd));
        assert_eq!(of(Build::Upstream, &[(names::CPU, "8")], &whole), enough("8", "16Gi", amd), "an annotation wins");
        assert_eq!(
            of(Build::Upstream, &[(names::CPU, "0")], &whole),
            enough("4", "16Gi", amd),
            "one of nothing does not"
        );
        assert_eq!(of(Build::Upstream, &[(names::CPU, "x")], &whole), Sees::Unreadable(names::CPU));
        let nvidia = [(names::GPU_COUNT, "2"), (names::GPU_TYPE, names::NVIDIA_RESOURCE)];
        assert_eq!(
            of(Build::Upstream, &nvidia, &whole),
            enough("4", "16Gi", Some((2, names::NVIDIA_RESOURCE))),
            "what is asked for by name comes first"
        );
        for poor in [&[("cpu", "4")][..], &[("cpu", "4"), ("memory", "lots")], &[("cpu", "0"), ("memory", "16Gi")]] {
            assert!(matches!(of(Build::Upstream, &[], &status(poor)), Sees::Lacks(_)), "{poor:?}");
        }
        for build in [Build::OpenShiftOld, Build::OpenShiftNew] {
            assert!(matches!(of(build, &[], &whole), Sees::Lacks(_)), "{build:?}");
        }
    }
}
