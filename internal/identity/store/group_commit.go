package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/histogram"
)

// groupCommit runs concurrent operations in one transaction, because the disk makes a commit
// expensive. It has no goroutine: the first caller becomes the leader. The leader begins a
// transaction, runs all waiting operations in it, commits, reports the result to their callers, and
// makes the first caller that has arrived meanwhile the next leader.
type groupCommit[T any] struct {
	// transact runs f in a transaction and commits it, or rolls it back if f fails. Its ctx is
	// never canceled.
	transact func(ctx context.Context, f func(T) error) error
	// rejected reports whether transact failed because of the data of an operation. Each operation
	// is then repeated in its own transaction, as after an error of an operation. nil: never.
	rejected func(error) bool

	mu        sync.Mutex
	hasLeader bool // false: no operation is waiting
	waiting   []*operation[T]
	took      histogram.Histogram // of transactions
	failures  uint64              // transactions that failed
}

// stats returns the times of the transactions, and how many of them failed.
func (g *groupCommit[T]) stats() (took histogram.Histogram, failures uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.took, g.failures
}

// fail counts a failure outside of the transactions.
func (g *groupCommit[T]) fail() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures++
}

// timed runs f in a transaction and counts it.
func (g *groupCommit[T]) timed(ctx context.Context, f func(T) error) error {
	began := time.Now()
	err := g.transact(ctx, f)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.took.Add(time.Since(began), 1)
	if err != nil {
		g.failures++
	}
	return err
}

// operation is one caller's part of a transaction. do may be called again after a rollback.
type operation[T any] struct {
	do      func(T) error
	err     error     // valid after wake received done
	leading bool      // wake received lead
	wake    chan task // buffered, so that sending does not block
}

// task is what the caller of an operation does next.
type task bool

const (
	done task = false // return err
	lead task = true  // run the next transaction
)

// maxBatch bounds the operations of one transaction. Later ones wait for the next.
const maxBatch = 128

var errUnfinished = errors.New("the transaction was not finished")

// do runs f in a transaction and returns when it is durable or has failed. If ctx ends before the
// transaction has begun, f does not run; after that, do waits.
func (g *groupCommit[T]) do(ctx context.Context, f func(T) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &operation[T]{do: f, wake: make(chan task, 1)}
	reported := g.join(o)
	if reported == done { // another caller leads
		select {
		case reported = <-o.wake:
		case <-ctx.Done():
			if g.withdraw(o) {
				return ctx.Err()
			}
			reported = <-o.wake
		}
	}
	if reported == lead {
		g.runBatch(context.WithoutCancel(ctx))
	}
	return o.err
}

// join queues o and returns lead if its caller must lead.
func (g *groupCommit[T]) join(o *operation[T]) task {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, o)
	if g.hasLeader {
		return done
	}
	g.hasLeader = true
	return lead
}

// withdraw removes o from the queue. It returns false if a transaction has it.
func (g *groupCommit[T]) withdraw(o *operation[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, o)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	if o.leading {
		g.promoteNext()
	}
	return true
}

// promoteNext makes the first waiting caller the leader. The caller holds mu.
func (g *groupCommit[T]) promoteNext() {
	if len(g.waiting) == 0 {
		g.hasLeader = false
		return
	}
	first := g.waiting[0]
	first.leading = true
	first.wake <- lead
}

// takeBatch removes the next operations from the queue, the leader's first.
func (g *groupCommit[T]) takeBatch() []*operation[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxBatch)
	batch := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	for _, o := range batch {
		o.err = errUnfinished // should one of them panic
	} // in case one of them panics
	return batch
}

// runBatch runs a transaction and reports its result.
func (g *groupCommit[T]) runBatch(ctx context.Context) {
	var batch []*operation[T]
	defer func() {
		g.mu.Lock()
		g.promoteNext()
		g.mu.Unlock()
		for _, o := range batch {
			o.wake <- done
		}
	}()
	failed := false
	err := g.timed(ctx, func(tx T) error {
		batch = g.takeBatch() // late: while the transaction waits to begin, operations arrive and leave
		for _, o := range batch {
			if err := o.do(tx); err != nil {
				failed = true
				return err
			}
		}
		return nil
	})
	if batch == nil { // the transaction could not begin
		batch = g.takeBatch()
	}
	retry := len(batch) > 1 && (failed || g.rejected != nil && g.rejected(err))
	for _, o := range batch {
		if retry {
			o.err = g.timed(ctx, o.do)
		} else {
			o.err = err
		}
	}
}
