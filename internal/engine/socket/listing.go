package socket

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket/listing"
)

// Connections lists the connections that have a session.
func (s *Server) Connections(q listing.Query) listing.List {
	return s.lister.List(len(s.shards), q, func(i int, x *listing.Scan) { s.shards[i].scan(i, x) })
}

// scan looks through the connections of shard number index, with other work between two pieces.
func (sh *shard) scan(index int, x *listing.Scan) {
	sh.post(input{kind: inputTask, task: func(now time.Time) {
		over := x.Piece(len(sh.conns.byID), func(slot int) (listing.Connection, bool) {
			return sh.describe(now, index, slot)
		})
		if !over {
			sh.scan(index, x)
		}
	}})
}

// describe returns the connection of a slot, and false if there is none or its session is over.
func (sh *shard) describe(now time.Time, index, slot int) (d listing.Connection, ok bool) {
	c := sh.conns.byID[slot]
	if c == nil || c.phase != phaseOpen || c.sess.State() == session.Closed {
		return d, false
	}
	defer sh.recoverPanic(now, c)
	d.ID = listing.ID{Shard: index, Slot: slot, Use: sh.conns.uses[slot]}
	d.Transport, d.Description = c.transport(), session.Describe(&c.sess, now)
	return d, true
}

// transport returns the name of the transport of c.
func (c *conn) transport() string {
	switch {
	case c.netConn.isLocal():
		return "http"
	case c.tls != nil, c.netConn != nil && c.netConn.secure:
		return "wss"
	}
	return "ws"
}

// connectionWait is how long a shard may take to find one connection. On a busy machine, it may be
// late by more than the time of a list.
const connectionWait = time.Second

// Connection returns the connection with an ID. With end it also posts the event that closes it.
// The errors are those of package listing.
func (s *Server) Connection(id listing.ID, end bool) (listing.Connection, error) {
	if id.Shard >= len(s.shards) {
		return listing.Connection{}, listing.ErrNotFound
	}
	sh := s.shards[id.Shard]
	reply := make(chan *listing.Connection, 1)
	sh.post(input{kind: inputTask, task: func(now time.Time) {
		var found *listing.Connection
		if id.Slot < len(sh.conns.byID) {
			if d, ok := sh.describe(now, id.Shard, id.Slot); ok && d.ID == id {
				if found = &d; end {
					sh.conns.byID[id.Slot].Post(session.Event{Kind: session.ByOperator})
				}
			}
		}
		reply <- found
	}})
	select {
	case d := <-reply:
		if d == nil {
			return listing.Connection{}, listing.ErrNotFound
		}
		return *d, nil
	case <-time.After(connectionWait):
		return listing.Connection{}, listing.ErrStale
	}
}

// CloseConnections closes the connections of a user with an id or name, and returns their number.
// The error is ErrStale of package listing if a shard does not answer: then some may be open.
func (s *Server) CloseConnections(user string, wait time.Duration) (closed int, err error) {
	for {
		l := s.Connections(listing.Query{User: user, Wait: wait})
		for i := range l.Connections {
			if _, err := s.Connection(l.Connections[i].ID, true); err == nil {
				closed++
			}
		}
		switch {
		case len(l.Stale) > 0:
			return closed, listing.ErrStale
		case len(l.Connections) < listing.MaxLimit: // later ones are new
			return closed, nil
		}
	}
}
