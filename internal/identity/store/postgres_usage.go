package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

type usageKey struct {
	user, market, level string
	month               string
	delay               int
}

// AddUsage adds to the stored usage of the same month, user, market, level and delay: it joins
// days, keeps the larger number of connections, and extends First and Last.
func (s *Postgres) AddUsage(ctx context.Context, usage []Usage) error {
	if len(usage) == 0 {
		return nil
	}
	sums := make(map[usageKey]Usage, len(usage)) // a statement may change a row only once
	for _, u := range usage {
		k := usageKey{month: u.Month, user: u.UserID, market: u.Market, level: u.Level, delay: u.Delay}
		if v, ok := sums[k]; ok {
			u.Days |= v.Days
			u.Connections = max(u.Connections, v.Connections)
			if v.First.Before(u.First) {
				u.First = v.First
			}
			if v.Last.After(u.Last) {
				u.Last = v.Last
			}
		}
		sums[k] = u
	}
	// Sorted by key, so that concurrent gateways do not deadlock.
	rows := slices.SortedFunc(maps.Values(sums), func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Month, b.Month), cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.Market, b.Market),
			cmp.Compare(a.Level, b.Level), cmp.Compare(a.Delay, b.Delay))
	})
	return s.write(ctx, "store usage", func(ctx context.Context, tx pgx.Tx) error {
		for chunk := range slices.Chunk(rows, expireBatch) {
			var b pgx.Batch
			for _, u := range chunk {
				b.Queue(`
					INSERT INTO usage (month, user_id, market, level, delay, days, connections, first, last)
					VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
					ON CONFLICT (month, user_id, market, level, delay) DO UPDATE SET
						days = usage.days | excluded.days, connections = greatest(usage.connections, excluded.connections),
						first = least(usage.first, excluded.first), last = greatest(usage.last, excluded.last)`,
					u.Month, u.UserID, u.Market, u.Level, u.Delay, int64(u.Days), u.Connections, u.First.UnixMicro(), u.Last.UnixMicro())
			}
			if err := tx.SendBatch(ctx, &b).Close(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Usage returns a month, ordered by user, market, level and delay.
func (s *Postgres) Usage(ctx context.Context, month string) ([]Usage, error) {
	return list(ctx, s, "read usage", func(scan func(...any) error) (u Usage, err error) {
		var days, first, last int64
		err = scan(&u.Month, &u.UserID, &u.Market, &u.Level, &u.Delay, &days, &u.Connections, &first, &last)
		u.Days, u.First, u.Last = uint32(days), time.UnixMicro(first), time.UnixMicro(last)
		return u, err
	}, `SELECT month, user_id, market, level, delay, days, connections, first, last FROM usage WHERE month = $1
		ORDER BY user_id, market, level, delay`, month)
}
