package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

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
	n        uint64
	time     int64 // of the event, Unix ns
	event    Event
	snapshot bool   // a status that may repeat a number, or skip some
	epoch    string // of a row of history
}

// fill is a gap that is being filled.
type fill struct {
	from, to uint64
	held     []numberedEvent // what came after it
	ended    *Lost           // what is lost if an epoch has ended, and this is not completed; or nil
}

// numbered handles an event of a series without gaps: in order, each once.
func (l *link) numbered(ctx context.Context, cur *cursor, x *numberedEvent) error {
	switch {
	case x.n <= cur.floor && !x.snapshot:
		return nil
	case cur.fill != nil:
		if len(cur.fill.held) == maxHeld {
			return errGap
		}
		cur.fill.held = append(cur.fill.held, *x)
		return nil
	case x.snapshot && cur.known && x.n <= cur.n:
		return l.push(ctx, entry{event: x.event, of: cur.series}) // the state, not a new event
	case cur.known && x.n <= cur.n:
		return nil
	case !cur.known || x.n == cur.n+1, cur.Channel == wire.Status && !l.covered(cur.Series, nil):
		return l.deliver(ctx, cur, x)
	case x.snapshot:
		l.report(Lost{Series: cur.Series, From: cur.n + 1, To: x.n - 1, Reason: "not_replayed"})
		return l.deliver(ctx, cur, x)
	}
	if err := l.gap(ctx, cur.Series, cur, x.n-1); err != nil {
		return err
	}
	return l.numbered(ctx, cur, x) // it waits for the fill, or follows what is lost
}

// deliver queues the next event of a series.
func (l *link) deliver(ctx context.Context, cur *cursor, x *numberedEvent) error {
	cur.n, cur.known, cur.time = x.n, true, x.time
	// What is subscribed by name is resumed if its number was known, or if the answer says so.
	resumed := cur.first > 0 || cur.to > 0 || l.sent[cur.Series] == nil
	if l.replays > 0 && resumed && (cur.to == 0 || x.n <= cur.to) {
		numberedHeader(x.event).Replayed = true
		cur.first = cmp.Or(cur.first, x.n)
	}
	return l.push(ctx, entry{event: x.event, of: cur.series, n: x.n})
}

// gap begins to fill a gap up to a number. Without the right to history, or if history does not
// have it, the error ends the connection, and the next one resumes after the newest number.
func (l *link) gap(ctx context.Context, s stream.Series, cur *cursor, to uint64) error {
	from := cur.n + 1
	if cur.tried == from {
		if sent := l.sent[s]; sent == nil || !sent.rejected && !sent.resumed {
			cur.named = true
			return errGap // it is not resumed yet
		}
		// Neither history nor a resume has it.
		l.report(Lost{Series: s, From: from, To: to, Reason: "missing"})
		cur.n = to
		return nil
	}
	if !l.hasHistory() || to-from >= maxFill {
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

func (l *link) hasHistory() bool { return slices.Contains(l.scope, "marketdata:history") }

// rows reads messages from history. It runs on a goroutine of its own, and waits for one of a few
// slots, because the gateway limits the requests of a user.
func (c *Client) rows(ctx context.Context, s stream.Series, r Range) (rows []numberedEvent, err error) {
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var d stream.Decoder
	decode := func(raw json.RawMessage, epoch string) (numberedEvent, error) {
		var m stream.Message
		err := d.Decode(raw, &m)
		ev := newEvent(&m, raw, time.Now())
		numberedHeader(ev).Replayed = true
		return numberedEvent{n: m.N, time: m.Time, event: ev, epoch: epoch}, err
	}
	for x, failed := range pages(ctx, c, historyOf(s.Channel, s.Instrument.String(), r), decode) {
		if failed != nil {
			return rows, failed
		}
		rows = append(rows, x)
	}
	return rows, nil
}

// filled delivers what history had of a gap, and what came after it.
func (l *link) filled(ctx context.Context, s stream.Series, rows []numberedEvent, err error) error {
	cur := l.series[s]
	if cur == nil || cur.fill == nil {
		return nil // unsubscribed meanwhile
	}
	f := cur.fill
	cur.fill = nil
	for i := range rows {
		if x := &rows[i]; x.n == cur.n+1 && x.n <= f.to {
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
		if answer := (*Error)(nil); err == nil || errors.As(err, &answer) { // otherwise nothing is known
			cur.tried = cur.n + 1
		}
		cur.named = true
		return errGap
	}
	return l.release(ctx, cur, f)
}

// newEpoch begins a new series of numbers. What was missed is read from history. Without it, it is
// lost.
func (l *link) newEpoch(ctx context.Context, epoch string) {
	ended, before := l.epoch, l.series
	l.epoch = epoch
	l.mark("")
	if ended == "" {
		return
	}
	l.position, l.series = "", map[stream.Series]*cursor{}
	clear(l.past)
	for s, c := range before {
		if c.gone = true; !c.known {
			continue
		}
		lost := Lost{Series: s, From: c.n + 1, Reason: string(wire.EpochChanged)}
		if !l.hasHistory() || c.time == 0 {
			l.report(lost)
			continue
		}
		l.cursor(s).fill = &fill{ended: &lost}
		l.workers.Go(func() {
			rows, err := l.rows(ctx, s, Range{Start: time.Unix(0, c.time), Limit: maxFill})
			l.post(ctx, func() error { return l.bridged(ctx, s, ended, rows, err) })
		})
	}
}

// bridged delivers what history has of an ended epoch and of the new one. How the old one has ended
// is not known, so that the rest of it counts as lost.
func (l *link) bridged(ctx context.Context, s stream.Series, ended string, rows []numberedEvent, err error) error {
	cur := l.series[s]
	if cur == nil || cur.fill == nil {
		return nil // unsubscribed meanwhile
	}
	f := cur.fill
	lost := *f.ended
	for _, x := range rows {
		if x.epoch != ended || x.n != f.ended.From {
			continue
		}
		numberedHeader(x.event).Ended = true
		if err := l.push(ctx, entry{event: x.event, of: cur.series, n: x.n, old: true}); err != nil {
			return err
		}
		f.ended.From++
	}
	if f.ended.From > lost.From {
		l.report(Recovered{Series: s, From: lost.From, To: f.ended.From - 1, History: true})
	}
	l.report(*f.ended)
	cur.fill, cur.known = nil, err == nil // the new epoch begins with 1
	if err != nil {
		l.log.Warn("gap not filled from history", "error", err)
	}
	for i := range rows {
		if x := &rows[i]; x.epoch == l.epoch && err == nil {
			if err := l.numbered(ctx, cur, x); err != nil {
				return err
			}
		}
	}
	if cur.n > 0 {
		l.report(Recovered{Series: s, From: 1, To: cur.n, History: true})
	}
	return l.release(ctx, cur, f)
}

// release handles what came while a gap was being filled.
func (l *link) release(ctx context.Context, cur *cursor, f *fill) error {
	for i := range f.held {
		if err := l.numbered(ctx, cur, &f.held[i]); err != nil {
			return err
		}
	}
	return nil
}
