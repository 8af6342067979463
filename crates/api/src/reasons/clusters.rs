//! Condition types and reasons of Clusters on CloudStack: their failures, their conditions, and how grave each is.

/// Condition type of a Cluster: its control plane was available once.
pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
/// Condition type of a Cluster: its control plane is as wanted.
pub const CONTROL_PLANE_READY: &str = "ControlPlaneReady";
/// Condition type of a Cluster: its network plugin is as wanted.
pub const DEFAULT_CNI_CONFIGURED: &str = "DefaultCNIConfigured";
/// Condition type of a Cluster: its workers are as wanted.
pub const WORKERS_READY: &str = "WorkersReady";

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
    ExternalEtcdNotAvailable, "externaletcdnotavailable",
        "The machines that run etcd are not available.";
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
} }
