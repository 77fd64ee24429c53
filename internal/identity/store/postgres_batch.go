package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// pgBatch collects the operations of one transaction, which takes three round trips for any number
// of operations. The first reads and locks all rows that they need, and the operations are applied
// here in order. The second writes the changes, and the third the audit log with the commit.
type pgBatch struct {
	calls []*pgCall
}

// pgCall is one operation: a login, a refresh or audit events.
type pgCall struct {
	family   *auth.Family
	first    *auth.RefreshToken
	rotation *auth.Rotation
	events   []audit.Event

	outcome auth.Outcome
	err     error
}

// CreateFamily implements auth.Store.
func (s *Postgres) CreateFamily(ctx context.Context, f auth.Family, first auth.RefreshToken) error {
	f.Address, f.Client = validText(f.Address), validText(f.Client)
	return s.runShared(ctx, "store a login", &pgCall{family: &f, first: &first})
}

// Rotate implements auth.Store.
func (s *Postgres) Rotate(ctx context.Context, r auth.Rotation) (auth.Outcome, error) {
	r.Address, r.Client = validText(r.Address), validText(r.Client)
	c := &pgCall{rotation: &r}
	if err := s.runShared(ctx, "store a refresh", c); err != nil {
		return auth.Refused, err
	}
	return c.outcome, nil
}

// Append implements auth.Store.
func (s *Postgres) Append(ctx context.Context, events ...audit.Event) error {
	if len(events) == 0 {
		return nil
	}
	return s.runShared(ctx, "write to the audit log", &pgCall{events: events})
}

// validText replaces what PostgreSQL text cannot contain: NUL and invalid UTF-8.
func validText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// runShared runs c in a shared transaction, within the time limit.
func (s *Postgres) runShared(ctx context.Context, what string, c *pgCall) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	err := s.writes.do(ctx, func(b *pgBatch) error {
		b.calls = append(b.calls, c)
		return nil
	})
	if err = errors.Join(err, c.err); err != nil {
		return fmt.Errorf("%s: %w", what, explainPostgres(err))
	}
	return nil
}

// transact collects the operations of a batch and executes them in one transaction.
func (s *Postgres) transact(ctx context.Context, collect func(*pgBatch) error) error {
	var b pgBatch
	if err := collect(&b); err != nil {
		return err
	}
	return s.execute(ctx, b.calls)
}

// isDataError reports whether an error is caused by the data of an operation: invalid data or a
// constraint.
func isDataError(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(e.Code, "22") || strings.HasPrefix(e.Code, "23"))
}

// execute runs operations in one transaction. It tries once more if that changed nothing.
func (s *Postgres) execute(ctx context.Context, calls []*pgCall) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	err := s.attempt(ctx, calls)
	if err != nil && retryable(err) {
		err = s.attempt(ctx, calls)
	}
	return err
}

// attempt runs operations in one transaction. It rolls back a transaction with rejected data, which
// keeps the connection.
func (s *Postgres) attempt(ctx context.Context, calls []*pgCall) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // closes the connection if the transaction is still open
	err = s.transaction(ctx, conn, calls)
	if isDataError(err) {
		_, rollback := conn.Exec(ctx, `ROLLBACK`)
		return errors.Join(err, rollback)
	}
	return err
}

// transaction begins a transaction, runs operations in it and commits it. If it fails, the
// transaction may still be open.
func (s *Postgres) transaction(ctx context.Context, conn *pgxpool.Conn, calls []*pgCall) error {
	var set workingSet
	if err := set.read(ctx, conn.Conn(), calls); err != nil {
		return err
	}
	for _, c := range calls {
		c.err = set.apply(c)
	}
	if len(set.events) == 0 { // no changes
		return sendBatch(ctx, conn.Conn(), func(b *pgx.Batch) { b.Queue(`ROLLBACK`) })
	}
	head, err := set.write(ctx, s, conn.Conn())
	if err != nil {
		return err
	}
	err = sendBatch(ctx, conn.Conn(), func(b *pgx.Batch) {
		head = queueEvents(b, s.chain, head, set.events)
		b.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
			if tag.String() != "COMMIT" {
				return errors.New("the transaction was rolled back")
			}
			return nil
		})
	})
	if err == nil {
		s.committed(head)
	}
	return err
}

// sendBatch sends statements in one round trip and waits for their results.
func sendBatch(ctx context.Context, conn *pgx.Conn, fill func(*pgx.Batch)) error {
	var b pgx.Batch
	fill(&b)
	return conn.SendBatch(ctx, &b).Close()
}

// workingSet is what a transaction has read and will write.
type workingSet struct {
	families map[string]*auth.Family
	tokens   map[auth.Hash]*auth.RefreshToken

	newFamilies []*auth.Family
	newTokens   []*auth.RefreshToken             // first tokens of new families
	written     map[auth.Hash]*auth.RefreshToken // new or changed by a refresh
	used        map[string]*auth.Family
	revoked     map[string]*auth.Family // revoked now
	events      []audit.Event
}

// read begins the transaction, and reads and locks the rows of the calls. All gateways lock
// families in the order of their ids, which avoids deadlocks. Tokens are changed only with their
// family locked.
func (w *workingSet) read(ctx context.Context, conn *pgx.Conn, calls []*pgCall) error {
	w.families, w.tokens = make(map[string]*auth.Family), make(map[auth.Hash]*auth.RefreshToken)
	w.written = make(map[auth.Hash]*auth.RefreshToken)
	w.used, w.revoked = make(map[string]*auth.Family), make(map[string]*auth.Family)
	var all [][]byte
	for _, c := range calls {
		if r := c.rotation; r != nil {
			all = append(all, r.Presented[:], r.Parent[:])
		}
	}
	return sendBatch(ctx, conn, func(b *pgx.Batch) {
		b.Queue(`BEGIN`)
		if len(all) == 0 {
			return
		}
		b.Queue(`
			SELECT `+familyColumns+` FROM families
			WHERE id = ANY (ARRAY(SELECT family FROM refresh_tokens WHERE hash = ANY ($1)))
			ORDER BY id FOR NO KEY UPDATE`, all).Query(func(rows pgx.Rows) error {
			return eachRow(rows, func() error {
				f, err := scanFamily(rows.Scan)
				w.families[f.ID] = &f
				return err
			})
		})
		b.Queue(`
			SELECT `+tokenColumns+` FROM refresh_tokens t WHERE hash = ANY ($1)
			OR hash = ANY (ARRAY(SELECT parent FROM refresh_tokens WHERE hash = ANY ($1)))`, all).Query(func(rows pgx.Rows) error {
			return eachRow(rows, func() error {
				t, err := scanToken(rows.Scan)
				w.tokens[t.Hash] = &t
				return err
			})
		})
	})
}

// apply applies one operation to the set, with the rules of Memory.
func (w *workingSet) apply(c *pgCall) error {
	switch {
	case c.family != nil:
		if w.families[c.family.ID] != nil || w.tokens[c.first.Hash] != nil {
			return errors.New("the family or token already exists")
		}
		f, t := *c.family, *c.first
		w.families[f.ID], w.tokens[t.Hash] = &f, &t
		w.newFamilies, w.newTokens = append(w.newFamilies, &f), append(w.newTokens, &t)
		w.events = append(w.events, f.LoginEvent())
	case c.rotation != nil:
		c.outcome = w.rotate(c.rotation)
	default:
		w.events = append(w.events, c.events...)
	}
	return nil
}

// rotate applies a refresh.
func (w *workingSet) rotate(r *auth.Rotation) auth.Outcome {
	rows := auth.Rows{Presented: w.tokens[r.Presented], Parent: w.tokens[r.Parent]}
	switch { // a family may have been deleted between the two queries
	case rows.Presented != nil:
		rows.Parent, rows.Family = w.tokens[rows.Presented.Parent], w.families[rows.Presented.Family]
	case rows.Parent != nil:
		rows.Family = w.families[rows.Parent.Family]
	}
	outcome := r.Apply(&rows)
	switch outcome {
	case auth.Granted:
		w.tokens[r.Presented], w.written[r.Presented] = rows.Presented, rows.Presented
		if rows.Parent != nil {
			w.written[rows.Parent.Hash] = rows.Parent
		}
		w.used[rows.Family.ID] = rows.Family
		w.events = append(w.events, r.Event(outcome, rows.Family))
	case auth.Reused:
		w.revoked[rows.Family.ID] = rows.Family
		w.events = append(w.events, r.Event(outcome, rows.Family))
	}
	return outcome
}

// write writes the changes, and then locks and reads the head of the audit log.
func (w *workingSet) write(ctx context.Context, s *Postgres, conn *pgx.Conn) (head audit.Head, err error) {
	err = sendBatch(ctx, conn, func(b *pgx.Batch) {
		w.queueFamilies(b)
		w.queueTokens(b)
		queueRevocations(b, slices.Collect(maps.Values(w.revoked)))
		s.queueLockHead(b, &head)
	})
	return head, err
}

func (w *workingSet) queueFamilies(b *pgx.Batch) {
	if len(w.newFamilies) > 0 {
		var id, user, key, address, client []string
		var version, created, used []int64
		var seed [][]byte
		for _, f := range w.newFamilies {
			id, user, key = append(id, f.ID), append(user, f.UserID), append(key, f.KeyID)
			address, client = append(address, f.Address), append(client, f.Client)
			version, seed = append(version, f.UserVersion), append(seed, f.Seed[:])
			created, used = append(created, f.Created.UnixNano()), append(used, f.Used.UnixNano())
		}
		b.Queue(`
			INSERT INTO families (id, user_id, user_version, key_id, seed, created_at, used_at, address, client)
			SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::bigint[], $7::bigint[], $8::text[], $9::text[])`,
			id, user, version, key, seed, created, used, address, client)
	}
	if len(w.used) > 0 {
		var id, address, client []string
		var used []int64
		for _, f := range w.used {
			id, used = append(id, f.ID), append(used, f.Used.UnixNano())
			address, client = append(address, f.Address), append(client, f.Client)
		}
		b.Queue(`
			UPDATE families f SET used_at = u.used_at, address = u.address, client = u.client
			FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[]) u (id, used_at, address, client) WHERE f.id = u.id`,
			id, used, address, client)
	}
}

func (w *workingSet) queueTokens(b *pgx.Batch) {
	queueTokens(b, w.newTokens, ``)
	queueTokens(b, slices.Collect(maps.Values(w.written)), `
		ON CONFLICT (hash) DO UPDATE SET expires_at = excluded.expires_at, dead_at = excluded.dead_at, successor = excluded.successor`)
}

func queueTokens(b *pgx.Batch, tokens []*auth.RefreshToken, conflict string) {
	if len(tokens) == 0 {
		return
	}
	var hash, parent, successor [][]byte
	var family []string
	var issued, expires, kept []int64
	var dead []*int64
	for _, t := range tokens {
		hash, family = append(hash, t.Hash[:]), append(family, t.Family)
		issued, expires, kept = append(issued, t.Issued.UnixNano()), append(expires, t.Expires.UnixNano()), append(kept, t.Kept.UnixNano())
		parent, successor = append(parent, hashOrNull(&t.Parent)), append(successor, hashOrNull(&t.Successor))
		var at *int64
		if !t.Dead.IsZero() {
			at = new(t.Dead.UnixNano())
		}
		dead = append(dead, at)
	}
	b.Queue(`
		INSERT INTO refresh_tokens (hash, parent, family, issued_at, valid_until, expires_at, dead_at, successor)
		SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bytea[])`+conflict,
		hash, parent, family, issued, expires, kept, dead, successor)
}

func hashOrNull(h *auth.Hash) []byte {
	if *h == (auth.Hash{}) {
		return nil
	}
	return h[:]
}

// queueRevocations revokes families and notifies all gateways.
func queueRevocations(b *pgx.Batch, revoked []*auth.Family) {
	if len(revoked) == 0 {
		return
	}
	var id, reason []string
	var at []int64
	for _, f := range revoked {
		id, at, reason = append(id, f.ID), append(at, f.Revoked.UnixNano()), append(reason, f.RevokedFor)
	}
	b.Queue(`
		UPDATE families f SET revoked_at = u.at, revoked_for = u.reason
		FROM unnest($1::text[], $2::bigint[], $3::text[]) u (id, at, reason) WHERE f.id = u.id AND f.revoked_at IS NULL`, id, at, reason)
	for _, text := range revocationPayloads(revoked) {
		b.Queue(`SELECT pg_notify($1, $2)`, revokedChannel, text)
	}
}
