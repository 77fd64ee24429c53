package operation

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ruedahq/rueda/internal/api/adminapi"
)

// status is the state of a gateway, as rueda status prints it. Rates are for each second since the
// page before.
type status struct {
	Version     string  `json:"version"`
	Ready       bool    `json:"ready"`
	Up          float64 `json:"up_seconds"`
	Feeds       []feed  `json:"feeds"`
	Connections struct {
		Live            float64 `json:"live"`
		Unauthenticated float64 `json:"unauthenticated"`
		Blocked         float64 `json:"blocked"`
		Limit           float64 `json:"limit"`
		Opened          float64 `json:"opened_per_second"`
		Closed          float64 `json:"closed_per_second"`
	} `json:"connections"`
	Deliveries struct {
		Messages float64  `json:"messages_per_second"`
		Bytes    float64  `json:"bytes_per_second"`
		Within   *float64 `json:"within_seconds,omitempty"` // 99% of them
	} `json:"deliveries"`
	Backlog struct {
		Bytes       float64 `json:"bytes"`
		Connections float64 `json:"connections"`
	} `json:"backlog"`
	Memory struct {
		Stream      float64 `json:"stream_bytes"`
		StreamLimit float64 `json:"stream_limit_bytes"`
		Process     float64 `json:"process_bytes"`
	} `json:"memory"`
	Journal *journalStatus `json:"journal,omitempty"`
	Logins  struct {
		Answered float64 `json:"answered_per_second"`
		Refused  float64 `json:"refused_per_second"`
	} `json:"logins"`
	Database struct {
		Transactions float64 `json:"transactions_per_second"`
		Failures     float64 `json:"failures"`
	} `json:"database"`
	KeyAge       float64           `json:"signing_key_age_seconds"`
	Certificates []certificateEnd  `json:"certificates"`
	Disks        []disk            `json:"disks"`
	Cluster      *adminapi.Cluster `json:"cluster,omitempty"`

	clusterMetrics bool // the gateway has metrics of a cluster
}

type feed struct {
	Name   string   `json:"name"`
	Up     bool     `json:"up"`
	Events float64  `json:"events_per_second"`
	Newest *float64 `json:"newest_age_seconds,omitempty"` // nil: no event yet
}

type journalStatus struct {
	Suspended bool    `json:"suspended"`
	Days      float64 `json:"days"`
	Bytes     float64 `json:"bytes"`
	Waiting   float64 `json:"waiting_rows"`
}

type certificateEnd struct {
	Listener string  `json:"listener"`
	Ends     float64 `json:"ends_seconds"`
}

type disk struct {
	Folder string  `json:"folder"`
	Free   float64 `json:"free_bytes"`
	Size   float64 `json:"size_bytes"`
}

// newStatus returns the status between two pages.
func newStatus(p, before *page) *status {
	st := &status{
		Version: p.version(), Ready: p.sum("rueda_ready") == 1, Up: p.since(p.sum("process_start_time_seconds")).Seconds(),
		Feeds: []feed{}, Certificates: []certificateEnd{}, Disks: []disk{}, clusterMetrics: len(p.all("rueda_cluster_connected")) > 0,
	}
	for _, f := range p.all("rueda_feed_up") {
		name := f.labels["feed"]
		x := feed{Name: name, Up: f.value == 1, Events: p.rate(before, "rueda_feed_events_total", "feed", name)}
		for _, at := range p.all("rueda_feed_newest_timestamp_seconds", "feed", name) {
			age := p.since(at.value).Seconds()
			x.Newest = &age
		}
		st.Feeds = append(st.Feeds, x)
	}
	c := &st.Connections
	c.Live, c.Unauthenticated = p.sum("rueda_connections", "state", "live"), p.sum("rueda_connections", "state", "unauthenticated")
	c.Blocked, c.Limit = p.sum("rueda_connections", "state", "blocked"), p.sum("rueda_connections_limit")
	c.Opened, c.Closed = p.rate(before, "rueda_connections_opened_total"), p.rate(before, "rueda_connections_closed_total")
	st.Deliveries.Messages, st.Deliveries.Bytes = p.rate(before, "rueda_deliveries_total"), p.rate(before, "rueda_sent_bytes_total")
	if d, ok := p.quantile(before, 0.99, "rueda_delivery_seconds"); ok {
		within := d.Seconds()
		st.Deliveries.Within = &within
	}
	st.Backlog.Bytes, st.Backlog.Connections = p.sum("rueda_backlog_bytes"), p.sum("rueda_backlog_connections")
	st.Memory.Stream, st.Memory.StreamLimit = p.sum("rueda_stream_memory_bytes"), p.sum("rueda_stream_memory_limit_bytes")
	st.Memory.Process = p.sum("process_resident_memory_bytes")
	if len(p.all("rueda_journal_suspended")) > 0 {
		st.Journal = &journalStatus{
			Suspended: p.sum("rueda_journal_suspended") == 1, Days: p.sum("rueda_journal_days"), Bytes: p.sum("rueda_journal_bytes"),
			Waiting: p.sum("rueda_position") - p.sum("rueda_committed_position"),
		}
	}
	st.Logins.Answered = p.rate(before, "rueda_grants_total", "result", "ok")
	st.Logins.Refused = p.rate(before, "rueda_grants_total") - st.Logins.Answered
	st.Database.Transactions, st.Database.Failures = p.rate(before, "rueda_database_transaction_seconds_count"), p.sum("rueda_database_failures_total")
	st.KeyAge = p.sum("rueda_signing_key_age_seconds")
	for _, c := range p.all("rueda_certificate_expires_timestamp_seconds") {
		st.Certificates = append(st.Certificates, certificateEnd{c.labels["listener"], -p.since(c.value).Seconds()})
	}
	for _, d := range p.all("rueda_disk_size_bytes") {
		folder := d.labels["folder"]
		st.Disks = append(st.Disks, disk{folder, p.sum("rueda_disk_free_bytes", "folder", folder), d.value})
	}
	return st
}

// seconds returns a number of seconds for people.
func seconds(n float64) string { return span(time.Duration(min(n, 1e9) * float64(time.Second))) }

// text returns the status as lines for people.
func (st *status) text() string {
	var b strings.Builder
	ready := "not ready"
	if st.Ready {
		ready = "ready"
	}
	fmt.Fprintf(&b, "rueda %s: %s, up %s\n", st.Version, ready, seconds(st.Up))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	for _, f := range st.Feeds {
		state, newest := "down", "no event yet"
		if f.Up {
			state = "up"
		}
		if f.Newest != nil {
			newest = "newest event " + seconds(*f.Newest) + " ago"
		}
		line("feed "+f.Name, "%s, %.0f events/s, %s", state, f.Events, newest)
	}
	c := &st.Connections
	line("connections", "%.0f live, %.0f unauthenticated, %.0f blocked, at most %.0f; %.1f/s opened, %.1f/s closed", c.Live, c.Unauthenticated, c.Blocked, c.Limit, c.Opened, c.Closed)
	delivery := "none"
	if st.Deliveries.Within != nil {
		delivery = "99% within " + seconds(*st.Deliveries.Within)
	}
	line("deliveries", "%.0f/s, %s/s; %s", st.Deliveries.Messages, size(st.Deliveries.Bytes), delivery)
	line("backlog", "%s of %.0f slow clients", size(st.Backlog.Bytes), st.Backlog.Connections)
	line("memory", "stream %s of %s, process %s", size(st.Memory.Stream), size(st.Memory.StreamLimit), size(st.Memory.Process))
	if j := st.Journal; j != nil {
		state := "stores rows"
		if j.Suspended {
			state = "SUSPENDED"
		}
		line("journal", "%s, %.0f days, %s, %.0f rows waiting", state, j.Days, size(j.Bytes), j.Waiting)
	}
	line("logins", "%.1f/s answered, %.1f/s refused", st.Logins.Answered, st.Logins.Refused)
	line("database", "%.1f transactions/s, %.0f failed since the start", st.Database.Transactions, st.Database.Failures)
	line("keys", "signing key %s old", seconds(st.KeyAge))
	for _, c := range st.Certificates {
		line("certificate", "of %s ends in %s", c.Listener, seconds(c.Ends))
	}
	for _, d := range st.Disks {
		line("disk", "of %s: %s free of %s", d.Folder, size(d.Free), size(d.Size))
	}
	st.clusterLines(line)
	_ = t.Flush() // to a buffer
	return b.String()
}

// awayAfter is the age of a report, in seconds, after which a node is away. There are two a second.
const awayAfter = 5

// clusterLines prints the lines of a node of a cluster.
func (st *status) clusterLines(line func(name, format string, args ...any)) {
	c := st.Cluster
	if c == nil {
		if st.clusterMetrics {
			line("cluster", "a node of an older version, which has only metrics of it")
		}
		return
	}
	words := []string{"NOT CONNECTED to the log"}
	if c.Connected {
		words[0] = "connected"
	}
	for _, w := range []struct {
		is, not string
		ok      bool
	}{{"current", "NOT CURRENT", c.Current}, {"", "may lack rows", c.Complete}} {
		if !w.ok {
			words = append(words, w.not)
		} else if w.is != "" {
			words = append(words, w.is)
		}
	}
	line("cluster "+c.Name, "node %s, role %s: %s", c.Node, c.Role, strings.Join(words, ", "))
	if c.Waits != "" {
		line("not ready", "%s", c.Waits)
	}
	switch {
	case c.Leads:
		line("sequencer", "this node, term %d, lease renewed %s ago (lasts %s), %s wait for the log", c.Term, seconds(c.LeaseAge), seconds(c.Lease), size(float64(c.Queued)))
	case len(c.Awaited) > 0:
		line("sequencer", "NONE: this node holds the lease, and waits for %s", strings.Join(c.Awaited, ", "))
	case c.Leader == "":
		line("sequencer", "NONE, term %d", c.Term)
	case c.Connected && !c.Current && c.Behind == 0 && c.Leader == c.Node:
		line("sequencer", "NONE: this node holds the lease and does not number yet; GET /readyz says why")
	case c.Connected && !c.Current && c.Behind == 0 && c.LeaseAge > c.Lease:
		line("sequencer", "NONE: %s has not renewed its lease for %s; it lasts %s", c.Leader, seconds(c.LeaseAge), seconds(c.Lease))
	case c.Connected && !c.Current && c.Behind == 0:
		line("sequencer", "NONE: %s holds the lease, and its newest batch is %s old; its log says what it waits for", c.Leader, seconds(c.Lag))
	default:
		line("sequencer", "%s, term %d, lease renewed %s ago (lasts %s)", c.Leader, c.Term, seconds(c.LeaseAge), seconds(c.Lease))
	}
	line("log", "epoch %s, position %d, %d messages behind, newest batch %s old", c.Epoch, c.Position, c.Behind, seconds(c.Lag))
	if c.DaysMissing > 0 {
		line("earlier days", "%d are still to be copied from other nodes", c.DaysMissing)
		if c.DaysProblem != "" {
			line("", "%s", c.DaysProblem)
		}
	}
	for _, n := range c.Nodes {
		what := "serves no clients"
		switch {
		case n.Clients && n.Name == c.Leader:
			what = "serves clients, holds the lease"
		case n.Clients:
			what = "serves clients"
		case n.Name == c.Leader:
			what = "holds the lease"
		}
		if !n.Complete {
			what += ", may lack rows"
		}
		if n.Age > awayAfter {
			what = "AWAY; " + what
		}
		line("node "+n.Name, "%s, term %d, position %d, %d rows behind, heard %s ago", what, n.Term, n.Position, n.Behind, seconds(n.Age))
	}
}
