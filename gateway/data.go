package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/store"
)

// Data is a gateway's durable state: one database, and beside it the keys.
type Data struct {
	// Users is the built-in user base, and what manages it.
	Users *local.Base

	store    *store.SQLite
	keyStore auth.KeyStore
	keys     Keys
}

// Files of a data folder.
const (
	databaseFile = "rueda.db"
	keyFile      = "keys.json"
)

// DataConfig says where Data is. The zero value of each field means what its comment says.
type DataConfig struct {
	Folder        string        // made where there is none; "": in memory, gone with the process
	PasswordSlots int           // passwords checked at once, each with 19 MiB; 0: one fewer than cores
	PasswordQueue int           // logins that may wait for a slot; 0: 64 a slot
	PasswordWait  time.Duration // how long a login waits for a slot at most; 0: 2 s
	MinPassword   int           // least characters of a new password; 0: local.DefaultMinPassword
	Peppers       [][]byte      // keys mixed into passwords, the first into new ones; none: none
	Actor         string        // who changes users here, for the audit log; "": gateway
	Keys          Keys
}

// Exists says whether there is a database already; one in memory never is.
func (c DataConfig) Exists() (bool, error) {
	if c.Folder == "" {
		return false, nil
	}
	_, err := os.Stat(filepath.Join(c.Folder, databaseFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// OpenData opens the database and brings it up to date. Several processes may
// have the same one open.
func OpenData(ctx context.Context, cfg DataConfig) (*Data, error) {
	var s *store.SQLite
	var err error
	if cfg.Folder == "" {
		s, err = store.OpenInMemory(ctx)
	} else {
		s, err = store.Open(ctx, filepath.Join(cfg.Folder, databaseFile))
	}
	if err != nil {
		return nil, err
	}
	d := &Data{store: s, keyStore: auth.MemoryKeys(), keys: cfg.Keys}
	if cfg.Folder != "" {
		d.keyStore = auth.FileKeys(filepath.Join(cfg.Folder, keyFile))
	}
	// Every process that writes to the audit log chains its rows with the same key.
	keys, err := d.keys.open(ctx, d.keyStore, auth.KeySetConfig{})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.UseChain(audit.NewChain(keys.AuditKey()))
	d.Users, err = local.Open(ctx, local.Config{
		Writer: s.Writer(), Reader: s.Reader(),
		Slots: cfg.PasswordSlots, Queue: cfg.PasswordQueue, QueueWait: cfg.PasswordWait,
		MinPassword: cfg.MinPassword, Peppers: cfg.Peppers,
		Secret: keys.AuditKey(), Audit: s.AppendAudit, Actor: cfg.Actor,
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return d, nil
}

// Close ends the use of the database.
func (d *Data) Close() error {
	if err := d.store.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}
