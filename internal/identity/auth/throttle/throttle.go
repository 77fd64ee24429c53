package throttle

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/cache"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/base/ratelimit"
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
	queuePatience = 10 * time.Second
	// knownFactor multiplies the rate of an address for accounts that logged in there before. In an
	// office with one address, others can log in while a bot has a wrong password.
	knownFactor = 5
	// unknownFactor multiplies the rate of an address for unknown refresh tokens that are looked
	// up. Beyond that rate, all refreshes from the address are refused without a query, including
	// valid ones.
	unknownFactor = 10
	// refusedPerMinute is how often a minute an account is answered that its password is correct,
	// although it does not log in.
	refusedPerMinute = 1
	// Limits of an account from all untrusted locations together. The first attempts of networks
	// may fail AccountFree times, and their further attempts againFactor times as often. After
	// that, one more attempt of each kind may fail per interval.
	againFactor     = 4
	accountInterval = 5 * time.Minute
)

// Limiter decides whether an attempt may be checked. One password of an account is checked at a
// time at its trusted locations, and one elsewhere. While as many attempts are being checked as may
// still fail, the next one waits for their outcome. Many processes that log in at once are
// therefore not refused.
type Limiter struct {
	sharing   sharing
	directory Directory                           // nil: the user base locks no accounts
	keyed     func(purpose, text string) [32]byte // a keyed hash; only for shared limits
	logger    *slog.Logger

	limits atomic.Pointer[limits]

	mu       sync.Mutex
	halved   bool // the shared limits fail, and this node uses half of its own
	queued   int
	running  map[checked]*gate // the accounts of which a password is being checked
	buckets  cache.Map[bucketKey, *bucket]
	global   bucket
	families *ratelimit.Limiter[string]
	accounts cache.Map[account, *failures]
	users    *ratelimit.Limiter[string]
	logins   *ratelimit.Limiter[string]
	unknown  *ratelimit.Limiter[string] // refresh tokens that do not exist, by address or alone
	trusted  trustedLocations
}

// limits are what a Config says.
type limits struct {
	free  int // wrong passwords of an account before it has to wait
	rates [levels]ratelimit.Rate
}

// level is the kind of a bucket. The comments say what each is against, which the others leave
// open.
type level int

const (
	levelAddress    level = iota // wrong passwords of an address, at accounts that are new there: one machine that guesses
	levelKnown                   // the same at accounts that are known there: one that guesses at all accounts of a shared address
	levelNetwork                 // of a network: a rented range of addresses
	levelGlobal                  // of everybody: many networks that guess at many accounts
	levelFirstTry                // first attempts of networks at an account: ever new networks that guess at one account
	levelRetry                   // further attempts at it: few networks, which must not use up the first attempts
	levelRefused                 // correct passwords of an account that do not log in: tests of a stolen password
	levelLogins                  // correct passwords of an account: logins without end
	levelUnanswered              // attempts of a network without an answer: logins that make the user base fail
	levelFamily                  // refreshes of a login: one that uses up those of its user
	levelUser                    // refreshes of a user: many logins that refresh without end
	levelUnknown                 // unknown refresh tokens of an address: queries without end
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

// checked is an account whose password is checked, either at one of its trusted locations or
// elsewhere. They are distinct, so that others do not make the owner wait.
type checked struct {
	username string
	known    bool
}

// failures counts consecutive wrong passwords of an account.
type failures struct {
	count int
	last  time.Time
}

// Directory counts the wrong passwords that reach a user base which locks accounts.
type Directory interface {
	// Reserve counts a wrong password of an account before it is checked, or refuses the attempt.
	Reserve(ctx context.Context, username string, trusted bool) *Error
	// Settle reverts Reserve: Succeeded forgets all wrong passwords of the account, Refunded this
	// one.
	Settle(ctx context.Context, username string, how Settlement)
}

// New returns the limits of a node. shared counts for all nodes; nil: this is the only one. keyed
// hashes account names for it. directory is asked last; nil: the user base locks no accounts.
func New(c Config, shared Shared, directory Directory, keyed func(purpose, text string) [32]byte, logger *slog.Logger) *Limiter {
	c.setDefaults()
	t := newLimiter(c)
	t.sharing.limits, t.directory, t.keyed, t.logger = shared, directory, keyed, logger
	t.trusted.keyed = keyed
	return t
}

func newLimiter(c Config) *Limiter {
	t := &Limiter{
		running:  make(map[checked]*gate),
		buckets:  cache.New[bucketKey, *bucket](maxKeys),
		families: ratelimit.NewLimiter[string](maxKeys),
		accounts: cache.New[account, *failures](maxKeys),
		users:    ratelimit.NewLimiter[string](maxKeys),
		logins:   ratelimit.NewLimiter[string](maxKeys),
		unknown:  ratelimit.NewLimiter[string](maxKeys),
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
		levelAddress:  perMinute(c.AddressPerMinute, c.AddressBurst),
		levelKnown:    perMinute(knownFactor*min(c.AddressPerMinute, maxRate), knownFactor*min(c.AddressBurst, maxBurst)),
		levelNetwork:  perMinute(c.NetworkPerMinute, c.NetworkBurst),
		levelGlobal:   perMinute(c.GlobalPerMinute, c.GlobalBurst),
		levelFirstTry: {Interval: accountInterval, Burst: free * accountInterval},
		levelRetry:    {Interval: accountInterval, Burst: againFactor * free * accountInterval},
		// The burst is smaller than the number of failures after which the circuit breaker opens.
		levelUnanswered: perMinute(c.AddressPerMinute, c.AddressBurst/5),
		levelRefused:    perMinute(refusedPerMinute, c.AccountFree),
		levelFamily:     perMinute(c.FamilyPerMinute, c.FamilyBurst),
		levelUser:       perMinute(c.UserPerMinute, c.UserBurst),
		levelLogins:     perMinute(c.LoginsPerMinute, c.LoginsBurst),
		levelUnknown:    perMinute(unknownFactor*min(c.AddressPerMinute, maxRate), unknownFactor*min(c.AddressBurst, maxBurst)),
	}}
}

// Attempt is a charged password check. Complete ends it, once.
type Attempt struct {
	t        *Limiter
	place    netip.Prefix
	network  netip.Prefix
	account  account
	known    bool // the account logged in from this location before
	failures *failures
	reserved bool    // counted by the Directory
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
	a.failures = t.failuresOf(a.account, now)
	if wait := t.backoff(a.failures, now); wait > 0 {
		return nil, &Error{Reason: TooManyFailures, RetryAfter: wait}
	}
	if refused := t.mayLogIn(username, now); refused != nil {
		return nil, refused
	}
	if running := t.running[checked{username, a.known}]; running != nil {
		return running, nil
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
			return nil, &Error{Reason: TooManyFailures, RetryAfter: left}
		case left > 0:
			return nil, &Error{Reason: RateLimited, RetryAfter: left}
		}
	}
	t.running[checked{username, a.known}] = &gate{}
	t.accounts.Put(a.account, a.failures)
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

// reserves reports whether attempts count while they are being checked.
func (l level) reserves() bool { return l != levelUnanswered }

// ofAccount reports whether a bucket is that of an account.
func (l level) ofAccount() bool { return l == levelFirstTry || l == levelRetry || l == levelRefused }

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
	incomplete := bucketKey{level: levelRefused, account: a.account.username}
	if a.known {
		add(bucketKey{level: levelKnown, place: a.place})
		incomplete.place = a.place
	} else {
		whole := bucketKey{level: levelRetry, account: a.account.username}
		if a.failures.count == 0 {
			whole.level = levelFirstTry
		}
		add(bucketKey{level: levelUnanswered, place: a.network})
		add(bucketKey{level: levelAddress, place: a.place})
		add(bucketKey{level: levelNetwork, place: a.network})
		add(bucketKey{level: levelGlobal})
		add(whole)
	}
	add(a.outside())
	if asks {
		add(incomplete)
	}
}

// outside returns the key of correct passwords from outside of the networks of the user, whom they
// do not keep out in other networks.
func (a *Attempt) outside() bucketKey {
	return bucketKey{level: levelRefused, place: a.network, account: "\x00" + a.account.username}
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
func (a *Attempt) complete(how Settlement) { a.completeAt(how, time.Now()) }

// charged reports whether the outcome of an attempt is a failure for one of its buckets.
func (a *Attempt) charged(how Settlement, k bucketKey) bool {
	switch k.level {
	case levelUnanswered:
		return how == Unanswered
	case levelRefused:
		return how == Outside && k == a.outside() || how == Incomplete && k != a.outside()
	}
	return how == Failed
}

func (a *Attempt) completeAt(how Settlement, now time.Time) {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.ended {
		return
	}
	a.ended = true
	running := checked{a.account.username, a.known}
	t.running[running].open()
	delete(t.running, running)
	switch how {
	case Failed:
		t.failed(a, now)
	case Succeeded:
		a.failures.count = 0
		t.accounts.Delete(a.user)
		a.location, a.unstored = t.trusted.use(a.account.username, a.place, now)
	}
	for _, c := range a.charges {
		if c.key.level.reserves() {
			c.bucket.pending -= c.rate.Interval
		}
		if a.charged(how, c.key) {
			t.listed(c).charge(c.rate, now)
		}
		c.bucket.open()
	}
	t.removeIdle(a, now)
}

// Answer is what the user base said about the password of an attempt.
type Answer int

// Answers.
const (
	NotChecked Answer = iota // it was not asked, or did not answer
	Wrong
	Right
	RightOutside // but the client is in none of the user's networks
)

// Answered records the answer of the user base, and the id of the user if there is one. It returns
// an Error with TooManyFailures if that user has to wait: a user base may accept several spellings
// of a name, and each has its own count here. The reason is RateLimited if the user has logged in
// too often. A correct password from outside is not counted as a login, because that would keep
// the owner out.
func (a *Attempt) Answered(ctx context.Context, v Answer, user string) *Error {
	if a.reserved && v != Wrong {
		how := Refunded
		if v != NotChecked {
			how = Succeeded
		}
		a.t.directory.Settle(ctx, a.account.username, how)
	}
	return a.answered(v, user, time.Now())
}

func (a *Attempt) answered(v Answer, user string, now time.Time) (refused *Error) {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	id := "\x00" + user // no username has a control character
	if user != "" && v != NotChecked {
		a.user = account{id, a.account.place}
		if wait := t.backoff(t.failuresOf(a.user, now), now); wait > 0 {
			a.user = account{} // requests that are refused during the wait do not extend it
			refused = &Error{Reason: TooManyFailures, RetryAfter: wait}
		}
	}
	if v != Right {
		return refused
	}
	rate := t.limits.Load().rates[levelLogins]
	t.logins.Charge(a.account.username, rate, now)
	if user != "" {
		if refused == nil {
			refused = t.mayLogIn(id, now)
		}
		t.logins.Charge(id, rate, now)
	}
	return refused
}

// mayLogIn returns an Error if an account has logged in too often.
func (t *Limiter) mayLogIn(username string, now time.Time) *Error {
	if _, wait := t.logins.Check(username, t.limits.Load().rates[levelLogins], now); wait > 0 {
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	return nil
}

// failed counts a wrong password of an account, and of the user whom it identified. The table may
// have evicted the entry of the account.
func (t *Limiter) failed(a *Attempt, now time.Time) {
	a.failures.add(now)
	t.accounts.Put(a.account, a.failures)
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
	if f := a.failures; f.count == 0 {
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

// TokenAllowed returns nil if a refresh token may be looked up. key is what its look-ups count by:
// a client address, or the token itself. It charges nothing: UnknownToken does that.
func (t *Limiter) TokenAllowed(key string, now time.Time) *Error {
	if _, wait := t.unknown.Check(key, t.limits.Load().rates[levelUnknown], now); wait > 0 {
		return &Error{Reason: RateLimited, RetryAfter: wait}
	}
	return nil
}

// UnknownToken charges an unknown refresh token, after the look-up. Tokens cannot be guessed, so
// this is no failed login of the address: others log in there.
func (t *Limiter) UnknownToken(key string, now time.Time) {
	t.unknown.Charge(key, t.limits.Load().rates[levelUnknown], now)
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
