package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// leader makes a candidate that holds the lease the leader, and appends its batches.
//
// The candidate asks all nodes for their positions (census). It gets the rows that it does not have
// from the node with the newest ones (catchingUp), and appends its term row (announcing). Then it
// appends the rows that the stream has lost (refilling), and numbers new rows (leading).
//
// The candidate ends its attempt when another node takes the lease. A leader goes on after the end
// of its lease while its appends are acknowledged: the stream refuses them when another leader has
// appended its term row. The leadership ends when an append is refused or its outcome stays
// unknown, when the connection is lost, and when another term begins. It also ends when the lease
// has ended and no append was acknowledged for the length of a lease, or when a report or the
// journal shows that the term cannot continue.
type leader struct {
	phase   phase
	since   time.Duration // beginning of the census
	retryAt time.Duration // no new attempt before this time
	force   bool          // the next term begins a new epoch

	census  uint64
	members []Member
	listed  bool
	answers map[string]Report
	unable  map[string]bool // nodes that did not send the rows that they have
	askAt   time.Duration
	readAt  time.Duration // when the members are read again
	chosen  string        // the node that is furthest
	until   time.Duration // end of the wait for it, or for the term row

	term      Term
	newest    Term // newest term of the stream when the term row was made
	base      uint64
	exact     bool   // the sequences of feeds are known at the base
	refilled  uint64 // the stream has rows up to this position
	asked     bool   // Refill has no answer yet
	number    uint64 // of the next batch
	expected  uint64 // sequence of the newest message of the stream
	offered   uint64 // position of the newest row that was offered
	queue     []queued
	queued    int           // bytes in the queue
	waiting   time.Duration // since when the first group waits
	inFlight  bool
	abandoned bool // the append in progress is of an earlier attempt
	flight    flight
	appended  time.Duration // when the newest batch was appended
	confirmed time.Duration // when the newest append was acknowledged
	resigning time.Duration // 0: not
	noticeAt  time.Duration // when a batch names nodes again that have joined or are retired

	begun    time.Duration            // of the leadership
	retiring map[Member]uint64        // retired nodes that are still registered, and the position of their batch
	heard    map[string]time.Duration // newest report of each member, as this leader knows
}

type phase uint8

const (
	idle phase = iota
	census
	catchingUp
	announcing
	refilling
	leading
)

// queued is a group that waits to be appended.
type queued struct {
	Group
	kind BatchKind
	cut  int // bytes of Data that were appended
}

// flight is the batch that is being appended.
type flight struct {
	id       ID
	expected uint64 // sequence of the message before it
	data     []byte
	groups   int // of the queue that end with it
	bytes    int // of the queue
	cut      int // bytes of the group that remains first
	retired  []Member
	last     uint64
	read     bool          // ReadLast was asked for
	retried  bool          // the batch was sent more than once
	until    time.Duration // end of the attempts to find out whether it has succeeded; 0: the first one has no outcome yet
}

const (
	askEvery    = 200 * time.Millisecond
	retryLead   = 200 * time.Millisecond
	stepWait    = 2 * time.Second // for rows of another node, or for a term row
	listWait    = 2 * stepWait    // for the list of nodes: another candidate may reach the database
	membersRead = 5 * time.Second
	heardLately = 3 * askEvery // a node that has reported within this time is alive
)

// leads reports whether this node appends batches of its own term.
func (n *Node) leads() bool { return n.leader.phase >= refilling }

// Appending reports whether an append is in progress. Rows that are offered meanwhile wait.
func (n *Node) Appending() bool { return n.leader.inFlight }

// able reports whether this candidate may write the lease: it leads or tries to, or it has the
// whole stream and hears no other leader. It sets a timer for the time at which that changes.
func (n *Node) able(now time.Duration) bool {
	l := &n.leader
	return l.phase != idle || n.connected && n.follower.caughtUp() && l.resigning == 0 && n.timers.due(now, max(l.retryAt, n.ledUntil))
}

// checkLeader ends an attempt when another node has taken the lease, and a leadership that has
// neither the lease nor acknowledged appends.
func (n *Node) checkLeader(now time.Duration) {
	l := &n.leader
	switch {
	case l.phase == idle || n.lease.held(now):
	case !n.leads() && n.lease.holder != n.cfg.Name:
		n.abandon(now, "another node has taken the lease")
	case n.leads() && now >= l.confirmed+n.cfg.Lease:
		n.giveUp(now, "the lease has ended, and no append was acknowledged")
	}
}

// abandon ends an attempt to lead, or the leadership.
func (n *Node) abandon(now time.Duration, reason string) {
	l := &n.leader
	if l.phase == idle {
		return
	}
	if l.phase == leading {
		n.emit(StopLeading{reason})
	}
	// The term stays, so that late batches of this node do not count as those of another leader.
	// flight.expected stays, so that the answer to the append in progress is recognised.
	waits := l.inFlight && !l.flight.read // the append has no answer yet
	*l = leader{retryAt: now + retryLead, force: l.force, term: l.term, inFlight: waits, abandoned: waits, flight: flight{expected: l.flight.expected}, resigning: l.resigning}
}

// giveUp abandons because this node does not get rows into the stream, or cannot find out which,
// and releases the lease. Another node may do better: this one does not write the lease for
// retryLead.
func (n *Node) giveUp(now time.Duration, reason string) {
	n.abandon(now, reason)
	n.lease.release(now)
}

// lead continues the attempt to lead, and the leadership.
func (n *Node) lead(now time.Duration, wall int64) {
	l, f := &n.leader, &n.follower
	if l.phase == idle {
		if n.cfg.Candidate && n.connected && n.lease.held(now) && !l.inFlight && l.resigning == 0 {
			if f.caughtUp() && n.timers.due(now, max(l.retryAt, n.ledUntil)) {
				n.startCensus(now)
			}
		}
		if l.phase == idle {
			if l.resigning > 0 && n.timers.due(now, l.resigning+n.cfg.Lease*2) {
				l.resigning = 0
			}
			return
		}
	}
	switch l.phase {
	case census:
		n.ask(now)
		n.decide(now, wall)
	case catchingUp:
		if n.timers.due(now, l.until) {
			n.continueCatchUp(now, false)
			n.decide(now, wall)
		} else if n.timers.due(now, l.askAt) {
			n.askChosen(now)
		}
	case announcing:
		if f.History.Newest() == l.term {
			n.beginRefill(now)
		} else if f.History.Newest() != l.newest {
			n.abandon(now, "another term has begun")
		} else if n.timers.due(now, l.until) {
			n.giveUp(now, "the term row did not come back")
		}
	}
	if l.phase >= refilling && f.History.Newest() != l.term {
		n.abandon(now, "another term has begun")
	}
	if l.phase >= refilling {
		if !n.lease.held(now) {
			n.timers.add(l.confirmed + n.cfg.Lease)
		}
		n.pump(now, wall)
	}
	if l.phase == leading {
		n.attend(now)
	}
}

// startCensus asks all nodes how far they are.
func (n *Node) startCensus(now time.Duration) {
	l := &n.leader
	*l = leader{phase: census, since: now, force: l.force, term: l.term, census: n.cfg.Random() | 1, answers: make(map[string]Report), unable: make(map[string]bool)}
}

// ask repeats the questions of a census.
func (n *Node) ask(now time.Duration) {
	l := &n.leader
	if now < l.askAt {
		n.timers.add(l.askAt)
		return
	}
	l.askAt = now + askEvery
	n.timers.add(l.askAt)
	n.emit(Census{l.census})
	if !l.listed {
		n.emit(ReadMembers{})
	}
}

// answered handles the report of a node.
func (n *Node) answered(now time.Duration, r Report) {
	l, f := &n.leader, &n.follower
	if l.phase == census && r.Census == l.census {
		l.answers[r.Node] = r
	}
	if l.phase < refilling {
		return
	}
	l.heard[r.Node] = now
	switch newest := r.History.Newest(); {
	case newest.Number > l.term.Number:
		n.abandon(now, "another node has seen a newer term")
	case newest.Number == l.term.Number && newest != l.term:
		// The log has lost that term. Its node does not follow a term with the same number.
		n.abandon(now, "another node has seen another term with this number")
	case r.Shows && r.History.Epoch == f.History.Epoch && !f.History.Has(r.rowID()):
		l.force = true
		n.abandon(now, "another node has shown rows that are not in the log")
	}
}

// reports returns the newest reports of other nodes, by name.
func (n *Node) reports() []heardReport {
	list := make([]heardReport, 0, len(n.known))
	for _, r := range n.known {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b heardReport) int { return strings.Compare(a.Node, b.Node) })
	return list
}

// unanswered reports whether a registered node has not answered the census (silent), and how long
// the census waits for it. missing reports whether a registered node has not stated all rows that
// it has shown. If a node still reports, only its answer was lost, and the census waits longer.
func (n *Node) unanswered(now time.Duration) (silent, missing bool, patience time.Duration) {
	patience = n.cfg.Patience
	for _, m := range n.leader.members {
		if m.Name == n.cfg.Name {
			missing = missing || n.follower.Gaps
			continue
		}
		r, ok := n.leader.answers[m.Name]
		silent, missing = silent || !ok, missing || !ok || !r.Complete
		if heard, known := n.known[m.Name]; !ok && known && now-heard.at < heardLately {
			patience = n.cfg.Patience * 4
		}
	}
	return silent, missing, patience
}

// awaited returns what a candidate waits for: the right time, the list of members, nodes that have
// not answered, or the node whose rows it needs.
func (n *Node) awaited() (list []string) {
	l := &n.leader
	switch {
	case n.ahead && !n.leads():
		return []string{"the right time: the clock of this machine is more than 24 h ahead of those of the other nodes"}
	case l.phase == catchingUp:
		return []string{l.chosen}
	case l.phase != census:
		return nil
	case !l.listed:
		return []string{"the list of nodes in the database"}
	}
	for _, m := range l.members {
		if _, ok := l.answers[m.Name]; !ok && m.Name != n.cfg.Name {
			list = append(list, m.Name)
		}
	}
	return list
}

// further reports whether a report is from a later epoch or of later rows than another one.
func (r *Report) further(than *Report) bool {
	if r.History.Epoch != than.History.Epoch {
		return r.History.Newest().Number > than.History.Newest().Number
	}
	a, b := r.rowID(), than.rowID()
	return a.Term.Number > b.Term.Number || a.Term == b.Term && a.Position > b.Position
}

// decide begins the term when all registered nodes have answered, or have had the time to.
func (n *Node) decide(now time.Duration, wall int64) {
	l, f := &n.leader, &n.follower
	silent, missing, patience := n.unanswered(now)
	if !l.listed && n.timers.due(now, l.since+listWait) {
		n.giveUp(now, "the list of nodes cannot be read")
		return
	}
	if !l.listed || !f.caughtUp() || silent && !n.timers.due(now, l.since+patience) {
		return
	}
	if newest := f.History.Newest(); newest.Number > 0 && !n.clock.of(newest) && !n.timers.due(now, l.since+4*n.cfg.Heartbeat) {
		return // a report may bring the clock of that term
	}
	if n.ahead = n.isAhead(wall); n.ahead {
		n.giveUp(now, "the clock of this machine is wrong")
		return
	}
	own := n.Report()
	best := own
	reports := n.reports()
	for _, r := range reports {
		if a, ok := l.answers[r.Node]; ok && a.further(&best) {
			best = a
		}
	}
	evidence, conflict, highest := f.short, f.History.Epoch == best.History.Epoch && max(f.stream, f.History.base()) > best.Position, best.Position
	for _, r := range reports {
		highest = max(highest, r.Position)
		a, answered := l.answers[r.Node]
		evidence = evidence || answered && (a.Short || a.Seq > f.end)
		evidence = evidence || r.Shows && r.further(&best)
		if answered && r.Shows && a.History.Epoch != "" && a.History.Epoch != best.History.Epoch {
			conflict = true // it is not certain which epoch is over
		}
		if r.Shows && r.History.Epoch == best.History.Epoch {
			conflict = conflict || answered && !best.History.Has(a.rowID())
		}
	}
	if f.shows() && own.History.Epoch == best.History.Epoch && !best.History.Has(own.rowID()) {
		conflict = true
	}
	over := missing && (n.cfg.Strict || evidence)
	if over && best.Node != n.cfg.Name {
		over = l.unable[best.Node] // feeds continue after its rows, so that clients get them once
	}
	switch {
	case l.force || conflict || best.History.Epoch == "" || over:
		n.announce(now, wall, max(highest, own.Position, f.stream, f.History.base()), true)
	case best.Node == n.cfg.Name:
		n.announce(now, wall, f.Position, false)
	case l.unable[best.Node]:
		n.giveUp(now, "the node with the newest rows does not send them")
	default:
		n.startCatchUp(now, &best)
	}
}

// startCatchUp asks the node that is furthest for the rows that this one does not have.
func (n *Node) startCatchUp(now time.Duration, best *Report) {
	l, f := &n.leader, &n.follower
	if f.History.Epoch != best.History.Epoch || !best.History.Has(f.rowID()) {
		f.beginEpoch(now, &best.History)
	}
	l.phase, l.chosen, l.until = catchingUp, best.Node, now+stepWait
	n.timers.add(l.until)
	n.askChosen(now)
}

// askChosen asks the node that is furthest for rows.
func (n *Node) askChosen(now time.Duration) {
	l, f := &n.leader, &n.follower
	l.askAt = now + fetchRetry
	n.timers.add(l.askAt)
	n.emit(Fetch{Node: l.chosen, Epoch: f.History.Epoch, After: f.rowID(), Upto: l.answers[l.chosen].Position})
}

// continueCatchUp continues after rows of the node that is furthest, or without them.
func (n *Node) continueCatchUp(now time.Duration, progress bool) {
	l, f := &n.leader, &n.follower
	best := l.answers[l.chosen]
	switch {
	case progress && f.Position < best.Position:
		n.startCatchUp(now, &best)
		return
	case !progress && now < l.until:
		return // an answer to an earlier question, or one that failed
	case !progress:
		delete(l.answers, l.chosen) // it has to answer again
		l.unable[l.chosen] = true
		l.since = now
	}
	l.phase, l.askAt = census, now
}

// firstTime returns the time of the log with which a term begins, Unix ns. If no node has a clock,
// it is at least the newest time that a node has seen.
func (n *Node) firstTime(now time.Duration, wall int64) int64 {
	f := &n.follower
	if n.clock.live {
		return max(n.clock.Read(now, wall), f.logTime)
	}
	t := max(n.clock.Read(now, wall), f.Time)
	for _, r := range n.known {
		t = max(t, r.Seen)
	}
	return t
}

// isAhead reports whether a term would begin with the clock of this machine, and half of the nodes
// that have answered, or more, have clocks by which they could ignore its batches.
func (n *Node) isAhead(wall int64) bool {
	behind := 0
	for _, r := range n.leader.answers {
		if r.Wall > 0 && wall > r.Wall+clocksApart {
			behind++
		}
	}
	return behind > 0 && 2*behind >= len(n.leader.answers) && !n.clock.live
}

// announce appends the term row.
func (n *Node) announce(now time.Duration, wall int64, base uint64, fresh bool) {
	l, f := &n.leader, &n.follower
	l.term = Term{max(f.Highest, f.History.Newest().Number), n.cfg.Random()}
	for _, r := range n.known {
		l.term.Number = max(l.term.Number, r.Highest, r.History.Newest().Number)
	}
	l.term.Number++
	h := f.History.begin(l.term, base)
	if fresh {
		h = History{fmt.Sprintf("c%d%04x", l.term.Number, n.cfg.Random()&0xffff), []Start{{l.term, base}}}
	}
	l.newest, l.base, l.offered, l.number = f.History.Newest(), base, base, 1
	l.exact = f.SourcesAt == base && f.Position == base && !f.Unsure // others may have shown later rows
	sources := f.listSources()
	if sizeOf(sources) > maxSources { // feeds report a gap instead
		sources, l.exact = nil, false
	}
	l.refilled = max(f.stream, h.Starts[0].After)
	if f.stream == 0 { // the stream is empty: it gets the rows that some node does not have
		l.refilled = base
		for _, r := range l.answers {
			if r.History.Epoch == h.Epoch {
				l.refilled = min(l.refilled, r.Position)
			}
		}
		l.refilled = max(l.refilled, h.Starts[0].After)
	}
	l.phase, l.until, l.expected = announcing, now+stepWait, f.end
	n.timers.add(l.until)
	l.heard, l.retiring = make(map[string]time.Duration), make(map[Member]uint64)
	n.append(now, &Batch{
		ID: ID{Term: l.term}, Epoch: h.Epoch, Kind: TermRow, First: true, Final: true, Prev: base, Last: base, Time: n.firstTime(now, wall),
		Sources: sources, Exact: l.exact, History: h, NewEpoch: fresh,
	}, flight{})
}

// beginRefill continues when the term row has come back.
func (n *Node) beginRefill(now time.Duration) {
	l := &n.leader
	l.phase, l.force, l.begun, l.confirmed = refilling, false, now, now
	l.expected = max(l.expected, n.follower.handled)
	l.flight.id = ID{Term: l.term}
}

// append appends a batch.
func (n *Node) append(now time.Duration, b *Batch, fl flight) {
	l := &n.leader
	b.Cluster = n.cfg.Cluster
	fl.id, fl.expected, fl.data = b.ID, l.expected, AppendBatch(make([]byte, 0, len(b.Data)+1024), b)
	l.flight, l.inFlight, l.abandoned, l.appended = fl, true, false, now
	n.emit(Append{fl.expected, fl.data})
}

// leaderEvent handles the events of a leader.
func (n *Node) leaderEvent(now time.Duration, wall int64, e Event) {
	l := &n.leader
	switch e := e.(type) {
	case Appended:
		n.appended(now, e)
	case LastRead:
		n.lastRead(now, e)
	case MembersRead:
		if !e.Failed && l.phase != idle {
			l.members, l.listed = slices.Clone(e.List), true
			slices.SortFunc(l.members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
		}
	case Refilled:
		n.refill(now, e)
	case Offered:
		n.offered(now, e.Group)
	case Resigned:
		l.resigning = max(1, now)
		if l.phase != leading {
			n.abandon(now, "resigned")
			n.lease.release(now)
		}
	}
}

// appended handles the outcome of an append.
func (n *Node) appended(now time.Duration, e Appended) {
	l := &n.leader
	switch {
	case !l.inFlight || e.Expected != l.flight.expected:
	case l.abandoned:
		l.inFlight = false
	case e.Result == AppendDone:
		n.acknowledged(now, e.Seq)
	case e.Result == AppendRefused && !l.flight.retried: // otherwise the first append may have succeeded late
		l.inFlight = false
		n.abandon(now, "an append was refused: another node has appended, or the stream has lost messages")
		if n.follower.mode == reading {
			n.follower.attach() // in the second case the consumer does not show it
		}
	default:
		l.flight.read = true
		if l.flight.until == 0 {
			l.flight.until = now + stepWait
		}
		n.emit(ReadLast{l.flight.expected})
	}
}

// lastRead finds out whether an append without an answer has succeeded.
func (n *Node) lastRead(now time.Duration, e LastRead) {
	l := &n.leader
	if !l.inFlight || l.abandoned || !l.flight.read || e.Expected != l.flight.expected {
		return
	}
	var b Batch
	switch {
	case e.Failed && now < l.flight.until:
		n.emit(ReadLast{l.flight.expected})
	case !e.Failed && b.Decode(n.cfg.Cluster, e.Data) == nil && b.ID == l.flight.id:
		n.acknowledged(now, e.Seq)
	case !e.Failed && e.Seq == l.flight.expected && now < l.flight.until:
		l.flight.read, l.flight.retried = false, true
		n.emit(Append{l.flight.expected, l.flight.data})
	default:
		l.inFlight = false
		n.giveUp(now, "it is unknown whether an append has succeeded")
	}
}

// acknowledged continues after a batch that is in the stream.
func (n *Node) acknowledged(now time.Duration, seq uint64) {
	l := &n.leader
	l.inFlight, l.expected, l.confirmed = false, seq, now
	if l.flight.id.Number == 0 {
		return
	}
	l.number = l.flight.id.Number + 1
	for _, g := range l.queue[:l.flight.groups] {
		if g.kind == OldRows {
			l.refilled = max(l.refilled, g.Last)
		}
	}
	l.queue = l.queue[l.flight.groups:]
	l.queued -= l.flight.bytes
	if l.flight.cut > 0 {
		l.queue[0].cut = l.flight.cut
	}
	for _, m := range l.flight.retired {
		l.retiring[m] = l.flight.last
	}
}
