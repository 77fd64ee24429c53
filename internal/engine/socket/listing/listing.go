// Package listing lists the connections of a server for operators. Each shard looks through its own
// connections in pieces, between two inputs, and keeps only the first ones of the order.
//
// # Concurrency
//
// The methods of Collector may be called by any goroutine. A [Scan] belongs to the goroutine of its
// shard. A shard that has not looked through all its connections in time is reported as stale.
package listing

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
)

// ID identifies a connection until the server ends.
type ID struct {
	Shard, Slot int    // index of the shard, and in its table
	Use         uint32 // how often the slot was used before, and once more
}

// String returns the text of an ID, such as 0-17-3.
func (id ID) String() string { return fmt.Sprintf("%d-%d-%d", id.Shard, id.Slot, id.Use) }

// ParseID returns the ID with a text, and false if there is none.
func ParseID(text string) (id ID, ok bool) {
	n, err := fmt.Sscanf(text, "%d-%d-%d", &id.Shard, &id.Slot, &id.Use)
	return id, n == 3 && err == nil && id.Shard >= 0 && id.Slot >= 0 && id.String() == text
}

// Connection describes a connection that has a session.
type Connection struct {
	ID        ID
	Transport string // ws, wss, or http for server-sent events and JSON lines
	session.Description
}

// Order is the order of a list.
type Order string

// Orders of a list.
const (
	ByBacklog Order = "backlog" // the largest first
	ByAge     Order = "age"     // the oldest first
	ByUser    Order = "user"    // by name; those without authentication last
	ByBytes   Order = "bytes"   // the most output first
)

// Orders returns all orders, the default one first.
func Orders() []Order { return []Order{ByBacklog, ByAge, ByUser, ByBytes} }

// compare compares two connections. Equal ones have the order of their IDs.
func (o Order) compare(a, b *Connection) int {
	var c int
	switch o {
	case ByAge:
		c = cmp.Compare(b.Duration, a.Duration)
	case ByUser:
		c = cmp.Or(cmp.Compare(anonymous(a), anonymous(b)), strings.Compare(a.Username, b.Username))
	case ByBytes:
		c = cmp.Compare(b.Accepted, a.Accepted)
	default:
		c = cmp.Compare(b.Backlog, a.Backlog)
	}
	return cmp.Or(c, cmp.Compare(a.ID.Shard, b.ID.Shard), cmp.Compare(a.ID.Slot, b.ID.Slot))
}

func anonymous(c *Connection) int {
	if c.Username == "" {
		return 1
	}
	return 0
}

// MaxLimit is the largest number of connections in a list.
const MaxLimit = 1000

// Query says which connections a list has.
type Query struct {
	User  string        // id or name of the user; "": of all
	Order Order         // "": ByBacklog
	Limit int           // the first so many of the order; 0: MaxLimit, which is the largest one too
	Wait  time.Duration // how long shards may take; 0: Patience
}

// List is a list of connections.
type List struct {
	Connections []Connection
	Open        int   // connections that were looked at
	Matching    int   // of them, those that the query asks for
	Stale       []int // shards that have not looked at all their connections in time
}

// Patience is how long a Collector waits for the answers of all shards together.
const Patience = 50 * time.Millisecond

// Errors about one connection.
var (
	ErrNotFound = errors.New("no such connection")
	ErrStale    = errors.New("the shard does not answer")
)

// answer is what a shard has found.
type answer struct {
	shard          int
	first          []Connection
	open, matching int
	all            bool // the shard has looked at all its connections
}

// Collector lists the connections of shards. The zero Collector is ready.
type Collector struct {
	mu sync.Mutex // held while it waits, so that lists cannot fill the inboxes
}

// List asks n shards for a list. start passes a Scan to a shard without blocking.
func (c *Collector) List(n int, q Query, start func(shard int, s *Scan)) List {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q.Limit <= 0 || q.Limit > MaxLimit {
		q.Limit = MaxLimit
	}
	wait := cmp.Or(q.Wait, Patience)
	until := time.Now().Add(wait - wait/5) // the rest is for the answers
	reply := make(chan answer, n)          // late answers go there too
	for i := range n {
		start(i, &Scan{query: q, until: until, reply: reply, answer: answer{shard: i}})
	}
	var l List
	fresh := make([]bool, n)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for left := n; left > 0; left-- {
		select {
		case a := <-reply:
			fresh[a.shard] = a.all
			l.Open += a.open
			l.Matching += a.matching
			l.Connections = append(l.Connections, a.first...)
			continue
		case <-timer.C:
		}
		break
	}
	for i, ok := range fresh {
		if !ok {
			l.Stale = append(l.Stale, i)
		}
	}
	l.Connections = q.first(l.Connections)
	return l
}

// first sorts list and returns what belongs to the query.
func (q *Query) first(list []Connection) []Connection {
	slices.SortFunc(list, func(a, b Connection) int { return q.Order.compare(&a, &b) })
	return list[:min(len(list), q.Limit)]
}

// Scan looks through the connections of a shard.
type Scan struct {
	query Query
	until time.Time
	reply chan<- answer
	answer
	next int         // slot
	last *Connection // of the first ones, once there are enough; nil: there are not
}

const (
	pieceTime  = 500 * time.Microsecond // of one piece
	pieceCheck = 16                     // connections between two looks at the clock
)

// Piece looks at the connections of further slots for a short time. describe returns the connection
// of a slot, and false if there is none. over means that the shard has answered; otherwise Piece is
// called again after other work.
func (s *Scan) Piece(slots int, describe func(slot int) (Connection, bool)) (over bool) {
	now := time.Now()
	end := now.Add(pieceTime)
	for ; s.next < slots; s.next++ {
		if s.next%pieceCheck == 0 {
			if now = time.Now(); now.After(end) || now.After(s.until) {
				break
			}
		}
		if c, ok := describe(s.next); ok {
			s.add(&c)
		}
	}
	if s.all = s.next >= slots; !s.all && !now.After(s.until) {
		return false
	}
	s.first = s.query.first(s.first)
	s.reply <- s.answer
	return true
}

// add counts a connection, and keeps it if it may belong to the first ones.
func (s *Scan) add(c *Connection) {
	s.open++
	if u := s.query.User; u != "" && u != c.User && u != c.Username {
		return
	}
	s.matching++
	if s.last != nil && s.query.Order.compare(s.last, c) < 0 {
		return
	}
	s.first = append(s.first, *c)
	if len(s.first) == 2*s.query.Limit {
		s.first = s.query.first(s.first)
		last := s.first[len(s.first)-1]
		s.last = &last
	}
}
