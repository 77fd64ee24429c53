package session

import (
	"testing"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/internal/stream"
)

// TestSize holds an idle session to its share of the 600 bytes that a connection
// may take in all: the struct is a size class of the allocator, and nothing hangs
// on it that an idle session does not need.
func TestSize(t *testing.T) {
	const budget = 352
	if n := unsafe.Sizeof(Session{}); n > budget {
		t.Errorf("a Session has %d bytes; its budget is %d", n, budget)
	}
	now := time.Now()
	hub := stream.New(stream.Config{})
	id := &Identity{User: "u", Family: "f", Expires: now.Add(time.Hour)}
	peer := Peer{Identity: id, Post: func(Notice) {}}
	s := New(&Env{Registry: &Registry{}}, peer, hub.NewShard(func() {}).NewSubscriber(nil), now)
	for range 3 {
		now = now.Add(20 * time.Second)
		s.Tick(now)
		s.Text(now, []byte(`{"action":"ping"}`))
		s.Wrote(now, len(s.Gather(now, nil, 1<<16)))
		s.Text(now, []byte(`{"action":"pong"}`))
	}
	if s.control != nil || s.check != nil || s.faults != nil || s.slow != nil {
		t.Errorf("an idle session keeps %v %v %v %v", s.control, s.check, s.faults, s.slow)
	}
}
