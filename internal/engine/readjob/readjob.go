// Package readjob reads the journal for goroutines that must not wait for a disk.
//
// A [Queue] has the jobs that wait. While it is served, a few goroutines call the Read of one job
// after another, each for a few milliseconds.
//
// # Concurrency
//
// All methods may be called by any goroutine. A Queue has one lock. It is held while the queue
// changes, and never while a function of a job or of a wait runs.
package readjob

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// ReadTime is the time of one Read of a job. Then another job is served.
const ReadTime = 50 * time.Millisecond

// Job is a read of the journal.
type Job struct {
	// Read reads for about ReadTime. more reports whether it must be called again; other jobs
	// come first. ctx ends when the job is cancelled, or when the queue is no longer served.
	Read func(ctx context.Context) (more bool)
	// End is called once when the job has ended. It is not called for a job that was cancelled
	// before. err is nil, ErrLate, or states that the queue is no longer served.
	End   func(err error)
	Until time.Time // the job ends then, if it has not ended before; zero: no limit
	Wait  *Wait     // ends with the job; nil: nobody waits

	stop      context.CancelFunc // ends Read; the lock of the queue guards it
	cancelled bool               // the same
}

// ErrLate states that a job has not ended within its time.
var ErrLate = errors.New("the time of the job is over")

// Kind is a kind of jobs.
type Kind int

// The kinds of jobs. The goroutines take one job of each kind at a time.
const (
	Rows   Kind = iota // reads rows of a replay
	Search             // searches the beginning of a replay
	kinds
)

// Queue has the jobs that wait. Use [New] to make one.
type Queue struct {
	mu     sync.Mutex
	lists  [kinds][]*Job
	served bool
	kick   chan struct{} // wakes a goroutine that serves jobs
}

// New returns an empty queue.
func New() *Queue { return &Queue{kick: make(chan struct{}, 1)} }

// Served reports whether goroutines serve the queue.
func (q *Queue) Served() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.served
}

// Submit adds a job. If the queue is not served, the job waits until it is.
func (q *Queue) Submit(kind Kind, j *Job) {
	if j.Wait != nil {
		j.Wait.cancel = func() { q.Cancel(j) }
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(kind, j)
}

func (q *Queue) add(kind Kind, j *Job) {
	q.lists[kind] = append(q.lists[kind], j)
	q.call()
}

// call wakes a goroutine that serves jobs.
func (q *Queue) call() {
	select {
	case q.kick <- struct{}{}:
	default: // one is called already
	}
}

// Cancel removes a job, or ends its Read.
func (q *Queue) Cancel(j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.cancelled = true
	if j.stop != nil {
		j.stop()
	}
	for kind, list := range q.lists {
		q.lists[kind] = slices.DeleteFunc(list, func(x *Job) bool { return x == j })
	}
}

// Len returns the number of jobs of a kind that wait.
func (q *Queue) Len(kind Kind) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lists[kind])
}

// Start starts n goroutines that serve jobs until ctx ends. stop waits for them, and ends the jobs
// that are left. If n is 0, the caller calls Next.
func (q *Queue) Start(ctx context.Context, n int) (stop func()) {
	q.mu.Lock()
	q.served = true
	q.mu.Unlock()
	var group sync.WaitGroup
	for range n {
		group.Go(func() { q.serve(ctx) })
	}
	return func() {
		group.Wait()
		q.end()
	}
}

// serve serves jobs until ctx ends.
func (q *Queue) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.kick:
		}
		for more := true; more; {
			more = false
			for kind := range kinds {
				more = q.Next(ctx, kind) || more
			}
		}
	}
}

// Next continues the oldest job of a kind. It returns false if there is none.
func (q *Queue) Next(ctx context.Context, kind Kind) bool {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	j, late := q.take(kind, stop)
	for _, x := range late {
		x.end(ErrLate)
	}
	if j == nil {
		return len(late) > 0
	}
	more := j.Read(ctx)
	q.mu.Lock()
	j.stop = nil
	cancelled := j.cancelled
	again := more && !cancelled && ctx.Err() == nil
	if again {
		q.add(kind, j)
	}
	q.mu.Unlock()
	if !again && !cancelled {
		j.end(ctx.Err())
	}
	return true
}

// take removes and returns the oldest job of a kind, or nil. It also removes the jobs whose time is
// over. The queue calls stop if the job is cancelled.
func (q *Queue) take(kind Kind, stop context.CancelFunc) (j *Job, late []*Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list, now := &q.lists[kind], time.Now()
	*list = slices.DeleteFunc(*list, func(x *Job) bool {
		over := !x.Until.IsZero() && !x.Until.After(now)
		if over {
			late = append(late, x)
		}
		return over
	})
	if len(*list) == 0 {
		return nil, late
	}
	j = (*list)[0]
	j.stop = stop
	(*list)[0] = nil
	if *list = (*list)[1:]; len(*list) > 0 {
		q.call() // another one
	}
	return j, late
}

// end ends all jobs, because the queue is no longer served.
func (q *Queue) end() {
	q.mu.Lock()
	q.served = false
	left := slices.Concat(q.lists[:]...)
	q.lists = [kinds][]*Job{}
	q.mu.Unlock()
	for _, j := range left {
		j.end(context.Canceled)
	}
}

func (j *Job) end(err error) {
	j.End(err)
	if j.Wait != nil {
		j.Wait.Done()
	}
}
