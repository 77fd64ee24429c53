package session

import (
	"math"
	"time"

	"github.com/ruedahq/rueda/internal/subscription"
)

// A message with thousands of identifiers takes milliseconds. It is handled in pieces, between
// which the shard serves its other connections. Until the answer, nothing of the stream is sent,
// and further messages wait, so that the client cannot see the pieces.
//
// Before an event from elsewhere, what is left of the message is handled at once, unless the event
// is a refresh. A change of rights and a new epoch therefore come after the answer, and before any
// data of the message. If the session ends meanwhile, what is left is neither handled nor paid.

// pieces is a message whose identifiers are added or removed in pieces.
type pieces struct {
	request *subscription.Request
	id      []byte           // of the message
	at      instant          // of the last piece
	answer  func(r *request) // after the last piece
}

// inPieces makes the changes of a message and answers it. If they are many, it makes the first of
// them, and lets the host continue.
func (r *request) inPieces(changes *subscription.Request, answer func(r *request)) {
	if changes.Step(r.env.pieceItems()) {
		answer(r)
		return
	}
	p := &pieces{request: changes, id: append([]byte(nil), r.id...), at: r.t, answer: answer}
	r.ext().check = &check{started: true, pieces: p}
	r.postNext(p)
}

// postNext lets the host handle the next piece after what its other connections have.
func (s *Session) postNext(p *pieces) {
	s.sub.Key().(Host).Post(Event{Kind: NextPiece, pieces: p})
}

// inProgress returns the message in pieces that is not answered, or nil.
func (o *optional) inProgress() *pieces {
	if o == nil || o.check == nil {
		return nil
	}
	return o.check.pieces
}

// nextPiece handles the next piece of a message.
func (s *Session) nextPiece(now time.Time, p *pieces) {
	if p == nil || p != s.inProgress() {
		return // the message was answered
	}
	if p.at = s.env.at(now); !p.request.Step(s.env.pieceItems()) {
		s.postNext(p)
		return
	}
	s.handleHeld(now, s.endPieces(now))
}

// endPieces handles what is left of a message in pieces, and answers it. It returns the check of
// the message, whose waiting messages the caller handles, or nil if there was none.
func (s *Session) endPieces(now time.Time) *check {
	p, c := s.inProgress(), s.pendingCheck()
	if p == nil {
		return nil
	}
	p.request.Step(math.MaxInt)
	s.check = nil
	r := request{Session: s, now: now, t: s.env.at(now), id: p.id}
	p.answer(&r)
	r.pay()
	return c
}

// afterPieces acts after the message in pieces, if there is one, and before those that wait for it.
func (s *Session) afterPieces(now time.Time, act func()) {
	c := s.endPieces(now)
	if act(); c != nil {
		s.handleHeld(now, c)
	}
}
