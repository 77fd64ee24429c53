package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// Reserve implements throttle.Shared with one statement.
func (s *Postgres) Reserve(ctx context.Context, r throttle.Reservation) (*throttle.Refusal, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	account, keys, intervals, bursts := limitKeys(r)
	var refused int
	var wait int64
	err := s.pool.QueryRow(ctx, `SELECT refused, wait FROM rueda_reserve($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		attemptKey(r), r.Now.UnixNano(), account, r.Free, throttle.MaxBackoff, throttle.FailuresKept, attemptKept, keys, intervals, bursts).Scan(&refused, &wait)
	switch {
	case err != nil:
		return nil, fmt.Errorf("charge the shared limits: %w", explainPostgres(err))
	case refused < 0:
		return nil, nil
	case refused == 0:
		return &throttle.Refusal{Account: true, Wait: time.Duration(wait)}, nil
	}
	return &throttle.Refusal{Bucket: refused - 1, Wait: time.Duration(wait)}, nil
}

// Settle implements throttle.Shared.
func (s *Postgres) Settle(ctx context.Context, r throttle.Reservation, how throttle.Settlement) error {
	if how == throttle.Failed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	account, keys, intervals, _ := limitKeys(r)
	_, err := s.pool.Exec(ctx, `SELECT rueda_settle($1, $2, $3, $4, $5, $6, $7)`,
		attemptKey(r), r.Now.UnixNano(), account, how == throttle.Succeeded, attemptKept, keys, intervals)
	if err != nil {
		return fmt.Errorf("settle the shared limits: %w", explainPostgres(err))
	}
	return nil
}

// attemptKept is how long an attempt can be settled.
const attemptKept = 15 * time.Minute

func attemptKey(r throttle.Reservation) []byte { return append([]byte("attempt "), r.ID[:]...) }

// limitKeys returns the rows of a reservation. Accounts and buckets have different key prefixes.
func limitKeys(r throttle.Reservation) (account []byte, keys [][]byte, intervals, bursts []int64) {
	account = append([]byte("account "), r.Account[:]...)
	keys, intervals, bursts = [][]byte{}, []int64{}, []int64{} // an empty array, not NULL
	for _, b := range r.Buckets {
		keys = append(keys, []byte("bucket "+b.Key))
		intervals, bursts = append(intervals, int64(b.Interval)), append(bursts, int64(b.Burst))
	}
	return account, keys, intervals, bursts
}

// expireLimits deletes rows without effect. It skips rows that are locked.
func (s *Postgres) expireLimits(ctx context.Context, now time.Time) error {
	for {
		var deleted int64
		err := s.write(ctx, "delete old limits", func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, `
				DELETE FROM limits WHERE key IN (
					SELECT key FROM limits WHERE even < $1 AND (fails = 0 OR last < $2) LIMIT $3 FOR UPDATE SKIP LOCKED)`,
				now.UnixNano(), now.Add(-throttle.FailuresKept).UnixNano(), expireBatch)
			deleted = tag.RowsAffected()
			return err
		})
		if err != nil || deleted < expireBatch {
			return err
		}
	}
}
