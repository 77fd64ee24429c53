package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auth"
)

// UseChain sets the key of the audit log's chain, before anything is written.
func (s *SQLite) UseChain(c audit.Chain) { s.chain = c }

// AppendAudit adds an event to the audit log, in the transaction of what it tells.
func (s *SQLite) AppendAudit(ctx context.Context, tx *sql.Tx, e audit.Event) error {
	var head audit.Head
	var sum []byte
	err := tx.QueryRowContext(ctx, `SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1`).Scan(&head.Seq, &sum)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	copy(head.Hash[:], sum)
	link := s.chain.Link(head.Hash, head.Seq+1, &e)
	_, err = tx.ExecContext(ctx, `
		INSERT INTO audit (seq, hash, at, kind, actor, user_id, family, address, client, detail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		head.Seq+1, link[:], e.Time.UnixMicro(), string(e.Kind), e.Actor, e.User, e.Family, e.Address, e.Client, e.Detail)
	return err
}

// Append implements auth.Store.
func (s *SQLite) Append(ctx context.Context, events ...audit.Event) error {
	return s.write(ctx, "write to the audit log", func(tx *sql.Tx) error {
		for _, e := range events {
			if err := s.AppendAudit(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

const familyColumns = `id, user_id, user_version, key_id, seed, created_at, used_at, address, client, revoked_at, revoked_for`

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
		ORDER BY used_at DESC`, userID, now.UnixNano())
}

// watchEvery is how often Watch looks for what other processes did.
const watchEvery = 250 * time.Millisecond

// Watch implements auth.Store.
func (s *SQLite) Watch(ctx context.Context, tell func([]auth.Revocation)) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	since := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := time.Now()
		list, err := s.Revoked(ctx, since.Add(-5*time.Second)) // who wrote may have a clock a little behind
		if err != nil {
			continue // what was missed is found by the next look
		}
		since = now
		if len(list) > 0 {
			tell(list)
		}
	}
}
