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

// State is that of a Guard.
type State int

// States of a Guard.
const (
	Closed   State = iota // calls go through
	Open                  // calls are refused
	HalfOpen              // one call is on its way, to see whether the base is back
)

func (s State) String() string { return [...]string{"closed", "open", "half-open"}[s] }

// verdict is what a call says about the base.
type verdict int

const (
	good verdict = iota
	bad
	nothing
)

// window is how many of the last calls are looked at for the rate of failures.
const window = 32

// breaker stops asking a base that fails.
type breaker struct {
	limit int // failures in a row
	pause time.Duration
	name  string
	log   *slog.Logger

	mu     sync.Mutex
	state  State
	turn   uint64    // of the present state: what a call of an earlier one says is no news
	row    int       // failures in a row
	last   uint32    // outcomes of the last calls, a bit each, 1 for a failure
	seen   int       // of them, up to window
	since  time.Time // the base is down, when it is
	resume time.Time // when an open breaker lets a call through
}

func (b *breaker) now() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// refuses is the error of a call that would not be let through now.
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

// enter lets a call through, or says why not. What it returns goes to leave.
func (b *breaker) enter() (turn uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refusal(time.Now()); err != nil {
		return 0, err
	}
	if b.state == Open {
		b.change(HalfOpen)
		b.log.Debug("user base tried again", "type", b.name)
	}
	return b.turn, nil
}

// leave notes the outcome of a call.
func (b *breaker) leave(turn uint64, v verdict, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if turn != b.turn {
		return
	}
	switch {
	case b.state == HalfOpen && v == good:
		b.change(Closed)
		b.row, b.last, b.seen = 0, 0, 0
		b.log.Info("user base answers again", "type", b.name, "duration", time.Since(b.since))
	case b.state == HalfOpen && v == bad:
		b.open(b.log.Debug, "user base still down", err)
	case b.state == HalfOpen: // the next call tries
		b.change(Open)
	case v != nothing:
		if b.note(v == bad) {
			b.since = time.Now()
			b.open(b.log.Warn, "user base down, not asked for a while", err)
		}
	}
}

// note counts an outcome and says whether they are too bad to go on.
func (b *breaker) note(failed bool) bool {
	b.last <<= 1
	b.seen = min(b.seen+1, window)
	if !failed {
		b.row = 0
		return false
	}
	b.last |= 1
	b.row++
	return b.row >= b.limit || b.seen == window && bits.OnesCount32(b.last) >= window/2
}

func (b *breaker) open(tell func(string, ...any), text string, err error) {
	b.change(Open)
	pause := time.Duration(float64(b.pause) * (0.8 + 0.4*rand.Float64()))
	b.resume = time.Now().Add(pause)
	tell(text, "type", b.name, "again_in", pause, "error", err)
}

func (b *breaker) change(s State) {
	b.state = s
	b.turn++
}
