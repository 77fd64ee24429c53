package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/cli/follow"
	"github.com/ruedahq/rueda/internal/ops/cli/output"
	"github.com/ruedahq/rueda/market"
)

// defaultRows is how many of the newest rows are printed without a range.
const defaultRows = 50

const rangeHelp = `

In the identifier, * may stand for a whole part: then it prints the rows of one instrument after
the other, with a column for the instrument.

Without a range it prints the 50 newest rows, oldest first, or as many as --limit says. With
--since, --from or --after it prints all rows from there on. History needs the scope
marketdata:history, and a gateway with a journal.

If the gateway does not have all rows of the range, a line on standard error says which are missing.
With --require-complete the exit status is then 8.`

// history is a command that prints rows of the past.
type history struct {
	query
	from, to string
	since    string
	after    uint64
	isAfter  func() bool // --after is on the command line
	limit    int
	complete bool
	first    []string // cells before those of a row
}

func (h *history) flags(cmd *cobra.Command) *cobra.Command {
	cmd.Long += rangeHelp
	cmd.Args = command.ExactArgs("instrument")
	cmd.ValidArgsFunction = CompleteInstruments
	f := cmd.Flags()
	f.StringVar(&h.since, "since", "", "rows since this long ago, such as 10m or 7d, or since the start of today, yesterday or a date")
	f.StringVar(&h.from, "from", "", "first time, such as 2026-11-20T14:30:00Z, '2026-11-20 11:30' or 11:30, or a date for a trading day of the market")
	f.StringVar(&h.to, "to", "", "time after the last row; for a whole trading day the next date")
	f.Uint64Var(&h.after, "after", 0, "rows after this number in the current epoch; 0: all of the epoch")
	h.isAfter = func() bool { return f.Changed("after") }
	f.IntVar(&h.limit, "limit", 0, "number of rows (default all of the range, or the 50 newest)")
	f.BoolVar(&h.complete, "require-complete", false, "end with status 8 if rows of the range are missing")
	return h.query.flags(cmd)
}

// run prints the rows of an instrument. For a pattern it prints those of each instrument that it
// covers, with the identifier in front. Then it reports the rows of the range that are missing,
// which are an error with --require-complete.
func (h *history) run(ctx context.Context, pattern string, r client.Range, columns []string, print func(c *client.Client, w *output.Writer, id string, r client.Range) error) error {
	var lost []client.Lost
	several := isPattern(pattern)
	if several {
		columns = append([]string{"instrument"}, columns...)
	}
	err := h.query.run(columns, func(c *client.Client, w *output.Writer) error {
		of := func(id string) error {
			var own []client.Lost
			r.Lost = &own
			err := print(c, w, id, r)
			lost = append(lost, own...)
			return err
		}
		if !several {
			return named(pattern, of(pattern))
		}
		ids, missing, err := expand(ctx, c, []string{pattern})
		if err == nil && missing != nil {
			err = notFound(missing, "")
		}
		for _, id := range ids {
			h.first = []string{id}
			if err := of(id); err != nil {
				return err
			}
		}
		return err
	})
	if len(lost) == 0 {
		return err
	}
	text := follow.LostLine(lost)
	if h.complete && err == nil {
		return command.Fail(command.ExitBadData, errors.New(text), "")
	}
	fmt.Fprintln(h.std.Err, command.Printable(text))
	return err
}

// span returns the range of the flags. The newest rows come in the opposite order.
func (h *history) span(now time.Time) (r client.Range, err error) {
	if h.limit < 0 {
		return r, command.Fail(command.ExitUsage, fmt.Errorf("--limit %d is negative", h.limit), "")
	}
	if h.since != "" && h.from != "" {
		return r, command.Fail(command.ExitUsage, errors.New("--since and --from cannot be combined"), "")
	}
	if r.Start, r.StartDate, err = parseBound("from", h.from, now); err != nil {
		return r, err
	}
	if r.End, r.EndDate, err = parseBound("to", h.to, now); err != nil {
		return r, err
	}
	if h.since != "" {
		if r.Start, r.StartDate, err = parseSince(h.since, now); err != nil {
			return r, err
		}
	}
	swapped := !r.Start.IsZero() && !r.End.IsZero() && !r.Start.Before(r.End) || r.StartDate != 0 && r.EndDate != 0 && r.StartDate >= r.EndDate
	if swapped && h.since == "" {
		return r, command.Fail(command.ExitUsage, fmt.Errorf("--from %s is not before --to %s", h.from, h.to), "--to is after the last row: for one trading day it is the next date.")
	}
	r.After, r.FromFirst, r.Limit = h.after, h.isAfter() && h.after == 0, h.limit
	if r.Start.IsZero() && r.StartDate == 0 && !h.isAfter() {
		r.Newest = true
		if r.Limit == 0 {
			r.Limit = defaultRows
		}
	}
	return r, nil
}

// print prints rows in the order of time.
func printRows[R any](rows iter.Seq2[R, error], newest bool, print func(R) error) error {
	var last []R
	for row, err := range rows {
		switch {
		case err != nil:
			return err
		case newest:
			last = append(last, row)
		default:
			if err := print(row); err != nil {
				return err
			}
		}
	}
	for _, row := range slices.Backward(last) {
		if err := print(row); err != nil {
			return err
		}
	}
	return nil
}

// NewTrades returns the command trades.
func NewTrades(std command.Streams) *cobra.Command {
	h := history{query: query{std: std}}
	cmd := &cobra.Command{
		Use:        "trades INSTRUMENT",
		SuggestFor: []string{"history"},
		Short:      "Print past trades, cancels and corrections",
		Long:       `Trades prints the trades of an instrument with their cancels and corrections. JSON has the messages that were streamed.`,
		Example:    "  rueda trades 'GGAL|BYMA|24hs'\n  rueda trades 'GGAL|BYMA|24hs' --since 10m -o csv\n  rueda trades '*|BYMA|24hs' --since 1m\n  rueda trades 'GGAL|BYMA|24hs' --from 2026-11-20 --to 2026-11-21 -o jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckInstruments("rueda trades 'GGAL|BYMA|24hs'", true, args...); err != nil {
				return err
			}
			r, err := h.span(time.Now())
			if err != nil {
				return err
			}
			return h.run(cmd.Context(), args[0], r, tradeColumns(), func(c *client.Client, w *output.Writer, id string, r client.Range) error {
				return printRows(c.Trades(cmd.Context(), id, r), r.Newest, func(t client.Trade) error {
					return w.Row(json.RawMessage(t.Raw()), append(slices.Clip(h.first), tradeCells(w, &t)...)...)
				})
			})
		},
	}
	return h.flags(cmd)
}

func tradeColumns() []string {
	return []string{"seq", "ts", "kind", "side", "price", "size", "trade_id", "ref_seq", "old_price", "old_size"}
}

func tradeCells(w *output.Writer, t *client.Trade) []string {
	cells := []string{strconv.FormatUint(t.N, 10), w.Time(t.Time), eventOf(t.Kind), sideOf(w, t.Side), t.Price.String(), t.Size.String(), t.ID, reference(t.RefN), "", ""}
	if t.Kind == market.KindCorrect {
		cells[8], cells[9] = t.OldPrice.String(), t.OldSize.String()
	}
	return cells
}

func eventOf(k market.Kind) string {
	switch k {
	case market.KindCancel:
		return "cancel"
	case market.KindCorrect:
		return "correct"
	}
	return "trade"
}

func sideOf(w *output.Writer, s market.Side) string {
	switch s {
	case market.Buy:
		return w.Word("buy", "B")
	case market.Sell:
		return w.Word("sell", "S")
	}
	return ""
}

func reference(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// NewBars returns the command bars.
func NewBars(std command.Streams) *cobra.Command {
	h := history{query: query{std: std}}
	var interval string
	cmd := &cobra.Command{
		Use:        "bars INSTRUMENT",
		SuggestFor: []string{"history"},
		Short:      "Print past bars",
		Long:       `Bars prints the bars of an instrument. A bar that a late trade, a cancel or a correction has changed comes again, marked as revised.`,
		Example:    "  rueda bars 'GGAL|BYMA|24hs' --interval 5m --since 8h\n  rueda bars '*|BYMA|24hs' --interval 1h --limit 1\n  rueda bars 'GGAL|BYMA|24hs' --interval 1d -o csv",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckInstruments("rueda bars 'GGAL|BYMA|24hs'", true, args...); err != nil {
				return err
			}
			every, ok := market.ParseInterval(interval)
			if !ok {
				return command.Fail(command.ExitUsage, fmt.Errorf("--interval %q is not one of 1s, 1m, 5m, 15m, 1h, 1d", interval), "")
			}
			r, err := h.span(time.Now())
			if err != nil {
				return err
			}
			columns := []string{"seq", "ts", "open", "high", "low", "close", "volume", "turnover", "trades", "revised", "trading_date"}
			return h.run(cmd.Context(), args[0], r, columns, func(c *client.Client, w *output.Writer, id string, r client.Range) error {
				return printRows(c.Bars(cmd.Context(), id, every, r), r.Newest, func(b client.Bar) error {
					return w.Row(json.RawMessage(b.Raw()), append(slices.Clip(h.first), barCells(w, &b)...)...)
				})
			})
		},
	}
	cmd.Flags().StringVar(&interval, "interval", "1m", "1s, 1m, 5m, 15m, 1h or 1d")
	_ = cmd.RegisterFlagCompletionFunc("interval", cobra.FixedCompletions([]string{"1s", "1m", "5m", "15m", "1h", "1d"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return h.flags(cmd)
}

func barCells(w *output.Writer, b *client.Bar) []string {
	cells := []string{strconv.FormatUint(b.N, 10), w.Time(b.Time), "", "", "", "", string(b.Volume.Append(nil, market.SizeDecimals)),
		string(b.Value.Append(nil, market.ValueDecimals)), strconv.FormatUint(uint64(b.Trades), 10), "", b.TradingDate.String()}
	if b.Trades > 0 {
		for i, p := range []market.Price{b.Open, b.High, b.Low, b.Close} {
			cells[2+i] = p.String()
		}
	}
	yes := ""
	if b.Revised {
		yes = "yes"
	}
	cells[9] = w.Word(yes, strconv.FormatBool(b.Revised))
	return cells
}
