//! Condition types and reasons of Metal3 machines and clusters.

/// Condition type of a Metal3Machine: its claim has a host; reason and message are those of the claim.
pub const ASSOCIATE_BARE_METAL_HOST: &str = "AssociateBareMetalHost";
/// Condition type of a Metal3Machine: its metadata and network data are rendered.
pub const METAL3_DATA_READY: &str = "Metal3DataReady";
/// Condition type of a Metal3Machine: its Node was found and carries its provider id.
pub const KUBERNETES_NODE_READY: &str = "KubernetesNodeReady";

reasons! { "machines" {
    NotPaused: well, "notpaused",
        "The machine or cluster is not paused.";
    Paused, "paused",
        "The machine, or its Cluster, is paused, so nothing is changed.";
    Deleting, "deleting",
        "The object is being deleted and waits for what it has to give back first.";
    InvalidSpec, "invalidspec",
        "The spec cannot be read, or breaks a rule that admission would have refused.";
    WaitingForMachineOwner, "waitingformachineowner",
        "No Machine of Cluster API owns the Metal3Machine yet.";
    WaitingForCluster, "waitingforcluster",
        "The Cluster that the machine belongs to is not there.";
    WaitingForClusterInfrastructure, "waitingforclusterinfrastructure",
        "The infrastructure of the Cluster is not provisioned yet.";
    WaitingForBootstrapReady, "waitingforbootstrapready",
        "The Machine has no bootstrap data yet.";
    WaitingForHostClaim, "waitingforhostclaim",
        "The claim was made and its controller has not answered yet.";
    ClaimNameConflict, "claimnameconflict",
        "An object of the name that the machine needs belongs to somebody else, and is never adopted.";
    HostClaimMissing, "hostclaimmissing",
        "The claim of a machine that ran is gone, and no second host is started in its place.";
    HostClaimDeleted, "hostclaimdeleted",
        "The claim of the machine is being deleted by somebody else.";
    HostClaimChanged, "hostclaimchanged",
        "Somebody else changed fields of the claim that the machine sets, and their values were left as they are.";
    HostClaimRefused, "hostclaimrefused",
        "The API server refused what the machine asks of its claim.";
    HostClaimSynchronized: well, "hostclaimsynchronized",
        "The claim has what the machine asks for.";
    WaitingForMetal3Data, "waitingformetal3data",
        "The data of the machine is not rendered yet.";
    AssociateM3MetaDataFailed, "associatem3metadatafailed",
        "The data of the machine cannot be rendered.";
    SecretsSet: well, "secretsset",
        "The data of the machine is rendered.";
    ProviderIDMismatch, "provideridmismatch",
        "The machine carries another provider id than its claim gives, and it was left as it is.";
    WaitingForProvisioning, "waitingforprovisioning",
        "The machine waits for its claim to be provisioned before it looks for its Node.";
    ClusterUnreachable, "clusterunreachable",
        "The workload cluster cannot be asked for its Nodes.";
    NodeNotFound, "nodenotfound",
        "The workload cluster has no Node of this machine yet.";
    NodeAmbiguous, "nodeambiguous",
        "More than one Node of the workload cluster fits the machine, and none was chosen.";
    NodeTaken, "nodetaken",
        "The Node of the machine carries the provider id of another machine.";
    NodeReady: well, "nodeready",
        "The Node of the machine was found and carries its provider id.";
    WaitingForClusterOwner, "waitingforclusterowner",
        "No Cluster of Cluster API owns the Metal3Cluster yet.";
    ControlPlaneEndpointMissing, "controlplaneendpointmissing",
        "The control plane has no complete endpoint.";
    ControlPlaneEndpointInvalid, "controlplaneendpointinvalid",
        "The endpoint of the control plane is neither a host name nor an address, or its port is no port.";
    MachinesRemain, "machinesremain",
        "The Metal3Cluster waits until the machines of its cluster are gone.";
    InfrastructureReady: well, "infrastructureready",
        "The Metal3Cluster has what Cluster API needs of it.";
    HostClaimCreated: well, "hostclaimcreated",
        "A claim was made for the machine.";
    HostClaimReleased: well, "hostclaimreleased",
        "The claim of the machine was deleted with it.";
    NodeLabelsSynchronized: well, "nodelabelssynchronized",
        "Labels of the host were put on the Node of the machine, or taken off it.";
    DataRendered: well, "datarendered",
        "The data of the machine is rendered into its Secrets.";
    DataPending, "datapending",
        "The data of the machine is being made or rendered.";
    DataInUse, "datainuse",
        "The data was deleted by somebody while its machine still uses it, and goes with its data claim.";
    TemplateMissing, "templatemissing",
        "The Metal3DataTemplate is not there, is being deleted, or is not in the namespace of the machine.";
    TemplateUsable: well, "templateusable",
        "Machines get their data from the template.";
    WaitingForMetal3Machine, "waitingformetal3machine",
        "The Metal3Machine that the data is for is not there.";
    WaitingForHost, "waitingforhost",
        "The claim of the machine has no host yet, and nothing is rendered before.";
    WaitingForAddresses, "waitingforaddresses",
        "A pool has not given its address yet.";
    AddressRefused, "addressrefused",
        "A pool gives no address, and says why.";
    AddressNameTaken, "addressnametaken",
        "The name of a wish for an address belongs to earlier data, or to somebody else.";
    RenderingFailed, "renderingfailed",
        "The template asks for something that the host, the machine or a pool does not have.";
    Forbidden, "forbidden",
        "Berth may not write what is needed, and tries again later.";
    PoweringOff, "poweringoff",
        "The host of a machine that is ill is being switched off.";
    DrainingNode, "drainingnode",
        "The host is off, and its Node is taken out of service until its pods and volumes have left.";
    DeletingNode, "deletingnode",
        "The host is off, and its Node is being deleted so that its pods start elsewhere.";
    PoweringOn, "poweringon",
        "The host is being switched on again.";
    WaitingForNode, "waitingfornode",
        "The host is on again and its Node has not come back yet.";
    RestoringNode, "restoringnode",
        "The Node is back and gets what it had before.";
    Remediated: well, "remediated",
        "The machine was rebooted, and its health check decides what follows.";
    RetryLimitReached, "retrylimitreached",
        "Rebooting did not help, and the owner of the machine was asked to replace it.";
    PoweredOff, "poweredoff",
        "The claim asks for the host to be off, so the machine is not treated.";
    UnsupportedStrategy, "unsupportedstrategy",
        "The strategy of the remediation is not known, so nothing is done.";
} }
