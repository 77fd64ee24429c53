package stream

import (
	"cmp"
	"slices"
	"time"
	"unsafe"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Delayed data have topics of their own. A line holds every event back for its
// delay and then applies it to a second set of instruments, the later ones, which
// number as the live ones did, since they see the same events in the same order. So
// delayed data are never early, and an N is the same trade on every line.

// line is the events on their way to the readers of one delay.
type line struct {
	delay  int64 // ns
	chunks [][]delayed
	bytes  int64
	down   map[string]bool // markets whose feed is down, as of the line
	broken bool            // too much was on its way: nothing comes any more
	now    int64           // when what it lets go of was published
	again  []delayed       // of before a restart, by due; all of it is due before what is in chunks of the same instrument
	mixed  bool            // again is to be brought in order
}

// delayed is an event on its way.
type delayed struct {
	due  int64 // by the hub's clock, which nobody sets
	in   *instrument
	list bool // it is listed, no event; at a restart, that all of before it is old enough
	e    market.Event

	exchange *exchange // no event, but a moment of the clock of its bars
	at       int64     // of that moment, or publication of the event
}

const delayedChunk = 256

// later makes the counterparts of a new instrument, one a line.
func (h *Hub) later(in *instrument) {
	for _, ln := range h.lines {
		x := &instrument{def: in.def, id: in.id, ident: in.ident.Delayed(ln.delay), handle: in.handle, stale: in.stale, line: ln, venue: in.venue, unfed: in.unfed}
		in.later = append(in.later, x)
		if in.statuses.Last > 0 {
			h.restoreLater(in, x)
		}
		ln.push(h, delayed{due: h.clock() + ln.delay, in: x, list: true})
	}
}

// list lists an instrument, as the live one was listed.
func (ln *line) list(h *Hub, x *instrument) {
	switch {
	case x.unfed && !x.ripe: // at the restart, by no feed
		x.ripen()
		x.ripe = true
		return
	case x.unfed:
		x.unfed = false
		x.stale = beginsStale(&x.def)
	}
	x.ripen()
	h.list(x)
}

// clock counts nanoseconds from when the hub was made. Delays go by it: a step of the wall
// clock makes nothing early.
func (h *Hub) clock() int64 { return int64(time.Since(h.made)) }

// under is the instrument as it is told under a delay in seconds: itself for 0, nil
// where there is no such line.
func (in *instrument) under(seconds int) *instrument {
	if seconds == 0 {
		return in
	}
	for _, x := range in.later {
		if x.line.delay == int64(seconds)*1e9 {
			return x
		}
	}
	return nil
}

// hold puts an event on every line.
func (h *Hub) hold(in *instrument, e *market.Event, at int64) {
	if len(in.later) == 0 {
		return
	}
	now := h.clock()
	for _, x := range in.later {
		x.line.push(h, delayed{due: now + x.line.delay, in: x, e: *e, at: at})
	}
}

// push puts something at the end of the line. What the feed lent is copied.
func (ln *line) push(h *Hub, d delayed) {
	if ln.broken {
		return
	}
	d.e.Bids, d.e.Asks = clone(d.e.Bids), clone(d.e.Asks)
	d.e.TradeDetails = d.e.TradeDetails.Clone()
	if n := len(ln.chunks); n == 0 || len(ln.chunks[n-1]) == delayedChunk {
		ln.chunks = append(ln.chunks, make([]delayed, 0, delayedChunk))
	}
	last := &ln.chunks[len(ln.chunks)-1]
	*last = append(*last, d)
	ln.bytes += d.size()
	if ln.bytes > h.cfg.DelayBytes {
		ln.snap(h)
		return
	}
	if ln.bytes == d.size() {
		h.kickClock()
	}
}

func clone[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return append([]T(nil), list...)
}

func (d *delayed) size() int64 {
	n := unsafe.Sizeof(*d) + uintptr(len(d.e.Bids)+len(d.e.Asks))*unsafe.Sizeof(market.Level{}) + uintptr(len(d.e.TradeID)+len(d.e.Reason))
	return int64(n)
}

// snap gives a line up that holds more than it may: what would come after a hole in it would be
// false. Its readers are told that the feed is down, those of trades alone too.
func (ln *line) snap(h *Hub) {
	now := time.Now().UnixNano()
	ln.broken, ln.chunks, ln.again, ln.bytes = true, nil, nil, 0
	h.log.Error("delayed data ended: too much is on its way; raise the bound or shorten the delay",
		"delay_seconds", ln.delay/1e9, "bytes", h.cfg.DelayBytes)
	for _, in := range h.listed {
		x := in.under(int(ln.delay / 1e9))
		x.stale = true
		h.status(x, &market.Event{Kind: market.KindStatus, Phase: market.FeedDown, Reason: "delay_overflow"}, now)
		rec := record{in: x, pos: h.position, n: x.statuses.Last, at: now, flag: notice | echo}
		for _, t := range h.tiers(x, wire.Trades) {
			for _, tp := range t.topics {
				h.append(tp, h.scratch.frame, rec)
			}
		}
		h.stepPublishing()
	}
}

// release applies what is due, some at a time, and returns how long to wait before the next time; 0:
// nothing is on its way.
func (ln *line) release(h *Hub, now int64) (wait time.Duration) {
	clock := h.clock()
	if ln.mixed {
		ln.mixed = false
		slices.SortStableFunc(ln.again, func(a, b delayed) int { return cmp.Compare(a.due, b.due) })
	}
	for range delayedChunk {
		if len(ln.again) > 0 && (len(ln.chunks) == 0 || ln.again[0].due <= ln.chunks[0][0].due) {
			d := ln.again[0]
			if d.due > clock {
				return time.Duration(d.due - clock)
			}
			ln.again[0] = delayed{}
			ln.again = ln.again[1:]
			ln.bytes -= d.size()
			ln.now = d.at
			ln.strike(h, h.exchangeOf(d.in), d.at, now) // as the live bars that were over by then were told before it
			_ = h.applyTo(d.in, &d.e, now)
			if ln.broken {
				return 0
			}
			continue
		}
		if len(ln.chunks) == 0 {
			return 0
		}
		d := ln.chunks[0][0]
		if d.due > clock {
			return time.Duration(d.due - clock)
		}
		ln.chunks[0][0] = delayed{}
		if ln.chunks[0] = ln.chunks[0][1:]; len(ln.chunks[0]) == 0 {
			ln.chunks[0] = nil
			ln.chunks = ln.chunks[1:]
		}
		ln.bytes -= d.size()
		ln.now = d.at
		switch {
		case d.exchange != nil:
			ln.strike(h, d.exchange, d.at, now)
		case d.list && d.in.venue:
		case d.list:
			ln.list(h, d.in)
		case d.in.venue:
			ln.venue(h, d.in, &d.e, now)
		default:
			_ = h.applyTo(d.in, &d.e, now) // what the live instrument refused is refused again
		}
		if ln.broken {
			return 0
		}
		h.stepPublishing()
	}
	return 1 // and more
}

// strike tells the bars of an exchange that are over at t, if any are: as Publish does of the live ones.
func (ln *line) strike(h *Hub, x *exchange, t, now int64) {
	if x.Next() != 0 && x.Next() <= t {
		h.strikeAt(x, t, now)
	}
}

// venue takes what a market-wide status does to the line's books. The status itself is
// everybody's at once: it is no market data.
func (ln *line) venue(h *Hub, in *instrument, e *market.Event, now int64) {
	h.dateVirtual(in, e, now)
	switch {
	case e.Kind == market.KindGap:
		for _, x := range h.listed {
			if x.id.Market == in.id.Market {
				h.loseBook(x.under(int(ln.delay/1e9)), now, e)
			}
			h.stepPublishing()
		}
	case e.Phase == market.FeedDown:
		ln.down[in.id.Market] = true
		for _, x := range h.listed {
			if x.id.Market == in.id.Market {
				x.under(int(ln.delay / 1e9)).stale = !x.def.NoBook
			}
			h.stepPublishing()
		}
	case e.Phase == market.FeedUp:
		delete(ln.down, in.id.Market)
	}
}

// servesDelay says whether data are served at a tier's delay.
func (h *Hub) servesDelay(seconds int) bool {
	if seconds == 0 {
		return true
	}
	for _, ln := range h.lines {
		if ln.delay == int64(seconds)*1e9 {
			return true
		}
	}
	return false
}

// Serves says whether data are served at a delay, in seconds; 0 is at once.
func (h *Hub) Serves(delay int) bool { return h.servesDelay(delay) }

// Serves is that of the Hub.
func (s *Subscriber) Serves(delay int) bool { return s.shard.hub.servesDelay(delay) }

// lookupItem is the instrument that an exact item reads.
func (h *Hub) lookupItem(x Item) *instrument {
	if in := h.lookup(x.ID); in != nil {
		return in.under(x.Tier.Delay)
	}
	return nil
}
