//! Condition types and reasons of Clusters on CloudStack: their failures, their conditions, and how grave each is.

/// Condition type of a Cluster: its control plane was available once.
pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
/// Condition type of a Cluster: its control plane is as wanted.
pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";
/// Condition type of a Cluster: its network plugin is as wanted.
pub const DEFAULT_CNI_CONFIGURED: &str = "DefaultCNIConfigured";
/// Condition type of a Cluster: its workers are as wanted.
pub const WORKERS_READY: &str = "WorkersReady";

/// Condition type of a CloudStackDatacenterConfig: it can be used.
pub const VALID: &str = "Valid";
/// Condition type of a CloudStackDatacenterConfig: its Secrets are complete and CloudStack takes them.
pub const CREDENTIALS_VALID: &str = "CredentialsValid";
/// Condition type of a CloudStackDatacenterConfig: CloudStack answers.
pub const ENDPOINT_REACHABLE: &str = "EndpointReachable";

reasons! { "clusters" {
    // status.failureReason
    MissingDependentObjects, "missingdependentobjects",
        "An object that the Cluster refers to is not there.";
    ManagementClusterRefInvalid, "managementclusterrefinvalid",
        "The managing Cluster is not there, is not unique, or is not itself a management cluster.";
    ClusterInvalid, "clusterinvalid",
        "The Cluster breaks a rule, or its name is taken.";
    DatacenterConfigInvalid, "datacenterconfiginvalid",
        "The CloudStackDatacenterConfig cannot be used.";
    MachineConfigInvalid, "machineconfiginvalid",
        "A CloudStackMachineConfig cannot be used in one of the availability zones.";
    UnavailableControlPlaneIP, "unavailablecontrolplaneip",
        "The endpoint of the control plane is in use already.";
    EksaVersionInvalid, "eksaversioninvalid",
        "No bundle can be found from the versions that are given.";
    BundleNotFoundForCluster, "bundlenotfoundforcluster",
        "The bundle is not there, or has no entry for the Kubernetes version.";
    // ControlPlaneInitialized, ControlPlaneReady
    ControlPlaneInitializationInProgress, "controlplaneinitializationinprogress",
        "The first machine of the control plane is not available yet.";
    OutdatedInformation, "outdatedinformation",
        "Cluster API has not looked at the latest change yet.";
    RollingUpgradeInProgress, "rollingupgradeinprogress",
        "Machines are being replaced.";
    ScalingUp, "scalingup",
        "Machines are being added.";
    ScalingDown, "scalingdown",
        "Machines are being removed.";
    NodesNotReady, "nodesnotready",
        "All machines are there, and some of their nodes are not ready.";
    ControlPlaneComponentsUnhealthy, "controlplanecomponentsunhealthy",
        "A part of the control plane is not healthy.";
    KubeadmControlPlaneNotReady, "kubeadmcontrolplanenotready",
        "Cluster API says that the control plane is not ready.";
    // DefaultCNIConfigured
    ControlPlaneNotReady, "controlplanenotready",
        "The network plugin waits for the control plane.";
    DefaultCNIUpgradeInProgress, "defaultcniupgradeinprogress",
        "The network plugin is being upgraded.";
    SkipUpgradesForDefaultCNIConfigured, "skipupgradesfordefaultcniconfigured",
        "The network plugin was installed once and is left alone, as the Cluster asks.";
    // WorkersReady
    ControlPlaneNotInitialized, "controlplanenotinitialized",
        "Workers wait for the control plane.";
    AutoscalerConstraintNotMet, "autoscalerconstraintnotmet",
        "A group has fewer or more machines than its autoscaling allows.";
    MachineDeploymentNotReady, "machinedeploymentnotready",
        "Cluster API says that a group of workers is not available.";
    // Ready
    Deleting, "deleting",
        "The cluster is being deleted.";
    // CloudStackDatacenterConfig
    Validated: well, "validated",
        "Every availability zone was checked and can be used.";
    ValidationFailed, "validationfailed",
        "A check failed; the message says what has to be put right.";
    CredentialsInvalid, "credentialsinvalid",
        "A Secret is missing or incomplete, or CloudStack does not take its keys.";
    CredentialsAccepted: well, "credentialsaccepted",
        "CloudStack takes the keys of every Secret.";
    CredentialsRotated: well, "credentialsrotated",
        "A Secret was changed and is used as it is now.";
    EndpointAnswers: well, "endpointanswers",
        "CloudStack answers.";
    EndpointUnreachable, "endpointunreachable",
        "CloudStack does not answer, or answers that it cannot at present.";
    NotChecked, "notchecked",
        "It was not checked, because something else has to be put right first.";
    // events of a Cluster
    ClusterCreating: well, "clustercreating",
        "The objects of a new cluster are written for the first time.";
    ControlPlaneApplied: well, "controlplaneapplied",
        "Objects of the control plane were written.";
    ControlPlaneReady: well, "controlplaneready",
        "The control plane is as wanted.";
    CNIInstalled: well, "cniinstalled",
        "The network plugin was installed.";
    CNIUpgraded: well, "cniupgraded",
        "The network plugin was upgraded.";
    WorkersApplied: well, "workersapplied",
        "Objects of workers were written.";
    WorkerGroupDeleted: well, "workergroupdeleted",
        "A group of workers that nobody wants any more was deleted.";
    TemplateReplaced: well, "templatereplaced",
        "Another template took the place of one; its machines are replaced.";
    ClusterReady: well, "clusterready",
        "The cluster is as wanted.";
    ClusterDeleted: well, "clusterdeleted",
        "Nothing is left of the cluster.";
    DriftRepaired, "driftrepaired",
        "Somebody changed a generated object; it was set back.";
    ForeignMachineDeployment, "foreignmachinedeployment",
        "A MachineDeployment of the cluster was made by somebody else and is left alone.";
    ZoneRemovalBlocked, "zoneremovalblocked",
        "Machines cannot leave a removed availability zone, because a role has only one.";
    SelfManagedIgnored, "selfmanagedignored",
        "A cluster that manages itself is left alone.";
    SelfManagedDeleteRefused, "selfmanageddeleterefused",
        "A cluster that manages itself is not deleted through this API.";
    EndpointNotResolved, "endpointnotresolved",
        "The name of the endpoint has no address yet.";
} }
