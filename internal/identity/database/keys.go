package database

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// MissingKeysError is the error of Open for keys that are missing and must not be made.
type MissingKeysError struct {
	Place string // where they should be
	Used  bool   // the database was used with keys before, which are lost
}

func (e *MissingKeysError) Error() string {
	if e.Used {
		return e.Place + " is missing, but the database was used with one"
	}
	return e.Place + " is missing, because the database was never used"
}

// encryption returns a function that reads the encryption key, so that its file can be replaced
// while a gateway runs; nil if there is none.
func (c *Config) encryption() func() (keyset.EncryptionKey, error) {
	switch file, env := c.EncryptionKeyFile, c.EncryptionKeyEnv; {
	case file != "":
		return func() (keyset.EncryptionKey, error) { return keyset.ReadEncryptionKey(file) }
	case env != "":
		return func() (keyset.EncryptionKey, error) {
			key, err := keyset.ParseEncryptionKey(os.Getenv(env))
			if err != nil {
				return key, fmt.Errorf("environment variable %s: %w", env, err)
			}
			return key, nil
		}
	case c.EncryptionKey != "":
		return func() (keyset.EncryptionKey, error) { return keyset.ParseEncryptionKey(c.EncryptionKey) }
	}
	return nil
}

// CheckEncryptionKey reads the encryption key, if there is one.
func (c *Config) CheckEncryptionKey() error {
	if read := c.encryption(); read != nil {
		_, err := read()
		return err
	}
	return nil
}

// OpenKeys opens the keys, or makes them unless cfg.MustExist is set. The algorithm, the rotation
// and the encryption are those of the database's Config, and so is an AccessTTL of 0.
func (d *DB) OpenKeys(ctx context.Context, cfg keyset.Config) (*keyset.Set, error) {
	cfg.Algorithm, cfg.Rotate, cfg.Encryption = d.cfg.KeyAlgorithm, d.cfg.KeyRotation, d.cfg.encryption()
	cfg.AccessTTL = cmp.Or(cfg.AccessTTL, d.cfg.AccessTTL)
	cfg.Floor, cfg.RevokedKeys = d.Store, d.revokedKeys
	keys, err := keyset.Open(ctx, d.keyStore, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the keys: %w", err)
	}
	return keys, nil
}

// OperatorKeys opens the keys for a command of an operator, also while gateways use them. They
// load a change within a second on one machine and within five seconds over the network.
func (d *DB) OperatorKeys(ctx context.Context) (*keyset.Set, error) {
	return d.OpenKeys(ctx, keyset.Config{Actor: d.cfg.Actor, Audit: d.Store.Append, MustExist: true})
}

// maxKeyRows bounds the rows of the audit log that are searched for revoked keys. Keys change a few
// times a month.
const maxKeyRows = 10_000

// revokedKeys returns the keys that the audit log names as revoked.
func (d *DB) revokedKeys(ctx context.Context) (ids []string, err error) {
	rows, err := d.Store.AuditLast(ctx, maxKeyRows, "", audit.KeyChanged)
	for _, row := range rows {
		if id, ok := strings.CutPrefix(row.Detail, string(keyset.Revoked)+" "); ok {
			ids = append(ids, id)
		}
	}
	return ids, err
}
