package stream

import (
	"maps"
	"slices"

	"github.com/ruedahq/rueda/wire"
)

// When a right falls from real time to delayed, or rises, items of a set go on at another delay. The N of an
// instrument are the same on every line, so that the last N sent says where to go on: what follows it is replayed
// where the new line has told it already. Where it has not come that far, the item is silent for that instrument until it
// has: nothing is sent twice, nothing goes back in time, and what comes is never early.

// pause is an instrument of an item that is silent up to an N. Of quotes, books and summaries an R:true follows then, since
// updates of another line do not chain; told says that it was sent, with that N.
type pause struct {
	n    uint64
	told bool
}

// lastSent is the last N of a channel of an instrument that a client was sent.
type lastSent struct {
	channel wire.Channel
	in      *instrument // as its item told it
	n       uint64
	pos     uint64 // nothing that was not sent lies at or before it
	unknown bool   // a replay was to find that out
	unseen  bool   // nothing was sent: its state is due, at whatever delay
	joined  bool   // the item that has it now joined before: what follows last comes by its ring
	last    uint64 // N on the new line when it joined
}

// Change takes items out of the set that are no longer allowed, and has others go on at another delay: each of those is
// given with the tier that it is to have, which differs in the delay alone from what it has. Nothing that waited for
// them is sent as it was. It returns what can't be sent of what lies between the last N sent and what was told
// since where that is to be told now, by identifier.
func (s *Subscriber) Change(gone, moved []Item) (lost [wire.NumChannels]map[string]Lost) {
	s.hold()
	h := s.shard.hub
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
	goneNow, tiersNow := make(map[*item]bool), make(map[*item]Tier) // the next piece
	for _, x := range moved {
		if it := s.find(x.Channel, x.ID); it != nil && it.tier() != x.Tier && !out[it] {
			tiers[it] = x.Tier
		}
	}
	if len(s.patterns()) > 0 {
		return s.change(out, tiers) // instruments may pass between items: in one piece
	}
	for _, it := range slices.Clone(s.items) {
		tier, moves := tiers[it]
		if !out[it] && !moves {
			continue
		}
		if len(goneNow)+len(tiersNow) == lockPiece/2 {
			merge(&lost, s.change(goneNow, tiersNow))
			clear(goneNow)
			clear(tiersNow)
			h.mu.pause()
		}
		if moves {
			tiersNow[it] = tier
		} else {
			goneNow[it] = true
		}
	}
	merge(&lost, s.change(goneNow, tiersNow))
	return lost
}

// merge adds what was lost to what was lost before.
func merge(all *[wire.NumChannels]map[string]Lost, more [wire.NumChannels]map[string]Lost) {
	for c := range more {
		if all[c] == nil {
			all[c] = more[c]
		} else {
			maps.Copy(all[c], more[c])
		}
	}
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
	out.Lost = s.change(nil, tiers)
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

// passTo adds an exact item that takes its instrument over from a pattern at another delay. Where it goes on
// is found once all items of the message are there. The hub's lock is held.
func (s *Subscriber) passTo(x Item, p *item, t *taking) *item {
	state := x.Channel == wire.Status && (!t.o.NoSnapshot || len(statesDue([]*item{p})) > 0)
	if x.Channel.Replays() {
		s.settleItem(p, t.settled)
	}
	// Both places are as of now: the lock may be let go before the item goes on.
	var place lastSent
	h := s.shard.hub
	if in := h.lookup(x.ID).under(p.tier().Delay); in != nil {
		place = p.lastSent(in)
	}
	it := s.add(x)
	if in := h.lookupItem(x); in != nil && x.Channel.Replays() {
		place.joined, place.last = true, h.last(in.tape(x.Channel))
	}
	if place.in != nil {
		t.passed[p] = append(t.passed[p], place)
	}
	if hasState(x.Channel) {
		t.out.States++
	}
	if state {
		it.behind().state = true
		it.late.fresh = place.unseen
		s.enqueue(it)
	}
	return it
}

// passOn has the instruments that new items have taken over from patterns go on. The hub's lock is held.
func (s *Subscriber) passOn(out *Outcome, passed map[*item][]lastSent) {
	for _, p := range s.patterns() {
		for _, place := range s.takeFrom(p, passed[p]) {
			s.goOn(out, &place, &replay{})
		}
	}
}

// takeFrom takes instruments from a pattern which stays, for items at another delay: how far the
// client is with each, given what it is without replays. What the pattern was to replay of them is
// for those items to replay now. The hub's lock is held.
func (s *Subscriber) takeFrom(p *item, list []lastSent) (places []lastSent) {
	if len(list) == 0 {
		return nil
	}
	pos, replayed := p.position(), p.replayed()
	taken := make(map[*instrument]bool, len(list))
	for _, place := range list {
		taken[place.in] = true
		place.replayed(p, replayed)
		place.pos = pos
		places = append(places, place)
	}
	if replayed != nil {
		// Rows that are being read just now would come to the old one, and so to nobody: those of the others
		// are read again.
		s.release(p.late.replay, true)
		p.late.replay = p.late.replay.without(taken)
		s.fetchNext()
	}
	return places
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
		if !taken[k.rec.in] {
			rest.push(k)
		}
	}
	return rest
}

// change takes items out and moves others to another tier. The hub's lock is held.
func (s *Subscriber) change(gone map[*item]bool, tiers map[*item]Tier) (lost [wire.NumChannels]map[string]Lost) {
	var leaving []*item
	var places []lastSent
	leaves := func(it *item) bool {
		_, moves := tiers[it]
		return moves || gone[it]
	}
	for _, it := range s.items {
		if leaves(it) {
			leaving = append(leaving, it)
		}
	}
	due := statesDue(leaving)
	s.settleOthers(leaving)
	passed := make(map[*item][]lastSent)
	for _, it := range leaving {
		if it.reads() {
			places = s.appendSent(places, it)
			continue
		}
		// A pattern feeds its instrument: one that leaves too, and has it among its own, or one that stays.
		if p, in := s.pattern(it.channel(), it.id()), s.shard.hub.lookupItem(it.item()); p != nil && in != nil && !leaves(p) && !gone[it] {
			passed[p] = append(passed[p], p.lastSent(in))
		}
	}
	for _, p := range s.patterns() {
		places = append(places, s.takeFrom(p, passed[p])...)
	}
	before := s.markets()
	orphans := &replay{}
	var fresh []*item
	for _, it := range leaving {
		if l := it.late; l != nil && l.fresh && l.state && l.telling == nil && len(l.taken) == 0 && it.channel() == wire.Status {
			fresh = append(fresh, it)
		}
		if it.late != nil && it.late.replay != nil {
			orphans.batches = append(orphans.batches, it.late.replay.batches...)
			it.late.replay.batches = nil
		}
		s.drop(it)
		if tier, moves := tiers[it]; moves {
			it.view = &view{key: topicKey{it.channel(), it.id(), tier}}
		} else if s.set != nil && s.set.index != nil {
			delete(s.set.index, itemKey{it.channel(), it.id()})
		}
	}
	left := func(it *item) bool { return gone[it] }
	s.items = slices.DeleteFunc(s.items, left)
	if s.set != nil {
		s.set.patterns = slices.DeleteFunc(s.set.patterns, left)
	}
	for _, it := range leaving {
		if !gone[it] && s.covering(it.item()) == nil {
			s.start(it)
		}
	}
	s.rearrange(before)
	var out Outcome
	for i := range places {
		s.goOn(&out, &places[i], orphans)
	}
	s.passStates(due)
	for _, it := range fresh { // nothing of it was sent on the other line
		if it.reads() {
			it.behind().fresh = true
		}
	}
	orphans.done(s, false) // those of replays of which nothing is left
	s.rest()
	return out.Lost
}

// mixed says whether items of a set with patterns come at several delays, or some that are to go are silent.
func (s *Subscriber) mixed(gone []*item) bool {
	return len(s.patterns()) > 0 && (slices.ContainsFunc(s.items, func(it *item) bool {
		return it.tier().Delay != s.items[0].tier().Delay
	}) || slices.ContainsFunc(gone, func(it *item) bool { return it.late != nil && len(it.late.pauses) > 0 }))
}

// appendSent appends how far the instruments are that an item owns which leaves. The hub's lock is held.
func (s *Subscriber) appendSent(list []lastSent, it *item) []lastSent {
	h, c := s.shard.hub, it.channel()
	pos, replayed := it.position(), it.replayed()
	for _, in := range h.covered(it.item()) {
		if it.flag&overlap != 0 && s.owner(c, in.id) != it {
			continue
		}
		p := it.lastSent(in)
		p.pos = pos
		p.replayed(it, replayed)
		list = append(list, p)
	}
	return list
}

// lastSent is how far an item is with an instrument, what it replays aside.
func (it *item) lastSent(in *instrument) lastSent {
	p := lastSent{channel: it.channel(), in: in, unseen: it.unseen(in)}
	if it.channel().Replays() {
		p.n = in.tape(it.channel()).Seek(it.ringPosition())
	} else {
		p.n, _ = in.newest(it.channel(), it.tier())
	}
	if it.late != nil {
		p.n = max(p.n, it.late.pauses[in].n)
	}
	return p
}

// replayed takes in how far the replay of an item is with the instrument.
func (p *lastSent) replayed(it *item, list map[*instrument]replayed) {
	if r, ok := list[p.in]; ok && p.channel.Replays() {
		p.n, p.unknown = max(r.n, it.late.pauses[p.in].n), r.seeking
	}
}

// settleOthers settles the items that share instruments with some that leave, and do not leave themselves.
func (s *Subscriber) settleOthers(leaving []*item) {
	done := make(map[*item]bool, len(leaving))
	for _, it := range leaving {
		done[it] = true
	}
	for _, it := range leaving {
		s.settle(it, done)
	}
}

// goOn has an instrument go on, by whichever item it is of now, behind the last N sent. The hub's lock is held.
func (s *Subscriber) goOn(out *Outcome, p *lastSent, orphans *replay) {
	id := p.in.id
	it := s.owner(p.channel, id)
	if it == nil || !it.reads() || p.unseen {
		return
	}
	in := s.shard.hub.lookup(id).under(it.tier().Delay)
	if in == nil {
		return
	}
	for _, kind := range [2]flag{0, lost} {
		if s.set != nil && s.set.noticed[noticeKey{p.in, kind}] > s.set.noticed[noticeKey{in, kind}] {
			s.set.noticed[noticeKey{in, kind}] = s.set.noticed[noticeKey{p.in, kind}]
		}
	}
	l := it.behind()
	if !p.channel.Replays() {
		if l.state {
			return // all are due
		}
		l.pause(in, pause{n: p.n})
		if n, _ := in.newest(p.channel, it.tier()); n >= p.n {
			l.passed = append(l.passed, in)
			s.enqueue(it)
		}
		return
	}
	t := in.tape(p.channel)
	last := p.last
	if !p.joined {
		last = s.shard.hub.last(t)
	}
	var older *old
	switch {
	case p.n > last:
		l.pause(in, pause{n: p.n})
		return
	case p.n == last && !p.unknown:
		return
	case p.unknown, p.n+1 < t.First():
		if older = s.older(it, in, p.n, p.pos); p.unknown || older == nil {
			out.lose(p.channel, string(p.channel.Append(nil, id)), Lost{From: p.n + 1, To: last, Reason: "buffer_exceeded"})
			return
		}
		p.n = min(t.First()-1, last)
	}
	if l.replay == nil {
		l.replay = &replay{}
	}
	if older != nil {
		older.to = min(older.to, last)
		l.replay.old = append(l.replay.old, older)
	}
	l.replay.parts = append(l.replay.parts, partOf(in, t, p.n, last))
	l.replay.batches = append(l.replay.batches, orphans.batches...)
	orphans.batches = nil
	s.enqueue(it)
}

// pause has an instrument be silent.
func (l *late) pause(in *instrument, p pause) {
	if l.pauses == nil {
		l.pauses = make(map[*instrument]pause)
	}
	l.pauses[in] = p
}

// silent says that a record is of an instrument which is to be silent so far. Of quotes, books and summaries it notes
// those whose R:true is due.
func (it *item) silent(rec *record) bool {
	l := it.late
	p, ok := l.pauses[rec.in]
	switch {
	case !ok || rec.flag&echo != 0:
		return false
	case it.channel().Replays():
		if rec.n >= p.n {
			delete(l.pauses, rec.in)
		}
		return rec.n <= p.n
	case p.told && rec.n > p.n:
		delete(l.pauses, rec.in)
		return false
	case !p.told && rec.n >= p.n && !slices.Contains(l.passed, rec.in):
		l.passed = append(l.passed, rec.in)
	}
	return true
}

// gatherPassed appends the R:true of instruments that are silent no longer.
func (it *item) gatherPassed(dst []byte) []byte {
	l, h := it.late, it.sub.shard.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	out := &dst
	if h.uncommitted(l.passed) {
		out = it.close()
	}
	for _, in := range l.passed {
		if it.flag&overlap != 0 && it.sub.owner(it.channel(), in.id) != it {
			delete(l.pauses, in)
			continue
		}
		n, _ := in.newest(it.channel(), it.tier())
		l.pause(in, pause{n, true})
		*out = it.sub.appendState(*out, in, it.channel(), it.tier())
	}
	l.passed = nil
	return dst
}

// inherit has an exact item that is new be silent where a pattern that covered its instrument is. The hub's lock is held.
func (s *Subscriber) inherit(it *item) {
	if it.id().IsPattern() || !it.reads() {
		return
	}
	for _, p := range s.patterns() {
		if p.late == nil || p.channel() != it.channel() || p.tier().Delay != it.tier().Delay || !p.id().Matches(it.id()) {
			continue
		}
		in := s.shard.hub.lookupItem(it.item())
		if was, ok := p.late.pauses[in]; ok && !was.told {
			it.behind().pause(in, pause{n: max(was.n, it.late.pauses[in].n)})
		}
	}
}

// resumes says, of an instrument whose R:true is to be told, that it may be: it is not silent. The hub's lock is held.
func (it *item) resumes(in *instrument) bool {
	p, ok := it.late.pauses[in]
	if !ok {
		return true
	}
	if n, _ := in.newest(it.channel(), it.tier()); !p.told && n < p.n {
		return false
	}
	delete(it.late.pauses, in)
	it.late.passed = slices.DeleteFunc(it.late.passed, func(x *instrument) bool { return x == in })
	return true
}
