package stream

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// lockPiece limits what one hold of the hub's lock does: events applied, and instruments,
// subscriptions or topics visited. Longer work releases the lock in between; see step.
const (
	lockPiece    = 128
	publishPiece = 64 // events of a batch
)

// lock is the mutex of a Hub. It counts what a hold visits, and tests may watch it.
type lock struct {
	mutex   sync.Mutex
	visited int     // by the present hold
	watch   watcher // nil: nobody watches
}

// watcher observes the holds of a lock. Its methods are called while the lock is held.
type watcher interface {
	locked(function string) // that took it
	unlocking(visited int)
}

// Lock takes the lock and begins a hold.
func (l *lock) Lock() {
	l.mutex.Lock()
	l.visited = 0
	if l.watch != nil {
		l.watch.locked(lockedBy())
	}
}

// Unlock ends a hold.
func (l *lock) Unlock() {
	if l.watch != nil {
		l.watch.unlocking(l.visited)
	}
	l.mutex.Unlock()
}

// lockedBy names the function that takes the lock, for a watcher.
func lockedBy() string {
	var pcs [8]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		switch f.Function {
		case "github.com/ruedahq/rueda/internal/stream.(*lock).pause",
			"github.com/ruedahq/rueda/internal/stream.(*lock).step", "github.com/ruedahq/rueda/internal/stream.(*publisher).stepPublishing":
		default:
			return f.Function
		}
		if !more {
			return f.Function
		}
	}
}

// visit counts n visited instruments, subscriptions or topics.
func (l *lock) visit(n int) { l.visited += n }

// full reports whether the present hold has done enough.
func (l *lock) full() bool { return l.visited >= lockPiece }

// pause ends the present hold and begins another. A goroutine that waits for the lock gets it after
// a millisecond at the latest: the mutex is handed over to one that has waited that long. To yield
// the processor here as well would cost a feed a time slice of the shards for every piece.
func (l *lock) pause() {
	l.Unlock()
	l.Lock()
}

// step counts one visit and pauses when the present hold has done enough. The caller must not rely on
// anything that others may change meanwhile.
func (l *lock) step() {
	if l.visited++; l.full() {
		l.pause()
	}
}

// stepPublishing is step for a caller that publishes: it also waits while too much waits for a commit.
func (h *publisher) stepPublishing() {
	h.mu.step()
	h.awaitTopics()
}

// exitPanic is the exit status of a process that ends because the hub panicked: that of any panic.
const exitPanic = 2

// endOnPanic ends the process when the deferring function panicked while it held the hub's lock. The
// state of the hub is uncertain then, and a restart continues from the journal. The lock stays held,
// so that nobody sees that state, and no caller can recover.
func (h *core) endOnPanic() {
	if p := recover(); p != nil {
		stack := debug.Stack()
		h.log.Error("the hub panicked: the process ends", slog.Any("error", p), slog.String("stack", string(stack)))
		// As the runtime would, also where nothing is logged.
		_, _ = fmt.Fprintf(os.Stderr, "panic: %v\n\n%s", p, stack)
		os.Exit(exitPanic)
	}
}
