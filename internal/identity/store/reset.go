package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Used reports whether the database has a login or an audit row, for which the current keys are
// needed.
func (s *SQLite) Used(ctx context.Context) (bool, error) { return used(ctx, s.reader) }

// Used reports whether the database has a login or an audit row, for which the current keys are
// needed.
func (s *Postgres) Used(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	return used(ctx, s.db)
}

func used(ctx context.Context, db *sql.DB) (is bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM audit) OR EXISTS (SELECT 1 FROM audit_start)
		OR EXISTS (SELECT 1 FROM families)`).Scan(&is)
	if err != nil {
		return false, fmt.Errorf("check whether the database was used: %w", err)
	}
	return is, nil
}

// Reset deletes all logins and the audit log, because new keys can verify neither. Users, rights
// and usage stay.
func (s *SQLite) Reset(ctx context.Context) error { return reset(ctx, s.writer) }

// Reset deletes all logins and the audit log, because new keys can verify neither. Users, rights
// and usage stay.
func (s *Postgres) Reset(ctx context.Context) error {
	return reset(ctx, s.db, `UPDATE audit_head SET seq = 0, hash = decode(repeat('00', 32), 'hex')`)
}

func reset(ctx context.Context, db *sql.DB, also ...string) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("reset the database: %w", err)
	}
	deletes := []string{`DELETE FROM refresh_tokens`, `DELETE FROM families`, `DELETE FROM audit`, `DELETE FROM audit_start`}
	for _, statement := range append(deletes, also...) {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("reset the database: %w", errors.Join(err, tx.Rollback()))
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("reset the database: %w", err)
	}
	return nil
}
