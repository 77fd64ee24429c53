package gateway

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/internal/store"
	"github.com/ruedahq/rueda/wire"
)

// ledger is a database in memory that may be down.
type ledger struct {
	mu     sync.Mutex
	down   bool
	usage  map[usageRow]store.Usage
	writes int
	events []audit.Event
}

// usageRow is what there is one row of.
type usageRow struct {
	kind
	user, month string
}

func rowOf(u *store.Usage) usageRow {
	return usageRow{kind{u.Market, u.Level, u.Delay}, u.UserID, u.Month}
}

var errDown = errors.New("down")

func (l *ledger) AddUsage(_ context.Context, list []store.Usage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return errDown
	}
	for _, u := range list {
		l.writes++
		old, ok := l.usage[rowOf(&u)]
		if ok {
			u.Days |= old.Days
			u.Connections = max(u.Connections, old.Connections)
			u.First = old.First
		}
		l.usage[rowOf(&u)] = u
	}
	return nil
}

func (l *ledger) Append(_ context.Context, events ...audit.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return errDown
	}
	l.events = append(l.events, events...)
	return nil
}

func (l *ledger) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// TestMeter uses data for some weeks of virtual time, with the database down in between.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{usage: map[usageRow]store.Usage{}}
		m := newMeter(l, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		begin := time.Now() // 2000-01-01
		live := session.Use{Market: "M", Level: session.TradesLevel}
		late := session.Use{Market: "M", Level: session.BookLevel, Delay: 900}
		m.session("u1", live, 1)
		m.session("u1", live, 1)
		m.session("u2", late, 1)
		time.Sleep(time.Minute)
		m.session("u1", live, -1)
		m.session("u2", late, -1)
		ended := time.Now()
		l.set(true)
		time.Sleep(48*time.Hour + time.Second)
		for range 100_000 {
			m.request("u3", "M", "quotes", 0)
		}
		time.Sleep(time.Hour)
		if m.mu.Lock(); m.changed.size != 3 {
			t.Errorf("%d rows wait", m.changed.size)
		}
		m.mu.Unlock()
		l.set(false)
		time.Sleep(time.Minute)
		l.mu.Lock()
		writes := l.writes
		l.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if l.mu.Lock(); l.writes > writes+1 {
			t.Errorf("%d writes while nothing changes", l.writes-writes)
		}
		l.mu.Unlock()
		time.Sleep(30 * 24 * time.Hour) // into the next month
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		want := map[usageRow]store.Usage{
			{kind{"M", "trades", 0}, "u1", "2000-01"}:       {Days: 1<<31 - 1, Connections: 2, First: begin},
			{kind{"M", "trades", 0}, "u1", "2000-02"}:       {Days: 1<<2 - 1, Connections: 1},
			{kind{"M", "order_book", 900}, "u2", "2000-01"}: {Days: 1, Connections: 1, First: begin, Last: ended},
			{kind{"M", "quotes", 0}, "u3", "2000-01"}:       {Days: 1 << 2},
		}
		for key, w := range want {
			got, ok := l.usage[key]
			if !ok || got.Days != w.Days || got.Connections != w.Connections ||
				!w.First.IsZero() && !got.First.Equal(w.First) || !w.Last.IsZero() && !got.Last.Equal(w.Last) {
				t.Errorf("%+v: got %+v, want %+v", key, got, w)
			}
		}
		if len(l.usage) != len(want) {
			t.Errorf("%d rows, want %d: %+v", len(l.usage), len(want), l.usage)
		}
	})
}

// TestMeterIsBounded has more users than rows may wait while the database is down: users of requests, and users who connect
// and go. What is kept of them is written in the end.
func TestMeterIsBounded(t *testing.T) {
	l := &ledger{usage: map[usageRow]store.Usage{}, down: true}
	m := newMeter(l, slog.New(slog.DiscardHandler))
	request := func(user string) { m.request(user, "M", "quotes", 0) }
	visit := func(user string) {
		m.session(user, session.Use{Market: "M", Level: session.QuotesLevel}, 1)
		m.session(user, session.Use{Market: "M", Level: session.QuotesLevel}, -1)
	}
	for i := range usageRows + 1000 {
		request("r" + strconv.Itoa(i))
	}
	if m.idle != usageRows || m.lost != 1000 {
		t.Errorf("%d are kept and %d left out", m.idle, m.lost)
	}
	visits := 0
	for range 22 { // more than make all rows new
		m.flush(t.Context())
		for range usageRows / 20 {
			visit("v" + strconv.Itoa(visits))
			visits++
		}
		if m.idle != usageRows+usageRows/20 || m.changed.size != m.idle {
			t.Fatalf("%d are kept, %d to be written, after %d visits", m.idle, m.changed.size, visits)
		}
	}
	l.set(false)
	kept := m.idle
	m.flush(t.Context())
	if len(l.usage) != kept || m.changed.size != 0 {
		t.Errorf("%d of %d written, %d wait", len(l.usage), kept, m.changed.size)
	}
	last := usageRow{kind{"M", "quotes", 0}, "v" + strconv.Itoa(visits-1), time.Now().UTC().Format("2006-01")}
	if got := l.usage[last]; got.Connections != 1 {
		t.Errorf("the last visit is written as %+v", got)
	}
	for i := range usageRows { // written: these make room
		request("s" + strconv.Itoa(i))
	}
	if m.idle != usageRows || m.lost != 0 {
		t.Errorf("%d are kept and %d left out once there is room", m.idle, m.lost)
	}
}

// TestMeterBesideConnections has more connections open than rows may wait: requests and short connections count all the same.
func TestMeterBesideConnections(t *testing.T) {
	l := &ledger{usage: map[usageRow]store.Usage{}}
	m := newMeter(l, slog.New(slog.DiscardHandler))
	live := session.Use{Market: "M", Level: session.TradesLevel}
	for i := range 2 * usageRows {
		m.session("u"+strconv.Itoa(i), live, 1)
	}
	m.flush(t.Context())
	m.request("asks", "M", "trades", 0)
	m.session("short", live, 1)
	m.session("short", live, -1)
	m.session("last", live, 1)
	if m.idle != 2 {
		t.Errorf("%d uses without a connection", m.idle)
	}
	m.flush(t.Context())
	for user, connections := range map[string]int{"asks": 0, "short": 1, "last": 1} {
		key := usageRow{kind{"M", "trades", 0}, user, time.Now().UTC().Format("2006-01")}
		if got, ok := l.usage[key]; !ok || got.Connections != connections {
			t.Errorf("of %s is written: %+v", user, got)
		}
	}
}

// TestMeterLetsGo has what looks at all users done in pieces, with the lock free between them, and none of it by who tells a use.
func TestMeterLetsGo(t *testing.T) {
	l := &ledger{usage: map[usageRow]store.Usage{}}
	m := newMeter(l, slog.New(slog.DiscardHandler))
	var seen []int // what a piece has left, of each
	left := func() int { return 0 }
	m.pause = func() {
		if !m.mu.TryLock() {
			t.Fatal("the lock is held between two pieces")
		}
		defer m.mu.Unlock()
		seen = append(seen, left())
	}
	pieces := func(what string, n int, step int) {
		t.Helper()
		if len(seen) != n {
			t.Errorf("%s: %d pieces, want %d", what, len(seen), n)
		}
		for i := 1; i < len(seen); i++ {
			if seen[i]-seen[i-1] != step {
				t.Fatalf("%s: piece %d goes from %d to %d", what, i, seen[i-1], seen[i])
			}
		}
		seen = nil
	}
	write := func() {
		m.write(t.Context())
		seen = nil
	}
	live := session.Use{Market: "M", Level: session.TradesLevel}

	const open = 4 * usagePiece
	for i := range open {
		m.session("u"+strconv.Itoa(i), live, 1)
	}
	write()
	for _, list := range m.users {
		list[0].last -= usageLast.Microseconds()
	}
	left = func() int { return m.changed.size }
	m.goOn()
	pieces("what goes on", 4, usagePiece)
	write()

	for i := range usageRows {
		m.request("r"+strconv.Itoa(i), "M", "trades", 0)
	}
	write()
	m.session("new", live, 1)
	m.session("new", live, -1)
	m.request("newer", "M", "trades", 0)
	if len(m.users) != open+usageRows+1 || m.lost != 1 {
		t.Errorf("%d users and %d left out: a use that is told makes room", len(m.users), m.lost)
	}
	left = func() int { return 0 }
	m.forget()
	pieces("what is written", (open+usageRows+1)/usagePiece, 0)
	if len(m.users) != open+1 || m.idle != 1 {
		t.Errorf("%d users, %d uses without a connection, once what is written is forgotten", len(m.users), m.idle)
	}

	for i := range usageRows + 2*usagePiece - 1 {
		m.session("v"+strconv.Itoa(i), live, 1)
		m.session("v"+strconv.Itoa(i), live, -1)
	}
	left = func() int { return m.idle }
	m.drop()
	pieces("what waits", 2, -usagePiece)
	if m.idle != usageRows {
		t.Errorf("%d uses wait", m.idle)
	}
}

// TestMeterTurnOfTheMonth lets a month begin between two pieces of a look at all users, who are told to go on meanwhile.
func TestMeterTurnOfTheMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{usage: map[usageRow]store.Usage{}}
		m := newMeter(l, slog.New(slog.DiscardHandler))
		live := session.Use{Market: "M", Level: session.TradesLevel}
		for i := range 2 * usagePiece {
			m.session("u"+strconv.Itoa(i), live, 1)
		}
		m.write(t.Context())
		time.Sleep(31*24*time.Hour - time.Second) // from 2000-01-01 on
		m.pause = func() {
			m.pause = func() {}
			time.Sleep(2 * time.Second)
			for user := range m.users {
				m.session(user, live, 1)
			}
		}
		m.goOn()
		for user, list := range m.users {
			if x := &list[0]; x.month != monthOf(time.Now()) || x.days != 1 || x.most != 2 {
				t.Fatalf("%s has %+v", user, x)
			}
		}
		if m.ended.size != usagePiece || m.changed.size != 2*usagePiece {
			t.Errorf("%d rows of the month before and %d users wait", m.ended.size, m.changed.size)
		}
	})
}

// TestMeterKeepJoins has a row come back unwritten after its user was forgotten, and came again with less.
func TestMeterKeepJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{usage: map[usageRow]store.Usage{}}
		m := newMeter(l, slog.New(slog.DiscardHandler))
		live := session.Use{Market: "M", Level: session.TradesLevel}
		begin := time.Now() // 2000-01-01
		for _, by := range []int{1, 1, 1, -1, -1, -1} {
			m.session("u", live, by)
		}
		rows := m.take()
		m.remove("u", m.users["u"], func(x used) bool { return !x.changed })
		time.Sleep(24 * time.Hour)
		m.session("u", live, 1)
		m.keep(rows)
		m.flush(t.Context())
		got := l.usage[usageRow{kind{"M", "trades", 0}, "u", "2000-01"}]
		if got.Connections != 3 || got.Days != 1<<2-1 || !got.First.Equal(begin) || !got.Last.Equal(time.Now()) || l.writes != 1 {
			t.Errorf("%d writes, the last of %+v", l.writes, got)
		}
	})
}

// TestUsageQueue is first in, first out over several blocks, and none of its steps makes or moves more than a block.
func TestUsageQueue(t *testing.T) {
	var q queue[int]
	in, out := 0, 0
	for _, n := range []int{3 * queueBlock, -queueBlock - 1, 1, -2*queueBlock + 1, -1, 5, -5} {
		for ; n > 0; n-- {
			q.push(in)
			in++
		}
		for ; n < 0; n++ {
			if got := q.pop(); got != out {
				t.Fatalf("%d comes, want %d", got, out)
			}
			out++
		}
		if q.size != in-out || len(q.blocks) > q.size/queueBlock+2 {
			t.Fatalf("%d elements in %d blocks, want %d", q.size, len(q.blocks), in-out)
		}
		for _, b := range q.blocks {
			if len(b) == 0 || cap(b) > queueBlock {
				t.Fatalf("a block of %d with room for %d", len(b), cap(b))
			}
		}
	}
}

// TestDenials tells each denial once an hour, those of unlisted markets as one, and waits for a database that is down.
func TestDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		d := newDenials(l, func(name string) bool { return name == "M" }, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		for range 1000 {
			d.session("u1", "M", session.BookLevel, wire.NotEntitled)
		}
		for i := range 1000 {
			d.note("u1", "M"+string(rune('a'+i%26))+string(rune('a'+i/26)), "trades", "not_entitled")
		}
		synctest.Wait()
		l.set(true)
		time.Sleep(time.Hour)
		d.session("u1", "M", session.BookLevel, wire.NotEntitled)
		for i := range 10 * denialsWait { // and nobody is kept waiting
			d.note("u2", "*", "trades", string(rune(i)))
		}
		time.Sleep(time.Minute)
		l.set(false)
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := len(l.events); n < 4 || n > 4+2*denialsWait {
			t.Fatalf("%d events", n)
		}
		for i, want := range []string{"order_book M not_entitled", "trades ? not_entitled", "order_book M not_entitled"} {
			if e := l.events[i]; e.Kind != audit.AccessDenied || e.User != "u1" || e.Detail != want || e.Actor != "client" {
				t.Errorf("event %d: %+v, want %s", i, e, want)
			}
		}
	})
}
