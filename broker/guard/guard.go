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

// Config configures a Guard. Each field states its default.
type Config struct {
	Name      string        // of the base, for the log: "user base"
	Limit     time.Duration // time limit of a call: 2 s
	InFlight  int           // concurrent calls: 64
	Queue     int           // calls that wait for others to end: InFlight
	QueueWait time.Duration // time limit of that wait: 250 ms
	Failures  int           // failures in a row that open the Guard: 5
	Pause     time.Duration // before the next test, ±20 %: 5 s
	Logger    *slog.Logger  // logs changes of state; nil: no log
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

// Guard limits the calls to one user base.
type Guard struct {
	cfg     Config
	slots   chan struct{} // one value for each call in flight
	queue   chan struct{} // one value for each waiting call
	breaker breaker

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // Add under mu, while not closed
}

// New returns a closed Guard, which allows calls.
func New(cfg Config) *Guard {
	cfg.setDefaults()
	return &Guard{
		cfg:     cfg,
		slots:   make(chan struct{}, cfg.InFlight),
		queue:   make(chan struct{}, cfg.Queue),
		breaker: breaker{limit: cfg.Failures, pause: cfg.Pause, name: cfg.Name, log: cfg.Logger},
	}
}

// State returns the state of the circuit breaker.
func (g *Guard) State() State { return g.breaker.now() }

// InFlight returns the number of calls in flight, including those whose caller has given up.
func (g *Guard) InFlight() int { return len(g.slots) }

// Close refuses further calls and waits for those in flight. It returns nil.
func (g *Guard) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.calls.Wait()
	return nil
}

// errLate is the cause of a call that exceeds its time limit.
var errLate = errors.New("no answer in time")

// Call makes a call within the limits of g. Errors that are not answers of a user base wrap
// broker.ErrUnavailable and come without a value. Call returns after the time limit even if call
// does not; its late result is discarded.
func Call[T any](ctx context.Context, g *Guard, call func(context.Context) (T, error)) (T, error) {
	var none T
	if err := g.acquire(ctx); err != nil {
		return none, err
	}
	generation, err := g.breaker.enter()
	if err != nil {
		g.leave()
		return none, err
	}
	type reply struct {
		value T
		err   error
	}
	begun := time.Now()
	limited, cancel := context.WithTimeoutCause(ctx, g.cfg.Limit, errLate)
	defer cancel()
	done := make(chan reply, 1)
	go func() { // Close waits for it through leave
		defer g.leave()
		var o reply
		o.value, o.err = recoverCall(limited, g, call)
		done <- o
	}()
	var o reply
	select {
	case o = <-done:
	case <-limited.Done():
		select {
		case o = <-done: // both at once: use the result
		default:
			o.err = context.Cause(limited)
		}
	}
	g.breaker.leave(generation, g.judge(ctx, o.err, time.Since(begun)), o.err)
	if o.err != nil && !isAnswer(o.err) {
		return none, unavailable(o.err)
	}
	return o.value, o.err
}

// recoverCall makes the call and turns a panic into an error. Without that it would end the
// process.
func recoverCall[T any](ctx context.Context, g *Guard, call func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil { // the value may contain a password
			g.cfg.Logger.Error("user base panicked", "type", g.cfg.Name, "stack", string(debug.Stack()))
			err = errors.New("user base panicked")
		}
	}()
	return call(ctx)
}

// acquire starts a call; leave ends it.
func (g *Guard) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	if err := g.breaker.refuses(); err != nil {
		return err // without queueing
	}
	if err := g.acquireSlot(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		<-g.slots
		return fmt.Errorf("%w: shutting down", broker.ErrUnavailable)
	}
	g.calls.Add(1)
	return nil
}

// acquireSlot waits until fewer than InFlight calls are in flight.
func (g *Guard) acquireSlot(ctx context.Context) error {
	select {
	case g.slots <- struct{}{}:
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
	case g.slots <- struct{}{}:
		return nil
	case <-timer.C:
		return fmt.Errorf("%w: %d calls are on their way, none ended within %v", broker.ErrUnavailable, cap(g.slots), g.cfg.QueueWait)
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

func (g *Guard) leave() {
	<-g.slots
	g.calls.Done()
}

// judge returns what a call shows about the base.
func (g *Guard) judge(caller context.Context, err error, took time.Duration) outcome {
	switch {
	case err == nil || isAnswer(err):
		return good
	case errors.Is(caller.Err(), context.Canceled):
		return nothing
	case caller.Err() != nil && took < g.cfg.Limit/2: // the caller's limit is shorter than ours
		return nothing
	}
	return bad
}

// isAnswer reports whether a working user base returns this error.
func isAnswer(err error) bool {
	return errors.Is(err, broker.ErrInvalidCredentials) || errors.Is(err, broker.ErrSecondFactor) || errors.Is(err, broker.ErrEnrolmentRequired) ||
		errors.Is(err, broker.ErrPasswordChange) ||
		errors.Is(err, broker.ErrNotFound) || errors.Is(err, broker.ErrDisabled) || errors.Is(err, broker.ErrBadUser)
}

func unavailable(err error) error {
	if errors.Is(err, broker.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}
