package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
)

const (
	familyColumns = `id, user_id, user_version, key_id, seed, created_at, used_at, address, client, revoked_at, revoked_for`
	tokenColumns  = `t.hash, t.parent, t.family, t.issued_at, coalesce(t.valid_until, t.expires_at), t.expires_at, t.dead_at, t.successor`
)

// scanToken reads a row of tokenColumns.
func scanToken(scan func(...any) error) (t auth.RefreshToken, err error) {
	var hash, parent, successor []byte
	var issued, expires, kept int64
	var dead sql.NullInt64
	err = scan(&hash, &parent, &t.Family, &issued, &expires, &kept, &dead, &successor)
	copy(t.Hash[:], hash)
	copy(t.Parent[:], parent)
	copy(t.Successor[:], successor)
	t.Issued, t.Expires, t.Kept, t.Dead = time.Unix(0, issued), time.Unix(0, expires), time.Unix(0, kept), timeOf(dead)
	return t, err
}

// scanLookup reads a row of tokenColumns and familyColumns.
func scanLookup(scan func(...any) error) (t auth.RefreshToken, f auth.Family, err error) {
	t, err = scanToken(func(first ...any) error {
		f, err = scanFamily(func(rest ...any) error { return scan(append(first, rest...)...) })
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return auth.RefreshToken{}, auth.Family{}, auth.ErrNotFound
	}
	return t, f, err
}

// scanFamily reads a row of familyColumns.
func scanFamily(scan func(...any) error) (f auth.Family, err error) {
	var (
		seed          []byte
		created, used int64
		revoked       sql.NullInt64
		revokedFor    sql.NullString
	)
	err = scan(&f.ID, &f.UserID, &f.UserVersion, &f.KeyID, &seed, &created, &used, &f.Address, &f.Client, &revoked, &revokedFor)
	copy(f.Seed[:], seed)
	f.Created, f.Used, f.Revoked, f.RevokedFor = time.Unix(0, created), time.Unix(0, used), timeOf(revoked), revokedFor.String
	return f, err
}

// families returns the families that a query selects.
func (s *SQLite) families(ctx context.Context, query string, args ...any) (list []auth.Family, err error) {
	err = each(ctx, s.reader, func(scan func(...any) error) error {
		f, err := scanFamily(scan)
		list = append(list, f)
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read families: %w", explain(err))
	}
	return list, nil
}

// Families implements auth.Store.
func (s *SQLite) Families(ctx context.Context, ids []string) ([]auth.Family, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return s.families(ctx, `SELECT `+familyColumns+` FROM families WHERE id IN (?`+strings.Repeat(", ?", len(ids)-1)+`)`, args...)
}

// Sessions implements auth.Store.
func (s *SQLite) Sessions(ctx context.Context, userID string, now time.Time) ([]auth.Family, error) {
	return s.families(ctx, `
		SELECT `+familyColumns+` FROM families WHERE user_id = ? AND revoked_at IS NULL
		AND EXISTS (SELECT 1 FROM refresh_tokens WHERE family = families.id AND (dead_at IS NULL OR successor IS NULL) AND expires_at > ?)
		ORDER BY used_at DESC, id`, userID, now.UnixNano())
}

// createdBy returns the latest Unix time in nanoseconds of families that were created by a time;
// all if it is zero.
func createdBy(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return t.UnixNano()
}
