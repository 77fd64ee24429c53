package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// DailyInstrument is an instrument that a user with a limited right has requested on a UTC day.
type DailyInstrument struct {
	Day         string // 2026-11-20
	User        string
	Entitlement string
	Instrument  string
}

const (
	addDailyInstrument = `INSERT INTO daily_instruments (day, user_id, entitlement, instrument) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`
	listDailyInstruments = `SELECT day, user_id, entitlement, instrument FROM daily_instruments WHERE day = $1 AND user_id = $2`
)

// AddDailyInstruments stores rows that are not there yet, and deletes those of days before oldest.
func (s *SQLite) AddDailyInstruments(ctx context.Context, oldest string, list []DailyInstrument) error {
	return s.write(ctx, "store requested instruments", func(t *sqliteTx) error {
		if _, err := t.tx.ExecContext(t.ctx, `DELETE FROM daily_instruments WHERE day < ?`, oldest); err != nil {
			return err
		}
		for _, x := range list {
			if _, err := t.tx.ExecContext(t.ctx, addDailyInstrument, x.Day, x.User, x.Entitlement, x.Instrument); err != nil {
				return err
			}
		}
		return nil
	})
}

// DailyInstruments returns the rows of a user on a day.
func (s *SQLite) DailyInstruments(ctx context.Context, day, user string) (list []DailyInstrument, err error) {
	err = each(ctx, s.reader, func(scan func(...any) error) error {
		x, err := scanDailyInstrument(scan)
		list = append(list, x)
		return err
	}, listDailyInstruments, day, user)
	if err != nil {
		return nil, fmt.Errorf("read requested instruments: %w", explain(err))
	}
	return list, nil
}

// AddDailyInstruments stores rows that are not there yet, and deletes those of days before oldest.
func (s *Postgres) AddDailyInstruments(ctx context.Context, oldest string, rows []DailyInstrument) error {
	rows = slices.SortedFunc(slices.Values(rows), func(a, b DailyInstrument) int { // so that gateways do not deadlock
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.User, b.User),
			cmp.Compare(a.Entitlement, b.Entitlement), cmp.Compare(a.Instrument, b.Instrument))
	})
	return s.write(ctx, "store requested instruments", func(ctx context.Context, tx pgx.Tx) error {
		var b pgx.Batch
		b.Queue(`DELETE FROM daily_instruments WHERE (day, user_id, entitlement, instrument) IN (
			SELECT day, user_id, entitlement, instrument FROM daily_instruments WHERE day < $1
			LIMIT $2 FOR UPDATE SKIP LOCKED)`, oldest, expireBatch)
		for _, x := range rows {
			b.Queue(addDailyInstrument, x.Day, x.User, x.Entitlement, x.Instrument)
		}
		return tx.SendBatch(ctx, &b).Close()
	})
}

// DailyInstruments returns the rows of a user on a day.
func (s *Postgres) DailyInstruments(ctx context.Context, day, user string) ([]DailyInstrument, error) {
	return list(ctx, s, "read requested instruments", scanDailyInstrument, listDailyInstruments, day, user)
}

func scanDailyInstrument(scan func(...any) error) (x DailyInstrument, err error) {
	err = scan(&x.Day, &x.User, &x.Entitlement, &x.Instrument)
	return x, err
}
