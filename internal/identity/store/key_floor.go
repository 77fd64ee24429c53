package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	keyFloorQuery  = `SELECT counter FROM key_floor WHERE one = 1`
	raiseFloorText = `INSERT INTO key_floor (one, counter) VALUES (1, $1)
		ON CONFLICT (one) DO UPDATE SET counter = excluded.counter WHERE key_floor.counter < excluded.counter`
)

// KeyFloor implements keyset.Floor.
func (s *SQLite) KeyFloor(ctx context.Context) (counter int64, err error) {
	err = s.reader.QueryRowContext(ctx, keyFloorQuery).Scan(&counter)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read the counter of the keys: %w", explain(err))
	}
	return counter, nil
}

// RaiseKeyFloor implements keyset.Floor.
func (s *SQLite) RaiseKeyFloor(ctx context.Context, counter int64) error {
	return s.write(ctx, "store the counter of the keys", func(t *sqliteTx) error {
		_, err := t.tx.ExecContext(t.ctx, raiseFloorText, counter)
		return err
	})
}

// KeyFloor implements keyset.Floor.
func (s *Postgres) KeyFloor(ctx context.Context) (counter int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	err = s.pool.QueryRow(ctx, keyFloorQuery).Scan(&counter)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("read the counter of the keys: %w", explainPostgres(err))
	}
	return counter, nil
}

// RaiseKeyFloor implements keyset.Floor.
func (s *Postgres) RaiseKeyFloor(ctx context.Context, counter int64) error {
	return s.write(ctx, "store the counter of the keys", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, raiseFloorText, counter)
		return err
	})
}
