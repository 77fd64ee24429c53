package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
	"github.com/ruedahq/rueda/internal/engine/journal/disk"
)

// CopyFiles calls copyFile with each file that a copy of the journal in a folder needs: its name,
// with slashes, and the open file, which copyFile must read to its end. Another process may write
// the journal. The copy then has all rows up to one that was committed after the call of CopyFiles,
// and may end with an incomplete frame, which is cut when the copy is opened. It has no state, so
// that it begins a new epoch.
//
// The newest day comes first. If the journal removes its oldest days meanwhile, the copy begins
// later.
func CopyFiles(ctx context.Context, folder string, copyFile func(name string, from *os.File) error) error {
	days, err := listStable(folder)
	if err != nil {
		return fmt.Errorf("copy the journal: %w", err)
	}
	for _, d := range slices.Backward(days) {
		err := d.copyFiles(ctx, folder, copyFile)
		if errors.Is(err, errDayRemoved) {
			return nil // with all days before it
		}
		if err != nil {
			return fmt.Errorf("copy day %s of the journal: %w", d.name, err)
		}
	}
	return nil
}

// listedDay has the names of the segments in the folder of a day, without their endings.
type listedDay struct {
	name     string
	first    uint32 // number of the first segment
	segments []string
}

// listStable lists the days in the order of writing. It lists them until they stay the same, so
// that no segment is missing before the last one.
func listStable(folder string) ([]listedDay, error) {
	for last := []listedDay(nil); ; {
		days, err := listDays(folder)
		if err != nil {
			return nil, err
		}
		if last != nil && slices.EqualFunc(days, last, func(x, y listedDay) bool {
			return x.name == y.name && slices.Equal(x.segments, y.segments)
		}) {
			return days, nil
		}
		last = days
	}
}

func listDays(folder string) ([]listedDay, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	days := []listedDay{}
	for _, e := range entries {
		if _, ok := parseDate(e.Name()); !ok || !e.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(folder, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		d := listedDay{name: e.Name()}
		for _, f := range files {
			n, _, ok := parseSegmentName(f.Name())
			stem, _, _ := strings.Cut(f.Name(), ".")
			if !ok || slices.Contains(d.segments, stem) {
				continue
			}
			if len(d.segments) == 0 { // files are sorted by name
				d.first = n
			}
			d.segments = append(d.segments, stem)
		}
		if len(d.segments) > 0 {
			days = append(days, d)
		}
	}
	slices.SortStableFunc(days, func(x, y listedDay) int { return cmp.Compare(x.first, y.first) })
	return days, nil
}

// errDayRemoved means that the journal has removed a day.
var errDayRemoved = errors.New("the day was removed")

// copyFiles opens all files of the day before it copies them, so that the day is copied as a whole
// or not at all.
func (d *listedDay) copyFiles(ctx context.Context, folder string, copyFile func(string, *os.File) error) (err error) {
	var files []*os.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, stem := range d.segments {
		f, err := openEither(filepath.Join(folder, d.name, stem))
		if errors.Is(err, fs.ErrNotExist) {
			return errDayRemoved
		}
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	index, err := disk.OpenFile(filepath.Join(folder, d.name, dayfile.Name))
	switch {
	case err == nil:
		files = append(files, index)
	case !errors.Is(err, fs.ErrNotExist): // the day is not closed
		return err
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := copyFile(path.Join(d.name, filepath.Base(f.Name())), f); err != nil {
			return err
		}
	}
	return nil
}

// openEither opens the file of a segment in the form that it has: Run may compress it at any time.
func openEither(name string) (f *os.File, err error) {
	for _, ending := range []string{packedEnding, segmentEnding, packedEnding} {
		if f, err = disk.OpenFile(name + ending); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, err
}

// Lock keeps other processes from writing the journal of a folder, which it creates if it is
// missing, until the result is closed. The error is ErrLocked while a process writes it.
func Lock(folder string) (io.Closer, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make journal folder: %w", err)
	}
	return lockFolder(folder)
}

// Newest returns the greatest position of a stored row of the newest epoch.
func (a *Archive) Newest() uint64 { return lastPosition(a.views("")) }
