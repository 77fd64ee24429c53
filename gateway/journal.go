package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/internal/journal"
)

// newestIn is the newest time of publication in a journal; zero: it has no row.
func newestIn(j *journal.Journal) (newest time.Time) {
	for _, d := range j.Days() {
		if at := time.Unix(0, d.To); d.Rows > 0 && at.After(newest) {
			newest = at
		}
	}
	return newest
}

// youngest is the age below which a temporary folder is left alone, whatever it looks like.
const youngest = time.Minute

// Temporary makes a folder for a journal below the system's for temporary files, which remove removes. It
// removes what processes that were killed have left of such folders: they are of this user, have a
// journal that nobody writes, and are older than a minute. prefix begins their names.
func (j Journal) Temporary(prefix string) (_ Journal, remove func() error, err error) {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	for _, folder := range old {
		if info, err := os.Lstat(folder); err == nil && info.IsDir() && time.Since(info.ModTime()) > youngest && isOwn(info) {
			removeAbandoned(folder)
		}
	}
	if j.Folder, err = os.MkdirTemp("", prefix); err != nil {
		return j, nil, fmt.Errorf("make a folder for the journal: %w", err)
	}
	return j, func() error { return os.RemoveAll(j.Folder) }, nil
}
