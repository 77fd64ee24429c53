package hub

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/position"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// A row is in the journal before any client receives it. While Run runs, the committer goroutine
// writes the rows without the hub's lock. It then moves the tail of each ring to the end that the
// ring had when the commit began, and moves the committed position too. It does so part by part:
// a part has the messages between two positions, and messages of a limited number of topics. The
// hub's lock is released between two parts. Data that is read outside of the rings, such as an
// R:true message, may contain later rows. A gate holds it until its position is committed. Without
// Run, as in many tests, the goroutine that publishes commits the rows before it returns.

// commitAfter is the longest time until a commit begins if nobody waits for the rows.
const commitAfter = 50e6 // ns

// pieceAfter is the shortest time between two pieces of a checkpoint.
const pieceAfter = 2e6 // ns

// commitTopics is the number of topics with new messages that start a commit, even within a batch.
const commitTopics = 256

// partTopics is the number of topics with new messages at which a part of a commit ends.
const partTopics = 128

// commits is the progress of committing. The hub's lock guards it.
type commits struct {
	committed uint64        // position; no client receives later rows
	commitDue int64         // by the hub's clock: when to commit rows; 0: no commit is scheduled
	pieceDue  int64         // by the hub's clock: when the next piece of a checkpoint may be written
	kept      bool          // rows were appended since the last call of published
	wanted    bool          // published starts a commit at once
	parts     []part        // parts that have ended and are not committed, in their order
	batch     int           // the number of them that the present commit reaches
	spare     part          // slices for the next part
	recent    []*Instrument // instruments with rows after the newest part
	grown     []*Topic      // topics that have taken messages since the newest part
	writing   bool          // the committer is writing
	began     uint64        // number of commits that have begun
	ended     uint64        // the value of began at the end of the last commit
	running   bool          // the committer runs
	kicked    chan struct{} // wakes the committer
	advanced  chan struct{} // closed when more is committed; nil: nobody waits
}

// part has what a commit shows in one hold of the hub's lock.
type part struct {
	position uint64        // of its last message
	marks    []mark        // the ends of the rings at that position
	recent   []*Instrument // instruments with rows of this part
}

// mark is the end of a ring at the end of a part.
type mark struct {
	topic *Topic
	at    ring.Mark[*Instrument]
	bytes int // appended since the previous mark
}

// published ends a change that may have appended rows. It shows the rows to readers, or has them
// committed first. The hub's lock is held.
func (h *publisher) published() {
	kept, wanted := h.kept, h.wanted
	h.kept, h.wanted = false, false
	h.noteTime()
	switch {
	case !h.pending():
		h.showAll()
		h.checkReaches()
		h.wakeShards()
		if kept {
			h.commitSoon() // the journal lost rows; it may have space again
		}
	case !h.running && len(h.grown) > 0:
		h.commit()
	case wanted:
		h.limitPart()
		h.commitNow()
	default:
		h.limitPart()
		h.commitSoon()
	}
}

// commitSoon schedules a commit after commitAfter, if none is scheduled. The hub's lock is held.
func (h *publisher) commitSoon() {
	if h.commitDue == 0 {
		h.commitDue = h.clock() + commitAfter
		h.kickClock()
	}
}

// commitNow starts a commit as soon as the present commit ends. The hub's lock is held.
func (h *publisher) commitNow() {
	if !h.running {
		h.commit()
		return
	}
	select {
	case h.kicked <- struct{}{}:
	default:
	}
}

// commit commits what was published, if the committer does not run. The hub's lock is held.
func (h *publisher) commit() {
	if h.running || h.committed == h.position && len(h.grown) == 0 && h.commitDue == 0 && !h.pending() {
		return
	}
	if b := h.beginCommit(); b != nil {
		h.cfg.Journal.Write(b)
		h.cfg.Journal.Done(b)
	}
	h.endCommit()
}

// pending reports whether anything waits to be written, or was written and is not committed. The
// hub's lock is held.
func (h *publisher) pending() bool {
	return len(h.parts) > 0 || h.cfg.Journal != nil && h.cfg.Journal.Pending()
}

// startCommits starts the committer. stop ends the committer, waits for it, and commits the rest.
func (h *publisher) startCommits(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	h.mu.Lock()
	h.running = true
	h.mu.Unlock()
	var committer sync.WaitGroup
	committer.Go(func() { h.runCommits(ctx) })
	return func() {
		cancel()
		committer.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running = false
		h.commit()
		if h.advanced != nil { // nobody may wait from now on
			close(h.advanced)
			h.advanced = nil
		}
	}
}

func (h *publisher) runCommits(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.kicked:
		}
		h.commitOnce()
	}
}

// commitOnce commits what was published until now. It releases the hub's lock while it writes.
func (h *publisher) commitOnce() {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	if b := h.beginCommit(); b != nil {
		h.writing = true
		h.mu.Unlock()
		h.cfg.Journal.Write(b)
		h.mu.Lock()
		h.writing = false
		h.cfg.Journal.Done(b)
	}
	h.endCommit()
}

// beginCommit ends the present part and returns the rows to write, or nil. The hub's lock is held.
func (h *publisher) beginCommit() *journal.Batch {
	h.commitDue = 0
	h.began++
	h.endPart()
	h.batch = len(h.parts)
	if h.cfg.Journal == nil {
		return nil
	}
	now := h.clock()
	if now < h.pieceDue {
		return h.cfg.Journal.TakeRows()
	}
	h.pieceDue = now + pieceAfter
	return h.cfg.Journal.Take()
}

// limitPart ends the present part if it has messages of many topics, so that the next commit
// shows them in pieces. The hub's lock is held.
func (h *publisher) limitPart() {
	if len(h.grown) >= partTopics && h.running {
		h.endPart()
	}
}

// endPart ends the part of the messages that were published until now. The hub's lock is held.
func (h *publisher) endPart() {
	p := part{h.position, h.spare.marks, h.recent}
	h.recent, h.spare = h.spare.recent, part{}
	for i, tp := range h.grown {
		p.mark(tp)
		tp.grown = false
		h.grown[i] = nil
	}
	h.grown = h.grown[:0]
	h.parts = append(h.parts, p)
}

// mark notes the end of a ring that has taken messages since its last mark.
func (p *part) mark(tp *Topic) {
	if tp.bytes > 0 {
		p.marks = append(p.marks, mark{tp, tp.ring.Mark(), tp.bytes})
		tp.bytes = 0
	}
}

// endCommit shows the written rows to readers. The hub's lock is held. While the committer runs, it
// is released between two parts.
func (h *publisher) endCommit() {
	for ; h.batch > 0; h.batch-- {
		if h.running {
			h.mu.Visit(len(h.parts[0].marks))
		}
		h.commitPart()
		if h.running && h.batch > 1 {
			h.mu.Pause()
		}
	}
	h.ended = h.began
	if j := h.cfg.Journal; j != nil && j.CheckpointPending() {
		h.commitDue = h.pieceDue
		h.kickClock()
	}
	if !h.pending() {
		h.showAll()
	} else if len(h.parts) > 0 {
		h.commitNow()
	}
	h.advance()
}

// commitPart shows the oldest part to readers. The hub's lock is held.
func (h *publisher) commitPart() {
	p := &h.parts[0]
	h.committed = max(h.committed, p.position)
	for i := range p.marks {
		m := &p.marks[i]
		if m.topic.refs > 0 { // without readers, the topic may have another ring by now
			m.topic.ring.Commit(m.at)
			h.show(m.topic, m.bytes)
		}
		*m = mark{}
	}
	clear(p.recent)
	h.spare = part{marks: p.marks[:0], recent: p.recent[:0]}
	h.parts = slices.Delete(h.parts, 0, 1)
	h.advance()
}

// advance informs those that wait for the committed position. The hub's lock is held.
func (h *publisher) advance() {
	if h.advanced != nil {
		close(h.advanced)
		h.advanced = nil
	}
	if h.taken != nil {
		close(h.taken)
		h.taken = nil
	}
	h.checkReaches()
	h.wakeShards()
}

// showAll shows readers everything that was published. The caller has checked that nothing is
// pending. The hub's lock is held.
func (h *publisher) showAll() {
	h.committed = h.position
	clear(h.recent)
	h.recent = h.recent[:0]
	for i, tp := range h.grown {
		tp.ring.Commit(tp.ring.Mark())
		h.show(tp, tp.bytes)
		tp.grown, tp.bytes = false, 0
		h.grown[i] = nil
	}
	h.grown = h.grown[:0]
}

// awaitAdvance returns a channel that is closed when the next commit ends. The hub's lock is held.
func (h *publisher) awaitAdvance() <-chan struct{} {
	if h.advanced == nil {
		h.advanced = make(chan struct{})
	}
	return h.advanced
}

// awaitJournal waits while so many rows wait for the disk that the journal would lose more rows.
// The hub's lock is held, except during the wait. waited reports whether it has waited.
func (h *publisher) awaitJournal() (waited bool) {
	for h.running && h.cfg.Journal.Full() {
		waited = true
		h.commitNow()
		advanced := h.awaitAdvance()
		h.mu.Unlock()
		<-advanced
		h.mu.Lock()
	}
	return waited
}

// stepPublishing does the same as steplock.Mutex.Step for a caller that publishes: it also limits
// the present part.
func (h *publisher) stepPublishing() {
	if h.pending() {
		h.limitPart()
	}
	h.mu.Step(1)
}

// AwaitCommit waits until the rows of the given instruments that were published until now are in
// the journal. Without ids it waits for the rows of all instruments. The error is the cause of the
// end of ctx.
func (h *publisher) AwaitCommit(ctx context.Context, ids ...market.InstrumentID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	var pos, turn uint64
	if len(ids) == 0 && h.pending() {
		turn = h.began + 1 // the present commit may have begun too early
	}
	for _, id := range ids {
		if in := h.lookup(id); in != nil {
			pos = max(pos, in.pos)
		}
	}
	for h.committed < pos || h.running && h.ended < turn { // when Run ends, it commits everything
		h.commitNow()
		advanced := h.awaitAdvance()
		h.mu.Unlock()
		select {
		case <-advanced:
		case <-ctx.Done():
			h.mu.Lock()
			return context.Cause(ctx)
		}
		h.mu.Lock()
	}
	return nil
}

// Commit waits until all rows that were published until now are in the journal.
func (h *publisher) Commit() { _ = h.AwaitCommit(context.Background()) }

// Position returns the epoch, and the position of the newest committed message as a text.
func (h *publisher) Position() (epoch, pos string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	return h.Epoch(), position.At(h.committed).Text(h.Epoch())
}

// nextPosition assigns the next position of the stream to a row of an instrument. The hub's lock is
// held.
func (h *publisher) nextPosition(in *Instrument) uint64 {
	h.takePosition(in, h.position+1)
	return h.position
}

// takePosition sets the position of the hub to that of a row of an instrument.
func (h *publisher) takePosition(in *Instrument, pos uint64) {
	if in.pos <= h.lastPart() {
		h.recent = append(h.recent, in)
	}
	h.position, in.pos = pos, pos
}

// lastPart returns the position at which the newest part ends. The hub's lock is held.
func (h *publisher) lastPart() uint64 {
	if n := len(h.parts); n > 0 {
		return h.parts[n-1].position
	}
	return h.committed
}

// last returns the N of the newest committed row among recent rows. The hub's lock is held.
func (h *publisher) last(t *recent.Rows) uint64 {
	if h.committed == h.position {
		return t.Last
	}
	return t.Seek(h.committed)
}

// keep adds a row to the recent rows of a channel. It does not drop rows that are not committed,
// because clients have not received them. The hub's lock is held.
func (h *publisher) keep(in *Instrument, c wire.Channel, row recent.Row) {
	rows, keep, full := in.Recent(c), state.MaxRows(c, h.cfg.TradesKept), h.shared.Full()
	if h.running && rows.Drops(keep, full) {
		least := int(rows.Last-rows.Seek(h.committed)) + 1 // plus the new row
		keep, full = max(keep, least), full && rows.Leaves() >= least
	}
	h.shared.Add(c, rows, row, keep, full)
}

// backfill appends the uncommitted rows to a new topic of a channel that replays, because its
// readers begin at the committed position. The hub's lock is held.
func (h *publisher) backfill(tp *Topic) {
	c := tp.key.Channel
	if h.committed == h.position || !c.Replays() && c != state.MarketStatus || tp.key.Tier.Delay != 0 {
		return
	}
	type message struct {
		Record
		row *recent.Row
	}
	var list []message
	uncommitted := h.uncommitted(tp)
	h.mu.Visit(len(uncommitted))
	for _, in := range uncommitted {
		if in.Venue != (c == state.MarketStatus) || !tp.key.ID.Matches(in.id) {
			continue
		}
		t := in.Recent(c)
		n := h.last(t)
		for _, rows := range t.After(n) {
			for i := range rows {
				n++
				r := &rows[i]
				m := message{Record{Of: in, Position: r.Pos, N: n, At: r.At}, r}
				if r.Kind == market.KindStatus {
					m.Flag = noticeOf(r.Phase)
				}
				list = append(list, m)
			}
		}
	}
	slices.SortFunc(list, func(a, b message) int { return cmp.Compare(a.Position, b.Position) })
	next := 0 // the first part that does not end before the next message
	for i := range list {
		m := &list[i]
		for ; next < len(h.parts) && h.parts[next].position < m.Position; next++ {
			h.parts[next].mark(tp)
		}
		h.append(tp, h.encoder.Row(m.row, m.Of.Ident, m.N), m.Record)
		h.wanted = true
	}
	for ; next < len(h.parts); next++ {
		h.parts[next].mark(tp)
	}
}

// uncommitted returns the instruments whose rows a topic may take and that may have rows that are
// not committed. The hub's lock is held.
func (h *publisher) uncommitted(tp *Topic) []*Instrument {
	n := len(h.recent)
	for i := range h.parts {
		n += len(h.parts[i].recent)
	}
	if g := tp.group; g != nil && (!tp.key.ID.IsPattern() || len(g.Members) < n) {
		return g.Members
	}
	if len(h.parts) == 0 {
		return h.recent
	}
	list := make([]*Instrument, 0, n)
	seen := make(map[*Instrument]bool, n)
	for i := range len(h.parts) + 1 {
		recent := h.recent
		if i < len(h.parts) {
			recent = h.parts[i].recent
		}
		for _, in := range recent {
			if !seen[in] {
				seen[in] = true
				list = append(list, in)
			}
		}
	}
	return list
}
