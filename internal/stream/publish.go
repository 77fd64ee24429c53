package stream

import (
	"errors"
	"time"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/market"
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
	now := h.beginBatch() // not before: the disk may have stalled
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
				now = h.beginBatch()
			}
		}
	}
	h.published()
	return errors.Join(refused...)
}

// beginBatch returns the time of publication of the events that follow, after the bars that are over
// by then.
func (h *Hub) beginBatch() (now int64) {
	now = time.Now().UnixNano()
	if h.barsDue > 0 && h.barsDue <= now {
		h.strikeBars(now)
	}
	return now
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
	return h.applyTo(in, e, now)
}

// applyTo applies an event that was checked to an instrument.
func (h *Hub) applyTo(in *instrument, e *market.Event, now int64) *market.Refused {
	h.dateVirtual(in, e, now)
	switch e.Kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		h.trade(in, e, now)
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
		h.reference(in, e, now)
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

// setStatus takes a status of an instrument or a market.
func (h *Hub) setStatus(in *instrument, now int64, e *market.Event) {
	switch {
	case e.Phase == market.FeedDown && in.venue:
		in.down = true
		h.loseMarket(in.id.Market, now)
	case e.Phase == market.FeedDown:
		h.bookLost(in, "feed_down", now)
	}
	h.status(in, e, now)
	if !e.Phase.OfFeed() && !in.venue {
		h.derive(in, in.stamp(e, now), now)
	}
}

// takeGap sends that the source lost events, to whoever has anything of the instrument or of the
// market, and makes the book stale.
func (h *Hub) takeGap(in *instrument, now int64, e *market.Event) {
	gap := market.Event{Kind: market.KindStatus, Phase: market.Gap, Reason: e.Reason, Time: e.Time, Receive: e.Receive}
	h.status(in, &gap, now)
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
	h.mu.visit(3) // it costs a status and a row besides
	in.stale = true
	reason := e.Reason
	if reason == "" {
		reason = "gap"
	}
	down := market.Event{Kind: market.KindStatus, Phase: market.FeedDown, Reason: reason, Time: e.Time, Receive: e.Receive}
	h.status(in, &down, now)
	h.bookLost(in, reason, now)
}

// loseMarket makes all books of a market stale; the market's own notice tells of it.
func (h *Hub) loseMarket(name string, now int64) {
	for _, in := range h.listed {
		if in.id.Market == name && !in.stale && !in.def.NoBook {
			h.bookLost(in, "feed_down", now)
		}
		h.stepPublishing()
	}
}
