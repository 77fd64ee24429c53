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

// verifierPool checks tokens on at most max goroutines, because a check may block on a database.
// Each connection has at most one check in the queue. Checks of closed connections are skipped.
type verifierPool struct {
	verify  func(context.Context, string) (*session.Identity, *wire.Fault)
	timeout time.Duration
	max     int
	log     *slog.Logger
	panics  *atomic.Uint64
	ctx     context.Context // of every check; close cancels it
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int
	queue   []verifyJob
}

// verifyJob is a token that waits for its check.
type verifyJob struct {
	token    string
	canceled *atomic.Bool  // set when the connection has closed
	done     func(*result) // called once; must not block
}

// result is the outcome of a token check.
type result struct {
	identity *session.Identity
	fault    *wire.Fault // nil: the token is valid
}

func newVerifierPool(c *Config, panics *atomic.Uint64) *verifierPool {
	ctx, cancel := context.WithCancel(context.Background())
	return &verifierPool{
		panics: panics,
		verify: c.Env.Verify, timeout: c.VerifyTimeout, max: c.Verifiers, log: c.Logger,
		ctx: ctx, cancel: cancel,
	}
}

// submit queues a token check, without blocking, and calls done with its result. Setting canceled
// skips the check; done must not block.
func (vp *verifierPool) submit(token string, done func(*result)) (canceled *atomic.Bool) {
	canceled = new(atomic.Bool)
	if !vp.enqueue(verifyJob{token, canceled, done}) {
		done(&result{fault: &wire.Fault{Reason: wire.ShuttingDown}})
	}
	return canceled
}

func (vp *verifierPool) enqueue(j verifyJob) bool {
	vp.mu.Lock()
	defer vp.mu.Unlock()
	switch {
	case vp.closed:
		return false
	case vp.running < vp.max:
		vp.running++
		vp.workers.Go(func() { vp.work(j) })
	default:
		vp.queue = append(vp.queue, j)
	}
	return true
}

// submitAndWait checks a token and returns the result.
func (vp *verifierPool) submitAndWait(ctx context.Context, token string) *result {
	done := make(chan *result, 1)
	canceled := vp.submit(token, func(r *result) { done <- r })
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		canceled.Store(true)
		return &result{fault: &wire.Fault{Reason: wire.Overloaded}}
	}
}

// work runs j and then the queued jobs.
func (vp *verifierPool) work(j verifyJob) {
	for {
		if !j.canceled.Load() {
			j.done(vp.run(j.token))
		}
		vp.mu.Lock()
		if len(vp.queue) == 0 {
			vp.running--
			vp.queue = nil
			vp.mu.Unlock()
			return
		}
		j, vp.queue[0] = vp.queue[0], verifyJob{}
		vp.queue = vp.queue[1:]
		vp.mu.Unlock()
	}
}

func (vp *verifierPool) run(token string) (r *result) {
	defer func() {
		if p := recover(); p != nil {
			vp.panics.Add(1)
			vp.log.Error("token check panicked", "panic", panicText(p), "stack", string(debug.Stack()))
			r = &result{fault: &wire.Fault{Reason: wire.Internal}}
		}
	}()
	ctx, cancel := context.WithTimeout(vp.ctx, vp.timeout)
	defer cancel()
	identity, fault := vp.verify(ctx, token)
	return &result{identity, fault}
}

// close cancels running checks, rejects new ones and waits for the workers.
func (vp *verifierPool) close() {
	vp.mu.Lock()
	vp.closed = true
	vp.mu.Unlock()
	vp.cancel()
	vp.workers.Wait()
}
