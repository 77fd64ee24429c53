//go:build !386

package socket

import (
	"bytes"
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

	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/wire"
)

// A trapper panics in one step of the work for a victim.
type trapper struct {
	mu     sync.Mutex
	armed  bool
	others map[*conn]bool
	made   [stepCount]int
	step   step
	nth    int
	fired  bool
	last   *conn
}

func (tr *trapper) at(c *conn, st step) {
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

// arm counts from now on, and panics in the nth step of a kind; 0: in none.
func (tr *trapper) arm(st step, nth int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.armed, tr.made, tr.step, tr.nth, tr.fired, tr.last = true, [stepCount]int{}, st, nth, false, nil
}

func (tr *trapper) got() (made [stepCount]int, fired bool, last *conn) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.made, tr.fired, tr.last
}

// conversation has every kind of client message, and what comes to a session besides. Where it is
// cut short, told is the last Error's reason, and code that of the close.
func conversation(p *place, tape *tape, tr *trapper) (told string, code uint16, err error) {
	c, err := p.talker()
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
	tape.publish(1)
	err = c.expect(`"type":"T"`)
	if err == nil {
		_, _, last := tr.got()
		last.Post(session.Notice{Kind: session.Revoked, Family: "another"})
		err = c.expect(wire.Ping) // the first deadline
	}
	if err == nil {
		if _, err := io.WriteString(c.nc, frame(opText, strings.Repeat("x", 1<<17))); err != nil {
			return c.reason, c.code, nil // a reset while so much is on its way says nothing
		}
		if err = c.expect("message_too_big"); err == nil {
			err = c.expect("") // its session is over: a panic from here on resets it
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && c.code == 0 {
			err = nil // likewise
		}
	}
	return c.reason, c.code, err
}

// TestPanicsEndOneConnection has each step of the work for a connection panic, each time that it
// is made in a conversation with all there is. That connection ends, with Error 500 and 4500 where
// it can be told; it is logged with its stack and counted; everybody else goes on.
func TestPanicsEndOneConnection(t *testing.T) {
	onEachWay(t, func(t *testing.T, w way) {
		for st := range stepCount {
			if st == stepDismiss {
				continue // TestPanicWhileDismissed
			}
			t.Run(fmt.Sprint(st), func(t *testing.T) {
				t.Parallel() // mostly waits
				panicIn(t, w, st)
			})
		}
	})
}

func panicIn(t *testing.T, w way, st step) {
	var log lockedBuffer
	tr := &trapper{others: make(map[*conn]bool)}
	p, _, tape, bystander := openInjected(t, w, func(s *Server) {
		s.trap = tr.at
		s.cfg.Env.PingInterval = 30 * time.Millisecond
		s.cfg.CloseTimeout = 2 * time.Second // for a client that is late on a busy machine
		s.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		for _, sh := range s.shards {
			sh.log = s.cfg.Logger
		}
	})
	tr.arm(st, 0)
	if told, code, err := conversation(p, tape, tr); err != nil {
		t.Fatalf("without a panic: %s %d %v", told, code, err)
	}
	await(t, "the connection ended", func() bool { return p.Stats().Open == 1 })
	made, _, _ := tr.got()
	count := min(made[st], soak(160))
	panics := uint64(0)
	for nth := 1; nth <= count; nth++ {
		tr.arm(st, nth)
		told, code, err := conversation(p, tape, tr)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d of %d: stalled", nth, count)
		}
		await(t, "the connection ended", func() bool { return p.Stats().Open == 1 })
		if _, fired, _ := tr.got(); fired {
			panics++
		} else {
			continue // fewer turns were needed this time
		}
		// What can still be told: before the session there is HTTP, after it nothing, and whoever
		// pumps may have lost a part of a frame.
		if inSession := []step{stepVerified, stepMessage, stepGather, stepTimer, stepNotice}; slices.Contains(inSession, st) &&
			err != nil && (told != "internal" || code != 4500) { // nil: everything was said before
			t.Errorf("%d of %d: told %q, closed %d: %v", nth, count, told, code, err)
		}
		if st == stepHead && (err == nil || !strings.Contains(err.Error(), "500")) {
			t.Errorf("a request: %v, want status 500", err)
		}
	}
	tape.publish(1)
	if err := bystander.trades(1, int(tape.published)); err != nil {
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

// TestPanicWhileDismissed has the work panic that sends a connection away when the server ends:
// the others are sent away in order.
func TestPanicWhileDismissed(t *testing.T) {
	onEachWay(t, func(t *testing.T, w way) {
		tr := &trapper{others: make(map[*conn]bool)}
		p, _, _, bystander := openInjected(t, w, func(s *Server) { s.trap = tr.at })
		tr.arm(stepDismiss, 1)
		victim := p.connect("")
		victim.auth("ana")
		p.shards[0].post(input{kind: inputDismiss, fault: &wire.Fault{Reason: wire.ShuttingDown}})
		if code, _ := bystander.skipTo(); code != 4503 {
			t.Errorf("the bystander was closed with %d", code)
		}
		if code, _ := victim.skipTo(); code != 4500 {
			t.Errorf("the victim was closed with %d", code)
		}
		if n := p.Stats().Panics; n != 1 {
			t.Errorf("%d panics", n)
		}
	})
}

// lockedBuffer is a log that many goroutines write.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
