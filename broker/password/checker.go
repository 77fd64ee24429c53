package password

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/clientaddr"
)

// MaxLength is the maximum length of a password, in bytes.
const MaxLength = 1024

// Config configures a Checker; each field states its default.
type Config struct {
	Slots     int           // concurrent hashes: one less than GOMAXPROCS, at least one
	Queue     int           // calls that wait for a slot: 64 for each slot
	QueueWait time.Duration // time limit of that wait: 2 s

	Cost    Cost     // of new hashes
	Peppers [][]byte // HMAC keys from outside the database: the first for new hashes, all for checks
}

// Cost is the cost of an argon2id hash. Zero fields have the default: 19 MiB, 2 passes, 1 thread.
type Cost struct {
	Memory  uint32 // KiB
	Time    uint32 // passes
	Threads uint8
}

// Checker checks and hashes passwords.
type Checker struct {
	slots   *fairSemaphore
	cost    Cost
	peppers []pepper
	garbage gcTrigger
	matches func(h *parsed, password string) bool // a test hook; parsed.matches otherwise

	hashed, work atomic.Uint64
}

// New returns a Checker.
func New(cfg Config) *Checker {
	if cfg.Slots <= 0 {
		cfg.Slots = max(1, runtime.GOMAXPROCS(0)-1)
	}
	if cfg.Queue <= 0 {
		cfg.Queue = 64 * cfg.Slots
	}
	if cfg.QueueWait <= 0 {
		cfg.QueueWait = 2 * time.Second
	}
	c := &Checker{slots: newFairSemaphore(cfg.Slots, cfg.Queue, cfg.QueueWait), cost: cfg.Cost.orDefault(), matches: (*parsed).matches}
	for _, key := range cfg.Peppers {
		c.peppers = append(c.peppers, newPepper(key))
	}
	return c
}

// Check checks a password against a stored hash. If it matches and the hash has an older scheme or
// lower cost than new ones, rehash is the hash to store instead; otherwise rehash is "".
//
// For an unknown user pass stored as "": it costs as much as any other and never matches. from is
// the client address for fair queueing; zero: unknown. Errors: broker.ErrUnavailable if the queue
// is full or too slow; ErrHash, with ok false, if stored cannot be checked.
func (c *Checker) Check(ctx context.Context, stored, password string, from netip.Addr) (ok bool, rehash string, err error) {
	err = c.inSlot(ctx, from, func() error {
		var old bool
		ok, old, err = c.verify(stored, password)
		if ok && old {
			rehash = c.make(password)
		}
		return err
	}, password)
	return ok, rehash, err
}

// Verify is like Check, but only reports whether a new hash is due.
func (c *Checker) Verify(ctx context.Context, stored, password string, from netip.Addr) (ok, old bool, err error) {
	err = c.inSlot(ctx, from, func() error {
		ok, old, err = c.verify(stored, password)
		return err
	}, password)
	return ok, old, err
}

// Hash returns a new hash. It returns broker.ErrUnavailable in the same cases as Check, and an
// error for a password that is empty or too long.
func (c *Checker) Hash(ctx context.Context, password string, from netip.Addr) (stored string, err error) {
	if !checkable(password) {
		return "", errors.New("password is empty or too long")
	}
	err = c.inSlot(ctx, from, func() error {
		stored = c.make(password)
		return nil
	}, password)
	return stored, err
}

// Known returns the scheme of a stored hash. The error wraps ErrHash.
func (c *Checker) Known(stored string) (scheme string, err error) {
	h, err := c.parse(stored)
	return h.scheme, err
}

// Stats are the counters of a Checker.
type Stats struct {
	Running, Waiting int    // current
	Refused          uint64 // the queue was full or too slow
	Hashed           uint64 // computed
	Work             uint64 // bytes of memory of all passes
}

// Stats returns the current counters.
func (c *Checker) Stats() Stats {
	s := Stats{Hashed: c.hashed.Load(), Work: c.work.Load()}
	s.Running, s.Waiting, s.Refused = c.slots.stats()
	return s
}

// inSlot runs compute in a slot. Once it has a slot, it ignores ctx, so that a client that
// disconnects early causes the same work. An empty or too long password needs no slot, because it
// is wrong for all users.
func (c *Checker) inSlot(ctx context.Context, from netip.Addr, compute func() error, password string) error {
	if !checkable(password) {
		return nil
	}
	if err := c.slots.acquire(ctx, clientaddr.Network(from)); err != nil {
		return err
	}
	defer c.slots.release()
	return compute()
}

func checkable(password string) bool { return password != "" && len(password) <= MaxLength }

// verify computes exactly one hash.
func (c *Checker) verify(stored, password string) (ok, old bool, err error) {
	h := c.dummy()
	there := false
	if stored != "" {
		if parsed, wrong := c.parse(stored); wrong == nil {
			h, there = parsed, true
		} else {
			err = wrong
		}
	}
	right := c.matches(&h, password)
	c.did(&h)
	return right && there, h.old, err
}

// make computes a new hash.
func (c *Checker) make(password string) string {
	a := c.blank()
	_, _ = rand.Read(a.salt)
	a.sum = a.compute(password)
	h := a.hash()
	c.did(&h)
	return a.String()
}

// dummy returns a hash that costs as much as a new one and matches no password.
func (c *Checker) dummy() parsed {
	a := c.blank()
	return a.hash()
}

func (c *Checker) blank() argon {
	a := argon{Cost: c.cost, salt: make([]byte, saltLength), sum: make([]byte, sumLength)}
	if len(c.peppers) > 0 {
		a.pepper = &c.peppers[0]
	}
	return a
}

// did counts the cost of a hash.
func (c *Checker) did(h *parsed) {
	c.hashed.Add(1)
	c.work.Add(h.work)
	c.garbage.add(h.memory)
}
