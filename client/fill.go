package client

import (
	"context"
	"slices"

	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Limits of a gap that is filled from history.
const (
	maxFill = 1_000_000
	maxHeld = 100_000 // messages that came meanwhile
)

// numberedEvent is an event of a series without gaps.
type numberedEvent struct {
	series   stream.Series
	n        uint64
	event    Event
	snapshot bool // a status that may repeat a number, or skip some
}

// fill is a gap that is being filled.
type fill struct {
	from, to uint64
	held     []numberedEvent // what came after it
}

// numbered handles an event of a series without gaps: in order, each once.
func (l *link) numbered(ctx context.Context, x numberedEvent) error {
	cur := l.cursor(x.series)
	switch {
	case cur.fill != nil:
		if len(cur.fill.held) == maxHeld {
			return errGap
		}
		cur.fill.held = append(cur.fill.held, x)
		return nil
	case x.snapshot && cur.known && x.n <= cur.n:
		return l.queued(ctx, x.series, 0, x.event) // the state, not a new event
	case cur.known && x.n <= cur.n:
		return nil
	case !cur.known || x.n == cur.n+1, x.series.Channel == wire.Status && !l.covered(x.series, nil):
		return l.deliver(ctx, cur, x)
	case x.snapshot:
		l.report(Lost{Series: x.series, From: cur.n + 1, To: x.n - 1, Reason: "not_replayed"})
		return l.deliver(ctx, cur, x)
	}
	if err := l.gap(ctx, x.series, cur, x.n-1); err != nil {
		return err
	}
	return l.numbered(ctx, x) // it waits for the fill, or follows what is lost
}

// deliver queues the next event of a series.
func (l *link) deliver(ctx context.Context, cur *cursor, x numberedEvent) error {
	cur.n, cur.known = x.n, true
	resumed := cur.since > 0 || l.sent[x.series] == nil // the latter: by a pattern
	if l.replays > 0 && resumed && (cur.to == 0 || x.n <= cur.to) {
		x.event = replayed(x.event)
	}
	return l.queued(ctx, x.series, x.n, x.event)
}

// gap begins to fill a gap up to a number. Without the right to history, or if history does not
// have it, the error ends the connection, and the next one resumes after the newest number.
func (l *link) gap(ctx context.Context, s stream.Series, cur *cursor, to uint64) error {
	from := cur.n + 1
	if cur.tried == from { // neither history nor a resume has it
		l.report(Lost{Series: s, From: from, To: to, Reason: "missing"})
		cur.n = to
		return nil
	}
	if !slices.Contains(l.scope, "marketdata:history") || to-from >= maxFill {
		cur.tried, cur.named = from, true
		return errGap
	}
	cur.fill = &fill{from: from, to: to}
	r := Range{Epoch: l.epoch, After: from - 1, Limit: int(to - cur.n)}
	l.workers.Go(func() {
		rows, err := l.rows(ctx, s, r)
		l.post(ctx, func() error { return l.filled(ctx, s, rows, err) })
	})
	return nil
}

// rows reads messages from history. It runs on a goroutine of its own.
func (c *Client) rows(ctx context.Context, s stream.Series, r Range) (rows []numberedEvent, err error) {
	id := s.Instrument.String()
	add := func(n uint64, ev Event, failed error) bool {
		if err = failed; err == nil {
			rows = append(rows, numberedEvent{series: s, n: n, event: replayed(ev)})
		}
		return err == nil
	}
	switch interval, isBar := s.Channel.Interval(); {
	case isBar:
		for e, failed := range c.Bars(ctx, id, interval, r) {
			if !add(e.N, e, failed) {
				break
			}
		}
	case s.Channel == wire.Status:
		for e, failed := range c.Statuses(ctx, id, r) {
			if !add(e.N, e, failed) {
				break
			}
		}
	default:
		for e, failed := range c.Trades(ctx, id, r) {
			if !add(e.N, e, failed) {
				break
			}
		}
	}
	return rows, err
}

// filled delivers what history had of a gap, and what came after it.
func (l *link) filled(ctx context.Context, s stream.Series, rows []numberedEvent, err error) error {
	cur := l.series[s]
	if cur == nil || cur.fill == nil {
		return nil // unsubscribed meanwhile
	}
	f := cur.fill
	cur.fill = nil
	for _, x := range rows {
		if x.n == cur.n+1 && x.n <= f.to {
			if err := l.deliver(ctx, cur, x); err != nil {
				return err
			}
		}
	}
	if cur.n > f.from-1 {
		l.report(Recovered{Series: s, From: f.from, To: cur.n, History: true})
	}
	if cur.n < f.to {
		if err != nil {
			l.log.Warn("gap not filled from history", "error", err)
		}
		cur.tried, cur.named = cur.n+1, true
		return errGap
	}
	for _, x := range f.held {
		if err := l.numbered(ctx, x); err != nil {
			return err
		}
	}
	return nil
}
