package socket

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/session"
	"github.com/ruedahq/rueda/wire"
)

// checks runs token checks, which may block on a database, away from the shards:
// at most max at a time. What waits is bounded by the connections, of which each
// has one check out at most; that of one which has ended is passed over.
type checks struct {
	verify  func(context.Context, string) (*session.Identity, *wire.Fault)
	timeout time.Duration
	max     int
	log     *slog.Logger
	panics  *atomic.Uint64
	ctx     context.Context // of every check; canceled by close
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int
	queue   []check
}

type check struct {
	token  string
	off    *atomic.Bool   // nobody waits for the answer any more
	answer func(*verdict) // called once; must not block
}

// A verdict is the outcome of a check.
type verdict struct {
	identity *session.Identity
	fault    *wire.Fault // nil: the token is good
}

func newChecks(c *Config, panics *atomic.Uint64) *checks {
	ctx, cancel := context.WithCancel(context.Background())
	return &checks{
		panics: panics,
		verify: c.Env.Verify, timeout: c.VerifyTimeout, max: c.Verifiers, log: c.Logger,
		ctx: ctx, cancel: cancel,
	}
}

// submit has a token checked. It does not block, and answer must not. Setting off calls it off.
func (k *checks) submit(token string, answer func(*verdict)) (off *atomic.Bool) {
	off = new(atomic.Bool)
	if !k.accept(check{token, off, answer}) {
		answer(&verdict{fault: &wire.Fault{Reason: wire.ShuttingDown}})
	}
	return off
}

func (k *checks) accept(c check) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.closed:
		return false
	case k.running < k.max:
		k.running++
		k.workers.Go(func() { k.work(c) })
	default:
		k.queue = append(k.queue, c)
	}
	return true
}

// do has a token checked and waits for the answer.
func (k *checks) do(ctx context.Context, token string) *verdict {
	answer := make(chan *verdict, 1)
	off := k.submit(token, func(v *verdict) { answer <- v })
	select {
	case v := <-answer:
		return v
	case <-ctx.Done():
		off.Store(true)
		return &verdict{fault: &wire.Fault{Reason: wire.Overloaded}}
	}
}

// work runs c and then whatever waits.
func (k *checks) work(c check) {
	for {
		if !c.off.Load() {
			c.answer(k.run(c.token))
		}
		k.mu.Lock()
		if len(k.queue) == 0 {
			k.running--
			k.queue = nil
			k.mu.Unlock()
			return
		}
		c, k.queue[0] = k.queue[0], check{}
		k.queue = k.queue[1:]
		k.mu.Unlock()
	}
}

func (k *checks) run(token string) (v *verdict) {
	defer func() {
		if p := recover(); p != nil {
			k.panics.Add(1)
			k.log.Error("token check panicked", "panic", panicText(p), "stack", string(debug.Stack()))
			v = &verdict{fault: &wire.Fault{Reason: wire.Internal}}
		}
	}()
	ctx, cancel := context.WithTimeout(k.ctx, k.timeout)
	defer cancel()
	identity, fault := k.verify(ctx, token)
	return &verdict{identity, fault}
}

// close cancels the checks that run, refuses new ones and waits until none is left.
func (k *checks) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.cancel()
	k.workers.Wait()
}
