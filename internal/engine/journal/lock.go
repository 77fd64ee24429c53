package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ruedahq/rueda/internal/base/flock"
)

// ErrLocked means that another process writes the journal.
var ErrLocked = errors.New("another process writes this journal")

// lockFolder locks a journal's folder for this process, until the file that it returns is closed.
func lockFolder(folder string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock journal: %w", err)
	}
	if err := flock.Lock(f); err != nil {
		if errors.Is(err, flock.ErrLocked) {
			err = ErrLocked
		}
		return nil, errors.Join(fmt.Errorf("lock journal %s: %w", folder, err), f.Close())
	}
	return f, nil
}
