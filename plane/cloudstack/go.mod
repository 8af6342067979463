module berth.dev/plane/cloudstack

go 1.26.0

// Only the definitions of the CloudStack provider are taken from its module; nothing of it is built.
require sigs.k8s.io/cluster-api-provider-cloudstack v0.6.1
