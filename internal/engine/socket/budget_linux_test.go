//go:build !386

package socket

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/wire"
)

// TestPauseBetweenFrames parses a read buffer full of small frames. The budget ends between two of
// them, the others are handled in order in the pauses' ends, and in the end nothing is kept.
func TestPauseBetweenFrames(t *testing.T) {
	s := newServer(nil)
	sh, c, peer := connOnStoppedShard(t, s)
	plain, _ := verify(t.Context(), "plain")
	now := time.Now()
	c.sess.Handle(now, session.Event{Kind: session.GrantsChanged, Grants: &plain.Grants})
	sh.flush(now, c)
	_, _ = syscall.Read(peer, make([]byte, 64<<10))
	const pings = 6000 // of 10 bytes
	var in strings.Builder
	for i := range pings {
		in.WriteString(frame(opPing, fmt.Sprintf("%04d", i)))
	}
	next := 0
	read := func() {
		t.Helper()
		b := make([]byte, 1<<20)
		n, _ := syscall.Read(peer, b)
		rest := strings.ReplaceAll(string(b[:max(0, n)]), string(wire.AppendText(nil, []byte(wire.Ping))), "")
		for ; rest != ""; next++ {
			want := fmt.Sprintf("\x8a\x04%04d", next)
			if !strings.HasPrefix(rest, want) {
				t.Fatalf("got %.20q, want %q", rest, want)
			}
			rest = rest[len(want):]
		}
	}
	const cost = frameCost + 10
	sh.parse(now, c, []byte(in.String()))
	sh.flush(now, c)
	if read(); next != 6*inputRate/cost+1 || !c.inputBlocked() {
		t.Fatalf("%d frames at once", next)
	}
	pauses := 0
	begin := now
	for ; c.inputBlocked(); pauses++ {
		before := next
		now = sh.server.time(c.pausedUntil)
		sh.runOnce(now.Add(-1))
		if read(); next != before {
			t.Fatalf("%d frames in a pause", next-before)
		}
		sh.runOnce(now)
		if read(); next == before || next > before+inputRate/10/cost+1 {
			t.Fatalf("%d frames after a pause", next-before)
		}
	}
	if next != pings {
		t.Errorf("%d frames in the end", next)
	}
	sent := pings * cost
	took := now.Sub(begin)
	if want := time.Duration(sent-6*inputRate) * time.Second / inputRate; took < want || took > want+minPause {
		t.Errorf("all were read after %v, want %v", took, want)
	}
	// Input that ends where the budget does leaves nothing to parse, but a pause.
	for n := 0; !c.paused(); n++ {
		if n > inputRate/10/frameCost {
			t.Fatal("no pause")
		}
		sh.parse(now, c, []byte(frame(opPong, "")))
	}
	if sh.flush(now, c); c.in != nil || !c.inputBlocked() {
		t.Error("read on after the last frame of the budget")
	}
	pauses++
	now = sh.server.time(c.pausedUntil)
	sh.runOnce(now)
	if c.inputBlocked() {
		t.Error("not read on after the pause")
	}
	if sh.figures.Pauses != uint64(pauses) || c.optional != &sh.noOptional {
		t.Errorf("%d pauses of %d counted, kept %+v", sh.figures.Pauses, pauses, *c.optional)
	}
}

// TestPausedPeerGone checks that a connection is released at once if it is reset in a pause.
func TestPausedPeerGone(t *testing.T) {
	forEventLoops(t, func(t *testing.T, tr transport) {
		s := openServer(t, tr, raiseLimits)
		c := s.connect("")
		c.auth("plain")
		c.write(strings.Repeat(frame(opPong, ""), 8000)) // 35 s of input
		waitFor(t, "a pause", func() bool {
			total, _ := s.Counters()
			return total.Pauses > 0
		})
		if err := tcpConn(c.nc).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		tcpConn(c.nc).Close()
		waitFor(t, "the end", func() bool { return s.Stats().Open == 0 })
	})
}
