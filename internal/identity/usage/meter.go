// Package usage records which market data each user received.
package usage

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"
	"unique"

	"github.com/ruedahq/rueda/internal/base/cache"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/identity/store"
)

const (
	usageFlush  = 10 * time.Second // between two writes
	usageRepeat = 15 * time.Minute // a use that continues is recorded again after this time
	usageRows   = 1 << 17          // pending rows, in addition to one for each use by open connections
	usageWrite  = 1000             // rows in one write
	usagePiece  = 1 << 10          // uses recorded under one hold of the lock: half a millisecond
)

// Store stores usage. AddUsage merges a row with the stored one.
type Store interface {
	AddUsage(ctx context.Context, list []store.Usage) error
}

// Meter records who uses which data. Shards and requests report uses to it and never wait for
// the store: Run writes the rows. While the store is down, rows wait in memory and are merged.
type Meter struct {
	store Store
	log   *slog.Logger
	next  time.Time // of recordOpen
	pause func()    // called between two pieces of work, without the lock
	rows  int       // usageRows

	mu      sync.Mutex
	open    map[usageKey]use            // uses by open connections
	closed  cache.Map[usageKey, use]    // recent uses without one
	pending map[usageMonth]*store.Usage // to be written
	lost    int                         // uses left out since the last flush
}

// usageKind is data that can be used.
type usageKind struct {
	market, level string
	delay         int
}

type usageKey struct {
	user string
	kind unique.Handle[usageKind]
}

type usageMonth struct {
	usageKey
	month string
}

// use is the use of one kind of data by one user.
type use struct {
	open     int32 // connections that use it
	most     int32 // connections at a time that are recorded for the day of recorded
	recorded int64 // Unix time in microseconds; 0: never
}

// NewMeter returns a meter that writes to s. Run must be called.
func NewMeter(s Store, log *slog.Logger) *Meter { return newMeter(s, log, usageRows) }

func newMeter(s Store, log *slog.Logger, rows int) *Meter {
	return &Meter{
		store: s, log: log, pause: runtime.Gosched, rows: rows,
		open: make(map[usageKey]use), closed: cache.New[usageKey, use](rows),
		pending: make(map[usageMonth]*store.Usage),
	}
}

// Session implements session.Env.Used: the number of a user's connections that use u changes by by.
func (m *Meter) Session(user string, u session.Use, by int) {
	m.report(user, usageKind{u.Market, u.Level.String(), u.Delay}, int32(by))
}

// Request records data that a request was answered with.
func (m *Meter) Request(user, market, level string, delay int) {
	m.report(user, usageKind{market, level, delay}, 0)
}

func (m *Meter) report(user string, kind usageKind, by int32) {
	k := usageKey{user, unique.Make(kind)}
	m.mu.Lock()
	defer m.mu.Unlock()
	x, ok := m.open[k]
	if !ok {
		x, _ = m.closed.Get(k)
	}
	before := x.open
	if x.open = max(0, before+by); x.open > 0 {
		m.open[k] = x
		m.closed.Delete(k)
	} else {
		delete(m.open, k)
	}
	m.record(k, x, time.Now().UTC(), max(before, x.open), by < 0)
}

// record adds a use to the pending rows, unless they already cover it. With last, the exact time is
// recorded, because the use has ended. The lock is held.
func (m *Meter) record(k usageKey, x use, at time.Time, connections int32, last bool) {
	const day = int64(24 * time.Hour / time.Microsecond)
	now := at.UnixMicro()
	if now/day != x.recorded/day {
		x.most = 0
	} else if connections <= x.most && !last && now-x.recorded < usageRepeat.Microseconds() {
		return
	}
	kind := k.kind.Value()
	if !m.add(k, &store.Usage{
		Month: at.Format("2006-01"), UserID: k.user, Market: kind.market, Level: kind.level, Delay: kind.delay,
		Days: 1 << (at.Day() - 1), Connections: int(connections), First: at, Last: at,
	}) {
		return
	}
	if x.most, x.recorded = max(x.most, connections), now; x.open > 0 {
		m.open[k] = x
	} else {
		m.closed.Put(k, x)
	}
}

// add merges a row into the pending ones. It returns false if there are too many. The lock is held.
func (m *Meter) add(k usageKey, row *store.Usage) bool {
	at := usageMonth{k, row.Month}
	old := m.pending[at]
	switch {
	case old != nil:
		row.Days |= old.Days
		row.Connections = max(row.Connections, old.Connections)
		row.First = time.UnixMicro(min(row.First.UnixMicro(), old.First.UnixMicro()))
		row.Last = time.UnixMicro(max(row.Last.UnixMicro(), old.Last.UnixMicro()))
	case len(m.pending) >= m.rows+len(m.open):
		m.lost++
		return false
	}
	m.pending[at] = row
	return true
}

// recordOpen records the uses that continue, every usageRepeat and when a day has begun. It
// releases the lock between pieces.
func (m *Meter) recordOpen() {
	now := time.Now().UTC()
	if now.Before(m.next) {
		return
	}
	m.next = now.Add(usageRepeat)
	if midnight := now.Truncate(24 * time.Hour).Add(24 * time.Hour); midnight.Before(m.next) {
		m.next = midnight
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for k, x := range m.open {
		if x.recorded < now.UnixMicro() { // not since this began, perhaps in the next month
			m.record(k, x, now, x.open, false)
		}
		if n++; n%usagePiece == 0 {
			m.mu.Unlock()
			m.pause()
			m.mu.Lock()
		}
	}
}

// Run writes until ctx ends, and then once more.
func (m *Meter) Run(ctx context.Context) error {
	tick := time.NewTicker(usageFlush)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageFlush/2)
			defer cancel()
			m.flush(last)
			return nil
		case <-tick.C:
			m.flush(ctx)
		}
	}
}

// flush records the uses that continue and writes the pending rows. Rows that cannot be written
// stay pending.
func (m *Meter) flush(ctx context.Context) {
	m.recordOpen()
	for {
		rows := m.take()
		if len(rows) == 0 {
			break
		}
		if err := m.store.AddUsage(ctx, rows); err != nil {
			m.log.Warn("usage not written, retrying", "error", err)
			m.putBack(rows)
			break
		}
		m.pause()
	}
	m.mu.Lock()
	lost := m.lost
	m.lost = 0
	m.mu.Unlock()
	if lost > 0 {
		m.log.Error("usage discarded: too much is waiting to be written", "count", lost)
	}
}

// take removes up to usageWrite pending rows.
func (m *Meter) take() []store.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := make([]store.Usage, 0, min(len(m.pending), usageWrite))
	for k, row := range m.pending {
		if len(rows) == usageWrite {
			break
		}
		rows = append(rows, *row)
		delete(m.pending, k)
	}
	if len(m.pending) == 0 { // a map keeps its largest size
		m.pending = make(map[usageMonth]*store.Usage)
	}
	return rows
}

// putBack makes rows pending again. Rows above the limit are left out.
func (m *Meter) putBack(rows []store.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range rows {
		u := &rows[i]
		m.add(usageKey{u.UserID, unique.Make(usageKind{u.Market, u.Level, u.Delay})}, u)
	}
}
