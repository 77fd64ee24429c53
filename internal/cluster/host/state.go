package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
)

// save stores the state of the node. It logs when a regular save fails, and when a later one
// succeeds.
func (h *Host) save(a cluster.Save) error {
	if h.grown {
		return nil // endGrowth stores it
	}
	err := writeState(h.cfg.Setup.folder, a.State, !a.Regular)
	if err != nil && !a.Regular {
		return err
	}
	if was := h.unsaved; was != (err != nil) {
		h.unsaved = !was
		if h.unsaved {
			h.log.Error("the state of the node cannot be stored; it continues, and tries again every second", "error", err)
		} else {
			h.log.Info("the state of the node is stored again")
		}
	}
	return nil
}

// saveLast stores the state at the end of the process, so that it is that of the newest row.
func (h *Host) saveLast() error {
	s, ok := h.node.State()
	if !ok {
		return nil
	}
	h.cfg.Hub.Commit()
	return writeState(h.cfg.Setup.folder, s, true)
}

// readState returns the stored state of a node; a zero one if there is none. A file without
// content, which the loss of power can leave, is none.
func readState(folder string) (s cluster.State, err error) {
	text, err := os.ReadFile(statePath(folder))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read the state of the node: %w", err)
	}
	return s, nil
}

// writeState stores the state of a node, so that it survives a kill of the process. With sync it
// survives a loss of power too.
func writeState(folder string, s cluster.State, sync bool) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = replaceFile(statePath(folder), text, sync)
	}
	if err != nil {
		return fmt.Errorf("store the state of the node: %w", err)
	}
	return nil
}

// replaceFile writes a file in one step.
func replaceFile(path string, text []byte, sync bool) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if sync && err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if !sync || err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// resetPath returns the file that requests an empty journal at the next start.
func resetPath(folder string) string { return filepath.Join(folder, "reset") }

// writeReset requests an empty journal for an epoch at the next start.
func writeReset(folder, epoch string) error {
	if err := os.WriteFile(resetPath(folder), []byte(epoch), 0o600); err != nil {
		return fmt.Errorf("request an empty journal: %w", err)
	}
	return nil
}

// epochOf returns the epoch that a journal must have; "": the one that it has. If its rows are not
// those of the log, it is moved away. folder is that of the node's state.
func epochOf(folder, journal string) (epoch string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of the node's state: %w", err)
	}
	text, err := os.ReadFile(resetPath(folder))
	if errors.Is(err, fs.ErrNotExist) {
		s, err := readState(folder)
		return s.History.Epoch, err
	}
	if err != nil {
		return "", fmt.Errorf("read the request for an empty journal: %w", err)
	}
	old := journal + ".old-" + time.Now().UTC().Format("20060102T150405.000")
	if err := os.Rename(journal, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("move the journal away: %w", err)
	}
	if err := errors.Join(removeIfThere(statePath(folder)), removeIfThere(resetPath(folder))); err != nil {
		return "", fmt.Errorf("remove the state of the node: %w", err)
	}
	return string(text), nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
