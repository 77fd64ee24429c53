package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal/state"
)

// Reader reads a journal that this process does not write.
type Reader struct{ *Archive }

// OpenReader opens the folder of a journal, or one segment of it, for reading. It does not affect a
// process that writes it, and sees what was committed before. If ctx ends
// first, the error is that of ctx.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	a, err := newArchive()
	if err != nil {
		return nil, err
	}
	r := &Reader{a}
	if info.IsDir() {
		before, _ := state.Read(path)
		err = a.load(ctx, path, false)
		if now, found := state.Read(path); err == nil && found && now == before {
			a.compareEnd(&now)
		}
	} else {
		err = a.loadFile(ctx, path)
	}
	if err == nil {
		err = a.findMinSeqs(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// compareEnd compares the newest segment with the state. After a clean end, no row may have been
// written since; after a kill, at least the segment must be there. While rows are being lost, the
// state says so until a Gap does.
func (a *Archive) compareEnd(s *state.State) {
	var last, filled *segment // filled has rows
	for _, d := range a.days {
		for _, g := range d.segments {
			if g.epoch != s.Epoch {
				continue
			}
			if last = g; g.rows > 0 {
				filled = g
			}
		}
	}
	if filled == nil {
		return
	}
	suspended := s.Suspended && len(last.gaps) == 0
	if suspended || last.damagedEnd() || last.number < s.Segment || s.Clean && last.number == s.Segment && last.end < s.End {
		a.endsEarly(filled, max(filled.to, time.Now().UnixNano()))
	}
}

// loadFile loads a single segment.
func (a *Archive) loadFile(ctx context.Context, path string) error {
	s := &segment{folder: filepath.Dir(path), name: filepath.Base(path), whole: true}
	if err := a.inspect(ctx, s, a.table); err != nil {
		return err
	}
	if s.header == (header{}) {
		return fmt.Errorf("open journal: %w", &s.damage[0])
	}
	a.days = []*day{{date: s.day, folder: s.folder, segments: []*segment{s}}}
	a.epoch, a.journal = s.epoch, s.journal
	return nil
}

// Damage returns the parts that cannot be read, and the excluded files, as of the opening of the
// journal.
func (a *Archive) Damage() []Damage {
	a.mu.RLock()
	defer a.mu.RUnlock()
	list := append([]Damage(nil), a.excluded...)
	for _, d := range a.days {
		for _, s := range d.segments {
			list = append(list, s.damage...)
		}
	}
	return list
}

// Close closes the reader.
func (r *Reader) Close() error { return r.Archive.close() }

// close closes the files of all days.
func (a *Archive) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	for _, d := range a.days {
		if d.index != nil {
			err = errors.Join(err, d.index.Close())
		}
	}
	a.days = nil
	a.unpack.Close()
	return err
}
