package socket

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket/listing"
)

// TestConnections lists and closes connections, on every transport.
func TestConnections(t *testing.T) { forEachTransport(t, testConnections) }

func testConnections(t *testing.T, tr transport) {
	p := newPublisher(t)
	s := openServer(t, tr, p.config)
	list := func(q listing.Query) listing.List {
		t.Helper()
		q.Wait = time.Minute
		return s.Connections(q)
	}
	ana, eva := s.dialSmallBuffer(), s.dialSmallBuffer()
	s.dialSmallBuffer() // sends no token
	for name, c := range map[string]*client{"ana": ana, "eva": eva} {
		c.send(`{"action":"auth_token","token":"` + name + `","session":"bot-` + name + `"}`)
		c.want(`"code":200,"msg":"Connected"`)
		c.subscribe()
	}
	second := s.dialSmallBuffer()
	second.auth("eva")
	waitFor(t, "all sessions, with what they have sent", func() bool {
		l := list(listing.Query{})
		waits := slices.ContainsFunc(l.Connections, func(c listing.Connection) bool { return c.Backlog > 0 })
		return l.Open == 4 && !waits
	})

	l := list(listing.Query{Order: listing.ByUser})
	transport := "ws"
	if tr.secure {
		transport = "wss"
	}
	seen := map[listing.ID]bool{}
	for i, name := range []string{"ana", "eva", "eva", ""} {
		c := l.Connections[i]
		seen[c.ID] = true
		if c.Username != name || c.Transport != transport || c.Address != netip.MustParseAddr("127.0.0.1") || c.Slow || c.Backlog != 0 {
			t.Errorf("connection %d: %+v", i, c)
		}
		if name == "" && (c.State != session.AwaitingToken || c.User != "" || c.Accepted != 0) ||
			name != "" && (c.State != session.Live || c.User != "u-"+name || c.Family != "f-"+name || c.Accepted == 0) {
			t.Errorf("connection %d: %+v", i, c)
		}
		if c.Name != "" && (c.Name != "bot-"+name || c.Subscriptions != 1) {
			t.Errorf("connection %d: %+v", i, c)
		}
	}
	if len(seen) != 4 || len(l.Stale) != 0 {
		t.Errorf("%d ids, %v stale", len(seen), l.Stale)
	}

	testLargestBacklog(t, p, ana, list)

	id := list(listing.Query{User: "ana"}).Connections[0].ID
	if c, err := s.Connection(id, true); err != nil || c.Username != "ana" {
		t.Errorf("close: %+v, %v", c, err)
	}
	waitFor(t, "the end", func() bool { return list(listing.Query{User: "u-ana"}).Matching == 0 })
	for _, gone := range []listing.ID{id, {Shard: 99, Slot: 1, Use: 1}, {Slot: 99999, Use: 1}, {Shard: id.Shard, Slot: id.Slot, Use: id.Use + 1}} {
		if _, err := s.Connection(gone, true); !errors.Is(err, listing.ErrNotFound) {
			t.Errorf("close %v: %v", gone, err)
		}
	}
	if n, err := s.CloseConnections("eva", time.Minute); n != 2 || err != nil {
		t.Errorf("close those of eva: %d, %v", n, err)
	}
	second.want(`"type":"Error","code":503,"reason":"overloaded","msg":"An operator has closed this connection"`)
	second.wantClose(4503, "overloaded")
	if n, err := s.CloseConnections("eva", time.Minute); n != 0 || err != nil {
		t.Errorf("close them again: %d, %v", n, err)
	}
	if l = list(listing.Query{}); l.Open != 1 || l.Connections[0].User != "" {
		t.Errorf("left: %+v", l)
	}
}

// testLargestBacklog publishes until a client of eva, which does not read, has the largest backlog.
func testLargestBacklog(t *testing.T, p *publisher, ana *client, list func(listing.Query) listing.List) {
	t.Helper()
	go func() {
		for {
			if _, _, err := ana.next(); err != nil {
				return
			}
		}
	}()
	waitFor(t, "a backlog", func() bool {
		p.publish(500)
		l := list(listing.Query{Limit: 1})
		if l.Matching != 4 || len(l.Connections) != 1 {
			t.Fatalf("the first of %d connections: %+v", l.Matching, l.Connections)
		}
		return l.Connections[0].Name == "bot-eva" && l.Connections[0].Backlog > 100<<10
	})
}

// TestIDsAreNotUsedAgain checks that the id of a closed connection does not name the next one.
func TestIDsAreNotUsedAgain(t *testing.T) {
	var table connTable
	seen := map[listing.ID]bool{}
	for range 5 {
		a, b := new(conn), new(conn)
		table.add(a)
		table.add(b)
		for _, c := range []*conn{a, b} {
			id := listing.ID{Slot: int(c.id), Use: table.uses[c.id]}
			if seen[id] {
				t.Errorf("%v again", id)
			}
			seen[id] = true
			table.remove(c, true)
		}
		table.recycle()
	}
	if len(table.byID) != 2 {
		t.Errorf("%d slots", len(table.byID))
	}
}
