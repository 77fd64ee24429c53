package readjob

import "sync"

// Wait lets a goroutine wait for the end of a job, or of other work, without blocking.
type Wait struct {
	found  func()
	cancel func() // cancels the job; nil: it waits for other work

	mu   sync.Mutex
	left int // work that has not ended
	gone bool
}

// NewWait returns a wait for n pieces of work. found is called once, when all of them have ended.
func NewWait(n int, found func()) *Wait { return &Wait{found: found, left: n} }

// Done records that a piece of work has ended.
func (w *Wait) Done() {
	w.mu.Lock()
	w.left--
	over := w.left == 0 && !w.gone
	w.mu.Unlock()
	if over {
		w.found()
	}
}

// Over reports whether all work has ended.
func (w *Wait) Over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left == 0
}

// Stopped reports whether Stop was called.
func (w *Wait) Stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// Stop gives up the wait if it has not ended, and cancels its job. found is not called afterwards.
func (w *Wait) Stop() {
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}
