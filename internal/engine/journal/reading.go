package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ruedahq/rueda/internal/engine/journal/dayfile"
)

// reading reports how much of the segments of days without an index Open has read.
type reading struct {
	report      func(done, total int64) // bytes of files; nil: not reported
	done, total int64                   // total is of all segments, done without the current one
	size        int64                   // of the current segment
}

// begin counts the bytes of the segments in folders of days.
func (r *reading) begin(folders []string) error {
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, dayfile.Name)); err == nil {
			continue
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, e := range entries {
			info, err := e.Info()
			if _, _, ok := parseSegmentName(e.Name()); ok && err == nil {
				r.total += info.Size()
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// part reports that done of all bytes of the current segment were read. A compressed file has fewer
// bytes than its segment.
func (r *reading) part(done, all int64) {
	if r.report != nil {
		r.report(min(r.done+(r.size>>10)*(done>>10)/max(all>>10, 1)<<10, r.total), r.total)
	}
}
