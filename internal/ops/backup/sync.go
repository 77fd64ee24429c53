//go:build !windows

package backup

import (
	"errors"
	"fmt"
	"os"
)

// syncFolder syncs the entries of a folder.
func syncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
