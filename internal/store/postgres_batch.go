package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auth"
)

// pgBatch are the operations of one transaction. They go to the database together: one question reads and locks all that
// they need, the rules are applied here in the order in which they came, and one answer writes all that has changed.
// So a transaction takes three trips however many share it.
type pgBatch struct {
	calls []*pgCall
}

// pgCall is one operation: a login, a refresh or events, whichever is not nil.
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
	f.Address, f.Client = clean(f.Address), clean(f.Client)
	return s.share(ctx, "store a login", &pgCall{family: &f, first: &first})
}

// Rotate implements auth.Store.
func (s *Postgres) Rotate(ctx context.Context, r auth.Rotation) (auth.Outcome, error) {
	r.Address, r.Client = clean(r.Address), clean(r.Client)
	c := &pgCall{rotation: &r}
	if err := s.share(ctx, "store a refresh", c); err != nil {
		return auth.Refused, err
	}
	return c.outcome, nil
}

// Append implements auth.Store.
func (s *Postgres) Append(ctx context.Context, events ...audit.Event) error {
	if len(events) == 0 {
		return nil
	}
	return s.share(ctx, "write to the audit log", &pgCall{events: events})
}

// clean makes text of what a client sent: PostgreSQL keeps no NUL and nothing that is not UTF-8.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// share does c together with others that wait, or gives up in time.
func (s *Postgres) share(ctx context.Context, what string, c *pgCall) error {
	ctx, cancel := context.WithTimeout(ctx, postgresLimit)
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

// transact collects the operations of a batch and executes them. Where the database refuses what one of them says, only
// that one fails.
func (s *Postgres) transact(ctx context.Context, collect func(*pgBatch) error) error {
	var b pgBatch
	if err := collect(&b); err != nil {
		return err
	}
	err := s.execute(ctx, b.calls)
	if err == nil || len(b.calls) == 1 || !itsOwn(err) {
		return err
	}
	s.executeApart(ctx, b.calls)
	return nil
}

// executeApart executes two or more operations of which one is refused: each half by itself, and again the halves of one that is
// refused. So the neighbours of one bad operation wait for a dozen transactions, and not for one each.
func (s *Postgres) executeApart(ctx context.Context, calls []*pgCall) {
	middle := len(calls) / 2
	for _, half := range [][]*pgCall{calls[:middle], calls[middle:]} {
		err := s.execute(ctx, half)
		switch {
		case err == nil: // each has its outcome
		case len(half) > 1 && itsOwn(err):
			s.executeApart(ctx, half)
		default:
			for _, c := range half {
				c.err = err
			}
		}
	}
}

// itsOwn says whether a failure is of what was said rather than of the database: bad data, or a constraint.
func itsOwn(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(e.Code, "22") || strings.HasPrefix(e.Code, "23"))
}

// execute does operations in a transaction, and tries again once where that changed nothing.
func (s *Postgres) execute(ctx context.Context, calls []*pgCall) error {
	ctx, cancel := context.WithTimeout(ctx, postgresLimit)
	defer cancel()
	err := s.attempt(ctx, calls)
	if err != nil && again(err) {
		err = s.attempt(ctx, calls)
	}
	return err
}

func (s *Postgres) attempt(ctx context.Context, calls []*pgCall) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release() // ends the connection where the transaction is not over
	var set workingSet
	if err := set.read(ctx, conn.Conn(), calls); err != nil {
		return err
	}
	for _, c := range calls {
		c.err = set.apply(c)
	}
	if len(set.events) == 0 { // nothing changed
		return sendBatch(ctx, conn.Conn(), func(b *pgx.Batch) { b.Queue(`ROLLBACK`) })
	}
	head, err := set.write(ctx, conn.Conn())
	if err != nil {
		return err
	}
	return sendBatch(ctx, conn.Conn(), func(b *pgx.Batch) {
		queueEvents(b, s.chain, head, set.events)
		b.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
			if tag.String() != "COMMIT" {
				return errors.New("the transaction was undone")
			}
			return nil
		})
	})
}

// sendBatch sends statements in one trip and waits for all.
func sendBatch(ctx context.Context, conn *pgx.Conn, fill func(*pgx.Batch)) error {
	var b pgx.Batch
	fill(&b)
	return conn.SendBatch(ctx, &b).Close()
}

// workingSet is what a transaction has read, and what it is to write.
type workingSet struct {
	families map[string]*auth.Family
	tokens   map[auth.Hash]*auth.RefreshToken

	newFamilies []*auth.Family
	newTokens   []*auth.RefreshToken             // the first of new families
	successors  map[auth.Hash]*auth.RefreshToken // new, or with a new end
	dead        map[auth.Hash]time.Time          // from now on
	used        map[string]*auth.Family
	over        map[string]*auth.Family // revoked now
	events      []audit.Event
}

// read begins the transaction, and reads and locks what the calls are about. Families are locked first and in the order of
// their ids, by every transaction of every gateway, so that none waits for one that waits for it; their tokens
// are changed by who has locked the family alone.
func (w *workingSet) read(ctx context.Context, conn *pgx.Conn, calls []*pgCall) error {
	w.families, w.tokens = make(map[string]*auth.Family), make(map[auth.Hash]*auth.RefreshToken)
	w.successors, w.dead = make(map[auth.Hash]*auth.RefreshToken), make(map[auth.Hash]time.Time)
	w.used, w.over = make(map[string]*auth.Family), make(map[string]*auth.Family)
	var presented, all [][]byte
	for _, c := range calls {
		if r := c.rotation; r != nil {
			presented = append(presented, r.Presented[:])
			all = append(all, r.Presented[:], r.Successor[:])
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
			ORDER BY id FOR NO KEY UPDATE`, presented).Query(func(rows pgx.Rows) error {
			return eachRow(rows, func() error {
				f, err := scanFamily(rows.Scan)
				w.families[f.ID] = &f
				return err
			})
		})
		b.Queue(`SELECT `+tokenColumns+` FROM refresh_tokens t WHERE hash = ANY ($1)`, all).Query(func(rows pgx.Rows) error {
			return eachRow(rows, func() error {
				t, err := scanToken(rows.Scan)
				w.tokens[t.Hash] = &t
				return err
			})
		})
	})
}

// apply does one operation to the set, as Memory would.
func (w *workingSet) apply(c *pgCall) error {
	switch {
	case c.family != nil:
		if w.families[c.family.ID] != nil || w.tokens[c.first.Hash] != nil {
			return errors.New("the family or the token is there already")
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

func (w *workingSet) rotate(r *auth.Rotation) auth.Outcome {
	presented, successor := w.tokens[r.Presented], w.tokens[r.Successor]
	if presented == nil {
		return auth.Refused
	}
	family := w.families[presented.Family]
	if family == nil { // deleted between the two questions
		return auth.Refused
	}
	outcome := r.Decide(*presented, successor, *family)
	switch outcome {
	case auth.Granted:
		if successor == nil {
			successor = &auth.RefreshToken{Hash: r.Successor, Parent: r.Presented, Family: family.ID, Issued: r.Now}
			w.tokens[r.Successor] = successor
		}
		if r.Expires.After(successor.Expires) {
			successor.Expires = r.Expires
			w.successors[r.Successor] = successor
		}
		w.kill(presented.Parent, r.Now)
		if r.Strict {
			w.kill(r.Presented, r.Now)
		}
		family.Used, family.Address, family.Client = r.Now, r.Address, r.Client
		w.used[family.ID] = family
		w.events = append(w.events, r.Event(outcome, family))
	case auth.Reused:
		family.Revoked, family.RevokedFor = r.Now, auth.RevokedReuse
		w.over[family.ID] = family
		w.events = append(w.events, r.Event(outcome, family))
	}
	return outcome
}

// kill makes a token dead, which may not have been read. One that was dead before keeps its time.
func (w *workingSet) kill(h auth.Hash, now time.Time) {
	if t := w.tokens[h]; t != nil {
		kill(t, now)
	}
	if _, known := w.dead[h]; !known && h != (auth.Hash{}) {
		w.dead[h] = now
	}
}

// write writes what has changed, and locks and reads the head of the audit log, last.
func (w *workingSet) write(ctx context.Context, conn *pgx.Conn) (head audit.Head, err error) {
	err = sendBatch(ctx, conn, func(b *pgx.Batch) {
		w.queueFamilies(b)
		w.queueTokens(b)
		queueRevocations(b, slices.Collect(maps.Values(w.over)))
		queueHead(b, &head)
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
	insert := func(tokens iter.Seq[*auth.RefreshToken], conflict string) {
		var hash, parent [][]byte
		var family []string
		var issued, expires []int64
		for t := range tokens {
			hash, family = append(hash, t.Hash[:]), append(family, t.Family)
			issued, expires = append(issued, t.Issued.UnixNano()), append(expires, t.Expires.UnixNano())
			if t.Parent == (auth.Hash{}) {
				parent = append(parent, nil)
			} else {
				parent = append(parent, t.Parent[:])
			}
		}
		if len(hash) > 0 {
			b.Queue(`
				INSERT INTO refresh_tokens (hash, parent, family, issued_at, expires_at)
				SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::text[], $4::bigint[], $5::bigint[])`+conflict,
				hash, parent, family, issued, expires)
		}
	}
	insert(slices.Values(w.newTokens), "")
	insert(maps.Values(w.successors), ` ON CONFLICT (hash) DO UPDATE SET expires_at = excluded.expires_at`)
	if len(w.dead) > 0 {
		var hash [][]byte
		var at []int64
		for h, t := range w.dead {
			hash, at = append(hash, slices.Clone(h[:])), append(at, t.UnixNano())
		}
		b.Queue(`
			UPDATE refresh_tokens t SET dead_at = u.at FROM unnest($1::bytea[], $2::bigint[]) u (hash, at)
			WHERE t.hash = u.hash AND t.dead_at IS NULL`, hash, at)
	}
}

// queueRevocations ends families and tells it to all gateways.
func queueRevocations(b *pgx.Batch, over []*auth.Family) {
	if len(over) == 0 {
		return
	}
	var id, reason []string
	var at []int64
	for _, f := range over {
		id, at, reason = append(id, f.ID), append(at, f.Revoked.UnixNano()), append(reason, f.RevokedFor)
	}
	b.Queue(`
		UPDATE families f SET revoked_at = u.at, revoked_for = u.reason
		FROM unnest($1::text[], $2::bigint[], $3::text[]) u (id, at, reason) WHERE f.id = u.id AND f.revoked_at IS NULL`, id, at, reason)
	for _, text := range notices(over) {
		b.Queue(`SELECT pg_notify($1, $2)`, revokedChannel, text)
	}
}
