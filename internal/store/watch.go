package store

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
)

const (
	// watchEvery is how often Watch looks whether anybody wrote.
	watchEvery = 250 * time.Millisecond
	// fileMargin is how much later than its own time a revocation may be seen: its process waited for the write lock
	// (5 s at most), and has a clock of its own where the file is shared over a network.
	fileMargin = 15 * time.Second
)

// Watch implements auth.Store. A look costs a read of two numbers in memory, until somebody has written.
func (s *SQLite) Watch(ctx context.Context, tell func([]auth.Revocation)) (err error) {
	if s.path == "" { // in memory: there are no other processes
		<-ctx.Done()
		return nil
	}
	look, err := connect(s.path, "ro", 1) // the number counts what other connections commit
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, look.Close()) }()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	since, seen := time.Now(), int64(-1)
	told := make(map[string]time.Time)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var version int64
		err := look.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version)
		if err != nil || version == seen {
			continue // what is missed now is found by a later look
		}
		now := time.Now()
		list, err := s.Revoked(ctx, since.Add(-fileMargin))
		if err != nil {
			continue
		}
		since, seen = now, version
		if list = untold(list, told, since.Add(-fileMargin)); len(list) > 0 {
			tell(list)
		}
	}
}

// untold leaves those of a list that were not told yet, and forgets those that no list will have again.
func untold(list []auth.Revocation, told map[string]time.Time, since time.Time) []auth.Revocation {
	fresh := list[:0]
	for _, r := range list {
		if _, ok := told[r.Family]; !ok {
			told[r.Family] = r.At
			fresh = append(fresh, r)
		}
	}
	for id, at := range told {
		if at.Before(since) {
			delete(told, id)
		}
	}
	return fresh
}
