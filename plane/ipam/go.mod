module berth.dev/plane/ipam

go 1.26.2

godebug default=go1.26

require sigs.k8s.io/cluster-api-ipam-provider-in-cluster v1.1.0
