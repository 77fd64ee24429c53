package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription/replay"
	"github.com/ruedahq/rueda/internal/engine/subscription/sent"
	"github.com/ruedahq/rueda/internal/engine/subscription/startpoint"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// When a right changes to another delay, its items continue at that delay. A row has the same
// position at every delay, so an item continues after the rows that were sent (sent.go). If the
// replica is past these rows, the item replays the rows that follow. Otherwise the item suppresses
// rows until the replica has passed them. Quotes, books and summaries then begin with a snapshot.

// Change removes the items gone from the set, and moves the items moved to another delay. The moved
// items have their new tier, which differs only in the delay. Change returns the rows in between
// that cannot be sent, by channel and identifier.
func (s *Subscriber) Change(gone, moved []hub.Item) (lost [wire.NumChannels]map[string]Lost) {
	s.hold()
	h := s.shard.hub
	defer h.Pin(moved)()
	h.Prepare(moved)
	out := make(map[*item]bool)
	for _, x := range gone {
		if it := s.find(x.Channel, x.ID); it != nil {
			out[it] = true
		}
	}
	tiers := make(map[*item]hub.Tier)
	for _, x := range moved {
		if it := s.find(x.Channel, x.ID); it != nil && it.tier() != x.Tier && !out[it] {
			tiers[it] = x.Tier
		}
	}
	h.Lock()
	defer h.Unlock()
	h.Commit()
	var result Outcome
	m := move{sub: s, gone: out, tiers: tiers, out: &result}
	m.run()
	return result.Lost
}

// otherDelays returns those of a list that are in the set at another delay.
func (t *taking) otherDelays(items []hub.Item) (moved []hub.Item) {
	for _, x := range items {
		if it := t.find(x.Channel, x.ID); it != nil && it.tier().Delay != x.Tier.Delay {
			moved = append(moved, x)
		}
		t.o.visit(1)
	}
	return moved
}

// moveDelays moves items that are subscribed again at another delay. The hub's lock is held.
func (t *taking) moveDelays(items []hub.Item) {
	if len(items) == 0 {
		return
	}
	tiers := make(map[*item]hub.Tier)
	var moved []*item
	for _, x := range items {
		it := t.find(x.Channel, x.ID)
		if _, twice := tiers[it]; !twice {
			moved = append(moved, it)
		}
		tiers[it] = x.Tier
	}
	m := move{sub: t.Subscriber, tiers: tiers, out: t.out}
	m.run()
	for _, it := range moved {
		t.out.Moved = append(t.out.Moved, it.item())
		t.out.Work.Moved++
		owner := it
		if !it.reads() {
			owner = t.pattern(it.channel(), it.id())
		}
		if !hasState(it.channel()) || owner == nil {
			continue
		}
		t.out.Work.countSnapshots(owner)
		if it.channel() == wire.Status && !t.o.NoSnapshot {
			owner.requestSnapshot()
		}
	}
}

// run removes items and moves others to another tier. It reports lost rows in out. The hub's lock
// is held, and released in between.
func (m *move) run() {
	if len(m.gone)+len(m.tiers) == 0 {
		return
	}
	s := m.sub
	m.fed = make(map[*item]bool)
	for _, it := range s.items {
		if m.leaves(it) {
			m.leaving = append(m.leaving, it)
		} else if !it.reads() {
			m.fed[it] = true
		}
	}
	m.noteSent()
	before := s.markets()
	fresh := m.drop()
	left := func(it *item) bool { return m.gone[it] }
	s.items = slices.DeleteFunc(s.items, left)
	if s.set != nil {
		s.set.patterns = slices.DeleteFunc(s.set.patterns, left)
	}
	for _, it := range m.leaving {
		if !m.gone[it] && s.covering(it.item()) == nil {
			it.start()
			m.pause()
		}
	}
	s.rearrange(before)
	for _, it := range fresh { // nothing was sent at the other delay either
		if it.reads() {
			it.behind().fresh = true
		}
	}
	m.copyNoticed(m.leaving...)
	for _, it := range slices.Clone(s.items) {
		m.resume(it)
	}
	ended := itemReplay{batches: m.batches}
	ended.done(s, m.whole())
	s.releaseWait()
}

// pause counts a visit, and releases the hub's lock for a short time if the present hold is full.
func (m *move) pause() {
	m.sub.shard.hub.Step(1)
}

// move is a change of the set that removes items or moves them to another tier.
type move struct {
	sub     *Subscriber
	gone    map[*item]bool
	tiers   map[*item]hub.Tier
	leaving []*item
	fed     map[*item]bool                    // exact items that stay and that a pattern fed
	sent    [wire.NumChannels]*sent.Rows      // rows that the leaving items have sent
	order   map[itemKey]int                   // index of each pattern before the change
	batches []*batch                          // batches of the ended replays
	views   map[*hub.Instrument][]replay.Part // rows of the ended replays that only memory has
	rest    map[startpoint.Sequence]bool      // sequences of which the ended replays had rows left
	out     *Outcome
}

// leaves reports whether an item is removed, or moves to another tier.
func (m *move) leaves(it *item) bool {
	if m.gone[it] {
		return true
	}
	_, moves := m.tiers[it]
	return moves
}

// noteSent records how far the leaving items have sent the rows of their instruments. Exact items
// come last, because they own their instruments.
func (m *move) noteSent() {
	s := m.sub
	m.order = make(map[itemKey]int)
	for i, p := range s.patterns() {
		m.order[p.key()] = i
	}
	taken := make(passed)
	for _, patterns := range [2]bool{true, false} {
		for _, it := range m.leaving {
			if it.id().IsPattern() != patterns {
				continue
			}
			m.pause()
			r := m.sent[it.channel()]
			if r == nil {
				r = &sent.Rows{}
				m.sent[it.channel()] = r
			}
			if it.reads() {
				it.putSent(r)
				continue
			}
			// A pattern feeds its instrument: one that leaves too and is recorded already, or one
			// that stays.
			if p := s.pattern(it.channel(), it.id()); p != nil && !m.leaves(p) && !m.gone[it] {
				if in := s.shard.hub.Lookup(it.id(), it.tier().Delay); in != nil {
					r.Put(it.id(), p.sentOf(in))
					taken.put(p, in)
				}
			}
		}
	}
	taken.takeFrom()
}

// passed has the instruments that pass to other items from patterns that stay in the set.
type passed map[*item]map[*hub.Instrument]bool

// put adds an instrument of a pattern.
func (list passed) put(p *item, in *hub.Instrument) {
	if list[p] == nil {
		list[p] = make(map[*hub.Instrument]bool)
	}
	list[p][in] = true
}

// takeFrom removes the instruments from the replays of their patterns. The hub's lock is held.
func (list passed) takeFrom() {
	for p, taken := range list {
		if p.state() != replaying {
			continue
		}
		// Rows of a read in progress belong to the old replay, and are dropped. The rows of other
		// instruments are read again.
		p.late.replay.release(p.sub, true)
		r := p.late.replay
		p.late.replay = &itemReplay{Rows: r.Without(taken), batches: r.batches, waits: r.waits}
		p.sub.fetchNext()
	}
}

// drop removes the leaving items from their rings. It returns the status items that have sent
// nothing. The hub's lock is held, and released in between.
func (m *move) drop() (fresh []*item) {
	s := m.sub
	for _, it := range m.leaving {
		if it.sentNothing() {
			fresh = append(fresh, it)
		}
		if it.state() == replaying {
			m.end(it)
		}
		it.drop()
		if tier, moves := m.tiers[it]; moves {
			it.view = &view{key: hub.Item{Channel: it.channel(), ID: it.id(), Tier: tier}}
		} else if s.set != nil && s.set.index != nil {
			delete(s.set.index, it.key())
		}
		m.pause()
	}
	return fresh
}

// end ends the replay of a leaving item.
func (m *move) end(it *item) {
	r := it.late.replay
	m.batches = append(m.batches, r.batches...)
	r.batches = nil
	if m.rest == nil {
		m.rest, m.views = make(map[startpoint.Sequence]bool), make(map[*hub.Instrument][]replay.Part)
	}
	for in := range it.replayed() {
		m.rest[startpoint.Sequence{In: in, Channel: it.channel()}] = true
	}
	if m.sub.shard.hub.Journal() == nil {
		for _, p := range r.Parts() {
			m.views[p.In] = append(m.views[p.In], p)
		}
	}
}

// whole reports whether other items send all rows that the ended replays had not sent.
func (m *move) whole() bool {
	for key := range m.rest {
		if o := m.sub.owner(key.Channel, key.In.ID()); o == nil || !o.reads() {
			return false
		}
	}
	return true
}

// resume continues an item with the instruments that pass to it from leaving items, or from itself
// at another tier. The hub's lock is held, and released in between.
func (m *move) resume(it *item) {
	all := m.sent[it.channel()]
	if all == nil || !it.reads() {
		return
	}
	_, moved := m.tiers[it]
	if !it.id().IsPattern() && !moved && !m.fed[it] {
		return // nothing passes to it
	}
	if it.id().IsPattern() {
		m.sub.shard.hub.Visit(len(all.Exact) / 8)
	}
	m.pause()
	// The pattern already owned the instruments that it shares with later patterns.
	rows := all.Covered(it.id(), func(p *sent.Pattern) bool {
		return p.From == it.id() || m.order[itemKey{it.channel(), p.From}] < m.order[it.key()]
	})
	if rows.Len() > 0 {
		m.resumeBehind(it, rows)
	}
	if slices.ContainsFunc(all.Due, func(id market.InstrumentID) bool { return catalogue.Overlap(id, it.id()) }) {
		it.requestSnapshot()
	}
}

// copyNoticed records the sent notices also for the same instruments at the delays of moved items.
func (m *move) copyNoticed(moved ...*item) {
	s := m.sub
	if s.set == nil || len(s.set.noticed) == 0 {
		return
	}
	var delays []int
	for _, it := range moved {
		if d := it.tier().Delay; !slices.Contains(delays, d) {
			delays = append(delays, d)
		}
	}
	more := make(map[noticeKey]uint64)
	for key, n := range s.set.noticed {
		live := s.shard.hub.Lookup(key.in.ID(), 0)
		for _, d := range delays {
			if live == nil {
				continue
			}
			if x := live.AtDelay(d); x != nil && x != key.in {
				more[noticeKey{x, key.kind}] = max(more[noticeKey{x, key.kind}], n)
			}
		}
		m.pause()
	}
	for key, n := range more {
		s.set.noticed[key] = max(s.set.noticed[key], n)
	}
	s.countNoticed()
}

// maxBeforeState limits what an item records about rows that other items sent, while its first
// snapshot is due. With more records, it sends all statuses one by one, some of them before that
// snapshot.
const maxBeforeState = 256

// resumeBehind continues an item after rows that other items sent, or that it sent at another
// delay. The hub's lock is held, and released in between.
func (m *move) resumeBehind(it *item, rows *sent.Rows) {
	at := it.ringPosition()
	// This replaces what was recorded about these instruments.
	if l := it.late; l != nil && l.fresh && rows.Len()+l.elsewhere.Len() > maxBeforeState {
		if l.fresh = false; l.elsewhere != nil && l.elsewhere.Most <= at {
			l.elsewhere = nil
		}
	}
	suppresses := rows.Most > at || it.late != nil && (it.late.elsewhere != nil || it.late.fresh)
	if suppresses {
		it.suppress(rows)
	}
	switch {
	case it.channel().Replays():
		c := catchUp{it: it, out: m.out, at: at, promised: m.views}
		for in := range c.pieces(it.sentInstruments(rows, at)) {
			if x, ok := rows.Of(in.ID()); ok && x.Pos < at {
				c.behind(in, x)
			}
		}
		c.replay(m.batches...)
	case !suppresses:
		it.requestSnapshot()
	}
}

// passTo adds an exact item whose instrument passes to it from a pattern at another delay. The
// hub's lock is held, and released in between.
func (t *taking) passTo(x hub.Item, p *item) *item {
	state := x.Channel == wire.Status && (!t.o.NoSnapshot || p.stateDue())
	h := t.shard.hub
	var rows sent.Rows
	if in := h.Lookup(x.ID, p.tier().Delay); in != nil {
		rows.Put(x.ID, p.sentOf(in))
		t.passed.put(p, in)
	}
	unseen := rows.Exact[x.ID].Unseen
	it := t.add(x)
	it.flag |= unanswered
	t.out.Work.Added++
	t.out.Work.countSnapshots(it)
	if state {
		it.requestSnapshot()
		it.late.fresh = unseen
	}
	m := move{sub: t.Subscriber, out: t.out}
	m.copyNoticed(it)
	m.resumeBehind(it, &rows)
	return it
}

// inherit copies the suppressed rows to a new exact item from the pattern that owned its
// instrument. The hub's lock is held.
func (it *item) inherit() {
	if it.id().IsPattern() || !it.reads() {
		return
	}
	p := it.sub.pattern(it.channel(), it.id())
	if p == nil || p.late == nil || p.tier().Delay != it.tier().Delay {
		return
	}
	if x, ok := p.late.elsewhere.Of(it.id()); ok {
		var rows sent.Rows
		rows.Put(it.id(), x)
		it.suppress(&rows)
	}
}
