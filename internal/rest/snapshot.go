package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// maxSnapshot bounds the instruments of one snapshot.
const maxSnapshot = 100

// snapshot is GET /market/snapshot?instruments=a,b: the newest messages of each
// that the user may see, as of an epoch and position. All instruments are good or
// the request is refused, with a detail for each that is not.
func (h *Handler) snapshot(q *request) (result, error) {
	text := q.params.get("instruments")
	ids, f := parseInstruments(text)
	if f != nil {
		return result{}, f
	}
	if f := h.checkListed("instruments", ids); f != nil {
		return result{}, f
	}
	wanted := make([]stream.Wanted, len(ids))
	for i, id := range ids {
		tradesDelay, trades := h.rightNow(&q.user, id.Market, wire.Trades, 0)
		quotesDelay, quotes := h.rightNow(&q.user, id.Market, wire.Quotes, 0)
		delay := max(tradesDelay, quotesDelay)
		if !trades && !quotes {
			return result{}, h.deny(q, id.Market, wire.Trades, "No right to the data of "+id.Market)
		}
		if trades {
			q.uses(id.Market, wire.Trades, delay)
		}
		if quotes {
			q.uses(id.Market, wire.Quotes, delay)
		}
		wanted[i] = stream.Wanted{ID: id, Trades: trades, Quotes: quotes, Delay: delay}
	}
	rows, epoch, position := h.cfg.Hub.Snapshot([]byte("["), wanted)
	if err := h.awaitCommit(q, ids...); err != nil {
		return result{}, err
	}
	rows = append(rows, ']')
	b := append(make([]byte, 0, len(rows)+128), `{"epoch":`...)
	b = wire.AppendString(b, epoch)
	b = append(b, `,"position":`...)
	b = wire.AppendString(b, position)
	b = append(b, `,"instruments":`...)
	b = append(b, rows...)
	return result{object: append(b, '}')}, nil
}

// book is GET /market/book?instrument=&depth=&at=: one O message.
func (h *Handler) book(q *request) (result, error) {
	if f := q.needScope(broker.ScopeDepth); f != nil {
		return result{}, f
	}
	text := q.params.get("instrument")
	id, err := market.ParseInstrumentID(text)
	if err != nil {
		return result{}, h.noIdentifier(text)
	}
	text = q.params.get("depth")
	depth, ok := map[string]int{"": 5, "1": 1, "5": 5, "10": 10, "25": 25, "0": 0}[text]
	if !ok {
		return result{}, wire.NewFailure(wire.BadField, "depth", "must be 1, 5, 10, 25 or 0 (all)")
	}
	if f := h.checkListed("instrument", []market.InstrumentID{id}); f != nil {
		return result{}, f
	}
	at := q.params.get("at")
	may := h.rightNow
	if at != "" {
		may = right
	}
	delay, ok := may(&q.user, id.Market, wire.OrderBook, depth)
	if !ok {
		return result{}, h.deny(q, id.Market, wire.OrderBook, "No right to an order book of "+id.Market+" this deep")
	}
	q.uses(id.Market, wire.OrderBook, delay)
	if at != "" {
		return h.pastBook(q, id, depth, delay, at)
	}
	object, err := h.cfg.Hub.AppendBook(nil, id, stream.Tier{Depth: depth, Delay: delay})
	switch {
	case errors.Is(err, stream.ErrNoBook):
		return result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The instrument has no order book"}
	case errors.Is(err, stream.ErrStale):
		return result{}, h.unknownBook(id.Market)
	case err != nil:
		return result{}, fmt.Errorf("read the book of %s: %w", id, err)
	}
	if err := h.awaitCommit(q, id); err != nil {
		return result{}, err
	}
	return result{object: object}, nil
}

// commitWait is how long an answer waits until the journal has what it tells.
const commitWait = 2 * time.Second

// awaitCommit waits until the journal has what was published of instruments; of everything where
// none are named.
func (h *Handler) awaitCommit(q *request, ids ...market.InstrumentID) error {
	ctx, stop := context.WithTimeout(q.Context(), commitWait)
	defer stop()
	switch err := h.cfg.Hub.AwaitCommit(ctx, ids...); {
	case err == nil:
		return nil
	case q.Context().Err() != nil:
		return errGone
	}
	return &wire.Fault{Reason: wire.Unavailable, Msg: "The journal does not have the newest data yet", RetryAfter: 1}
}

// unknownBook is the answer where a book is not known: for a moment, or for as long as the market's feed is down.
func (h *Handler) unknownBook(name string) *wire.Fault {
	f := &wire.Fault{Reason: wire.Unavailable, Msg: "The order book is not known at present", RetryAfter: 1}
	if state, told := h.cfg.Hub.MarketStatus(name); told && state.Phase == market.FeedDown {
		f.Msg, f.RetryAfter = "The order book is not known: the feed of "+name+" is down, or has ended", 10
		f.Hint = "feed_up of *|" + name + "|* tells when it is back; books of the past are had with at="
	}
	return f
}

// parseInstruments reads identifiers with commas between; repeats are left out.
// What is not an identifier is named by its place, since it may be anything.
func parseInstruments(text string) ([]market.InstrumentID, *wire.Failure) {
	if text == "" {
		return nil, wire.NewFailure(wire.BadField, "instruments", "is missing")
	}
	if strings.Count(text, ",") >= maxSnapshot {
		return nil, wire.NewFailure(wire.BadField, "instruments", fmt.Sprintf("names more than %d", maxSnapshot))
	}
	bad := &wire.Failure{Fault: wire.Fault{Reason: wire.BadInstrument}}
	var ids []market.InstrumentID
	place := 0
	for item := range strings.SplitSeq(text, ",") {
		place++
		id, err := market.ParseInstrumentID(item)
		if err != nil {
			bad.Details = append(bad.Details, wire.Detail{Field: "instruments", Msg: fmt.Sprintf("item %d is not of the form SYMBOL|MARKET|TERM", place)})
		} else if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if bad.Details != nil {
		return nil, bad
	}
	return ids, nil
}

// noIdentifier refuses what is not an identifier, with the one that may have been meant.
func (h *Handler) noIdentifier(text string) *wire.Failure {
	if text == "" {
		return wire.NewFailure(wire.BadInstrument, "instrument", "is missing")
	}
	f := wire.NewFailure(wire.BadInstrument, "instrument", "must be of the form SYMBOL|MARKET|TERM")
	symbol, _, _ := strings.Cut(text, "|")
	if near, ok := h.cfg.Hub.Suggest(market.InstrumentID{Symbol: symbol}); ok {
		f.Hint = "Did you mean " + near.String() + "?"
	}
	return f
}

// checkListed refuses instruments that are not in the catalogue. None ever leaves
// it, so they are there afterwards too.
func (h *Handler) checkListed(field string, ids []market.InstrumentID) *wire.Failure {
	unknown := &wire.Failure{Fault: wire.Fault{Reason: wire.UnknownInstrument}}
	for _, id := range ids {
		if _, ok := h.cfg.Hub.Instrument(id); ok {
			continue
		}
		unknown.Details = append(unknown.Details, wire.Detail{Field: field, Msg: id.String() + " is not listed"})
		if near, ok := h.cfg.Hub.Suggest(id); ok && unknown.Hint == "" {
			unknown.Hint = "Did you mean " + near.String() + "?"
		}
	}
	if unknown.Details == nil {
		return nil
	}
	return unknown
}
