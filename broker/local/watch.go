package local

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// channel is the PostgreSQL channel of changes.
const channel = "rueda_users"

// watchEvery is how often Watch checks for changes by other processes: half of the 500 ms in which
// they must be noticed.
const watchEvery = 250 * time.Millisecond

// Watch calls changed after one or more changes to the user base, by this process or another. It
// returns nil when ctx ends. Renewed hashes and other tables do not count. Calls do not overlap.
func (b *Base) Watch(ctx context.Context, changed func()) error {
	if b.sql.postgres {
		return b.watchPostgres(ctx, changed)
	}
	here := b.nextChange()
	version, err := b.dataVersion(ctx)
	if err != nil {
		return fmt.Errorf("watch the user base: %w", err)
	}
	known, err := b.countChanges(ctx)
	if err != nil {
		return fmt.Errorf("watch the user base: %w", err)
	}
	elsewhere, stop, err := b.poll(ctx)
	if err != nil {
		return fmt.Errorf("watch the user base: %w", err)
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-here:
			here = b.nextChange() // before the call, so that no change is missed
			if n, err := b.countChanges(ctx); err == nil {
				known = n // the call has read everything up to n
			}
			changed()
		case <-elsewhere:
			// After an error the version still differs at the next check.
			v, err := b.dataVersion(ctx)
			if err != nil || v == version {
				continue
			}
			if n, err := b.countChanges(ctx); err == nil {
				version = v
				if n != known {
					known = n
					changed()
				}
			}
		}
	}
}

// changes are those of this process.
type changes struct {
	mu   sync.Mutex
	next chan struct{} // closed and replaced by each change
}

// nextChange returns a channel that the next change of this process closes.
func (b *Base) nextChange() <-chan struct{} {
	b.changes.mu.Lock()
	defer b.changes.mu.Unlock()
	return b.changes.next
}

// notify wakes Watch.
func (b *Base) notify() {
	b.changes.mu.Lock()
	defer b.changes.mu.Unlock()
	close(b.changes.next)
	b.changes.next = make(chan struct{})
}

// poll returns ticks for checks of the database, or nil for a database in memory, which has no
// other process.
func (b *Base) poll(ctx context.Context) (tick <-chan time.Time, stop func(), err error) {
	var file string
	err = b.writer.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&file)
	if err != nil || file == "" {
		return nil, func() {}, err
	}
	t := time.NewTicker(watchEvery)
	return t.C, t.Stop, nil
}

// dataVersion returns a number that changes when another connection commits. In this process only
// Writer writes, so that a change means another process.
func (b *Base) dataVersion(ctx context.Context) (v int64, err error) {
	err = b.writer.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&v)
	return v, err
}
