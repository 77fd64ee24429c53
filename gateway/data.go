package gateway

import (
	"context"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/database"
)

// Data is the durable state of a gateway: a database with its users and tokens, and the keys that
// sign access tokens.
type Data struct {
	// Users is the built-in user base.
	Users *local.Base

	db     *database.DB
	folder string // "": in no folder
}

// DataConfig configures Data. The comment of each field states the meaning of its zero value.
type DataConfig struct {
	Folder        string        // of the database, created if missing; "": in memory, until the process ends
	Postgres      string        // URL of a PostgreSQL database, which gateways may share, a secret; "": SQLite in Folder
	PasswordSlots int           // passwords checked at once, each with 19 MiB; 0: one fewer than cores
	PasswordQueue int           // logins that may wait for a slot; 0: 64 for each slot
	PasswordWait  time.Duration // longest wait of a login for a slot; 0: 2 s
	MinPassword   int           // characters of a new password; 0: local.DefaultMinPassword
	Breached      string        // file of breached passwords, which are refused as new ones: lines HASH:COUNT sorted by SHA-1; "": none
	ContextWords  []string      // names of service and company, which do not count in a new password; nil: OTPIssuer alone
	OTPIssuer     string        // name of the gateway in authenticator apps, without a colon; "": Rueda
	Peppers       [][]byte      // keys mixed into passwords, the first one into new ones; nil: none
	Actor         string        // who changes users, for the audit log; "": gateway

	KeyAlgorithm      string        // of new keys: ES256, EdDSA or RS256; "": ES256
	KeyRotation       time.Duration // how long a key signs; 0: 30 days; negative: until rueda keys rotate
	AccessTTL         time.Duration // life of access tokens, which keys outlive; 0: 24 h. A gateway uses Auth.AccessTTL
	EncryptionKeyFile string        // file of mode 0600 with the key that encrypts the stored keys, 32 bytes in hexadecimal or base64; "": see EncryptionKeyEnv
	EncryptionKeyEnv  string        // environment variable with that key; "": see EncryptionKey
	EncryptionKey     string        // that key itself, a secret; all "": the keys are not encrypted
	KeysMustExist     bool          // missing keys are an error, also for a new database

	// AcceptOlderKeys accepts keys that are older than those that were used before, which are
	// refused otherwise. Set it after a backup of the keys was restored.
	AcceptOlderKeys bool
}

// OpenData opens the database and migrates it. Several processes may open the same database.
// OpenData creates keys in a new database. If a used database has lost its keys, it returns an
// error; the command rueda keys new creates new keys.
func OpenData(ctx context.Context, cfg DataConfig) (*Data, error) {
	db, err := database.Open(ctx, database.Config(cfg))
	if err != nil {
		return nil, err
	}
	return &Data{Users: db.Users, db: db, folder: cfg.Folder}, nil
}

// Close closes the database.
func (d *Data) Close() error { return d.db.Close() }

// openKeys sets g.keys. Changes of keys are recorded in the audit log. When a key is revoked, the
// sockets of its tokens are closed.
func (g *Gateway) openKeys(ctx context.Context, data *Data) (err error) {
	g.keys, err = data.db.OpenKeys(ctx, keyset.Config{
		AccessTTL: g.cfg.Auth.AccessTTL,
		MustExist: true, // OpenData made those of a new database
		OnRevoke:  g.registry.RevokeKey,
		Audit:     data.db.Store.Append,
		Logger:    g.log,
	})
	return err
}
