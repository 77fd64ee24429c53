package password

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/clientaddr"
)

// MaxLength is the longest password in bytes that is looked at.
const MaxLength = 1024

// Config is what a Checker is made of; the zero value of every field means the default named with it.
type Config struct {
	Slots     int           // hashes computed at once: one fewer than GOMAXPROCS, but one
	Queue     int           // how many may wait for a slot: 64 a slot
	QueueWait time.Duration // how long: 2 s

	Cost    Cost     // of new hashes
	Peppers [][]byte // HMAC keys kept outside the database: the first for new hashes, the others still checked
}

// Cost is what an argon2id hash costs to compute. A zero field is that of the default, 19 MiB, 2 passes, 1 thread.
type Cost struct {
	Memory  uint32 // KiB
	Time    uint32 // passes
	Threads uint8
}

// Checker checks passwords and makes hashes.
type Checker struct {
	slots   *slots
	cost    Cost
	peppers []pepper
	garbage garbage
	matches func(h *parsed, password string) bool // as parsed has it

	hashed, work atomic.Uint64
}

// New makes a Checker.
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
	c := &Checker{slots: newSlots(cfg.Slots, cfg.Queue, cfg.QueueWait), cost: cfg.Cost.orDefault(), matches: (*parsed).matches}
	for _, key := range cfg.Peppers {
		c.peppers = append(c.peppers, newPepper(key))
	}
	return c
}

// Check says whether a password is the one that stored was made of. Where it is and stored is of an older scheme or of a
// lower cost than new hashes, rehash is what to store in its place; otherwise it is "".
//
// stored is "" for a user that is not there: it costs what any other does and is not right. from is the address of who asks, for
// the queue; the zero Addr: unknown. Errors: broker.ErrUnavailable, when there was no place or no turn in
// time; ErrHash with ok false, when stored is nothing that can be checked.
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

// Verify is Check for whoever has no use for the new hash: it says whether there should be one.
func (c *Checker) Verify(ctx context.Context, stored, password string, from netip.Addr) (ok, old bool, err error) {
	err = c.inSlot(ctx, from, func() error {
		ok, old, err = c.verify(stored, password)
		return err
	}, password)
	return ok, old, err
}

// Hash makes a hash to store. Error: broker.ErrUnavailable, as of Check; or the password is empty or too long.
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

// Known names the scheme of a stored hash, if it is one that Check takes. The error wraps ErrHash.
func (c *Checker) Known(stored string) (scheme string, err error) {
	h, err := c.parse(stored)
	return h.scheme, err
}

// Stats are counters of a Checker.
type Stats struct {
	Running, Waiting int    // now
	Refused          uint64 // for want of a place or a turn
	Hashed           uint64 // computed
	Work             uint64 // bytes of memory that hashes worked through, each pass counted
}

// Stats are the counters up to now.
func (c *Checker) Stats() Stats {
	s := Stats{Hashed: c.hashed.Load(), Work: c.work.Load()}
	s.Running, s.Waiting, s.Refused = c.slots.stats()
	return s
}

// inSlot computes something in a slot. Once it has one it ends, whatever becomes of ctx: whoever hangs up early does
// not learn sooner, and is charged the same. An empty or endless password is wrong of every user alike and
// needs none.
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

// verify computes one hash, always.
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

// dummy takes as long to check as a new hash and matches no password.
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

// did notes what a hash cost.
func (c *Checker) did(h *parsed) {
	c.hashed.Add(1)
	c.work.Add(h.work)
	c.garbage.add(h.memory)
}
