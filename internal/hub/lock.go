package hub

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// LockPiece limits the work of one hold of the hub's lock: the number of events that it applies,
// and of instruments, subscriptions or topics that it visits. Longer work releases the lock in
// between; see step.
const (
	LockPiece    = 128
	publishPiece = 64 // events of a batch
)

// lock is the mutex of a Hub. It counts the visits of a hold, and tests may watch it.
type lock struct {
	mutex   sync.Mutex
	visited int     // by the present hold
	watch   watcher // nil: nobody watches
}

// watcher observes the holds of a lock. Its methods are called while the lock is held.
type watcher interface {
	Locked(function string) // the function that took the lock
	Unlocking(visited int)
}

// Lock takes the lock and begins a hold.
func (l *lock) Lock() {
	l.mutex.Lock()
	l.visited = 0
	if l.watch != nil {
		l.watch.Locked(lockedBy())
	}
}

// Unlock ends a hold.
func (l *lock) Unlock() {
	if l.watch != nil {
		l.watch.Unlocking(l.visited)
	}
	l.mutex.Unlock()
}

const locks = "github.com/ruedahq/rueda/internal/hub." // the package of the functions that take the lock

// lockedBy returns the name of the function that takes the lock, for a watcher.
func lockedBy() string {
	var pcs [8]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		switch f.Function {
		case locks + "(*lock).pause", locks + "(*lock).step", locks + "(*publisher).stepPublishing",
			locks + "(*Port).Lock", locks + "(*Port).Pause", locks + "(*Port).Step":
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

// full reports whether the present hold has reached LockPiece.
func (l *lock) full() bool { return l.visited >= LockPiece }

// pause ends the present hold and begins another. The mutex passes to a goroutine that has waited
// for a millisecond. pause does not also yield the processor, because a feed would then wait for a
// time slice of the shards after every piece.
func (l *lock) pause() {
	l.Unlock()
	l.Lock()
}

// step counts one visit, and pauses when the present hold is full. Other goroutines may change the
// state of the hub during the pause.
func (l *lock) step() {
	if l.visited++; l.full() {
		l.pause()
	}
}

// stepPublishing does the same as step for a caller that publishes. It also waits while the next
// commit is crowded; see awaitTopics.
func (h *publisher) stepPublishing() {
	h.mu.step()
	h.awaitTopics()
}

// exitPanic is the exit status of a process that ends because the hub panicked. It is the same as
// for any panic.
const exitPanic = 2

// endOnPanic ends the process if the function that defers it panics while it holds the hub's lock.
// The state of the hub is then uncertain, and a restart continues from the journal. The lock stays
// held, so that no other goroutine sees that state. No caller can recover from the panic.
func (h *core) endOnPanic() {
	if p := recover(); p != nil {
		h.exitPanicked(p)
	}
}

// exitPanicked logs a panic and its stack, and ends the process.
func (h *core) exitPanicked(p any) {
	stack := debug.Stack()
	h.log.Error("the hub panicked: the process ends", slog.Any("error", p), slog.String("stack", string(stack)))
	// The runtime prints a panic in the same way. This is needed where logs are discarded.
	_, _ = fmt.Fprintf(os.Stderr, "panic: %v\n\n%s", p, stack)
	os.Exit(exitPanic)
}
