package verify

import "github.com/ruedahq/rueda/market"

// crossing is a book whose best bid is at or above its best ask.
type crossing struct {
	place    Place
	bid, ask market.Price
}

// No order is promised between channels: that an auction has begun may be told after the books
// that it crosses. So a crossing waits this long, in the time of the stream, for a status that excuses it.
const grace = int64(1e9)

const maxCrossings = 256

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
	in.v.judged(Crossed)
	if !crossed {
		return
	}
	if len(in.crossings) >= maxCrossings {
		in.confirm(1)
	}
	bid, _ := in.book.Best(market.Buy)
	ask, _ := in.book.Best(market.Sell)
	in.crossings = append(in.crossings, crossing{p, bid.Price, ask.Price})
	if in.v.config.Ordered {
		in.confirm(1)
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

// confirm makes the first n crossings findings.
func (in *instrument) confirm(n int) {
	for _, c := range in.crossings[:n] {
		if open, known := in.open(c.place.Time); known && !open {
			continue // as its market told since
		}
		word := "crossed"
		if c.bid == c.ask {
			word = "locked"
		}
		in.v.wrong(Crossed, in, c.place, "the book is %s while the market is open: bid %s, ask %s", word, c.bid, c.ask)
	}
	in.crossings = append(in.crossings[:0], in.crossings[n:]...)
}

// excuse drops the crossings since the market left continuous trading.
func (in *instrument) excuse(since int64) {
	kept := in.crossings[:0]
	for _, c := range in.crossings {
		if c.place.Time < since {
			kept = append(kept, c)
		}
	}
	in.crossings = kept
	in.tops.drop(since)
}

// passed says that the time of the stream has come to t.
func (in *instrument) passed(t int64) {
	if in.v.resuming() {
		return // the status that excuses them may be still to come
	}
	n := 0
	for n < len(in.crossings) && in.crossings[n].place.Time+grace < t {
		n++
	}
	in.confirm(n)
}

// finish judges what still waits.
func (in *instrument) finish() {
	if in.v.resuming() {
		in.v.checks[Crossed].Unjudged += uint64(len(in.crossings))
		in.crossings = nil
	}
	in.confirm(len(in.crossings))
	in.tops.finish(in)
	in.log.finish(in)
}
