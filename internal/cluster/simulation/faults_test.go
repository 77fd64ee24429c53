package simulation

import (
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
)

// faults has what goes wrong now.
type faults struct {
	leaseStalledUntil time.Duration              // writes of the lease come late or are lost until then
	membersAway       time.Duration              // the store of the members does not answer until then
	membersSlow       time.Duration              // it answers late until then
	staleUntil        time.Duration              // a former leader of the stream answers until then
	staleLast         uint64                     // the newest message that it has
	apart             map[[2]*host]time.Duration // the second host hears nothing of the first one until then
}

// dayAhead is how far a wrong clock is ahead: nodes with right ones would not believe it.
const dayAhead = int64(25 * time.Hour)

// fault injects a fault, and the next one later.
func (w *world) fault() {
	if w.quiet {
		return
	}
	w.in(w.upTo(1200*time.Millisecond), w.fault)
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	if w.chance(40) {
		w.otherFault(h)
		return
	}
	switch w.rng.IntN(9) {
	case 8:
		if w.pauses {
			w.leaseStalledUntil = w.now + w.pauseTime()
			w.note("writes of the lease stall until %v", w.leaseStalledUntil)
		}
	case 7:
		if w.kills { // an upgrade begins with this
			w.note("%s resigns", h.cfg.Name)
			h.receive(cluster.Resigned{})
		}
	case 0:
		if w.kills {
			h.kill(w.downTime(), false)
		}
	case 1:
		if w.pauses {
			h.pause(w.pauseTime())
		}
	case 2:
		if w.cuts {
			w.note("%s is cut from the stream", h.cfg.Name)
			h.cut(w.downTime())
		}
	case 3:
		if w.truncate {
			w.loseMessages()
		}
	case 4:
		if w.disks {
			h.kill(w.downTime(), true)
		}
	case 5:
		if w.kills && w.chance(30) { // all at once
			for _, h := range w.hosts {
				h.kill(w.upTo(400*time.Millisecond), w.disks && w.chance(20))
			}
		}
	case 6:
		if w.disks && w.truncate && w.chance(30) { // a power failure of all machines
			for _, h := range w.hosts {
				h.kill(w.upTo(400*time.Millisecond), true)
			}
			w.loseMessages()
		}
	}
}

// otherFault injects a fault of those that are rarer.
func (w *world) otherFault(h *host) {
	switch w.rng.IntN(9) {
	case 0:
		if w.pauses {
			w.membersSlow = w.now + w.pauseTime()
			w.note("the store of the members is slow until %v", w.membersSlow)
		}
	case 1:
		if w.kills {
			w.membersAway = w.now + w.downTime()
			w.note("the store of the members is away until %v", w.membersAway)
		}
	case 2:
		if w.cuts {
			w.staleUntil, w.staleLast = w.now+w.upTo(time.Second), w.stream.last()
			w.note("a former leader of the stream answers until %v", w.staleUntil)
		}
	case 3:
		if w.cuts {
			w.partition(h)
		}
	case 4:
		if w.cuts && h.conn != nil { // one direction
			if until := w.now + w.pauseTime(); w.chance(50) {
				h.conn.sendsAt = until
			} else {
				h.conn.hearsAt = until
			}
			w.note("%s sends nothing until %v, and hears nothing until %v", h.cfg.Name, h.conn.sendsAt, h.conn.hearsAt)
		}
	case 5:
		if w.pauses {
			h.skew = w.rng.Int64N(int64(20 * time.Minute))
			if w.chance(5) {
				h.skew += dayAhead
			}
			w.note("the clock of %s jumps and is %v ahead", h.cfg.Name, time.Duration(h.skew))
		}
	case 6:
		if w.kills && !w.strict || w.disks { // it costs completeness
			w.double(h)
		}
	case 7:
		if w.disks {
			h.putBack()
			if w.truncate && w.chance(50) { // everything is put back
				for _, x := range w.hosts {
					x.putBack()
				}
				w.loseMessages()
			}
		}
	case 8:
		if n := len(h.disk.rows); w.disks && n > 0 {
			h.disk.damaged = h.disk.rows[w.rng.IntN(n)].position
			w.note("%s cannot read row %d any more", h.cfg.Name, h.disk.damaged)
		}
	}
}

// partition ends the exchange between some hosts, in one direction or both.
func (w *world) partition(h *host) {
	until, both := w.now+w.downTime(), w.chance(50)
	for _, x := range w.hosts {
		if x == h || w.chance(40) {
			continue
		}
		if w.apart[[2]*host{h, x}] = until; both {
			w.apart[[2]*host{x, h}] = until
		}
	}
	w.note("some nodes do not hear %s until %v, both directions: %v", h.cfg.Name, until, both)
}

// double starts another node with the name of one, without a disk. The duplicate check ends it.
func (w *world) double(h *host) {
	x := &host{w: w, cfg: h.cfg, skew: h.skew, double: true}
	w.note("a second %s is started", h.cfg.Name)
	w.hosts = append(w.hosts, x)
	x.start()
	w.in(w.upTo(time.Second), func() {
		x.kill(0, false)
		w.hosts = slices.DeleteFunc(w.hosts, func(y *host) bool { return y == x })
	})
}

// putBack ends the process, and puts a disk back that an earlier process has left.
func (h *host) putBack() {
	old := h.left
	if h.node == nil || old.epoch == "" {
		return
	}
	h.kill(h.w.downTime(), false)
	h.w.note("%s gets back a disk with rows up to %d of %s", h.cfg.Name, old.position(), old.epoch)
	old.rows = slices.Clone(old.rows)
	if h.w.broken == sameNumber {
		old.state.Number = h.w.members[h.cfg.Name]
	}
	h.disk, h.synced = old, old
}

// downTime returns how long a node is away: mostly for less than the patience of a census.
func (w *world) downTime() time.Duration {
	if w.oneEpoch && w.strict || w.chance(70) {
		return w.upTo(400 * time.Millisecond)
	}
	return w.upTo(5 * time.Second)
}

func (w *world) pauseTime() time.Duration {
	if w.oneEpoch && w.strict {
		return w.upTo(400 * time.Millisecond)
	}
	return w.upTo(2 * time.Second)
}

// loseMessages removes the newest messages of the stream, or all. All connections end.
func (w *world) loseMessages() {
	s := &w.stream
	switch w.rng.IntN(6) {
	case 0:
		w.note("the stream is made again")
		s.list, s.first = nil, 1
	case 1:
		w.note("the stream is emptied at %d", s.last())
		s.first, s.list = s.last()+1, nil
	default:
		n := min(w.rng.IntN(12), len(s.list))
		s.list = s.list[:len(s.list)-n]
		w.note("the stream loses %d messages and ends at %d", n, s.last())
	}
	s.lost++
	s.term = 0
	if w.chance(30) {
		w.lease = cluster.LeaseRead{Revision: max(1, w.lease.Revision-w.rng.Uint64N(3))}
	}
	stay := s.first <= s.last()+1 && len(s.list) > 0 && w.chance(30)
	for _, h := range w.hosts {
		if !stay || w.chance(50) {
			h.cut(w.upTo(300 * time.Millisecond))
		}
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.note("no more faults")
	w.quiet, w.faults = true, faults{}
	if a, b := w.hosts[0], w.hosts[1]; a.skew >= dayAhead && b.skew >= dayAhead {
		w.note("an operator corrects the clocks of both sequencers")
		a.skew, b.skew = a.skew-dayAhead, b.skew-dayAhead
	}
	for _, h := range w.hosts {
		h.resume()
	}
}
