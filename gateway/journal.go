package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/internal/base/flock"
)

// youngest is the minimum age of an abandoned folder that Temporary removes.
const youngest = time.Minute

// Temporary returns j with a new folder in the system's folder for temporary files. The folder's
// name begins with prefix. remove deletes the folder. Temporary also deletes the folders that
// killed processes have left behind: those with the same prefix that belong to this user, are older
// than a minute, and contain a journal that no process has open.
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

// removeAbandoned deletes the folder of a journal. It does nothing if the folder contains no
// journal, or if a process has it open.
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
