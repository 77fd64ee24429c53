package session

import (
	"time"

	"github.com/ruedahq/rueda/internal/frame"
	"github.com/ruedahq/rueda/wire"
)

// send puts a control message behind those that wait. A client that asks and never reads
// cannot make them grow past the bound.
func (s *Session) send(payload []byte) {
	a := s.put()
	s.sendAside(a, payload)
	if len(a.control) > s.env.maxWaiting() {
		s.tooSlow()
	}
}

// controlRoom is for the few control messages that wait mostly.
const controlRoom = 512

// sendAside frames a message at once in the client's format: what waits is counted in the
// bytes that the kernel will take.
func (s *Session) sendAside(a *aside, payload []byte) {
	if a.control == nil {
		// Of a size of its own: what goes soon shall not lie between what stays.
		a.control = make([]byte, 0, max(controlRoom, len(payload)+16))
	}
	if s.format == wire.JSON {
		a.control = wire.AppendText(a.control, payload)
		return
	}
	a.control = s.sub.Transcode(a.control, wire.AppendText(nil, payload), s.format)
}

// AnswerFrame puts a frame of the host's own, the pong to a ping of RFC 6455, behind the answers
// that wait.
func (s *Session) AnswerFrame(frame []byte) {
	if s.over() != nil {
		return
	}
	a := s.put()
	if a.control == nil {
		a.control = make([]byte, 0, max(controlRoom, len(frame)))
	}
	a.control, a.framed = append(a.control, frame...), true
	if len(a.control) > s.env.maxWaiting() {
		s.tooSlow()
	}
}

// HoldsFrame says whether a frame of the host's own waits.
func (s *Session) HoldsFrame() bool { return s.aside != nil && s.aside.framed }

// TakeAnswers gives the answers that wait, in whole frames, and drops them here. The host calls it
// before it ends a session whose answers it has yet to send.
func (s *Session) TakeAnswers() []byte {
	a := s.aside
	if a == nil {
		return nil
	}
	b := a.control
	a.control, a.framed = nil, false
	return b
}

// waiting is the length of the control messages that wait.
func (s *Session) waiting() int {
	if s.aside == nil {
		return 0
	}
	return len(s.aside.control)
}

// fail says why and ends the session: an Error goes before every close. extra are
// further members of the Error.
func (s *Session) fail(f *wire.Fault, id, extra []byte) {
	if s.over() != nil {
		return
	}
	a := s.put()
	a.over = f
	s.sendAside(a, wire.AppendError(s.sub.Scratch(), f, id, extra))
	s.leave()
}

// Gather gives complete server frames, about max bytes of them, control messages
// first; nothing where there is nothing to send. They are appended to dst, whose length is
// 0, or are memory shared with other sessions: the result is only read. The host calls Gather
// when the kernel has taken all that was gathered before, and Sent after it.
func (s *Session) Gather(now time.Time, dst []byte, max int) []byte {
	if s.aside == nil {
		return s.sub.Gather(dst, max, s.format, false)
	}
	return s.gatherAll(now, dst, max)
}

func (s *Session) gatherAll(now time.Time, dst []byte, max int) []byte {
	if a := s.aside; a != nil {
		n := wholeFrames(a.control, max)
		dst = append(dst, a.control[:n]...)
		a.control = a.control[n:]
		if len(a.control) > 0 {
			return dst
		}
		a.control, a.framed = nil, false
	}
	if s.over() != nil {
		return dst
	}
	// For a client that was told it is slow, waiting quotes and books collapse to
	// their newest state.
	if len(dst) < max {
		n := len(dst)
		conflate := !s.strict && s.isSlow()
		var b []byte
		if a := s.aside; a != nil && a.trouble != nil {
			b = s.gatherTroubled(s.at(now), dst[n:], max-n, conflate)
		} else {
			b = s.sub.Gather(dst[n:], max-n, s.format, conflate)
		}
		dst = joined(dst, b)
		if a := s.aside; a != nil && a.places && len(b) > 0 {
			if _, position := s.sub.Position(); position != "" {
				dst = wire.AppendText(dst, wire.AppendPosition(nil, position))
			}
		}
	}
	if a := s.aside; a != nil && a.marked && a.trouble.stalled() {
		a.marked = false
	}
	if a := s.aside; a != nil && a.marked && !s.sub.Pending() {
		a.marked = false
		dst = s.sub.Transcode(dst, wire.AppendText(nil, s.aliveMark(now)), s.format)
	}
	s.tidy()
	return dst
}

// joined is dst with b, which may lie behind dst already.
func joined(dst, b []byte) []byte {
	switch {
	case len(b) == 0:
		return dst
	case len(dst) == 0:
		return b
	}
	return append(dst, b...)
}

// wholeFrames is the length of the leading frames of b that reach max, or all.
func wholeFrames(b []byte, max int) int {
	if len(b) <= max {
		return len(b)
	}
	n := 0
	for n < len(b) && n < max {
		_, _, size := frame.Split(b[n:])
		n += size
	}
	return n
}

// TellPositions has what Gather gives of the stream end with a message that says where in the stream
// that is, for a host that writes the messages in another form. It is called right after
// Start, and not for formats other than JSON.
func (s *Session) TellPositions() { s.put().places = true }

// Pending reports whether Gather may return something.
func (s *Session) Pending() bool {
	if a := s.aside; a != nil && (len(a.control) > 0 || s.over() == nil && a.marked) {
		return true
	}
	return s.over() == nil && s.sub.Pending()
}

// Unfinished reports whether the last Gather stopped early although more waits, so that the host can
// serve others before the next one.
func (s *Session) Unfinished() bool { return s.over() == nil && s.sub.Unfinished() }

// Close says whether the session is over. Once all that is gathered has gone, the
// host sends a close frame with code and reason and ends the connection.
func (s *Session) Close() (code uint16, reason string, ok bool) {
	over := s.over()
	if over == nil || over.Reason == gone || over.Reason == cut {
		return 0, "", false
	}
	return uint16(4000 + over.Reason.Socket().Code), string(over.Reason), true
}
