package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/internal/flock"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
)

// newestRow returns the publication time of the newest row of any of the instruments, or the zero
// time if there is none. It skips damaged rows.
func newestRow(ctx context.Context, j *journal.Journal, ids []market.InstrumentID) (newest time.Time, err error) {
	numbers := make(map[uint32]bool, len(ids))
	for _, id := range ids {
		if n, ok := j.Lookup(id); ok {
			numbers[n] = true
		}
	}
	at := int64(0)
	see := func(r *journal.Row) { at = max(at, r.At) }
	undamaged := func(err error) error {
		if _, ok := errors.AsType[*journal.Damage](err); ok {
			return nil
		}
		return err
	}
	// The indexes give a lower bound, so that the scan for rows without an index, such as those of
	// books, is short.
	for _, id := range ids {
		for _, channel := range [...]journal.Channel{journal.Trades, journal.Quotes, journal.Statuses} {
			series := journal.Series{Instrument: id, Channel: channel}
			err := j.Read(ctx, series, journal.Range{Reverse: true}, func(_ string, r *journal.Row) bool { see(r); return false })
			if undamaged(err) != nil {
				return newest, fmt.Errorf("read the newest rows of %s: %w", id, err)
			}
		}
	}
	kinds := ^(journal.Checkpoints | journal.Kinds(journal.Gap))
	for _, epoch := range j.Epochs() {
		if len(numbers) == 0 {
			break
		}
		from := journal.ScanStart{Epoch: epoch, Time: at}
		err := j.Scan(ctx, from, func(n uint32) bool { return numbers[n] }, kinds, func(r *journal.Row) bool { see(r); return true })
		if undamaged(err) != nil {
			return newest, fmt.Errorf("read the newest rows of the journal: %w", err)
		}
	}
	if at != 0 {
		newest = time.Unix(0, at)
	}
	return newest, nil
}

// youngest is the age below which a temporary folder is not removed.
const youngest = time.Minute

// Temporary creates a folder for a journal in the system's folder for temporary files. remove
// removes it. Temporary also removes such folders of killed processes: those that belong to this
// user, are older than a minute, and have a journal that no process writes. prefix is the beginning
// of their names.
func (j Journal) Temporary(prefix string) (_ Journal, remove func() error, err error) {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, folder := range old {
		if info, err := os.Lstat(folder); err == nil && info.IsDir() && time.Since(info.ModTime()) > youngest && flock.Owned(info) {
			removeAbandoned(folder)
		}
	}
	if j.Folder, err = os.MkdirTemp("", prefix); err != nil {
		return j, nil, fmt.Errorf("make a folder for the journal: %w", err)
	}
	return j, func() error { return os.RemoveAll(j.Folder) }, nil
}

// removeAbandoned removes the folder of a journal, unless a process has it open or it has no
// journal.
func removeAbandoned(folder string) {
	lock, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = lock.Close() }() // nothing was written
	if flock.Lock(lock) == nil {
		_ = os.RemoveAll(folder) // the next call removes what is left
	}
}
