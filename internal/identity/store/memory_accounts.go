package store

import (
	"context"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// memoryFailures has the failures of an account.
type memoryFailures struct {
	count int
	last  time.Time
}

// ReserveFailure implements auth.Store.
func (m *Memory) ReserveFailure(_ context.Context, account auth.Hash, most int, window time.Duration, now time.Time) (wait time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.failures[account]
	switch {
	case now.Sub(f.last).Abs() >= window:
		f.count = 0
	case f.count >= most:
		return failureWait(f.last.UnixNano(), window, now), nil
	}
	m.failures[account] = memoryFailures{f.count + 1, now}
	return 0, nil
}

// SettleFailure implements auth.Store.
func (m *Memory) SettleFailure(_ context.Context, account auth.Hash, how throttle.Settlement) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.failures[account]; how == throttle.Succeeded {
		delete(m.failures, account)
	} else if f.count > 0 {
		m.failures[account] = memoryFailures{f.count - 1, f.last}
	}
	return nil
}

// TrustLocation implements auth.Store.
func (m *Memory) TrustLocation(_ context.Context, l throttle.TrustedLocation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locations = slices.DeleteFunc(m.locations, func(o throttle.TrustedLocation) bool {
		return o.Account == l.Account && o.Location == l.Location
	})
	m.locations = append(m.locations, l)
	slices.SortStableFunc(m.locations, func(a, b throttle.TrustedLocation) int { return b.Used.Compare(a.Used) })
	kept := 0
	m.locations = slices.DeleteFunc(m.locations, func(o throttle.TrustedLocation) bool {
		if o.Account == l.Account {
			kept++
		}
		return o.Account == l.Account && kept > throttle.MaxLocations
	})
	return nil
}

// TrustedLocations implements auth.Store.
func (m *Memory) TrustedLocations(_ context.Context, since time.Time, most int) (list []throttle.TrustedLocation, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.locations {
		if !l.Used.Before(since) && len(list) < most {
			list = append(list, l)
		}
	}
	return list, nil
}
