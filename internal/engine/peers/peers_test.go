package peers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// place is a session of the test's cluster: a number, by which its tables know it.
type place int

// cluster has tables, and a network between them that loses messages.
type cluster struct {
	t      *testing.T
	rng    *rand.Rand
	now    time.Duration
	tables []*Table[place]
	skew   []int64
	cut    []bool // from the others
	lossy  bool
	next   place
	open   map[place]*opened
	limit  int
}

// opened is a session that was admitted and was not closed.
type opened struct {
	node       int
	user, name string
	order      place // of the admission; greater: later
}

func newCluster(t *testing.T, nodes, limit int, seed uint64) *cluster {
	c := &cluster{t: t, rng: rand.New(rand.NewPCG(seed, 1)), cut: make([]bool, nodes), open: map[place]*opened{}, limit: limit}
	for i := range nodes {
		c.skew = append(c.skew, int64(time.Duration(c.rng.IntN(20)-10)*time.Minute))
		c.tables = append(c.tables, New[place](Config{Node: fmt.Sprint("edge-", i), Start: c.rng.Uint64()}))
	}
	return c
}

// admit opens a session on a node, unless the limit of its user is reached there. As the registry
// does, it replaces a session of the same name on that node.
func (c *cluster) admit(node int, user, name string) (h place, ok bool) {
	count, old := 0, place(-1)
	for h, o := range c.open {
		if o.node == node && o.user == user {
			if count++; name != "" && o.name == name {
				old = h
			}
		}
	}
	if old >= 0 {
		count--
	}
	if count+c.tables[node].Elsewhere(user, name) >= c.limit {
		return 0, false
	}
	if old >= 0 {
		c.leave(old)
	}
	c.next++
	c.open[c.next] = &opened{node, user, name, c.next}
	c.tables[node].Put(user, name, c.limit, c.next)
	return c.next, true
}

// leave ends a session.
func (c *cluster) leave(h place) {
	o := c.open[h]
	delete(c.open, h)
	c.tables[o.node].Remove(o.user, h)
}

// closed ends the sessions that a table wants to be closed.
func (c *cluster) closed(node int, list []Close[place]) {
	for _, x := range list {
		if o := c.open[x.Handle]; o == nil || o.node != node {
			c.t.Fatalf("node %d closes session %d, which it does not have", node, x.Handle)
		}
		delete(c.open, x.Handle)
	}
}

// step lets a node send, and delivers what it sends.
func (c *cluster) step(node int) {
	send, closed := c.tables[node].Tick(c.now, int64(time.Hour)+int64(c.now)+c.skew[node])
	c.closed(node, closed)
	for _, data := range send {
		for to := range c.tables {
			if c.cut[node] || c.cut[to] || c.lossy && c.rng.IntN(4) == 0 {
				continue
			}
			c.closed(to, c.tables[to].Heard(c.now, data))
		}
	}
}

// run lets time pass.
func (c *cluster) run(d time.Duration) {
	for end := c.now + d; c.now < end; c.now += 10 * time.Millisecond {
		for i := range c.tables {
			if c.tables[i].Changed() || int(c.now/(10*time.Millisecond))%10 == i {
				c.step(i)
			}
		}
	}
}

// sessions returns the open sessions of a user, in the order of their admission.
func (c *cluster) sessions(user string) (list []*opened) {
	for _, o := range c.open {
		if o.user == user {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b *opened) int { return int(a.order - b.order) })
	return list
}

// TestNameMoves requires that the newest session has a name, on any node, and that the old one is
// closed as replaced, within the time of a message.
func TestNameMoves(t *testing.T) {
	c := newCluster(t, 3, 8, 1)
	c.run(time.Second)
	for i := range 30 {
		h, ok := c.admit(i%3, "u", "bot")
		if !ok {
			t.Fatal("refused")
		}
		c.run(20 * time.Millisecond)
		if list := c.sessions("u"); len(list) != 1 || c.open[h] == nil {
			t.Fatalf("takeover %d: %d sessions have the name", i, len(list))
		}
	}
	old, _ := c.admit(0, "v", "bot")
	c.admit(1, "w", "bot")
	c.admit(1, "v", "other")
	c.run(time.Second)
	if c.open[old] == nil {
		t.Error("a name of another user, or another name, has replaced the session")
	}
}

// TestNameMovesToANewNode requires that a node which has just started, and has not sent anything
// yet, takes a name over from one that it has heard.
func TestNameMovesToANewNode(t *testing.T) {
	wall := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC).UnixNano()
	a, b := New[place](Config{Node: "a", Start: 1, Wall: wall}), New[place](Config{Node: "b", Start: 2, Wall: wall})
	const old, moved = place(1), place(2)
	a.Tick(0, wall)
	a.Put("u", "bot", 8, old)
	send, _ := a.Tick(0, wall+int64(time.Second))
	for _, data := range send {
		b.Heard(0, data)
	}
	b.Put("u", "bot", 8, moved)
	send, closed := b.Tick(0, wall+int64(time.Second))
	if len(closed) > 0 {
		t.Errorf("the node closes %v", closed)
	}
	for _, data := range send {
		closed = append(closed, a.Heard(0, data)...)
	}
	if len(closed) != 1 || closed[0] != (Close[place]{Handle: old, Replaced: true}) {
		t.Errorf("closed %v, want the session of the other node", closed)
	}
}

// TestLimitAcrossNodes requires that the sessions of all nodes count for a limit, and that those
// that came last are closed when all nodes have admitted some at the same time.
func TestLimitAcrossNodes(t *testing.T) {
	c := newCluster(t, 3, 4, 2)
	c.run(time.Second)
	for i := range 4 {
		if _, ok := c.admit(i%3, "u", ""); !ok {
			t.Fatalf("session %d is refused", i)
		}
		c.run(20 * time.Millisecond)
	}
	for i := range 3 {
		if _, ok := c.admit(i, "u", ""); ok {
			t.Errorf("node %d admits a fifth session", i)
		}
	}
	first := c.sessions("u")[0]
	for h, o := range c.open {
		if o == first {
			c.leave(h)
		}
	}
	c.run(20 * time.Millisecond)
	if _, ok := c.admit(2, "u", ""); !ok {
		t.Error("refused although one has left")
	}
	for range 4 {
		for i := range 3 {
			c.admit(i, "v", "") // before any message
		}
	}
	if n := len(c.sessions("v")); n != 12 {
		t.Fatalf("%d were admitted at once", n)
	}
	c.run(time.Second)
	list := c.sessions("v")
	if len(list) != 4 {
		t.Errorf("%d of 4 are open", len(list))
	}
	c.run(5 * time.Second)
	if n := len(c.sessions("v")); n != len(list) {
		t.Errorf("%d are left after some time", n)
	}
}

// TestNodeThatVanishes requires that the sessions of a node count for the time of a lease, and that
// a node that is cut off counts its own sessions only. When it is back, names are unique again and
// limits are kept, and the sessions that came first stay.
func TestNodeThatVanishes(t *testing.T) {
	c := newCluster(t, 2, 2, 3)
	c.run(time.Second)
	c.admit(0, "u", "bot")
	c.admit(0, "u", "")
	c.run(100 * time.Millisecond)
	c.cut[0] = true
	c.run(time.Second)
	if _, ok := c.admit(1, "u", ""); ok {
		t.Error("the sessions of the node do not count in its lease")
	}
	c.run(3 * time.Second)
	moved, ok := c.admit(1, "u", "bot")
	if !ok {
		t.Fatal("the sessions of a node that has vanished still count")
	}
	c.admit(1, "u", "")
	if c.tables[0].Nodes() != 0 || len(c.open) != 4 {
		t.Fatalf("%d nodes, %d sessions", c.tables[0].Nodes(), len(c.open))
	}
	c.cut[0] = false
	c.run(time.Second)
	list := c.sessions("u")
	if len(list) != 2 || c.open[moved] == nil || list[0].name != "" || list[0].node != 0 {
		t.Errorf("%d sessions after the cut; the newest of the name is open: %t", len(list), c.open[moved] != nil)
	}
}

// TestRandom plays random sessions on random nodes, with lost messages, cuts and restarts. When the
// network works again, within a second each name of a user is on one node, limits are kept, and the
// tables agree. No session is closed while everything works and the limit is not reached.
func TestRandom(t *testing.T) {
	for seed := range uint64(40) {
		c := newCluster(t, 2+int(seed%3), 3, seed)
		for range 300 {
			c.run(time.Duration(c.rng.IntN(4)) * 50 * time.Millisecond)
			switch node := c.rng.IntN(len(c.tables)); c.rng.IntN(12) {
			case 0:
				c.cut[node] = !c.cut[node]
			case 1:
				c.lossy = !c.lossy
			case 2: // the process starts again
				for h, o := range c.open {
					if o.node == node {
						delete(c.open, h)
					}
				}
				c.tables[node] = New[place](Config{Node: c.tables[node].cfg.Node, Start: c.rng.Uint64()})
			case 3, 4, 5:
				for h := range c.open {
					c.leave(h)
					break
				}
			default:
				c.admit(node, fmt.Sprint("u", c.rng.IntN(4)), []string{"", "a", "b"}[c.rng.IntN(3)])
			}
		}
		c.lossy = false
		clear(c.cut)
		c.run(1500 * time.Millisecond)
		for u := range 4 {
			user, names := fmt.Sprint("u", u), map[string]int{}
			list := c.sessions(user)
			for _, o := range list {
				if names[o.name]++; o.name != "" && names[o.name] > 1 {
					t.Errorf("seed %d: two sessions of %s have the name %s", seed, user, o.name)
				}
			}
			if len(list) > c.limit {
				t.Errorf("seed %d: %s has %d sessions", seed, user, len(list))
			}
			for i, table := range c.tables {
				if n := len(table.own[user]) + table.Elsewhere(user, ""); n != len(list) {
					t.Errorf("seed %d: node %d counts %d of %d sessions of %s", seed, i, n, len(list), user)
				}
			}
		}
		was := len(c.open)
		if c.run(3 * time.Second); len(c.open) != was {
			t.Errorf("seed %d: sessions are closed without a cause", seed)
		}
	}
}

// TestManyUsers requires that lists that exceed a message arrive in parts, also when one is lost.
func TestManyUsers(t *testing.T) {
	c := newCluster(t, 2, 8, 4)
	const users = 5000
	for i := range users {
		c.admit(0, fmt.Sprint("user-with-a-long-identifier-", i), "a session name")
	}
	c.cut[1] = true
	c.run(time.Second)
	c.cut[1] = false
	c.run(time.Second)
	if n := len(c.tables[1].nodes["edge-0"].users); n != users {
		t.Errorf("%d of %d users", n, users)
	}
	send, _ := c.tables[0].Tick(c.now, 0)
	for _, m := range send {
		if len(m) > 2*pieceBytes {
			t.Errorf("a message has %d bytes", len(m))
		}
	}
}

// TestVeryManySessions checks that a user with more sessions on a node than a message may have does
// not keep others from learning of the node's sessions.
func TestVeryManySessions(t *testing.T) {
	c := newCluster(t, 2, 3*maxSessions, 1)
	for range maxSessions + 100 {
		if _, ok := c.admit(0, "many", ""); !ok {
			t.Fatal("a session was refused")
		}
	}
	c.admit(0, "ana", "bot")
	c.admit(0, "many", "newest")
	c.run(time.Second)
	if got := c.tables[1].Elsewhere("ana", ""); got != 1 {
		t.Errorf("the other node knows %d sessions of ana", got)
	}
	if got := c.tables[1].Elsewhere("many", ""); got != maxSessions {
		t.Errorf("the other node knows %d sessions of many", got)
	}
	c.admit(1, "many", "newest")
	c.run(time.Second)
	if got := c.tables[0].Elsewhere("many", ""); got != 1 {
		t.Errorf("the first node knows %d sessions of many on the other", got)
	}
	for _, o := range c.sessions("many") {
		if o.node == 0 && o.name == "newest" {
			t.Error("the name has two sessions")
		}
	}
}

// FuzzHeard requires that no message of another node harms a table.
func FuzzHeard(f *testing.F) {
	a := New[place](Config{Node: "a", Start: 1})
	a.Put("u", "bot", 8, 1)
	send, _ := a.Tick(0, 1)
	for _, m := range send {
		f.Add(m)
	}
	f.Add([]byte(`{"node":"c","start":3,"change":9,"clock":5,"kind":"whole","last":true,"users":[{"u":"u","s":[{"t":1,"n":"bot","c":99}]}]}`))
	f.Add([]byte(`{"node":"c","clock":-1,"kind":"change","users":[{"u":"u","s":[{"t":-1}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := New[place](Config{Node: "b", Start: 2})
		b.Put("u", "bot", 1, 1)
		b.Heard(time.Second, data)
		b.Heard(time.Second, data)
		if _, closed := b.Tick(2*time.Second, 5); len(closed) > 1 {
			t.Error("more sessions are closed than there are")
		}
		if b.clock < 0 || b.clock > maxPlace {
			t.Errorf("the clock is at %d", b.clock)
		}
	})
}
