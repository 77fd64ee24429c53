package session_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/testing/talk"
	"github.com/ruedahq/rueda/wire"
)

// TestTalk runs the protocol conversations against bare sessions, exact to the
// millisecond.
func TestTalk(t *testing.T) {
	for _, script := range conversations(t) {
		t.Run(script.Name, func(t *testing.T) { converse(t, script, wire.JSON, 0) })
	}
}

// TestTalkFormats runs the conversations in batches and in MessagePack. Only the form of messages
// depends on the format. MessagePack omits conversations in which a binary message is a fault, or
// which count the bytes of pending output.
func TestTalkFormats(t *testing.T) { talkIn(t, wire.Batch, wire.Msgpack) }

// TestTalkFormatsE2E runs them in the compressed formats, without the race detector. Package socket
// runs them with it.
func TestTalkFormatsE2E(t *testing.T) {
	talkIn(t, wire.Deflate, wire.Batch|wire.Deflate, wire.Msgpack|wire.Deflate)
}

func talkIn(t *testing.T, formats ...wire.Format) {
	for _, f := range formats {
		for _, script := range conversations(t) {
			if f&wire.Msgpack != 0 && slices.Contains([]string{"fault-before-authentication", "fault-not-json", "slow-asks-and-never-reads"}, script.Name) {
				continue
			}
			t.Run(fmt.Sprintf("%s+%d/%s", f.Subprotocol(), f&wire.Deflate, script.Name), func(t *testing.T) {
				converse(t, script, f, 0)
			})
		}
	}
}

func conversations(t *testing.T) []*talk.Script {
	t.Helper()
	scripts, err := talk.Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	return scripts
}

// TestTalkPieces runs the conversations with one identifier a piece. No answer depends on that.
func TestTalkPieces(t *testing.T) {
	for _, script := range conversations(t) {
		t.Run(script.Name, func(t *testing.T) { converse(t, script, wire.JSON, 1) })
	}
}

// converse runs a conversation. piece is how many identifiers of a message are handled at once; 0:
// the default.
func converse(t *testing.T, script *talk.Script, f wire.Format, piece int) {
	synctest.Test(t, func(t *testing.T) {
		world, err := script.World()
		if err != nil {
			t.Fatal(err)
		}
		world.Env.SetPiece(piece)
		h := newHost(world)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.run(ctx)
		}()
		hub := make(chan error)
		go func() { hub <- world.Hub.Run(ctx) }()
		script.Run(t, world, talk.Host{Dial: h.dial, Settle: synctest.Wait, Tolerance: time.Millisecond, Format: f})
		cancel()
		<-done
		if err := <-hub; err != nil {
			t.Error(err)
		}
		if err := world.Close(); err != nil {
			t.Error(err)
		}
		if n := world.Env.Registry.Len(); n != 0 {
			t.Errorf("%d sessions are left in the registry", n)
		}
	})
}
