package stream

import (
	"context"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// A replay from a time begins, in each sequence, at its first row of that time or later.

const (
	maxStarted  = 1_000_000 // rows of one replay from a time
	maxSearched = 200       // sequences whose point one message has looked up in the journal
)

// Start is a time to replay from. The zero Start is none.
type Start struct {
	Time int64 // Unix ns
	Open bool  // from when the instrument's market opened today, or 00:00 UTC where it never does
}

func (s Start) asked() bool { return s.Open || s.Time != 0 }

type pointKey struct {
	in      *instrument
	channel wire.Channel
}

// search is a point that only the journal knows.
type search struct {
	key    pointKey
	series journal.Series
	from   int64
	first  uint64 // N of the oldest row in memory
}

// points is the N of the last row before the start, of every sequence that a list of items
// replays. What is not in memory is looked up in the journal, without the hub's lock; what is
// too much is refused before that. Where that is for others to do, it gives their search instead.
// It counts the sequences that it looks at.
func (s *Subscriber) points(items []Item, o *Options, looked *int) (map[pointKey]uint64, *Search, *wire.Fault) {
	h := s.shard.hub
	if h.cfg.Journal == nil {
		return nil, nil, wire.NewFault(wire.UnsupportedOption, "start is not served: this server keeps no history")
	}
	for {
		if o.Search != nil && o.Search.fault != nil {
			return nil, nil, o.Search.fault
		}
		points, ask, fault := s.pointsKept(items, o, looked)
		if fault != nil {
			return nil, nil, fault
		}
		if ask = o.Search.fill(points, ask); len(ask) == 0 {
			h.mu.Lock()
			defer h.mu.Unlock()
			return points, nil, h.tooMany(points)
		}
		if o.Search = o.Search.next(h, ask, o.Found); o.Search.begin() {
			return nil, o.Search, nil
		}
		o.Search.read(context.Background(), searchTime)
	}
}

// pointsKept finds the points among the rows in memory, and tells where one may lie before them.
func (s *Subscriber) pointsKept(items []Item, o *Options, looked *int) (points map[pointKey]uint64, ask []search, fault *wire.Fault) {
	h := s.shard.hub
	items, _ = s.accept(items, o.Replace) // what is refused costs nothing
	h.prepare(items)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	points = make(map[pointKey]uint64)
	starts, now := make(openings), time.Now().UnixNano()
	seen := make(map[Item]bool)
	for _, x := range items {
		if !x.Channel.Replays() || seen[x] {
			continue
		}
		seen[x] = true
		for _, in := range h.covered(x) {
			key := pointKey{in, x.Channel}
			h.step()
			*looked++
			if _, ok := points[key]; ok {
				continue // identifiers may overlap
			}
			from, t := starts.start(h, in, o.Start, now), in.Recent(x.Channel)
			n, found := t.Before(from)
			points[key] = n
			if !found && t.First() > 1 {
				ask = append(ask, search{key, in.Series(x.Channel), from, t.First()})
			}
		}
	}
	if len(ask) > maxSearched {
		return nil, nil, wire.NewFault(wire.RangeTooLarge, "The start lies before what is in memory of more than 200 sequences; ask for fewer instruments or start later")
	}
	return points, ask, h.tooMany(points)
}

// tooMany refuses points behind which lie more rows than one replay may have. The hub's lock is held.
func (h *Hub) tooMany(points map[pointKey]uint64) *wire.Fault {
	rows := uint64(0)
	for key, n := range points {
		rows += key.in.Recent(key.channel).Last - n
		h.step()
	}
	if rows > maxStarted {
		return wire.NewFault(wire.RangeTooLarge, "More than 1,000,000 rows since then; start later, or ask GET /market/trades page by page")
	}
	return nil
}

// openings are the starts of the instruments that one message asks for, each found once.
type openings map[openingKey]int64

type openingKey struct {
	market, term string
	now          int64
}

// start is the start for an instrument. The hub's lock is held.
func (o openings) start(h *Hub, in *instrument, s Start, now int64) int64 {
	if !s.Open {
		return s.Time
	}
	key := openingKey{in.id.Market, in.id.Term, in.Publication(now)}
	from, ok := o[key]
	if !ok {
		from = h.opening(key)
		o[key] = from
	}
	return from
}

// opening is when a market opened on the day of a time.
func (h *Hub) opening(key openingKey) int64 {
	now := time.Unix(0, key.now)
	midnight, _ := market.TradingDay(now, time.UTC)
	if m, ok := h.catalog.Market(key.market); ok {
		if zone := h.zones[m.ID]; zone != nil {
			if open, ok := m.Schedule.Opening(now, zone, key.term); ok {
				return open.UnixNano()
			}
		}
	}
	return midnight.UnixNano()
}

// replayFrom gives a fresh item the rows from its points on.
func (s *Subscriber) replayFrom(out *Outcome, it *item, points map[pointKey]uint64, x *Search) {
	var parts []part
	var older []*old
	h := s.shard.hub
	joined := h.reached(it.tier().Delay) // what comes later is in the ring
	covered := h.covered(it.item())
	for _, in := range covered {
		h.pauseReplaying()
		parts = h.growUnlocked(parts)
		if s.owner(it.channel(), in.id) != it {
			continue
		}
		t := in.Recent(it.channel())
		last := t.Seek(joined)
		n, ok := points[pointKey{in, it.channel()}]
		if !ok {
			n = last // listed since
		}
		if !it.id().IsPattern() {
			out.resume(it.channel(), in.id.String(), last)
		}
		if n+1 < t.First() {
			if o := s.older(it, in, n, x.before(in, it.channel())); o != nil {
				o.byN = false // the place of the first row is known
				o.to = min(o.to, last)
				older = append(older, o)
			} else if !it.id().IsPattern() {
				out.lose(it.channel(), in.id.String(), Lost{From: n + 1, To: t.First() - 1, Reason: "buffer_exceeded"})
			}
			n = t.First() - 1
		}
		if n < last {
			parts = append(parts, partOf(in, t, n, last))
		}
	}
	s.replays(it, parts, older...)
}
