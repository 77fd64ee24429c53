package usage

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/identity/store"
)

const (
	instrumentFlush = time.Second     // between two writes
	instrumentRows  = 1 << 17         // pending rows
	instrumentRead  = 2 * time.Second // longest read for a request
)

// InstrumentStore stores the instruments that users with limited rights have requested.
type InstrumentStore interface {
	AddDailyInstruments(ctx context.Context, oldest string, list []store.DailyInstrument) error
	DailyInstruments(ctx context.Context, day, user string) ([]store.DailyInstrument, error)
}

// Instruments keeps what an entitlement.Daily counts, which it implements the store of. Requests
// wait for the store only at the first request of a user, and once a minute. Run writes the rows.
// While the store is down, rows wait in memory.
type Instruments struct {
	store InstrumentStore
	log   *slog.Logger

	mu      sync.Mutex
	pending map[entitlement.Counted]struct{} // until they are written
	lost    int                              // left out since the last flush
}

// NewInstruments returns an Instruments that writes to s. Run must be called.
func NewInstruments(s InstrumentStore, log *slog.Logger) *Instruments {
	return &Instruments{store: s, log: log, pending: make(map[entitlement.Counted]struct{})}
}

// Count implements entitlement.DailyStore.
func (m *Instruments) Count(c entitlement.Counted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pending) >= instrumentRows {
		m.lost++
		return
	}
	m.pending[c] = struct{}{}
}

// Counted implements entitlement.DailyStore.
func (m *Instruments) Counted(user, day string) (list []entitlement.Counted) {
	ctx, cancel := context.WithTimeout(context.Background(), instrumentRead)
	defer cancel()
	// Pending rows are read first: a row that is written meanwhile is in both.
	m.mu.Lock()
	for c := range m.pending {
		if c.User == user && c.Day == day {
			list = append(list, c)
		}
	}
	m.mu.Unlock()
	rows, err := m.store.DailyInstruments(ctx, day, user)
	if err != nil {
		m.log.Warn("requested instruments not read, counting those in memory", "error", err)
	}
	for _, row := range rows {
		list = append(list, entitlement.Counted(row))
	}
	return list
}

// Run writes until ctx ends, and then once more.
func (m *Instruments) Run(ctx context.Context) error {
	tick := time.NewTicker(instrumentFlush)
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

// flush writes the pending rows. Rows that cannot be written stay pending.
func (m *Instruments) flush(ctx context.Context) {
	for {
		rows := m.some()
		if len(rows) == 0 {
			break
		}
		yesterday := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly) // clocks may differ
		if err := m.store.AddDailyInstruments(ctx, yesterday, rows); err != nil {
			m.log.Warn("requested instruments not written, retrying", "error", err)
			break
		}
		m.mu.Lock()
		for _, row := range rows {
			delete(m.pending, entitlement.Counted(row))
		}
		m.mu.Unlock()
	}
	m.mu.Lock()
	lost := m.lost
	m.lost = 0
	m.mu.Unlock()
	if lost > 0 {
		m.log.Error("requested instruments discarded: too much is waiting to be written", "count", lost)
	}
}

// some returns up to usageWrite pending rows, which stay pending.
func (m *Instruments) some() []store.DailyInstrument {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := make([]store.DailyInstrument, 0, min(len(m.pending), usageWrite))
	for c := range m.pending {
		if len(rows) == usageWrite {
			break
		}
		rows = append(rows, store.DailyInstrument(c))
	}
	return rows
}
