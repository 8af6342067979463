// Command plane is a Kubernetes control plane in one process, for tests and
// demonstrations: an embedded etcd, the real kube-apiserver, and the four
// kube-controller-manager controllers that API tests depend on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

const usage = `plane runs etcd, kube-apiserver and the garbage collection, namespace,
service account and root CA controllers in one process, on 127.0.0.1 only.

Usage:
  plane -dir DIR [flags]

It writes into DIR and then waits for SIGTERM or SIGINT:
  ready             written last, holds the process id; removed when stopping
  kubeconfig        an administrator's client configuration
  token, ca.crt     the same administrator as a bearer token, and the CA
  webhook.crt|key   a loopback serving certificate for webhooks, signed by ca.crt

A second start on the same DIR keeps certificates and data.

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage.

Flags:
`

// settings is the parsed command line.
type settings struct {
	dir         string
	port        int
	etcdPort    int
	controllers bool
	gcPeriod    time.Duration
	fresh       bool
	verbosity   int
	auditLog    string
	stdin       bool
	extra       list
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// kube-apiserver redirects the standard logger into klog, so keep our own.
var out = log.New(os.Stderr, "plane: ", log.Ltime|log.Lmicroseconds)

func main() {
	start := time.Now()
	set, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "plane: %v (plane -h lists the flags)\n", err)
		os.Exit(2)
	}
	spendMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if set.stdin {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			out.Print("stdin was closed, stopping")
			stop()
		}()
	}
	if err := run(ctx, set, start); err != nil && ctx.Err() == nil {
		out.Fatal(err)
	}
}

// spendMemory trades memory for time: the heap of an almost empty server is so
// small that it is collected several times a second, on the cores that the
// program under test needs. GOGC, where it is set, wins.
func spendMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("plane", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&s.dir, "dir", "", "data `directory`: certificates, etcd data, kubeconfig (required)")
	f.IntVar(&s.port, "port", 0, "secure `port` of the API server (0: a free one)")
	f.IntVar(&s.etcdPort, "etcd-port", 0, "client `port` of etcd (0: a free one)")
	f.BoolVar(&s.controllers, "controllers", true, "run the garbage collector, namespace, service account and root CA controllers")
	f.DurationVar(&s.gcPeriod, "gc-sync-period", 2*time.Second, "how often the garbage collector looks for new kinds")
	f.BoolVar(&s.fresh, "fresh", false, "delete the etcd data before starting")
	f.IntVar(&s.verbosity, "v", 0, "verbosity of the API server's log")
	f.StringVar(&s.auditLog, "audit-log", "", "write one JSON line per request (metadata only) to this `file`")
	f.BoolVar(&s.stdin, "exit-with-stdin", false, "stop when standard input is closed, so that the process dies with its parent")
	f.Var(&s.extra, "apiserver-arg", "one more kube-apiserver `flag`, repeatable, e.g. --apiserver-arg=--feature-gates=X=true")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stderr, usage)
		f.SetOutput(stderr)
		f.PrintDefaults()
		return s, err
	case err != nil:
		return s, err
	case f.NArg() > 0:
		return s, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case s.dir == "":
		return s, errors.New("-dir is required")
	case s.port < 0 || s.port > 65535:
		return s, fmt.Errorf("-port %d is not a port", s.port)
	case s.etcdPort < 0 || s.etcdPort > 65535:
		return s, fmt.Errorf("-etcd-port %d is not a port", s.etcdPort)
	case s.gcPeriod <= 0:
		return s, fmt.Errorf("-gc-sync-period %s must be longer than nothing", s.gcPeriod)
	}
	for _, a := range s.extra {
		if !strings.HasPrefix(a, "--") {
			return s, fmt.Errorf("-apiserver-arg %q must be a flag that starts with --", a)
		}
	}
	return s, nil
}

func run(ctx context.Context, set settings, start time.Time) error {
	d, err := filepath.Abs(set.dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d, 0o700); err != nil {
		return err
	}
	p := func(name string) string { return filepath.Join(d, name) }
	if err := os.Remove(p("ready")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if set.fresh {
		if err := os.RemoveAll(p("etcd")); err != nil {
			return err
		}
	}
	if set.port, err = portOr(set.port); err != nil {
		return err
	}
	if set.etcdPort, err = portOr(set.etcdPort); err != nil {
		return err
	}
	if err := writePKI(p); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	if err := writeKubeconfig(p, set.port); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}

	store, endpoint, err := startEtcd(p("etcd"), set.etcdPort)
	if err != nil {
		return err
	}
	defer store.Close()
	out.Printf("etcd ready after %s at %s", since(start), endpoint)

	done, err := startAPIServer(ctx, set, p, endpoint)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	if err := waitReady(ctx, done, p("ca.crt"), set.port); err != nil {
		return err
	}
	out.Printf("kube-apiserver ready after %s at https://127.0.0.1:%d", since(start), set.port)

	if set.controllers {
		if err := startControllers(ctx, p("kubeconfig"), p("ca.crt"), set.gcPeriod); err != nil {
			return fmt.Errorf("controllers: %w", err)
		}
	}
	if err := os.WriteFile(p("ready"), fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		return err
	}
	out.Printf("READY after %s, kubeconfig %s", since(start), p("kubeconfig"))

	select {
	case err := <-done:
		return fmt.Errorf("kube-apiserver stopped: %w", err)
	case err := <-store.Err():
		return fmt.Errorf("etcd stopped: %w", err)
	case <-ctx.Done():
	}
	_ = os.Remove(p("ready"))
	select { // a graceful stop, but it never hangs a test run
	case <-done:
	case <-time.After(5 * time.Second):
	}
	out.Print("stopped")
	return nil
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
