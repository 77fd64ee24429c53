package usage

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/base/cache"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/identity/store"
	"github.com/ruedahq/rueda/wire"
)

// ledger is a database in memory that may be down.
type ledger struct {
	mu     sync.Mutex
	down   bool
	usage  map[usageRow]store.Usage
	writes int
}

// usageRow is what there is one row of.
type usageRow struct {
	usageKind
	user, month string
}

func rowOf(u *store.Usage) usageRow {
	return usageRow{usageKind{u.Market, u.Level, u.Delay}, u.UserID, u.Month}
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

func (l *ledger) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// TestUsage uses data for some weeks of virtual time, with the database down in between.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{usage: map[usageRow]store.Usage{}}
		m := NewMeter(l, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		begin := time.Now() // 2000-01-01
		live := session.Use{Market: "M", Level: wire.Trades}
		late := session.Use{Market: "M", Level: wire.OrderBook, Delay: 900}
		m.Session("u1", live, 1)
		m.Session("u1", live, 1)
		m.Session("u2", late, 1)
		time.Sleep(time.Minute)
		m.Session("u1", live, -1)
		m.Session("u2", late, -1)
		ended := time.Now()
		l.set(true)
		time.Sleep(48*time.Hour + time.Second)
		for range 10_000 {
			m.Request("u3", "M", "quotes", 0)
		}
		time.Sleep(time.Hour)
		if m.mu.Lock(); len(m.pending) != 3 {
			t.Errorf("%d rows wait", len(m.pending))
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
			{usageKind{"M", "trades", 0}, "u1", "2000-01"}:       {Days: 1<<31 - 1, Connections: 2, First: begin},
			{usageKind{"M", "trades", 0}, "u1", "2000-02"}:       {Days: 1<<2 - 1, Connections: 1},
			{usageKind{"M", "order_book", 900}, "u2", "2000-01"}: {Days: 1, Connections: 1, First: begin, Last: ended},
			{usageKind{"M", "quotes", 0}, "u3", "2000-01"}:       {Days: 1 << 2},
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

// fewRows is the bound of meters in tests.
const fewRows = 5000

// TestUsageIsBounded has more users than rows may wait while the database is down: users of
// requests and users who connect and leave. What is kept of them is written in the end.
func TestUsageIsBounded(t *testing.T) {
	l := &ledger{usage: map[usageRow]store.Usage{}, down: true}
	m := newMeter(l, slog.New(slog.DiscardHandler), fewRows)
	for i := range fewRows {
		m.Request("r"+strconv.Itoa(i), "M", "quotes", 0)
	}
	m.flush(t.Context())
	for i := range 1000 {
		m.Request("r"+strconv.Itoa(fewRows+i), "M", "quotes", 0)
		m.Session("v"+strconv.Itoa(i), session.Use{Market: "M", Level: wire.Quotes}, 1)
		m.Session("v"+strconv.Itoa(i), session.Use{Market: "M", Level: wire.Quotes}, -1)
	}
	// The row of an open connection is kept. The first visit has left one, so that there is no space
	// for others.
	if len(m.pending) > fewRows+1 || m.lost < 1000 || m.closed.Len() > fewRows {
		t.Errorf("%d rows wait, %d were left out, %d uses are kept", len(m.pending), m.lost, m.closed.Len())
	}
	l.set(false)
	kept := len(m.pending)
	m.flush(t.Context())
	if len(l.usage) != kept || len(m.pending) != 0 || m.lost != 0 {
		t.Errorf("%d of %d written, %d wait, %d left out", len(l.usage), kept, len(m.pending), m.lost)
	}
	for i := range fewRows { // there is space again
		m.Request("s"+strconv.Itoa(i), "M", "quotes", 0)
	}
	if len(m.pending) != fewRows || m.lost != 0 {
		t.Errorf("%d rows wait and %d were left out after all were written", len(m.pending), m.lost)
	}
	if n := m.closed.Len(); n > fewRows {
		t.Errorf("%d uses are kept", n)
	}
}

// TestUsageOfManyConnections has more connections open than rows may wait: requests and short
// connections count too.
func TestUsageOfManyConnections(t *testing.T) {
	l := &ledger{usage: map[usageRow]store.Usage{}}
	m := newMeter(l, slog.New(slog.DiscardHandler), fewRows)
	live := session.Use{Market: "M", Level: wire.Trades}
	for i := range 2 * fewRows {
		m.Session("u"+strconv.Itoa(i), live, 1)
	}
	if len(m.pending) != 2*fewRows || m.lost != 0 {
		t.Errorf("%d rows wait, %d were left out", len(m.pending), m.lost)
	}
	m.Request("asks", "M", "trades", 0)
	m.Session("short", live, 1)
	m.Session("short", live, -1)
	m.Session("last", live, 1)
	m.flush(t.Context())
	for user, connections := range map[string]int{"asks": 0, "short": 1, "last": 1} {
		key := usageRow{usageKind{"M", "trades", 0}, user, time.Now().UTC().Format("2006-01")}
		if got, ok := l.usage[key]; !ok || got.Connections != connections {
			t.Errorf("of %s is written: %+v", user, got)
		}
	}
	if len(l.usage) != 2*fewRows+3 {
		t.Errorf("%d rows written", len(l.usage))
	}
}

// TestUsageInPieces checks that all uses are recorded and written in pieces, without the lock
// between them.
func TestUsageInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{usage: map[usageRow]store.Usage{}}
		m := NewMeter(l, slog.New(slog.DiscardHandler))
		var pending []int // after each piece
		m.pause = func() {
			if !m.mu.TryLock() {
				t.Fatal("the lock is held between two pieces")
			}
			defer m.mu.Unlock()
			pending = append(pending, len(m.pending))
		}
		const open = 4 * usagePiece
		for i := range open {
			m.Session("u"+strconv.Itoa(i), session.Use{Market: "M", Level: wire.Trades}, 1)
		}
		m.flush(t.Context())
		if want := []int{open - 1000, open - 2000, open - 3000, open - 4000, 0}; !slices.Equal(pending[4:], want) {
			t.Errorf("%v rows wait after each write, want %v", pending[4:], want)
		}
		time.Sleep(usageRepeat)
		pending = nil
		m.recordOpen()
		if want := []int{usagePiece, 2 * usagePiece, 3 * usagePiece, open}; !slices.Equal(pending, want) {
			t.Errorf("%v rows wait after each piece, want %v", pending, want)
		}
	})
}

// TestUsageOverTheMonth lets a month begin between two pieces of a look at all uses. Meanwhile all
// users open another connection.
func TestUsageOverTheMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{usage: map[usageRow]store.Usage{}}
		m := NewMeter(l, slog.New(slog.DiscardHandler))
		live := session.Use{Market: "M", Level: wire.Trades}
		const open = 2 * usagePiece
		for i := range open {
			m.Session("u"+strconv.Itoa(i), live, 1)
		}
		m.flush(t.Context())
		time.Sleep(31*24*time.Hour - time.Second) // from 2000-01-01 on
		m.pause = func() {
			m.pause = func() {}
			time.Sleep(2 * time.Second)
			for i := range open {
				m.Session("u"+strconv.Itoa(i), live, 1)
			}
		}
		m.recordOpen()
		months := map[string]int{}
		for k, row := range m.pending {
			months[k.month]++
			if k.month == "2000-02" && (row.Days != 1 || row.Connections != 2) {
				t.Fatalf("%s has %+v", k.user, row)
			}
		}
		if months["2000-01"] != usagePiece || months["2000-02"] != open {
			t.Errorf("rows by month: %v", months)
		}
	})
}

// TestUsageIsMerged makes a row pending again after its user was forgotten and came back with less.
func TestUsageIsMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{usage: map[usageRow]store.Usage{}}
		m := NewMeter(l, slog.New(slog.DiscardHandler))
		live := session.Use{Market: "M", Level: wire.Trades}
		begin := time.Now() // 2000-01-01
		for _, by := range []int{1, 1, 1, -1, -1, -1} {
			m.Session("u", live, by)
		}
		rows := m.take()
		m.closed = cache.New[usageKey, use](usageRows)
		time.Sleep(24 * time.Hour)
		m.Session("u", live, 1)
		m.putBack(rows)
		m.flush(t.Context())
		got := l.usage[usageRow{usageKind{"M", "trades", 0}, "u", "2000-01"}]
		if got.Connections != 3 || got.Days != 1<<2-1 || !got.First.Equal(begin) || !got.Last.Equal(time.Now()) || l.writes != 1 {
			t.Errorf("%d writes, the last of %+v", l.writes, got)
		}
	})
}
