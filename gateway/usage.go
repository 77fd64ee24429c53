package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/internal/store"
)

// Usage is what one user used of one level of a market at one delay in a month, which is what exchanges ask for.
type Usage = store.Usage

// Usage reads the usage of a month, such as 2026-11, in order of user, market, level and delay.
func (d *Data) Usage(ctx context.Context, month string) ([]Usage, error) {
	return d.store.Usage(ctx, month)
}

const (
	usageFlush = 10 * time.Second // between two writings
	usageLast  = 15 * time.Minute // a use that goes on is noted anew after so long
	usageRows  = 1 << 17          // that wait to be written; more are left out, and told
	usageWrite = 1000             // rows at once
)

// usageStore keeps what is used; store.SQLite has its words.
type usageStore interface {
	AddUsage(ctx context.Context, list []store.Usage) error
}

// meter counts who uses what. It is asked when something is subscribed, given up or requested, and writes now
// and then; while the database is down rows wait, each once.
type meter struct {
	store usageStore
	log   *slog.Logger

	mu   sync.Mutex
	open map[use]int              // connections that use it now
	seen map[usageRow]*noted      // what is written, or about to be, of this month
	rows map[usageRow]store.Usage // to be written
	lost int                      // rows left out since the last writing
	next time.Time                // when to note what goes on
	day  int                      // of the last look at what goes on, UTC
}

// use is what is counted.
type use struct {
	user, market, level string
	delay               int
}

type usageRow struct {
	use
	month string
}

// noted is what need not be written again.
type noted struct {
	days        uint32
	connections int
	last        time.Time
}

func newMeter(s usageStore, log *slog.Logger) *meter {
	return &meter{
		store: s, log: log,
		open: make(map[use]int), seen: make(map[usageRow]*noted), rows: make(map[usageRow]store.Usage),
	}
}

// session is session.Env.Used.
func (m *meter) session(user string, u session.Use, by int) {
	k := use{user, u.Market, u.Level.String(), u.Delay}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.open[k]
	switch n := before + by; {
	case n <= 0:
		delete(m.open, k)
	default:
		m.open[k] = n
	}
	m.note(k, now, max(before, before+by), by < 0)
}

// request notes data that a request was answered with.
func (m *meter) request(user, market, level string, delay int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note(use{user, market, level, delay}, time.Now(), 0, false)
}

// note makes a row, unless it would tell nothing new. end has its time noted to the moment. The lock is held.
func (m *meter) note(k use, at time.Time, connections int, end bool) {
	at = at.UTC()
	key := usageRow{k, at.Format("2006-01")}
	day := uint32(1) << (at.Day() - 1)
	was := m.seen[key]
	if was == nil {
		if len(m.seen) >= usageRows {
			clear(m.seen) // those in use come back
		}
		was = &noted{}
		m.seen[key] = was
	}
	if was.days&day != 0 && connections <= was.connections && !end && at.Sub(was.last) < usageLast {
		return
	}
	row, ok := m.rows[key]
	if !ok {
		if len(m.rows) >= usageRows {
			m.lost++
			return
		}
		row = store.Usage{Month: key.month, UserID: k.user, Market: k.market, Level: k.level, Delay: k.delay, First: at}
	}
	row.Days |= day
	row.Connections = max(row.Connections, connections)
	row.Last = at
	m.rows[key] = row
	*was = noted{was.days | day, max(was.connections, connections), at}
}

// goOn notes what is used since before: now and then, and when a day has begun. The lock is held.
func (m *meter) goOn(now time.Time) {
	if now.Before(m.next) && now.UTC().Day() == m.day {
		return
	}
	m.next, m.day = now.Add(usageLast), now.UTC().Day()
	for k, n := range m.open {
		m.note(k, now, n, false)
	}
}

// Run writes until ctx ends, and then what is left.
func (m *meter) Run(ctx context.Context) error {
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

// flush writes what waits. What could not be written waits on.
func (m *meter) flush(ctx context.Context) {
	m.mu.Lock()
	m.goOn(time.Now())
	rows, lost := m.rows, m.lost
	m.rows, m.lost = make(map[usageRow]store.Usage), 0
	m.mu.Unlock()
	if lost > 0 {
		m.log.Error("usage left out: too much waits to be written", "count", lost)
	}
	list := make([]store.Usage, 0, min(len(rows), usageWrite))
	write := func() bool {
		if err := m.store.AddUsage(ctx, list); err != nil {
			m.log.Warn("usage not written, trying again", "error", err)
			m.keep(rows)
			return false
		}
		for i := range list {
			delete(rows, rowOf(&list[i]))
		}
		list = list[:0]
		return true
	}
	for _, row := range rows {
		if list = append(list, row); len(list) == usageWrite && !write() {
			return
		}
	}
	if len(list) > 0 {
		write()
	}
}

func rowOf(u *store.Usage) usageRow {
	return usageRow{use{u.UserID, u.Market, u.Level, u.Delay}, u.Month}
}

// keep puts rows back that could not be written.
func (m *meter) keep(rows map[usageRow]store.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, old := range rows {
		row, newer := m.rows[key]
		if !newer {
			m.rows[key] = old
			continue
		}
		row.Days |= old.Days
		row.Connections = max(row.Connections, old.Connections)
		row.First = old.First
		m.rows[key] = row
	}
}
