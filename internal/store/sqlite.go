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
	return s.write(ctx, "store a login", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO families (id, user_id, user_version, key_id, seed, created_at, used_at, address, client)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			f.ID, f.UserID, f.UserVersion, f.KeyID, f.Seed[:], f.Created.UnixNano(), f.Used.UnixNano(), f.Address, f.Client)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			INSERT INTO refresh_tokens (hash, family, issued_at, expires_at) VALUES (?, ?, ?, ?)`,
			first.Hash[:], first.Family, first.Issued.UnixNano(), first.Expires.UnixNano())
		if err != nil {
			return err
		}
		return s.AppendAudit(ctx, tx, f.LoginEvent())
	})
}

// Lookup implements auth.Store.
func (s *SQLite) Lookup(ctx context.Context, hash auth.Hash) (auth.RefreshToken, auth.Family, error) {
	t, f, err := lookup(ctx, s.reader, hash)
	if err != nil && !errors.Is(err, auth.ErrNotFound) {
		err = fmt.Errorf("read a refresh token: %w", explain(err))
	}
	return t, f, err
}

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func lookup(ctx context.Context, q querier, hash auth.Hash) (t auth.RefreshToken, f auth.Family, err error) {
	var (
		parent, seed                   []byte
		issued, expires, created, used int64
		dead, revoked                  sql.NullInt64
		revokedFor                     sql.NullString
	)
	err = q.QueryRowContext(ctx, `
		SELECT t.parent, t.issued_at, t.expires_at, t.dead_at,
			f.id, f.user_id, f.user_version, f.key_id, f.seed, f.created_at, f.used_at, f.address, f.client, f.revoked_at, f.revoked_for
		FROM refresh_tokens t JOIN families f ON f.id = t.family WHERE t.hash = ?`, hash[:]).Scan(
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
	err = s.write(ctx, "store a refresh", func(tx *sql.Tx) error {
		presented, family, err := lookup(ctx, tx, r.Presented)
		if errors.Is(err, auth.ErrNotFound) {
			outcome = auth.Refused
			return nil
		}
		if err != nil {
			return err
		}
		var successor *auth.RefreshToken
		if t, _, err := lookup(ctx, tx, r.Successor); err == nil {
			successor = &t
		} else if !errors.Is(err, auth.ErrNotFound) {
			return err
		}
		outcome = r.Decide(presented, successor, family)
		switch outcome {
		case auth.Granted:
			err = grant(ctx, tx, r, presented)
		case auth.Reused:
			_, err = revoke(ctx, tx, family.ID, auth.RevokedReuse, r.Now)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		return s.AppendAudit(ctx, tx, r.Event(outcome, &family))
	})
	if err != nil {
		return auth.Refused, err
	}
	return outcome, nil
}

func grant(ctx context.Context, tx *sql.Tx, r auth.Rotation, presented auth.RefreshToken) error {
	now := r.Now.UnixNano()
	_, err := tx.ExecContext(ctx, `
		INSERT INTO refresh_tokens (hash, parent, family, issued_at, expires_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (hash) DO UPDATE SET expires_at = max(expires_at, excluded.expires_at)`,
		r.Successor[:], r.Presented[:], presented.Family, now, r.Expires.UnixNano())
	if err != nil {
		return err
	}
	const kill = `UPDATE refresh_tokens SET dead_at = ? WHERE hash = ? AND dead_at IS NULL`
	if _, err := tx.ExecContext(ctx, kill, now, presented.Parent[:]); err != nil {
		return err
	}
	if r.Strict {
		if _, err := tx.ExecContext(ctx, kill, now, presented.Hash[:]); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, `UPDATE families SET used_at = ?, address = ?, client = ? WHERE id = ?`,
		now, r.Address, r.Client, presented.Family)
	return err
}

// revoke ends a family and returns its user; "" where it is over already or not there.
func revoke(ctx context.Context, tx *sql.Tx, family, reason string, now time.Time) (user string, err error) {
	err = tx.QueryRowContext(ctx, `UPDATE families SET revoked_at = ?, revoked_for = ? WHERE id = ? AND revoked_at IS NULL RETURNING user_id`,
		now.UnixNano(), reason, family).Scan(&user)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return user, err
}

// RevokeFamily implements auth.Store.
func (s *SQLite) RevokeFamily(ctx context.Context, id, reason string, e audit.Event) error {
	return s.write(ctx, "revoke a family", func(tx *sql.Tx) error {
		user, err := revoke(ctx, tx, id, reason, e.Time)
		if err != nil || user == "" {
			return err
		}
		e.Family, e.User = id, user
		return s.AppendAudit(ctx, tx, e)
	})
}

// RevokeUser implements auth.Store.
func (s *SQLite) RevokeUser(ctx context.Context, userID, reason string, e audit.Event) (ids []string, err error) {
	err = s.write(ctx, "revoke a user's families", func(tx *sql.Tx) error {
		err := each(ctx, tx, func(scan func(...any) error) error {
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
		return s.AppendAudit(ctx, tx, e)
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

// expireBatch bounds the rows that one transaction deletes, since logins wait for it.
const expireBatch = 500

// Expire implements auth.Store. It is atomic in batches, which nobody can tell
// from the outside: what has expired is refused already.
func (s *SQLite) Expire(ctx context.Context, now, keepRevoked time.Time) (families int, err error) {
	for {
		var tokens, gone int64
		err := s.write(ctx, "delete what has expired", func(tx *sql.Tx) error {
			var err error
			tokens, gone, err = expire(ctx, tx, now, keepRevoked)
			return err
		})
		families += int(gone)
		if err != nil || tokens < expireBatch && gone < expireBatch {
			return families, err
		}
	}
}

func expire(ctx context.Context, tx *sql.Tx, now, keepRevoked time.Time) (tokens, families int64, err error) {
	// The families whose last token is about to go, so that no search of the whole table finds them.
	tokens, orphans, err := expireTokens(ctx, tx, now)
	if err != nil {
		return 0, 0, err
	}
	for _, id := range orphans {
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

// expireTokens deletes a batch of tokens and returns their families.
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

// each calls f for each row of a query, with the row's Scan, until f fails.
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

// write runs f in a transaction that holds the write lock from its start, so that
// what it reads is still true when it writes.
func (s *SQLite) write(ctx context.Context, what string, f func(*sql.Tx) error) error {
	err := s.inTransaction(ctx, f)
	if err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	return nil
}

func (s *SQLite) inTransaction(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
