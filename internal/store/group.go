package store

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// group has many operations share one transaction, since what a commit costs is the answer of the disk. It has no
// goroutine of its own: who comes while nobody leads does. The leader begins a transaction, takes all who wait into
// it, commits, tells them, and passes the lead to the first of those who have come meanwhile.
type group[T any] struct {
	// transact runs f in a transaction and commits it, or rolls it back where f fails. Its ctx never ends.
	transact func(ctx context.Context, f func(T) error) error
	// alone says whether an operation's failure may be its own affair: then all of its transaction are done again, each
	// in one of its own. nil: always.
	alone func(error) bool

	mu      sync.Mutex
	led     bool // while it is not, nobody waits
	waiting []*operation[T]
}

// operation is a caller's part of a transaction. do may be called again after the transaction of an earlier call was
// rolled back.
type operation[T any] struct {
	do    func(T) error
	err   error     // once it was told done
	leads bool      // it was told to lead
	wake  chan task // has room for one, so that nobody waits to tell
}

// task is what an operation's caller is told to do.
type task bool

const (
	done task = false // it was committed, or failed
	lead task = true
)

// shared bounds the operations of one transaction: those who come after wait for one more.
const shared = 128

var errUnfinished = errors.New("the transaction was not finished")

// do does f in a transaction, and returns when that is durable or has failed. Who gives up before
// its transaction has begun is taken out; after that it is waited for.
func (g *group[T]) do(ctx context.Context, f func(T) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &operation[T]{do: f, wake: make(chan task, 1)}
	told := g.join(o)
	if told == done { // somebody leads
		select {
		case told = <-o.wake:
		case <-ctx.Done():
			if g.withdraw(o) {
				return ctx.Err()
			}
			told = <-o.wake
		}
	}
	if told == lead {
		g.lead(context.WithoutCancel(ctx))
	}
	return o.err
}

// join puts o at the end, and says whether its caller leads.
func (g *group[T]) join(o *operation[T]) task {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, o)
	if g.led {
		return done
	}
	g.led = true
	return lead
}

// withdraw takes out an operation that no transaction has.
func (g *group[T]) withdraw(o *operation[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, o)
	if i < 0 {
		return false
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	if o.leads {
		g.pass()
	}
	return true
}

// pass gives the lead to the first who waits. The lock is held.
func (g *group[T]) pass() {
	if len(g.waiting) == 0 {
		g.led = false
		return
	}
	first := g.waiting[0]
	first.leads = true
	first.wake <- lead
}

// take takes out who waits, the leader first.
func (g *group[T]) take() []*operation[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), shared)
	batch := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	for _, o := range batch {
		o.err = errUnfinished // should one of them panic
	}
	return batch
}

// lead does what the leader does.
func (g *group[T]) lead(ctx context.Context) {
	var batch []*operation[T]
	defer func() {
		g.mu.Lock()
		g.pass()
		g.mu.Unlock()
		for _, o := range batch {
			o.wake <- done
		}
	}()
	failed := false
	err := g.transact(ctx, func(tx T) error {
		batch = g.take() // not before now: while the transaction waits for its beginning, more come and some give up
		for _, o := range batch {
			if err := o.do(tx); err != nil {
				failed = true
				return err
			}
		}
		return nil
	})
	if batch == nil { // there was no beginning
		batch = g.take()
	}
	apart := failed && len(batch) > 1 && (g.alone == nil || g.alone(err))
	for _, o := range batch {
		if apart {
			o.err = g.transact(ctx, o.do)
		} else {
			o.err = err
		}
	}
}
