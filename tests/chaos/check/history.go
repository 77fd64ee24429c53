package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// routes are those of history: route, interval, and channel of the rows.
var routes = [][3]string{{"trades", "", "trades"}, {"quotes", "", "quotes"}, {"statuses", "", "status"}, {"bars", "1s", "bars"}, {"bars", "1m", "bars"}}

// History reads all trades, quotes, statuses and bars of the current epoch over REST. Each row must
// be right, and each N there. In the first epoch, all events before end must be there too; 0 leaves
// that out. It records the newest N of each series for Final. The error is one of the request.
func (j *Judge) History(ctx context.Context, address, token string, end int64) error {
	for _, in := range j.Market.Instruments {
		for _, r := range routes {
			series := seriesOf(r, in)
			h, err := j.read(ctx, address, token, r, in, 0)
			if err != nil {
				return err
			}
			if end != 0 && h.Epoch == j.First() && !j.Missing {
				j.completeRows(in, r[2], series, h.Rows, end)
			}
		}
	}
	j.Report.Count("histories", 1)
	return nil
}

// Newer reads the rows after those of the last History, as History does.
func (j *Judge) Newer(ctx context.Context, address, token string) error {
	final := j.Final()
	for _, in := range j.Market.Instruments {
		for _, r := range routes {
			if _, err := j.read(ctx, address, token, r, in, final[seriesOf(r, in)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads and judges the rows of a series after an N.
func (j *Judge) read(ctx context.Context, address, token string, r [3]string, in *market.Instrument, after int64) (*stream.History, error) {
	h, err := stream.ReadHistory(ctx, address, token, r[0], in.ID, r[1], after)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", r[0], in.ID, err)
	}
	j.Report.Count("history rows", int64(len(h.Rows)))
	j.rows(h, seriesOf(r, in), after)
	return h, nil
}

func seriesOf(route [3]string, in *market.Instrument) string {
	if route[1] != "" {
		return route[2] + " " + in.ID + "|" + route[1]
	}
	return route[2] + " " + in.ID
}

// Stored reads all rows of an instrument over REST, and judges each by itself. It returns the
// numbers of those of the current epoch, by series. In a later epoch it also reads those of the
// earlier ones: of the first one, all rows up to those of the last History must be there or be lost.
func (j *Judge) Stored(ctx context.Context, address, token string, in *market.Instrument) (numbers map[string]map[int64]bool, current string, err error) {
	numbers = map[string]map[int64]bool{}
	was := j.Final()
	for _, r := range routes {
		now, err := j.read(ctx, address, token, r, in, 0)
		if err != nil {
			return nil, "", err
		}
		series := seriesOf(r, in)
		numbers[series], current = map[int64]bool{}, now.Epoch
		for _, m := range now.Rows {
			if m.N != nil {
				numbers[series][*m.N] = true
			}
		}
		if current == j.First() {
			continue
		}
		all, err := stream.ReadHistory(ctx, address, token, r[0], in.ID, r[1], -1)
		if err != nil {
			return nil, "", fmt.Errorf("%s of %s: %w", r[0], in.ID, err)
		}
		for _, m := range all.Rows {
			j.Epoch(m.Epoch)
			j.Message(m.Epoch, m, market.Book{}, 0)
		}
		j.Report.Count("history rows", int64(len(all.Rows)))
		j.former(all, series, was[series])
	}
	return numbers, current, nil
}

// former judges the rows of the first epoch: from the first one that is there or lost to the newest
// that was ever there, each must be one of both. If none is, nothing of that time is kept.
func (j *Judge) former(h *stream.History, series string, newest int64) {
	have, first, lost := map[int64]bool{}, newest+1, h.Lost[:0:0]
	for _, m := range h.Rows {
		if m.N != nil && m.Epoch == j.First() {
			have[*m.N], first = true, min(first, *m.N)
		}
	}
	for _, g := range h.Lost {
		if g.Epoch != j.First() || g.From == 0 { // without From, it is not known whether there were rows
			continue
		}
		if g.To == 0 {
			g.To = newest
			j.Report.Count("ends of an epoch that are lost", 1)
		}
		lost, first = append(lost, g), min(first, g.From)
	}
	for n := first; n <= newest; n++ {
		if !have[n] && !covered(lost, n, n) {
			j.Report.Violation("history", "%s of the former epoch: N %d of %d is neither there nor lost: %v", series, n, newest, lost)
			return
		}
	}
}

// rows judges rows of the current epoch after an N, which must be consecutive.
func (j *Judge) rows(h *stream.History, series string, after int64) {
	j.Epoch(h.Epoch)
	next, first := after+1, h.CompleteFrom
	if first > 1 && !j.Missing && !j.Epochs {
		j.Report.Violation("history", "%s: complete_from %d", series, first)
	}
	for _, m := range h.Rows {
		j.Message(h.Epoch, m, market.Book{}, 0)
		if m.N == nil {
			continue
		}
		if Series(m) != series {
			j.Report.Violation("history", "a row of %s: %s", series, m.Text)
		}
		if n := *m.N; n < next || n > next && (n > first || !covered(h.Lost, next, n-1)) {
			j.Report.Violation("history", "%s: N %d follows %d, complete_from %d, lost %v", series, n, next-1, first, h.Lost)
		}
		next = *m.N + 1
	}
	if wrong := lostOf(h); wrong != "" {
		j.Report.Violation("history", "%s: %s", series, wrong)
	}
	if first > next && !j.Missing {
		j.Report.Violation("history", "%s ends with N %d, complete_from %d", series, next-1, first)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.final[series] = next - 1
	for _, gap := range j.epochs[h.Epoch].lost[series] {
		for _, m := range h.Rows {
			if m.N != nil && *m.N >= gap.From && *m.N <= gap.To {
				j.Report.Violation("lost", "%s: %v was lost, and history has %s", series, gap, m.Text)
				break
			}
		}
	}
}

// covered reports whether ranges have all numbers from one to another.
func covered(list []stream.Range, from, to int64) bool {
	for n := from; n <= to; n++ {
		if !slices.ContainsFunc(list, func(g stream.Range) bool { return n >= g.From && n <= g.To }) {
			return false
		}
	}
	return true
}

// lostOf checks that ranges have no row that is stored, and the times of the rows around them.
func lostOf(h *stream.History) string {
	for _, g := range h.Lost {
		if g.From == 0 || g.Reason == "" {
			return fmt.Sprintf("%v has no from or reason", g)
		}
		for _, m := range h.Rows {
			if m.N == nil || m.Epoch != h.Epoch {
				continue
			}
			switch n := *m.N; {
			case n >= g.From && (n <= g.To || g.To == 0):
				return fmt.Sprintf("%v is lost, and N %d is there", g, n)
			case n == g.From-1 && m.T != g.Start, g.To != 0 && n == g.To+1 && m.T != g.End:
				return fmt.Sprintf("%v has other times than N %d at %s", g, n, m.T)
			}
		}
	}
	return ""
}

// completeRows checks that all events before end are there.
func (j *Judge) completeRows(in *market.Instrument, channel, series string, rows []*stream.Message, end int64) {
	switch channel {
	case "trades":
		if have, want := int64(len(rows)), in.Count(market.ChannelTrades, end-1); have != want {
			j.Report.Violation("history", "%s has %d rows of %d", series, have, want)
		}
	case "status":
		have := int64(0)
		for _, m := range rows {
			if !ofGateway(m) {
				have++
			}
		}
		if want := in.Count(market.ChannelStatus, end-1); have != want {
			j.Report.Violation("history", "%s has %d statuses of the market of %d", series, have, want)
		}
	case "quotes":
		have := int64(0)
		for e := range end {
			if in.OwnQuotes && in.Kind(e) == 'Q' {
				have++
			}
		}
		if in.OwnQuotes && have != int64(len(rows)) {
			j.Report.Violation("history", "%s has %d rows of %d", series, len(rows), have)
		}
	case "bars":
		j.completeBars(in, series, rows, end)
	}
}

// completeBars checks that the last bar of each interval has the figures of all events before end,
// and that each interval with a trade has one. Intervals that end near the last event may be
// missing.
func (j *Judge) completeBars(in *market.Instrument, series string, rows []*stream.Message, end int64) {
	last := map[string]*stream.Message{}
	length := time.Minute
	for _, m := range rows {
		if m.R != nil && *m.R != (last[m.T] != nil) {
			j.Report.Violation("bars", "%s: R of a bar whose first one is %v: %s", series, last[m.T] == nil, m.Text)
		}
		last[m.T], length = m, market.Length(m.IV)
	}
	for at := in.Time(0).Truncate(length); at.Add(length).Before(in.Time(max(end-3, 0))); at = at.Add(length) {
		list := in.Bar(at, length, end)
		m := last[market.Stamp(at)]
		delete(last, market.Stamp(at))
		switch {
		case m == nil && (len(list) == 0 || list[len(list)-1].TC == "0"):
		case m == nil:
			j.Report.Violation("bars", "%s: none at %s", series, market.Stamp(at))
		case len(list) == 0 || barFigures(m) != list[len(list)-1]:
			j.Report.Violation("bars", "%s: the last one is wrong: %s, %+v", series, m.Text, list)
		}
	}
}

// Final returns the newest N of each series of the last History.
func (j *Judge) Final() map[string]int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.final)
}

// Internal reports whether an error is one that a gateway must never answer: a status of 500, or of
// another error of the server that is not about being unavailable.
func Internal(err error) bool {
	var r *stream.Refused
	return errors.As(err, &r) && r.Status >= 500 && r.Status != 503
}
