//go:build !386

package socket

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/wire"
)

// panicInjector panics in one step of the work for a connection.
type panicInjector struct {
	mu     sync.Mutex
	armed  bool
	others map[*conn]bool
	made   [stepCount]int
	step   step
	nth    int
	fired  bool
	last   *conn
}

func (tr *panicInjector) onStep(c *conn, st step) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if !tr.armed {
		tr.others[c] = true
		return
	}
	if tr.others[c] {
		return
	}
	tr.last = c
	tr.made[st]++
	if st == tr.step && tr.made[st] == tr.nth {
		tr.fired = true
		panic("what a client sent")
	}
}

// arm starts counting, and panics in the nth step of a kind; 0: in none.
func (tr *panicInjector) arm(st step, nth int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.armed, tr.made, tr.step, tr.nth, tr.fired, tr.last = true, [stepCount]int{}, st, nth, false, nil
}

func (tr *panicInjector) got() (made [stepCount]int, fired bool, last *conn) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.made, tr.fired, tr.last
}

// conversation uses every kind of client message and event. If it is cut short, reason is that of
// the last Error, and code that of the close.
func conversation(p *testServer, pub *publisher, tr *panicInjector) (reason string, code uint16, err error) {
	c, err := p.dialTalk()
	if err != nil {
		return "", 0, err
	}
	defer c.nc.Close()
	if err := c.begin(); err != nil {
		return c.reason, c.code, err
	}
	for _, m := range []struct{ send, want string }{
		{frame(opText, `{"action":"subscribe","trades":["`+testInstrument+`"]}`), `"Subscription"`},
		{frame(opText, `{"action":"subscriptions"}`), `"Subscription"`},
		{frame(opText, `{"action":"resync","trades":["`+testInstrument+`"]}`), ""},
		{frame(opText, `{"action":"ping","id":"1"}`), `"action":"pong"`},
		{frame(opText, `{"action":"pong"}`), ""},
		{frame(opText, `{"action":"sim","fault":"slow"}`), ""},
		{frame(opText, `{"action":"none"}`), `"Error"`},
		{frame(opText, `{`), `"Error"`},
		{frame(opBinary, `x`), `"Error"`},
		{frame(opPing, "x"), ""},
		{part(opText, `{"action":"ping",`) + frame(opContinuation, `"id":"2"}`), `"id":"2"`},
		{frame(opText, `{"action":"unsubscribe","trades":["`+testInstrument+`"]}`), `"Subscription"`},
		{frame(opText, `{"action":"subscribe","trades":["`+testInstrument+`"],"snapshot":false}`), `"Subscription"`},
	} {
		if _, err = io.WriteString(c.nc, m.send); err == nil && m.want != "" {
			err = c.expect(m.want)
		}
		if err != nil {
			return c.reason, c.code, err
		}
	}
	pub.publish(1)
	err = c.expect(`"type":"T"`)
	if err == nil {
		_, _, last := tr.got()
		last.Post(session.Event{Kind: session.Revoked, Family: "another"})
		err = c.expect(wire.Ping) // the first deadline
	}
	if err == nil {
		if _, err := io.WriteString(c.nc, frame(opText, strings.Repeat("x", 1<<17))); err != nil {
			return c.reason, c.code, nil // a reset with so much in flight is allowed
		}
		if err = c.expect("message_too_big"); err == nil {
			err = c.expect("") // the session is over: a panic resets the connection
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && c.code == 0 {
			err = nil // allowed, too
		}
	}
	return c.reason, c.code, err
}

// TestPanicsEndOneConnectionLong panics in each step of the work for a connection, at each of its
// occurrences in a conversation. That connection ends, if possible with Error 500 and 4500; the
// panic is logged with its stack and counted; other connections continue.
func TestPanicsEndOneConnectionLong(t *testing.T) {
	forEachTransport(t, func(t *testing.T, w transport) {
		for st := range stepCount {
			if st == stepCloseAll {
				continue // TestPanicInCloseAll
			}
			t.Run(fmt.Sprint(st), func(t *testing.T) {
				t.Parallel() // mostly waits
				panicIn(t, w, st)
			})
		}
	})
}

func panicIn(t *testing.T, w transport, st step) {
	var log safeBuffer
	tr := &panicInjector{others: make(map[*conn]bool)}
	p, _, pub, bystander := openInjected(t, w, func(s *Server) {
		s.onStep = tr.onStep
		s.cfg.Env.PingInterval = 30 * time.Millisecond
		s.cfg.CloseTimeout = 2 * time.Second // clients may be slow on a busy machine
		s.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		for _, sh := range s.shards {
			sh.log = s.cfg.Logger
		}
	})
	tr.arm(st, 0)
	if reason, code, err := conversation(p, pub, tr); err != nil {
		t.Fatalf("without a panic: %s %d %v", reason, code, err)
	}
	waitFor(t, "the connection ended", func() bool { return p.Stats().Open == 1 })
	made, _, _ := tr.got()
	count := min(made[st], soak(160))
	panics := uint64(0)
	for nth := 1; nth <= count; nth++ {
		tr.arm(st, nth)
		reason, code, err := conversation(p, pub, tr)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d of %d: stalled", nth, count)
		}
		waitFor(t, "the connection ended", func() bool { return p.Stats().Open == 1 })
		if _, fired, _ := tr.got(); fired {
			panics++
		} else {
			continue // fewer steps were needed this time
		}
		// Before the session there is only HTTP, after it nothing, and a netConn may have lost a
		// part of a frame.
		if inSession := []step{stepVerified, stepMessage, stepGather, stepTimer, stepEvent}; slices.Contains(inSession, st) &&
			err != nil && (reason != "internal" || code != 4500) { // nil: everything was sent before
			t.Errorf("%d of %d: reason %q, closed %d: %v", nth, count, reason, code, err)
		}
		if st == stepHead && (err == nil || !strings.Contains(err.Error(), "500")) {
			t.Errorf("a request: %v, want status 500", err)
		}
	}
	pub.publish(1)
	if err := bystander.trades(1, int(pub.published)); err != nil {
		t.Errorf("the bystander: %v", err)
	}
	if n := p.Stats().Panics; n != panics || count > 0 && panics == 0 {
		t.Errorf("%d panics were counted, %d made of %d", n, panics, count)
	}
	text := log.String()
	if n := strings.Count(text, "panicked"); uint64(n) != panics || uint64(strings.Count(text, "stack=")) != panics {
		t.Errorf("%d panics in the log, %d stacks, want %d", n, strings.Count(text, "stack="), panics)
	}
	if strings.Contains(text, "what a client sent") {
		t.Error("the log has the value of a panic")
	}
	t.Logf("%s, step %d: %d panics", w.name, st, panics)
}

// TestPanicInCloseAll panics while the server closes a connection. The others are closed in order.
func TestPanicInCloseAll(t *testing.T) {
	forEachTransport(t, func(t *testing.T, w transport) {
		tr := &panicInjector{others: make(map[*conn]bool)}
		p, _, _, bystander := openInjected(t, w, func(s *Server) { s.onStep = tr.onStep })
		tr.arm(stepCloseAll, 1)
		target := p.connect("")
		target.auth("ana")
		p.shards[0].post(input{kind: inputCloseAll, fault: &wire.Fault{Reason: wire.ShuttingDown}})
		if code, _ := bystander.skipTo(); code != 4503 {
			t.Errorf("the bystander was closed with %d", code)
		}
		if code, _ := target.skipTo(); code != 4500 {
			t.Errorf("the victim was closed with %d", code)
		}
		if n := p.Stats().Panics; n != 1 {
			t.Errorf("%d panics", n)
		}
	})
}
