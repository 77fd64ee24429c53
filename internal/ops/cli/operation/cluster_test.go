package operation

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// node serves the pages of a node of a cluster. cluster is the answer of GET /admin/cluster; "": a
// version without this route.
func node(t *testing.T, cluster string) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "# HELP x\nrueda_build_info{version=\"9\"} 1\nrueda_cluster_connected 1\n")
	})
	mux.HandleFunc("GET /admin/cluster", func(w http.ResponseWriter, _ *http.Request) {
		if cluster == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, `{"success":true,"data":`+cluster+`}`)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// TestStatusOfNode checks what status prints about a node of a cluster.
func TestStatusOfNode(t *testing.T) {
	t.Parallel()
	const follows = `{"name":"main","node":"edge-1","role":"edge","connected":true,"current":true,"complete":true,"leads":false,"leader":"seq-2",` +
		`"lease_seconds":2,"lease_age_seconds":0.25,"epoch":"c1a2b3","term":3,"position":1200,"messages":90,"behind_messages":4,"lag_seconds":0.012,"queued_bytes":0,"days_missing":0,` +
		`"nodes":[{"name":"edge-2","clients":true,"complete":false,"epoch":"c1a2b3","term":3,"position":1100,"behind_rows":100,"age_seconds":0.5},` +
		`{"name":"seq-2","clients":false,"complete":true,"epoch":"c1a2b3","term":3,"position":1200,"behind_rows":0,"age_seconds":0.1}]}`
	change := strings.NewReplacer(`"leads":false,"leader":"seq-2"`, `"leads":true,"leader":"edge-1"`, `"queued_bytes":0`, `"queued_bytes":2048`)
	for _, c := range []struct {
		name, answer string
		want         []string
	}{
		{"a follower", follows, []string{
			"cluster main  node edge-1, role edge: connected, current\n", "sequencer     seq-2, term 3, lease renewed 250ms ago (lasts 2s)\n",
			"log           epoch c1a2b3, position 1200, 4 messages behind, newest batch 12ms old\n",
			"node edge-2   serves clients, may lack rows, term 3, position 1100, 100 rows behind, heard 500ms ago\n",
			"node seq-2    holds the lease, term 3, position 1200, 0 rows behind, heard 100ms ago\n",
		}},
		{"the sequencer", change.Replace(follows), []string{"sequencer     this node, term 3, lease renewed 250ms ago (lasts 2s), 2.0 KiB wait for the log\n"}},
		{"one without a sequencer", strings.Replace(follows, `"leader":"seq-2"`, `"leader":""`, 1), []string{"sequencer     NONE, term 3\n"}},
		{"one that waits before it leads", strings.Replace(follows, `"days_missing":0`, `"days_missing":0,"awaited":["edge-3","edge-4"]`, 1),
			[]string{"sequencer     NONE: this node holds the lease, and waits for edge-3, edge-4\n"}},
		{"one whose sequencer waits", strings.NewReplacer(`"current":true`, `"current":false`, `"behind_messages":4`, `"behind_messages":0`).Replace(follows),
			[]string{"sequencer     NONE: seq-2 holds the lease, and its newest batch is 12ms old; its log says what it waits for\n"}},
		{"one that cannot append", strings.NewReplacer(`"current":true`, `"current":false`, `"behind_messages":4`, `"behind_messages":0`, `"leader":"seq-2"`, `"leader":"edge-1"`).Replace(follows),
			[]string{"sequencer     NONE: this node holds the lease and does not number yet; GET /readyz says why\n"}},
		{"one whose sequencer has ended", strings.NewReplacer(`"current":true`, `"current":false`, `"behind_messages":4`, `"behind_messages":0`, `"lease_age_seconds":0.25`, `"lease_age_seconds":3`,
			`"age_seconds":0.1`, `"age_seconds":12`).Replace(follows), []string{
			"sequencer     NONE: seq-2 has not renewed its lease for 3s; it lasts 2s\n", "node seq-2    AWAY; holds the lease, term 3",
		}},
		{"one that is cut off", strings.Replace(follows, `"connected":true,"current":true,"complete":true`, `"connected":false,"current":false,"complete":false`, 1),
			[]string{"role edge: NOT CONNECTED to the log, NOT CURRENT, may lack rows\n"}},
		{"a new one", strings.Replace(follows, `"days_missing":0`, `"days_missing":3,"days_problem":"no node","waits":"copying"`, 1), []string{
			"earlier days  3 are still to be copied from other nodes\n                no node\n", "not ready     copying\n",
		}},
		{"an older version", "", []string{"cluster      a node of an older version"}},
	} {
		url, file := node(t, c.answer), writeFile(t, token)
		status, out, errs := execute(t, "status", "--admin", url, "--token-file", file, "--every", "100ms")
		if status != command.ExitOK {
			t.Errorf("%s: %d %s", c.name, status, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: status does not print %q:\n%s", c.name, want, out)
			}
		}
		status, out, errs = execute(t, "status", "--admin", url, "--token-file", file, "--every", "100ms", "--output", "json")
		var answer struct {
			Version string
			Cluster json.RawMessage
		}
		if err := json.Unmarshal([]byte(out), &answer); err != nil || status != command.ExitOK || answer.Version != "9" || string(answer.Cluster) != c.answer {
			t.Errorf("%s in JSON: %v, %d %s\n%s", c.name, err, status, errs, out)
		}
	}
}

// TestDoctorOfNode checks what doctor prints about a node of a cluster.
func TestDoctorOfNode(t *testing.T) {
	t.Parallel()
	const connected, current, term, lag, queued, days = "rueda_cluster_connected", "rueda_cluster_current", "rueda_cluster_term", "rueda_cluster_lag_seconds", "rueda_cluster_queued_bytes", "rueda_cluster_days_differ"
	for _, c := range []struct {
		name    string
		metrics map[string]float64
		want    []finding
	}{
		{"a node that is well", map[string]float64{connected: 1, current: 1, term: 3, lag: 0.012, queued: 2048, days: 0}, []finding{
			{what: "cluster: connected to the log 1"}, {what: "cluster: current 1, term 3, newest batch 12ms ago"}, {what: "cluster: 2.0 KiB of rows wait for the log"},
			{what: "cluster: 0 closed days differ from those of other nodes"},
		}},
		{"a new one", map[string]float64{"rueda_cluster_days_missing": 3, days: 0}, []finding{
			{what: "cluster: 3 earlier days are still to be copied"}, {what: "cluster: 0 closed days"},
		}},
		{"one that is cut off", map[string]float64{connected: 0, current: 0, days: 0}, []finding{
			{what: "cluster: connected to the log 0", next: "See whether nats-server runs"}, {what: "cluster: 0 closed days"},
		}},
		{"one without a sequencer, with a wrong day and a full queue", map[string]float64{connected: 1, current: 0, term: 3, lag: 90, queued: 5 << 20, days: 1}, []finding{
			{what: "cluster: connected to the log 1"}, {what: "cluster: current 0, term 3, newest batch 2m ago", next: "rueda status says"},
			{what: "cluster: 5.0 MiB of rows", next: "Feeds wait"}, {what: "cluster: 1 closed days", next: "The log has the day"},
		}},
		{"a gateway without a cluster", nil, nil},
	} {
		var p page
		for name, value := range c.metrics {
			p.samples = append(p.samples, sample{name: name, value: value})
		}
		var got []finding
		examineCluster(&p, func(bad bool, next, format string, args ...any) {
			if !bad {
				next = ""
			}
			got = append(got, finding{what: fmt.Sprintf(format, args...), next: next})
		})
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v", c.name, got)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(got[i].what, want.what) || !strings.HasPrefix(got[i].next, want.next) || (got[i].next == "") != (want.next == "") {
				t.Errorf("%s: %+v, want %+v", c.name, got[i], want)
			}
		}
	}
}

// TestStatusOfLyingNode checks answers that no gateway gives.
func TestStatusOfLyingNode(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no object": `[1]`, "another type": `{"term":"3"}`, "none": `null`,
		"control characters": `{"name":"\u001b]0;owned\u0007","node":"\u009b2J","nodes":[{"name":"n\u009b"}]}`,
	} {
		for _, format := range []string{"table", "json"} {
			status, out, errs := execute(t, "status", "--admin", node(t, answer), "--token-file", writeFile(t, token), "--every", "100ms", "-o", format)
			if strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Errorf("%s: %q", name, out)
			}
			if wrong := name != "control characters"; wrong != (status == command.ExitError && strings.Contains(errs, "another program has this address")) {
				t.Errorf("%s: %d %s", name, status, errs)
			}
		}
	}
}
