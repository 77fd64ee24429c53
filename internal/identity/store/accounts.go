package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// failuresKept is how long the failures of an account are stored at least. No window is longer.
const failuresKept = 24 * time.Hour

// reserveFailureQuery counts a failure, unless there are most in the window already. A time far in
// the future is one of a wrong clock. The parameters are account, now, window and most.
const reserveFailureQuery = `
	INSERT INTO account_failures (account, failures, last) VALUES ($1, 1, $2)
	ON CONFLICT (account) DO UPDATE SET
		failures = CASE WHEN abs($2 - account_failures.last) >= $3 THEN 1 ELSE account_failures.failures + 1 END,
		last = excluded.last
	WHERE abs($2 - account_failures.last) >= $3 OR account_failures.failures < $4
	RETURNING failures`

const (
	selectFailureQuery  = `SELECT last FROM account_failures WHERE account = $1`
	refundFailureQuery  = `UPDATE account_failures SET failures = failures - 1 WHERE account = $1 AND failures > 0`
	forgetFailuresQuery = `DELETE FROM account_failures WHERE account = $1`
	trustQuery          = `
		INSERT INTO trusted_locations (account, location, used) VALUES ($1, $2, $3)
		ON CONFLICT (account, location) DO UPDATE SET used = excluded.used`
	distrustQuery = `
		DELETE FROM trusted_locations WHERE account = $1 AND location NOT IN (
			SELECT location FROM trusted_locations WHERE account = $1 ORDER BY used DESC, location LIMIT $2)`
	trustedQuery = `SELECT account, location, used FROM trusted_locations WHERE used >= $1 ORDER BY used DESC LIMIT $2`
)

// failureWait returns the wait of a refused account whose last failure was at last.
func failureWait(last int64, window time.Duration, now time.Time) time.Duration {
	return max(time.Second, time.Unix(0, last).Add(window).Sub(now))
}

// ReserveFailure implements auth.Store.
func (s *SQLite) ReserveFailure(ctx context.Context, account auth.Hash, most int, window time.Duration, now time.Time) (wait time.Duration, err error) {
	err = s.write(ctx, "count a failed login", func(t *sqliteTx) error {
		wait = 0
		var failures, last int64
		err := t.tx.QueryRowContext(t.ctx, reserveFailureQuery, account[:], now.UnixNano(), int64(window), most).Scan(&failures)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		err = t.tx.QueryRowContext(t.ctx, selectFailureQuery, account[:]).Scan(&last)
		wait = failureWait(last, window, now)
		return err
	})
	return wait, err
}

// SettleFailure implements auth.Store.
func (s *SQLite) SettleFailure(ctx context.Context, account auth.Hash, how throttle.Settlement) error {
	return s.write(ctx, "settle a failed login", func(t *sqliteTx) error {
		_, err := t.tx.ExecContext(t.ctx, settleFailureQuery(how), account[:])
		return err
	})
}

func settleFailureQuery(how throttle.Settlement) string {
	if how == throttle.Succeeded {
		return forgetFailuresQuery
	}
	return refundFailureQuery
}

// TrustLocation implements auth.Store.
func (s *SQLite) TrustLocation(ctx context.Context, l throttle.TrustedLocation) error {
	return s.write(ctx, "store a trusted location", func(t *sqliteTx) error {
		if _, err := t.tx.ExecContext(t.ctx, trustQuery, l.Account[:], l.Location[:], l.Used.UnixNano()); err != nil {
			return err
		}
		_, err := t.tx.ExecContext(t.ctx, distrustQuery, l.Account[:], throttle.MaxLocations)
		return err
	})
}

func scanLocation(scan func(...any) error) (l throttle.TrustedLocation, err error) {
	var account, location []byte
	var used int64
	err = scan(&account, &location, &used)
	copy(l.Account[:], account)
	copy(l.Location[:], location)
	l.Used = time.Unix(0, used)
	return l, err
}

// TrustedLocations implements auth.Store.
func (s *SQLite) TrustedLocations(ctx context.Context, since time.Time, most int) (list []throttle.TrustedLocation, err error) {
	err = each(ctx, s.reader, func(scan func(...any) error) error {
		l, err := scanLocation(scan)
		list = append(list, l)
		return err
	}, trustedQuery, nanos(since), most)
	if err != nil {
		return nil, fmt.Errorf("read trusted locations: %w", explain(err))
	}
	return list, nil
}

// nanos returns a time as it is stored; zero: the beginning.
func nanos(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixNano()
}

// expireAccounts deletes what no login needs any more.
func (s *SQLite) expireAccounts(ctx context.Context, now time.Time) error {
	return s.write(ctx, "delete old accounts of the limits", func(t *sqliteTx) error {
		for query, before := range expireAccountQueries(now) {
			if _, err := t.tx.ExecContext(t.ctx, query, before, expireBatch); err != nil {
				return err
			}
		}
		return nil
	})
}

func expireAccountQueries(now time.Time) map[string]int64 {
	return map[string]int64{
		`DELETE FROM account_failures WHERE account IN (SELECT account FROM account_failures WHERE last < $1 LIMIT $2)`: now.Add(-failuresKept).UnixNano(),
		`DELETE FROM trusted_locations WHERE (account, location) IN (
			SELECT account, location FROM trusted_locations WHERE used < $1 ORDER BY used LIMIT $2)`: now.Add(-throttle.LocationsKept).UnixNano(),
	}
}

// ReserveFailure implements auth.Store.
func (s *Postgres) ReserveFailure(ctx context.Context, account auth.Hash, most int, window time.Duration, now time.Time) (wait time.Duration, err error) {
	err = s.write(ctx, "count a failed login", func(ctx context.Context, tx pgx.Tx) error {
		wait = 0
		var failures, last int64
		err := tx.QueryRow(ctx, reserveFailureQuery, account[:], now.UnixNano(), int64(window), most).Scan(&failures)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		err = tx.QueryRow(ctx, selectFailureQuery, account[:]).Scan(&last)
		wait = failureWait(last, window, now)
		return err
	})
	return wait, err
}

// SettleFailure implements auth.Store.
func (s *Postgres) SettleFailure(ctx context.Context, account auth.Hash, how throttle.Settlement) error {
	return s.write(ctx, "settle a failed login", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, settleFailureQuery(how), account[:])
		return err
	})
}

// TrustLocation implements auth.Store.
func (s *Postgres) TrustLocation(ctx context.Context, l throttle.TrustedLocation) error {
	return s.write(ctx, "store a trusted location", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, trustQuery, l.Account[:], l.Location[:], l.Used.UnixNano()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, distrustQuery, l.Account[:], throttle.MaxLocations)
		return err
	})
}

// TrustedLocations implements auth.Store.
func (s *Postgres) TrustedLocations(ctx context.Context, since time.Time, most int) ([]throttle.TrustedLocation, error) {
	return list(ctx, s, "read trusted locations", scanLocation, trustedQuery, nanos(since), most)
}

// expireAccounts deletes what no login needs any more.
func (s *Postgres) expireAccounts(ctx context.Context, now time.Time) error {
	return s.write(ctx, "delete old accounts of the limits", func(ctx context.Context, tx pgx.Tx) error {
		for query, before := range expireAccountQueries(now) {
			if _, err := tx.Exec(ctx, query, before, expireBatch); err != nil {
				return err
			}
		}
		return nil
	})
}
