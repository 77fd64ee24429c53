package session

import (
	"time"

	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// send queues a control message. A client that sends requests and never reads is closed before the
// queue exceeds Env.MaxWaiting.
func (s *Session) send(payload []byte) {
	o := s.ext()
	s.appendControl(o, payload)
	if len(o.control) > s.env.maxWaiting() {
		s.failSlow()
	}
}

// controlSize is enough for most queues of control messages.
const controlSize = 512

// appendControl queues a control message as a frame in the format of the client, so that the length
// of the queue is what the kernel will get.
func (s *Session) appendControl(o *optional, payload []byte) {
	o.growControl(len(payload) + 16)
	if s.format == wire.JSON {
		o.control = wire.AppendText(o.control, payload)
		return
	}
	o.control = s.sub.Transcode(o.control, wire.AppendText(nil, payload), s.format)
}

// growControl allocates the queue if there is none. Its fixed size keeps short-lived memory
// separate from the rest.
func (o *optional) growControl(n int) {
	if o.control == nil {
		o.control = make([]byte, 0, max(controlSize, n))
	}
}

// AnswerFrame queues a frame of the host, the pong to a ping of RFC 6455, after the answers.
func (s *Session) AnswerFrame(frame []byte) {
	if s.closeReason() != nil {
		return
	}
	o := s.ext()
	o.growControl(len(frame))
	o.control, o.hasFrame = append(o.control, frame...), true
	if len(o.control) > s.env.maxWaiting() {
		s.failSlow()
	}
}

// HoldsFrame reports whether a frame of the host waits.
func (s *Session) HoldsFrame() bool { return s.optional != nil && s.hasFrame }

// TakeAnswers removes the answers that wait, and returns them in whole frames. The host calls it
// before it ends a session with answers that were not sent.
func (s *Session) TakeAnswers() []byte {
	if s.optional == nil {
		return nil
	}
	b := s.control
	s.control, s.hasFrame = nil, false
	return b
}

// controlBytes returns the length of the control messages that wait.
func (o *optional) controlBytes() int {
	if o == nil {
		return 0
	}
	return len(o.control)
}

// reply sends an Error and leaves the connection open. extra appends further members of the
// Error; nil: none.
func (s *Session) reply(f *wire.Fault, id []byte, extra wire.Extra) {
	s.send(wire.AppendError(s.sub.Scratch(), f, id, extra))
}

// fail sends an Error and ends the session. extra appends further members of the Error; nil:
// none.
func (s *Session) fail(f *wire.Fault, id []byte, extra wire.Extra) {
	if s.closeReason() != nil {
		return
	}
	o := s.ext()
	o.closed = f
	s.appendControl(o, wire.AppendError(s.sub.Scratch(), f, id, extra))
	s.release()
}

// Output returns about max bytes of complete server frames, control messages first, or nothing if
// there is no output. They are appended to dst, which must be empty, or are memory shared with
// other sessions: the result must not be modified. The host calls Output when the kernel has
// accepted all previous output, and Sent after it.
func (s *Session) Output(now time.Time, dst []byte, max int) []byte {
	o := s.optional
	switch {
	case o != nil:
	case s.sub.Waits():
		return s.gather(now, dst, max, s.format, false)
	default: // the usual case
		return s.sub.Gather(dst, max, s.format, false)
	}
	n := wholeFrames(o.control, max)
	dst = append(dst, o.control[:n]...)
	o.control = o.control[n:]
	if len(o.control) > 0 {
		return dst
	}
	o.control, o.hasFrame = nil, false
	if o.holdsStream() {
		return dst
	}
	// For a client with a warning, waiting quotes and books are conflated.
	if len(dst) < max {
		n := len(dst)
		conflate := !s.strict && o.isSlow()
		var b []byte
		if o.sim != nil {
			b = s.simOutput(now, dst[n:], max-n, conflate)
		} else {
			b = s.gather(now, dst[n:], max-n, s.format, conflate)
		}
		dst = joined(dst, b)
		if o.positions && len(b) > 0 {
			if _, position := s.sub.Position(); position != "" {
				dst = wire.AppendText(dst, wire.AppendPosition(nil, position))
			}
		}
	}
	if o.markDue && o.sim.stalled() {
		o.markDue = false
	}
	if o.markDue && !s.sub.Pending() {
		o.markDue = false
		dst = s.sub.Transcode(dst, wire.AppendText(nil, s.aliveMark(now)), s.format)
	}
	s.releaseExt()
	return dst
}

// gather returns the data that waits, and charges the user for replays and the encoding of
// snapshots.
func (s *Session) gather(now time.Time, dst []byte, max int, f wire.Format, conflate bool) []byte {
	b := s.sub.Gather(dst, max, f, conflate)
	if r := s.sub.TakeReplayed(); r != (subscription.Replayed{}) {
		s.pay(s.env.at(now), replayPrice(&r))
	}
	return b
}

// joined returns dst with b, which is shared memory if dst is empty.
func joined(dst, b []byte) []byte {
	switch {
	case len(b) == 0:
		return dst
	case len(dst) == 0:
		return b
	}
	return append(dst, b...)
}

// wholeFrames returns the length of the leading frames of b that reach max, or of all.
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

// Pending reports whether Output may return something.
func (s *Session) Pending() bool {
	if o := s.optional; o != nil {
		if len(o.control) > 0 {
			return true
		}
		if o.holdsStream() {
			return false
		}
		if o.markDue {
			return true
		}
	}
	return s.sub.Pending()
}

// Unfinished reports whether the last Output stopped early although more waits, so that the host
// can serve others first.
func (s *Session) Unfinished() bool { return !s.optional.holdsStream() && s.sub.Unfinished() }

// Close reports whether the session is over. After the last output the host sends a close frame
// with code and reason, and ends the connection.
func (s *Session) Close() (code uint16, reason string, ok bool) {
	closed := s.closeReason()
	if closed == nil || closed.Reason == peerGone || closed.Reason == reset {
		return 0, "", false
	}
	return uint16(4000 + closed.Reason.Socket().Code), string(closed.Reason), true
}

// Reset reports whether the host must reset the connection without a close frame. Only a Timer
// event causes that.
func (s *Session) Reset() bool {
	closed := s.closeReason()
	return closed != nil && closed.Reason == reset
}
