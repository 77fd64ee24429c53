package store

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
)

const (
	// watchEvery is how often Watch checks for writes.
	watchEvery = 250 * time.Millisecond
	// fileMargin is how much later than its time a revocation may become visible: its process may
	// wait 5 s for the write lock, and may have another clock if the file is on a network.
	fileMargin = 15 * time.Second
)

// Watch implements auth.Store. A check reads one number in memory unless another process has
// written.
func (s *SQLite) Watch(ctx context.Context, report func([]auth.Revocation)) (err error) {
	if s.path == "" { // in memory: there are no other processes
		<-ctx.Done()
		return nil
	}
	conn, err := connect(s.path, "ro", 1) // separate: data_version counts commits of other connections
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	since, seen := time.Now(), int64(-1)
	reported := make(map[string]time.Time)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var version int64
		err := conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version)
		if err != nil || version == seen {
			continue // a later check finds it
		}
		now := time.Now()
		list, err := s.Revoked(ctx, since.Add(-fileMargin))
		if err != nil {
			continue
		}
		since, seen = now, version
		if list = unreported(list, reported, since.Add(-fileMargin)); len(list) > 0 {
			report(list)
		}
	}
}

// unreported returns the revocations of list that were not reported yet, and removes from reported
// those that are too old to come again.
func unreported(list []auth.Revocation, reported map[string]time.Time, since time.Time) []auth.Revocation {
	fresh := list[:0]
	for _, r := range list {
		if _, ok := reported[r.Family]; !ok {
			reported[r.Family] = r.At
			fresh = append(fresh, r)
		}
	}
	for id, at := range reported {
		if at.Before(since) {
			delete(reported, id)
		}
	}
	return fresh
}
