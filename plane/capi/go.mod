module berth.dev/plane/capi

go 1.26.0

godebug default=go1.26

require (
	sigs.k8s.io/cluster-api v1.14.2
	sigs.k8s.io/cluster-api/api v1.14.2
)
