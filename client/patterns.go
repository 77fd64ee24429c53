package client

import (
	"context"
	"errors"
	"slices"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// expand replaces the patterns of books in a set by the listed instruments that match, because a
// gateway sends books of single instruments only. For patterns that are new on the connection, it
// requests the instruments first.
func (l *link) expand(ctx context.Context, want map[item]options) {
	var patterns []item
	for i := range want {
		if i.Channel == wire.OrderBook && i.Instrument.IsPattern() {
			patterns = append(patterns, i)
		}
	}
	sortItems(patterns) // if two match an instrument, the same one always wins
	var missing []market.InstrumentID
	for _, p := range patterns {
		ids, known := l.listed[p.Instrument]
		if !known {
			missing = append(missing, p.Instrument)
		}
		for _, id := range ids {
			i := item{Channel: wire.OrderBook, Instrument: id}
			if _, ok := want[i]; !ok {
				want[i] = want[p]
			}
		}
		delete(want, p)
	}
	if len(missing) == 0 || l.listing {
		return
	}
	l.listing = true
	l.workers.Go(func() {
		found, err := l.booksOf(ctx, missing)
		l.post(ctx, func() error { return l.expanded(ctx, missing, found, err) })
	})
}

// booksOf returns the listed instruments that have a book and match a pattern, for each pattern.
func (c *Client) booksOf(ctx context.Context, patterns []market.InstrumentID) (map[market.InstrumentID][]market.InstrumentID, error) {
	found := map[market.InstrumentID][]market.InstrumentID{}
	for _, p := range patterns {
		var f Filter
		if p.Market != market.Any {
			f.Market = p.Market
		}
		if p.Term != market.Any {
			f.Term = p.Term
		}
		for in, err := range c.Instruments(ctx, f) {
			if err != nil {
				return nil, err
			}
			if p.Matches(in.ID) && slices.Contains(in.Channels, wire.OrderBook.String()) {
				found[p] = append(found[p], in.ID)
			}
		}
	}
	return found, nil
}

// expanded subscribes to the books that booksOf has found. Its error ends the connection.
func (l *link) expanded(ctx context.Context, patterns []market.InstrumentID, found map[market.InstrumentID][]market.InstrumentID, err error) error {
	l.listing = false
	refused := &Error{Reason: wire.UnknownInstrument, Msg: "No listed instrument with a book matches"}
	if err != nil && (!errors.As(err, &refused) || mayHelp(err)) {
		return err
	}
	for _, p := range patterns {
		if l.listed[p] = found[p]; len(found[p]) == 0 {
			l.report(Rejected{Channel: wire.OrderBook.String(), Instrument: p.String(), Reason: refused.Reason, Msg: refused.Msg, Hint: refused.Hint})
		}
	}
	l.reconcile(ctx)
	l.settle()
	return nil
}
