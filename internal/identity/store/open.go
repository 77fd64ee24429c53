package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ruedahq/rueda/internal/base/audit"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SQLite is an auth.Store in a SQLite database.
type SQLite struct {
	path   string  // "": in memory
	writer *sql.DB // one connection
	reader *sql.DB // same as writer for a database in memory
	chain  audit.Chain
	writes *groupCommit[*sqliteTx]
	newest

	prepared  [statements]*sql.Stmt // on writer
	lookupRow *sql.Stmt             // on reader
}

// readers is the number of connections that read. Reads are short and come from the page cache.
const readers = 4

// Open opens the database file at path and migrates its schema. It creates a missing file with mode
// 0600, and its directory with 0700.
func Open(ctx context.Context, path string) (*SQLite, error) {
	s, err := open(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string) (*SQLite, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	writer, err := connect(path, "rw", 1)
	if err != nil {
		return nil, err
	}
	reader, err := connect(path, "ro", readers)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	return start(ctx, &SQLite{path: path, writer: writer, reader: reader})
}

// OpenInMemory opens an empty database in memory. All operations share its one connection.
func OpenInMemory(ctx context.Context) (*SQLite, error) {
	db, err := sql.Open("sqlite", "file::memory:?_txlock=immediate&_pragma=foreign_keys(1)")
	if err != nil {
		return nil, err
	}
	setPoolSize(db, 1)
	return start(ctx, &SQLite{writer: db, reader: db})
}

// prepareFile creates an empty file with mode 0600. SQLite copies the mode to its other files.
func prepareFile(path string) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if info, err := os.Stat(folder); err != nil {
		return err
	} else if mode := info.Mode().Perm(); mode&0o002 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("mode %04o of folder %s lets everybody replace the database and the keys: run chmod 700 %s", mode, folder, folder)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" {
		err = f.Chmod(0o600)
	}
	return errors.Join(err, f.Close())
}

func connect(path, mode string, connections int) (*sql.DB, error) {
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		"mode":    {mode},
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "foreign_keys(1)", "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(" + strconv.Itoa(checkpointPages) + ")"},
	}.Encode()}
	if mode == "ro" {
		name.RawQuery = url.Values{"mode": {mode}, "_pragma": {"busy_timeout(5000)"}}.Encode()
	}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	setPoolSize(db, connections)
	return db, nil
}

// checkpointPages is the size of the write-ahead log, in pages of 4 KiB, at which SQLite copies it
// into the file. Token rows are spread over the file, so that the default of 1,000 copies after a
// few hundred refreshes. More than 4,000 is not faster.
const checkpointPages = 4000

// setPoolSize bounds the pool and keeps its connections open.
func setPoolSize(db *sql.DB, connections int) {
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
}

// start checks that the database is writable and migrates it.
func start(ctx context.Context, s *SQLite) (*SQLite, error) {
	s.writes = &groupCommit[*sqliteTx]{transact: s.transact}
	err := s.checkWritable(ctx)
	if err == nil {
		err = migrate(ctx, s.writer)
	}
	if err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(explain(err), s.Close())
	}
	return s, nil
}

// checkWritable acquires the write lock, so that a read-only disk is an error at start, not at the
// first login. It retries, because switching a new file to WAL fails while another process does the
// same.
func (s *SQLite) checkWritable(ctx context.Context) error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		tx, err := s.writer.BeginTx(ctx, nil)
		if err == nil {
			return tx.Rollback()
		}
		if !isCode(err, sqlite3.SQLITE_BUSY) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func isCode(err error, code int) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == code
}

// migrateTries bounds the attempts to migrate. If another process migrates the same file, the first
// attempt fails and the next finds the work done.
const migrateTries = 4

func migrate(ctx context.Context, db *sql.DB) (err error) {
	for range migrateTries {
		if err = applyMigrations(ctx, goose.DialectSQLite3, db, migrations, "migrations"); err == nil {
			return nil
		}
	}
	return err
}

// applyMigrations migrates the schema with the SQL files of a folder.
func applyMigrations(ctx context.Context, dialect goose.Dialect, db *sql.DB, files embed.FS, folder string) error {
	dir, err := fs.Sub(files, folder)
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(dialect, db, dir, goose.WithTableName("store_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if current > target {
		return fmt.Errorf("schema version %d is newer than version %d of this program: run a newer program", current, target)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate the schema: %w", err)
	}
	return nil
}

// explain adds to an SQLite error what an operator can do about it.
func explain(err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	switch e.Code() & 0xff { // without the variant
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("the file is damaged or not a SQLite database; restore it from a backup: %w", err)
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("the file or its disk is read-only; make it writable or use another folder: %w", err)
	case sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("the file cannot be opened, or its folder cannot be written; make the folder writable or use another one: %w", err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("the disk is full: %w", err)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("another process holds the database; stop that process or use another folder: %w", err)
	}
	return err
}

// Writer returns the pool with the one connection that writes.
func (s *SQLite) Writer() *sql.DB { return s.writer }

// Reader returns the pool that reads. It sees what Writer has committed.
func (s *SQLite) Reader() *sql.DB { return s.reader }

// Close closes all connections. The last one to close copies the log into the file, so that is the
// writer.
func (s *SQLite) Close() error {
	var err error
	if s.reader != s.writer {
		err = s.reader.Close()
	}
	return errors.Join(err, s.writer.Close())
}
