package verify

import "github.com/ruedahq/rueda/market"

// crossing is a book whose best bid is at or above its best ask.
type crossing struct {
	place    Place
	received int64
	bid, ask market.Price
}

// No order is promised between channels: that an auction has begun may be told after the books
// that it crosses, and the trades of a bar after it. So what one channel says of another is
// judged when it was received so long ago. That is no time of the stream, which may run
// many times as fast.
const patience = int64(2e9)

const maxCrossings = 1024

// waited says that what was received at a time can be judged now.
func (v *Verifier) waited(received int64) bool {
	return v.config.Ordered || !v.resuming() && received+patience < v.received
}

// topChanged looks at the best levels after a book message.
func (in *instrument) topChanged(p Place) {
	if open, known := in.open(p.Time); known && !open {
		in.tops.hole() // nothing is held against it
		return
	}
	if in.v.resuming() { // whether the market is open is still to be told
		in.tops.hole()
		in.v.unjudged(Crossed)
		return
	}
	bid, _ := in.book.Best(market.Buy)
	ask, _ := in.book.Best(market.Sell)
	in.tops.top(in, p, bid, ask)
	in.uncrossed(p)
}

// uncrossed judges whether the best bid is below the best ask.
func (in *instrument) uncrossed(p Place) {
	crossed := in.book.Crossed()
	switch open, known := in.open(p.Time); {
	case !known:
		if crossed {
			in.v.unjudged(Crossed)
		}
		return
	case !open:
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
		in.crossings = append(in.crossings, crossing{p, in.v.received, bid.Price, ask.Price})
		in.confirm()
	}
}

// phases is what was told of the trading status of an instrument or a market, oldest first.
type phases []phaseSince

type phaseSince struct {
	since int64
	phase market.Phase
}

const keptPhases = 64

// set takes a status.
func (p *phases) set(since int64, phase market.Phase) {
	if len(*p) >= keptPhases {
		*p = append((*p)[:0], (*p)[keptPhases/2:]...)
	}
	*p = append(*p, phaseSince{since, phase})
}

// open says whether at a time there was continuous trading, as far as was told; known is false
// where nothing was. At the time of a change itself there is only where there is before and after it.
func (p phases) open(t int64) (open, known bool) {
	for i := len(p) - 1; i >= 0; i-- {
		switch {
		case p[i].since > t:
		case !continuous(p[i].phase):
			return false, true
		case p[i].since < t || i == 0:
			return true, true
		}
	}
	return false, false
}

// open says whether the instrument was in continuous trading at a time.
func (in *instrument) open(t int64) (open, known bool) {
	if open, known := in.v.markets[in.venue].open(t); known && !open {
		return false, true
	}
	return in.phases.open(t)
}

// confirm makes findings of the crossings that have waited, but those that a status excuses.
func (in *instrument) confirm() {
	n := 0
	for ; n < len(in.crossings) && in.v.waited(in.crossings[n].received); n++ {
		c := &in.crossings[n]
		switch open, known := in.open(c.place.Time); {
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
		in.v.wrong(Crossed, in, c.place, "the book is %s while the market is open: bid %s, ask %s", word, c.bid, c.ask)
	}
	in.crossings = append(in.crossings[:0], in.crossings[n:]...)
}

// finish judges what still waits, but what came last: what excuses that may have been to come.
func (in *instrument) finish() {
	in.confirm()
	in.v.checks[Crossed].Unjudged += uint64(len(in.crossings))
	in.crossings = nil
	in.tops.finish(in)
	in.log.finish(in)
}
