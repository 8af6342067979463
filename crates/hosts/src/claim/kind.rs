//! The kind as it is registered: what claims of it may ask for.

use std::collections::BTreeMap;

use api::names::hosts::CLAIM_KIND;
use api::own::{ArgSchema, Capability, HostClaimKindSpec};
use claim_kind::heartbeat::KindProfile;
use claim_kind::terms::Terms;

/// The kind, as claims name it.
pub const KIND: &str = CLAIM_KIND;
/// Our finalizer on claims of the kind.
pub const FINALIZER: &str = "aws-dedicated-host.berth.dev/hostclaim";
const CONTROLLER: &str = "aws-dedicated-host.berth.dev";
const CAPABILITIES: &[Capability] =
    &[Capability::Power, Capability::Reboot, Capability::UserData, Capability::Selector, Capability::FailureDomain];

/// The names of the arguments.
pub(super) mod arg {
    pub const REGION: &str = "region";
    pub const TYPE: &str = "instanceType";
    pub const FAMILY: &str = "instanceFamily";
    pub const IMAGE: &str = "ami";
    pub const SUBNET: &str = "subnet";
    pub const GROUPS: &str = "securityGroups";
    pub const PROFILE: &str = "iamInstanceProfile";
    pub const AFFINITY: &str = "hostAffinity";
    pub const RELEASE: &str = "autoRelease";
    pub const IDENTITY: &str = "identity";
}

fn text(description: &str, pattern: &str, most: i32) -> ArgSchema {
    ArgSchema {
        description: description.to_owned(),
        pattern: Some(pattern.to_owned()),
        max_length: most,
        ..ArgSchema::default()
    }
}

fn choice(description: &str, values: &[&str], default: &str) -> ArgSchema {
    ArgSchema {
        description: description.to_owned(),
        allowed: values.iter().map(|value| (*value).to_owned()).collect(),
        default: Some(default.to_owned()),
        max_length: 16,
        ..ArgSchema::default()
    }
}

fn args() -> BTreeMap<String, ArgSchema> {
    let required = |schema| ArgSchema { required: true, ..schema };
    let all = [
        (arg::REGION, required(text("The region of AWS.", "[a-z]{2}(-[a-z]+)+-[0-9]+", 32))),
        (
            arg::TYPE,
            text(
                "The type of the instance; needed unless instanceFamily is given.",
                "[a-z][a-z0-9-]*\\.[a-z0-9-]+",
                32,
            ),
        ),
        (
            arg::FAMILY,
            text(
                "The family of the host, which then takes every size of it. Without instanceType the instance is the large one.",
                "[a-z][a-z0-9]*(-[a-z0-9]+)*",
                20,
            ),
        ),
        (arg::IMAGE, required(text("The image of the instance.", "ami-[0-9a-f]{8,17}", 32))),
        (arg::SUBNET, text("The subnet; else a default one of the account.", "subnet-[0-9a-f]{8,17}", 32)),
        (
            arg::GROUPS,
            text(
                "Security groups, separated by commas; else the default one of the network.",
                "sg-[0-9a-f]{8,17}(,sg-[0-9a-f]{8,17}){0,15}",
                512,
            ),
        ),
        (arg::PROFILE, text("The instance profile, by name.", "[A-Za-z0-9+=,.@_-]+", 128)),
        (
            arg::AFFINITY,
            choice(
                "Whether the instance is tied to its host; it always is, so that no host is left empty.",
                &["host"],
                "host",
            ),
        ),
        (arg::RELEASE, choice("Whether the host is released with the claim.", &["true", "false"], "true")),
        (
            arg::IDENTITY,
            text(
                "As whom AWS is called: the name of a Secret in the claim's namespace, or KIND/NAME of an AWS identity that allows the namespace; else AWSClusterControllerIdentity/default.",
                "[A-Za-z0-9.-]+(/[A-Za-z0-9.-]+)?",
                253,
            ),
        ),
    ];
    all.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// The kind, as its controller registers it.
#[must_use]
pub fn profile() -> KindProfile {
    KindProfile { name: KIND, controller_name: CONTROLLER, capabilities: CAPABILITIES, recyclable: false, args: args() }
}

/// What claims may ask for while the registry says nothing.
pub(super) fn terms() -> Terms {
    Terms::of(HostClaimKindSpec {
        controller_name: CONTROLLER.to_owned(),
        args_schema: args(),
        capabilities: CAPABILITIES.iter().copied().collect(),
        recyclable: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_is_one_that_the_registry_takes() {
        let profile = profile();
        let spec = HostClaimKindSpec {
            controller_name: profile.controller_name.to_owned(),
            args_schema: profile.args.clone(),
            capabilities: profile.capabilities.iter().copied().collect(),
            recyclable: profile.recyclable,
        };
        assert_eq!(claim_kind::admit::problem(&spec), None);
        assert_eq!(FINALIZER, api::names::claims::finalizer(KIND));
    }
}
