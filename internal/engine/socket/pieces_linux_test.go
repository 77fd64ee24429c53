package socket

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/session"
)

// TestOthersBetweenPieces checks that an iteration of the event loop handles one piece of a long
// message, and the messages of other connections before the next piece.
func TestOthersBetweenPieces(t *testing.T) {
	h := hub.New(hub.Config{})
	names := defineMany(t, h, 5*64)
	s := newServer(func(c *Config) { c.Hub, c.FlushInterval, c.Shards = h, -1, 1 })
	sh, long, _ := connOnStoppedShard(t, s)
	sh.loop = &eventLoop{shard: sh, buffer: make([]byte, readBufferSize)}
	_, other, peer := connOnStoppedShard(t, s)
	now := time.Now()
	for _, action := range []string{"subscribe", "unsubscribe"} {
		order := ""
		s.onStep = func(c *conn, st step) {
			switch {
			case c == long && st == stepEvent:
				order += "p"
			case c == other && st == stepMessage:
				order += "o"
			}
		}
		long.sess.Handle(now, session.Event{Kind: session.Text, Message: []byte(`{"action":"` + action + `","trades":["` + strings.Join(names, `","`) + `"]}`)})
		n := 0
		for ; n < 100 && long.sess.Busy(); n++ {
			if _, err := syscall.Write(peer, []byte(frame(0x81, `{"action":"ping"}`))); err != nil {
				t.Fatal(err)
			}
			sh.loop.handleEvents(now, []pollEvent{{Fd: other.id, Events: syscall.EPOLLIN}})
			sh.runOnce(now)
		}
		if order != strings.Repeat("op", n) || n < 4 || n == 100 {
			t.Errorf("%s: order of pieces and other messages %q, busy %v", action, order, long.sess.Busy())
		}
	}
}

// TestOnePieceAnIteration checks that an iteration of the event loop handles one piece of all long
// messages together, and that the connections take turns.
func TestOnePieceAnIteration(t *testing.T) {
	h := hub.New(hub.Config{})
	names := defineMany(t, h, 5*64)
	s := newServer(func(c *Config) { c.Hub, c.FlushInterval, c.Shards = h, -1, 1 })
	order := ""
	now := time.Now()
	var sh *shard
	var conns []*conn
	for range 3 {
		shard, c, _ := connOnStoppedShard(t, s)
		sh, conns = shard, append(conns, c)
	}
	sh.loop = &eventLoop{shard: sh, buffer: make([]byte, readBufferSize)}
	s.onStep = func(c *conn, st step) {
		if st == stepEvent {
			order += string(rune('a' + slices.Index(conns, c)))
		}
	}
	for _, c := range conns {
		c.sess.Handle(now, session.Event{Kind: session.Text, Message: []byte(`{"action":"subscribe","trades":["` + strings.Join(names, `","`) + `"]}`)})
	}
	busy := func() bool { return slices.ContainsFunc(conns, func(c *conn) bool { return c.sess.Busy() }) }
	n := 0
	for ; n < 300 && busy(); n++ {
		sh.runOnce(now)
	}
	if n < 12 || n%3 != 0 || order != strings.Repeat("abc", n/3) {
		t.Errorf("%d iterations handle the pieces %q", n, order)
	}
}
