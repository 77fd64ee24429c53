package local

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// change is a transaction with its audit events.
type change struct {
	tx   *sql.Tx
	base *Base
	what string // for errors

	events []audit.Event
	quiet  bool           // do not notify Watch
	by     *broker.Caller // of a change by its user; nil: the actor of the Base
}

// write runs do in one transaction with its audit events, and notifies Watch. A transaction without
// events has changed nothing of interest.
func (b *Base) write(ctx context.Context, what string, do func(c *change) error) error {
	return b.writeWithin(ctx, askLimit, what, do)
}

// writeWithin does the same as write, within a time limit. The limit applies to PostgreSQL only.
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
		b.notify()
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

// rollback rolls back. A canceled context or a broken connection has already done so.
func (c *change) rollback() error {
	if err := c.tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return unavailable(c.what, err)
	}
	return nil
}

// exec returns the number of rows that a statement has changed.
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

// one reads a row that will be changed; found is false if it does not exist.
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

// userID returns the id of an existing user.
func (c *change) userID(ctx context.Context, username string) (id string, err error) {
	found, err := c.one(ctx, `SELECT id FROM users WHERE username = ?`, username, &id)
	if err == nil && !found {
		err = broker.ErrNotFound
	}
	return id, err
}

// log adds an audit event. user is an id; "": none.
func (c *change) log(kind audit.Kind, user, detail string) {
	actor, client := c.base.actor, c.base.client
	if c.by != nil {
		actor, client = "user", *c.by
	}
	e := audit.Event{Time: time.Now().UTC().Truncate(time.Microsecond), Kind: kind, Actor: actor, Client: client.Client, User: user, Detail: cut(detail)}
	if client.Address.IsValid() {
		e.Address = client.Address.Unmap().String()
	}
	c.events = append(c.events, e)
}

// maxDetail limits the detail of an audit event.
const maxDetail = 1000

func cut(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	return s[:maxDetail] + "..."
}

// list returns an empty list instead of nil. A nil list would be read back as an empty one.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // a bug in this package: the types always encode
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(b)
}
