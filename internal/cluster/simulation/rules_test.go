package simulation

import (
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
)

// key names a row of an epoch.
type key struct {
	epoch    string
	position uint64
}

// seriesKey names a row by its N.
type seriesKey struct {
	epoch  string
	series uint32
	n      uint64
}

// standard is what the log has when a node attaches to it. Instruments are defined by rows, so a
// node with the rows up to a position knows those that any node had shown there.
type standard struct {
	epoch    int    // number of the epoch, in the order in which epochs were begun; 0: none is in the stream
	position uint64 // newest row that a node has shown
}

// rules has what the rules compare.
type rules struct {
	logTime  int64                   // of the first batch, by the log's clock
	logSince time.Duration           // when it was appended
	latest   int64                   // the greatest time of a batch
	contents uint64                  // number of rows that were numbered
	termOf   map[uint64]cluster.Term // in which a content was numbered
	shown    map[key]uint64          // content that an edge has shown
	byN      map[seriesKey]uint64    // position of it
	newest   map[string]uint64       // newest position that an edge has shown, by epoch
	terms    map[cluster.Term]bool   // whose term row was appended
	gaps     map[key]bool            // a feed reported a gap behind this position
	epochs   map[string]bool
	order    map[string]int // numbers of the epochs that the log has begun
	clocks   map[*host]int64
	resumes  int
	copies   int
}

func newRules() rules {
	return rules{
		termOf: map[uint64]cluster.Term{}, shown: map[key]uint64{}, byN: map[seriesKey]uint64{}, newest: map[string]uint64{},
		terms: map[cluster.Term]bool{}, gaps: map[key]bool{}, epochs: map[string]bool{}, order: map[string]int{}, clocks: map[*host]int64{},
	}
}

// checkRow checks a row that a host has applied.
func (w *world) checkRow(h *host, r *row) {
	d := &h.disk
	if t := d.state.History.At(r.position); t != w.termOf[r.content] {
		w.fail("%s: row %d was numbered in term %v, but belongs to term %v", h.cfg.Name, r.position, w.termOf[r.content], t)
	}
	if k := len(d.rows) - 2; k >= 0 && d.rows[k].source+1 != r.source && !w.gaps[key{d.epoch, r.position - 1}] {
		w.fail("%s: row %d has the source sequence %d after %d", h.cfg.Name, r.position, r.source, d.rows[k].source)
	}
	if !h.cfg.Shows {
		return
	}
	if !h.allowed {
		w.fail("%s shows rows without permission", h.cfg.Name)
	}
	at := key{d.epoch, r.position}
	if c, ok := w.shown[at]; ok && c != r.content {
		w.fail("%s: row %d of %s is %d, another edge has shown %d: a fork", h.cfg.Name, r.position, d.epoch, r.content, c)
	}
	w.shown[at] = r.content
	series := seriesKey{d.epoch, r.series, r.n}
	if p, ok := w.byN[series]; ok && p != r.position {
		w.fail("%s: N %d of series %d is at %d and at %d", h.cfg.Name, r.n, r.series, p, r.position)
	}
	w.byN[series] = r.position
	w.newest[d.epoch] = max(w.newest[d.epoch], r.position)
}

// present returns what the log has. While the stream lacks lost messages that a new term brings
// back, a node can know the epoch only.
func (w *world) present() (need standard) {
	s := &w.stream
	if len(s.list) == 0 {
		return need
	}
	var b cluster.Batch
	if err := b.Decode("c", s.list[len(s.list)-1]); err != nil {
		w.fail("the stream has %v", err)
		return need
	}
	need.epoch = w.order[b.Epoch]
	if s.term > 0 {
		need.position = w.newest[b.Epoch]
	}
	return need
}

// checkFirst checks a process that begins to show rows: it has the epoch of the log, and every row
// that any node had shown when it attached.
func (w *world) checkFirst(h *host) {
	epoch := w.order[h.disk.epoch]
	if need := h.need; epoch < max(1, need.epoch) || epoch == need.epoch && h.disk.position() < need.position {
		w.fail("%s shows its first row at %d of epoch %d, and the log was at %d of epoch %d when it attached", h.cfg.Name, h.disk.position(), epoch, need.position, need.epoch)
	}
}

// checkAppend checks a message that the stream has accepted.
func (w *world) checkAppend(h *host, b *cluster.Batch) {
	s := &w.stream
	if b.ID.Term.Number < s.term {
		w.fail("the stream has a batch of %s and term %d behind the term row of its successor, term %d", h.cfg.Name, b.ID.Term.Number, s.term)
	}
	if b.Kind == cluster.TermRow {
		s.term = b.ID.Term.Number
		if w.order[b.Epoch] == 0 {
			w.order[b.Epoch] = len(w.order) + 1
		}
	}
	w.checkClock(h, b)
}

// checkClock checks that the clock of the log is not faster than the time that passes, except for
// the thousandth by which it moves towards the clock of its leader. Delayed data would come early.
// A batch may have waited for a quarter of a second before it was appended.
// If a term begins, and no node that its leader reaches has heard the log, a clock of a machine
// states how much time has passed. A node may then know a later time than the one that begins.
func (w *world) checkClock(h *host, b *cluster.Batch) {
	t := b.Time
	heard := func(x *host) bool {
		reached := x.conn != nil && !x.conn.ended && !x.paused && w.now-x.there > reachTime && w.now-h.there > reachTime
		return x.node != nil && x.heard >= w.logSince && (x == h || reached)
	}
	if b.Kind == cluster.TermRow && !slices.ContainsFunc(w.hosts, heard) {
		w.logTime, w.logSince = t, w.now
	}
	passed := w.now - w.logSince
	if t > w.latest && t-w.logTime > int64(passed+passed/1000+250*time.Millisecond) {
		w.fail("%s: the clock of the log moves by %v in %v", h.cfg.Name, time.Duration(t-w.logTime), passed)
	}
	w.latest = max(w.latest, t)
}

// reachTime is the time after which two nodes that are there have had reports of each other.
const reachTime = 500 * time.Millisecond

// checkTime checks that the clock of the log does not go back.
func (w *world) checkTime(h *host, t int64) {
	if t < w.clocks[h] {
		w.fail("%s: the clock of the log goes back", h.cfg.Name)
	}
	w.clocks[h] = t
}

// checkLead checks a node that begins to number.
func (w *world) checkLead(h *host, a *cluster.Lead) {
	for t := range w.terms {
		if t.Number > a.Term.Number {
			return // it was paused; its rows will be refused
		}
	}
	w.note("%s leads term %d from %d of %s, exact: %v", h.cfg.Name, a.Term.Number, a.Position, a.Epoch, a.Exact)
	switch {
	case a.Position != h.disk.position() || a.Epoch != h.disk.epoch:
		w.fail("%s leads from %d of %s and has rows up to %d of %s", h.cfg.Name, a.Position, a.Epoch, h.disk.position(), h.disk.epoch)
	case a.Position < w.newest[a.Epoch]:
		w.fail("%s leads from %d: an edge has shown %d of %s", h.cfg.Name, a.Position, w.newest[a.Epoch], a.Epoch)
	case !w.terms[a.Term]:
		w.fail("%s leads before its term row is in the stream", h.cfg.Name)
	}
	for i := range h.disk.rows {
		if c, ok := w.shown[key{a.Epoch, h.disk.rows[i].position}]; ok && c != h.disk.rows[i].content {
			w.fail("%s leads and has another row %d than an edge has shown", h.cfg.Name, h.disk.rows[i].position)
		}
	}
	if w.oneEpoch && len(w.epochs) > 1 {
		w.fail("another epoch has begun, but nothing was lost")
	}
}

// agree checks that all nodes have the same rows after the faults.
func (w *world) agree() {
	want := uint64(w.feedEnd / feedEvery)
	a := w.hosts[0]
	for _, h := range w.hosts {
		d := &h.disk
		switch s := d.rows; {
		case h.node == nil:
			w.fail("%s does not run", h.cfg.Name)
		case !h.current && w.now-h.stale > time.Second && w.failed == nil:
			for _, x := range w.hosts {
				if x.node != nil {
					s := x.node.Status()
					s.Reports = nil
					w.note("%s, paused %v, %d actions, %d events wait: %+v", x.cfg.Name, x.paused, x.actions.len(), x.inbox.len(), s)
				}
			}
			w.fail("%s is not current at the end", h.cfg.Name)
		case d.epoch != a.disk.epoch || d.position() != a.disk.position():
			w.fail("%s ends at %d of %s, %s at %d of %s", h.cfg.Name, d.position(), d.epoch, a.cfg.Name, a.disk.position(), a.disk.epoch)
		case len(s) == 0 || s[len(s)-1].source != want:
			w.fail("%s does not have the newest row of the feed, %d", h.cfg.Name, want)
		default:
			n := min(len(s), len(a.disk.rows))
			for i := 1; i <= n; i++ {
				if x := s[len(s)-i]; x != a.disk.rows[len(a.disk.rows)-i] {
					w.fail("%s and %s have different rows at %d", h.cfg.Name, a.cfg.Name, x.position)
				}
			}
		}
	}
	for name := range w.newest {
		if name == a.disk.epoch && w.newest[name] != a.disk.position() {
			w.fail("rows up to %d were shown, all nodes end at %d", w.newest[name], a.disk.position())
		}
	}
}

// client resumes on one edge after another.
type client struct {
	w        *world
	epoch    string
	position uint64
	content  uint64
	at       *host
}

// step reads what an edge has, and sometimes goes to another one.
func (c *client) step() {
	w := c.w
	w.in(10*time.Millisecond+w.upTo(100*time.Millisecond), c.step)
	if c.at == nil || w.chance(10) {
		c.at = w.hosts[2+w.rng.IntN(3)]
	}
	h := c.at
	d := &h.disk
	switch {
	case h.node == nil || h.paused || !h.allowed || d.epoch == "":
		return
	case d.epoch != c.epoch: // the epoch is announced, or unknown to this edge: a new subscription
		c.epoch, c.position, c.content = d.epoch, d.position(), 0
		if n := len(d.rows); n > 0 {
			c.content = d.rows[n-1].content
		}
		return
	case d.position() < c.position:
		return // the edge waits for the rows
	case c.position < d.base:
		w.fail("%s has no rows behind %d", h.cfg.Name, c.position)
		return
	}
	if i := c.position - d.base; i > 0 && c.content != 0 && d.rows[i-1].content != c.content {
		w.fail("a client resumes at %s behind row %d and has another row there", h.cfg.Name, c.position)
	}
	for _, r := range d.rows[c.position-d.base:] {
		if r.position != c.position+1 {
			w.fail("a client receives row %d of %s after %d", r.position, h.cfg.Name, c.position)
		}
		c.position, c.content = r.position, r.content
	}
	w.resumes++
}
