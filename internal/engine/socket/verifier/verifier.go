// Package verifier checks tokens on a bounded number of goroutines, because a check may block on a
// database.
//
// # Concurrency
//
// Each check has a time limit. Close cancels running checks and waits for their goroutines. A lock
// guards the queue; nothing blocks under it.
package verifier

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/wire"
)

// Config configures a Pool. All fields except Admit are required.
type Config struct {
	Verify   func(ctx context.Context, token string) (*session.Identity, *wire.Fault)
	Admit    func(ctx context.Context, id *session.Identity, client netip.Addr) *wire.Fault // checks the client of a valid token; nil: none
	Timeout  time.Duration                                                                  // of a check
	Max      int                                                                            // goroutines
	Panicked func(v any)                                                                    // logs a panic of Verify
}

// Pool checks tokens. Checks of closed connections are skipped.
type Pool struct {
	cfg     Config
	ctx     context.Context // of every check; Close cancels it
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running int
	queue   []job
}

// job is a token that waits for its check.
type job struct {
	token    string
	client   netip.Addr
	canceled *atomic.Bool  // set when the connection has closed
	done     func(*Result) // called once; must not block
}

// Result is the outcome of a token check.
type Result struct {
	Identity *session.Identity
	Fault    *wire.Fault // nil: the token is valid
}

// New returns a pool without goroutines.
func New(cfg Config) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{cfg: cfg, ctx: ctx, cancel: cancel}
}

// Submit queues a token check, without blocking, and calls done with its result. Setting canceled
// skips the check; done must not block.
func (vp *Pool) Submit(token string, client netip.Addr, done func(*Result)) (canceled *atomic.Bool) {
	canceled = new(atomic.Bool)
	if !vp.enqueue(job{token, client, canceled, done}) {
		done(&Result{Fault: &wire.Fault{Reason: wire.ShuttingDown}})
	}
	return canceled
}

func (vp *Pool) enqueue(j job) bool {
	vp.mu.Lock()
	defer vp.mu.Unlock()
	switch {
	case vp.closed:
		return false
	case vp.running < vp.cfg.Max:
		vp.running++
		vp.workers.Go(func() { vp.work(j) })
	default:
		vp.queue = append(vp.queue, j)
	}
	return true
}

// SubmitAndWait checks a token and returns the result.
func (vp *Pool) SubmitAndWait(ctx context.Context, token string, client netip.Addr) *Result {
	done := make(chan *Result, 1)
	canceled := vp.Submit(token, client, func(r *Result) { done <- r })
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		canceled.Store(true)
		return &Result{Fault: &wire.Fault{Reason: wire.Overloaded}}
	}
}

// work runs j and then the queued jobs.
func (vp *Pool) work(j job) {
	for {
		if !j.canceled.Load() {
			j.done(vp.run(j.token, j.client))
		}
		vp.mu.Lock()
		if len(vp.queue) == 0 {
			vp.running--
			vp.queue = nil
			vp.mu.Unlock()
			return
		}
		j, vp.queue[0] = vp.queue[0], job{}
		vp.queue = vp.queue[1:]
		vp.mu.Unlock()
	}
}

func (vp *Pool) run(token string, client netip.Addr) (r *Result) {
	defer func() {
		if p := recover(); p != nil {
			vp.cfg.Panicked(p)
			r = &Result{Fault: &wire.Fault{Reason: wire.Internal}}
		}
	}()
	ctx, cancel := context.WithTimeout(vp.ctx, vp.cfg.Timeout)
	defer cancel()
	identity, fault := vp.cfg.Verify(ctx, token)
	if fault == nil && vp.cfg.Admit != nil {
		if fault = vp.cfg.Admit(ctx, identity, client); fault != nil {
			identity = nil
		}
	}
	return &Result{identity, fault}
}

// Close cancels running checks, rejects new ones and waits for the workers.
func (vp *Pool) Close() {
	vp.mu.Lock()
	vp.closed = true
	vp.mu.Unlock()
	vp.cancel()
	vp.workers.Wait()
}
