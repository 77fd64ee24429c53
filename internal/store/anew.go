package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Used says whether anything was ever done with this database that its keys are needed for: a login, or a row of the audit log.
func (s *SQLite) Used(ctx context.Context) (bool, error) { return used(ctx, s.reader) }

// Used says whether anything was ever done with this database that its keys are needed for: a login, or a row of the audit log.
func (s *Postgres) Used(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, postgresLimit)
	defer cancel()
	return used(ctx, s.db)
}

func used(ctx context.Context, db *sql.DB) (is bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM audit) OR EXISTS (SELECT 1 FROM audit_start)
		OR EXISTS (SELECT 1 FROM families)`).Scan(&is)
	if err != nil {
		return false, fmt.Errorf("look whether the database was used: %w", err)
	}
	return is, nil
}

// BeginAnew deletes all logins and the audit log, for keys that fit neither any more. Users, rights and usage stay.
func (s *SQLite) BeginAnew(ctx context.Context) error { return beginAnew(ctx, s.writer) }

// BeginAnew deletes all logins and the audit log, for keys that fit neither any more. Users, rights and usage stay.
func (s *Postgres) BeginAnew(ctx context.Context) error {
	return beginAnew(ctx, s.db, `UPDATE audit_head SET seq = 0, hash = decode(repeat('00', 32), 'hex')`)
}

func beginAnew(ctx context.Context, db *sql.DB, also ...string) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin anew: %w", err)
	}
	deletes := []string{`DELETE FROM refresh_tokens`, `DELETE FROM families`, `DELETE FROM audit`, `DELETE FROM audit_start`}
	for _, statement := range append(deletes, also...) {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("begin anew: %w", errors.Join(err, tx.Rollback()))
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("begin anew: %w", err)
	}
	return nil
}
