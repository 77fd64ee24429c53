package session

import (
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
)

// TestRegistryRevokesKey checks that exactly the sessions with tokens of a key get the event.
func TestRegistryRevokesKey(t *testing.T) {
	var r Registry
	enter := func(user, key string) *note {
		n := newNote()
		if _, f := r.admit(&n.entry, &Identity{User: user, Family: user, KeyID: key}, "", 8, r.Mark()); f != nil {
			t.Fatal(f)
		}
		return n
	}
	a, b, c, d := enter("u", "old"), enter("u", "new"), enter("v", "old"), enter("w", "")
	mark := r.Mark()
	r.RevokeKey("old")
	r.RevokeKey("no such key")
	for name, x := range map[string]struct {
		note *note
		want []EventKind
	}{"a": {a, []EventKind{Revoked}}, "b": {b, nil}, "c": {c, []EventKind{Revoked}}, "d": {d, nil}} {
		if got := x.note.kinds(); !equal(got, x.want) {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
	// Tokens that were being checked meanwhile, and one that was checked after.
	for key, want := range map[string]int{"old": 1, "new": 0} {
		late := newNote()
		list, f := r.admit(&late.entry, &Identity{User: "x", Family: "x", KeyID: key}, "", 8, mark)
		if f != nil || len(list) != want {
			t.Errorf("admitted late with a token of key %s: %v %v, want %d notices", key, list, f, want)
		}
	}
	if list, _ := r.admit(&newNote().entry, &Identity{User: "y", Family: "y", KeyID: "old"}, "", 8, r.Mark()); len(list) != 0 {
		t.Errorf("checked after the revocation: %v", list)
	}
}

// TestRevokedKeyEndsSession checks that a revoked key ends a session, unless it has
// re-authenticated with a token of another key.
func TestRevokedKeyEndsSession(t *testing.T) {
	now := time.Now()
	hub := hub.New(hub.Config{})
	for key, over := range map[string]bool{"old": true, "new": false} {
		var s Session
		id := &Identity{User: "u", Family: "f", KeyID: key, Expires: now.Add(time.Hour)}
		s.Start(&Env{Registry: &Registry{}, Origin: now}, Peer{Identity: id}, subscription.NewShard(hub, func(bool) {}), nil, now)
		s.Handle(now, Event{Kind: Revoked, KeyID: "old"})
		if got := s.closeReason() != nil; got != over {
			t.Errorf("a session of key %s: over %v, want %v", key, got, over)
		}
	}
}
