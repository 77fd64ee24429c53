package stream

import (
	"math"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// maxBehindReplay is how many bytes of live messages may gather behind a replay
// before they count as waiting.
const maxBehindReplay = 8 << 20

// Lag is what waits for a subscriber. Replay does not count.
type Lag struct {
	Bytes, Messages int
	Oldest          int64 // publication of the oldest waiting message, Unix ns; 0: none
	KeptBytes       int   // of trades and status, which are never conflated
	OldestKept      int64
}

// Lag measures what waits behind the socket. It walks the segments between
// each cursor and its tail.
func (s *Subscriber) Lag() Lag {
	l := Lag{Bytes: len(s.carry)}
	for _, it := range s.queue {
		if it.view == nil {
			continue
		}
		messages, bytes := it.at.waiting(it.view.tail)
		if it.replay != nil && bytes < maxBehindReplay {
			continue
		}
		at := it.at
		rec, _, ok := at.peek(it.view.tail)
		if !ok {
			continue
		}
		l.Messages += messages
		l.Bytes += bytes
		if l.Oldest == 0 || rec.at < l.Oldest {
			l.Oldest = rec.at
		}
		if it.Channel == wire.Quotes || it.Channel == wire.OrderBook {
			continue
		}
		l.KeptBytes += bytes
		if it.replay == nil && (l.OldestKept == 0 || rec.at < l.OldestKept) {
			l.OldestKept = rec.at
		}
	}
	return l
}

// Collapse lets go of the waiting quotes and books of a socket that takes nothing:
// in their place an R:true is due.
func (s *Subscriber) Collapse() {
	for _, it := range s.queue {
		if it.view == nil || it.at == it.view.tail || it.Channel != wire.Quotes && it.Channel != wire.OrderBook {
			continue
		}
		s.carry = it.gatherNotices(s.carry)
		it.state = true
	}
}

// gathered is a position that nothing unsent of the item lies at or before.
func (it *item) gathered() uint64 {
	if it.replay != nil {
		return min(it.replay.position(), it.ringPosition())
	}
	return it.ringPosition()
}

// ringPosition is a position that nothing in the item's ring which waits lies at or before.
func (it *item) ringPosition() uint64 {
	if it.view == nil {
		return math.MaxUint64
	}
	at := it.at
	if rec, _, ok := at.peek(it.view.tail); ok {
		return rec.pos - 1
	}
	return it.view.pos
}

// safe is a position to resume from: nothing at or before it still waits.
func (s *Subscriber) safe() uint64 {
	low := s.shard.position
	for _, it := range s.queue {
		low = min(low, it.gathered())
	}
	return low
}

// Position is a place to resume from: nothing at or before it still waits.
func (s *Subscriber) Position() (epoch, position string) {
	return s.hub.epoch, s.hub.place(s.safe())
}

// Delivered calls f with the last N gathered of each instrument of a channel
// that replays (trades, status); an instrument of which nothing came yet is left out.
func (s *Subscriber) Delivered(c wire.Channel, f func(id market.InstrumentID, n uint64)) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, it := range s.order {
		if it.Channel != c || it.view == nil {
			continue
		}
		for _, in := range h.covered(it.Item) {
			if it.overlap && s.owner(c, in.id) != it {
				continue
			}
			t := in.tape(c)
			n := t.seek(it.ringPosition())
			if it.replay != nil {
				n = it.replay.delivered(in, n)
			}
			if n > 0 {
				f(in.id, n)
			}
		}
	}
}

// delivered is the last N of an instrument that a replay gave out; n where the
// replay is past it.
func (r *replay) delivered(in *instrument, n uint64) uint64 {
	for _, p := range r.parts {
		if p.in == in {
			return p.n - 1
		}
	}
	for _, k := range r.after {
		if k.rec.in == in {
			return k.rec.n - 1
		}
	}
	return n
}

// Quiet calls f for each instrument and channel of the set whose last message is
// older than before (Unix ns), with its N (0: none yet). Call it with nothing pending.
func (s *Subscriber) Quiet(before int64, f func(c wire.Channel, id market.InstrumentID, n uint64)) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, it := range s.order {
		if it.view == nil {
			continue
		}
		for _, in := range h.covered(it.Item) {
			if it.overlap && s.owner(it.Channel, in.id) != it {
				continue
			}
			n, at := in.newest(it.Channel, it.Tier)
			if at < before {
				f(it.Channel, in.id, n)
			}
		}
	}
}

// newest is the N and publication time of the newest message of a tier.
func (in *instrument) newest(c wire.Channel, tier Tier) (n uint64, at int64) {
	for _, t := range in.channels[c].tiers {
		if t.tier == tier {
			return t.n, t.at
		}
	}
	return in.channels[c].n, in.channels[c].at
}
