package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/internal/base/fileowner"
	"github.com/ruedahq/rueda/internal/base/flock"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/internal/identity/database"
)

// Source says what to back up.
type Source struct {
	Data    database.Config
	Journal string // folder of the journal; "": none
	Program string // version of this program
}

// Errors of Create.
var (
	// ErrExists means that the folder of a backup exists.
	ErrExists = errors.New("it exists already")
	// ErrRunning means that another process makes the same backup.
	ErrRunning = errors.New("another backup into this folder is running")
)

// incompleteEnding is the ending of the folder while it is written.
const incompleteEnding = ".incomplete"

// Create makes a backup in a new folder. Gateways may run. After an error there is no backup,
// because Create removes the files that it has written. It replaces the remains of an interrupted
// call.
func Create(ctx context.Context, src Source, folder string) (m *Manifest, err error) {
	folder = filepath.Clean(folder)
	if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = ErrExists
		}
		return nil, fmt.Errorf("make the backup %s: %w", folder, err)
	}
	w := &writer{folder: folder + incompleteEnding}
	lock, err := w.begin()
	if err != nil {
		return nil, fmt.Errorf("make the backup %s: %w", folder, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(w.folder))
		}
		err = errors.Join(err, lock.Close())
	}()
	if err := w.write(ctx, src); err != nil {
		return nil, fmt.Errorf("make the backup %s: %w", folder, err)
	}
	if err := os.Rename(w.folder, folder); err != nil {
		return nil, fmt.Errorf("complete the backup: %w", err)
	}
	return &w.manifest, syncFolder(filepath.Dir(folder))
}

// writer writes the files of a backup.
type writer struct {
	folder   string
	manifest Manifest
	folders  []string // with new entries
}

// begin creates the incomplete folder and locks it.
func (w *writer) begin() (lock *os.File, err error) {
	for range 2 {
		err := os.Mkdir(w.folder, 0o700)
		if errors.Is(err, fs.ErrExist) {
			err = checkOwn(w.folder)
		}
		if err != nil {
			return nil, err
		}
		if lock, err = os.Open(w.folder); err != nil {
			return nil, err
		}
		if err := flock.Lock(lock); err != nil {
			if errors.Is(err, flock.ErrLocked) {
				err = ErrRunning
			}
			return nil, errors.Join(err, lock.Close())
		}
		entries, err := os.ReadDir(w.folder)
		if err == nil && len(entries) == 0 {
			return lock, nil
		}
		// An interrupted backup has left it.
		if err := errors.Join(err, os.RemoveAll(w.folder), lock.Close()); err != nil {
			return nil, err
		}
	}
	return nil, ErrRunning
}

// checkOwn returns an error unless a folder belongs to this user alone: others could add files to
// it, or read the backup.
func checkOwn(folder string) error {
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	uid, ok := fileowner.Of(info)
	if !info.IsDir() || ok && (uid != os.Geteuid() || info.Mode().Perm()&0o077 != 0) {
		return fmt.Errorf("%s exists, and is not a folder of this user alone: remove it", folder)
	}
	return nil
}

func (w *writer) write(ctx context.Context, src Source) error {
	m := &w.manifest
	*m = Manifest{Version: manifestVersion, Program: src.Program, Created: time.Now().UTC().Truncate(time.Millisecond), Database: "sqlite"}
	if src.Data.Postgres != "" {
		m.Database = "postgres"
	}
	if err := database.Copy(ctx, src.Data, w.folder); err != nil {
		return err
	}
	var err error
	if m.Installation, err = database.Installation(ctx, src.Data, w.folder); err != nil {
		return err
	}
	for _, name := range database.FileNames() {
		if err := w.describe(ctx, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if src.Journal != "" {
		if err := w.journal(ctx, src.Journal); err != nil {
			return err
		}
	}
	for _, folder := range w.folders {
		if err := syncFolder(folder); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(w.folder, manifestName), append(text, '\n')); err != nil {
		return err
	}
	return syncFolder(w.folder)
}

// describe adds a file that is written already to the manifest.
func (w *writer) describe(ctx context.Context, name string) error {
	f, err := os.Open(filepath.Join(w.folder, name))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	sum, n, err := copyAll(ctx, io.Discard, f)
	if err != nil {
		return err
	}
	w.manifest.Files = append(w.manifest.Files, File{Name: name, Bytes: n, SHA256: sum})
	return nil
}

// ErrEarlier means that the journal is that of a new node of a cluster, which does not have all
// days yet.
var ErrEarlier = errors.New("this node of a cluster is new and still copies earlier days of its journal")

// journal copies the journal and reads the copy.
func (w *writer) journal(ctx context.Context, folder string) error {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil // the gateway has not started yet
	}
	if _, err := os.Stat(filepath.Join(folder, journal.EarlierName)); err == nil {
		return ErrEarlier
	}
	days := map[string]bool{}
	copied := filepath.Join(w.folder, journalFolder)
	if err := os.Mkdir(copied, 0o700); err != nil {
		return err
	}
	w.folders = append(w.folders, copied)
	err := journal.CopyFiles(ctx, folder, func(name string, from *os.File) error {
		day := filepath.Join(copied, path.Dir(name))
		if !days[day] {
			if err := os.Mkdir(day, 0o700); err != nil {
				return err
			}
			days[day] = true
			w.folders = append(w.folders, day)
		}
		return w.add(ctx, path.Join(journalFolder, name), from)
	})
	if err != nil {
		return err
	}
	r, err := journal.OpenReader(ctx, copied)
	if err != nil {
		return fmt.Errorf("read the copy of the journal: %w", err)
	}
	w.manifest.Journal = &Journal{Epoch: r.Epoch(), Position: r.Newest(), Days: len(r.Days())}
	for _, d := range r.Damage() {
		if d.Reason != record.ReasonTorn { // the last frame was being written
			w.manifest.Journal.Damage++
		}
	}
	return r.Close()
}

// add copies an open file.
func (w *writer) add(ctx context.Context, name string, from *os.File) error {
	to, err := os.OpenFile(filepath.Join(w.folder, filepath.FromSlash(name)), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	sum, n, err := copyAll(ctx, to, from)
	if err == nil {
		err = to.Sync()
	}
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	w.manifest.Files = append(w.manifest.Files, File{Name: name, Bytes: n, SHA256: sum})
	return nil
}

// writeSynced writes a new file.
func writeSynced(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
