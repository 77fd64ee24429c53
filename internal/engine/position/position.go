// Package position reads and writes the positions from which clients resume.
//
// A position is the number of a row of the log, and states that a client has everything up to it.
// Readers of a delay are behind the others, so a set of subscriptions with several delays has a
// position for each: a [Positions]. Its text is opaque to clients.
package position

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Positions is a position for each delay. The zero Positions is before the first row.
type Positions struct {
	Unknown bool   // a replay has not found its first row yet
	Rights  uint64 // see Under; 0: not stated

	base uint64 // of all delays that more does not name
	more []Delayed
}

// Delayed is the position of a delay.
type Delayed struct {
	Delay    int // seconds; 0: real time
	Position uint64
}

// maxDelays limits the delays that Parse accepts.
const maxDelays = 64

// At returns a position that is the same for all delays.
func At(pos uint64) Positions { return Positions{base: pos} }

// Of returns the positions of a list of delays, each of which is listed once.
func Of(list []Delayed) (p Positions) {
	p.base = math.MaxUint64
	for _, x := range list {
		p.base = min(p.base, x.Position)
	}
	for _, x := range list {
		if x.Position > p.base {
			p.more = append(p.more, x)
		}
	}
	return p
}

// For returns the position for a delay in seconds.
func (p *Positions) For(delay int) uint64 {
	for _, x := range p.more {
		if x.Delay == delay {
			return x.Position
		}
	}
	return p.base
}

// Under returns the positions for a client with other rights, perhaps. Rights decide which delay
// each subscription has, and rights is a hash of them, or 0 if they depend on more. With the same
// rights the positions are the same. With others, a subscription may have had any of the delays, so
// that the earliest of the positions counts for all of them.
func (p Positions) Under(rights uint64) Positions {
	if len(p.more) == 0 || rights != 0 && p.Rights == rights {
		return p
	}
	return At(p.base)
}

// rightsDelay is the delay in whose place a text has Rights. No gateway serves it, and programs
// that do not know it ignore it.
const rightsDelay = math.MaxInt32

// Text returns the text of positions: EPOCH:N, followed by ,DELAY:N for each delay with a different
// one and then Rights. It is "" if they are unknown.
func (p Positions) Text(epoch string) string {
	if p.Unknown {
		return ""
	}
	var buf [64]byte
	b := strconv.AppendUint(append(append(buf[:0], epoch...), ':'), p.base, 10)
	for _, x := range p.more {
		b = strconv.AppendInt(append(b, ','), int64(x.Delay), 10)
		b = strconv.AppendUint(append(b, ':'), x.Position, 10)
	}
	if len(p.more) > 0 && p.Rights != 0 {
		b = strconv.AppendUint(append(strconv.AppendInt(append(b, ','), rightsDelay, 10), ':'), p.Rights, 10)
	}
	return string(b)
}

var errText = errors.New("not a position")

// Parse parses the text of positions. It returns an error for a text that Text has not made.
func Parse(s string) (epoch string, p Positions, err error) {
	epoch, rest, ok := strings.Cut(s, ":")
	first, rest, more := strings.Cut(rest, ",")
	p.base, err = strconv.ParseUint(first, 10, 63)
	if !ok || epoch == "" || err != nil {
		return "", p, errText
	}
	for more {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		delay, pos, _ := strings.Cut(part, ":")
		d, err := strconv.ParseUint(delay, 10, 31)
		if err != nil || len(p.more) == maxDelays {
			return "", p, errText
		}
		x := Delayed{Delay: int(d)}
		if x.Position, err = strconv.ParseUint(pos, 10, 63); err != nil {
			return "", p, errText
		}
		if x.Delay == rightsDelay {
			p.Rights = x.Position
			continue
		}
		p.more = append(p.more, x)
	}
	return epoch, p, nil
}
