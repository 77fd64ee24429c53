package peers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// say passes a message of another node to a table.
func say(t *testing.T, to *Table[place], m message) []Close[place] {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return to.Heard(time.Second, data)
}

// TestForgedClock checks that a node whose clock is in a far future does not move those of others,
// which then could not exchange sessions any more.
func TestForgedClock(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC).UnixNano()
	a, b := New[place](Config{Node: "a", Start: 1}), New[place](Config{Node: "b", Start: 2})
	for _, x := range []*Table[place]{a, b} {
		x.Tick(0, now)
		say(t, x, message{Node: "c", Start: 3, Clock: maxPlace - 1, Kind: beat})
	}
	b.Put("u", "bot", 8, 1)
	a.Put("u", "bot", 8, 2)
	send, _ := a.Tick(2*time.Second, now+1)
	closed := 0
	for _, m := range send {
		closed += len(b.Heard(2*time.Second, m))
	}
	if a.Tick(3*time.Second, now+2); a.clock > now+2*maxAhead || b.nodes["a"] == nil || len(b.nodes["a"].users) != 1 {
		t.Errorf("after a forged clock: clock %d, node b knows %+v, %d closed", a.clock, b.nodes["a"], closed)
	}
}

// TestEndlessUsers checks that what other nodes say about users takes limited memory.
func TestEndlessUsers(t *testing.T) {
	const perUser = 1000
	x := New[place](Config{Node: "a", Start: 1})
	x.Put("own", "", 8, 1)
	total := func() (n int) {
		for _, other := range x.nodes {
			n += weight(other.users) + weight(other.coming)
			if other.known != weight(other.users)+weight(other.coming) {
				t.Fatalf("counted %d instead of %d", other.known, weight(other.users)+weight(other.coming))
			}
		}
		return n
	}
	list := make([]Session, perUser)
	for i := range 2 * maxKnown / perUser {
		of := fmt.Sprint("node-", i%7)
		m := message{Node: of, Start: 1, Change: uint64(i/7 + 1), Kind: change, Users: []user{{fmt.Sprint("u", i), list}}}
		if i%7 == 0 { // the parts of a list that does not end
			m.Kind, m.Change, m.Part = whole, 1, i/7
		}
		say(t, x, m)
	}
	if n := total(); n > maxKnown || n < maxKnown-2*perUser {
		t.Errorf("%d users and sessions, at most %d", n, maxKnown)
	}
	say(t, x, message{Node: "node-1", Start: 2, Kind: beat}) // has started again
	say(t, x, message{Node: "b", Start: 1, Change: 1, Kind: change, Users: []user{{"own", list[:3]}}})
	if n := x.Elsewhere("own", ""); n != 3 {
		t.Errorf("%d sessions on node b after others have gone", n)
	}
	total()
}

// TestLongTexts checks that a message with texts that no node has is ignored.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("x", maxText+1)
	x := New[place](Config{Node: "a", Start: 1})
	for _, m := range []message{
		{Node: long, Kind: beat},
		{Node: "b", Change: 1, Kind: change, Users: []user{{long, []Session{{Since: 1}}}}},
		{Node: "b", Change: 1, Kind: change, Users: []user{{"u", []Session{{Since: 1, Name: long, Claimed: 1}}}}},
	} {
		if say(t, x, m); x.Nodes() != 0 {
			t.Errorf("a message of kind %q with a long text is read", m.Kind)
		}
	}
}

// TestManyNames checks that names of one user on other nodes take a time that grows with their
// number, and not with its square.
func TestManyNames(t *testing.T) {
	x := New[place](Config{Node: "a", Start: 1})
	x.Tick(0, 5)
	for h := range place(8) {
		x.Put("u", fmt.Sprint("own-", h), 8, h)
	}
	list := make([]Session, maxSessions)
	for i := range list {
		list[i] = Session{Since: 1, Name: fmt.Sprint("s", i), Claimed: 2}
	}
	began := time.Now()
	for i := range 20 {
		say(t, x, message{Node: fmt.Sprint("node-", i), Start: 1, Change: 1, Kind: change, Users: []user{{"u", list}}})
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("20 messages took %v", took)
	}
}
