package guard

import (
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// State is the state of a Guard.
type State int

// States of a Guard.
const (
	Closed   State = iota // calls are allowed
	Open                  // calls are refused
	HalfOpen              // one call tests whether the base is back
)

func (s State) String() string { return [...]string{"closed", "open", "half-open"}[s] }

// outcome is what a call shows about the base.
type outcome int

const (
	good outcome = iota
	bad
	nothing
)

// window is the number of recent calls that the failure rate is computed from.
const window = 32

// breaker is a circuit breaker: it stops calls to a base that fails.
type breaker struct {
	limit int // failures in a row
	pause time.Duration
	name  string
	log   *slog.Logger

	mu         sync.Mutex
	state      State
	generation uint64    // incremented by each change of state; outcomes of earlier generations are ignored
	failures   int       // failures in a row
	outcomes   uint32    // outcomes of recent calls as bits; 1: failed
	seen       int       // of them, up to window
	since      time.Time // start of the outage
	resume     time.Time // when an open breaker allows a test
}

func (b *breaker) now() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// refuses returns the error of a call that would be refused now.
func (b *breaker) refuses() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal(time.Now())
}

func (b *breaker) refusal(now time.Time) error {
	switch {
	case b.state == HalfOpen:
		return fmt.Errorf("%w: it failed, and is being tried again", broker.ErrUnavailable)
	case b.state == Open && now.Before(b.resume):
		return fmt.Errorf("%w: it failed, and is left alone for a while", broker.ErrUnavailable)
	}
	return nil
}

// enter allows a call or returns why not. Pass its result to leave.
func (b *breaker) enter() (generation uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refusal(time.Now()); err != nil {
		return 0, err
	}
	if b.state == Open {
		b.change(HalfOpen)
		b.log.Debug("user base tried again", "type", b.name)
	}
	return b.generation, nil
}

// leave records the outcome of a call.
func (b *breaker) leave(generation uint64, o outcome, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if generation != b.generation {
		return
	}
	switch {
	case b.state == HalfOpen && o == good:
		b.change(Closed)
		b.failures, b.outcomes, b.seen = 0, 0, 0
		b.log.Info("user base answers again", "type", b.name, "duration", time.Since(b.since))
	case b.state == HalfOpen && o == bad:
		b.open(b.log.Debug, "user base still down", err)
	case b.state == HalfOpen: // the next call is the test
		b.change(Open)
	case o != nothing:
		if b.note(o == bad) {
			b.since = time.Now()
			b.open(b.log.Warn, "user base down, not asked for a while", err)
		}
	}
}

// note counts an outcome and reports whether the breaker must open.
func (b *breaker) note(failed bool) bool {
	b.outcomes <<= 1
	b.seen = min(b.seen+1, window)
	if !failed {
		b.failures = 0
		return false
	}
	b.outcomes |= 1
	b.failures++
	return b.failures >= b.limit || b.seen == window && bits.OnesCount32(b.outcomes) >= window/2
}

func (b *breaker) open(log func(string, ...any), text string, err error) {
	b.change(Open)
	pause := time.Duration(float64(b.pause) * (0.8 + 0.4*rand.Float64()))
	b.resume = time.Now().Add(pause)
	log(text, "type", b.name, "again_in", pause, "error", err)
}

func (b *breaker) change(s State) {
	b.state = s
	b.generation++
}
