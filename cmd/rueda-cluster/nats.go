package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// servers are NATS servers of this process, with JetStream.
type servers []*server.Server

// serversConfig configures servers.
type serversConfig struct {
	folder     string        // each server has its own folder in it
	nodes      int           // 1 or 3
	sync       time.Duration // sync_interval of JetStream; 0: its default of two minutes
	syncAlways bool          // each message is synced before its acknowledgement

	permissions *server.Permissions // of each connection; nil: all
}

// startServers starts NATS servers on free ports of the loopback interface. They form a cluster if
// there are several. The caller stops them.
func startServers(c serversConfig) (_ servers, err error) {
	var list servers
	defer func() {
		if err != nil {
			list.stop()
		}
	}()
	var routes []*url.URL
	var ports []int
	if c.nodes > 1 {
		if ports, err = freePorts(c.nodes); err != nil {
			return nil, err
		}
		for _, p := range ports {
			routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(p))})
		}
	}
	for i := range c.nodes {
		o := &server.Options{
			ServerName: fmt.Sprintf("nats-%d", i+1), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(c.folder, fmt.Sprintf("nats-%d", i+1)),
			JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 16 << 30,
			SyncInterval: c.sync, SyncAlways: c.syncAlways, MaxPayload: 1 << 20,
		}
		if c.permissions != nil {
			o.Users, o.NoAuthUser = []*server.User{{Username: "node", Permissions: c.permissions}}, "node"
		}
		if c.nodes > 1 {
			o.Cluster = server.ClusterOpts{Name: "rueda-dev", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = routes
		}
		s, err := server.NewServer(o)
		if err != nil {
			return nil, fmt.Errorf("nats-server: %w", err)
		}
		list = append(list, s)
		s.Start()
	}
	return list, list.await(30 * time.Second)
}

// await waits until the servers accept connections and JetStream has a leader.
func (l servers) await(limit time.Duration) error {
	until := time.Now().Add(limit)
	for _, s := range l {
		if !s.ReadyForConnections(time.Until(until)) {
			return errors.New("nats-server has not started in time")
		}
	}
	for len(l) > 1 && !l.hasLeader() {
		if time.Now().After(until) {
			return errors.New("the NATS servers have not chosen a leader in time")
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// hasLeader reports whether JetStream of the servers has a leader and all peers.
func (l servers) hasLeader() bool {
	for _, s := range l {
		if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(l) {
			return true
		}
	}
	return false
}

// url returns the addresses of the servers, separated by commas.
func (l servers) url() string {
	var list []string
	for _, s := range l {
		list = append(list, s.ClientURL())
	}
	return strings.Join(list, ",")
}

// stop ends the servers.
func (l servers) stop() {
	for _, s := range l {
		s.Shutdown()
	}
	for _, s := range l {
		s.WaitForShutdown()
	}
}

// freePorts chooses from ports below the ephemeral ports (32768 and above by default on Linux).
// Otherwise an outgoing connection could take the port of a process that restarts.
const firstPort, portCount = 15000, 15000

// freePorts returns n different ports of 127.0.0.1 on which no process listens.
func freePorts(n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(portCount)))
		if err != nil {
			if tries >= portCount {
				return nil, fmt.Errorf("find a free port: %w", err)
			}
			continue
		}
		defer func() { _ = l.Close() }() // all at the end, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
