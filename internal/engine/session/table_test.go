package session_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/testing/talk"
	"github.com/ruedahq/rueda/wire"
)

// TestEveryReasonIsShown checks that every row of the error table has a conversation, with the
// close code if it closes the connection.
func TestEveryReasonIsShown(t *testing.T) {
	scripts, err := talk.Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, s := range scripts {
		all.WriteString(s.Text)
	}
	for _, r := range []wire.Reason{
		wire.BadJSON, wire.BadMessage, wire.UnknownAction, wire.BadField, wire.BadInstrument,
		wire.NotAuthenticated, wire.InvalidToken, wire.TokenExpired, wire.TokenRevoked,
		wire.Forbidden, wire.NotEntitled, wire.SubjectMismatch, wire.UnknownInstrument, wire.UnknownChannel,
		wire.AuthTimeout, wire.Replaced, wire.SubscriptionLimit, wire.MessageTooBig, wire.UnsupportedOption,
		wire.RateLimited, wire.ConnectionLimit, wire.TooManyFailures,
		wire.ShuttingDown, wire.Overloaded, wire.PongTimeout, wire.SlowClient,
	} {
		if !strings.Contains(all.String(), `"reason":"`+string(r)+`"`) {
			t.Errorf("no conversation shows %s", r)
		}
		if r.Socket().Closes && !strings.Contains(all.String(), " "+string(r)+"\n") {
			t.Errorf("no conversation closes with %s", r)
		}
	}
}
