package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs a single etcd member and returns once it serves.
func startEtcd(dir string, port int) (*embed.Etcd, string, error) {
	peerPort, err := portOr(0)
	if err != nil {
		return nil, "", err
	}
	client, peer := loopback(port), loopback(peerPort)
	c := embed.NewConfig()
	c.Dir = dir
	c.LogLevel = "error"
	c.UnsafeNoFsync = true           // a test store: speed over durability
	c.QuotaBackendBytes = 8 << 30    // 100,000 objects with their history outgrow the default of 2 GiB
	c.TickMs, c.ElectionMs = 20, 200 // a single member elects itself at once; the default costs a second
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	c.InitialCluster = c.Name + "=" + peer.String()
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, "", fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, client.String(), nil
	case err = <-e.Err():
	case <-time.After(30 * time.Second):
		err = errors.New("not ready after 30s")
	}
	e.Close()
	return nil, "", fmt.Errorf("etcd: %w", err)
}

func loopback(port int) url.URL {
	return url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
}

// portOr returns the given port, or a free one when it is zero.
func portOr(port int) (int, error) {
	if port != 0 {
		return port, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
