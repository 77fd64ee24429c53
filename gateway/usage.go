package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
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
	usageRows  = 1 << 17          // kept, beside those of open connections; more are left out, and told
	usageWrite = 1000             // rows at once
	usageKinds = 1 << 16
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

	mu      sync.Mutex
	users   map[string][]used
	size    int // of all lists of users
	kinds   []kind
	numbers map[kind]uint16 // places in kinds
	changed []string        // users with something to be written
	ended   []store.Usage   // rows of months that have passed, to be written
	lost    int             // uses left out since the last writing
	swept   bool            // since the last writing
	next    time.Time       // when to note what goes on
	day     int             // of the last look at what goes on, UTC
}

// kind is what can be used.
type kind struct {
	market, level string
	delay         int
}

// used is what one user used of one kind in a month. There is one for each kind that somebody is connected to: 32 bytes.
type used struct {
	kind        uint16 // place in meter.kinds
	month       uint16 // since the year 0
	changed     bool   // since it was written
	open        int32  // connections that use it now
	most        int32  // at a time
	days        uint32
	first, last int64 // Unix time in microseconds; 0: never
}

func newMeter(s usageStore, log *slog.Logger) *meter {
	return &meter{store: s, log: log, users: make(map[string][]used), numbers: make(map[kind]uint16)}
}

// session is session.Env.Used.
func (m *meter) session(user string, u session.Use, by int) {
	now := time.Now().UTC()
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.find(user, kind{u.Market, u.Level.String(), u.Delay}, by > 0)
	if x == nil {
		return
	}
	before := x.open
	x.open = max(0, before+int32(by))
	m.note(user, x, now, max(before, x.open), by < 0)
}

// request notes data that a request was answered with.
func (m *meter) request(user, market, level string, delay int) {
	now := time.Now().UTC()
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.find(user, kind{market, level, delay}, false); x != nil {
		m.note(user, x, now, 0, false)
	}
}

// find is what a user used of a kind, made where there is none: always for a connection, which are few enough, else where
// there is room. nil: none. The lock is held.
func (m *meter) find(user string, k kind, connection bool) *used {
	n, ok := m.numbers[k]
	if !ok {
		if len(m.kinds) == usageKinds {
			m.lost++
			return nil
		}
		n = uint16(len(m.kinds))
		m.numbers[k], m.kinds = n, append(m.kinds, k)
	}
	if x := m.at(user, n); x != nil {
		return x
	}
	if m.size >= usageRows {
		m.sweep()
	}
	if m.size >= usageRows && !connection {
		m.lost++
		return nil
	}
	list := m.users[user]
	m.users[user] = append(append(make([]used, 0, len(list)+1), list...), used{kind: n}) // few, and not more than asked for
	m.size++
	return m.at(user, n)
}

func (m *meter) at(user string, kind uint16) *used {
	list := m.users[user]
	for i := range list {
		if list[i].kind == kind {
			return &list[i]
		}
	}
	return nil
}

// sweep forgets what nobody is connected to and is written: that comes back when it is used. Where users came and went until
// there is twice too much, what is not written goes too. The lock is held.
func (m *meter) sweep() {
	if m.swept { // a look at all, once between two writings
		return
	}
	m.swept = true
	full := m.size >= 2*usageRows
	for user, list := range m.users {
		n := len(list)
		list = slices.DeleteFunc(list, func(x used) bool {
			if x.open == 0 && x.changed && full {
				m.lost++
			}
			return x.open == 0 && (!x.changed || full)
		})
		m.size -= n - len(list)
		if len(list) == 0 {
			delete(m.users, user)
		} else {
			m.users[user] = list
		}
	}
	m.changed = slices.DeleteFunc(m.changed, func(user string) bool { return !m.waits(user) })
}

func monthOf(at time.Time) uint16 { return uint16(at.Year()*12 + int(at.Month()) - 1) }

// note enters a use, unless it would tell nothing new. end has its time noted to the moment. The lock is held.
func (m *meter) note(user string, x *used, at time.Time, connections int32, end bool) {
	if month := monthOf(at); x.month != month {
		if x.changed {
			m.end(m.row(user, x))
		}
		*x = used{kind: x.kind, month: month, open: x.open}
	}
	day, now := uint32(1)<<(at.Day()-1), at.UnixMicro()
	if x.days&day != 0 && connections <= x.most && !end && now-x.last < usageLast.Microseconds() {
		return
	}
	if x.days == 0 {
		x.first = now
	}
	x.days |= day
	x.most = max(x.most, connections)
	x.last = now
	m.mark(user, x)
}

// end keeps a row of a month that has passed. The lock is held.
func (m *meter) end(row store.Usage) {
	if len(m.ended) >= usageRows {
		m.lost++
		return
	}
	m.ended = append(m.ended, row)
}

// mark has one written with the next. The lock is held.
func (m *meter) mark(user string, x *used) {
	if !m.waits(user) {
		m.changed = append(m.changed, user)
	}
	x.changed = true
}

// waits says whether something of a user is to be written. The lock is held.
func (m *meter) waits(user string) bool {
	return slices.ContainsFunc(m.users[user], func(x used) bool { return x.changed })
}

func (m *meter) row(user string, x *used) store.Usage {
	k := &m.kinds[x.kind]
	return store.Usage{
		Month:  fmt.Sprintf("%04d-%02d", x.month/12, x.month%12+1),
		UserID: user, Market: k.market, Level: k.level, Delay: k.delay,
		Days: x.days, Connections: int(x.most), First: time.UnixMicro(x.first), Last: time.UnixMicro(x.last),
	}
}

// goOn notes what is used since before: now and then, and when a day has begun. The lock is held.
func (m *meter) goOn(now time.Time) {
	if now.Before(m.next) && now.Day() == m.day {
		return
	}
	m.next, m.day = now.Add(usageLast), now.Day()
	for user, list := range m.users {
		for i := range list {
			if x := &list[i]; x.open > 0 {
				m.note(user, x, now, x.open, false)
			}
		}
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
	m.goOn(time.Now().UTC())
	lost := m.lost
	m.lost, m.swept = 0, false
	m.mu.Unlock()
	if lost > 0 {
		m.log.Error("usage left out: too much waits to be written", "count", lost)
	}
	for {
		rows := m.take()
		if len(rows) == 0 {
			return
		}
		if err := m.store.AddUsage(ctx, rows); err != nil {
			m.log.Warn("usage not written, trying again", "error", err)
			m.keep(rows)
			return
		}
	}
}

// take takes some of what is to be written.
func (m *meter) take() []store.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(len(m.ended), usageWrite)
	rows := slices.Clone(m.ended[:n])
	m.ended = slices.Delete(m.ended, 0, n)
	for n = 0; n < len(m.changed) && len(rows) < usageWrite; n++ {
		user := m.changed[n]
		list := m.users[user]
		for i := range list {
			if x := &list[i]; x.changed {
				x.changed = false
				rows = append(rows, m.row(user, x))
			}
		}
	}
	m.changed = m.changed[n:]
	if len(m.changed) == 0 {
		m.changed = nil // as much as came at once may never come again
	}
	return rows
}

// keep puts rows back that could not be written.
func (m *meter) keep(rows []store.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range rows {
		u := &rows[i]
		x := m.at(u.UserID, m.numbers[kind{u.Market, u.Level, u.Delay}])
		if x != nil && x.month == monthOf(u.First.UTC()) {
			m.mark(u.UserID, x) // it has all that the row has
		} else {
			m.end(*u)
		}
	}
}
