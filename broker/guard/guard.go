package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// Config says what a Guard allows. The zero value of each field means the default named with it.
type Config struct {
	Name      string        // of what is guarded, for the log: "user base"
	Limit     time.Duration // time of a call: 2 s
	InFlight  int           // calls on their way at once: 64
	Queue     int           // calls that wait for a place among those: as many as InFlight
	QueueWait time.Duration // how long: 250 ms
	Failures  int           // in a row, after which the base is not asked: 5
	Pause     time.Duration // until it is tried again, a fifth more or less: 5 s
	Logger    *slog.Logger  // a line at each change of state; none: discarded
}

func (c *Config) setDefaults() {
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.Limit, 2 * time.Second}, {&c.QueueWait, 250 * time.Millisecond}, {&c.Pause, 5 * time.Second}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	if c.InFlight <= 0 {
		c.InFlight = 64
	}
	if c.Queue <= 0 {
		c.Queue = c.InFlight
	}
	if c.Failures <= 0 {
		c.Failures = 5
	}
	if c.Name == "" {
		c.Name = "user base"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Guard bounds the calls to one user base.
type Guard struct {
	cfg     Config
	places  chan struct{} // holds one value a call on its way
	queue   chan struct{} // holds one value a call that waits
	breaker breaker

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // Add under mu, while not closed
}

// New makes a Guard. It is closed, in the sense of a circuit: it lets calls through.
func New(cfg Config) *Guard {
	cfg.setDefaults()
	return &Guard{
		cfg:     cfg,
		places:  make(chan struct{}, cfg.InFlight),
		queue:   make(chan struct{}, cfg.Queue),
		breaker: breaker{limit: cfg.Failures, pause: cfg.Pause, name: cfg.Name, log: cfg.Logger},
	}
}

// State is whether the base is asked.
func (g *Guard) State() State { return g.breaker.now() }

// InFlight is how many calls are on their way, those included whose caller has given up.
func (g *Guard) InFlight() int { return len(g.places) }

// Close refuses further calls and waits for those on their way. It always returns nil.
func (g *Guard) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.calls.Wait()
	return nil
}

// errLate is why a call was given up.
var errLate = errors.New("no answer in time")

// Call does a call within what g allows. An error that is no answer of a user base is or wraps
// broker.ErrUnavailable, and comes without a value. After the time limit Call returns though call does not; what that returns later is lost.
func Call[T any](ctx context.Context, g *Guard, call func(context.Context) (T, error)) (T, error) {
	var none T
	if err := g.acquire(ctx); err != nil {
		return none, err
	}
	turn, err := g.breaker.enter()
	if err != nil {
		g.leave()
		return none, err
	}
	type outcome struct {
		value T
		err   error
	}
	begun := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, g.cfg.Limit, errLate)
	defer cancel()
	done := make(chan outcome, 1)
	go func() { // waited for by Close, through leave
		defer g.leave()
		var o outcome
		o.value, o.err = caught(limited, g, call)
		done <- o
	}()
	var o outcome
	select {
	case o = <-done:
	case <-limited.Done():
		select {
		case o = <-done: // both at once: the answer counts
		default:
			o.err = context.Cause(limited)
		}
	}
	g.breaker.leave(turn, g.judge(ctx, o.err, time.Since(begun)), o.err)
	if o.err != nil && !isAnswer(o.err) {
		return none, unavailable(o.err)
	}
	return o.value, o.err
}

// caught is the call, with a panic made an error: it would end the program, on a goroutine where nobody catches it.
func caught[T any](ctx context.Context, g *Guard, call func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil { // its value may quote a password
			g.cfg.Logger.Error("user base panicked", "type", g.cfg.Name, "stack", string(debug.Stack()))
			err = errors.New("user base panicked")
		}
	}()
	return call(ctx)
}

// acquire takes a place among the calls on their way, to be given back by leave.
func (g *Guard) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	if err := g.breaker.refuses(); err != nil {
		return err // without waiting for a place
	}
	if err := g.place(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		<-g.places
		return fmt.Errorf("%w: shutting down", broker.ErrUnavailable)
	}
	g.calls.Add(1)
	return nil
}

func (g *Guard) place(ctx context.Context) error {
	select {
	case g.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case g.queue <- struct{}{}:
		defer func() { <-g.queue }()
	default:
		return fmt.Errorf("%w: %d calls wait already", broker.ErrUnavailable, cap(g.queue))
	}
	timer := time.NewTimer(g.cfg.QueueWait)
	defer timer.Stop()
	select {
	case g.places <- struct{}{}:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w: %d calls are on their way, none ended within %v", broker.ErrUnavailable, cap(g.places), g.cfg.QueueWait)
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

func (g *Guard) leave() {
	<-g.places
	g.calls.Done()
}

// judge is what a call says about the base.
func (g *Guard) judge(caller context.Context, err error, took time.Duration) verdict {
	switch {
	case err == nil || isAnswer(err):
		return good
	case errors.Is(caller.Err(), context.Canceled):
		return nothing
	case caller.Err() != nil && took < g.cfg.Limit/2: // a caller in a greater hurry than we
		return nothing
	}
	return bad
}

// isAnswer says whether an error is one that a user base in good health gives.
func isAnswer(err error) bool {
	return errors.Is(err, broker.ErrInvalidCredentials) || errors.Is(err, broker.ErrSecondFactor) ||
		errors.Is(err, broker.ErrNotFound) || errors.Is(err, broker.ErrDisabled) || errors.Is(err, broker.ErrBadUser)
}

func unavailable(err error) error {
	if errors.Is(err, broker.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}
