package state

import (
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/market"
)

// Bounds of an event's texts.
const (
	maxTradeID    = 64
	maxReason     = 64
	maxConditions = 8
)

// Check returns the reason to refuse an event of the instrument, "" for none, and an explanation.
func (in *Instrument) Check(e *market.Event) (reason, detail string) {
	if e.Time < 0 || e.Receive < 0 || e.Until < 0 {
		return "bad_time", "times are Unix nanoseconds from 1970 on"
	}
	if len(e.Reason) > maxReason || !market.Printable(e.Reason) {
		return "bad_reason", "a reason is a word of at most 64 bytes"
	}
	if in.Venue && e.Kind != market.KindStatus && e.Kind != market.KindGap {
		return "bad_kind", "a market as a whole takes status and gap alone"
	}
	switch e.Kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		return checkTrade(e)
	case market.KindQuote:
		// Before the opening and in an auction the feed's quote is the indicative price.
		if in.DerivesQuotes() && in.Phase != market.PreOpen && in.Phase != market.Auction {
			return "derived_quotes", "the instrument was defined with quotes from its book"
		}
		if len(e.Bids) > 1 || len(e.Asks) > 1 {
			return "bad_quote", "a quote has one level a side"
		}
		return checkLevels(e)
	case market.KindUpdate, market.KindSnapshot:
		if in.Def.NoBook {
			return "no_book", "the instrument was defined without a book"
		}
		if reason, detail := checkLevels(e); reason != "" {
			return reason, detail
		}
		if e.Kind == market.KindSnapshot && !ordered(e) {
			return "bad_snapshot", "levels must be best first, each price once, with sizes above 0"
		}
	case market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill, market.KindOrderReplace:
		if in.Def.NoBook {
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
	if len(e.TradeID) > maxTradeID || !market.Printable(e.TradeID) {
		return "bad_trade_id", "a trade id is at most 64 bytes of printable UTF-8"
	}
	if len(e.Conditions) > maxConditions {
		return "bad_conditions", "at most 8 conditions"
	}
	for _, c := range e.Conditions {
		if len(c) > maxReason || !market.Printable(c) {
			return "bad_conditions", "a condition is at most 64 bytes of printable UTF-8"
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

// ordered reports whether the levels of a snapshot are best first, each price once, with sizes
// above 0.
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
