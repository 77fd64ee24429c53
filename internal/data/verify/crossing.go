package verify

import "github.com/ruedahq/rueda/market"

// crossing is a book whose best bid is at or above its best ask.
type crossing struct {
	position Position
	received arrival
	bid, ask market.Price
}

// reorderWindow is how long to wait, in receive time, before one channel is judged by another.
// Order between channels is not guaranteed: the status of an auction may come after the books that
// it crosses, and the trades of a bar after the bar. Receive time is used because the stream may
// run faster than real time.
const reorderWindow = int64(2e9)

// reorderReads is how many reads from the connection are enough at the end of a stream, unless the
// server was slowed down: one read has what was published on all channels since the one before.
const reorderReads = 32

const maxCrossings = 1024

// arrival is when something was received.
type arrival struct {
	at   int64  // receive time, Unix ns
	read uint64 // number of the read; messages of one read have one receive time
}

// next advances to the receive time of a message.
func (m *arrival) next(at int64) {
	if at > m.at {
		m.at = at
		m.read++
	}
}

// waited reports whether data that arrived at a time can be judged now.
func (v *Verifier) waited(m arrival) bool {
	if v.config.Ordered {
		return true
	}
	return !v.resuming() && (m.at+reorderWindow < v.now.at || v.ending && !v.conflated && m.read+reorderReads <= v.now.read)
}

// topChanged checks the best levels after a book message.
func (in *instrument) topChanged(p Position) {
	if open, known := in.open(p.Time); known && !open {
		in.tops.markGap() // in an auction, tops are not judged
		return
	}
	if in.v.resuming() { // the status of the market may still be missing
		in.tops.markGap()
		in.v.unjudged(Crossed)
		return
	}
	bid, _ := in.book.Best(market.Buy)
	ask, _ := in.book.Best(market.Sell)
	in.tops.top(in, p, bid, ask)
	in.sides.judge(in, false)
	in.uncrossed(p)
}

// uncrossed checks that the best bid is below the best ask.
func (in *instrument) uncrossed(p Position) {
	crossed := in.book.Crossed()
	switch open, known := in.open(p.Time); {
	case !known && crossed: // it may be that of an auction
		in.unknown++
		in.v.unjudged(Crossed)
		return
	case known && !open:
		return
	}
	switch {
	case !crossed:
		in.v.judged(Crossed)
	case len(in.crossings) >= maxCrossings:
		in.v.unjudged(Crossed)
	default:
		bid, _ := in.book.Best(market.Buy)
		ask, _ := in.book.Best(market.Sell)
		in.crossings = append(in.crossings, crossing{p, in.v.now, bid.Price, ask.Price})
		in.confirm()
	}
}

// phases holds the trading statuses of an instrument or a market, oldest first.
type phases []phaseSince

type phaseSince struct {
	since int64
	phase market.Phase
}

const keptPhases = 64

// set records a status.
func (p *phases) set(since int64, phase market.Phase) {
	if len(*p) >= keptPhases {
		*p = append((*p)[:0], (*p)[keptPhases/2:]...)
	}
	*p = append(*p, phaseSince{since, phase})
}

// open reports whether there was continuous trading at a time. known is false if no status is
// known, or if it is unknown. At the time of a change, there is continuous trading only if there is
// before and after it.
func (p phases) open(t int64) (open, known bool) {
	for i := len(p) - 1; i >= 0; i-- {
		switch {
		case p[i].since > t:
		case p[i].phase == market.Unknown:
			return false, false
		case !continuous(p[i].phase):
			return false, true
		case p[i].since < t || i == 0:
			return true, true
		}
	}
	return false, false
}

// open reports whether the instrument was in continuous trading at a time.
func (in *instrument) open(t int64) (open, known bool) {
	if open, known := in.v.markets[in.venue].open(t); known && !open {
		return false, true
	}
	return in.phases.open(t)
}

// confirm reports the crossings that have waited long enough, except those during an auction.
func (in *instrument) confirm() {
	n := 0
	for ; n < len(in.crossings) && in.v.waited(in.crossings[n].received); n++ {
		c := &in.crossings[n]
		switch open, known := in.open(c.position.Time); {
		case !known:
			in.v.unjudged(Crossed)
			continue
		case !open:
			continue
		}
		word := "crossed"
		if c.bid == c.ask {
			word = "locked"
		}
		in.v.judged(Crossed)
		in.v.wrong(Crossed, in, c.position, "the book is %s while the market is open: bid %s, ask %s", word, c.bid, c.ask)
	}
	in.crossings = append(in.crossings[:0], in.crossings[n:]...)
}

// finish judges what is still pending, except the newest data, for which a status may be missing.
func (in *instrument) finish() {
	in.confirm()
	in.confirmBacks(true)
	if in.unknown > 0 {
		in.v.Note("%s: %d books are locked or crossed, and no trading status is known: no quote follows from them", in.id, in.unknown)
	}
	in.v.checks[Crossed].Unjudged += uint64(len(in.crossings))
	in.crossings = nil
	in.missing()
	in.sides.finish(in)
	in.tops.finish(in)
	in.ids.finish(in)
	in.summary.finish(in)
	in.log.finish(in)
}
