package store

import (
	"context"
	"fmt"
	"time"
)

// Usage is a user's use of one level of a market in a month, in the form that exchanges require.
type Usage struct {
	Month       string // 2026-11
	UserID      string
	Market      string
	Level       string // trades, quotes or order_book
	Delay       int    // as granted, 0 is realtime
	Days        uint32 // bit d-1: used on day d
	Connections int    // maximum at a time
	First, Last time.Time
}

// AddUsage adds to the stored usage of the same month, user, market, level and delay: it joins
// days, keeps the larger number of connections, and extends First and Last.
func (s *SQLite) AddUsage(ctx context.Context, list []Usage) error {
	return s.write(ctx, "store usage", func(t *sqliteTx) error {
		add, err := t.tx.PrepareContext(t.ctx, `
			INSERT INTO usage (month, user_id, market, level, delay, days, connections, first, last)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (month, user_id, market, level, delay) DO UPDATE SET
				days = days | excluded.days, connections = max(connections, excluded.connections),
				first = min(first, excluded.first), last = max(last, excluded.last)`)
		if err != nil {
			return err
		}
		defer func() { _ = add.Close() }() // also closed with the transaction
		for _, u := range list {
			_, err := add.ExecContext(t.ctx, u.Month, u.UserID, u.Market, u.Level, u.Delay, u.Days, u.Connections,
				u.First.UnixMicro(), u.Last.UnixMicro())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Usage returns a month, ordered by user, market, level and delay.
func (s *SQLite) Usage(ctx context.Context, month string) (list []Usage, err error) {
	err = each(ctx, s.reader, func(scan func(...any) error) error {
		var u Usage
		var first, last int64
		err := scan(&u.Month, &u.UserID, &u.Market, &u.Level, &u.Delay, &u.Days, &u.Connections, &first, &last)
		u.First, u.Last = time.UnixMicro(first), time.UnixMicro(last)
		list = append(list, u)
		return err
	}, `SELECT month, user_id, market, level, delay, days, connections, first, last FROM usage WHERE month = ?
		ORDER BY user_id, market, level, delay`, month)
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", explain(err))
	}
	return list, nil
}
