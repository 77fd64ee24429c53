package tokens

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// Span is the argument of measurements without another process.
type Span struct {
	Config
	Workers int
	Seconds float64
}

// Rate is their answer.
type Rate struct {
	PerSecond float64
	Nanos     float64 // of a single one, if measured
}

// count makes workers call f until the time is over.
func count(workers int, seconds float64, f func(worker, n int) error) (*Rate, error) {
	var stop atomic.Bool
	var all sync.WaitGroup
	errs := make([]error, workers)
	counts := make([]uint64, workers)
	begin := time.Now()
	for w := range workers {
		all.Go(func() {
			for n := 0; !stop.Load() && errs[w] == nil; n++ {
				errs[w] = f(w, n)
				counts[w]++
			}
		})
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	stop.Store(true)
	all.Wait()
	took := time.Since(begin)
	var total uint64
	for _, n := range counts {
		total += n
	}
	return &Rate{PerSecond: float64(total) / took.Seconds(), Nanos: float64(took) * float64(workers) / float64(max(total, 1))}, errors.Join(errs...)
}

// hash measures raw argon2id at the gateway's cost and concurrency.
func hash(s Span) (*Rate, error) {
	workers := max(1, runtime.GOMAXPROCS(0)-1)
	salt := make([]byte, 16)
	return count(workers, s.Seconds, func(int, int) error {
		if len(argon2.IDKey([]byte("password"), salt, 2, 19<<10, 1, 32)) != 32 {
			return errors.New("no hash")
		}
		return nil
	})
}

// storeRate measures refreshes per second of the store alone: a lookup and a rotation.
func storeRate(s Span) (rate *Rate, err error) {
	ctx := context.Background()
	var db interface {
		auth.Store
		Close() error
	}
	if s.Postgres != "" {
		to, drop, serr := scratch(ctx, s.Postgres)
		if serr != nil {
			return nil, serr
		}
		defer func() { err = errors.Join(err, drop()) }()
		db, err = store.OpenPostgres(ctx, to)
	} else {
		db, err = store.Open(ctx, filepath.Join(s.Folder, "store.db"))
	}
	if err != nil {
		return nil, err
	}
	now := time.Now()
	tokens := make([]auth.Hash, s.Workers)
	for w := range tokens {
		_, _ = rand.Read(tokens[w][:])
		id := fmt.Sprintf("bench-%d-%d-%d", os.Getpid(), now.UnixNano(), w)
		err := db.CreateFamily(ctx, auth.Family{ID: id, UserID: "u", UserVersion: 1, KeyID: "k", Created: now, Used: now},
			auth.RefreshToken{Hash: tokens[w], Family: id, Issued: now, Expires: now.Add(time.Hour), Kept: now.Add(time.Hour)})
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	rate, err = count(s.Workers, s.Seconds, func(w, _ int) error {
		if _, _, err := db.Lookup(ctx, tokens[w]); err != nil {
			return err
		}
		next := auth.Hash(sha256.Sum256(tokens[w][:]))
		now := time.Now()
		outcome, err := db.Rotate(ctx, auth.Rotation{
			Presented: next, Parent: tokens[w], Issued: now, Expires: now.Add(time.Hour), Now: now, End: now.Add(time.Hour),
			Grace: time.Minute, Address: "127.0.0.1", Client: "bench",
		})
		if err == nil && outcome != auth.Granted {
			err = fmt.Errorf("a refresh was %v", outcome)
		}
		tokens[w] = next
		return err
	})
	return rate, errors.Join(err, db.Close())
}

// verify measures the check of a known token.
func verify(s Span) (*Rate, error) {
	ctx := context.Background()
	keys, err := keyset.New()
	if err != nil {
		return nil, err
	}
	service, err := auth.New(ctx, auth.Config{Users: everybody{}, Store: store.NewMemory(), Keys: keys})
	if err != nil {
		return nil, err
	}
	got, err := service.Password(ctx, "u1", "u1", "", auth.Origin{})
	if err != nil {
		return nil, err
	}
	token := got.Access.Reveal()
	if _, err := service.Verify(ctx, token); err != nil {
		return nil, err
	}
	return count(1, s.Seconds, func(int, int) error {
		for range 1000 { // so that the loop's flag is not measured
			if _, ok, err := service.Known(token); !ok || err != nil {
				return fmt.Errorf("known %v: %w", ok, err)
			}
		}
		return nil
	})
}
