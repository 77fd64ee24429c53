package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
)

const familyColumns = `id, user_id, user_version, key_id, seed, created_at, used_at, address, client, revoked_at, revoked_for`

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
		AND EXISTS (SELECT 1 FROM refresh_tokens WHERE family = families.id AND dead_at IS NULL AND expires_at > ?)
		ORDER BY used_at DESC, id`, userID, now.UnixNano())
}
