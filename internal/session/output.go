package session

import (
	"encoding/binary"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// send puts a control message behind those that wait. A client that asks and never reads
// cannot make them grow past the bound.
func (s *Session) send(payload []byte) {
	s.control = wire.AppendText(s.control, payload)
	if len(s.control) > s.env.maxWaiting() {
		s.tooSlow()
	}
}

// fail says why and ends the session: an Error goes before every close. extra are
// further members of the Error.
func (s *Session) fail(f *wire.Fault, id, extra []byte) {
	if s.over != "" {
		return
	}
	s.over = f.Reason
	s.control = wire.AppendText(s.control, wire.AppendError(nil, f, id, extra))
	s.leave()
}

// Gather appends complete server frames to dst, about max bytes of them, control
// messages first. With nothing to send it returns dst as it is. The host calls it when the
// kernel has taken all that was gathered before.
func (s *Session) Gather(now time.Time, dst []byte, max int) []byte {
	start := len(dst)
	n := wholeFrames(s.control, max)
	dst = append(dst, s.control[:n]...)
	if s.control = s.control[n:]; len(s.control) == 0 {
		s.control = nil
		if s.over == "" {
			dst = s.gatherStream(now, dst, max-n)
		}
	}
	if n := len(dst) - start; n > 0 {
		s.gave(s.at(now), n)
	}
	return dst
}

// gatherStream takes what the stream has. For a client that was told it is slow,
// waiting quotes and books collapse to their newest state.
func (s *Session) gatherStream(now time.Time, dst []byte, max int) []byte {
	if max > 0 {
		dst = s.sub.Gather(dst, max, !s.strict && s.isSlow())
	}
	if s.marked && !s.sub.Pending() {
		s.marked = false
		dst = wire.AppendText(dst, s.aliveMark(now))
	}
	return dst
}

// wholeFrames is the length of the leading frames of b that reach max, or all.
func wholeFrames(b []byte, max int) int {
	if len(b) <= max {
		return len(b)
	}
	n := 0
	for n < len(b) && n < max {
		switch head := b[n:]; head[1] {
		case 126:
			n += 4 + int(binary.BigEndian.Uint16(head[2:]))
		case 127:
			n += 10 + int(binary.BigEndian.Uint64(head[2:]))
		default:
			n += 2 + int(head[1])
		}
	}
	return n
}

// Pending says whether Gather would give something, or might.
func (s *Session) Pending(time.Time) bool { return s.pending() }

func (s *Session) pending() bool {
	return len(s.control) > 0 || s.over == "" && (s.marked || s.sub.Pending())
}

// Close says whether the session is over. Once all that is gathered has gone, the
// host sends a close frame with code and reason and ends the connection.
func (s *Session) Close() (code uint16, reason string, ok bool) {
	if s.over == "" || s.over == gone {
		return 0, "", false
	}
	return uint16(4000 + s.over.Socket().Code), string(s.over), true
}
