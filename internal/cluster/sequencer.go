package cluster

import (
	"slices"
	"time"
)

// This file appends the rows of a leader: one append at a time, each of which continues the stream.

// refill queues rows that the stream has lost.
func (n *Node) refill(now time.Duration, e Refilled) {
	l := &n.leader
	if l.phase != refilling || !l.asked {
		return
	}
	l.asked = false
	at := l.refilled
	for _, g := range e.Groups {
		if e.Failed = e.Failed || g.Prev != at || g.Last <= g.Prev || g.Last > l.base; e.Failed {
			break
		}
		at = g.Last
		n.enqueue(now, g, OldRows)
	}
	if e.Failed || len(e.Groups) == 0 {
		l.force = true
		n.abandon(now, "the journal does not have the rows that the stream has lost")
	}
}

// offered queues numbered rows.
func (n *Node) offered(now time.Duration, g Group) {
	l := &n.leader
	if l.phase != leading || l.resigning > 0 {
		return
	}
	if g.Prev != l.offered || g.Last < g.Prev {
		n.abandon(now, "numbered rows do not continue the log")
		return
	}
	l.offered = g.Last
	n.enqueue(now, g, NewRows)
}

func (n *Node) enqueue(now time.Duration, g Group, kind BatchKind) {
	l := &n.leader
	if len(l.queue) == 0 {
		l.waiting = now
	}
	l.queue = append(l.queue, queued{Group: g, kind: kind})
	l.queued += len(g.Data)
}

// pump appends the next batch, if no append is in progress.
func (n *Node) pump(now time.Duration, wall int64) {
	l := &n.leader
	if l.inFlight {
		return
	}
	if l.phase == refilling && len(l.queue) == 0 {
		if l.refilled < l.base {
			if !l.asked {
				l.asked = true
				n.emit(Refill{l.refilled, l.base})
			}
			return
		}
		l.phase = leading
		n.emit(Lead{Position: l.base, Epoch: n.follower.History.Epoch, Term: l.term, Sources: n.follower.listSources(), Exact: l.exact})
	}
	switch {
	case len(l.queue) == 0:
		if n.timers.due(now, l.appended+n.cfg.Heartbeat) {
			n.appendBatch(now, wall)
		}
	case l.queued >= n.cfg.MaxBatch || l.phase == refilling || l.resigning > 0 || n.timers.due(now, l.waiting+n.cfg.Linger):
		n.appendBatch(now, wall)
	}
}

// appendBatch appends a batch with the first groups of the queue, or a part of the first one, or
// with no rows.
func (n *Node) appendBatch(now time.Duration, wall int64) {
	l := &n.leader
	t := n.clock.Read(now, wall)
	n.clock.set(now, t, l.term.Number)
	b := Batch{ID: ID{l.term, l.number}, Epoch: n.follower.History.Epoch, Kind: NewRows, First: true, Final: true, Prev: l.offered, Last: l.offered, Time: t}
	fl := flight{last: l.offered}
	if len(l.queue) > 0 {
		n.fillBatch(&b, &fl)
		fl.last = b.Last
	}
	if b.Kind == NewRows && b.Final && now >= l.noticeAt {
		l.noticeAt = now + n.cfg.Heartbeat
		b.Joined, b.Retired = n.joined(now), n.retired(now)
		fl.retired = b.Retired
	}
	n.append(now, &b, fl)
	l.waiting = now
}

// fillBatch fills a batch with rows of the queue.
func (n *Node) fillBatch(b *Batch, fl *flight) {
	g := &n.leader.queue[0]
	b.Kind, b.Prev, b.Last, b.First = g.kind, g.Prev, g.Last, g.cut == 0
	rest := g.Data[g.cut:]
	switch {
	case len(rest) > n.cfg.MaxBatch:
		b.Data, b.Final = rest[:n.cfg.MaxBatch], false
		fl.cut, fl.bytes = g.cut+n.cfg.MaxBatch, n.cfg.MaxBatch
	case g.cut > 0:
		b.Data, b.Sources = rest, g.Sources
		fl.groups, fl.bytes = 1, len(rest)
	default:
		n.mergeGroups(b, fl)
	}
}

// mergeGroups fills a batch with whole groups.
func (n *Node) mergeGroups(b *Batch, fl *flight) {
	for _, g := range n.leader.queue {
		if fl.groups > 0 && (g.kind != b.Kind || fl.groups == maxMerged || len(b.Data)+len(g.Data) > n.cfg.MaxBatch) {
			break
		}
		if b.Last = g.Last; fl.groups == 0 {
			b.Data = slices.Clip(g.Data) // usually all
		} else {
			b.Data = append(b.Data, g.Data...)
		}
		for _, s := range g.Sources {
			i := slices.IndexFunc(b.Sources, func(x Source) bool { return x.Name == s.Name })
			if i < 0 {
				b.Sources = append(b.Sources, s)
			} else {
				b.Sources[i].Sequence = s.Sequence
			}
		}
		fl.groups++
		fl.bytes += len(g.Data)
	}
}

// attend reads the list of members, removes retired ones, and ends the leadership after Resigned.
func (n *Node) attend(now time.Duration) {
	l := &n.leader
	if n.timers.due(now, l.readAt) {
		l.readAt = now + membersRead
		n.timers.add(l.readAt)
		n.emit(ReadMembers{})
	}
	for m, position := range l.retiring {
		if n.witnessed(now, m, position) {
			delete(l.retiring, m)
			l.members = slices.DeleteFunc(l.members, func(x Member) bool { return x == m })
			n.emit(Unregister{m})
		}
	}
	if l.resigning > 0 && (len(l.queue) == 0 && !l.inFlight || n.timers.due(now, l.resigning+time.Second)) {
		n.abandon(now, "resigned")
		n.lease.release(now)
	}
}

// overdue reports whether a member has not reported for long.
func (n *Node) overdue(now time.Duration, m Member) bool {
	l := &n.leader
	return m.Name != n.cfg.Name && now-max(l.begun, l.heard[m.Name]) >= n.cfg.Retire
}

// witnessed reports whether another member has all rows up to the position at which a node was
// retired. The next census then finds them.
func (n *Node) witnessed(now time.Duration, m Member, position uint64) bool {
	for _, x := range n.leader.members {
		r := n.known[x.Name]
		if x.Name != m.Name && !n.overdue(now, x) && r.Complete && r.Position >= position && r.History.Epoch == n.follower.History.Epoch {
			return true
		}
	}
	return false
}

// retired returns the members that the next batch retires.
func (n *Node) retired(now time.Duration) (list []Member) {
	l := &n.leader
	if l.phase != leading {
		return nil
	}
	for _, m := range l.members {
		if _, done := l.retiring[m]; !done && n.overdue(now, m) {
			list = append(list, m)
		}
	}
	return list
}

// joined returns the nodes that have lost rows. With the next batch they have all rows that they
// may have shown, because the leader has appended those.
func (n *Node) joined(now time.Duration) (list []Member) {
	l, f := &n.leader, &n.follower
	if l.phase != leading {
		return nil
	}
	for _, r := range n.reports() {
		if _, heard := l.heard[r.Node]; heard && r.Shows && !r.Complete {
			list = append(list, Member{r.Node, r.Number})
		}
	}
	if n.cfg.Shows && f.Gaps {
		list = append(list, f.member)
	}
	return list
}
