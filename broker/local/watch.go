package local

import (
	"context"
	"fmt"
	"time"
)

// channel is what PostgreSQL tells changes of these tables by.
const channel = "rueda_users"

// watchEvery is how often Watch looks for changes by other processes: half of the
// 500 ms in which they must be noticed.
const watchEvery = 250 * time.Millisecond

// Watch calls changed after each change to the user base, or several at once, made
// by this process or another, until ctx ends; it then returns nil. Neither a renewed hash nor what else is
// written to the database counts. One call runs at a time.
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
			here = b.nextChange() // before the call, so that none is missed meanwhile
			if n, err := b.countChanges(ctx); err == nil {
				known = n // all of which is read now
			}
			changed()
		case <-elsewhere:
			// A look that fails is made again: the version still differs then.
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

// nextChange is closed by the next change that this process makes.
func (b *Base) nextChange() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// tell wakes Watch.
func (b *Base) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

// poll gives a tick for each look at the database. One in memory has no other
// process, and nil never ticks.
func (b *Base) poll(ctx context.Context) (tick <-chan time.Time, stop func(), err error) {
	var file string
	err = b.writer.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&file)
	if err != nil || file == "" {
		return nil, func() {}, err
	}
	t := time.NewTicker(watchEvery)
	return t.C, t.Stop, nil
}

// dataVersion changes when another connection than the writer's commits. In this
// process no other connection writes, so that it means another process.
func (b *Base) dataVersion(ctx context.Context) (v int64, err error) {
	err = b.writer.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&v)
	return v, err
}
