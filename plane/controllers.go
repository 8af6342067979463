package main

import (
	"context"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
)

// startControllers runs four real kube-controller-manager controllers. Running
// them here rather than as the stock manager saves a process and lets the
// collector look for new kinds every gcPeriod instead of every 30 s, which is
// what makes tests with fresh CRDs quick.
func startControllers(ctx context.Context, kubeconfig, caFile string, gcPeriod time.Duration) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = 500, 1000
	cfg.UserAgent = "plane-controllers"
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	typed := informers.NewSharedInformerFactory(kube, 12*time.Hour)
	untyped := metadatainformer.NewSharedInformerFactory(meta, 12*time.Hour)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kube.Discovery()))
	started := make(chan struct{})

	gc, err := garbagecollector.NewGarbageCollector(ctx, kube, meta, mapper,
		garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(typed, untyped), started)
	if err != nil {
		return err
	}
	ns := namespace.NewNamespaceController(ctx, kube, meta,
		kube.Discovery().ServerPreferredNamespacedResources,
		typed.Core().V1().Namespaces(), 5*time.Minute, v1.FinalizerKubernetes)
	sa, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx),
		typed.Core().V1().ServiceAccounts(), typed.Core().V1().Namespaces(), kube,
		serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return err
	}
	root, err := rootcacertpublisher.NewPublisher(typed.Core().V1().ConfigMaps(), typed.Core().V1().Namespaces(), kube, ca)
	if err != nil {
		return err
	}
	typed.Start(ctx.Done())
	untyped.Start(ctx.Done())
	close(started)
	go gc.Run(ctx, 5, 30*time.Second)
	go gc.Sync(ctx, kube.Discovery(), gcPeriod)
	go ns.Run(ctx, 5)
	go sa.Run(ctx, 1)
	go root.Run(ctx, 1)
	return nil
}
