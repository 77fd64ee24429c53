package feed

import (
	"context"
	"errors"

	"github.com/ruedahq/rueda/market"
)

// Resumer is a Sink that stores the Sequence of events together with the events. A Source can then
// continue where the log ends, after a restart or on another node of a cluster. The sink of a
// gateway is one. A numbering is a name that a Source chooses: numbers of different ones do not
// compare.
type Resumer interface {
	// Resume returns the newest numbers of a numbering of this Source. They are stored when
	// AwaitStored has returned. ok is false if the sink stores none, as without a journal.
	Resume(numbering string) (list []Held, ok bool)

	// Number makes the sink store the numbers of an instrument's events from now on; "": it stores
	// none. Numbers of another numbering are forgotten.
	Number(h market.Handle, numbering string)

	// AwaitStored waits until numbers of Number are stored, and so all events up to them that were
	// not refused. Call it when Publish has returned. The error is ErrNotStored while the log loses
	// events, says why they will not be stored, or is the cause of the end of ctx.
	AwaitStored(ctx context.Context, list []Held) error
}

// ErrNotStored is returned by AwaitStored while the log of a gateway does not store events, as on a
// full disk. Clients receive the events.
var ErrNotStored = errors.New("events are not stored at present")

// Held is the newest number of a channel of an instrument.
type Held struct {
	Handle   market.Handle // for AwaitStored
	ID       market.InstrumentID
	Channel  Channel
	Sequence uint64
}

// Channel is a sequence of numbers that a Source gives to the events of an instrument.
type Channel uint8

// Channels.
const (
	Trades   Channel = iota // with cancels and corrections
	Statuses                // status
	Quotes                  // quote
	Books                   // snapshots, updates, orders
	Figures                 // reference
	NumChannels
)

// ChannelOf returns the channel of an event. ok is false for a gap.
func ChannelOf(k market.Kind) (c Channel, ok bool) {
	switch k {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		return Trades, true
	case market.KindStatus:
		return Statuses, true
	case market.KindQuote:
		return Quotes, true
	case market.KindReference:
		return Figures, true
	case market.KindGap:
		return 0, false
	}
	return Books, true
}
