package hub

import "github.com/ruedahq/rueda/internal/engine/steplock"

// LockPiece limits the work of one hold of the hub's lock; see steplock.Piece.
const LockPiece = steplock.Piece

const publishPiece = 64 // events of a batch that one hold applies

// endOnPanic ends the process if the function that defers it panics while it holds the hub's lock.
// The state of the hub is then uncertain, and a restart continues from the journal. The lock stays
// held, so that no other goroutine sees that state. No caller can recover from the panic.
func (h *core) endOnPanic() {
	if p := recover(); p != nil {
		steplock.Exit(h.log, p)
	}
}
