package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auth"
)

// CreateFamily implements auth.Store.
func (s *SQLite) CreateFamily(ctx context.Context, f auth.Family, first auth.RefreshToken) error {
	return s.write(ctx, "store a login", func(t *sqliteTx) error {
		err := t.exec(insertFamily, f.ID, f.UserID, f.UserVersion, f.KeyID, f.Seed[:], f.Created.UnixNano(), f.Used.UnixNano(), f.Address, f.Client)
		if err != nil {
			return err
		}
		if err := t.insertToken(&first); err != nil {
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

func (s *SQLite) lookup(ctx context.Context, hash auth.Hash) (auth.RefreshToken, auth.Family, error) {
	if err := ctx.Err(); err != nil {
		return auth.RefreshToken{}, auth.Family{}, err
	}
	// Not canceled: a query with a context that can end costs more than reading one row.
	return scanLookup(s.lookupRow.QueryRowContext(context.WithoutCancel(ctx), hash[:]).Scan)
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
		rows, err := t.rows(&r)
		if err != nil {
			return err
		}
		isNew, parentDies := rows.Presented == nil, rows.Parent != nil && rows.Parent.Successor == (auth.Hash{})
		switch outcome = r.Apply(&rows); outcome {
		case auth.Granted:
			err = t.grant(&rows, isNew, parentDies)
		case auth.Reused:
			err = t.exec(revokeFamily, r.Now.UnixNano(), auth.RevokedReuse, rows.Family.ID)
		default:
			return nil
		}
		if err == nil {
			t.log(r.Event(outcome, rows.Family))
		}
		return err
	})
	if err != nil {
		return auth.Refused, err
	}
	return outcome, nil
}

// rows reads the rows of a rotation, with the columns that it needs.
func (t *sqliteTx) rows(r *auth.Rotation) (rows auth.Rows, err error) {
	if r.Parent != (auth.Hash{}) {
		rows, err = scanRows(r, t.query(selectSuccessor, r.Presented[:], r.Parent[:]).Scan)
	}
	if rows.Family == nil && err == nil { // not a successor, or the row of its parent is gone
		rows, err = scanRows(r, t.query(selectPresented, r.Presented[:]).Scan)
	}
	return rows, err
}

// scanRows reads a row of rotationColumns.
func scanRows(r *auth.Rotation, scan func(...any) error) (rows auth.Rows, err error) {
	var (
		presented = auth.RefreshToken{Hash: r.Presented}
		parent    auth.RefreshToken
		family    auth.Family

		successor, parentHash, parentSuccessor         []byte
		validUntil, expires, dead, parentDead, revoked sql.NullInt64
	)
	err = scan(&validUntil, &expires, &dead, &successor,
		&parentHash, &parentDead, &parentSuccessor, &family.ID, &family.UserID, &family.Address, &revoked)
	if errors.Is(err, sql.ErrNoRows) {
		return auth.Rows{}, nil
	}
	if err != nil {
		return auth.Rows{}, err
	}
	if expires.Valid {
		presented.Expires, presented.Kept, presented.Dead = timeOf(validUntil), timeOf(expires), timeOf(dead)
		copy(presented.Successor[:], successor)
		rows.Presented = &presented
	}
	if parentHash != nil {
		copy(parent.Hash[:], parentHash)
		copy(parent.Successor[:], parentSuccessor)
		parent.Dead = timeOf(parentDead)
		rows.Parent = &parent
	}
	family.Revoked = timeOf(revoked)
	rows.Family = &family
	return rows, nil
}

// grant writes the rows of a rotation: the presented token, which isNew if it has no row yet, the
// parent if it dies, and the family.
func (t *sqliteTx) grant(rows *auth.Rows, isNew, parentDies bool) (err error) {
	if p := rows.Presented; isNew {
		err = t.insertToken(p)
	} else {
		err = t.exec(updateToken, p.Kept.UnixNano(), timeValue(p.Dead), p.Hash[:])
	}
	if p := rows.Parent; err == nil && parentDies {
		err = t.exec(endToken, p.Dead.UnixNano(), p.Successor[:], p.Hash[:])
	}
	if f := rows.Family; err == nil {
		err = t.exec(useFamily, f.Used.UnixNano(), f.Address, f.Client, f.ID)
	}
	return err
}

// insertToken writes a token that has no row yet.
func (t *sqliteTx) insertToken(k *auth.RefreshToken) error {
	return t.exec(insertToken, k.Hash[:], hashValue(k.Parent), k.Family, k.Issued.UnixNano(), k.Expires.UnixNano(), k.Kept.UnixNano(),
		timeValue(k.Dead))
}

// hashValue returns the value of a column: NULL for the zero hash.
func hashValue(h auth.Hash) any {
	if h == (auth.Hash{}) {
		return nil
	}
	return h[:]
}

// timeValue returns the value of a column: NULL for the zero time.
func timeValue(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixNano()
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
func (s *SQLite) RevokeUser(ctx context.Context, userID, reason string, created time.Time, e audit.Event) (ids []string, err error) {
	err = s.write(ctx, "revoke a user's families", func(t *sqliteTx) error {
		ids = nil
		err := each(t.ctx, t.tx, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		}, `UPDATE families SET revoked_at = ?, revoked_for = ? WHERE user_id = ? AND created_at <= ? AND revoked_at IS NULL RETURNING id`,
			e.Time.UnixNano(), reason, userID, createdBy(created))
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
		if err != nil {
			return families, err
		}
		if tokens < expireBatch && deleted < expireBatch {
			return families, s.expireAccounts(ctx, now)
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
