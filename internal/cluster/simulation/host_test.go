package simulation

import (
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// host is a node with its process and its disk.
type host struct {
	w       *world
	cfg     cluster.Config
	skew    int64
	node    *cluster.Node // nil: no process
	process int           // counts the processes
	epochs  int           // counts the epochs that were begun, with no rows
	need    standard      // what the node must have before it shows its first row
	opened  bool          // the process has shown rows
	began   time.Duration
	conn    *conn
	session *conn // the connection that the node knows: it has not handled the end of it
	paused  bool
	there   time.Duration // since when it reads messages without a break
	heard   time.Duration // when the newest batch was appended that it got as it was appended
	inbox   queue[func()]
	actions queue[task]
	wake    time.Duration
	waking  bool
	records cluster.Records
	lead    *numbering
	allowed bool
	current bool
	stale   time.Duration // until when the node was current

	disk   disk
	synced disk // what a power failure leaves
	left   disk // what a process before the last one left
	double bool // a second node of its name, which does not start again
}

// task is an action that was not performed yet, and the connection that it is for.
type task struct {
	action cluster.Action
	conn   *conn
}

// queue is a queue that keeps its memory.
type queue[T any] struct {
	list []T
	next int
}

func (q *queue[T]) len() int { return len(q.list) - q.next }
func (q *queue[T]) put(x T)  { q.list = append(q.list, x) }

func (q *queue[T]) take() (x T) {
	x = q.list[q.next]
	if q.next++; q.next == len(q.list) {
		clear(q.list)
		q.list, q.next = q.list[:0], 0
	}
	return x
}

// disk is what a process finds when it starts.
type disk struct {
	state   cluster.State
	epoch   string
	base    uint64 // position before the first row
	rows    []row
	gaps    bool   // rows are missing that were there
	damaged uint64 // this row cannot be read; 0: all can
}

// row is a row of a journal.
type row struct {
	position uint64
	series   uint32
	n        uint64
	content  uint64 // each numbering makes another one
	source   uint64 // sequence of the feed
}

func (d *disk) position() uint64 { return d.base + uint64(len(d.rows)) }

// start starts the process.
func (h *host) start() {
	if h.node != nil {
		return
	}
	if h.disk.damaged > 0 { // the journal is moved away
		h.disk = disk{gaps: true}
		h.synced = h.disk
	}
	h.process++
	h.began, h.heard, h.waking, h.allowed, h.current, h.opened = h.w.now, -1, false, false, false, false
	j := cluster.Journal{Epoch: h.disk.epoch, Position: h.disk.position(), Complete: !h.disk.gaps || h.w.broken == proudDisk}
	s := h.disk.state
	if h.w.broken == proudDisk {
		s.Gaps = false
	}
	h.w.note("%s starts at %d of %s", h.cfg.Name, j.Position, j.Epoch)
	h.node, h.session = cluster.NewNode(h.cfg, s, j), nil
	h.disk.gaps = false // the node stores it
	h.connect()
	process := h.process
	var sync func()
	sync = func() {
		if process == h.process && h.node != nil {
			h.synced = h.disk
			h.w.in(time.Second, sync)
		}
	}
	h.w.in(time.Second, sync)
}

// connect begins a session.
func (h *host) connect() {
	process := h.process
	h.w.in(h.w.upTo(20*time.Millisecond), func() {
		if process != h.process || h.node == nil || h.conn != nil && !h.conn.ended {
			return
		}
		h.conn, h.there = &conn{host: h, process: process}, h.w.now
		h.conn.send(cluster.Connected{})
		h.conn.send(h.w.lease)
	})
}

// cut ends the connection of a host. The host notices it some time later, and connects again after
// a time.
func (h *host) cut(away time.Duration) {
	c := h.conn
	if c == nil || c.ended {
		return
	}
	w := h.w
	c.ended, c.until = true, w.now+w.upTo(20*time.Millisecond)
	if w.broken == endlessOffice {
		h.conn = &conn{host: h, process: h.process, arrival: w.now + w.upTo(300*time.Millisecond)}
		h.session = h.conn
		h.conn.attach(h.node.Status().Seq + 1)
		return
	}
	process := h.process
	w.in(25*time.Millisecond+w.upTo(300*time.Millisecond), func() {
		if process == h.process && h.node != nil {
			h.receive(cluster.Disconnected{})
			w.in(away, func() {
				if process == h.process && h.node != nil {
					h.connect()
				}
			})
		}
	})
}

// kill ends the process for a time. A power failure loses rows, or all of the disk.
func (h *host) kill(away time.Duration, power bool) {
	if h.node == nil {
		return
	}
	h.w.note("%s is killed, power failure: %v", h.cfg.Name, power)
	h.node, h.lead, h.paused = nil, nil, false
	if h.process++; h.w.chance(30) {
		h.left = h.disk
	}
	h.inbox, h.actions = queue[func()]{}, queue[task]{}
	if h.conn != nil {
		h.conn.ended, h.conn.until = true, h.w.now+h.w.upTo(20*time.Millisecond)
	}
	delete(h.w.clocks, h) // it reads older batches again
	if power {
		h.disk = h.synced
		h.disk.rows = slices.Clone(h.disk.rows)
		h.disk.gaps = true
		if h.w.chance(20) {
			h.disk = disk{gaps: true}
		}
		h.synced = h.disk
	}
	if !h.double {
		h.w.in(away, h.startAgain)
	}
}

// pause stops the process for a time.
func (h *host) pause(d time.Duration) {
	if h.node == nil || h.paused {
		return
	}
	h.w.note("%s is paused", h.cfg.Name)
	h.paused = true
	process := h.process
	h.w.in(d, func() {
		if process == h.process {
			h.resume()
		}
	})
}

func (h *host) resume() {
	if !h.paused {
		return
	}
	h.paused, h.there = false, h.w.now
	h.w.note("%s goes on", h.cfg.Name)
	h.work()
}

// receive passes an event to the node.
func (h *host) receive(e cluster.Event) {
	h.enqueue(func() { h.handle(e) })
}

// receiveOf passes an event of a consumer, unless it was replaced meanwhile. since is when its
// message was appended, or -1 if that was before the consumer was made.
func (h *host) receiveOf(x *consumer, e cluster.Event, since time.Duration) {
	h.enqueue(func() {
		if x.conn.at != x {
			return
		}
		if h.handle(e); h.current {
			h.heard = max(h.heard, since)
		}
	})
}

func (h *host) enqueue(do func()) {
	if h.node != nil {
		h.inbox.put(do)
		h.work()
	}
}

// work performs actions, and then passes the next event.
func (h *host) work() {
	for !h.paused && h.node != nil && h.w.failed == nil {
		switch {
		case h.actions.len() > 0:
			h.perform(h.actions.take())
		case h.inbox.len() > 0:
			h.inbox.take()()
		default:
			return
		}
		if h.w.pauses && !h.w.quiet && h.w.rng.IntN(4000) == 0 {
			h.pause(h.w.pauseTime()) // between an action and the next one
		}
	}
}

func (h *host) handle(e cluster.Event) {
	for _, a := range h.node.Handle(h.w.now-h.began, h.wall(), e) {
		h.actions.put(task{a, h.session})
	}
	at, ok := h.node.Deadline()
	if !ok || h.waking && h.wake <= at {
		return
	}
	h.waking, h.wake = true, at
	process := h.process
	h.w.in(max(0, at-(h.w.now-h.began)), func() {
		if process == h.process && h.waking && h.wake == at {
			h.waking = false
			h.receive(cluster.Tick{})
		}
	})
}

func (h *host) wall() int64 { return int64(time.Hour) + int64(h.w.now) + h.skew }

// perform performs an action.
func (h *host) perform(t task) {
	w := h.w
	switch a := t.action.(type) {
	case cluster.Save:
		switch fails := h.diskFails(); {
		case !fails:
			h.disk.state = a.State
		case !a.Regular:
			h.kill(w.downTime(), false)
		}
	case cluster.Apply:
		if h.diskFails() {
			h.kill(w.downTime(), false)
			return
		}
		h.apply(a)
	case cluster.Stored: // checked by the rules of the sources
	case cluster.BeginEpoch:
		w.note("%s begins epoch %s at %d", h.cfg.Name, a.Epoch, a.Position)
		h.disk.epoch, h.disk.base, h.disk.rows = a.Epoch, a.Position, nil
		h.epochs++
		w.epochs[a.Epoch] = true
	case cluster.SendReport:
		for _, to := range w.hosts {
			if to != h && (a.To == "" || a.To == to.cfg.Name) {
				w.exchange(h, to, func() { to.receive(cluster.Reported{Report: a.Report}) })
			}
		}
	case cluster.Register:
		h.register()
	case cluster.Unregister:
		w.note("%s takes %v from the members", h.cfg.Name, a.Member)
		w.in(w.membersDelay(), func() {
			if w.now >= w.membersAway && w.members[a.Member.Name] == a.Member.Number {
				delete(w.members, a.Member.Name)
			}
		})
	case cluster.ReadMembers:
		process := h.process
		w.in(w.membersDelay(), func() {
			if h.process == process {
				h.receive(w.readMembers())
			}
		})
	case cluster.Refill:
		h.receive(h.refill(a))
	case cluster.Lead:
		w.checkLead(h, &a)
		h.beginNumbering(&a)
	case cluster.StopLeading:
		w.note("%s stops leading: %s", h.cfg.Name, a.Reason)
		h.lead = nil
	case cluster.Show:
		h.show(a)
	case cluster.Fail:
		w.fail("%s failed: %v", h.cfg.Name, a.Err)
	default:
		h.performOn(t)
	}
}

// diskFails reports whether a write to the disk fails.
func (h *host) diskFails() bool { return h.w.disks && !h.w.quiet && h.w.rng.IntN(5000) == 0 }

// register registers the node. The store may do so although the process has ended.
func (h *host) register() {
	w, process := h.w, h.process
	w.in(max(w.membersDelay(), w.membersAway-w.now), func() {
		name := h.cfg.Name
		w.registrations[name]++
		e := cluster.Registered{Number: w.registrations[name], New: w.members[name] == 0}
		w.members[name] = e.Number
		if h.process != process {
			return
		}
		if h.receive(e); w.broken == earlyShow {
			h.enqueue(func() { h.show(cluster.Show{Current: h.current}) })
		}
	})
}

// performOn performs an action that needs the connection.
func (h *host) performOn(t task) {
	c, w := t.conn, h.w
	if c == nil || c.ended {
		if a, ok := t.action.(cluster.Append); ok && c != nil {
			h.receive(cluster.Appended{Result: cluster.AppendUnknown, Expected: a.Expected})
		}
		return
	}
	switch a := t.action.(type) {
	case cluster.Attach:
		c.attach(a.Seq)
	case cluster.Append:
		h.appendOn(c, a)
	case cluster.ReadLast:
		c.readLast(a)
	case cluster.WriteLease:
		c.writeLease(a)
	case cluster.Census:
		if w.broken == noCensus {
			return
		}
		for _, to := range w.hosts {
			if to != h && to.conn != nil && !to.conn.ended && w.now >= w.apart[[2]*host{h, to}] && (w.quiet || !w.chance(2)) {
				to.conn.send(cluster.CensusAsked{From: h.cfg.Name, ID: a.ID})
			}
		}
	case cluster.Fetch:
		for _, to := range w.hosts {
			if to != h && (a.Node == "" || a.Node == to.cfg.Name) {
				w.exchange(h, to, func() { to.enqueue(func() { to.serve(h, a) }) })
			}
		}
	}
}

// appendOn appends a batch.
func (h *host) appendOn(c *conn, a cluster.Append) {
	var b cluster.Batch
	if err := b.Decode("c", a.Data); err != nil {
		h.w.fail("%s appends %v", h.cfg.Name, err)
		return
	}
	c.append(a, &b)
	if h.w.broken == earlyNumbers && b.Kind == cluster.TermRow {
		h.receive(cluster.Received{Seq: a.Expected + 1, Data: a.Data})
		h.receive(cluster.Appended{Result: cluster.AppendDone, Expected: a.Expected, Seq: a.Expected + 1})
	}
}

// apply writes rows to the journal, and shows them.
func (h *host) apply(a cluster.Apply) {
	if a.Prev != h.disk.position() {
		h.w.fail("%s applies rows after %d and has them up to %d", h.cfg.Name, a.Prev, h.disk.position())
		return
	}
	define := func(uint32, []byte) error { return nil }
	err := h.records.Each(a.Data, define, func(r *journal.Row) error {
		if r.Position <= a.Prev {
			return nil
		}
		x := row{r.Position, r.Instrument, r.N, uint64(r.Price), uint64(r.Size)}
		if x.position != h.disk.position()+1 {
			h.w.fail("%s: a gap in the rows before %d", h.cfg.Name, x.position)
			return nil
		}
		h.disk.rows = append(h.disk.rows, x)
		if h.opened || !h.cfg.Shows { // else show does it
			h.w.checkRow(h, &x)
		}
		return nil
	})
	if err != nil {
		h.w.fail("%s: %v", h.cfg.Name, err)
	}
	if a.Last != h.disk.position() {
		h.w.fail("%s: rows end at %d instead of %d", h.cfg.Name, h.disk.position(), a.Last)
	}
	h.w.checkTime(h, a.Time)
}

// show notes whether the node may show rows, and checks the first rows that a process shows.
func (h *host) show(a cluster.Show) {
	if h.current && !a.Current {
		h.stale = h.w.now
	}
	if h.w.broken == earlyShow { // what a node said before it asked whether it knows the log
		a.Allowed = a.Allowed || h.node.Report().Shows && h.w.members[h.cfg.Name] != 0
	}
	h.allowed, h.current = a.Allowed, a.Current
	if h.opened || !h.allowed || !h.cfg.Shows {
		return
	}
	h.opened = true
	h.w.checkFirst(h)
	d := h.disk
	for i := range d.rows {
		h.disk.rows = d.rows[:i+1]
		h.w.checkRow(h, &d.rows[i])
	}
	h.disk = d
}

// groups returns rows of the journal after a position as groups.
func (h *host) groups(after, upto uint64) (list []cluster.Group) {
	upto = min(upto, h.disk.position())
	if after < h.disk.base {
		return nil
	}
	if damaged := h.disk.damaged; after < damaged && damaged <= upto {
		upto = damaged - 1
	}
	for after < upto && len(list) < 5 {
		var e cluster.Encoder
		to := min(upto, after+1+h.w.rng.Uint64N(40))
		for _, r := range h.disk.rows[after-h.disk.base : to-h.disk.base] {
			e.Append(r.record())
		}
		list = append(list, e.Group(after))
		after = to
	}
	return list
}

func (r *row) record() *journal.Row {
	return &journal.Row{Kind: journal.Trade, Instrument: r.series, Position: r.position, N: r.n, Time: 5, At: 7, Latency: -1,
		Price: market.Price(r.content), Size: market.Size(r.source)}
}

func (h *host) refill(a cluster.Refill) cluster.Refilled {
	return cluster.Refilled{Groups: h.groups(a.After, a.Upto)}
}

// serve answers the Fetch of another host.
func (h *host) serve(from *host, a cluster.Fetch) {
	if h.node == nil || !h.node.Serves(a) || a.Epoch != h.disk.epoch {
		return
	}
	e := cluster.Fetched{From: h.node.Report(), Groups: h.groups(a.After.Position, a.Upto)}
	if len(e.Groups) == 0 {
		return
	}
	h.w.exchange(h, from, func() { from.receive(e) })
}

// numbering is the hub of a leader that numbers rows.
type numbering struct {
	position uint64
	n        [3]uint64
	source   uint64
	term     cluster.Term
	epoch    string
}

const (
	feedEvery = 15 * time.Millisecond
	mostRows  = 300 // that a leader has numbered and that have not come back
)

// beginNumbering makes the numbering hub from the journal.
func (h *host) beginNumbering(a *cluster.Lead) {
	x := &numbering{position: a.Position, term: a.Term, epoch: a.Epoch}
	for i := range h.disk.rows {
		r := &h.disk.rows[i]
		x.n[r.series] = r.n
	}
	for _, s := range a.Sources {
		x.source = s.Sequence
	}
	if !a.Exact { // the feed reports a gap
		x.source = uint64(h.w.now / feedEvery)
		h.w.gaps[key{a.Epoch, a.Position}] = true
	}
	h.lead = x
	process := h.process
	var step func()
	step = func() {
		if h.lead != x || process != h.process {
			return
		}
		h.w.in(time.Millisecond+h.w.upTo(20*time.Millisecond), step)
		if !h.paused && h.actions.len() == 0 && x.source < h.w.fed() && x.position < h.disk.position()+mostRows {
			if g, ok := h.number(x); ok {
				h.receive(cluster.Offered{Group: g})
			}
		}
	}
	h.w.in(h.w.upTo(30*time.Millisecond), step)
}

// fed returns the newest sequence that the feed has sent.
func (w *world) fed() uint64 { return uint64(min(w.now, w.feedEnd) / feedEvery) }

// number numbers what the feed has sent.
func (h *host) number(x *numbering) (g cluster.Group, ok bool) {
	w := h.w
	prev := x.position
	var e cluster.Encoder
	for x.source < w.fed() && x.position < prev+60 {
		x.source++
		x.position++
		series := uint32(1 + w.rng.IntN(2))
		x.n[series]++
		w.contents++
		w.termOf[w.contents] = x.term
		r := row{x.position, series, x.n[series], w.contents, x.source}
		e.Append(r.record())
	}
	if x.position == prev {
		return g, false
	}
	e.Source("feed", x.source)
	g = e.Group(prev)
	if w.disks && !w.quiet && w.rng.IntN(500) == 0 {
		w.note("%s damages its rows after %d", h.cfg.Name, prev)
		g.Data[0]++
	}
	return g, true
}
