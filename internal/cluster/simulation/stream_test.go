package simulation

import (
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
)

// stream is the stream of the log and its consumers.
type stream struct {
	first     uint64
	list      [][]byte
	lost      int    // number of times at which messages were lost
	term      uint64 // newest term row since then
	consumers []*consumer
}

// consumer receives the messages of the stream on a connection.
type consumer struct {
	conn *conn
	next uint64
}

func (s *stream) last() uint64 { return s.first + uint64(len(s.list)) - 1 }

// conn is a connection of a host. What the server sends on it arrives in order.
type conn struct {
	host    *host
	process int
	ended   bool
	until   time.Duration // ended: what arrives later is lost
	arrival time.Duration // of the newest message
	sendsAt time.Duration // what the host sends arrives later than that
	hearsAt time.Duration // what the server sends arrives later than that
	at      *consumer
}

const timeLimit = 200 * time.Millisecond // of an append

// delay returns the time of a message on the network.
func (w *world) delay() time.Duration {
	switch n := w.rng.IntN(100); {
	case n < 90:
		return w.upTo(2 * time.Millisecond)
	case n < 99:
		return w.upTo(20 * time.Millisecond)
	}
	return w.upTo(150 * time.Millisecond)
}

// send delivers an event to the host of a connection, after what was sent before.
func (c *conn) send(e cluster.Event) {
	w := c.host.w
	c.arrival = max(c.arrival, w.now+w.delay(), c.hearsAt)
	at := c.arrival
	w.in(at-w.now, func() {
		if c.ended && at > c.until || c.process != c.host.process {
			return
		}
		c.host.enqueue(func() {
			if _, ok := e.(cluster.Connected); ok {
				c.host.session = c
			}
			c.host.handle(e)
		})
	})
}

// sendLate delivers an event that others may overtake: the host reads the lease on a goroutine of
// its own.
func (c *conn) sendLate(e cluster.Event) {
	c.host.w.in(c.host.w.upTo(100*time.Millisecond), func() {
		if !c.ended && c.process == c.host.process && c.host.session == c {
			c.host.receive(e)
		}
	})
}

// request performs something on the server after a network delay.
func (c *conn) request(do func()) {
	w := c.host.w
	lost := w.stream.lost
	w.in(max(w.delay(), c.sendsAt-w.now), func() {
		if !c.ended || w.stream.lost == lost && w.now <= c.until {
			do()
		}
	})
}

// lastSeen returns the sequence of the newest message, as the server that answers knows it.
func (w *world) lastSeen() uint64 {
	s := &w.stream
	if w.now < w.staleUntil {
		return max(s.first-1, min(s.last(), w.staleLast))
	}
	return s.last()
}

// attach makes a consumer.
func (c *conn) attach(seq uint64) {
	w := c.host.w
	x := &consumer{conn: c}
	c.at = x
	c.request(func() {
		if c.ended || c.at != x {
			return
		}
		s := &w.stream
		x.next = max(seq, s.first)
		s.consumers = append(s.consumers, x)
		if c.host.need = w.present(); w.now < w.staleUntil {
			c.host.need = standard{} // nobody can know that there is more
		}
		c.sendOf(x, cluster.Attached{First: s.first, Last: w.lastSeen()}, -1)
		w.deliver(-1)
	})
}

// sendOf sends an event of a consumer, unless the host has replaced it. since is as for receiveOf.
func (c *conn) sendOf(x *consumer, e cluster.Event, since time.Duration) {
	w := c.host.w
	c.arrival = max(c.arrival, w.now+w.delay(), c.hearsAt)
	at := c.arrival
	w.in(at-w.now, func() {
		if c.ended && at > c.until || c.process != c.host.process {
			return
		}
		c.host.receiveOf(x, e, since)
	})
}

// deliver sends new messages to consumers. since is as for receiveOf.
func (w *world) deliver(since time.Duration) {
	s := &w.stream
	kept := s.consumers[:0]
	for _, x := range s.consumers {
		if x.conn.ended || x.conn.at != x || x.conn.process != x.conn.host.process {
			continue
		}
		kept = append(kept, x)
		for ; x.next <= s.last(); x.next++ {
			x.conn.sendOf(x, cluster.Received{Seq: x.next, Data: s.list[x.next-s.first]}, since)
		}
	}
	s.consumers = kept
}

// append appends a message, as the server does.
func (c *conn) append(e cluster.Append, b *cluster.Batch) {
	w := c.host.w
	answered := false
	answer := func(r cluster.Appended) {
		if !answered {
			answered, r.Expected = true, e.Expected
			c.send(r)
		}
	}
	w.in(timeLimit, func() {
		if !answered && !c.ended && c.process == c.host.process {
			answered = true
			r := cluster.Appended{Result: cluster.AppendUnknown, Expected: e.Expected}
			if w.broken == blindTrust {
				r.Result, r.Seq = cluster.AppendDone, w.stream.last()
			}
			c.host.receive(r)
		}
	})
	late := time.Duration(0)
	switch {
	case w.quiet:
	case w.chance(1):
		return // the request is lost
	case w.chance(1):
		late = w.upTo(3 * timeLimit)
	}
	w.in(late, func() { c.performAppend(e, b, answer) })
}

// performAppend performs an append on the server.
func (c *conn) performAppend(e cluster.Append, b *cluster.Batch, answer func(cluster.Appended)) {
	w := c.host.w
	c.request(func() {
		s := &w.stream
		if s.last() != e.Expected && w.broken != noFence {
			answer(cluster.Appended{Result: cluster.AppendRefused})
			return
		}
		s.list = append(s.list, e.Data)
		seq := s.last()
		w.checkAppend(c.host, b)
		if b.Kind == cluster.TermRow {
			w.terms[b.ID.Term] = true
			w.note("%s appends the term row %d at %d, base %d of %s", c.host.cfg.Name, b.ID.Term.Number, seq, b.Prev, b.Epoch)
		}
		w.deliver(w.now)
		if w.quiet || !w.chance(1) { // else the answer is lost
			answer(cluster.Appended{Result: cluster.AppendDone, Seq: seq})
		}
	})
}

// readLast reads the newest message.
func (c *conn) readLast(a cluster.ReadLast) {
	c.request(func() {
		s := &c.host.w.stream
		last := c.host.w.lastSeen()
		e := cluster.LastRead{Expected: a.Expected, Seq: last, Failed: c.host.w.chance(5)}
		if last >= s.first {
			e.Data = s.list[last-s.first]
		}
		c.send(e)
	})
}

// writeLease writes the lease, and notifies all connections. While the lease stalls, requests come
// late or are lost; otherwise 2 % of the requests and 2 % of the answers are lost. After the time
// limit the host reads the lease again.
func (c *conn) writeLease(e cluster.WriteLease) {
	w := c.host.w
	answered := false
	answer := func(r cluster.LeaseWritten) {
		if !answered {
			answered, r.Expected = true, e.Expected
			c.send(r)
		}
	}
	w.in(timeLimit, func() {
		if !answered && !c.ended && c.process == c.host.process {
			answer(cluster.LeaseWritten{})
			c.checkLease()
		}
	})
	late := time.Duration(0)
	switch stalls := w.now < w.leaseStalledUntil; {
	case stalls && w.chance(50):
		late = w.upTo(2 * timeLimit)
	case stalls, !w.quiet && w.chance(2):
		return
	}
	w.in(late, func() { c.performLease(e, answer) })
}

// checkLease reads the lease after a write that has failed.
func (c *conn) checkLease() {
	c.request(func() {
		e := c.host.w.lease
		e.Checked = true
		c.send(e)
	})
}

// performLease performs a write of the lease on the server.
func (c *conn) performLease(e cluster.WriteLease, answer func(cluster.LeaseWritten)) {
	w := c.host.w
	c.request(func() {
		if w.lease.Revision != e.Expected {
			answer(cluster.LeaseWritten{})
			c.checkLease()
			return
		}
		w.lease = cluster.LeaseRead{Revision: e.Expected + 1}
		if !e.Release {
			w.lease.Holder = c.host.cfg.Name
		}
		if w.quiet || !w.chance(2) {
			answer(cluster.LeaseWritten{Done: true, Revision: w.lease.Revision})
		}
		for _, h := range w.hosts {
			switch c := h.conn; {
			case c == nil || c.ended:
			case !w.quiet && w.chance(5):
				c.sendLate(w.lease)
			default:
				c.send(w.lease)
			}
		}
	})
}

// exchange sends a message between nodes. It may be lost, come twice, and overtake others.
func (w *world) exchange(from *host, to *host, do func()) {
	if from.conn == nil || from.conn.ended || w.now < w.apart[[2]*host{from, to}] || !w.quiet && w.chance(2) {
		return
	}
	process := to.process
	for range 1 + min(1, w.rng.IntN(30)/29) {
		w.in(w.delay(), func() {
			if to.process == process && to.conn != nil && !to.conn.ended {
				do()
			}
		})
	}
}

// membersDelay returns how long the store of the members takes.
func (w *world) membersDelay() time.Duration {
	if w.now < w.membersSlow {
		return w.upTo(2 * time.Second)
	}
	return w.delay()
}

// readMembers returns the registered nodes.
func (w *world) readMembers() cluster.MembersRead {
	e := cluster.MembersRead{Failed: w.now < w.membersAway || !w.quiet && w.chance(5)}
	for _, x := range w.hosts {
		n := w.members[x.cfg.Name]
		if n == 0 || x.double || w.broken == noCensus || w.broken == noPatience && (x.conn == nil || x.conn.ended) {
			continue
		}
		e.List = append(e.List, cluster.Member{Name: x.cfg.Name, Number: n})
	}
	return e
}
