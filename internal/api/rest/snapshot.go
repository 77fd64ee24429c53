package rest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// maxSnapshot bounds how many instruments a request for a snapshot may list.
const maxSnapshot = 100

// snapshot serves GET /market/snapshot?instruments=a,b: the newest messages of each instrument that
// the user may see, with their epoch and position. One bad instrument refuses the whole request;
// each bad one has a detail.
func (h *Handler) snapshot(q *request) (api.Result, error) {
	ids, f := parseInstruments(q.Params.Get("instruments"))
	if f != nil {
		return api.Result{}, f
	}
	if f := api.CheckListed(h.cfg.Hub, "instruments", ids); f != nil {
		return api.Result{}, f
	}
	wanted := make([]hub.Wanted, len(ids))
	for i, id := range ids {
		tradesAsk := entitlement.Ask{ID: id, Channel: wire.Trades}
		ofTrades, ofQuotes := h.currentRight(q, tradesAsk), h.currentRight(q, entitlement.Ask{ID: id, Channel: wire.Quotes})
		trades, quotes := ofTrades.Reason == "", ofQuotes.Reason == ""
		delay := max(ofTrades.Delay, ofQuotes.Delay)
		if !trades && !quotes {
			if ofQuotes.Reason == wire.SubscriptionLimit {
				ofTrades = ofQuotes
			}
			return api.Result{}, q.Deny(tradesAsk, ofTrades, "No right to the data of "+id.Market)
		}
		if trades {
			q.Uses(id.Market, wire.Trades, delay)
		}
		if quotes {
			q.Uses(id.Market, wire.Quotes, delay)
		}
		if err := q.AwaitDelay(h.cfg.Hub, delay); err != nil {
			return api.Result{}, err
		}
		wanted[i] = hub.Wanted{ID: id, Trades: trades, Quotes: quotes, Delay: delay}
	}
	rows, epoch, position := h.cfg.Hub.Snapshot([]byte("["), wanted)
	if err := q.AwaitCommit(h.cfg.Hub, ids...); err != nil {
		return api.Result{}, err
	}
	b := append(make([]byte, 0, len(rows)+128), `{"epoch":`...)
	b = wire.AppendString(b, epoch)
	b = append(b, `,"position":`...)
	b = wire.AppendString(b, position)
	b = append(append(b, `,"instruments":`...), rows...)
	return api.Result{Object: append(b, "]}"...)}, nil
}

// parseInstruments parses a list of identifiers that are separated by commas, and removes
// duplicates. The failure identifies a wrong item by its number and does not repeat its text, which
// may contain anything.
func parseInstruments(text string) ([]market.InstrumentID, *wire.Failure) {
	if text == "" {
		return nil, wire.NewFailure(wire.BadField, "instruments", "is missing")
	}
	if strings.Count(text, ",") >= maxSnapshot {
		return nil, wire.NewFailure(wire.BadField, "instruments", fmt.Sprintf("names more than %d", maxSnapshot))
	}
	bad := &wire.Failure{Fault: wire.Fault{Reason: wire.BadInstrument}}
	var ids []market.InstrumentID
	for i, item := range strings.Split(text, ",") {
		id, err := market.ParseInstrumentID(item)
		if err != nil {
			bad.Details = append(bad.Details, wire.Detail{Field: "instruments", Msg: fmt.Sprintf("item %d is not of the form SYMBOL|MARKET|TERM", i+1)})
		} else if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if bad.Details != nil {
		return nil, bad
	}
	return ids, nil
}

// book serves GET /market/book?instrument=&depth=&at=, an order book as one O message. Without at
// it is the current book.
func (h *Handler) book(q *request) (api.Result, error) {
	if f := q.NeedScope(broker.ScopeDepth); f != nil {
		return api.Result{}, f
	}
	id, f := q.Params.Instrument(h.cfg.Hub)
	if f != nil {
		return api.Result{}, f
	}
	depth, ok := map[string]int{"": 5, "1": 1, "5": 5, "10": 10, "25": 25, "0": 0}[q.Params.Get("depth")]
	if !ok {
		return api.Result{}, wire.NewFailure(wire.BadField, "depth", "must be 1, 5, 10, 25 or 0 (all)")
	}
	if f := api.CheckListed(h.cfg.Hub, "instrument", []market.InstrumentID{id}); f != nil {
		return api.Result{}, f
	}
	ask := entitlement.Ask{ID: id, Channel: wire.OrderBook, Depth: depth, Past: q.Params.Get("at") != ""}
	if ask.Past {
		if f := q.NeedScope(broker.ScopeHistory); f != nil {
			return api.Result{}, f
		}
	}
	v := h.currentRight(q, ask)
	if v.Reason != "" {
		return api.Result{}, q.Deny(ask, v, "No right to an order book of "+id.Market+" this deep")
	}
	delay := v.Delay
	q.Uses(id.Market, wire.OrderBook, delay)
	if ask.Past {
		return h.history.Book(&q.Request, id, depth, delay)
	}
	if err := q.AwaitDelay(h.cfg.Hub, delay); err != nil {
		return api.Result{}, err
	}
	object, err := h.cfg.Hub.AppendBook(nil, id, hub.Tier{Depth: depth, Delay: delay})
	switch {
	case errors.Is(err, hub.ErrNoBook):
		return api.Result{}, &wire.Fault{Reason: wire.NotFound, Msg: "The instrument has no order book"}
	case errors.Is(err, hub.ErrStale):
		return api.Result{}, h.staleBook(id.Market)
	case err != nil:
		return api.Result{}, fmt.Errorf("read the book of %s: %w", id, err)
	}
	if err := q.AwaitCommit(h.cfg.Hub, id); err != nil {
		return api.Result{}, err
	}
	return api.Result{Object: object}, nil
}

// currentRight returns the same decision as Request.Right, with one exception: it denies current
// data if the gateway does not serve the user's delay, as the stream does. History is possible with
// any delay.
func (h *Handler) currentRight(q *request, a entitlement.Ask) entitlement.Decision {
	v := q.Right(a)
	if v.Reason == "" && !a.Past && !h.cfg.Hub.Serves(v.Delay) {
		return entitlement.Decision{Reason: wire.NotEntitled}
	}
	return v
}

// staleBook returns the fault for a current order book that the gateway does not know at present.
// name is the market; the fault says whether its feed is down.
func (h *Handler) staleBook(name string) *wire.Fault {
	f := &wire.Fault{Reason: wire.Unavailable, Msg: "The order book is not known at present", RetryAfter: 1}
	if state, ok := h.cfg.Hub.MarketStatus(name); ok && state.Phase == market.FeedDown {
		f.Msg, f.RetryAfter = "The order book is not known: the feed of "+name+" is down, or has ended", 10
		f.Hint = "The status feed_up of *|" + name + "|* says when it is back. With at= there are books of the past"
	}
	return f
}
