package subscription

import (
	"context"
	"time"

	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/wire"
)

// A replay from a time begins in each sequence at the first row of that time or later.

const (
	maxStarted  = 1_000_000 // rows of one replay from a time, at most
	maxSearched = 200       // sequences that are searched in the journal for one message, at most
)

// Start is a time to replay from. The zero Start means no replay.
type Start struct {
	Time int64 // Unix ns
	Open bool  // from the open of the instrument's market today, or from 00:00 UTC if it never opens
}

func (s Start) asked() bool { return s.Open || s.Time != 0 }

type pointKey struct {
	in      *hub.Instrument
	channel wire.Channel
}

// search is a request for a point that is not in memory.
type search struct {
	key    pointKey
	series journal.Series
	from   int64
	first  uint64 // N of the oldest row in memory
}

// findPoints finds the N of the last row before the start in each sequence that a list of items
// replays. It searches the journal for points that are not in memory, without the hub's lock. It
// returns false if the request is refused. It also returns false if a goroutine of the hub
// searches. In this case the host subscribes again later.
func (t *taking) findPoints(items []hub.Item) bool {
	h, o := t.shard.hub, t.o
	if h.Journal() == nil {
		t.out.Fault = wire.NewFault(wire.UnsupportedOption, "start is not served: this server keeps no history")
		return false
	}
	for {
		if o.Search != nil && o.Search.fault != nil {
			t.out.Fault = o.Search.fault
			return false
		}
		var ask []search
		if t.points, ask, t.out.Fault = t.pointsInMemory(items); t.out.Fault != nil {
			return false
		}
		if ask = o.Search.fill(t.points, ask); len(ask) == 0 {
			h.Lock()
			defer h.Unlock()
			t.out.Fault = tooMany(h, t.points)
			return t.out.Fault == nil
		}
		if o.Search = o.Search.next(h, ask); o.Search.begin(o.Found) {
			t.out.Search = o.Search
			return false
		}
		o.Search.read(context.Background(), searchTime)
	}
}

// pointsInMemory returns the points that are in memory, and the sequences that have to be searched
// in the journal. fault states why the request is refused; nil: it is not.
func (t *taking) pointsInMemory(items []hub.Item) (points map[pointKey]uint64, ask []search, fault *wire.Fault) {
	h := t.shard.hub
	items, _ = t.accept(items) // refused items cost nothing
	h.Prepare(items)
	h.Lock()
	defer h.Unlock()
	h.Commit()
	points = make(map[pointKey]uint64)
	starts, now := make(openings), time.Now().UnixNano()
	seen := make(map[hub.Item]bool)
	for _, x := range items {
		if !x.Channel.Replays() || seen[x] {
			continue
		}
		seen[x] = true
		for _, in := range h.Covered(x) {
			key := pointKey{in, x.Channel}
			h.Step(1)
			t.out.Looked++
			if _, ok := points[key]; ok {
				continue // identifiers may overlap
			}
			from, rows := starts.start(h, in, t.o.Start, now), in.Recent(x.Channel)
			if t.o.Today && h.IsHistory(in, from) {
				return nil, nil, wire.NewFault(wire.Forbidden, "The start lies before today's open, which needs the scope marketdata:history")
			}
			n, found := rows.Before(from)
			points[key] = n
			if !found && rows.First() > 1 {
				ask = append(ask, search{key, in.Series(x.Channel), from, rows.First()})
			}
		}
	}
	if len(ask) > maxSearched {
		return nil, nil, wire.NewFault(wire.RangeTooLarge, "The start lies before what is in memory of more than 200 sequences; ask for fewer instruments or start later")
	}
	return points, ask, tooMany(h, points)
}

// tooMany returns a fault if more than maxStarted rows follow the points. The hub's lock is held.
func tooMany(h *hub.Port, points map[pointKey]uint64) *wire.Fault {
	rows := uint64(0)
	for key, n := range points {
		rows += key.in.Recent(key.channel).Last - n
		h.Step(1)
	}
	if rows > maxStarted {
		return wire.NewFault(wire.RangeTooLarge, "More than 1,000,000 rows since then; start later, or ask GET /market/trades page by page")
	}
	return nil
}

// openings are the start times of the markets of one message, each computed once.
type openings map[openingKey]int64

type openingKey struct {
	market, term string
	now          int64
}

// start returns the start time of an instrument, in Unix ns. The hub's lock is held.
func (o openings) start(h *hub.Port, in *hub.Instrument, s Start, now int64) int64 {
	if !s.Open {
		return s.Time
	}
	key := openingKey{in.ID().Market, in.ID().Term, in.Publication(now)}
	from, ok := o[key]
	if !ok {
		from = h.Opening(key.market, key.term, key.now)
		o[key] = from
	}
	return from
}

// replayFrom makes a new item begin with the rows after its points.
func (t *taking) replayFrom(it *item) {
	h := t.shard.hub
	c := catchUp{it: it, out: t.out, at: h.Reached(it.tier().Delay), fresh: true, fromTime: true}
	for in := range c.pieces(h.Covered(it.item())) {
		if n, ok := t.points[pointKey{in, it.channel()}]; ok { // otherwise it was listed later
			c.behind(in, sentTo{n: n, hasN: true, exact: true, pos: t.o.Search.before(in, it.channel())})
		}
	}
	c.replay(t.wait.batch)
}
