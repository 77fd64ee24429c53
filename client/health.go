package client

import (
	"slices"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Health says what is alive: the connection, the stream with its feeds, and each instrument.
type Health struct {
	State State
	URL   string
	Since time.Time // of State

	Link   time.Duration // since anything arrived on the connection; negative: there is none
	Stream time.Duration // since market data or an Alive mark arrived; negative: nothing yet
	Down   []string      // markets whose feed is interrupted, sorted

	Instruments map[market.InstrumentID]InstrumentHealth

	RoundTrip   time.Duration // of the newest ping of the client; 0: unknown
	ClockOffset time.Duration // clock of the gateway minus that of this machine, to about RoundTrip
	Queued      int           // events that the program has not taken
}

// InstrumentHealth is the health of an instrument of which something was received.
type InstrumentHealth struct {
	Age   time.Duration // since it was last known to be complete: by a message, or an Alive mark
	Phase market.Phase  // newest trading status; NoPhase: none yet, or a word of a newer server
	Book  bool          // its book is valid
}

// health is the state from which Health is made. It is guarded by Client.mu.
type health struct {
	state       State
	url         string
	since       time.Time
	link, data  time.Time
	down        map[string]bool
	instruments map[market.InstrumentID]*seen
	roundTrip   time.Duration
	offset      time.Duration
}

// Health returns the health of the stream.
func (c *Client) Health() Health {
	c.taken.mu.Lock()
	taken := len(c.taken.entries) - c.taken.next
	c.taken.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	age := func(t time.Time) time.Duration {
		if t.IsZero() {
			return -1
		}
		return time.Since(t)
	}
	h := Health{
		State: c.health.state, URL: c.health.url, Since: c.health.since, Link: age(c.health.link), Stream: age(c.health.data),
		RoundTrip: c.health.roundTrip, ClockOffset: c.health.offset, Queued: c.queue.count + taken,
		Instruments: make(map[market.InstrumentID]InstrumentHealth, len(c.health.instruments)),
	}
	for name := range c.health.down {
		h.Down = append(h.Down, name)
	}
	slices.Sort(h.Down)
	for id, s := range c.health.instruments {
		b := c.books[stream.Series{Channel: wire.OrderBook, Instrument: id}]
		h.Instruments[id] = InstrumentHealth{Age: time.Since(c.made) - time.Duration(s.at.Load()), Phase: s.phase, Book: b != nil && b.valid}
	}
	return h
}

// of returns what is known of an instrument.
func (h *health) of(id market.InstrumentID) *seen {
	s := h.instruments[id]
	if s == nil {
		if h.instruments == nil {
			h.instruments = map[market.InstrumentID]*seen{}
		}
		s = &seen{}
		h.instruments[id] = s
	}
	return s
}

// status records a status of an instrument or of a market.
func (h *health) status(m *stream.Message) {
	if m.Phase == market.FeedDown || m.Phase == market.FeedUp {
		if h.down == nil {
			h.down = map[string]bool{}
		}
		if m.ID.IsPattern() {
			if h.down[m.ID.Market] = true; m.Phase == market.FeedUp {
				delete(h.down, m.ID.Market)
			}
		}
		return
	}
	if !m.ID.IsPattern() && m.Phase != market.Gap {
		h.of(m.ID).phase = m.Phase
	}
}
