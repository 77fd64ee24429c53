package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ruedahq/rueda/internal/base/audit"
)

const (
	lockHead   = `SELECT seq, hash FROM audit_head WHERE one = 1 FOR UPDATE`
	moveHead   = `UPDATE audit_head SET seq = $1, hash = $2 WHERE one = 1`
	insertRows = `INSERT INTO audit (seq, hash, at, kind, actor, user_id, family, address, client, detail)
		SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])`
)

// queueLockHead locks the head of the audit log until the transaction ends, and reads it.
func (s *Postgres) queueLockHead(b *pgx.Batch, head *audit.Head) {
	b.Queue(lockHead).QueryRow(func(row pgx.Row) error {
		var hash []byte
		err := row.Scan(&head.Seq, &hash)
		copy(head.Hash[:], hash)
		if err == nil {
			s.found(*head)
		}
		return err
	})
}

// queueEvents appends events after head, which the transaction has locked, and returns the newest
// row.
func queueEvents(b *pgx.Batch, chain audit.Chain, head audit.Head, events []audit.Event) audit.Head {
	rows := chainEvents(chain, head, events)
	b.Queue(insertRows, columnsOf(rows)...)
	last := rows[len(rows)-1]
	b.Queue(moveHead, last.Seq, last.Hash[:])
	return last.Head()
}

// chainEvents returns the rows of events after head.
func chainEvents(chain audit.Chain, head audit.Head, events []audit.Event) []audit.Row {
	rows := make([]audit.Row, len(events))
	for i, e := range events {
		for _, text := range []*string{&e.Actor, &e.User, &e.Family, &e.Address, &e.Client, &e.Detail} {
			*text = validText(*text) // before chaining, because the chain must cover the stored text
		}
		rows[i] = chain.Next(head, e)
		head = rows[i].Head()
	}
	return rows
}

// columnsOf returns the arguments of insertRows.
func columnsOf(rows []audit.Row) []any {
	var seq, at []int64
	var hash [][]byte
	var texts [7][]string
	for i := range rows {
		r := &rows[i]
		seq, at, hash = append(seq, r.Seq), append(at, r.Time.UnixMicro()), append(hash, r.Hash[:])
		for i, text := range [...]string{string(r.Kind), r.Actor, r.User, r.Family, r.Address, r.Client, r.Detail} {
			texts[i] = append(texts[i], text)
		}
	}
	return []any{seq, hash, at, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], texts[6]}
}

// AppendAudit appends an event to the audit log in a transaction of the caller. Call it last: until
// the commit, all other appends wait.
func (s *Postgres) AppendAudit(ctx context.Context, tx *sql.Tx, e audit.Event) error {
	var head audit.Head
	var hash []byte
	if err := tx.QueryRowContext(ctx, lockHead).Scan(&head.Seq, &hash); err != nil {
		return fmt.Errorf("write to the audit log: %w", explainPostgres(err))
	}
	copy(head.Hash[:], hash)
	s.found(head)
	rows := chainEvents(s.chain, head, []audit.Event{e})
	_, err := tx.ExecContext(ctx, insertRows, columnsOf(rows)...)
	if err == nil {
		_, err = tx.ExecContext(ctx, moveHead, rows[0].Seq, rows[0].Hash[:])
	}
	if err != nil {
		return fmt.Errorf("write to the audit log: %w", explainPostgres(err))
	}
	return nil
}

// AuditStart returns the head after which the oldest stored row follows; zero before any pruning.
func (s *Postgres) AuditStart(ctx context.Context) (head audit.Head, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	var hash []byte
	err = s.pool.QueryRow(ctx, `SELECT seq, hash FROM audit_start WHERE one = 1`).Scan(&head.Seq, &hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return audit.Head{}, nil
	}
	if err != nil {
		return audit.Head{}, fmt.Errorf("read the audit log: %w", explainPostgres(err))
	}
	copy(head.Hash[:], hash)
	return head, nil
}

func scanAudit(scan func(...any) error) (r audit.Row, err error) {
	var hash []byte
	var at int64
	err = scan(&r.Seq, &hash, &at, &r.Kind, &r.Actor, &r.User, &r.Family, &r.Address, &r.Client, &r.Detail)
	copy(r.Hash[:], hash)
	r.Time = time.UnixMicro(at)
	return r, err
}

// AuditRows yields the rows after sequence number after, in order. It reads pages, so that no
// transaction stays open.
func (s *Postgres) AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		for {
			page, err := list(ctx, s, "read the audit log", scanAudit,
				`SELECT `+auditColumns+` FROM audit WHERE seq > $1 ORDER BY seq LIMIT $2`, after, auditPage)
			if err != nil {
				yield(audit.Row{}, err)
				return
			}
			for _, r := range page {
				after = r.Seq
				if !yield(r, nil) {
					return
				}
			}
			if len(page) < auditPage {
				return
			}
		}
	}
}

// AuditLast returns the newest n rows in order. An empty user or kind matches all.
func (s *Postgres) AuditLast(ctx context.Context, n int, user string, kind audit.Kind) ([]audit.Row, error) {
	rows, err := list(ctx, s, "read the audit log", scanAudit, `
		SELECT `+auditColumns+` FROM audit WHERE ($2 = '' OR user_id = $2) AND ($3 = '' OR kind = $3)
		ORDER BY seq DESC LIMIT $1`, n, user, string(kind))
	slices.Reverse(rows)
	return rows, err
}

// pruneLock is the advisory lock of pruning. It does not block appends.
const pruneLock = migrationLock + 1

// PruneAudit deletes the rows before the first one that is not older than before, and returns their
// number. The chain then starts after them, and an audit row records it.
func (s *Postgres) PruneAudit(ctx context.Context, before time.Time) (total int64, err error) {
	for {
		var n int64
		err := s.write(ctx, "prune the audit log", func(ctx context.Context, tx pgx.Tx) (err error) {
			n, err = s.prune(ctx, tx, before)
			return err
		})
		total += n
		if err != nil || n < pruneBatch {
			return total, err
		}
	}
}

// prune deletes one batch.
func (s *Postgres) prune(ctx context.Context, tx pgx.Tx, before time.Time) (int64, error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, pruneLock); err != nil {
		return 0, err
	}
	var to audit.Head
	var hash []byte
	// Rows may be slightly out of order: keep everything from the first row that is new enough.
	err := tx.QueryRow(ctx, `
		SELECT seq, hash FROM audit WHERE seq < coalesce(
			(SELECT seq FROM (SELECT seq, at FROM audit ORDER BY seq LIMIT $1) oldest WHERE at >= $2 ORDER BY seq LIMIT 1),
			(SELECT min(seq) FROM audit) + $1)
		ORDER BY seq DESC LIMIT 1`, pruneBatch, before.UnixMicro()).Scan(&to.Seq, &hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	copy(to.Hash[:], hash)
	tag, err := tx.Exec(ctx, `DELETE FROM audit WHERE seq <= $1`, to.Seq)
	if err != nil {
		return 0, err
	}
	var head audit.Head
	var b pgx.Batch
	b.Queue(`
		INSERT INTO audit_start (one, seq, hash) VALUES (1, $1, $2)
		ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, hash = excluded.hash`, to.Seq, to.Hash[:])
	s.queueLockHead(&b, &head)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return 0, err
	}
	var events pgx.Batch
	queueEvents(&events, s.chain, head, []audit.Event{audit.PrunedEvent(time.Now(), to)})
	return tag.RowsAffected(), tx.SendBatch(ctx, &events).Close()
}
