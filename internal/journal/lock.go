package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ruedahq/rueda/internal/flock"
)

// ErrLocked means that another process writes the journal.
var ErrLocked = errors.New("another process writes this journal")

// lockFolder locks a journal's folder for this process, until the file that it returns is closed.
func lockFolder(folder string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock journal: %w", err)
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock journal %s: %w", folder, err), f.Close())
	}
	return f, nil
}

// lockFile locks f. The error is ErrLocked if another process has it.
func lockFile(f *os.File) error {
	err := flock.Lock(f)
	if errors.Is(err, flock.ErrLocked) {
		return ErrLocked
	}
	return err
}
