package load

import (
	"bytes"
	"fmt"

	"github.com/ruedahq/rueda/internal/base/frame"
)

// bytes handles input and returns how much of it was used.
func (l *loop) bytes(c *conn, data []byte) (used int) {
	if c.phase == phaseUpgrading {
		end := bytes.Index(data, []byte("\r\n\r\n"))
		if end < 0 {
			return 0
		}
		l.upgraded(c, data[:end+4])
		used = end + 4
	}
	plain := l.proto.scan == nil
	for c.phase >= phaseStepping {
		op, payload, n := frame.Split(data[used:])
		if n == 0 {
			break
		}
		used += n
		if c.slow {
			l.slowly[c.number].left = uint64(len(data) - used)
		}
		if plain && op == frame.Text && c.phase == phaseReady {
			l.message(c, payload)
			continue
		}
		l.frame(c, op, payload)
	}
	if c.phase == phaseClosed {
		return len(data)
	}
	return used
}

// upgraded checks the response to the upgrade.
func (l *loop) upgraded(c *conn, head []byte) {
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 101")) || !bytes.Contains(head, []byte(upgradeAccept)) {
		l.drop(c, fmt.Sprintf("upgrade answered with %.100q", line))
		return
	}
	c.phase = phaseStepping
	l.begin(c)
}

// begin starts a step of c, or finds that none is left.
func (l *loop) begin(c *conn) {
	for {
		if int(c.step) == len(l.proto.steps) {
			c.phase = phaseAwaiting
			l.settle(c)
			return
		}
		s := &l.proto.steps[c.step]
		if s.send != nil {
			l.scratch = s.send(l.scratch[:0], l.cfg, int(c.number))
			op := byte(frame.Text)
			if l.proto.binary {
				op = frame.Binary
			}
			l.say(c, op, l.scratch)
		}
		if s.got != nil || c.phase == phaseClosed {
			return
		}
		c.step++
	}
}

// settle makes c ready when everything has arrived.
func (l *loop) settle(c *conn) {
	if c.phase == phaseAwaiting && c.snapshots <= 0 {
		c.phase = phaseReady
		l.opening--
		l.ready++
	}
}

// frame handles a control frame of c, or a message that arrives before c is ready.
func (l *loop) frame(c *conn, op byte, payload []byte) {
	switch op {
	case frame.Ping:
		l.say(c, frame.Pong, payload)
		return
	case frame.Pong:
		return
	case frame.Close:
		reason := "closed without a code"
		if len(payload) >= 2 {
			reason = fmt.Sprintf("closed with %d %s", int(payload[0])<<8|int(payload[1]), payload[2:])
		}
		l.drop(c, reason)
		return
	case frame.Text, frame.Binary:
	default:
		l.drop(c, fmt.Sprintf("frame begins with %#x", op))
		return
	}
	if c.phase == phaseStepping {
		ok, err := l.proto.steps[c.step].got(payload)
		if err != nil {
			l.drop(c, err.Error())
			return
		}
		if ok {
			if l.epoch == "" {
				l.epoch = epochOf(payload)
			}
			c.step++
			l.begin(c)
			return
		}
	}
	if l.proto.scan == nil {
		l.message(c, payload)
		l.settle(c)
		return
	}
	if c.phase != phaseReady {
		return
	}
	if len(c.inner) > 0 {
		c.inner = append(c.inner, payload...)
		payload = c.inner
	}
	used, err := l.proto.scan(l, c, payload)
	if err != nil {
		l.drop(c, err.Error())
		return
	}
	c.inner = append(c.inner[:0], payload[used:]...)
}

// message handles one message of the server.
func (l *loop) message(c *conn, p []byte) {
	if l.check.data(c, p) {
		return
	}
	switch {
	case bytes.Equal(p, []byte(`{"action":"ping"}`)):
		l.pings++
		l.write(c, l.pong)
	case bytes.HasPrefix(p, []byte(`{"type":"Error"`)):
		if c.slow { // its end follows, with a code
			return
		}
		l.check.fault(&l.check.faults.Unknown, 1, "connection %d: %.300s", c.number, p)
	case bytes.HasPrefix(p, []byte(`{"type":"Warning"`)):
		l.warnings++
	case bytes.HasPrefix(p, []byte(`{"type":"`)): // an acknowledgement
	default:
		l.check.fault(&l.check.faults.Unknown, 1, "connection %d: %.100q", c.number, p)
	}
}

// epochOf returns the epoch of an acknowledgement; "": none.
func epochOf(p []byte) string {
	_, rest, ok := bytes.Cut(p, []byte(`"epoch":"`))
	if !ok {
		return ""
	}
	epoch, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(epoch)
}
