package session

import (
	"time"

	"github.com/ruedahq/rueda/internal/stream"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// switchAlive turns the Alive marks of the connection on or off. Turning on what is
// on leaves their rhythm alone.
func (s *Session) switchAlive(t moment, on bool) {
	a := s.put()
	switch {
	case !on:
		a.aliveDue, a.marked, a.quiet = 0, false, stream.QuietPlace{}
	case a.aliveDue == 0:
		a.aliveDue = t.add(s.env.aliveInterval())
	}
}

// mark makes an Alive mark due. It is made by Gather, when nothing of the stream
// waits any more: so it never overtakes data.
func (s *Session) mark(t moment) {
	a := s.aside
	for a.aliveDue.due(t) {
		a.aliveDue = a.aliveDue.add(s.env.aliveInterval())
	}
	a.marked = true
}

// aliveInstruments bounds what a mark looks at, and so its size and its cost. Where more is
// subscribed the next mark goes on with the others.
const aliveInstruments = 500

// aliveMark is the mark: where the stream is, and what was quiet for an interval.
func (s *Session) aliveMark(now time.Time) []byte {
	var last wire.Last
	before := now.Add(-s.env.aliveInterval()).UnixNano()
	s.sub.Quiet(before, &s.aside.quiet, aliveInstruments, func(c wire.Channel, id market.InstrumentID, n uint64) {
		last[c] = append(last[c], wire.Sequence{ID: id, N: n})
	})
	epoch, position := s.sub.Position()
	return wire.AppendAlive(nil, epoch, position, &last)
}
