package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// postgresKeys is an keyset.Store in the database.
type postgresKeys struct {
	s *Postgres
}

// Keys returns the key store of all gateways that share the database.
func (s *Postgres) Keys() keyset.Store { return postgresKeys{s} }

// encryptedPrefix begins every encrypted document.
const encryptedPrefix = `{"sealed":`

var errNotEncrypted = errors.New("keys in a shared database must be encrypted: set the encryption key by file or environment")

// Load implements keyset.Store.
func (k postgresKeys) Load(ctx context.Context) (document []byte, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, postgresLimit)
	defer cancel()
	var v int64
	err = k.s.pool.QueryRow(ctx, `SELECT document, version FROM keys WHERE one = 1`).Scan(&document, &v)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, "", keyset.ErrNoDocument
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the keys: %w", explainPostgres(err))
	}
	if !bytes.HasPrefix(document, []byte(encryptedPrefix)) {
		return nil, "", fmt.Errorf("read the keys: %w", errNotEncrypted)
	}
	return document, strconv.FormatInt(v, 10), nil
}

// Save implements keyset.Store. It refuses unencrypted documents, because a dump of the database
// would contain the keys.
func (k postgresKeys) Save(ctx context.Context, document []byte, version string) error {
	if !bytes.HasPrefix(document, []byte(encryptedPrefix)) {
		return fmt.Errorf("write the keys: %w", errNotEncrypted)
	}
	query, args := `INSERT INTO keys (one, document, version) VALUES (1, $1, 1) ON CONFLICT DO NOTHING`, []any{document}
	if version != "" {
		v, err := strconv.ParseInt(version, 10, 64)
		if err != nil {
			return fmt.Errorf("write the keys: version %q: %w", version, keyset.ErrConflict)
		}
		query, args = `UPDATE keys SET document = $1, version = version + 1 WHERE one = 1 AND version = $2`, append(args, v)
	}
	return k.s.write(ctx, "write the keys", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, query, args...)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return keyset.ErrConflict
		}
		_, err = tx.Exec(ctx, `SELECT pg_notify($1, '')`, keysChannel)
		return err
	})
}

// Watch implements keyset.Store.
func (k postgresKeys) Watch(ctx context.Context, changed func()) error {
	return k.s.Listen(ctx, keysChannel, changed)
}
