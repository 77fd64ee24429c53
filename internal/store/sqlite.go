package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auth"
)

// CreateFamily implements auth.Store.
func (s *SQLite) CreateFamily(ctx context.Context, f auth.Family, first auth.RefreshToken) error {
	return s.write(ctx, "store a login", func(t *sqliteTx) error {
		err := t.exec(insertFamily, f.ID, f.UserID, f.UserVersion, f.KeyID, f.Seed[:], f.Created.UnixNano(), f.Used.UnixNano(), f.Address, f.Client)
		if err != nil {
			return err
		}
		if err := t.exec(insertToken, first.Hash[:], first.Family, first.Issued.UnixNano(), first.Expires.UnixNano()); err != nil {
			return err
		}
		t.log(f.LoginEvent())
		return nil
	})
}

// Lookup implements auth.Store.
func (s *SQLite) Lookup(ctx context.Context, hash auth.Hash) (auth.RefreshToken, auth.Family, error) {
	t, f, err := s.lookup(ctx, hash)
	if err != nil && !errors.Is(err, auth.ErrNotFound) {
		err = fmt.Errorf("read a refresh token: %w", explain(err))
	}
	return t, f, err
}

func (s *SQLite) lookup(ctx context.Context, hash auth.Hash) (t auth.RefreshToken, f auth.Family, err error) {
	var (
		parent, seed                   []byte
		issued, expires, created, used int64
		dead, revoked                  sql.NullInt64
		revokedFor                     sql.NullString
	)
	if err := ctx.Err(); err != nil {
		return t, f, err
	}
	// Not canceled: a query with a context that can end costs more than reading one row.
	err = s.lookupRow.QueryRowContext(context.WithoutCancel(ctx), hash[:]).Scan(
		&parent, &issued, &expires, &dead,
		&f.ID, &f.UserID, &f.UserVersion, &f.KeyID, &seed, &created, &used, &f.Address, &f.Client, &revoked, &revokedFor)
	if errors.Is(err, sql.ErrNoRows) {
		return t, f, auth.ErrNotFound
	}
	if err != nil {
		return t, f, err
	}
	t.Hash, t.Family = hash, f.ID
	copy(t.Parent[:], parent)
	t.Issued, t.Expires, t.Dead = time.Unix(0, issued), time.Unix(0, expires), timeOf(dead)
	copy(f.Seed[:], seed)
	f.Created, f.Used, f.Revoked, f.RevokedFor = time.Unix(0, created), time.Unix(0, used), timeOf(revoked), revokedFor.String
	return t, f, nil
}

func timeOf(nanos sql.NullInt64) time.Time {
	if !nanos.Valid {
		return time.Time{}
	}
	return time.Unix(0, nanos.Int64)
}

// Rotate implements auth.Store.
func (s *SQLite) Rotate(ctx context.Context, r auth.Rotation) (outcome auth.Outcome, err error) {
	err = s.write(ctx, "store a refresh", func(t *sqliteTx) error {
		presented, successor, family, err := t.rotating(r)
		if errors.Is(err, sql.ErrNoRows) {
			outcome = auth.Refused
			return nil
		}
		if err != nil {
			return err
		}
		outcome = r.Decide(presented, successor, family)
		switch outcome {
		case auth.Granted:
			err = t.grant(r, presented)
		case auth.Reused:
			err = t.exec(revokeFamily, r.Now.UnixNano(), auth.RevokedReuse, family.ID)
		default:
			return nil
		}
		if err == nil {
			t.log(r.Event(outcome, &family))
		}
		return err
	})
	if err != nil {
		return auth.Refused, err
	}
	return outcome, nil
}

// rotating reads the rows that decide a rotation. successor is nil if there is none.
func (t *sqliteTx) rotating(r auth.Rotation) (presented auth.RefreshToken, successor *auth.RefreshToken, family auth.Family, err error) {
	var (
		parent                               []byte
		expires                              int64
		dead, revoked, nextExpires, nextDead sql.NullInt64
	)
	err = t.query(selectRotation, r.Successor[:], r.Presented[:]).Scan(
		&parent, &expires, &dead, &nextExpires, &nextDead, &family.ID, &family.UserID, &revoked)
	if err != nil {
		return presented, nil, family, err
	}
	presented.Hash, presented.Family = r.Presented, family.ID
	copy(presented.Parent[:], parent)
	presented.Expires, presented.Dead = time.Unix(0, expires), timeOf(dead)
	if nextExpires.Valid {
		successor = &auth.RefreshToken{Hash: r.Successor, Expires: timeOf(nextExpires), Dead: timeOf(nextDead)}
	}
	family.Revoked = timeOf(revoked)
	return presented, successor, family, nil
}

// grant stores the successor of a token.
func (t *sqliteTx) grant(r auth.Rotation, presented auth.RefreshToken) error {
	now := r.Now.UnixNano()
	err := t.exec(upsertSuccessor, r.Successor[:], r.Presented[:], presented.Family, now, r.Expires.UnixNano())
	if err == nil && presented.Parent != (auth.Hash{}) {
		err = t.exec(killToken, now, presented.Parent[:])
	}
	if err == nil && r.Strict {
		err = t.exec(killToken, now, presented.Hash[:])
	}
	if err == nil {
		err = t.exec(useFamily, now, r.Address, r.Client, presented.Family)
	}
	return err
}

// RevokeFamily implements auth.Store.
func (s *SQLite) RevokeFamily(ctx context.Context, id, reason string, e audit.Event) error {
	return s.write(ctx, "revoke a family", func(t *sqliteTx) error {
		var user string
		err := t.query(revokeFamily, e.Time.UnixNano(), reason, id).Scan(&user)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // revoked already, or unknown
		}
		if err != nil {
			return err
		}
		e.Family, e.User = id, user
		t.log(e)
		return nil
	})
}

// RevokeUser implements auth.Store.
func (s *SQLite) RevokeUser(ctx context.Context, userID, reason string, e audit.Event) (ids []string, err error) {
	err = s.write(ctx, "revoke a user's families", func(t *sqliteTx) error {
		ids = nil
		err := each(t.ctx, t.tx, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		}, `UPDATE families SET revoked_at = ?, revoked_for = ? WHERE user_id = ? AND revoked_at IS NULL RETURNING id`,
			e.Time.UnixNano(), reason, userID)
		if err != nil {
			return err
		}
		e.User = userID
		t.log(e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// Revoked implements auth.Store.
func (s *SQLite) Revoked(ctx context.Context, since time.Time) ([]auth.Revocation, error) {
	var list []auth.Revocation
	err := each(ctx, s.reader, func(scan func(...any) error) error {
		var r auth.Revocation
		var at int64
		err := scan(&r.Family, &at)
		r.At = time.Unix(0, at)
		list = append(list, r)
		return err
	}, `SELECT id, revoked_at FROM families WHERE revoked_at >= ?`, since.UnixNano())
	if err != nil {
		return nil, fmt.Errorf("read revoked families: %w", explain(err))
	}
	return list, nil
}

// expireBatch bounds the rows that one transaction deletes, because logins wait for it.
const expireBatch = 500

// Expire implements auth.Store. It is atomic in batches; clients cannot notice, because expired
// tokens are refused already.
func (s *SQLite) Expire(ctx context.Context, now, keepRevoked time.Time) (families int, err error) {
	for {
		var tokens, deleted int64
		err := s.write(ctx, "delete expired logins", func(t *sqliteTx) (err error) {
			tokens, deleted, err = expire(t.ctx, t.tx, now, keepRevoked)
			return err
		})
		families += int(deleted)
		if err != nil || tokens < expireBatch && deleted < expireBatch {
			return families, err
		}
	}
}

func expire(ctx context.Context, tx *sql.Tx, now, keepRevoked time.Time) (tokens, families int64, err error) {
	// These families may lose their last token. Knowing them avoids a scan of the table.
	tokens, emptied, err := expireTokens(ctx, tx, now)
	if err != nil {
		return 0, 0, err
	}
	for _, id := range emptied {
		n, err := affected(tx.ExecContext(ctx, `
			DELETE FROM families WHERE id = ? AND revoked_at IS NULL
			AND NOT EXISTS (SELECT 1 FROM refresh_tokens WHERE family = families.id)`, id))
		if err != nil {
			return 0, 0, err
		}
		families += n
	}
	n, err := affected(tx.ExecContext(ctx, `
		DELETE FROM families WHERE id IN (SELECT id FROM families WHERE revoked_at < ? LIMIT ?)`,
		keepRevoked.UnixNano(), expireBatch))
	return tokens, families + n, err
}

// expireTokens deletes one batch of tokens and returns their families.
func expireTokens(ctx context.Context, tx *sql.Tx, now time.Time) (n int64, families []string, err error) {
	seen := make(map[string]bool)
	err = each(ctx, tx, func(scan func(...any) error) error {
		n++
		var family string
		err := scan(&family)
		if !seen[family] {
			seen[family] = true
			families = append(families, family)
		}
		return err
	}, `DELETE FROM refresh_tokens WHERE hash IN (SELECT hash FROM refresh_tokens WHERE expires_at <= ? LIMIT ?) RETURNING family`,
		now.UnixNano(), expireBatch)
	return n, families, err
}

// querier is a *sql.DB or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each calls f with the Scan method of each row of a query until f fails.
func each(ctx context.Context, q querier, f func(scan func(...any) error) error, query string, args ...any) (err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
