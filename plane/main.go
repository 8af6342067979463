// Command plane: one process with an embedded etcd, a real kube-apiserver and the
// few kube-controller-manager controllers that API tests depend on (owner
// reference garbage collection, namespace deletion, default service accounts).
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

type multi []string

func (m *multi) String() string     { return strings.Join(*m, " ") }
func (m *multi) Set(s string) error { *m = append(*m, s); return nil }

// kube-apiserver redirects the standard logger into klog, so keep our own.
var out = log.New(os.Stderr, "plane: ", log.Ltime|log.Lmicroseconds)

var (
	dir         = flag.String("dir", "plane-data", "data directory: certificates, etcd data, kubeconfig")
	port        = flag.Int("port", 0, "secure port on 127.0.0.1 (0: choose a free one)")
	etcdPort    = flag.Int("etcd-port", 0, "etcd client port on 127.0.0.1 (0: choose a free one)")
	controllers = flag.Bool("controllers", true, "run garbage collector, namespace, service account and root CA controllers")
	gcPeriod    = flag.Duration("gc-sync-period", 2*time.Second, "how often the garbage collector looks for new resource types (KCM uses 30s)")
	fresh       = flag.Bool("fresh", false, "delete the etcd data before starting")
	verbosity   = flag.Int("v", 0, "klog verbosity")
	extra       multi
)

func main() {
	start := time.Now()
	flag.Var(&extra, "apiserver-arg", "extra kube-apiserver flag, repeatable, e.g. --apiserver-arg=--feature-gates=X=true")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, start); err != nil && ctx.Err() == nil {
		out.Fatal(err)
	}
}

func run(ctx context.Context, start time.Time) error {
	d, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d, 0o700); err != nil {
		return err
	}
	p := func(n string) string { return filepath.Join(d, n) }
	_ = os.Remove(p("ready"))
	if *fresh {
		_ = os.RemoveAll(p("etcd"))
	}
	if *port == 0 {
		*port = freePort()
	}
	if *etcdPort == 0 {
		*etcdPort = freePort()
	}
	if err := writePKI(d, *port); err != nil {
		return err
	}

	// ---- etcd -------------------------------------------------------------
	ecfg := embed.NewConfig()
	ecfg.Dir = p("etcd")
	ecfg.LogLevel = "error"
	ecfg.UnsafeNoFsync = true              // a test store: speed over durability
	ecfg.TickMs, ecfg.ElectionMs = 20, 200 // single member: elect itself at once (default costs ~1s)
	cu := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", *etcdPort)}
	pu := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", freePort())}
	ecfg.ListenClientUrls, ecfg.AdvertiseClientUrls = []url.URL{cu}, []url.URL{cu}
	ecfg.ListenPeerUrls, ecfg.AdvertisePeerUrls = []url.URL{pu}, []url.URL{pu}
	ecfg.InitialCluster = ecfg.Name + "=" + pu.String()
	e, err := embed.StartEtcd(ecfg)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer e.Close()
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-time.After(30 * time.Second):
		return fmt.Errorf("etcd not ready after 30s")
	}
	out.Printf("etcd ready %s at %s", since(start), cu.String())

	// ---- kube-apiserver -----------------------------------------------------
	args := append([]string{
		"--etcd-servers=" + cu.String(),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", *port),
		"--endpoint-reconciler-type=none", // loopback may not be written into Endpoints
		"--service-cluster-ip-range=10.96.0.0/16",
		"--tls-cert-file=" + p("apiserver.crt"),
		"--tls-private-key-file=" + p("apiserver.key"),
		"--client-ca-file=" + p("ca.crt"),
		"--token-auth-file=" + p("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p("sa.key"),
		"--service-account-signing-key-file=" + p("sa.key"),
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		"--profiling=false",
		"--anonymous-auth=true",
		"--cert-dir=" + p("certs"),
		fmt.Sprintf("--v=%d", *verbosity),
	}, extra...)

	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	nfs := s.Flags()
	for _, f := range nfs.FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	reg := s.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := reg.Set(); err != nil {
		return err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := logsapi.ValidateAndApply(s.Logs, reg.FeatureGateFor(compatibility.DefaultKubeComponent)); err != nil {
		return err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return utilerrors.NewAggregate(errs)
	}
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, completed) }()

	// ---- readiness ----------------------------------------------------------
	if err := waitReady(ctx, done, p("ca.crt"), *port); err != nil {
		return err
	}
	out.Printf("apiserver ready %s at https://127.0.0.1:%d", since(start), *port)

	if *controllers {
		if err := startControllers(ctx, p("kubeconfig"), p("ca.crt")); err != nil {
			return err
		}
	}
	if err := os.WriteFile(p("ready"), []byte(fmt.Sprintf("%d\n", os.Getpid())), 0o600); err != nil {
		return err
	}
	out.Printf("READY %s kubeconfig=%s", since(start), p("kubeconfig"))

	select {
	case err := <-done:
		return err
	case err := <-e.Err():
		return err
	case <-ctx.Done():
	}
	_ = os.Remove(p("ready"))
	select { // graceful stop, but never hang a test run
	case <-done:
	case <-time.After(5 * time.Second):
	}
	return nil
}

// startControllers runs real kube-controller-manager controllers in-process.
func startControllers(ctx context.Context, kubeconfig, caFile string) error {
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
	logger := klog.FromContext(ctx)
	inf := informers.NewSharedInformerFactory(kube, 12*time.Hour)
	minf := metadatainformer.NewSharedInformerFactory(meta, 12*time.Hour)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kube.Discovery()))
	started := make(chan struct{})

	gc, err := garbagecollector.NewGarbageCollector(ctx, kube, meta, mapper,
		garbagecollector.DefaultIgnoredResources(),
		informerfactory.NewInformerFactory(inf, minf), started)
	if err != nil {
		return err
	}
	ns := namespace.NewNamespaceController(ctx, kube, meta,
		kube.Discovery().ServerPreferredNamespacedResources,
		inf.Core().V1().Namespaces(), 5*time.Minute, v1.FinalizerKubernetes)
	sa, err := serviceaccount.NewServiceAccountsController(logger,
		inf.Core().V1().ServiceAccounts(), inf.Core().V1().Namespaces(), kube,
		serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return err
	}
	pub, err := rootcacertpublisher.NewPublisher(inf.Core().V1().ConfigMaps(), inf.Core().V1().Namespaces(), kube, ca)
	if err != nil {
		return err
	}
	inf.Start(ctx.Done())
	minf.Start(ctx.Done())
	close(started)
	go gc.Run(ctx, 5, 30*time.Second)
	go gc.Sync(ctx, kube.Discovery(), *gcPeriod)
	go ns.Run(ctx, 5)
	go sa.Run(ctx, 1)
	go pub.Run(ctx, 1)
	return nil
}

func waitReady(ctx context.Context, done <-chan error, caFile string, port int) error {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	var last string
	for t0 := time.Now(); time.Since(t0) < 120*time.Second; time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-done:
			return fmt.Errorf("kube-apiserver stopped: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		r, err := c.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", port))
		if err != nil {
			last = err.Error()
			continue
		}
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode == 200 {
			return nil
		}
		last = string(b)
	}
	return fmt.Errorf("not ready after 120s: %s", last)
}

func writePKI(d string, port int) error {
	p := func(n string) string { return filepath.Join(d, n) }
	if _, err := os.Stat(p("ca.crt")); err != nil {
		caKey, caCert, err := newCert(p("ca"), &x509.Certificate{
			Subject: pkix.Name{CommonName: "plane-ca"}, IsCA: true, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}, nil, nil)
		if err != nil {
			return err
		}
		if _, _, err := newCert(p("apiserver"), &x509.Certificate{
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
			IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("10.96.0.1")},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, caCert, caKey); err != nil {
			return err
		}
		// serving certificate for admission / conversion webhooks and runtime extensions on loopback
		if _, _, err := newCert(p("webhook"), &x509.Certificate{
			Subject:     pkix.Name{CommonName: "webhook"},
			DNSNames:    []string{"localhost"},
			IPAddresses: []net.IP{net.ParseIP("127.0.0.1")},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}, caCert, caKey); err != nil {
			return err
		}
		if _, _, err := newCert(p("admin"), &x509.Certificate{
			Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, caCert, caKey); err != nil {
			return err
		}
		if _, _, err := newCert(p("sa"), &x509.Certificate{Subject: pkix.Name{CommonName: "sa"}}, nil, nil); err != nil {
			return err
		}
		tok := make([]byte, 16)
		_, _ = rand.Read(tok)
		t := hex.EncodeToString(tok)
		if err := os.WriteFile(p("token"), []byte(t), 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(p("tokens.csv"), []byte(t+",admin,admin,\"system:masters\"\n"), 0o600); err != nil {
			return err
		}
	}
	kc := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: plane
clusters:
- name: plane
  cluster: {server: "https://127.0.0.1:%d", certificate-authority: %q}
contexts:
- name: plane
  context: {cluster: plane, user: admin}
users:
- name: admin
  user: {client-certificate: %q, client-key: %q}
`, port, p("ca.crt"), p("admin.crt"), p("admin.key"))
	return os.WriteFile(p("kubeconfig"), []byte(kc), 0o600)
}

func newCert(base string, t *x509.Certificate, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	t.SerialNumber, _ = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	t.NotBefore = time.Now().Add(-time.Hour)
	t.NotAfter = time.Now().Add(3650 * 24 * time.Hour)
	if t.KeyUsage == 0 {
		t.KeyUsage = x509.KeyUsageDigitalSignature
	}
	if parent == nil {
		parent, parentKey = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	kb, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(base+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kb}), 0o600); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(base+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, nil, err
	}
	c, err := x509.ParseCertificate(der)
	return key, c, err
}

func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		out.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func since(t time.Time) string { return "after " + time.Since(t).Round(time.Millisecond).String() }
