package usage

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// days is a database of requested instruments that may be down.
type days struct {
	mu   sync.Mutex
	down bool
	rows []store.DailyInstrument
}

func (d *days) set(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

func (d *days) AddDailyInstruments(_ context.Context, oldest string, list []store.DailyInstrument) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return errDown
	}
	d.rows = slices.DeleteFunc(d.rows, func(x store.DailyInstrument) bool { return x.Day < oldest })
	d.rows = append(d.rows, list...)
	return nil
}

func (d *days) DailyInstruments(_ context.Context, day, user string) (list []store.DailyInstrument, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, errDown
	}
	for _, x := range d.rows {
		if x.Day == day && x.User == user {
			list = append(list, x)
		}
	}
	return list, nil
}

// TestThreat23QuotaSurvivesOutages counts instruments while the database is down. They count at
// once, are written when it is back, and are read after a restart.
func TestThreat23QuotaSurvivesOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &days{}
		ctx, cancel := context.WithCancel(t.Context())
		m := NewInstruments(db, slog.New(slog.DiscardHandler))
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		db.set(true)
		const count = 2500 // some writes
		today := time.Now().UTC().Format(time.DateOnly)
		for i := range count {
			m.Count(entitlement.Counted{Day: today, User: "u", Entitlement: "e", Instrument: strconv.Itoa(i)})
		}
		m.Count(entitlement.Counted{Day: today, User: "v", Entitlement: "e", Instrument: "1"})
		time.Sleep(5 * time.Second)
		if n := len(m.Counted("u", today)); n != count {
			t.Errorf("%d counted while the database is down, want %d", n, count)
		}
		db.set(false)
		time.Sleep(2 * time.Second)
		if n := len(NewInstruments(db, slog.New(slog.DiscardHandler)).Counted("u", today)); n != count {
			t.Errorf("%d counted after a restart, want %d", n, count)
		}
		time.Sleep(48 * time.Hour)
		m.Count(entitlement.Counted{Day: "2000-01-03", User: "u", Entitlement: "e", Instrument: "1"})
		cancel() // writes the last one
		if err := <-ended; err != nil || len(db.rows) != 1 || len(m.pending) != 0 {
			t.Errorf("%v; %d rows, want those of the last days", err, len(db.rows))
		}
	})
}

// TestInstrumentsAreBounded checks the rows that wait for a database.
func TestInstrumentsAreBounded(t *testing.T) {
	m := NewInstruments(&days{down: true}, slog.New(slog.DiscardHandler))
	for i := range instrumentRows + 5 {
		m.Count(entitlement.Counted{Day: "2000-01-01", User: "u", Instrument: strconv.Itoa(i)})
	}
	if len(m.pending) != instrumentRows || m.lost != 5 {
		t.Errorf("%d pending, %d lost", len(m.pending), m.lost)
	}
}
