package gateway

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
	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auditlog"
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/store"
)

// Data is a gateway's durable state: one database, and beside it the keys.
type Data struct {
	// Users is the built-in user base, and what manages it.
	Users *local.Base

	store    database
	shared   auth.SharedLimits                                            // nil: this gateway has its database alone
	listen   func(ctx context.Context, channel string, told func()) error // nil: nothing to listen to
	keyStore auth.KeyStore
	keyPlace string // of the keys, for people
	keys     Keys
	actor    string // who changes things here, for the audit log
}

// database is what both stores are.
type database interface {
	auth.Store
	UseChain(audit.Chain)
	Chain() audit.Chain
	AuditStart(context.Context) (audit.Head, error)
	AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error]
	AuditLast(ctx context.Context, n int, user string, kind audit.Kind) ([]audit.Row, error)
	PruneAudit(ctx context.Context, before time.Time) (int64, error)
	AppendAudit(context.Context, *sql.Tx, audit.Event) error
	Used(context.Context) (bool, error)
	BeginAnew(context.Context) error
	AddUsage(context.Context, []store.Usage) error
	Usage(ctx context.Context, month string) ([]store.Usage, error)
	Writer() *sql.DB
	Reader() *sql.DB
	Place() string
	Close() error
}

// Files of a data folder.
const (
	databaseFile = "rueda.db"
	keyFile      = "keys.json"
)

// DataConfig says where Data is. The zero value of each field means what its comment says.
type DataConfig struct {
	Folder        string        // made where there is none; "": in memory, gone with the process
	Postgres      string        // URL of a PostgreSQL database, which gateways may share, instead of the folder's; "": none. It is a secret
	PasswordSlots int           // passwords checked at once, each with 19 MiB; 0: one fewer than cores
	PasswordQueue int           // logins that may wait for a slot; 0: 64 a slot
	PasswordWait  time.Duration // how long a login waits for a slot at most; 0: 2 s
	MinPassword   int           // least characters of a new password; 0: local.DefaultMinPassword
	Peppers       [][]byte      // keys mixed into passwords, the first into new ones; none: none
	Actor         string        // who changes users here, for the audit log; "": gateway
	Keys          Keys
	OnlyOld       bool // keys that are not there are a *MissingKeysError, also in a database that was never used
}

// Exists says whether there is a database already; one in memory never is, one of PostgreSQL always.
func (c DataConfig) Exists() (bool, error) {
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

// Check says what is wrong with the place of the database, as far as can be told without it.
func (c DataConfig) Check() error {
	if c.Postgres == "" {
		return nil
	}
	return store.CheckPostgres(c.Postgres)
}

// OpenData opens the database and brings it up to date. Several processes may
// have the same one open. A database that was never used gets its keys; one whose keys
// are lost is refused, with a *MissingKeysError: new ones would end all logins, and no row of the audit log
// would fit them. NewKeys begins anew.
func OpenData(ctx context.Context, cfg DataConfig) (*Data, error) {
	d, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := d.open(ctx, cfg); err != nil {
		return nil, errors.Join(err, d.store.Close())
	}
	return d, nil
}

// openDatabase opens the store, and finds the place of the keys.
func openDatabase(ctx context.Context, cfg DataConfig) (*Data, error) {
	d := &Data{keys: cfg.Keys, keyPlace: "the keys' row in the database", actor: cfg.Actor}
	switch {
	case cfg.Postgres != "":
		s, err := store.OpenPostgres(ctx, cfg.Postgres)
		if err != nil {
			return nil, err
		}
		d.store, d.shared, d.keyStore, d.listen = s, s, s.Keys(), s.Listen
	case cfg.Folder == "":
		s, err := store.OpenInMemory(ctx)
		if err != nil {
			return nil, err
		}
		d.store, d.keyStore = s, auth.MemoryKeys()
	default:
		s, err := store.Open(ctx, filepath.Join(cfg.Folder, databaseFile))
		if err != nil {
			return nil, err
		}
		d.keyPlace = filepath.Join(cfg.Folder, keyFile)
		d.store, d.keyStore = s, auth.FileKeys(d.keyPlace)
	}
	return d, nil
}

// open opens the keys and the user base.
func (d *Data) open(ctx context.Context, cfg DataConfig) error {
	// This is looked at before the keys: who made them meanwhile has used the database after that.
	used, err := d.store.Used(ctx)
	if err != nil {
		return err
	}
	// Every process that writes to the audit log chains its rows with the same key.
	keys, err := d.keys.open(ctx, d.keyStore, auth.KeySetConfig{MustExist: used || cfg.OnlyOld})
	if errors.Is(err, auth.ErrNoKeys) {
		return &MissingKeysError{Place: d.keyPlace, Used: used}
	}
	if err != nil {
		return err
	}
	d.store.UseChain(audit.NewChain(keys.AuditKey()))
	d.Users, err = local.Open(ctx, local.Config{
		Writer: d.store.Writer(), Reader: d.store.Reader(), Postgres: cfg.Postgres != "", Listen: d.listen,
		Slots: cfg.PasswordSlots, Queue: cfg.PasswordQueue, QueueWait: cfg.PasswordWait,
		MinPassword: cfg.MinPassword, Peppers: cfg.Peppers,
		Secret: keys.AuditKey(), Audit: d.store.AppendAudit, Actor: cfg.Actor,
	})
	return err
}

// Close ends the use of the database.
func (d *Data) Close() error {
	if err := d.store.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}

// Usage is what one user used of one level of a market at one delay in a month, which is what exchanges ask for.
type Usage = store.Usage

// Usage reads the usage of a month, such as 2026-11, in order of user, market, level and delay.
func (d *Data) Usage(ctx context.Context, month string) ([]Usage, error) {
	return d.store.Usage(ctx, month)
}

// Audit is the audit log of Data.
func (d *Data) Audit() auditlog.Log { return d.store }

// CheckEmptyAudit says whether a log without rows had some once, an audit.ErrBroken: there was one for every user that was added.
func (d *Data) CheckEmptyAudit(ctx context.Context) error {
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
