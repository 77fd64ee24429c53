//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrLocked says that another process writes the journal.
var ErrLocked = errors.New("another process writes this journal")

// lockFolder opens the lock file. There is no flock here: that nobody else writes is for the operator to see to.
func lockFolder(folder string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock journal: %w", err)
	}
	return f, nil
}
