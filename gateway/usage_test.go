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
		if m.mu.Lock(); len(m.changed) != 3 {
			t.Errorf("%d rows wait", len(m.changed))
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
	if m.size != usageRows || m.lost != 1000 {
		t.Errorf("%d are kept and %d left out", m.size, m.lost)
	}
	visits := 0
	for range 45 {
		m.flush(t.Context())
		for range usageRows / 20 {
			visit("v" + strconv.Itoa(visits))
			visits++
		}
		if m.size > 2*usageRows+usageRows/20 || len(m.changed) > 2*usageRows+usageRows/20 {
			t.Fatalf("%d are kept, %d to be written, after %d visits", m.size, len(m.changed), visits)
		}
	}
	l.set(false)
	kept := m.size
	m.flush(t.Context())
	if len(l.usage) != kept || len(m.changed) != 0 {
		t.Errorf("%d of %d written, %d wait", len(l.usage), kept, len(m.changed))
	}
	last := usageRow{kind{"M", "quotes", 0}, "v" + strconv.Itoa(visits-1), time.Now().UTC().Format("2006-01")}
	if got := l.usage[last]; got.Connections != 1 {
		t.Errorf("the last visit is written as %+v", got)
	}
	for i := range usageRows { // written: these make room
		request("s" + strconv.Itoa(i))
	}
	if m.size != usageRows || m.lost != 0 {
		t.Errorf("%d are kept and %d left out once there is room", m.size, m.lost)
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
