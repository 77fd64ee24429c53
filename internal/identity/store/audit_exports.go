package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// Queries of exports. NOW is the clock that all processes on the database share.
const (
	claimExportQuery = `
		INSERT INTO audit_exports (name, seq, hash, sent_at, holder, until) VALUES ($1, 0, $2, 0, $3, NOW + $4)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE audit_exports.holder = excluded.holder OR audit_exports.until <= NOW
		RETURNING seq, hash`
	moveExportQuery = `
		UPDATE audit_exports SET seq = $2, hash = $3, sent_at = NOW, until = NOW + $5 WHERE name = $1 AND holder = $4`
	listExportsQuery = `SELECT name, seq, hash, sent_at, holder, until FROM audit_exports ORDER BY name`
)

// clockOfPostgres is the time of the database: gateways may disagree by a minute.
const clockOfPostgres = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// withClock replaces NOW in a query.
func withClock(query, clock string) string { return strings.ReplaceAll(query, "NOW", clock) }

// ClaimExport makes holder the only process that sends the audit log to the receiver name, until
// lease has passed, and returns the newest row that was sent; the zero Head: none. ok is false if
// another process has the export.
func (s *SQLite) ClaimExport(ctx context.Context, name, holder string, lease time.Duration) (sent audit.Head, ok bool, err error) {
	err = s.write(ctx, "claim the audit export", func(t *sqliteTx) error {
		var hash []byte
		sent = audit.Head{}
		err := t.tx.QueryRowContext(t.ctx, withClock(claimExportQuery, "$5"),
			name, sent.Hash[:], holder, lease.Microseconds(), time.Now().UnixMicro()).Scan(&sent.Seq, &hash)
		if ok = err == nil; !ok && errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		copy(sent.Hash[:], hash)
		return err
	})
	return sent, ok, err
}

// MoveExport stores the newest row that was sent, and extends the lease. held is false if another
// process has the export.
func (s *SQLite) MoveExport(ctx context.Context, name, holder string, sent audit.Head, lease time.Duration) (held bool, err error) {
	err = s.write(ctx, "store the position of the audit export", func(t *sqliteTx) error {
		n, err := affected(t.tx.ExecContext(t.ctx, withClock(moveExportQuery, "$6"),
			name, sent.Seq, sent.Hash[:], holder, lease.Microseconds(), time.Now().UnixMicro()))
		held = n > 0
		return err
	})
	return held, err
}

// AuditExports returns the progress of all exports.
func (s *SQLite) AuditExports(ctx context.Context) (exports []audit.Export, err error) {
	err = each(ctx, s.reader, func(scan func(...any) error) error {
		e, err := scanExport(scan)
		exports = append(exports, e)
		return err
	}, listExportsQuery)
	if err != nil {
		return nil, fmt.Errorf("read the audit exports: %w", explain(err))
	}
	return exports, nil
}

func scanExport(scan func(...any) error) (e audit.Export, err error) {
	var hash []byte
	var at, until int64
	err = scan(&e.Name, &e.Sent.Seq, &hash, &at, &e.Holder, &until)
	copy(e.Sent.Hash[:], hash)
	if at > 0 {
		e.At = time.UnixMicro(at)
	}
	e.Until = time.UnixMicro(until)
	return e, err
}

// ClaimExport is like that of SQLite, with the clock of the database.
func (s *Postgres) ClaimExport(ctx context.Context, name, holder string, lease time.Duration) (sent audit.Head, ok bool, err error) {
	err = s.write(ctx, "claim the audit export", func(ctx context.Context, tx pgx.Tx) error {
		var hash []byte
		sent = audit.Head{}
		err := tx.QueryRow(ctx, withClock(claimExportQuery, clockOfPostgres),
			name, sent.Hash[:], holder, lease.Microseconds()).Scan(&sent.Seq, &hash)
		if ok = err == nil; !ok && errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		copy(sent.Hash[:], hash)
		return err
	})
	return sent, ok, err
}

// MoveExport is like that of SQLite.
func (s *Postgres) MoveExport(ctx context.Context, name, holder string, sent audit.Head, lease time.Duration) (held bool, err error) {
	err = s.write(ctx, "store the position of the audit export", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, withClock(moveExportQuery, clockOfPostgres), name, sent.Seq, sent.Hash[:], holder, lease.Microseconds())
		held = tag.RowsAffected() > 0
		return err
	})
	return held, err
}

// AuditExports returns the progress of all exports.
func (s *Postgres) AuditExports(ctx context.Context) ([]audit.Export, error) {
	return list(ctx, s, "read the audit exports", scanExport, listExportsQuery)
}
