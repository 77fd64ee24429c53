package session

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// switchAlive turns Alive marks on or off. Turning them on again does not change their times.
func (s *Session) switchAlive(t instant, on bool) {
	o := s.ext()
	switch {
	case !on:
		o.aliveDue, o.markDue, o.quiet = 0, false, subscription.QuietPlace{}
	case o.aliveDue == 0:
		o.aliveDue = t.add(s.env.aliveInterval())
	}
}

// runAlive makes an Alive mark due. Output creates it when no data waits, so that it never
// overtakes data.
func (s *Session) runAlive(now time.Time) {
	o, t := s.optional, s.env.at(now)
	if o == nil || !o.aliveDue.due(t) {
		return
	}
	for o.aliveDue.due(t) {
		o.aliveDue = o.aliveDue.add(s.env.aliveInterval())
	}
	o.markDue = true
}

// maxAlive bounds the instruments that one mark checks, and so its size and cost. The next mark
// continues with the others.
const maxAlive = 500

// aliveMark returns the mark: the position of the stream, and the instruments that were quiet for
// an interval.
func (s *Session) aliveMark(now time.Time) []byte {
	var last wire.Last
	before := now.Add(-s.env.aliveInterval()).UnixNano()
	s.sub.Quiet(before, &s.quiet, maxAlive, func(c wire.Channel, id market.InstrumentID, n uint64) {
		last[c] = append(last[c], wire.Sequence{ID: id, N: n})
	})
	epoch, position := s.sub.Position()
	return wire.AppendAlive(nil, epoch, position, &last)
}
