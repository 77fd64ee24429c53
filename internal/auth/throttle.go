package auth

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/cache"
	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/ratelimit"
)

// Throttle bounds guessing and hammering. The zero value of each field means its default.
type Throttle struct {
	AddressPerMinute int // failed grants of an address (IPv4 address, IPv6 /64): 10
	AddressBurst     int // as many at once: 20
	NetworkPerMinute int // failed grants of a network (IPv4 /24, IPv6 /48): 10 times those of an address
	NetworkBurst     int // as many at once: 10 times those of an address
	GlobalPerMinute  int // failed grants in all: 60 times those of an address
	GlobalBurst      int // as many at once: 60 times those of an address
	AccountFree      int // wrong passwords of an account before it has to wait: 5
	FamilyPerMinute  int // refreshes of a family: 30
	FamilyBurst      int // as many at once: 100, so that a fleet of processes with one token may start together
}

func (t *Throttle) setDefaults() {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&t.AddressPerMinute, 10)
	set(&t.AddressBurst, 20)
	rate, burst := min(t.AddressPerMinute, maxRate), min(t.AddressBurst, maxBurst)
	set(&t.NetworkPerMinute, 10*rate)
	set(&t.NetworkBurst, 10*burst)
	set(&t.GlobalPerMinute, 60*rate)
	set(&t.GlobalBurst, 60*burst)
	set(&t.AccountFree, 5)
	set(&t.FamilyPerMinute, 30)
	set(&t.FamilyBurst, 100)
}

const (
	// throttled bounds each of the throttle's tables, in keys; about 100 bytes each.
	throttled = 1 << 16
	// So many attempts at one account, or of one place, may wait for those before them, so many altogether, and so long.
	maxQueued     = 256
	maxQueuedAll  = 4096
	queuePatience = 5 * time.Second
	// An address has so many times its rate for the accounts that are known there: an office behind one
	// address goes on working beside the one bot in it that has a wrong password.
	knownFactor = 5
	// A right password without its second factor is answered so often a minute for one account.
	confirmedPerMinute = 5
	// From all places together where it is not known an account may fail in the first tries of networks as often as is
	// free, in their further ones so many times as often, and in each once more in so long.
	againFactor     = 4
	accountInterval = 5 * time.Minute
	// An account that has to wait may be asked for so often from an address, and so often at once.
	polledPerMinute = 60
	polledBurst     = 60
	// maxPlaces bounds the places where one account is known.
	maxPlaces = 64
)

// throttle decides whether a grant may be tried. An attempt is charged before the
// check it is for, under one lock, so that checks made in parallel cannot pass the
// bound together; what turns out to be no failure is given back. While as many
// attempts are being checked as may still fail, the next one waits for their outcome: a
// fleet of processes that log in at once, or an office in the morning, is no attack.
type throttle struct {
	free  int
	rates [levels]ratelimit.Rate

	mu       sync.Mutex
	halved   bool // the limits shared between nodes fail, so that this node takes less
	queued   int
	buckets  cache.Map[bucketKey, *bucket]
	global   bucket
	families *ratelimit.Limiter[string]
	accounts cache.Map[account, *failures]
	polled   *ratelimit.Limiter[account]       // accounts that had to wait, by address
	known    cache.Map[string, []netip.Prefix] // places from which an account was logged in to, the last used last
}

// level is what a bucket is of.
type level int

const (
	ofAddress level = iota
	ofKnown         // an address too, but of attempts at accounts that are known there
	ofNetwork
	ofAll
	ofUnanswered // attempts of a network that the user base did not answer
	ofFirst      // first tries of networks at an account
	ofAgain      // further tries at an account
	ofConfirmed  // right passwords of an account that lack the second factor
	ofPolled     // requests at an account that has to wait
	ofFamily
	levels
)

// bucketKey names a bucket: by place or by account.
type bucketKey struct {
	level   level
	place   netip.Prefix
	account string
}

// account is a login name at a place: the address if it is known there, else the network. Whoever hammers an
// account from elsewhere does not make its owner wait.
type account struct {
	username string
	place    netip.Prefix
}

// failures are an account's wrong passwords in a row, and what is being checked.
type failures struct {
	gate
	count   int
	last    time.Time
	checked int // attempts being checked
}

func newThrottle(c Throttle) *throttle {
	t := &throttle{
		free:     c.AccountFree,
		buckets:  cache.New[bucketKey, *bucket](throttled),
		families: ratelimit.NewLimiter[string](throttled),
		accounts: cache.New[account, *failures](throttled),
		polled:   ratelimit.NewLimiter[account](throttled),
		known:    cache.New[string, []netip.Prefix](throttled),
	}
	free := time.Duration(min(c.AccountFree, maxBurst))
	t.rates = [levels]ratelimit.Rate{
		ofAddress: perMinute(c.AddressPerMinute, c.AddressBurst),
		ofKnown:   perMinute(knownFactor*min(c.AddressPerMinute, maxRate), knownFactor*min(c.AddressBurst, maxBurst)),
		ofNetwork: perMinute(c.NetworkPerMinute, c.NetworkBurst),
		ofAll:     perMinute(c.GlobalPerMinute, c.GlobalBurst),
		// Fewer at once than a breaker before the user base takes for an outage.
		ofUnanswered: perMinute(c.AddressPerMinute, c.AddressBurst/5),
		ofFirst:      {Interval: accountInterval, Burst: free * accountInterval},
		ofAgain:      {Interval: accountInterval, Burst: againFactor * free * accountInterval},
		ofConfirmed:  perMinute(confirmedPerMinute, c.AccountFree),
		ofPolled:     perMinute(polledPerMinute, polledBurst),
		ofFamily:     perMinute(c.FamilyPerMinute, c.FamilyBurst),
	}
	return t
}

// attempt is a charged password check, to be ended by settle or confirm, once.
type attempt struct {
	t        *throttle
	place    netip.Prefix
	network  netip.Prefix
	account  account
	known    bool // the account is, at this place
	failures *failures
	user     account // whom the user base says that the name stands for; zero: not said
	charges  []charge
	shared   *Reservation // what was charged to the limits shared between nodes
	ended    bool
}

// charge is an attempt's part of a bucket.
type charge struct {
	key    bucketKey
	bucket *bucket
	rate   ratelimit.Rate
}

// password charges an attempt at a password, or refuses it and charges nothing. asks says that no one-time
// password comes with it, so that the answer may be that one is needed.
func (t *throttle) password(ctx context.Context, username string, from netip.Addr, asks bool) (*attempt, *Error) {
	a := &attempt{t: t, place: clientaddr.Client(from), network: clientaddr.Network(from)}
	patience := time.NewTimer(queuePatience)
	defer patience.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		wait, refused := t.reserve(a, username, asks, time.Now())
		if wait == nil {
			return a, refused
		}
		if wait.queued >= maxQueued || t.queued >= maxQueuedAll {
			return nil, unavailable(errors.New("too many logins of one account or place at once"))
		}
		if wait.done == nil {
			wait.done = make(chan struct{})
		}
		done, late := wait.done, false
		wait.queued++
		t.queued++
		t.mu.Unlock()
		select {
		case <-done:
		case <-patience.C:
			late = true
		case <-ctx.Done():
		}
		t.mu.Lock()
		t.queued--
		wait.queued--
		t.sweep(a, time.Now())
		if err := ctx.Err(); err != nil {
			return nil, unavailable(err)
		}
		if late {
			return nil, unavailable(errors.New("login waited too long for those before it"))
		}
	}
}

// reserve charges an attempt, or says where to wait, or refuses. The lock is held.
func (t *throttle) reserve(a *attempt, username string, asks bool, now time.Time) (wait *gate, refused *Error) {
	a.account = account{username, a.network}
	if a.known = t.isKnown(username, a.place); a.known {
		a.account.place = a.place
	}
	f := t.failuresOf(a.account, now)
	a.failures = f
	polled := account{username, a.place}
	if wait := t.backoff(f, now); wait > 0 {
		return nil, &Error{Reason: TooManyFailures, RetryAfter: max(wait, t.poll(polled, now))}
	}
	if _, wait := t.polled.Check(polled, t.rates[ofPolled], now); wait > 0 {
		t.poll(polled, now)
		return nil, &Error{Reason: TooManyFailures, RetryAfter: wait}
	}
	if f.checked >= max(1, t.freeNow()-f.count) {
		return &f.gate, nil
	}
	t.claim(a, asks)
	for i := range a.charges {
		c := &a.charges[i]
		left, hope := c.bucket.room(c.rate, now)
		switch {
		case hope:
			return &c.bucket.gate, nil
		case left > 0 && c.key.level == ofUnanswered:
			return nil, &Error{Reason: Unavailable, RetryAfter: left, Err: errUnanswered}
		case left > 0 && c.key.level.ofAccount():
			return nil, &Error{Reason: TooManyFailures, RetryAfter: max(left, t.poll(polled, now))}
		case left > 0:
			return nil, &Error{Reason: RateLimited, RetryAfter: left}
		}
	}
	f.checked++
	t.accounts.Put(a.account, f)
	for i := range a.charges {
		c := &a.charges[i]
		if !c.key.level.reserves() {
			continue
		}
		c.bucket.flying += c.rate.Interval
		if c.key.level != ofAll {
			t.buckets.Put(c.key, c.bucket)
		}
	}
	return nil, nil
}

// errUnanswered is why an attempt is not made.
var errUnanswered = errors.New("the user base did not answer this network's last attempts")

// ofAccount says that a bucket is one of an account.
func (l level) ofAccount() bool { return l == ofFirst || l == ofAgain || l == ofConfirmed }

// reserves says that attempts take room in a bucket while they are being checked.
func (l level) reserves() bool { return l != ofUnanswered }

// claim finds the buckets of an attempt. An account at a place where it is known is bounded by itself and
// by a bucket of its own kind: what others do elsewhere does not hold it up.
func (t *throttle) claim(a *attempt, asks bool) {
	a.charges = a.charges[:0]
	add := func(key bucketKey) {
		b := &t.global
		if key.level != ofAll {
			b = t.bucketOf(key)
		}
		a.charges = append(a.charges, charge{key, b, t.rate(key.level)})
	}
	confirmed := bucketKey{level: ofConfirmed, account: a.account.username}
	if a.known {
		add(bucketKey{level: ofKnown, place: a.place})
		confirmed.place = a.place
	} else {
		whole := bucketKey{level: ofAgain, account: a.account.username}
		if a.failures.count == 0 && a.failures.checked == 0 {
			whole.level = ofFirst
		}
		add(bucketKey{level: ofUnanswered, place: a.network})
		add(bucketKey{level: ofAddress, place: a.place})
		add(bucketKey{level: ofNetwork, place: a.network})
		add(bucketKey{level: ofAll})
		add(whole)
	}
	if asks {
		add(confirmed)
	}
}

// isKnown says whether an account is known at a place, and learn makes it so. At most maxPlaces are remembered of an
// account, those used last, so that one account cannot push out the places of others.
func (t *throttle) isKnown(username string, place netip.Prefix) bool {
	places, _ := t.known.Get(username)
	return slices.Contains(places, place)
}

func (t *throttle) learn(username string, place netip.Prefix) {
	places, _ := t.known.Get(username)
	places = slices.DeleteFunc(places, func(p netip.Prefix) bool { return p == place })
	if len(places) >= maxPlaces {
		places = slices.Delete(places, 0, 1)
	}
	t.known.Put(username, append(places, place))
}

// poll notes that an account was asked for which has to wait, and says for how long it is not looked at for that. Whoever
// asks on and on is not let in at the moment at which the wait is over, but when a second has gone by in silence.
func (t *throttle) poll(who account, now time.Time) time.Duration {
	return t.polled.Charge(who, t.rates[ofPolled], now)
}

// pollShared is poll for an account that has to wait by the limits that nodes share.
func (t *throttle) pollShared(username string, from netip.Addr, now time.Time) time.Duration {
	return t.poll(account{username, clientaddr.Client(from)}, now)
}

// bucketOf is a bucket, and failuresOf an account's entry. One that is new is not in its table until an
// attempt is charged: refused requests must not push out what counts.
func (t *throttle) bucketOf(key bucketKey) *bucket {
	if b, ok := t.buckets.Get(key); ok {
		return b
	}
	return &bucket{}
}

func (t *throttle) failuresOf(a account, now time.Time) *failures {
	f, ok := t.accounts.Get(a)
	if !ok {
		return &failures{}
	}
	f.age(now)
	return f
}

// age forgets what is long ago.
func (f *failures) age(now time.Time) {
	if f.last.After(now) { // the clock was set back
		f.last = now
	}
	if now.Sub(f.last) > FailuresKept {
		f.count = 0
	}
}

func (f *failures) add(now time.Time) {
	f.age(now)
	f.count++
	f.last = now
}

func (t *throttle) rate(l level) ratelimit.Rate {
	if t.halved && l != ofUnanswered { // which is this node's own in any case
		return t.rates[l].Halve()
	}
	return t.rates[l]
}

func (t *throttle) freeNow() int {
	if t.halved {
		return max(1, t.free/2)
	}
	return t.free
}

// backoff is how long an account still has to wait after its failures.
func (t *throttle) backoff(f *failures, now time.Time) time.Duration {
	free := t.freeNow()
	if f.count < free {
		return 0
	}
	return max(0, f.last.Add(min(time.Second<<min(f.count-free, 30), MaxBackoff)).Sub(now))
}

// halve makes this node take half of what it may, or all of it again.
func (t *throttle) halve(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halved = on
}

// settle ends an attempt. One that Failed stays charged. One that Succeeded has the account's failures forgotten, and
// its place known from now on. One that is Refunded was not checked, for no fault of the client.
func (a *attempt) settle(how Settlement) { a.settleAt(outcome{how: how}, time.Now()) }

// confirm ends an attempt whose password was right and that lacks the second factor: it is charged for being
// told so, and for nothing else.
func (a *attempt) confirm() { a.settleAt(outcome{how: Refunded, confirmed: true}, time.Now()) }

// unanswered ends an attempt that the user base did not answer.
func (a *attempt) unanswered() { a.settleAt(outcome{how: Refunded, unanswered: true}, time.Now()) }

// outcome is how an attempt ends.
type outcome struct {
	how                   Settlement
	confirmed, unanswered bool
}

// charges says whether an attempt that ends so is a failure for a bucket.
func (o outcome) charges(l level) bool {
	switch l {
	case ofConfirmed:
		return o.confirmed
	case ofUnanswered:
		return o.unanswered
	}
	return o.how == Failed
}

func (a *attempt) settleAt(o outcome, now time.Time) {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.ended {
		return
	}
	a.ended = true
	a.failures.checked--
	switch o.how {
	case Failed:
		t.failed(a, now)
	case Succeeded:
		a.failures.count = 0
		t.accounts.Delete(a.user)
		t.learn(a.account.username, a.place)
	}
	a.failures.open()
	for _, c := range a.charges {
		if c.key.level.reserves() {
			c.bucket.flying -= c.rate.Interval
		}
		if o.charges(c.key.level) {
			t.listed(c).charge(c.rate, now)
		}
		c.bucket.open()
	}
	t.sweep(a, now)
}

// identify notes whom the name of an attempt stands for, and says how long that user has to wait: a user base may join
// spellings that are different names here, and each name has a count of its own.
func (a *attempt) identify(id string, now time.Time) time.Duration {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	a.user = account{"\x00" + id, a.account.place} // no username has a control character
	wait := t.backoff(t.failuresOf(a.user, now), now)
	if wait > 0 { // what is refused while it has to wait does not make it wait longer
		a.user = account{}
	}
	return wait
}

// failed counts a wrong password of an account. The bounded table may have dropped the entry of the attempt.
func (t *throttle) failed(a *attempt, now time.Time) {
	a.failures.add(now)
	if f, ok := t.accounts.Get(a.account); !ok {
		t.accounts.Put(a.account, a.failures)
	} else if f != a.failures {
		f.add(now)
	}
	if a.user.username != "" {
		f := t.failuresOf(a.user, now)
		f.add(now)
		t.accounts.Put(a.user, f)
	}
}

// listed is the bucket that stands in the table in the place of c's.
func (t *throttle) listed(c charge) *bucket {
	if c.key.level == ofAll {
		return c.bucket
	}
	if b, ok := t.buckets.Get(c.key); ok {
		return b
	}
	t.buckets.Put(c.key, c.bucket)
	return c.bucket
}

// sweep takes entries of an attempt that say nothing out of the tables, if they are the ones there.
func (t *throttle) sweep(a *attempt, now time.Time) {
	if f := a.failures; f.count == 0 && f.checked == 0 && f.queued == 0 {
		if listed, ok := t.accounts.Get(a.account); ok && listed == f {
			t.accounts.Delete(a.account)
		}
	}
	for _, c := range a.charges {
		if !c.bucket.idle(now) {
			continue
		}
		if listed, ok := t.buckets.Get(c.key); ok && listed == c.bucket {
			t.buckets.Delete(c.key)
		}
	}
}

// refresh charges a family for a refresh.
func (t *throttle) refresh(family string, now time.Time) *Error {
	if _, wait := t.families.Take(family, t.rates[ofFamily], now); wait > 0 {
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
	key := bucketKey{level: ofAddress, place: clientaddr.Client(from)}
	b, r := t.bucketOf(key), t.rate(ofAddress)
	if wait, _ := b.room(r, now); wait > 0 {
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	b.charge(r, now)
	t.buckets.Put(key, b)
	return nil
}

// limit is what an address may still fail.
func (t *throttle) limit(from netip.Addr, now time.Time) (limit, remaining int, reset, window time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, r := t.bucketOf(bucketKey{level: ofAddress, place: clientaddr.Client(from)}), t.rate(ofAddress)
	b.now(r, now)
	reset = b.even.Sub(now)
	return int(r.Burst / r.Interval), int(max(0, r.Burst-reset-b.flying) / r.Interval), reset, r.Burst
}
