package copying

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// Install replaces the empty journal in folder by the copy that is next to it, if that is complete,
// and passes the state with which the node follows the log to store. A journal with rows is
// not replaced. Call it before the journal is opened. A call that was interrupted is continued by
// the next one.
func Install(folder string, store func(cluster.State) error) error {
	from := folder + copyEnding
	if _, err := os.Stat(filepath.Join(from, doneName)); err == nil {
		if err := replace(folder, from); err != nil {
			return fmt.Errorf("use the copy of a journal: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("use the copy of a journal: %w", err)
	}
	name := filepath.Join(folder, doneName)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var state cluster.State
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err == nil {
		err = store(state)
	}
	if err == nil {
		err = os.Remove(name)
	}
	if err != nil {
		return fmt.Errorf("use the state of a copied journal: %w", err)
	}
	return nil
}

// replace moves a copy to the place of an empty journal. It removes the copy if the journal has
// rows.
func replace(folder, from string) error {
	lock, err := journal.Lock(folder)
	if errors.Is(err, journal.ErrLocked) {
		return nil // journal.Open reports it
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // its file is removed
	days, err := filepath.Glob(filepath.Join(folder, "????-??-??"))
	if err != nil || len(days) > 0 {
		return errors.Join(err, os.RemoveAll(from))
	}
	if err := os.Remove(filepath.Join(from, fromName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.Rename(from, folder); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(folder))
}
