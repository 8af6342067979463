package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// One line per request is enough to count requests by user agent; the first
// stage would only count each of them twice.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// startAPIServer runs kube-apiserver in this process. The stock command is not
// used because it installs a signal handler of its own.
func startAPIServer(ctx context.Context, set settings, p func(string) string, etcd string) (<-chan error, error) {
	args := []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", set.port),
		"--endpoint-reconciler-type=none", // a loopback address may not be written into Endpoints
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
		"--cert-dir=" + p("certs"),
		fmt.Sprintf("--v=%d", set.verbosity),
	}
	if set.auditLog != "" {
		if err := os.WriteFile(p("audit-policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--audit-policy-file="+p("audit-policy.yaml"), "--audit-log-path="+set.auditLog)
	}
	args = append(args, set.extra...)

	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	named := s.Flags()
	for _, f := range named.FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	registry := s.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.Set(); err != nil { // feature gates, before anything is completed
		return nil, err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := logsapi.ValidateAndApply(s.Logs, registry.FeatureGateFor(compatibility.DefaultKubeComponent)); err != nil {
		return nil, err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, completed) }()
	return done, nil
}

// waitReady returns when the server says it is ready, or why it never will be.
func waitReady(ctx context.Context, done <-chan error, caFile string, port int) error {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer c.CloseIdleConnections()
	var last string
	for begun := time.Now(); time.Since(begun) < 120*time.Second; {
		select {
		case err := <-done:
			return fmt.Errorf("kube-apiserver stopped: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		r, err := c.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", port))
		if err != nil {
			last = err.Error()
			continue
		}
		body, _ := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return nil
		}
		last = string(body)
	}
	return fmt.Errorf("kube-apiserver not ready after 120s: %s", last)
}
