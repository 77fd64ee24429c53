package cluster

import "time"

// lease decides which candidate tries to lead. It uses only the clock of its node. A lease of
// another node has ended when its revision has not changed for the length of a lease and a random
// wait of up to a quarter of that. A candidate does not take the lease while batches of another
// leader arrive (Node.ledUntil).
type lease struct {
	cfg *Config
	out *[]Action

	known       bool
	revision    uint64
	holder      string
	since       time.Duration // when this revision was seen first
	mine        bool          // written by this process
	until       time.Duration // mine: end of the lease
	writing     bool
	expected    uint64        // revision that the write in progress expects
	releases    bool          // the write in progress releases the lease
	releaseNext bool          // the lease is released after the write in progress, or again
	sent        time.Duration // when the last write was started
	wait        time.Duration // random part of the time until a lease of another node counts as ended
}

// read handles the content of the lease, and reports whether that has changed. If it names this
// node while a write is in progress, the write has succeeded, even if its answer is lost.
func (l *lease) read(now time.Duration, e LeaseRead) (changed bool) {
	lost := e.Checked && l.known && e.Revision < l.revision // the store has lost newer revisions
	changed = !l.known || e.Revision > l.revision || lost
	switch {
	case !changed:
	case l.writing && !l.releases && !lost && e.Holder == l.cfg.Name:
		l.written(now, LeaseWritten{l.expected, true, e.Revision})
	default:
		l.known, l.revision, l.holder, l.since = true, e.Revision, e.Holder, now
		l.mine = l.mine && e.Holder == l.cfg.Name
		l.wait = time.Duration(l.cfg.Random() % uint64(l.cfg.Lease/4+1))
	}
	if !l.writing {
		l.continueRelease(now)
	}
	return changed
}

// written handles the result of a write.
func (l *lease) written(now time.Duration, e LeaseWritten) {
	if !l.writing || e.Expected != l.expected {
		return
	}
	l.writing = false
	if e.Done && e.Revision >= l.revision {
		l.known, l.revision, l.since = true, e.Revision, now
		if l.holder = ""; !l.releases {
			l.holder, l.mine, l.until = l.cfg.Name, true, l.sent+l.cfg.Lease
		}
	}
	if l.releases && !e.Done {
		l.releaseNext = true
		if l.revision == l.expected {
			return // the content of the lease comes
		}
	}
	l.continueRelease(now)
}

// continueRelease releases the lease if that was asked for during another write, or has failed.
func (l *lease) continueRelease(now time.Duration) {
	if l.releaseNext {
		l.releaseNext = false
		l.release(now)
	}
}

// lost forgets the lease at the end of a session.
func (l *lease) lost() { l.known, l.mine, l.writing, l.releaseNext = false, false, false, false }

// held reports whether this node holds the lease.
func (l *lease) held(now time.Duration) bool { return l.mine && now < l.until }

// step writes the lease when that is due. wanted states whether this node could lead.
func (l *lease) step(now time.Duration, t *timers, wanted bool) {
	l.mine = l.mine && now < l.until
	if !l.known || !wanted {
		return
	}
	at := l.since + l.cfg.Lease + l.wait
	switch {
	case l.writing: // it waits for the answer, or for the end of the session
		at = l.sent + l.cfg.Lease
	case l.mine:
		at = l.sent + l.cfg.Lease/3
	case l.holder == "" || l.holder == l.cfg.Name:
		at = l.sent + l.wait/8
	}
	if l.mine {
		t.add(l.until)
	}
	if t.due(now, at) {
		l.releaseNext = false
		l.write(now, false)
	}
}

// release releases the lease if this node is its holder, even if the lease has ended. It waits for
// the answer to a write in progress, which changes the revision.
func (l *lease) release(now time.Duration) {
	switch l.mine = false; {
	case !l.known:
	case l.writing:
		l.releaseNext = true
	case l.holder == l.cfg.Name:
		l.write(now, true)
	}
}

// releasing reports whether the lease is being released.
func (l *lease) releasing() bool { return l.releaseNext || l.writing && l.releases }

func (l *lease) write(now time.Duration, release bool) {
	l.writing, l.expected, l.releases, l.sent = true, l.revision, release, now
	*l.out = append(*l.out, WriteLease{Expected: l.revision, Release: release})
}

// timers finds the next time at which a node must act.
type timers struct {
	next time.Duration
	set  bool
}

// add notes a time.
func (t *timers) add(at time.Duration) {
	if !t.set || at < t.next {
		t.next, t.set = at, true
	}
}

// due reports whether a time has come, and notes it otherwise.
func (t *timers) due(now, at time.Duration) bool {
	if now >= at {
		return true
	}
	t.add(at)
	return false
}
