package store_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
	"github.com/ruedahq/rueda/internal/testing/pgtest"
)

// BenchmarkRefreshPostgres is BenchmarkRefresh on a durable server. "bare" is the rotation alone,
// without lookup and audit log, one transaction each on 16 connections.
func BenchmarkRefreshPostgres(b *testing.B) {
	server := pgtest.Start(b)
	b.Run("store", func(b *testing.B) {
		s := connect(b, server.CreateDatabase(b, fmt.Sprint("store", b.N)))
		refreshAll(b, s, refreshWith(s))
	})
	b.Run("bare", func(b *testing.B) {
		dsn := server.CreateDatabase(b, fmt.Sprint("bare", b.N))
		refreshAll(b, connect(b, dsn), barePostgres(b, dsn))
	})
}

func refreshWith(s auth.Store) func(context.Context, auth.Rotation) error {
	return func(ctx context.Context, r auth.Rotation) error {
		if _, _, err := s.Lookup(ctx, r.Parent); err != nil {
			return err
		}
		got, err := s.Rotate(ctx, r)
		if err == nil && got != auth.Granted {
			err = fmt.Errorf("outcome %v", got)
		}
		return err
	}
}

// TestPostgresRefreshRateE2E measures refreshes per second with 64 clients, in comparison with
// plain transactions on the same server.
func TestPostgresRefreshRateE2E(t *testing.T) {
	server := pgtest.Start(t)
	each := 25 // refreshes of each client
	if os.Getenv("RUEDA_SOAK") != "" {
		each = 500
	}
	rate := func(name string, of func(dsn string, s *store.Postgres) func(context.Context, auth.Rotation) error) float64 {
		dsn := server.CreateDatabase(t, name)
		s := connect(t, dsn)
		refresh := of(dsn, s)
		for i := range clients {
			create(t, s, fmt.Sprint("c", i, "-"), "u1")
		}
		began := time.Now()
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				for n := range each {
					if err := refresh(t.Context(), rotation(fmt.Sprint("c", i, "-"), n+1, time.Duration(n), false)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		return float64(clients*each) / time.Since(began).Seconds()
	}
	plain := rate("bare", func(dsn string, _ *store.Postgres) func(context.Context, auth.Rotation) error {
		return barePostgres(t, dsn)
	})
	shared := rate("store", func(_ string, s *store.Postgres) func(context.Context, auth.Rotation) error { return refreshWith(s) })
	t.Logf("figure: PostgreSQL with fsync, %d clients: %.0f refreshes/s (look-up, rotation, audit row); %.0f/s as plain transactions of the rotation alone",
		clients, shared, plain)
}

func barePostgres(b testing.TB, dsn string) func(context.Context, auth.Rotation) error {
	pool, err := pgxpool.New(b.Context(), dsn+"&pool_max_conns=16")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return func(ctx context.Context, r auth.Rotation) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			var family string
			var parent []byte
			err := tx.QueryRow(ctx, `SELECT family, parent FROM refresh_tokens WHERE hash = $1 FOR UPDATE`, r.Parent[:]).Scan(&family, &parent)
			if err != nil {
				return err
			}
			now := r.Now.UnixNano()
			_, err = tx.Exec(ctx, `INSERT INTO refresh_tokens (hash, parent, family, issued_at, expires_at) VALUES ($1, $2, $3, $4, $5)`,
				r.Presented[:], r.Parent[:], family, now, r.Expires.UnixNano())
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `UPDATE refresh_tokens SET dead_at = $1 WHERE hash = $2`, now, r.Parent[:]); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `UPDATE families SET used_at = $1, address = $2, client = $3 WHERE id = $4`, now, r.Address, r.Client, family)
			return err
		})
	}
}
