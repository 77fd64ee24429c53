package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// Chain returns the chain that UseChain has set.
func (s *SQLite) Chain() audit.Chain { return s.chain }

// UseChain sets the key of the audit chain. Call it before any write.
func (s *SQLite) UseChain(c audit.Chain) { s.chain = c }

// AppendAudit appends an event to the audit log in a transaction of the caller.
func (s *SQLite) AppendAudit(ctx context.Context, tx *sql.Tx, e audit.Event) error {
	head, err := scanHead(tx.QueryRowContext(ctx, headQuery))
	if err != nil {
		return err
	}
	s.found(head)
	_, err = tx.ExecContext(ctx, insertAuditRows(1), auditValues(nil, s.chain.Next(head, e))...)
	return err
}

// writeLog writes the events of the transaction after the newest row that it sees.
func (t *sqliteTx) writeLog() error {
	if len(t.events) == 0 {
		return nil
	}
	head, err := scanHead(t.query(selectHead))
	if err != nil {
		return err
	}
	if t.head.Seq == 0 { // later it finds its own rows
		t.s.found(head)
	}
	args := make([]any, 0, 10*auditRows)
	for left := len(t.events); left > 0; {
		st, n := insertAudit, 1
		if left >= auditRows {
			st, n = insertAudits, auditRows
		}
		args = args[:0]
		for _, e := range t.events[len(t.events)-left:][:n] {
			row := t.s.chain.Next(head, e)
			head = row.Head()
			args = auditValues(args, row)
		}
		if err := t.exec(st, args...); err != nil {
			return err
		}
		left -= n
	}
	t.events, t.head = t.events[:0], head
	return nil
}

// headQuery selects the newest row, or the start of the chain if the log is empty.
const headQuery = `
	SELECT seq, hash FROM (SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1)
	UNION ALL SELECT seq, hash FROM audit_start ORDER BY seq DESC LIMIT 1`

func scanHead(row *sql.Row) (head audit.Head, err error) {
	var sum []byte
	err = row.Scan(&head.Seq, &sum)
	if errors.Is(err, sql.ErrNoRows) {
		return audit.Head{}, nil
	}
	copy(head.Hash[:], sum)
	return head, err
}

func insertAuditRows(n int) string {
	return `INSERT INTO audit (` + auditColumns + `) VALUES ` + auditParams + strings.Repeat(`, `+auditParams, n-1)
}

func auditValues(args []any, r audit.Row) []any {
	return append(args, r.Seq, r.Hash[:], r.Time.UnixMicro(), string(r.Kind), r.Actor, r.User, r.Family, r.Address, r.Client, r.Detail)
}

// Append implements auth.Store.
func (s *SQLite) Append(ctx context.Context, events ...audit.Event) error {
	return s.write(ctx, "write to the audit log", func(t *sqliteTx) error {
		for _, e := range events {
			t.log(e)
		}
		return nil
	})
}

// AuditStart returns the head after which the oldest stored row follows; zero before any pruning.
func (s *SQLite) AuditStart(ctx context.Context) (audit.Head, error) {
	head, err := scanHead(s.reader.QueryRowContext(ctx, `SELECT seq, hash FROM audit_start`))
	if err != nil {
		return head, fmt.Errorf("read the audit log: %w", explain(err))
	}
	return head, nil
}

// auditPage is the number of rows in one read, so that no transaction stays open while they are
// used.
const auditPage = 500

// AuditRows yields the rows after sequence number after, in order.
func (s *SQLite) AuditRows(ctx context.Context, after int64) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		for {
			page, err := s.auditRows(ctx, `WHERE seq > ? ORDER BY seq LIMIT ?`, after, auditPage)
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
				after = row.Seq
			}
			if err != nil {
				yield(audit.Row{}, err)
			}
			if err != nil || len(page) < auditPage {
				return
			}
		}
	}
}

// AuditLast returns the newest n rows in order. An empty user or kind matches all.
func (s *SQLite) AuditLast(ctx context.Context, n int, user string, kind audit.Kind) ([]audit.Row, error) {
	list, err := s.auditRows(ctx, `WHERE (?1 = '' OR user_id = ?1) AND (?2 = '' OR kind = ?2) ORDER BY seq DESC LIMIT ?3`, user, string(kind), n)
	slices.Reverse(list)
	return list, err
}

func (s *SQLite) auditRows(ctx context.Context, where string, args ...any) (list []audit.Row, err error) {
	err = each(ctx, s.reader, func(scan func(...any) error) error {
		var r audit.Row
		var sum []byte
		var at int64
		err := scan(&r.Seq, &sum, &at, &r.Kind, &r.Actor, &r.User, &r.Family, &r.Address, &r.Client, &r.Detail)
		copy(r.Hash[:], sum)
		r.Time = time.UnixMicro(at)
		list = append(list, r)
		return err
	}, `SELECT `+auditColumns+` FROM audit `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", explain(err))
	}
	return list, nil
}

// pruneBatch bounds the rows that one transaction deletes, because logins wait for it.
const pruneBatch = 10_000

// PruneAudit deletes the rows before the first one that is not older than before, and returns their
// number. The chain then starts after them, and an audit row records it.
func (s *SQLite) PruneAudit(ctx context.Context, before time.Time) (total int64, err error) {
	for {
		var n int64
		err := s.write(ctx, "prune the audit log", func(t *sqliteTx) (err error) {
			n, err = t.prune(before)
			return err
		})
		total += n
		if err != nil || n < pruneBatch {
			return total, err
		}
	}
}

// prune deletes one batch.
func (t *sqliteTx) prune(before time.Time) (n int64, err error) {
	if err := t.writeLog(); err != nil { // write the rows of earlier operations first
		return 0, err
	}
	// Rows may be slightly out of order: keep everything from the first row that is new enough.
	to, err := scanHead(t.tx.QueryRowContext(t.ctx, `
		SELECT seq, hash FROM audit WHERE seq < ifnull(
			(SELECT seq FROM (SELECT seq, at FROM audit ORDER BY seq LIMIT ?1) WHERE at >= ?2 ORDER BY seq LIMIT 1),
			(SELECT min(seq) FROM audit) + ?1)
		ORDER BY seq DESC LIMIT 1`, pruneBatch, before.UnixMicro()))
	if err != nil || to.Seq == 0 {
		return 0, err
	}
	t.log(audit.PrunedEvent(time.Now(), to))
	if err := t.writeLog(); err != nil { // before its predecessor is deleted
		return 0, err
	}
	_, err = t.tx.ExecContext(t.ctx, `
		INSERT INTO audit_start (one, seq, hash) VALUES (1, ?, ?)
		ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, hash = excluded.hash`, to.Seq, to.Hash[:])
	if err != nil {
		return 0, err
	}
	return affected(t.tx.ExecContext(t.ctx, `DELETE FROM audit WHERE seq <= ?`, to.Seq))
}
