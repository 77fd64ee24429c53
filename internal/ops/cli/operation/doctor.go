package operation

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
)

// NewDoctor returns the command doctor.
func NewDoctor(std command.Streams) *cobra.Command {
	var s source
	out := output.Options{Piped: output.Table}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a running gateway: clock, disk, keys, certificates, feeds",
		Long: `Doctor reads the metrics of a gateway and prints what it has checked, with the next step for each
problem. The exit status is 8 if there is one. It needs the token of an operator; the role read is
enough.`,
		Example: "  rueda doctor --token-file /etc/rueda/ana.token\n  rueda doctor --token-file /etc/rueda/ana.token -o csv",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := out.Open(std, "result", "check", "next")
			if err != nil {
				return err
			}
			if err := s.open("read"); err != nil {
				return err
			}
			p, err := s.page(cmd.Context())
			if err != nil {
				return err
			}
			warnVersion(std.Err, p)
			problems := 0
			for _, f := range examine(p) {
				if f.next != "" {
					problems++
				}
				if out.Format(std) == output.Table {
					err = f.write(std)
				} else {
					err = w.Row(f.row(), f.result(), f.what, f.next)
				}
				if err != nil {
					return err
				}
			}
			if out.Format(std) != output.Table {
				if err := w.Close(); err != nil {
					return err
				}
			}
			if problems > 0 {
				return command.Fail(command.ExitBadData, errors.New(command.Count(problems, "problem")+" found"), "")
			}
			return nil
		},
	}
	s.flags(cmd)
	out.Flags(cmd)
	return cmd
}

// finding is the result of a check.
type finding struct {
	what, next string // next is what to do; "": no problem
	follows    bool   // from a problem that has its own finding
}

// result returns ok or FAIL, or "" for what follows from a problem.
func (f *finding) result() string {
	switch {
	case f.next != "":
		return "FAIL"
	case f.follows:
		return ""
	}
	return "ok"
}

// row returns the finding for JSON.
func (f *finding) row() any {
	return struct {
		Result string `json:"result"`
		Check  string `json:"check"`
		Next   string `json:"next,omitempty"`
	}{f.result(), f.what, f.next}
}

// write prints the finding for people, with the next step on a line of its own.
func (f *finding) write(std command.Streams) error {
	text := fmt.Sprintf("%-4s  %s\n", f.result(), command.Printable(f.what))
	if f.next != "" {
		text += "      " + f.next + "\n"
	}
	_, err := io.WriteString(std.Out, text)
	return err
}

// Bounds of the checks.
const (
	maxClockOff    = 2 * time.Second // the gateway's time has whole seconds
	maxSilence     = time.Minute
	leastFree      = 0.1
	mostQueued     = 4 << 20 // bytes of rows that wait for the log of a cluster
	mostUsed       = 0.8
	leastUntilEnds = 14 * 24 * time.Hour
)

// examine returns the results of all checks.
func examine(p *page) (list []finding) {
	check := func(bad bool, next, format string, args ...any) {
		if !bad {
			next = ""
		}
		list = append(list, finding{what: fmt.Sprintf(format, args...), next: next})
	}
	if p.sum("rueda_ready") != 1 && len(p.all("rueda_feed_up")) > 0 && p.sum("rueda_feed_up") == 0 {
		list = append(list, finding{what: "gateway: not ready, because no feed is up", follows: true})
	} else {
		check(p.sum("rueda_ready") != 1, "GET /readyz says why, for example that the gateway starts or stops.", "gateway: ready %.0f", p.sum("rueda_ready"))
	}
	if !p.clock.IsZero() {
		off := p.at.Sub(p.clock).Abs()
		check(off > maxClockOff, "Synchronise the clocks of both machines with NTP.", "clock: that of the gateway is within %s of this one", span(max(off, time.Second).Round(time.Second)))
	}
	if limit := p.sum("process_max_fds"); limit > 0 {
		used := p.sum("process_open_fds") / limit
		check(used > mostUsed, "Raise LimitNOFILE together with limits.sockets and limits.requests.", "descriptors: %.0f%% used", 100*used)
	}
	if limit := p.sum("rueda_connections_limit"); limit > 0 {
		used := (p.sum("rueda_connections", "state", "live") + p.sum("rueda_connections", "state", "unauthenticated")) / limit
		check(used > mostUsed, "Raise limits.sockets, or add a gateway.", "connections: %.0f%% used", 100*used)
	}
	check(p.sum("rueda_stream_memory_relief") > 0, "Raise stream.memory, or find the clients that read slowly.", "memory of the stream: relief step %.0f", p.sum("rueda_stream_memory_relief"))
	for _, d := range p.all("rueda_disk_size_bytes") {
		free := p.sum("rueda_disk_free_bytes", "folder", d.labels["folder"]) / max(1, d.value)
		check(free < leastFree, "Lower journal.days or journal.bytes, or enlarge the disk.", "disk of %s: %.0f%% free", d.labels["folder"], 100*free)
	}
	examineFeeds(p, check)
	examineCluster(p, check)
	for _, j := range p.all("rueda_journal_suspended") {
		check(j.value == 1, "Its disk is full or fails. Free space; the gateway retries by itself.", "journal: suspended %.0f", j.value)
	}
	check(p.sum("rueda_database_failures_total") > 0, "The log has the cause: login not stored, audit log not written. If the log has no cause, PostgreSQL cannot be reached.", "database: %.0f transactions or polls have failed since the start", p.sum("rueda_database_failures_total"))
	for _, b := range p.all("rueda_user_base_breaker_open") {
		check(b.value == 1, "Repair the user base; the gateway retries by itself.", "user base: circuit breaker open %.0f", b.value)
	}
	check(len(p.all("rueda_keys", "state", "signing")) == 0, "See rueda keys list and the log.", "keys: %.0f that sign, %s old", p.sum("rueda_keys", "state", "signing"),
		span(time.Duration(p.sum("rueda_signing_key_age_seconds"))*time.Second))
	for _, c := range p.all("rueda_certificate_expires_timestamp_seconds") {
		left := -p.since(c.value)
		check(left < leastUntilEnds, "Renew it. The gateway reads changed files again.", "certificate of %s: ends in %s", c.labels["listener"], span(left))
	}
	check(p.sum("rueda_panics_total") > 0, "Report the stack in the log: session panicked, request handler panicked.", "panics: %.0f since the start", p.sum("rueda_panics_total"))
	return list
}

// examineFeeds checks the feeds.
func examineFeeds(p *page, check func(bad bool, next, format string, args ...any)) {
	for _, f := range p.all("rueda_feed_up") {
		feed := f.labels["feed"]
		check(f.value != 1, "The log has the cause: feed failed, or producer disconnected. The gateway starts a failed feed again by itself.", "feed %s: up %.0f", feed, f.value)
		for _, at := range p.all("rueda_feed_newest_timestamp_seconds", "feed", feed) {
			age := p.since(at.value)
			if f.value != 1 {
				break // one finding for one cause: it is silent because it is down
			}
			check(age > maxSilence, "If its markets are open now, the source is silent: ask its operator.", "feed %s: newest event %s ago", feed, span(age))
		}
		refused := p.sum("rueda_feed_refused_total", "feed", feed)
		check(refused > 0, "The log has the first error: feed published rejected events.", "feed %s: %.0f calls with invalid events", feed, refused)
	}
}

// examineCluster checks a node of a cluster.
func examineCluster(p *page, check func(bad bool, next, format string, args ...any)) {
	for _, c := range p.all("rueda_cluster_connected") {
		check(c.value != 1, "See whether nats-server runs on its machines. The log of this node has the cause: no connection to the log of the cluster.", "cluster: connected to the log %.0f", c.value)
		if c.value != 1 {
			continue // it cannot be current
		}
		current, lag := p.sum("rueda_cluster_current"), time.Duration(p.sum("rueda_cluster_lag_seconds")*float64(time.Second))
		check(current != 1, "rueda status says whether no node is the sequencer, or this node is behind.", "cluster: current %.0f, term %.0f, newest batch %s ago", current, p.sum("rueda_cluster_term"), span(max(0, lag)))
		queued := p.sum("rueda_cluster_queued_bytes")
		check(queued > mostQueued, "Feeds wait: the disks or the network of the NATS servers are too slow.", "cluster: %s of rows wait for the log", size(queued))
	}
	if n := p.sum("rueda_cluster_days_missing"); n > 0 {
		check(false, "", "cluster: %.0f earlier days are still to be copied; requests that need them are refused", n)
	}
	for _, d := range p.all("rueda_cluster_days_differ") {
		check(d.value > 0, "The log has the day and the next step: a closed day of the journal differs between nodes.", "cluster: %.0f closed days differ from those of other nodes", d.value)
	}
}
