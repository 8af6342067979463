package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"
)

// pair is a certificate with its key.
type pair struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// writePKI makes every certificate, key and token the server needs. A
// directory that has them already keeps them: a restart must not lock out
// clients that hold the old ones. tokens.csv comes last and marks a full set.
func writePKI(p func(string) string) error {
	if _, err := os.Stat(p("tokens.csv")); err == nil {
		return nil
	}
	loopback := net.IPv4(127, 0, 0, 1)
	ca, err := issue(p("ca"), &x509.Certificate{
		Subject:               pkix.Name{CommonName: "plane-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil)
	if err != nil {
		return err
	}
	leaves := map[string]*x509.Certificate{
		"apiserver": {
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
			IPAddresses: []net.IP{loopback, net.IPv4(10, 96, 0, 1)},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"webhook": {
			Subject:     pkix.Name{CommonName: "webhook"},
			DNSNames:    []string{"localhost"},
			IPAddresses: []net.IP{loopback},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"admin": {
			Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
	}
	for name, template := range leaves {
		if _, err := issue(p(name), template, ca); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if _, err := issue(p("sa"), &x509.Certificate{Subject: pkix.Name{CommonName: "service-accounts"}}, nil); err != nil {
		return err
	}
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	token := hex.EncodeToString(secret)
	if err := os.WriteFile(p("token"), []byte(token), 0o600); err != nil {
		return err
	}
	return os.WriteFile(p("tokens.csv"), []byte(token+",admin,admin,\"system:masters\"\n"), 0o600)
}

// issue writes base.crt and base.key: signed by ca, or by itself without one.
func issue(base string, t *x509.Certificate, ca *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, err
	}
	t.NotBefore = time.Now().Add(-time.Hour)
	t.NotAfter = time.Now().AddDate(10, 0, 0)
	if t.KeyUsage == 0 {
		t.KeyUsage = x509.KeyUsageDigitalSignature
	}
	signer := &pair{key: key, cert: t}
	if ca != nil {
		signer = ca
	}
	der, err := x509.CreateCertificate(rand.Reader, t, signer.cert, &key.PublicKey, signer.key)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := writePEM(base+".key", "EC PRIVATE KEY", keyDER, 0o600); err != nil {
		return nil, err
	}
	if err := writePEM(base+".crt", "CERTIFICATE", der, 0o644); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &pair{key: key, cert: cert}, err
}

func writePEM(file, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

func writeKubeconfig(p func(string) string, port int) error {
	text := fmt.Sprintf(`apiVersion: v1
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
	return os.WriteFile(p("kubeconfig"), []byte(text), 0o600)
}
