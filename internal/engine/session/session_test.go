package session_test

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/wire"
)

// TestPongBeforeWrote has a client whose pong arrives before the host reports that the kernel
// accepted the ping. The next pong answers both.
func TestPongBeforeWrote(t *testing.T) {
	d := newDrive(t, "demo")
	for range 10 {
		d.pass(20 * time.Second)
		texts, n := d.gather()
		if len(texts) != 1 || texts[0] != `{"action":"ping"}` {
			t.Fatalf("got %q, want a ping", texts)
		}
		d.text(`{"action":"pong"}`)
		d.sess.Wrote(d.now, n)
	}
	if _, _, over := d.sess.Close(); over {
		t.Error("closed")
	}
}

// TestPingInPieces checks that the time limit of the pong begins when the kernel has accepted the
// last byte of the ping.
func TestPingInPieces(t *testing.T) {
	d := newDrive(t, "demo")
	d.pass(19 * time.Second)
	d.text(`{"action":"ping"}`)
	d.pass(time.Second)
	d.text(`{"action":"ping"}`)
	texts, n := d.gather()
	if len(texts) != 3 {
		t.Fatalf("got %q", texts)
	}
	frame := n - len(texts[2]) - 2 // up to the end of the second
	d.sess.Wrote(d.now, frame-1)
	d.pass(5 * time.Second)
	d.sess.Wrote(d.now, 1)
	d.pass(2 * time.Second)
	d.sess.Wrote(d.now, n-frame)
	// The following pings are sent on time and not answered either.
	d.pass(28*time.Second - 1)
	if _, _, over := d.sess.Close(); over {
		t.Fatal("closed early")
	}
	d.pass(1)
	d.over(4504, "pong_timeout")
}

// TestClockSteps sets the wall clock back and forward during a session. Heartbeat and rates do not
// change. The expiry of the token is checked at the next tick.
func TestClockSteps(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, 3 * time.Hour} {
		d := newDrive(t, "demo")
		if s := stepWall(d.now, step); s.Sub(d.now) != 0 || s.UnixNano()-d.now.UnixNano() != int64(step) {
			t.Fatal("package time keeps its clocks elsewhere")
		}
		stepped := func(at time.Time) time.Time { return stepWall(at, step) }
		d.now = d.now.Add(20 * time.Second)
		d.sess.Handle(stepped(d.now), session.Event{Kind: session.Timer})
		d.want(`"ping"`)
		for range 60 {
			d.sess.Handle(stepped(d.now), session.Event{Kind: session.Text, Message: []byte(`{"action":"ping"}`)})
		}
		if got := d.take(); len(got) != 60 || strings.Contains(got[59], "rate_limited") {
			t.Errorf("after a step of %v: %d answers, the last %s", step, len(got), got[len(got)-1])
		}
		d.sess.Handle(stepped(d.now), session.Event{Kind: session.Text, Message: []byte(`{"action":"ping"}`)})
		d.want("rate_limited")
		if want := d.now.Add(20 * time.Second); d.sess.Deadline().After(want) {
			t.Errorf("after a step of %v: the next deadline is %v away", step, d.sess.Deadline().Sub(d.now))
		}
	}
	d := newDrive(t, "demo")
	d.now = d.now.Add(20 * time.Second)
	d.sess.Handle(stepWall(d.now, 25*time.Hour), session.Event{Kind: session.Timer})
	if got := d.take(); len(got) == 0 || !strings.Contains(got[len(got)-1], "token_expired") {
		t.Errorf("with the wall clock past the token's end: got %q", got)
	}
	d.over(4401, "token_expired")
}

// stepWall returns the time at with a wall clock that is d ahead, in whole seconds, and the same
// monotonic clock. No function creates such a time, so this sets the bits of the seconds: those
// above the 30 bits of the nanoseconds.
func stepWall(at time.Time, d time.Duration) time.Time {
	wall := (*uint64)(unsafe.Pointer(&at))
	*wall += uint64(d/time.Second) << 30
	return at
}

func TestNotices(t *testing.T) {
	for _, c := range []struct {
		notice session.Event
		code   uint16
		reason string
	}{
		{session.Event{Kind: session.Broken}, 4500, "internal"},
		{session.Event{Kind: session.Overload}, 4503, "overloaded"},
		{session.Event{Kind: session.Replaced}, 4409, "replaced"},
		{session.Event{Kind: session.Revoked, Family: "f1"}, 4401, "token_revoked"},
	} {
		d := newDrive(t, "demo")
		d.sess.Handle(d.now, c.notice)
		d.want(`"reason":"` + c.reason + `"`)
		d.over(c.code, c.reason)
		d.sess.Handle(d.now, session.Event{Kind: session.Broken})
		d.text(`{"action":"ping"}`)
		d.sess.Handle(d.now.Add(time.Hour), session.Event{Kind: session.Timer})
		d.want()
	}
	// An event for the family that the session had before it re-authenticated.
	d := newDrive(t, "demo")
	d.sess.Handle(d.now, session.Event{Kind: session.Revoked, Family: "f9"})
	d.want()
	if _, _, over := d.sess.Close(); over {
		t.Error("closed by another family's end")
	}
}

// TestDrainBeforeAuthentication checks that a client without authentication gets only the close.
// The first message that it reads is the answer to auth_token.
func TestDrainBeforeAuthentication(t *testing.T) {
	d := newDrive(t, "")
	d.sess.Handle(d.now, session.Event{Kind: session.Drain, In: 3 * time.Second})
	d.want()
	d.pass(3 * time.Second)
	d.want(`"reason":"shutting_down"`)
	d.over(4503, "shutting_down")
}

// TestPeerGone checks that a disconnected session releases everything, also during a token check.
func TestPeerGone(t *testing.T) {
	d := newDrive(t, "demo")
	d.text(`{"action":"subscribe","trades":["GGAL|BYMA|24hs"]}`)
	d.text(`{"action":"auth_token","token":"demo"}`)
	if _, _, ok := d.sess.TakeToken(); !ok || !d.sess.Busy() {
		t.Fatal("no token to check")
	}
	d.sess.PeerGone()
	d.sess.PeerGone()
	if n := d.world.Env.Registry.Len(); n != 0 {
		t.Errorf("%d sessions are left in the registry", n)
	}
	d.sess.Handle(d.now, session.Event{Kind: session.Verified, Identity: &session.Identity{User: "demo"}})
	d.text(`{"action":"ping"}`)
	d.sess.Handle(d.now, session.Event{Kind: session.Timer})
	if _, _, ok := d.sess.Close(); ok || d.sess.Pending() || !d.sess.Deadline().IsZero() {
		t.Error("a session whose peer has gone wants something")
	}
	if n := d.world.Env.Registry.Len(); n != 0 {
		t.Errorf("a late answer took a place")
	}
}

// TestGatherWholeFrames gathers a long run of control messages in portions, each of whole frames.
func TestGatherWholeFrames(t *testing.T) {
	d := newDrive(t, "demo")
	long := strings.Repeat(`"A|B|C0123456789",`, 30)
	for range 20 {
		d.text(`{"action":"subscribe","trades":[` + long + `"GGAL|BYMA|24hs","x"]}`)
		d.text(`{"action":"ping"}`)
	}
	total := 0
	for {
		b := d.sess.Output(d.now, []byte("before"), 100)
		if string(b[:6]) != "before" {
			t.Fatal("what was in the buffer is gone")
		}
		if b = b[6:]; len(b) == 0 {
			break
		}
		texts, err := unpack(b, wire.JSON)
		if err != nil {
			t.Fatal(err)
		}
		d.received(texts)
		if len(texts) > 2 {
			t.Errorf("%d messages at once", len(texts))
		}
		total += len(texts)
		d.sess.Wrote(d.now, len(b))
	}
	if total != 40 {
		t.Errorf("got %d answers to 40 messages", total)
	}
}

// TestWaitingIsBounded checks that a client cannot fill memory while its token is checked.
func TestWaitingIsBounded(t *testing.T) {
	d := newDrive(t, "")
	d.text(`{"action":"auth_token","token":"demo"}`)
	for range 20 {
		d.text(strings.Repeat(" ", 60<<10))
	}
	d.want(`"reason":"too_many_failures"`)
	d.over(4429, "too_many_failures")
}
