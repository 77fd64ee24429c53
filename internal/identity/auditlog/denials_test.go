package auditlog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/wire"
)

// testLog is an audit log in memory that may be down.
type testLog struct {
	mu     sync.Mutex
	down   bool
	events []audit.Event
}

func (l *testLog) Append(_ context.Context, events ...audit.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return errors.New("down")
	}
	l.events = append(l.events, events...)
	return nil
}

func (l *testLog) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// TestDenials writes each denial once an hour, those of all unlisted markets as one, and retries
// while the database is down.
func TestDenials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &testLog{}
		d := NewDenials(l, func(name string) bool { return name == "M" }, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		for range 1000 {
			d.Session("u1", "M", wire.OrderBook, wire.NotEntitled)
		}
		for i := range 1000 {
			d.Request("u1", "M"+string(rune('a'+i%26))+string(rune('a'+i/26)), "trades", "not_entitled")
		}
		synctest.Wait()
		l.setDown(true)
		time.Sleep(time.Hour)
		d.Session("u1", "M", wire.OrderBook, wire.NotEntitled)
		for i := range 10 * maxQueued { // none of these blocks
			d.Request("u2", "*", "trades", string(rune(i)))
		}
		time.Sleep(time.Minute)
		l.setDown(false)
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := len(l.events); n < 4 || n > 4+2*maxQueued {
			t.Fatalf("%d events", n)
		}
		for i, want := range []string{"order_book M not_entitled", "trades ? not_entitled", "order_book M not_entitled"} {
			if e := l.events[i]; e.Kind != audit.AccessDenied || e.User != "u1" || e.Detail != want || e.Actor != "client" {
				t.Errorf("event %d: %+v, want %s", i, e, want)
			}
		}
	})
}
