// Package database opens the durable state of a gateway: a database of users, logins, usage and
// the audit log, and the keys that sign access tokens.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/histogram"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// DB is an open database with its keys.
type DB struct {
	// Users is the built-in user base.
	Users *local.Base
	// Store has the logins, the audit log and the usage.
	Store Store
	// Limits counts failed logins of all gateways on the database; nil: only one gateway may use
	// it.
	Limits throttle.Shared

	cfg      Config
	listen   func(ctx context.Context, channel string, changed func()) error // nil: not supported
	keyStore keyset.Store
	keyPlace string // for error messages
}

// Store is the interface of SQLite and PostgreSQL.
type Store interface {
	auth.Store
	keyset.Floor
	UseChain(audit.Chain)
	Chain() audit.Chain
	AuditStart(context.Context) (audit.Head, error)
	AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error]
	AuditLast(ctx context.Context, n int, user string, kind audit.Kind) ([]audit.Row, error)
	AuditWritten() (head, missing audit.Head)
	PruneAudit(ctx context.Context, before time.Time) (int64, error)
	AppendAudit(context.Context, *sql.Tx, audit.Event) error
	ClaimExport(ctx context.Context, name, holder string, lease time.Duration) (sent audit.Head, ok bool, err error)
	MoveExport(ctx context.Context, name, holder string, sent audit.Head, lease time.Duration) (held bool, err error)
	AuditExports(context.Context) ([]audit.Export, error)
	Used(context.Context) (bool, error)
	Reset(context.Context) error
	RevokeAll(ctx context.Context, reason string, at time.Time) (int64, error)
	AddUsage(context.Context, []store.Usage) error
	Usage(ctx context.Context, month string) ([]store.Usage, error)
	AddDailyInstruments(ctx context.Context, oldest string, list []store.DailyInstrument) error
	DailyInstruments(ctx context.Context, day, user string) ([]store.DailyInstrument, error)
	Writer() *sql.DB
	Reader() *sql.DB
	Location() string
	Transactions() (took histogram.Histogram, failures uint64)
	Close() error
}

// Files of a data folder.
const (
	databaseFile = "rueda.db"
	keyFile      = "keys.json"
)

// Config says where a database is. It has the fields of gateway.DataConfig, which documents them.
type Config struct {
	Folder        string
	Postgres      string
	PasswordSlots int
	PasswordQueue int
	PasswordWait  time.Duration
	MinPassword   int
	Breached      string
	ContextWords  []string
	OTPIssuer     string
	Peppers       [][]byte
	Actor         string

	KeyAlgorithm      string
	KeyRotation       time.Duration
	AccessTTL         time.Duration
	EncryptionKeyFile string
	EncryptionKeyEnv  string
	EncryptionKey     string
	KeysMustExist     bool
	AcceptOlderKeys   bool // accept keys from a restored backup
}

// Exists reports whether the database exists. One in memory never does, and PostgreSQL always does.
func (c *Config) Exists() (bool, error) {
	if c.Postgres != "" {
		return true, nil
	}
	if c.Folder == "" {
		return false, nil
	}
	_, err := os.Stat(filepath.Join(c.Folder, databaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Check validates the URL of the database without connecting to it.
func (c *Config) Check() error {
	if c.Postgres == "" {
		return nil
	}
	return store.CheckPostgres(c.Postgres)
}

// UnverifiedHost returns a host of a PostgreSQL connection string whose certificate is not
// verified; "": none.
func UnverifiedHost(dsn string) string { return store.UnverifiedHost(dsn) }

// Open opens the database and migrates it. Several processes may have the same one open. A new
// database gets its keys. If the keys of a used database are missing, the error is a
// *MissingKeysError: new keys would end all logins and would not fit the audit log. NewKeys makes
// them.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	d, err := openStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := d.openUsers(ctx, cfg.KeysMustExist); err != nil {
		return nil, errors.Join(err, d.Store.Close())
	}
	return d, nil
}

// openStore opens the store and finds the place of the keys.
func openStore(ctx context.Context, cfg Config) (*DB, error) {
	if err := checkRestored(cfg.Folder); err != nil {
		return nil, err
	}
	d := &DB{cfg: cfg, keyPlace: "the keys' row in the database"}
	switch {
	case cfg.Postgres != "":
		s, err := store.OpenPostgres(ctx, cfg.Postgres)
		if err != nil {
			return nil, err
		}
		d.Store, d.Limits, d.keyStore, d.listen = s, s, s.Keys(), s.Listen
	case cfg.Folder == "":
		s, err := store.OpenInMemory(ctx)
		if err != nil {
			return nil, err
		}
		d.Store, d.keyStore = s, keyset.MemoryStore()
	default:
		s, err := store.Open(ctx, filepath.Join(cfg.Folder, databaseFile))
		if err != nil {
			return nil, err
		}
		d.keyPlace = filepath.Join(cfg.Folder, keyFile)
		d.Store, d.keyStore = s, keyset.FileStore(d.keyPlace)
	}
	return d, nil
}

// openUsers opens the keys and the user base.
func (d *DB) openUsers(ctx context.Context, keysMustExist bool) error {
	// Read before the keys: another process that makes them now uses the database afterwards.
	used, err := d.Store.Used(ctx)
	if err != nil {
		return err
	}
	// Every process that writes to the audit log chains its rows with the same key.
	keys, err := d.OpenKeys(ctx, keyset.Config{
		MustExist: used || keysMustExist, AcceptOlder: d.cfg.AcceptOlderKeys, Actor: d.cfg.Actor, Audit: d.Store.Append,
	})
	if errors.Is(err, keyset.ErrNoKeys) {
		return &MissingKeysError{Place: d.keyPlace, Used: used}
	}
	if err != nil {
		return err
	}
	d.Store.UseChain(audit.NewChain(keys.AuditKey()))
	if used { // the log does not record the first key
		keys.Record(ctx)
	}
	d.Users, err = local.Open(ctx, local.Config{
		Writer: d.Store.Writer(), Reader: d.Store.Reader(), Postgres: d.cfg.Postgres != "", Listen: d.listen,
		Slots: d.cfg.PasswordSlots, Queue: d.cfg.PasswordQueue, QueueWait: d.cfg.PasswordWait,
		MinPassword: d.cfg.MinPassword, Breached: d.cfg.Breached, Words: d.cfg.ContextWords, OTPIssuer: d.cfg.OTPIssuer, Peppers: d.cfg.Peppers,
		Secret: keys.AuditKey(), Audit: d.Store.AppendAudit, Actor: d.cfg.Actor,
	})
	return err
}

// ErrNoLogin means that a login does not exist or has ended.
var ErrNoLogin = errors.New("no login has this id, or it has ended")

// EndLogin ends one login with its tokens. Gateways on the database close its sockets when they
// notice, on this machine within half a second. The error is ErrNoLogin if there is no such login.
func (d *DB) EndLogin(ctx context.Context, id string) error {
	families, err := d.Store.Families(ctx, []string{id})
	if err != nil {
		return fmt.Errorf("look for the login: %w", err)
	}
	if len(families) == 0 || !families[0].Revoked.IsZero() {
		return ErrNoLogin
	}
	e := audit.Event{Time: time.Now(), Kind: audit.SessionEnded, Actor: d.cfg.Actor}
	if err := d.Store.RevokeFamily(ctx, id, auth.RevokedSession, e); err != nil {
		return fmt.Errorf("end the login: %w", err)
	}
	return nil
}

// CheckEmptyAudit reports an audit log without rows as audit.ErrBroken if the database has users:
// each of them was recorded.
func (d *DB) CheckEmptyAudit(ctx context.Context) error {
	users, err := d.Users.List(ctx)
	if err != nil || len(users) == 0 {
		return err
	}
	since := users[0].Created
	for _, u := range users {
		if u.Created.Before(since) {
			since = u.Created
		}
	}
	return fmt.Errorf("%w: it is empty, and the database has users since %s", audit.ErrBroken, since.Format(time.DateOnly))
}

// Close closes the database.
func (d *DB) Close() error {
	if err := d.Store.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}
