package verify

import (
	"strconv"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// sideLog compares the aggressors of trades with the book before them: a buyer trades at the ask or
// above, and a seller at the bid or below. A single trade may be an exception: it was agreed away
// from the book, or the clocks of the two channels differ. So it is only a finding if more trades
// contradict the book than random aggressors would.
type sideLog struct {
	pending []sided
	agree   uint64
	against uint64
	first   Position // of those against
}

// sided is a trade with an aggressor.
type sided struct {
	position Position
	at       int64 // its time, as that of tops
	received arrival
	side     market.Side
	price    market.Price
}

const (
	maxSided     = 1024
	deviations   = 5  // standard deviations of random aggressors that are a finding
	enoughTrades = 20 // that a note needs
)

// trade receives a trade.
func (s *sideLog) trade(in *instrument, p Position, t *wire.Trade) {
	if t.Side == market.NoSide || len(t.Conditions) > 0 || p.Time < in.trades.time || in.v.config.UpdateIDs || len(s.pending) >= maxSided {
		return
	}
	s.pending = append(s.pending, sided{p, in.v.timeOf(p), in.v.now, t.Side, t.Price})
	s.judge(in, false)
}

// judge judges the trades that the book has passed. end judges all of them.
func (s *sideLog) judge(in *instrument, end bool) {
	n := 0
	for ; n < len(s.pending); n++ {
		x := &s.pending[n]
		if in.tops.late < x.at && !in.v.waited(x.received) && !end {
			break
		}
		s.compare(in, x)
	}
	s.pending = append(s.pending[:0], s.pending[n:]...)
}

// compare compares a trade with the newest top before its time.
func (s *sideLog) compare(in *instrument, x *sided) {
	if open, known := in.open(x.position.Time); known && !open || !in.known {
		return
	}
	tops := in.tops.tops
	i := len(tops) - 1
	for i >= 0 && tops[i].at >= x.at {
		i--
	}
	if i < 0 || i+1 < len(tops) && tops[i+1].gap {
		return
	}
	buyer := tops[i].ask.Size > 0 && x.price >= tops[i].ask.Price
	seller := tops[i].bid.Size > 0 && x.price <= tops[i].bid.Price
	switch {
	case buyer == seller: // between them, or the book is crossed
	case buyer == (x.side == market.Buy):
		s.agree++
	default:
		if s.against == 0 {
			s.first = x.position
		}
		s.against++
	}
}

// finish judges the share of aggressors that the book contradicts.
func (s *sideLog) finish(in *instrument) {
	s.judge(in, true)
	v, all := in.v, s.agree+s.against
	v.checks[Aggressor].Judged += all
	excess := int64(s.against) - int64(s.agree)
	switch {
	case excess > 0 && uint64(excess*excess) > deviations*deviations*all:
		v.wrong(Aggressor, in, s.first, "%d of %d aggressors are on the side of the book that the trade did not take", s.against, all)
	case s.against*10 > all && all >= enoughTrades:
		v.Note("%s: the book contradicts %d of %d aggressors", in.id, s.against, all)
	}
}

// idLog checks that numeric trade ids increase. Some markets do not number their trades in order,
// so a decrease is a finding only if few of the ids decrease.
type idLog struct {
	newest uint64 // 0: unknown
	time   int64
	outage int // of the market
	rises  uint64
	falls  []fall
	fell   uint64
}

type fall struct {
	position Position
	text     string
}

// again forgets the newest id: ids may begin again.
func (g *idLog) again() { g.newest = 0 }

// trade receives a trade.
func (g *idLog) trade(in *instrument, p Position, t *wire.Trade) {
	switch {
	case in.v.config.UpdateIDs: // counted by sequence
		return
	case p.Time < in.trades.time: // late, or of a recording that began again before the stream did
		g.newest = 0
		return
	}
	id, err := strconv.ParseUint(t.ID, 10, 64)
	if err != nil {
		return
	}
	const pause = int64(3600e9) // ids may begin again each day, and when a source starts again
	switch before, outage := g.newest, in.v.outages[in.venue]; {
	case before == 0 || p.Time-g.time > pause || outage != g.outage:
		g.outage = outage
	case id > before:
		g.rises++
	default:
		if g.fell++; len(g.falls) < in.v.config.Findings {
			g.falls = append(g.falls, fall{p, "trade " + t.ID + " came after trade " + strconv.FormatUint(before, 10)})
		}
	}
	g.newest, g.time = id, p.Time
}

// finish reports the falls if there are few.
func (g *idLog) finish(in *instrument) {
	c := &in.v.checks[Reference]
	if g.fell*40 > g.rises {
		c.Unjudged += g.rises + g.fell
		return
	}
	c.Judged += g.rises + g.fell
	for i := range g.falls {
		in.v.wrong(Reference, in, g.falls[i].position, "%s", g.falls[i].text)
	}
	c.Wrong += g.fell - uint64(len(g.falls))
}
