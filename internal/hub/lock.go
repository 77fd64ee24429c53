package hub

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/ruedahq/rueda/internal/steplock"
)

// LockPiece limits the work of one hold of the hub's lock; see steplock.Piece.
const LockPiece = steplock.Piece

const publishPiece = 64 // events of a batch that one hold applies

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
