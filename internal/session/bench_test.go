package session_test

import (
	"context"
	"testing"

	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/wire"
)

// BenchmarkConnect is a session from its start to the end of its first output, with a
// cached token and a subscription to trades, quotes and a book.
func BenchmarkConnect(b *testing.B) {
	d := newDrive(b, "")
	id, _ := d.world.Env.Verify(context.Background(), "demo")
	d.world.Env.Known = func(string) (*session.Identity, *wire.Fault, bool) { return id, nil, true }
	auth := []byte(`{"action":"auth_token","token":"demo"}`)
	subscribe := []byte(`{"action":"subscribe","id":1,"trades":["GGAL|BYMA|24hs"],"quotes":["GGAL|BYMA|24hs"],"order_book":["GGAL|BYMA|24hs"]}`)
	buf := make([]byte, 0, 64<<10)
	d.text(string(auth))
	d.text(string(subscribe)) // so that the topics are there
	b.ReportAllocs()
	for b.Loop() {
		var s session.Session
		s.Start(d.world.Env, session.Peer{Host: d}, d.shard, &s, d.now)
		for _, msg := range [][]byte{auth, subscribe} {
			s.Text(d.now, msg)
			for out := s.Gather(d.now, buf, 64<<10); len(out) > 0; out = s.Gather(d.now, buf, 64<<10) {
				s.Sent(d.now, len(out), len(out))
			}
		}
		s.PeerGone()
	}
}
