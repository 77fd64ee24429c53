package store_test

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/ratelimit"
	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// reservation returns an attempt at an account from addresses, each with a limit of one a second
// and a burst of ten.
func reservation(account string, at time.Duration, addresses ...string) throttle.Reservation {
	r := throttle.Reservation{ID: newAttempt(), Now: epoch.Add(at), Account: hash(account), Free: 5}
	for _, a := range addresses {
		r.Buckets = append(r.Buckets, throttle.Bucket{Key: "address " + a, Interval: time.Second, Burst: 10 * time.Second})
	}
	return r
}

func newAttempt() (id [16]byte) {
	_, _ = crand.Read(id[:])
	return id
}

func reserve(t testing.TB, s throttle.Shared, r throttle.Reservation, want *throttle.Refusal) {
	t.Helper()
	got, err := s.Reserve(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if (got == nil) != (want == nil) || got != nil && *got != *want {
		t.Fatalf("at %v: %+v, want %+v", r.Now.Sub(epoch), got, want)
	}
}

func settle(t testing.TB, s throttle.Shared, r throttle.Reservation, how throttle.Settlement) {
	t.Helper()
	if err := s.Settle(t.Context(), r, how); err != nil {
		t.Fatal(err)
	}
}

// TestLimitsAtOnceE2E checks that concurrent attempts at several gateways do not exceed the limit
// together.
func TestLimitsAtOnceE2E(t *testing.T) {
	dsn := cluster.Database(t)
	nodes := []*store.Postgres{connect(t, dsn), connect(t, dsn)}
	for _, c := range []struct {
		name string
		make func(i int) throttle.Reservation
		want int64
	}{
		{"an account", func(i int) throttle.Reservation { return reservation("maria", 0, fmt.Sprint(i), "all") }, 5},
		{"an address", func(i int) throttle.Reservation {
			return reservation(fmt.Sprint("user", i), 0, "one", fmt.Sprint("b", i))
		}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			var passed atomic.Int64
			var wg sync.WaitGroup
			for i := range 200 {
				wg.Go(func() {
					refused, err := nodes[i%2].Reserve(t.Context(), c.make(i))
					if err != nil {
						t.Error(err)
					}
					if refused == nil {
						passed.Add(1)
					}
				})
			}
			wg.Wait()
			if passed.Load() != c.want {
				t.Errorf("%d passed, want %d", passed.Load(), c.want)
			}
		})
	}
	// A refused attempt was charged nowhere: 5 of "all" are left.
	for i := range 5 {
		reserve(t, nodes[0], reservation(fmt.Sprint("other", i), 0, "all"), nil)
	}
	reserve(t, nodes[1], reservation("other", 0, "all"), &throttle.Refusal{Bucket: 0, Wait: time.Second})
}

// TestLimitsAccountE2E checks that an account waits 1 s, 2 s, 4 s and so on after its free
// failures, and at most 15 minutes.
func TestLimitsAccountE2E(t *testing.T) {
	s := openPostgres(t)
	at := time.Duration(0)
	for range 5 {
		reserve(t, s, reservation("maria", at), nil)
	}
	for n := range 40 {
		pause := throttle.MaxBackoff
		if n < 10 {
			pause = min(pause, time.Second<<n)
		}
		reserve(t, s, reservation("maria", at), &throttle.Refusal{Account: true, Wait: pause})
		reserve(t, s, reservation("maria", at+pause-1), &throttle.Refusal{Account: true, Wait: 1})
		at += pause
		reserve(t, s, reservation("maria", at), nil)
	}
	at += throttle.FailuresKept + 1
	for range 5 {
		reserve(t, s, reservation("maria", at), nil)
	}
	reserve(t, s, reservation("maria", at), &throttle.Refusal{Account: true, Wait: time.Second})
}

// TestLimitsSettleE2E checks that charges of successful attempts are returned.
func TestLimitsSettleE2E(t *testing.T) {
	s := openPostgres(t)
	for range 10 {
		r := reservation("maria", 0, "unused", "a")
		reserve(t, s, r, nil)
		settle(t, s, r, throttle.Refunded)
	}
	for range 5 {
		r := reservation("maria", 0, "unused", "a")
		reserve(t, s, r, nil)
		settle(t, s, r, throttle.Failed)
	}
	reserve(t, s, reservation("maria", 0, "unused", "a"), &throttle.Refusal{Account: true, Wait: time.Second})
	later := reservation("maria", time.Second, "x", "a") // allowed and settled: the account still waits from its fifth failure
	reserve(t, s, later, nil)
	settle(t, s, later, throttle.Refunded)
	later = reservation("maria", time.Second, "x", "a")
	reserve(t, s, later, nil)
	settle(t, s, later, throttle.Succeeded) // resets the failures
	for range 5 {
		reserve(t, s, reservation("maria", time.Second, "y", "a"), nil)
	}
	reserve(t, s, reservation("maria", time.Second, "y", "a"), &throttle.Refusal{Account: true, Wait: time.Second})
	reserve(t, s, reservation("jose", time.Second, "z", "a"), nil) // 10 of burst and 1 of time, 10 are charged
	reserve(t, s, reservation("juan", time.Second, "z", "a"), &throttle.Refusal{Bucket: 1, Wait: time.Second})
	reserve(t, s, reservation("ana", time.Second), nil) // no bucket
}

// TestLimitsRefundLateE2E checks that a charge which time has already returned is not returned
// again.
func TestLimitsRefundLateE2E(t *testing.T) {
	s := openPostgres(t)
	slow := reservation("slow", 0, "a")
	reserve(t, s, slow, nil)
	var last throttle.Reservation
	for i := range 10 {
		last = reservation(fmt.Sprint("user", i), 2*time.Second, "a")
		reserve(t, s, last, nil)
	}
	full := &throttle.Refusal{Bucket: 0, Wait: time.Second}
	reserve(t, s, reservation("other", 2*time.Second, "a"), full)
	settle(t, s, slow, throttle.Refunded)
	reserve(t, s, reservation("other", 2*time.Second, "a"), full)
	settle(t, s, last, throttle.Refunded)
	reserve(t, s, reservation("other", 2*time.Second, "a"), nil)
}

// TestLimitsSettledOnceE2E checks that an attempt is settled at most once, and that settling before
// or without a charge returns nothing.
func TestLimitsSettledOnceE2E(t *testing.T) {
	s := openPostgres(t)
	full := &throttle.Refusal{Account: true, Wait: time.Second}
	var all [5]throttle.Reservation
	for i := range all {
		all[i] = reservation("maria", 0, "a")
		reserve(t, s, all[i], nil)
	}
	for range 20 { // canceled, possibly without a charge
		settle(t, s, reservation("maria", 0, "a"), throttle.Refunded)
		settle(t, s, reservation("maria", 0, "a"), throttle.Succeeded)
	}
	reserve(t, s, reservation("maria", 0, "a"), full)
	for range 3 {
		settle(t, s, all[0], throttle.Refunded)
	}
	late := reservation("maria", 0, "a")
	settle(t, s, late, throttle.Refunded)
	reserve(t, s, late, nil) // nothing is charged
	reserve(t, s, reservation("maria", 0, "a"), nil)
	reserve(t, s, reservation("maria", 0, "a"), full)
	for i := range 5 { // five of the ten are charged
		reserve(t, s, reservation(fmt.Sprint("user", i), 0, "a"), nil)
	}
	reserve(t, s, reservation("other", 0, "a"), &throttle.Refusal{Bucket: 0, Wait: time.Second})
}

// TestLimitsModelE2E compares random attempts in SQL with the same rule in Go.
func TestLimitsModelE2E(t *testing.T) {
	s := openPostgres(t)
	type account struct {
		fails        int
		last, before time.Time
	}
	accounts, evens := map[string]*account{}, map[string]time.Time{}
	var at time.Duration
	refused := 0
	for range 2000 {
		at += []time.Duration{0, 0, time.Second / 2, 3 * time.Second, time.Minute, throttle.FailuresKept}[max(0, rand.IntN(40)-34)]
		name := fmt.Sprint("user", rand.IntN(4))
		r := reservation(name, at, fmt.Sprint("address", rand.IntN(3)), "everywhere")
		a := accounts[name]
		if a == nil {
			a = &account{last: time.Unix(0, 0), before: time.Unix(0, 0)}
			accounts[name] = a
		}
		fails := a.fails
		if r.Now.Sub(a.last) > throttle.FailuresKept {
			fails = 0
		}
		var want *throttle.Refusal
		if fails >= r.Free {
			if wait := a.last.Add(min(time.Second<<min(fails-r.Free, 30), throttle.MaxBackoff)).Sub(r.Now); wait > 0 {
				want = &throttle.Refusal{Account: true, Wait: wait}
			}
		}
		next := map[string]time.Time{}
		for i, b := range r.Buckets {
			even := evens[b.Key]
			if even.Before(r.Now) {
				even = r.Now
			}
			next[b.Key] = even.Add(b.Interval)
			if wait := next[b.Key].Sub(r.Now) - b.Burst; wait > 0 && want == nil {
				want = &throttle.Refusal{Bucket: i, Wait: wait}
			}
		}
		reserve(t, s, r, want)
		if want != nil {
			refused++
			continue
		}
		a.fails, a.before, a.last = fails+1, a.last, r.Now
		for k, v := range next {
			evens[k] = v
		}
		how := throttle.Settlement(rand.IntN(10))
		if how > throttle.Refunded {
			how = throttle.Failed
		}
		settle(t, s, r, how)
		switch how {
		case throttle.Succeeded:
			a.fails = 0
		case throttle.Refunded:
			a.fails, a.last = a.fails-1, a.before
		}
		if how != throttle.Failed {
			for _, b := range r.Buckets {
				evens[b.Key] = evens[b.Key].Add(-b.Interval)
			}
		}
	}
	if refused < 50 {
		t.Errorf("only %d attempts were refused", refused)
	}
	// No row is kept forever.
	if _, err := s.Expire(t.Context(), epoch.Add(at+2*throttle.FailuresKept), epoch); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := s.Writer().QueryRowContext(t.Context(), `SELECT count(*) FROM limits`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

// TestLimitsEqualRateLimitE2E checks that the SQL of a bucket and package ratelimit count alike.
func TestLimitsEqualRateLimitE2E(t *testing.T) {
	s := openPostgres(t)
	random := rand.New(rand.NewPCG(1, 2))
	for i, rate := range []ratelimit.Rate{
		{Interval: time.Second, Burst: 10 * time.Second},
		{Interval: 7 * time.Second, Burst: 7 * time.Second},
		{Interval: 2 * time.Second, Burst: 5 * time.Second},
	} {
		limiter, at, refused := ratelimit.NewLimiter[string](10), time.Duration(0), 0
		for range 60 {
			at += time.Duration(random.Int64N(int64(rate.Interval)))
			if random.IntN(20) == 0 {
				at += rate.Burst
			}
			for range random.IntN(4) {
				r := reservation(fmt.Sprint("account", i), at)
				r.Free = 1_000_000
				r.Buckets = []throttle.Bucket{{Key: fmt.Sprint("bucket", i), Interval: rate.Interval, Burst: rate.Burst}}
				var want *throttle.Refusal
				if _, wait := limiter.Take("key", rate, r.Now); wait > 0 {
					want = &throttle.Refusal{Bucket: 0, Wait: wait}
					refused++
				}
				reserve(t, s, r, want)
			}
		}
		if refused == 0 {
			t.Errorf("rate %+v: nothing was refused", rate)
		}
	}
}
