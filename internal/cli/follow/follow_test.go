package follow

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/cli/command"
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
