package query

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// maxQuotes is how many instruments a gateway returns at once.
const maxQuotes = 100

// NewQuote returns the command quote.
func NewQuote(std command.Streams) *cobra.Command {
	q := query{std: std}
	cmd := &cobra.Command{
		Use:   "quote INSTRUMENT...",
		Short: "Show the best bid and ask, the last price and the day",
		Long: `Quote shows the best bid and ask, the last trade and the figures of the day, once. rueda watch
follows instruments. In an identifier, * may stand for a whole part. Cells to which you have no
right are empty. JSON has the messages of the stream. If an instrument is unknown, quote prints
the others and ends with status 4.`,
		Example: `  rueda quote 'GGAL|BYMA|24hs'
  rueda quote 'GGAL|BYMA|24hs' 'AL30|BYMA|CI' -o csv
  rueda quote '*|BYMA|24hs'`,
		Args:              command.SomeArgs("instrument", "rueda quote 'GGAL|BYMA|24hs'"),
		ValidArgsFunction: CompleteInstruments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckInstruments("rueda quote 'GGAL|BYMA|24hs'", true, args...); err != nil {
				return err
			}
			columns := []string{"instrument", "status", "bid_size", "bid", "ask", "ask_size", "last", "last_size", "high", "low", "volume", "time"}
			return q.run(columns, func(c *client.Client, w *output.Writer) error {
				return quotes(cmd.Context(), c, w, args)
			})
		},
	}
	return q.flags(cmd)
}

// quotes prints the quotes of instruments and patterns, and returns an error for the unknown ones.
func quotes(ctx context.Context, c *client.Client, w *output.Writer, ids []string) error {
	if len(ids) > maxQuotes || slices.ContainsFunc(ids, isPattern) {
		return knownQuotes(ctx, c, w, ids, "")
	}
	s, err := c.Snapshot(ctx, ids...)
	if e, ok := errors.AsType[*client.Error](err); ok && e.Reason == wire.UnknownInstrument && len(ids) > 1 {
		return knownQuotes(ctx, c, w, ids, e.Hint)
	}
	if err != nil {
		return named(ids[0], err)
	}
	return printQuotes(w, &s)
}

// knownQuotes prints the quotes of the instruments that are listed, and returns an error with
// advice for the others.
func knownQuotes(ctx context.Context, c *client.Client, w *output.Writer, patterns []string, advice string) error {
	ids, missing, err := expand(ctx, c, patterns)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ids, maxQuotes) {
		s, err := c.Snapshot(ctx, some...)
		if err == nil {
			err = printQuotes(w, &s)
		}
		if err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return notFound(missing, advice)
	}
	return nil
}

func printQuotes(w *output.Writer, s *client.Snapshot) error {
	for _, in := range s.Instruments {
		row := struct {
			Instrument string          `json:"instrument"`
			Status     json.RawMessage `json:"status,omitempty"`
			Quote      json.RawMessage `json:"quote,omitempty"`
			Trade      json.RawMessage `json:"trade,omitempty"`
			Summary    json.RawMessage `json:"summary,omitempty"`
		}{Instrument: in.Instrument.String()}
		cells := make([]string, 12)
		cells[0] = row.Instrument
		var newest time.Time
		if in.Status != nil {
			row.Status, cells[1] = in.Status.Raw(), in.Status.Phase.String()
		}
		if in.Quote != nil {
			row.Quote, newest = in.Quote.Raw(), in.Quote.Time
			cells[3], cells[2] = level(in.Quote.Bid)
			cells[4], cells[5] = level(in.Quote.Ask)
		}
		if in.Trade != nil {
			row.Trade, cells[6], cells[7] = in.Trade.Raw(), in.Trade.Price.String(), in.Trade.Size.String()
			if in.Trade.Time.After(newest) {
				newest = in.Trade.Time
			}
		}
		if in.Summary != nil {
			if row.Summary = in.Summary.Raw(); in.Summary.Trades > 0 {
				cells[8], cells[9] = in.Summary.High.String(), in.Summary.Low.String()
			}
			cells[10] = string(in.Summary.Volume.Append(nil, market.SizeDecimals))
		}
		cells[11] = w.Time(newest)
		if err := w.Row(row, cells...); err != nil {
			return err
		}
	}
	return nil
}

// level returns price and size of a level, nothing if it is empty.
func level(l market.Level) (price, size string) {
	if l.Size == 0 {
		return "", ""
	}
	return l.Price.String(), l.Size.String()
}

// NewBook returns the command book.
func NewBook(std command.Streams) *cobra.Command {
	q := query{std: std}
	var depth int
	var at string
	cmd := &cobra.Command{
		Use:   "book INSTRUMENT",
		Short: "Show the order book, now or in the past",
		Long: `Book shows the order book of an instrument once. rueda watch --book follows it. Books of the
past need the scope marketdata:history, and a gateway with a journal.`,
		Example:           "  rueda book 'AL30|BYMA|CI' --depth 10\n  rueda book 'AL30|BYMA|CI' --at 2026-11-20T16:55:00Z -o csv",
		Args:              command.ExactArgs("instrument"),
		ValidArgsFunction: CompleteInstruments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckInstruments("rueda book 'AL30|BYMA|CI'", false, args...); err != nil {
				return err
			}
			if err := command.CheckSubscription(depth, "none", nil); err != nil {
				return err
			}
			when, err := parseTime("at", at, time.Now())
			if err != nil {
				return err
			}
			return q.run([]string{"level", "bid_orders", "bid_size", "bid", "ask", "ask_size", "ask_orders"}, func(c *client.Client, w *output.Writer) error {
				if depth == 0 {
					depth = client.AllLevels
				}
				b, err := c.OrderBook(cmd.Context(), args[0], depth, when)
				if err != nil {
					return named(args[0], err)
				}
				return printBook(w, &b)
			})
		},
	}
	cmd.Flags().IntVar(&depth, "depth", 5, "levels: 1, 5, 10, 25 or 0 for all")
	cmd.Flags().StringVar(&at, "at", "", "time of the book, such as 2026-11-20T16:55:00Z or 16:55 (default now)")
	return q.flags(cmd)
}

func printBook(w *output.Writer, b *client.BookUpdate) error {
	if err := w.Object(json.RawMessage(b.Raw())); err != nil {
		return err
	}
	for i := range max(len(b.Bids), len(b.Asks)) {
		cells := make([]string, 7)
		cells[0] = strconv.Itoa(i + 1)
		if i < len(b.Bids) {
			cells[3], cells[2] = level(b.Bids[i])
			cells[1] = orders(b.Bids[i])
		}
		if i < len(b.Asks) {
			cells[4], cells[5] = level(b.Asks[i])
			cells[6] = orders(b.Asks[i])
		}
		if err := w.Cells(cells...); err != nil {
			return err
		}
	}
	return nil
}

// orders returns the number of orders of a level, nothing if it is unknown.
func orders(l market.Level) string {
	if l.Orders == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(l.Orders), 10)
}
