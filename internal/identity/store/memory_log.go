package store

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// UseChain sets the key of the audit chain. Call it before any write.
func (m *Memory) UseChain(c audit.Chain) { m.chain = c }

// Chain returns the chain that UseChain has set.
func (m *Memory) Chain() audit.Chain { return m.chain }

// append adds an audit row. The caller holds mu.
func (m *Memory) append(e audit.Event) {
	head := m.start
	if n := len(m.log); n > 0 {
		head = m.log[n-1].Head()
	}
	m.log = append(m.log, m.chain.Next(head, e))
}

// Append implements auth.Store.
func (m *Memory) Append(ctx context.Context, events ...audit.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		m.append(e)
	}
	return nil
}

// AuditStart returns the head after which the oldest stored row follows; zero before any pruning.
func (m *Memory) AuditStart(ctx context.Context) (audit.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.start, nil
}

// AuditRows yields the rows after sequence number after, in order, without rows that are added
// later.
func (m *Memory) AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error] {
	m.mu.Lock()
	rows := slices.Clone(m.log)
	m.mu.Unlock()
	return func(yield func(audit.Row, error) bool) {
		for _, r := range rows {
			if r.Seq > after && !yield(r, nil) {
				return
			}
		}
	}
}

// AuditLast returns the newest n rows in order. An empty user or kind matches all.
func (m *Memory) AuditLast(ctx context.Context, n int, user string, kind audit.Kind) (list []audit.Row, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.log {
		if (user == "" || r.User == user) && (kind == "" || r.Kind == kind) {
			list = append(list, r)
		}
	}
	return list[max(0, len(list)-n):], nil
}

// PruneAudit deletes the rows before the first one that is not older than before, and returns their
// number.
func (m *Memory) PruneAudit(ctx context.Context, before time.Time) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for n < len(m.log) && m.log[n].Time.Before(before) {
		n++
	}
	if n == 0 {
		return 0, nil
	}
	to := m.log[n-1].Head()
	m.append(audit.PrunedEvent(time.Now(), to))
	m.log, m.start = slices.Clone(m.log[n:]), to
	return int64(n), nil
}
