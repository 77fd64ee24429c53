package subscription

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription/sent"
	"github.com/ruedahq/rueda/wire"
)

// Subscribe adds items to the set, or replaces the set with them. An item of the set stays as it
// is, or moves to another tier. With another delay it continues after the last N that was sent, as
// with Change. The caller checks rights and limits. The next Gather returns snapshots and replays.
func (s *Subscriber) Subscribe(items []hub.Item, o Options) Outcome {
	return s.BeginSubscribe(items, o).whole()
}

// take adds one item, and makes its replay or its snapshot due.
func (t *taking) take(x hub.Item) {
	it, fresh := t.put(x)
	if !fresh {
		t.resumed(it)
		return
	}
	switch {
	case !x.Channel.Replays():
	case t.o.Resume != nil:
		t.resume(it)
	case t.o.Start.Asked():
		t.replayFrom(it)
	}
	if it.state() != replaying && hasState(x.Channel) && !t.o.NoSnapshot {
		t.out.Work.requestSnapshot(it)
		// A resumed status item continues at its N, so that the snapshot does not replace statuses.
		it.late.fresh = !t.continues(x)
	}
	switch {
	case t.o.NoSnapshot:
		it.flag |= bare
	case x.Channel == wire.Status:
		t.takeStatus(x.ID.Market)
	}
}

// continues reports whether an item continues after rows that the client has. Its first snapshot
// must not replace statuses then.
func (t *taking) continues(x hub.Item) bool {
	if t.o.Resume == nil {
		return t.o.Start.Asked()
	}
	_, byN := t.o.Resume.Seen[x.Channel][x.ID.String()]
	return byN || t.since.epoch != ""
}

// put adds an item, or moves it to another tier. fresh reports whether the caller must begin its
// replay or snapshot.
func (t *taking) put(x hub.Item) (it *item, fresh bool) {
	old := t.find(x.Channel, x.ID)
	if old == nil {
		covered := t.covering(x) != nil
		if p := t.pattern(x.Channel, x.ID); p != nil && !x.ID.IsPattern() && p.tier().Delay != x.Tier.Delay {
			return t.passTo(x, p), false
		}
		passes := !covered && !x.Channel.Replays() && !x.ID.IsPattern() && t.pattern(x.Channel, x.ID) != nil
		it = t.add(x)
		it.flag |= unanswered
		t.out.Work.Added++
		t.out.Work.Compared += 4 * len(t.patterns())
		it.inherit()
		if passes {
			t.out.Work.requestSnapshot(it) // even with NoSnapshot, because the client has the state of another tier
		}
		return it, !covered
	}
	if old.tier() == x.Tier || old.tier().Delay != x.Tier.Delay { // moveDelays has moved it, or the message names it twice
		return old, false
	}
	t.settle([]*item{old}, nil, t.settled)
	var rows *sent.Rows // the rows are the same in all tiers of a delay
	if old.late != nil {
		rows = old.late.elsewhere
	}
	old.drop()
	old.view = &view{key: x}
	t.out.Work.Moved++
	if p := t.covering(x); p != nil {
		if hasState(x.Channel) {
			t.out.Work.requestSnapshot(p) // the client has the state of another tier
		}
		return old, false
	}
	old.start()
	if rows != nil {
		old.suppress(rows)
	}
	if !x.Channel.Replays() {
		t.out.Work.requestSnapshot(old) // even with NoSnapshot, because the client has the state of another tier
	}
	return old, true
}

// remove removes items from the set, in pieces, as if the client had sent several messages. The
// hub's lock is held, and released in between.
func (s *Subscriber) remove(gone []*item, out *Outcome) {
	h := s.shard.hub
	for piece := range slices.Chunk(gone, hub.LockPiece) {
		leaving := make(map[*item]bool, len(piece))
		for _, it := range piece {
			if leaving[it] = true; it.id().IsPattern() {
				out.Work.Compared += len(s.items)
			}
		}
		out.Work.Removed += len(piece)
		m := move{sub: s, gone: leaving, out: out}
		m.run()
		h.Step(len(piece))
	}
}

// Unsubscribe removes identifiers from the set, as the client wrote them. Afterwards Gather returns
// only messages that other items cover.
func (s *Subscriber) Unsubscribe(items []hub.Item) Work {
	return s.BeginUnsubscribe(items, nil).whole().Work
}

// Resync makes snapshots due for items of the set, and returns the items that are not in the set.
// It adds what it has caused to work. Snapshots that were due already do not count.
func (s *Subscriber) Resync(items []hub.Item, work *Work) (rejected []Rejected) {
	s.hold()
	s.shard.hub.Lock()
	defer s.shard.hub.Unlock()
	for _, x := range items {
		it := s.find(x.Channel, x.ID)
		if it == nil || !hasState(x.Channel) {
			hint := "Not subscribed; subscribe first"
			if it != nil {
				hint = "There is no state of it to send again; resume it"
			}
			rejected = append(rejected, Rejected{x, wire.BadField, hint})
			continue
		}
		if !it.reads() {
			it = s.pattern(x.Channel, x.ID)
		}
		work.requestSnapshot(it)
	}
	return rejected
}
