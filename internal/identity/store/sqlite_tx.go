package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// statement is one of the prepared statements of logins and refreshes.
type statement int

const (
	insertFamily statement = iota
	insertToken
	selectSuccessor // with its parent, if the parent has a row
	selectPresented // with its parent
	updateToken
	endToken
	useFamily
	revokeFamily
	selectHead
	insertAudit
	insertAudits // inserts auditRows rows
	statements
)

// auditRows is the number of audit rows in one insertAudits.
const auditRows = 16

const (
	auditColumns = `seq, hash, at, kind, actor, user_id, family, address, client, detail`
	auditParams  = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// rotationColumns are those of a presented token p, its parent q and their family f.
	rotationColumns = `coalesce(p.valid_until, p.expires_at), p.expires_at, p.dead_at, p.successor,
		q.hash, q.dead_at, q.successor, f.id, f.user_id, f.address, f.revoked_at`
	lookupQuery = `SELECT ` + tokenColumns + `, ` + familyColumns + ` FROM refresh_tokens t JOIN families f ON f.id = t.family WHERE t.hash = ?`
)

// text returns the SQL of a statement.
func (st statement) text() string {
	switch st {
	case insertFamily:
		return `INSERT INTO families (id, user_id, user_version, key_id, seed, created_at, used_at, address, client)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	case insertToken:
		return `INSERT INTO refresh_tokens (hash, parent, family, issued_at, valid_until, expires_at, dead_at) VALUES (?, ?, ?, ?, ?, ?, ?)`
	case selectSuccessor:
		return `SELECT ` + rotationColumns + ` FROM refresh_tokens q JOIN families f ON f.id = q.family
			LEFT JOIN refresh_tokens p ON p.hash = ? WHERE q.hash = ?`
	case selectPresented:
		return `SELECT ` + rotationColumns + ` FROM refresh_tokens p JOIN families f ON f.id = p.family
			LEFT JOIN refresh_tokens q ON q.hash = p.parent WHERE p.hash = ?`
	case updateToken:
		return `UPDATE refresh_tokens SET expires_at = ?, dead_at = ? WHERE hash = ?`
	case endToken:
		return `UPDATE refresh_tokens SET dead_at = ?, successor = ? WHERE hash = ?`
	case useFamily:
		return `UPDATE families SET used_at = ?, address = ?, client = ? WHERE id = ?`
	case revokeFamily:
		return `UPDATE families SET revoked_at = ?, revoked_for = ? WHERE id = ? AND revoked_at IS NULL RETURNING user_id`
	case selectHead:
		return headQuery
	case insertAudit:
		return insertAuditRows(1)
	case insertAudits:
		return insertAuditRows(auditRows)
	}
	return ""
}

// sqliteTx is a transaction for the operations of a groupCommit.
type sqliteTx struct {
	s      *SQLite
	ctx    context.Context // never canceled
	tx     *sql.Tx
	ready  [statements]*sql.Stmt // statements of this transaction, once used
	events []audit.Event         // written before the commit
	head   audit.Head            // the newest row that was written; zero: none
}

func (t *sqliteTx) stmt(st statement) *sql.Stmt {
	if t.ready[st] == nil {
		t.ready[st] = t.tx.StmtContext(t.ctx, t.s.prepared[st])
	}
	return t.ready[st]
}

func (t *sqliteTx) exec(st statement, args ...any) error {
	_, err := t.stmt(st).ExecContext(t.ctx, args...) //nolint:sqlclosecheck // closed with the transaction
	return err
}

func (t *sqliteTx) query(st statement, args ...any) *sql.Row {
	return t.stmt(st).QueryRowContext(t.ctx, args...) //nolint:sqlclosecheck // closed with the transaction
}

// log adds an event to the audit log.
func (t *sqliteTx) log(e audit.Event) { t.events = append(t.events, e) }

// prepare prepares the statements, after the migrations.
func (s *SQLite) prepare(ctx context.Context) (err error) {
	for st := range statements {
		if s.prepared[st], err = s.writer.PrepareContext(ctx, st.text()); err != nil { //nolint:sqlclosecheck // closed with the store
			return fmt.Errorf("prepare a statement: %w", err)
		}
	}
	if s.lookupRow, err = s.reader.PrepareContext(ctx, lookupQuery); err != nil {
		return fmt.Errorf("prepare a statement: %w", err)
	}
	return nil
}

// write runs f in a transaction that holds the write lock from its beginning, so that rows which it
// reads do not change before it writes. f may run again after a rollback.
func (s *SQLite) write(ctx context.Context, what string, f func(*sqliteTx) error) error {
	if err := s.writes.do(ctx, f); err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	return nil
}

// transact runs f in a transaction, with its audit rows.
func (s *SQLite) transact(ctx context.Context, f func(*sqliteTx) error) (err error) {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed { // after an error or a panic
			if e := tx.Rollback(); !errors.Is(e, sql.ErrTxDone) {
				err = errors.Join(err, e)
			}
		}
	}()
	t := &sqliteTx{s: s, ctx: ctx, tx: tx}
	if err := f(t); err != nil {
		return err
	}
	if err := t.writeLog(); err != nil {
		return err
	}
	committed = true // or rolled back; nothing remains to do
	if err = tx.Commit(); err == nil {
		s.committed(t.head)
	}
	return err
}
