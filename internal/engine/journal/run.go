package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
)

// Run syncs files and looks for free space on a full disk. Another goroutine closes days,
// compresses their segments and removes old ones. Run returns nil when ctx has ended and both are
// done.
func (j *Journal) Run(ctx context.Context) error {
	enc, err := newEncoder()
	if err != nil {
		return err
	}
	defer func() { _ = enc.Close() }() // writes to memory only
	ended := make(chan struct{}, 1)    // a segment has ended
	var days sync.WaitGroup
	days.Go(func() { j.keepDays(ctx, enc, ended) })
	defer days.Wait()
	tick := time.NewTicker(j.cfg.Sync)
	defer tick.Stop()
	for {
		if err := j.syncFiles(); err != nil {
			j.syncErr.Store(&err)
		}
		if _, _, ok := j.Suspended(); ok && !j.space.Load() {
			j.space.Store(j.probe() == nil)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-j.wake:
			select {
			case ended <- struct{}{}:
			default:
			}
		}
	}
}

// keepDays closes days and removes old ones until ctx ends. After an error it retries after a
// minute.
func (j *Journal) keepDays(ctx context.Context, enc *zstd.Encoder, ended <-chan struct{}) {
	tick := time.NewTicker(j.cfg.Sync)
	defer tick.Stop()
	var retryAt time.Time // after an error
	for {
		if now := time.Now(); !now.Before(retryAt) {
			if err := errors.Join(j.closeDays(ctx, enc), j.retain(ctx)); err != nil && ctx.Err() == nil {
				j.cfg.Logger.Warn("closing or removing a day of the journal failed; will retry", "error", err)
				retryAt = now.Add(time.Minute)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-ended:
		}
	}
}

// newEncoder returns a compressor for one goroutine. For rows, the fastest level produces files as
// small as the default level.
func newEncoder() (*zstd.Encoder, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("make compressor: %w", err)
	}
	return enc, nil
}

// syncFiles syncs everything that was written.
func (j *Journal) syncFiles() error {
	j.syncMu.Lock()
	live, seals, fresh := j.activeFile, j.sealedFiles, j.newFolders
	j.sealedFiles, j.newFolders = nil, nil
	j.syncMu.Unlock()
	var err error
	if j.dirty.Swap(false) && live != nil {
		err = j.syncFile(live)
	}
	for _, f := range seals {
		err = errors.Join(err, j.syncFile(f), f.Close())
	}
	slices.Sort(fresh)
	for _, folder := range slices.Compact(fresh) {
		// A day's folder may have been removed.
		if e := j.sys.SyncFolder(folder); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

// syncFile syncs a segment. After an error the kernel may drop pages and read other data from the
// disk, so the segment is verified from now on.
func (j *Journal) syncFile(f *os.File) error {
	err := j.sys.Sync(f)
	if err == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, d := range j.days {
		for _, s := range d.segments {
			if s.path(false) == f.Name() {
				s.verified = false
			}
		}
	}
	return err
}

// syncAll syncs all files including the active one.
func (j *Journal) syncAll() error {
	j.syncMu.Lock()
	if j.activeFile != nil {
		j.sealedFiles = append(j.sealedFiles, j.activeFile)
		j.activeFile = nil
	}
	j.syncMu.Unlock()
	return j.syncFiles()
}

// probe writes and removes a file of at least a megabyte, and of twice the last checkpoint.
func (j *Journal) probe() error {
	name := filepath.Join(j.cfg.Folder, probeName)
	f, err := j.sys.Open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("probe the disk: %w", err)
	}
	zeros := make([]byte, 64<<10)
	for n := max(1<<20, 2*j.need.Load()); n > 0 && err == nil; n -= int64(len(zeros)) {
		_, err = j.sys.Write(f, zeros)
	}
	return errors.Join(err, j.sys.Sync(f), f.Close(), j.sys.Remove(name))
}

// closeDays closes all days except the newest ones, and compresses their segments. Then it closes
// days with an old index again, newest first.
func (j *Journal) closeDays(ctx context.Context, enc *zstd.Encoder) error {
	j.mu.RLock()
	var todo, old []*day
	for _, d := range j.days[:j.firstNeeded()] {
		if d.index == nil || slices.ContainsFunc(d.segments, func(s *segment) bool { return !s.packed }) {
			todo = append(todo, d)
		} else if d.index.Old() && !d.kept {
			old = append(old, d)
		}
	}
	j.mu.RUnlock()
	slices.Reverse(old)
	var failed error
	for _, d := range append(todo, old...) {
		if err := j.closeDay(ctx, d, enc); err != nil {
			failed = errors.Join(failed, fmt.Errorf("close %s: %w", dateOf(d.date), err)) // continue with the others
		}
	}
	return failed
}

// firstNeeded returns the first day that must stay open: the one with the last complete checkpoint
// of this epoch, or if there is none with its first row; otherwise the newest.
func (j *Journal) firstNeeded() int {
	first := max(0, len(j.days)-1)
	for i := len(j.days) - 1; i >= 0; i-- {
		for _, s := range j.days[i].segments {
			if s.epoch != j.epoch {
				continue
			}
			if s.checkpoint != 0 {
				return i
			}
			first = i
		}
	}
	return first
}

// closeDay writes the index of a day and compresses its segments.
func (j *Journal) closeDay(ctx context.Context, d *day, enc *zstd.Encoder) error {
	path := filepath.Join(d.folder, dayfile.Name)
	ofDay := func(x *day, _ *segment) bool { return x == d }
	if index := j.indexOf(d); index != nil && index.Old() && !d.kept {
		j.renew(d)
	}
	if j.indexOf(d) == nil { // only this goroutine sets it
		if err := j.writeDay(ctx, path, d.date, j.selectViews(ofDay), enc); err != nil {
			return err
		}
		if err := j.sys.SyncFolder(d.folder); err != nil {
			return err
		}
		index, err := dayfile.Open(path, j.unpack)
		if err != nil {
			return err
		}
		index.Meta.Definitions = nil // the table has them
		bytes := index.Size
		for _, v := range j.selectViews(ofDay) {
			size, packed, err := v.stat()
			if err != nil {
				return errors.Join(err, index.Close())
			}
			if !packed {
				size = v.end
			}
			bytes += size
		}
		j.mu.Lock()
		d.index, d.bytes = index, bytes
		for _, s := range d.segments {
			s.blocks, s.series = nil, nil
		}
		j.mu.Unlock()
	}
	for _, v := range j.selectViews(ofDay) {
		if v.packed {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := j.pack(d, &v, enc); err != nil {
			return err
		}
	}
	return nil
}

// pack replaces a segment by its compressed form.
func (j *Journal) pack(d *day, v *segmentView, enc *zstd.Encoder) error {
	spans, err := v.spans()
	if err != nil {
		return err
	}
	from, err := j.openSegment(v.segment)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // only read from
	size, err := packSegment(&j.sys, from, v.segment, spans, enc)
	if err != nil {
		return err
	}
	if err := j.sys.SyncFolder(d.folder); err != nil {
		return err
	}
	j.mu.Lock()
	v.segment.packed = true
	d.bytes += size - v.end
	j.mu.Unlock()
	if err := j.sys.Remove(v.path(false)); err != nil {
		return fmt.Errorf("remove uncompressed segment: %w", err)
	}
	return nil
}

// retain removes the oldest closed days above the limits.
func (j *Journal) retain(ctx context.Context) error {
	for {
		d, err := retainOne(ctx, j)
		switch {
		case d == nil:
			return nil
		case err != nil:
			return fmt.Errorf("remove %s: %w", dateOf(d.date), err)
		}
		j.cfg.Logger.Info("an old day of the journal was removed", "path", d.folder, "bytes", d.bytes)
	}
}

// retainOne removes the oldest closed day if the journal is above the limits, and returns it.
func retainOne(ctx context.Context, j *Journal) (*day, error) {
	j.changing.Lock()
	defer j.changing.Unlock()
	d := j.tooOld()
	if d == nil {
		return nil, nil
	}
	if n := len(j.Earlier()); n > 0 { // days before a removed one cannot be added any more
		if err := giveUpEarlier(j, "the limits remove a day after them", n); err != nil {
			return d, err
		}
	}
	return d, j.removeDay(ctx, d)
}

// tooOld returns the oldest day if it must be removed, or nil.
func (j *Journal) tooOld() *day {
	closed, bytes := closedDays(j)
	j.mu.RLock()
	defer j.mu.RUnlock()
	if closed > 0 && j.days[0].index != nil && (closed > j.cfg.Days || bytes > j.cfg.Bytes) {
		return j.days[0]
	}
	return nil
}

// closedDays returns the number of closed days that count, and the bytes of all. Days that are not
// over by this machine's clock do not count unless all clocks are virtual, so that days of a wrong
// clock do not remove real ones. Their bytes count, because they occupy the disk.
func closedDays(j *Journal) (closed int, bytes int64) {
	today, alone := dayOf(time.Now().UnixNano()), !j.table.hasRealClock()
	j.mu.RLock()
	defer j.mu.RUnlock()
	for _, d := range j.days {
		if d.index == nil {
			continue
		}
		bytes += d.bytes
		if alone || d.date < today {
			closed++
		}
	}
	return closed, bytes
}

// removeDay removes the oldest day. First it raises minSeqs. Readers that no longer find the day
// then do not take the remaining rows for all rows. Then it renames the folder in one step, and
// removes it from the archive and from the disk.
func (j *Journal) removeDay(ctx context.Context, d *day) error {
	err := j.raiseMinSeqs(ctx, d)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	removed := filepath.Join(j.cfg.Folder, removedPrefix+filepath.Base(d.folder))
	if e := j.sys.Rename(d.folder, removed); e != nil {
		return errors.Join(err, e)
	}
	j.mu.Lock()
	j.days = slices.Delete(slices.Clone(j.days), 0, 1)
	index := d.index
	j.mu.Unlock()
	if index != nil { // otherwise it was damaged
		err = errors.Join(err, index.Close())
	}
	return errors.Join(err, j.sys.RemoveAll(removed), j.sys.SyncFolder(j.cfg.Folder))
}

// raiseMinSeqs sets minSeqs to those without a day.
func (j *Journal) raiseMinSeqs(ctx context.Context, d *day) error {
	return recomputeMinSeqs(ctx, j, func() []segmentView {
		return slices.DeleteFunc(j.views(""), func(v segmentView) bool { return v.day == d.date })
	})
}

// recomputeMinSeqs sets minSeqs to those of the segments that views returns.
func recomputeMinSeqs(ctx context.Context, j *Journal, views func() []segmentView) error {
	for {
		before := j.minSeqs.Load()
		f, err := j.readMinSeqs(ctx, views())
		if err != nil {
			return err
		}
		// A new gap may have set higher ones.
		if j.minSeqs.CompareAndSwap(before, &f) {
			return nil
		}
	}
}
