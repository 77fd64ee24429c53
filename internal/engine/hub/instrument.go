package hub

import (
	"time"

	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Instrument is an instrument, or a market as a whole. It has its state, and the topics that take
// its messages.
type Instrument struct {
	state.Instrument
	id      market.InstrumentID
	zone    *time.Location // of the market
	handle  market.Handle
	index   uint32         // in the catalogue; markets as a whole have none
	pos     uint64         // position of its newest message
	unfed   bool           // from the journal; no feed has defined it since the start
	later   []*Instrument  // of a live instrument: the same instrument in each replica
	source  *sourceNumbers // nil: its source keeps no numbers
	replica *replica       // the replica that it belongs to; nil: it is live

	channels [state.MarketStatus + 1]channel
}

// channel has the tiers of a channel of an instrument that are in use.
type channel struct {
	tiers      []*tierState // as of the generation; see Hub.tiers
	generation uint32
}

// ID returns the identifier.
func (in *Instrument) ID() market.InstrumentID { return in.id }

// Zone returns the time zone of the market. The caller does not need the hub's lock.
func (in *Instrument) Zone() *time.Location { return in.zone }

// Index returns the index in the catalogue.
func (in *Instrument) Index() uint32 { return in.index }

// Newest returns the N and the publication time of the newest message of a tier.
func (in *Instrument) Newest(c wire.Channel, tier Tier) (n uint64, at int64) {
	for _, t := range in.channels[c].tiers {
		if t.Tier == tier {
			return t.N, t.At
		}
	}
	return in.Sequences[c].N, in.Sequences[c].At
}

// Position returns the position of the newest row of the instrument. The hub's lock is held.
func (in *Instrument) Position() uint64 { return in.pos }

// Delayed reports whether the instrument is of delayed data.
func (in *Instrument) Delayed() bool { return in.replica != nil }

// delay returns the delay at which an instrument is published, in seconds.
func (in *Instrument) delay() int {
	if in.replica == nil {
		return 0
	}
	return in.replica.seconds
}

// noticeOf returns the flags of a status that concerns other channels too. It returns 0 for other
// statuses.
func noticeOf(p market.Phase) ring.Flag {
	switch p {
	case market.FeedDown, market.FeedUp:
		return ring.Notice
	case market.Gap:
		return ring.Notice | ring.Lost
	}
	return 0
}
