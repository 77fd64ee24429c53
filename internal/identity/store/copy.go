package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// Copy writes the committed content of the SQLite database at from into the new file to, with mode
// 0600. Other processes may read and write the database meanwhile. It does not migrate the schema.
func Copy(ctx context.Context, from, to string) (err error) {
	if _, err := os.Stat(from); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	if from, err = filepath.Abs(from); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	// SQLite would create it readable by others.
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	db, err := connect(from, "rw", 1)
	if err != nil {
		return fmt.Errorf("copy database %s: %w", from, err)
	}
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, to)
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("copy database %s to %s: %w", from, to, explain(err))
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync the copy of the database: %w", err)
	}
	return nil
}

// ErrInUse means that another process has the database open.
var ErrInUse = errors.New("another process has the database open")

// CheckUnused returns ErrInUse if a process has the SQLite database at path open. Otherwise all of
// its content is in that file afterwards. A damaged or missing file is not in use.
func CheckUnused(ctx context.Context, path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	db, err := connectAlone(path, "rw")
	if err != nil {
		return err
	}
	// Leaving the WAL mode needs the only connection.
	var mode string
	err = db.QueryRowContext(ctx, `PRAGMA journal_mode = DELETE`).Scan(&mode)
	closed := db.Close()
	switch {
	case isCode(err, sqlite3.SQLITE_BUSY), isCode(err, sqlite3.SQLITE_LOCKED), err == nil && mode == "wal":
		return fmt.Errorf("database %s: %w", path, ErrInUse)
	case isCode(err, sqlite3.SQLITE_NOTADB), isCode(err, sqlite3.SQLITE_CORRUPT):
		return nil
	case err != nil:
		return fmt.Errorf("database %s: %w", path, explain(err))
	}
	return closed
}

// connectAlone opens a database as it is, without changing how it stores its data.
func connectAlone(path, mode string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{"mode": {mode}}.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	setPoolSize(db, 1)
	return db, nil
}

// KeyHistory returns the counter of the newest key document that a SQLite database was used with,
// and the details of the rows of its audit log about keys. It reads schemas of any version and
// changes nothing.
func KeyHistory(ctx context.Context, path string) (counter int64, details []string, err error) {
	db, err := connectAlone(path, "ro")
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, keyFloorQuery).Scan(&counter)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, nil, fmt.Errorf("read the counter of the keys: %w", explain(err))
	}
	err = each(ctx, db, func(scan func(...any) error) error {
		var detail string
		err := scan(&detail)
		details = append(details, detail)
		return err
	}, `SELECT detail FROM audit WHERE kind = ? ORDER BY seq`, string(audit.KeyChanged))
	if err != nil {
		return 0, nil, fmt.Errorf("read which keys were revoked: %w", explain(err))
	}
	return counter, details, nil
}

// RevokeAll ends all logins. It does not report them to gateways: none may run.
func (s *SQLite) RevokeAll(ctx context.Context, reason string, at time.Time) (n int64, err error) {
	err = s.write(ctx, "end all logins", func(t *sqliteTx) (err error) {
		n, err = affected(t.tx.ExecContext(t.ctx, `UPDATE families SET revoked_at = ?, revoked_for = ? WHERE revoked_at IS NULL`, at.UnixNano(), reason))
		return err
	})
	return n, err
}

// revokeBatch bounds the rows that one transaction of PostgreSQL changes in its time limit.
const revokeBatch = 1000

// RevokeAll ends all logins, in batches. It does not report them to gateways: none may run.
func (s *Postgres) RevokeAll(ctx context.Context, reason string, at time.Time) (n int64, err error) {
	for {
		var changed int64
		err := s.write(ctx, "end all logins", func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, `UPDATE families SET revoked_at = $1, revoked_for = $2 WHERE id IN (
				SELECT id FROM families WHERE revoked_at IS NULL ORDER BY id LIMIT $3 FOR NO KEY UPDATE)`, at.UnixNano(), reason, revokeBatch)
			changed = tag.RowsAffected()
			return err
		})
		n += changed
		if err != nil || changed < revokeBatch {
			return n, err
		}
	}
}
