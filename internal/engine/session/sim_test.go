package session_test

import (
	"strings"
	"testing"
	"time"
)

// TestSlowDownFromRest checks a connection that has used its budget exactly when all output was
// sent: output that follows makes the client slow, and is sent a second later.
func TestSlowDownFromRest(t *testing.T) {
	d := follow(t, "")
	d.text(`{"action":"sim","fault":"slow_down"}`)
	d.want(`"fault":"slow_down"`)
	taken := 0
	for d.sess.Pending() || taken == 0 || taken < 2048 {
		d.publish(0, 1)
		_, n := d.gather()
		d.sess.Wrote(d.now, n)
		taken += n
		if n == 0 {
			t.Fatalf("nothing more after %d bytes", taken)
		}
	}
	if next := d.sess.Deadline().Sub(d.now); next != time.Second {
		t.Errorf("at rest the next deadline is %v away", next)
	}
	d.publish(0, 1)
	d.want()
	d.pass(500 * time.Millisecond)
	d.want(`"reason":"slow_client"`)
	d.pass(500 * time.Millisecond)
	d.want(`"type":"T"`)
}

// TestSlowDownEnds checks that everything is sent when the fault has ended.
func TestSlowDownEnds(t *testing.T) {
	d := follow(t, "")
	d.text(`{"action":"sim","fault":"slow_down"}`)
	d.want(`"fault":"slow_down"`)
	for range 29 {
		d.pass(time.Second)
		d.text(`{"action":"pong"}`)
	}
	if n := len(d.take()); n != 1 {
		t.Errorf("%d messages, want a ping", n)
	}
	d.publish(0, 100)
	if n := len(d.take()); n == 0 || n > 20 {
		t.Errorf("%d trades in a second", n)
	}
	d.pass(time.Second)
	if n := len(d.take()); n < 80 {
		t.Errorf("%d messages when it was over", n)
	}
}

// TestStallKeepsNothing publishes much data while a connection is stalled. It does not become
// pending and does not make the client slow. A second request extends the stall.
func TestStallKeepsNothing(t *testing.T) {
	d := follow(t, `,"alive":true`)
	d.text(`{"action":"sim","fault":"stall"}`)
	d.want(`"fault":"stall"`)
	for range 20 {
		d.publish(100, 2000)
		d.want()
		if d.sess.Pending() {
			t.Fatal("something waits")
		}
		d.pass(900 * time.Millisecond)
	}
	d.text(`{"action":"sim","fault":"stall"}`)
	d.want(`"fault":"stall"`)
	d.pass(20 * time.Second)
	d.want(`"action":"ping"`)
	d.text(`{"action":"pong"}`)
	d.publish(1, 1)
	d.want()
	d.pass(10 * time.Second)
	if got := strings.Join(d.take(), "\n"); strings.Contains(got, `"type":"T"`) || strings.Contains(got, `"type":"Q"`) {
		t.Errorf("got %s", got)
	}
	d.publish(0, 1)
	d.want(`"N":40002,`)
}

// TestGapAmongOthers checks that the fault removes one message of many that are sent together, and
// keeps the order of the others.
func TestGapAmongOthers(t *testing.T) {
	d := follow(t, "")
	d.text(`{"action":"sim","fault":"gap"}`)
	d.want(`"fault":"gap"`)
	d.publish(2, 3)
	d.want(`"type":"Q"`, `"type":"Q"`, `"type":"T","S":"GGAL","I":"GGAL|BYMA|CI","N":2,`, `"N":3,`)
	d.publish(0, 1)
	d.want(`"N":4,`)
}

// TestGapAlone checks that the fault removes a message that is sent alone. The session has no
// output after it.
func TestGapAlone(t *testing.T) {
	d := follow(t, "")
	d.text(`{"action":"sim","fault":"gap","instrument":"GGAL|BYMA|CI"}`)
	d.want(`"fault":"gap"`)
	d.publish(0, 1)
	d.want()
	if d.sess.Pending() {
		t.Error("something waits")
	}
	d.publish(0, 1)
	d.want(`"N":2,`)
}

// TestGapBeforeAcknowledgement changes the set while messages are pending, which are then sent
// before the answer. The fault applies to those messages too.
func TestGapBeforeAcknowledgement(t *testing.T) {
	for fault, want := range map[string][]string{
		"gap":   {`"N":2,`, `"N":3,`, `"type":"Subscription"`},
		"stall": {`"type":"Subscription"`},
	} {
		d := follow(t, "")
		d.text(`{"action":"subscribe","trades":["*|BYMA|CI"]}`)
		d.want("Subscription")
		d.text(`{"action":"sim","fault":"` + fault + `"}`)
		d.want(`"fault":"` + fault + `"`)
		d.publish(0, 3)
		d.text(`{"action":"unsubscribe","trades":["GGAL|BYMA|CI"]}`)
		d.want(want...)
	}
}

// TestFaultsTogether requests all faults of a connection together, twice. The earliest end applies.
func TestFaultsTogether(t *testing.T) {
	d := follow(t, "")
	for range 2 {
		for _, fault := range strings.Fields("gap stall slow_down bad_checksum token_expiry restart disconnect") {
			d.text(`{"action":"sim","fault":"` + fault + `"}`)
		}
	}
	texts := d.take()
	if n := strings.Count(strings.Join(texts, "\n"), `"type":"Sim"`); n != 14 {
		t.Errorf("%d answers: %q", n, texts)
	}
	d.publish(1, 1)
	d.want()
	d.pass(time.Second)
	if _, _, closes := d.sess.Close(); closes || !d.sess.Reset() {
		t.Error("not reset")
	}
	if d.sess.Pending() || !d.sess.Deadline().IsZero() {
		t.Error("a session that is over wants something")
	}
	if n := d.world.Env.Registry.Len(); n != 0 {
		t.Errorf("%d sessions are left in the registry", n)
	}
	d.text(`{"action":"ping"}`)
	d.want()
}
