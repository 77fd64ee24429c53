package session

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// note records the events that it gets.
type note struct {
	entry
	sess Session
	mu   sync.Mutex
	got  []Event
}

func newNote() *note {
	n := &note{}
	subscription.NewShard(hub.New(hub.Config{}), func(bool) {}).Open(&n.sess.sub, n)
	n.session = &n.sess
	return n
}

// Post records an event.
func (n *note) Post(x Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, x)
}

func (n *note) kinds() []EventKind {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []EventKind
	for _, x := range n.got {
		all = append(all, x.Kind)
	}
	return all
}

func admit(t *testing.T, r *Registry, p *note, user, family, name string, limit int) wire.Reason {
	t.Helper()
	_, f := r.admit(&p.entry, &Identity{User: user, Family: family}, name, limit, r.Mark())
	if f != nil {
		return f.Reason
	}
	return ""
}

func TestRegistryCounts(t *testing.T) {
	var r Registry
	a, b, c := newNote(), newNote(), newNote()
	if f := admit(t, &r, a, "u", "f1", "", 2); f != "" {
		t.Fatal(f)
	}
	if f := admit(t, &r, b, "u", "f1", "", 2); f != "" {
		t.Fatal(f)
	}
	if f := admit(t, &r, c, "u", "f2", "", 2); f != wire.ConnectionLimit {
		t.Errorf("third of two: got %q", f)
	}
	if f := admit(t, &r, a, "u", "f3", "", 1); f != "" {
		t.Errorf("whoever is in needs no new place: got %q", f)
	}
	r.release(&b.entry)
	r.release(&b.entry)
	if f := admit(t, &r, c, "u", "f2", "", 2); f != "" {
		t.Errorf("after one left: got %q", f)
	}
	if n, all := r.Connections("u"), r.Len(); n != 2 || all != 2 {
		t.Errorf("got %d connections of the user, %d in all", n, all)
	}
	r.release(&a.entry)
	r.release(&c.entry)
	if r.Len() != 0 || len(r.users) != 0 || len(r.families) != 0 {
		t.Errorf("left over: %d, %v, %v", r.Len(), r.users, r.families)
	}
}

func TestRegistryNotifiesFamiliesAndUsers(t *testing.T) {
	var r Registry
	a, b, c := newNote(), newNote(), newNote()
	admit(t, &r, a, "u", "f1", "", 8)
	admit(t, &r, b, "u", "f2", "", 8)
	admit(t, &r, c, "v", "f3", "", 8)
	r.Extend("f2", time.Unix(9, 0))
	r.Revoke("f1")
	r.GrantsChanged("u", Grants{})
	r.RevokeUser("v")
	r.Revoke("no such family")
	for name, x := range map[string]struct {
		note *note
		want []EventKind
	}{
		"a": {a, []EventKind{Revoked, GrantsChanged}},
		"b": {b, []EventKind{Extended, GrantsChanged}},
		"c": {c, []EventKind{Revoked}},
	} {
		if got := x.note.kinds(); !equal(got, x.want) {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}

func equal(a, b []EventKind) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// TestRegistryNotifiesLatecomers admits a session whose token was revoked or changed while it was
// being checked.
func TestRegistryNotifiesLatecomers(t *testing.T) {
	var r Registry
	r.RevokeUser("u") // before the check: of no concern
	mark := r.Mark()
	r.Revoke("other")
	r.Extend("f1", time.Unix(9, 0))
	r.GrantsChanged("u", Grants{})
	late := newNote()
	notices, f := r.admit(&late.entry, &Identity{User: "u", Family: "f1"}, "", 8, mark)
	if f != nil || len(notices) != 2 || notices[0].Kind != Extended || notices[1].Kind != GrantsChanged {
		t.Errorf("got %v, %v", notices, f)
	}
	unmarked := newNote()
	for range keptEvents {
		r.Revoke("x")
	}
	if notices, f = r.admit(&unmarked.entry, &Identity{User: "u", Family: "f1"}, "", 8, 0); f != nil || len(notices) != 0 {
		t.Errorf("without a mark: got %v, %v", notices, f)
	}
	lost := newNote()
	if _, f = r.admit(&lost.entry, &Identity{User: "u", Family: "f1"}, "", 8, mark); f == nil || f.Reason != wire.Overloaded {
		t.Errorf("with notices that are kept no more: got %v", f)
	}
}

func TestRegistryDrains(t *testing.T) {
	var r Registry
	var all []*note
	for i := range 20 {
		n := newNote()
		admit(t, &r, n, strconv.Itoa(i/3), "f", "", 8)
		all = append(all, n)
	}
	r.Drain(20 * time.Second)
	seen := map[time.Duration]bool{}
	for _, n := range all {
		if len(n.got) != 1 || n.got[0].Kind != Drain {
			t.Fatalf("got %v", n.got)
		}
		seen[n.got[0].In] = true
	}
	for i := range 20 {
		if !seen[time.Duration(i+1)*time.Second] {
			t.Errorf("nobody leaves after %d s", i+1)
		}
	}
	if f := admit(t, &r, newNote(), "u", "f", "", 8); f != wire.ShuttingDown {
		t.Errorf("while draining: got %q", f)
	}
	if f := admit(t, &r, all[0], "0", "f", "", 8); f != "" {
		t.Errorf("re-authentication while draining: got %q", f)
	}
}

// TestRegistryRace has many connections that open, take over names, and close while events are
// posted. A user never exceeds the limit, and a name never has two sessions.
func TestRegistryRace(t *testing.T) {
	const limit, workers, rounds = 3, 8, 400
	var r Registry
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				n := newNote()
				user, family := "u"+strconv.Itoa(i%2), "f"+strconv.Itoa(w%3)
				name := ""
				if i%3 == 0 {
					name = "bot"
				}
				reason := admit(t, &r, n, user, family, name, limit)
				if c := r.Connections(user); c > limit {
					t.Errorf("%d connections of a user", c)
				}
				if i%5 == 0 && reason == "" {
					admit(t, &r, n, user, family+"x", "", limit)
				}
				r.release(&n.entry)
			}
		})
	}
	wg.Go(func() {
		for i := range rounds {
			r.Extend("f"+strconv.Itoa(i%3), time.Unix(int64(i), 0))
			r.RevokeUser("u0")
			r.GrantsChanged("u1", Grants{})
			r.mu.Lock()
			bearers := 0
			for p := r.users["u0"]; p != nil; p = p.nextOfUser {
				if p.sessionName() == "bot" {
					bearers++
				}
			}
			r.mu.Unlock()
			if bearers > 1 {
				t.Errorf("%d bearers of one name", bearers)
			}
		}
	})
	wg.Wait()
	if r.Len() != 0 || len(r.users) != 0 || len(r.families) != 0 {
		t.Errorf("left over: %d, %v, %v", r.Len(), r.users, r.families)
	}
}

// TestRefusedTakeOver checks that a session that exceeds the limit does not replace the session
// with its name.
func TestRefusedTakeOver(t *testing.T) {
	var r Registry
	a, b, c := newNote(), newNote(), newNote()
	admit(t, &r, a, "u", "f", "desk", 3)
	admit(t, &r, b, "u", "f", "", 3)
	admit(t, &r, newNote(), "u", "f", "", 3)
	// The limit is lowered to 2. Even without the session of that name there would be 2
	// connections.
	if f := admit(t, &r, c, "u", "f", "desk", 2); f != wire.ConnectionLimit {
		t.Errorf("got %q", f)
	}
	if got := a.kinds(); len(got) > 0 || !a.session.registered || r.Connections("u") != 3 {
		t.Errorf("the bearer of the name got %v, %d connections", got, r.Connections("u"))
	}
	if f := admit(t, &r, c, "u", "f", "desk", 3); f != "" || len(a.kinds()) != 1 || a.session.registered || r.Connections("u") != 3 {
		t.Errorf("with room: %q, the bearer got %v, %d connections", f, a.kinds(), r.Connections("u"))
	}
}

// TestDebtsAreForgotten checks that the registry soon forgets users who have no debt.
func TestDebtsAreForgotten(t *testing.T) {
	var r Registry
	const users = 1000
	for i := range users {
		n := newNote()
		if f := admit(t, &r, n, strconv.Itoa(i), "f", "", 1); f != "" {
			t.Fatal(f)
		}
		n.sess.allowance.whole = 10
		r.release(&n.entry)
	}
	if owed := r.debt("7", 1).messages; owed != 10 {
		t.Errorf("owed until %d, want 10", owed)
	}
	for range users/checkedDebts + users {
		r.debt("someone", 10)
	}
	if n := len(r.debts); n > 0 {
		t.Errorf("%d debts of nothing are kept", n)
	}
}
