package auth

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"
)

// Throttle bounds guessing and hammering. The zero value of each field means its default.
type Throttle struct {
	AddressPerMinute int // failed grants of an address (IPv4 address, IPv6 /64): 10
	AddressBurst     int // as many at once: 20
	AccountFree      int // wrong passwords of an account before it has to wait: 5
	FamilyPerMinute  int // refreshes of a family: 30
	FamilyBurst      int // as many at once: 100, so that a fleet of processes with one token may start together
}

func (t *Throttle) setDefaults() {
	for _, f := range []struct {
		field *int
		value int
	}{{&t.AddressPerMinute, 10}, {&t.AddressBurst, 20}, {&t.AccountFree, 5}, {&t.FamilyPerMinute, 30}, {&t.FamilyBurst, 100}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
}

const (
	// throttled bounds each of the throttle's tables, in keys; about 100 bytes each.
	throttled = 1 << 16
	// So many attempts at one account may wait for those before them.
	maxQueued = 256
)

// throttle decides whether a grant may be tried. An attempt is charged before the
// check it is for, under one lock, so that checks made in parallel cannot pass the
// bound together; what turns out to be no failure is given back. While as many
// attempts at an account are being checked as may still fail, the next one waits
// for their outcome: a fleet of processes that log in at once is no attack.
type throttle struct {
	free    int
	address rate
	family  rate

	mu        sync.Mutex
	addresses table[netip.Prefix, time.Time]
	families  table[string, time.Time]
	accounts  table[account, *failures]
	known     table[account, struct{}] // places from which an account was logged in to
}

// account is a login name, and a place if it is known there: whoever hammers an
// account from elsewhere does not make its owner wait.
type account struct {
	username string
	place    netip.Prefix // zero: everywhere else
}

// failures are an account's wrong passwords in a row, and what is being checked.
type failures struct {
	count   int
	last    time.Time
	checked int           // attempts being checked
	queued  int           // attempts that wait for those
	done    chan struct{} // closed when one of those has ended
}

func newThrottle(c Throttle) *throttle {
	return &throttle{
		free:      c.AccountFree,
		address:   perMinute(c.AddressPerMinute, c.AddressBurst),
		family:    perMinute(c.FamilyPerMinute, c.FamilyBurst),
		addresses: newTable[netip.Prefix, time.Time](throttled),
		families:  newTable[string, time.Time](throttled),
		accounts:  newTable[account, *failures](throttled),
		known:     newTable[account, struct{}](throttled),
	}
}

// attempt is a charged password check, to be ended by one of succeed, fail and refund.
type attempt struct {
	t        *throttle
	place    netip.Prefix
	account  account
	failures *failures
}

// password charges an attempt at a password, or refuses it and charges nothing.
func (t *throttle) password(ctx context.Context, username string, from netip.Addr) (*attempt, *Error) {
	a := &attempt{t: t, place: placeOf(from), account: account{username: username}}
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		now := time.Now()
		if _, ok := t.known.get(account{username, a.place}); ok {
			a.account.place = a.place
		}
		f := t.failuresOf(a.account, now)
		if wait := f.last.Add(t.backoff(f.count)).Sub(now); wait > 0 {
			return nil, &Error{Reason: TooManyFailures, RetryAfter: wait}
		}
		if f.checked < max(1, t.free-f.count) {
			if wait := take(&t.addresses, t.address, a.place, now); wait > 0 {
				return nil, &Error{Reason: RateLimited, RetryAfter: wait}
			}
			f.checked++
			t.accounts.put(a.account, f)
			a.failures = f
			return a, nil
		}
		if f.queued >= maxQueued {
			return nil, unavailable(errors.New("too many logins of one account at once"))
		}
		f.queued++
		done := f.done
		t.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		t.mu.Lock()
		f.queued--
		t.forgetIdle(a.account, f)
		if err := ctx.Err(); err != nil {
			return nil, unavailable(err)
		}
	}
}

// failuresOf is an account's entry. One that is new is not in the table until its
// attempt is charged: refused requests must not push out what counts.
func (t *throttle) failuresOf(a account, now time.Time) *failures {
	f, ok := t.accounts.get(a)
	if !ok {
		f = &failures{done: make(chan struct{})}
	}
	if now.Sub(f.last) > FailuresKept {
		f.count = 0
	}
	return f
}

// backoff is the wait after count failures in a row.
func (t *throttle) backoff(count int) time.Duration {
	if count < t.free {
		return 0
	}
	return min(time.Second<<min(count-t.free, 30), MaxBackoff)
}

// succeed ends an attempt whose password was right: the account's failures are
// forgotten, and its place is known from now on.
func (a *attempt) succeed() {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	give(&a.t.addresses, a.t.address, a.place)
	a.failures.count = 0
	a.t.known.put(account{a.account.username, a.place}, struct{}{})
	a.end()
}

// fail ends an attempt whose password was wrong: it stays charged.
func (a *attempt) fail() {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	now := time.Now()
	a.failures.count++
	a.failures.last = now
	if f, ok := a.t.accounts.get(a.account); !ok {
		a.t.accounts.put(a.account, a.failures)
	} else if f != a.failures { // the bounded table had dropped ours
		f.count++
		f.last = now
	}
	a.end()
}

// refund ends an attempt that was not checked, for no fault of the client.
func (a *attempt) refund() {
	a.t.mu.Lock()
	defer a.t.mu.Unlock()
	give(&a.t.addresses, a.t.address, a.place)
	a.end()
}

// end lets those that wait look again. The lock is held. An entry that the bounded
// table has dropped meanwhile serves those that still hold it.
func (a *attempt) end() {
	f := a.failures
	f.checked--
	close(f.done)
	f.done = make(chan struct{})
	a.t.forgetIdle(a.account, f)
}

// forgetIdle takes an entry that says nothing out of the table, if it is the one there.
func (t *throttle) forgetIdle(a account, f *failures) {
	if f.count > 0 || f.checked > 0 || f.queued > 0 {
		return
	}
	if listed, ok := t.accounts.get(a); ok && listed == f {
		t.accounts.delete(a)
	}
}

// refresh charges a family for a refresh.
func (t *throttle) refresh(family string, now time.Time) *Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := take(&t.families, t.family, family, now); wait > 0 {
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	return nil
}

// unknownToken charges an address for a refresh token that nobody has. It comes after the
// look-up, unlike a password's charge: 256 bits cannot be guessed, and an address
// with a thousand well-behaved clients behind it must not be counted together.
func (t *throttle) unknownToken(from netip.Addr, now time.Time) *Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := take(&t.addresses, t.address, placeOf(from), now); wait > 0 {
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	return nil
}

// placeOf is what counts as one address: one IPv4 address, or the /64 that one
// IPv6 customer has. All connections without an address are one place.
func placeOf(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, err := a.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// rate is the generic cell rate algorithm: one attempt every interval, and ahead
// of that by burst at most. A key's state is one time: when it would be even.
type rate struct {
	interval time.Duration
	burst    time.Duration
}

// maxRate and maxBurst keep an interval above zero and a burst within a Duration.
const (
	maxRate  = int(time.Minute / time.Microsecond)
	maxBurst = 1_000_000
)

func perMinute(n, burst int) rate {
	interval := time.Minute / time.Duration(min(max(n, 1), maxRate))
	return rate{interval, time.Duration(min(max(burst, 1), maxBurst)) * interval}
}

// take charges key once, or returns how long to wait until that would be possible.
func take[K comparable](t *table[K, time.Time], r rate, key K, now time.Time) time.Duration {
	even, ok := t.get(key)
	if !ok || even.Before(now) {
		even = now
	}
	even = even.Add(r.interval)
	if wait := even.Sub(now) - r.burst; wait > 0 {
		return wait
	}
	t.put(key, even)
	return 0
}

// give takes a charge back.
func give[K comparable](t *table[K, time.Time], r rate, key K) {
	if even, ok := t.get(key); ok {
		t.put(key, even.Add(-r.interval))
	}
}
