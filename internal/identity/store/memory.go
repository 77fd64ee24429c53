package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// Memory is an auth.Store without persistence.
type Memory struct {
	mu       sync.Mutex
	log      []audit.Row
	start    audit.Head // of the log
	chain    audit.Chain
	families map[string]*auth.Family
	tokens   map[auth.Hash]*auth.RefreshToken

	failures  map[auth.Hash]memoryFailures
	locations []throttle.TrustedLocation // the last used first
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{
		families: make(map[string]*auth.Family),
		tokens:   make(map[auth.Hash]*auth.RefreshToken),
		failures: make(map[auth.Hash]memoryFailures),
	}
}

// CreateFamily implements auth.Store.
func (m *Memory) CreateFamily(ctx context.Context, f auth.Family, first auth.RefreshToken) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.families[f.ID] != nil || m.tokens[first.Hash] != nil {
		return errors.New("store a login: the family or token already exists")
	}
	m.families[f.ID] = &f
	m.tokens[first.Hash] = &first
	m.append(f.LoginEvent())
	return nil
}

// Lookup implements auth.Store.
func (m *Memory) Lookup(ctx context.Context, hash auth.Hash) (auth.RefreshToken, auth.Family, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tokens[hash]
	if t == nil {
		return auth.RefreshToken{}, auth.Family{}, auth.ErrNotFound
	}
	return *t, *m.families[t.Family], nil
}

// Rotate implements auth.Store.
func (m *Memory) Rotate(ctx context.Context, r auth.Rotation) (auth.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rows := auth.Rows{Presented: m.tokens[r.Presented], Parent: m.tokens[r.Parent]}
	switch {
	case rows.Presented != nil:
		rows.Parent, rows.Family = m.tokens[rows.Presented.Parent], m.families[rows.Presented.Family]
	case rows.Parent != nil:
		rows.Family = m.families[rows.Parent.Family]
	}
	outcome := r.Apply(&rows)
	switch outcome {
	case auth.Granted:
		m.tokens[r.Presented] = rows.Presented
		m.append(r.Event(outcome, rows.Family))
	case auth.Reused:
		m.append(r.Event(outcome, rows.Family))
	}
	return outcome, nil
}

func end(f *auth.Family, reason string, now time.Time) {
	if f.Revoked.IsZero() {
		f.Revoked, f.RevokedFor = now, reason
	}
}

// RevokeFamily implements auth.Store.
func (m *Memory) RevokeFamily(ctx context.Context, id, reason string, e audit.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.families[id]; f != nil && f.Revoked.IsZero() {
		end(f, reason, e.Time)
		e.Family, e.User = id, f.UserID
		m.append(e)
	}
	return nil
}

// RevokeUser implements auth.Store.
func (m *Memory) RevokeUser(ctx context.Context, userID, reason string, created time.Time, e audit.Event) (ids []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, f := range m.families {
		if f.UserID == userID && f.Revoked.IsZero() && f.Created.UnixNano() <= createdBy(created) {
			end(f, reason, e.Time)
			ids = append(ids, id)
		}
	}
	e.User = userID
	m.append(e)
	return ids, nil
}

// Revoked implements auth.Store.
func (m *Memory) Revoked(ctx context.Context, since time.Time) (list []auth.Revocation, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, f := range m.families {
		if !f.Revoked.IsZero() && !f.Revoked.Before(since) {
			list = append(list, auth.Revocation{Family: id, At: f.Revoked})
		}
	}
	return list, nil
}

// Families implements auth.Store.
func (m *Memory) Families(ctx context.Context, ids []string) (list []auth.Family, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if f := m.families[id]; f != nil {
			list = append(list, *f)
		}
	}
	return list, nil
}

// Sessions implements auth.Store.
func (m *Memory) Sessions(ctx context.Context, userID string, now time.Time) (list []auth.Family, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	live := make(map[string]bool)
	for _, t := range m.tokens {
		if (t.Dead.IsZero() || t.Successor == auth.Hash{}) && now.Before(t.Kept) {
			live[t.Family] = true
		}
	}
	for id, f := range m.families {
		if f.UserID == userID && f.Revoked.IsZero() && live[id] {
			list = append(list, *f)
		}
	}
	slices.SortFunc(list, func(a, b auth.Family) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// Watch implements auth.Store. There are no other processes to watch.
func (m *Memory) Watch(ctx context.Context, report func([]auth.Revocation)) error {
	<-ctx.Done()
	return nil
}

// Expire implements auth.Store.
func (m *Memory) Expire(ctx context.Context, now, keepRevoked time.Time) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := make(map[string]bool)
	for hash, t := range m.tokens {
		f := m.families[t.Family]
		if !t.Kept.After(now) || revokedBefore(f, keepRevoked) {
			delete(m.tokens, hash)
		} else {
			left[t.Family] = true
		}
	}
	families := 0
	for id, f := range m.families {
		if revokedBefore(f, keepRevoked) || f.Revoked.IsZero() && !left[id] {
			delete(m.families, id)
			families++
		}
	}
	return families, nil
}

// over reports whether a family was revoked before a time.
func revokedBefore(f *auth.Family, before time.Time) bool {
	return !f.Revoked.IsZero() && f.Revoked.Before(before)
}
