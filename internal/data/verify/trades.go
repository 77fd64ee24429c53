package verify

import (
	"math"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire/stream"
)

// tradeLog holds the newest trades of an instrument, to check cancellations, corrections and bars.
type tradeLog struct {
	rows    []tradeRow
	first   uint64            // N of the first row
	ids     map[string]uint64 // N of the newest trade with an id
	covered bool              // since is known
	byBar   bool              // from a bar; there is no row yet
	hasGap  bool              // trades are missing, and none has come since
	since   int64             // every trade with a later time is in the log
	traded  firstTrade
	bars    barBook
}

// firstTrade is the first trade that was not late.
type firstTrade struct {
	time     int64 // 0: there is none
	received arrival
	real     bool // its market has real time
}

// tradeRow is a trade in its current state. Cancellations and corrections have their own rows,
// which do not count.
type tradeRow struct {
	id    string
	time  int64
	price market.Price
	size  market.Size
	state rowState
}

type rowState uint8

const (
	counts    rowState = iota
	cancelled          // a cancelled trade
	amendment          // a cancellation or correction
)

// keptTrades is the number of rows kept for each instrument. Cancellations come within the day, but
// rarely refer to older trades.
const keptTrades = 50_000

// gap records that trades are missing.
func (g *tradeLog) gap() {
	if g.covered {
		g.since = max(g.since, g.newest())
	}
	g.hasGap, g.byBar = true, false
	g.drop(len(g.rows))
}

func (g *tradeLog) newest() int64 {
	t := int64(math.MinInt64)
	for i := range g.rows {
		t = max(t, g.rows[i].time)
	}
	return t
}

// drop removes the first n rows.
func (g *tradeLog) drop(n int) {
	for i := range g.rows[:n] {
		r := &g.rows[i]
		if r.id != "" && g.ids[r.id] == g.first+uint64(i) {
			delete(g.ids, r.id)
		}
	}
	g.rows = append(g.rows[:0], g.rows[n:]...)
	g.first += uint64(n)
}

// row returns the row of an N, nil if it is not kept.
func (g *tradeLog) row(n uint64) *tradeRow {
	if n < g.first || n-g.first >= uint64(len(g.rows)) {
		return nil
	}
	return &g.rows[n-g.first]
}

// append adds a row. newest is the newest event time of the instrument.
func (g *tradeLog) append(n uint64, r tradeRow, newest int64) {
	if len(g.rows) >= keptTrades {
		half := len(g.rows) / 2
		for i := range g.rows[:half] {
			g.since = max(g.since, g.rows[i].time)
		}
		g.drop(half)
	}
	if !g.covered || g.byBar {
		if !g.byBar || newest < g.since {
			g.since = newest // the first trade may be late
		}
		g.covered, g.byBar = true, false
		if n == 1 {
			g.since = math.MinInt64
		}
	}
	if g.hasGap {
		g.hasGap, g.since = false, max(g.since, newest)
	}
	if len(g.rows) == 0 {
		g.first = n
	}
	g.rows = append(g.rows, r)
	if r.id != "" && r.state == counts {
		if g.ids == nil {
			g.ids = map[string]uint64{}
		}
		g.ids[r.id] = n
	}
}

// trade handles a trade, cancellation or correction.
func (in *instrument) trade(p Position, m *stream.Message) {
	g := &in.log
	t := &m.Trade
	if t.Size == 0 {
		in.v.wrong(Message, in, p, "a trade of size 0")
		return
	}
	r := tradeRow{id: t.ID, time: p.Time, price: t.Price, size: t.Size}
	if t.Kind == market.KindTrade {
		g.append(m.N, r, in.newest)
		if g.traded.time == 0 && p.Time+intervals[market.Minute].length >= in.newest {
			g.traded = firstTrade{p.Time, in.v.now, m.Latency >= 0}
		}
		g.bars.add(&r)
		g.bars.postpone(r.time, in.v.now)
		in.summary.trade(in, p, t)
		in.ids.trade(in, p, t)
		in.sides.trade(in, p, t)
		return
	}
	in.summary.trade(in, p, t)
	in.reference(p, m)
	r.state = amendment
	g.append(m.N, r, in.newest)
}

// reference compares a cancellation or correction with its trade.
func (in *instrument) reference(p Position, m *stream.Message) {
	g, v := &in.log, in.v
	t := &m.Trade
	n := t.RefN
	if n == 0 {
		known, ok := g.ids[t.ID]
		if t.ID == "" || !ok {
			v.unjudged(Reference)
			return
		}
		v.judged(Reference)
		v.wrong(Reference, in, p, "XN is absent, but trade %s is number %d of this epoch", t.ID, known)
		n = known
	} else {
		if n >= m.N {
			v.judged(Reference)
			v.wrong(Reference, in, p, "XN is %d, which is not before this message", n)
			return
		}
		if g.row(n) == nil {
			v.unjudged(Reference)
			return
		}
		v.judged(Reference)
	}
	r := g.row(n)
	price, size := t.Price, t.Size
	if t.Kind == market.KindCorrect {
		price, size = t.OldPrice, t.OldSize
	}
	switch {
	case r.state == amendment:
		v.wrong(Reference, in, p, "XN is %d, which is not a trade", n)
		return
	case r.state == cancelled:
		v.wrong(Reference, in, p, "trade %d was cancelled before", n)
		return
	case t.ID != "" && r.id != "" && r.id != t.ID:
		v.wrong(Reference, in, p, "XN is %d, which is trade %s, not %s", n, r.id, t.ID)
		return
	case r.price != price || r.size != size:
		v.wrong(Reference, in, p, "it gives trade %d as %s x %s, but it is %s x %s", n, price, size, r.price, r.size)
	}
	if t.Kind == market.KindCancel {
		r.state = cancelled
	} else {
		r.price, r.size = t.Price, t.Size
	}
	g.bars.changed(r.time)
	g.bars.postpone(r.time, v.now)
}

// finish judges the pending bars, except the newest ones, whose trades may be missing.
func (g *tradeLog) finish(in *instrument) {
	for i := range g.bars.pending {
		if w := &g.bars.pending[i]; !in.v.waited(w.received) {
			in.v.unjudged(Bars)
		} else {
			g.judgeBar(in, w)
		}
	}
	g.bars.pending = nil
}
