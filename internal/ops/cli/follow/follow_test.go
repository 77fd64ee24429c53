package follow

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// TestLostConnections checks the sentence for a connection that has ended: with the silence before
// it, if a proxy may have cut it.
func TestLostConnections(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection broken: EOF")
	for _, tc := range []struct {
		change client.StateChange
		want   string
	}{
		{client.StateChange{Err: broken, Silent: time.Second}, "connection lost: connection broken: EOF; retrying in 300ms"},
		{client.StateChange{Err: broken, Silent: 8 * time.Second},
			"connection lost: connection broken: EOF after 8s without a message (the network, or a proxy that cuts idle connections: it must allow 30 s); retrying in 300ms"},
		{client.StateChange{Err: &client.Error{Code: 507, Reason: "slow_client"}, Silent: 8 * time.Second}, "connection lost: slow_client; retrying in 300ms"},
	} {
		var errs strings.Builder
		s := Stream{Std: command.Streams{Out: io.Discard, Err: &errs}, live: true}
		tc.change.State, tc.change.Wait = client.Waiting, 300*time.Millisecond
		if err := s.report(tc.change); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(strings.TrimSpace(errs.String()), "  "); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

// TestLostRanges checks that the texts of a lost range leave out what is unknown.
func TestLostRanges(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC)
	series := stream.Series{Channel: wire.Trades, Instrument: market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "CI"}}
	for _, tc := range []struct {
		lost       client.Lost
		text, line string
	}{
		{client.Lost{From: 3, To: 9}, " from 3 to 9", " from #3 to #9"},
		{client.Lost{From: 3}, " from 3", " from #3"},
		{client.Lost{To: 9, End: at}, " to 9 before 2026-11-20T14:30:00Z", " to #9 before 2026-11-20T14:30:00Z"},
		{client.Lost{Start: at}, " after 2026-11-20T14:30:00Z", " after 2026-11-20T14:30:00Z"},
		{client.Lost{}, "", ""},
	} {
		tc.lost.Series, tc.lost.Reason = series, "buffer_exceeded"
		if got, want := tc.lost.String(), "lost trades GGAL|BYMA|CI"+tc.text+": buffer_exceeded"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got, want := LostText(tc.lost), "lost: trades GGAL|BYMA|CI"+tc.line+" (buffer_exceeded)"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
