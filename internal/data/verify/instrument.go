package verify

import (
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// instrument is the state of one instrument of a stream.
type instrument struct {
	v   *Verifier
	id  string
	def *market.Instrument // nil: unknown

	levels market.Book
	orders *market.OrderBook // set if the source is order by order
	book   *market.Book      // &levels, or the book of orders
	known  bool              // the book is known
	depth  int               // of the book's tier
	phases phases
	venue  string // its market

	trades, quotes, books, statuses, summaries sequence
	stated                                     sequence // statuses with a time of the market
	bars                                       map[string]*sequence
	// of events: the source's sequence of the newest trade
	tradeID uint64
	newest  int64 // newest event time

	published int64 // newest publication of a row of a virtual clock

	restarts  int     // how often a recording that is played repeatedly began again
	restarted arrival // when the newest restart was received
	ended     int64   // time of the newest trade before a restart that may not have reached trades
	backs     []timeBack
	crossings []crossing // not judged yet
	unknown   uint64     // crossed books while no status was known
	tops      timeline
	log       tradeLog
	summary   summaryLog
	sides     sideLog
	ids       idLog
}

// sequence is the state of one N of an instrument.
type sequence struct {
	n            uint64 // 0: none yet
	lossReported bool   // the server reported a loss
	time         int64  // event time: newest of trades, otherwise of the newest message
	restarts     int    // restarts of the instrument that the channel has passed
}

func newInstrument(v *Verifier, id string) *instrument {
	in := &instrument{v: v, id: id, def: v.known[id], bars: map[string]*sequence{}}
	in.book = &in.levels
	if p, err := market.ParsePattern(id); err == nil {
		in.venue = p.Market
	}
	return in
}

// reset forgets everything that depends on the numbering.
func (in *instrument) reset() {
	in.confirmBacks(true)
	in.resetSequences()
	in.interrupted()
	in.newest, in.published = 0, 0
	in.log = tradeLog{}
	in.ids.again()
}

// resetSequences forgets all sequence numbers.
func (in *instrument) resetSequences() {
	in.trades, in.quotes, in.books, in.statuses, in.summaries, in.stated = sequence{}, sequence{}, sequence{}, sequence{}, sequence{}, sequence{}
	clear(in.bars)
}

// lost records that the server reported a loss.
func (in *instrument) lost(channel string) {
	switch channel {
	case "trades":
		in.trades.lossReported = true
		in.log.gap()
		in.summary.reset(in)
	case "status":
		in.statuses.lossReported = true
	case "bars":
		for _, s := range in.bars {
			s.lossReported = true
		}
	}
}

// interrupted records that the stream was interrupted: a new book snapshot follows.
func (in *instrument) interrupted() {
	in.known = false
	in.tops.interrupted()
	in.summary.reset(in)
}

// message checks a message of the stream.
func (in *instrument) message(p Position, m *stream.Message) {
	switch m.Kind {
	case stream.Trade:
		if in.ended > 0 {
			in.tradeAfterRestart(p)
		}
		if in.contiguous(&in.trades, p, "trades", m) {
			in.trade(p, m)
		}
	case stream.Status:
		if m.Phase == market.Gap && m.Reason == replayRestarted {
			in.restart()
		}
		if in.contiguous(&in.statuses, p, "status", m) {
			in.status(p, m.Phase)
		}
	case stream.Bar:
		word := m.Bar.Interval.String()
		s := in.bars[word]
		if s == nil {
			s = new(sequence)
			in.bars[word] = s
		}
		if in.contiguous(s, p, "bars "+word, m) {
			in.bar(p, m)
		}
	case stream.Quote:
		if in.rising(&in.quotes, p, "quotes", m) {
			in.quote(p, m.Bids, m.Asks)
		}
	case stream.Book:
		if m.Snapshot {
			if in.rising(&in.books, p, "order_book", m) {
				in.bookState(p, m)
			}
		} else {
			in.bookUpdate(p, m)
		}
	case stream.Summary:
		if in.rising(&in.summaries, p, "summary", m) {
			in.summary.summary(in, p, m)
		}
	}
}

// contiguous checks the N of a channel without gaps. It returns false for a duplicate.
func (in *instrument) contiguous(s *sequence, p Position, channel string, m *stream.Message) bool {
	if channel == "status" && !in.v.has("status") {
		return true // book subscribers receive some statuses, with gaps between them
	}
	before, lossReported := s.n, s.lossReported
	s.lossReported = false
	if m.Snapshot && before > 0 && p.N == before {
		return true // a snapshot
	}
	in.v.judged(Sequence)
	switch {
	case before > 0 && p.N <= before && in.v.resuming():
		return false // a resume from a position repeats messages
	case before > 0 && p.N <= before:
		in.v.wrong(Sequence, in, p, "%s came with this N after %d", channel, before)
		return false
	case before > 0 && p.N > before+1 && lossReported:
		in.v.Note("%s of %s: %d messages are missing, as the server reported", channel, in.id, p.N-before-1)
	case before > 0 && p.N > before+1 && m.Snapshot:
		in.v.Note("%s of %s continued with a snapshot: %d messages before it are missing", channel, in.id, p.N-before-1)
	case before > 0 && p.N > before+1:
		in.v.wrong(Sequence, in, p, "%s: %s", channel, missing(before+1, p.N-1))
		if channel == "trades" {
			in.log.gap()
			in.summary.reset(in)
		}
	}
	s.n = p.N
	switch m.Kind {
	case stream.Bar:
	case stream.Status:
		in.statusTime(p, m)
	default:
		in.late(p, m.Trade.Kind)
	}
	return true
}

func missing(from, to uint64) string {
	if from == to {
		return "N " + strconv.FormatUint(from, 10) + " is missing"
	}
	return "N " + strconv.FormatUint(from, 10) + " to " + strconv.FormatUint(to, 10) + " are missing"
}

// statusTime checks the times of statuses: those that the market states, and those that the gateway
// states, which are of another clock. What the gateway says about feeds may be of either.
func (in *instrument) statusTime(p Position, m *stream.Message) {
	switch {
	case m.Phase.OfFeed():
		in.newest = max(in.newest, p.Time)
	case m.Latency < 0:
		in.time(&in.statuses, p, "status")
	default:
		in.time(&in.stated, p, "status")
	}
}

// rising checks the N of a channel that may have gaps. Those of quotes and summaries are findings
// unless the server conflates.
func (in *instrument) rising(s *sequence, p Position, channel string, m *stream.Message) bool {
	in.v.judged(Sequence)
	if p.N < s.n || p.N == s.n && !m.Snapshot {
		in.v.wrong(Sequence, in, p, "%s came with this N after %d", channel, s.n)
		return false
	}
	if m.Kind != stream.Book && s.n > 0 && p.N > s.n+1 && !m.Snapshot && !in.v.resuming() {
		in.v.skipped(skip{in, p, channel + ": " + missing(s.n+1, p.N-1)})
	}
	s.n = p.N
	if m.Kind != stream.Summary { // a summary has the time of its cause, which may be a late trade
		in.time(s, p, channel)
	}
	return true
}

// late records the time of a trade, cancellation or correction, and counts late trades.
func (in *instrument) late(p Position, kind market.Kind) {
	if kind == market.KindTrade && p.Time < in.trades.time {
		in.v.counts["late"]++
	}
	in.trades.time = max(in.trades.time, p.Time)
	in.newest = max(in.newest, p.Time)
}

// timeBack is a time that went back. A restart of a recording may still explain it.
type timeBack struct {
	of       *sequence
	position Position
	received arrival
	text     string
}

// time checks that the time of a channel does not go back, except once for each restart of a
// recording.
func (in *instrument) time(s *sequence, p Position, channel string) {
	if p.Time == 0 {
		return
	}
	in.v.judged(Time)
	switch {
	case p.Time < s.time && s.restarts < in.restarts:
		s.restarts = in.restarts
	case p.Time < s.time:
		in.backs = append(in.backs, timeBack{s, p, in.v.now, channel + " went back from " + clock(s.time)})
		in.confirmBacks(len(in.backs) > maxCrossings)
	case in.v.waited(in.restarted):
		s.restarts = in.restarts
	}
	s.time = p.Time
	in.newest = max(in.newest, p.Time)
}

// confirmBacks reports times that went back and have waited long enough, or all.
func (in *instrument) confirmBacks(all bool) {
	n := 0
	for ; n < len(in.backs) && (all || in.v.waited(in.backs[n].received)); n++ {
		in.v.wrong(Time, in, in.backs[n].position, "%s", in.backs[n].text)
	}
	in.backs = append(in.backs[:0], in.backs[n:]...)
}

// replayRestarted is the reason of the gap at which a recording that is played repeatedly begins
// again.
const replayRestarted = "replay_restarted"

// restart records that a recording begins again. Without order between channels, the messages of a
// channel may go back before it or after it.
func (in *instrument) restart() {
	in.restarts++
	in.restarted = in.v.now
	if in.v.config.Ordered {
		in.quotes.time, in.books.time, in.statuses.time, in.stated.time = 0, 0, 0, 0
	} else {
		in.ended = in.trades.time
	}
	in.published = 0
	in.restartTrades()
	in.confirmBacks(false)
	in.backs = slices.DeleteFunc(in.backs, func(b timeBack) bool {
		first := b.of.restarts < in.restarts // the first one of a channel was the restart
		b.of.restarts = in.restarts
		return first
	})
	in.tops.markGap()
	if venue := in.v.instruments[market.InstrumentID{Symbol: market.Any, Market: in.venue, Term: market.Any}.String()]; venue != nil && venue != in {
		venue.restart()
	}
}

// tradeAfterRestart decides whether a trade is the first one of a recording that has begun again.
// Trades from before the restart may come until then: their time is not before that of the newest.
func (in *instrument) tradeAfterRestart(p Position) {
	if p.Time >= in.ended && !in.v.waited(in.restarted) {
		in.ended = p.Time
		return
	}
	in.ended = 0
	in.restartTrades()
}

// restartTrades forgets the trades so far, because a recording begins again.
func (in *instrument) restartTrades() {
	in.trades.time, in.newest = 0, 0
	in.log = tradeLog{}
	in.ids.again()
	in.summary.reset(in)
}

// status records a trading status.
func (in *instrument) status(p Position, phase market.Phase) {
	if phase == market.Gap {
		in.v.counts["gap"]++
	}
	if phase.OfFeed() {
		in.v.outages[in.venue]++
		return
	}
	if id, err := market.ParsePattern(in.id); err == nil && id.IsPattern() {
		list := in.v.markets[id.Market]
		list.set(p.Time, phase)
		in.v.markets[id.Market] = list
		return
	}
	in.phases.set(p.Time, phase)
}

// continuous reports whether books must not be crossed in a phase.
func continuous(p market.Phase) bool { return p == market.Open || p == market.Quoting }

// bookState applies a book snapshot.
func (in *instrument) bookState(p Position, m *stream.Message) {
	in.tops.markGap()
	in.depth = m.Depth
	in.setBook(p, m.Bids, m.Asks)
	if in.known {
		in.checksum(p, m)
		in.topChanged(p)
	}
}

// setBook replaces the book.
func (in *instrument) setBook(p Position, bids, asks []market.Level) {
	in.v.judged(Levels)
	in.known = in.ordered(p, market.Buy, bids, true) && in.ordered(p, market.Sell, asks, true)
	in.book.Reset()
	if len(bids) > maxLevels || len(asks) > maxLevels {
		in.v.wrong(Levels, in, p, "a side has more than %d levels", maxLevels)
		in.known = false
	}
	if !in.known {
		return
	}
	for i := len(bids) - 1; i >= 0; i-- {
		in.book.Set(market.Buy, bids[i])
		in.onTick(p, bids[i])
	}
	for i := len(asks) - 1; i >= 0; i-- {
		in.book.Set(market.Sell, asks[i])
		in.onTick(p, asks[i])
	}
}

// onTick checks that a new level is on the tick of the definition. Journals and files in other
// formats may have definitions of another day.
func (in *instrument) onTick(p Position, l market.Level) {
	if in.def == nil || in.v.config.Ordered || l.Size == 0 {
		return
	}
	if step := in.def.TickSize(l.Price); step > 0 && l.Price%step != 0 {
		in.v.wrong(Levels, in, p, "level %s is not a multiple of the tick %s", l.Price, step)
	}
}

// ordered checks that the levels of a side are best first, each price once, and not empty in a
// snapshot.
func (in *instrument) ordered(p Position, side market.Side, levels []market.Level, whole bool) bool {
	for i := range levels {
		if whole && levels[i].Size == 0 {
			in.v.wrong(Levels, in, p, "a book snapshot has an empty level at %s", levels[i].Price)
			return false
		}
		if i == 0 {
			continue
		}
		switch a, b := levels[i-1].Price, levels[i].Price; {
		case a == b:
			in.v.wrong(Levels, in, p, "price %s occurs twice on a side", a)
			return false
		case (a < b) == (side == market.Buy):
			in.v.wrong(Levels, in, p, "level %s comes before %s, which is better", a, b)
			return false
		}
	}
	return true
}

// bookUpdate applies changes of a book.
func (in *instrument) bookUpdate(p Position, m *stream.Message) {
	before := in.books.n
	if !in.rising(&in.books, p, "order_book", m) {
		return
	}
	if !in.known {
		in.v.unjudged(Chain)
		return
	}
	in.v.judged(Chain)
	if m.Previous != before {
		in.v.wrong(Chain, in, p, "follows %d, but the book is that of %d; skipped up to the next snapshot", m.Previous, before)
		in.markStale()
		return
	}
	if !in.change(p, m.Bids, m.Asks, true) {
		return
	}
	if in.depth > 0 && max(in.book.Len(market.Buy), in.book.Len(market.Sell)) > in.depth {
		in.v.wrong(Levels, in, p, "the book has more levels than its depth, %d", in.depth)
	}
	in.checksum(p, m)
	in.topChanged(p)
}

// markStale drops the book until its next snapshot.
func (in *instrument) markStale() {
	in.known = false
	in.book.Reset()
	if in.orders != nil {
		in.orders.Reset()
	}
	in.tops.markGap()
}

// change applies changed levels to the book. It returns false, and marks the book as stale, if a
// side has too many levels. If strict is true, it also does so if the levels are not in order, and
// reports deletions of levels that do not exist.
func (in *instrument) change(p Position, bids, asks []market.Level, strict bool) bool {
	in.v.judged(Levels)
	if strict && !(in.ordered(p, market.Buy, bids, false) && in.ordered(p, market.Sell, asks, false)) {
		in.markStale()
		return false
	}
	for i, side := range [2][]market.Level{bids, asks} {
		s := [2]market.Side{market.Buy, market.Sell}[i]
		for _, l := range side {
			if _, changed := in.book.Set(s, l); strict && !changed && l.Size == 0 {
				in.v.wrong(Levels, in, p, "deletes a level at %s that does not exist", l.Price)
			}
			in.onTick(p, l)
		}
		if in.book.Len(s) > maxLevels {
			in.v.wrong(Levels, in, p, "a side has more than %d levels", maxLevels)
			in.markStale()
			return false
		}
	}
	return true
}

// checksum compares K with the book.
func (in *instrument) checksum(p Position, m *stream.Message) {
	if !m.HasChecksum() {
		return
	}
	if in.def == nil {
		in.v.unjudged(Checksum)
		return
	}
	v := in.v
	v.judged(Checksum)
	n := wire.ChecksumLevels(in.depth)
	v.bids = in.book.Append(v.bids[:0], market.Buy, n)
	v.asks = in.book.Append(v.asks[:0], market.Sell, n)
	var k uint32
	k, v.scratch = wire.Checksum(v.scratch, v.bids, v.asks, n, in.def.PriceDecimals, in.def.SizeDecimals)
	if k != m.Checksum {
		v.wrong(Checksum, in, p, "K is %d; that of the book is %d", m.Checksum, k)
	}
}
