package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/base/fileowner"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// Target says where and how to restore.
type Target struct {
	Data       database.Config // with AcceptOlderKeys
	Journal    string          // folder of the journal; "": none, and that of the backup is not restored
	KeepLogins bool
}

// Report describes what Restore did.
type Report struct {
	Manifest  *Manifest
	Ended     int64    // logins
	Previous  []string // folders with the files that were replaced
	NoJournal bool     // the backup has a journal, and the target has none
	Unknown   error    // why it is not known which keys were revoked since the backup; nil: it is
}

// Errors of Restore.
var (
	// ErrInUse means that a gateway or a command uses the target.
	ErrInUse = errors.New("a gateway or another command uses this folder")
	// ErrOwner means that another user owns the target.
	ErrOwner = errors.New("another user owns this folder")
	// ErrOtherDatabase means that the database of the target is of another kind.
	ErrOtherDatabase = errors.New("the backup is of a gateway with another kind of database")
)

// previousPrefix is the prefix of a folder with replaced files.
const previousPrefix = "before-restore-"

// previousFile has the name of that folder while a restore is not complete.
const previousFile = "previous"

// restorer restores a backup.
type restorer struct {
	Target
	from     string // the backup
	manifest *Manifest
	data     string // the target's data folder
	staging  string // new files of the data folder; the gateway does not start while it exists
	previous string // name of the folders with replaced files
	report   *Report
}

// Restore restores a backup. Each file is checked as it is copied. A target that has data must
// belong to the same installation, and its files are kept. After an error before the exchange of
// files the target is unchanged. After an interruption, Restore with the same arguments completes
// it.
func Restore(ctx context.Context, folder string, to Target) (r *Report, err error) {
	m, err := Read(folder)
	if err != nil {
		return nil, err
	}
	x := &restorer{Target: to, from: folder, manifest: m, data: to.Data.Folder, report: &Report{Manifest: m}}
	x.staging = filepath.Join(x.data, database.RestoringFolder)
	if m.Journal == nil || x.Journal == "" {
		x.report.NoJournal, x.Journal = m.Journal != nil, ""
	}
	if (m.Database == "postgres") != (to.Data.Postgres != "") {
		return nil, fmt.Errorf("%w: %s", ErrOtherDatabase, m.Database)
	}
	if err := x.checkOwner(); err != nil {
		return nil, err
	}
	if to.Journal != "" {
		lock, err := journal.Lock(to.Journal)
		if errors.Is(err, journal.ErrLocked) {
			return nil, fmt.Errorf("%s: %w", to.Journal, ErrInUse)
		}
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, lock.Close()) }()
	}
	before, err := x.before(ctx)
	if err != nil {
		return nil, err
	}
	if err := x.stage(ctx, before); err != nil {
		if x.untouched() {
			err = errors.Join(err, x.unstage())
		}
		return nil, err
	}
	return x.report, x.exchange()
}

// checkOwner refuses a folder of another user, who could not read the restored files.
func (x *restorer) checkOwner() error {
	for _, folder := range []string{x.data, x.Journal} {
		info, err := os.Stat(folder)
		if err != nil {
			continue // it will be created
		}
		if uid, ok := fileowner.Of(info); ok && uid != os.Geteuid() {
			return fmt.Errorf("%s: %w: the one with number %d", folder, ErrOwner, uid)
		}
	}
	return nil
}

// before examines the data that will be replaced.
func (x *restorer) before(ctx context.Context) (b database.Before, err error) {
	x.previous = previousPrefix + time.Now().UTC().Format("20060102T150405.000000000Z")
	current := x.data
	if name, err := os.ReadFile(filepath.Join(x.staging, previousFile)); err == nil && strings.HasPrefix(string(name), previousPrefix) && filepath.IsLocal(string(name)) {
		x.previous = string(name) // of the interrupted restore
		if moved := filepath.Join(x.data, x.previous); exists(filepath.Join(moved, "rueda.db")) {
			current = moved
		}
	}
	if x.Data.Postgres != "" {
		return b, nil // the database is not replaced
	}
	switch id, err := database.Installation(ctx, x.Data, current); {
	case err == nil && id != x.manifest.Installation:
		return b, fmt.Errorf("%s: %w", x.data, database.ErrOther)
	case err != nil && !errors.Is(err, keyset.ErrNoKeys):
		x.report.Unknown = err
	}
	b, err = database.ReadBefore(ctx, current)
	switch {
	case errors.Is(err, store.ErrInUse):
		return b, fmt.Errorf("%s: %w", x.data, ErrInUse)
	case err != nil: // it may be damaged, which is why a backup is restored
		x.report.Unknown = err
	}
	return b, nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// stage writes the new files into folders within those of the target, and completes the database.
func (x *restorer) stage(ctx context.Context, before database.Before) error {
	for _, folder := range x.stagings() {
		if err := empty(folder); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	for _, f := range x.manifest.Files {
		if err := x.copyFile(ctx, &f); err != nil {
			return err
		}
	}
	cfg := x.Data
	cfg.Folder = x.staging
	keys, err := os.ReadFile(filepath.Join(x.staging, "keys.json"))
	if err != nil {
		return fmt.Errorf("restore the keys: %w", err)
	}
	logins := "logins ended"
	if x.KeepLogins {
		logins = "logins kept"
	}
	x.report.Ended, err = database.OpenRestored(ctx, cfg, database.Restored{
		Installation: x.manifest.Installation, Document: keys, Before: before, KeepLogins: x.KeepLogins,
		Detail: fmt.Sprintf("backup of %s, %s", x.manifest.Created.Format(time.RFC3339), logins),
	})
	if err != nil {
		return fmt.Errorf("open the restored database: %w", err)
	}
	for _, folder := range x.stagings() {
		if err := syncTree(folder); err != nil {
			return err
		}
	}
	return nil
}

// empty creates a staging folder, or removes the remains of an interrupted restore from it, except
// the file which records that files of the target were already exchanged.
func empty(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != previousFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, e.Name())))
		}
	}
	return err
}

// stagings returns the folders for new files, that of the data folder first.
func (x *restorer) stagings() []string {
	list := []string{x.staging}
	if x.Journal != "" {
		list = append(list, filepath.Join(x.Journal, database.RestoringFolder))
	}
	return list
}

// copyFile copies a file of the backup to its staging folder.
func (x *restorer) copyFile(ctx context.Context, f *File) error {
	name := filepath.Join(x.staging, f.Name)
	if day, ok := strings.CutPrefix(f.Name, journalFolder+"/"); ok {
		if x.Journal == "" {
			return nil
		}
		name = filepath.Join(x.Journal, database.RestoringFolder, filepath.FromSlash(day))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err = f.copyTo(ctx, x.from, to); err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

// syncTree syncs the files and folders below a folder.
func syncTree(folder string) error {
	return filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return syncFolder(name)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// untouched reports whether no file of the target was exchanged.
func (x *restorer) untouched() bool { return !exists(filepath.Join(x.staging, previousFile)) }

// unstage removes the staging folders, the marker of the data folder last.
func (x *restorer) unstage() error {
	var err error
	for _, folder := range slices.Backward(x.stagings()) {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

// exchange moves the current files away and the new ones in.
func (x *restorer) exchange() error {
	if err := writeSynced(filepath.Join(x.staging, previousFile), []byte(x.previous)); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := syncFolder(x.staging); err != nil {
		return err
	}
	if x.Data.Postgres == "" {
		if err := x.exchangeIn(x.data, database.FileNames()); err != nil {
			return err
		}
	}
	if x.Journal != "" {
		names, err := journalNames(x.Journal)
		if err != nil {
			return err
		}
		if err := x.exchangeIn(x.Journal, names); err != nil {
			return err
		}
		if err := x.moveNode(); err != nil {
			return err
		}
	}
	if err := x.unstage(); err != nil {
		return fmt.Errorf("complete the restore: %w", err)
	}
	return syncFolder(x.data)
}

// moveNode moves the state of a node of a cluster away, because the node would continue its epoch.
// The state is next to the journal, perhaps on another file system.
func (x *restorer) moveNode() error {
	parent := filepath.Dir(x.Journal)
	node, previous := filepath.Join(parent, "node"), filepath.Join(parent, x.previous)
	if !exists(node) {
		return nil
	}
	if err := os.MkdirAll(previous, 0o700); err != nil {
		return fmt.Errorf("keep the previous files: %w", err)
	}
	if err := os.Rename(node, filepath.Join(previous, "node")); err != nil {
		return fmt.Errorf("keep the previous files: %w", err)
	}
	if !slices.Contains(x.report.Previous, previous) {
		x.report.Previous = append(x.report.Previous, previous)
	}
	return errors.Join(syncFolder(previous), syncFolder(parent))
}

// journalNames returns the names of a journal that a restored one replaces.
func journalNames(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("restore the journal: %w", err)
	}
	for _, e := range entries {
		if _, err := time.Parse(time.DateOnly, e.Name()); err == nil || e.Name() == "state" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// exchangeIn moves the entries of a folder that have these names to the folder of previous files,
// and then all new ones in. If an entry is already among the previous files, an interrupted restore
// has moved it. The present entry then comes from that restore and is removed.
func (x *restorer) exchangeIn(folder string, names []string) error {
	previous := filepath.Join(folder, x.previous)
	for _, name := range names {
		current := filepath.Join(folder, name)
		if !exists(current) {
			continue
		}
		if exists(filepath.Join(previous, name)) {
			if err := os.RemoveAll(current); err != nil {
				return fmt.Errorf("restore: %w", err)
			}
			continue
		}
		if err := os.MkdirAll(previous, 0o700); err != nil {
			return fmt.Errorf("keep the previous files: %w", err)
		}
		if err := os.Rename(current, filepath.Join(previous, name)); err != nil {
			return fmt.Errorf("keep the previous files: %w", err)
		}
	}
	staging := filepath.Join(folder, database.RestoringFolder)
	entries, err := os.ReadDir(staging)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, e := range entries {
		if e.Name() == previousFile {
			continue
		}
		if err := os.Rename(filepath.Join(staging, e.Name()), filepath.Join(folder, e.Name())); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	if exists(previous) {
		x.report.Previous = append(x.report.Previous, previous)
		if err := syncFolder(previous); err != nil {
			return err
		}
	}
	return syncFolder(folder)
}
