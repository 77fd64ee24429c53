package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// clients is the number of concurrent clients in the benchmarks.
const clients = 64

// BenchmarkRefresh measures a refresh with 64 concurrent clients: it looks up the token and stores
// its successor with the audit row. "bare" does the same with plain statements, one transaction
// each, as a comparison.
func BenchmarkRefresh(b *testing.B) {
	for _, backend := range append([]kind{onPostgres}, backends...) {
		b.Run(backend.name, func(b *testing.B) {
			s := backend.open(b, b.TempDir())
			refreshAll(b, s, func(ctx context.Context, r auth.Rotation) error {
				if _, _, err := s.Lookup(ctx, r.Parent); err != nil {
					return err
				}
				got, err := s.Rotate(ctx, r)
				if err == nil && got != auth.Granted {
					err = fmt.Errorf("outcome %v", got)
				}
				return err
			})
		})
	}
	b.Run("sqlite, bare", func(b *testing.B) {
		s := openFile(b, filepath.Join(b.TempDir(), "rueda.db"))
		refreshAll(b, s, bare(b, s))
	})
}

// refreshAll makes each client refresh its own family repeatedly.
func refreshAll(b *testing.B, s auth.Store, refresh func(context.Context, auth.Rotation) error) {
	var names atomic.Int64
	b.SetParallelism((clients + 1) / 2)
	for i := range clients * 2 {
		create(b, s, fmt.Sprint("c", i, "-"), "u1")
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		id := fmt.Sprint("c", names.Add(1)-1, "-")
		for n := 1; pb.Next(); n++ {
			if err := refresh(context.Background(), rotation(id, n, time.Duration(n), false)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "refreshes/s")
}

// bare returns a durable rotation by prepared statements, without the store.
func bare(b *testing.B, s *store.SQLite) func(context.Context, auth.Rotation) error {
	prepare := func(db *sql.DB, query string) *sql.Stmt {
		st, err := db.PrepareContext(b.Context(), query)
		if err != nil {
			b.Fatal(err)
		}
		return st
	}
	read := prepare(s.Reader(), `SELECT parent, family, expires_at, dead_at FROM refresh_tokens WHERE hash = ?`)
	insert := prepare(s.Writer(), `INSERT INTO refresh_tokens (hash, parent, family, issued_at, expires_at) VALUES (?, ?, ?, ?, ?)`)
	kill := prepare(s.Writer(), `UPDATE refresh_tokens SET dead_at = ? WHERE hash = ?`)
	use := prepare(s.Writer(), `UPDATE families SET used_at = ?, address = ?, client = ? WHERE id = ?`)
	head := prepare(s.Writer(), `SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1`)
	log := prepare(s.Writer(), `INSERT INTO audit VALUES (?, ?, ?, 'refresh', 'client', 'u1', ?, ?, ?, '')`)
	return func(ctx context.Context, r auth.Rotation) error {
		var family string
		var parent, sum []byte
		var seq, expires int64
		var dead sql.NullInt64
		if err := read.QueryRowContext(ctx, r.Parent[:]).Scan(&parent, &family, &expires, &dead); err != nil {
			return err
		}
		tx, err := s.Writer().BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		now := r.Now.UnixNano()
		for _, do := range []func() error{
			func() error {
				return tx.StmtContext(ctx, head).QueryRowContext(ctx).Scan(&seq, &sum)
			},
			func() error {
				_, err := tx.StmtContext(ctx, insert).ExecContext(ctx, r.Presented[:], r.Parent[:], family, now, r.Expires.UnixNano())
				return err
			},
			func() error {
				_, err := tx.StmtContext(ctx, kill).ExecContext(ctx, now, r.Parent[:])
				return err
			},
			func() error {
				_, err := tx.StmtContext(ctx, use).ExecContext(ctx, now, r.Address, r.Client, family)
				return err
			},
			func() error {
				_, err := tx.StmtContext(ctx, log).ExecContext(ctx, seq+1, sum, now/1000, family, r.Address, r.Client)
				return err
			},
			tx.Commit,
		} {
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	}
}
