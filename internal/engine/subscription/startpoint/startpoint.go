// Package startpoint finds where a replay from a time begins.
//
// A sequence is a channel of an instrument. Its point is the N of the last row before the time.
// [Find] takes the points from memory. A [Search] reads those from the journal that are not in
// memory.
package startpoint

import (
	"context"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/wire"
)

const (
	maxRows     = 1_000_000 // rows of one replay, at most
	maxSearched = 200       // sequences that are searched in the journal for one message, at most
)

// Start is a time to replay from. The zero Start means no replay.
type Start struct {
	Time int64 // Unix ns
	Open bool  // from the open of the instrument's market today, or from 00:00 UTC if it never opens
}

// Asked reports whether a replay is requested.
func (s Start) Asked() bool { return s.Open || s.Time != 0 }

// Sequence is a channel of an instrument.
type Sequence struct {
	In      *hub.Instrument
	Channel wire.Channel
}

// Request has the arguments of Find.
type Request struct {
	Items  []hub.Item // for which hub.Port.Prepare was called
	Start  Start
	Today  bool    // refuse a start that needs the right to history
	Search *Search // from the Result of an earlier Find of the same items; nil: there was none
	Found  func()  // any goroutine calls it when the Search of the Result has ended; nil: Find waits
}

// Result has the points of a Request, or states why there are none.
type Result struct {
	Looked int           // number of sequences in which a first row was searched
	Fault  *wire.Fault   // why the request is refused
	Search *Search       // points are missing: call Find again when the search has ended
	Read   time.Duration // reading time of the Search of the Request

	points map[Sequence]uint64
	from   *Search
}

// Point returns the N of the last row before the start. It also returns the position before the
// next row, or 0 if that is not known. ok is false for a sequence that was listed later.
func (r *Result) Point(in *hub.Instrument, c wire.Channel) (n, pos uint64, ok bool) {
	key := Sequence{in, c}
	n, ok = r.points[key]
	if r.from != nil {
		pos = r.from.place[key]
	}
	return n, pos, ok
}

// Find finds the point of each sequence that a list of items replays. It searches the journal
// without the hub's lock, which the caller does not hold.
func Find(h *hub.Port, r Request) (out Result) {
	if h.Journal() == nil {
		out.Fault = wire.NewFault(wire.UnsupportedOption, "start is not served: this server keeps no history")
		return out
	}
	x, ahead := r.Search, r.Search.waited()
	if x != nil && x.point == nil { // it waited for replicas, or for rows
		x = nil
	}
	if x != nil {
		out.Read = x.used - x.before
	}
	for {
		if x != nil && x.fault != nil {
			out.Fault = x.fault
			return out
		}
		ask := out.inMemory(h, r)
		if out.Fault != nil {
			return out
		}
		if ask = x.fill(out.points, ask); len(ask) == 0 {
			h.Lock()
			defer h.Unlock()
			out.Fault, out.from = tooMany(h, out.points), x
			return out
		}
		x = x.next(h, ask)
		if x.ahead = ahead; x.begin(r.Found) {
			out.Search = x
			return out
		}
		x.read(context.Background(), searchTime)
	}
}

// inMemory sets the points that are in memory, and returns the sequences that have to be searched
// in the journal. It sets the fault if the request is refused.
func (r *Result) inMemory(h *hub.Port, q Request) (ask []missing) {
	h.Lock()
	defer h.Unlock()
	h.Commit()
	r.points = make(map[Sequence]uint64)
	starts, now := make(openings), time.Now().UnixNano()
	seen := make(map[hub.Item]bool)
	for _, x := range q.Items {
		if !x.Channel.Replays() || seen[x] {
			continue
		}
		seen[x] = true
		for _, in := range h.Covered(x) {
			key := Sequence{in, x.Channel}
			h.Step(1)
			r.Looked++
			if _, ok := r.points[key]; ok {
				continue // identifiers may overlap
			}
			from, rows := starts.of(h, in, q.Start, now), in.Recent(x.Channel)
			if q.Today && h.IsHistory(in, from) {
				r.Fault = wire.NewFault(wire.Forbidden, "The start lies before today's open, which needs the scope marketdata:history")
				return nil
			}
			n, found := rows.Before(from)
			r.points[key] = n
			if !found && rows.First() > 1 {
				if from < h.Journal().EarlierUntil(in.Def.VirtualClock) {
					r.Fault = earlierFault()
					return nil
				}
				ask = append(ask, missing{key, in.Series(x.Channel), from, rows.First()})
			}
		}
	}
	if len(ask) > maxSearched {
		r.Fault = wire.NewFault(wire.RangeTooLarge, "The start lies before what is in memory of more than 200 sequences; ask for fewer instruments or start later")
		return nil
	}
	r.Fault = tooMany(h, r.points)
	return ask
}

// tooMany returns a fault if more than maxRows rows follow the points. The hub's lock is held.
func tooMany(h *hub.Port, points map[Sequence]uint64) *wire.Fault {
	rows := uint64(0)
	for key, n := range points {
		rows += key.In.Recent(key.Channel).Last - n
		h.Step(1)
	}
	if rows > maxRows {
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

// of returns the start time of an instrument, in Unix ns. The hub's lock is held.
func (o openings) of(h *hub.Port, in *hub.Instrument, s Start, now int64) int64 {
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
