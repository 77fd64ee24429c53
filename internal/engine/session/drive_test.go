package session_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/talk"
	"github.com/ruedahq/rueda/wire"
)

// drive is a session under direct control of a test, with its own time and kernel.
type drive struct {
	t       testing.TB
	world   *talk.World
	shard   *subscription.Shard
	sess    *session.Session
	now     time.Time
	notices []session.Event
	pieces  []session.Event // NextPiece
	checks  asyncapitest.Conversation
}

// newDrive starts a session, authenticated with a token unless that is "".
func newDrive(t testing.TB, token string) *drive {
	t.Helper()
	script, err := talk.Parse("drive", "# nothing\nset dev true")
	if err != nil {
		t.Fatal(err)
	}
	world, err := script.World()
	if err != nil {
		t.Fatal(err)
	}
	d := &drive{t: t, world: world, now: time.Now(), shard: subscription.NewShard(world.Hub, func(bool) {})}
	peer := session.Peer{}
	if token != "" {
		id, fault := world.Env.Verify(context.Background(), token)
		if fault != nil {
			t.Fatal(fault)
		}
		peer.Identity = id
	}
	d.sess = new(session.Session)
	d.sess.Start(world.Env, peer, d.shard, d, d.now)
	t.Cleanup(d.sess.PeerGone)
	t.Cleanup(d.check)
	if token != "" {
		d.want(`"type":"Success"`)
	}
	return d
}

// Post queues an event.
func (d *drive) Post(n session.Event) {
	if n.Kind == session.NextPiece {
		d.pieces = append(d.pieces, n)
		return
	}
	d.notices = append(d.notices, n)
}

// nextPiece handles the next piece of a message. It returns false if there is none.
func (d *drive) nextPiece() bool {
	if len(d.pieces) == 0 {
		return false
	}
	n := d.pieces[0]
	d.pieces = d.pieces[1:]
	d.sess.Handle(d.now, n)
	return true
}

// turn makes the shard read what was published.
func (d *drive) turn() {
	for d.shard.Turn(); d.shard.Next() != nil; {
	}
}

// check compares the messages of both sides with the AsyncAPI document.
func (d *drive) check() {
	switch code, reason, over := d.sess.Close(); {
	case over:
		d.checks.Closed(code, reason)
	case d.sess.Reset():
		return // the last messages have no answer
	default:
		d.take()
	}
	if err := d.checks.Err(); err != nil {
		d.t.Errorf("the AsyncAPI document: %v", err)
	}
}

// received compares messages of the session with the AsyncAPI document.
func (d *drive) received(texts []string) {
	for _, text := range texts {
		d.checks.Received([]byte(text))
	}
}

// text sends a message, of which all pieces are handled.
func (d *drive) text(msg string) {
	for d.begin(msg); d.nextPiece(); {
	}
}

// begin sends a message, of which the first piece is handled.
func (d *drive) begin(msg string) {
	d.checks.Sent([]byte(msg))
	d.sess.Handle(d.now, session.Event{Kind: session.Text, Message: []byte(msg)})
}

// gather gathers pending messages that have not reached the kernel.
func (d *drive) gather() (texts []string, n int) {
	d.t.Helper()
	d.turn()
	b := d.sess.Output(d.now, nil, 64<<10)
	if len(b) > 0 {
		d.sess.Sent(d.now, len(b), 0)
	}
	texts, err := unpack(b, wire.JSON)
	if err != nil {
		d.t.Fatal(err)
	}
	d.received(texts)
	return texts, len(b)
}

// take gathers until nothing is pending; the kernel accepts all of it at once.
func (d *drive) take() []string {
	d.t.Helper()
	var all []string
	for {
		texts, n := d.gather()
		if n == 0 {
			return all
		}
		d.sess.Wrote(d.now, n)
		all = append(all, texts...)
	}
}

// want checks that the pending messages contain these parts.
func (d *drive) want(parts ...string) {
	d.t.Helper()
	got := d.take()
	if len(got) != len(parts) {
		d.t.Fatalf("got %d messages, want %d: %q", len(got), len(parts), got)
	}
	for i := range parts {
		if !strings.Contains(got[i], parts[i]) {
			d.t.Errorf("got %s\nwant %s in it", got[i], parts[i])
		}
	}
}

// pass advances time, with every Tick that is due.
func (d *drive) pass(span time.Duration) {
	end := d.now.Add(span)
	for {
		next := d.sess.Deadline()
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(d.now) {
			d.now = next
		}
		d.sess.Handle(d.now, session.Event{Kind: session.Timer})
		if again := d.sess.Deadline(); !again.IsZero() && !again.After(d.now) {
			d.t.Fatalf("deadline %v is not after the tick at %v", again, d.now)
		}
	}
	d.now = end
}

// over checks how the session ended.
func (d *drive) over(code uint16, reason string) {
	d.t.Helper()
	c, r, ok := d.sess.Close()
	if !ok || c != code || r != reason {
		d.t.Errorf("got close %d %s %v, want %d %s", c, r, ok, code, reason)
	}
}
