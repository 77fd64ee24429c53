package metrics

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/histogram"
)

// example returns a snapshot in which each metric has a value.
func example() *Snapshot {
	var h histogram.Histogram
	h.Add(3*time.Millisecond, 4)
	at := time.Unix(1_800_000_000, 0)
	return &Snapshot{
		Version: "1.2.3", Ready: true, Shards: []bool{false, true}, Delivery: h, RequestTime: h, DatabaseTime: h, Panics: 2,
		Clients: Clients{Open: 10, Unauthenticated: 3, Blocked: 2, Limit: 20_000, Opened: 40, Slow: 1, Bytes: 5000,
			Closed: map[string]uint64{"gone": 7, "slow_client": 1}, Backlog: 900, BacklogSessions: 1},
		Requests:    []Requests{{"/auth/token", 200, "", 5}, {"/auth/token", 429, "rate_limited", 1}},
		Grants:      []Count{{[2]string{"password", "ok"}, 5}},
		TokenChecks: []Count{{[2]string{"ok"}, 8}, {[2]string{"invalid_token"}, 1}},
		Feeds:       []Feed{{Name: "byma", Up: true, Events: 100, Newest: at, Suspect: map[string]uint64{"stall": 2}}, {Name: "quiet"}},
		Market: Market{Instruments: 9, Topics: 8, Position: 7, Committed: 6, Memory: 5, MemoryLimit: 50, Commits: h,
			LongestWait: 2 * time.Millisecond, Messages: 4, Deliveries: 40, Conflated: 3, Resumes: 2, Lost: 1},
		Journal:      &Journal{Suspended: true, Days: 3, Bytes: 4096, Rows: 12},
		Cluster:      &Cluster{Connected: true, Leads: true, Current: true, Term: 3, Behind: 2, Queued: 1, Lag: 20 * time.Millisecond, LeaseAge: 300 * time.Millisecond, DaysDiffer: 1, DaysMissing: 4},
		Passwords:    &Passwords{Running: 1, Waiting: 2, Refused: 3, Hashed: 4},
		UserBase:     &UserBase{State: "open", InFlight: 5},
		Keys:         []Key{{State: "signing", Since: time.Now().Add(-time.Hour)}, {State: "published"}},
		Certificates: []Certificate{{"clients", at}},
		Disks:        []Disk{{"data", 1 << 30, 1 << 40}},
	}
}

func scrape(t *testing.T, s *Snapshot) string {
	t.Helper()
	page, err := New(func() *Snapshot { return s }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	body, media := page.Body()
	if !strings.HasPrefix(media, "text/plain; version=0.0.4") {
		t.Errorf("media type %q", media)
	}
	return string(body)
}

func TestPage(t *testing.T) {
	text := scrape(t, example())
	for _, want := range []string{
		`rueda_build_info{version="1.2.3"} 1`,
		`rueda_ready 1`,
		`rueda_shard_stale{shard="1"} 1`,
		`rueda_connections{state="live"} 7`,
		`rueda_connections_closed_total{reason="slow_client"} 1`,
		`rueda_requests_total{reason="rate_limited",route="/auth/token",status="429"} 1`,
		`rueda_grants_total{grant="password",result="ok"} 5`,
		`rueda_feed_up{feed="byma"} 1`,
		`rueda_feed_suspect_total{feed="byma",kind="stall"} 2`,
		`rueda_feed_up{feed="quiet"} 0`,
		`rueda_feed_newest_timestamp_seconds{feed="byma"} 1.8e+09`,
		`rueda_journal_suspended 1`,
		`rueda_user_base_breaker_open 1`,
		`rueda_database_transaction_seconds_bucket{le="0.0025"} 0`,
		`rueda_database_transaction_seconds_bucket{le="0.005"} 4`,
		`rueda_database_transaction_seconds_count 4`,
		`rueda_database_transaction_seconds_sum 0.012`,
		`rueda_keys{state="published"} 1`,
		`rueda_certificate_expires_timestamp_seconds{listener="clients"} 1.8e+09`,
		"go_goroutines ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	for _, f := range families() {
		if !strings.Contains(text, "\n# TYPE "+f.name+" "+string(f.kind)+"\n") {
			t.Errorf("no value of %s, or another type", f.name)
		}
	}
	if strings.Contains(text, `feed="quiet"} -`) {
		t.Error("a feed without events has a time")
	}
}

// TestPageOfNothing checks that a gateway without journal, feeds and certificates can be scraped.
func TestPageOfNothing(t *testing.T) {
	text := scrape(t, &Snapshot{})
	if !strings.Contains(text, "\nrueda_ready 0\n") || strings.Contains(text, "rueda_journal_suspended") {
		t.Errorf("%.400s", text)
	}
}

// TestNames checks the names of metrics by the rules of Prometheus.
func TestNames(t *testing.T) {
	name := regexp.MustCompile(`^rueda_[a-z]+(_[a-z]+)*$`)
	units := []string{"_seconds", "_bytes", "_total", "_info"}
	var seen []string
	for _, f := range families() {
		if !name.MatchString(f.name) || slices.Contains(seen, f.name) {
			t.Errorf("%s is not a name, or there are two", f.name)
		}
		seen = append(seen, f.name)
		if total := strings.HasSuffix(f.name, "_total"); total != (f.kind == counter) {
			t.Errorf("%s is a %s", f.name, f.kind)
		}
		if f.kind == durations && !strings.HasSuffix(f.name, "_seconds") {
			t.Errorf("%s has no unit of %v", f.name, units)
		}
		if f.help == "" || !strings.HasSuffix(f.help, ".") || f.action != "" && !strings.HasSuffix(f.action, ".") {
			t.Errorf("%s: meaning and action are sentences", f.name)
		}
		if strings.ContainsAny(f.help+f.action, "|\n") {
			t.Errorf("%s: its text breaks the table", f.name)
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	s := example()
	for i := range 100 {
		s.Requests = append(s.Requests, Requests{Route: fmt.Sprint(i), Status: 200, N: 1})
	}
	page, err := New(func() *Snapshot { return s }, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		page.Body()
	}
}
