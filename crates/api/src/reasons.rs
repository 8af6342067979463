//! Condition types and reasons: one enum per room, each reason with its meaning and its place in the book.
//!
//! A reason is part of the API: users wait for it, alerts match it, the book explains it. [`all`] lists every one so
//! that a test can join code and book in both directions.

/// Condition type: the object is fine as a whole; every kind has it, or names its own summary.
pub const READY: &str = "Ready";

/// Condition type of a HostClaimKind: a controller for the kind is alive.
pub const AVAILABLE: &str = "Available";

/// Condition type of a HostClaim: it has a host.
pub const ASSOCIATED: &str = "Associated";
/// Condition type of a HostClaim: its host has what it asks for.
pub const SYNCHRONIZED: &str = "Synchronized";
/// Condition type of a HostClaim: what it asks for runs on its host.
pub const PROVISIONED: &str = "Provisioned";
/// Condition type of a HostClaim: its host can be deployed.
pub const AVAILABLE_FOR_PROVISIONING: &str = "AvailableForProvisioning";
/// Condition type of a HostClaim: somebody admits it to its host.
pub const AUTHORIZED: &str = "Authorized";
/// Condition type of a HostClaim or AWSMachine: it or its Cluster is paused.
pub const PAUSED: &str = "Paused";
/// Condition type of a HostClaim: it can be moved to another cluster together with its host.
pub const MOVABLE: &str = "Movable";
/// Condition type of a HostDeployPolicy: it is in force.
pub const ACCEPTED: &str = "Accepted";

/// Condition type of an AWSMachine: its instance runs.
pub const INSTANCE_READY: &str = "InstanceReady";
/// Condition type of an AWSMachine: the dedicated host that was allocated for it can be used.
pub const DEDICATED_HOST_READY: &str = "DedicatedHostReady";
/// Condition type of an AWSMachine: what became of its dedicated hosts when it was deleted.
pub const DEDICATED_HOST_RELEASE: &str = "DedicatedHostRelease";
/// Condition type of an AWSMachine: its instance has the security groups it should have.
pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";

/// What a reason tells of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All is as it should be, or something happened that was wanted: it stands on conditions that hold, on `Paused` where
    /// nothing is paused, and in events of the type `Normal`. Nobody has anything to look for.
    Well,
    /// Something is missing, on its way or wrong: the book tells why, how to look at it and what to do.
    Wanting,
}

/// A reason as the book lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The room that uses it, or `common`.
    pub room: &'static str,
    /// The reason as it stands in conditions and events.
    pub reason: &'static str,
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// What it tells of its object.
    pub tone: Tone,
    /// Page and anchor in the book, below `book/src/`.
    pub anchor: &'static str,
}

/// Every reason of every room, room by room in the order of this file.
pub fn all() -> Vec<Entry> {
    let mut all = Vec::new();
    all.extend(common::Reason::ALL.iter().map(|r| r.entry()));
    all.extend(claim_kind::Reason::ALL.iter().map(|r| r.entry()));
    all.extend(claims::Reason::ALL.iter().map(|r| r.entry()));
    all.extend(vip::Reason::ALL.iter().map(|r| r.entry()));
    all.extend(capacity::Reason::ALL.iter().map(|r| r.entry()));
    all.extend(hosts::Reason::ALL.iter().map(|r| r.entry()));
    all.extend(clusters::Reason::ALL.iter().map(|r| r.entry()));
    all.extend(machines::Reason::ALL.iter().map(|r| r.entry()));
    all
}

macro_rules! tone {
    () => {
        $crate::reasons::Tone::Wanting
    };
    (well) => {
        $crate::reasons::Tone::Well
    };
}

macro_rules! reasons {
    ($room:literal { $($name:ident $(: $tone:ident)?, $anchor:literal, $meaning:literal;)+ }) => {
        /// Why a condition of this room is as it is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $(#[doc = $meaning] $name,)+
        }

        impl Reason {
            /// Every reason of the room.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The reason as it stands in conditions and events.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// What the reason means, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)+ }
            }

            /// What the reason tells of its object.
            pub const fn tone(self) -> super::Tone {
                match self { $(Self::$name => tone!($($tone)?),)+ }
            }

            /// Page and anchor in the book, below `book/src/`.
            pub const fn anchor(self) -> &'static str {
                match self { $(Self::$name => concat!("reasons/", $room, ".md#", $anchor),)+ }
            }

            /// The reason as the book lists it.
            pub const fn entry(self) -> super::Entry {
                super::Entry {
                    room: $room,
                    reason: self.as_str(),
                    meaning: self.meaning(),
                    tone: self.tone(),
                    anchor: self.anchor(),
                }
            }
        }

        impl std::fmt::Display for Reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl From<Reason> for &'static str {
            fn from(reason: Reason) -> Self {
                reason.as_str()
            }
        }
    };
}

/// Reasons the kit itself sets, on objects of any room.
pub mod common {
    reasons! { "common" {
        InternalError, "internalerror",
            "Berth met a fault of its own while working on this object; the object was set aside and is tried again.";
        NotJudged, "notjudged",
            "A condition that counts has not been judged yet, so nobody can say whether the object is ready.";
    } }
}

/// Reasons on HostClaimKind objects.
pub mod claim_kind {
    reasons! { "claim-kind" {
        ControllerAlive: well, "controlleralive",
            "The controller of this kind renewed its heartbeat in time, so claims of the kind are served.";
        HeartbeatMissing, "heartbeatmissing",
            "No controller has ever reported for this kind, so claims of the kind wait.";
        HeartbeatStale, "heartbeatstale",
            "The controller of this kind stopped renewing its heartbeat, so new and changed claims of the kind wait.";
        InvalidSpec, "invalidspec",
            "The spec of this kind breaks a rule the schema cannot express, such as a pattern that does not compile.";
    } }
}

/// Reasons on HostClaims, HostDeployPolicies and HostClaimQuotas, in their conditions, events and counts.
pub mod claims {
    reasons! { "claims" {
        // Associated
        BareMetalHostAssociated: well, "baremetalhostassociated",
            "The claim has a host, whose consumerRef names it.";
        NoBareMetalHost, "nobaremetalhost",
            "No host fits the claim, so it waits until one does.";
        QuotaExceeded, "quotaexceeded",
            "Hosts fit, but a quota or a policy's maxHosts leaves no room for another one.";
        WaitingForReuseHost, "waitingforreusehost",
            "A host is kept for the claim's reuse group and is not available yet, so the claim waits for it instead of taking another.";
        FailureDomainExhausted, "failuredomainexhausted",
            "The wished failure domain has no free host that fits, and spec.failureDomainMode is Required.";
        InvalidSelector, "invalidselector",
            "The claim's spec breaks a rule that the schema cannot express, so no host is looked for.";
        MissingBareMetalHost, "missingbaremetalhost",
            "The host of the claim is gone or was taken, before anything ran on it, so another one is looked for.";
        HostLost, "hostlost",
            "The host of the claim is gone or was taken after it was deployed, and no second machine is started with the same identity.";
        HostPaused, "hostpaused",
            "The claim is paused before it has a host, so none is looked for.";
        HostClaimDeleting, "hostclaimdeleting",
            "The claim is being deleted and its host is being cleaned.";
        HostClaimDeletionFailed, "hostclaimdeletionfailed",
            "The claim is being deleted and its host failed while it was being cleaned.";
        HostDetached, "hostdetached",
            "The claim is being deleted and its host is detached by the administrator, so it cannot be cleaned yet.";
        CleaningBeforeRelease, "cleaningbeforerelease",
            "The host was kept for reuse with its data, and is cleaned before anybody else gets it.";
        BareMetalHostNotSynchronized, "baremetalhostnotsynchronized",
            "What the claim says is not on a host: there is none yet, the spec cannot be used, or the API server refused a write.";
        PauseAnnotationSetFailed, "pauseannotationsetfailed",
            "The claim is paused and its host could not be paused with it.";
        PauseAnnotationRemoveFailed, "pauseannotationremovefailed",
            "The claim is not paused any more and its host could not be set going again.";
        MachineAssociated: well, "machineassociated",
            "The claim has a machine of its kind.";
        NoMachine, "nomachine",
            "There is no machine of the claim's kind yet.";
        InvalidArguments, "invalidarguments",
            "The arguments of the claim, or what they name, cannot be used, so no machine is made.";
        IdentityUnusable, "identityunusable",
            "The credentials that the claim names cannot be used, so its platform is not asked.";
        PlatformError, "platformerror",
            "The platform of the claim's kind refused or failed; it is asked again.";
        NoControllerForKind, "nocontrollerforkind",
            "No running controller serves the claim's kind, so nobody acts on the claim.";
        // Synchronized
        ConfigurationSynced: well, "configurationsynced",
            "The host has everything the claim asks for.";
        UserDataSecretSyncFailure, "userdatasecretsyncfailure",
            "The Secret named in spec.userData cannot be used, so the host is not deployed.";
        MetaDataSecretSyncFailure, "metadatasecretsyncfailure",
            "The Secret named in spec.metaData cannot be used, so the host is not deployed.";
        NetworkDataSecretSyncFailure, "networkdatasecretsyncfailure",
            "The Secret named in spec.networkData cannot be used, so the host is not deployed.";
        ImageAuthSecretSyncFailure, "imageauthsecretsyncfailure",
            "The Secret named in spec.image.ociAuthSecretName cannot be used, so the host is not deployed.";
        SecretNameConflict, "secretnameconflict",
            "The namespace of the host holds a Secret of the name a copy needs, and it is not ours.";
        ImageChangeNotSupported, "imagechangenotsupported",
            "The claim asks for another image than the host has, and a deployed host is not deployed over.";
        ImageNotAllowed, "imagenotallowed",
            "No policy that admits the claim allows the url of its image or of its checksum, or nothing may be fetched from there at all.";
        CustomDeployNotAllowed, "customdeploynotallowed",
            "No policy that admits the claim allows deploy methods of the site.";
        CleaningOverrideNotAllowed, "cleaningoverridenotallowed",
            "No policy that admits the claim lets it choose how disks are cleaned.";
        UnsupportedPowerState, "unsupportedpowerstate",
            "The machine cannot be switched off, so it stays on.";
        UnsupportedImage, "unsupportedimage",
            "The kind cannot deploy this image, and nothing else is started in its place.";
        UnsupportedData, "unsupporteddata",
            "The kind cannot carry data of this form to the machine.";
        DataTooLarge, "datatoolarge",
            "The data is larger than the kind can carry to the machine.";
        Forbidden, "forbidden",
            "Berth may not do what the claim needs, so it waits a minute and tries again.";
        // Provisioned
        Provisioned: well, "provisioned",
            "What the claim asks for runs on its machine.";
        NotProvisioned, "notprovisioned",
            "Nothing is deployed on the machine.";
        Provisioning, "provisioning",
            "The machine is being deployed.";
        Deprovisioning, "deprovisioning",
            "What was deployed is being removed from the machine.";
        HostError, "hosterror",
            "The machine reports an error.";
        // AvailableForProvisioning
        Available: well, "available",
            "The machine can be deployed.";
        NotAvailable, "notavailable",
            "The machine cannot be deployed now.";
        Inspecting, "inspecting",
            "The hardware of the machine is being looked at.";
        NotManageable, "notmanageable",
            "The machine cannot be reached by its management controller.";
        // Authorized
        PolicyAdmits: well, "policyadmits",
            "A policy in the namespace of the host admits the claim.";
        SameNamespace: well, "samenamespace",
            "Claim and host are in one namespace.";
        DefaultAllow: well, "defaultallow",
            "The namespace of the host has no policy and the installation admits everybody there.";
        PolicyRevoked, "policyrevoked",
            "The claim has its host, but no policy admits it any more.";
        NotAdmitted, "notadmitted",
            "No policy admits the claim to any host, or to those counted.";
        // Paused
        Paused, "paused",
            "The claim or its Cluster is paused, so nothing is changed.";
        NotPaused: well, "notpaused",
            "The claim is not paused.";
        // Movable
        HostInOtherNamespace, "hostinothernamespace",
            "Claim and host are in different namespaces, so they cannot be moved to another cluster.";
        NotPausedYet, "notpausedyet",
            "The move waits until the cluster is paused and the host's status is saved.";
        MachineKnownByClaim, "machineknownbyclaim",
            "The machine is known by the uid of its claim, which another cluster would not keep, so the claim cannot be moved.";
        // Ready
        Ready: well, "ready",
            "The claim has all it asks for.";
        NotReady, "notready",
            "Something is missing; the message names the conditions.";
        // Accepted, of a HostDeployPolicy
        Accepted: well, "accepted",
            "The policy is in force.";
        InvalidRegexp, "invalidregexp",
            "A regular expression of the policy cannot be used, so this policy admits nobody; other policies are not affected.";
        // Ready, of a HostClaimQuota
        WithinQuota: well, "withinquota",
            "The tenants of the quota hold no more hosts than it allows.";
        OverQuota, "overquota",
            "The tenants of the quota hold more hosts than it allows; nobody loses a host, but nobody gets one.";
        // status.unbound: what rules hosts out
        OtherNamespace, "othernamespace",
            "The claim wants hosts of another namespace.";
        SelectorMismatch, "selectormismatch",
            "The labels of the host do not fit the claim's selector.";
        InUse, "inuse",
            "The host has another consumer.";
        ReservedForReuse, "reservedforreuse",
            "The host is kept for another reuse group.";
        Deleting, "deleting",
            "The host is being deleted.";
        Detached, "detached",
            "The host is detached from management.";
        Unhealthy, "unhealthy",
            "The host is marked as unhealthy, or reports so.";
        ExternallyProvisioned, "externallyprovisioned",
            "Somebody else deploys the host.";
        NotClean, "notclean",
            "The host is free, but its spec still has an image or a deploy method, or its disks are on record as uncleaned.";
        OtherFailureDomain, "otherfailuredomain",
            "The host is in another failure domain than the claim requires.";
        CoolDown, "cooldown",
            "The host was refused to the claim a moment ago, or failed it before.";
        // Events
        HostSelected: well, "hostselected",
            "A host was chosen and is about to be bound.";
        HostBound: well, "hostbound",
            "A host was bound to the claim.";
        BindConflict, "bindconflict",
            "Somebody else changed or took the host at the same time; another try follows at once.";
        Unbound, "unbound",
            "The claim does not have its host any more.";
        SecretCopied: well, "secretcopied",
            "A Secret of the claim was copied beside its host.";
        ProvisioningStarted: well, "provisioningstarted",
            "The host was told what to deploy.";
        Released, "released",
            "The host was cleaned and given back.";
        HostReleased: well, "hostreleased",
            "The claim of the host gave it back.";
        RebootForwarded: well, "rebootforwarded",
            "The host was told to reboot.";
        RebootDeferred, "rebootdeferred",
            "A reboot was asked for and happens once the machine is provisioned.";
        TooManyReboots, "toomanyreboots",
            "The claim holds more reboots than are passed on to a host.";
        SelectorIgnored, "selectorignored",
            "The claim selects hosts by labels, and machines of its kind are made instead of selected.";
        RebootUnsupported, "rebootunsupported",
            "A reboot was asked for and the kind cannot do it; the annotation was removed.";
        DetachNotAllowed, "detachnotallowed",
            "The claim asks to detach its host and no policy allows it.";
        HostBeingDeleted, "hostbeingdeleted",
            "The host of the claim is being deleted by its owner.";
        DuplicateBindingHealed, "duplicatebindinghealed",
            "Two hosts named the claim as their consumer and one of them was released.";
        OrphanedHost, "orphanedhost",
            "The host names a claim that does not exist.";
        ForeignClaimController, "foreignclaimcontroller",
            "Another controller writes the status of the claim.";
    } }
}

/// Reasons on Clusters, for their control-plane and ingress addresses.
pub mod vip {
    reasons! { "vip" {
        Allocated: well, "allocated",
            "The address was taken from a pool and stands on the Cluster.";
        Manual: well, "manual",
            "The user chose the endpoint, so no address is taken from a pool.";
        ManualInsidePool, "manualinsidepool",
            "The user chose an endpoint that a matching pool may still give to somebody else.";
        ManualClaimUnused, "manualclaimunused",
            "The user chose the endpoint, and a claim of this cluster holds another address for nothing.";
        WaitingForAddress, "waitingforaddress",
            "The claim is there and its provider has not given it an address yet.";
        NoMatchingPool, "nomatchingpool",
            "No pool fits the cluster's class, role, namespace and family.";
        PoolExhausted, "poolexhausted",
            "Pools fit, but none of them has an address left.";
        AddressConflict, "addressconflict",
            "Another cluster or claim uses the same address.";
        AddressMismatch, "addressmismatch",
            "The Cluster shows another address than its claim holds, and no repair would be safe.";
        ClaimMissing, "claimmissing",
            "The Cluster shows an address that no claim protects any more.";
        ClaimForeign, "claimforeign",
            "A claim with the name this cluster needs belongs to somebody else.";
        InvalidAnnotation, "invalidannotation",
            "An annotation of the Cluster or its class has a value that cannot be used.";
    } }
}

/// Reasons of events on MachineSets and MachineDeployments, for the capacity they announce.
pub mod capacity {
    reasons! { "capacity" {
        CapacityAnnotated: well, "capacityannotated",
            "The annotations are right again after a failure.";
        FailedUpdate, "failedupdate",
            "The type, the template or the Secret that the object names cannot be found or does not say enough.";
        ReconcileError, "reconcileerror",
            "The object cannot be used as it is, or the cloud cannot be asked.";
        InvalidAnnotation, "invalidannotation",
            "A value that somebody set by hand cannot be read by cluster-autoscaler, which then ignores the whole group.";
        AnnotationConflict, "annotationconflict",
            "Somebody else keeps writing another value, so the key is left alone for an hour.";
        ArchitectureMixed, "architecturemixed",
            "The types that the group may be made of have different architectures, so none is told.";
        AcceleratorLabelMissing, "acceleratorlabelmissing",
            "The group has accelerators but not the node label by which cluster-autoscaler waits for their driver.";
    } }
}

/// Reasons on AWSMachines, in their conditions and events.
pub mod hosts {
    reasons! { "hosts" {
        // InstanceReady
        InstanceRunning: well, "instancerunning",
            "The instance runs.";
        WaitingForClusterInfrastructure, "waitingforclusterinfrastructure",
            "The network of the cluster is not there yet, so nothing is started.";
        WaitingForBootstrapData, "waitingforbootstrapdata",
            "The data that makes a node of the instance is not there yet.";
        InstanceProvisionStarted, "instanceprovisionstarted",
            "The instance is being prepared or was just asked for.";
        InstanceProvisionFailed, "instanceprovisionfailed",
            "The instance could not be started.";
        InstanceNotReady, "instancenotready",
            "The instance exists and does not run yet.";
        InstanceStopped, "instancestopped",
            "The instance is stopped.";
        InstanceTerminated, "instanceterminated",
            "The instance was terminated by somebody else.";
        Deleting, "deleting",
            "The machine is being deleted.";
        DeletingFailed, "deletingfailed",
            "The instance could not be terminated.";
        Deleted, "deleted",
            "The instance is gone.";
        InstanceNotFound, "instancenotfound",
            "EC2 does not know the instance any more, or not as this machine's, and no second one is started in its place.";
        // DedicatedHostReady
        HostAvailable: well, "hostavailable",
            "The dedicated host can be used.";
        HostAllocationStarted, "hostallocationstarted",
            "The intent to allocate a host is stored, and the host is being asked for.";
        HostPending, "hostpending",
            "The host is allocated and not usable yet.";
        HostQuotaExceeded, "hostquotaexceeded",
            "The account may not have another host of this family in the region.";
        HostCapacityUnavailable, "hostcapacityunavailable",
            "EC2 has no host of this type left in the zone.";
        HostAllocationDenied, "hostallocationdenied",
            "A permission or a limit of the installation forbids the allocation.";
        HostAllocationFailed, "hostallocationfailed",
            "No host can be allocated for this machine as it is.";
        HostUnderAssessment, "hostunderassessment",
            "EC2 examines the host because it may be faulty.";
        HostPermanentFailure, "hostpermanentfailure",
            "The host failed for good.";
        HostLost, "hostlost",
            "The host is gone, and somebody else released it.";
        HostMismatch, "hostmismatch",
            "The machine or its instance points at a host that is not provably this machine's.";
        // DedicatedHostRelease
        WaitingForInstanceTermination, "waitingforinstancetermination",
            "The hosts wait until the instance is gone.";
        HostOccupied, "hostoccupied",
            "EC2 still counts an instance on the host, which it does for some time after the end of the last one.";
        MinimumAllocationPeriod, "minimumallocationperiod",
            "The host cannot be released before a day has passed, which EC2 demands of hosts for mac instances.";
        HostReserved, "hostreserved",
            "The host belongs to a reservation and cannot be released before its end.";
        DedicatedHostReleaseFailed, "dedicatedhostreleasefailed",
            "The host could not be released, and the machine stays until it is.";
        Released: well, "released",
            "All hosts of the machine are released.";
        Retained: well, "retained",
            "The hosts were left behind, because autoRelease is false.";
        Abandoned, "abandoned",
            "The hosts were given up by order of an operator, without being released.";
        // SecurityGroupsReady
        SecurityGroupsSynced: well, "securitygroupssynced",
            "The instance has the security groups it should have.";
        SecurityGroupsSyncFailed, "securitygroupssyncfailed",
            "The security groups of the instance could not be read or set.";
        // Paused
        Paused, "paused",
            "The machine or its Cluster is paused, so EC2 is not called.";
        NotPaused: well, "notpaused",
            "The machine is not paused.";
        // Ready
        Ready: well, "ready",
            "The instance runs and everything about it is as it should be.";
        NotReady, "notready",
            "Something is missing; the message names the conditions.";
        InvalidSpec, "invalidspec",
            "The spec breaks a rule that admission would have refused, so nothing is started.";
        // Events
        SuccessfulCreate: well, "successfulcreate",
            "An instance was started.";
        FailedCreate, "failedcreate",
            "An instance could not be started.";
        SuccessfulTerminate: well, "successfulterminate",
            "The instance was terminated.";
        FailedTerminate, "failedterminate",
            "The instance could not be terminated.";
        NoInstanceFound, "noinstancefound",
            "EC2 does not know the instance that the machine names, or not as this machine's.";
        InstanceUnexpectedTermination, "instanceunexpectedtermination",
            "The instance ended without the machine being deleted.";
        SuccessfulAllocateDedicatedHost, "successfulallocatededicatedhost",
            "A dedicated host was allocated.";
        FailedAllocateDedicatedHost, "failedallocatededicatedhost",
            "No dedicated host could be allocated.";
        SuccessfulReleaseHost: well, "successfulreleasehost",
            "A dedicated host was released.";
        FailedReleaseHost, "failedreleasehost",
            "A dedicated host could not be released.";
        DedicatedHostRetained: well, "dedicatedhostretained",
            "A dedicated host was left behind on purpose.";
        DedicatedHostReplaced: well, "dedicatedhostreplaced",
            "EC2 moved the instance to another dedicated host.";
        DedicatedHostFailed, "dedicatedhostfailed",
            "A dedicated host failed for good, is lost, or is not provably whose it seems.";
        DedicatedHostAbandoned, "dedicatedhostabandoned",
            "A dedicated host was given up by order of an operator.";
    } }
}
pub mod clusters;
pub mod machines;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_is_a_pascal_case_word_with_one_sentence_and_its_own_anchor() {
        let mut anchors = BTreeSet::new();
        for entry in all() {
            assert!(entry.reason.starts_with(|c: char| c.is_ascii_uppercase()), "{entry:?}");
            assert!(entry.reason.chars().all(|c| c.is_ascii_alphanumeric()) && entry.reason.len() <= 64, "{entry:?}");
            assert!(entry.meaning.ends_with('.') && entry.meaning.matches(". ").count() == 0, "{entry:?}");
            assert_eq!(entry.anchor, format!("reasons/{}.md#{}", entry.room, entry.reason.to_lowercase()));
            assert!(anchors.insert(entry.anchor), "{entry:?}");
        }
        let rooms = [
            common::Reason::ALL.len(),
            claim_kind::Reason::ALL.len(),
            claims::Reason::ALL.len(),
            vip::Reason::ALL.len(),
            capacity::Reason::ALL.len(),
            hosts::Reason::ALL.len(),
            clusters::Reason::ALL.len(),
            machines::Reason::ALL.len(),
        ];
        assert_eq!(anchors.len(), rooms.iter().sum::<usize>());
    }
}
