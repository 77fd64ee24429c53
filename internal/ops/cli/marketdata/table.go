package marketdata

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
)

// quoteTable has the newest quote, trade and status of instruments, for a terminal.
type quoteTable struct {
	command.Paint
	rows map[market.InstrumentID]*quoteRow
	size func() (columns, lines int) // of the terminal; 0: not known
}

// quoteRow is the state of an instrument. seen is when it last changed.
type quoteRow struct {
	bid, ask, last market.Level
	phase          market.Phase
	seen           time.Time
}

// event records an event. It reports whether the table shows it.
func (q *quoteTable) event(ev client.Event, now time.Time) bool {
	row := func(id market.InstrumentID) *quoteRow {
		r := q.rows[id]
		if r == nil {
			r = &quoteRow{}
			q.rows[id] = r
		}
		r.seen = now
		return r
	}
	switch ev := ev.(type) {
	case *client.Trade:
		if r := row(ev.Instrument); ev.Kind != market.KindCancel {
			r.last = market.Level{Price: ev.Price, Size: ev.Size}
		}
	case *client.Quote:
		r := row(ev.Instrument)
		r.bid, r.ask = ev.Bid, ev.Ask
	case *client.Status:
		if !ev.Instrument.IsPattern() && ev.Phase != market.FeedUp { // the status of a market is a line
			row(ev.Instrument).phase = ev.Phase
		}
	default:
		return false
	}
	return true
}

// text returns the table, sorted by instrument. If the terminal has too few lines, the table has
// the instruments that changed last, and its last line says how many are left out.
func (q *quoteTable) text() string {
	columns, lines := q.size()
	ids := slices.SortedFunc(maps.Keys(q.rows), func(a, b market.InstrumentID) int { return strings.Compare(a.String(), b.String()) })
	hidden := 0
	if most := max(lines-3, 1); lines > 0 && len(ids) > most {
		hidden = len(ids) - most
		slices.SortStableFunc(ids, func(a, b market.InstrumentID) int { return q.rows[b].seen.Compare(q.rows[a].seen) })
		ids = ids[:most]
		slices.SortFunc(ids, func(a, b market.InstrumentID) int { return strings.Compare(a.String(), b.String()) })
	}
	cells := [][]string{{"INSTRUMENT", "BID SIZE", "BID", "ASK", "ASK SIZE", "LAST", "SIZE", "TIME", "STATUS"}}
	for _, id := range ids {
		r := q.rows[id]
		status := ""
		if r.phase != market.Open && r.phase != market.NoPhase {
			status = r.phase.String()
		}
		cells = append(cells, []string{
			command.Printable(id.String()), sizeOf(r.bid), priceOf(r.bid), priceOf(r.ask), sizeOf(r.ask), priceOf(r.last), sizeOf(r.last), r.seen.Local().Format("15:04:05"), status,
		})
	}
	status := len(cells[0]) - 1
	if !slices.ContainsFunc(cells[1:], func(row []string) bool { return row[status] != "" }) {
		for i := range cells {
			cells[i] = cells[i][:status]
		}
	}
	widths := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for n, row := range cells {
		var line strings.Builder
		for i, c := range row {
			if i == 0 || i >= status-1 { // text at the left, numbers at the right
				fmt.Fprintf(&line, "%-*s  ", widths[i], c)
			} else {
				fmt.Fprintf(&line, "%*s  ", widths[i], c)
			}
		}
		text := strings.TrimRight(line.String(), " ")
		if runes := []rune(text); columns > 0 && len(runes) > columns {
			text = string(runes[:columns])
		}
		if n == 0 {
			text = q.Bold(text)
		}
		b.WriteString(text + "\n")
	}
	if hidden > 0 {
		fmt.Fprintf(&b, "%s\n", q.Faint(fmt.Sprintf("and %d more, which changed earlier", hidden)))
	}
	return b.String()
}

func priceOf(l market.Level) string {
	if l.Size == 0 {
		return ""
	}
	return l.Price.String()
}

func sizeOf(l market.Level) string {
	if l.Size == 0 {
		return ""
	}
	return l.Size.String()
}
