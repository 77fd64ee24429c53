package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/internal/base/flock"
)

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
