package stream

import (
	"slices"

	"github.com/ruedahq/rueda/wire"
)

// When a right falls from real time to delayed, or rises, items of a set continue at another delay. A row has
// the same position at every delay. So an item continues behind the rows that were sent (sent.go): where
// the replica is past them, those that follow are replayed; where it has not come that far, they are
// suppressed until it has. Quotes, books and summaries begin with R:true then.

// Change takes items out of the set that are no longer allowed, and has others continue at another
// delay: each of those is given with the tier that it is to have, which differs in the delay alone from
// what it has. It returns what cannot be sent of what was published in between, by identifier.
func (s *Subscriber) Change(gone, moved []Item) (lost [wire.NumChannels]map[string]Lost) {
	s.hold()
	h := s.shard.hub
	defer h.pin(moved)()
	h.prepare(moved)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	out := make(map[*item]bool)
	for _, x := range gone {
		if it := s.find(x.Channel, x.ID); it != nil {
			out[it] = true
		}
	}
	tiers := make(map[*item]Tier)
	for _, x := range moved {
		if it := s.find(x.Channel, x.ID); it != nil && it.tier() != x.Tier && !out[it] {
			tiers[it] = x.Tier
		}
	}
	var result Outcome
	s.change(out, tiers, &result)
	return result.Lost
}

// moveDelays moves items of the set that are subscribed again at another delay. The hub's lock is held.
func (s *Subscriber) moveDelays(items []Item, out *Outcome, o *Options) {
	tiers := make(map[*item]Tier)
	var moved []*item
	for _, x := range items {
		it := s.find(x.Channel, x.ID)
		if it == nil || it.tier().Delay == x.Tier.Delay {
			continue
		}
		if _, twice := tiers[it]; !twice {
			moved = append(moved, it)
		}
		tiers[it] = x.Tier
	}
	if len(moved) == 0 {
		return
	}
	s.change(nil, tiers, out)
	for _, it := range moved {
		out.Moved = append(out.Moved, it.item())
		owner := it
		if !it.reads() {
			owner = s.pattern(it.channel(), it.id())
		}
		if !hasState(it.channel()) || owner == nil {
			continue
		}
		out.States += len(owner.view.topic.group.members)
		if it.channel() == wire.Status && !o.NoSnapshot {
			owner.behind().state = true
			s.enqueue(owner)
		}
	}
}

// change takes items out and moves others to another tier. The hub's lock is held, and released in
// between. out gets what is lost.
func (s *Subscriber) change(gone map[*item]bool, tiers map[*item]Tier, out *Outcome) {
	if len(gone)+len(tiers) == 0 {
		return
	}
	m := move{sub: s, gone: gone, tiers: tiers, fed: make(map[*item]bool), out: out}
	for _, it := range s.items {
		if m.leaves(it) {
			m.leaving = append(m.leaving, it)
		} else if !it.reads() {
			m.fed[it] = true
		}
	}
	due := statesDue(m.leaving)
	m.noteSent()
	m.takeOver()
	before := s.markets()
	fresh := m.drop()
	left := func(it *item) bool { return gone[it] }
	s.items = slices.DeleteFunc(s.items, left)
	if s.set != nil {
		s.set.patterns = slices.DeleteFunc(s.set.patterns, left)
	}
	for _, it := range m.leaving {
		if !gone[it] && s.covering(it.item()) == nil {
			s.start(it)
			m.pause()
		}
	}
	s.rearrange(before)
	m.copyNoticed(m.leaving...)
	for _, it := range slices.Clone(s.items) {
		m.resume(it)
	}
	s.passStates(due)
	for _, it := range fresh { // nothing of it was sent at the other delay
		if it.reads() {
			it.behind().fresh = true
		}
	}
	ended := replay{batches: m.batches}
	ended.done(s, m.whole())
	s.rest()
}

// takeOver notes, of statuses that are to begin with their state, which instruments they have from items
// that leave: their statuses continue at N.
func (m *move) takeOver() {
	s := m.sub
	var fresh []*item
	for _, it := range s.items {
		if it.late != nil && it.late.fresh && it.channel() == wire.Status {
			fresh = append(fresh, it)
		}
	}
	var patterns []*item // exact identifiers do not share instruments
	for _, it := range m.leaving {
		if it.id().IsPattern() {
			patterns = append(patterns, it)
		}
	}
	for _, it := range fresh {
		list := patterns
		if it.id().IsPattern() {
			list = m.leaving
		}
		for _, other := range list {
			if other != it && other.channel() == wire.Status && intersect(other.id(), it.id()) {
				it.takesOver(other)
			}
		}
		m.pause()
	}
}

// pause lets others have the hub's lock when the present hold has done enough.
func (m *move) pause() {
	h := m.sub.shard.hub
	if h.mu.visit(1); h.mu.full() {
		h.mu.pause()
	}
}

// move is a change of the set under way.
type move struct {
	sub     *Subscriber
	gone    map[*item]bool
	tiers   map[*item]Tier
	leaving []*item
	fed     map[*item]bool              // exact items that stay, and had their instrument from a pattern
	sent    [wire.NumChannels]*sentRows // by the items that leave
	order   map[*item]int               // of patterns, before
	batches []*batch                    // of replays that ended
	views   map[*instrument][]part      // rows of those that only memory has
	rest    map[pointKey]bool           // of whose rows those had some left
	out     *Outcome
}

// leaves reports whether an item goes, or moves to another tier.
func (m *move) leaves(it *item) bool {
	_, moves := m.tiers[it]
	return moves || m.gone[it]
}

// noteSent notes how far the rows are that the leaving items sent. Those of exact items come last: they
// own their instruments.
func (m *move) noteSent() {
	s := m.sub
	m.order = make(map[*item]int)
	for i, p := range s.patterns() {
		m.order[p] = i
	}
	taken := make(map[*item]map[*instrument]bool)
	for _, patterns := range [2]bool{true, false} {
		for _, it := range m.leaving {
			if it.id().IsPattern() != patterns {
				continue
			}
			m.pause()
			r := m.sent[it.channel()]
			if r == nil {
				r = &sentRows{}
				m.sent[it.channel()] = r
			}
			if it.reads() {
				s.sentBy(r, it)
				continue
			}
			// A pattern feeds its instrument: one that leaves too, and has noted it, or one that stays.
			if p := s.pattern(it.channel(), it.id()); p != nil && !m.leaves(p) && !m.gone[it] {
				if in := s.shard.hub.lookupItem(it.item()); in != nil {
					r.put(it.id(), s.sentOf(p, in))
					takes(taken, p, in)
				}
			}
		}
	}
	s.takeFrom(taken)
}

// takes notes that a pattern is to be without an instrument.
func takes(taken map[*item]map[*instrument]bool, p *item, in *instrument) {
	if taken[p] == nil {
		taken[p] = make(map[*instrument]bool)
	}
	taken[p][in] = true
}

// takeFrom takes instruments out of the replays of patterns that stay. The hub's lock is held.
func (s *Subscriber) takeFrom(taken map[*item]map[*instrument]bool) {
	for p, list := range taken {
		if p.late == nil || p.late.replay == nil {
			continue
		}
		// Rows that are being read just now would come to the old one, and so to nobody: those of the others
		// are read again.
		s.release(p.late.replay, true)
		p.late.replay = p.late.replay.without(list)
		s.fetchNext()
	}
}

// without is a replay without some instruments.
func (r *replay) without(taken map[*instrument]bool) *replay {
	rest := &replay{batches: r.batches, waits: r.waits}
	of := func(p part) bool { return taken[p.in] }
	rest.read = slices.DeleteFunc(slices.Clone(r.read), of)
	rest.parts = slices.DeleteFunc(slices.Clone(r.parts), of)
	rest.old = slices.DeleteFunc(slices.Clone(r.old), func(o *old) bool { return taken[o.in] })
	rest.spans = slices.DeleteFunc(slices.Clone(r.spans), func(x span) bool { return taken[x.in] })
	for _, k := range r.after {
		if !taken[k.rec.Of] {
			rest.push(k)
		}
	}
	return rest
}

// drop ends the reading of the leaving items. It returns those of statuses of which nothing was sent.
// The hub's lock is held, and released in between.
func (m *move) drop() (fresh []*item) {
	s := m.sub
	for _, it := range m.leaving {
		if l := it.late; l != nil && l.fresh && l.state && l.telling == nil && len(l.taken) == 0 && it.channel() == wire.Status {
			fresh = append(fresh, it)
		}
		if it.late != nil && it.late.replay != nil {
			m.end(it)
		}
		s.drop(it)
		if tier, moves := m.tiers[it]; moves {
			it.view = &view{key: topicKey{it.channel(), it.id(), tier}}
		} else if s.set != nil && s.set.index != nil {
			delete(s.set.index, itemKey{it.channel(), it.id()})
		}
		m.pause()
	}
	return fresh
}

// end ends the replay of an item that leaves.
func (m *move) end(it *item) {
	r := it.late.replay
	m.batches = append(m.batches, r.batches...)
	r.batches = nil
	if m.rest == nil {
		m.rest, m.views = make(map[pointKey]bool), make(map[*instrument][]part)
	}
	for in := range it.replayed() {
		m.rest[pointKey{in, it.channel()}] = true
	}
	if m.sub.shard.hub.cfg.Journal == nil {
		for _, p := range r.parts {
			m.views[p.in] = append(m.views[p.in], p)
		}
	}
}

// whole reports whether all rows that replays had left are sent by other items.
func (m *move) whole() bool {
	for key := range m.rest {
		if o := m.sub.owner(key.channel, key.in.id); o == nil || !o.reads() {
			return false
		}
	}
	return true
}

// resume has an item continue with the instruments that it has from the leaving items, itself
// perhaps. The hub's lock is held, and released in between.
func (m *move) resume(it *item) {
	all := m.sent[it.channel()]
	if all == nil || !it.reads() {
		return
	}
	_, moved := m.tiers[it]
	if !it.id().IsPattern() && !moved && !m.fed[it] {
		return // it has had its instrument
	}
	if it.id().IsPattern() {
		m.sub.shard.hub.mu.visit(len(all.exact) / 8)
	}
	m.pause()
	// A pattern has had what it shares with those after it.
	sent := all.forItem(it, func(p *item) bool { return p == it || m.order[p] < m.order[it] || !it.id().IsPattern() })
	if !sent.empty() {
		m.resumeBehind(it, sent)
	}
}

// copyNoticed has the notices that were sent of instruments count at the delays of items that have moved.
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
		live := s.shard.hub.lookup(key.in.id)
		for _, d := range delays {
			if live == nil {
				continue
			}
			if x := live.under(d); x != nil && x != key.in {
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

// resumeBehind has an item continue behind rows that were sent by others, or by itself at another delay. The hub's
// lock is held, and released in between.
func (m *move) resumeBehind(it *item, sent *sentRows) {
	s := m.sub
	at := it.ringPosition()
	// What was known of these instruments before does not count any more.
	suppresses := sent.most > at || it.late != nil && it.late.elsewhere != nil
	if suppresses {
		s.suppress(it, sent)
	}
	switch {
	case it.channel().Replays():
		m.replayBehind(it, sent, at)
	case !suppresses:
		it.behind().state = true
		s.enqueue(it)
	}
}

// replayBehind replays the rows that follow those that were sent, up to a position. The hub's lock is held, and
// released in between.
func (m *move) replayBehind(it *item, sent *sentRows, at uint64) {
	s := m.sub
	h, c := s.shard.hub, it.channel()
	var parts []part
	var older []*old
	list := sent.instruments(h, it, at)
	for _, in := range list {
		h.pauseReplaying()
		if len(list) > 1 {
			parts = h.growUnlocked(parts)
		}
		x, ok := sent.of(in.id)
		if !ok || x.pos >= at || s.owner(c, in.id) != it {
			continue
		}
		t := in.Recent(c)
		last := t.Seek(at)
		if x.n >= last {
			continue
		}
		for _, p := range m.views[in] { // they were promised
			parts = append(parts, p)
			x.n = p.n - 1
			for _, rows := range p.rows {
				x.n += uint64(len(rows))
			}
		}
		if t.Dropped > x.pos && x.n+1 < t.First() {
			o := m.olderThan(it, in, x, min(t.First()-1, last))
			if o == nil {
				m.out.lose(c, string(c.Append(nil, in.id)), Lost{From: from(x.n), To: last, Reason: "buffer_exceeded"})
				continue
			}
			older = append(older, o)
		}
		if n := max(t.Seek(x.pos), x.n, t.First()-1); n < last {
			parts = append(parts, partOf(in, t, n, last))
		}
	}
	if len(parts)+len(older) == 0 {
		return
	}
	l := it.behind()
	if l.replay == nil {
		l.replay = &replay{}
	}
	l.replay.old = append(l.replay.old, older...)
	l.replay.parts = append(l.replay.parts, parts...)
	for _, b := range m.batches {
		if !slices.Contains(l.replay.batches, b) {
			b.left++
			l.replay.batches = append(l.replay.batches, b)
		}
	}
	s.enqueue(it)
}

// from is the first N that is lost behind n; 0: it is not known.
func from(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return n + 1
}

// olderThan is the rows behind those that were sent, up to N to, which only the journal has; nil if it
// has not all of them.
func (m *move) olderThan(it *item, in *instrument, x sentTo, to uint64) *old {
	j := m.sub.shard.hub.cfg.Journal
	if j == nil {
		return nil
	}
	series := in.Series(it.channel())
	switch {
	case x.n > 0 && x.n+1 < j.Oldest(series), x.n == 0 && x.pos < j.Complete():
		return nil
	case x.n > 0 && it.id().IsPattern(): // it resumes by position alone
		return &old{in: in, series: series, n: x.n, to: to, pos: x.pos, byN: true}
	case x.n > 0:
		return &old{in: in, series: series, n: x.n, to: to, pos: max(x.pos, x.safe), byN: true}
	}
	return &old{in: in, series: series, n: min(j.Oldest(series)-1, to), to: to, pos: x.pos, seek: true}
}

// instruments returns the instruments of an item of which rows may follow those that were sent, up to a
// position. The hub's lock is held.
func (r *sentRows) instruments(h *Hub, it *item, at uint64) (list []*instrument) {
	if it.id().IsPattern() && r.patternBefore(at) {
		return h.covered(it.item())
	}
	for id, x := range r.exact {
		if x.pos < at && !x.unseen {
			if in := h.lookup(id); in != nil {
				if in = in.under(it.tier().Delay); in != nil {
					list = append(list, in)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b *instrument) int { return int(a.index) - int(b.index) })
	return list
}

// otherDelay is the pattern that has fed the instrument of a new exact item at another delay.
func (s *Subscriber) otherDelay(x Item) *item {
	if x.ID.IsPattern() {
		return nil
	}
	if p := s.pattern(x.Channel, x.ID); p != nil && p.tier().Delay != x.Tier.Delay {
		return p
	}
	return nil
}

// passTo adds an exact item that takes its instrument over from a pattern at another delay. The hub's
// lock is held, and released in between.
func (s *Subscriber) passTo(x Item, p *item, t *taking) *item {
	state := x.Channel == wire.Status && (!t.o.NoSnapshot || len(statesDue([]*item{p})) > 0)
	h := s.shard.hub
	var sent sentRows
	if in := h.lookup(x.ID).under(p.tier().Delay); in != nil {
		sent.put(x.ID, s.sentOf(p, in))
		takes(t.passed, p, in)
	}
	unseen := sent.exact[x.ID].unseen
	it := s.add(x)
	if hasState(x.Channel) {
		t.out.States++
	}
	if state {
		it.behind().state = true
		it.late.fresh = unseen
		s.enqueue(it)
	}
	m := move{sub: s, out: t.out}
	m.copyNoticed(it)
	m.resumeBehind(it, &sent)
	return it
}

// inherit has an exact item that is new suppress what the pattern does that has had its instrument. The
// hub's lock is held.
func (s *Subscriber) inherit(it *item) {
	if it.id().IsPattern() || !it.reads() {
		return
	}
	p := s.pattern(it.channel(), it.id())
	if p == nil || p.late == nil || p.late.elsewhere == nil || p.tier().Delay != it.tier().Delay {
		return
	}
	if x, ok := p.late.elsewhere.of(it.id()); ok {
		sent := &sentRows{}
		sent.put(it.id(), x)
		s.suppress(it, sent)
	}
}

// suppress has rows of an item suppressed that were sent. Of quotes, books and summaries the state
// follows when the replica has come that far.
func (s *Subscriber) suppress(it *item, sent *sentRows) {
	if it.channel().Replays() {
		it.behind().suppress(sent)
		return
	}
	sent.level()
	it.behind().suppress(sent)
	s.shard.awaitReached(s, it)
}
