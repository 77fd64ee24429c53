package listing

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
)

func TestParseID(t *testing.T) {
	id := ID{Shard: 1, Slot: 2041, Use: 7}
	if got, ok := ParseID(id.String()); !ok || got != id {
		t.Errorf("%v becomes %v, %v", id, got, ok)
	}
	for _, text := range []string{"", "1", "1-2", "1-2-3-4", "-1-2-3", "1--2-3", "1-2-3 ", " 1-2-3", "01-2-3", "+1-2-3", "1-2-x", "1-2-4294967296", "99999999999999999999-1-1"} {
		if id, ok := ParseID(text); ok {
			t.Errorf("%q is %v", text, id)
		}
	}
}

// shards are the connections of shards for a test, by slot.
type shards [][]Connection

// start answers a Scan with pieces until it is over, and returns the number of pieces.
func (s shards) run(shard int, x *Scan, describe func(slot int)) (pieces int) {
	for {
		pieces++
		if x.Piece(len(s[shard]), func(slot int) (Connection, bool) {
			describe(slot)
			c := s[shard][slot]
			return c, c.ID.Use != 0
		}) {
			return pieces
		}
	}
}

func makeShards(shardCount, each int) shards {
	s := make(shards, shardCount)
	for i := range s {
		for slot := range each {
			n := slot*shardCount + i
			c := Connection{ID: ID{Shard: i, Slot: slot, Use: uint32(slot % 7)}} // slots with use 0 are empty
			c.Backlog, c.Accepted = n*7919%1009, uint64(n*104729%1013)
			c.Duration = time.Duration(n*31%997) * time.Second
			c.User = []string{"1", "2", ""}[n%3]
			c.Username = []string{"ana", "eva", ""}[n%3]
			s[i] = append(s[i], c)
		}
	}
	return s
}

// TestList compares lists in each order with a sorted list of all connections.
func TestList(t *testing.T) {
	all := makeShards(3, 800)
	var c Collector
	for _, order := range append(Orders(), "") {
		for _, user := range []string{"", "ana", "2", "nobody"} {
			for _, limit := range []int{0, 1, 10, MaxLimit, 5000} {
				got := c.List(3, Query{User: user, Order: order, Limit: limit, Wait: time.Minute}, func(i int, s *Scan) { go all.run(i, s, func(int) {}) })
				var want []Connection
				open := 0
				for _, shard := range all {
					for _, x := range shard {
						if x.ID.Use == 0 {
							continue
						}
						open++
						if user == "" || user == x.User || user == x.Username {
							want = append(want, x)
						}
					}
				}
				slices.SortFunc(want, func(a, b Connection) int { return order.compare(&a, &b) })
				if got.Open != open || got.Matching != len(want) || len(got.Stale) != 0 {
					t.Errorf("%s of %q: %d open, %d matching, %v stale; want %d, %d", order, user, got.Open, got.Matching, got.Stale, open, len(want))
				}
				want = want[:min(len(want), MaxLimit)]
				if limit != 0 {
					want = want[:min(len(want), limit)]
				}
				if !slices.Equal(got.Connections, want) {
					t.Errorf("%s of %q, limit %d: %d connections, want %d others", order, user, limit, len(got.Connections), len(want))
				}
			}
		}
	}
}

// TestPieces checks that a shard with many connections does other work between pieces, and that one
// which takes too long answers with a part and is reported.
func TestPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := makeShards(2, 10_000)
		var c Collector
		pieces := make(chan int, 2)
		cost := time.Microsecond
		list := func() List {
			l := c.List(2, Query{Limit: 5}, func(i int, s *Scan) {
				go func() {
					pieces <- all.run(i, s, func(int) {
						if i == 1 {
							time.Sleep(cost)
						}
					})
				}()
			})
			synctest.Wait()
			return l
		}
		l := list()
		if first, second := <-pieces, <-pieces; min(first, second) != 1 || max(first, second) < 19 || max(first, second) > 22 {
			t.Errorf("10 ms of work in %d and %d pieces", first, second)
		}
		whole := l.Open
		if len(l.Stale) != 0 || len(l.Connections) != 5 {
			t.Errorf("%v stale, %d connections", l.Stale, len(l.Connections))
		}
		cost = 20 * time.Microsecond
		began := time.Now()
		if l = list(); !slices.Equal(l.Stale, []int{1}) || l.Open <= whole/2 || l.Open >= whole || len(l.Connections) != 5 {
			t.Errorf("too slow: %v stale, %d of %d open", l.Stale, l.Open, whole)
		}
		if took := time.Since(began); took > Patience {
			t.Errorf("it took %v", took)
		}
	})
}

// TestSilentShard checks that a shard which does not answer is reported, and that its late answer
// changes nothing.
func TestSilentShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := makeShards(2, 10)
		var c Collector
		began := time.Now()
		for range 2 {
			l := c.List(2, Query{}, func(i int, s *Scan) {
				time.AfterFunc(time.Duration(i)*time.Second, func() { all.run(i, s, func(int) {}) })
			})
			if !slices.Equal(l.Stale, []int{1}) || l.Open != 8 {
				t.Errorf("%v stale, %d open", l.Stale, l.Open)
			}
		}
		if took := time.Since(began); took != 2*Patience {
			t.Errorf("it took %v", took)
		}
		time.Sleep(time.Minute)
	})
}

// BenchmarkPiece measures the cost of one connection in a list.
func BenchmarkPiece(b *testing.B) {
	s := Scan{query: Query{Limit: 100}, until: time.Now().Add(time.Hour), reply: make(chan answer, 1)}
	c := Connection{ID: ID{Use: 1}, Description: session.Description{Username: "ana"}}
	b.ReportAllocs()
	for !s.Piece(b.N, func(slot int) (Connection, bool) {
		c.ID.Slot, c.Backlog = slot, slot*7919%1009
		return c, true
	}) {
	}
}
