package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
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
	usagePiece = 1 << 10          // users looked at without letting the lock go: half a millisecond
	usageKinds = 1 << 16
)

// usageStore keeps what is used; store.SQLite has its words.
type usageStore interface {
	AddUsage(ctx context.Context, list []store.Usage) error
}

// meter counts who uses what. It is asked when something is subscribed, given up or requested, by shards too, which wait for
// nothing long: what looks at all users is done by the goroutine that writes, in pieces. While the database is down rows wait,
// each once.
type meter struct {
	store usageStore
	log   *slog.Logger

	// Of the goroutine that writes.
	next  time.Time // when to note what goes on
	day   int       // of the last look at what goes on, UTC
	pause func()    // between two pieces of work; the lock is not held

	mu      sync.Mutex
	users   map[string][]used
	idle    int // of all lists of users, those without an open connection
	kinds   []kind
	numbers map[kind]uint16    // places in kinds
	months  map[uint16]string  // names, of those that were written
	changed queue[string]      // users with something to be written, each once
	ended   queue[store.Usage] // rows of months that have passed, to be written
	lost    int                // uses left out since the last writing
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
	return &meter{
		store: s, log: log, pause: runtime.Gosched,
		users: make(map[string][]used), numbers: make(map[kind]uint16), months: make(map[uint16]string),
	}
}

// session is session.Env.Used.
func (m *meter) session(user string, u session.Use, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().UTC() // under the lock: no month comes after the next one
	x := m.find(user, kind{u.Market, u.Level.String(), u.Delay}, by > 0)
	if x == nil {
		return
	}
	before := x.open
	x.open = max(0, before+int32(by))
	if before == 0 && x.open > 0 {
		m.idle--
	} else if before > 0 && x.open == 0 {
		m.idle++
	}
	m.note(user, x, now, max(before, x.open), by < 0)
}

// request notes data that a request was answered with.
func (m *meter) request(user, market, level string, delay int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.find(user, kind{market, level, delay}, false); x != nil {
		m.note(user, x, time.Now().UTC(), 0, false)
	}
}

// find is what a user used of a kind, made where there is none, without an open connection: always for one that opens, which
// are few enough, else where there is room. nil: none. The lock is held.
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
	if m.idle >= usageRows && !connection {
		m.lost++
		return nil
	}
	list := m.users[user]
	m.users[user] = append(append(make([]used, 0, len(list)+1), list...), used{kind: n}) // few, and not more than asked for
	m.idle++
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

func monthOf(at time.Time) uint16 { return uint16(at.Year()*12 + int(at.Month()) - 1) }

// note enters a use, unless it would tell nothing new. end has its time noted to the moment. The lock is held.
func (m *meter) note(user string, x *used, at time.Time, connections int32, end bool) {
	if month := monthOf(at); x.month != month {
		if x.changed {
			m.end(m.row(user, x))
		}
		*x = used{kind: x.kind, month: month, changed: x.changed, open: x.open}
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
	if m.ended.size >= usageRows {
		m.lost++
		return
	}
	m.ended.push(row)
}

// mark has one written with the next. The lock is held.
func (m *meter) mark(user string, x *used) {
	if !m.waits(user) {
		m.changed.push(user)
	}
	x.changed = true
}

// waits says whether something of a user is to be written. The lock is held.
func (m *meter) waits(user string) bool {
	return slices.ContainsFunc(m.users[user], func(x used) bool { return x.changed })
}

// row is what is written of a use. The lock is held.
func (m *meter) row(user string, x *used) store.Usage {
	k := &m.kinds[x.kind]
	name, ok := m.months[x.month]
	if !ok {
		name = fmt.Sprintf("%04d-%02d", x.month/12, x.month%12+1)
		m.months[x.month] = name
	}
	return store.Usage{
		Month: name, UserID: user, Market: k.market, Level: k.level, Delay: k.delay,
		Days: x.days, Connections: int(x.most), First: time.UnixMicro(x.first), Last: time.UnixMicro(x.last),
	}
}

// each has do look at all users, with the lock held, and lets it go between pieces of them. Who is new meanwhile may be left out.
func (m *meter) each(do func(user string, list []used)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for user, list := range m.users {
		do(user, list)
		if n++; n%usagePiece == 0 {
			m.letGo()
		}
	}
}

// letGo lets others have the lock, which is held before and after.
func (m *meter) letGo() {
	m.mu.Unlock()
	m.pause()
	m.mu.Lock()
}

// goOn notes what is used since before: now and then, and when a day has begun.
func (m *meter) goOn() {
	now := time.Now().UTC()
	if now.Before(m.next) && now.Day() == m.day {
		return
	}
	m.next, m.day = now.Add(usageLast), now.Day()
	m.each(func(user string, list []used) {
		for i := range list {
			if x := &list[i]; x.open > 0 && x.last < now.UnixMicro() { // else noted since this look began, maybe in a new month
				m.note(user, x, now, x.open, false)
			}
		}
	})
}

// forget makes room where half of it is taken: what nobody is connected to and is written comes back when it is used.
func (m *meter) forget() {
	m.mu.Lock()
	idle := m.idle
	m.mu.Unlock()
	if idle <= usageRows/2 {
		return
	}
	m.each(func(user string, list []used) {
		m.remove(user, list, func(x used) bool { return x.open == 0 && !x.changed })
	})
}

// drop leaves out what nobody is connected to and is not written, from the next to be written on, until no more is kept than may be.
func (m *meter) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := m.changed.size; n > 0 && m.idle > usageRows; n-- {
		user := m.changed.pop()
		m.lost += m.remove(user, m.users[user], func(x used) bool { return x.open == 0 && x.changed })
		if m.waits(user) {
			m.changed.push(user)
		}
		if n%usagePiece == 0 {
			m.letGo()
		}
	}
}

// remove takes those out of a user's list that are gone, which have no open connection, and returns how many. The lock is held.
func (m *meter) remove(user string, list []used, gone func(used) bool) int {
	left := slices.DeleteFunc(list, gone)
	n := len(list) - len(left)
	if m.idle -= n; len(left) == 0 {
		delete(m.users, user)
	} else if n > 0 {
		m.users[user] = left
	}
	return n
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

// flush notes what goes on, writes what waits, and makes room. What could not be written waits on.
func (m *meter) flush(ctx context.Context) {
	m.goOn()
	written := m.write(ctx)
	m.forget()
	if !written && ctx.Err() == nil { // at the end there is another flush
		m.drop()
	}
	m.mu.Lock()
	lost := m.lost
	m.lost = 0
	m.mu.Unlock()
	if lost > 0 {
		m.log.Error("usage left out: too much waits to be written", "count", lost)
	}
}

// write writes what waits, and says whether that is all.
func (m *meter) write(ctx context.Context) bool {
	for {
		rows := m.take()
		if len(rows) == 0 {
			return true
		}
		if err := m.store.AddUsage(ctx, rows); err != nil {
			m.log.Warn("usage not written, trying again", "error", err)
			m.keep(rows)
			return false
		}
		m.pause()
	}
}

// take takes some of what is to be written.
func (m *meter) take() []store.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := make([]store.Usage, 0, min(m.ended.size+m.changed.size, usageWrite))
	for m.ended.size > 0 && len(rows) < usageWrite {
		rows = append(rows, m.ended.pop())
	}
	for m.changed.size > 0 && len(rows) < usageWrite {
		user := m.changed.pop()
		list := m.users[user]
		for i := range list {
			if x := &list[i]; x.changed {
				x.changed = false
				rows = append(rows, m.row(user, x))
			}
		}
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
			m.mark(u.UserID, x)
			x.join(u) // it may have been forgotten meanwhile, and be new
		} else {
			m.end(*u)
		}
	}
}

// join takes in what a row of the same month has.
func (x *used) join(u *store.Usage) {
	x.days |= u.Days
	x.most = max(x.most, int32(u.Connections))
	x.first = min(x.first, u.First.UnixMicro())
	x.last = max(x.last, u.Last.UnixMicro())
}
