package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// eachRow calls f for each row until f fails, and closes rows.
func eachRow(rows pgx.Rows, f func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// pgLookups collects the tokens of one query.
type pgLookups struct {
	asked []*pgLookup
}

type pgLookup struct {
	hash   auth.Hash
	found  bool
	token  auth.RefreshToken
	family auth.Family
}

// Lookup implements auth.Store.
func (s *Postgres) Lookup(ctx context.Context, hash auth.Hash) (auth.RefreshToken, auth.Family, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	l := &pgLookup{hash: hash}
	err := s.reads.do(ctx, func(all *pgLookups) error {
		all.asked = append(all.asked, l)
		return nil
	})
	switch {
	case err != nil:
		return auth.RefreshToken{}, auth.Family{}, fmt.Errorf("read a refresh token: %w", explainPostgres(err))
	case !l.found:
		return auth.RefreshToken{}, auth.Family{}, auth.ErrNotFound
	}
	return l.token, l.family, nil
}

// lookup reads the tokens of all waiting callers with one query.
func (s *Postgres) lookup(ctx context.Context, collect func(*pgLookups) error) error {
	var all pgLookups
	if err := collect(&all); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	hashes := make([][]byte, len(all.asked))
	for i, l := range all.asked {
		hashes[i] = l.hash[:]
	}
	found := make(map[auth.Hash]*pgLookup, len(hashes))
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+`, `+familyColumns+` FROM refresh_tokens t JOIN families f ON f.id = t.family
		WHERE t.hash = ANY ($1)`, hashes)
	if err != nil {
		return err
	}
	err = eachRow(rows, func() error {
		l := &pgLookup{found: true}
		var err error
		l.token, l.family, err = scanLookup(rows.Scan)
		found[l.token.Hash] = l
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range all.asked {
		if f := found[l.hash]; f != nil {
			l.found, l.token, l.family = true, f.token, f.family
		}
	}
	return nil
}

// list returns the rows of a query, within the time limit.
func list[T any](ctx context.Context, s *Postgres, what string, scan func(func(...any) error) (T, error), query string, args ...any) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	rows, err := s.pool.Query(ctx, query, args...) //nolint:sqlclosecheck // eachRow closes them
	var all []T
	if err == nil {
		err = eachRow(rows, func() error {
			v, err := scan(rows.Scan)
			all = append(all, v)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, explainPostgres(err))
	}
	return all, nil
}

// Families implements auth.Store.
func (s *Postgres) Families(ctx context.Context, ids []string) ([]auth.Family, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return list(ctx, s, "read families", scanFamily, `SELECT `+familyColumns+` FROM families WHERE id = ANY ($1)`, ids)
}

// Sessions implements auth.Store.
func (s *Postgres) Sessions(ctx context.Context, userID string, now time.Time) ([]auth.Family, error) {
	return list(ctx, s, "read families", scanFamily, `
		SELECT `+familyColumns+` FROM families WHERE user_id = $1 AND revoked_at IS NULL
		AND EXISTS (SELECT 1 FROM refresh_tokens WHERE family = families.id AND (dead_at IS NULL OR successor IS NULL) AND expires_at > $2)
		ORDER BY used_at DESC, id`, userID, now.UnixNano())
}

// Revoked implements auth.Store.
func (s *Postgres) Revoked(ctx context.Context, since time.Time) ([]auth.Revocation, error) {
	return list(ctx, s, "read revoked families", scanRevocation, `SELECT id, revoked_at FROM families WHERE revoked_at >= $1`, since.UnixNano())
}

// RevokeFamily implements auth.Store.
func (s *Postgres) RevokeFamily(ctx context.Context, id, reason string, e audit.Event) error {
	return s.write(ctx, "revoke a family", func(ctx context.Context, tx pgx.Tx) error {
		e.Family = id
		err := tx.QueryRow(ctx, `SELECT user_id FROM families WHERE id = $1 AND revoked_at IS NULL FOR NO KEY UPDATE`, id).Scan(&e.User)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return s.revokeLocked(ctx, tx, []string{id}, reason, e)
	})
}

// RevokeUser implements auth.Store.
func (s *Postgres) RevokeUser(ctx context.Context, userID, reason string, created time.Time, e audit.Event) (ids []string, err error) {
	err = s.write(ctx, "revoke a user's families", func(ctx context.Context, tx pgx.Tx) error {
		e.User = userID
		rows, err := tx.Query(ctx, `SELECT id FROM families WHERE user_id = $1 AND created_at <= $2 AND revoked_at IS NULL
			ORDER BY id FOR NO KEY UPDATE`, userID, createdBy(created))
		if err != nil {
			return err
		}
		if ids, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		return s.revokeLocked(ctx, tx, ids, reason, e)
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// revokeLocked revokes families that tx has locked, and appends e to the chain.
func (s *Postgres) revokeLocked(ctx context.Context, tx pgx.Tx, ids []string, reason string, e audit.Event) error {
	revoked := make([]*auth.Family, len(ids))
	for i, id := range ids {
		revoked[i] = &auth.Family{ID: id, Revoked: e.Time, RevokedFor: reason}
	}
	var head audit.Head
	var b pgx.Batch
	queueRevocations(&b, revoked)
	s.queueLockHead(&b, &head)
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	var events pgx.Batch
	queueEvents(&events, s.chain, head, []audit.Event{e})
	return tx.SendBatch(ctx, &events).Close()
}

// Expire implements auth.Store. It is atomic in batches, as in SQLite.
func (s *Postgres) Expire(ctx context.Context, now, keepRevoked time.Time) (families int, err error) {
	for {
		var tokens, deleted int
		err := s.write(ctx, "delete expired logins", func(ctx context.Context, tx pgx.Tx) (err error) {
			tokens, deleted, err = expirePostgres(ctx, tx, now, keepRevoked)
			return err
		})
		if err != nil {
			return families, err
		}
		families += deleted
		if tokens < expireBatch && deleted < expireBatch {
			break
		}
	}
	return families, errors.Join(s.expireLimits(ctx, now), s.expireAccounts(ctx, now))
}

// expirePostgres deletes one batch. It locks families before their tokens and in order, as
// refreshes do.
func expirePostgres(ctx context.Context, tx pgx.Tx, now, keepRevoked time.Time) (tokens, families int, err error) {
	rows, err := tx.Query(ctx, `
		SELECT id, revoked_at < $2 FROM families WHERE id = ANY (ARRAY(
			(SELECT family FROM refresh_tokens WHERE expires_at <= $1 ORDER BY expires_at LIMIT $3) UNION
			(SELECT id FROM families WHERE revoked_at < $2 ORDER BY revoked_at LIMIT $3)))
		ORDER BY id FOR UPDATE`, now.UnixNano(), keepRevoked.UnixNano(), expireBatch)
	if err != nil {
		return 0, 0, err
	}
	var all, revoked []string
	err = eachRow(rows, func() error {
		var id string
		var isRevoked sql.NullBool
		err := rows.Scan(&id, &isRevoked)
		all = append(all, id)
		if isRevoked.Bool {
			revoked = append(revoked, id)
		}
		return err
	})
	if err != nil || len(all) == 0 {
		return 0, 0, err
	}
	var b pgx.Batch
	b.Queue(`DELETE FROM refresh_tokens WHERE family = ANY ($1) AND expires_at <= $2`, all, now.UnixNano())
	b.Queue(`DELETE FROM families WHERE id = ANY ($1)`, revoked)
	b.Queue(`DELETE FROM families WHERE id = ANY ($1) AND revoked_at IS NULL
		AND NOT EXISTS (SELECT 1 FROM refresh_tokens WHERE family = families.id)`, all)
	results := tx.SendBatch(ctx, &b)
	for _, n := range []*int{&tokens, &families, &families} {
		tag, err := results.Exec()
		if err != nil {
			return 0, 0, errors.Join(err, results.Close())
		}
		*n += int(tag.RowsAffected())
	}
	return tokens, families, results.Close()
}
