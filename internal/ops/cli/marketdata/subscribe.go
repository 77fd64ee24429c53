package marketdata

import (
	"context"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/data/recording"
	"github.com/ruedahq/rueda/internal/ops/cli/query"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// channelNames returns the names of the channels on the wire. The first four are those that record
// writes by default.
func channelNames() []string {
	return []string{wire.Trades.String(), wire.Quotes.String(), wire.OrderBook.String(), wire.Status.String(), wire.Bars.String(), wire.Summary.String()}
}

// subscriptions returns a set of all ids on the channels, books of others. Depth 0 is all levels.
func subscriptions(ids, books, channels, intervals []string, depth int) client.Set {
	s := client.Set{Depth: depth}
	if depth == 0 {
		s.Depth = client.AllLevels
	}
	for _, c := range channels {
		switch c {
		case wire.Trades.String():
			s.Trades = ids
		case wire.Quotes.String():
			s.Quotes = ids
		case wire.OrderBook.String():
			s.Books = books
		case wire.Status.String():
			s.Status = ids
		case wire.Summary.String():
			s.Summary = ids
		case wire.Bars.String():
			for _, id := range ids {
				for _, interval := range intervals {
					s.Bars = append(s.Bars, id+"|"+interval)
				}
			}
		}
	}
	return s
}

// withNames returns the identifiers of books: gateways do not send books for patterns, so that the
// listed instruments take their place. An id that is not listed stays: the gateway reports it.
func withNames(ids, listed []string) []string {
	isPattern := func(id string) bool { return strings.Contains(id, market.Any) }
	if !slices.ContainsFunc(ids, isPattern) {
		return ids
	}
	books := slices.Clip(listed)
	for _, id := range ids {
		if !isPattern(id) && !slices.Contains(listed, id) {
			books = append(books, id)
		}
	}
	return books
}

// definitions requests the definitions of the instruments that patterns cover. It returns them with
// their identifiers.
func definitions(ctx context.Context, c *client.Client, patterns []string) (rows []recording.Row, ids []string, err error) {
	list, err := query.Listed(ctx, c, patterns)
	for _, in := range list {
		rows, ids = append(rows, in.Raw), append(ids, in.ID.String())
	}
	return rows, ids, err
}
