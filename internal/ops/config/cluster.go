package config

import (
	"strings"
	"time"

	"github.com/ruedahq/rueda/gateway"
)

// clusterConfig is the table [cluster].
type clusterConfig struct {
	Name        string   `toml:"name"`
	Node        string   `toml:"node"`
	Role        string   `toml:"role"`
	NATS        []string `toml:"nats"`
	Credentials string   `toml:"credentials"`
	CA          string   `toml:"ca"`
	Certificate string   `toml:"certificate"`
	Key         string   `toml:"key"`
	Replicas    int      `toml:"replicas"`
	Bytes       size     `toml:"bytes"`
	Age         duration `toml:"age"`
	Lease       duration `toml:"lease"`
	New         bool     `toml:"new"`
}

// Bounds of the lease.
const (
	shortestLease = duration(500 * time.Millisecond)
	longestLease  = duration(time.Minute)
)

// nodeLetters are the characters of the names of clusters and nodes.
const nodeLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// checkCluster finds mistakes in the table [cluster].
func (c *mainFile) checkCluster(doc *document) {
	x := &c.Cluster
	if x.Name == "" && len(x.NATS) == 0 && x.Role == "" {
		return
	}
	for key, value := range map[string]string{"name": x.Name, "node": x.Node} {
		if key == "name" && value == "" || len(value) > 32 || strings.Trim(value, nodeLetters) != "" {
			doc.wrong("cluster."+key, "%q must have 1 to 32 letters, digits, - or _", value)
		}
	}
	switch x.Role {
	case "", "all", "sequencer", "edge":
	default:
		doc.notOneOf("cluster.role", x.Role, []string{"all", "sequencer", "edge"})
	}
	if len(x.NATS) == 0 {
		doc.wrong("cluster", "nats is missing: the addresses of the NATS servers, such as [\"nats://10.0.0.1:4222\"]")
	}
	for _, url := range x.NATS {
		if !strings.HasPrefix(url, "nats://") && !strings.HasPrefix(url, "tls://") || strings.ContainsAny(url, ", @") {
			doc.wrong("cluster.nats", "%q is not like nats://10.0.0.1:4222 or tls://nats.broker.example:4222; a password belongs into the file that credentials names", url)
		}
	}
	if (x.Certificate == "") != (x.Key == "") {
		doc.wrong("cluster", "certificate and key go together")
	}
	if x.Replicas != 0 && x.Replicas != 1 && x.Replicas != 3 && x.Replicas != 5 {
		doc.wrong("cluster.replicas", "must be 1, 3 or 5")
	}
	if x.Lease != 0 && (x.Lease < shortestLease || x.Lease > longestLease) {
		doc.wrong("cluster.lease", "must be from %v to %v", time.Duration(shortestLease), time.Duration(longestLease))
	}
	if d := &c.Database; !(secretSource{d.URLFile, d.URLEnv, d.URLCommand}).exists() {
		doc.warn("cluster", "[database] has no address: users, logins, keys and limits are in a file, which all nodes of the cluster must share on this machine; see docs/cluster.md")
	}
	if e := c.Journal.Enabled; e != nil && !*e {
		doc.wrong("cluster", "a node of a cluster keeps its rows in the journal, and journal.enabled is false")
	}
}

// cluster returns the settings of the cluster.
func (c *mainFile) cluster(doc *document) gateway.Cluster {
	x := &c.Cluster
	if x.Name == "" {
		return gateway.Cluster{}
	}
	return gateway.Cluster{
		Name: x.Name, Node: x.Node, Role: x.Role, NATS: x.NATS, Credentials: doc.relative(x.Credentials), Authorities: doc.relative(x.CA),
		Certificate: doc.relative(x.Certificate), Key: doc.relative(x.Key),
		Replicas: x.Replicas, Bytes: int64(x.Bytes), Age: time.Duration(x.Age), Lease: time.Duration(x.Lease), New: x.New,
	}
}
