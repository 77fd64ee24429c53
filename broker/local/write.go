package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/audit"
)

// change is a transaction in which something is changed and told to the audit log.
type change struct {
	tx   *sql.Tx
	base *Base
	what string // that failed, in an error

	events []audit.Event
	quiet  bool // nothing that Watch tells
}

// write does something in one transaction, together with what it has to say to the audit log, and tells Watch. A
// transaction that said nothing to the log changed nothing that others want to know.
func (b *Base) write(ctx context.Context, what string, do func(c *change) error) error {
	return b.writeWithin(ctx, askLimit, what, do)
}

// writeWithin is write with a time limit, of PostgreSQL alone.
func (b *Base) writeWithin(ctx context.Context, most time.Duration, what string, do func(c *change) error) error {
	ctx, cancel := b.sql.limit(ctx, most)
	defer cancel()
	tx, err := b.writer.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(what, err)
	}
	c := &change{tx: tx, base: b, what: what}
	if err := c.do(ctx, do); err != nil {
		return errors.Join(err, c.rollback())
	}
	if err := tx.Commit(); err != nil {
		return unavailable(what, err)
	}
	if len(c.events) > 0 && !c.quiet {
		b.tell()
	}
	return nil
}

func (c *change) do(ctx context.Context, do func(c *change) error) error {
	if err := do(c); err != nil {
		return err
	}
	for _, e := range c.events {
		if err := c.base.audit(ctx, c.tx, e); err != nil {
			return unavailable("write to the audit log", err)
		}
	}
	return nil
}

// rollback gives up. A canceled context or a broken connection did that already.
func (c *change) rollback() error {
	if err := c.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return unavailable(c.what, err)
	}
	return nil
}

// exec says how many rows a statement changed.
func (c *change) exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	r, err := c.tx.ExecContext(ctx, c.base.sql.rebind(query), args...)
	if err == nil {
		n, err = r.RowsAffected()
	}
	if err != nil {
		return 0, unavailable(c.what, err)
	}
	return n, nil
}

// one reads a row that is then changed; found is false where there is none.
func (c *change) one(ctx context.Context, query, key string, to ...any) (found bool, err error) {
	err = c.tx.QueryRowContext(ctx, c.base.sql.rebind(query+c.base.sql.forUpdate()), key).Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, unavailable(c.what, err)
	}
	return true, nil
}

// userID reads the id of a user, who must be there.
func (c *change) userID(ctx context.Context, username string) (id string, err error) {
	found, err := c.one(ctx, `SELECT id FROM users WHERE username = ?`, username, &id)
	if err == nil && !found {
		err = broker.ErrNotFound
	}
	return id, err
}

// log notes an event for the audit log. user is an id, "" for none.
func (c *change) log(kind audit.Kind, user, detail string) {
	c.events = append(c.events, audit.Event{
		Time: time.Now().UTC().Truncate(time.Microsecond), Kind: kind, Actor: c.base.actor, User: user, Detail: cut(detail),
	})
}

// maxDetail bounds what the audit log is told of one change.
const maxDetail = 1000

func cut(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	return s[:maxDetail] + "..."
}

// list makes nil an empty list, which is what it reads back as.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // plain structs and lists of strings: a mistake of this package
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(b)
}
