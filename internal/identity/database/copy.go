package database

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// RestoringFolder is in a data folder while a backup is restored into it. The database of that
// folder is not opened meanwhile, nor after the restore was interrupted.
const RestoringFolder = "restore.tmp"

// ErrRestoring means that a data folder is being restored, or that its restore was interrupted.
var ErrRestoring = errors.New("the restore of a backup is not complete: run rueda restore again")

// checkRestored returns ErrRestoring for a folder that is not completely restored.
func checkRestored(folder string) error {
	if folder == "" {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(folder, RestoringFolder)); err == nil {
		return fmt.Errorf("%s: %w", folder, ErrRestoring)
	}
	return nil
}

// FileNames returns the names that the files of a database may have in its folder, those of the
// keys included.
func FileNames() []string {
	return []string{databaseFile, databaseFile + "-wal", databaseFile + "-shm", keyFile}
}

// Copy writes the database and then its keys into a folder, while gateways may use both. Each login
// of the copy has its keys. Of PostgreSQL it copies only the keys.
func Copy(ctx context.Context, cfg Config, folder string) (err error) {
	keys := keyset.FileStore(filepath.Join(cfg.Folder, keyFile))
	if cfg.Postgres == "" {
		err = store.Copy(ctx, filepath.Join(cfg.Folder, databaseFile), filepath.Join(folder, databaseFile))
	} else {
		var d *DB
		if d, err = openStore(ctx, cfg); err == nil {
			defer func() { err = errors.Join(err, d.Close()) }()
			keys = d.keyStore
		}
	}
	if err != nil {
		return err
	}
	document, _, err := keys.Load(ctx)
	switch {
	case errors.Is(err, keyset.ErrNoDocument) && cfg.Postgres == "":
		return &MissingKeysError{Place: filepath.Join(cfg.Folder, keyFile), Used: true}
	case err != nil:
		return fmt.Errorf("copy the keys: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(folder, keyFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copy the keys: %w", err)
	}
	_, err = f.Write(document)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("copy the keys: %w", err)
	}
	return nil
}

// Installation identifies the installation of the key file in a folder. The id stays the same as
// long as the keys are not lost. An error that is keyset.ErrNoKeys means that there is no file.
func Installation(ctx context.Context, cfg Config, folder string) (string, error) {
	keys, err := keyset.Open(ctx, keyset.FileStore(filepath.Join(folder, keyFile)), keyset.Config{MustExist: true, Encryption: cfg.encryption()})
	if err != nil {
		return "", fmt.Errorf("open the keys in %s: %w", folder, err)
	}
	return installation(keys), nil
}

func installation(keys *keyset.Set) string {
	mac := hmac.New(sha256.New, keys.AuditKey())
	mac.Write([]byte("rueda installation 1\n"))
	return hex.EncodeToString(mac.Sum(nil)[:12])
}

// Before describes the database that a backup replaces.
type Before struct {
	counter int64    // of the newest keys
	revoked []string // keys
}

// ReadBefore reads the SQLite database of a folder that a backup will replace. The error is
// store.ErrInUse if a process has it open. A folder without a database is empty.
func ReadBefore(ctx context.Context, folder string) (b Before, err error) {
	path := filepath.Join(folder, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err := store.CheckUnused(ctx, path); err != nil {
		return b, err
	}
	var details []string
	if b.counter, details, err = store.KeyHistory(ctx, path); err != nil {
		return b, err
	}
	for _, detail := range details {
		if id, ok := strings.CutPrefix(detail, string(keyset.Revoked)+" "); ok {
			b.revoked = append(b.revoked, id)
		}
	}
	return b, nil
}

// Restored configures OpenRestored.
type Restored struct {
	Installation string // of the backup
	Document     []byte // its keys, which are stored in a PostgreSQL database that has none
	Before       Before
	KeepLogins   bool
	Detail       string // for the audit log
}

// ErrOther means that a database belongs to another installation than a backup.
var ErrOther = errors.New("the backup belongs to another installation")

// OpenRestored completes a restored database. It refuses keys that are older than those of the
// replaced database with keyset.ErrOlder unless Config.AcceptOlderKeys is set, and revokes again
// those that were revoked there. It ends all logins, including those made after the backup, and
// stores the head of the audit log. It returns the number of logins in the database that it has
// ended.
func OpenRestored(ctx context.Context, cfg Config, r Restored) (ended int64, err error) {
	if err := r.prepare(ctx, cfg); err != nil {
		return 0, err
	}
	cfg.KeysMustExist = true
	d, err := Open(ctx, cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	keys, err := d.OperatorKeys(ctx)
	if err != nil {
		return 0, err
	}
	if installation(keys) != r.Installation {
		return 0, ErrOther
	}
	revoke := r.Before.revoked
	if !r.KeepLogins {
		if ended, err = d.Store.RevokeAll(ctx, auth.RevokedRestore, time.Now()); err != nil {
			return 0, err
		}
		for _, k := range keys.Keys() { // tokens of logins that the backup does not have
			revoke = append(revoke, k.ID)
		}
	}
	if err := revokeKeys(ctx, keys, revoke); err != nil {
		return 0, err
	}
	if err := d.Store.Append(ctx, audit.Event{Time: time.Now(), Kind: audit.Restored, Actor: cfg.Actor, Detail: r.Detail}); err != nil {
		return 0, fmt.Errorf("record the restore: %w", err)
	}
	rows, err := d.Store.AuditLast(ctx, 1, "", "")
	if err != nil || len(rows) == 0 {
		return ended, err
	}
	return ended, keys.Reanchor(ctx, rows[0].Head())
}

// prepare stores the facts that the database needs before its keys are opened.
func (r *Restored) prepare(ctx context.Context, cfg Config) (err error) {
	d, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if r.Before.counter > 0 {
		if err := d.Store.RaiseKeyFloor(ctx, r.Before.counter); err != nil {
			return err
		}
	}
	if _, _, err := d.keyStore.Load(ctx); !errors.Is(err, keyset.ErrNoDocument) || cfg.Postgres == "" {
		return err
	}
	return d.keyStore.Save(ctx, r.Document, "")
}

// revokeKeys revokes those of the keys that are not revoked, the signing key last: the next one
// then signs at once.
func revokeKeys(ctx context.Context, keys *keyset.Set, ids []string) error {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	signing := ""
	for _, k := range keys.Keys() {
		switch {
		case !wanted[k.ID] || k.State == keyset.Revoked:
		case k.State == keyset.Signing:
			signing = k.ID
		default:
			if _, err := keys.Rotate(ctx, keyset.Rotation{Revoke: k.ID}); err != nil {
				return fmt.Errorf("revoke a key: %w", err)
			}
		}
	}
	if signing == "" {
		return nil
	}
	if _, err := keys.Rotate(ctx, keyset.Rotation{Now: true, Revoke: signing}); err != nil {
		return fmt.Errorf("revoke a key: %w", err)
	}
	return nil
}
