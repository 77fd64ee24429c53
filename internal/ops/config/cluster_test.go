package config

import (
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/gateway"
)

// TestCluster checks the table [cluster]: its settings, and the mistakes that it may have.
func TestCluster(t *testing.T) {
	const valid = "[cluster]\nname = \"c\"\nnats = [\"nats://127.0.0.1:4222\"]\n"
	read := func(text string) (gateway.Cluster, error) {
		var c mainFile
		doc, err := decode("/etc/rueda.toml", []byte(text), &c)
		if err != nil {
			t.Fatal(err)
		}
		c.checkCluster(doc)
		return c.cluster(doc), doc.err()
	}
	got, err := read(valid + "node = \"n1\"\nrole = \"edge\"\ncredentials = \"node.creds\"\nlease = \"3s\"\nreplicas = 3\nnew = true\n")
	if err != nil || got.Name != "c" || got.Node != "n1" || got.Role != "edge" || got.Credentials != "/etc/node.creds" || got.Lease != 3*time.Second || got.Replicas != 3 || !got.New || len(got.NATS) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for text, want := range map[string]bool{valid: true, valid + "[database]\nurl_env = \"URL\"\n": false, "": false} {
		var c mainFile
		doc, err := decode("/etc/rueda.toml", []byte(text), &c)
		if err != nil {
			t.Fatal(err)
		}
		if c.checkCluster(doc); strings.Contains(strings.Join(doc.warnings, "\n"), "[database] has no address") != want {
			t.Errorf("%q: %q", text, doc.warnings)
		}
	}
	if got, err := read(""); err != nil || got.Name != "" {
		t.Errorf("without a cluster: %+v, %v", got, err)
	}
	for text, want := range map[string]string{
		"[cluster]\nname = \"c\"":                                      "nats is missing",
		"[cluster]\nname = \"a b\"\nnats = [\"nats://h:1\"]":           `cluster.name: "a b" must have 1 to 32 letters`,
		"[cluster]\nnats = [\"nats://h:1\"]":                           `cluster.name: ""`,
		"[cluster]\nname = \"c\"\nnats = [\"h:4222\"]":                 `"h:4222" is not like nats://`,
		"[cluster]\nname = \"c\"\nnats = [\"nats://u:secret@h:4222\"]": "a password belongs into the file",
		valid + "role = \"edges\"":                                     `cluster.role: "edges" is not one of all, sequencer, edge`,
		valid + "replicas = 2":                                         "cluster.replicas: must be 1, 3 or 5",
		valid + "lease = \"100ms\"":                                    "cluster.lease: must be from 500ms to 1m0s",
		valid + "certificate = \"a\"":                                  "certificate and key go together",
		valid + "node = \"n.1\"":                                       `cluster.node: "n.1" must have`,
		valid + "[journal]\nenabled = false":                           "journal.enabled is false",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}
