package stream

import (
	"errors"
	"time"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/bars"
	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Publish applies a batch of events; see feed.Sink.
func (h *Hub) Publish(events []market.Event) error {
	var refused []error
	h.feeding.Lock()
	defer h.feeding.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	h.awaitRoom()
	now := time.Now().UnixNano() // not before: the disk may have stalled
	if h.barsDue > 0 && h.barsDue <= now {
		h.strikeBars(now)
	}
	for i := range events {
		if r := h.apply(&events[i], now); r != nil {
			r.Index = i
			refused = append(refused, r)
		}
		if h.mu.visit(1); (i+1)%publishPiece == 0 {
			h.published()
			h.mu.Unlock()
			h.feeding.Unlock()
			h.feeding.Lock() // both mutexes are handed over to who has waited for a millisecond
			h.mu.Lock()
			if h.awaitRoom() {
				now = time.Now().UnixNano()
			}
		}
	}
	h.published()
	return errors.Join(refused...)
}

// apply takes one event or says why not, having changed nothing.
func (h *Hub) apply(e *market.Event, now int64) *market.Refused {
	if int(e.Handle) >= len(h.handles) {
		return &market.Refused{Reason: "unknown_handle", Detail: "no instrument was defined under it"}
	}
	in := h.handles[e.Handle]
	if reason, detail := check(in, e); reason != "" {
		return &market.Refused{ID: in.id, Reason: reason, Detail: detail}
	}
	h.hold(in, e, now)
	return h.applyTo(in, e, now)
}

// applyTo applies an event that was checked to an instrument.
func (h *Hub) applyTo(in *instrument, e *market.Event, now int64) *market.Refused {
	h.dateVirtual(in, e, now)
	switch e.Kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		h.keepTrade(in, now, e)
	case market.KindQuote:
		h.setQuote(in, first(e.Bids), first(e.Asks), in.stamp(e, now), now)
	case market.KindSnapshot:
		h.takeSnapshot(in, e, now)
	case market.KindUpdate, market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill:
		return h.updateBook(in, e, now)
	case market.KindStatus:
		h.setStatus(in, now, e)
	case market.KindGap:
		if in.def.VirtualClock && e.Reason == replayRestarted && !in.venue {
			h.restart(in, now)
		}
		h.takeGap(in, now, e)
	case market.KindReference:
		h.setReference(in, e, now)
	}
	return nil
}

// replayRestarted is the reason of a gap by which a recording says that it begins again.
const replayRestarted = "replay_restarted"

func first(levels []market.Level) market.Level {
	if len(levels) == 0 {
		return market.Level{}
	}
	return levels[0]
}

// Bounds of an event's texts.
const (
	maxTradeID    = 64
	maxReason     = 64
	maxConditions = 8
)

// check is the reason to refuse an event by itself, "" for none.
func check(in *instrument, e *market.Event) (reason, detail string) {
	if e.Time < 0 || e.Receive < 0 || e.Until < 0 {
		return "bad_time", "times are Unix nanoseconds from 1970 on"
	}
	if len(e.Reason) > maxReason || !utf8.ValidString(e.Reason) {
		return "bad_reason", "a reason is a word of at most 64 bytes"
	}
	if in.venue && e.Kind != market.KindStatus && e.Kind != market.KindGap {
		return "bad_kind", "a market as a whole takes status and gap alone"
	}
	switch e.Kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		return checkTrade(e)
	case market.KindQuote:
		if in.derivesQuotes() && in.phase != market.PreOpen && in.phase != market.Auction { // there it is the indicative price
			return "derived_quotes", "the instrument was defined with quotes from its book"
		}
		if len(e.Bids) > 1 || len(e.Asks) > 1 {
			return "bad_quote", "a quote has one level a side"
		}
		return checkLevels(e)
	case market.KindUpdate, market.KindSnapshot:
		if in.def.NoBook {
			return "no_book", "the instrument was defined without a book"
		}
		if reason, detail := checkLevels(e); reason != "" {
			return reason, detail
		}
		if e.Kind == market.KindSnapshot && !ordered(e) {
			return "bad_snapshot", "levels must be best first, each price once, with sizes above 0"
		}
	case market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill:
		if in.def.NoBook {
			return "no_book", "the instrument was defined without a book"
		}
		if !e.Size.Exact() || !e.Price.Exact() {
			return "bad_size", "price and size have at most 15 significant digits, size is not negative"
		}
	case market.KindStatus:
		if e.Phase.String() == "" {
			return "bad_status", "unknown phase"
		}
	case market.KindGap:
	case market.KindReference:
		if !e.PreviousClose.Exact() || !e.Settlement.Exact() || !e.OpenInterest.Exact() {
			return "bad_reference", "a reference figure has at most 15 significant digits, open interest is not negative"
		}
	default:
		return "bad_kind", "unknown kind of event"
	}
	return "", ""
}

func checkTrade(e *market.Event) (reason, detail string) {
	if len(e.TradeID) > maxTradeID || !utf8.ValidString(e.TradeID) {
		return "bad_trade_id", "a trade id is at most 64 bytes of UTF-8"
	}
	if len(e.Conditions) > maxConditions {
		return "bad_conditions", "at most 8 conditions"
	}
	for _, c := range e.Conditions {
		if len(c) > maxReason || !utf8.ValidString(c) {
			return "bad_conditions", "a condition is at most 64 bytes of UTF-8"
		}
	}
	if e.Size <= 0 || !e.Size.Exact() || !e.OldSize.Exact() {
		return "bad_size", "a trade's size is above 0 and has at most 15 significant digits"
	}
	if !e.Price.Exact() || !e.OldPrice.Exact() {
		return "bad_price", "a price has at most 15 significant digits"
	}
	return "", ""
}

func checkLevels(e *market.Event) (reason, detail string) {
	for _, side := range [2][]market.Level{e.Bids, e.Asks} {
		if len(side) > book.MaxLevels {
			return "bad_book", book.ErrDepth.Error()
		}
		for i := range side {
			if !side[i].Size.Exact() {
				return "bad_size", "a size is not negative and has at most 15 significant digits"
			}
			if !side[i].Price.Exact() {
				return "bad_price", "a price has at most 15 significant digits"
			}
		}
	}
	return "", ""
}

func ordered(e *market.Event) bool {
	for i, l := range e.Bids {
		if l.Size == 0 || i > 0 && l.Price >= e.Bids[i-1].Price {
			return false
		}
	}
	for i, l := range e.Asks {
		if l.Size == 0 || i > 0 && l.Price <= e.Asks[i-1].Price {
			return false
		}
	}
	return true
}

// next numbers a message of a channel and of the whole stream.
func (h *Hub) next(in *instrument, c wire.Channel, now int64) record {
	ch := &in.channels[c]
	ch.n++
	ch.at = now
	return record{pos: h.nextPosition(in), n: ch.n, at: now, in: in}
}

// framed frames the payload in the hub's scratch memory.
func (h *Hub) framed() []byte {
	h.scratch.frame = wire.AppendText(h.scratch.frame[:0], h.scratch.payload)
	return h.scratch.frame
}

// keepTrade numbers, keeps and sends a trade, its cancel or its correction, and then the bars
// and the summary that it changed.
func (h *Hub) keepTrade(in *instrument, now int64, e *market.Event) {
	st := in.stamp(e, now)
	h.dated(in, st.time, now)
	rec := h.next(in, wire.Trades, now)
	r := recent.Row{Pos: rec.pos, At: now, Time: st.time, Latency: st.latency, Price: e.Price, Size: e.Size,
		ID: e.TradeID, Kind: e.Kind, Side: e.Side}
	var meant *bars.Trade
	if e.Kind != market.KindTrade || len(e.Conditions) > 0 {
		m := &recent.More{OldPrice: e.OldPrice, OldSize: e.OldSize}
		if len(e.Conditions) > 0 {
			m.Conditions = append(m.Conditions, e.Conditions...)
		}
		if e.Kind != market.KindTrade {
			meant, m.RefN = h.dealOf(in, e.TradeID)
		}
		r.More = m
	}
	keep, full := h.room(&in.trades, h.cfg.TradesKept)
	h.rows += int64(in.trades.Add(r, keep, full))
	h.keepTradeRow(in, rec, st, &r)
	for _, t := range h.tiers(in, wire.Trades) {
		h.scratch.payload = r.Message(h.scratch.payload[:0], in.ident, rec.n)
		h.emit(t, h.framed(), rec)
	}
	switch {
	case e.Kind == market.KindTrade:
		h.countTrade(in, bars.Trade{N: rec.n, ID: h.hash(e.TradeID), At: st.time, Price: e.Price, Size: e.Size}, now)
	case meant != nil:
		h.amend(in, meant, e, now)
	}
	h.tellSummary(in, rec.pos, st, now)
}

// setStatus takes a status of an instrument or a market.
func (h *Hub) setStatus(in *instrument, now int64, e *market.Event) {
	var f flag
	switch e.Phase {
	case market.FeedDown, market.FeedUp:
		f = notice
		switch down := e.Phase == market.FeedDown; {
		case in.venue:
			in.down = down
			if down {
				h.loseMarket(in.id.Market, now)
			}
		case down:
			in.stale = true
			h.keepLossRow(in, now, "feed_down")
		}
	case market.Gap: // of other data than the book
		f = notice | lost
	default:
		if !in.venue {
			defer h.derive(in, in.stamp(e, now), now)
		}
		in.phase, in.reason, in.until = e.Phase, e.Reason, e.Until
	}
	h.keepStatus(in, now, e, f)
}

// keepStatus numbers, keeps and sends a status. A notice goes to the readers of
// the book and of quotes made from it as well, and a gap to those of every channel.
func (h *Hub) keepStatus(in *instrument, now int64, e *market.Event, f flag) {
	c := wire.Status
	if in.venue {
		c = marketStatus
	}
	rec := h.next(in, c, now)
	rec.flag = f
	st := in.stamp(e, now)
	if e.Time == 0 && e.Receive == 0 {
		st.time = h.publication(in, now) // by the market's clock, where that is a virtual one
	}
	r := recent.Row{Pos: rec.pos, At: now, Time: st.time, Latency: st.latency, Kind: market.KindStatus, Phase: e.Phase}
	if e.Reason != "" || e.Until != 0 {
		r.More = &recent.More{Reason: e.Reason, Until: e.Until}
	}
	keep, full := h.room(&in.statuses, h.cfg.TradesKept)
	h.rows += int64(in.statuses.Add(r, keep, full))
	h.keepStatusRow(in, rec, st, e)
	h.scratch.payload = r.Message(h.scratch.payload[:0], in.ident, rec.n)
	frame := h.framed()
	for _, t := range h.tiers(in, c) {
		h.emit(t, frame, rec)
	}
	if f&notice == 0 || in.venue {
		return
	}
	rec.flag |= echo
	for ch := range wire.NumChannels {
		switch {
		case ch == wire.Status:
			continue
		case f&lost != 0, ch == wire.OrderBook, ch == wire.Quotes && in.derivesQuotes():
		default:
			continue
		}
		for _, t := range h.tiers(in, ch) {
			for _, tp := range t.topics {
				h.append(tp, frame, rec)
			}
		}
	}
}

// takeGap sends that the source lost events, to whoever has anything of the instrument or of the
// market, and makes the book stale.
func (h *Hub) takeGap(in *instrument, now int64, e *market.Event) {
	gap := market.Event{Kind: market.KindStatus, Phase: market.Gap, Reason: e.Reason, Time: e.Time, Receive: e.Receive}
	h.keepStatus(in, now, &gap, notice|lost)
	h.loseBook(in, now, e)
}

// loseBook makes a book stale until its next snapshot and tells its readers. Of
// a market it loses every book.
func (h *Hub) loseBook(in *instrument, now int64, e *market.Event) {
	if in.venue {
		for _, x := range h.listed {
			if x.id.Market == in.id.Market {
				h.loseBook(x, now, e)
			}
			h.stepPublishing()
		}
		return
	}
	if in.stale || in.def.NoBook {
		return
	}
	h.mu.visit(1) // it costs a status and a row besides
	in.stale = true
	reason := e.Reason
	if reason == "" {
		reason = "gap"
	}
	down := market.Event{Kind: market.KindStatus, Phase: market.FeedDown, Reason: reason, Time: e.Time, Receive: e.Receive}
	h.keepStatus(in, now, &down, notice)
	h.keepLossRow(in, now, reason)
}

// loseMarket makes all books of a market stale; the market's own notice tells of it.
func (h *Hub) loseMarket(name string, now int64) {
	for _, in := range h.listed {
		if in.id.Market == name && !in.stale {
			in.stale = true
			h.keepLossRow(in, now, "feed_down")
		}
		h.stepPublishing()
	}
}
