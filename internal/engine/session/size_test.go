package session

import (
	"testing"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
)

// TestSize checks that an idle session stays within its share of the 600 bytes of a connection, and
// keeps nothing that an idle session does not need.
func TestSize(t *testing.T) {
	const budget = 224
	if n := unsafe.Sizeof(Session{}); n > budget {
		t.Errorf("a Session has %d bytes; its budget is %d", n, budget)
	}
	now := time.Now()
	hub := hub.New(hub.Config{})
	id := &Identity{User: "u", Family: "f", Expires: now.Add(time.Hour)}
	var s Session
	s.Start(&Env{Registry: &Registry{}, Origin: now}, Peer{Identity: id}, subscription.NewShard(hub, func(bool) {}), nil, now)
	for range 3 {
		now = now.Add(20 * time.Second)
		s.Handle(now, Event{Kind: Timer})
		s.PauseInput(now, time.Second)
		s.ResumeInput(now)
		s.Handle(now, Event{Kind: Text, Message: []byte(`{"action":"ping"}`)})
		n := len(s.Output(now, nil, 1<<16))
		s.Sent(now, n, n)
		s.Handle(now, Event{Kind: Text, Message: []byte(`{"action":"pong"}`)})
	}
	if s.optional != nil || s.out != nil {
		t.Errorf("an idle session keeps %+v %+v", s.optional, s.out)
	}
}
