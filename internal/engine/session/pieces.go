package session

import (
	"fmt"
	"iter"
	"runtime/debug"
	"time"
)

// A message with thousands of identifiers takes milliseconds. It is handled in pieces, between
// which the shard serves its other connections. Until the answer, nothing of the stream is sent,
// and further messages wait, so that the client cannot see the pieces.
//
// A coroutine handles the message. It calls visit for the identifiers that it has visited. When the
// piece is full, visit pauses the coroutine, which then holds no lock.
//
// Before an event from elsewhere, what is left of the message is handled at once, unless the event
// is a refresh or closes the session. A change of rights therefore comes after the answer, and
// before any data of the message. So does a new epoch, if the message has begun to change the set.
// If the session ends meanwhile, what is left is neither handled nor paid.

// pieces is a message that is handled in pieces.
type pieces struct {
	request  *request
	step     func() (_ struct{}, more bool) // handles the next piece
	stop     func()                         // ends the coroutine
	yield    func(struct{}) bool            // false: the session is over
	running  bool                           // a piece is being handled
	whole    bool                           // the rest is one piece
	changing bool                           // it is changing the set, and has not recorded the uses
	over     bool                           // the session is over
	visited  int                            // by the present piece
}

const (
	// visitsPerItem is how many visits of identifiers take as long as adding one to the set.
	visitsPerItem = 32

	bytesPerVisit = 16 // of a message, which are parsed in the time of a visit

	// A message is handled at once if its text and the set of subscriptions are small.
	wholeText = 2 << 10
	wholeSet  = 64
)

// isWhole reports whether a message is handled at once. text is its length in bytes, set the number
// of identifiers in the set.
func (e *Env) isWhole(text, set int) bool {
	return text <= wholeText && set <= wholeSet && e.piece == 0
}

// inPieces starts a coroutine that handles a message, and runs its first piece.
func (r *request) inPieces(handle func()) {
	p := &pieces{request: r}
	r.pieces = p
	p.step, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		defer p.recoverPanic()
		handle()
	})
	r.ext().long = p
	r.runPiece(p)
}

// recoverPanic ends a message whose session is over. To any other panic it adds the stack of the
// coroutine, which a panic of the resuming goroutine does not show.
func (p *pieces) recoverPanic() {
	switch v := recover(); {
	case v == nil:
	case p.over:
		p.request.payPart()
	default:
		panic(fmt.Sprintf("%v\n%s", v, debug.Stack()))
	}
}

// runPiece handles the next piece. It reports whether the message is answered.
func (s *Session) runPiece(p *pieces) (done bool) {
	p.running, p.visited = true, 0
	_, more := p.step()
	p.running = false
	if !more && s.optional != nil && s.long == p {
		s.long = nil
	}
	return !more
}

// visit notes that the message has visited n identifiers. If the piece is full, the host continues
// with the next one after its other connections.
func (r *request) visit(n int) {
	if p := r.pieces; p != nil && !p.whole {
		if p.visited += n; p.visited >= visitsPerItem*r.env.pieceItems() {
			r.pause()
		}
	}
}

// pause ends the piece.
func (r *request) pause() {
	p := r.pieces
	if p == nil || p.whole {
		return
	}
	if p.over = r.closeReason() != nil; !p.over {
		r.sub.Key().(Host).Post(Event{Kind: NextPiece, pieces: p})
		p.over = !p.yield(struct{}{})
	}
	if p.over {
		panic("the session is over") // recovered
	}
}

// inProgress returns the message in pieces that is not answered, or nil.
func (o *optional) inProgress() *pieces {
	if o == nil {
		return nil
	}
	return o.long
}

// nextPiece handles the next piece of a message.
func (s *Session) nextPiece(now time.Time, p *pieces) {
	if p == nil || p != s.inProgress() {
		return // the message was answered
	}
	p.request.at(now)
	if s.runPiece(p) {
		s.handleHeld(now)
	}
}

// afterPieces calls act after the message in pieces, if there is one, and before the messages that
// wait for it.
func (s *Session) afterPieces(now time.Time, act func()) {
	p := s.inProgress()
	if p != nil {
		p.whole = true
		p.request.at(now)
		s.runPiece(p)
	}
	if act(); p != nil {
		s.handleHeld(now)
	}
}

// end stops the handling of a message in pieces, because the session is over. p may be nil.
func (p *pieces) end() {
	if p != nil && !p.running {
		p.stop()
	}
}
