package throttle

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/cache"
	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/ratelimit"
)

// Config has the limits. The zero value of each field is its default.
type Config struct {
	AddressPerMinute int // failed logins of an address (IPv4 address, IPv6 /64): 10
	AddressBurst     int // burst: 20
	NetworkPerMinute int // failed logins of a network (IPv4 /24, IPv6 /48): 10 times those of an address
	NetworkBurst     int // burst: 10 times that of an address
	GlobalPerMinute  int // failed logins in total: 60 times those of an address
	GlobalBurst      int // burst: 60 times that of an address
	AccountFree      int // wrong passwords of an account before it has to wait: 5
	FamilyPerMinute  int // refreshes of a family: 30
	FamilyBurst      int // burst: 100, so that many processes with one token may start together
	UserPerMinute    int // refreshes of a user in all logins together: 120
	UserBurst        int // burst: 400
	LoginsPerMinute  int // successful logins of an account: 30
	LoginsBurst      int // burst: 100, so that many processes of one user may start together
}

func (t *Config) setDefaults() {
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
	set(&t.UserPerMinute, 120)
	set(&t.UserBurst, 400)
	set(&t.LoginsPerMinute, 30)
	set(&t.LoginsBurst, 100)
}

const (
	// maxKeys bounds the number of keys of each table. A key takes about 100 bytes.
	maxKeys = 1 << 16
	// Bounds of attempts that wait for earlier ones: for one account or from one location, in
	// total, and how long.
	maxQueued     = 256
	maxQueuedAll  = 4096
	queuePatience = 5 * time.Second
	// knownFactor multiplies the rate of an address for accounts that logged in there before. In an
	// office with one address, others can log in while a bot has a wrong password.
	knownFactor = 5
	// unknownFactor multiplies the rate of an address for unknown refresh tokens that are looked
	// up. Beyond that rate, all refreshes from the address are refused without a query, including
	// valid ones.
	unknownFactor = 10
	// confirmedPerMinute is how often a minute a correct password without its second factor is
	// answered, for one account.
	confirmedPerMinute = 5
	// Limits of an account from all untrusted locations together. The first attempts of networks
	// may fail AccountFree times, and their further attempts againFactor times as often. After
	// that, one more attempt of each kind may fail per interval.
	againFactor     = 4
	accountInterval = 5 * time.Minute
	// Rate and burst of requests of one address for an account that has to wait.
	polledPerMinute = 60
	polledBurst     = 60
)

// Limiter decides whether an attempt may be checked. While as many attempts are being checked as
// may still fail, the next one waits for their outcome. Many processes that log in at once are
// therefore not refused.
type Limiter struct {
	sharing sharing
	keyed   func(purpose, text string) [32]byte // a keyed hash; only for shared limits
	logger  *slog.Logger

	limits atomic.Pointer[limits]

	mu       sync.Mutex
	halved   bool // the shared limits fail, and this node uses half of its own
	queued   int
	buckets  cache.Map[bucketKey, *bucket]
	global   bucket
	families *ratelimit.Limiter[string]
	accounts cache.Map[account, *failures]
	polled   *ratelimit.Limiter[account] // accounts that had to wait, by address
	users    *ratelimit.Limiter[string]
	logins   *ratelimit.Limiter[string]
	unknown  *ratelimit.Limiter[netip.Prefix] // refresh tokens that do not exist, by address
	trusted  trustedLocations
}

// limits are what a Config says.
type limits struct {
	free  int // wrong passwords of an account before it has to wait
	rates [levels]ratelimit.Rate
}

// level is the kind of a bucket.
type level int

const (
	levelAddress level = iota
	levelKnown         // an address too, but of accounts that are known there
	levelNetwork
	levelGlobal
	levelUnanswered // attempts of a network that the user base did not answer
	levelFirstTry   // first attempts of networks at an account
	levelRetry      // further attempts at an account
	levelConfirmed  // correct passwords of an account without the second factor
	levelPolled     // requests for an account that has to wait
	levelFamily
	levelUser   // refreshes of a user
	levelLogins // logins of an account that succeed
	levelUnknown
	levels
)

// bucketKey identifies a bucket by client address or account.
type bucketKey struct {
	level   level
	place   netip.Prefix
	account string
}

// account is a login name at a location: a trusted address, or otherwise the client network.
// Attempts from elsewhere do not make the owner of an account wait.
type account struct {
	username string
	place    netip.Prefix
}

// failures counts consecutive wrong passwords of an account, and attempts that are being checked.
type failures struct {
	gate
	count   int
	last    time.Time
	checked int // attempts being checked
}

// New returns the limits of a node. shared counts for all nodes; nil: this is the only one. keyed
// hashes account names for it.
func New(c Config, shared Shared, keyed func(purpose, text string) [32]byte, logger *slog.Logger) *Limiter {
	c.setDefaults()
	t := newLimiter(c)
	t.sharing.limits, t.keyed, t.logger = shared, keyed, logger
	t.trusted.keyed = keyed
	return t
}

func newLimiter(c Config) *Limiter {
	t := &Limiter{
		buckets:  cache.New[bucketKey, *bucket](maxKeys),
		families: ratelimit.NewLimiter[string](maxKeys),
		accounts: cache.New[account, *failures](maxKeys),
		polled:   ratelimit.NewLimiter[account](maxKeys),
		users:    ratelimit.NewLimiter[string](maxKeys),
		logins:   ratelimit.NewLimiter[string](maxKeys),
		unknown:  ratelimit.NewLimiter[netip.Prefix](maxKeys),
		trusted:  newTrustedLocations(),
	}
	t.limits.Store(newLimits(&c))
	return t
}

// SetLimits replaces the limits. What was charged stays charged, and attempts that are being
// checked end with the limits that they began with.
func (t *Limiter) SetLimits(c Config) {
	c.setDefaults()
	t.limits.Store(newLimits(&c))
}

// newLimits returns the limits of a Config without zeros.
func newLimits(c *Config) *limits {
	free := time.Duration(min(c.AccountFree, maxBurst))
	return &limits{free: c.AccountFree, rates: [levels]ratelimit.Rate{
		levelAddress: perMinute(c.AddressPerMinute, c.AddressBurst),
		levelKnown:   perMinute(knownFactor*min(c.AddressPerMinute, maxRate), knownFactor*min(c.AddressBurst, maxBurst)),
		levelNetwork: perMinute(c.NetworkPerMinute, c.NetworkBurst),
		levelGlobal:  perMinute(c.GlobalPerMinute, c.GlobalBurst),
		// The burst is smaller than the number of failures after which the circuit breaker opens.
		levelUnanswered: perMinute(c.AddressPerMinute, c.AddressBurst/5),
		levelFirstTry:   {Interval: accountInterval, Burst: free * accountInterval},
		levelRetry:      {Interval: accountInterval, Burst: againFactor * free * accountInterval},
		levelConfirmed:  perMinute(confirmedPerMinute, c.AccountFree),
		levelPolled:     perMinute(polledPerMinute, polledBurst),
		levelFamily:     perMinute(c.FamilyPerMinute, c.FamilyBurst),
		levelUser:       perMinute(c.UserPerMinute, c.UserBurst),
		levelLogins:     perMinute(c.LoginsPerMinute, c.LoginsBurst),
		levelUnknown:    perMinute(unknownFactor*min(c.AddressPerMinute, maxRate), unknownFactor*min(c.AddressBurst, maxBurst)),
	}}
}

// Attempt is a charged password check. Complete, Confirm or Abandon ends it, once.
type Attempt struct {
	t        *Limiter
	place    netip.Prefix
	network  netip.Prefix
	account  account
	known    bool // the account logged in from this location before
	failures *failures
	user     account // the user to which the user base resolved the name; zero: unknown
	charges  []charge
	shared   *Reservation // the charge in the shared limits
	ended    bool

	location TrustedLocation // of an attempt that succeeded
	unstored bool            // location is new, or was stored long ago
}

// charge is the part of an attempt in a bucket.
type charge struct {
	key    bucketKey
	bucket *bucket
	rate   ratelimit.Rate
}

// password charges a password check to this node, or refuses it and charges nothing. asks means
// that the request has no one-time password, so that the answer may be that one is needed.
func (t *Limiter) password(ctx context.Context, username string, from netip.Addr, asks bool) (*Attempt, *Error) {
	a := &Attempt{t: t, place: clientaddr.Client(from), network: clientaddr.Network(from)}
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
		t.removeIdle(a, time.Now())
		if err := ctx.Err(); err != nil {
			return nil, unavailable(err)
		}
		if late {
			return nil, unavailable(errors.New("login waited too long for earlier ones"))
		}
	}
}

// reserve charges an attempt, returns the gate to wait at, or refuses it. The lock is held.
func (t *Limiter) reserve(a *Attempt, username string, asks bool, now time.Time) (wait *gate, refused *Error) {
	a.account = account{username, a.network}
	if a.known = t.trusted.has(username, a.place); a.known {
		a.account.place = a.place
	}
	f := t.failuresOf(a.account, now)
	a.failures = f
	polled := account{username, a.place}
	if wait := t.backoff(f, now); wait > 0 {
		return nil, &Error{Reason: TooManyFailures, RetryAfter: max(wait, t.poll(polled, now))}
	}
	if _, wait := t.polled.Check(polled, t.limits.Load().rates[levelPolled], now); wait > 0 {
		t.poll(polled, now)
		return nil, &Error{Reason: TooManyFailures, RetryAfter: wait}
	}
	if f.checked >= max(1, t.freeNow()-f.count) {
		return &f.gate, nil
	}
	t.claim(a, asks)
	for i := range a.charges {
		c := &a.charges[i]
		left, hope := c.bucket.wait(c.rate, now)
		switch {
		case hope:
			return &c.bucket.gate, nil
		case left > 0 && c.key.level == levelUnanswered:
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
		c.bucket.pending += c.rate.Interval
		if c.key.level != levelGlobal {
			t.buckets.Put(c.key, c.bucket)
		}
	}
	return nil, nil
}

// errUnanswered is the cause of Unavailable after attempts that the user base did not answer.
var errUnanswered = errors.New("the user base did not answer this network's last attempts")

// ofAccount reports whether a bucket is that of an account.
func (l level) ofAccount() bool { return l == levelFirstTry || l == levelRetry || l == levelConfirmed }

// reserves reports whether attempts count while they are being checked.
func (l level) reserves() bool { return l != levelUnanswered }

// claim finds the buckets of an attempt. An account at a trusted location has a bucket of its own,
// so that attempts from elsewhere do not block it.
func (t *Limiter) claim(a *Attempt, asks bool) {
	a.charges = a.charges[:0]
	add := func(key bucketKey) {
		b := &t.global
		if key.level != levelGlobal {
			b = t.bucketOf(key)
		}
		a.charges = append(a.charges, charge{key, b, t.rate(key.level)})
	}
	confirmed := bucketKey{level: levelConfirmed, account: a.account.username}
	if a.known {
		add(bucketKey{level: levelKnown, place: a.place})
		confirmed.place = a.place
	} else {
		whole := bucketKey{level: levelRetry, account: a.account.username}
		if a.failures.count == 0 && a.failures.checked == 0 {
			whole.level = levelFirstTry
		}
		add(bucketKey{level: levelUnanswered, place: a.network})
		add(bucketKey{level: levelAddress, place: a.place})
		add(bucketKey{level: levelNetwork, place: a.network})
		add(bucketKey{level: levelGlobal})
		add(whole)
	}
	if asks {
		add(confirmed)
	}
}

// poll charges a request for an account that has to wait, and returns the poll penalty. A client
// that asks continuously is not admitted at the end of the wait, but after a second without
// requests.
func (t *Limiter) poll(who account, now time.Time) time.Duration {
	return t.polled.Charge(who, t.limits.Load().rates[levelPolled], now)
}

// pollShared is like poll, for an account that has to wait by the shared limits.
func (t *Limiter) pollShared(username string, from netip.Addr, now time.Time) time.Duration {
	return t.poll(account{username, clientaddr.Client(from)}, now)
}

// bucketOf returns a bucket, and failuresOf the entry of an account. A new one is added to its
// table when an attempt is charged: refused attempts must not evict others.
func (t *Limiter) bucketOf(key bucketKey) *bucket {
	if b, ok := t.buckets.Get(key); ok {
		return b
	}
	return &bucket{}
}

func (t *Limiter) failuresOf(a account, now time.Time) *failures {
	f, ok := t.accounts.Get(a)
	if !ok {
		return &failures{}
	}
	f.age(now)
	return f
}

// age resets old failures.
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

func (t *Limiter) rate(l level) ratelimit.Rate {
	if t.halved && l != levelUnanswered { // this level is not shared
		return t.limits.Load().rates[l].Halve()
	}
	return t.limits.Load().rates[l]
}

func (t *Limiter) freeNow() int {
	if t.halved {
		return max(1, t.limits.Load().free/2)
	}
	return t.limits.Load().free
}

// backoff returns the remaining wait of an account after its failures.
func (t *Limiter) backoff(f *failures, now time.Time) time.Duration {
	free := t.freeNow()
	if f.count < free {
		return 0
	}
	return max(0, f.last.Add(min(time.Second<<min(f.count-free, 30), MaxBackoff)).Sub(now))
}

// halve switches this node to half of its limits, or back.
func (t *Limiter) halve(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.halved = on
}

// complete ends an attempt on this node; see Complete.
func (a *Attempt) complete(how Settlement) { a.completeAt(outcome{how: how}, time.Now()) }

// confirm ends an attempt on this node; see Confirm.
func (a *Attempt) confirm() { a.completeAt(outcome{how: Refunded, confirmed: true}, time.Now()) }

// unanswered ends an attempt on this node; see Abandon.
func (a *Attempt) unanswered() { a.completeAt(outcome{how: Refunded, unanswered: true}, time.Now()) }

// outcome is the end of an attempt.
type outcome struct {
	how                   Settlement
	confirmed, unanswered bool
}

// charges reports whether an outcome is a failure for a bucket.
func (o outcome) charges(l level) bool {
	switch l {
	case levelConfirmed:
		return o.confirmed
	case levelUnanswered:
		return o.unanswered
	}
	return o.how == Failed
}

func (a *Attempt) completeAt(o outcome, now time.Time) {
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
		a.location, a.unstored = t.trusted.use(a.account.username, a.place, now)
	}
	a.failures.open()
	for _, c := range a.charges {
		if c.key.level.reserves() {
			c.bucket.pending -= c.rate.Interval
		}
		if o.charges(c.key.level) {
			t.listed(c).charge(c.rate, now)
		}
		c.bucket.open()
	}
	t.removeIdle(a, now)
}

// Identify records the user of an attempt and returns how long that user has to wait. A user base
// may accept several spellings of a name, and each spelling has its own count here.
func (a *Attempt) Identify(id string, now time.Time) time.Duration {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	a.user = account{"\x00" + id, a.account.place} // no username has a control character
	wait := t.backoff(t.failuresOf(a.user, now), now)
	if wait > 0 { // requests that are refused during the wait do not extend it
		a.user = account{}
	}
	return wait
}

// failed counts a wrong password of an account. The table may have evicted the entry of the
// attempt.
func (t *Limiter) failed(a *Attempt, now time.Time) {
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

// listed returns the bucket in the table for that of c.
func (t *Limiter) listed(c charge) *bucket {
	if c.key.level == levelGlobal {
		return c.bucket
	}
	if b, ok := t.buckets.Get(c.key); ok {
		return b
	}
	t.buckets.Put(c.key, c.bucket)
	return c.bucket
}

// removeIdle removes idle entries of an attempt from the tables.
func (t *Limiter) removeIdle(a *Attempt, now time.Time) {
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

// Refresh charges a refresh to its family and to its user. nil means that it is allowed.
func (t *Limiter) Refresh(family, user string, now time.Time) *Error {
	if _, wait := t.families.Take(family, t.limits.Load().rates[levelFamily], now); wait > 0 {
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	if _, wait := t.users.Take(user, t.limits.Load().rates[levelUser], now); wait > 0 {
		t.families.Refund(family, t.limits.Load().rates[levelFamily])
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	return nil
}

// LoginAllowed returns nil if one more login of an account may succeed. It charges nothing, so that
// wrong passwords do not keep the account's owner out.
func (t *Limiter) LoginAllowed(account string, now time.Time) *Error {
	if _, wait := t.logins.Check(account, t.limits.Load().rates[levelLogins], now); wait > 0 {
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	return nil
}

// LoggedIn charges a correct password to an account.
func (t *Limiter) LoggedIn(account string, now time.Time) {
	t.logins.Charge(account, t.limits.Load().rates[levelLogins], now)
}

// TokenAllowed returns nil if a refresh token of an address may be looked up. It charges nothing:
// UnknownToken does that.
func (t *Limiter) TokenAllowed(from netip.Addr, now time.Time) *Error {
	if _, wait := t.unknown.Check(clientaddr.Client(from), t.limits.Load().rates[levelUnknown], now); wait > 0 {
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	return nil
}

// UnknownToken charges an unknown refresh token to an address, after the look-up. Tokens have 256
// bits and cannot be guessed, and valid refreshes from one address must not be counted together.
func (t *Limiter) UnknownToken(from netip.Addr, now time.Time) *Error {
	t.unknown.Charge(clientaddr.Client(from), t.limits.Load().rates[levelUnknown], now)
	t.mu.Lock()
	defer t.mu.Unlock()
	key := bucketKey{level: levelAddress, place: clientaddr.Client(from)}
	b, r := t.bucketOf(key), t.rate(levelAddress)
	if wait, _ := b.wait(r, now); wait > 0 {
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	b.charge(r, now)
	t.buckets.Put(key, b)
	return nil
}

// Limit returns the limit of failures of an address, the remaining ones, the time until all are
// available again, and that time for an exhausted limit.
func (t *Limiter) Limit(from netip.Addr, now time.Time) (limit, remaining int, reset, window time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b, r := t.bucketOf(bucketKey{level: levelAddress, place: clientaddr.Client(from)}), t.rate(levelAddress)
	b.now(r, now)
	reset = b.even.Sub(now)
	return int(r.Burst / r.Interval), int(max(0, r.Burst-reset-b.pending) / r.Interval), reset, r.Burst
}
