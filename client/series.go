package client

import (
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// cursor is the progress in a series without gaps. The engine owns it.
type cursor struct {
	*series
	floor uint64 // newest N of an earlier subscription, up to which nothing comes again
	n     uint64 // newest N
	known bool   // n is known, and the next N must follow it
	gone  bool   // the engine has forgotten it
	time  int64  // of the newest event, Unix ns; 0: unknown
	first uint64 // N at which the replay of the connection begins; 0: unknown
	to    uint64 // N at which the replay of the connection ends; 0: unknown
	fill  *fill  // a gap is being filled; nil: none
	tried uint64 // first N of a gap that history did not fill
	named bool   // the next connection names the instrument, to resume after n
}

// replayFrom notes that a replay begins after n; 0: unknown.
func (c *cursor) replayFrom(n uint64) {
	if c.first = 0; n > 0 {
		c.first = n + 1
	}
}

// series is a series of which something was received. There is one for all connections and epochs.
type series struct {
	stream.Series
	seen *seen // the instrument; nil: a pattern, or nothing was received

	waits int // index of the state that waits in the queue; guarded by Client.mu

	done  uint64 // newest N that the program has processed; guarded by taken.mu, as epoch
	epoch int    // in which it is: progress.epochs
}

// seen is when an instrument was last known to be complete, and its phase.
type seen struct {
	at    atomic.Int64 // ns since Client.made
	phase market.Phase // guarded by Client.mu
}

// found is what a link knows of the identifiers of its decoder, by their index.
type found struct {
	id      market.InstrumentID
	cursors [wire.Bars]*cursor
}

// seriesOf returns what is known of a series.
func (e *engine) seriesOf(s stream.Series) *series {
	x := e.all[s]
	if x == nil {
		x = &series{Series: s, waits: -1}
		e.all[s] = x
	}
	return x
}

// note records that the instrument of a series is alive.
func (e *engine) note(s *series, at time.Time) {
	if s.seen == nil {
		if s.Instrument.IsPattern() {
			return
		}
		e.mu.Lock()
		s.seen = e.health.of(s.Instrument)
		e.mu.Unlock()
	}
	s.seen.at.Store(int64(at.Sub(e.made)))
}

func (e *engine) cursor(s stream.Series) *cursor {
	c := e.series[s]
	if c == nil {
		c = &cursor{series: e.seriesOf(s), floor: e.past[s]}
		e.series[s] = c
	}
	return c
}

// cursorOf is cursor for the series of a message.
func (l *link) cursorOf(m *stream.Message) *cursor {
	s := m.Series()
	if s.Channel >= wire.Bars {
		return l.cursor(s)
	}
	for len(l.found) <= m.Index {
		l.found = append(l.found, found{})
	}
	f := &l.found[m.Index]
	if f.id != m.ID {
		*f = found{id: m.ID}
	}
	c := f.cursors[s.Channel]
	if c == nil || c.gone {
		c = l.cursor(s)
		f.cursors[s.Channel] = c
	}
	return c
}

// drop forgets the progress of a series that the set has no more, except what was delivered: a
// resume by position may repeat it.
func (e *engine) drop(s stream.Series, c *cursor) {
	c.gone = true
	delete(e.series, s)
	if n := max(c.n, c.floor); n > 0 && s.Channel.Replays() {
		e.past[s] = n
	}
}
