// The controller of claims without the operator's others, and above all without the one that drives hosts.

package main

import (
	"flag"
	"os"

	metal3api "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	controllers "github.com/metal3-io/baremetal-operator/internal/controller/metal3.io"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	// Names and defaults of the operator's own flags.
	qps := flag.Float64("kube-api-qps", 20, "requests to the API server each second")
	burst := flag.Int("kube-api-burst", 30, "requests to the API server at once")
	health := flag.String("health-addr", ":9440", "where health is served")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*qps, *burst, *health); err != nil {
		ctrl.Log.Error(err, "giving up")
		os.Exit(1)
	}
}

func run(qps float64, burst int, health string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = float32(qps), burst
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, metal3api.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: health,
	})
	if err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	claims := &controllers.HostClaimReconciler{Client: manager.GetClient(), Scheme: scheme}
	if err := claims.SetupWithManager(manager); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
