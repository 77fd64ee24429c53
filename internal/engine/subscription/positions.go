package subscription

import (
	"math"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/position"
	"github.com/ruedahq/rueda/internal/engine/subscription/replay"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// resumePoint is the position that a client states in a resume.
type resumePoint struct {
	position.Positions
	epoch    string             // "": it stated no position
	complete uint64             // the journal has all rows after this position
	safe     position.Positions // position of the subscriber before the resume
}

// readResume reads the position of a resume. It returns a fault if the position is not valid, or if
// a pattern has an N.
func readResume(r *wire.Resume) (p resumePoint, f *wire.Fault) {
	if r == nil {
		return p, nil
	}
	if r.Position != "" {
		var err error
		if p.epoch, p.Positions, err = position.Parse(r.Position); err != nil {
			return p, wire.NewFault(wire.BadField, "resume.position is not a position this server gave")
		}
	}
	for c := range wire.NumChannels {
		for name := range r.Seen[c] {
			if id, err := market.ParsePattern(name); err == nil && id.IsPattern() {
				return p, wire.NewFault(wire.BadField, "resume takes an N of exact identifiers alone; a pattern resumes by position")
			}
		}
	}
	return p, nil
}

// delays returns the delays of the items of a set and of added items, each once.
func (s *Subscriber) delays(added []hub.Item) (list []int) {
	put := func(d int) {
		if n := len(list); (n == 0 || list[n-1] != d) && !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	for _, it := range s.items {
		put(it.tier().Delay)
	}
	for i := range added {
		put(added[i].Tier.Delay)
	}
	return list
}

// safe returns a position to resume from. No message at or before it still waits. The position of
// an empty set is unknown: a client that resumes another set from it would miss messages. The
// caller has called hold before.
func (s *Subscriber) safe(added ...hub.Item) position.Positions {
	if len(s.shard.hub.Delays()) == 0 && len(s.items)+len(added) > 0 {
		low, unknown := s.safeAt(0)
		p := position.At(low)
		p.Unknown = unknown
		return p
	}
	var list []position.Delayed
	delays := s.delays(added)
	unknown := len(delays) == 0
	for _, d := range delays {
		pos, not := s.safeAt(d)
		list = append(list, position.Delayed{Delay: d, Position: pos})
		unknown = unknown || not
	}
	p := position.Of(list)
	p.Unknown, p.Rights = unknown, s.rights()
	return p
}

// SetRights sets the hash of the rights by which the items have their delays, 0 if it is not known.
// A position with several delays is exact for a client with the same rights. Call it when the items
// have been moved.
func (s *Subscriber) SetRights(hash uint64) {
	if len(s.shard.hub.Delays()) > 0 {
		s.more().rights = hash
	}
}

func (s *Subscriber) rights() uint64 {
	if s.set == nil {
		return 0
	}
	return s.set.rights
}

// safeAt returns a position from which a client can resume the items of a delay. unknown is true
// while a replay has not found its first row. Items that suppress rows are ahead of their replica.
func (s *Subscriber) safeAt(delay int) (low uint64, unknown bool) {
	all := s.shard.hub.Taken(delay)
	low = all
	if delay > 0 {
		low = math.MaxUint64
		for _, it := range s.items {
			switch {
			case it.tier().Delay != delay || !it.reads():
			case it.late != nil && it.late.elsewhere != nil:
				low = min(low, max(all, it.late.elsewhere.Least(it.id())))
			default:
				low = min(low, all)
			}
		}
		if low == math.MaxUint64 {
			low = all
		}
	}
	for _, it := range s.queue() {
		if it.tier().Delay == delay {
			low = min(low, it.gathered())
		}
	}
	return low, low == 0 && all > 0
}

// Position returns the epoch and a position to resume from. No message at or before the position
// still waits. The position is "" for an empty set, and while a replay has not found its first row
// in the journal.
func (s *Subscriber) Position() (epoch, position string) {
	s.hold()
	p := s.safe()
	return s.shard.hub.Epoch(), p.Text(s.shard.hub.Epoch())
}

// gathered returns a position up to which all rows of the item have been sent. Quotes, books and
// summaries do not count, because a resume begins with their snapshots.
func (it *item) gathered() uint64 {
	if !it.channel().Replays() {
		return math.MaxUint64
	}
	low := it.ringPosition()
	if it.state() == replaying {
		low = min(low, it.late.replay.Position())
	}
	if l := it.late; l != nil && (l.gate != 0 || len(l.held) > 0) {
		low = min(low, l.floor)
	}
	if l := it.late; l != nil && l.elsewhere != nil && l.replay == nil {
		low = max(low, l.elsewhere.Least(it.id()))
	}
	return low
}

// ringPosition returns a position before all waiting messages of the item's ring.
func (it *item) ringPosition() uint64 {
	switch {
	case !it.reads():
		return math.MaxUint64
	case it.state() == live:
		return it.view.pos
	}
	at := it.late.at
	if rec, _, ok := at.Peek(it.view.tail); ok {
		return max(rec.Position-1, it.late.sentPos)
	}
	return max(it.view.pos, it.late.sentPos)
}

// replayed returns the progress of an item's replay in the instruments that it has not finished.
func (it *item) replayed() map[*hub.Instrument]replay.Progress {
	if it.state() != replaying {
		return nil
	}
	return it.late.replay.Progress()
}
