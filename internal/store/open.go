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

	"github.com/ruedahq/rueda/internal/audit"
)

//go:embed migrations/*.sql
var migrations embed.FS

// SQLite is an auth.Store in a SQLite database.
type SQLite struct {
	path   string  // "": in memory
	writer *sql.DB // one connection
	reader *sql.DB // in memory the same as writer
	chain  audit.Chain
	writes *group[*turn]

	prepared  [statements]*sql.Stmt // on writer
	lookupRow *sql.Stmt             // on reader
}

// readers is the size of the reading pool: reads are short and come from the page cache.
const readers = 4

// Open opens the database file at path, makes it (mode 0600, its directory 0700) if
// there is none, and brings its schema up to date.
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

// OpenInMemory makes an empty database in memory. It has one connection, which
// everything takes turns at.
func OpenInMemory(ctx context.Context) (*SQLite, error) {
	db, err := sql.Open("sqlite", "file::memory:?_txlock=immediate&_pragma=foreign_keys(1)")
	if err != nil {
		return nil, err
	}
	keep(db, 1)
	return start(ctx, &SQLite{writer: db, reader: db})
}

// prepareFile makes an empty file before SQLite would, for the sake of its mode,
// which SQLite gives to the files it puts beside it.
func prepareFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
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
	keep(db, connections)
	return db, nil
}

// checkpointPages is how many pages of 4 KiB the log holds before it is copied into the file. Tokens are all over the file,
// so that with SQLite's 1,000 a copy comes after a few hundred refreshes; 4,000 are as fast as more.
const checkpointPages = 4000

// keep bounds the pool and lets its connections live as long as the pool.
func keep(db *sql.DB, connections int) {
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
}

// start checks that the database can be written and migrates it.
func start(ctx context.Context, s *SQLite) (*SQLite, error) {
	s.writes = &group[*turn]{transact: s.transact}
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

// checkWritable takes and gives back the write lock, so that a read-only disk is
// an error at the start and not at the first login. The connection is made here, and
// turning a new file to WAL does not wait for a process that does the same: hence the tries.
func (s *SQLite) checkWritable(ctx context.Context) error {
	giveUp := time.Now().Add(5 * time.Second)
	for {
		tx, err := s.writer.BeginTx(ctx, nil)
		if err == nil {
			return tx.Rollback()
		}
		if !isCode(err, sqlite3.SQLITE_BUSY) || time.Now().After(giveUp) {
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

// migrateTries is for the case that another process migrates the same file at this
// moment: whoever comes second fails, and finds it done on looking again.
const migrateTries = 4

func migrate(ctx context.Context, db *sql.DB) (err error) {
	for range migrateTries {
		if err = migrateOnce(ctx, db); err == nil {
			return nil
		}
	}
	return err
}

func migrateOnce(ctx context.Context, db *sql.DB) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithTableName("store_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if current > target {
		return fmt.Errorf("schema version %d is newer than this program, which knows %d: run the newer program", current, target)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("bring schema up to date: %w", err)
	}
	return nil
}

// explain says in words what an operator can do about an error of SQLite.
func explain(err error) error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	switch e.Code() & 0xff { // the rest of the code tells variants
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

// Writer is the one connection that writes.
func (s *SQLite) Writer() *sql.DB { return s.writer }

// Reader is a pool of connections that read. They see what Writer has committed.
func (s *SQLite) Reader() *sql.DB { return s.reader }

// Close ends all connections. The writer is last, since the last one copies the log into the file.
func (s *SQLite) Close() error {
	var err error
	if s.reader != s.writer {
		err = s.reader.Close()
	}
	return errors.Join(err, s.writer.Close())
}
