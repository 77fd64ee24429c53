package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/cli/command"
)

// NewStatus returns the command status.
func NewStatus(std command.Streams) *cobra.Command {
	var s source
	var watch bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show feeds, connections, rates, journal, database and keys of a running gateway",
		Long: `Status reads the metrics of a gateway twice, a second apart, and prints a summary with the rates
between. With --watch it prints one again and again, until it is interrupted. It needs the token
of an operator; the role read is enough.`,
		Example: `  rueda status --token-file /etc/rueda/ana.token
  rueda status --token-file ana.token --watch --every 5s
  rueda status --admin https://10.0.0.5:8081 --token-file ana.token --ca ca.pem --certificate ana.crt --key ana.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return command.Fail(command.ExitUsage, errors.New("--every must be at least 100ms"), "")
			}
			if err := s.open("read"); err != nil {
				return err
			}
			return run(cmd.Context(), std, &s, watch, every)
		},
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "print the status again and again")
	cmd.Flags().DurationVar(&every, "every", time.Second, "time between two reads")
	return cmd
}

// run prints the status once, or until ctx ends. While it watches, a gateway that does not answer
// is reported and read again.
func run(ctx context.Context, std command.Streams, s *source, watch bool, every time.Duration) error {
	before, err := s.page(ctx)
	if err != nil {
		return err
	}
	warnVersion(std.Err, before)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
		now, err := s.page(ctx)
		switch {
		case err != nil && (!watch || ctx.Err() != nil):
			return err
		case err != nil:
			fmt.Fprintf(std.Err, "%s %s\n", time.Now().Format(time.TimeOnly), command.Printable(err.Error()))
			continue
		}
		if watch {
			fmt.Fprintf(std.Out, "\n%s ", now.at.Format(time.TimeOnly))
		}
		if err := command.WriteText(std.Out, summary(now, before)); err != nil || !watch {
			return err
		}
		before = now
	}
}

// warnVersion reports that the gateway has another version than this program.
func warnVersion(w io.Writer, p *page) {
	if own := command.ReadBuild().Version; p.version() != own {
		fmt.Fprintf(w, "rueda: the gateway is version %s and this program is %s: some figures may be missing\n", command.Printable(p.version()), own)
	}
}

// summary returns the lines of a status.
func summary(p, before *page) string {
	var b strings.Builder
	ready := "not ready"
	if p.sum("rueda_ready") == 1 {
		ready = "ready"
	}
	fmt.Fprintf(&b, "rueda %s: %s, up %s\n", p.version(), ready, span(p.since(p.sum("process_start_time_seconds"))))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	for _, f := range p.all("rueda_feed_up") {
		feed := f.labels["feed"]
		state, newest := "down", "no event yet"
		if f.value == 1 {
			state = "up"
		}
		for _, at := range p.all("rueda_feed_newest_timestamp_seconds", "feed", feed) {
			newest = "newest event " + span(p.since(at.value)) + " ago"
		}
		line("feed "+feed, "%s, %.0f events/s, %s", state, p.rate(before, "rueda_feed_events_total", "feed", feed), newest)
	}
	line("connections", "%.0f live, %.0f unauthenticated, %.0f blocked, at most %.0f; %.1f/s opened, %.1f/s closed",
		p.sum("rueda_connections", "state", "live"), p.sum("rueda_connections", "state", "unauthenticated"), p.sum("rueda_connections", "state", "blocked"),
		p.sum("rueda_connections_limit"), p.rate(before, "rueda_connections_opened_total"), p.rate(before, "rueda_connections_closed_total"))
	delivery := "none"
	if d, ok := p.quantile(before, 0.99, "rueda_delivery_seconds"); ok {
		delivery = "99% within " + span(d)
	}
	line("deliveries", "%.0f/s, %s/s; %s", p.rate(before, "rueda_deliveries_total"), size(p.rate(before, "rueda_sent_bytes_total")), delivery)
	line("backlog", "%s of %.0f slow clients", size(p.sum("rueda_backlog_bytes")), p.sum("rueda_backlog_connections"))
	line("memory", "stream %s of %s, process %s", size(p.sum("rueda_stream_memory_bytes")), size(p.sum("rueda_stream_memory_limit_bytes")), size(p.sum("process_resident_memory_bytes")))
	if len(p.all("rueda_journal_suspended")) > 0 {
		state := "stores rows"
		if p.sum("rueda_journal_suspended") == 1 {
			state = "SUSPENDED"
		}
		line("journal", "%s, %.0f days, %s, %.0f rows waiting", state, p.sum("rueda_journal_days"), size(p.sum("rueda_journal_bytes")), p.sum("rueda_position")-p.sum("rueda_committed_position"))
	}
	line("logins", "%.1f/s answered, %.1f/s refused", p.rate(before, "rueda_grants_total", "result", "ok"),
		p.rate(before, "rueda_grants_total")-p.rate(before, "rueda_grants_total", "result", "ok"))
	line("database", "%.1f transactions/s, %.0f failed since the start", p.rate(before, "rueda_database_transaction_seconds_count"), p.sum("rueda_database_failures_total"))
	line("keys", "signing key %s old", span(time.Duration(p.sum("rueda_signing_key_age_seconds"))*time.Second))
	for _, c := range p.all("rueda_certificate_expires_timestamp_seconds") {
		line("certificate", "of %s ends in %s", c.labels["listener"], span(-p.since(c.value)))
	}
	for _, d := range p.all("rueda_disk_size_bytes") {
		line("disk", "of %s: %s free of %s", d.labels["folder"], size(p.sum("rueda_disk_free_bytes", "folder", d.labels["folder"])), size(d.value))
	}
	_ = t.Flush() // to a buffer
	return b.String()
}
